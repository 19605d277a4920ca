/*-------------------------------------------------------------------------
 *
 * alter.c
 *	  inbox_alter, inbox_pause, inbox_resume: change a queue's settings.
 *
 * The settings are in the table's label; writing it invalidates the relcache
 * entry, and every call that begins after our commit reads it anew.  The lock
 * is SHARE UPDATE EXCLUSIVE: two changes exclude each other, but consumers go
 * on, and a consumer that is idle in a transaction delays nobody.  The price is
 * that a call already running finishes by the old settings: one last claim may
 * hand out rows just after inbox_pause returns.  Turning fifo on or off is the
 * exception; see change_fifo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "changed.h"
#include "deadletter.h"
#include "indexcheck.h"
#include "setup.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define FIRST_SETTING	1
#define RESET			(FIRST_SETTING + NUM_SETTINGS)

/*
 * add_processed_at
 *		Let a created queue keep its finished rows: give it the column, and
 *		indexes that leave finished rows out.  This one change makes two
 *		indexes anew and keeps everybody out meanwhile.
 */
static void
add_processed_at(Oid relid, const RoleColumn *old, bool fifo)
{
	char	   *name = QualifiedName(relid);
	Relation	rel;
	RoleColumn	col[NUM_QUEUE_ROLES];
	Oid			claim;
	Oid			dedup;

	if (get_attnum(relid, RoleName(ROLE_PROCESSED_AT)) != InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_COLUMN),
				 errmsg("queue %s has a column \"%s\" of its own", name,
						RoleName(ROLE_PROCESSED_AT)),
				 errdetail("retention needs a column of that name, to mark finished messages."),
				 errhint("ALTER TABLE %s RENAME COLUMN %s TO ...;", name,
						 RoleName(ROLE_PROCESSED_AT))));
	SetupExec(psprintf("ALTER TABLE %s ADD COLUMN %s timestamp with time zone",
					   name, RoleName(ROLE_PROCESSED_AT)));
	memcpy(col, old, sizeof(col));
	col[ROLE_PROCESSED_AT].attno = get_attnum(relid,
											  RoleName(ROLE_PROCESSED_AT));
	LabelWriteRole(relid, col[ROLE_PROCESSED_AT].attno, ROLE_PROCESSED_AT);

	rel = table_open(relid, NoLock);
	claim = IndexFindClaim(rel, old);
	dedup = IndexFindDedup(rel, old);
	table_close(rel, NoLock);
	if (OidIsValid(claim))
		SetupExec(psprintf("DROP INDEX %s", QualifiedName(claim)));
	if (OidIsValid(dedup))
		SetupExec(psprintf("DROP INDEX %s", QualifiedName(dedup)));
	IndexGroupDrop(relid, old);
	if (fifo)
		IndexGroupCreate(relid, col);
	else
		SetupExec(IndexClaimSql(relid, col));
	if (col[ROLE_DEDUP_KEY].attno != 0)
		SetupExec(IndexDedupSql(relid, col));
}

/*
 * Reset, the destination of a created queue is what inbox_create would give
 * it: its own dead-letter table, as long as it caps the attempts.
 */
static bool
wants_own_dead(const QueueSettings *s)
{
	return s->created && s->max_attempts > 0 && s->dead_group == NULL &&
		s->dead_letter[0] == '\0';
}

static void
change_destination(Oid relid, const RoleColumn *col, Oid dead,
				   const QueueSettings *old, QueueSettings *settings)
{
	Relation	rel = table_open(relid, NoLock);

	if (OidIsValid(dead))
		DeadLetterAttach(rel, col, dead, settings);
	else if (wants_own_dead(settings) && OidIsValid(DeadLetterOwn(relid, old)))
		strlcpy(settings->dead_letter, old->dead_letter,
				sizeof(settings->dead_letter));
	else if (wants_own_dead(settings))
		DeadLetterCreate(rel, col, settings);
	table_close(rel, NoLock);
	if (strcmp(settings->dead_letter, old->dead_letter) != 0)
		DeadLetterDetach(relid, old->dead_letter, true);
}

/*
 * change_fifo
 *		Turn FIFO groups on or off, which wants other indexes.
 *
 * A claim that does not know of the groups must not run beside one that does.
 * So we wait for all who have the table locked for writing, and keep new ones
 * out, until we commit; whoever comes then reads the new settings.
 */
