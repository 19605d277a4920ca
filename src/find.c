/*-------------------------------------------------------------------------
 *
 * find.c
 *	  The one place that finds claimable rows, in claim order.
 *
 * Claim order is priority, due time, id.  An index on the three serves it,
 * but not the condition that the due time has come: a million delayed rows
 * of one priority would all be stepped over before the next priority is
 * reached.  So the levels of priority are read one after the other, each
 * with an equality on priority, which makes the due time a range of the
 * index; the next level is one more index probe.
 *
 * A level is read through a cursor, a chunk of rows at a time, because nobody
 * knows beforehand how many rows turn out to be locked by others.  The
 * caller locks and judges each row; what is returned here is a candidate.
 *
 * The snapshot is one of this moment, whatever the isolation level, and the
 * planner is kept from scanning and sorting the whole table (see locate.c).
 *
 * What a FIFO queue has to offer is found by group.c.
 *
 * SPI stays connected from FindBegin to FindEnd where SQL is used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "find.h"
#include "lib/stringinfo.h"
#include "locate.h"
#include "miscadmin.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define MAX_CHUNK	100

/* variants of the plans */
#define WITH_GROUP		0x01
#define NULL_LEVEL		0x02
#define ANY_LEVEL		0x04
#define WITH_SHARE		0x08

/* parameters of all of them */
#define PARAM_NOW		1
#define PARAM_LEVEL		2
#define PARAM_GROUP		3
#define PARAM_SHARE		4
#define PARAM_SHARES	5
static Oid	param_types[] = {TIMESTAMPTZOID, INT8OID, TEXTOID, INT4OID, INT4OID};

/*
 * FindBegin
 *		Plain tables are walked (walk.c), the others searched by SQL.
 */
void
FindBegin(Finder *f, RowWriter *w, TimestampTz now, text *group,
		  int64 max_rows)
{
	Queue	   *q = w->q;

	memset(f, 0, offsetof(Finder, walk));
	memset((char *) f + offsetof(Finder, started), 0,
		   sizeof(Finder) - offsetof(Finder, started));
	f->q = q;
	f->now = now;
	f->group = group;
	f->chunk = Min(max_rows, MAX_CHUNK);
	if (q->settings.fifo)
	{
		f->groups = palloc(sizeof(GroupFind));
		GroupBegin(f->groups, w, now, group);
		if (!f->groups->direct)
			SPI_connect();
		return;
	}
	if (InboxDirect && OidIsValid(q->order_index))
	{
		RowLeaf    *leaf = WriterLeaf(w, q->relid);

		f->walking = WalkUsable(leaf, q);
		if (f->walking)
			WalkBegin(&f->walk, q, leaf, now, group, max_rows);
	}
	if (!f->walking)
		SPI_connect();
}

/*
 * FindPeek
 *		The caller only looks.
 */
void
FindPeek(Finder *f)
{
	if (f->groups != NULL)
		f->groups->peek = true;
	else if (f->walking)
		f->walk.peek = true;
}

/*
 * FindShare
 *		Only rows of this share are wanted; before the first of them.
 */
void
FindShare(Finder *f, const KeyShare *share)
{
	f->share = share;
	if (f->groups != NULL)
		f->groups->share = share;
	else if (f->walking)
		WalkShare(&f->walk, share);
}

/*
 * FindWantDue
 *		If it finds nothing, the caller will want to know when to look again.
 */
void
FindWantDue(Finder *f)
{
	if (f->walking)
		f->walk.want_due = true;
}

/*
 * FindNextDue
 *		When that is, as far as the walk has seen; a search by SQL does not
 *		tell.
 */
TimestampTz
FindNextDue(Finder *f)
{
	if (f->groups != NULL)
		return f->groups->next_due;
	return f->walking ? f->walk.next_due : PG_INT64_MAX;
}

/*
 * FindStop
 *		No more rows are wanted.
 */
void
FindStop(Finder *f)
{
	if (f->groups != NULL)
		GroupEnd(f->groups);
	else if (f->walking)
		WalkEnd(&f->walk);
	else if (f->portal != NULL)
		SPI_cursor_close(f->portal);
}

/*
 * FindEnd
 *		Frees all that was allocated since FindBegin, where that was by SQL.
 */
void
FindEnd(Finder *f)
{
	if (f->groups != NULL ? !f->groups->direct : !f->walking)
		SPI_finish();
}

