/*-------------------------------------------------------------------------
 *
 * deadletter.c
 *	  Where a queue buries: finding, making and labelling the table.
 *
 * The destination is another queue, or a dead-letter table: a table of the
 * kind "dead", which serves one queue only, so that a redrive knows where its
 * rows belong.  A queue holds its destination's token in its label.
 *
 * Called by inbox_create, inbox_adopt and inbox_alter.  What a table must
 * look like to be accepted is in deadcheck.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "compat.h"
#include "deadcheck.h"
#include "deadletter.h"
#include "miscadmin.h"
#include "owner.h"
#include "setup.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static void
check_destination_kind(Oid relid)
{
	char	   *name = get_rel_name(relid);
	char		relkind = get_rel_relkind(relid);
	char		persistence = get_rel_persistence(relid);

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name),
				 errhint("Dead letters go to a table or to another queue.")));
	if (persistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a temporary table", name),
				 errhint("Dead letters go to a table that all sessions see.")));
	if (persistence == RELPERSISTENCE_UNLOGGED)
		ereport(WARNING,
				(errmsg("dead-letter table \"%s\" is unlogged", name),
				 errdetail("A crash of the server empties it."),
				 errhint("ALTER TABLE %s SET LOGGED;", QualifiedName(relid))));
}

/*
 * DeadLetterFind
 *		Find and lock the table or queue that the argument dead_letter names.
 *		"queue" is the name of the adopted table, for the hint.
 */
Oid
DeadLetterFind(text *name, bool created, const char *queue)
{
	Oid			relid = QueueFindOwned(name, ShareUpdateExclusiveLock);
	char	   *str = text_to_cstring(name);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("dead-letter table \"%s\" does not exist", str),
				 created ?
				 errhint("Leave dead_letter out and it is made for you.") :
				 errhint("CREATE TABLE %s (LIKE %s, died_at timestamptz, cause text, rest jsonb);",
						 str, queue)));
	check_destination_kind(relid);
	pfree(str);
	return relid;
}

/*
 * A column that only the dead-letter table has, named like a role.  Where the
 * queue has one of that name, it takes that one's values.
 */
static void
label_by_name(Oid queue, Oid dead, Role role)
{
	AttrNumber	attno = get_attnum(dead, RoleName(role));
	Oid			type;
	int32		typmod;
	Oid			collation;

	if (attno <= 0 || get_attnum(queue, RoleName(role)) > 0)
		return;
	get_atttypetypmodcoll(dead, attno, &type, &typmod, &collation);
	if (RoleTypeFits(role, type, typmod))
		LabelWriteRole(dead, attno, role);
}

/*
 * Give a dead-letter table its label, and its columns the roles of the
 * queue's columns of the same names.
 */
static void
label_dead(Oid queue, const RoleColumn *col, Oid dead,
		   const QueueSettings *settings)
{
	LabelRemove(dead);
	for (Role role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		AttrNumber	attno = InvalidAttrNumber;
		Oid			type;
		int32		typmod;
		Oid			collation;

		if (col[role].attno != 0)
			attno = get_attnum(dead, get_attname(queue, col[role].attno, false));
		if (attno <= 0)
			continue;
		get_atttypetypmodcoll(dead, attno, &type, &typmod, &collation);
		if (RoleTypeFits(role, type, typmod))
			LabelWriteRole(dead, attno, role);
	}
	if (col[ROLE_LAST_ERROR].attno == 0)
		label_by_name(queue, dead, ROLE_LAST_ERROR);
	if (col[ROLE_HEADERS].attno == 0)
		label_by_name(queue, dead, ROLE_HEADERS);
	for (Role role = ROLE_DIED_AT; role <= ROLE_REST; role++)
		label_by_name(queue, dead, role);
	LabelWrite(dead, settings);
}

static void
check_not_shared(Oid dead, const QueueSettings *settings, Oid queue)
{
	Oid			user = LabelDeadUser(settings->token, queue);

	if (!OidIsValid(user))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("\"%s\" is the dead-letter table of another queue",
					get_rel_name(dead)),
			 errdetail("Queue %s buries in it; rows of two queues could not be told apart when they are redriven.",
					   QualifiedName(user)),
			 errhint("Give each queue its own dead-letter table. Several queues may share another queue as dead_letter.")));
}

/*
 * A bury runs as the queue's owner, who need not be the current user when
 * that is a superuser or a member of the owning role.
 */
static void
check_same_owner(Relation queue, Oid dead)
{
	Oid			owner = queue->rd_rel->relowner;

	if (OwnerOf(dead) == owner)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("owner of queue \"%s\" does not own \"%s\"",
					RelationGetRelationName(queue), get_rel_name(dead)),
			 errdetail("Messages are buried as the queue's owner, and so run the triggers of the table they go to."),
			 errhint("ALTER TABLE %s OWNER TO %s;", QualifiedName(dead),
					 quote_identifier(GetUserNameFromId(owner, false)))));
}

/*
 * DeadLetterAttach
 *		Make a table the caller has locked the queue's destination, or refuse.
 */
