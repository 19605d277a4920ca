/*-------------------------------------------------------------------------
 *
 * name.c
 *	  How a name becomes a queue's table, and back.
 *
 * A queue is named by text, resolved exactly as regclass input resolves a
 * name, because typed drivers cannot bind a regclass.
 *
 * The name resolved last is remembered with all that the answer rests on: the
 * user and the search path (which are compared), and what schemas and tables
 * there are and who may use the schemas (whose catalogs' invalidations step
 * "epoch").  An invalidation that arrives with the table's lock counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "errors.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "queue.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#define MAX_NAME	(2 * NAMEDATALEN)
#define MAX_PATH	16

/* the name resolved last */
static struct
{
	uint64		epoch;			/* 0: there is none */
	char		name[MAX_NAME];
	int			len;
	Oid			relid;
	Oid			user;
	Oid			path[MAX_PATH];
	int			path_len;
}			last;

static uint64 epoch = 0;		/* 0: nobody watches the catalogs yet */

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

static void
forget_name(Datum arg, int cacheid, uint32 hashvalue)
{
	epoch++;
}

/*
 * QueueRefuse
 *		Raise the error for a relation that is no queue.
 */
void
QueueRefuse(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	QueueSettings settings;
	const char *detail = NULL;
	const char *hint = "Make a new queue with inbox_create, or turn this table into one with inbox_adopt.";

	if (relkind == RELKIND_COMPOSITE_TYPE)
	{
		detail = "It is a type of its own.";
		hint = "Name a queue, or its row type; a delivery has its receipt in the column \"receipt\".";
	}
	else if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		hint = "Only an ordinary or partitioned table can be a queue.";
	else if (LabelRead(relid, &settings) && settings.kind == LABEL_DEAD)
	{
		detail = "It is a dead-letter table.";
		hint = "Name the queue itself; inbox_redrive brings its dead letters back.";
	}
	ereport(ERROR,
			(errcode(ERRCODE_INBOX_NOT_A_QUEUE),
			 errmsg("\"%s\" is not a queue", get_rel_name(relid)),
			 detail ? errdetail("%s", detail) : 0,
			 errhint("%s", hint)));
}

static void
watch_catalogs(void)
{
	static const int catalogs[] = {
		RELNAMENSP, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID
	};

	for (int i = 0; i < lengthof(catalogs); i++)
		CacheRegisterSyscacheCallback(catalogs[i], forget_name, (Datum) 0);
	epoch = 1;
}

/*
 * recall
 *		Lock the relation that this name meant last time, if it still does.
 */
static Oid
recall(text *name, LOCKMODE lockmode)
{
	Oid			path[MAX_PATH];
	int			len = VARSIZE_ANY_EXHDR(name);
	Oid			relid = last.relid;

	if (last.epoch != epoch || epoch == 0 || last.len != len ||
		memcmp(last.name, VARDATA_ANY(name), len) != 0 ||
		last.user != GetUserId() ||
		last.path_len != fetch_search_path_array(path, MAX_PATH) ||
		memcmp(last.path, path, last.path_len * sizeof(Oid)) != 0)
		return InvalidOid;
	LockRelationOid(relid, lockmode);
	if (last.epoch == epoch)
		return relid;
	UnlockRelationOid(relid, lockmode);
	return InvalidOid;
}

/*
 * remember
 *		A name that has been resolved, beginning when the epoch was "asked".
 */
static void
remember(text *name, Oid relid, uint64 asked)
{
	int			len = VARSIZE_ANY_EXHDR(name);
	int			path_len = fetch_search_path_array(last.path, MAX_PATH);

	last.epoch = 0;
	if (len > MAX_NAME || path_len > MAX_PATH)
		return;
	memcpy(last.name, VARDATA_ANY(name), len);
	last.len = len;
	last.relid = relid;
	last.user = GetUserId();
	last.path_len = path_len;
	last.epoch = asked;
}

/*
 * QueueResolve
 *		Find and lock the relation a text names, as regclass input would find
 *		it: search path, quotes, schema, or an OID in digits.
 */
Oid
QueueResolve(text *name, LOCKMODE lockmode)
{
	char	   *str;
	Oid			relid = recall(name, lockmode);
	uint64		asked;

	if (OidIsValid(relid))
		return relid;
	if (epoch == 0)
		watch_catalogs();
	asked = epoch;
	str = text_to_cstring(name);
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
		remember(name, relid, asked);
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
