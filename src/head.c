/*-------------------------------------------------------------------------
 *
 * head.c
 *	  The rows at the head of a queue: those that the claim index has first.
 *
 * A sample of pages says little about what is rare: a few leases in front of
 * a backlog of a million, or the last hundred rows in a table that was large
 * once.  Both are at the head of the claim index, so a bounded number of its
 * entries is read beside the sample.  When that reaches the end of the index,
 * every unfinished row has been seen and nothing need be guessed.
 *
 * Entries are counted whether or not their row is visible: with an old
 * snapshot about, dead ones pile up there, and the bound must hold just then.
 * So are the pages gone to for them: where the table lies in another order
 * than the claims go, each entry is a page from who knows where.
 *
 * In a FIFO queue it is the index in the order of groups.  Where it does not
 * reach the end, the first rows of the next priorities are
 * read too: an urgent backlog must not hide that less urgent rows starve.
 *
 * Called by count.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "head.h"
#include "indexcheck.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#define HEAD_PAGES		256		/* most pages of the table they may lie in */
#define LEAF_ENTRIES	16		/* at least so many of each partition */
#define MAX_LEVELS		32		/* further priorities looked at */
#define LEVEL_ENTRIES	4		/* of each of those */

typedef struct Head
{
	SampleLeaf *leaf;
	IndexScanDesc scan;
	SampleVisit visit;
	void	   *arg;
	BlockNumber block;			/* of the entry read last */
	int			pages;			/* may still be gone to */
} Head;

/*
 * Every visible row is in this index, in the version visible.
 */
static bool
is_complete(Relation index)
{
	return index->rd_index->indisready &&
		(!index->rd_index->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data),
							   TransactionXmin));
}

static Relation
open_claim_index(SampleLeaf *leaf, Queue *q)
{
	RoleColumn	col[NUM_QUEUE_ROLES];
	List	   *indexes = RelationGetIndexList(leaf->rel);
	ListCell   *lc;

	memcpy(col, q->col, sizeof(col));
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
		col[role].attno = leaf->attnos[role];
	foreach(lc, indexes)
	{
		Relation	index;

		/* whoever wants to drop an index locks its table first */
		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			continue;
		index = index_open(lfirst_oid(lc), NoLock);
		if ((q->settings.fifo ? IndexIsGroup(index, col, GROUP_INDEX_GROUPS) :
			 IndexIsClaim(index, col)) && is_complete(index))
			return index;
		index_close(index, AccessShareLock);
	}
	return NULL;
}

/*
 * read_entries
 *		Visit the rows of the next entries; false at the end of the scan.
 */
static bool
read_entries(Head *h, int entries)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!h->scan->xs_heap_continue)
		{
			ItemPointer tid;

			if (entries-- <= 0 || h->pages <= 0)
				return true;
			tid = index_getnext_tid(h->scan, ForwardScanDirection);
			if (tid == NULL)
				return false;
			if (ItemPointerGetBlockNumber(tid) != h->block)
				h->pages--;
			h->block = ItemPointerGetBlockNumber(tid);
		}
		if (index_fetch_heap(h->scan, h->leaf->slot))
			h->visit(h->leaf, h->leaf->slot, h->arg);
	}
}

static RegProcedure
greater_function(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return F_INT2GT;
		case INT4OID:
			return F_INT4GT;
		default:
			return F_INT8GT;
	}
}

/*
 * read_levels
 *		Visit the first rows of the priorities after that of the row read
 *		last, which is in the slot.
 */
static void
read_levels(Head *h, Queue *q)
{
	AttrNumber	priority = h->leaf->attnos[ROLE_PRIORITY];
	Oid			type = q->col[ROLE_PRIORITY].type;
	bool		isnull = true;
	Datum		level = 0;

	for (int i = 0; i < MAX_LEVELS; i++)
	{
		ScanKeyData key;

		if (!TTS_EMPTY(h->leaf->slot))
			level = slot_getattr(h->leaf->slot, priority, &isnull);
		/* no row was visible, or those without a priority are reached */
		if (isnull)
			return;
		ExecClearTuple(h->leaf->slot);
		isnull = true;
		ScanKeyEntryInitialize(&key, 0, 1, BTGreaterStrategyNumber, type,
							   InvalidOid, greater_function(type), level);
		index_rescan(h->scan, &key, 1, NULL, 0);
		(void) read_entries(h, LEVEL_ENTRIES);
	}
}

/*
 * read_leaf
 *		One of so many "leaves", which share what may be read.
 */
static bool
read_leaf(Sample *s, SampleLeaf *leaf, Queue *q, int entries, int leaves,
		  SampleVisit visit, void *arg)
{
	Head		h = {leaf, NULL, visit, arg, InvalidBlockNumber};
	Relation	index = open_claim_index(leaf, q);
	bool		more;

	if (index == NULL)
		return false;
	h.pages = Max(HEAD_PAGES / leaves, LEAF_ENTRIES);
	h.scan = BeginIndexScan(leaf->rel, index, s->snapshot, 0);
	index_rescan(h.scan, NULL, 0, NULL, 0);
	more = read_entries(&h, Max(entries / leaves, LEAF_ENTRIES));
	index_endscan(h.scan);
	if (more && leaf->attnos[ROLE_PRIORITY] != 0)
	{
		h.pages = Max(MAX_LEVELS * LEVEL_ENTRIES / leaves, LEVEL_ENTRIES);
		h.scan = BeginIndexScan(leaf->rel, index, s->snapshot, 1);
		read_levels(&h, q);
		index_endscan(h.scan);
	}
	ExecClearTuple(leaf->slot);
	index_close(index, AccessShareLock);
	return !more;
}

/*
 * HeadRows
 *		Visit the rows of about so many entries at the head of the queue; true
 *		when these are all its unfinished rows.
 */
bool
HeadRows(Sample *s, Queue *q, int entries, SampleVisit visit, void *arg)
{
	bool		all = true;
	ListCell   *lc;

	foreach(lc, s->leaves)
	{
		if (!read_leaf(s, (SampleLeaf *) lfirst(lc), q, entries,
					   list_length(s->leaves), visit, arg))
			all = false;
	}
	return all;
}
