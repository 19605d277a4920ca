/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The process that reaps one database's queues.
 *
 * Each tick it looks at the database, in one short transaction: is the
 * extension still here, which queues are there?  Then it takes the queues in
 * turn, each in a transaction of its own (reap.c).  Those that have more work
 * than one pass does get more turns at once, after the others had theirs.
 *
 * An error ends that queue's pass and nothing else: it goes to the log and to
 * view inbox_workers, and the queue rests, longer each time.  Any other trouble
 * ends the process; the launcher starts a new one.  A worker that finds
 * nothing to do here for good leaves with exit status 0 and has its entry
 * removed; one that is terminated leaves with another status and is replaced.
 *
 * Where there are subscriptions it starts their keeper (keeper.c), which goes
 * on without it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "bgproc.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "database.h"
#include "hints.h"
#include "keeper.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "reap.h"
#include "resting.h"
#include "session.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "subscription.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "worker.h"

/* further turns for busy queues end here, so that the rest is not forgotten */
#define BUSY_MS		1000

/* what one look at the database tells */
typedef struct Look
{
	bool		extension;
	bool		connectable;	/* it accepts connections */
	bool		template;
	bool		subscriptions;
	MemoryContext cxt;			/* where the list goes */
	List	   *queues;
} Look;

/* one pass over a queue */
typedef struct Pass
{
	Oid			relid;
	char	   *name;			/* for the log; set when known */
	ReapCounts	counts;
	bool		more;			/* more work is waiting */
} Pass;

static BgProc self = {
	.wait_name = "InboxWorkerMain",
	.must_leave = SlotMustLeave,
	.failed = SlotError
};

static TimestampTz next_tick(TimestampTz start, TimestampTz end);
static void stop(SIGNAL_ARGS);
static bool tick(TimestampTz start, MemoryContext cxt);
static void leave_if_asked(void);
static void leave_for_good(uint64 announced);
static List *sweep(List *queues, ReapCounts *counts);
static bool reap_one(Oid relid, ReapCounts *counts);
static void sleep_until(TimestampTz due, uint64 announced);
static void look(void *arg);
static void reap(void *arg);
static void name_pass(void *arg);

void
WorkerMain(Datum main_arg)
{
	Oid			database = DatumGetObjectId(main_arg);

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, stop);
	BackgroundWorkerUnblockSignals();

	if (!SlotAttach(database))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	SessionHarden();
	RestingInit();
	SessionIdle();

	for (;;)
	{
		TimestampTz start = GetCurrentTimestamp();
		uint64		announced = SlotAnnounced();
		MemoryContext cycle = AllocSetContextCreate(TopMemoryContext,
													"inbox worker cycle",
													ALLOCSET_DEFAULT_SIZES);
		TimestampTz due = start;

		MemoryContextSwitchTo(cycle);
		leave_if_asked();
		if (!tick(start, cycle))
			due = next_tick(start, GetCurrentTimestamp());
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextDelete(cycle);

		sleep_until(due, announced);
	}
}

/*
 * When to tick again: an interval after the last tick's start.  One that took
 * longer than that is still followed by some rest.
 */
static TimestampTz
next_tick(TimestampTz start, TimestampTz end)
{
	int64		interval = InboxReapInterval * INT64CONST(1000);

	return Max(start + interval, end + Min((end - start) / 2, interval));
}

/* The shared table has to tell a stop from a failure. */
static void
stop(SIGNAL_ARGS)
{
	SlotStopped();
	SessionStop(postgres_signal_arg);
}

/* Look around and sweep; true: there is more to do at once. */
static bool
tick(TimestampTz start, MemoryContext cxt)
{
	Look		here = {.cxt = cxt};
	ReapCounts	counts = {0};
	uint64		announced = SlotAnnounced();
	List	   *busy;

	if (!RestingIsOver(InvalidOid))
		return false;
	if (!BgProcTry(&self, look, &here, 0))
	{
		RestingBegin(InvalidOid);
		return false;
	}
	RestingEnd(InvalidOid);

	/*
	 * Copies are made from templates, and they want to be empty of sessions;
	 * so one that just has the extension ready for its copies is left alone.
	 */
	if (!here.extension || !here.connectable ||
		(here.template && here.queues == NIL && !here.subscriptions))
		leave_for_good(announced);

	SlotConfirm();
	RestingForgetOthers(here.queues);

	if (here.subscriptions)
		KeeperStart();
	SlotTickBegin(start);
	busy = sweep(here.queues, &counts);
	SlotTickEnd(list_length(here.queues), &counts);

	pgstat_report_activity(STATE_IDLE, NULL);
	(void) pgstat_report_stat(true);
	return busy != NIL;
}

