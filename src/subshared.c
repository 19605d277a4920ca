/*-------------------------------------------------------------------------
 *
 * subshared.c
 *	  The shared table of subscriptions and of the processes that run them.
 *
 * There is an entry for each subscription, a slot for each of its processes,
 * and a home for each database that has any.  Who does what:
 *
 *	  The keeper of a database (keeper.c) reads the definitions and publishes
 *	  what is to run.  It reserves a slot and asks the postmaster for the
 *	  process; what comes finds its slot by number and token.
 *
 *	  A process looks whether its entry still has the definition that it runs
 *	  by, and leaves when not.  So whatever changes, workers of old and new
 *	  definitions never run side by side: the keeper starts none while one of
 *	  another definition is still there.
 *
 *	  It publishes each batch it has claimed, for the keeper to extend.
 *
 * The sum of the workers of all subscriptions of the server is bounded, so
 * there are no more subscriptions, and no more databases that have any, than
 * the limit says.
 *
 * One lock covers all of it; it is held for arithmetic only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "settings.h"
#include "storage/shmem.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

SubTable   *SubShared = NULL;
LWLock	   *SubLock = NULL;

Size
SubShmemSize(void)
{
	Size		size = MAXALIGN(sizeof(SubTable));

	size = add_size(size, MAXALIGN(mul_size(InboxMaxSubscriptionWorkers, sizeof(SubEntry))));
	size = add_size(size, MAXALIGN(mul_size(InboxMaxSubscriptionWorkers, sizeof(SubSlot))));
	return add_size(size, mul_size(InboxMaxSubscriptionWorkers, sizeof(SubHome)));
}

/* Called under AddinShmemInitLock. */
void
SubShmemStartup(LWLock *lock)
{
	int			max = InboxMaxSubscriptionWorkers;
	char	   *p;
	bool		found;

	SubLock = lock;
	SubShared = ShmemInitStruct("inbox subscriptions", SubShmemSize(), &found);
	if (found)
		return;
	memset(SubShared, 0, SubShmemSize());
	p = (char *) SubShared + MAXALIGN(sizeof(SubTable));
	SubShared->max = max;
	SubShared->entry = (SubEntry *) p;
	p += MAXALIGN(max * sizeof(SubEntry));
	SubShared->slot = (SubSlot *) p;
	p += MAXALIGN(max * sizeof(SubSlot));
	SubShared->home = (SubHome *) p;
	for (int i = 0; i < max; i++)
		SubShared->slot[i].entry = NO_ENTRY;
}

/* Copy a text that may be too long. */
void
SubCopyText(char *to, const char *text)
{
	int			len = pg_mbcliplen(text, strlen(text), DATABASE_ERROR_LEN - 1);

	memcpy(to, text, len);
	to[len] = '\0';
}

/*
 * SubFind
 *		The entry of a subscription, or NULL.  The caller has the lock.
 */
SubEntry *
SubFind(Oid database, const char *name)
{
	Assert(LWLockHeldByMe(SubLock));
	for (int i = 0; i < SubShared->max; i++)
	{
		SubEntry   *entry = &SubShared->entry[i];

		if (entry->database == database && strcmp(NameStr(entry->name), name) == 0)
			return entry;
	}
	return NULL;
}

static bool
has_slot(int entry)
{
	for (int i = 0; i < SubShared->max; i++)
	{
		if (SubShared->slot[i].entry == entry)
			return true;
	}
	return false;
}

/*
 * Its last process may leave when the keeper has left, too.
 */
static bool
is_free(int i)
{
	SubEntry   *entry = &SubShared->entry[i];

	return !OidIsValid(entry->database) || (entry->gone && !has_slot(i));
}

static SubEntry *
enter(Oid database, const char *name)
{
	SubEntry   *entry = SubFind(database, name);

	for (int i = 0; entry == NULL && i < SubShared->max; i++)
	{
		if (!is_free(i))
			continue;
		entry = &SubShared->entry[i];
		memset(entry, 0, sizeof(*entry));
		entry->database = database;
		namestrcpy(&entry->name, name);
		entry->since = GetCurrentTimestamp();
	}
	return entry;
}

static void
wake(int entry)
{
	for (int i = 0; i < SubShared->max; i++)
	{
		SubSlot    *slot = &SubShared->slot[i];

		if (slot->entry == entry && slot->latch != NULL)
			SetLatch(slot->latch);
	}
}

/*
 * Those that are not defined any more.  An entry with a process in it is left
 * to go by itself.
 */
