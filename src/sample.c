/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Read rows of a table for statistics: all of them where the table is
 *	  small, else those of randomly chosen pages.
 *
 * Whoever looks at a queue every second must not be felt by its consumers:
 *
 * - The only lock is AccessShareLock, it is never waited for, and it is
 *	 released at the end of the reading, not of the transaction.
 * - Pages are read with a small ring of buffers, so that they push no page of
 *	 the consumers out.  They are not pruned, and nothing is added to the read
 *	 set of a serializable transaction.
 * - No code of the table's owner runs: no policy, no expression.
 *
 * The pages of all partitions are numbered through as if they were one table,
 * and the sample is drawn from that, so each partition has its fair share
 * and the whole costs the same however many there are, but for opening them.
 *
 * Called by count.c and leases.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "sample.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/*
 * A snapshot of this moment, also where the transaction has an older one.  At
 * SERIALIZABLE a copy of another type, under which scans leave no predicate
 * locks; the registered one goes on holding back what it must.
 */
static void
take_snapshot(Sample *s)
{
	s->registered = RegisterSnapshot(GetLatestSnapshot());
	s->snapshot = s->registered;
	if (IsolationIsSerializable())
	{
		memcpy(&s->copy, s->registered, sizeof(SnapshotData));
		s->copy.snapshot_type = SNAPSHOT_SELF;
		s->snapshot = &s->copy;
	}
}

/*
 * Returns false when somebody holds a lock in the way.
 */
static bool
open_leaf(Sample *s, Oid relid)
{
	SampleLeaf *leaf;
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	/* dropped before we had the lock */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
	{
		UnlockRelationOid(relid, AccessShareLock);
		return true;
	}
	rel = table_open(relid, NoLock);
	/* without storage, or in the memory of another session */
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) ||
		RELATION_IS_OTHER_TEMP(rel))
	{
		table_close(rel, AccessShareLock);
		return true;
	}
	leaf = palloc0(sizeof(SampleLeaf));
	leaf->rel = rel;
	leaf->slot = table_slot_create(rel, NULL);
	leaf->blocks = RelationGetNumberOfBlocks(rel);
	s->blocks += leaf->blocks;
	s->heap = s->heap && rel->rd_tableam == GetHeapamTableAmRoutine();
	s->leaves = lappend(s->leaves, leaf);
	return true;
}

/*
 * SampleOpen
 *		Open a table with all its partitions and children; false when one of
 *		them is locked.
 */
bool
SampleOpen(Sample *s, Oid relid)
{
	List	   *relids = find_all_inheritors(relid, NoLock, NULL);
	ListCell   *lc;

	memset(s, 0, sizeof(*s));
	s->heap = true;
	take_snapshot(s);
	foreach(lc, relids)
	{
		CHECK_FOR_INTERRUPTS();
		if (open_leaf(s, lfirst_oid(lc)))
			continue;
		SampleClose(s);
		return false;
	}
	return true;
}

/*
 * SampleMapRoles
 *		Fill in each leaf's attnos, for a table that is a queue.
 */
void
SampleMapRoles(Sample *s, Queue *q)
{
	ListCell   *lc;

	foreach(lc, s->leaves)
	{
		SampleLeaf *leaf = (SampleLeaf *) lfirst(lc);

		QueueMapRoles(q, leaf->rel, leaf->attnos);
	}
}

void
SampleClose(Sample *s)
{
	ListCell   *lc;

	foreach(lc, s->leaves)
	{
		SampleLeaf *leaf = (SampleLeaf *) lfirst(lc);

		ExecDropSingleTupleTableSlot(leaf->slot);
		table_close(leaf->rel, AccessShareLock);
	}
	s->leaves = NIL;
	UnregisterSnapshot(s->registered);
}

/*
 * visible_items
 *		The visible row versions of a page, to be read after its lock is
 *		released; the pin keeps them where they are.
 */
static int
visible_items(SampleLeaf *leaf, Buffer buffer, BlockNumber block,
			  Snapshot snapshot, OffsetNumber *items)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber max;
	bool		all;
	int			n = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	all = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	max = PageIsNew(page) ? 0 : PageGetMaxOffsetNumber(page);
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		item = PageGetItemId(page, off);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_tableOid = RelationGetRelid(leaf->rel);
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, off);
		if (all || HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			items[n++] = off;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return n;
}

static void
read_page(Sample *s, SampleLeaf *leaf, BlockNumber block,
		  BufferAccessStrategy strategy, SampleVisit visit, void *arg)
{
	Buffer		buffer = ReadBufferExtended(leaf->rel, MAIN_FORKNUM, block,
											RBM_NORMAL, strategy);
	OffsetNumber items[MaxHeapTuplesPerPage];
	int			n = visible_items(leaf, buffer, block, s->snapshot, items);

	for (int i = 0; i < n; i++)
	{
		Page		page = BufferGetPage(buffer);
		ItemId		item = PageGetItemId(page, items[i]);
		HeapTupleData tuple;

		tuple.t_tableOid = RelationGetRelid(leaf->rel);
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, items[i]);
		ExecStoreBufferHeapTuple(&tuple, leaf->slot, buffer);
		visit(leaf, leaf->slot, arg);
	}
	ExecClearTuple(leaf->slot);
	ReleaseBuffer(buffer);
}

/*
 * SampleRows
 *		Visit the visible rows of at most so many pages: of all pages if there
 *		are no more than that, else of one random page in each of as many
 *		stretches of equal length.  All leaves are heaps.
 *
 * Rows sent together, and thus often of one state, lie together; a page from
 * each stretch meets all of them in better proportion than pages drawn from
 * the whole.
 */
void
SampleRows(Sample *s, int pages, SampleVisit visit, void *arg)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	uint64		stretches = Min(s->blocks, pages);
	uint64		leaf_start = 0;
	int			i = 0;

	for (s->read = 0; s->read < stretches; s->read++)
	{
		uint64		start = s->read * s->blocks / stretches;
		uint64		end = (s->read + 1) * s->blocks / stretches;
		uint64		block = pg_prng_uint64_range(&pg_global_prng_state,
												 start, end - 1);
		SampleLeaf *leaf = (SampleLeaf *) list_nth(s->leaves, i);

		CHECK_FOR_INTERRUPTS();
		while (block - leaf_start >= leaf->blocks)
		{
			leaf_start += leaf->blocks;
			leaf = (SampleLeaf *) list_nth(s->leaves, ++i);
		}
		read_page(s, leaf, (BlockNumber) (block - leaf_start), strategy, visit,
				  arg);
	}
	FreeAccessStrategy(strategy);
}
