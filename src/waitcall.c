/*-------------------------------------------------------------------------
 *
 * waitcall.c
 *	  CALL inbox_wait: wait for messages outside any transaction.
 *
 * A claim that waits is a SELECT: it keeps its snapshot, which holds back
 * VACUUM everywhere in the database, and a lock on the table.  The procedure
 * only looks, in short transactions, and sleeps between them with neither.
 * It claims nothing, and who returns from it may find the message gone.
 *
 * To look is to find a claimable row that nobody has locked.  A row that is
 * locked would be passed over by the claim that follows, and the caller's
 * loop would turn without rest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "args.h"
#include "find.h"
#include "lease.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(inbox_wait);

static void
require_no_transaction(FunctionCallInfo fcinfo)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("inbox_wait cannot run inside a transaction block"),
				 errdetail("It waits outside any transaction, so it has to end the one at hand."),
				 errhint("Call it in autocommit, or wait with inbox_claim(..., wait => ...).")));
}

/*
 * Is somebody changing this version, or has it locked?
 */
static bool
is_locked(RowLeaf *leaf, ItemPointer tid)
{
	HeapTupleHeader header;
	TransactionId xmax;

	if (!table_tuple_fetch_row_version(leaf->rel, tid, SnapshotSelf, leaf->old))
		return true;
	/* of other storage we know nothing */
	if (!TTS_IS_BUFFERTUPLE(leaf->old))
		return false;
	header = ((BufferHeapTupleTableSlot *) leaf->old)->base.tuple->t_data;
	xmax = HeapTupleHeaderGetRawXmax(header);
	if ((header->t_infomask & HEAP_XMAX_INVALID) || !TransactionIdIsValid(xmax))
		return false;
	if (header->t_infomask & HEAP_XMAX_IS_MULTI)
		return MultiXactIdIsRunning(xmax,
									HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask));
	return TransactionIdIsInProgress(xmax);
}

/*
 * WaitPeek
 *		Is there something to claim?  If not, *look tells when to look again.
 */
bool
WaitPeek(Queue *q, WaitLook *look)
{
	RowWriter	writer;
	Finder		finder;
	Oid			relid;
	ItemPointerData tid;
	bool		found = false;

	if (q->settings.paused)
		return false;
	WriterBegin(&writer, q);
	FindBegin(&finder, &writer, LeaseNow(), NULL, 1);
	FindPeek(&finder);
	FindWantDue(&finder);
	while (!found && FindNext(&finder, &relid, &tid))
	{
		RowLeaf    *leaf = WriterLeaf(&writer, relid);

		found = !is_locked(leaf, &tid);
		ExecClearTuple(leaf->old);
		if (!found)
			FindTook(&finder, false);
	}
	FindStop(&finder);
	WriterEnd(&writer);
	FindEnd(&finder);
	look->next_due = FindNextDue(&finder);
	look->selective = FindSelective(&finder);
	return found;
}

/*
 * look_once
 *		Look, and end the transaction.
 */
static bool
look_once(void *arg, WaitLook *look)
{
	Oid			relid = *(Oid *) arg;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox waiting call",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Queue	   *q;
	bool		found;

	PushActiveSnapshot(GetTransactionSnapshot());
	LockRelationOid(relid, RowExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the queue has been dropped"),
				 errhint("Create it with inbox_create.")));
	q = QueueOpenOid(relid);
	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
	found = WaitPeek(q, look);
	QueueClose(q);
	PopActiveSnapshot();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	SPI_commit();
	return found;
}

/*
 * inbox_wait
 *		CALL inbox_wait(queue, wait).
 */
Datum
inbox_wait(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	Oid			relid;
	QueueHints *hints;
	WaitLook	look;
	int64		wait;

	ArgRequireWritable("inbox_wait");
	require_no_transaction(fcinfo);
	wait = WaitArg(fcinfo, 1);
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	relid = q->relid;
	hints = HintsFor(q);
	QueueClose(q);
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	if (!look_once(&relid, &look) && wait > 0)
		WaitUntil(wait, hints, look_once, &relid);
	SPI_finish();
	return (Datum) 0;
}
