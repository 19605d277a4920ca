/*-------------------------------------------------------------------------
 *
 * lease.c
 *	  The rules of a lease: what a row's lease columns mean, and what a
 *	  claim, an extension and each settlement write into them.
 *
 * Nothing here reads or writes a table.  Claims and settlements, whatever
 * way they find and write their rows, decide by these functions alone.
 *
 * The clock is read once in a call, when it begins to look for rows
 * (LeaseNow): that instant decides what is due and which leases have ended,
 * and new leases start from it.  It is the server's clock at that moment, not
 * the start of the transaction, which may be long ago.
 *
 * The attempt column counts from settings.attempt_base, 0 or 1, and NULL is
 * none yet.  A claim adds one.  A delivery reports, from 1, the value as it
 * stood before its claim.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "duration.h"
#include "lease.h"
#include "receipt.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

TimestampTz
LeaseNow(void)
{
	return GetCurrentTimestamp();
}

/*
 * LeaseSeconds
 *		The lease a call asks for, or the queue's when the argument is NULL.
 */
int64
LeaseSeconds(Queue *q, FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? q->settings.lease :
		DurationLease(PG_GETARG_INTERVAL_P(arg));
}

/*
 * LeaseAttemptDatum
 *		A count in the column's type.  It stays at the type's end rather than
 *		make a row with very many attempts fail each claim that meets it.
 */
Datum
LeaseAttemptDatum(Queue *q, int64 attempt)
{
	switch (q->col[ROLE_ATTEMPT].type)
	{
		case INT2OID:
			return Int16GetDatum((int16) Min(attempt, PG_INT16_MAX));
		case INT4OID:
			return Int32GetDatum((int32) Min(attempt, PG_INT32_MAX));
		default:
			return Int64GetDatum(attempt);
	}
}

static bool
read_time(TupleTableSlot *slot, AttrNumber attno, TimestampTz *value)
{
	bool		isnull = true;
	Datum		datum = 0;

	if (attno != 0)
		datum = slot_getattr(slot, attno, &isnull);
	*value = isnull ? 0 : DatumGetTimestampTz(datum);
	return !isnull;
}

/*
 * LeaseReadRow
 *		Read the lease columns of a row version; attnos says where they are.
 */
void
LeaseReadRow(Queue *q, const AttrNumber *attnos, TupleTableSlot *slot,
			 LeaseRow *row)
{
	TimestampTz ignored;

	row->leased = read_time(slot, attnos[ROLE_LOCKED_UNTIL], &row->locked_until);
	row->claimed = read_time(slot, attnos[ROLE_CLAIMED_AT], &row->claimed_at);
	row->has_due = read_time(slot, attnos[ROLE_DUE_AT], &row->due_at);
	row->finished = read_time(slot, attnos[ROLE_PROCESSED_AT], &ignored);
	row->grouped = row->resting = false;
	if (q->settings.fifo)
		LeaseReadGroup(q, attnos, slot, row);
	row->attempt = q->settings.attempt_base;
	if (attnos[ROLE_ATTEMPT] != 0)
	{
		bool		isnull;
		Datum		datum = slot_getattr(slot, attnos[ROLE_ATTEMPT], &isnull);

		if (!isnull)
			row->attempt = Max(RoleInteger(q->col[ROLE_ATTEMPT].type, datum),
							   q->settings.attempt_base);
	}
}

/*
 * LeaseReported
 *		The attempt that the next delivery of this row reports.
 */
int64
LeaseReported(Queue *q, const LeaseRow *row)
{
	return row->attempt - q->settings.attempt_base + 1;
}

bool
LeaseSpent(Queue *q, const LeaseRow *row)
{
	return q->settings.max_attempts > 0 &&
		LeaseReported(q, row) > q->settings.max_attempts;
}

/*
 * LeaseStateOf
 *		What a row is, for claims and for whoever looks.  A lease that ends
 *		exactly now has ended; a row whose due time is NULL is parked.
 */
LeaseState
LeaseStateOf(Queue *q, const LeaseRow *row, TimestampTz now)
{
	if (row->finished)
		return LEASE_FINISHED;
	if (row->leased && row->locked_until > now)
		return row->resting ? LEASE_DELAYED : LEASE_LIVE;
	if (LeaseSpent(q, row))
		return LEASE_SPENT;
	if (QueueHas(q, ROLE_DUE_AT) && (!row->has_due || row->due_at > now))
		return LEASE_DELAYED;
	return row->leased && !row->resting ? LEASE_EXPIRED : LEASE_READY;
}

/*
 * LeaseClaimable
 *		Rule 1.
 */
bool
LeaseClaimable(Queue *q, const LeaseRow *row, TimestampTz now)
{
	LeaseState	state = LeaseStateOf(q, row, now);

	return state == LEASE_READY || state == LEASE_EXPIRED;
}

void
ChangeInit(RowChange *change)
{
	memset(change, 0, sizeof(*change));
}

void
ChangeSet(RowChange *change, Role role, Datum value)
{
	change->set[role] = true;
	change->isnull[role] = false;
	change->value[role] = value;
}

