/*-------------------------------------------------------------------------
 *
 * subhome.c
 *	  Databases that have subscriptions: their keepers, and the limit.
 *
 * inbox.max_subscription_workers bounds the workers of all subscriptions of
 * the server together.  Who makes a subscription counts those of his own
 * database, whose definitions he has locked.  Of the others he takes the sums
 * that their keepers publish, and what is being reserved there: a reservation
 * is made here at once, and lasts to the end of its transaction.  At its
 * commit it becomes part of the sum, until the keeper has counted for itself.
 *
 * A keeper is asked for by the database's worker (worker.c), and wakes when
 * somebody has changed a definition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "hold.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "subshared.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* a keeper that has been asked for and does not come */
#define PATIENCE_USECS	(10 * USECS_PER_SEC)

/* this transaction's */
static int	reserved = 0;
static int	delta = 0;
static List *changed = NIL;		/* names, in TopTransactionContext */

static SubHome *my_home = NULL;
static bool my_end_good = false;

/*
 * Has it gone, or never come to have subscriptions?
 */
static bool
is_free(const SubHome *home)
{
	return !OidIsValid(home->database) ||
		(home->workers == 0 && home->pending == 0 && home->keeper == 0);
}

/*
 * SubHomeFind
 *		The caller has the lock; NULL when there is none, or no room.
 */
SubHome *
SubHomeFind(Oid database, bool enter)
{
	SubHome    *unused = NULL;

	Assert(LWLockHeldByMe(SubLock));
	for (int i = 0; i < SubShared->max; i++)
	{
		SubHome    *home = &SubShared->home[i];

		if (home->database == database)
			return home;
		if (unused == NULL && is_free(home))
			unused = home;
	}
	if (!enter || unused == NULL)
		return NULL;
	memset(unused, 0, sizeof(*unused));
	unused->database = database;
	return unused;
}

/*
 * SubHomeChanged
 *		Its keeper is to read the definitions again.  The caller has the lock
 *		for himself, and sets the keeper's latch when he has released it; NULL
 *		when there is none.
 */
Latch *
SubHomeChanged(Oid database)
{
	SubHome    *home = SubHomeFind(database, false);

	if (home == NULL)
		return NULL;
	home->changed = true;
	return home->latch;
}

/*
 * SubReserve
 *		Reserve so many workers more, or give some back, where this database
 *		has "own".  False, and in *taken how many there are in all, when there
 *		is no room for them.
 */
bool
SubReserve(int workers, int own, int *taken)
{
	SubHome    *home;
	bool		ok;

	*taken = own;
	if (!SubReady())
		return workers <= 0;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	for (int i = 0; i < SubShared->max; i++)
	{
		home = &SubShared->home[i];
		if (OidIsValid(home->database) && home->database != MyDatabaseId)
			*taken += home->workers + home->pending;
	}
	ok = workers <= 0 || *taken + workers <= SubShared->max;
	home = ok && workers > 0 ? SubHomeFind(MyDatabaseId, true) : NULL;
	if (home != NULL)
	{
		home->pending += workers;
		reserved += workers;
	}
	LWLockRelease(SubLock);
	if (ok)
		delta += workers;
	return ok;
}

/*
 * SubChanged
 *		The transaction at hand changes the definition of that name.
 */
void
SubChanged(const char *name)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	changed = lappend(changed, pstrdup(name));
	MemoryContextSwitchTo(old);
}

/*
 * tell_change
 *		Who runs by an old definition leaves, from the commit on: what is sent
 *		after a pause nobody handles.  The keeper may have read the definitions
 *		just before, so it is told under the same lock to read them again, and
 *		does not publish what it has read.
 */
static void
tell_change(void)
{
	Latch	   *latch;
	ListCell   *lc;

	if (!SubReady())
		return;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	foreach(lc, changed)
	{
		SubEntry   *entry = SubFind(MyDatabaseId, lfirst(lc));

		/* nor is another started before the keeper has read them */
		if (entry != NULL)
			entry->print = entry->wanted = 0;
	}
	latch = SubHomeChanged(MyDatabaseId);
	LWLockRelease(SubLock);
	if (latch != NULL)
		SetLatch(latch);
}