/*
 * FindSelective
 *		Might somebody else find what it does not?
 */
bool
FindSelective(const Finder *f)
{
	if (f->group != NULL || f->share != NULL)
		return true;
	if (f->groups != NULL)
		return !f->groups->direct;
	return !f->walking || f->q->settings.dead_group != NULL;
}

/*
 * FindTook
 *		Tells whether the row that FindNext returned last was taken.
 */
void
FindTook(Finder *f, bool taken)
{
	if (f->groups != NULL)
		GroupTook(f->groups, taken);
	else if (f->walking)
		WalkTook(&f->walk, taken);
}

/*
 * FindLeaseKind
 *		Which ledger its lease goes into.  A row found by SQL may be anywhere.
 */
LeaseKind
FindLeaseKind(Finder *f, const LeaseRow *row)
{
	return f->walking ? WalkLeaseKind(&f->walk, row) : LEASE_LATER;
}

static void
put_condition(StringInfo sql, Finder *f)
{
	Queue	   *q = f->q;

	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(sql, " AND %s IS NULL", q->colname[ROLE_PROCESSED_AT]);
	if (f->group != NULL)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.=) $%d",
						 q->colname[ROLE_GROUP_KEY], PARAM_GROUP);
	else if (q->settings.dead_group != NULL)
		/* dead letters are handed out to who asks for them by name */
		appendStringInfo(sql, " AND (%s IS NULL OR %s OPERATOR(pg_catalog.<>) %s)",
						 q->colname[ROLE_GROUP_KEY], q->colname[ROLE_GROUP_KEY],
						 quote_literal_cstr(q->settings.dead_group));
	/* as ShareOfOthers does it */
	if (f->share != NULL)
		appendStringInfo(sql, " AND (%s IS NULL OR (pg_catalog.hashtext(%s::pg_catalog.text COLLATE \"C\")"
						 " OPERATOR(pg_catalog.&) 2147483647) OPERATOR(pg_catalog.%%) $%d"
						 " OPERATOR(pg_catalog.=) $%d)",
						 q->colname[ROLE_PARTITION_KEY],
						 q->colname[ROLE_PARTITION_KEY],
						 PARAM_SHARES, PARAM_SHARE);
}

/*
 * rows_sql
 *		The claimable rows of one level.
 */
static char *
rows_sql(Finder *f, uint32 variant)
{
	Queue	   *q = f->q;
	StringInfoData sql;
	const char *until = q->colname[ROLE_LOCKED_UNTIL];

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT tableoid, ctid FROM %s"
					 " WHERE (%s IS NULL OR %s OPERATOR(pg_catalog.<=) $%d)",
					 q->name, until, until, PARAM_NOW);
	put_condition(&sql, f);
	if (QueueHas(q, ROLE_PRIORITY) && (variant & NULL_LEVEL))
		appendStringInfo(&sql, " AND %s IS NULL", q->colname[ROLE_PRIORITY]);
	else if (QueueHas(q, ROLE_PRIORITY))
		appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.=) $%d",
						 q->colname[ROLE_PRIORITY], PARAM_LEVEL);
	if (QueueHas(q, ROLE_DUE_AT))
		appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.<=) $%d",
						 q->colname[ROLE_DUE_AT], PARAM_NOW);
	if (q->settings.max_attempts > 0)
		appendStringInfo(&sql, " AND (%s IS NULL OR %s OPERATOR(pg_catalog.<) %d)",
						 q->colname[ROLE_ATTEMPT], q->colname[ROLE_ATTEMPT],
						 q->settings.max_attempts + q->settings.attempt_base);
	appendStringInfo(&sql, " ORDER BY ");
	if (QueueHas(q, ROLE_DUE_AT))
		appendStringInfo(&sql, "%s, ", q->colname[ROLE_DUE_AT]);
	appendStringInfoString(&sql, q->colname[ROLE_ID]);
	return sql.data;
}

/*
 * level_sql
 *		The lowest priority of all, or above the one given.
 */
static char *
level_sql(Finder *f, uint32 variant)
{
	Queue	   *q = f->q;
	const char *priority = q->colname[ROLE_PRIORITY];
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT q.%s::pg_catalog.int8 FROM %s q WHERE %s IS NOT NULL",
					 priority, q->name, priority);
	put_condition(&sql, f);
	if (!(variant & ANY_LEVEL))
		appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.>) $%d",
						 priority, PARAM_LEVEL);
	/* bare, it would be the output column, which no index serves */
	appendStringInfo(&sql, " ORDER BY q.%s LIMIT 1", priority);
	return sql.data;
}

