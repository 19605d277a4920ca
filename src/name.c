/*-------------------------------------------------------------------------
 *
 * name.c
 *	  How a name becomes a queue's table, and back.
 *
 * A queue is named by text, resolved exactly as regclass input resolves a
 * name, because typed drivers cannot bind a regclass.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "queue.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

/*
 * QueueParseName
 *		Take a name apart as regclass input does, but say what is wrong with it.
 */
RangeVar *
QueueParseName(text *name)
{
	char	   *str = text_to_cstring(name);
	List	   *parts;
	List	   *names = NIL;
	ListCell   *lc;
	bool		valid = SplitIdentifierString(pstrdup(str), '.', &parts) &&
		parts != NIL && list_length(parts) <= 3;

	if (valid)
	{
		foreach(lc, parts)
		{
			valid = valid && *((char *) lfirst(lc)) != '\0';
			names = lappend(names, makeString(pstrdup((char *) lfirst(lc))));
		}
	}
	if (!valid)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid queue name \"%s\"", str),
				 errhint("Write a name as in SQL: what has capitals, spaces or punctuation in double quotes, and the schema, if any, before a dot.")));
	return makeRangeVarFromNameList(names);
}

/* Digits alone are an OID; regclass output of a dropped table, for one. */
bool
QueueNameIsOid(const char *name)
{
	return name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
}

static void
unknown_table(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("queue \"%s\" does not exist", name),
			 errhint("Create it with inbox_create.")));
}

/*
 * QueueResolve
 *		Find and lock the relation a text names, as regclass input would find
 *		it: search path, quotes, schema, or an OID in digits.
 */
Oid
QueueResolve(text *name, LOCKMODE lockmode)
{
	char	   *str = text_to_cstring(name);
	Oid			relid;

	if (QueueNameIsOid(str))
	{
		relid = DatumGetObjectId(DirectFunctionCall1(oidin, CStringGetDatum(str)));
		LockRelationOid(relid, lockmode);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		{
			UnlockRelationOid(relid, lockmode);
			unknown_table(str);
		}
	}
	else
	{
		relid = RangeVarGetRelid(QueueParseName(name), lockmode, true);
		if (!OidIsValid(relid))
			unknown_table(str);
	}
	pfree(str);
	return relid;
}

static void
check_owner(const RangeVar *rv, Oid relid, Oid oldrelid, void *arg)
{
	if (!OidIsValid(relid) || relid == oldrelid)
		return;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	if (!OwnsRelation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)),
					   rv->relname);
}

/*
 * QueueFindOwned
 *		The same for a command that only the table's owner may give; nobody
 *		else gets as far as the lock.  InvalidOid when there is none.
 */
Oid
QueueFindOwned(text *name, LOCKMODE lockmode)
{
	RangeVar   *rv;
	char	   *str = text_to_cstring(name);

	if (QueueNameIsOid(str))
	{
		Oid			relid = DatumGetObjectId(DirectFunctionCall1(oidin,
																 CStringGetDatum(str)));

		if (get_rel_name(relid) == NULL)
			return InvalidOid;
		rv = makeRangeVar(get_namespace_name(get_rel_namespace(relid)),
						  get_rel_name(relid), -1);
	}
	else
		rv = QueueParseName(name);
	pfree(str);
	return RangeVarGetRelidExtended(rv, lockmode, RVR_MISSING_OK,
									check_owner, NULL);
}

Oid
QueueResolveOwned(text *name, LOCKMODE lockmode)
{
	Oid			relid = QueueFindOwned(name, lockmode);

	if (!OidIsValid(relid))
		unknown_table(text_to_cstring(name));
	return relid;
}

/*
 * QualifiedName
 *		A relation's name as SQL text: with its schema, quoted.
 */
char *
QualifiedName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}
