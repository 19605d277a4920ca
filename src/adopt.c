/*-------------------------------------------------------------------------
 *
 * adopt.c
 *	  inbox_adopt: turn a table the user has into a queue.
 *
 * Nothing of the table changes; it gets labels.  Everything that would make a
 * claim, a settlement or a bury fail later is refused now, with the reason
 * and the cure, and what only makes them slow or a receipt weaker is warned
 * of.  The lock, SHARE UPDATE EXCLUSIVE, keeps the table's definition still
 * and lets its rows be read and written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "changed.h"
#include "compat.h"
#include "deadletter.h"
#include "indexcheck.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "owner.h"
#include "setup.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define FIRST_ROLE		1
#define FIRST_SETTING	(FIRST_ROLE + NUM_QUEUE_ROLES)
#define TRIGGERS		(FIRST_SETTING + NUM_SETTINGS)

static void
check_kind(Relation rel)
{
	char	   *name = RelationGetRelationName(rel);

	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name),
				 errdetail_relkind_not_supported(rel->rd_rel->relkind),
				 errhint("Only an ordinary or partitioned table can be a queue.")));
	if (IsSystemRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a system catalog", name),
				 errhint("Only a table of a user's can be a queue.")));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a queue cannot be a temporary table"),
				 errhint("Use a table that all sessions see.")));
}

static void
check_unregistered(Oid relid)
{
	QueueSettings settings;

	if (!LabelRead(relid, &settings))
		return;
	if (settings.kind == LABEL_QUEUE)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is a queue already", get_rel_name(relid)),
				 errhint("Change its settings with inbox_alter; to give columns other roles, call inbox_forget first.")));
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is a dead-letter table", get_rel_name(relid)),
			 errhint("If no queue needs it any more, call inbox_forget first.")));
}

static void
check_relative(Oid relid, Oid relative)
{
	QueueSettings settings;

	if (relative != relid && LabelRead(relative, &settings))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("\"%s\" shares rows with \"%s\", which inbox uses already",
						get_rel_name(relid), get_rel_name(relative)),
				 errhint("Register either the partitioned table or its partitions.")));
	if (get_rel_relkind(relative) == RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" has the foreign table \"%s\" among its partitions",
						get_rel_name(relid), get_rel_name(relative)),
				 errhint("Rows of a foreign table cannot be leased; detach it.")));
}

/*
 * A row must belong to one queue only.
 */
static void
check_family(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	List	   *relatives = NIL;
	ListCell   *lc;

	if (rel->rd_rel->relhassubclass)
		relatives = find_all_inheritors(relid, AccessShareLock, NULL);
	if (rel->rd_rel->relispartition)
		relatives = list_concat(relatives, get_partition_ancestors(relid));
	foreach(lc, relatives)
		check_relative(relid, lfirst_oid(lc));
	list_free(relatives);
}

static char *
list_columns(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			appendStringInfo(&buf, "%s\"%s\"", buf.len > 0 ? ", " : "",
							 NameStr(att->attname));
	}
	return buf.data;
}

/* does inbox change the column of a row that is there? */
static bool
is_written(Role role)
{
	switch (role)
	{
		case ROLE_LOCKED_UNTIL:
		case ROLE_CLAIMED_AT:
		case ROLE_ATTEMPT:
		case ROLE_HEADERS:
		case ROLE_DUE_AT:
		case ROLE_PROCESSED_AT:
		case ROLE_LAST_ERROR:
			return true;
		default:
			return false;
	}
}

/* must it be able to be empty?  A lease, for one, ends by writing NULL. */
static bool
is_emptied(Role role)
{
	return role == ROLE_LOCKED_UNTIL || role == ROLE_PROCESSED_AT ||
		role == ROLE_LAST_ERROR;
}

/*
 * What a queue writes into a column that has this role must be accepted
 * there.
 */
static void
check_writable(Relation rel, Form_pg_attribute att, Role role)
{
	if (is_written(role) &&
		(att->attgenerated != '\0' ||
		 att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS))
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" cannot have role \"%s\"",
						NameStr(att->attname), RoleName(role)),
				 errdetail("It is generated, and inbox writes to it."),
				 errhint("Use another column for this role, or none.")));
	if (is_emptied(role) && att->attnotnull)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("column \"%s\" cannot have role \"%s\"",
						NameStr(att->attname), RoleName(role)),
				 errdetail("It must allow nulls."),
				 errhint("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL;",
						 QualifiedName(RelationGetRelid(rel)),
						 quote_identifier(NameStr(att->attname)))));
}

static void
check_column(Relation rel, Form_pg_attribute att, Role role)
{
	if (!RoleTypeFits(role, att->atttypid, att->atttypmod))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" cannot have role \"%s\"",
						NameStr(att->attname), RoleName(role)),
				 errdetail("It is of type %s.",
						   format_type_with_typemod(att->atttypid, att->atttypmod)),
				 errhint("The role needs %s.", RoleTypesText(role))));
	if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" cannot have role \"%s\"",
						NameStr(att->attname), RoleName(role)),
				 errdetail("It is generated and not stored."),
				 errhint("Make it STORED, or use another column for this role.")));
	check_writable(rel, att, role);
}

static void
read_column(FunctionCallInfo fcinfo, Relation rel, Role role, RoleColumn *col)
{
	char	   *name = ArgString(fcinfo, FIRST_ROLE + role);
	AttrNumber	attno;

	if (name == NULL)
		return;
	attno = get_attnum(RelationGetRelid(rel), name);
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("\"%s\" has no column \"%s\" for role \"%s\"",
						RelationGetRelationName(rel), name, RoleName(role)),
				 errhint("Its columns are %s.", list_columns(rel))));
	for (int other = 0; other < role; other++)
	{
		if (col[other].attno == attno)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("column \"%s\" cannot have both role \"%s\" and role \"%s\"",
							name, RoleName(other), RoleName(role)),
					 errhint("Give each role a column of its own.")));
	}
	check_column(rel, TupleDescAttr(RelationGetDescr(rel), attno - 1), role);
	col[role].attno = attno;
	col[role].type = get_atttype(RelationGetRelid(rel), attno);
}

