/*-------------------------------------------------------------------------
 *
 * hints.c
 *	  What the server remembers of a queue's order, in shared memory.
 *
 * A claim wants the first claimable rows in claim order.  In front of them
 * the index is full of rows that are leased, and of entries of rows long
 * settled that an old snapshot keeps from being removed.  The hints let a
 * claim step over neither.  The rows are the only truth: a hint may cost
 * time, never exactness.  Everything here can be lost, and is at a restart;
 * the first claim then walks from the left.
 *
 * For each queue there are
 *
 *	  the open set: the keys at which claimable rows may be.  A claim walks
 *	  these ranges and nothing else.  The range in which a level of priority
 *	  ends is that level's position; the other ranges are revisits, places
 *	  behind a position that have become worth a look again;
 *
 *	  the ledgers: outstanding leases by the time they end, with the keys they
 *	  lie between (ledger.c);
 *
 *	  the log: how often something was opened, and the lowest key each time.
 *
 * Invariant: a committed row that is claimable now has its key in the open
 * set, or a claim has reserved it and is about to look at it, or the
 * transaction that made it so has yet to run its commit callback, or it is
 * one the server has not been told of (see rule 8).  A committed row
 * that is leased has its key in the open set, or in a cover that will be
 * looked at when the lease ends, or its claim has yet to run its callback.
 * So has one that is not due, but its cover is looked at when it is.
 *
 * The hints of a queue belong to one shape of its table: which columns make
 * up the order, and which file it is in.  With another shape they begin anew,
 * and so they do when there was no index to walk for a time, in which nobody
 * told anything.
 *
 * The protocol:
 *
 * 1. Open everything.  Every transaction whose commit or abort leaves an
 *	  unleased row (a send, a retry under its new key, a release, a redrive, an
 *	  aborted claim, a row changed by hand) opens the row's key; so does every
 *	  cover whose time has come.  Opening adds the keys to the open set and
 *	  their lowest to the log, unconditionally, in one critical section.  It
 *	  comes after the commit or abort is visible, never before (pending.c).
 * 2. Read before looking.  A claim copies generation and open set before it
 *	  reads the first row (HintsRead).
 * 3. Pass only so far.  Keys that a claim has walked over and left nothing
 *	  claimable at are taken out of the open set (HintsPass), but none at or
 *	  above the lowest key opened since the claim read the generation: the row
 *	  opened may have become claimable after the walk went by.  If the log no
 *	  longer reaches back so far, nothing is taken out.
 * 4. A claim passes rows before it takes them, so that the next claimer
 *	  starts behind them and no two meet at one row.  When it has come to a
 *	  claimable row whose key is still open, it reserves it, with as many index
 *	  entries behind it as it still wants rows: it takes their keys out of the
 *	  open set, within rule 3, for it has read the index before (HintsReserve).
 *	  Only then does it look at the rows behind the first.  It goes over all it
 *	  has reserved; a row that it leaves there claimable it opens again.  A
 *	  claim that finds the key of the row at hand closed by others begins again
 *	  behind it, with rule 2.  If the transaction aborts, be it in the midst of
 *	  the walk, all that it has reserved is opened.  A claim also passes what
 *	  its own transaction has settled, deleted or moved before; so when a
 *	  transaction that had written something before it walked aborts, all that
 *	  it passed is opened again.
 * 5. A row with a live lease may be passed if it is entered in a ledger, or
 *	  else when the walk notes it there, before it passes it; if it has
 *	  reserved the row, before the call is over.  A cover that
 *	  others may take off to nothing counts only for a lease that was claimed
 *	  since the hints were last forgotten: that one is, or will be, entered.
 * 6. A row that somebody has locked is not passed: its key stays open.  But if
 *	  the locker is a transaction that has claimed rows of ours and has written
 *	  a new version of this one, it is passed, and so is a row that has changed
 *	  since the walk saw it: whoever did that tells of it at his end.  In case
 *	  he does not (he may have written this very row by hand, and roll back)
 *	  its key is opened again a moment later.
 * 7. A row that is not due is not passed, nor is what comes behind it on its
 *	  level; unless, where so many levels have such rows that the open set has
 *	  no room for all, the walk notes before when the first of them comes due.
 *	  A claim with a filter of its own passes nothing: it would pass what its
 *	  filter hides.
 * 8. What no callback sees (changes with triggers disabled, logical
 *	  replication, restores) is found by the reaper, which reads the whole
 *	  table a stretch at a time and opens whatever is claimable but not open,
 *	  unless a transaction that claims rows is writing it: that one will tell.
 *
 * A claim enters its leases when it commits, or is prepared; a settlement
 * takes them off when it commits; an extension moves them.
 *
 * Here is what is told to the hints, by transactions as they end above all
 * (pending.c).  What claims read and take out is in hintwalk.c, what opens
 * when its time has come in hintdue.c, the arithmetic in position.c and
 * ledger.c.
 *
 * Locking: each queue's hints have a lock of their own, held only for the
 * arithmetic here; nothing under it allocates, raises or waits.  The table of
 * queues is in hinttable.c, under a lock of its own.  An entry is given back only when its
 * table is gone, so a pointer stays good as long as the table is locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "hintentry.h"
#include "utils/timestamp.h"

/*
 * The numbers of receipts, which claimed_at is, run a little ahead of the
 * clock at times.
 */
