/*-------------------------------------------------------------------------
 *
 * findsql.c
 *	  Find claimable rows by SQL, in claim order.
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
 * planner is kept from scanning and sorting the whole table (locatesql.c).
 *
 * SPI is connected.  Called by find.c.
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
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

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
 * FindSqlNext
 *		The next candidate.
 */
bool
FindSqlNext(Finder *f, Oid *relid, ItemPointer tid)
{
	HeapTuple	tuple;
	TupleDesc	desc;
	bool		isnull;

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
