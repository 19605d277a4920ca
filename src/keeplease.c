/*-------------------------------------------------------------------------
 *
 * keeplease.c
 *	  The keeper extends the leases of what subscriptions have in work.
 *
 * Each process publishes its batch (subslot.c).  When half of the lease is
 * over all that is not settled is extended.  A row that somebody has locked is
 * left for the next time: most likely it is the handler's own doing, or the
 * settlement, and then nobody else can have it meanwhile.
 *
 * When a message has been in work for a second, those behind it in the batch
 * are taken out of it and handed back, for others to have.
 *
 * A lease that turns out to be lost is told to the process, by a signal when
 * its message is in work now.
 *
 * All this is done as the queue's owner, restricted: his triggers may fire.
 * Who makes them last long loses his own leases, not those of others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "extend.h"
#include "keeper.h"
#include "miscadmin.h"
#include "owner.h"
#include "settle.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* a message in work for so long does not hold up those behind it */
#define SLOW_USECS		USECS_PER_SEC
/* for one batch */
#define TIMEOUT_MS		500
/* when that went wrong, or a row was locked */
#define AGAIN_USECS		(USECS_PER_SEC / 4)

/* What is to be done for one batch. */
typedef struct Task
{
	int			slot;
	uint64		batch;
	Oid			queue;
	int64		lease;
	bool		release;
	int			first;
	int			n;
	char		packed[SUB_RECEIPTS_LEN];	/* of the whole batch */
	Datum	   *receipts;		/* from first on */
	bool		judged;			/* the verdicts are there */
	Verdict    *verdicts;
} Task;

static void
unpack(Task *t)
{
	char	   *p = t->packed;

	t->receipts = palloc(t->n * sizeof(Datum));
	t->verdicts = palloc(t->n * sizeof(Verdict));
	t->judged = false;
	for (int i = 0; i < t->first + t->n; i++)
	{
		if (i >= t->first)
			t->receipts[i - t->first] = CStringGetTextDatum(p);
		p += strlen(p) + 1;
	}
}

/*
 * plan
 *		What is to be done for a slot now, if anything.
 */
static bool
plan(Task *t, int i, TimestampTz now)
{
	SubSlot    *slot = &SubShared->slot[i];
	bool		found = false;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	if (slot->entry != NO_ENTRY && slot->batch != 0 &&
		SubShared->entry[slot->entry].database == MyDatabaseId)
	{
		t->slot = i;
		t->batch = slot->batch;
		t->queue = slot->queue;
		t->lease = slot->lease;
		if (slot->current >= 0 && slot->current_at + SLOW_USECS <= now &&
			slot->end > slot->current + 1)
		{
			t->release = true;
			t->first = slot->current + 1;
			t->n = slot->end - t->first;
			slot->end = t->first;
			slot->cutting = MyProcPid;
			found = true;
		}
		else if (slot->extend_at <= now && slot->done < slot->end)
		{
			t->release = false;
			t->first = slot->done;
			t->n = slot->end - t->first;
			found = true;
		}
		if (found)
			memcpy(t->packed, slot->receipts, slot->receipts_len);
	}
	LWLockRelease(SubLock);
	if (found)
		unpack(t);
	return found;
}

/*
 * put_receipts
 *		Where an extension makes another receipt: put it in place before it
 *		becomes visible.
 */
static void
put_receipts(Task *t)
{
	SubSlot    *slot = &SubShared->slot[t->slot];
	char	   *all = palloc(SUB_RECEIPTS_LEN);
	char	  **ours = palloc(t->n * sizeof(char *));

	for (int i = 0; i < t->n; i++)
		ours[i] = TextDatumGetCString(t->receipts[i]);

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	if (slot->batch == t->batch)
	{
		const char *p = slot->receipts;
		Size		len = 0;
		int			i;

		for (i = 0; i < slot->n; i++)
		{
			bool		new = i >= t->first && i < t->first + t->n;
			const char *receipt = new ? ours[i - t->first] : p;
			Size		size = strlen(receipt) + 1;

			if (len + size > SUB_RECEIPTS_LEN)
				break;
			memcpy(all + len, receipt, size);
			len += size;
			p += strlen(p) + 1;
		}
		if (i == slot->n)
		{
			memcpy(slot->receipts, all, len);
			slot->receipts_len = len;
		}
	}
	LWLockRelease(SubLock);
}

/* Step: do it. */
static void
perform(void *arg)
{
	Task	   *t = arg;
	Queue	   *q = QueueTryOpen(t->queue, RowExclusiveLock, true);
	OwnerScope	scope;

	/* dropped, or being altered: then nobody else gets at it either */
	if (q == NULL)
		return;
	OwnerConstraintsImmediate();
	OwnerEnter(&scope, q->owner, true);
	if (t->release)
	{
		SettleRequest *requests = palloc0(t->n * sizeof(SettleRequest));

		for (int i = 0; i < t->n; i++)
			requests[i].outcome = OUTCOME_RELEASE;
		(void) SettleAll(q, t->receipts, requests, t->n);
	}
	else
	{
		memcpy(t->verdicts, ExtendUnlocked(q, t->receipts, t->n, t->lease),
			   t->n * sizeof(Verdict));
		t->judged = true;
		if (!QueueHas(q, ROLE_CLAIMED_AT))
			put_receipts(t);
	}
	OwnerLeave(&scope);
	QueueClose(q);
}

/*
 * tell
 *		Tell the process what has become of its batch.
 */
static void
tell(Task *t, bool ok)
{
	SubSlot    *slot = &SubShared->slot[t->slot];
	TimestampTz now = GetCurrentTimestamp();
	Verdict    *verdicts = t->verdicts;
	bool		again = !ok || !t->judged;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	if (slot->batch == t->batch)
	{
		for (int i = 0; ok && t->judged && i < t->n; i++)
		{
			int			item = t->first + i;

			again |= verdicts[i] == VERDICT_LOCKED;
			if ((verdicts[i] != VERDICT_STALE && verdicts[i] != VERDICT_GONE) ||
				item < slot->done)
				continue;
			slot->lost[item] = true;
			if (item == slot->current)
			{
				slot->lost_seq = slot->current_seq;
				(void) kill(slot->pid, SIGUSR2);
			}
		}
		if (t->release)
			slot->cutting = 0;
		else
			slot->extend_at = again ? now + AGAIN_USECS :
				now + t->lease * USECS_PER_SEC / 2;
		if (t->release && slot->latch != NULL)
			SetLatch(slot->latch);
	}
	LWLockRelease(SubLock);
}

/*
 * KeeperKeepLeases
 *		See to all batches of this database; true: there was something to do.
 */
bool
KeeperKeepLeases(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		busy = false;

	for (int i = 0; i < SubShared->max; i++)
	{
		Task		t;
		bool		ok;

		if (!plan(&t, i, now))
			continue;
		busy = true;
		ok = KeeperTry(perform, &t, TIMEOUT_MS);
		tell(&t, ok);
	}
	return busy;
}
