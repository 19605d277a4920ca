/*-------------------------------------------------------------------------
 *
 * deliver.c
 *	  Deliveries: claimed rows in the shape that was asked for.
 *
 * A delivery shows the row with its new lease, but the attempt as it stood
 * before the claim, counted from 1.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deliver.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "lease.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "receipt.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define DELIVERY_COLUMNS	12	/* of type inbox_delivery */
#define IDS_COLUMNS			4	/* of what inbox_claim_ids returns */

/* what the ids show, receipt and all, and what a delivery shows besides */
static const Role ids_roles[] = {
	ROLE_ID, ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT, ROLE_ATTEMPT
};
static const Role delivery_roles[] = {
	ROLE_PAYLOAD, ROLE_HEADERS, ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ENQUEUED_AT,
	ROLE_GROUP_KEY, ROLE_PARTITION_KEY
};

static void
check_column(Queue *q, AttrNumber attno)
{
	if (attno != 0 &&
		pg_attribute_aclcheck(q->relid, attno, GetUserId(),
							  ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, q->relname);
}

/*
 * DeliverCheckRights
 *		Raise an error unless the current user may read all that a delivery of
 *		this shape shows.  What is delivered is taken from the row itself; no
 *		statement that names the columns would check them.
 */
void
DeliverCheckRights(Queue *q, DeliveryShape shape)
{
	if (QueueHasRights(q, ACL_SELECT))
		return;
	if ((shape == SHAPE_ROW ||
		 (shape == SHAPE_DELIVERY && !QueueHas(q, ROLE_PAYLOAD))) &&
		pg_attribute_aclcheck_all(q->relid, GetUserId(), ACL_SELECT,
								  ACLMASK_ALL) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, q->relname);
	for (int i = 0; i < lengthof(ids_roles); i++)
		check_column(q, q->col[ids_roles[i]].attno);
	for (int i = 0; shape == SHAPE_DELIVERY && i < lengthof(delivery_roles); i++)
		check_column(q, q->col[delivery_roles[i]].attno);
}

/*
 * DeliverBegin
 *		Make the result set; before SPI_connect, in the caller's context.
 */
void
DeliverBegin(DeliverySink *sink, FunctionCallInfo fcinfo, Queue *q,
			 DeliveryShape shape)
{
	memset(sink, 0, sizeof(*sink));
	/* the other shapes have one type only */
	InitMaterializedSRF(fcinfo,
						shape == SHAPE_ROW ? 0 : MAT_SRF_USE_EXPECTED_DESC);
	sink->q = q;
	sink->shape = shape;
	sink->cxt = CurrentMemoryContext;
	sink->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Assert(shape != SHAPE_DELIVERY ||
		   sink->rsinfo->setDesc->natts == DELIVERY_COLUMNS);
	Assert(shape != SHAPE_IDS ||
		   sink->rsinfo->setDesc->natts == IDS_COLUMNS);
}

/*
 * value_to_jsonb
 *		What SQL's to_jsonb makes of a value.
 */
static Datum
value_to_jsonb(DeliverySink *sink, Role role, Oid type, Datum value)
{
	FmgrInfo   *flinfo = &sink->to_jsonb[role];

	if (type == JSONBOID)
		return value;
	if (flinfo->fn_oid == InvalidOid)
	{
		/* it outlives the row */
		MemoryContext old = MemoryContextSwitchTo(sink->cxt);
		Expr	   *arg = (Expr *) makeNullConst(type, -1, InvalidOid);

		fmgr_info(F_TO_JSONB, flinfo);
		/* to_jsonb asks the call expression for its argument's type */
		fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID,
												 list_make1(arg), InvalidOid,
												 InvalidOid,
												 COERCE_EXPLICIT_CALL),
						   flinfo);
		MemoryContextSwitchTo(old);
	}
	return FunctionCall1(flinfo, value);
}

static void
put_role(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot, Role role,
		 Datum *value, bool *isnull)
{
	*value = (Datum) 0;
	*isnull = true;
	if (leaf->attnos[role] != 0)
		*value = slot_getattr(slot, leaf->attnos[role], isnull);
}

static void
put_json(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot, Role role,
		 Datum *value, bool *isnull)
{
	put_role(sink, leaf, slot, role, value, isnull);
	if (!*isnull)
		*value = value_to_jsonb(sink, role, sink->q->col[role].type, *value);
}

