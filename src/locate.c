/*-------------------------------------------------------------------------
 *
 * locate.c
 *	  Find a row by its id and lock its newest version.
 *
 * Extend, settle and stamp come here.  They must judge a row by its newest
 * version, and wait for whoever is changing it: a heartbeat in flight or a
 * claim that has not committed is then never mistaken for a lost lease.
 *
 * 1. Take a snapshot of this moment (the transaction's own may be old), and
 *	  find by the id the version that it sees.  If it sees none, no version
 *	  had committed when we began, and nobody can hold a receipt for one that
 *	  commits later: the row is gone.
 * 2. Lock that version, waiting for whoever is changing it.
 * 3. If it has been replaced, begin again: the newest version may be in
 *	  another partition, or have another id.
 *
 * A plain table is searched where the session has written the row itself
 * (known.c), then through the unique index on its id, with SnapshotAny, and
 * each version is tested against the snapshot by hand.  That reads exactly
 * what an ordinary scan would, yet leaves no predicate locks behind, so that
 * at SERIALIZABLE two settlements never fail each other.  A partitioned table,
 * a table with children and one with row security for this user are searched
 * by SQL (locatesql.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "errors.h"
#include "locate.h"
#include "miscadmin.h"
#include "receipt.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/*
 * LockVersion
 *		Lock one row version into leaf->old; flags as for table_tuple_lock.
 */
TM_Result
LockVersion(RowLeaf *leaf, ItemPointer tid, Snapshot snapshot,
			LockTupleMode mode, LockWaitPolicy policy, uint8 flags)
{
	TM_FailureData tmfd;

	return table_tuple_lock(leaf->rel, tid, snapshot, leaf->old,
							GetCurrentCommandId(true), mode, policy, flags,
							&tmfd);
}

void
LocateBegin(Locator *loc, RowWriter *w)
{
	Queue	   *q = w->q;

	memset(loc, 0, sizeof(*loc));
	loc->w = w;
	loc->blocks = loc->visited = InvalidBlockNumber;
	if (!OidIsValid(q->id_index) || QueueRowSecurity(q))
		return;
	loc->leaf = WriterLeaf(w, q->relid);
	loc->snapshot = RegisterSnapshot(GetLatestSnapshot());
}

void
LocateEnd(Locator *loc)
{
	if (loc->leaf == NULL)
		return;
	UnregisterSnapshot(loc->snapshot);
	if (loc->scan == NULL)
		return;
	index_endscan(loc->scan);
	index_close(loc->index, NoLock);
}

/*
 * A snapshot that sees what we have waited for.
 */
static void
fresh_look(Locator *loc)
{
	if (loc->leaf == NULL)
		return;
	UnregisterSnapshot(loc->snapshot);
	loc->snapshot = RegisterSnapshot(GetLatestSnapshot());
	/* its page was read before the snapshot */
	loc->scanning_run = false;
}

static RegProcedure
equal_function(Oid type)
{
	switch (type)
	{
		case INT8OID:
			return F_INT8EQ;
		case INT4OID:
			return F_INT4EQ;
		case UUIDOID:
			return F_UUID_EQ;
		default:
			return F_TEXTEQ;
	}
}

/*
 * visit_page
 *		A search by the index would remove dead versions from the page, at its
 *		first row there, and so keep room for HOT updates.  A delete needs none.
 */
static void
visit_page(Locator *loc, BlockNumber block)
{
	Relation	rel = loc->leaf->rel;
	Buffer		buffer;

	if (block == loc->visited || loc->deleting)
		return;
	buffer = ReadBuffer(rel, block);
	heap_page_prune_opt(rel, buffer);
	ReleaseBuffer(buffer);
	loc->visited = block;
}

/*
 * find_known
 *		The visible version where this session has written it itself.
 */
static bool
find_known(Locator *loc, Datum id, ItemPointer tid)
{
	Queue	   *q = loc->w->q;
	Relation	rel = loc->leaf->rel;
	TupleTableSlot *slot = loc->leaf->old;

	if (!q->integer_id || rel->rd_tableam != GetHeapamTableAmRoutine() ||
		!KnownTid(q, ReceiptIntegerId(q, id), tid))
		return false;
	if (loc->blocks == InvalidBlockNumber)
		loc->blocks = RelationGetNumberOfBlocks(rel);
	if (ItemPointerGetBlockNumber(tid) >= loc->blocks)
		return false;
	visit_page(loc, ItemPointerGetBlockNumber(tid));
	return table_tuple_fetch_row_version(rel, tid, SnapshotAny, slot) &&
		ReceiptCompareIds(q, id, ReceiptId(q, loc->leaf->attnos, slot)) == 0 &&
		table_tuple_satisfies_snapshot(rel, slot, loc->snapshot);
}

/*
 * find_directly
 *		Find the visible version into leaf->old.
 */
