/*-------------------------------------------------------------------------
 *
 * count.c
 *	  Count the messages of a queue by state, in bounded time.
 *
 * 1. A table of up to SAMPLE_PAGES pages is read whole: the counts are exact.
 * 2. Of a larger one the head is read, a bounded number of entries of the
 *	  claim index.  If that is all there is, the counts are exact again.
 * 3. Else the rows of randomly chosen pages stand for all: each count is what
 *	  the sample says, but never less than the head has shown.
 *
 * An estimate is as good as a poll of some hundred people, for rows of one
 * state lie together in the table: a state that many rows are in is found
 * within some per cent of the whole, one that few are in may be missed.
 *
 * A queue's own rules say what a row is (LeaseStateOf); here they are only
 * counted.  Row security does not apply: these are totals.
 *
 * Called by stats.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "bury.h"
#include "count.h"
#include "head.h"
#include "sample.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/*
 * With a million messages of 100 bytes, 25 in a page, all of it takes 1 to 3
 * ms, whatever the size of the table.  Dead letters are only counted, so half
 * as many pages do.
 */
#define SAMPLE_PAGES	128
#define HEAD_ENTRIES	1000
#define DEAD_PAGES		(SAMPLE_PAGES / 2)

/* what is counted beside the states: dead letters kept in the same table */
#define TALLY_DEAD		NUM_LEASE_STATES
#define TALLY_SIZE		(NUM_LEASE_STATES + 1)

typedef struct Tally
{
	Queue	   *q;
	TimestampTz now;
	int64		n[TALLY_SIZE];
	bool		has_oldest;
	TimestampTz oldest;
} Tally;

/*
 * Dead letters under dead_group are handed out only to who asks for them.
 */
static bool
in_dead_group(Queue *q, SampleLeaf *leaf, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		group;

	if (q->settings.dead_group == NULL || leaf->attnos[ROLE_GROUP_KEY] == 0)
		return false;
	group = slot_getattr(slot, leaf->attnos[ROLE_GROUP_KEY], &isnull);
	return !isnull &&
		strcmp(TextDatumGetCString(group), q->settings.dead_group) == 0;
}

/*
 * Since when a claimable row has been claimable: it has been sent, is due,
 * and its last lease is over.
 */
static void
note_age(Tally *t, SampleLeaf *leaf, TupleTableSlot *slot, const LeaseRow *row)
{
	bool		known = row->has_due || row->leased;
	TimestampTz since = row->has_due ? row->due_at : DT_NOBEGIN;

	if (row->leased)
		since = Max(since, row->locked_until);
	if (leaf->attnos[ROLE_ENQUEUED_AT] != 0)
	{
		bool		isnull;
		Datum		sent = slot_getattr(slot, leaf->attnos[ROLE_ENQUEUED_AT],
										&isnull);

		if (!isnull)
			since = Max(since, DatumGetTimestampTz(sent));
		known = known || !isnull;
	}
	if (!known || (t->has_oldest && t->oldest <= since))
		return;
	t->has_oldest = true;
	t->oldest = since;
}

static void
tally_row(SampleLeaf *leaf, TupleTableSlot *slot, void *arg)
{
	Tally	   *t = (Tally *) arg;
	LeaseRow	row;
	LeaseState	state;

	LeaseReadRow(t->q, leaf->attnos, slot, &row);
	state = LeaseStateOf(t->q, &row, t->now);
	if (state != LEASE_FINISHED && state != LEASE_LIVE &&
		in_dead_group(t->q, leaf, slot))
	{
		t->n[TALLY_DEAD]++;
		return;
	}
	t->n[state]++;
	if (state == LEASE_READY || state == LEASE_EXPIRED)
		note_age(t, leaf, slot, &row);
}

static void
count_row(SampleLeaf *leaf, TupleTableSlot *slot, void *arg)
{
	(*(int64 *) arg)++;
}

static int64
extrapolate(const Sample *s, int64 n)
{
	return (int64) rint((double) n * s->blocks / s->read);
}

/*
 * tally_large
 *		Steps 2 and 3; returns whether a count is an estimate.
 */
