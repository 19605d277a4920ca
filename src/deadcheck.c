/*-------------------------------------------------------------------------
 *
 * deadcheck.c
 *	  Can this table take a queue's dead letters?
 *
 * A bury copies the columns that both tables have by name; in a dead-letter
 * table it keeps the others in the column "rest".  Whatever could make it
 * fail is refused here, at registration, with the statement that cures it:
 * a message that cannot be buried would stay in its queue, undeliverable.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "deadcheck.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static Form_pg_attribute
find_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att;
	}
	return NULL;
}

static const char *
qualified(Relation rel)
{
	return QualifiedName(RelationGetRelid(rel));
}

static int
integer_width(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return 2;
		case INT4OID:
			return 4;
		case INT8OID:
			return 8;
		default:
			return 0;
	}
}

/*
 * Does every value of one column fit the other?  "counter" allows a wider
 * integer.
 */
static bool
value_fits(Form_pg_attribute from, Form_pg_attribute to, bool counter)
{
	if (counter && integer_width(from->atttypid) > 0)
		return integer_width(to->atttypid) >= integer_width(from->atttypid);
	return from->atttypid == to->atttypid &&
		(to->atttypmod == -1 || to->atttypmod == from->atttypmod);
}

static void
refuse_type(Relation queue, Form_pg_attribute from, Relation dead,
			Form_pg_attribute to)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of \"%s\" has another type than in \"%s\"",
					NameStr(to->attname), RelationGetRelationName(dead),
					RelationGetRelationName(queue)),
			 errdetail("It is of type %s and must be of type %s.",
					   format_type_with_typemod(to->atttypid, to->atttypmod),
					   format_type_with_typemod(from->atttypid, from->atttypmod)),
			 errhint("ALTER TABLE %s ALTER COLUMN %s TYPE %s;", qualified(dead),
					 quote_identifier(NameStr(to->attname)),
					 format_type_with_typemod(from->atttypid, from->atttypmod))));
}

static void
refuse_not_null(Relation dead, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("column \"%s\" of \"%s\" must allow nulls",
					NameStr(att->attname), RelationGetRelationName(dead)),
			 errdetail("A dead letter may have no value for it."),
			 errhint("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL;",
					 qualified(dead), quote_identifier(NameStr(att->attname)))));
}

static void
refuse_missing(Relation queue, Relation dead, const char *columns)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("\"%s\" cannot hold the dead letters of \"%s\"",
					RelationGetRelationName(dead),
					RelationGetRelationName(queue)),
			 errdetail("It lacks %s, and a column \"rest\" of type jsonb that would keep what it lacks.",
					   columns),
			 errhint("ALTER TABLE %s ADD COLUMN rest jsonb;", qualified(dead))));
}

static void
check_id(Relation queue, AttrNumber id, Relation dead)
{
	Form_pg_attribute from = TupleDescAttr(RelationGetDescr(queue), id - 1);
	Form_pg_attribute to = find_column(dead, NameStr(from->attname));
	const char *name = quote_identifier(NameStr(from->attname));

	if (to == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("\"%s\" has no column \"%s\"",
						RelationGetRelationName(dead), NameStr(from->attname)),
				 errdetail("Dead letters keep their ids."),
				 errhint("ALTER TABLE %s ADD COLUMN %s %s;", qualified(dead), name,
						 format_type_with_typemod(from->atttypid, from->atttypmod))));
	if (to->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" of \"%s\" is generated",
						NameStr(to->attname), RelationGetRelationName(dead)),
				 errdetail("Dead letters keep their ids."),
				 errhint("ALTER TABLE %s ALTER COLUMN %s DROP EXPRESSION;",
						 qualified(dead), name)));
}

/*
 * Every column of the queue has a place.  A lease and the time of finishing
 * mean nothing in a dead letter, so they need none.
 */
static void
check_places(Relation queue, const RoleColumn *col, Relation dead)
{
	TupleDesc	desc = RelationGetDescr(queue);
	Form_pg_attribute rest = find_column(dead, RoleName(ROLE_REST));
	StringInfoData missing;

	initStringInfo(&missing);
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute from = TupleDescAttr(desc, attno - 1);
		Form_pg_attribute to;

		if (from->attisdropped)
			continue;
		to = find_column(dead, NameStr(from->attname));
		if (to != NULL && to->attgenerated != '\0')
			to = from->attgenerated != '\0' ? from : NULL;
		if (to != NULL && !value_fits(from, to, attno == col[ROLE_ATTEMPT].attno))
			refuse_type(queue, from, dead, to);
		if (to == NULL && attno != col[ROLE_LOCKED_UNTIL].attno &&
			attno != col[ROLE_PROCESSED_AT].attno)
			appendStringInfo(&missing, "%s\"%s\"", missing.len > 0 ? ", " : "",
							 NameStr(from->attname));
	}
	if (missing.len > 0 &&
		(rest == NULL || rest->atttypid != JSONBOID ||
		 rest->attgenerated != '\0' || find_column(queue, RoleName(ROLE_REST)) != NULL))
		refuse_missing(queue, dead, missing.data);
	pfree(missing.data);
}

