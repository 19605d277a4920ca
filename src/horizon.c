/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  Who holds the oldest snapshot, and so keeps dead rows from removal.
 *
 * A queue writes each message several times and deletes it.  The dead rows go
 * away only when nobody can see them any more, so one forgotten transaction
 * makes every queue of its database slow.  Who it is, is the first thing an
 * operator wants to know.
 *
 * What counts is what VACUUM of an ordinary table goes by: the oldest of
 * - the snapshots and the transactions of this database's sessions, prepared
 *	 transactions among them, and the feedback of standbys;
 * - the replication slots' xmin.
 * VACUUM itself and logical decoding are left out, as VACUUM leaves them out.
 *
 * Several may hold the same horizon: everybody's snapshots reach back to the
 * oldest transaction running.  Then the one to blame is the transaction
 * itself, even in another database, and if there is none, the session whose
 * transaction began first.
 *
 * pg_stat_activity hides this from most users; the view that shows it here is
 * for consumers too, so shared memory is read directly.
 *
 * Called by stats.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/spi.h"
#include "horizon.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "replication/slot.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

typedef struct Holder
{
	int			pid;			/* 0: a prepared transaction */
	Oid			database;
	uint8		flags;
	TransactionId xid;
	TransactionId xmin;
} Holder;

static TransactionId
older(TransactionId a, TransactionId b)
{
	if (!TransactionIdIsNormal(a))
		return b;
	if (!TransactionIdIsNormal(b) || TransactionIdPrecedes(a, b))
		return a;
	return b;
}

/*
 * copy_holders
 *		Everybody who has a snapshot or a transaction, but for this backend
 *		where its snapshot is no older than the statement that asks.
 *
 * Before 17 who is gone leaves pid and xmin behind, but never owns its latch.
 */
static Holder *
copy_holders(int *n)
{
	/* prepared transactions come after those that the count counts */
	int			size = ProcGlobal->allProcCount + max_prepared_xacts;
	Holder	   *holders = palloc(size * sizeof(Holder));

	*n = 0;
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < size; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		Holder	   *h = &holders[*n];

		h->pid = proc->pid;
		h->database = proc->databaseId;
		h->flags = proc->statusFlags;
		h->xid = proc->xid;
		h->xmin = proc->xmin;
		if (proc == MyProc && !IsolationUsesXactSnapshot() &&
			!TransactionIdIsNormal(h->xid))
			continue;
		if (i >= ProcGlobal->allProcCount ? TransactionIdIsNormal(h->xid) :
			h->pid != 0 && proc->procLatch.owner_pid == h->pid &&
			(TransactionIdIsNormal(h->xid) || TransactionIdIsNormal(h->xmin)))
			(*n)++;
	}
	LWLockRelease(ProcArrayLock);
	return holders;
}

static bool
counts_here(const Holder *h)
{
	if (h->flags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING))
		return false;
	/* the structure of a finished prepared transaction keeps its xid */
	if (h->pid == 0 && !TransactionIdIsInProgress(h->xid))
		return false;
	return h->database == MyDatabaseId ||
		(h->flags & PROC_AFFECTS_ALL_HORIZONS) != 0;
}

static int
compare_ints(const void *a, const void *b)
{
	int			x = *(const int *) a;
	int			y = *(const int *) b;

	return x < y ? -1 : x > y;
}

/*
 * first_begun
 *		Of these processes, the one whose transaction began first.
 */
static int
first_begun(int *pids, int n)
{
	int			count = n > 1 ? pgstat_fetch_stat_numbackends() : 0;
	int			found = pids[0];
	TimestampTz first = DT_NOEND;

	qsort(pids, n, sizeof(int), compare_ints);
	for (int i = 1; i <= count; i++)
	{
		PgBackendStatus *status = &LocalBackendStatus(i)->backendStatus;

		if (status->st_xact_start_timestamp != 0 &&
			status->st_xact_start_timestamp < first &&
			bsearch(&status->st_procpid, pids, n, sizeof(int), compare_ints))
		{
			found = status->st_procpid;
			first = status->st_xact_start_timestamp;
		}
	}
	return found;
}

/*
 * find_process
 *		The process (0: prepared transaction) that holds the oldest snapshot
 *		of all; returns how far back it reaches, or InvalidTransactionId.
 */
