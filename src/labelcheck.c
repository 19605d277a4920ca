/*-------------------------------------------------------------------------
 *
 * labelcheck.c
 *	  The check hook of the label provider "inbox".
 *
 * Whatever writes a label, be it our functions, SECURITY LABEL or a restore,
 * passes the check hook.  A restore labels tables before it creates indexes,
 * constraints and dead-letter tables, so the hook validates only what is
 * there by then: the label itself, and each column's type.  It also
 * invalidates the relcache entry, which makes every backend read the label
 * anew (queue.c).
 *
 * A token is in one table only.  A dump that is restored beside the tables it
 * was taken from would bring it a second time, and the dead letters of one
 * queue would go to the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "commands/seclabel.h"
#include "label.h"
#include "queue.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define MAX_LABEL	4096

static void
check_table_label(Oid relid, const char *seclabel)
{
	char		relkind = get_rel_relkind(relid);
	QueueSettings settings;
	Oid			other;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", get_rel_name(relid)),
				 errhint("Only an ordinary or partitioned table can be a queue.")));
	/* every look for a token reads all labels */
	if (strlen(seclabel) > MAX_LABEL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("inbox label of \"%s\" is too long",
						get_rel_name(relid)),
				 errdetail("A label has at most %d bytes.", MAX_LABEL),
				 errhint("Use a shorter dead_group.")));
	LabelParse(seclabel, &settings);
	other = LabelOtherToken(settings.token, relid);
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" cannot have the inbox label of \"%s\"",
						get_rel_name(relid), get_rel_name(other)),
				 errdetail("With one label on two tables, dead letters of one would go to the other."),
				 errhint("Register this table with inbox_adopt, or call inbox_forget(%s) and set the label again.",
						 quote_literal_cstr(QualifiedName(other)))));
}

static void
check_column_label(Oid relid, AttrNumber attno, const char *seclabel)
{
	Role		role;
	HeapTuple	tuple;
	Form_pg_attribute att;
	Role		other;

	if (!RoleByName(seclabel, &role))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized inbox role \"%s\"", seclabel)));
	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid),
							Int16GetDatum(attno));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u",
			 attno, relid);
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	if (!RoleTypeFits(role, att->atttypid, att->atttypmod))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" cannot have role \"%s\"",
						NameStr(att->attname), seclabel),
				 errdetail("The column is of type %s, the role needs %s.",
						   format_type_with_typemod(att->atttypid, att->atttypmod),
						   RoleTypesText(role))));
	ReleaseSysCache(tuple);

	for (AttrNumber i = 1; get_attname(relid, i, true) != NULL; i++)
	{
		if (i != attno && LabelReadRole(relid, i, &other) && other == role)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("column \"%s\" already has role \"%s\"",
							get_attname(relid, i, false), seclabel)));
	}
}

/*
 * LabelCheck
 *		The hook.
 */
void
LabelCheck(const ObjectAddress *object, const char *seclabel)
{
	if (object->classId != RelationRelationId)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("inbox labels only tables and their columns")));
	if (seclabel != NULL)
	{
		if (object->objectSubId == 0)
			check_table_label(object->objectId, seclabel);
		else
			check_column_label(object->objectId, object->objectSubId, seclabel);
	}
	CacheInvalidateRelcacheByRelid(object->objectId);
}

void
LabelInit(void)
{
	register_label_provider(LABEL_PROVIDER, LabelCheck);
}
