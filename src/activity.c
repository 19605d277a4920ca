/*-------------------------------------------------------------------------
 *
 * activity.c
 *	  What inbox_queues shows of a queue's past (totals.c) and of its hints
 *	  (hints.c).
 *
 * All of it comes from shared memory, so it is there also for a queue that is
 * locked or broken, and costs nothing that grows with the table.  The
 * exception is why claims do not use the hints, for which the queue is asked
 * while it is open.
 *
 * Called by stats.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "activity.h"
#include "catalog/pg_trigger.h"
#include "hints.h"
#include "settings.h"
#include "totals.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "write.h"

/* in the order of the view's columns */
static const Total totals_shown[] = {
	TOTAL_SENT, TOTAL_CLAIMED, TOTAL_DONE, TOTAL_DROPPED, TOTAL_RETRIED,
	TOTAL_RELEASED, TOTAL_SETTLED_DEAD, TOTAL_EXTENDED, TOTAL_EXPIRED,
	TOTAL_STALE, TOTAL_BURIED, TOTAL_PURGED, TOTAL_REDRIVEN, TOTAL_WAITS
};

static const Total walks_shown[] = {
	TOTAL_WALKS, TOTAL_WALKED, TOTAL_WALKED_DEAD, TOTAL_TAKEN
};

/* the columns on their way out */
typedef struct Columns
{
	int			n;
	Datum	   *values;
	bool	   *nulls;
} Columns;

static void
put(Columns *c, bool known, Datum value)
{
	Assert(c->n < NUM_ACTIVITY_COLUMNS);
	c->nulls[c->n] = !known;
	c->values[c->n++] = value;
}

/*
 * ActivityOfQueue
 *		The caller has locked the table.
 */
void
ActivityOfQueue(Queue *q, Activity *a)
{
	a->known = true;
	a->has_priority = QueueHas(q, ROLE_PRIORITY);
	a->has_due = QueueHas(q, ROLE_DUE_AT);
	if (!InboxDirect)
		a->no_hints = "inbox.direct is off";
	else if (q->relkind != RELKIND_RELATION)
		a->no_hints = "the table is partitioned";
	else if (q->settings.fifo)
		a->no_hints = "its groups are served in turn";
	else if (!OidIsValid(q->order_index))
		a->no_hints = "there is no index that claims can walk";
	else
	{
		Relation	rel = table_open(q->relid, NoLock);

		a->no_hints = WriterNeedsSql(q, rel, rel, TRIGGER_TYPE_UPDATE);
		table_close(rel, NoLock);
	}
}

static void
put_totals(Columns *c, bool known, const Totals *t)
{
	for (int i = 0; i < lengthof(totals_shown); i++)
		put(c, known, Int64GetDatum(t->n[totals_shown[i]]));
	for (int i = 0; i < NUM_RATES; i++)
		put(c, known, Float8GetDatum(t->rate[i]));
	put(c, known, TimestampTzGetDatum(t->since));
}

static bool
ends_level(const HintRange *range)
{
	return range->hi.due == PG_INT64_MAX && range->hi.id == PG_INT64_MAX;
}

/*
 * first_position
 *		Where claims begin on the most urgent level they have been on; NULL
 *		where they know nothing yet.  What lies before all levels is open too.
 */
static const HintKey *
first_position(const OpenSet *open)
{
	for (int i = 0; i < open->n; i++)
	{
		const HintKey *key = &open->range[i].lo;

		if (ends_level(&open->range[i]) && key->priority != PG_INT64_MIN)
			return key;
	}
	return NULL;
}

static void
put_position(Columns *c, const Activity *a, const OpenSet *open)
{
	const HintKey *key = first_position(open);

	put(c, key != NULL && a->has_priority && key->priority != PG_INT64_MAX,
		Int64GetDatum(key == NULL ? 0 : key->priority));
	put(c, key != NULL && a->has_due && key->due != PG_INT64_MIN &&
		IS_VALID_TIMESTAMP(key->due),
		TimestampTzGetDatum(key == NULL ? 0 : key->due));
}

static void
put_hints(Columns *c, const Activity *a, QueueHints *hints)
{
	const char *reason = a->no_hints;
	HintsState	state = {0};

	if (hints != NULL)
		HintsLook(hints, &state);
	else
		reason = HintsPresent() ? "inbox.max_queues is too low" :
			"inbox is not preloaded";
	put(c, a->known, BoolGetDatum(reason == NULL));
	put(c, a->known && reason != NULL,
		reason == NULL ? (Datum) 0 : CStringGetTextDatum(reason));
	put_position(c, a, &state.open);
	put(c, hints != NULL, Int32GetDatum(state.open.n));
	put(c, hints != NULL, Int32GetDatum(state.covers));
	put(c, hints != NULL, Int64GetDatum(state.falls));
}

/*
 * ActivityPut
 *		Fill in the columns.
 */
void
ActivityPut(Oid relid, const Activity *a, TimestampTz now, Datum *values,
			bool *nulls)
{
	QueueHints *hints = HintsForTable(relid);
	Totals		totals = {0};
	Columns		c = {0, values, nulls};
	bool		known = hints != NULL;

	if (known)
		TotalsRead(HintsNumber(hints), now, &totals);
	put_totals(&c, known, &totals);
	put_hints(&c, a, hints);
	for (int i = 0; i < lengthof(walks_shown); i++)
		put(&c, known, Int64GetDatum(totals.n[walks_shown[i]]));
	put(&c, known, Int64GetDatum(totals.last_walk_dead));
	Assert(c.n == NUM_ACTIVITY_COLUMNS);
}
