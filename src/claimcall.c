/*-------------------------------------------------------------------------
 *
 * claimcall.c
 *	  The functions that claim: inbox_claim in its two forms, inbox_claim_ids,
 *	  inbox_next.
 *
 * They take the same arguments after the queue: how many rows, lease, group
 * and how long to wait.  One that waits claims again and again until it gets
 * something (wait.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "claim.h"
#include "errors.h"
#include "lease.h"
#include "miscadmin.h"
#include "settle.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* the call of a claim function */
typedef struct ClaimCall
{
	FunctionCallInfo fcinfo;
	Queue	   *q;
	int			first;			/* argument "max_rows" */
	DeliverySink sink;
} ClaimCall;

PG_FUNCTION_INFO_V1(inbox_claim);
PG_FUNCTION_INFO_V1(inbox_claim_row);
PG_FUNCTION_INFO_V1(inbox_claim_ids);
PG_FUNCTION_INFO_V1(inbox_next);

static int64
max_rows_arg(FunctionCallInfo fcinfo, int n)
{
	ArgNotNull(fcinfo, n, "max_rows");
	if (PG_GETARG_INT64(n) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must not be negative")));
	return PG_GETARG_INT64(n);
}

static text *
group_arg(FunctionCallInfo fcinfo, int n, Queue *q)
{
	if (PG_ARGISNULL(n))
		return NULL;
	if (!QueueHas(q, ROLE_GROUP_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queue \"%s\" has no group_key column", q->relname),
				 errhint("Name one with inbox_adopt(..., group_key => ...).")));
	return PG_GETARG_TEXT_PP(n);
}

/*
 * claim_try
 *		Claim now; true when that is all the call is to do.  What the call may
 *		do is looked at each time, as it may have changed while it waited.
 */
static bool
claim_try(ClaimCall *call, WaitLook *look)
{
	FunctionCallInfo fcinfo = call->fcinfo;
	Queue	   *q = call->q;
	int64		max_rows = max_rows_arg(fcinfo, call->first);
	int64		lease = LeaseSeconds(q, fcinfo, call->first + 1);
	text	   *group = group_arg(fcinfo, call->first + 2, q);

	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
	DeliverCheckRights(q, call->sink.shape);
	return ClaimRows(q, max_rows, lease, group, NULL, &call->sink, look) > 0 ||
		max_rows == 0;
}

/*
 * claim_again
 *		An attempt of a claim that waits.  Its table is locked, but not the
 *		queue's settings.
 */
static bool
claim_again(void *arg, WaitLook *look)
{
	ClaimCall  *call = arg;
	Oid			relid = call->q->relid;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox waiting claim",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		done;

	QueueClose(call->q);
	call->q = call->sink.q = QueueOpenOid(relid);
	done = claim_try(call, look);
	MemoryContextSwitchTo(old);
	/* the sink may remember what it set up, but not where nothing came */
	if (!done)
		MemoryContextDelete(cxt);
	return done;
}

/*
 * claim_call
 *		A claim function's call, its arguments after the queue in the common
 *		order from "first" on: max_rows, lease, group_key, wait.
 */
static void
claim_call(FunctionCallInfo fcinfo, Queue *q, int first, DeliveryShape shape)
{
	ClaimCall	call;
	int64		wait = WaitArg(fcinfo, first + 3);

	call.fcinfo = fcinfo;
	call.q = q;
	call.first = first;
	DeliverBegin(&call.sink, fcinfo, q, shape);
	if (!claim_try(&call, NULL) && wait > 0)
		WaitUntil(wait, HintsFor(q), claim_again, &call);
	QueueClose(call.q);
}

Datum
inbox_claim(PG_FUNCTION_ARGS)
{
	ArgRequireWritable("inbox_claim");
	claim_call(fcinfo, QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock), 1,
			   SHAPE_DELIVERY);
	return (Datum) 0;
}

Datum
inbox_claim_ids(PG_FUNCTION_ARGS)
{
	ArgRequireWritable("inbox_claim_ids");
	claim_call(fcinfo, QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock), 1,
			   SHAPE_IDS);
	return (Datum) 0;
}

/*
 * inbox_claim_row
 *		inbox_claim(NULL::some_queue, …): the argument's type is the queue.
 */
Datum
inbox_claim_row(PG_FUNCTION_ARGS)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);

	ArgRequireWritable("inbox_claim");
	if (!OidIsValid(get_typ_typrelid(type)))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("inbox_claim takes the name of a queue as text, or NULL of its row type, not a value of type %s",
						format_type_be(type)),
				 errhint("Write inbox_claim('name'), or inbox_claim(NULL::name) for whole rows.")));
	claim_call(fcinfo, QueueOpenType(type, RowExclusiveLock), 1, SHAPE_ROW);
	return (Datum) 0;
}

/*
 * inbox_next
 *		Settle these as done, then claim.
 */
Datum
inbox_next(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	ArgArray	receipts;

	ArgRequireWritable("inbox_next");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	ArgGetArray(fcinfo, 1, TEXTOID, &receipts);
	/* every argument is checked before anything is written */
	(void) max_rows_arg(fcinfo, 2);
	(void) LeaseSeconds(q, fcinfo, 3);
	(void) group_arg(fcinfo, 4, q);
	(void) WaitArg(fcinfo, 5);
	if (receipts.n > 0)
		SettleDone(q, receipts.values, receipts.nulls, receipts.n);
	claim_call(fcinfo, q, 2, SHAPE_DELIVERY);
	return (Datum) 0;
}
