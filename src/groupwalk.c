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

#include "access/relscan.h"
#include "access/tableam.h"
#include "group.h"
#include "miscadmin.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define STEP_OVER	6			/* entries of a group, before a descent */
#define DEAD_FIRST	8			/* of rows that are gone, before a closer look */

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
	g->keyed = q->integer_id &&
		(!QueueHas(q, ROLE_PRIORITY) || q->col[ROLE_PRIORITY].notnull) &&
		(!QueueHas(q, ROLE_DUE_AT) || q->col[ROLE_DUE_AT].notnull);
	g->spots = g->keyed && GroupSpotsThere(q, g->now);
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
 * next_entry
 *		Go to the next entry of the level; false at its end.
 */
static bool
next_entry(GroupFind *g)
{
	if ((++g->steps & 0xff) == 0)
		CHECK_FOR_INTERRUPTS();
	if (!g->at_entry && !GroupScanEntry(g))
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
	datum = index_getattr(g->groups->xs_itup, GroupKeyAttno(g) + 1,
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
												g->group_index->rd_indcollation[GroupKeyAttno(g) - 1],
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
	AttrNumber	attno = g->leaf->attnos[ROLE_LOCKED_UNTIL];
	LeaseRow	row;
	bool		isnull;
	TimestampTz until = DatumGetTimestampTz(slot_getattr(g->slot, attno, &isnull));

	/* most of many, and the rest of the row need not be read */
	if (!isnull && until > g->now && !QueueHas(g->q, ROLE_PROCESSED_AT))
	{
		g->next_due = Min(g->next_due, until);
		return true;
	}
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
		g->limited = g->part == PART_SELF && g->cursor.near_known;
		g->limit = g->cursor.near.hi;
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
	else if (g->keyed && g->part != PART_SELF)
	{
		g->limited = true;
		GroupEntryKey(g, g->groups, &g->limit);
	}
	g->passing = true;
	return true;
}

/*
 * look_wider
 *		Has the scan of the cursor's group ended that was of those rows alone
 *		where its head was believed to be?  What it has found there speaks for
 *		the group, but nothing that is or is not there speaks against it.
 */
static bool
look_wider(GroupFind *g)
{
	if (g->part != PART_SELF || !g->cursor.near_known)
		return false;
	g->cursor.near_known = false;
	GroupFreeKey(&g->key);
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
			if (g->lower == NULL && !look_wider(g) && !GroupNextPart(g))
				return false;
			/* all of a level, which the scan has come to */
			g->across = g->at_entry && g->lower == NULL && g->bound == NULL;
			g->scanning = g->across;
			if (!g->across)
				GroupScanPart(g);
		}
		if (next_entry(g))
			datum = index_getattr(g->groups->xs_itup, GroupKeyAttno(g),
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
		{
			if (g->part == PART_SELF)
				g->cursor.near_known = false;
			return true;
		}
	}
}