static void
distrust(QueueHints *h)
{
	h->forgot = GetCurrentTimestamp() + USECS_PER_SEC;
}

/*
 * HintsReset
 *		Forget what was known.  The caller has the lock.
 */
void
HintsReset(QueueHints *h)
{
	OpenAll(&h->open);
	/* whoever has read the generation must not pass anything */
	h->log.generation += LOG_SIZE + 1;
	for (int i = 0; i < NUM_LEDGERS; i++)
		LedgerReset(&h->ledger[i]);
	distrust(h);
	h->nretries = 0;
	h->next_look = PG_INT64_MAX;
}

/*
 * HintsOpenKeys
 *		Rule 1.  The caller has the lock.
 */
void
HintsOpenKeys(QueueHints *h, const HintRange *keys)
{
	OpenAdd(&h->open, keys);
	LogAdd(&h->log, &keys->lo);
}

/*
 * HintsOpen
 *		Rows with these keys may have become claimable: rule 1.
 */
void
HintsOpen(QueueHints *h, const HintRange *keys)
{
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	HintsOpenKeys(h, keys);
	LWLockRelease(&h->lock);
}

/*
 * HintsOpenAll
 *		Forget what was known.
 */
void
HintsOpenAll(QueueHints *h)
{
	HintRange	all = {KEY_FIRST, KEY_LAST};

	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (h->open.n != 1 ||
		KeyCompare(&h->open.range[0].lo, &all.lo) != 0 ||
		KeyCompare(&h->open.range[0].hi, &all.hi) != 0)
		h->resets++;
	HintsReset(h);
	LWLockRelease(&h->lock);
}

/*
 * HintsDistrust
 *		Leases have been entered under another end than they have.
 */
void
HintsDistrust(QueueHints *h)
{
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	distrust(h);
	LWLockRelease(&h->lock);
}

/*
 * HintsEnter
 *		Leases have been committed.  Those that have ended by now are opened
 *		at once.
 */
void
HintsEnter(QueueHints *h, LeaseKind kind, TimestampTz until,
		   const HintRange *keys, int64 count, uint64 sum)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (until <= now)
		HintsOpenKeys(h, keys);
	else
	{
		LedgerEnter(&h->ledger[kind], until, keys, count, sum, now);
		h->next_look = Min(h->next_look, h->ledger[kind].next_look);
	}
	LWLockRelease(&h->lock);
}

/*
 * HintsNote
 *		Leases that no claim enters have been committed.
 */
void
HintsNote(QueueHints *h, TimestampTz until, const HintRange *keys)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (until <= now)
		HintsOpenKeys(h, keys);
	else
		HintsNoteLease(h, NOTE_LATER, until, until, keys, now);
	LWLockRelease(&h->lock);
}

/*
 * HintsTakeOff
 *		Leases have ended before their time.
 */
void
HintsTakeOff(QueueHints *h, TimestampTz until, const HintRange *keys,
			 int64 count, uint64 sum)
{
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	for (int kind = 0; kind < NUM_LEASE_KINDS; kind++)
	{
		Cover	   *c = LedgerFind(&h->ledger[kind], until, keys);

		if (c != NULL)
		{
			LedgerTakeOff(&h->ledger[kind], c, count, sum);
			break;
		}
	}
	LWLockRelease(&h->lock);
}

/*
 * HintsWatch
 *		Open keys when a prepared transaction is over.
 */
void
HintsWatch(QueueHints *h, const HintRange *keys, TransactionId xid)
{
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	/* without room for it, rule 8 finds what it makes claimable */
	(void) HintsRetry(h, keys, xid, GetCurrentTimestamp());
	LWLockRelease(&h->lock);
}

/*
 * HintsLook
 *		Copy what tells an operator how well claims know their way.
 */
void
HintsLook(QueueHints *h, HintsState *state)
{
	LWLockAcquire(&h->lock, LW_SHARED);
	state->open = h->open;
	state->covers = 0;
	for (int i = 0; i < NUM_LEDGERS; i++)
		state->covers += h->ledger[i].n;
	state->falls = h->open.overflows + h->overruns + h->resets;
	LWLockRelease(&h->lock);
}
