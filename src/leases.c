/*-------------------------------------------------------------------------
 *
 * leases.c
 *	  The function behind view inbox_leases.
 *
 * It shows every live lease in the queues that the current user may read.
 * No index holds the state of a lease, so each table is read whole.
 *
 * How rows are read, and what happens to a queue that cannot be, is in look.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "announce.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease.h"
#include "look.h"
#include "receipt.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define NUM_COLUMNS		7

/* what is read of a row */
static const Role shown[] = {
	ROLE_ID, ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT, ROLE_ATTEMPT, ROLE_DUE_AT,
	ROLE_PROCESSED_AT, ROLE_GROUP_KEY
};

typedef struct Listing
{
	Oid			relid;
	Queue	   *q;
	ReturnSetInfo *rsinfo;
	TimestampTz now;
} Listing;

static void
put_lease(Listing *l, const AttrNumber *attnos, TupleTableSlot *slot,
		  const LeaseRow *row)
{
	Queue	   *q = l->q;
	Datum		values[NUM_COLUMNS] = {0};
	bool		nulls[NUM_COLUMNS] = {0};
	bool		isnull;

	values[0] = CStringGetTextDatum(q->name);
	values[1] = CStringGetTextDatum(ReceiptIdText(q, slot_getattr(slot, attnos[ROLE_ID], &isnull)));
	nulls[2] = !QueueHas(q, ROLE_ATTEMPT);
	values[2] = Int32GetDatum((int32) Min(LeaseReported(q, row) - 1, PG_INT32_MAX));
	nulls[3] = !row->claimed;
	values[3] = TimestampTzGetDatum(row->claimed_at);
	values[4] = TimestampTzGetDatum(row->locked_until);
	values[5] = DirectFunctionCall2(timestamp_mi,
									TimestampTzGetDatum(row->locked_until),
									TimestampTzGetDatum(l->now));
	nulls[6] = true;
	if (attnos[ROLE_GROUP_KEY] != 0)
		values[6] = slot_getattr(slot, attnos[ROLE_GROUP_KEY], &nulls[6]);
	tuplestore_putvalues(l->rsinfo->setResult, l->rsinfo->setDesc, values, nulls);
}

static void
visit_row(const AttrNumber *attnos, TupleTableSlot *slot, void *arg)
{
	Listing    *l = (Listing *) arg;
	LeaseRow	row;

	LeaseReadRow(l->q, attnos, slot, &row);
	if (LeaseStateOf(l->q, &row, l->now) == LEASE_LIVE)
		put_lease(l, attnos, slot, &row);
}

/*
 * list_queue
 *		Work for LookQueue.
 */
static bool
list_queue(void *arg)
{
	Listing    *l = (Listing *) arg;
	Look		look = {l->relid};
	bool		free = true;

	l->q = QueueTryOpen(l->relid, AccessShareLock, false);
	if (l->q == NULL)
		return true;
	for (int i = 0; i < lengthof(shown); i++)
		look.col[shown[i]] = l->q->col[shown[i]].attno;
	look.condition = psprintf("%s OPERATOR(pg_catalog.>) $1",
							  l->q->colname[ROLE_LOCKED_UNTIL]);
	look.now = l->now;
	look.visit = visit_row;
	look.arg = l;
	if (LookMayRead(&look))
		free = LookRows(&look);
	QueueClose(l->q);
	UnlockRelationOid(l->relid, AccessShareLock);
	return free;
}

static void
look_at(Oid relid, void *arg)
{
	Listing    *l = (Listing *) arg;

	l->relid = relid;
	l->now = LeaseNow();
	if (LookMayReadSome(relid))
		LookQueue(relid, list_queue, l);
}

PG_FUNCTION_INFO_V1(inbox_lease_status_0_1);

/*
 * inbox_lease_status() returns setof record
 */
Datum
inbox_lease_status_0_1(PG_FUNCTION_ARGS)
{
	Listing		l = {0};

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	l.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LookEach(look_at, &l);
	return (Datum) 0;
}
