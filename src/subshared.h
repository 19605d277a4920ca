/*-------------------------------------------------------------------------
 *
 * subshared.h
 *	  The shared table of subscriptions and of the processes that run them;
 *	  see subshared.c, subslot.c and subhome.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBSHARED_H
#define INBOX_SUBSHARED_H

#include "database.h"
#include "datatype/timestamp.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "subscription.h"

/* receipts of one batch, packed; an id in an index has less than 3 kB */
#define SUB_RECEIPTS_LEN	16384
/* most messages of one batch */
#define SUB_MAX_BATCH		1000
#define SUB_RATE_BUCKETS	6
#define SUB_BUCKET_USECS	(10 * USECS_PER_SEC)
/* slots that main_arg of a process can name */
#define SUB_MAX_SLOTS		1000

/* One subscription.  It keeps its counts while its processes come and go. */
typedef struct SubEntry
{
	Oid			database;		/* InvalidOid: free */
	NameData	name;
	bool		gone;			/* not defined any more: free without slots */
	uint64		print;			/* of its definition */
	int			workers;		/* as defined */
	int			wanted;			/* that should run now */
	Oid			owner;
	char		problem[DATABASE_ERROR_LEN];	/* why none runs; '' */
	bool		crowded;		/* the problem: no place for more */
	int			failures;		/* of its processes, in a row */
	TimestampTz retry_at;		/* no start before this time */
	int64		handled;
	int64		failed;
	int64		undecodable;
	int64		lost;			/* leases lost while handling */
	TimestampTz since;
	TimestampTz bucket_at[SUB_RATE_BUCKETS];
	int64		bucket[SUB_RATE_BUCKETS];
	TimestampTz error_at;		/* 0: no error yet */
	char		error[DATABASE_ERROR_LEN];
} SubEntry;

typedef enum SubPhase
{
	SUB_STARTING,				/* asked for; may not have come yet */
	SUB_IDLE,					/* waits for messages */
	SUB_HANDLING
} SubPhase;

/*
 * One process of a subscription, and the batch that it has claimed.  Of the
 * batch's items those before "done" are settled for good, those from "end" on
 * have been taken out of its hands.
 */
typedef struct SubSlot
{
	int			entry;			/* NO_ENTRY: free */
	uint32		token;			/* which use of this slot it is */
	uint64		print;			/* definition that it runs by */
	int			number;			/* among the subscription's processes */
	SubPhase	phase;
	int			pid;			/* 0: it has not come yet */
	Latch	   *latch;
	TimestampTz started_at;
	TimestampTz asked_at;

	uint64		batch;			/* number of the batch; 0: none outstanding */
	Oid			queue;
	int64		lease;			/* seconds */
	TimestampTz extend_at;		/* when half of the lease is over */
	int			n;
	int			done;
	int			end;
	int			current;		/* being handled, or -1 */
	TimestampTz current_at;		/* since when */
	int			cutting;		/* pid of the keeper that gives back the rest */
	uint64		lost_seq;		/* handling whose lease is lost */
	uint64		current_seq;
	int			receipts_len;
	char		receipts[SUB_RECEIPTS_LEN]; /* n strings */
	bool		lost[SUB_MAX_BATCH];
} SubSlot;

#define NO_ENTRY	(-1)

/* One database that has subscriptions, or is about to get one. */
typedef struct SubHome
{
	Oid			database;		/* InvalidOid: free */
	int			workers;		/* of all its subscriptions */
	int			pending;		/* of those that are being made */
	bool		changed;		/* the keeper is to read the definitions */
	bool		sleeping;		/* it sleeps, there being no batch to keep */
	int			keeper;			/* its pid, or 0 */
	Latch	   *latch;
	TimestampTz asked_at;		/* when a keeper was asked for */
	int			failures;		/* of keepers, in a row */
	TimestampTz retry_at;
	char		error[DATABASE_ERROR_LEN];
} SubHome;

typedef struct SubTable
{
	uint32		tokens;
	int			max;			/* entries, slots and homes */
	SubEntry   *entry;
	SubSlot    *slot;
	SubHome    *home;
} SubTable;

/* NULL when not preloaded; all of it under the lock */
extern SubTable *SubShared;
extern LWLock *SubLock;

#define SubReady()	(SubShared != NULL && SubShared->max > 0)

/* subshared.c */
extern Size SubShmemSize(void);
extern void SubShmemStartup(LWLock *lock);
extern SubEntry *SubFind(Oid database, const char *name);
extern void SubPublish(Oid database, List *subs, List *problems);
extern void SubForgetDatabase(Oid database);
extern void SubCopyText(char *to, const char *text);
extern bool SubThere(Oid database, bool cancel);
extern double SubRate(const SubEntry *entry, TimestampTz now);

/* subhome.c: databases, their keepers, and the limit */
extern SubHome *SubHomeFind(Oid database, bool enter);
extern Latch *SubHomeChanged(Oid database);
extern bool SubReserve(int workers, int own, int *taken);
extern void SubChanged(const char *name);
extern void SubHomeInit(void);
extern bool SubWantsKeeper(Oid database);
extern void SubKeeperAsked(Oid database);
extern void SubKeeperFailed(Oid database, const char *error);
extern bool SubKeeperAttach(Oid database);
extern bool SubKeeperTakeChanged(void);
extern void SubKeeperLeave(void);
extern void SubKeeperError(const char *error);
extern bool SubHeld(Oid database);

/* subslot.c: for a process of a subscription, about its own slot */
extern bool SubSlotAttach(uint32 arg, Oid *database, Oid *owner, char **name,
						  int *number);
extern bool SubSlotMustLeave(void);
extern void SubSlotConfirm(uint64 print);
extern void SubSlotIdle(void);
extern void SubSlotHandling(void);
extern void SubSlotHealthy(void);
extern int	SubSlotBegin(Oid queue, int64 lease, char **receipts, int n);
extern bool SubSlotEnter(int item, bool *lost);
extern bool SubSlotLeave(int item);
extern void SubSlotDone(int done);
extern char *SubSlotReceipt(int item);
extern void SubSlotEnd(void);
extern int	SubSlotKeeper(void);
extern void SubSlotCount(int64 handled, int64 failed, int64 undecodable,
						 int64 lost);
extern void SubSlotError(const char *error);
extern void SubSlotProblem(const char *problem);
extern void SubSlotStopped(void);
extern bool SubSlotLost(void);

#endif							/* INBOX_SUBSHARED_H */
