/*-------------------------------------------------------------------------
 *
 * keepstart.c
 *	  The keeper starts the processes of subscriptions.
 *
 * Each process of a subscription has a number, which with by_key is the share
 * of the keys that it handles.  None is started while one that runs by another
 * definition is there, so that no two of them handle the same key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "keeper.h"
#include "miscadmin.h"
#include "subshared.h"
#include "utils/timestamp.h"

/* a process that was asked for and does not come */
#define PATIENCE_USECS	(10 * USECS_PER_SEC)

/*
 * Is this slot in use for the entry?  One that was asked for long ago and has
 * not come is given up; should it come after all, its token is an old one.
 */
static bool
in_use(SubSlot *slot, int entry, TimestampTz now)
{
	if (slot->entry != entry)
		return false;
	if (slot->pid == 0 && slot->asked_at + PATIENCE_USECS < now)
	{
		slot->entry = NO_ENTRY;
		return false;
	}
	return true;
}

/*
 * missing_number
 *		The lowest number for which the entry has no process; -1 when it has
 *		all that it wants, or has to wait for others to go.
 */
static int
missing_number(int e, TimestampTz now)
{
	SubEntry   *entry = &SubShared->entry[e];

	for (int number = 0; number < entry->wanted; number++)
	{
		bool		there = false;

		for (int i = 0; i < SubShared->max; i++)
		{
			SubSlot    *slot = &SubShared->slot[i];

			if (!in_use(slot, e, now))
				continue;
			if (slot->print != entry->print)
				return -1;
			there |= slot->number == number;
		}
		if (!there)
			return number;
	}
	return -1;
}

/* There is no place for another process; stays until all are there. */
static void
set_crowded(SubEntry *entry, const char *problem)
{
	SubCopyText(entry->problem, problem);
	entry->crowded = true;
}

static void
clear_crowded(SubEntry *entry)
{
	if (entry->crowded)
		entry->problem[0] = '\0';
	entry->crowded = false;
}

/*
 * reserve
 *		Reserve a slot for the next process to be started; -1: there is none
 *		to start.  *next is when to try again.
 */
static int
reserve(TimestampTz *next)
{
	TimestampTz now = GetCurrentTimestamp();
	int			reserved = -1;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	for (int e = 0; e < SubShared->max && reserved < 0; e++)
	{
		SubEntry   *entry = &SubShared->entry[e];
		int			number;

		if (entry->database != MyDatabaseId)
			continue;
		number = missing_number(e, now);
		if (number < 0)
		{
			clear_crowded(entry);
			continue;
		}
		if (entry->retry_at > now)
		{
			*next = Min(*next, entry->retry_at);
			continue;
		}
		for (int i = 0; i < SubShared->max && reserved < 0; i++)
		{
			SubSlot    *slot = &SubShared->slot[i];

			if (slot->entry != NO_ENTRY && in_use(slot, slot->entry, now))
				continue;
			slot->entry = e;
			slot->token = ++SubShared->tokens & 0xfffff;
			slot->print = entry->print;
			slot->number = number;
			slot->phase = SUB_STARTING;
			slot->pid = 0;
			slot->latch = NULL;
			slot->batch = 0;
			slot->current = -1;
			slot->current_seq = slot->lost_seq = 0;
			slot->asked_at = now;
			reserved = i;
		}
		if (reserved < 0)
			set_crowded(entry, "waiting: all of inbox.max_subscription_workers are in use");
	}
	LWLockRelease(SubLock);
	return reserved;
}

static void
refused(int i)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	set_crowded(&SubShared->entry[SubShared->slot[i].entry],
				"waiting: no background worker slot left, see max_worker_processes");
	SubShared->slot[i].entry = NO_ENTRY;
	LWLockRelease(SubLock);
}

static bool
start(int i)
{
	SubSlot    *slot = &SubShared->slot[i];
	BackgroundWorker worker;

	BgProcDescribe(&worker, "inbox subscription", "SubscriptionMain",
				   UInt32GetDatum(slot->token * SUB_MAX_SLOTS + i));
	snprintf(worker.bgw_name, BGW_MAXLEN, "inbox subscription %s",
			 NameStr(SubShared->entry[slot->entry].name));
	return BgProcStart(&worker, NULL, NULL);
}

/*
 * KeeperStartWorkers
 *		Start what is to be started; returns when to come back at the latest.
 */
TimestampTz
KeeperStartWorkers(void)
{
	TimestampTz next = PG_INT64_MAX;
	long		wait;
	int			i;

	while ((wait = BgProcRefusedFor()) == 0 && (i = reserve(&next)) >= 0)
	{
		if (!start(i))
			refused(i);
	}
	return wait == 0 ? next :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), wait);
}

/*
 * KeeperAnyWorker
 *		Is there a process of this database's subscriptions?
 */
bool
KeeperAnyWorker(void)
{
	bool		found = false;

	LWLockAcquire(SubLock, LW_SHARED);
	for (int i = 0; i < SubShared->max; i++)
	{
		SubSlot    *slot = &SubShared->slot[i];

		found |= slot->entry != NO_ENTRY && slot->pid != 0 &&
			SubShared->entry[slot->entry].database == MyDatabaseId;
	}
	LWLockRelease(SubLock);
	return found;
}
