/*-------------------------------------------------------------------------
 *
 * hintdue.c
 *	  Keys that are opened when their time has come.
 *
 * What a claim has passed is not forgotten: a lease ends (a cover in a
 * ledger), a row was locked when the walk went by, a prepared transaction is
 * still to end (retries).  Each has a time for the next look; whoever reads
 * the hints then opens the keys first (hintwalk.c).  Rules 1, 5 and 6 of
 * hints.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "hintentry.h"
#include "storage/procarray.h"

static void
find_next_look(QueueHints *h)
{
	h->next_look = PG_INT64_MAX;
	for (int i = 0; i < NUM_LEDGERS; i++)
		h->next_look = Min(h->next_look, h->ledger[i].next_look);
	for (int i = 0; i < h->nretries; i++)
		h->next_look = Min(h->next_look, h->retry[i].when);
}

/*
 * HintsNextLook
 *		When a cover or retry is to be opened next.
 */
TimestampTz
HintsNextLook(QueueHints *h)
{
	TimestampTz look;

	LWLockAcquire(&h->lock, LW_SHARED);
	look = h->next_look;
	LWLockRelease(&h->lock);
	return look;
}

/*
 * HintsOpenDue
 *		Open the keys of every cover and retry whose time has come.  The caller
 *		has the lock.
 */
void
HintsOpenDue(QueueHints *h, TimestampTz now)
{
	HintRange	keys[MAX_COVERS];
	int			n;

	for (int kind = 0; kind < NUM_LEDGERS; kind++)
	{
		n = LedgerDue(&h->ledger[kind], now, keys);
		for (int i = 0; i < n; i++)
			HintsOpenKeys(h, &keys[i]);
	}
	for (int i = 0; i < h->nretries;)
	{
		Retry	   *r = &h->retry[i];

		/* the clock has been set back */
		if (r->when > now + RETRY_AFTER)
			r->when = now;
		if (r->when <= now && TransactionIdIsValid(r->xid) &&
			TransactionIdIsInProgress(r->xid))
			r->when = now + RETRY_AFTER;
		if (r->when > now)
		{
			i++;
			continue;
		}
		HintsOpenKeys(h, &r->keys);
		h->retry[i] = h->retry[--h->nretries];
	}
	find_next_look(h);
}

/*
 * HintsNoteLease
 *		Look again at keys that are leased, though no claim of ours enters
 *		them.  The caller has the lock.
 */
void
HintsNoteLease(QueueHints *h, NoteKind kind, TimestampTz until,
			   TimestampTz look, const HintRange *keys, TimestampTz now)
{
	Ledger	   *ledger = &h->ledger[NUM_LEASE_KINDS + kind];

	LedgerNote(ledger, until, look, keys, now);
	h->next_look = Min(h->next_look, ledger->next_look);
}

/*
 * HintsRetry
 *		Look again at keys in a moment, or when a transaction is over.  Where
 *		there is no room for one more, the retry is widened that is closest by:
 *		what lies between is walked again.  False: there is none to widen.  The
 *		caller has the lock.
 */
bool
HintsRetry(QueueHints *h, const HintRange *keys, TransactionId xid,
		   TimestampTz now)
{
	Retry	   *r = NULL;
	double		distance = 0;
	int			n = 0;

	for (int i = 0; i < h->nretries; i++)
	{
		double		d = RangeDistance(&h->retry[i].keys, keys);

		if (h->retry[i].xid != xid)
			continue;
		if (n++ == 0 || d < distance)
		{
			r = &h->retry[i];
			distance = d;
		}
	}
	if ((r == NULL || distance > 0) && h->nretries < MAX_RETRIES &&
		n < (TransactionIdIsValid(xid) ? 1 : MAX_LOCKED))
	{
		r = &h->retry[h->nretries++];
		r->keys = *keys;
		r->xid = xid;
		r->when = now + RETRY_AFTER;
	}
	/* all are other transactions' watches */
	if (r == NULL)
		return false;
	r->keys.lo = KeyMin(&r->keys.lo, &keys->lo);
	r->keys.hi = KeyMax(&r->keys.hi, &keys->hi);
	h->next_look = Min(h->next_look, r->when);
	return true;
}
