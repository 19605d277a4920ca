/*-------------------------------------------------------------------------
 *
 * database.c
 *	  The shared table of databases: who serves which, and who is to.
 *
 * Three parties meet here.  Backends announce databases (announce.c) and ask
 * for them to be left alone (hold.c).  The launcher takes the next one to
 * start a worker in from here.  A worker keeps its entry up to date (slot.c)
 * and cleans it up on its way out, so a launcher that was restarted finds
 * everything it needs.  View inbox_workers shows the table.
 *
 * One lock covers all of it: a worker writes twice a tick, everybody else
 * once in a blue moon.  Latches are set after the lock is released.  A latch
 * lies in shared memory and outlives its owner, so to set a stale one merely
 * wakes whoever has it now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "database.h"
#include "hold.h"
#include "mb/pg_wchar.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define RETRY_FIRST_MS	1000
#define RETRY_MAX_MS	60000

DatabaseTable *DatabaseShared = NULL;
HTAB	   *DatabaseEntries = NULL;
LWLock	   *DatabaseLock = NULL;

Size
DatabaseShmemSize(void)
{
	return add_size(MAXALIGN(sizeof(DatabaseTable)),
					hash_estimate_size(DATABASE_MAX, sizeof(DatabaseEntry)));
}

/* Called under AddinShmemInitLock. */
void
DatabaseShmemStartup(LWLock *lock)
{
	HASHCTL		ctl;
	bool		found;

	DatabaseLock = lock;

	DatabaseShared = ShmemInitStruct("inbox databases",
									 sizeof(DatabaseTable), &found);
	if (!found)
	{
		DatabaseShared->launcher = NULL;
		DatabaseShared->full = false;
		ConditionVariableInit(&DatabaseShared->left);
		memset(DatabaseShared->holds, 0, sizeof(DatabaseShared->holds));
	}

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(DatabaseEntry);
	DatabaseEntries = ShmemInitHash("inbox database entries",
									DATABASE_MAX, DATABASE_MAX, &ctl,
									HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

static DatabaseEntry *
find_entry(Oid database)
{
	Assert(LWLockHeldByMe(DatabaseLock));
	return hash_search(DatabaseEntries, &database, HASH_FIND, NULL);
}

/* Find or make an entry; NULL, and a note for the launcher, if there is no room. */
static DatabaseEntry *
enter_entry(Oid database)
{
	DatabaseEntry *entry;
	bool		found;

	Assert(LWLockHeldByMeInMode(DatabaseLock, LW_EXCLUSIVE));

	entry = hash_search(DatabaseEntries, &database, HASH_ENTER_NULL, &found);
	if (entry == NULL)
		DatabaseShared->full = true;
	else if (!found)
	{
		/* the key is in place; all the rest starts at zero */
		memset((char *) entry + sizeof(Oid), 0,
			   sizeof(DatabaseEntry) - sizeof(Oid));
		entry->phase = DATABASE_WANTED;
		entry->announced = 1;
	}
	return entry;
}

/* Pause before the next attempt after so many failures in a row, in ms. */
int
DatabaseRetryDelay(int failures)
{
	int			delay = RETRY_FIRST_MS;

	while (--failures > 0 && delay < RETRY_MAX_MS)
		delay *= 2;
	return Min(delay, RETRY_MAX_MS);
}

/*
 * A database's first library call in some backend.  Returns false if no
 * worker runs there yet.
 */
bool
DatabaseAnnounce(Oid database)
{
	DatabaseEntry *entry;
	bool		served;
	bool		known;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	entry = find_entry(database);
	known = entry != NULL;
	served = known && entry->pid != 0;
	LWLockRelease(DatabaseLock);

	if (!known && DatabaseEnter(database))
		DatabaseWakeLauncher();
	return served;
}

bool
DatabaseKnown(Oid database)
{
	return DatabaseGetPhase(database) != DATABASE_UNKNOWN;
}

/*
 * The extension has come to, or gone from, this database: have its worker
 * look, or with "enter" have one started.  Runs after a commit: must not
 * fail, and does not allocate.
 */
void
DatabaseLookAgain(Oid database, bool enter)
{
	DatabaseEntry *entry;
	Latch	   *latch = NULL;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = enter ? enter_entry(database) : find_entry(database);
	if (entry != NULL)
	{
		entry->announced++;
		entry->retry_at = 0;
		latch = entry->latch;
	}
	LWLockRelease(DatabaseLock);

	if (latch != NULL)
		SetLatch(latch);
	if (enter)
		DatabaseWakeLauncher();
}

/* Copy the whole table, for a view.  The copy is palloc'd. */
DatabaseEntry *
DatabaseCopyAll(int *count)
{
	HASH_SEQ_STATUS scan;
	DatabaseEntry *entry;
	DatabaseEntry *copy;
	int			n = 0;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	copy = palloc(sizeof(DatabaseEntry) *
				  Max(hash_get_num_entries(DatabaseEntries), 1));
	hash_seq_init(&scan, DatabaseEntries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		copy[n++] = *entry;
	LWLockRelease(DatabaseLock);

	*count = n;
	return copy;
}

/*
 * A launcher begins (its latch) or ends (NULL).  What an earlier one had
 * asked the postmaster for may never come, so ask again; should it come after
 * all, one of the two finds the place taken and leaves.
 */
void
DatabaseSetLauncher(Latch *latch)
{
	HASH_SEQ_STATUS scan;
	DatabaseEntry *entry;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	DatabaseShared->launcher = latch;
	hash_seq_init(&scan, DatabaseEntries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->phase == DATABASE_STARTING)
			entry->phase = DATABASE_WANTED;
	}
	LWLockRelease(DatabaseLock);
}

void
DatabaseWakeLauncher(void)
{
	Latch	   *latch;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	latch = DatabaseShared->launcher;
	LWLockRelease(DatabaseLock);

	if (latch != NULL)
		SetLatch(latch);
}

/*
 * The database that has waited longest for a worker it may have now; none:
 * InvalidOid, and in *wait the milliseconds until that may change, or -1.
 */
Oid
DatabaseNextStart(long *wait)
{
	HASH_SEQ_STATUS scan;
	DatabaseEntry *entry;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz first = DT_NOEND;
	Oid			database = InvalidOid;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	hash_seq_init(&scan, DatabaseEntries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->pid == 0 &&
			(entry->phase == DATABASE_WANTED || entry->phase == DATABASE_AWAY) &&
			entry->retry_at < first &&
			!HoldExists(entry->database))
		{
			first = entry->retry_at;
			database = entry->database;
		}
	}
	LWLockRelease(DatabaseLock);

	*wait = -1;
	/* longer than any pause: the clock has been set back */
	if (TimestampDifferenceExceeds(now, first, RETRY_MAX_MS))
		first = now;
	if (OidIsValid(database) && first > now)
	{
		*wait = TimestampDifferenceMilliseconds(now, first);
		database = InvalidOid;
	}
	return database;
}

/* Make sure that the table has this database; false: there is no room. */
bool
DatabaseEnter(Oid database)
{
	bool		ok;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	ok = enter_entry(database) != NULL;
	LWLockRelease(DatabaseLock);
	return ok;
}

/* The launcher is about to ask for a worker; false: it should not. */
bool
DatabaseStart(Oid database)
{
	DatabaseEntry *entry;
	bool		ok;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = find_entry(database);
	ok = entry != NULL && entry->pid == 0 && !HoldExists(database);
	if (ok)
		entry->phase = DATABASE_STARTING;
	LWLockRelease(DatabaseLock);
	return ok;
}

/* The worker that was asked for never came. */
void
DatabaseStartFailed(Oid database, const char *error)
{
	DatabaseEntry *entry;
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = find_entry(database);
	if (entry != NULL && entry->phase == DATABASE_STARTING)
	{
		entry->phase = DATABASE_WANTED;
		entry->failures++;
		entry->retry_at =
			TimestampTzPlusMilliseconds(now, DatabaseRetryDelay(entry->failures));
		entry->error_at = now;
		entry->error_encoding = PG_SQL_ASCII;
		strlcpy(entry->error, error, DATABASE_ERROR_LEN);
	}
	LWLockRelease(DatabaseLock);
}

/* The launcher could not ask for a worker now; the database is not to blame. */
void
DatabasePostpone(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = find_entry(database);
	if (entry != NULL && entry->phase == DATABASE_STARTING)
		entry->phase = DATABASE_WANTED;
	LWLockRelease(DatabaseLock);
}

/* The database is no more, or takes no connections. */
void
DatabaseForget(Oid database)
{
	DatabaseEntry *entry;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	entry = find_entry(database);
	if (entry != NULL && entry->pid == 0)
		hash_search(DatabaseEntries, &database, HASH_REMOVE, NULL);
	LWLockRelease(DatabaseLock);
}

DatabasePhase
DatabaseGetPhase(Oid database)
{
	DatabaseEntry *entry;
	DatabasePhase phase;

	LWLockAcquire(DatabaseLock, LW_SHARED);
	entry = find_entry(database);
	phase = entry != NULL ? entry->phase : DATABASE_UNKNOWN;
	LWLockRelease(DatabaseLock);
	return phase;
}

/* Did somebody find no room since the last call? */
bool
DatabaseTakeFull(void)
{
	bool		full;

	LWLockAcquire(DatabaseLock, LW_EXCLUSIVE);
	full = DatabaseShared->full;
	DatabaseShared->full = false;
	LWLockRelease(DatabaseLock);
	return full;
}
