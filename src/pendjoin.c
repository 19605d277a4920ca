/*-------------------------------------------------------------------------
 *
 * pendjoin.c
 *	  Join what a transaction will have to tell, so that the list stays short.
 *
 * Entries that are joined span all that lies between them.  For leases, which
 * are told by the time they end, that is little.  What was passed or opened
 * may lie far apart, with a million dead entries between, or a thousand
 * levels of priority, all leased: a claim would walk over them.  So what was
 * passed is joined only where it touches, and what was opened where it is of
 * one level; until there is too much of it.
 *
 * Called by pending.c, which keeps the list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pendentry.h"

#define JOIN_AMONG	16			/* entries looked at for one to join */
#define MAX_ENTRIES	1000		/* beyond it, joined more coarsely */
#define MAX_OPENED	16			/* of them, of opened keys */

static bool
touch(const HintRange *a, const HintRange *b)
{
	HintKey		after_a = KeyAfter(&a->hi);
	HintKey		after_b = KeyAfter(&b->hi);

	return KeyCompare(&a->lo, &after_b) <= 0 && KeyCompare(&b->lo, &after_a) <= 0;
}

static bool
share_level(const HintRange *a, const HintRange *b)
{
	return a->lo.priority <= b->hi.priority && b->lo.priority <= a->hi.priority;
}

static bool
joins(const PendingEntry *a, const PendingEntry *b, bool coarse)
{
	if (a->kind != b->kind || a->hints != b->hints ||
		a->level != b->level || a->lease != b->lease)
		return false;
	return coarse || (LedgerGrain(a->until) == LedgerGrain(b->until) &&
					  a->attempt == b->attempt &&
					  (a->kind != PENDING_PASSED || touch(&a->keys, &b->keys)) &&
					  (a->kind != PENDING_OPEN || share_level(&a->keys, &b->keys)));
}

/*
 * PendingFindJoining
 *		The entry of the list to join one with, or NULL.
 */
PendingEntry *
PendingFindJoining(PendingEntry *entries, int nentries,
				   const PendingEntry *entry)
{
	bool		coarse = nentries >= MAX_ENTRIES;
	PendingEntry *nearest = NULL;
	double		distance = 0;
	int			n = 0;

	for (int i = nentries - 1; i >= 0; i--)
	{
		if (i < nentries - JOIN_AMONG && !coarse)
			break;
		if (joins(&entries[i], entry, coarse))
			return &entries[i];
	}
	if (entry->kind != PENDING_OPEN)
		return NULL;
	for (int i = 0; i < nentries; i++)
	{
		double		d;

		if (!joins(&entries[i], entry, true))
			continue;
		d = RangeDistance(&entries[i].keys, &entry->keys);
		if (n++ == 0 || d < distance)
		{
			nearest = &entries[i];
			distance = d;
		}
	}
	return n < MAX_OPENED ? NULL : nearest;
}

/*
 * PendingJoin
 *		Join one with an entry of the list.
 */
void
PendingJoin(PendingEntry *e, const PendingEntry *entry)
{
	e->keys.lo = KeyMin(&e->keys.lo, &entry->keys.lo);
	e->keys.hi = KeyMax(&e->keys.hi, &entry->keys.hi);
	e->coarse = e->coarse || entry->coarse ||
		LedgerGrain(e->until) != LedgerGrain(entry->until);
	e->until = Min(e->until, entry->until);
	e->count += entry->count;
	e->sum += entry->sum;
}
