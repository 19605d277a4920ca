/*-------------------------------------------------------------------------
 *
 * hintwalk.c
 *	  What a claim reads of the hints, and what it takes out of them.
 *
 * The claims' half of the protocol that hints.c tells: rules 2 to 6.  A claim
 * copies the open set before it reads the first row, and passes what it walks
 * over.  The walk calls (walkpass.c).  Walks of FIFO groups and those that
 * remember entries of the index have places of their own, and only ask
 * whether something was opened since (grouplook.c, walkahead.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "hintentry.h"

/*
 * HintsRead
 *		What a claim copies before it reads the first row.
 */
void
HintsRead(HintView *view, QueueHints *h, TimestampTz now)
{
	view->hints = h;
	if (h == NULL)
	{
		OpenAll(&view->open);
		return;
	}
	LWLockAcquire(&h->lock, LW_SHARED);
	if (HintsDue(h, now))
	{
		LWLockRelease(&h->lock);
		LWLockAcquire(&h->lock, LW_EXCLUSIVE);
		if (HintsDue(h, now))
			HintsOpenDue(h, now);
	}
	view->generation = h->log.generation;
	view->open.n = h->open.n;
	memcpy(view->open.range, h->open.range, h->open.n * sizeof(HintRange));
	LWLockRelease(&h->lock);
}

/*
 * HintsPass
 *		A claim has walked over these keys and left nothing claimable: rule 3.
 */
void
HintsPass(HintView *view, const HintRange *passed)
{
	QueueHints *h = view->hints;
	HintRange	cut = *passed;
	HintKey		lowest;

	if (h == NULL)
		return;
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (LogLowestSince(&h->log, view->generation, &lowest))
	{
		if (KeyCompare(&lowest, &cut.hi) <= 0)
			cut.hi = KeyBefore(&lowest);
		if (KeyCompare(&cut.lo, &cut.hi) <= 0 &&
			KeyCompare(&cut.hi, &lowest) < 0)
			OpenCut(&h->open, &cut);
	}
	else
		h->overruns++;
	LWLockRelease(&h->lock);
}

/*
 * HintsReserve
 *		A claim is about to take rows from "key" on, up to run->hi at most, and
 *		has left nothing claimable from run->lo on: pass them, if that key is
 *		still open, as far as rule 3 allows.
 */
ReserveResult
HintsReserve(HintView *view, const HintKey *key, HintRange *run)
{
	QueueHints *h = view->hints;
	ReserveResult result = RESERVE_LIMITED;
	HintKey		lowest;
	HintKey		end;

	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (!OpenEnd(&h->open, key, &end))
		result = RESERVE_PASSED;
	else if (!LogLowestSince(&h->log, view->generation, &lowest))
		h->overruns++;
	else if (KeyCompare(key, &lowest) < 0)
	{
		run->hi = KeyMin(&run->hi, &end);
		if (KeyCompare(&lowest, &run->hi) <= 0)
			run->hi = KeyBefore(&lowest);
		OpenCut(&h->open, run);
		result = RESERVE_DONE;
	}
	LWLockRelease(&h->lock);
	return result;
}

/*
 * HintsPassLeased
 *		A claim is about to pass rows with live leases: rule 5.  "look" may be
 *		later than the leases' end, to bound what looking costs; "claimed" is
 *		when the first of them was claimed.
 */
void
HintsPassLeased(HintView *view, NoteKind kind, TimestampTz until,
				TimestampTz look, TimestampTz claimed, const HintRange *keys,
				TimestampTz now)
{
	QueueHints *h = view->hints;

	if (h == NULL)
		return;
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	for (int i = 0; i < NUM_LEDGERS; i++)
	{
		Cover	   *c = LedgerFind(&h->ledger[i], until, keys);

		if (c != NULL && c->look <= look &&
			(c->keep || (c->count > 0 && claimed > h->forgot)))
		{
			LWLockRelease(&h->lock);
			return;
		}
	}
	HintsNoteLease(h, kind, until, look, keys, now);
	LWLockRelease(&h->lock);
}

/*
 * HintsPassDelayed
 *		A claim is about to pass rows that are not due, the first at "due": rule
 *		7.  False: it must not, for the open set has room for them.
 */
bool
HintsPassDelayed(HintView *view, TimestampTz due, TimestampTz look,
				 const HintRange *keys, TimestampTz now)
{
	QueueHints *h = view->hints;
	bool		crowded;

	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	crowded = h->open.n > MAX_OPEN / 2;
	if (crowded)
		HintsNoteLease(h, NOTE_DELAYED, due, look, keys, now);
	LWLockRelease(&h->lock);
	return crowded;
}

/*
 * HintsPassLocked
 *		A claim is about to pass a row that a claimer has locked, or that has
 *		just changed: rule 6.  False: it must not.
 */
bool
HintsPassLocked(HintView *view, const HintRange *keys, TimestampTz now)
{
	QueueHints *h = view->hints;
	bool		kept;

	if (h == NULL)
		return false;
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	kept = HintsRetry(h, keys, InvalidTransactionId, now);
	LWLockRelease(&h->lock);
	return kept;
}

/*
 * HintsGeneration
 *		To be read before looking at rows: rule 2.
 */
uint64
HintsGeneration(QueueHints *h)
{
	uint64		generation;

	LWLockAcquire(&h->lock, LW_SHARED);
	generation = h->log.generation;
	LWLockRelease(&h->lock);
	return generation;
}

/*
 * HintsLowestSince
 *		The lowest key opened since a generation; false when the log does not
 *		reach back so far.
 */
bool
HintsLowestSince(QueueHints *h, uint64 generation, HintKey *lowest)
{
	bool		known;

	LWLockAcquire(&h->lock, LW_SHARED);
	known = LogLowestSince(&h->log, generation, lowest);
	LWLockRelease(&h->lock);
	return known;
}

/*
 * HintsNoneBefore
 *		Has nothing before this key been opened since?
 */
bool
HintsNoneBefore(QueueHints *h, uint64 generation, const HintKey *key)
{
	HintKey		lowest;
	bool		known;

	LWLockAcquire(&h->lock, LW_SHARED);
	known = LogLowestSince(&h->log, generation, &lowest);
	LWLockRelease(&h->lock);
	return known && KeyCompare(&lowest, key) >= 0;
}

bool
HintsContains(QueueHints *h, const HintKey *key)
{
	bool		contains;

	LWLockAcquire(&h->lock, LW_SHARED);
	contains = OpenContains(&h->open, key);
	LWLockRelease(&h->lock);
	return contains;
}
