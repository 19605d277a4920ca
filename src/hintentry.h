/*-------------------------------------------------------------------------
 *
 * hintentry.h
 *	  The hints of one queue in shared memory; for hints.c, hintwalk.c,
 *	  hintdue.c and hinttable.c alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HINTENTRY_H
#define INBOX_HINTENTRY_H

#include "hints.h"
#include "storage/lwlock.h"

#define MAX_RETRIES		64
#define MAX_LOCKED		32		/* of them, for rows that were locked */
/* room in the ledgers; most leases are new */
#define NEW_COVERS		512
#define MORE_COVERS		64
#define NOTED_COVERS	64
#define NUM_LEDGERS		(NUM_LEASE_KINDS + NUM_NOTE_KINDS)
#define MAX_COVERS		NEW_COVERS

#define RETRY_AFTER		(100 * INT64CONST(1000))	/* 100 ms */

/*
 * Keys to be opened again soon, because a row there was locked; or when a
 * prepared transaction is over.
 */
typedef struct Retry
{
	TimestampTz when;
	TransactionId xid;			/* of the prepared transaction, if any */
	HintRange	keys;
} Retry;

struct QueueHints
{
	LWLock		lock;
	/* who it belongs to; under the lock of the table of hints */
	Oid			database;
	Oid			relid;			/* InvalidOid: free */
	/* all else: under lock */
	OpenSet		open;
	OpenLog		log;
	/* of leases entered, by LeaseKind; of those noted, by NoteKind */
	Ledger		ledger[NUM_LEDGERS];
	uint32		shape;			/* of the table; 0: not known */
	TimestampTz forgot;			/* leases claimed earlier may not be entered */
	int			nretries;
	Retry		retry[MAX_RETRIES];
	int64		overruns;		/* claims that outlasted the log */
	int64		resets;
	TimestampTz next_look;		/* earliest of all ledgers and retries */
	/* the ledgers' covers; last, for memory not used is not touched */
	Cover		new_covers[NEW_COVERS];
	Cover		more_covers[NUM_LEASE_KINDS - 1][MORE_COVERS];
	Cover		noted_covers[NUM_NOTE_KINDS][NOTED_COVERS];
};

/*
 * Is there something to be opened now?  The caller has the lock.  No retry is further ahead than it was
 * at first, but when the clock has been set back.
 */
static inline bool
HintsDue(QueueHints *h, TimestampTz now)
{
	return h->next_look <= now ||
		(h->nretries > 0 && h->next_look > now + RETRY_AFTER);
}

/* hints.c */
extern void HintsReset(QueueHints *h);
extern void HintsOpenKeys(QueueHints *h, const HintRange *keys);

/* hintdue.c */
extern void HintsOpenDue(QueueHints *h, TimestampTz now);
extern void HintsNoteLease(QueueHints *h, NoteKind kind, TimestampTz until,
						   TimestampTz look, const HintRange *keys,
						   TimestampTz now);
extern bool HintsRetry(QueueHints *h, const HintRange *keys,
					   TransactionId xid, TimestampTz now);

#endif							/* INBOX_HINTENTRY_H */
