/*-------------------------------------------------------------------------
 *
 * extend.c
 *	  Extend leases: the heartbeat of a holder that is still at work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "delta.h"
#include "extend.h"
#include "funcapi.h"
#include "judge.h"
#include "pending.h"
#include "quickcommit.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

typedef struct Extend
{
	Judgement	j;				/* must be first */
	int64		lease;			/* seconds */
	LeaseRow   *rows;			/* as extended, where the verdict is ok */
} Extend;

PG_FUNCTION_INFO_V1(inbox_extend);
PG_FUNCTION_INFO_V1(inbox_extend_batch);

static Verdict
extend_row(Judgement *j, RowLeaf *leaf, const LeaseRow *row, int item)
{
	Extend	   *e = (Extend *) j;
	RowChange	change;
	HintRange	keys;

	DeltaCount(j->q, TOTAL_EXTENDED, 1);
	ChangeExtend(&change, j->q, row, j->now, e->lease);
	e->rows[item] = *row;
	/* a lease that already reaches further needs no write */
	if (DatumGetTimestampTz(change.value[ROLE_LOCKED_UNTIL]) != row->locked_until)
	{
		TupleTableSlot *slot = WriterUpdate(&j->writer, leaf, &change);

		JudgeRequireWritten(j, slot != NULL);
		/* the write may have moved it to another partition */
		leaf = WriterLeaf(&j->writer, slot->tts_tableOid);
		LeaseReadRow(j->q, leaf->attnos, slot, &e->rows[item]);
		if (j->q->told)
		{
			KeysOfRow(j->q, leaf->attnos, slot, &keys);
			PendingExtend(j->q, row, &e->rows[item], &keys);
		}
	}
	return VERDICT_OK;
}

static void
extend_all(Extend *e)
{
	e->rows = palloc0(e->j.n * sizeof(LeaseRow));
	QuickEnter();
	JudgeAll(&e->j, LockTupleNoKeyExclusive);
	QuickLeave();
}

static void
extend_call(Extend *e, Queue *q, FunctionCallInfo fcinfo, Datum *receipts,
			bool *nulls, int n)
{
	JudgeInit(&e->j, q, receipts, nulls, n, extend_row);
	e->lease = LeaseSeconds(q, fcinfo, 2);
	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
	extend_all(e);
}

/*
 * ExtendUnlocked
 *		Extend for those who hold these receipts, but wait for nobody: the
 *		holder himself may have locked the row.  Puts the new receipts in
 *		place of the old ones; returns the verdicts.
 */
Verdict *
ExtendUnlocked(Queue *q, Datum *receipts, int n, int64 lease)
{
	Extend		e;

	JudgeInit(&e.j, q, receipts, palloc0(n * sizeof(bool)), n, extend_row);
	e.j.wait = LockWaitSkip;
	e.lease = lease;
	extend_all(&e);
	for (int i = 0; i < n; i++)
	{
		if (e.j.verdicts[i] == VERDICT_OK)
			receipts[i] = CStringGetTextDatum(ReceiptText(q, e.j.receipts[i].id,
														  &e.rows[i]));
	}
	return e.j.verdicts;
}

/*
 * put_result
 *		verdict, new_receipt, locked_until
 */
static void
put_result(Extend *e, int i, Datum *values, bool *nulls)
{
	values[0] = CStringGetTextDatum(VerdictName(e->j.verdicts[i]));
	nulls[0] = false;
	nulls[1] = nulls[2] = e->j.verdicts[i] != VERDICT_OK;
	if (e->j.verdicts[i] == VERDICT_OK)
	{
		values[1] = CStringGetTextDatum(ReceiptText(e->j.q, e->j.receipts[i].id,
													&e->rows[i]));
		values[2] = TimestampTzGetDatum(e->rows[i].locked_until);
	}
}

Datum
inbox_extend(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	Extend		e;
	Datum		receipt;
	bool		isnull;
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3];

	ArgRequireWritable("inbox_extend");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	receipt = PG_GETARG_DATUM(1);
	isnull = PG_ARGISNULL(1);
	extend_call(&e, q, fcinfo, &receipt, &isnull, 1);
	put_result(&e, 0, values, nulls);
	QueueClose(q);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

Datum
inbox_extend_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Queue	   *q;
	Extend		e;
	ArgArray	receipts;

	ArgRequireWritable("inbox_extend_batch");
	InitMaterializedSRF(fcinfo, 0);
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	ArgNotNull(fcinfo, 1, "receipts");
	ArgGetArray(fcinfo, 1, TEXTOID, &receipts);
	extend_call(&e, q, fcinfo, receipts.values, receipts.nulls, receipts.n);
	for (int i = 0; i < receipts.n; i++)
	{
		Datum		values[4];
		bool		nulls[4];

		values[0] = receipts.values[i];
		nulls[0] = receipts.nulls[i];
		put_result(&e, i, values + 1, nulls + 1);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	QueueClose(q);
	return (Datum) 0;
}
