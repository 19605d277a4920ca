/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  A worker's own entry in the shared table of databases.
 *
 * The entry has the worker's pid from before it connects until after it has
 * disconnected.  hold.c builds on that: a database whose entry has no pid has
 * no worker in it.  The exit callback is therefore registered before the
 * connection is made, so that it runs after the process has left the
 * ProcArray; on every way out but a crash, and after a crash all shared
 * memory is made anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "database.h"
#include "hold.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

/* a worker that lived so long has recovered from earlier failures */
#define HEALTHY_MS		60000

/* How the worker leaves; anything but a good reason is a failure. */
typedef enum SlotEnd
{
	END_FAILED,
	END_STOPPED,				/* pg_terminate_backend, shutdown */
	END_HELD,					/* a command needs the database empty */
	END_LEFT					/* nothing to do here */
} SlotEnd;

static DatabaseEntry *my_entry = NULL;
static volatile sig_atomic_t my_end = END_FAILED;	/* a SlotEnd */
static uint64 my_announced = 0;

static void detach(int code, Datum arg);

/*
 * Claim the database for this process, before connecting to it.  False: there
 * is nothing to do, or somebody does it.
 */
bool
SlotAttach(Oid database)
{
	DatabaseEntry *entry;

	on_shmem_exit(detach, (Datum) 0);

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = hash_search(DatabaseEntries, &database, HASH_FIND, NULL);
	if (entry != NULL && entry->pid == 0)
	{
		if (HoldExists(database))
			entry->phase = DATABASE_AWAY;
		else
		{
			entry->phase = DATABASE_PROBING;
			entry->pid = MyProcPid;
			entry->latch = &MyProc->procLatch;
			entry->started_at = GetCurrentTimestamp();
			my_entry = entry;
		}
	}
	LWLockRelease(DatabaseLock);
	return my_entry != NULL;
}

/* The database has the extension. */
void
SlotConfirm(void)
{
	bool		first;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	first = my_entry->phase == DATABASE_PROBING;
	my_entry->confirmed = true;
	if (first)
		my_entry->phase = DATABASE_IDLE;
	LWLockRelease(DatabaseLock);

	/* it may go on to the next database */
	if (first)
		DatabaseWakeLauncher();
}

/* Does a command need this database empty?  If so, leave is the next step. */
bool
SlotMustLeave(void)
{
	bool		held;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	held = HoldExists(my_entry->database);
	LWLockRelease(DatabaseLock);

	if (held)
		my_end = END_HELD;
	return held;
}

/* The number of announcements so far: to be read before looking around. */
uint64
SlotAnnounced(void)
{
	uint64		announced;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	announced = my_entry->announced;
	LWLockRelease(DatabaseLock);
	return announced;
}

/*
 * There is nothing to do in this database, as seen after that many
 * announcements.  Takes effect when the process ends.
 */
void
SlotLeave(uint64 announced)
{
	my_end = END_LEFT;
	my_announced = announced;
}

/* Somebody has told this process to end.  Called from a signal handler. */
void
SlotStopped(void)
{
	my_end = END_STOPPED;
}

/* A tick that started at this time has found the extension. */
void
SlotTickBegin(TimestampTz start)
{
	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	my_entry->phase = DATABASE_SWEEPING;
	my_entry->tick_at = start;
	LWLockRelease(DatabaseLock);
}

/* "counts" are those of this tick. */
void
SlotTickEnd(int queues, const ReapCounts *counts)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	my_entry->phase = DATABASE_IDLE;
	my_entry->tick_usecs = Max(now - my_entry->tick_at, 0);
	my_entry->ticks++;
	my_entry->queues = queues;
	my_entry->counts.expired += counts->expired;
	my_entry->counts.buried += counts->buried;
	my_entry->counts.purged += counts->purged;
	my_entry->counts.set_aside += counts->set_aside;
	if (TimestampDifferenceExceeds(my_entry->started_at, now, HEALTHY_MS))
		my_entry->failures = 0;
	LWLockRelease(DatabaseLock);
}

/* Keep an error for view inbox_workers.  The text is this database's. */
void
SlotError(const char *error)
{
	TimestampTz now = GetCurrentTimestamp();
	int			encoding = GetDatabaseEncoding();
	int			len = pg_mbcliplen(error, strlen(error), DATABASE_ERROR_LEN - 1);

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	my_entry->error_at = now;
	my_entry->error_encoding = encoding;
	memcpy(my_entry->error, error, len);
	my_entry->error[len] = '\0';
	LWLockRelease(DatabaseLock);
}

/* A failure that left no text of its own happened while connecting. */
static void
note_failure(DatabaseEntry *entry, TimestampTz now)
{
	entry->failures++;
	entry->retry_at =
		TimestampTzPlusMilliseconds(now, DatabaseRetryDelay(entry->failures));
	if (entry->error_at < entry->started_at)
	{
		entry->error_at = now;
		entry->error_encoding = PG_SQL_ASCII;
		strlcpy(entry->error, "worker failed; the server log has the reason",
				DATABASE_ERROR_LEN);
	}
}

static void
detach(int code, Datum arg)
{
	TimestampTz now = GetCurrentTimestamp();
	DatabaseEntry *entry = my_entry;

	if (entry == NULL)
		return;
	my_entry = NULL;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry->pid = 0;
	entry->latch = NULL;
	entry->phase = DATABASE_WANTED;
	entry->retry_at = 0;
	switch (my_end)
	{
		case END_FAILED:
			note_failure(entry, now);
			break;
		case END_STOPPED:
			entry->retry_at =
				TimestampTzPlusMilliseconds(now, DatabaseRetryDelay(1));
			break;
		case END_HELD:
			entry->phase = DATABASE_AWAY;
			break;
		case END_LEFT:
			/* whoever spoke since then wants another look */
			if (entry->announced == my_announced)
				hash_search(DatabaseEntries, &entry->database,
							HASH_REMOVE, NULL);
			break;
	}
	LWLockRelease(DatabaseLock);

	ConditionVariableBroadcast(&DatabaseShared->left);
	DatabaseWakeLauncher();
}
