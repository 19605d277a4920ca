/*-------------------------------------------------------------------------
 *
 * lease.h
 *	  The rules of a lease, over the lease columns of one row; see lease.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LEASE_H
#define INBOX_LEASE_H

#include "executor/tuptable.h"
#include "queue.h"
#include "write.h"

/* The lease columns of a row version; what the queue lacks reads as NULL. */
typedef struct LeaseRow
{
	bool		leased;			/* locked_until is not NULL */
	TimestampTz locked_until;
	bool		claimed;		/* claimed_at is not NULL */
	TimestampTz claimed_at;
	int64		attempt;		/* as stored; NULL reads as none yet */
	bool		has_due;
	TimestampTz due_at;
	bool		finished;		/* processed_at is not NULL */
	/* in a FIFO queue */
	bool		grouped;		/* it belongs to a group */
	bool		resting;		/* locked_until is no lease, but the end of
								 * the pause in which it holds its group */
} LeaseRow;

/* Every row is in exactly one of these. */
typedef enum LeaseState
{
	LEASE_READY,				/* claimable, and not leased since it was
								 * sent, retried or released */
	LEASE_EXPIRED,				/* claimable, because its lease has ended */
	LEASE_DELAYED,				/* not due yet, resting, or parked */
	LEASE_LIVE,
	LEASE_SPENT,				/* to be buried */
	LEASE_FINISHED
} LeaseState;

#define NUM_LEASE_STATES	(LEASE_FINISHED + 1)

extern TimestampTz LeaseNow(void);
extern int64 LeaseSeconds(Queue *q, FunctionCallInfo fcinfo, int arg);
extern void LeaseReadRow(Queue *q, const AttrNumber *attnos,
						 TupleTableSlot *slot, LeaseRow *row);
extern int64 LeaseReported(Queue *q, const LeaseRow *row);
extern bool LeaseSpent(Queue *q, const LeaseRow *row);
extern LeaseState LeaseStateOf(Queue *q, const LeaseRow *row, TimestampTz now);
extern bool LeaseClaimable(Queue *q, const LeaseRow *row, TimestampTz now);

extern void ChangeInit(RowChange *change);
extern void ChangeSet(RowChange *change, Role role, Datum value);
extern void ChangeSetNull(RowChange *change, Role role);
extern void ChangeTake(RowChange *change, Queue *q, const LeaseRow *row,
					   TimestampTz now, int64 lease);
extern void ChangeExtend(RowChange *change, Queue *q, const LeaseRow *row,
						 TimestampTz now, int64 lease);
extern void ChangeFinish(RowChange *change, Queue *q, TimestampTz now,
						 const char *error);
extern void ChangeRetry(RowChange *change, Queue *q, const LeaseRow *row,
						TimestampTz now, const Interval *delay,
						const char *error);
extern void ChangeRelease(RowChange *change, Queue *q, const LeaseRow *row,
						  const char *error);
extern Datum LeaseAttemptDatum(Queue *q, int64 attempt);

/* leasegroup.c */
extern bool LeaseInDeadGroup(Queue *q, text *key);
extern void LeaseReadGroup(Queue *q, const AttrNumber *attnos,
						   TupleTableSlot *slot, LeaseRow *row);
extern TimestampTz LeaseNextDue(Queue *q, const LeaseRow *row,
								TimestampTz now);
extern TimestampTz LeaseInstant(Queue *q, const LeaseRow *row, TimestampTz now,
								TimestampTz *expiry);
extern void ChangeRest(RowChange *change, const LeaseRow *row, TimestampTz now,
					   TimestampTz until);
extern void ChangeLose(RowChange *change);

#endif							/* INBOX_LEASE_H */
