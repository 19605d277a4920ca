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

#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/instrument.h"
#include "group.h"
#include "hints.h"
#include "miscadmin.h"
#include "pending.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "walk.h"

#define AHEAD		16			/* entries of a group */

/*
 * put_group
 *		The rows of the group at hand, by an index that begins with its key;
 *		from the spot on, where there is one, and the index has the order.
 *		Returns the number of keys.
 */
static int
put_group(GroupFind *g, ScanKey keys, Relation index, ScanKey members,
		  bool ordered)
{
	int			n = 0;

	GroupPutKey(&keys[n++], index, 1, BTEqualStrategyNumber, TEXTOID, F_TEXTEQ,
				PointerGetDatum(g->key));
	if (g->spotted && ordered)
		GroupPutBound(g, &keys[n++], members, 2, BTGreaterEqualStrategyNumber,
					  &g->spot.key, true);
	return n;
}

/*
 * scan_leases
 *		Begin with those of the group at hand that have a lease.
 */
static IndexScanDesc
scan_leases(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	int			n = put_group(g, keys, g->lease_index, g->lease_members,
							  g->lease_ordered);

	return GroupScan(g, &g->leases, g->lease_index, SnapshotAny, keys, n, false);
}

/*
 * scan_head
 *		Begin with its rows in claim order.
 */
static IndexScanDesc
scan_head(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	int			n = put_group(g, keys, g->head_index, g->head_members, true);

	return GroupScan(g, &g->heads, g->head_index, SnapshotAny, keys, n, g->keyed);
}

/*
 * scan_better
 *		Begin with those of a better level than the limit's.
 */
static IndexScanDesc
scan_better(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	int			n = put_group(g, keys, g->head_index, g->head_members, true);

	GroupPutKey(&keys[n++], g->head_index, 2, BTLessStrategyNumber, INT8OID,
				WalkPriorityOperator(g->q->col[ROLE_PRIORITY].type,
									 BTLessStrategyNumber),
				Int64GetDatum(g->limit.priority));
	return GroupScan(g, &g->heads, g->head_index, SnapshotAny, keys, n, false);
}

/*
 * scan_limited
 *		Begin with those of its level up to the limit.
 */
static IndexScanDesc
scan_limited(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	AttrNumber	attno = GroupKeyAttno(g) + 1;
	int			n = 0;

	GroupPutKey(&keys[n++], g->head_index, 1, BTEqualStrategyNumber, TEXTOID,
				F_TEXTEQ, PointerGetDatum(g->key));
	n += GroupPutLevel(g, &keys[n], g->head_index, 2);
	if (g->spotted && g->spot.key.priority == g->limit.priority)
		GroupPutBound(g, &keys[n++], g->head_members, attno,
					  BTGreaterEqualStrategyNumber, &g->spot.key, false);
	GroupPutBound(g, &keys[n++], g->head_limit, attno, BTLessEqualStrategyNumber,
				  &g->limit, false);
	return GroupScan(g, &g->heads, g->head_index, SnapshotAny, keys, n, false);
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
		{
			g->dead++;
			g->look_dead++;
		}
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
	IndexScanDesc scan = scan_leases(g);
	LeaseRow	row;

	while (next_visible(g, scan, snapshot, &row))
	{
		if (!GroupLeaseEnded(g, &row, g->q->relid, &g->slot->tts_tid))
			return false;
	}
	return true;
}

/*
 * read_ahead
 *		Where the group has rows somewhat behind the head that the scan is at.
 *		Whoever looks at the group next begins with less than all of it.
 */
static void
read_ahead(GroupFind *g)
{
	HintKey		key;

	for (int i = 0; i < AHEAD; i++)
	{
		if (index_getnext_tid(g->heads, ForwardScanDirection) == NULL)
			return;
		GroupEntryKey(g, g->heads, &key);
		if (key.priority != g->head_level)
			return;
		g->ahead = key;
		g->ahead_known = true;
	}
}

/*
 * look_head
 *		Step 4.  Where a row of the group is known that is the head or not far
 *		behind it, the scan goes up to there at first: a page of the index is
 *		read up to where a scan ends, and of a large group it holds hundreds of
 *		entries.
 */
static bool
look_head(GroupFind *g, Snapshot snapshot)
{
	LeaseRow	row;
	bool		found = false;

	if (g->limited)
	{
		found = (QueueHas(g->q, ROLE_PRIORITY) &&
				 next_visible(g, scan_better(g), snapshot, &row)) ||
			next_visible(g, scan_limited(g), snapshot, &row);
		g->limited = found;
	}
	if (!found && !next_visible(g, scan_head(g), snapshot, &row))
		return false;
	if (!GroupIsHead(g, &row, g->leaf->attnos, g->slot))
		return false;
	if (g->keyed && !g->limited)
		read_ahead(g);
	return true;
}

/*
 * pages_gone_to
 *		So far.  Entries that a scan has marked as dead are stepped over by
 *		later ones without a word, but not for nothing.
 */
static int64
pages_gone_to(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

/*
 * GroupWalkSpot
 *		Is it known where the head of the group at hand was?
 */
bool
GroupWalkSpot(GroupFind *g)
{
	GroupSpot	spot;

	return GroupSpotFind(g->q, GroupHash(g), g->now, &spot);
}

/*
 * GroupWalkLook
 *		Steps 2 to 4, for the group at hand.
 *
 * The entries of all that was settled stay in front of the head, as long as an
 * old snapshot keeps their rows, and then until a vacuum goes by: nobody
 * inserts there, so no page is full and makes room.  Behind so many the look
 * does not begin with the group, but at the spot where the last claim on it
 * took the head.  That is as good if nothing
 * of the group has come before it since, and nothing before it is leased:
 *
 * - Whatever makes rows that are not leased, there as anywhere, tells the
 *	 hints when it has committed (rule 1 of hints.c), and its key is lower than
 *	 the spot's: HintsNoneBefore.  What has not been told yet has come later.
 * - When the head was taken no row before it was unfinished, for it was the
 *	 head.  A lease before it can only be that of a row that has come since and
 *	 has been claimed; and that claim has moved the spot to where it was, or
 *	 taken it away, while it had the group's lock.
 * - A transaction that had settled rows of the group before it took the head
 *	 brings them back, leases and all, if it aborts; it then opens all keys up
 *	 to the spot, before it lets go of the lock (rule 4).
 *
 * What nobody tells (see rule 8) waits until the spot is too old.
 */
bool
GroupWalkLook(GroupFind *g)
{
	QueueHints *hints = HintsFor(g->q);
	uint64		generation = hints != NULL ? HintsGeneration(hints) : 0;
	Snapshot	snapshot;
	int64		pages = pages_gone_to();
	bool		free;

	g->spotted = g->spots && !PendingUntold(hints) &&
		GroupSpotFind(g->q, g->hash, g->now, &g->spot);
	/* read before, so that what is told meanwhile is told of the new spot */
	g->spot.generation = generation;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	free = look_leases(g, snapshot) && look_head(g, snapshot);
	g->look_pages = pages_gone_to() - pages;

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
