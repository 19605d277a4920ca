/*-------------------------------------------------------------------------
 *
 * delta.c
 *	  What a transaction will add to the totals of queues when it commits.
 *
 * It is added up here by queue and by level of subtransaction.  A
 * subtransaction hands what it has up when it commits, and when it is rolled
 * back that is forgotten.  The callback at the end only adds to atomic
 * numbers (totals.c).
 *
 * A prepared transaction counts when it is prepared, as nobody here learns
 * how it ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "delta.h"
#include "utils/memutils.h"

typedef struct Delta
{
	SharedTotals *totals;
	int			level;			/* nesting level of the subtransaction */
	int64		n[NUM_TRANSACTIONAL];
} Delta;

#define FEW_DELTAS	4

/* sorted by level; more than a few are in TopTransactionContext */
static Delta few[FEW_DELTAS];
static Delta *deltas = few;
static int	ndeltas = 0;
static int	size = FEW_DELTAS;

/*
 * new_delta
 *		An empty one at the end.
 */
static Delta *
new_delta(SharedTotals *totals, int level)
{
	Delta	   *d;

	if (ndeltas == size)
	{
		Delta	   *more = MemoryContextAlloc(TopTransactionContext,
											  2 * size * sizeof(Delta));

		memcpy(more, deltas, size * sizeof(Delta));
		if (deltas != few)
			pfree(deltas);
		deltas = more;
		size *= 2;
	}
	d = &deltas[ndeltas++];
	memset(d, 0, sizeof(Delta));
	d->totals = totals;
	d->level = level;
	return d;
}

/*
 * find_delta
 *		The queue's at the current level, if there is one.
 */
static Delta *
find_delta(const SharedTotals *totals, int level)
{
	for (int i = ndeltas - 1; i >= 0 && deltas[i].level == level; i--)
	{
		if (deltas[i].totals == totals)
			return &deltas[i];
	}
	return NULL;
}

/*
 * DeltaCount
 *		So many more, if the transaction commits.
 */
void
DeltaCount(Queue *q, Total total, int64 n)
{
	SharedTotals *totals = TotalsOf(q);
	int			level = GetCurrentTransactionNestLevel();
	Delta	   *d;

	Assert(total < NUM_TRANSACTIONAL);
	if (totals == NULL || n == 0)
		return;
	d = find_delta(totals, level);
	if (d == NULL)
		d = new_delta(totals, level);
	d->n[total] += n;
}

/*
 * DeltaPending
 *		What the (sub)transaction has counted so far.
 */
int64
DeltaPending(Queue *q, Total total)
{
	SharedTotals *totals = TotalsOf(q);
	Delta	   *d = NULL;

	if (totals != NULL)
		d = find_delta(totals, GetCurrentTransactionNestLevel());
	return d == NULL ? 0 : d->n[total];
}

/*
 * DeltaCorrect
 *		Make that so many, after a statement of ours that a trigger may have
 *		counted or not.
 */
void
DeltaCorrect(Queue *q, Total total, int64 n)
{
	DeltaCount(q, total, n - DeltaPending(q, total));
}

static void
at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			for (int i = 0; i < ndeltas; i++)
				TotalsCommitted(deltas[i].totals, deltas[i].n,
								GetCurrentTransactionStopTimestamp());
			break;
		case XACT_EVENT_ABORT:
			break;
		default:
			return;
	}
	deltas = few;
	ndeltas = 0;
	size = FEW_DELTAS;
}

/*
 * hand_up
 *		A subtransaction has committed: what it did is its parent's.
 */
static void
hand_up(int level)
{
	int			first = ndeltas;
	int			kept;

	while (first > 0 && deltas[first - 1].level >= level)
		first--;
	kept = first;
	for (int i = first; i < ndeltas; i++)
	{
		Delta	   *into = NULL;

		for (int k = kept - 1; k >= 0 && deltas[k].level == level - 1; k--)
		{
			if (deltas[k].totals == deltas[i].totals)
				into = &deltas[k];
		}
		if (into == NULL)
		{
			deltas[kept] = deltas[i];
			deltas[kept++].level = level - 1;
			continue;
		}
		for (int k = 0; k < NUM_TRANSACTIONAL; k++)
			into->n[k] += deltas[i].n[k];
	}
	ndeltas = kept;
}

static void
at_subxact_end(SubXactEvent event, SubTransactionId mySubid,
			   SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
		hand_up(level);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (ndeltas > 0 && deltas[ndeltas - 1].level >= level)
			ndeltas--;
	}
}

void
DeltaInit(void)
{
	RegisterXactCallback(at_xact_end, NULL);
	RegisterSubXactCallback(at_subxact_end, NULL);
}
