/*-------------------------------------------------------------------------
 *
 * leasegroup.c
 *	  What a FIFO queue adds to the rules of a lease.
 *
 * A head that is retried holds its group: nothing overtakes it.  It rests in
 * its place until its pause is over.  The end of the pause is in locked_until,
 * where whoever looks for leases in the group finds it, and claimed_at is a
 * claim instant that nobody has been given, not before that end.  By this a
 * row that rests is told from one that is leased, whose claim instant is
 * before the end of its lease.  It counts as delayed.
 *
 * Called by lease.c, and by what finds and claims groups.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lease.h"
#include "receipt.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/*
 * LeaseInDeadGroup
 *		Is this the group in which the queue buries its dead letters?
 */
bool
LeaseInDeadGroup(Queue *q, text *key)
{
	const char *dead = q->settings.dead_group;

	return dead != NULL && strlen(dead) == VARSIZE_ANY_EXHDR(key) &&
		memcmp(dead, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)) == 0;
}

/*
 * LeaseReadGroup
 *		What a row is in a FIFO queue.  A row that rests has a claimed_at that
 *		is not before locked_until, which a claim never writes.
 */
void
LeaseReadGroup(Queue *q, const AttrNumber *attnos, TupleTableSlot *slot,
			   LeaseRow *row)
{
	bool		isnull = true;
	Datum		datum = 0;

	row->resting = row->leased && row->claimed &&
		row->claimed_at >= row->locked_until;
	if (attnos[ROLE_GROUP_KEY] != 0)
		datum = slot_getattr(slot, attnos[ROLE_GROUP_KEY], &isnull);
	row->grouped = !isnull &&
		(q->settings.dead_group == NULL ||
		 !LeaseInDeadGroup(q, DatumGetTextPP(datum)));
}

/*
 * LeaseNextDue
 *		When a row that is not claimable now may become so by the clock alone.
 */
TimestampTz
LeaseNextDue(Queue *q, const LeaseRow *row, TimestampTz now)
{
	TimestampTz next = PG_INT64_MIN;

	if (row->finished || LeaseSpent(q, row))
		return PG_INT64_MAX;
	if (QueueHas(q, ROLE_DUE_AT))
		next = row->has_due ? row->due_at : PG_INT64_MAX;
	return row->leased ? Max(next, row->locked_until) : next;
}

/*
 * LeaseInstant
 *		The claim instant of a lease that ends at *expiry.  In a FIFO queue it
 *		must lie before, or the row would seem to rest.  It does not where the
 *		row's last instant was the end of a pause that somebody has cut short:
 *		nobody has had that one, so the row may go back behind it.  Where all
 *		instants are ahead, because the clock was stepped back, the lease
 *		lasts until they are not.
 */
TimestampTz
LeaseInstant(Queue *q, const LeaseRow *row, TimestampTz now,
			 TimestampTz *expiry)
{
	TimestampTz instant = ReceiptInstant(now, row);
	LeaseRow	fresh = *row;

	if (!q->settings.fifo || instant < *expiry)
		return instant;
	fresh.claimed = false;
	instant = ReceiptInstant(now, &fresh);
	*expiry = Max(*expiry, instant + 1);
	return instant;
}

/*
 * ChangeRest
 *		Let a head hold its group until a time, in its place.
 */
void
ChangeRest(RowChange *change, const LeaseRow *row, TimestampTz now,
		   TimestampTz until)
{
	ChangeSet(change, ROLE_LOCKED_UNTIL, TimestampTzGetDatum(until));
	ChangeSet(change, ROLE_CLAIMED_AT,
			  TimestampTzGetDatum(Max(until, ReceiptInstant(now, row))));
}

/*
 * ChangeLose
 *		End a lease whose time is over, for good.
 */
void
ChangeLose(RowChange *change)
{
	ChangeInit(change);
	ChangeSetNull(change, ROLE_LOCKED_UNTIL);
}