/*
 * A number as the delivery's int; out of that range, the nearest.  It is the
 * row's place that counts, and the row must not stop those behind it.
 */
static void
put_int(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot, Role role,
		Datum *value, bool *isnull)
{
	put_role(sink, leaf, slot, role, value, isnull);
	if (*isnull)
		return;
	if (sink->q->col[role].type == INT2OID)
		*value = Int32GetDatum(DatumGetInt16(*value));
	else if (sink->q->col[role].type == INT8OID)
		*value = Int32GetDatum((int32) Max(Min(DatumGetInt64(*value),
											   PG_INT32_MAX), PG_INT32_MIN));
}

/*
 * own_row
 *		The row's columns as in the queue's own row type, with the attempt
 *		that the delivery reports.
 */
static void
own_row(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
		const LeaseRow *row, TupleDesc desc, Datum *values, bool *nulls)
{
	Queue	   *q = sink->q;
	Datum	   *from = slot->tts_values;
	bool	   *from_null = slot->tts_isnull;

	SlotGetAll(leaf->rel, slot);
	if (RelationGetRelid(leaf->rel) != q->relid && sink->map_leaf != leaf)
	{
		MemoryContext old = MemoryContextSwitchTo(sink->cxt);

		if (sink->map != NULL)
			free_conversion_map(sink->map);
		sink->map = convert_tuples_by_name(RelationGetDescr(leaf->rel), desc);
		sink->map_leaf = leaf;
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < desc->natts; i++)
	{
		int			j = i + 1;

		if (sink->map_leaf == leaf && sink->map != NULL)
			j = sink->map->attrMap->attnums[i];
		nulls[i] = j == 0 || from_null[j - 1];
		values[i] = j == 0 ? (Datum) 0 : from[j - 1];
	}
	if (QueueHas(q, ROLE_ATTEMPT))
	{
		values[q->col[ROLE_ATTEMPT].attno - 1] =
			LeaseAttemptDatum(q, LeaseReported(q, row) - 1);
		nulls[q->col[ROLE_ATTEMPT].attno - 1] = false;
	}
}

/*
 * row_payload
 *		The whole row as jsonb, for queues without a payload column.
 */
static Datum
row_payload(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
			const LeaseRow *row)
{
	Relation	rel = leaf->rel;
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *nulls = palloc(desc->natts * sizeof(bool));
	HeapTuple	tuple;

	SlotGetAll(rel, slot);
	memcpy(values, slot->tts_values, desc->natts * sizeof(Datum));
	memcpy(nulls, slot->tts_isnull, desc->natts * sizeof(bool));
	if (leaf->attnos[ROLE_ATTEMPT] != 0)
	{
		values[leaf->attnos[ROLE_ATTEMPT] - 1] =
			LeaseAttemptDatum(sink->q, LeaseReported(sink->q, row) - 1);
		nulls[leaf->attnos[ROLE_ATTEMPT] - 1] = false;
	}
	tuple = heap_form_tuple(desc, values, nulls);
	return value_to_jsonb(sink, ROLE_PAYLOAD, rel->rd_rel->reltype,
						  heap_copy_tuple_as_datum(tuple, desc));
}

static void
put_delivery(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
			 Datum id, const LeaseRow *row, Datum *values, bool *nulls)
{
	Queue	   *q = sink->q;

	values[0] = CStringGetTextDatum(ReceiptIdText(q, id));
	values[1] = CStringGetTextDatum(ReceiptText(q, id, row));
	nulls[2] = !QueueHas(q, ROLE_ATTEMPT);
	values[2] = Int32GetDatum((int32) Min(LeaseReported(q, row) - 1, PG_INT32_MAX));
	nulls[3] = q->settings.max_attempts == 0;
	values[3] = Int32GetDatum(q->settings.max_attempts);
	if (QueueHas(q, ROLE_PAYLOAD))
		put_json(sink, leaf, slot, ROLE_PAYLOAD, &values[4], &nulls[4]);
	else
		values[4] = row_payload(sink, leaf, slot, row);
	put_json(sink, leaf, slot, ROLE_HEADERS, &values[5], &nulls[5]);
	put_int(sink, leaf, slot, ROLE_PRIORITY, &values[6], &nulls[6]);
	put_role(sink, leaf, slot, ROLE_DUE_AT, &values[7], &nulls[7]);
	put_role(sink, leaf, slot, ROLE_ENQUEUED_AT, &values[8], &nulls[8]);
	put_role(sink, leaf, slot, ROLE_GROUP_KEY, &values[9], &nulls[9]);
	put_role(sink, leaf, slot, ROLE_PARTITION_KEY, &values[10], &nulls[10]);
	values[11] = TimestampTzGetDatum(row->locked_until);
}

