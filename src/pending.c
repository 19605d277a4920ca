/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  What a transaction will have to tell the hints when it ends.
 *
 * Nothing that a transaction does may reach the hints before it is visible
 * to others (rule 1 of hints.c), so it is put on a list here and told by the
 * callback that runs after commit or abort has become visible and before the
 * transaction's locks are released (pendtell.c).  The callback only does
 * arithmetic in shared memory: it cannot fail, and it allocates nothing.
 *
 *	  a claim's leases	commit: enter them		abort: open their keys
 *	  an extension		commit: enter, take off
 *	  a settlement		commit: take off
 *	  rows made ready	commit: open their keys
 *	  a group freed		commit: wake
 *	  leases by hand	commit: note them
 *	  keys passed		abort: open them (rule 4)
 *
 * A subtransaction hands its list up when it commits; when it aborts, the
 * keys it has taken or passed are opened at once and the rest is forgotten.
 *
 * Where keys are opened, as many of those who wait for the queue are woken as
 * there are rows (waiters.c).
 *
 * A prepared transaction ends in another session, which knows nothing of the
 * list.  At PREPARE its leases are entered; its settlements are not taken
 * off, as they may yet be undone; and all keys that its end may make
 * claimable are put on watch: they are opened when it is over.
 *
 * Entries of one kind are joined as they come, so the list stays short in a
 * transaction of any length (pendjoin.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "pendentry.h"
#include "receipt.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SENT_JUST_NOW	USECS_PER_SEC

/* in TopTransactionContext; forgotten at the end of the transaction */
static PendingEntry *entries = NULL;
static int	nentries = 0;
static int	size = 0;

static bool claiming = false;	/* our transaction is known as a claimer */
static TransactionId prepared_xid;	/* between PRE_PREPARE and PREPARE */

/*
 * PendingRoom
 *		Make sure that the next entry can be added.
 */
void
PendingRoom(void)
{
	if (nentries < size)
		return;
	size = Max(2 * size, 32);
	if (entries == NULL)
		entries = MemoryContextAlloc(TopTransactionContext,
									 size * sizeof(PendingEntry));
	else
		entries = repalloc(entries, size * sizeof(PendingEntry));
}

static void
add_entry(const PendingEntry *entry)
{
	PendingEntry *e = PendingFindJoining(entries, nentries, entry);

	if (e != NULL)
	{
		PendingJoin(e, entry);
		return;
	}
	PendingRoom();
	entries[nentries++] = *entry;
}

static void
add(PendingKind kind, QueueHints *hints, LeaseKind lease, TimestampTz until,
	int64 attempt, const HintRange *keys, int64 count, uint64 sum)
{
	PendingEntry entry = {0};

	if (hints == NULL)
		return;
	entry.kind = kind;
	entry.hints = hints;
	entry.level = GetCurrentTransactionNestLevel();
	entry.lease = lease;
	entry.until = until;
	entry.attempt = attempt;
	entry.keys = *keys;
	entry.count = count;
	entry.sum = sum;
	add_entry(&entry);
}

/*
 * The numbers of receipts follow each other, so that sums of them would
 * often be alike; those of hashes are not.
 */
static uint64
hash_receipt(Queue *q, const LeaseRow *row)
{
	int64		number = ReceiptNumber(q, row);

	return hash_bytes_extended((const unsigned char *) &number,
							   sizeof(number), 0);
}

/*
 * PendingLease
 *		A claim has taken a row.
 */
void
PendingLease(Queue *q, LeaseKind kind, const LeaseRow *row,
			 const HintRange *keys)
{
	add(PENDING_LEASE, HintsFor(q), kind, row->locked_until, 0, keys, 1,
		hash_receipt(q, row));
	if (!claiming)
	{
		HintsClaiming(GetTopTransactionId());
		claiming = true;
	}
}

/*
 * PendingSettle
 *		A lease is over before its time.
 */
void
PendingSettle(Queue *q, const LeaseRow *row, const HintRange *keys)
{
	add(PENDING_TAKE_OFF, HintsFor(q), LEASE_NEW, row->locked_until,
		row->attempt, keys, 1, hash_receipt(q, row));
}

/*
 * PendingExtend
 *		A lease ends at another time than before.
 */
void
PendingExtend(Queue *q, const LeaseRow *before, const LeaseRow *after,
			  const HintRange *keys)
{
	PendingSettle(q, before, keys);
	add(PENDING_ENTER, HintsFor(q), LEASE_EXTENDED, after->locked_until, 0,
		keys, 1, hash_receipt(q, after));
}

/*
 * PendingOpen
 *		Rows between these keys may be claimable, "rows" of them now.
 */
void
PendingOpen(Queue *q, const HintRange *keys, int64 rows)
{
	add(PENDING_OPEN, HintsFor(q), LEASE_NEW, 0, 0, keys, rows, 0);
}

/*
 * PendingSent
 *		Rows have been sent.  If claims have closed the rest of the level, up
 *		to its end, it becomes a position again: more are to come behind them.
 */
void
PendingSent(Queue *q, const HintRange *keys, int64 rows)
{
	QueueHints *hints = HintsFor(q);
	HintRange	sent = *keys;
	HintKey		end = {keys->hi.priority, PG_INT64_MAX, PG_INT64_MAX};

	/* but not if leased rows lie behind them */
	if (hints != NULL && QueueHas(q, ROLE_PRIORITY) &&
		(!QueueHas(q, ROLE_DUE_AT) ||
		 keys->hi.due > GetCurrentTimestamp() - SENT_JUST_NOW) &&
		!HintsContains(hints, &end))
		sent.hi = end;
	PendingOpen(q, &sent, rows);
}

/*
 * PendingWake
 *		A row that is gone was in the way of another: its FIFO group is free.
 */
void
PendingWake(Queue *q)
{
	HintRange	none = {KEY_LAST, KEY_LAST};

	add(PENDING_WAKE, HintsFor(q), LEASE_NEW, 0, 0, &none, 1, 0);
}

/*
 * PendingNote
 *		A lease that no claim has made, or that somebody has rewritten.
 */
void
PendingNote(Queue *q, TimestampTz until, const HintRange *keys)
{
	add(PENDING_NOTE, HintsFor(q), LEASE_NEW, until, 0, keys, 1, 0);
}

/*
 * PendingPassed
 *		A claim has reserved these keys; or it is about to pass them, and may
 *		have seen there what this transaction itself has written.
 */
void
PendingPassed(QueueHints *hints, const HintRange *keys)
{
	add(PENDING_PASSED, hints, LEASE_NEW, 0, 0, keys, 1, 0);
}

/*
 * PendingUntold
 *		Has this transaction made rows that are not leased, or leased rows by
 *		hand, which nobody is told of yet?  It sees them already.
 */
bool
PendingUntold(QueueHints *hints)
{
	for (int i = 0; i < nentries; i++)
	{
		if (entries[i].hints == hints &&
			(entries[i].kind == PENDING_OPEN ||
			 entries[i].kind == PENDING_OPEN_ALL ||
			 entries[i].kind == PENDING_NOTE))
			return true;
	}
	return false;
}

/*
 * PendingOpenAll
 *		The queue's settings or its whole content have changed.
 */
void
PendingOpenAll(Oid relid)
{
	HintRange	all = {KEY_FIRST, KEY_LAST};

	add(PENDING_OPEN_ALL, HintsForTable(relid), LEASE_NEW, 0, 0, &all, 0, 0);
}

/*
 * What this transaction itself has made claimable, or has leased for a time
 * that is over.
 */
static bool
is_own(const PendingEntry *e, const QueueHints *hints, TimestampTz now)
{
	return e->hints == hints &&
		(e->kind == PENDING_OPEN || e->kind == PENDING_OPEN_ALL ||
		 ((e->kind == PENDING_LEASE || e->kind == PENDING_ENTER ||
		   e->kind == PENDING_NOTE) && e->until <= now));
}

/*
 * PendingOwn
 *		Add to an open set what this transaction itself has made claimable: it
 *		sees its own rows already.
 */
void
PendingOwn(QueueHints *hints, OpenSet *open, TimestampTz now)
{
	for (int i = 0; i < nentries; i++)
	{
		if (is_own(&entries[i], hints, now))
			(void) OpenAdd(open, &entries[i].keys);
	}
}

/*
 * PendingOwnsAny
 *		Has it made anything claimable?
 */
bool
PendingOwnsAny(const QueueHints *hints, TimestampTz now)
{
	for (int i = 0; i < nentries; i++)
	{
		if (is_own(&entries[i], hints, now))
			return true;
	}
	return false;
}

/*
 * PendingOwns
 *		Has it made this key's row claimable?
 */
bool
PendingOwns(QueueHints *hints, const HintKey *key, TimestampTz now)
{
	for (int i = 0; i < nentries; i++)
	{
		PendingEntry *e = &entries[i];

		if (is_own(e, hints, now) &&
			KeyCompare(&e->keys.lo, key) <= 0 &&
			KeyCompare(&e->keys.hi, key) >= 0)
			return true;
	}
	return false;
}

static void
at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			prepared_xid = GetTopTransactionIdIfAny();
			return;
		case XACT_EVENT_COMMIT:
			for (int i = 0; i < nentries; i++)
				PendingTellCommit(&entries[i]);
			break;
		case XACT_EVENT_ABORT:
			for (int i = 0; i < nentries; i++)
				PendingTellAbort(&entries[i]);
			break;
		case XACT_EVENT_PREPARE:
			for (int i = 0; i < nentries; i++)
				PendingTellPrepare(&entries[i], prepared_xid);
			break;
		default:
			return;
	}
	entries = NULL;
	nentries = size = 0;
	if (claiming)
		HintsClaiming(InvalidTransactionId);
	claiming = false;
}

static void
at_subxact_end(SubXactEvent event, SubTransactionId mySubid,
			   SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		int			end = nentries;

		while (nentries > 0 && entries[nentries - 1].level >= level)
			nentries--;
		/* each takes the place it had, or joins another */
		for (int i = nentries; i < end; i++)
		{
			PendingEntry entry = entries[i];

			entry.level = level - 1;
			add_entry(&entry);
		}
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (nentries > 0 && entries[nentries - 1].level >= level)
			PendingTellAbort(&entries[--nentries]);
	}
}

void
PendingInit(void)
{
	RegisterXactCallback(at_xact_end, NULL);
	RegisterSubXactCallback(at_subxact_end, NULL);
	PendingTellInit();
}
