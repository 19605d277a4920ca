/*-------------------------------------------------------------------------
 *
 * grouplevel.c
 *	  The levels of priority of a FIFO queue, by index.
 *
 * A level is found by one descent of the index on (priority, group_key, due_at,
 * id), or by none: where the scan of all groups of a level has come to its
 * end, it is at the first entry of the next one.  So thousands of levels of few
 * groups each are one scan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "group.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "walk.h"

/*
 * next_priority
 *		The lowest priority that any index entry has, of all or above the
 *		level's; dead entries count, which costs a scan of nothing.  Where the
 *		last level's scan has come to an entry of the next, no descent is
 *		needed.  To begin with, the level served last is taken for the best
 *		one if no entry has a better: that is seen by the first of all, and a
 *		page full of them need not be read.
 */
static bool
next_priority(GroupFind *g, int64 *priority)
{
	RoleColumn *col = &g->q->col[ROLE_PRIORITY];
	StrategyNumber strategy = g->started ? BTGreaterStrategyNumber :
		BTLessStrategyNumber;
	int64		from = g->level;
	bool		guessed;
	ScanKeyData key;

	if (g->at_entry)
	{
		*priority = GroupEntryLevel(g);
		return true;
	}
	if (g->started && g->level == PG_INT64_MAX)
		return false;
	guessed = !g->started && GroupCursorLevel(g->q, &from) &&
		from != PG_INT64_MAX;
	if (g->started || guessed)
		GroupPutKey(&key, g->group_index, 1, strategy, INT8OID,
					WalkPriorityOperator(col->type, strategy),
					Int64GetDatum(from));
	(void) GroupScan(g, &g->groups, g->group_index, SnapshotSelf, &key,
					 g->started || guessed ? 1 : 0, true);
	g->scanning = g->across = false;
	*priority = guessed ? from : PG_INT64_MAX;
	if (!GroupScanEntry(g))
		/* entries with NULL satisfy no comparison */
		return guessed || (g->started && !col->notnull);
	*priority = GroupEntryLevel(g);
	g->at_entry = true;
	return true;
}

/*
 * any_loose
 *		Has the index an entry of a row without a group?
 */
static bool
any_loose(GroupFind *g)
{
	IndexScanDesc scan;
	ScanKeyData key;

	GroupPutNull(&key, 1);
	scan = GroupScan(g, &g->heads, g->head_index, SnapshotAny, &key, 1, false);
	return index_getnext_tid(scan, ForwardScanDirection) != NULL;
}

/*
 * GroupWalkLevel
 *		Go to the first or next level; false when there is none.
 */
bool
GroupWalkLevel(GroupFind *g)
{
	if (!g->started)
		g->no_loose = !g->loose_only && !any_loose(g);
	if (QueueHas(g->q, ROLE_PRIORITY))
	{
		if (!next_priority(g, &g->level))
			return false;
	}
	else if (g->started)
		return false;
	/* whose groups nobody will go through */
	if (g->loose_only)
		g->at_entry = false;
	g->started = true;
	g->loose_scanning = false;
	return true;
}