/*
 * keep_row
 *		Copy the row, with what is needed to read the copy later.
 */
static void
keep_row(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot, Datum id,
		 const LeaseRow *row)
{
	MemoryContext old = MemoryContextSwitchTo(sink->cxt);
	KeptRow    *kept = palloc(sizeof(KeptRow));
	KeptRow    *last = sink->kept == NIL ? NULL : llast(sink->kept);

	kept->receipt = ReceiptText(sink->q, id, row);
	kept->relid = RelationGetRelid(leaf->rel);
	kept->tuple = ExecCopySlotHeapTuple(slot);
	kept->desc = last != NULL && last->relid == kept->relid ? last->desc :
		CreateTupleDescCopy(RelationGetDescr(leaf->rel));
	sink->kept = lappend(sink->kept, kept);
	MemoryContextSwitchTo(old);
}

/*
 * DeliverBeginKept
 *		Keep the rows in the current context.
 */
void
DeliverBeginKept(DeliverySink *sink, Queue *q)
{
	memset(sink, 0, sizeof(*sink));
	sink->q = q;
	sink->shape = SHAPE_KEPT;
	sink->cxt = CurrentMemoryContext;
}

/*
 * DeliverPayload
 *		The payload alone, as a delivery shows it.
 */
Datum
DeliverPayload(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
			   bool *isnull)
{
	Datum		value;
	LeaseRow	row;

	*isnull = false;
	if (QueueHas(sink->q, ROLE_PAYLOAD))
	{
		put_json(sink, leaf, slot, ROLE_PAYLOAD, &value, isnull);
		return value;
	}
	LeaseReadRow(sink->q, leaf->attnos, slot, &row);
	return row_payload(sink, leaf, slot, &row);
}

/*
 * DeliverForm
 *		What the sink's shape shows of a row.  Leaves garbage in the current
 *		context.
 */
void
DeliverForm(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
			TupleDesc desc, Datum *values, bool *nulls)
{
	Queue	   *q = sink->q;
	Datum		id = ReceiptId(q, leaf->attnos, slot);
	LeaseRow	row;

	LeaseReadRow(q, leaf->attnos, slot, &row);
	switch (sink->shape)
	{
		case SHAPE_DELIVERY:
			put_delivery(sink, leaf, slot, id, &row, values, nulls);
			break;
		case SHAPE_IDS:
			values[0] = CStringGetTextDatum(ReceiptIdText(q, id));
			values[1] = CStringGetTextDatum(ReceiptText(q, id, &row));
			nulls[2] = !QueueHas(q, ROLE_ATTEMPT);
			values[2] = Int32GetDatum((int32) Min(LeaseReported(q, &row) - 1,
												  PG_INT32_MAX));
			values[3] = TimestampTzGetDatum(row.locked_until);
			break;
		case SHAPE_ROW:
			own_row(sink, leaf, slot, &row, desc, values, nulls);
			break;
		case SHAPE_KEPT:
			keep_row(sink, leaf, slot, id, &row);
			break;
	}
}

/*
 * DeliverRow
 *		Add one claimed row; "slot" holds the version the claim wrote.  Leaves
 *		garbage in the current context.
 */
void
DeliverRow(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot)
{
	TupleDesc	desc;
	Datum	   *values;
	bool	   *nulls;

	if (sink->shape == SHAPE_KEPT)
	{
		DeliverForm(sink, leaf, slot, NULL, NULL, NULL);
		return;
	}
	desc = sink->rsinfo->setDesc;
	values = palloc0(desc->natts * sizeof(Datum));
	nulls = palloc0(desc->natts * sizeof(bool));
	DeliverForm(sink, leaf, slot, desc, values, nulls);
	if (sink->sorts)
		DeliverLater(sink, leaf, slot, values, nulls);
	else
		tuplestore_putvalues(sink->rsinfo->setResult, desc, values, nulls);
}
