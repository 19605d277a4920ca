/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  Settlements: end a delivery.
 *
 * What is asked for is read by settleargs.c.  Whatever is wrong with a receipt
 * is a verdict and no error, since it must not stop a consumer's loop.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "bury.h"
#include "catalog/pg_type.h"
#include "delta.h"
#include "errors.h"
#include "funcapi.h"
#include "judge.h"
#include "pending.h"
#include "settle.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const Total outcome_totals[] = {
	[OUTCOME_DONE] = TOTAL_DONE,
	[OUTCOME_DROP] = TOTAL_DROPPED,
	[OUTCOME_RETRY] = TOTAL_RETRIED,
	[OUTCOME_RELEASE] = TOTAL_RELEASED,
	[OUTCOME_DEAD] = TOTAL_SETTLED_DEAD,
};

typedef struct Settle
{
	Judgement	j;				/* must be first */
	SettleRequest *requests;
} Settle;

PG_FUNCTION_INFO_V1(inbox_settle);
PG_FUNCTION_INFO_V1(inbox_settle_batch);

static bool
deletes(Queue *q, Outcome outcome)
{
	return (outcome == OUTCOME_DONE || outcome == OUTCOME_DROP) &&
		!QueueHas(q, ROLE_PROCESSED_AT);
}

/*
 * settle_write
 *		Write what the settlement makes of the row, or delete it; *slot is the
 *		version written, if any.
 */
static Verdict
settle_write(Judgement *j, RowLeaf *leaf, const LeaseRow *row,
			 const SettleRequest *request, TupleTableSlot **slot)
{
	Queue	   *q = j->q;
	BuryCause	cause = request->undecodable ? CAUSE_UNDECODABLE : CAUSE_BURIED;
	RowChange	change;

	*slot = NULL;
	if (j->unlocked)
		return deletes(q, request->outcome) &&
			WriteTryDelete(leaf, &leaf->old->tts_tid) ?
			VERDICT_OK : VERDICT_AGAIN;
	ChangeInit(&change);
	switch (request->outcome)
	{
		case OUTCOME_DONE:
		case OUTCOME_DROP:
			if (deletes(q, request->outcome))
			{
				JudgeRequireWritten(j, WriterDelete(&j->writer, leaf));
				return VERDICT_OK;
			}
			ChangeFinish(&change, q, j->now, request->error);
			break;
		case OUTCOME_RETRY:
			if (!request->undecodable)
				cause = CAUSE_FAILED;
			if (LeaseSpent(q, row))
				goto bury;
			ChangeRetry(&change, q, row, j->now, request->delay, request->error);
			break;
		case OUTCOME_RELEASE:
			ChangeRelease(&change, q, row, request->error);
			break;
		case OUTCOME_DEAD:
			goto bury;
	}
	*slot = WriterUpdate(&j->writer, leaf, &change);
	JudgeRequireWritten(j, *slot != NULL);
	return VERDICT_OK;

bury:
	BuryRequire(q);
	BuryRow(q, leaf, cause, request->error, false);
	return VERDICT_DEAD;
}

/*
 * tell_group
 *		A row of a FIFO group is not in work any more; "slot" is what it has
 *		become, if it is still there.
 */
static void
tell_group(Judgement *j, TupleTableSlot *slot)
{
	AttrNumber *attnos;
	LeaseRow	after;
	HintRange	keys;

	if (slot == NULL)
	{
		PendingWake(j->q);
		return;
	}
	attnos = WriterLeaf(&j->writer, slot->tts_tableOid)->attnos;
	LeaseReadRow(j->q, attnos, slot, &after);
	KeysOfRow(j->q, attnos, slot, &keys);
	if (after.finished)
		PendingWake(j->q);
	else if (after.leased)
		PendingNote(j->q, after.locked_until, &keys);
	else
		PendingOpen(j->q, &keys, 1);
}

/*
 * settle_row
 *		Settle a row that is locked and held.
 */
static Verdict
settle_row(Judgement *j, RowLeaf *leaf, const LeaseRow *row, int item)
{
	Queue	   *q = j->q;
	SettleRequest *request = &((Settle *) j)->requests[item];
	Outcome		outcome = request->outcome;
	bool		hints = q->told;
	TupleTableSlot *slot;
	HintRange	keys;
	Verdict		verdict;

	if (hints)
		KeysOfRow(q, leaf->attnos, leaf->old, &keys);
	verdict = settle_write(j, leaf, row, request, &slot);
	if (verdict == VERDICT_AGAIN)
		return verdict;
	DeltaCount(q, verdict == VERDICT_DEAD ? TOTAL_SETTLED_DEAD :
			   outcome_totals[outcome], 1);
	if (!hints)
		return verdict;
	PendingSettle(q, row, &keys);
	/* its group is free, or will be when it has rested */
	if (row->grouped)
		tell_group(j, slot);
	else if (verdict == VERDICT_DEAD && q->settings.dead_group != NULL)
		PendingOpen(q, &keys, 1);
	else if (slot != NULL && (outcome == OUTCOME_RETRY || outcome == OUTCOME_RELEASE))
	{
		KeysOfRow(q, WriterLeaf(&j->writer, slot->tts_tableOid)->attnos, slot,
				  &keys);
		PendingOpen(q, &keys, 1);
	}
	return verdict;
}

