/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  inbox_purge: delete every message without a live lease.
 *
 * An operator's command, carried out with the operator's own rights: row
 * security decides which rows he sees and may delete.  SELECT FOR UPDATE would
 * ask for one right more than a delete needs, so rows are found by SQL, locked
 * here (skipping those that somebody else has locked), looked at again, and
 * deleted by SQL, a thousand at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "args.h"
#include "catalog/pg_type.h"
#include "delta.h"
#include "lease.h"
#include "locate.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define ROWS_AT_ONCE	1000

/* rows that are locked and will be deleted, by table */
typedef struct Doomed
{
	Oid			relid;
	Datum		tids[ROWS_AT_ONCE];
	int			n;
} Doomed;

static SPIPlanPtr
prepare(const char *sql, int nargs, Oid *types)
{
	SPIPlanPtr	plan = SPI_prepare(sql, nargs, types);

	if (plan == NULL)
		elog(ERROR, "SPI_prepare returned %s for \"%s\"",
			 SPI_result_code_string(SPI_result), sql);
	return plan;
}

static int64
delete_doomed(Doomed *doomed, SPIPlanPtr plan)
{
	Datum		args[2];
	int			rc;

	if (doomed->n == 0)
		return 0;
	args[0] = ObjectIdGetDatum(doomed->relid);
	args[1] = PointerGetDatum(construct_array(doomed->tids, doomed->n, TIDOID,
											  sizeof(ItemPointerData), false,
											  TYPALIGN_SHORT));
	doomed->n = 0;
	rc = SPI_execute_snapshot(plan, args, NULL, GetLatestSnapshot(),
							  InvalidSnapshot, false, true, 0);
	if (rc != SPI_OK_DELETE)
		elog(ERROR, "SPI_execute_snapshot returned %s", SPI_result_code_string(rc));
	return SPI_processed;
}

static bool
lock_row(RowWriter *w, Oid relid, ItemPointer tid, Snapshot snapshot,
		 TimestampTz now)
{
	RowLeaf    *leaf = WriterLeaf(w, relid);
	LeaseRow	row;

	if (LockVersion(leaf, tid, snapshot, LockTupleExclusive, LockWaitSkip, 0) != TM_Ok)
		return false;
	LeaseReadRow(w->q, leaf->attnos, leaf->old, &row);
	return !row.leased || row.resting || row.locked_until <= now;
}

/*
 * Lock and delete the rows of one fetch.
 */
static int64
purge_fetched(RowWriter *w, SPITupleTable *rows, uint64 n, Snapshot snapshot,
			  TimestampTz now, SPIPlanPtr deletion)
{
	Doomed	   *doomed = palloc(sizeof(Doomed));
	int64		purged = 0;

	doomed->n = 0;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		Oid			relid = DatumGetObjectId(SPI_getbinval(rows->vals[i],
														   rows->tupdesc, 1, &isnull));
		ItemPointer tid = (ItemPointer) DatumGetPointer(SPI_getbinval(rows->vals[i],
																	  rows->tupdesc, 2, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (doomed->n > 0 && doomed->relid != relid)
			purged += delete_doomed(doomed, deletion);
		doomed->relid = relid;
		if (lock_row(w, relid, tid, snapshot, now))
			doomed->tids[doomed->n++] = PointerGetDatum(tid);
	}
	purged += delete_doomed(doomed, deletion);
	return purged;
}

/*
 * rows_sql
 *		The rows without a live lease.  One that rests has none.
 */
static char *
rows_sql(Queue *q)
{
	const char *until = q->colname[ROLE_LOCKED_UNTIL];
	char	   *sql = psprintf("SELECT tableoid, ctid FROM %s WHERE %s IS NULL"
							   " OR %s OPERATOR(pg_catalog.<=) $1",
							   q->name, until, until);

	if (!q->settings.fifo || !QueueHas(q, ROLE_CLAIMED_AT))
		return sql;
	return psprintf("%s OR %s OPERATOR(pg_catalog.>=) %s", sql,
					q->colname[ROLE_CLAIMED_AT], until);
}

static int64
purge(Queue *q)
{
	Oid			tidtypes[2] = {OIDOID, TIDARRAYOID};
	Oid			nowtype[1] = {TIMESTAMPTZOID};
	TimestampTz now = LeaseNow();
	Datum		arg = TimestampTzGetDatum(now);
	MemoryContext cxt;
	RowWriter	w;
	SPIPlanPtr	deletion;
	Portal		portal;
	Snapshot	snapshot;
	int64		purged = 0;

	SPI_connect();
	WriterBegin(&w, q);
	deletion = prepare(psprintf("DELETE FROM %s WHERE tableoid OPERATOR(pg_catalog.=) $1"
								" AND ctid OPERATOR(pg_catalog.=) ANY ($2)", q->name),
					   2, tidtypes);
	/* the latest snapshot: a transaction may have an old one */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	portal = SPI_cursor_open(NULL, prepare(rows_sql(q), 1, nowtype), &arg, NULL,
							 true);
	PopActiveSnapshot();
	cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox purge",
								ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		SPITupleTable *rows;
		MemoryContext old;

		SPI_cursor_fetch(portal, true, ROWS_AT_ONCE);
		if (SPI_processed == 0)
			break;
		rows = SPI_tuptable;
		old = MemoryContextSwitchTo(cxt);
		purged += purge_fetched(&w, rows, SPI_processed, snapshot, now, deletion);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
		SPI_freetuptable(rows);
	}
	SPI_cursor_close(portal);
	UnregisterSnapshot(snapshot);
	WriterEnd(&w);
	SPI_finish();
	return purged;
}

PG_FUNCTION_INFO_V1(inbox_purge);

/*
 * inbox_purge(queue text) returns bigint
 */
Datum
inbox_purge(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	int64		purged;

	ArgRequireWritable("inbox_purge");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	QueueCheckRights(q, ACL_SELECT | ACL_DELETE);
	purged = purge(q);
	DeltaCount(q, TOTAL_PURGED, purged);
	QueueClose(q);
	PG_RETURN_INT64(purged);
}
