/*-------------------------------------------------------------------------
 *
 * dedupfind.c
 *	  Look for the unfinished rows that have some dedup keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "send.h"
#include "utils/guc.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* off while the lookups are planned; see DedupFind */
static const char *const planner_off[] = {
	"enable_seqscan", "enable_bitmapscan", "enable_indexonlyscan"
};

/*
 * Both lookups give position and id.  LATERAL and LIMIT leave the planner no
 * other join than one lookup for each key.
 */
static char *
find_sql(Queue *q, bool arrays)
{
	const char *key = q->colname[ROLE_DEDUP_KEY];
	const char *id = q->colname[ROLE_ID];
	StringInfoData buf;

	initStringInfo(&buf);
	if (arrays)
		appendStringInfo(&buf, "SELECT u.n, t.id"
						 " FROM ROWS FROM (pg_catalog.unnest($1)) WITH ORDINALITY AS u(k, n),"
						 " LATERAL (SELECT t.%s FROM %s AS t"
						 " WHERE t.%s OPERATOR(pg_catalog.=) u.k",
						 id, q->name, key);
	else
		appendStringInfo(&buf, "SELECT 1::pg_catalog.int8, t.%s FROM %s AS t"
						 " WHERE t.%s OPERATOR(pg_catalog.=) $1",
						 id, q->name, key);
	appendStringInfo(&buf, " AND t.%s IS NOT NULL", key);
	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(&buf, " AND t.%s IS NULL",
						 q->colname[ROLE_PROCESSED_AT]);
	appendStringInfo(&buf, " LIMIT 1%s", arrays ? ") AS t(id)" : "");
	return buf.data;
}

/*
 * latest_snapshot
 *		The newest state.  At SERIALIZABLE an ordinary snapshot would leave
 *		predicate locks on index pages behind, by which unrelated sends abort
 *		each other; one of the "self" kind does not.  Under row security the
 *		policies' own queries share the snapshot and need an ordinary one.
 */
static Snapshot
latest_snapshot(Queue *q, Snapshot self)
{
	Snapshot	snapshot = GetLatestSnapshot();

	if (!IsolationIsSerializable() ||
		check_enable_rls(q->relid, InvalidOid, true) == RLS_ENABLED)
		return snapshot;
	*self = *snapshot;
	self->snapshot_type = SNAPSHOT_SELF;
	return self;
}

/*
 * DedupFind
 *		Fill in the ids of the rows that have these keys.  The plan outlives
 *		the table's size of today and must be an index scan then too.  Bitmap
 *		and index-only scans would not be safe with the "self" snapshot.
 */
void
DedupFind(SendRows *rows, int from, int count, text **ids)
{
	Queue	   *q = rows->q;
	bool		arrays = count > 1;
	uint32		shape = SEND_FIND | (arrays ? SEND_ARRAYS : 0);
	SPIPlanPtr	plan = QueueFindPlan(q, PLAN_SEND, shape);
	Oid			type = q->col[ROLE_DEDUP_KEY].type;
	Datum		keys = rows->col[ROLE_DEDUP_KEY].values[from];
	int			guc_level = NewGUCNestLevel();
	SnapshotData self;
	int			rc;

	if (arrays)
	{
		type = rows->target->field[ROLE_DEDUP_KEY].arraytype;
		keys = SendInsertArray(rows, ROLE_DEDUP_KEY, from, count);
	}
	for (int i = 0; i < lengthof(planner_off); i++)
		(void) set_config_option(planner_off[i], "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_SEND, shape, find_sql(q, arrays), 1,
							 &type, CURSOR_OPT_GENERIC_PLAN);
	rc = SPI_execute_snapshot(plan, &keys, NULL, latest_snapshot(q, &self),
							  InvalidSnapshot, true, false, 0);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_snapshot returned %s",
			 SPI_result_code_string(rc));
	AtEOXact_GUC(true, guc_level);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		MemoryContext old = MemoryContextSwitchTo(rows->cxt);
		bool		isnull;
		int64		pos = DatumGetInt64(SPI_getbinval(tuple, SPI_tuptable->tupdesc,
													  1, &isnull));
		Datum		id = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull);

		if (!isnull)
			ids[from + pos - 1] = SendValueIdText(rows->target, id);
		MemoryContextSwitchTo(old);
	}
	SPI_freetuptable(SPI_tuptable);
}
