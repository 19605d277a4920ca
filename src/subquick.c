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
 * The handlings have no subtransactions.  Whatever goes wrong with one of them
 * takes all of the transaction back, and is found out again with leases, where
 * it counts; it may have run into trouble for what others have left behind.
 * So all are handled as if this had never been tried.
 *
 * What is lost is that a death counts as an attempt.  So this is done only when
 *
 * 1. the process has handled a number of messages without any trouble, so
 *	  that little is handled twice;
 *
 * 2. claims need not wait for the disk (inbox.async_claim), and the server has
 *	  not crashed lately: a message that takes it down does so once without
 *	  being counted, as with those claims, and then with a lease;
 *
 * 3. handlings are short.  The transaction takes no more of them when it has
 *	  lasted for some milliseconds, and one that takes long is broken off;
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
#include "postmaster/interrupt.h"
#include "quickcommit.h"
#include "session.h"
#include "settings.h"
#include "subgroup.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* so many messages without trouble, doubled each time it was betrayed */
#define TRUST			200
#define MAX_WARY		5
/* a handling that takes longer, in microseconds, is worth a lease */
#define SHORT_USECS		1000

/* A row taken, and w->rows[i] of the batch. */
typedef struct Taken
{
	KeptRow		row;			/* without a receipt */
	ItemPointerData tid;
	HintRange	keys;
} Taken;

/*
 * max_rows
 *		How many to take: what a batch may be, and what the transaction has
 *		time for, rather too many, since a busy machine makes handlings look
 *		longer than they are, and there is a clock to stop it.
 */
static int
max_rows(SubWorker *w)
{
	int			rows = BatchClaimRows(w);

	if (w->spurious >= MAX_SPURIOUS)
		return 1;
	return (int) Max(Min(4 * GROUP_USECS / Max(w->busy, 1), rows), 1);
}

/*
 * keep
 *		Copy the row that is locked.
 */
static void
keep(Taken *taken, int n, RowLeaf *leaf)
{
	KeptRow    *row = &taken[n].row;

	row->receipt = NULL;
	row->relid = RelationGetRelid(leaf->rel);
	row->desc = n > 0 ? taken[0].row.desc :
		CreateTupleDescCopy(RelationGetDescr(leaf->rel));
	row->tuple = ExecCopySlotHeapTuple(leaf->old);
}

/*
 * take_rows
 *		Lock claimable rows; how many.
 */
static int
take_rows(SubWorker *w, Queue *q, text *group, int rows, Taken *taken)
{
	RowWriter	writer;
	RowLeaf    *leaf;
	Finder		finder;
	Oid			relid;
	ItemPointerData tid;
	int			n = 0;

	WriterBegin(&writer, q);
	leaf = WriterLeaf(&writer, q->relid);
	FindBegin(&finder, &writer, LeaseNow(), group, rows);
	if (!finder.walking || !leaf->direct_delete)
		rows = 0;
	else if (w->sub->by_key)
		FindShare(&finder, &w->share);
	while (n < rows && FindNext(&finder, &relid, &tid))
	{
		HintRange  *keys = &finder.walk.keys;
		bool		leased = !slot_attisnull(finder.walk.slot,
											 leaf->attnos[ROLE_LOCKED_UNTIL]);
		bool		took;

		if (leased)
		{
			/* it stands in a ledger: for the claim that comes next */
			w->claim_next = true;
			PendingOpen(q, keys, 1);
		}
		took = !leased &&
			LockVersion(leaf, &tid, GetActiveSnapshot(), LockTupleExclusive,
						LockWaitSkip, 0) == TM_Ok;
		if (took)
		{
			if (finder.walk.view.hints != NULL)
				PendingPassed(finder.walk.view.hints, keys);
			keep(taken, n, leaf);
			taken[n].tid = tid;
			taken[n++].keys = *keys;
		}
		FindTook(&finder, took);
	}
	FindStop(&finder);
	WriterEnd(&writer);
	FindEnd(&finder);
	w->n = n;
	w->rows = palloc(sizeof(KeptRow *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		w->rows[i] = &taken[i].row;
	return n;
}

/*
 * delete_row
 *		A row that is locked and, unless the handler has changed it, as it was.
 */
static bool
delete_row(RowWriter *writer, RowLeaf *leaf, ItemPointer tid)
{
	if (WriteMayTryDelete(leaf))
		return WriteTryDelete(leaf, tid);
	return table_tuple_fetch_row_version(leaf->rel, tid, SnapshotSelf,
										 leaf->old) &&
		WriterDelete(writer, leaf);
}

/*
 * delete_handled
 *		The settlement.  What the handler itself has done to the row, only one
 *		by receipt knows how to judge.
 */
static void
delete_handled(Queue *q, Taken *taken, int n)
{
	RowWriter	writer;
	RowLeaf    *leaf;

	WriterBegin(&writer, q);
	leaf = WriterLeaf(&writer, q->relid);
	for (int i = 0; i < n; i++)
	{
		if (!delete_row(&writer, leaf, &taken[i].tid))
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("the handler has changed the row of its message")));
	}
	WriterEnd(&writer);
	DeltaCount(q, TOTAL_CLAIMED, n);
	DeltaCount(q, TOTAL_DONE, n);
}