/* Does somebody need the database empty? */
static void
leave_if_asked(void)
{
	SessionCheckStop();
	if (SlotMustLeave())
		proc_exit(0);
}

static void
leave_for_good(uint64 announced)
{
	SlotLeave(announced);
	proc_exit(0);
}

/* One turn for each queue, and more for the busy ones; returns those left. */
static List *
sweep(List *queues, ReapCounts *counts)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												  Min(InboxReapInterval, BUSY_MS));

	do
	{
		List	   *busy = NIL;
		ListCell   *cell;

		foreach(cell, queues)
		{
			Oid			relid = lfirst_oid(cell);

			leave_if_asked();
			if (RestingIsOver(relid) && reap_one(relid, counts))
				busy = lappend_oid(busy, relid);
		}
		queues = busy;
	} while (queues != NIL && GetCurrentTimestamp() < end);

	return queues;
}

/* One pass over one queue; true: more work is waiting. */
static bool
reap_one(Oid relid, ReapCounts *counts)
{
	Pass		pass = {.relid = relid};

	/* the owner's triggers must not keep us from the other queues */
	if (!BgProcTry(&self, reap, &pass, InboxReapTimeout))
	{
		RestingBegin(relid);
		return false;
	}
	RestingEnd(relid);

	counts->expired += pass.counts.expired;
	counts->buried += pass.counts.buried;
	counts->purged += pass.counts.purged;
	counts->set_aside += pass.counts.set_aside;
	return pass.more;
}

/*
 * Sleep until it is time, or until somebody announces something new here.  A
 * cancel request that arrives now has nothing to cancel.  Nothing is further
 * away than an interval, unless that has been shortened meanwhile or the clock
 * has been set back.
 */
static void
sleep_until(TimestampTz due, uint64 announced)
{
	for (;;)
	{
		TimestampTz now;
		long		wait;

		/* first, for a lock waited for has reset the latch */
		QueryCancelPending = false;
		leave_if_asked();
		SessionReload();

		now = GetCurrentTimestamp();
		due = Min(due, now + InboxReapInterval * INT64CONST(1000));
		wait = TimestampDifferenceMilliseconds(now, due);
		if (wait <= 0 || SlotAnnounced() != announced)
			return;
		BgProcSleep(&self, wait);
	}
}

/* Step: look around. */
static void
look(void *arg)
{
	Look	   *here = arg;
	HeapTuple	tuple;
	MemoryContext old;

	here->extension = OidIsValid(ExtensionNow("inbox"));

	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		here->connectable = database->datallowconn;
		here->template = database->datistemplate;
		ReleaseSysCache(tuple);
	}

	if (here->extension)
	{
		List	   *queues = ReapQueues();

		here->subscriptions = SubscriptionsExist();
		HintsForgetGone(queues);
		old = MemoryContextSwitchTo(here->cxt);
		here->queues = list_copy(queues);
		MemoryContextSwitchTo(old);
	}
}

/* Step: one pass over a queue. */
static void
reap(void *arg)
{
	Pass	   *pass = arg;
	char	   *relname = get_rel_name(pass->relid);
	ErrorContextCallback callback;

	/* dropped since we looked */
	if (relname == NULL)
		return;

	pass->name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(pass->relid)),
											relname);
	pgstat_report_activity(STATE_RUNNING,
						   psprintf("reap %s", pass->name));

	callback.callback = name_pass;
	callback.arg = pass;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	pass->more = ReapQueue(pass->relid, &pass->counts);
	error_context_stack = callback.previous;
}

static void
name_pass(void *arg)
{
	errcontext("reaping queue %s", ((Pass *) arg)->name);
}
