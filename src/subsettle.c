/*-------------------------------------------------------------------------
 *
 * subsettle.c
 *	  Settle what a subscription could not handle, as its policies say.
 *
 * Each such settlement has a transaction of its own, after the one that
 * failed.  When it fails, too, the lease is left to run out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "bury.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "settle.h"
#include "subshared.h"
#include "subworker.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* of an error's text no more is kept */
#define MAX_ERROR_TEXT	8192
/* handing back must not keep the process from leaving */
#define RELEASE_MS		2000

/*
 * BatchErrorText
 *		What goes to last_error: message, SQLSTATE, detail, context.
 */
char *
BatchErrorText(const ErrorData *error)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "%s (SQLSTATE %s)", error->message,
					 unpack_sql_state(error->sqlerrcode));
	if (error->detail != NULL)
		appendStringInfo(&buf, "\nDETAIL:  %s", error->detail);
	if (error->hint != NULL)
		appendStringInfo(&buf, "\nHINT:  %s", error->hint);
	if (error->context != NULL)
		appendStringInfo(&buf, "\nCONTEXT:  %s", error->context);
	if (buf.len > MAX_ERROR_TEXT)
		buf.data[pg_mbcliplen(buf.data, buf.len, MAX_ERROR_TEXT)] = '\0';
	return buf.data;
}

/*
 * BatchEndError
 *		In a PG_CATCH block: copy the error into the context, and end the
 *		transaction.
 */
ErrorData *
BatchEndError(MemoryContext cxt)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	SubActivityNow = ACTIVITY_BUSY;
	disable_timeout(STATEMENT_TIMEOUT, false);
	QueryCancelPending = false;
	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	MemoryContextSwitchTo(cxt);
	RESUME_INTERRUPTS();
	return error;
}

/*
 * BatchLog
 *		Put the error into the server's log, but no more than one in a second.
 */
void
BatchLog(SubWorker *w, ErrorData *error)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now - w->logged_at < USECS_PER_SEC)
		return;
	w->logged_at = now;
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("subscription \"%s\": %s", w->sub->name, error->message),
			 error->detail_log != NULL ? errdetail_internal("%s", error->detail_log) :
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0,
			 error->context != NULL ? errcontext("%s", error->context) : 0));
}

/*
 * BatchPayloadsFault
 *		Of an error that was raised while the payload was decoded: is it for
 *		what the payload is?  A message must not be dropped because decoding it
 *		was cancelled, was the victim of a deadlock, or found no memory.
 */
bool
BatchPayloadsFault(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_OPERATOR_INTERVENTION:
			return false;
		default:
			return true;
	}
}

/*
 * BatchFailure
 *		What the subscription's policy makes of a failure.
 */
void
BatchFailure(SubWorker *w, bool undecodable, const char *error,
			 SettleRequest *request)
{
	const char *policy = undecodable ? w->sub->on_decode_error : w->sub->on_error;

	request->outcome = strcmp(policy, "drop") == 0 ? OUTCOME_DROP :
		strcmp(policy, "dead") == 0 ? OUTCOME_DEAD : OUTCOME_RETRY;
	request->undecodable = undecodable;
	request->delay = undecodable ? w->sub->decode_delay : NULL;
	request->error = pstrdup(error);
}

/*
 * settle_items
 *		In a transaction: these items, all in the same way.
 */
static void
settle_items(SubWorker *w, int first, int end, const SettleRequest *request)
{
	Queue	   *q = QueueTryOpen(w->sub->queue, RowExclusiveLock, false);
	int			n = end - first;
	Datum	   *receipts = palloc(n * sizeof(Datum));
	SettleRequest *requests = palloc(n * sizeof(SettleRequest));
	Verdict    *verdicts;

	if (q == NULL)
		return;
	for (int i = 0; i < n; i++)
	{
		receipts[i] = CStringGetTextDatum(QueueHas(q, ROLE_CLAIMED_AT) ?
										  w->rows[first + i]->receipt :
										  SubSlotReceipt(first + i));
		requests[i] = *request;
		if (request->outcome == OUTCOME_DEAD && !BuryConfigured(q))
			requests[i].outcome = OUTCOME_RETRY;
	}
	verdicts = SettleAll(q, receipts, requests, n);
	for (int i = 0; i < n; i++)
	{
		if (verdicts[i] != VERDICT_STALE || QueueHas(q, ROLE_CLAIMED_AT))
			continue;
		receipts[i] = CStringGetTextDatum(w->rows[first + i]->receipt);
		(void) SettleAll(q, &receipts[i], &requests[i], 1);
	}
	QueueClose(q);
}

static bool
settle_now(SubWorker *w, int first, int end, const SettleRequest *request)
{
	volatile bool ok = false;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PG_TRY();
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		settle_items(w, first, end, request);
		PopActiveSnapshot();
		CommitTransactionCommand();
		ok = true;
	}
	PG_CATCH();
	{
		ErrorData  *error = BatchEndError(w->cxt);

		BatchLog(w, error);
		SubSlotError(error->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(w->cxt);
	return ok;
}

/*
 * BatchSettleFailed
 *		Settle a message that has failed.
 */
void
BatchSettleFailed(SubWorker *w, int item, const ErrorData *error,
				  bool undecodable)
{
	SettleRequest request = {0};

	SubSlotError(error->message);
	BatchFailure(w, undecodable, BatchErrorText(error), &request);
	(void) settle_now(w, item, item + 1, &request);
	SubSlotCount(0, !undecodable, undecodable, 0);
}

/*
 * BatchRelease
 *		Hand back what has not been handled.
 */
void
BatchRelease(SubWorker *w, int first, int end)
{
	SettleRequest request = {.outcome = OUTCOME_RELEASE};

	enable_timeout_after(STATEMENT_TIMEOUT, RELEASE_MS);
	(void) settle_now(w, first, end, &request);
	disable_timeout(STATEMENT_TIMEOUT, false);
}
