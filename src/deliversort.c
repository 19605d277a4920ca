/*-------------------------------------------------------------------------
 *
 * deliversort.c
 *	  Deliveries of a FIFO queue, put into claim order.
 *
 * A claim goes through groups in turn, and the heads it takes come in the
 * order of their groups.  What it returns is in claim order, so the rows of
 * such a call are kept until it has all of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deliver.h"
#include "hints.h"
#include "receipt.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

typedef struct SortedRow
{
	HintKey		key;
	Datum		id;
	MinimalTuple tuple;
} SortedRow;

/*
 * DeliverLater
 *		Keep a row until DeliverSorted; "slot" holds the version that the claim
 *		wrote.
 */
void
DeliverLater(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot,
			 Datum *values, bool *nulls)
{
	Queue	   *q = sink->q;
	RoleColumn *id = &q->col[ROLE_ID];
	MemoryContext old = MemoryContextSwitchTo(sink->cxt);
	HintRange	keys;
	SortedRow  *row;

	if (sink->nrows == sink->size)
	{
		sink->size = Max(2 * sink->size, 16);
		sink->rows = sink->rows == NULL ?
			palloc(sink->size * sizeof(SortedRow)) :
			repalloc_huge(sink->rows, sink->size * sizeof(SortedRow));
	}
	row = &sink->rows[sink->nrows++];
	KeysOfRow(q, leaf->attnos, slot, &keys);
	row->key = keys.lo;
	row->id = ReceiptId(q, leaf->attnos, slot);
	if (!q->integer_id)
		row->id = datumCopy(row->id, false, id->type == UUIDOID ? UUID_LEN : -1);
	row->tuple = FormMinimalTuple(sink->rsinfo->setDesc, values, nulls);
	MemoryContextSwitchTo(old);
}

/*
 * DeliverOrder
 *		Which of two rows is first in claim order?
 */
int
DeliverOrder(Queue *q, const HintKey *a, Datum a_id, const HintKey *b,
			 Datum b_id)
{
	int			cmp;

	if (q->integer_id)
		return KeyCompare(a, b);
	cmp = (a->priority > b->priority) - (a->priority < b->priority);
	if (cmp == 0)
		cmp = (a->due > b->due) - (a->due < b->due);
	if (cmp != 0)
		return cmp;
	if (q->col[ROLE_ID].type == UUIDOID)
		return ReceiptCompareIds(q, a_id, b_id);
	return DatumGetInt32(DirectFunctionCall2Coll(bttextcmp,
												 q->col[ROLE_ID].collation,
												 a_id, b_id));
}

static int
compare_rows(const void *a, const void *b, void *arg)
{
	const SortedRow *x = (const SortedRow *) a;
	const SortedRow *y = (const SortedRow *) b;

	return DeliverOrder(((DeliverySink *) arg)->q, &x->key, x->id, &y->key,
						y->id);
}

/*
 * DeliverSorted
 *		Return the rows that were kept.
 */
void
DeliverSorted(DeliverySink *sink)
{
	TupleTableSlot *slot;

	if (sink->nrows == 0)
		return;
	qsort_arg(sink->rows, sink->nrows, sizeof(SortedRow), compare_rows, sink);
	slot = MakeSingleTupleTableSlot(sink->rsinfo->setDesc, &TTSOpsMinimalTuple);
	for (int i = 0; i < sink->nrows; i++)
	{
		ExecStoreMinimalTuple(sink->rows[i].tuple, slot, false);
		tuplestore_puttupleslot(sink->rsinfo->setResult, slot);
		pfree(sink->rows[i].tuple);
	}
	ExecDropSingleTupleTableSlot(slot);
	sink->nrows = 0;
}
