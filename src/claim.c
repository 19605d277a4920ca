/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Claims: find claimable rows, lease them, deliver them.
 *
 * Each candidate is locked without waiting, in the very version that was
 * judged claimable; a row that somebody else has locked or changed since is
 * passed over.  So a row that stays locked is one that is returned, but for
 * the tables written by SQL, where a trigger or policy may refuse the write
 * after the lock; there each row has a subtransaction of its own, whose
 * rollback lets go of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "args.h"
#include "quickcommit.h"
#include "catalog/pg_type.h"
#include "deliver.h"
#include "delta.h"
#include "errors.h"
#include "find.h"
#include "lease.h"
#include "locate.h"
#include "miscadmin.h"
#include "pending.h"
#include "receipt.h"
#include "settle.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "wait.h"

typedef struct Claim
{
	Queue	   *q;
	TimestampTz now;			/* the one instant of rule 2 */
	int64		lease;			/* seconds */
	RowWriter	writer;
	Finder	   *finder;			/* NULL: the caller names the rows */
	DeliverySink *sink;
	MemoryContext row_cxt;		/* reset for each row */
} Claim;

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
PG_FUNCTION_INFO_V1(inbox_stamp);

/*
 * tell_hints
 *		Note what the hints will have to know of a lease just written; "before"
 *		is the version that was claimable.
 */
static void
tell_hints(Claim *c, const LeaseRow *before, TupleTableSlot *slot)
{
	AttrNumber *attnos;
	LeaseRow	after;
	HintRange	keys;

	if (!OidIsValid(c->q->order_index))
		return;
	attnos = WriterLeaf(&c->writer, slot->tts_tableOid)->attnos;
	LeaseReadRow(c->q, attnos, slot, &after);
	KeysOfRow(c->q, attnos, slot, &keys);
	PendingLease(c->q, c->finder == NULL ? LEASE_LATER :
				 FindLeaseKind(c->finder, before), &after, &keys);
}

/*
 * lease_version
 *		Lock this version of a row and write the lease; NULL when it cannot be
 *		had.
 */
static TupleTableSlot *
lease_version(Claim *c, RowLeaf *leaf, ItemPointer tid)
{
	LeaseRow	row;
	RowChange	change;
	TupleTableSlot *slot;

	if (LockVersion(leaf, tid, GetActiveSnapshot(), LockTupleNoKeyExclusive,
					LockWaitSkip, 0) != TM_Ok)
		return NULL;
	LeaseReadRow(c->q, leaf->attnos, leaf->old, &row);
	Assert(LeaseClaimable(c->q, &row, c->now));
	ChangeTake(&change, c->q, &row, c->now, c->lease);
	slot = WriterUpdate(&c->writer, leaf, &change);
	if (slot == NULL)
		return NULL;
	DeltaCount(c->q, TOTAL_CLAIMED, 1);
	if (row.leased)
		DeltaCount(c->q, TOTAL_EXPIRED, 1);
	tell_hints(c, &row, slot);
	return slot;
}

/*
 * lease_in_subxact
 *		The same, letting go of the lock if nothing was written.
 *
 * The slots outlive the subtransaction, so none of them may enter or leave it
 * with a pin on a buffer.  Nor may an error leave: whoever catches it must find the
 * transaction as deep as it was.
 */
static TupleTableSlot *
lease_in_subxact(Claim *c, RowLeaf *leaf, ItemPointer tid)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	TupleTableSlot *volatile slot = NULL;

	ExecClearTuple(leaf->old);
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(cxt);
		slot = lease_version(c, leaf, tid);
		if (slot != leaf->old)
			ExecClearTuple(leaf->old);
		if (slot != NULL)
		{
			ExecMaterializeSlot(slot);
			ReleaseCurrentSubTransaction();
		}
		else
			RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
	return slot;
}

static bool
take_row(Claim *c, Oid relid, ItemPointer tid)
{
	RowLeaf    *leaf = WriterLeaf(&c->writer, relid);
	MemoryContext old = MemoryContextSwitchTo(c->row_cxt);
	TupleTableSlot *slot;

	QuickEnter();
	if (leaf->direct_update)
		slot = lease_version(c, leaf, tid);
	else
		slot = lease_in_subxact(c, leaf, tid);
	QuickLeave();
	/* the write may have moved it to another partition */
	if (slot != NULL)
		DeliverRow(c->sink, WriterLeaf(&c->writer, slot->tts_tableOid), slot);
	MemoryContextSwitchTo(old);
	MemoryContextReset(c->row_cxt);
	return slot != NULL;
}

