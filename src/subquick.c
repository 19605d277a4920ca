/*-------------------------------------------------------------------------
 *
 * subquick.c
 *	  Handle messages without leasing them first, where all goes well.
 *
 * A lease is there for work that may take long, and for holders that may
 * die.  A handler that takes microseconds needs neither: one transaction
 * locks rows, calls the handler for each, deletes them and commits.  Half of the
 * writing is spared, and a transaction.  When it dies nothing has happened, and
 * the rows are free at once.
 *
 * What is lost is that a death counts as an attempt.  So this is done only when
 *
 * 1. the process has handled a number of messages without any trouble.
 *	  Whatever goes wrong here takes back the message at hand, settles what
 *	  came before, and is found out again with a lease, where it counts;
 *
 * 2. claims need not wait for the disk (inbox.async_claim), and the server has
 *	  not crashed lately: a message that takes it down does so once without
 *	  being counted, as with those claims, and then with a lease;
 *
 * 3. handlings are short.  One that is not is broken off, and begins anew with a
 *	  lease;
 *
 * 4. the handler does not look at the lease, and the rows are those that
 *	  claims walk and settlements delete directly.
 *
 * To the hints (hints.c) this is a claim that settles in its own transaction:
 * the keys that it passes are opened again when it aborts, and those of rows
 * that it gives up are opened at its commit.  A row whose lease has ended stands
 * in a ledger and is left to claims.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "delta.h"
#include "find.h"
#include "lease.h"
#include "locate.h"
#include "miscadmin.h"
#include "owner.h"
#include "pending.h"
#include "pgstat.h"
#include "quickcommit.h"
#include "session.h"
#include "settings.h"
#include "subgroup.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* so many messages without trouble */
#define TRUST			200
/* a handling that takes longer, in microseconds, is worth a lease */
#define SHORT_USECS		1000

/* The rows taken, beside w->rows. */
typedef struct Taken
{
	ItemPointerData tid;
	HintRange	keys;
} Taken;

/*
 * take_rows
 *		Lock claimable rows; how many.
 */
static int
take_rows(SubWorker *w, Queue *q, text *group, int max_rows, Taken *taken)
{
	DeliverySink sink;
	RowWriter	writer;
	RowLeaf    *leaf;
	Finder		finder;
	Oid			relid;
	ItemPointerData tid;
	int			n = 0;

	DeliverBeginKept(&sink, q);
	WriterBegin(&writer, q);
	leaf = WriterLeaf(&writer, q->relid);
	FindBegin(&finder, &writer, LeaseNow(), group, max_rows);
	if (!finder.walking || !leaf->direct_delete)
		max_rows = 0;
	else if (w->sub->by_key)
		FindShare(&finder, &w->share);
	while (n < max_rows && FindNext(&finder, &relid, &tid))
	{
		bool		took;
		LeaseRow	row;
		HintRange	keys;

		LeaseReadRow(q, leaf->attnos, finder.walk.slot, &row);
		KeysOfRow(q, leaf->attnos, finder.walk.slot, &keys);
		if (row.leased)
		{
			/* it stands in a ledger: for the claim that comes next */
			w->claim_next = true;
			PendingOpen(q, &keys, 1);
		}
		took = !row.leased &&
			LockVersion(leaf, &tid, GetActiveSnapshot(), LockTupleExclusive,
						LockWaitSkip, 0) == TM_Ok;
		if (took)
		{
			if (finder.walk.view.hints != NULL)
				PendingPassed(finder.walk.view.hints, &keys);
			taken[n].tid = tid;
			taken[n++].keys = keys;
			DeliverRow(&sink, leaf, leaf->old);
		}
		FindTook(&finder, took);
	}
	FindStop(&finder);
	WriterEnd(&writer);
	FindEnd(&finder);
	w->n = 0;
	w->rows = palloc(sizeof(KeptRow *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		w->rows[w->n++] = list_nth(sink.kept, i);
	return n;
}

/*
 * delete_handled
 *		The settlement.  What the handler itself has done to the row, only one
 *		by receipt knows how to judge.
 */
static void
delete_handled(BatchGroup *g, Queue *q, Taken *taken)
{
	RowWriter	writer;
	RowLeaf    *leaf;

	WriterBegin(&writer, q);
	leaf = WriterLeaf(&writer, q->relid);
	for (int i = 0; i < g->n; i++)
	{
		if (!table_tuple_fetch_row_version(leaf->rel, &taken[g->items[i]].tid,
										   SnapshotSelf, leaf->old))
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("the handler has changed the row of its message")));
		(void) WriterDelete(&writer, leaf);
	}
	WriterEnd(&writer);
	DeltaCount(q, TOTAL_CLAIMED, g->n);
	DeltaCount(q, TOTAL_DONE, g->n);
}

