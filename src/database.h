/*-------------------------------------------------------------------------
 *
 * database.h
 *	  The shared table of databases that a worker serves, is to serve, or is
 *	  asked to leave alone; see database.c and hold.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DATABASE_H
#define INBOX_DATABASE_H

#include "datatype/timestamp.h"
#include "reap.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

/* databases that can be served at one time */
#define DATABASE_MAX			1024
/* commands that can keep the workers away at one time */
#define DATABASE_MAX_HOLDS		64
/* how much of an error's text is kept */
#define DATABASE_ERROR_LEN		256

/*
 * What goes on in a database.  The launcher takes an entry from WANTED or
 * AWAY to STARTING, its worker from there on; when the worker is gone the
 * entry is AWAY, WANTED, or gone too.
 */
typedef enum DatabasePhase
{
	DATABASE_UNKNOWN,			/* no entry; never stored */
	DATABASE_WANTED,			/* the launcher is to start a worker */
	DATABASE_STARTING,			/* it has asked the postmaster for one */
	DATABASE_PROBING,			/* the worker connects and looks around */
	DATABASE_IDLE,				/* it sleeps between two ticks */
	DATABASE_SWEEPING,			/* it works */
	DATABASE_AWAY				/* it left for the sake of a command */
} DatabasePhase;

/*
 * One database.  Everything is read and written under the table's lock.  An
 * entry with a pid belongs to that worker: nobody else removes it.
 */
typedef struct DatabaseEntry
{
	Oid			database;		/* hash key */
	DatabasePhase phase;
	int			pid;			/* the worker's, or 0 */
	Latch	   *latch;			/* the worker's, or NULL; in shared memory */
	bool		confirmed;		/* a worker has seen the extension there */
	uint64		announced;		/* how often somebody said: look here */
	int			failures;		/* bad ends in a row */
	TimestampTz retry_at;		/* no start before this time */
	TimestampTz started_at;		/* start of this worker, or of the last one */
	TimestampTz tick_at;		/* start of its last tick, or 0 */
	int64		tick_usecs;		/* how long the last complete one took */
	int64		ticks;			/* complete ones since the server's start */
	int			queues;			/* seen by the last one */
	ReapCounts	counts;			/* sums since the server's start */
	TimestampTz error_at;		/* 0: no error yet */
	int			error_encoding; /* of the text below */
	char		error[DATABASE_ERROR_LEN];
} DatabaseEntry;

/* A database that a command has to itself.  database = 0: the slot is free. */
typedef struct DatabaseHold
{
	Oid			database;
	int			pid;			/* of the backend that runs the command */
} DatabaseHold;

/* All of it is read and written under the table's lock, but for "left". */
typedef struct DatabaseTable
{
	Latch	   *launcher;		/* the launcher's, or NULL */
	bool		full;			/* somebody found no room; not logged yet */
	ConditionVariable left;		/* a worker has disconnected */
	DatabaseHold holds[DATABASE_MAX_HOLDS];
} DatabaseTable;

/* process-local pointers to the above; NULL when not preloaded */
extern DatabaseTable *DatabaseShared;
extern HTAB *DatabaseEntries;
extern LWLock *DatabaseLock;

#define DatabaseReady()		(DatabaseShared != NULL)

/* database.c: set up */
extern Size DatabaseShmemSize(void);
extern void DatabaseShmemStartup(LWLock *lock);

/* for everybody */
extern bool DatabaseAnnounce(Oid database);
extern bool DatabaseKnown(Oid database);
extern void DatabaseLookAgain(Oid database, bool enter);
extern DatabaseEntry *DatabaseCopyAll(int *count);
extern int	DatabaseRetryDelay(int failures);

/* for the launcher */
extern void DatabaseSetLauncher(Latch *latch);
extern void DatabaseWakeLauncher(void);
extern Oid	DatabaseNextStart(long *wait);
extern bool DatabaseEnter(Oid database);
extern bool DatabaseStart(Oid database);
extern void DatabaseStartFailed(Oid database, const char *error);
extern void DatabasePostpone(Oid database);
extern void DatabaseForget(Oid database);
extern DatabasePhase DatabaseGetPhase(Oid database);
extern bool DatabaseTakeFull(void);

/* slot.c: for a worker, about its own database */
extern bool SlotAttach(Oid database);
extern void SlotConfirm(void);
extern bool SlotMustLeave(void);
extern uint64 SlotAnnounced(void);
extern void SlotLeave(uint64 announced);
extern void SlotStopped(void);
extern void SlotTickBegin(TimestampTz start);
extern void SlotTickEnd(int queues, const ReapCounts *counts);
extern void SlotError(const char *error);

#endif							/* INBOX_DATABASE_H */