static void
settle_reservation(bool commit)
{
	SubHome    *home;

	if (SubReady() && (reserved != 0 || delta != 0))
	{
		LWLockAcquire(SubLock, LW_EXCLUSIVE);
		home = SubHomeFind(MyDatabaseId, false);
		if (home != NULL)
		{
			home->pending -= reserved;
			if (commit)
				home->workers = Max(home->workers + delta, 0);
		}
		LWLockRelease(SubLock);
	}
	reserved = delta = 0;
}

/* What comes after the commit must not fail and does not allocate. */
static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			settle_reservation(true);
			if (changed != NIL)
			{
				tell_change();
				/* there may be none yet: its worker starts it */
				if (DatabaseReady())
					DatabaseLookAgain(MyDatabaseId, true);
			}
			changed = NIL;
			break;
		case XACT_EVENT_ABORT:
			settle_reservation(false);
			changed = NIL;
			break;
		default:
			break;
	}
}

/* Called from _PG_init. */
void
SubHomeInit(void)
{
	RegisterXactCallback(at_xact_event, NULL);
}

/*
 * SubWantsKeeper
 *		The database has subscriptions: is a keeper to be started?
 */
bool
SubWantsKeeper(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	SubHome    *home;
	bool		result;

	if (!SubReady())
		return false;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home = SubHomeFind(database, true);
	result = home != NULL && home->keeper == 0 && home->retry_at <= now &&
		home->asked_at + PATIENCE_USECS <= now;
	LWLockRelease(SubLock);
	return result;
}

void
SubKeeperAsked(Oid database)
{
	SubHome    *home;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home = SubHomeFind(database, false);
	if (home != NULL)
		home->asked_at = GetCurrentTimestamp();
	LWLockRelease(SubLock);
}

/* It could not be started, or it has died. */
static void
note_failure(SubHome *home)
{
	home->failures++;
	home->asked_at = 0;
	home->retry_at =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									DatabaseRetryDelay(home->failures));
}

void
SubKeeperFailed(Oid database, const char *error)
{
	SubHome    *home;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home = SubHomeFind(database, false);
	if (home != NULL)
	{
		note_failure(home);
		SubCopyText(home->error, error);
	}
	LWLockRelease(SubLock);
}

/*
 * SubHeld
 *		Does a command need the database empty?
 */
bool
SubHeld(Oid database)
{
	bool		held;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	held = HoldExists(database);
	LWLockRelease(DatabaseLock);
	return held;
}

static void
detach_keeper(int code, Datum arg)
{
	SubHome    *home = my_home;

	if (home == NULL)
		return;
	my_home = NULL;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home->keeper = 0;
	home->latch = NULL;
	home->sleeping = false;
	home->asked_at = 0;
	if (!my_end_good)
		note_failure(home);
	LWLockRelease(SubLock);
	ConditionVariableBroadcast(&DatabaseShared->left);
}

/*
 * SubKeeperAttach
 *		Become the database's keeper, before connecting to it: who holds a
 *		database looks for the pid.  False: there is one, or nothing to do.
 */
bool
SubKeeperAttach(Oid database)
{
	SubHome    *home;

	on_shmem_exit(detach_keeper, (Datum) 0);
	if (!SubReady())
		return false;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	home = SubHomeFind(database, true);
	if (home != NULL && home->keeper == 0)
	{
		home->keeper = MyProcPid;
		home->latch = &MyProc->procLatch;
		home->changed = true;
		my_home = home;
	}
	LWLockRelease(SubLock);
	if (my_home != NULL && SubHeld(database))
	{
		SubKeeperLeave();
		return false;
	}
	return my_home != NULL;
}

/*
 * SubKeeperTakeChanged
 *		Is there reason to read the definitions?  A keeper that gets here is in
 *		good health.
 */
bool
SubKeeperTakeChanged(void)
{
	bool		result;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	result = my_home->changed;
	my_home->changed = false;
	my_home->failures = 0;
	LWLockRelease(SubLock);
	return result;
}

/* The keeper leaves for a good reason. */
void
SubKeeperLeave(void)
{
	my_end_good = true;
}

void
SubKeeperError(const char *error)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	SubCopyText(my_home->error, error);
	LWLockRelease(SubLock);
}
