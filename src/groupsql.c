/*-------------------------------------------------------------------------
 *
 * groupsql.c
 *	  The groups of a FIFO queue by SQL.
 *
 * For the tables that groupwalk.c cannot read: partitioned ones, those with
 * row security for this user, or without the indexes; and for all with
 * inbox.direct = off.  It finds the same, one statement for each step.  Where
 * row security applies, groups are what its policies let the user see.
 *
 * At SERIALIZABLE a search must not add to the transaction's read set, so it
 * sees what is current as it goes (FreshSnapshot in locate.c), and may miss a
 * row whose version changes meanwhile.  There each look at a group is made
 * until two in a row agree.
 *
 * SPI is connected.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "group.h"
#include "groupstatement.h"
#include "locate.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define CHUNK	100

static Oid	param_types[] = {TIMESTAMPTZOID, INT8OID, TEXTOID, TEXTOID, TEXTOID};

/*
 * open_cursor
 *		Open a cursor on a saved plan, under a fresh snapshot.
 */
static Portal
open_cursor(GroupFind *g, uint32 variant)
{
	Queue	   *q = g->q;
	SnapshotData copy;
	Datum		values[] = {
		TimestampTzGetDatum(g->now), Int64GetDatum(g->level),
		PointerGetDatum(g->loose_only ? g->only : g->key),
		PointerGetDatum(g->lower), PointerGetDatum(g->bound)
	};
	char		nulls[lengthof(values)];
	SPIPlanPtr	plan = QueueFindPlan(q, PLAN_GROUP, variant);
	Portal		portal;
	int			guc_level;

	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_GROUP, variant, GroupStatement(q, variant),
							 lengthof(param_types), param_types,
							 CURSOR_OPT_GENERIC_PLAN | CURSOR_OPT_FAST_PLAN);
	for (int i = 0; i < lengthof(values); i++)
		nulls[i] = i >= PARAM_GROUP - 1 && DatumGetPointer(values[i]) == NULL ?
			'n' : ' ';
	guc_level = PlanByIndex();
	PushActiveSnapshot(FreshSnapshot(q, &copy));
	portal = SPI_cursor_open(NULL, plan, values, nulls, true);
	PopActiveSnapshot();
	AtEOXact_GUC(false, guc_level);
	return portal;
}

static uint32
at_level(GroupFind *g)
{
	if (!QueueHas(g->q, ROLE_PRIORITY))
		return 0;
	return g->level == PG_INT64_MAX && !g->q->col[ROLE_PRIORITY].notnull ?
		AT_NULL : AT_LEVEL;
}

/*
 * GroupSqlLevel
 *		Go to the first or next level; false when there is none.
 */
bool
GroupSqlLevel(GroupFind *g)
{
	Queue	   *q = g->q;
	Portal		portal;
	bool		first = !g->started;
	bool		isnull;

	g->started = true;
	if (!QueueHas(q, ROLE_PRIORITY))
		return first;
	if (!first && g->level == PG_INT64_MAX)
		return false;
	portal = open_cursor(g, SQL_LEVEL | (first ? 0 : ABOVE_LEVEL));
	SPI_cursor_fetch(portal, true, 1);
	if (SPI_processed > 0)
		g->level = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
											   SPI_tuptable->tupdesc, 1, &isnull));
	else
		g->level = PG_INT64_MAX;
	first = SPI_processed > 0 || !q->col[ROLE_PRIORITY].notnull;
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(portal);
	return first;
}

/*
 * next_key
 *		The first key of the part behind g->lower, into g->key.
 */
static bool
next_key(GroupFind *g)
{
	uint32		variant = SQL_GROUPS | at_level(g);
	Portal		portal;
	bool		found;
	bool		isnull;
	MemoryContext old;

	if (g->lower != NULL)
		variant |= BEHIND_LOWER;
	if (g->part == PART_UPTO)
		variant |= UP_TO_BOUND;
	portal = open_cursor(g, variant);
	SPI_cursor_fetch(portal, true, 1);
	found = SPI_processed > 0;
	if (found)
	{
		Datum		key = SPI_getbinval(SPI_tuptable->vals[0],
										SPI_tuptable->tupdesc, 1, &isnull);

		old = MemoryContextSwitchTo(g->cxt);
		g->key = DatumGetTextPCopy(key);
		MemoryContextSwitchTo(old);
	}
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(portal);
	return found;
}

/*
 * GroupSqlNext
 *		The next group of the level, into g->key.
 */
