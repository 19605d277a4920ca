/*-------------------------------------------------------------------------
 *
 * totals.c
 *	  What has happened in each queue since the server's start, in shared
 *	  memory.
 *
 * What a transaction does counts when it commits (delta.c).  What a caller
 * sees even if he rolls back (stale receipts, how far a claim had to walk)
 * counts at once.  Counting is adding to an atomic number: it takes no lock,
 * cannot fail and allocates nothing.
 *
 * Each queue with hints (hints.c) has an entry, under the same number.  Its
 * cache lines are its own: no counting disturbs whoever takes a lock.
 * Counters are read one by one, so a sum over them may be off by a
 * transaction that commits meanwhile.
 *
 * Rates come from buckets of ten seconds, each a number of the ten seconds it
 * is of and a count in one word, so that adding to it and starting it anew
 * is one atomic step.  Nobody has to sample.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "settings.h"
#include "storage/shmem.h"
#include "totals.h"
#include "utils/timestamp.h"

#define BUCKET_USECS	(10 * USECS_PER_SEC)
#define NUM_BUCKETS		8
#define READ_BUCKETS	6		/* the last minute, the one under way included */

struct SharedTotals
{
	pg_atomic_uint64 n[NUM_TOTALS];
	pg_atomic_uint64 last_walk_dead;
	/* the number of the ten seconds in the high half, the count in the low */
	pg_atomic_uint64 bucket[NUM_RATES * NUM_BUCKETS];
	pg_atomic_uint64 since;		/* written when the entry is given out */
};

typedef union PaddedTotals
{
	SharedTotals t;
	char		pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SharedTotals))];
} PaddedTotals;

static PaddedTotals *shared = NULL;

Size
TotalsShmemSize(void)
{
	return add_size(PG_CACHE_LINE_SIZE,
					mul_size(InboxMaxQueues, sizeof(PaddedTotals)));
}

/*
 * TotalsShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
TotalsShmemInit(void)
{
	bool		found;
	char	   *start = ShmemInitStruct("inbox totals", TotalsShmemSize(), &found);

	shared = (PaddedTotals *) TYPEALIGN(PG_CACHE_LINE_SIZE, start);
	if (found)
		return;
	for (int i = 0; i < InboxMaxQueues; i++)
	{
		SharedTotals *t = &shared[i].t;

		for (int k = 0; k < NUM_TOTALS; k++)
			pg_atomic_init_u64(&t->n[k], 0);
		for (int k = 0; k < NUM_RATES * NUM_BUCKETS; k++)
			pg_atomic_init_u64(&t->bucket[k], 0);
		pg_atomic_init_u64(&t->last_walk_dead, 0);
		pg_atomic_init_u64(&t->since, 0);
	}
}

/*
 * TotalsReset
 *		The entry of this number is another queue's from now on.
 */
void
TotalsReset(int number)
{
	SharedTotals *t = &shared[number].t;

	for (int k = 0; k < NUM_TOTALS; k++)
		pg_atomic_write_u64(&t->n[k], 0);
	for (int k = 0; k < NUM_RATES * NUM_BUCKETS; k++)
		pg_atomic_write_u64(&t->bucket[k], 0);
	pg_atomic_write_u64(&t->last_walk_dead, 0);
	pg_atomic_write_u64(&t->since, (uint64) GetCurrentTimestamp());
}

/*
 * TotalsOf
 *		The queue's, or NULL where it has no hints.
 */
SharedTotals *
TotalsOf(Queue *q)
{
	QueueHints *hints = HintsFor(q);

	return hints == NULL ? NULL : &shared[HintsNumber(hints)].t;
}

/*
 * TotalsCountNow
 *		So many more, whatever becomes of the transaction.
 */
void
TotalsCountNow(Queue *q, Total total, int64 n)
{
	SharedTotals *totals = TotalsOf(q);

	if (totals != NULL && n > 0)
		pg_atomic_fetch_add_u64(&totals->n[total], n);
}

/*
 * TotalsWaited
 *		Somebody goes to sleep until there is something to claim.
 */
void
TotalsWaited(QueueHints *hints)
{
	pg_atomic_fetch_add_u64(&shared[HintsNumber(hints)].t.n[TOTAL_WAITS], 1);
}

