/*-------------------------------------------------------------------------
 *
 * subworker.c
 *	  A process of a subscription: claim a batch, handle it, again and again.
 *
 * It is connected as the subscription's owner, as a session of his would be:
 * there are no other rights for a handler to come back to.  A claim is a
 * transaction of its own, so that a crash counts the attempt and others can
 * see the leases; what follows is in subbatch.c.
 *
 * With nothing to claim it waits like any consumer (wait.c).  It leaves when
 * the definition has changed, or the database must be empty (subslot.c), and
 * hands back what it has claimed and not begun.
 *
 * Signals: a handling can be cancelled, by pg_cancel_backend, by SIGTERM, by
 * the keeper when its lease is lost (SIGUSR2), and by its time limit.  What
 * comes when it is over is ignored: it was not meant for the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "bgproc.h"
#include "claim.h"
#include "compat.h"
#include "duration.h"
#include "handler.h"
#include "lease.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "session.h"
#include "settings.h"
#include "settle.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "subshared.h"
#include "subworker.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "wait.h"

/* between two looks whether it must leave, at the latest */
#define WAIT_USECS	(60 * USECS_PER_SEC)

PGDLLEXPORT void SubscriptionMain(Datum main_arg);

volatile sig_atomic_t SubActivityNow = ACTIVITY_BUSY;

static QueueHints *hints = NULL;
static bool claim_failed = false;
static int	failures = 0;		/* of claims, in a row */
static BgProc self = {.wait_name = "InboxSubscription"};

static void
cancel(void)
{
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

/* SIGINT */
static void
handle_cancel(SIGNAL_ARGS)
{
	int			save_errno = errno;

	if (SubActivityNow != ACTIVITY_IDLE)
		cancel();
	errno = save_errno;
}

/* SIGUSR2: the keeper has found a lease lost */
static void
handle_lost(SIGNAL_ARGS)
{
	int			save_errno = errno;

	if (SubActivityNow == ACTIVITY_HANDLING && SubSlotLost())
		cancel();
	errno = save_errno;
}

/* SIGTERM */
static void
handle_stop(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SubSlotStopped();
	if (SubActivityNow == ACTIVITY_BUSY)
		die(postgres_signal_arg);
	else
	{
		if (SubActivityNow == ACTIVITY_HANDLING)
			cancel();
		SignalHandlerForShutdownRequest(postgres_signal_arg);
	}
	errno = save_errno;
}

bool
SubMustLeave(void)
{
	return ShutdownRequestPending || SubSlotMustLeave();
}

/*
 * leave
 *		Whoever was told to stop by a signal says so by his exit status.
 */
static void
leave(void)
{
	proc_exit(ShutdownRequestPending ? 1 : 0);
}

static void
leave_with_problem(const char *problem)
{
	SubSlotProblem(problem);
	if (IsTransactionState())
		AbortOutOfAnyTransaction();
	proc_exit(0);
}

/*
 * claim
 *		Claim a batch, in a transaction.  What does not depend on the messages
 *		is checked before: none may be claimed, and spend an attempt, for a
 *		handler that cannot be called.
 */
static void
claim(SubWorker *w, WaitLook *look)
{
	Subscription *sub = w->sub;
	Queue	   *q = QueueTryOpen(sub->queue, RowExclusiveLock, false);
	text	   *group = sub->group_key == NULL ? NULL :
		cstring_to_text(sub->group_key);
	HandlerKind kind;
	const char *hint;
	const char *problem;
	DeliverySink sink;
	ListCell   *lc;

	if (q == NULL)
		leave_with_problem("the queue does not exist");
	problem = HandlerProblem(w->handler, q->relid, &hint, &kind);
	if (problem == NULL && !MayExecute(w->handler, GetUserId()))
		problem = "the owner may not execute the handler";
	if (problem == NULL && sub->by_key && !QueueHas(q, ROLE_PARTITION_KEY))
		problem = "the queue has no partition_key column";
	if (problem == NULL && group != NULL && !QueueHas(q, ROLE_GROUP_KEY))
		problem = "the queue has no group_key column";
	if (problem != NULL)
		leave_with_problem(problem);
	SettleCheckRights(q, false);
	DeliverCheckRights(q, kind == HANDLER_DELIVERY ? SHAPE_DELIVERY :
					   kind == HANDLER_ROW ? SHAPE_ROW : SHAPE_IDS);
	w->lease = sub->lease != NULL ? DurationLease(sub->lease) : q->settings.lease;
	hints = HintsFor(q);
	MemoryContextSwitchTo(w->cxt);
	DeliverBeginKept(&sink, q);
	(void) ClaimRows(q, BatchClaimRows(w), w->lease, group,
					 sub->by_key ? &w->share : NULL, &sink, look);
	w->n = 0;
	w->rows = palloc(sizeof(KeptRow *) * Max(list_length(sink.kept), 1));
	foreach(lc, sink.kept)
		w->rows[w->n++] = lfirst(lc);
	QueueClose(q);
}

/*
 * try_claim
 *		An attempt of the wait; true when it is over.
 */
static bool
try_claim(void *arg, WaitLook *look)
{
	SubWorker  *w = arg;

	SubActivityNow = ACTIVITY_BUSY;
	claim_failed = false;
	w->n = 0;
	SessionReload();
	if (SubMustLeave())
		return true;
	MemoryContextReset(w->cxt);
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		claim(w, look);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		ErrorData  *error = BatchEndError(w->cxt);

		w->n = 0;
		claim_failed = !SubMustLeave();
		if (claim_failed)
		{
			SubSlotError(error->message);
			if (failures == 0)
				BatchLog(w, error);
		}
	}
	PG_END_TRY();
	MemoryContextSwitchTo(w->cxt);
	SubActivityNow = ACTIVITY_IDLE;
	QueryCancelPending = false;
	return w->n > 0 || claim_failed;
}