void
ChangeSetNull(RowChange *change, Role role)
{
	change->set[role] = true;
	change->isnull[role] = true;
	change->value[role] = (Datum) 0;
}

static void
change_error(RowChange *change, Queue *q, const char *error)
{
	if (error != NULL && QueueHas(q, ROLE_LAST_ERROR))
		ChangeSet(change, ROLE_LAST_ERROR, CStringGetTextDatum(error));
}

/*
 * ChangeTake
 *		What a claim writes: the lease, the claim instant, one more attempt.
 */
void
ChangeTake(RowChange *change, Queue *q, const LeaseRow *row, TimestampTz now,
		   int64 lease)
{
	TimestampTz expiry = now + lease * USECS_PER_SEC;

	ChangeInit(change);
	if (QueueHas(q, ROLE_CLAIMED_AT))
	{
		ChangeSet(change, ROLE_CLAIMED_AT,
				  TimestampTzGetDatum(LeaseInstant(q, row, now, &expiry)));
		ChangeSet(change, ROLE_LOCKED_UNTIL, TimestampTzGetDatum(expiry));
	}
	else
		ChangeSet(change, ROLE_LOCKED_UNTIL,
				  TimestampTzGetDatum(ReceiptExpiry(expiry)));
	if (QueueHas(q, ROLE_ATTEMPT))
		ChangeSet(change, ROLE_ATTEMPT, LeaseAttemptDatum(q, row->attempt + 1));
}

/*
 * ChangeExtend
 *		A new expiry from now, never an earlier one.  Where the expiry is the
 *		receipt, a longer lease is a new receipt.
 */
void
ChangeExtend(RowChange *change, Queue *q, const LeaseRow *row, TimestampTz now,
			 int64 lease)
{
	TimestampTz expiry = now + lease * USECS_PER_SEC;

	if (expiry <= row->locked_until)
		expiry = row->locked_until;
	else if (!QueueHas(q, ROLE_CLAIMED_AT))
		expiry = ReceiptExpiry(expiry);
	ChangeInit(change);
	ChangeSet(change, ROLE_LOCKED_UNTIL, TimestampTzGetDatum(expiry));
}

/*
 * ChangeFinish
 *		Mark a row as processed, in queues that keep finished rows.
 */
void
ChangeFinish(RowChange *change, Queue *q, TimestampTz now, const char *error)
{
	ChangeInit(change);
	ChangeSet(change, ROLE_PROCESSED_AT, TimestampTzGetDatum(now));
	ChangeSetNull(change, ROLE_LOCKED_UNTIL);
	change_error(change, q, error);
}

/*
 * backoff
 *		The pause before the next delivery: the queue's backoff doubled for
 *		each delivery after the first, spread by a quarter up or down so that
 *		rows which failed together do not come back together, and capped.
 */
static int64
backoff(Queue *q, int64 deliveries)
{
	double		pause = (double) q->settings.backoff;
	double		max = (double) q->settings.backoff_max;

	for (int64 i = 1; i < deliveries && pause < max; i++)
		pause *= 2;
	pause = Min(pause, max);
	pause *= 0.75 + 0.5 * pg_prng_double(&pg_global_prng_state);
	return (int64) Min(pause, max);
}

/*
 * ChangeRetry
 *		End the lease and set the next due time; a delay of zero, or no column
 *		for it, leaves the row in its place.  The head of a FIFO group rests
 *		instead, if that is the queue's way.
 */
void
ChangeRetry(RowChange *change, Queue *q, const LeaseRow *row, TimestampTz now,
			const Interval *delay, const char *error)
{
	bool		holds = row->grouped && !q->settings.fifo_requeue &&
		QueueHas(q, ROLE_CLAIMED_AT);
	TimestampTz until = now;

	ChangeInit(change);
	ChangeSetNull(change, ROLE_LOCKED_UNTIL);
	change_error(change, q, error);
	if (!holds && !QueueHas(q, ROLE_DUE_AT))
		return;
	if (delay == NULL)
		until = now + backoff(q, row->attempt - q->settings.attempt_base);
	else if (delay->time != 0 || delay->day != 0 || delay->month != 0)
		until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
														TimestampTzGetDatum(now),
														IntervalPGetDatum(delay)));
	if (until == now)
		return;
	if (holds)
		ChangeRest(change, row, now, until);
	else
		ChangeSet(change, ROLE_DUE_AT, TimestampTzGetDatum(until));
}

/*
 * ChangeRelease
 *		Hand a row back untried: its place and its attempts as before.
 */
void
ChangeRelease(RowChange *change, Queue *q, const LeaseRow *row,
			  const char *error)
{
	ChangeInit(change);
	ChangeSetNull(change, ROLE_LOCKED_UNTIL);
	if (QueueHas(q, ROLE_ATTEMPT))
		ChangeSet(change, ROLE_ATTEMPT,
				  LeaseAttemptDatum(q, Max(row->attempt - 1,
										   q->settings.attempt_base)));
	change_error(change, q, error);
}