static void
claim_begin(Claim *c, Queue *q, int64 lease, DeliverySink *sink)
{
	c->q = q;
	c->lease = lease;
	c->finder = NULL;
	c->sink = sink;
	c->now = LeaseNow();
	c->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox claim row",
									   ALLOCSET_DEFAULT_SIZES);
	WriterBegin(&c->writer, q);
}

static void
claim_end(Claim *c)
{
	WriterEnd(&c->writer);
	MemoryContextDelete(c->row_cxt);
}

/*
 * find_next
 *		FindNext; what a walk writes is page cleaning.
 */
static bool
find_next(Finder *finder, Oid *relid, ItemPointer tid)
{
	bool		found;

	QuickEnter();
	found = FindNext(finder, relid, tid);
	QuickLeave();
	return found;
}

/*
 * claim_rows
 *		Claim up to max_rows rows of an open queue into the sink; returns how
 *		many.
 */
static int64
claim_rows(Queue *q, int64 max_rows, int64 lease, text *group,
		   DeliverySink *sink, WaitLook *look)
{
	Claim		c;
	Finder		finder;
	Oid			relid;
	ItemPointerData tid;
	int64		taken = 0;

	if (max_rows == 0 || q->settings.paused)
		return 0;
	claim_begin(&c, q, lease, sink);
	FindBegin(&finder, &c.writer, c.now, group, max_rows);
	c.finder = &finder;
	if (look != NULL)
		FindWantDue(&finder);
	while (taken < max_rows && find_next(&finder, &relid, &tid))
	{
		bool		took = take_row(&c, relid, &tid);

		FindTook(&finder, took);
		taken += took;
	}
	/* a search by SQL has the writer's memory, a walk uses its table */
	FindStop(&finder);
	claim_end(&c);
	FindEnd(&finder);
	if (look != NULL)
	{
		look->next_due = FindNextDue(&finder);
		look->selective = group != NULL || !finder.walking ||
			q->settings.dead_group != NULL;
	}
	return taken;
}

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
	return claim_rows(q, max_rows, lease, group, &call->sink, look) > 0 ||
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

/*
 * inbox_stamp
 *		Lease rows that the caller names; what is not claimable, or locked by
 *		another transaction, is left out.
 */
Datum
inbox_stamp(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	ArgArray	ids;
	Datum	   *keys;
	int64		lease;
	DeliverySink sink;
	Locator		locator;
	Claim		c;

	ArgRequireWritable("inbox_stamp");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	ArgNotNull(fcinfo, 1, "ids");
	ArgGetArray(fcinfo, 1, TEXTOID, &ids);
	lease = LeaseSeconds(q, fcinfo, 2);
	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
	DeliverCheckRights(q, SHAPE_DELIVERY);
	keys = palloc(ids.n * sizeof(Datum));
	for (int i = 0; i < ids.n; i++)
	{
		if (ids.nulls[i] ||
			!ReceiptParseId(q, TextDatumGetCString(ids.values[i]), &keys[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("element %d of ids is no id of queue \"%s\"",
							i + 1, q->relname),
					 errdetail("The queue's ids are of type %s.",
							   format_type_be(q->col[ROLE_ID].type))));
	}
	DeliverBegin(&sink, fcinfo, q, SHAPE_DELIVERY);
	if (q->settings.paused)
	{
		QueueClose(q);
		return (Datum) 0;
	}
	claim_begin(&c, q, lease, &sink);
	LocateBegin(&locator, &c.writer);
	for (int i = 0; i < ids.n; i++)
	{
		ItemPointerData tid;
		RowLeaf    *leaf = LocateVisible(&locator, keys[i], &tid);
		LeaseRow	row;

		if (leaf == NULL)
			continue;
		LeaseReadRow(q, leaf->attnos, leaf->old, &row);
		if (LeaseClaimable(q, &row, c.now))
			(void) take_row(&c, RelationGetRelid(leaf->rel), &tid);
	}
	LocateEnd(&locator);
	claim_end(&c);
	QueueClose(q);
	return (Datum) 0;
}
