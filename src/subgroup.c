/*-------------------------------------------------------------------------
 *
 * subgroup.c
 *	  Handle messages: effects and settlement in one transaction, each message
 *	  once or not at all.
 *
 * A transaction costs more than a small handler, so several messages are
 * handled in one and settled together at its end.  That must not be seen:
 *
 * 1. An error counts only if its message was the first in its transaction.
 *	  Else the handling is undone (each later one has a subtransaction), what
 *	  came before is settled and committed, and the message begins anew in a
 *	  transaction of its own.  So no message fails for what another one has
 *	  left behind in the transaction: a lock, a temporary table.
 *
 * 2. Deferred constraints are checked before the settlements.  When that, the
 *	  settlements or the commit fails, all is undone, and each message has
 *	  a transaction to itself.
 *
 * 3. Effects do not wait long to be seen: after some milliseconds the
 *	  transaction ends, and how many messages the next one takes goes by how
 *	  long they took lately.  It begins with one.  A later message that takes
 *	  long is broken off, and by rule 1 begins anew.
 *
 * 4. Settings that a handler changes are put back when it is over.
 *
 * A message whose lease was lost has another holder, or had one.  Its
 * settlement finds that out under the row's lock and takes the effects back;
 * most often the keeper has told before, and has it cancelled.  What the
 * handler itself has done to its row is something else (subown.c).
 *
 * Called by subbatch.c, which sees to it that a message begins anew where
 * these rules say so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "errors.h"
#include "miscadmin.h"
#include "owner.h"
#include "postmaster/interrupt.h"
#include "savepoint.h"
#include "subgroup.h"
#include "subshared.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* a message behind others in its transaction that takes longer begins anew */
#define PATIENCE_MS		100

static void
add_settlement(BatchGroup *g, int item, const ErrorData *undecodable)
{
	SettleRequest *request = &g->requests[g->n];
	MemoryContext old = MemoryContextSwitchTo(g->w->cxt);

	memset(request, 0, sizeof(*request));
	g->items[g->n++] = item;
	if (undecodable != NULL)
	{
		BatchFailure(g->w, true, BatchErrorText(undecodable), request);
		g->nundecodable++;
	}
	else
		g->nhandled++;
	MemoryContextSwitchTo(old);
}

/*
 * BatchClock
 *		A handling begins, or the last one is over.
 */
void
BatchClock(BatchGroup *g, TimestampTz now)
{
	if (g->clock != 0)
	{
		g->gaps++;
		g->took += now - g->clock;
		g->longest = Max(g->longest, now - g->clock);
	}
	g->clock = now;
}

/*
 * BatchPatience
 *		How long a message may take that does not have its transaction to
 *		itself, in milliseconds.
 */
int
BatchPatience(SubWorker *w)
{
	return w->time_limit > 0 ? Min(w->time_limit, PATIENCE_MS) : PATIENCE_MS;
}

/*
 * BatchHandleOne
 *		Decode and call.  A cancel that comes while this runs, strikes here.
 */
void
BatchHandleOne(BatchGroup *g, int time_limit)
{
	int			guc_level = NewGUCNestLevel();
	Datum		arg;
	bool		isnull;

	SetCurrentStatementStartTimestamp();
	BatchClock(g, GetCurrentStatementStartTimestamp());
	SubActivityNow = ACTIVITY_HANDLING;
	/* one that came while we were busy with something else */
	if (ShutdownRequestPending)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("subscription is being stopped")));
	if (time_limit > 0)
		enable_timeout_after(STATEMENT_TIMEOUT, time_limit);
	g->step = STEP_DECODE;
	/* a domain's check may be any function */
	PushActiveSnapshot(GetTransactionSnapshot());
	arg = HandlerDecode(&g->handler, &isnull);
	PopActiveSnapshot();
	g->step = STEP_HANDLE;
	g->w->rows[g->next]->begun = GetCurrentCommandId(false);
	HandlerCall(&g->handler, arg, isnull);
	CHECK_FOR_INTERRUPTS();
	if (time_limit > 0)
		disable_timeout(STATEMENT_TIMEOUT, false);
	SubActivityNow = ACTIVITY_BUSY;
	AtEOXact_GUC(false, guc_level);
}

/*
 * handle_later
 *		A message that is not the first of its transaction.
 */
static void
handle_later(BatchGroup *g, int time_limit)
{
	Savepoint	savepoint;

	SavepointBegin(&savepoint);
	PG_TRY();
	{
		BatchHandleOne(g, time_limit);
		SavepointEnd(&savepoint, true);
		add_settlement(g, g->next, NULL);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		SubActivityNow = ACTIVITY_BUSY;
		disable_timeout(STATEMENT_TIMEOUT, false);
		QueryCancelPending = false;
		error = SavepointCaught(&savepoint, g->w->cxt);
		g->spoilt = error->sqlerrcode != ERRCODE_QUERY_CANCELED &&
			!(g->step == STEP_DECODE && BatchPayloadsFault(error));
		g->again = g->spoilt ||
			error->sqlerrcode == ERRCODE_QUERY_CANCELED;
		if (!g->again)
		{
			BatchLog(g->w, error);
			SubSlotError(error->message);
			add_settlement(g, g->next, error);
		}
	}
	PG_END_TRY();
}