/*
 * TotalsWalked
 *		A claim has walked over so many index entries.
 */
void
TotalsWalked(Queue *q, int64 entries, int64 dead, int64 taken)
{
	SharedTotals *totals = TotalsOf(q);

	if (totals == NULL)
		return;
	pg_atomic_fetch_add_u64(&totals->n[TOTAL_WALKS], 1);
	if (entries > 0)
		pg_atomic_fetch_add_u64(&totals->n[TOTAL_WALKED], entries);
	if (dead > 0)
		pg_atomic_fetch_add_u64(&totals->n[TOTAL_WALKED_DEAD], dead);
	if (taken > 0)
		pg_atomic_fetch_add_u64(&totals->n[TOTAL_TAKEN], taken);
	/* mostly zero after zero: leave the cache line alone then */
	if (pg_atomic_read_u64(&totals->last_walk_dead) != dead)
		pg_atomic_write_u64(&totals->last_walk_dead, dead);
}

/*
 * add_to_bucket
 *		A count that does not fit stays at the most that does.
 */
static void
add_to_bucket(SharedTotals *t, Rate rate, uint32 number, int64 n)
{
	pg_atomic_uint64 *bucket = &t->bucket[rate * NUM_BUCKETS + number % NUM_BUCKETS];
	uint64		old;
	uint64		new;

	if (n <= 0)
		return;
	old = pg_atomic_read_u64(bucket);
	do
	{
		uint64		before = (old >> 32) == number ? old & PG_UINT32_MAX : 0;

		new = ((uint64) number << 32) | Min(before + n, PG_UINT32_MAX);
	} while (!pg_atomic_compare_exchange_u64(bucket, &old, new));
}

/*
 * TotalsCommitted
 *		A transaction that has counted so many is committed, at this time.
 *		Called from the commit callback.
 */
void
TotalsCommitted(SharedTotals *t, const int64 *n, TimestampTz at)
{
	uint32		number = at / BUCKET_USECS;

	for (int k = 0; k < NUM_TRANSACTIONAL; k++)
	{
		if (n[k] != 0)
			pg_atomic_fetch_add_u64(&t->n[k], n[k]);
	}
	add_to_bucket(t, RATE_SEND, number, n[TOTAL_SENT]);
	add_to_bucket(t, RATE_CLAIM, number, n[TOTAL_CLAIMED]);
	add_to_bucket(t, RATE_SETTLE, number,
				  n[TOTAL_DONE] + n[TOTAL_DROPPED] + n[TOTAL_RETRIED] +
				  n[TOTAL_RELEASED] + n[TOTAL_SETTLED_DEAD]);
}

/*
 * read_rate
 *		The count of the last minute, the ten seconds under way included, by
 *		the time that is.
 */
static double
read_rate(SharedTotals *t, Rate rate, TimestampTz now, TimestampTz since)
{
	uint32		number = now / BUCKET_USECS;
	TimestampTz from = (int64) (number - READ_BUCKETS + 1) * BUCKET_USECS;
	uint64		n = 0;

	for (int i = 0; i < READ_BUCKETS; i++)
	{
		uint64		word = pg_atomic_read_u64(&t->bucket[rate * NUM_BUCKETS + (number - i) % NUM_BUCKETS]);

		if ((word >> 32) == number - i)
			n += word & PG_UINT32_MAX;
	}
	return (double) n * USECS_PER_SEC /
		Max(now - Max(from, since), USECS_PER_SEC);
}

/*
 * TotalsRead
 *		Copy what the entry of this number has.
 */
void
TotalsRead(int number, TimestampTz now, Totals *totals)
{
	SharedTotals *t = &shared[number].t;

	totals->since = (TimestampTz) pg_atomic_read_u64(&t->since);
	for (int k = 0; k < NUM_TOTALS; k++)
		totals->n[k] = pg_atomic_read_u64(&t->n[k]);
	for (int k = 0; k < NUM_RATES; k++)
		totals->rate[k] = read_rate(t, k, now, totals->since);
	totals->last_walk_dead = pg_atomic_read_u64(&t->last_walk_dead);
}
