/*-------------------------------------------------------------------------
 *
 * hold.c
 *	  Keep the workers out of a database while a command needs it empty.
 *
 * DROP DATABASE, ALTER DATABASE ... RENAME and SET TABLESPACE, and CREATE
 * DATABASE with that database as its template wait five seconds for other
 * sessions to go, and then fail.  The server asks autovacuum to go, but knows
 * nothing of us.  So before such a command begins (utility.c) its backend
 * takes a hold on the database here: no worker is started there, the one that
 * is there leaves, and only then does the command go on.
 *
 * A hold belongs to its backend.  It ends with the command if that fails,
 * else with the transaction, at the latest with the process.  It is a row in
 * the shared table, beside the databases, because it may be on one that has
 * no entry and gets none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "compat.h"
#include "database.h"
#include "hold.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "subshared.h"
#include "utils/timestamp.h"

/* a worker busy for so long has its current transaction cancelled */
#define CANCEL_AFTER_MS		1000
/* and after this time the command goes on, to fail by its own rules */
#define GIVE_UP_AFTER_MS	5000

static int	my_holds = 0;
static uint32 wait_event = 0;

static bool add_hold(Oid database);
static void remove_holds(Oid database);
static void wait_until_empty(Oid database);
static bool worker_there(Oid database, bool cancel);
static void at_exit(int code, Datum arg);

/* Have the database to ourselves, so far as our own workers go. */
void
HoldTake(Oid database)
{
	static bool registered = false;

	if (!registered)
	{
		on_shmem_exit(at_exit, (Datum) 0);
		registered = true;
	}
	if (add_hold(database))
		wait_until_empty(database);
}

/* The command on this database is over. */
void
HoldRelease(Oid database)
{
	if (my_holds > 0 && OidIsValid(database))
		remove_holds(database);
}

/* The transaction is over.  Must not fail. */
void
HoldReleaseAll(void)
{
	if (my_holds > 0)
		remove_holds(InvalidOid);
}

/*
 * Is the database held by a living backend?  The caller has the table's lock.
 */
bool
HoldExists(Oid database)
{
	int			i;

	Assert(LWLockHeldByMe(DatabaseLock));

	for (i = 0; i < DATABASE_MAX_HOLDS; i++)
	{
		DatabaseHold *hold = &DatabaseShared->holds[i];

		if (hold->database == database &&
			(hold->pid == MyProcPid || BackendPidGetProc(hold->pid) != NULL))
			return true;
	}
	return false;
}

/* False: there is no free slot, so the command must do without. */
static bool
add_hold(Oid database)
{
	DatabaseEntry *entry;
	Latch	   *latch = NULL;
	int			i;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	for (i = 0; i < DATABASE_MAX_HOLDS; i++)
	{
		DatabaseHold *hold = &DatabaseShared->holds[i];

		if (!OidIsValid(hold->database) ||
			BackendPidGetProc(hold->pid) == NULL)
		{
			hold->database = database;
			hold->pid = MyProcPid;
			my_holds++;
			break;
		}
	}
	entry = hash_search(DatabaseEntries, &database, HASH_FIND, NULL);
	if (entry != NULL)
		latch = entry->latch;
	LWLockRelease(DatabaseLock);

	if (latch != NULL)
		SetLatch(latch);
	(void) SubThere(database, false);
	return i < DATABASE_MAX_HOLDS;
}

/* Remove this backend's hold on a database, or with InvalidOid all it has. */
static void
remove_holds(Oid database)
{
	int			i;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	for (i = 0; i < DATABASE_MAX_HOLDS; i++)
	{
		DatabaseHold *hold = &DatabaseShared->holds[i];

		if (OidIsValid(hold->database) && hold->pid == MyProcPid &&
			(!OidIsValid(database) || hold->database == database))
		{
			hold->database = InvalidOid;
			hold->pid = 0;
			my_holds--;
		}
	}
	LWLockRelease(DatabaseLock);

	DatabaseWakeLauncher();
}

/*
 * Wait, within bounds, until no worker is connected.  A user's trigger may
 * keep one busy, so after a while what it does is cancelled.
 */
static void
wait_until_empty(Oid database)
{
	TimestampTz start = GetCurrentTimestamp();
	long		waited = 0;
	bool		cancelled = false;

	ConditionVariablePrepareToSleep(&DatabaseShared->left);
	while (waited < GIVE_UP_AFTER_MS)
	{
		bool		cancel = !cancelled && waited >= CANCEL_AFTER_MS;

		if (!worker_there(database, cancel))
			break;
		cancelled |= cancel;
		(void) ConditionVariableTimedSleep(&DatabaseShared->left,
										   CANCEL_AFTER_MS,
										   NamedWaitEvent(&wait_event,
														  "InboxHold"));
		waited = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
	}
	ConditionVariableCancelSleep();
}

/*
 * Is a worker connected?  Its pid is good for a signal as long as we have the
 * lock: it needs that to clear the pid, before it ends.
 */
static bool
worker_there(Oid database, bool cancel)
{
	DatabaseEntry *entry;
	bool		there;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	entry = hash_search(DatabaseEntries, &database, HASH_FIND, NULL);
	there = entry != NULL && entry->pid != 0;
	if (there && cancel)
		(void) kill(entry->pid, SIGINT);
	LWLockRelease(DatabaseLock);
	return SubThere(database, cancel) || there;
}

static void
at_exit(int code, Datum arg)
{
	HoldReleaseAll();
}