/*
 * handle_taken
 *		As many as there is time for, together within the patience that each
 *		may be given.
 */
static void
handle_taken(BatchGroup *g)
{
	SubWorker  *w = g->w;
	int			patience = BatchPatience(w);
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													Min(GROUP_USECS / 1000, patience / 2));

	enable_timeout_after(STATEMENT_TIMEOUT, patience);
	for (g->next = 0; g->next < w->n; g->next++)
	{
		MemoryContext old;

		/* the clock was read when the last one began */
		if (g->next > 0 && (ShutdownRequestPending ||
							GetCurrentStatementStartTimestamp() > until))
			break;
		if (!HandlerShow(&g->handler, w->rows[g->next]))
			break;
		old = MemoryContextSwitchTo(g->item_cxt);
		BatchHandleOne(g, 0);
		MemoryContextSwitchTo(old);
		MemoryContextReset(g->item_cxt);
	}
	disable_timeout(STATEMENT_TIMEOUT, false);
	BatchClock(g, GetCurrentTimestamp());
	g->n = g->next;
}

/*
 * run
 *		In a transaction: all of it.  False: not here.
 */
static bool
run(BatchGroup *g, int rows)
{
	SubWorker  *w = g->w;
	Queue	   *q = QueueTryOpen(w->sub->queue, RowExclusiveLock, false);
	Taken	   *taken = palloc(rows * sizeof(Taken));
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
				  cstring_to_text(w->sub->group_key), rows, taken);
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
		delete_handled(q, taken, g->n);
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
	BatchGroup	g = {.w = w};
	TimestampTz began = GetCurrentTimestamp();
	volatile bool ran = false;

	if (w->claim_next || w->trust < TRUST << w->wary || w->busy > SHORT_USECS ||
		!InboxAsyncClaim || QuickAfterCrash())
	{
		w->claim_next = false;
		return false;
	}
	SessionReload();
	SubSlotHandling();
	SubActivityNow = ACTIVITY_BUSY;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		MemoryContextSwitchTo(w->cxt);
		PushActiveSnapshot(GetTransactionSnapshot());
		ran = run(&g, max_rows(w));
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		(void) BatchEndError(w->cxt);
		ran = false;
		w->trust = 0;
		w->wary = Min(w->wary + 1, MAX_WARY);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(w->cxt);
	SubActivityNow = ACTIVITY_IDLE;
	QueryCancelPending = false;
	if (!ran || g.n == 0)
		return false;
	w->wary = Max(w->wary - 1, 0);
	SubSlotCount(g.n, 0, 0, 0);
	(void) pgstat_report_stat(false);
	BatchLearn(&g, began);
	return true;
}
