/*-------------------------------------------------------------------------
 *
 * walkscan.c
 *	  The index scans of a walk: what is due of one level of priority, and
 *	  the next level.
 *
 * A level is scanned from a lower bound on due time and id, as one row
 * comparison, up to what is due now; so it is one descent of the index,
 * whatever lies before.  Where the range at hand ends within the level, that
 * is the scan's upper bound: a range is often one key, and behind it are the
 * entries of all the rows that have been settled since, dead but not to be
 * removed while somebody holds an old snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"
#include "walk.h"

static void
put_key(ScanKey key, AttrNumber attno, StrategyNumber strategy, Oid subtype,
		RegProcedure func, Datum value)
{
	ScanKeyEntryInitialize(key, 0, attno, strategy, subtype, InvalidOid, func,
						   value);
}

/*
 * WalkPriorityOperator
 *		Less, equal or greater: of a priority with an int8.
 */
RegProcedure
WalkPriorityOperator(Oid type, StrategyNumber strategy)
{
	static const RegProcedure operators[][3] = {
		{F_INT28LT, F_INT28EQ, F_INT28GT},
		{F_INT48LT, F_INT48EQ, F_INT48GT},
		{F_INT8LT, F_INT8EQ, F_INT8GT}
	};
	int			which = strategy == BTLessStrategyNumber ? 0 :
		strategy == BTEqualStrategyNumber ? 1 : 2;

	return operators[type == INT2OID ? 0 : type == INT4OID ? 1 : 2][which];
}

/*
 * put_row
 *		A comparison of (due time, id) with a key.
 */
static void
put_row(Walk *w, ScanKey key, ScanKey members, AttrNumber attno,
		StrategyNumber strategy, const HintKey *bound)
{
	ScanKeyEntryInitialize(&members[0], SK_ROW_MEMBER, attno, strategy,
						   TIMESTAMPTZOID, InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(bound->due));
	ScanKeyEntryInitialize(&members[1], SK_ROW_MEMBER | SK_ROW_END, attno + 1,
						   strategy, INT8OID, InvalidOid,
						   w->q->col[ROLE_ID].type == INT4OID ?
						   F_BTINT48CMP : F_BTINT8CMP,
						   Int64GetDatum(bound->id));
	memset(key, 0, sizeof(ScanKeyData));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = attno;
	key->sk_strategy = strategy;
	key->sk_argument = PointerGetDatum(members);
}

/*
 * put_lower
 *		The scan's lower bound: (due time, id), or either where the queue has
 *		no other, at or behind w->lower.  Returns the number of keys added.
 */
static int
put_lower(Walk *w, ScanKey key, AttrNumber attno)
{
	Queue	   *q = w->q;
	bool		due = QueueHas(q, ROLE_DUE_AT);
	Oid			idtype = q->col[ROLE_ID].type;

	if (due && (!q->integer_id || w->lower.id == PG_INT64_MIN))
	{
		if (w->lower.due == PG_INT64_MIN)
			return 0;
		put_key(key, attno, BTGreaterEqualStrategyNumber, TIMESTAMPTZOID,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(w->lower.due));
		return 1;
	}
	if (!q->integer_id || w->lower.id == PG_INT64_MIN)
		return 0;
	if (!due)
	{
		put_key(key, attno, BTGreaterEqualStrategyNumber, INT8OID,
				idtype == INT4OID ? F_INT48GE : F_INT8GE,
				Int64GetDatum(w->lower.id));
		return 1;
	}
	put_row(w, key, w->lower_keys, attno, BTGreaterEqualStrategyNumber,
			&w->lower);
	return 1;
}

/*
 * WalkRangeEnds
 *		Is the end of the range at hand also that of the level's scan?
 */
bool
WalkRangeEnds(const Walk *w)
{
	const HintKey *hi = &w->view.open.range[w->range].hi;

	return hi->priority == w->lower.priority &&
		(QueueHas(w->q, ROLE_DUE_AT) ? hi->due <= w->now :
		 hi->due == 0 && hi->id != PG_INT64_MAX);
}

/*
 * put_upper
 *		The scan's upper bound: the end of the range, or what is due.  Returns
 *		the number of keys added.
 */
static int
put_upper(Walk *w, ScanKey key, AttrNumber attno)
{
	const HintKey *hi = &w->view.open.range[w->range].hi;
	Queue	   *q = w->q;
	bool		due = QueueHas(q, ROLE_DUE_AT);
	bool		ends = WalkRangeEnds(w);

	if (due && ends && q->integer_id && hi->id != PG_INT64_MAX)
		put_row(w, key, w->upper_keys, attno, BTLessEqualStrategyNumber, hi);
	else if (due)
		put_key(key, attno, BTLessEqualStrategyNumber, TIMESTAMPTZOID,
				F_TIMESTAMPTZ_LE, TimestampTzGetDatum(ends ? hi->due : w->now));
	else if (ends && q->integer_id)
		put_key(key, attno, BTLessEqualStrategyNumber, INT8OID,
				q->col[ROLE_ID].type == INT4OID ? F_INT48LE : F_INT8LE,
				Int64GetDatum(hi->id));
	else
		return 0;
	return 1;
}

/*
 * put_priority
 *		An equality with the level's priority, where there are levels.
 *		Returns the number of keys added.
 */
static int
put_priority(Walk *w, ScanKey key)
{
	RoleColumn *col = &w->q->col[ROLE_PRIORITY];

	if (!QueueHas(w->q, ROLE_PRIORITY))
		return 0;
	if (w->lower.priority == PG_INT64_MAX && !col->notnull)
		ScanKeyEntryInitialize(key, SK_ISNULL | SK_SEARCHNULL, 1,
							   InvalidStrategy, InvalidOid, InvalidOid,
							   InvalidOid, (Datum) 0);
	else
		put_key(key, 1, BTEqualStrategyNumber, INT8OID,
				WalkPriorityOperator(col->type, BTEqualStrategyNumber),
				Int64GetDatum(w->lower.priority));
	return 1;
}

