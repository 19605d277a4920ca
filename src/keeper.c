/*-------------------------------------------------------------------------
 *
 * keeper.c
 *	  The process that looks after a database's subscriptions.
 *
 * A database with subscriptions has one keeper.  It
 *
 *	  reads the definitions, when somebody has changed one and each
 *	  inbox.reap_interval for what nobody tells of: a function dropped, a role
 *	  renamed;
 *
 *	  starts the processes that are to run, and those that have died again
 *	  (keepstart.c);
 *
 *	  extends the leases of what they have in work (keeplease.c): they are
 *	  busy with users' code and cannot.
 *
 * It is the only one that must never wait for users' code or for locks, or
 * leases would run out meanwhile.  So the database's worker, which may spend a
 * minute in an owner's trigger, is another process; it starts the keeper.
 *
 * Like the worker it is connected as the bootstrap superuser and acts as a
 * queue's owner where it writes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bgproc.h"
#include "compat.h"
#include "guard.h"
#include "handler.h"
#include "keeper.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "session.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "subcheck.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* while a batch is outstanding */
#define TICK_MS		250

PGDLLEXPORT void KeeperMain(Datum main_arg);

static bool any = false;		/* there are definitions */

/*
 * KeeperStart
 *		Called by the database's worker: ask for a keeper, if there is to be
 *		one and there is none.
 */
void
KeeperStart(void)
{
	BackgroundWorker worker;

	if (!SubWantsKeeper(MyDatabaseId))
		return;
	BgProcDescribe(&worker, "inbox keeper", "KeeperMain",
				   ObjectIdGetDatum(MyDatabaseId));
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "inbox keeper for database %u", MyDatabaseId);
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
		SubKeeperAsked(MyDatabaseId);
	else
		SubKeeperFailed(MyDatabaseId,
						"no background worker slot left; see max_worker_processes");
}

static bool
held(void)
{
	return SubHeld(MyDatabaseId);
}

static BgProc self = {
	.wait_name = "InboxKeeperMain",
	.must_leave = held,
	.failed = SubKeeperError
};

/*
 * KeeperTry
 *		BgProcTry for all of the keeper's files.
 */
bool
KeeperTry(BgProcStep step, void *arg, int timeout)
{
	return BgProcTry(&self, step, arg, timeout);
}

/* a definition whose handler has to be found by its name */
typedef struct Search
{
	Subscription *sub;
	Oid			handler;
} Search;

static void
search(void *arg)
{
	Search	   *s = arg;

	s->handler = SubscriptionFindHandler(s->sub);
	if (!OidIsValid(s->handler))
		s->handler = SubscriptionFindAnew(s->sub);
}

/*
 * bring_up_to_date
 *		Keep the handler's name as it is now, for dumps; and its OID, where it
 *		was found by the name.
 */
static void
bring_up_to_date(Subscription *sub, Oid handler)
{
	char	   *name = sub->handler;
	bool		moved = SubscriptionPlaceOf(sub) != PLACE_HOME ||
		sub->handler_oid != handler;

	SubscriptionSetHandler(sub, handler);
	if (!moved && strcmp(name, sub->handler) == 0)
		return;
	/* who changes definitions has this lock; then another time */
	if (ConditionalLockRelationOid(SubscriptionTable(), ShareRowExclusiveLock))
	{
		Subscription *now = SubscriptionRead(sub->name);

		if (now != NULL && ItemPointerEquals(&now->tid, &sub->tid))
			SubscriptionWrite(sub);
	}
}

/*
 * problem_of
 *		Why a subscription cannot run, or NULL.  Whether its owner may claim and
 *		settle, its processes find out for themselves.
 */
static const char *
problem_of(Subscription *sub)
{
	Search		s = {sub, InvalidOid};
	HandlerKind kind;
	const char *hint;
	const char *problem;

	if (SubscriptionPlaceOf(sub) == PLACE_COPY)
		return "copied or restored: to be resumed with inbox_resume_subscription";
	if (sub->paused)
		return "paused";
	problem = SubOwnerProblem(sub->owner);
	if (problem != NULL)
		return problem;
	if (get_rel_name(sub->queue) == NULL)
		return "the queue does not exist";
	if (GuardRun(search, &s) != NULL || !OidIsValid(s.handler))
		return "the handler does not exist";
	bring_up_to_date(sub, s.handler);
	problem = HandlerProblem(s.handler, sub->queue, &hint, &kind);
	if (problem == NULL && !MayExecute(s.handler, sub->owner))
		problem = "the owner may not execute the handler";
	return problem;
}

/*
 * look
 *		Read the definitions and publish them; those of tables that have been
 *		dropped go.
 */
static void
look(void *arg)
{
	List	   *subs = SubscriptionReadAll();
	List	   *kept = NIL;
	List	   *problems = NIL;
	ListCell   *lc;

	foreach(lc, subs)
	{
		Subscription *sub = lfirst(lc);

		if (get_rel_name(sub->queue) == NULL &&
			ConditionalLockRelationOid(SubscriptionTable(), ShareRowExclusiveLock))
		{
			Subscription *now = SubscriptionRead(sub->name);

			if (now != NULL && now->queue == sub->queue)
				SubscriptionRemove(now);
			continue;
		}
		problems = lappend(problems, unconstify(char *, problem_of(sub)));
		kept = lappend(kept, sub);
	}
	any = kept != NIL;
	SubPublish(MyDatabaseId, kept, problems);
}

static void
leave_if_asked(void)
{
	SessionCheckStop();
	if (held())
	{
		SubKeeperLeave();
		proc_exit(0);
	}
}

/*
 * set_sleeping
 *		Who publishes a batch while we sleep wakes us; false: there is one.
 */
static bool
set_sleeping(void)
{
	SubHome    *home;
	bool		batch = false;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	for (int i = 0; i < SubShared->max; i++)
	{
		SubSlot    *slot = &SubShared->slot[i];

		if (slot->entry != NO_ENTRY && slot->batch != 0 &&
			SubShared->entry[slot->entry].database == MyDatabaseId)
			batch = true;
	}
	home = SubHomeFind(MyDatabaseId, false);
	if (home != NULL)
		home->sleeping = !batch;
	LWLockRelease(SubLock);
	return !batch;
}

static void
sleep_until(TimestampTz due)
{
	long		wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), due);

	if (!set_sleeping())
		wait = Min(wait, TICK_MS);
	BgProcSleep(&self, wait);
	QueryCancelPending = false;
}

void
KeeperMain(Datum main_arg)
{
	Oid			database = DatumGetObjectId(main_arg);
	TimestampTz next_look = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SessionStop);
	BackgroundWorkerUnblockSignals();

	if (!SubKeeperAttach(database))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	SessionHarden();
	SessionIdle();

	for (;;)
	{
		MemoryContext cycle = AllocSetContextCreate(TopMemoryContext,
													"inbox keeper cycle",
													ALLOCSET_DEFAULT_SIZES);
		TimestampTz next_start;

		MemoryContextSwitchTo(cycle);
		leave_if_asked();
		SessionReload();
		if (SubKeeperTakeChanged() || GetCurrentTimestamp() >= next_look)
		{
			(void) KeeperTry(look, NULL, InboxReapInterval + 1000);
			next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													InboxReapInterval);
			pgstat_report_activity(STATE_IDLE, NULL);
			(void) pgstat_report_stat(false);
		}
		next_start = KeeperStartWorkers();
		(void) KeeperKeepLeases();
		if (!any && !KeeperAnyWorker())
			break;
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextDelete(cycle);
		sleep_until(Min(next_look, next_start));
	}
	SubKeeperLeave();
	proc_exit(0);
}