static bool
tally_large(Sample *s, Tally *t)
{
	Queue	   *q = t->q;
	Tally		sampled = *t;
	bool		all = HeadRows(s, q, HEAD_ENTRIES, tally_row, t);

	if (all && !QueueHas(q, ROLE_PROCESSED_AT))
		return false;
	SampleRows(s, SAMPLE_PAGES, tally_row, &sampled);
	for (int i = 0; i < TALLY_SIZE; i++)
	{
		int64		n = extrapolate(s, sampled.n[i]);

		/* finished rows are in the index or not, as its maker liked */
		if (i == LEASE_FINISHED)
			t->n[i] = n;
		else if (!all)
			t->n[i] = Max(n, t->n[i]);
	}
	if (sampled.has_oldest && (!t->has_oldest || sampled.oldest < t->oldest))
	{
		t->has_oldest = true;
		t->oldest = sampled.oldest;
	}
	return true;
}

static void
count_storage(const Sample *s, QueueCounts *c)
{
	ListCell   *lc;

	c->bytes = (int64) s->blocks * BLCKSZ;
	foreach(lc, s->leaves)
	{
		SampleLeaf *leaf = (SampleLeaf *) lfirst(lc);

		c->dead_rows +=
			DatumGetInt64(DirectFunctionCall1(pg_stat_get_dead_tuples,
											  ObjectIdGetDatum(RelationGetRelid(leaf->rel))));
	}
}

static void
count_queue(Queue *q, TimestampTz now, QueueCounts *c)
{
	Tally		t = {q, now};
	Sample		s;

	if (!SampleOpen(&s, q->relid))
	{
		c->problem = "the table is locked";
		return;
	}
	count_storage(&s, c);
	if (!s.heap)
		c->problem = "the table is not a heap";
	else
	{
		SampleMapRoles(&s, q);
		if (s.blocks <= SAMPLE_PAGES)
			SampleRows(&s, SAMPLE_PAGES, tally_row, &t);
		else
			c->estimated = tally_large(&s, &t);
		c->known = true;
		memcpy(c->state, t.n, sizeof(c->state));
		c->has_oldest = t.has_oldest;
		c->oldest = t.oldest;
		c->has_dead = q->settings.dead_group != NULL;
		c->dead = t.n[TALLY_DEAD];
	}
	SampleClose(&s);
}

/*
 * count_dead
 *		The rows of a dead-letter table.
 */
static void
count_dead(Oid relid, QueueCounts *c)
{
	int64		n = 0;
	Sample		s;

	if (!SampleOpen(&s, relid))
	{
		c->problem = "the dead-letter table is locked";
		return;
	}
	if (!s.heap)
		c->problem = "the dead-letter table is not a heap";
	else
	{
		SampleRows(&s, DEAD_PAGES, count_row, &n);
		c->has_dead = true;
		c->dead = s.read == s.blocks ? n : extrapolate(&s, n);
		c->estimated = c->estimated || s.read < s.blocks;
	}
	SampleClose(&s);
}

/*
 * without_place
 *		Why the queue cannot bury, though it says that it would; or NULL.
 */
static const char *
without_place(Queue *q)
{
	char	   *why;

	if (BuryConfigured(q) ||
		(q->settings.max_attempts == 0 && q->settings.dead_group == NULL &&
		 q->settings.dead_letter[0] == '\0'))
		return NULL;
	why = pstrdup(BuryWhyNot(q));
	why[0] = pg_tolower((unsigned char) why[0]);
	why[strlen(why) - 1] = '\0';
	return psprintf("no place for dead letters: %s", why);
}

/*
 * CountQueue
 *		The caller has locked the table.  Dead letters that go to another
 *		queue are that queue's rows and are counted there.
 */
void
CountQueue(Queue *q, TimestampTz now, QueueCounts *counts)
{
	memset(counts, 0, sizeof(*counts));
	counts->problem = without_place(q);
	count_queue(q, now, counts);
	if (counts->known && OidIsValid(q->dead_relid) &&
		q->dead_kind == LABEL_DEAD)
		count_dead(q->dead_relid, counts);
}
