/*-------------------------------------------------------------------------
 *
 * bgproc.c
 *	  How processes of ours are asked for, work a step, and sleep.
 *
 * Launcher, worker, keeper and the processes of subscriptions are background
 * workers; what they are otherwise is in the files of these names.  What is
 * the same in several of them is here, and in session.c: their settings, and
 * how they stop.
 *
 * Nobody tells when one of max_worker_processes comes free, so who was refused
 * one tries again at intervals, longer each time, and says so in the log once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "bgproc.h"
#include "compat.h"
#include "database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "session.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* all of max_worker_processes were taken: this often, in a row */
static int	refusals = 0;
static TimestampTz refused_until = 0;

/*
 * BgProcDescribe
 *		What the postmaster is to know of a process.  It is not restarted: who
 *		asks for it decides.
 */
void
BgProcDescribe(BackgroundWorker *worker, const char *type,
			   const char *function, Datum arg)
{
	memset(worker, 0, sizeof(BackgroundWorker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	worker->bgw_main_arg = arg;
	strlcpy(worker->bgw_library_name, "inbox", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker->bgw_name, type, BGW_MAXLEN);
	strlcpy(worker->bgw_type, type, BGW_MAXLEN);
}

/*
 * BgProcRefusedFor
 *		For how many milliseconds not to ask for another; 0: ask.
 */
long
BgProcRefusedFor(void)
{
	TimestampTz now = GetCurrentTimestamp();

	/* not if the clock has been set back */
	if (refusals == 0 ||
		TimestampDifferenceExceeds(now, refused_until,
								   DatabaseRetryDelay(refusals)))
		return 0;
	return TimestampDifferenceMilliseconds(now, refused_until);
}

/*
 * BgProcStart
 *		Ask for a process.  "detail" is for the log, or NULL.  A handle that is
 *		wanted lives until it is freed.
 */
bool
BgProcStart(BackgroundWorker *worker, BackgroundWorkerHandle **handle,
			const char *detail)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		ok = RegisterDynamicBackgroundWorker(worker, handle);

	MemoryContextSwitchTo(old);
	if (ok)
	{
		refusals = 0;
		return true;
	}
	if (refusals++ == 0)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no background worker slot left for an %s",
						worker->bgw_type),
				 detail != NULL ? errdetail_internal("%s", detail) : 0,
				 errhint("You might need to increase max_worker_processes.")));
	refused_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												DatabaseRetryDelay(refusals));
	return false;
}

/*
 * BgProcTry
 *		Run a step in a transaction of its own, for no longer than so many
 *		milliseconds; 0: for as long as it takes.  False: it raised an error,
 *		which has been dealt with.
 *
 * The error is logged and cleared up after as autovacuum does it for a table.
 * One of our own making is not worth a line: hold.c cancels what takes too
 * long to leave.
 */
bool
BgProcTry(const BgProc *self, BgProcStep step, void *arg, int timeout)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool ok = false;

	SessionBusy();
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		if (timeout > 0)
			enable_timeout_after(STATEMENT_TIMEOUT, timeout);
		step(arg);
		disable_timeout(STATEMENT_TIMEOUT, false);
		PopActiveSnapshot();
		CommitTransactionCommand();
		ok = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;
		bool		asked;

		HOLD_INTERRUPTS();
		disable_timeout(STATEMENT_TIMEOUT, false);
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		/* nothing is locked when a cancel request strikes, so it may look */
		asked = error->sqlerrcode == ERRCODE_QUERY_CANCELED &&
			self->must_leave();
		if (!asked)
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		/* not before: what was locked at the error is free only now */
		if (!asked)
			self->failed(error->message);
		pgstat_report_activity(STATE_IDLE, NULL);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	SessionIdle();

	MemoryContextSwitchTo(cxt);
	return ok;
}

/*
 * BgProcSleep
 *		Until the latch is set, or so many milliseconds are over; -1: no limit.
 *		With 0 it only takes note of the latch.
 */
void
BgProcSleep(BgProc *self, long wait)
{
	if (wait != 0)
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
						 (wait > 0 ? WL_TIMEOUT : 0),
						 wait, NamedWaitEvent(&self->wait_event, self->wait_name));
	ResetLatch(MyLatch);
}