static void
change_fifo(Oid relid, const QueueSettings *settings)
{
	Queue	   *q;
	RoleColumn	col[NUM_QUEUE_ROLES];
	Relation	rel;
	Oid			claim;

	LockRelationOid(relid, ShareLock);
	/* with the column that may just have been added */
	q = QueueOpenOid(relid);
	memcpy(col, q->col, sizeof(col));
	QueueClose(q);
	rel = table_open(relid, NoLock);
	claim = IndexFindClaim(rel, col);
	if (!settings->created && settings->fifo)
		IndexGroupWarn(rel, col);
	table_close(rel, NoLock);
	if (!settings->created)
		return;
	if (settings->fifo)
	{
		IndexGroupCreate(relid, col);
		if (OidIsValid(claim))
			SetupExec(psprintf("DROP INDEX %s", QualifiedName(claim)));
	}
	else
	{
		if (!OidIsValid(claim))
			SetupExec(IndexClaimSql(relid, col));
		IndexGroupDrop(relid, col);
	}
}

/*
 * read_columns
 *		The columns a queue has, or will have once processed_at is added.
 */
static bool
read_columns(Oid relid, const QueueSettings *settings, RoleColumn *col,
			 RoleColumn *planned)
{
	Queue	   *q = QueueOpenOid(relid);
	bool		add;

	add = settings->created && settings->retention != NO_RETENTION &&
		!QueueHas(q, ROLE_PROCESSED_AT);
	memcpy(col, q->col, sizeof(q->col));
	memcpy(planned, q->col, sizeof(q->col));
	QueueClose(q);
	if (add)
	{
		planned[ROLE_PROCESSED_AT].attno = MaxAttrNumber;	/* whichever */
		planned[ROLE_PROCESSED_AT].type = TIMESTAMPTZOID;
	}
	return add;
}

PG_FUNCTION_INFO_V1(inbox_alter);

/*
 * inbox_alter(queue text, settings..., reset text[]) returns text
 */
Datum
inbox_alter(PG_FUNCTION_ARGS)
{
	QueueSettings settings;
	QueueSettings old;
	RoleColumn	col[NUM_QUEUE_ROLES];
	RoleColumn	planned[NUM_QUEUE_ROLES];
	text	   *dead_name;
	Oid			dead = InvalidOid;
	Oid			relid;
	bool		add;

	ArgRequireWritable("inbox_alter");
	relid = SetupOpenOwned(ArgQueue(fcinfo, 0), ShareUpdateExclusiveLock,
						   &settings);
	old = settings;
	SetupReset(fcinfo, RESET, FIRST_SETTING, &settings);
	dead_name = SetupReadSettings(fcinfo, FIRST_SETTING, &settings);
	add = read_columns(relid, &settings, col, planned);
	SetupCheck(&settings, relid, planned,
			   dead_name != NULL || settings.dead_letter[0] != '\0');
	if (dead_name != NULL)
		dead = DeadLetterFind(dead_name, settings.created,
							  QualifiedName(relid));
	if (add)
		add_processed_at(relid, col, settings.fifo);
	if (settings.fifo != old.fifo)
		change_fifo(relid, &settings);
	change_destination(relid, col, dead, &old, &settings);
	LabelWrite(relid, &settings);
	if (settings.triggers && !ChangedHasTriggers(relid))
		ChangedAddTriggers(relid, get_func_namespace(fcinfo->flinfo->fn_oid));
	PG_RETURN_TEXT_P(cstring_to_text(QualifiedName(relid)));
}

static void
set_paused(FunctionCallInfo fcinfo, const char *function, bool paused)
{
	QueueSettings settings;
	Oid			relid;

	ArgRequireWritable(function);
	relid = SetupOpenOwned(ArgQueue(fcinfo, 0), ShareUpdateExclusiveLock,
						   &settings);
	if (settings.paused == paused)
		return;
	settings.paused = paused;
	LabelWrite(relid, &settings);
}

PG_FUNCTION_INFO_V1(inbox_pause);

/*
 * inbox_pause(queue text) returns void
 */
Datum
inbox_pause(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, "inbox_pause", true);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(inbox_resume);

/*
 * inbox_resume(queue text) returns void
 */
Datum
inbox_resume(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, "inbox_resume", false);
	PG_RETURN_VOID();
}
