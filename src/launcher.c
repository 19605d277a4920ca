/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts a worker in each database that needs one.
 *
 * There is one launcher in a server.  It is connected to no database, so it
 * is in nobody's way.  When it starts it has a look taken into every database
 * that accepts connections; later it hears of databases through the shared
 * table (database.c).  To look into a database is to start a worker there:
 * one that finds no extension leaves at once.  Starts go one at a time.
 *
 * Workers are never restarted by the postmaster, which would neither wait
 * longer after each failure nor stay away when a command needs the database
 * (hold.c).  They tell how they ended in the shared table, the postmaster
 * tells that they ended, and the launcher decides.  It sleeps until one of
 * them, or somebody with an announcement, sets its latch.
 *
 * The launcher itself ends on any error and is restarted by the postmaster;
 * workers live on, and their ends are found in the shared table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "bgproc.h"
#include "catalog/pg_database.h"
#include "database.h"
#include "launcher.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "session.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define LAUNCHER_RESTART_S	1

/* a worker that takes longer to look around does not hold up the others */
#define PROBE_PATIENCE_MS	10000

/* databases not looked into yet, in TopMemoryContext */
static List *unseen = NIL;

/* the worker being started, if any */
static Oid	starting = InvalidOid;
static BackgroundWorkerHandle *starting_handle = NULL;
static TimestampTz starting_since = 0;

static BgProc self = {.wait_name = "InboxLauncherMain"};

static void detach(int code, Datum arg);
static long supervise(void);
static bool start_is_over(long *wait);
static void start_worker(Oid database);
static List *connectable_databases(void);
static void report_full(void);

/* Called from _PG_init. */
void
LauncherInit(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;

	BgProcDescribe(&worker, "inbox launcher", "LauncherMain", (Datum) 0);
	worker.bgw_restart_time = LAUNCHER_RESTART_S;
	RegisterBackgroundWorker(&worker);
}

void
LauncherMain(Datum main_arg)
{
	MemoryContext old;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, SessionStop);
	BackgroundWorkerUnblockSignals();

	on_shmem_exit(detach, (Datum) 0);
	DatabaseSetLauncher(&MyProc->procLatch);

	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	SessionHarden();
	SessionIdle();

	old = MemoryContextSwitchTo(TopMemoryContext);
	unseen = connectable_databases();
	MemoryContextSwitchTo(old);

	for (;;)
	{
		MemoryContext cycle = AllocSetContextCreate(TopMemoryContext,
													"inbox launcher cycle",
													ALLOCSET_DEFAULT_SIZES);
		long		wait;

		MemoryContextSwitchTo(cycle);
		wait = supervise();
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextDelete(cycle);

		BgProcSleep(&self, wait);
		SessionCheckStop();
		SessionReload();
	}
}

static void
detach(int code, Datum arg)
{
	DatabaseSetLauncher(NULL);
}

/*
 * Start what is to be started.  Returns the milliseconds after which to come
 * back even if nobody sets the latch, or -1.
 */
static long
supervise(void)
{
	for (;;)
	{
		Oid			database;
		long		wait = -1;

		SessionCheckStop();
		report_full();

		if (OidIsValid(starting) && !start_is_over(&wait))
			return wait;

		wait = BgProcRefusedFor();
		if (wait > 0)
			return wait;

		database = DatabaseNextStart(&wait);
		if (OidIsValid(database))
			start_worker(database);
		else if (unseen != NIL)
		{
			(void) DatabaseEnter(linitial_oid(unseen));
			unseen = list_delete_first(unseen);
		}
		else
			return wait;
	}
}

/*
 * Has the worker that we asked for come as far as we care?  If not, *wait is
 * when to look again.  One that has gone again still has its process slot
 * until the postmaster has seen it end, so wait for that too.
 */
static bool
start_is_over(long *wait)
{
	DatabasePhase phase = DatabaseGetPhase(starting);
	TimestampTz now = GetCurrentTimestamp();
	bool		settled = phase == DATABASE_IDLE || phase == DATABASE_SWEEPING;
	bool		ended;
	pid_t		pid;

	ended = GetBackgroundWorkerPid(starting_handle, &pid) == BGWH_STOPPED;
	*wait = PROBE_PATIENCE_MS;
	if (phase == DATABASE_PROBING)
	{
		*wait -= TimestampDifferenceMilliseconds(starting_since, now);
		settled = *wait <= 0;
	}
	if (!settled && !ended)
		return false;

	/* does nothing if it has come and gone since we read its phase */
	if (phase == DATABASE_STARTING)
		DatabaseStartFailed(starting, "worker did not start; the server log has the reason");

	starting = InvalidOid;
	pfree(starting_handle);
	starting_handle = NULL;
	return true;
}

static void
start_worker(Oid database)
{
	BackgroundWorker worker;

	/* a connection that must fail would only fill the log */
	if (!list_member_oid(connectable_databases(), database))
	{
		DatabaseForget(database);
		return;
	}
	if (!DatabaseStart(database))
		return;

	BgProcDescribe(&worker, "inbox worker", "WorkerMain",
				   ObjectIdGetDatum(database));
	worker.bgw_notify_pid = MyProcPid;
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "inbox worker for database %u", database);
	if (BgProcStart(&worker, &starting_handle,
					"Each database that has the extension needs one, and one more is needed for a moment to look into the others."))
	{
		starting = database;
		starting_since = GetCurrentTimestamp();
	}
	else
		DatabasePostpone(database);
}

/*
 * The databases that accept connections now, as a list in the caller's
 * context.  Read by a plain scan: with no database to be connected to there
 * may be no indexes to use.
 */
static List *
connectable_databases(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *databases = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	SessionBusy();
	StartTransactionCommand();
	(void) GetTransactionSnapshot();

	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old;

		if (!database->datallowconn ||
			database->datconnlimit == DATCONNLIMIT_INVALID_DB)
			continue;

		old = MemoryContextSwitchTo(cxt);
		databases = lappend_oid(databases, database->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);

	CommitTransactionCommand();
	SessionIdle();
	MemoryContextSwitchTo(cxt);
	return databases;
}

/* The table stays full for as long as the databases exist: say it once. */
static void
report_full(void)
{
	static bool reported = false;

	if (!DatabaseTakeFull() || reported)
		return;

	reported = true;
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("more than %d databases need an inbox worker", DATABASE_MAX),
			 errdetail("The others get none."),
			 errhint("Call inbox_reap in them at intervals, for example from a scheduler.")));
}
