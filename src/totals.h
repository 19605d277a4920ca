/*-------------------------------------------------------------------------
 *
 * totals.h
 *	  What has happened in each queue since the server's start; see totals.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_TOTALS_H
#define INBOX_TOTALS_H

#include "datatype/timestamp.h"
#include "hints.h"
#include "queue.h"

typedef struct SharedTotals SharedTotals;

typedef enum Total
{
	/* counted when the transaction commits */
	TOTAL_SENT,					/* messages added, by whatever way */
	TOTAL_CLAIMED,
	TOTAL_DONE,
	TOTAL_DROPPED,
	TOTAL_RETRIED,
	TOTAL_RELEASED,
	TOTAL_SETTLED_DEAD,			/* settlements that buried */
	TOTAL_EXTENDED,
	TOTAL_EXPIRED,				/* leases that had ended unsettled when their
								 * message was claimed again or buried */
	TOTAL_BURIED,				/* by settlements and by the reaper */
	TOTAL_PURGED,
	TOTAL_REDRIVEN,
	/* counted at once */
	TOTAL_STALE,				/* receipts that settled nothing */
	TOTAL_WAITS,				/* that have slept */
	TOTAL_WALKS,
	TOTAL_WALKED,				/* index entries that walks have gone to */
	TOTAL_WALKED_DEAD,			/* of them, those of rows that are gone */
	TOTAL_TAKEN					/* rows that walks have found and taken */
} Total;

#define NUM_TRANSACTIONAL	(TOTAL_REDRIVEN + 1)
#define NUM_TOTALS			(TOTAL_TAKEN + 1)

typedef enum Rate
{
	RATE_SEND,
	RATE_CLAIM,
	RATE_SETTLE
} Rate;

#define NUM_RATES			(RATE_SETTLE + 1)

/* A copy of one queue's. */
typedef struct Totals
{
	TimestampTz since;
	uint64		n[NUM_TOTALS];
	double		rate[NUM_RATES];	/* a second, over the last minute */
	uint64		last_walk_dead; /* TOTAL_WALKED_DEAD of the latest walk */
} Totals;

extern Size TotalsShmemSize(void);
extern void TotalsShmemInit(void);
extern void TotalsReset(int number);

extern SharedTotals *TotalsOf(Queue *q);
extern void TotalsCommitted(SharedTotals *t, const int64 *n, TimestampTz at);
extern void TotalsCountNow(Queue *q, Total total, int64 n);
extern void TotalsWaited(QueueHints *hints);
extern void TotalsWalked(Queue *q, int64 entries, int64 dead, int64 taken);

extern void TotalsRead(int number, TimestampTz now, Totals *totals);

#endif							/* INBOX_TOTALS_H */