static TransactionId
find_process(int *pid)
{
	int			n;
	Holder	   *holders = copy_holders(&n);
	TransactionId oldest = InvalidTransactionId;
	int		   *ties = palloc(n * sizeof(int));
	int			nties = 0;

	for (int i = 0; i < n; i++)
	{
		TransactionId xmin = older(holders[i].xid, holders[i].xmin);

		if (older(oldest, xmin) != oldest && counts_here(&holders[i]))
			oldest = xmin;
	}
	if (!TransactionIdIsValid(oldest))
		return oldest;
	for (int i = 0; i < n; i++)
	{
		if (holders[i].xid == oldest &&
			(holders[i].pid != 0 || TransactionIdIsInProgress(oldest)))
		{
			*pid = holders[i].pid;
			return oldest;
		}
		if (holders[i].xmin == oldest && counts_here(&holders[i]))
			ties[nties++] = holders[i].pid;
	}
	/* it may have ended meanwhile */
	if (nties == 0)
		return InvalidTransactionId;
	*pid = first_begun(ties, nties);
	return oldest;
}

static void
set_age(SnapshotHolder *holder, TimestampTz since)
{
	holder->has_age = since != 0;
	holder->age = Max(GetCurrentTimestamp() - since, 0);
}

static void
describe_process(SnapshotHolder *holder, int pid)
{
	int			count = pgstat_fetch_stat_numbackends();

	holder->pid = pid;
	holder->kind = "process";
	for (int i = 1; i <= count; i++)
	{
		PgBackendStatus *status = &LocalBackendStatus(i)->backendStatus;
		const char *type = NULL;

		if (status->st_procpid != pid)
			continue;
		if (status->st_backendType == B_BG_WORKER)
			type = GetBackgroundWorkerTypeByPid(pid);
		holder->kind = type ? type : GetBackendTypeDesc(status->st_backendType);
		set_age(holder, status->st_xact_start_timestamp);
	}
}

/*
 * Nothing but the view knows a prepared transaction's name and time.
 */
static void
describe_prepared(SnapshotHolder *holder, TransactionId xid)
{
	Oid			type = XIDOID;
	Datum		value = TransactionIdGetDatum(xid);
	MemoryContext cxt = CurrentMemoryContext;

	holder->kind = "prepared transaction";
	SPI_connect();
	SPI_execute_with_args("SELECT gid, prepared FROM pg_catalog.pg_prepared_xacts"
						  " WHERE transaction OPERATOR(pg_catalog.=) $1",
						  1, &type, &value, NULL, true, 1);
	if (SPI_processed > 0)
	{
		HeapTuple	tuple = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool		isnull;

		holder->kind = psprintf("prepared transaction %s",
								quote_literal_cstr(SPI_getvalue(tuple, desc, 1)));
		set_age(holder, DatumGetTimestampTz(SPI_getbinval(tuple, desc, 2, &isnull)));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
}

/*
 * describe_slot
 *		A replication slot that reaches back this far.
 */
static void
describe_slot(SnapshotHolder *holder, TransactionId xmin)
{
	NameData	name;

	NameStr(name)[0] = '\0';
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (!slot->in_use)
			continue;
		SpinLockAcquire(&slot->mutex);
		if (slot->effective_xmin == xmin)
		{
			name = slot->data.name;
			holder->pid = slot->active_pid;
		}
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	holder->kind = psprintf("replication slot %s",
							quote_literal_cstr(NameStr(name)));
}

/*
 * HorizonFind
 *		On a standby dead rows go when the primary says so: nobody to name.
 */
void
HorizonFind(SnapshotHolder *holder)
{
	TransactionId process;
	TransactionId slot;
	int			pid = 0;

	memset(holder, 0, sizeof(*holder));
	if (RecoveryInProgress())
		return;
	process = find_process(&pid);
	ProcArrayGetReplicationSlotXmin(&slot, NULL);
	if (older(process, slot) == InvalidTransactionId)
		return;
	if (older(process, slot) != process)
		describe_slot(holder, slot);
	else if (pid != 0)
		describe_process(holder, pid);
	else
		describe_prepared(holder, process);
	holder->xids = (int32) (ReadNextTransactionId() - older(process, slot));
}