static bool
find_directly(Locator *loc, Datum id, ItemPointer tid)
{
	Queue	   *q = loc->w->q;
	Relation	rel = loc->leaf->rel;
	TupleTableSlot *slot = loc->leaf->old;
	ScanKeyData key;

	if (find_known(loc, id, tid))
		return true;
	if (loc->scan == NULL)
	{
		loc->index = index_open(q->id_index, AccessShareLock);
		loc->scan = BeginIndexScan(rel, loc->index, SnapshotAny, 2);
	}
	if (loc->has_run && ReceiptIntegerId(q, id) <= loc->run_last)
		return LocateInRun(loc, ReceiptIntegerId(q, id), tid);
	loc->scanning_run = false;
	ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber,
						   q->col[ROLE_ID].type,
						   loc->index->rd_indcollation[0],
						   equal_function(q->col[ROLE_ID].type), id);
	loc->scan->xs_want_itup = false;
	loc->scan->numberOfKeys = 1;
	index_rescan(loc->scan, &key, 1, NULL, 0);
	while (index_getnext_slot(loc->scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (table_tuple_satisfies_snapshot(rel, slot, loc->snapshot))
		{
			*tid = slot->tts_tid;
			return true;
		}
	}
	return false;
}

static bool
find_by_sql(Locator *loc, Datum id, Oid *relid, ItemPointer tid)
{
	Queue	   *q = loc->w->q;
	SnapshotData copy;

	return LocateBySql(q, id, FreshSnapshot(q, &copy), relid, tid);
}

/*
 * LocateVisible
 *		Find the version that is visible now into leaf->old, without a lock;
 *		NULL when there is none.
 */
RowLeaf *
LocateVisible(Locator *loc, Datum id, ItemPointer tid)
{
	Oid			relid = loc->w->q->relid;
	RowLeaf    *leaf;

	CHECK_FOR_INTERRUPTS();
	if (loc->leaf != NULL)
		return find_directly(loc, id, tid) ? loc->leaf : NULL;
	if (!find_by_sql(loc, id, &relid, tid))
		return NULL;
	leaf = WriterLeaf(loc->w, relid);
	if (!table_tuple_fetch_row_version(leaf->rel, tid, SnapshotAny, leaf->old))
		return NULL;
	return leaf;
}

/*
 * LocateUnlocked
 *		The same with exactly that id, where a delete needs no SQL and nothing
 *		but the row: then one can judge the version that is visible and delete
 *		it, if it still is the newest (WriteTryDelete).  NULL: lock it first.
 */
RowLeaf *
LocateUnlocked(Locator *loc, Datum id)
{
	Queue	   *q = loc->w->q;
	ItemPointerData tid;
	bool		found;

	if (loc->leaf == NULL || !WriteMayTryDelete(loc->leaf))
		return NULL;
	loc->deleting = true;
	found = find_directly(loc, id, &tid) &&
		ReceiptCompareIds(q, id, ReceiptId(q, loc->leaf->attnos, loc->leaf->old)) == 0;
	loc->deleting = false;
	return found ? loc->leaf : NULL;
}

/* The column's collation may call different texts equal. */
static bool
has_id(Queue *q, Datum id, RowLeaf *leaf)
{
	return ReceiptCompareIds(q, id, ReceiptId(q, leaf->attnos, leaf->old)) == 0;
}

/*
 * lock_found
 *		Lock the version that was found.  LOCATE_CHANGED: it is not the newest
 *		one any more.
 */
static LocateResult
lock_found(Queue *q, Datum id, RowLeaf *leaf, ItemPointer tid,
		   LockTupleMode mode, LockWaitPolicy policy, bool first_look)
{
	TM_Result	result = LockVersion(leaf, tid, GetActiveSnapshot(), mode,
									 policy, 0);

	switch (result)
	{
		case TM_Ok:
			return has_id(q, id, leaf) ? LOCATE_OK : LOCATE_GONE;
		case TM_WouldBlock:
			return LOCATE_LOCKED;
		case TM_Updated:
		case TM_Deleted:
			return LOCATE_CHANGED;
		case TM_Invisible:

			/*
			 * A trigger that a write of this call fired has changed it since
			 * we took the snapshot; or the statement at hand has inserted it,
			 * so nobody can have leased it.
			 */
			return first_look ? LOCATE_CHANGED : LOCATE_GONE;
		case TM_SelfModified:
			if (table_tuple_fetch_row_version(leaf->rel, tid, SnapshotAny,
											  leaf->old) &&
				!has_id(q, id, leaf))
				return LOCATE_GONE;
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("a row of queue \"%s\" is being changed by the current command",
							q->relname),
					 errhint("Settle it in a statement of its own.")));
			break;
		default:
			elog(ERROR, "unexpected result %d of locking a row", result);
	}
	return LOCATE_GONE;			/* keep compiler quiet */
}

/*
 * LocateRow
 *		Find, wait as the policy says, lock.  *leaf is set when the result is
 *		LOCATE_OK.
 */
LocateResult
LocateRow(Locator *loc, Datum id, LockTupleMode mode, LockWaitPolicy policy,
		  RowLeaf **leaf)
{
	for (bool first_look = true;; first_look = false)
	{
		Oid			relid = loc->w->q->relid;
		ItemPointerData tid;
		LocateResult result;

		CHECK_FOR_INTERRUPTS();
		if (loc->leaf != NULL ? !find_directly(loc, id, &tid) :
			!find_by_sql(loc, id, &relid, &tid))
			return LOCATE_GONE;
		*leaf = WriterLeaf(loc->w, relid);
		result = lock_found(loc->w->q, id, *leaf, &tid, mode, policy,
							first_look);
		if (result != LOCATE_CHANGED)
			return result;
		fresh_look(loc);
	}
}