/*
 * open_cursor
 *		Open a cursor on a saved plan, under a fresh snapshot.
 */
static Portal
open_cursor(Finder *f, PlanKind kind, uint32 variant)
{
	Queue	   *q = f->q;
	SnapshotData copy;
	Datum		values[5] = {0};
	char		nulls[5] = {' ', ' ', ' ', ' ', ' '};
	SPIPlanPtr	plan;
	Portal		portal;
	int			guc_level;

	if (f->group != NULL)
		variant |= WITH_GROUP;
	if (f->share != NULL)
		variant |= WITH_SHARE;
	plan = QueueFindPlan(q, kind, variant);
	if (plan == NULL)
		plan = QueueSavePlan(q, kind, variant,
							 kind == PLAN_FIND ? rows_sql(f, variant) :
							 level_sql(f, variant),
							 lengthof(param_types), param_types,
							 CURSOR_OPT_GENERIC_PLAN | CURSOR_OPT_FAST_PLAN);
	values[PARAM_NOW - 1] = TimestampTzGetDatum(f->now);
	values[PARAM_LEVEL - 1] = Int64GetDatum(f->level);
	values[PARAM_GROUP - 1] = PointerGetDatum(f->group);
	if (f->group == NULL)
		nulls[PARAM_GROUP - 1] = 'n';
	if (f->share != NULL)
	{
		values[PARAM_SHARE - 1] = Int32GetDatum(f->share->number);
		values[PARAM_SHARES - 1] = Int32GetDatum(f->share->of);
	}

	guc_level = PlanByIndex();
	PushActiveSnapshot(FreshSnapshot(q, &copy));
	portal = SPI_cursor_open(NULL, plan, values, nulls, true);
	PopActiveSnapshot();
	AtEOXact_GUC(false, guc_level);
	return portal;
}

/*
 * next_level
 *		Move to the next priority; false when there is none.
 */
static bool
next_level(Finder *f)
{
	Queue	   *q = f->q;
	Portal		portal;
	bool		isnull;

	if (!QueueHas(q, ROLE_PRIORITY))
	{
		bool		first = !f->started;

		f->started = true;
		return first;
	}
	if (f->null_level)
		return false;
	portal = open_cursor(f, PLAN_LEVEL, f->started ? 0 : ANY_LEVEL);
	SPI_cursor_fetch(portal, true, 1);
	if (SPI_processed > 0)
		f->level = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
											   SPI_tuptable->tupdesc,
											   1, &isnull));
	else
		f->null_level = true;
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(portal);
	f->started = true;
	return !f->null_level || !q->col[ROLE_PRIORITY].notnull;
}

/*
 * next_chunk
 *		Read more rows, of this level or a later one; false at the end.
 */
static bool
next_chunk(Finder *f)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (f->rows != NULL)
		{
			SPI_freetuptable(f->rows);
			f->rows = NULL;
		}
		if (f->portal == NULL)
		{
			if (!next_level(f))
				return false;
			f->portal = open_cursor(f, PLAN_FIND,
									f->null_level ? NULL_LEVEL : 0);
		}
		SPI_cursor_fetch(f->portal, true, f->chunk);
		f->rows = SPI_tuptable;
		f->nrows = SPI_processed;
		f->next = 0;
		if (f->nrows > 0)
			return true;
		SPI_cursor_close(f->portal);
		f->portal = NULL;
	}
}

/*
 * FindNext
 *		The next candidate: the table it is in, and its address there.
 */
bool
FindNext(Finder *f, Oid *relid, ItemPointer tid)
{
	HeapTuple	tuple;
	TupleDesc	desc;
	bool		isnull;

	if (f->groups != NULL)
		return GroupNext(f->groups, relid, tid);
	if (f->walking)
	{
		*relid = f->q->relid;
		return WalkNext(&f->walk, tid);
	}
	if (f->next >= f->nrows && !next_chunk(f))
	{
		f->nrows = f->next = 0;
		return false;
	}
	tuple = f->rows->vals[f->next++];
	desc = f->rows->tupdesc;
	*relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	*tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(tuple, desc, 2, &isnull));
	return true;
}
