/*-------------------------------------------------------------------------
 *
 * pendtell.c
 *	  Tell the hints what one entry of a transaction's list means, at its end.
 *
 * The list is kept in pending.c, whose callbacks call this with each entry,
 * and which tells what becomes of each kind.  All of this runs where nothing
 * may fail or allocate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pendentry.h"
#include "utils/resowner.h"
#include "waiters.h"

/* queues whose settings the transaction that is ending has changed; of more
 * than this, rule 8 finds what is missed */
#define MAX_ALTERED	64
static QueueHints *altered[MAX_ALTERED];
static int	naltered = 0;

/*
 * New settings of a queue are known to others only when the transaction has
 * sent its invalidations, after the callback.  A walk in between would pass
 * rows by the old ones, so all is opened once more; see also WalkBegin.
 */
static void
at_release(ResourceReleasePhase phase, bool isCommit, bool isTopLevel,
		   void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !isTopLevel)
		return;
	while (naltered > 0)
		HintsOpenAll(altered[--naltered]);
}

/*
 * PendingTellCommit
 *		What the entry stands for has been committed.
 */
void
PendingTellCommit(const PendingEntry *e)
{
	switch (e->kind)
	{
		case PENDING_LEASE:
		case PENDING_ENTER:
			HintsEnter(e->hints, e->lease, e->until, &e->keys, e->count, e->sum);
			if (e->coarse)
				HintsDistrust(e->hints);
			break;
		case PENDING_TAKE_OFF:
			HintsTakeOff(e->hints, e->until, &e->keys, e->count, e->sum);
			break;
		case PENDING_NOTE:
			HintsNote(e->hints, e->until, &e->keys);
			if (e->coarse)
				HintsDistrust(e->hints);
			break;
		case PENDING_OPEN:
			HintsOpen(e->hints, &e->keys);
			WaitersWakeLater(HintsNumber(e->hints), e->count);
			break;
		case PENDING_WAKE:
			WaitersWakeLater(HintsNumber(e->hints), e->count);
			break;
		case PENDING_OPEN_ALL:
			HintsOpenAll(e->hints);
			if (naltered < MAX_ALTERED)
				altered[naltered++] = e->hints;
			WaitersWakeLater(HintsNumber(e->hints), WAKE_ALL);
			break;
		case PENDING_PASSED:
			break;
	}
}

/*
 * PendingTellAbort
 *		It has been undone, by the transaction or a subtransaction.
 */
void
PendingTellAbort(const PendingEntry *e)
{
	if (e->kind != PENDING_LEASE && e->kind != PENDING_PASSED)
		return;
	HintsOpen(e->hints, &e->keys);
	WaitersWakeLater(HintsNumber(e->hints), e->count);
}

/*
 * PendingTellPrepare
 *		It has been prepared: another session will decide.
 */
void
PendingTellPrepare(const PendingEntry *e, TransactionId xid)
{
	switch (e->kind)
	{
		case PENDING_LEASE:
		case PENDING_NOTE:
			PendingTellCommit(e);
			HintsWatch(e->hints, &e->keys, xid);
			break;
		case PENDING_ENTER:
			PendingTellCommit(e);
			break;
		case PENDING_TAKE_OFF:
		case PENDING_WAKE:
			break;
		case PENDING_PASSED:
			/* at once, too: the spots of groups must not outlive it */
			HintsOpen(e->hints, &e->keys);
			HintsWatch(e->hints, &e->keys, xid);
			break;
		case PENDING_OPEN:
		case PENDING_OPEN_ALL:
			HintsWatch(e->hints, &e->keys, xid);
			break;
	}
}

void
PendingTellInit(void)
{
	RegisterResourceReleaseCallback(at_release, NULL);
}