static bool
always_filled(Relation queue, Form_pg_attribute to)
{
	const char *name = NameStr(to->attname);
	Form_pg_attribute from = find_column(queue, name);

	if (from != NULL)
		return from->attnotnull;
	return (strcmp(name, RoleName(ROLE_DIED_AT)) == 0 &&
			RoleTypeFits(ROLE_DIED_AT, to->atttypid, to->atttypmod)) ||
		(strcmp(name, RoleName(ROLE_CAUSE)) == 0 &&
		 RoleTypeFits(ROLE_CAUSE, to->atttypid, to->atttypmod));
}

static bool
has_default(Form_pg_attribute att)
{
	return att->atthasdef || att->attidentity != '\0';
}

/*
 * DeadCheckTable
 *		Raise an error unless every row of the queue fits the dead-letter
 *		table.
 */
void
DeadCheckTable(Relation queue, const RoleColumn *col, Relation dead)
{
	TupleDesc	desc = RelationGetDescr(dead);

	check_id(queue, col[ROLE_ID].attno, dead);
	check_places(queue, col, dead);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute to = TupleDescAttr(desc, i);

		if (to->attisdropped || !to->attnotnull || to->attgenerated != '\0' ||
			always_filled(queue, to))
			continue;
		/* a default serves only where the bury says nothing of the column */
		if (has_default(to) && find_column(queue, NameStr(to->attname)) == NULL &&
			strcmp(NameStr(to->attname), RoleName(ROLE_REST)) != 0)
			continue;
		refuse_not_null(dead, to);
	}
}

/*
 * What a message has in another queue by that queue's own defaults.
 */
static bool
is_renewed(Role role)
{
	return role != ROLE_PAYLOAD && role != ROLE_PRIORITY &&
		role != ROLE_GROUP_KEY && role != ROLE_PARTITION_KEY;
}

/*
 * The column of the queue whose values a column of another queue takes: the
 * one with the same role or, where that has none, the one of the same name.
 */
static Form_pg_attribute
content_of(Relation queue, const RoleColumn *col, Relation dead,
		   Form_pg_attribute to)
{
	Form_pg_attribute from = find_column(queue, NameStr(to->attname));
	Role		role;

	if (LabelReadRole(RelationGetRelid(dead), to->attnum, &role))
	{
		if (col[role].attno == 0)
			return NULL;
		return TupleDescAttr(RelationGetDescr(queue), col[role].attno - 1);
	}
	for (role = 0; from != NULL && role < NUM_QUEUE_ROLES; role++)
	{
		if (col[role].attno == from->attnum && is_renewed(role))
			return NULL;
	}
	return from;
}

static void
refuse_no_default(Relation dead, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("column \"%s\" of \"%s\" has no default",
					NameStr(att->attname), RelationGetRelationName(dead)),
			 errdetail("A message buried in another queue has nothing to fill it with."),
			 errhint("Give the column a default, or let it allow nulls.")));
}

static void
check_content(Relation queue, const RoleColumn *col, Relation dead,
			  Form_pg_attribute to, bool payload)
{
	Form_pg_attribute from = content_of(queue, col, dead, to);
	bool		json = to->atttypid == JSONBOID || to->atttypid == JSONOID;

	/* a payload becomes JSON, and without one the whole row is the payload */
	if (payload && json && (from == NULL || !value_fits(from, to, false)))
		return;
	if (from == NULL)
	{
		if (to->attnotnull && !has_default(to))
			refuse_no_default(dead, to);
		return;
	}
	if (!value_fits(from, to, false))
		refuse_type(queue, from, dead, to);
	if (to->attnotnull && !from->attnotnull)
		refuse_not_null(dead, to);
}

/*
 * DeadCheckQueue
 *		The same for another queue.
 */
void
DeadCheckQueue(Relation queue, const RoleColumn *col, Relation dead)
{
	TupleDesc	desc = RelationGetDescr(dead);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute to = TupleDescAttr(desc, i);
		Role		role;
		bool		labelled;

		if (to->attisdropped || to->attgenerated != '\0')
			continue;
		labelled = LabelReadRole(RelationGetRelid(dead), to->attnum, &role);
		if (!labelled || !is_renewed(role))
			check_content(queue, col, dead, to, labelled && role == ROLE_PAYLOAD);
		else if (to->attnotnull && !has_default(to) && role != ROLE_HEADERS)
			refuse_no_default(dead, to);
	}
}