static void
read_columns(FunctionCallInfo fcinfo, Relation rel, RoleColumn *col)
{
	memset(col, 0, NUM_QUEUE_ROLES * sizeof(RoleColumn));
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (role == ROLE_ID || role == ROLE_LOCKED_UNTIL)
			ArgNotNull(fcinfo, FIRST_ROLE + role, RoleName(role));
		read_column(fcinfo, rel, role, col);
	}
}

/*
 * The default of a column as a constant; NULL when it is none, and *other when
 * it is anything but a constant.
 */
static Const *
constant_default(Relation rel, AttrNumber attno, bool *other)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	Node	   *expr = NULL;
	OwnerScope	scope;

	/* planning evaluates what it can, functions of the owner's included */
	*other = false;
	OwnerEnter(&scope, rel->rd_rel->relowner, true);
	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
	{
		if (constr->defval[i].adnum == attno)
			expr = (Node *) expression_planner(stringToNode(constr->defval[i].adbin));
	}
	OwnerLeave(&scope);
	if (expr == NULL)
		return NULL;
	*other = !IsA(expr, Const);
	return *other || ((Const *) expr)->constisnull ? NULL : (Const *) expr;
}

/*
 * attempt_base
 *		What the attempt column of a new row holds: 0 or 1.  A new row that
 *		has NULL has no attempt yet.
 */
static int
attempt_base(Relation rel, const RoleColumn *attempt)
{
	bool		other;
	Const	   *value;
	int64		base = 1;

	if (attempt->attno == 0)
		return 1;
	value = constant_default(rel, attempt->attno, &other);
	if (value != NULL)
		base = RoleInteger(attempt->type, value->constvalue);
	if (other || base < 0 || base > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("default of attempt column \"%s\" is neither 0 nor 1",
						get_attname(RelationGetRelid(rel), attempt->attno, false)),
				 errdetail("The default tells how the attempts of this table are counted."),
				 errhint("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT 1;",
						 QualifiedName(RelationGetRelid(rel)),
						 quote_identifier(get_attname(RelationGetRelid(rel),
													  attempt->attno, false)))));
	return (int) base;
}

static void
warn(Relation rel, const RoleColumn *col, bool fifo)
{
	char	   *name = RelationGetRelationName(rel);

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		ereport(WARNING,
				(errmsg("\"%s\" is unlogged", name),
				 errdetail("A crash of the server empties it, messages and all."),
				 errhint("ALTER TABLE %s SET LOGGED;",
						 QualifiedName(RelationGetRelid(rel)))));
	if (col[ROLE_CLAIMED_AT].attno == 0)
		ereport(WARNING,
				(errmsg("\"%s\" has no column for the role claimed_at", name),
				 errdetail("Receipts are then made of the lease's expiry: each extension returns a new one, and one may be used again after a restart."),
				 errhint("ALTER TABLE %s ADD COLUMN claimed_at timestamptz; then call inbox_forget, and inbox_adopt with claimed_at => 'claimed_at'.",
						 QualifiedName(RelationGetRelid(rel)))));
	IndexWarn(rel, col, fifo);
}

static void
register_table(Relation rel, const RoleColumn *col, Oid dead,
			   QueueSettings *settings)
{
	Oid			relid = RelationGetRelid(rel);

	LabelRemove(relid);
	for (Role role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (col[role].attno != 0)
			LabelWriteRole(relid, col[role].attno, role);
	}
	if (OidIsValid(dead))
		DeadLetterAttach(rel, col, dead, settings);
	LabelNewToken(settings->token);
	LabelWrite(relid, settings);
}

PG_FUNCTION_INFO_V1(inbox_adopt);

/*
 * inbox_adopt(queue text, roles..., settings..., triggers boolean) returns text
 */
Datum
inbox_adopt(PG_FUNCTION_ARGS)
{
	QueueSettings settings;
	RoleColumn	col[NUM_QUEUE_ROLES];
	text	   *dead_name;
	Oid			dead = InvalidOid;
	Oid			relid;
	Relation	rel;
	char	   *name;

	ArgRequireWritable("inbox_adopt");
	relid = QueueResolveOwned(ArgQueue(fcinfo, 0), ShareUpdateExclusiveLock);
	name = QualifiedName(relid);
	rel = relation_open(relid, NoLock);
	check_kind(rel);
	check_unregistered(relid);
	check_family(rel);
	read_columns(fcinfo, rel, col);

	LabelDefaults(&settings);
	dead_name = SetupReadSettings(fcinfo, FIRST_SETTING, &settings);
	settings.triggers = PG_ARGISNULL(TRIGGERS) || PG_GETARG_BOOL(TRIGGERS);
	settings.attempt_base = attempt_base(rel, &col[ROLE_ATTEMPT]);
	SetupCheck(&settings, relid, col, dead_name != NULL);
	IndexCheckId(rel, col);
	IndexCheckDedup(rel, col);
	if (dead_name != NULL)
		dead = DeadLetterFind(dead_name, false, name);
	register_table(rel, col, dead, &settings);
	warn(rel, col, settings.fifo);
	relation_close(rel, NoLock);
	if (settings.triggers)
		ChangedAddTriggers(relid, get_func_namespace(fcinfo->flinfo->fn_oid));
	PG_RETURN_TEXT_P(cstring_to_text(name));
}