/*
 * A walk that finds its rows in walkahead.c's copy needs no index.
 */
static void
open_index(Walk *w)
{
	if (w->scan != NULL)
		return;
	w->index = index_open(w->q->order_index, AccessShareLock);
	w->scan = BeginIndexScan(w->leaf->rel, w->index, SnapshotSelf,
							 WALK_SCAN_KEYS);
}

static int64
entry_value(Queue *q, IndexTuple itup, TupleDesc desc, AttrNumber *attno,
			Role role, int64 null_value)
{
	RoleColumn *col = &q->col[role];
	bool		isnull;
	Datum		datum;

	if (col->attno == 0)
		return 0;
	datum = index_getattr(itup, *attno, desc, &isnull);
	(*attno)++;
	return isnull ? null_value : RoleInteger(col->type, datum);
}

/*
 * WalkEntryKey
 *		The place of an entry of the claim index whose ids are integers.
 */
void
WalkEntryKey(Queue *q, IndexTuple itup, TupleDesc desc, HintKey *key)
{
	AttrNumber	attno = 1;

	key->priority = entry_value(q, itup, desc, &attno, ROLE_PRIORITY, PG_INT64_MAX);
	key->due = entry_value(q, itup, desc, &attno, ROLE_DUE_AT, PG_INT64_MAX);
	key->id = entry_value(q, itup, desc, &attno, ROLE_ID, 0);
}

/*
 * WalkScanLevel
 *		Scan what is due of the level of w->lower, from there on.
 */
void
WalkScanLevel(Walk *w)
{
	ScanKeyData keys[WALK_SCAN_KEYS];
	AttrNumber	attno = 1;
	int			n;

	n = put_priority(w, keys);
	attno += n;
	n += put_lower(w, &keys[n], attno);
	n += put_upper(w, &keys[n], attno);
	open_index(w);
	/* for WalkScanAhead and AheadKeep */
	w->scan->xs_want_itup = true;
	w->scan->numberOfKeys = n;
	index_rescan(w->scan, keys, n, NULL, 0);
	w->scanning = true;
}

/*
 * WalkScanAhead
 *		The key of the last of so many entries of the level's scan, beginning
 *		with the one at hand; of no more than have been read already, which is
 *		one page of the index.
 */
void
WalkScanAhead(Walk *w, int64 entries, HintKey *key)
{
	BTScanOpaque scan;
	BTScanPos	pos;
	int			last;

	if (w->ahead != AHEAD_NONE)
	{
		AheadKey(w, entries, key);
		return;
	}
	scan = (BTScanOpaque) w->scan->opaque;
	pos = &scan->currPos;
	last = (int) Min(pos->itemIndex + entries - 1, pos->lastItem);
	WalkEntryKey(w->q, (IndexTuple) (scan->currTuples +
									 pos->items[last].tupleOffset),
				 RelationGetDescr(w->index), key);
}

/*
 * WalkScanNextLevel
 *		The lowest priority that any index entry has, of all or (not first)
 *		above w->lower's; dead entries count, which costs a scan of nothing.
 */
bool
WalkScanNextLevel(Walk *w, bool first, int64 *priority)
{
	Queue	   *q = w->q;
	ScanKeyData key;
	bool		isnull;
	Datum		datum;
	Oid			type = q->col[ROLE_PRIORITY].type;

	if (!first && w->lower.priority == PG_INT64_MAX)
		return false;
	w->probes++;
	open_index(w);
	if (!first)
		put_key(&key, 1, BTGreaterStrategyNumber, INT8OID,
				WalkPriorityOperator(type, BTGreaterStrategyNumber),
				Int64GetDatum(w->lower.priority));
	w->scan->xs_want_itup = true;
	w->scan->numberOfKeys = first ? 0 : 1;
	index_rescan(w->scan, &key, first ? 0 : 1, NULL, 0);
	if (index_getnext_tid(w->scan, ForwardScanDirection) == NULL)
	{
		/* entries with NULL satisfy no comparison */
		*priority = PG_INT64_MAX;
		return !q->col[ROLE_PRIORITY].notnull;
	}
	datum = index_getattr(w->scan->xs_itup, 1, w->scan->xs_itupdesc, &isnull);
	*priority = isnull ? PG_INT64_MAX : RoleInteger(type, datum);
	return true;
}

/*
 * WalkScanNextDue
 *		When the level's next row comes due, by the index alone, PG_INT64_MAX:
 *		never.  A dead entry counts, which costs one who waits an attempt in
 *		vain.
 */
TimestampTz
WalkScanNextDue(Walk *w)
{
	ScanKeyData keys[WALK_SCAN_KEYS];
	int			n = put_priority(w, keys);
	AttrNumber	attno = n + 1;
	bool		isnull;
	Datum		datum;

	put_key(&keys[n++], attno, BTGreaterStrategyNumber, TIMESTAMPTZOID,
			F_TIMESTAMPTZ_GT, TimestampTzGetDatum(w->now));
	w->probes++;
	open_index(w);
	w->scan->xs_want_itup = true;
	w->scan->numberOfKeys = n;
	index_rescan(w->scan, keys, n, NULL, 0);
	if (index_getnext_tid(w->scan, ForwardScanDirection) == NULL)
		return PG_INT64_MAX;
	datum = index_getattr(w->scan->xs_itup, attno, w->scan->xs_itupdesc,
						  &isnull);
	return DatumGetTimestampTz(datum);
}
