/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  The function behind view inbox_queues.
 *
 * It shows each queue that the current user has any privilege on, and all of
 * them to members of pg_monitor: settings, counts, ages and what has happened
 * (activity.c), never a payload.
 *
 * It must be cheap enough to be asked every second, and it must answer even
 * when something is wrong with a queue, for then it is looked at: a table
 * that is locked or broken has its row, with the reason in place of counts.
 * Each queue is therefore counted in a subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "activity.h"
#include "announce.h"
#include "catalog/pg_authid.h"
#include "count.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "horizon.h"
#include "label.h"
#include "miscadmin.h"
#include "owner.h"
#include "queue.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define NUM_COLUMNS		(26 + NUM_ACTIVITY_COLUMNS)

/* one row of the view on its way out */
typedef struct OutRow
{
	int			n;
	Datum		values[NUM_COLUMNS];
	bool		nulls[NUM_COLUMNS];
} OutRow;

/* what the guarded part works on */
typedef struct Counting
{
	Oid			relid;
	TimestampTz now;
	Oid			dead;			/* where it buries, if it could be opened */
	QueueCounts counts;
	Activity	activity;
} Counting;

static void
put(OutRow *row, bool known, Datum value)
{
	Assert(row->n < NUM_COLUMNS);
	row->nulls[row->n] = !known;
	row->values[row->n++] = value;
}

static void
put_text(OutRow *row, const char *str)
{
	put(row, str != NULL, str ? CStringGetTextDatum(str) : (Datum) 0);
}

static void
put_micros(OutRow *row, bool known, int64 usecs)
{
	Interval   *iv = palloc0(sizeof(Interval));

	iv->time = usecs;
	put(row, known,
		DirectFunctionCall1(interval_justify_hours, IntervalPGetDatum(iv)));
}

static void
put_age(OutRow *row, bool known, TimestampTz since, TimestampTz now)
{
	put_micros(row, known, known ? Max(now - since, 0) : 0);
}

/*
 * may_look
 *		Any privilege on the table or one of its columns will do.  A table
 *		that has just been dropped gives none.
 */
static bool
may_look(Oid relid)
{
	Oid			user = GetUserId();
	bool		missing = false;

	if (pg_class_aclcheck_ext(relid, user, ACL_ALL_RIGHTS_RELATION,
							  &missing) == ACLCHECK_OK)
		return true;
	if (missing)
		return false;
	return has_privs_of_role(user, ROLE_PG_MONITOR) ||
		pg_attribute_aclcheck_all(relid, user, ACL_ALL_RIGHTS_COLUMN,
								  ACLMASK_ANY) == ACLCHECK_OK;
}

static void
count_guarded(void *arg)
{
	Counting   *c = (Counting *) arg;
	Queue	   *q = QueueTryOpen(c->relid, AccessShareLock, false);

	if (q == NULL)
		return;
	c->dead = q->dead_relid;
	ActivityOfQueue(q, &c->activity);
	CountQueue(q, c->now, &c->counts);
	QueueClose(q);
	UnlockRelationOid(c->relid, AccessShareLock);
}

/*
 * count
 *		Count, or tell in c->counts.problem why not.
 */
static void
count(Counting *c)
{
	const char *error;

	if (!ConditionalLockRelationOid(c->relid, AccessShareLock))
	{
		c->counts.problem = "the table is locked";
		return;
	}
	error = GuardRun(count_guarded, c);
	UnlockRelationOid(c->relid, AccessShareLock);
	if (error != NULL)
	{
		memset(&c->counts, 0, sizeof(c->counts));
		c->counts.problem = error;
	}
}

static void
put_settings(OutRow *row, Oid relid, const QueueSettings *s, Oid dead)
{
	LabelKind	kind;

	if (!OidIsValid(dead) && s->dead_letter[0] != '\0')
		dead = LabelFindToken(s->dead_letter, OwnerOf(relid), &kind);
	put_micros(row, true, s->lease * USECS_PER_SEC);
	put(row, s->max_attempts > 0, Int32GetDatum(s->max_attempts));
	put_text(row, OidIsValid(dead) && get_rel_name(dead) != NULL ?
			 QualifiedName(dead) : NULL);
	put_text(row, s->dead_group);
	put_micros(row, true, s->backoff);
	put_micros(row, true, s->backoff_max);
	put_micros(row, s->retention != NO_RETENTION, s->retention);
	put(row, true, BoolGetDatum(s->paused));
	put(row, true, BoolGetDatum(s->fifo));
}

static void
put_counts(OutRow *row, const Counting *c)
{
	static const LeaseState order[] = {
		LEASE_READY, LEASE_DELAYED, LEASE_LIVE, LEASE_EXPIRED, LEASE_SPENT,
		LEASE_FINISHED
	};
	const QueueCounts *counts = &c->counts;

	for (int i = 0; i < lengthof(order); i++)
		put(row, counts->known, Int64GetDatum(counts->state[order[i]]));
	put(row, counts->has_dead, Int64GetDatum(counts->dead));
	put(row, counts->known, BoolGetDatum(counts->estimated));
	put_age(row, counts->has_oldest, counts->oldest, c->now);
	put(row, counts->known, Int64GetDatum(counts->bytes));
	put(row, counts->known, Int64GetDatum(counts->dead_rows));
}

static void
put_holder(OutRow *row, const SnapshotHolder *holder)
{
	put(row, holder->pid != 0, Int32GetDatum(holder->pid));
	put_text(row, holder->kind);
	put_micros(row, holder->has_age, holder->age);
	put(row, holder->kind != NULL, Int64GetDatum(holder->xids));
}

static void
put_queue(ReturnSetInfo *rsinfo, Oid relid, const SnapshotHolder *holder)
{
	OutRow		row = {0};
	Counting	c = {relid};
	QueueSettings settings;

	if (!may_look(relid))
		return;
	c.now = LeaseNow();
	count(&c);
	/* dropped or forgotten while the others were counted */
	if (!LabelRead(relid, &settings) || settings.kind != LABEL_QUEUE ||
		get_rel_name(relid) == NULL)
		return;
	put_text(&row, QualifiedName(relid));
	put_settings(&row, relid, &settings, c.dead);
	put_counts(&row, &c);
	put_holder(&row, holder);
	ActivityPut(relid, &c.activity, c.now, &row.values[row.n], &row.nulls[row.n]);
	row.n += NUM_ACTIVITY_COLUMNS;
	put_text(&row, c.counts.problem);
	Assert(row.n == NUM_COLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values,
						 row.nulls);
}

PG_FUNCTION_INFO_V1(inbox_queue_status_0_1);

/*
 * inbox_queue_status() returns setof record
 */
Datum
inbox_queue_status_0_1(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SnapshotHolder holder;
	MemoryContext cxt;
	MemoryContext old;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	HorizonFind(&holder);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox queue status",
								ALLOCSET_DEFAULT_SIZES);
	foreach(lc, LabelList(LABEL_QUEUE))
	{
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(cxt);
		put_queue(rsinfo, lfirst_oid(lc), &holder);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	return (Datum) 0;
}