static void
lease_lost(BatchGroup *g)
{
	g->lost = true;
	ereport(ERROR,
			(errcode(ERRCODE_INBOX_NOT_HELD),
			 errmsg("the lease was lost")));
}

/*
 * handle_items
 *		As many as may go into this transaction.
 */
static void
handle_items(BatchGroup *g, int end, TimestampTz until)
{
	SubWorker  *w = g->w;

	for (; g->next < end && !g->again; g->next++)
	{
		MemoryContext old;
		bool		lost;

		if (g->n > 0 && (ShutdownRequestPending || GetCurrentTimestamp() > until))
			break;
		if (!SubSlotEnter(g->next, &lost))
		{
			g->over = true;
			break;
		}
		if (lost)
		{
			SubSlotCount(0, 0, 0, 1);
			continue;
		}
		if (!HandlerShow(&g->handler, w->rows[g->next]))
		{
			/* altered: let it be claimed again as it is now */
			(void) SubSlotLeave(g->next);
			w->n = Min(w->n, g->next);
			break;
		}
		old = MemoryContextSwitchTo(g->item_cxt);
		if (g->n == 0)
		{
			BatchHandleOne(g, w->time_limit);
			add_settlement(g, g->next, NULL);
		}
		else
			handle_later(g, BatchPatience(w));
		MemoryContextSwitchTo(old);
		MemoryContextReset(g->item_cxt);
		if (!SubSlotLeave(g->next) && !g->again)
			lease_lost(g);
		if (g->again)
			break;
	}
}

/*
 * settle
 *		Settle the group's messages.  Where an extension makes another receipt,
 *		the keeper may have put one in the slot, and his transaction may
 *		have failed after that.
 */
static void
settle(BatchGroup *g, Queue *q)
{
	Datum	   *receipts = palloc(g->n * sizeof(Datum));
	bool		changing = !QueueHas(q, ROLE_CLAIMED_AT);
	Verdict    *verdicts;

	for (int i = 0; i < g->n; i++)
		receipts[i] = CStringGetTextDatum(changing ? SubSlotReceipt(g->items[i]) :
										  g->w->rows[g->items[i]]->receipt);
	verdicts = SettleAll(q, receipts, g->requests, g->n);
	for (int i = 0; i < g->n; i++)
	{
		if (verdicts[i] == VERDICT_STALE && changing)
		{
			receipts[i] = CStringGetTextDatum(g->w->rows[g->items[i]]->receipt);
			verdicts[i] = SettleAll(q, &receipts[i], &g->requests[i], 1)[0];
		}
		if (verdicts[i] != VERDICT_OK &&
			g->requests[i].outcome == OUTCOME_DONE &&
			!BatchOwnDoing(g, q, g->items[i], &g->requests[i]))
			lease_lost(g);
	}
}

static void
open_group(BatchGroup *g, Queue **q)
{
	SubWorker  *w = g->w;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	*q = QueueTryOpen(w->sub->queue, RowExclusiveLock, false);
	if (*q == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the queue has been dropped")));
	g->item_cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox message",
										ALLOCSET_DEFAULT_SIZES);
	HandlerOpen(&g->handler, w->handler, *q);
}

/*
 * BatchGroupRun
 *		One transaction for messages from g->first on.  True when it is
 *		committed; else *error is what undid it.
 */
bool
BatchGroupRun(BatchGroup *g, int end, ErrorData **error)
{
	TimestampTz began = GetCurrentTimestamp();
	int			n = end - g->first;
	volatile bool ok = false;
	Queue	   *q;

	*error = NULL;
	g->next = g->first;
	g->n = g->nhandled = g->nundecodable = 0;
	g->clock = g->took = g->longest = g->gaps = 0;
	g->step = STEP_OPEN;
	g->again = g->spoilt = g->over = g->lost = false;
	MemoryContextSwitchTo(g->w->cxt);
	g->items = palloc(n * sizeof(int));
	g->requests = palloc(n * sizeof(SettleRequest));
	PG_TRY();
	{
		open_group(g, &q);
		handle_items(g, end, began + GROUP_USECS);
		BatchClock(g, GetCurrentTimestamp());
		HandlerClose(&g->handler);
		g->step = STEP_SETTLE;
		if (g->n > 0)
		{
			PushActiveSnapshot(GetTransactionSnapshot());
			OwnerConstraintsImmediate();
			PopActiveSnapshot();
			PushActiveSnapshot(GetTransactionSnapshot());
			settle(g, q);
			PopActiveSnapshot();
		}
		QueueClose(q);
		CommitTransactionCommand();
		ok = true;
	}
	PG_CATCH();
	{
		*error = BatchEndError(g->w->cxt);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(g->w->cxt);
	if (ok && g->n > 0)
	{
		SubSlotDone(g->next);
		SubSlotCount(g->nhandled, 0, g->nundecodable, 0);
	}
	return ok;
}