bool
GroupSqlNext(GroupFind *g)
{
	if (g->key != NULL)
	{
		GroupFreeKey(&g->lower);
		g->lower = g->key;
		g->key = NULL;
	}
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (g->part == PART_NONE && !GroupNextPart(g))
			return false;
		if (next_key(g))
			return true;
		if (!GroupNextPart(g))
			return false;
	}
}

/*
 * row_version
 *		Read the row version that a search has found, and its table.
 */
static RowLeaf *
row_version(GroupFind *g, HeapTuple tuple, TupleDesc desc, GroupRow *row,
			LeaseRow *lease)
{
	bool		isnull;
	RowLeaf    *leaf;

	row->relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	row->tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(tuple, desc, 2, &isnull));
	leaf = WriterLeaf(g->w, row->relid);
	if (!table_tuple_fetch_row_version(leaf->rel, &row->tid, SnapshotAny, leaf->old))
		return NULL;
	LeaseReadRow(g->q, leaf->attnos, leaf->old, lease);
	return leaf;
}

/*
 * look_leases
 *		Step 3 of group.c.
 */
static bool
look_leases(GroupFind *g)
{
	Portal		portal = open_cursor(g, SQL_LEASES | OF_GROUP);
	bool		free = true;

	g->nended = 0;
	for (uint64 i = 0, n = 0; free; i++)
	{
		GroupRow	row;
		LeaseRow	lease;
		RowLeaf    *leaf;

		if (i == n)
		{
			if (i > 0)
				SPI_freetuptable(SPI_tuptable);
			SPI_cursor_fetch(portal, true, CHUNK);
			n = SPI_processed;
			i = 0;
		}
		if (n == 0)
			break;
		leaf = row_version(g, SPI_tuptable->vals[i], SPI_tuptable->tupdesc, &row,
						   &lease);
		free = leaf != NULL &&
			GroupLeaseEnded(g, &lease, row.relid, &row.tid);
		if (leaf != NULL)
			ExecClearTuple(leaf->old);
	}
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(portal);
	return free;
}

/*
 * look_head
 *		Step 4.
 */
static bool
look_head(GroupFind *g)
{
	Portal		portal = open_cursor(g, SQL_HEAD | OF_GROUP);
	bool		free = false;
	GroupRow	row;
	LeaseRow	lease;

	SPI_cursor_fetch(portal, true, 1);
	if (SPI_processed > 0)
	{
		RowLeaf    *leaf = row_version(g, SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, &row, &lease);

		if (leaf != NULL)
		{
			free = GroupIsHead(g, &lease, leaf->attnos, leaf->old);
			ExecClearTuple(leaf->old);
		}
	}
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(portal);
	return free;
}

/*
 * GroupSqlLook
 *		Steps 2 to 4, for the group at hand.
 */
bool
GroupSqlLook(GroupFind *g)
{
	GroupRow	before;
	int			ended;

	if (!look_leases(g) || !look_head(g))
		return false;
	if (!IsolationIsSerializable())
		return true;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		before = g->head_row;
		ended = g->nended;
		if (!look_leases(g) || !look_head(g))
			return false;
		if (before.relid == g->head_row.relid && ended == g->nended &&
			ItemPointerEquals(&before.tid, &g->head_row.tid))
			return true;
	}
}

/*
 * GroupSqlLoose
 *		The next claimable row of the level that has no group, or is of the
 *		dead group that was asked for.
 */
bool
GroupSqlLoose(GroupFind *g, Oid *relid, ItemPointer tid)
{
	if (g->portal == NULL)
		g->portal = open_cursor(g, SQL_LOOSE | at_level(g) |
								(g->loose_only ? OF_GROUP : 0));
	for (;;)
	{
		GroupRow	row;
		LeaseRow	lease;
		RowLeaf    *leaf;
		bool		free;

		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(g->portal, true, 1);
		if (SPI_processed == 0)
			break;
		leaf = row_version(g, SPI_tuptable->vals[0], SPI_tuptable->tupdesc, &row,
						   &lease);
		free = leaf != NULL && LeaseClaimable(g->q, &lease, g->now) &&
			!ShareOfOthers(g->share, leaf->attnos[ROLE_PARTITION_KEY], leaf->old);
		if (leaf != NULL)
			ExecClearTuple(leaf->old);
		SPI_freetuptable(SPI_tuptable);
		if (free)
		{
			*relid = row.relid;
			*tid = row.tid;
			return true;
		}
	}
	SPI_freetuptable(SPI_tuptable);
	return false;
}

void
GroupSqlEndLevel(GroupFind *g)
{
	if (g->portal != NULL)
		SPI_cursor_close(g->portal);
	g->portal = NULL;
}