/*
 * Could this settlement take the row out of the table?
 */
static bool
may_remove(Queue *q, Outcome outcome)
{
	return deletes(q, outcome) || outcome == OUTCOME_DEAD ||
		(outcome == OUTCOME_RETRY && q->settings.max_attempts > 0);
}

/*
 * settle_all
 *		Check the caller's rights for all that is asked, then settle.  What
 *		leaves the row in the table does not wait for a foreign key that is
 *		about to refer to it.
 */
static void
settle_all(Settle *s)
{
	Queue	   *q = s->j.q;
	AclMode		rights = ACL_SELECT | ACL_UPDATE;
	LockTupleMode lock = LockTupleNoKeyExclusive;
	int64		stale = 0;

	for (int i = 0; i < s->j.n; i++)
	{
		if (deletes(q, s->requests[i].outcome))
		{
			rights |= ACL_DELETE;
			s->j.try_unlocked = true;
		}
		if (may_remove(q, s->requests[i].outcome))
			lock = LockTupleExclusive;
	}
	QueueCheckRights(q, rights);
	JudgeAll(&s->j, lock);
	for (int i = 0; i < s->j.n; i++)
		stale += s->j.verdicts[i] == VERDICT_STALE;
	TotalsCountNow(q, TOTAL_STALE, stale);
}

/*
 * require_held
 *		"strict": take the whole transaction back when a receipt holds nothing.
 */
static void
require_held(Judgement *j)
{
	for (int i = 0; i < j->n; i++)
	{
		if (j->verdicts[i] == VERDICT_OK || j->verdicts[i] == VERDICT_DEAD)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INBOX_NOT_HELD),
				 errmsg("receipt %d of %d for queue \"%s\" is %s",
						i + 1, j->n, j->q->relname,
						VerdictName(j->verdicts[i])),
				 errdetail("Under strict, a settlement without effect rolls back what was done with it."),
				 j->verdicts[i] == VERDICT_INVALID ?
				 errhint("Pass the receipt as the claim returned it.") :
				 j->verdicts[i] == VERDICT_DUPLICATE ?
				 errhint("Name each receipt once in a call.") :
				 errhint("Another consumer has the row, or it is finished: drop this delivery and go on.")));
	}
}

/*
 * SettleDone
 *		Settle these receipts as done; what holds nothing is skipped.
 */
void
SettleDone(Queue *q, Datum *receipts, bool *nulls, int n)
{
	Settle		s;

	JudgeInit(&s.j, q, receipts, nulls, n, settle_row);
	s.requests = palloc0(n * sizeof(SettleRequest));
	settle_all(&s);
}

/*
 * SettleAll
 *		Settle each receipt as its request says; returns the verdicts.
 */
Verdict *
SettleAll(Queue *q, Datum *receipts, SettleRequest *requests, int n)
{
	Settle		s;

	JudgeInit(&s.j, q, receipts, palloc0(n * sizeof(bool)), n, settle_row);
	s.requests = requests;
	settle_all(&s);
	return s.j.verdicts;
}

/*
 * SettleCheckRights
 *		May the current user settle as done?  Burying needs no rights of his.
 */
void
SettleCheckRights(Queue *q, bool dead)
{
	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE |
					 (deletes(q, OUTCOME_DONE) ? ACL_DELETE : 0));
	if (dead)
		BuryRequire(q);
}

Datum
inbox_settle(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	Settle		s;
	SettleRequest request;
	Datum		receipt;
	bool		isnull;

	ArgRequireWritable("inbox_settle");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	receipt = PG_GETARG_DATUM(1);
	isnull = PG_ARGISNULL(1);
	JudgeInit(&s.j, q, &receipt, &isnull, 1, settle_row);
	SettleReadRequest(fcinfo, q, &request);
	s.requests = &request;
	settle_all(&s);
	if (!PG_ARGISNULL(5) && PG_GETARG_BOOL(5))
		require_held(&s.j);
	QueueClose(q);
	PG_RETURN_TEXT_P(cstring_to_text(VerdictName(s.j.verdicts[0])));
}

Datum
inbox_settle_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Queue	   *q;
	Settle		s;
	ArgArray	receipts;

	ArgRequireWritable("inbox_settle_batch");
	InitMaterializedSRF(fcinfo, 0);
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	ArgNotNull(fcinfo, 1, "receipts");
	ArgGetArray(fcinfo, 1, TEXTOID, &receipts);
	JudgeInit(&s.j, q, receipts.values, receipts.nulls, receipts.n, settle_row);
	s.requests = SettleReadRequests(fcinfo, q, receipts.n);
	settle_all(&s);
	if (!PG_ARGISNULL(5) && PG_GETARG_BOOL(5))
		require_held(&s.j);
	for (int i = 0; i < receipts.n; i++)
	{
		Receipt    *receipt = &s.j.receipts[i];
		Datum		values[3];
		bool		nulls[3] = {receipts.nulls[i], !receipt->valid, false};

		values[0] = receipts.values[i];
		if (receipt->valid)
			values[1] = CStringGetTextDatum(ReceiptIdText(q, receipt->id));
		values[2] = CStringGetTextDatum(VerdictName(s.j.verdicts[i]));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	QueueClose(q);
	return (Datum) 0;
}