static void
forget_others(Oid database, List *subs)
{
	for (int i = 0; i < SubShared->max; i++)
	{
		SubEntry   *entry = &SubShared->entry[i];
		bool		defined = false;
		ListCell   *lc;

		if (entry->database != database)
			continue;
		foreach(lc, subs)
			defined |= strcmp(((Subscription *) lfirst(lc))->name, NameStr(entry->name)) == 0;
		if (defined)
			continue;
		if (has_slot(i))
		{
			entry->gone = true;
			entry->wanted = 0;
			entry->print = 0;
			wake(i);
		}
		else
			entry->database = InvalidOid;
	}
}

/*
 * SubPublish
 *		The definitions of a database as they are now, and for each why it
 *		cannot run, or NULL.
 */
void
SubPublish(Oid database, List *subs, List *problems)
{
	ListCell   *lc;
	ListCell   *lp;
	int			sum = 0;
	SubHome    *home;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home = SubHomeFind(database, false);
	if (home != NULL && home->changed)
	{
		/* they have changed since they were read */
		LWLockRelease(SubLock);
		return;
	}
	forget_others(database, subs);
	forboth(lc, subs, lp, problems)
	{
		Subscription *sub = lfirst(lc);
		const char *problem = lfirst(lp);
		SubEntry   *entry = enter(database, sub->name);
		uint64		print = SubscriptionPrint(sub);

		sum += sub->workers;
		if (entry == NULL)
			continue;
		entry->gone = false;
		if (entry->print != print)
		{
			entry->print = print;
			entry->crowded = false;
			entry->failures = 0;
			entry->retry_at = 0;
			wake(entry - SubShared->entry);
		}
		else if (problem == NULL && entry->wanted == 0)
		{
			/* what was the matter is over */
			entry->failures = 0;
			entry->retry_at = 0;
		}
		entry->workers = sub->workers;
		entry->owner = sub->owner;
		entry->wanted = problem == NULL ? sub->workers : 0;
		if (problem != NULL)
		{
			SubCopyText(entry->problem, problem);
			entry->crowded = false;
			wake(entry - SubShared->entry);
		}
		else if (entry->failures == 0 && !entry->crowded)
			entry->problem[0] = '\0';
	}
	home = SubHomeFind(database, sum > 0);
	if (home != NULL)
		home->workers = sum;
	LWLockRelease(SubLock);
}

/*
 * SubForgetDatabase
 *		It has been dropped, or has no subscriptions any more.
 */
void
SubForgetDatabase(Oid database)
{
	SubHome    *home;

	if (!SubReady())
		return;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	forget_others(database, NIL);
	home = SubHomeFind(database, false);
	if (home != NULL && home->keeper == 0 && home->pending == 0)
		home->database = InvalidOid;
	LWLockRelease(SubLock);
}

/*
 * SubThere
 *		A command needs the database empty.  Wake the keeper and the processes
 *		there, or cancel what they do; true: there are some.
 */
bool
SubThere(Oid database, bool cancel)
{
	bool		there = false;

	if (!SubReady())
		return false;
	LWLockAcquire(SubLock, LW_SHARED);
	for (int i = 0; i < SubShared->max; i++)
	{
		SubSlot    *slot = &SubShared->slot[i];
		SubHome    *home = &SubShared->home[i];

		if (home->database == database && home->keeper != 0)
		{
			there = true;
			SetLatch(home->latch);
			if (cancel)
				(void) kill(home->keeper, SIGINT);
		}
		if (slot->entry == NO_ENTRY || slot->pid == 0 ||
			SubShared->entry[slot->entry].database != database)
			continue;
		there = true;
		SetLatch(slot->latch);
		if (cancel)
			(void) kill(slot->pid, SIGINT);
	}
	LWLockRelease(SubLock);
	return there;
}

/*
 * SubRate
 *		Messages handled a second, over the last minute or so.
 */
double
SubRate(const SubEntry *entry, TimestampTz now)
{
	TimestampTz begin = Max(now - SUB_RATE_BUCKETS * SUB_BUCKET_USECS,
							entry->since);
	int64		sum = 0;

	for (int i = 0; i < SUB_RATE_BUCKETS; i++)
	{
		if (entry->bucket_at[i] >= now - SUB_RATE_BUCKETS * SUB_BUCKET_USECS)
			sum += entry->bucket[i];
	}
	return sum * (double) USECS_PER_SEC / Max(now - begin, USECS_PER_SEC);
}
