/*-------------------------------------------------------------------------
 *
 * grouplook.c
 *	  The look at one group, and at the rows without a group, by index.
 *
 * The look at a group (steps 2 to 4 of group.c) must see all rows as one
 * snapshot does, yet leave no predicate locks, or at SERIALIZABLE two claims
 * would fail each other.  So its scans use SnapshotAny, and each version is
 * tested against the snapshot by hand, as in locate.c.
 *
 * Rows without a group are read as of now, like those of a plain queue, in
 * their own stretch of the index on (group_key, priority, due_at, id).  There
 * are no hints for them: those that are leased or dead in front of the first
 * that is not are stepped over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "group.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/*
 * scan_rows
 *		The rows of the group at hand, by an index that begins with its key.
 */
static IndexScanDesc
scan_rows(GroupFind *g, IndexScanDesc *scan, Relation index)
{
	ScanKeyData key;

	GroupPutKey(&key, index, 1, BTEqualStrategyNumber, TEXTOID, F_TEXTEQ,
				PointerGetDatum(g->key));
	return GroupScan(g, scan, index, SnapshotAny, &key, 1, false);
}

/*
 * next_visible
 *		The next unfinished row of the scan that the snapshot sees.
 */
static bool
next_visible(GroupFind *g, IndexScanDesc scan, Snapshot snapshot,
			 LeaseRow *row)
{
	while (index_getnext_slot(scan, ForwardScanDirection, g->slot))
	{
		if ((++g->steps & 0xff) == 0)
			CHECK_FOR_INTERRUPTS();
		if (table_tuple_satisfies_snapshot(g->leaf->rel, g->slot, snapshot))
		{
			LeaseReadRow(g->q, g->leaf->attnos, g->slot, row);
			if (!row->finished)
				return true;
		}
		else
			g->dead++;
	}
	return false;
}

/*
 * look_leases
 *		Step 3 of group.c.
 */
static bool
look_leases(GroupFind *g, Snapshot snapshot)
{
	IndexScanDesc scan = scan_rows(g, &g->leases, g->lease_index);
	LeaseRow	row;

	while (next_visible(g, scan, snapshot, &row))
	{
		if (!GroupLeaseEnded(g, &row, g->q->relid, &g->slot->tts_tid))
			return false;
	}
	return true;
}

/*
 * look_head
 *		Step 4.
 */
static bool
look_head(GroupFind *g, Snapshot snapshot)
{
	IndexScanDesc scan = scan_rows(g, &g->heads, g->head_index);
	LeaseRow	row;

	if (!next_visible(g, scan, snapshot, &row))
		return false;
	return GroupIsHead(g, &row, g->leaf->attnos, g->slot);
}

/*
 * GroupWalkLook
 *		Steps 2 to 4, for the group at hand.
 */
bool
GroupWalkLook(GroupFind *g)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		free = look_leases(g, snapshot) && look_head(g, snapshot);

	ExecClearTuple(g->slot);
	UnregisterSnapshot(snapshot);
	return free;
}

static void
scan_loose(GroupFind *g)
{
	Relation	index = g->head_index;
	ScanKeyData keys[GROUP_SCAN_KEYS];
	int			n = 0;

	if (g->loose_only)
		GroupPutKey(&keys[n++], index, 1, BTEqualStrategyNumber, TEXTOID, F_TEXTEQ,
					PointerGetDatum(g->only));
	else
		GroupPutNull(&keys[n++], 1);
	n += GroupPutLevel(g, &keys[n], index, 2);
	if (QueueHas(g->q, ROLE_DUE_AT))
		GroupPutKey(&keys[n], index, n + 1, BTLessEqualStrategyNumber,
					TIMESTAMPTZOID, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(g->now));
	n += QueueHas(g->q, ROLE_DUE_AT);
	(void) GroupScan(g, &g->loose, index, SnapshotSelf, keys, n, false);
	g->loose_scanning = true;
}

/*
 * next_loose_due
 *		When the level's next row without a group comes due.
 */
static void
next_loose_due(GroupFind *g)
{
	Relation	index = g->head_index;
	ScanKeyData keys[GROUP_SCAN_KEYS];
	int			n = 0;
	AttrNumber	attno;
	bool		isnull;

	if (!QueueHas(g->q, ROLE_DUE_AT) || g->loose_only)
		return;
	GroupPutNull(&keys[n++], 1);
	n += GroupPutLevel(g, &keys[n], index, 2);
	attno = n + 1;
	GroupPutKey(&keys[n++], index, attno, BTGreaterStrategyNumber, TIMESTAMPTZOID,
				F_TIMESTAMPTZ_GT, TimestampTzGetDatum(g->now));
	(void) GroupScan(g, &g->loose, index, SnapshotSelf, keys, n, true);
	if (index_getnext_tid(g->loose, ForwardScanDirection) == NULL)
		return;
	g->next_due = Min(g->next_due,
					  DatumGetTimestampTz(index_getattr(g->loose->xs_itup, attno,
														g->loose->xs_itupdesc,
														&isnull)));
}

/*
 * GroupWalkLoose
 *		The next claimable row of the level that has no group, or is of the
 *		dead group that was asked for.
 */
bool
GroupWalkLoose(GroupFind *g, ItemPointer tid)
{
	if (!g->loose_scanning)
		scan_loose(g);
	while (index_getnext_tid(g->loose, ForwardScanDirection) != NULL)
	{
		LeaseRow	row;

		if ((++g->steps & 0xff) == 0)
			CHECK_FOR_INTERRUPTS();
		if (!index_fetch_heap(g->loose, g->loose_slot))
		{
			g->dead++;
			continue;
		}
		LeaseReadRow(g->q, g->leaf->attnos, g->loose_slot, &row);
		if (LeaseClaimable(g->q, &row, g->now) &&
			!ShareOfOthers(g->share, g->leaf->attnos[ROLE_PARTITION_KEY],
						   g->loose_slot))
		{
			*tid = g->loose_slot->tts_tid;
			return true;
		}
	}
	ExecClearTuple(g->loose_slot);
	next_loose_due(g);
	return false;
}