void
DeadLetterAttach(Relation queue, const RoleColumn *col, Oid dead,
				 QueueSettings *settings)
{
	QueueSettings dead_settings;
	Relation	rel;

	if (dead == RelationGetRelid(queue))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("queue \"%s\" cannot be its own dead letter",
						RelationGetRelationName(queue)),
				 errhint("To keep dead letters in the queue's own table, use dead_group.")));
	check_same_owner(queue, dead);
	rel = table_open(dead, NoLock);
	if (!LabelRead(dead, &dead_settings))
	{
		LabelDefaults(&dead_settings);
		dead_settings.kind = LABEL_DEAD;
		LabelNewToken(dead_settings.token);
	}
	if (dead_settings.kind == LABEL_QUEUE)
		DeadCheckQueue(queue, col, rel);
	else
	{
		check_not_shared(dead, &dead_settings, RelationGetRelid(queue));
		DeadCheckTable(queue, col, rel);
		label_dead(RelationGetRelid(queue), col, dead, &dead_settings);
	}
	table_close(rel, NoLock);
	strlcpy(settings->dead_letter, dead_settings.token,
			sizeof(settings->dead_letter));
}

/*
 * A column of a dead-letter table takes whatever its row in the queue had:
 * should the queue's column be dropped, or lose its own NOT NULL, a bury must
 * not fail for it.
 */
static void
relax_columns(Relation queue, AttrNumber id, const char *name)
{
	TupleDesc	desc = RelationGetDescr(queue);
	StringInfoData sql;
	bool		any = false;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s", name);
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

		if (att->attisdropped || !att->attnotnull || attno == id)
			continue;
		appendStringInfo(&sql, "%s ALTER COLUMN %s DROP NOT NULL",
						 any ? "," : "", quote_identifier(NameStr(att->attname)));
		any = true;
	}
	if (any)
		SetupExec(sql.data);
	pfree(sql.data);
}

static char *
default_name(Relation queue)
{
	char	   *relname = makeObjectName(RelationGetRelationName(queue), NULL,
										 "dead");
	Oid			namespaceid = RelationGetNamespace(queue);

	if (OidIsValid(get_relname_relid(relname, namespaceid)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", relname),
				 errdetail("Queue \"%s\" needs a dead-letter table, and this is the name it would get.",
						   RelationGetRelationName(queue)),
				 errhint("To use that table, name it in dead_letter; otherwise drop or rename it.")));
	return relname;
}

/*
 * DeadLetterCreate
 *		Make the queue's own dead-letter table, <queue>_dead.
 *
 * Neither the index on died_at nor the key are there for the bury; they serve
 * redrive ("the newest n") and looking.
 */
void
DeadLetterCreate(Relation queue, const RoleColumn *col, QueueSettings *settings)
{
	AttrNumber	id = col[ROLE_ID].attno;
	char	   *relname = default_name(queue);
	char	   *name;
	QueueSettings dead_settings;
	Oid			dead;

	name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(queue)),
									  relname);
	SetupExec(psprintf("CREATE TABLE %s (LIKE %s INCLUDING STORAGE INCLUDING COMPRESSION,"
					   " died_at timestamp with time zone NOT NULL DEFAULT pg_catalog.now(),"
					   " cause pg_catalog.text NOT NULL,"
					   " rest pg_catalog.jsonb,"
					   " PRIMARY KEY (%s))",
					   name, QualifiedName(RelationGetRelid(queue)),
					   quote_identifier(get_attname(RelationGetRelid(queue),
													id, false))));
	relax_columns(queue, id, name);
	SetupExec(psprintf("CREATE INDEX ON %s (died_at)", name));

	dead = get_relname_relid(relname, RelationGetNamespace(queue));
	if (OwnerOf(dead) != queue->rd_rel->relowner)
		SetupExec(psprintf("ALTER TABLE %s OWNER TO %s", name,
						   quote_identifier(GetUserNameFromId(queue->rd_rel->relowner,
															  false))));
	LabelDefaults(&dead_settings);
	dead_settings.kind = LABEL_DEAD;
	dead_settings.created = true;
	LabelNewToken(dead_settings.token);
	label_dead(RelationGetRelid(queue), col, dead, &dead_settings);
	strlcpy(settings->dead_letter, dead_settings.token,
			sizeof(settings->dead_letter));
}

/*
 * DeadLetterOwn
 *		The dead-letter table that was made for this queue, or InvalidOid when
 *		it has none, or one that the user brought.
 */
Oid
DeadLetterOwn(Oid queue, const QueueSettings *settings)
{
	QueueSettings dead_settings;
	LabelKind	kind;
	Oid			dead;

	if (!settings->created || settings->dead_letter[0] == '\0')
		return InvalidOid;
	dead = LabelFindToken(settings->dead_letter, OwnerOf(queue), &kind);
	if (!OidIsValid(dead) || kind != LABEL_DEAD ||
		!LabelRead(dead, &dead_settings) || !dead_settings.created)
		return InvalidOid;
	return dead;
}

/*
 * DeadLetterDetach
 *		A queue buries elsewhere from now on: its dead-letter table becomes an
 *		ordinary table again.  Nothing happens to a queue.
 */
void
DeadLetterDetach(Oid queue, const char *token, bool notice)
{
	LabelKind	kind;
	Oid			dead;

	if (token[0] == '\0')
		return;
	dead = LabelFindToken(token, OwnerOf(queue), &kind);
	if (!OidIsValid(dead) || kind != LABEL_DEAD)
		return;
	LockRelationOid(dead, ShareUpdateExclusiveLock);
	if (notice)
		ereport(NOTICE,
				(errmsg("table \"%s\" is no longer a dead-letter table",
						get_rel_name(dead)),
				 errdetail("Its rows stay; inbox_redrive does not see them.")));
	LabelRemove(dead);
}
