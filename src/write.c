/*-------------------------------------------------------------------------
 *
 * write.c
 *	  The one place that changes rows of a queue.
 *
 * The caller has found a row and locked its newest version, which is in the
 * leaf's slot "old".  What is left is to write the next version, or to delete
 * the row, in one of two ways.
 *
 * Directly (writedirect.c), through the executor's functions for a single
 * row, as the apply worker of logical replication does it, or less where that
 * is as good: constraints, foreign keys, AFTER ROW triggers and indexes are
 * served.  No snapshot is read, so at SERIALIZABLE nothing is added to the
 * transaction's read set, and two claimers of neighbouring rows never fail
 * each other.
 *
 * By SQL, where the row alone does not say what an UPDATE would do: row
 * security for this user, rules, BEFORE ROW and statement triggers, generated
 * columns, privileges on columns only, a partition key among the columns we
 * write.  The statement runs on a snapshot taken after the lock, which sees
 * exactly the version that is locked.  It can write nothing (a trigger or a
 * policy says no); the caller is told.
 *
 * WriterEnd steps the command counter, so that whatever comes next in the
 * transaction sees what was written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "locate.h"
#include "miscadmin.h"
#include "quickcommit.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "write.h"

void
WriterBegin(RowWriter *w, Queue *q)
{
	memset(w, 0, sizeof(*w));
	w->q = q;
	w->cxt = CurrentMemoryContext;
	w->owner = CurrentResourceOwner;
}

/*
 * A saved UPDATE of the columns of some roles; the variant is their set.
 */
static SPIPlanPtr
update_plan(Queue *q, const RowChange *change, int *nargs)
{
	uint32		variant = 0;
	StringInfoData sql;
	Oid			types[NUM_QUEUE_ROLES + 2];
	int			n = 0;
	SPIPlanPtr	plan;

	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role])
		{
			variant |= 1 << role;
			types[n++] = q->col[role].type;
		}
	}
	*nargs = n;
	plan = QueueFindPlan(q, PLAN_UPDATE, variant);
	if (plan != NULL)
		return plan;
	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE %s SET ", q->name);
	n = 0;
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role])
		{
			appendStringInfo(&sql, "%s%s = $%d", n > 0 ? ", " : "",
							 q->colname[role], n + 1);
			n++;
		}
	}
	appendStringInfo(&sql, " WHERE tableoid OPERATOR(pg_catalog.=) $%d"
					 " AND ctid OPERATOR(pg_catalog.=) $%d"
					 " RETURNING tableoid, ctid", n + 1, n + 2);
	types[n] = OIDOID;
	types[n + 1] = TIDOID;
	return QueueSavePlan(q, PLAN_UPDATE, variant, sql.data, n + 2, types, 0);
}

/*
 * execute_on_lock
 *		Run a statement that names one locked row version, on a snapshot that
 *		sees it; the number of rows it wrote.
 *
 * The statement looks at that address in every partition.  At SERIALIZABLE
 * the rows it finds in the others must not become part of what the
 * transaction has read; but a rule may read anything, so it gets an ordinary
 * snapshot.
 */
static uint64
execute_on_lock(RowWriter *w, RowLeaf *leaf, SPIPlanPtr plan, Datum *values,
				char *nulls)
{
	SnapshotData copy;
	Snapshot	snapshot = leaf->rules ? GetLatestSnapshot() :
		FreshSnapshot(w->q, &copy);
	int			rc = SPI_execute_snapshot(plan, values, nulls, snapshot,
										  InvalidSnapshot, false, true, 0);

	if (rc < 0)
		elog(ERROR, "SPI_execute_snapshot returned %s",
			 SPI_result_code_string(rc));
	return SPI_processed;
}

/*
 * A row that the statement wrote is read back: a trigger may have had its own
 * idea of the new version, or the row may have moved to another partition.
 */
static TupleTableSlot *
read_back(RowWriter *w)
{
	HeapTuple	tuple = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	bool		isnull;
	Oid			relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	ItemPointerData tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(tuple, desc, 2, &isnull));
	RowLeaf    *leaf = WriterLeaf(w, relid);

	if (!table_tuple_fetch_row_version(leaf->rel, &tid, SnapshotAny, leaf->old))
		elog(ERROR, "could not read back a row of \"%s\"", w->q->relname);
	return leaf->old;
}

static TupleTableSlot *
update_by_sql(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	Queue	   *q = w->q;
	Datum		values[NUM_QUEUE_ROLES + 2];
	char		nulls[NUM_QUEUE_ROLES + 2];
	TupleTableSlot *slot = NULL;
	int			nargs;
	int			n = 0;
	SPIPlanPtr	plan;

	SPI_connect();
	plan = update_plan(q, change, &nargs);
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role])
		{
			values[n] = change->value[role];
			nulls[n++] = change->isnull[role] ? 'n' : ' ';
		}
	}
	values[n] = ObjectIdGetDatum(RelationGetRelid(leaf->rel));
	nulls[n++] = ' ';
	values[n] = PointerGetDatum(&leaf->old->tts_tid);
	nulls[n] = ' ';
	if (execute_on_lock(w, leaf, plan, values, nulls) > 0)
	{
		slot = read_back(w);
	}
	SPI_finish();
	return slot;
}

/*
 * WriterUpdate
 *		Write the next version of the row locked in leaf->old.  Returns that
 *		version, valid until the next call, or NULL when a trigger or policy
 *		kept it from being written.
 */
TupleTableSlot *
WriterUpdate(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	if (!leaf->direct_update)
	{
		QuickDirty();
		return update_by_sql(w, leaf, change);
	}
	/* whose functions might do anything */
	if (leaf->has_checks)
		QuickDirty();
	WriteUpdate(w, leaf, change);
	return leaf->new;
}

static bool
delete_by_sql(RowWriter *w, RowLeaf *leaf)
{
	Queue	   *q = w->q;
	SPIPlanPtr	plan;
	Oid			types[2] = {OIDOID, TIDOID};
	Datum		values[2];
	bool		deleted;

	SPI_connect();
	plan = QueueFindPlan(q, PLAN_DELETE, 0);
	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_DELETE, 0,
							 psprintf("DELETE FROM %s WHERE tableoid OPERATOR(pg_catalog.=) $1"
									  " AND ctid OPERATOR(pg_catalog.=) $2", q->name),
							 2, types, 0);
	values[0] = ObjectIdGetDatum(RelationGetRelid(leaf->rel));
	values[1] = PointerGetDatum(&leaf->old->tts_tid);
	deleted = execute_on_lock(w, leaf, plan, values, NULL) > 0;
	SPI_finish();
	return deleted;
}

/*
 * WriterDelete
 *		Delete the row locked in leaf->old; false when a trigger or policy
 *		kept it.
 */
bool
WriterDelete(RowWriter *w, RowLeaf *leaf)
{
	if (!leaf->direct_delete)
		return delete_by_sql(w, leaf);
	WriteDelete(w, leaf);
	return true;
}

/*
 * WriterEnd
 *		Fire what triggers are due, and close everything.
 */
void
WriterEnd(RowWriter *w)
{
	if (w->triggers != NULL)
	{
		QuickDirty();
		AfterTriggerEndQuery(w->triggers);
	}
	for (RowLeaf *leaf = w->leaves; leaf != NULL; leaf = leaf->next)
	{
		ExecDropSingleTupleTableSlot(leaf->old);
		WriteEnd(leaf);
		table_close(leaf->rel, NoLock);
	}
	w->leaves = NULL;
	w->triggers = NULL;
	CommandCounterIncrement();
}
