/*-------------------------------------------------------------------------
 *
 * groupwalk.c
 *	  The groups of a FIFO queue by its indexes, without SQL.
 *
 * For plain tables that have three indexes, all of unfinished rows:
 *
 *	  (priority, group_key, due_at, id) to go through the groups of a level;
 *	  (group_key, priority, due_at, id) to find a group's head, and the rows
 *	  without a group in their order; the same index where there is no
 *	  priority;
 *	  the same of the rows with a lease, to find those of a group in one step,
 *	  however large the group; on (group_key) alone it will do.
 *
 * Going through the groups is stepping over index entries, and a descent past
 * the group where it has more than a few.  Its key is read from the entry.
 * The row of the first entry whose row is there, as of now, is the head on
 * this level as far as anybody without the lock can tell: if it is leased or
 * not due, the group need not be tried, which makes blocked groups cheap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "group.h"
#include "miscadmin.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "walk.h"

#define STEP_OVER	6			/* entries of a group, before a descent */
#define DEAD_FIRST	8			/* of rows that are gone, before a closer look */

static int
key_attno(const GroupFind *g)
{
	return QueueHas(g->q, ROLE_PRIORITY) ? 2 : 1;
}

void
GroupPutKey(ScanKey key, Relation index, AttrNumber attno, StrategyNumber strategy,
			Oid subtype, RegProcedure func, Datum value)
{
	ScanKeyEntryInitialize(key, 0, attno, strategy, subtype,
						   index->rd_indcollation[attno - 1], func, value);
}

void
GroupPutNull(ScanKey key, AttrNumber attno)
{
	ScanKeyEntryInitialize(key, SK_ISNULL | SK_SEARCHNULL, attno,
						   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid,
						   (Datum) 0);
}

/*
 * GroupPutLevel
 *		An equality with the level's priority, where there are levels.
 *		Returns the number of keys added.
 */
int
GroupPutLevel(GroupFind *g, ScanKey key, Relation index, AttrNumber attno)
{
	RoleColumn *col = &g->q->col[ROLE_PRIORITY];

	if (!QueueHas(g->q, ROLE_PRIORITY))
		return 0;
	if (g->level == PG_INT64_MAX && !col->notnull)
		GroupPutNull(key, attno);
	else
		GroupPutKey(key, index, attno, BTEqualStrategyNumber, INT8OID,
					WalkPriorityOperator(col->type, BTEqualStrategyNumber),
					Int64GetDatum(g->level));
	return 1;
}

bool
GroupWalkUsable(RowWriter *w)
{
	Queue	   *q = w->q;

	return InboxDirect && OidIsValid(q->group_index) &&
		OidIsValid(q->head_index) && OidIsValid(q->lease_index) &&
		WriterLeaf(w, q->relid)->direct_update;
}

/*
 * Has the index the columns of a head index, in that order?
 */
static bool
is_ordered(const GroupFind *g, Relation index)
{
	int			n = 2 + QueueHas(g->q, ROLE_PRIORITY) + QueueHas(g->q, ROLE_DUE_AT);

	if (index->rd_index->indnkeyatts < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (index->rd_index->indkey.values[i] !=
			g->head_index->rd_index->indkey.values[i] ||
			index->rd_indoption[i] != 0)
			return false;
	}
	return true;
}

void
GroupWalkBegin(GroupFind *g)
{
	Queue	   *q = g->q;
	Relation	rel;

	g->leaf = WriterLeaf(g->w, q->relid);
	rel = g->leaf->rel;
	g->group_index = index_open(q->group_index, AccessShareLock);
	g->head_index = index_open(q->head_index, AccessShareLock);
	g->lease_index = index_open(q->lease_index, AccessShareLock);
	g->slot = table_slot_create(rel, NULL);
	g->loose_slot = table_slot_create(rel, NULL);
	g->lease_ordered = is_ordered(g, g->lease_index);
	g->spottable = q->integer_id &&
		(!QueueHas(q, ROLE_PRIORITY) || q->col[ROLE_PRIORITY].notnull) &&
		(!QueueHas(q, ROLE_DUE_AT) || q->col[ROLE_DUE_AT].notnull);
	g->spots = g->spottable && GroupSpotsThere(q, g->now);
}

/*
 * GroupScan
 *		Begin, or begin anew, one of the scans.
 */
IndexScanDesc
GroupScan(GroupFind *g, IndexScanDesc *scan, Relation index, Snapshot snapshot,
		  ScanKey keys, int n, bool want_entry)
{
	if (*scan == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(g->cxt);

		*scan = BeginIndexScan(g->leaf->rel, index, snapshot, GROUP_SCAN_KEYS);
		MemoryContextSwitchTo(old);
	}
	(*scan)->xs_want_itup = want_entry;
	(*scan)->numberOfKeys = n;
	(*scan)->ignore_killed_tuples = !(g->spots && scan == &g->groups);
	index_rescan(*scan, keys, n, NULL, 0);
	return *scan;
}

static void
end_scan(IndexScanDesc scan)
{
	if (scan != NULL)
		index_endscan(scan);
}

void
GroupWalkEnd(GroupFind *g)
{
	end_scan(g->groups);
	end_scan(g->heads);
	end_scan(g->leases);
	end_scan(g->loose);
	ExecDropSingleTupleTableSlot(g->slot);
	ExecDropSingleTupleTableSlot(g->loose_slot);
	index_close(g->group_index, NoLock);
	index_close(g->head_index, NoLock);
	index_close(g->lease_index, NoLock);
}

/*
 * scan_groups
 *		Begin, or go on with, a part of the level's groups, behind g->lower.
 */