/*
 * handle_taken
 *		Up to the first that goes wrong.
 */
static void
handle_taken(BatchGroup *g)
{
	SubWorker  *w = g->w;

	for (g->next = 0; g->next < w->n && !g->again; g->next++)
	{
		MemoryContext old;

		if (!HandlerShow(&g->handler, w->rows[g->next]))
			break;
		old = MemoryContextSwitchTo(g->item_cxt);
		if (g->next == 0)
		{
			BatchHandleFirst(g, BatchPatience(w));
			g->items[g->n++] = 0;
			g->nhandled++;
		}
		else
			BatchHandleLater(g, BatchPatience(w));
		MemoryContextSwitchTo(old);
		MemoryContextReset(g->item_cxt);
		if (g->again)
			break;
	}
}

/*
 * run
 *		In a transaction: all of it.  False: not here.
 */
static bool
run(BatchGroup *g, int max_rows)
{
	SubWorker  *w = g->w;
	Queue	   *q = QueueTryOpen(w->sub->queue, RowExclusiveLock, false);
	Taken	   *taken = palloc(max_rows * sizeof(Taken));
	const char *hint;
	HandlerKind kind;
	int			n;

	if (q == NULL)
		return false;
	if (q->settings.paused || q->settings.fifo ||
		q->settings.dead_group != NULL || QueueHas(q, ROLE_PROCESSED_AT) ||
		(w->sub->by_key && !QueueHas(q, ROLE_PARTITION_KEY)) ||
		(w->sub->group_key != NULL && !QueueHas(q, ROLE_GROUP_KEY)) ||
		HandlerProblem(w->handler, q->relid, &hint, &kind) != NULL ||
		kind == HANDLER_ROW || kind == HANDLER_DELIVERY ||
		!MayExecute(w->handler, GetUserId()))
	{
		QueueClose(q);
		return false;
	}
	SettleCheckRights(q, false);
	DeliverCheckRights(q, SHAPE_DELIVERY);
	n = take_rows(w, q, w->sub->group_key == NULL ? NULL :
				  cstring_to_text(w->sub->group_key), max_rows, taken);
	if (n > 0)
	{
		HandlerOpen(&g->handler, w->handler, q);
		g->item_cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox message",
											ALLOCSET_DEFAULT_SIZES);
		/* what is sent after a pause is not for us */
		if (!SubMustLeave())
			handle_taken(g);
		HandlerClose(&g->handler);
		for (int i = g->next; i < n; i++)
			PendingOpen(q, &taken[i].keys, 1);
		OwnerConstraintsImmediate();
		delete_handled(g, q, taken);
	}
	QueueClose(q);
	return n > 0;
}

/*
 * BatchQuick
 *		Handle what is there, if that may be done without a lease.  False: go on
 *		as usual.
 */
bool
BatchQuick(SubWorker *w)
{
	BatchGroup	g = {.w = w,.quick = true};
	TimestampTz began = GetCurrentTimestamp();
	int			max_rows = Min(BatchClaimRows(w), GROUP_MAX);
	volatile bool ran = false;

	if (w->claim_next || w->trust < TRUST || w->usecs > SHORT_USECS ||
		!InboxAsyncClaim || QuickAfterCrash())
	{
		w->claim_next = false;
		return false;
	}
	SessionReload();
	SubSlotHandling();
	MemoryContextSwitchTo(w->cxt);
	g.items = palloc(max_rows * sizeof(int));
	g.requests = palloc(max_rows * sizeof(SettleRequest));
	SubActivityNow = ACTIVITY_BUSY;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		MemoryContextSwitchTo(w->cxt);
		PushActiveSnapshot(GetTransactionSnapshot());
		ran = run(&g, max_rows);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		(void) BatchEndError(w->cxt);
		ran = false;
		g.again = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(w->cxt);
	SubActivityNow = ACTIVITY_IDLE;
	QueryCancelPending = false;
	if (g.again)
		w->trust = 0;
	if (!ran || g.n == 0)
		return false;
	SubSlotCount(g.n, 0, 0, 0);
	(void) pgstat_report_stat(false);
	BatchLearn(w, g.n, began);
	return true;
}
