/*-------------------------------------------------------------------------
 *
 * groupscan.c
 *	  The scans of a FIFO queue's indexes: their keys, and those of the
 *	  entries that they come to.
 *
 * A scan reads each page up to where it ends, and compares all entries there
 * with its keys before it returns the first.  So whoever wants but one entry
 * makes its scan end soon.
 *
 * Called by groupwalk.c, grouplook.c and grouplevel.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "group.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "walk.h"

/*
 * GroupKeyAttno
 *		Where the index that goes through the groups has their key.
 */
AttrNumber
GroupKeyAttno(const GroupFind *g)
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

static RegProcedure
compare_function(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return F_BTINT28CMP;
		case INT4OID:
			return F_BTINT48CMP;
		case INT8OID:
			return F_BTINT8CMP;
		default:
			return F_TIMESTAMPTZ_CMP;
	}
}

/*
 * GroupPutBound
 *		A bound on the claim order, as one row comparison, on the columns of an
 *		index from attno on.  Without levels they begin with the due time: the
 *		index has gone by the priority before.
 */
void
GroupPutBound(GroupFind *g, ScanKey key, ScanKey members, AttrNumber attno,
			  StrategyNumber strategy, const HintKey *bound, bool levels)
{
	static const Role order[] = {ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ID};
	const int64 values[] = {bound->priority, bound->due, bound->id};
	int			n = 0;

	for (int i = levels ? 0 : 1; i < lengthof(order); i++)
	{
		RoleColumn *col = &g->q->col[order[i]];

		if (!QueueHas(g->q, order[i]))
			continue;
		ScanKeyEntryInitialize(&members[n], SK_ROW_MEMBER, attno + n, strategy,
							   col->type == TIMESTAMPTZOID ? TIMESTAMPTZOID : INT8OID,
							   InvalidOid, compare_function(col->type),
							   Int64GetDatum(values[i]));
		n++;
	}
	members[n - 1].sk_flags |= SK_ROW_END;
	memset(key, 0, sizeof(ScanKeyData));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = attno;
	key->sk_strategy = strategy;
	key->sk_argument = PointerGetDatum(members);
}

static int64
level_of(GroupFind *g, IndexScanDesc scan, AttrNumber attno)
{
	bool		isnull;
	Datum		datum = index_getattr(scan->xs_itup, attno, scan->xs_itupdesc,
									  &isnull);

	return isnull ? PG_INT64_MAX : RoleInteger(g->q->col[ROLE_PRIORITY].type, datum);
}

/*
 * GroupEntryLevel
 *		The priority of the entry that the scan of groups is at.
 */
int64
GroupEntryLevel(GroupFind *g)
{
	return level_of(g, g->groups, 1);
}

/*
 * GroupEntryKey
 *		Where in the claim order the entry is that a scan of groups or of heads
 *		is at; the queue's columns have no NULL, and its ids are integers.
 */
void
GroupEntryKey(GroupFind *g, IndexScanDesc scan, HintKey *key)
{
	Queue	   *q = g->q;
	AttrNumber	attno = GroupKeyAttno(g) + 1;
	bool		isnull;

	key->priority = key->due = 0;
	if (QueueHas(q, ROLE_PRIORITY))
		key->priority = level_of(g, scan, scan == g->heads ? 2 : 1);
	if (QueueHas(q, ROLE_DUE_AT))
	{
		key->due = DatumGetTimestampTz(index_getattr(scan->xs_itup, attno,
													 scan->xs_itupdesc, &isnull));
		attno++;
	}
	key->id = RoleInteger(q->col[ROLE_ID].type,
						  index_getattr(scan->xs_itup, attno, scan->xs_itupdesc,
										&isnull));
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

/*
 * is_behind
 *		Of an entry of a scan that begins behind g->lower, always.  The scan
 *		would compare each with it again, and text is dear to compare.
 */
static Datum
is_behind(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(true);
}

static void
put_lower(GroupFind *g, ScanKey key, AttrNumber attno)
{
	GroupPutKey(key, g->group_index, attno, BTGreaterStrategyNumber, TEXTOID,
				F_TEXT_GT, PointerGetDatum(g->lower));
	/* beside an equality it may rule all entries out */
	if (g->part != PART_SELF)
		key->sk_func.fn_addr = is_behind;
}

/*
 * GroupScanPart
 *		Begin, or go on with, a part of the level's groups, behind g->lower.
 */
void
GroupScanPart(GroupFind *g)
{
	ScanKeyData keys[GROUP_SCAN_KEYS];
	AttrNumber	attno = GroupKeyAttno(g);
	int			n = GroupPutLevel(g, keys, g->group_index, 1);
	bool		near = g->part == PART_SELF && g->cursor.near_known;

	if (g->lower != NULL)
		put_lower(g, &keys[n++], attno);
	if (g->part == PART_BEFORE)
		GroupPutKey(&keys[n++], g->group_index, attno, BTLessStrategyNumber,
					TEXTOID, F_TEXT_LT, PointerGetDatum(g->bound));
	else if (g->part == PART_UPTO)
		GroupPutKey(&keys[n++], g->group_index, attno, BTLessEqualStrategyNumber,
					TEXTOID, F_TEXT_LE, PointerGetDatum(g->bound));
	else if (g->part == PART_SELF)
		GroupPutKey(&keys[n++], g->group_index, attno, BTEqualStrategyNumber,
					TEXTOID, F_TEXTEQ, PointerGetDatum(g->bound));
	if (near)
	{
		GroupPutBound(g, &keys[n++], g->near_members[0], attno + 1,
					  BTGreaterEqualStrategyNumber, &g->cursor.near.lo, false);
		GroupPutBound(g, &keys[n++], g->near_members[1], attno + 1,
					  BTLessEqualStrategyNumber, &g->cursor.near.hi, false);
	}
	(void) GroupScan(g, &g->groups, g->group_index, SnapshotSelf, keys, n, true);
	if (near)
		g->groups->ignore_killed_tuples = true;
	g->scanning = true;
	g->at_entry = g->across = false;
}

/*
 * GroupScanEntry
 *		The next entry of the scan of groups.  Where the heads of groups are
 *		remembered, what it begins with may be a long row of entries marked as
 *		dead, and the first of them tells whose they are: so it must see those
 *		of its first page.
 */
bool
GroupScanEntry(GroupFind *g)
{
	bool		found = index_getnext_tid(g->groups, ForwardScanDirection) != NULL;

	g->groups->ignore_killed_tuples = true;
	return found;
}
