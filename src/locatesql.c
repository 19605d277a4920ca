/*-------------------------------------------------------------------------
 *
 * locatesql.c
 *	  Searches by SQL: how they are planned, and what they see.
 *
 * Called by whatever searches a queue's table: locate.c, find.c and others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "locate.h"
#include "utils/guc.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/*
 * Off while our searches are planned.  Ways through the whole table, and what
 * such a way's forbidding cost would switch on: the planner would choose them
 * for a queue that was empty when last analyzed, and stay with it while a
 * million rows arrive.  Bitmap and index-only scans need an MVCC snapshot,
 * which at SERIALIZABLE we do not give them.
 */
static const char *const planner_off[] = {
	"enable_seqscan", "enable_sort", "enable_bitmapscan",
	"enable_indexonlyscan", "jit"
};

/*
 * PlanByIndex
 *		Until AtEOXact_GUC(false, result), plan as our searches need it.
 */
int
PlanByIndex(void)
{
	int			level = NewGUCNestLevel();

	for (int i = 0; i < lengthof(planner_off); i++)
		(void) set_config_option(planner_off[i], "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/*
 * FreshSnapshot
 *		A snapshot of this moment for a search by SQL, to be pushed.
 *
 * At SERIALIZABLE the search must not add to the transaction's read set.  A
 * snapshot of the type SNAPSHOT_SELF does not: it sees what is committed as
 * it goes, which is as good for rows that are locked and judged next.  It is
 * kept from tables with row security, whose policies may contain any query.
 */
Snapshot
FreshSnapshot(Queue *q, SnapshotData *copy)
{
	if (!IsolationIsSerializable() ||
		check_enable_rls(q->relid, InvalidOid, true) == RLS_ENABLED)
		return GetLatestSnapshot();
	memcpy(copy, GetLatestSnapshot(), sizeof(SnapshotData));
	copy->snapshot_type = SNAPSHOT_SELF;
	return copy;
}

/*
 * LocateBySql
 *		Find the version that the snapshot sees.
 */
bool
LocateBySql(Queue *q, Datum id, Snapshot snapshot, Oid *relid, ItemPointer tid)
{
	SPIPlanPtr	plan;
	bool		found;
	bool		isnull;
	int			guc_level;

	SPI_connect();
	plan = QueueFindPlan(q, PLAN_LOCATE, 0);
	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_LOCATE, 0,
							 psprintf("SELECT tableoid, ctid FROM %s WHERE %s OPERATOR(pg_catalog.=) $1",
									  q->name, q->colname[ROLE_ID]),
							 1, &q->col[ROLE_ID].type, CURSOR_OPT_GENERIC_PLAN);
	guc_level = PlanByIndex();
	SPI_execute_snapshot(plan, &id, NULL, snapshot, InvalidSnapshot, true,
						 false, 1);
	AtEOXact_GUC(false, guc_level);
	found = SPI_processed > 0;
	if (found)
	{
		HeapTuple	tuple = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;

		*relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
		*tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(tuple, desc, 2, &isnull));
	}
	SPI_finish();
	return found;
}