/*
 * rest
 *		After a claim that failed, longer each time.
 */
static void
rest(void)
{
	TimestampTz until =
	TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
								DatabaseRetryDelay(++failures));

	for (;;)
	{
		long		wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
														   until);

		if (wait <= 0 || SubMustLeave())
			return;
		BgProcSleep(&self, wait);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * next_batch
 *		Claim, or wait until there is something to claim.
 */
static bool
next_batch(SubWorker *w)
{
	WaitLook	look = {PG_INT64_MAX, false};

	if (!try_claim(w, &look) && !SubMustLeave())
	{
		SubSlotIdle();
		pgstat_report_activity(STATE_IDLE, NULL);
		(void) pgstat_report_stat(true);
		WaitUntil(WAIT_USECS, hints, try_claim, w);
	}
	if (claim_failed)
		rest();
	else if (!SubMustLeave())
	{
		if (failures > 0 || w->usecs == 0)
			SubSlotHealthy();
		failures = 0;
	}
	return w->n > 0;
}

/*
 * read_definition
 *		What this process is to do; it may have changed since it was asked for.
 */
static void
read_definition(SubWorker *w, const char *name, int number)
{
	MemoryContext old;
	Subscription *sub;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	old = MemoryContextSwitchTo(TopMemoryContext);
	sub = SubscriptionRead(name);
	if (sub != NULL)
	{
		w->sub = sub;
		w->share.number = number;
		w->share.of = sub->workers;
		w->time_limit = SubscriptionTimeLimit(sub);
		w->handler = sub->handler_oid;
		SubSlotConfirm(SubscriptionPrint(sub));
	}
	MemoryContextSwitchTo(old);
	PopActiveSnapshot();
	CommitTransactionCommand();
	if (sub == NULL)
		leave_with_problem("the subscription does not exist");
}

void
SubscriptionMain(Datum main_arg)
{
	SubWorker	w = {0};
	Oid			database;
	Oid			owner;
	char	   *name;
	int			number;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, handle_cancel);
	pqsignal(SIGTERM, handle_stop);
	pqsignal(SIGUSR2, handle_lost);
	BackgroundWorkerUnblockSignals();

	if (!SubSlotAttach(DatumGetUInt32(main_arg), &database, &owner, &name, &number))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(database, owner, CONNECT_AS_ANYBODY);
	SessionSettle();
	read_definition(&w, name, number);
	w.group = 1;
	w.cxt = AllocSetContextCreate(TopMemoryContext, "inbox batch",
								  ALLOCSET_DEFAULT_SIZES);
	SubActivityNow = ACTIVITY_IDLE;
	while (!SubMustLeave())
	{
		if (!BatchQuick(&w) && next_batch(&w))
			BatchHandle(&w);
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextReset(w.cxt);
	}
	leave();
}