static void
scan_groups(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	AttrNumber	attno = key_attno(g);
	int			n = GroupPutLevel(g, keys, g->group_index, 1);

	if (g->lower != NULL)
		GroupPutKey(&keys[n++], g->group_index, attno, BTGreaterStrategyNumber,
					TEXTOID, F_TEXT_GT, PointerGetDatum(g->lower));
	if (g->part == PART_UPTO && g->bound != NULL)
		GroupPutKey(&keys[n++], g->group_index, attno, BTLessEqualStrategyNumber,
					TEXTOID, F_TEXT_LE, PointerGetDatum(g->bound));
	(void) GroupScan(g, &g->groups, g->group_index, SnapshotSelf, keys, n, true);
	g->scanning = true;
	g->at_entry = g->across = false;
}

/*
 * GroupWalkEntry
 *		The next entry of the scan of groups.  Where the heads of groups are
 *		remembered, what it begins with may be a long row of entries marked as
 *		dead, and the first of them tells whose they are: so it must see those
 *		of its first page.
 */
bool
GroupWalkEntry(GroupFind *g)
{
	bool		found = index_getnext_tid(g->groups, ForwardScanDirection) != NULL;

	g->groups->ignore_killed_tuples = true;
	return found;
}

/*
 * next_entry
 *		Go to the next entry of the level; false at its end.
 */
static bool
next_entry(GroupFind *g)
{
	if ((++g->steps & 0xff) == 0)
		CHECK_FOR_INTERRUPTS();
	if (!g->at_entry && !GroupWalkEntry(g))
		return false;
	g->at_entry = g->across && GroupEntryLevel(g) != g->level;
	return !g->at_entry;
}

/*
 * is_due
 *		May a row of the group at hand be due, of all those that come with the
 *		entry and behind it on this level?
 */
static bool
is_due(GroupFind *g)
{
	bool		isnull;
	Datum		datum;

	if (!QueueHas(g->q, ROLE_DUE_AT))
		return true;
	datum = index_getattr(g->groups->xs_itup, key_attno(g) + 1,
						  g->groups->xs_itupdesc, &isnull);
	if (isnull || DatumGetTimestampTz(datum) <= g->now)
		return !isnull;
	g->next_due = Min(g->next_due, DatumGetTimestampTz(datum));
	return false;
}

static bool
same_key(GroupFind *g, text *key)
{
	int			len = VARSIZE_ANY_EXHDR(key);

	if (g->key == NULL)
		return false;
	if (len == VARSIZE_ANY_EXHDR(g->key) &&
		memcmp(VARDATA_ANY(key), VARDATA_ANY(g->key), len) == 0)
		return true;
	return DatumGetBool(DirectFunctionCall2Coll(texteq,
												g->group_index->rd_indcollation[key_attno(g) - 1],
												PointerGetDatum(key),
												PointerGetDatum(g->key)));
}

/*
 * is_blocked
 *		Does the row of the entry at hand, the first of its group that is
 *		there, rule its group out?
 */
static bool
is_blocked(GroupFind *g)
{
	LeaseRow	row;

	LeaseReadRow(g->q, g->leaf->attnos, g->slot, &row);
	if (LeaseClaimable(g->q, &row, g->now))
		return false;
	g->next_due = Min(g->next_due, LeaseNextDue(g->q, &row, g->now));
	return !row.finished;
}

/*
 * meet
 *		Look at an entry; true when its group is to be tried.
 */
static bool
meet(GroupFind *g, text *key)
{
	if (!same_key(g, key))
	{
		GroupFreeKey(&g->key);
		g->key = GroupCopyKey(g, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
		g->passing = g->q->settings.dead_group != NULL &&
			LeaseInDeadGroup(g->q, g->key);
		g->passed = 0;
		if (!g->passing && g->spots && is_due(g) && GroupWalkSpot(g))
			return g->passing = true;
	}
	if (g->passing)
	{
		/* many more to come, perhaps: go past them in one step */
		if (++g->passed >= STEP_OVER)
		{
			GroupFreeKey(&g->lower);
			g->lower = g->key;
			g->key = NULL;
			g->scanning = false;
		}
		return false;
	}
	if (!is_due(g))
	{
		g->passing = true;
		return false;
	}
	if (!index_fetch_heap(g->groups, g->slot))
	{
		g->dead++;
		if (++g->passed < DEAD_FIRST)
			return false;
		g->passed = 0;
	}
	else if (is_blocked(g))
	{
		g->passing = true;
		return false;
	}
	g->passing = true;
	return true;
}

/*
 * GroupWalkNext
 *		The next group of the level that may be free, into g->key.
 */
bool
GroupWalkNext(GroupFind *g)
{
	for (;;)
	{
		text	   *key;
		Datum		datum;
		bool		isnull = true;
		bool		found;

		if (!g->scanning)
		{
			if (g->lower == NULL && !GroupNextPart(g))
				return false;
			/* all of a level, which the scan has come to */
			g->across = g->at_entry && g->lower == NULL && g->bound == NULL;
			g->scanning = g->across;
			if (!g->across)
				scan_groups(g);
		}
		if (next_entry(g))
			datum = index_getattr(g->groups->xs_itup, key_attno(g),
								  g->groups->xs_itupdesc, &isnull);
		if (isnull)
		{
			/* the end, or rows without a group, which come last */
			g->scanning = false;
			GroupFreeKey(&g->lower);
			continue;
		}
		key = DatumGetTextPP(datum);
		found = meet(g, key);
		if ((Pointer) key != DatumGetPointer(datum))
			pfree(key);
		if (found)
			return true;
	}
}
