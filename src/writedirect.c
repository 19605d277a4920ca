/*-------------------------------------------------------------------------
 *
 * writedirect.c
 *	  Change one row without SQL.
 *
 * What the executor's functions for a single row do (ExecSimpleRelationUpdate
 * and ExecSimpleRelationDelete), less what they set up for every table and
 * most queues have no use for: an executor state, the relation as its result,
 * and all indexes open and locked.  A delete needs no index, and an update only
 * where the new version found no room beside the old one or changes an
 * indexed column.
 *
 * 1. Tables with CHECK constraints, AFTER ROW triggers (foreign keys and
 *	  deferrable keys are such) and partitions get the executor's functions.
 * 2. NOT NULL is the one other constraint that a write can violate, and only
 *	  with a column that it sets.  Then, too, the executor raises the error.
 * 3. Index entries are made by the executor, which is set up when the first
 *	  version needs some.
 *
 * Called by write.c, which tells which tables are written directly.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "compat.h"
#include "executor/executor.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "write.h"

/*
 * Triggers that a write to a single row fires.
 */
static bool
has_after_triggers(Relation rel)
{
	TriggerDesc *trig = rel->trigdesc;

	return trig != NULL &&
		(trig->trig_update_after_row || trig->trig_delete_after_row);
}

/*
 * WriteNeedsExecutor
 *		Rule 1.
 */
bool
WriteNeedsExecutor(Relation rel)
{
	return has_after_triggers(rel) || rel->rd_rel->relispartition ||
		(rel->rd_att->constr != NULL && rel->rd_att->constr->num_check > 0);
}

/*
 * prepare_executor
 *		What the executor's functions for a single row need.
 */
static void
prepare_executor(RowWriter *w, RowLeaf *leaf)
{
	MemoryContext old;

	if (leaf->rri != NULL)
		return;
	old = MemoryContextSwitchTo(w->cxt);
	leaf->estate = CreateExecutorState();
	leaf->estate->es_output_cid = GetCurrentCommandId(true);
	leaf->estate->es_snapshot = GetActiveSnapshot();
	leaf->updated = MakeResultRangeTable(leaf->estate, leaf->rel);
	leaf->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(leaf->rri, leaf->rel, 1, NULL, 0);
	ExecOpenIndices(leaf->rri, false);
	if (has_after_triggers(leaf->rel) && w->triggers == NULL)
	{
		AfterTriggerBeginQuery();
		w->triggers = leaf->estate;
	}
	MemoryContextSwitchTo(old);
}

/*
 * new_version
 *		The old version with the change applied, as a virtual tuple.
 */
static void
new_version(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	TupleTableSlot *old = leaf->old;
	TupleTableSlot *new;
	int			natts = RelationGetDescr(leaf->rel)->natts;

	if (leaf->new == NULL)
	{
		MemoryContext cxt = MemoryContextSwitchTo(w->cxt);

		leaf->new = MakeSingleTupleTableSlot(RelationGetDescr(leaf->rel),
											 &TTSOpsVirtual);
		MemoryContextSwitchTo(cxt);
	}
	new = ExecClearTuple(leaf->new);
	slot_getallattrs(old);
	memcpy(new->tts_values, old->tts_values, natts * sizeof(Datum));
	memcpy(new->tts_isnull, old->tts_isnull, natts * sizeof(bool));
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role])
		{
			new->tts_values[leaf->attnos[role] - 1] = change->value[role];
			new->tts_isnull[leaf->attnos[role] - 1] = change->isnull[role];
		}
	}
	ExecStoreVirtualTuple(new);
}

/*
 * violates_not_null
 *		Rule 2.
 */
static bool
violates_not_null(RowLeaf *leaf, const RowChange *change)
{
	TupleDesc	desc = RelationGetDescr(leaf->rel);

	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role] && change->isnull[role] &&
			TupleDescAttr(desc, leaf->attnos[role] - 1)->attnotnull)
			return true;
	}
	return false;
}

static void
tell_updated(RowLeaf *leaf, const RowChange *change)
{
	Bitmapset  *updated = NULL;

	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (change->set[role])
			updated = bms_add_member(updated, leaf->attnos[role] -
									 FirstLowInvalidHeapAttributeNumber);
	}
	*leaf->updated = updated;
}

static void
update_by_executor(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	EPQState	epq = {0};		/* only BEFORE ROW triggers would use it */

	prepare_executor(w, leaf);
	tell_updated(leaf, change);
	ExecSimpleRelationUpdate(leaf->rri, leaf->estate, &epq, leaf->old, leaf->new);
}

static void
update_plainly(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	TU_UpdateIndexes indexes;

	CheckCmdReplicaIdentity(leaf->rel, CMD_UPDATE);
	simple_table_tuple_update(leaf->rel, &leaf->old->tts_tid, leaf->new,
							  GetActiveSnapshot(), &indexes);
	if (indexes == TU_None)
		return;
	prepare_executor(w, leaf);
	tell_updated(leaf, change);
	(void) UpdateIndexTuples(leaf->rri, leaf->new, leaf->estate, indexes);
}

/*
 * WriteUpdate
 *		Write the next version of the row in leaf->old into leaf->new and the
 *		table.
 */
void
WriteUpdate(RowWriter *w, RowLeaf *leaf, const RowChange *change)
{
	new_version(w, leaf, change);
	if (leaf->needs_executor || violates_not_null(leaf, change))
		update_by_executor(w, leaf, change);
	else
		update_plainly(w, leaf, change);
	if (leaf->estate == NULL)
		return;
	ResetPerTupleExprContext(leaf->estate);
	bms_free(*leaf->updated);
	*leaf->updated = NULL;
}

void
WriteDelete(RowWriter *w, RowLeaf *leaf)
{
	EPQState	epq = {0};

	if (leaf->needs_executor)
	{
		prepare_executor(w, leaf);
		ExecSimpleRelationDelete(leaf->rri, leaf->estate, &epq, leaf->old);
		return;
	}
	CheckCmdReplicaIdentity(leaf->rel, CMD_DELETE);
	simple_table_tuple_delete(leaf->rel, &leaf->old->tts_tid,
							  GetActiveSnapshot());
}

/*
 * WriteMayTryDelete
 *		Can rows of this leaf be deleted without having been locked?
 */
bool
WriteMayTryDelete(const RowLeaf *leaf)
{
	return leaf->direct_delete && !leaf->needs_executor;
}

/*
 * WriteTryDelete
 *		Delete a version that may be locked or not.  Waits for who is changing
 *		it.  False when it is not the newest version any more.
 */
bool
WriteTryDelete(RowLeaf *leaf, ItemPointer tid)
{
	TM_FailureData tmfd;

	CheckCmdReplicaIdentity(leaf->rel, CMD_DELETE);
	return table_tuple_delete(leaf->rel, tid,
							  GetCurrentCommandId(true), GetActiveSnapshot(),
							  InvalidSnapshot, true, &tmfd, false) == TM_Ok;
}

/*
 * WriteEnd
 *		Let go of what the writes have set up for a leaf.
 */
void
WriteEnd(RowLeaf *leaf)
{
	if (leaf->new != NULL)
		ExecDropSingleTupleTableSlot(leaf->new);
	if (leaf->rri == NULL)
		return;
	ExecCloseIndices(leaf->rri);
	ExecCloseResultRelations(leaf->estate);
	/* slots of AFTER triggers */
	ExecResetTupleTable(leaf->estate->es_tupleTable, false);
	FreeExecutorState(leaf->estate);
}
