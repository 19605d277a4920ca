/*-------------------------------------------------------------------------
 *
 * subslot.c
 *	  A subscription's process and its own slot in the shared table.
 *
 * As with workers (slot.c) the pid is there from before it connects until
 * after it has disconnected, for those who need the database empty.
 *
 * The batch that it has claimed is published here with its receipts.  The
 * keeper extends the leases of what is not done, and takes what is not begun
 * out of the batch when the message in work takes long.  Which message that
 * is, and whether it has been begun, is decided under the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "subshared.h"
#include "utils/timestamp.h"

/* a process that lived so long has recovered from earlier failures */
#define HEALTHY_MS		10000

typedef enum SlotEnd
{
	END_FAILED,
	END_STOPPED,				/* told to end by a signal */
	END_ASKED					/* the definition has changed, or the like */
} SlotEnd;

static SubSlot *my_slot = NULL;
static SubEntry *my_entry = NULL;
static Oid	my_database = InvalidOid;
static volatile sig_atomic_t my_end = END_FAILED;	/* a SlotEnd */
static uint64 sequence = 0;

static void
note_failure(SubEntry *entry, TimestampTz started_at, TimestampTz now)
{
	if (TimestampDifferenceExceeds(started_at, now, HEALTHY_MS))
		entry->failures = 0;
	entry->failures++;
	entry->retry_at =
		TimestampTzPlusMilliseconds(now, DatabaseRetryDelay(entry->failures));
	if (my_end == END_FAILED && entry->error_at < started_at)
	{
		entry->error_at = now;
		strlcpy(entry->error, "process failed; the server log has the reason",
				DATABASE_ERROR_LEN);
	}
}

static void
detach(int code, Datum arg)
{
	SubSlot    *slot = my_slot;
	Latch	   *latch;

	if (slot == NULL)
		return;
	my_slot = NULL;
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	if (my_end != END_ASKED)
		note_failure(my_entry, slot->started_at, GetCurrentTimestamp());
	slot->entry = NO_ENTRY;
	slot->pid = 0;
	slot->latch = NULL;
	slot->batch = 0;
	latch = SubHomeChanged(my_database);
	LWLockRelease(SubLock);
	if (latch != NULL)
		SetLatch(latch);
	ConditionVariableBroadcast(&DatabaseShared->left);
}

/*
 * SubSlotAttach
 *		Find the slot that was reserved for this process; false: it is not
 *		wanted any more.
 */
bool
SubSlotAttach(uint32 arg, Oid *database, Oid *owner, char **name, int *number)
{
	SubSlot    *slot = &SubShared->slot[arg % SUB_MAX_SLOTS];

	on_shmem_exit(detach, (Datum) 0);
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	if (slot->entry != NO_ENTRY && slot->token == arg / SUB_MAX_SLOTS &&
		slot->pid == 0)
	{
		slot->pid = MyProcPid;
		slot->latch = &MyProc->procLatch;
		slot->started_at = GetCurrentTimestamp();
		my_slot = slot;
		my_entry = &SubShared->entry[slot->entry];
		my_database = *database = my_entry->database;
		*owner = my_entry->owner;
		*name = pstrdup(NameStr(my_entry->name));
		*number = slot->number;
	}
	LWLockRelease(SubLock);
	return my_slot != NULL && !SubSlotMustLeave();
}

/*
 * SubSlotMustLeave
 *		Has the definition changed, or does somebody need the database empty?
 */
bool
SubSlotMustLeave(void)
{
	bool		leave;

	LWLockAcquire(SubLock, LW_SHARED);
	leave = my_entry->print != my_slot->print ||
		my_slot->number >= my_entry->wanted;
	LWLockRelease(SubLock);
	leave = leave || SubHeld(my_database);
	if (leave)
		my_end = END_ASKED;
	return leave;
}

/*
 * SubSlotConfirm
 *		It has come up, and knows its definition.
 */
void
SubSlotConfirm(uint64 print)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->phase = SUB_IDLE;
	my_slot->print = print;
	LWLockRelease(SubLock);
}

/* Somebody has told this process to end.  Called from a signal handler. */
void
SubSlotStopped(void)
{
	my_end = END_STOPPED;
}

void
SubSlotIdle(void)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->phase = SUB_IDLE;
	LWLockRelease(SubLock);
}

void
SubSlotHandling(void)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->phase = SUB_HANDLING;
	LWLockRelease(SubLock);
}

/*
 * It can claim, so whatever was the matter is over, unless that is how many
 * there can be of it.
 */
void
SubSlotHealthy(void)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_entry->failures = 0;
	if (!my_entry->crowded)
		my_entry->problem[0] = '\0';
	LWLockRelease(SubLock);
}

/*
 * SubSlotBegin
 *		Publish a batch, or as much of it as there is room for; returns how
 *		much.
 */
int
SubSlotBegin(Oid queue, int64 lease, char **receipts, int n)
{
	SubSlot    *slot = my_slot;
	SubHome    *home;
	Latch	   *keeper = NULL;
	int			len = 0;
	int			i;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	for (i = 0; i < n && i < SUB_MAX_BATCH; i++)
	{
		int			size = strlen(receipts[i]) + 1;

		if (len + size > SUB_RECEIPTS_LEN)
			break;
		memcpy(slot->receipts + len, receipts[i], size);
		len += size;
		slot->lost[i] = false;
	}
	slot->receipts_len = len;
	slot->batch = ++sequence;
	slot->queue = queue;
	slot->lease = lease;
	slot->extend_at = GetCurrentTimestamp() + lease * USECS_PER_SEC / 2;
	slot->n = slot->end = i;
	slot->done = 0;
	slot->current = -1;
	slot->cutting = 0;
	slot->phase = SUB_HANDLING;
	home = SubHomeFind(my_database, false);
	if (home != NULL && home->sleeping)
	{
		home->sleeping = false;
		keeper = home->latch;
	}
	LWLockRelease(SubLock);
	if (keeper != NULL)
		SetLatch(keeper);
	return i;
}

/*
 * SubSlotEnter
 *		Begin with an item; false: it is not ours any more.
 */
bool
SubSlotEnter(int item, bool *lost)
{
	SubSlot    *slot = my_slot;
	bool		ours;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	ours = item < slot->end;
	*lost = slot->lost[item];
	if (ours && !*lost)
	{
		slot->current = item;
		slot->current_at = GetCurrentTimestamp();
		slot->current_seq = ++sequence;
	}
	LWLockRelease(SubLock);
	return ours;
}

/*
 * SubSlotLeave
 *		The handler is through with it; false: its lease was lost meanwhile.
 */
bool
SubSlotLeave(int item)
{
	bool		held;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->current = -1;
	my_slot->current_seq = 0;
	held = !my_slot->lost[item];
	LWLockRelease(SubLock);
	return held;
}

/*
 * SubSlotLost
 *		Is the lease of the message in work lost?  Called from a signal
 *		handler, too.
 */
bool
SubSlotLost(void)
{
	volatile SubSlot *slot = my_slot;

	return slot != NULL && slot->current_seq != 0 &&
		slot->lost_seq == slot->current_seq;
}

/* All items before this one are settled. */
void
SubSlotDone(int done)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->done = done;
	LWLockRelease(SubLock);
}

/*
 * SubSlotReceipt
 *		An item's receipt as the keeper has left it; palloc'd.
 */
char *
SubSlotReceipt(int item)
{
	char		copy[SUB_RECEIPTS_LEN];
	char	   *p = copy;

	LWLockAcquire(SubLock, LW_SHARED);
	memcpy(copy, my_slot->receipts, my_slot->receipts_len);
	LWLockRelease(SubLock);
	while (item-- > 0)
		p += strlen(p) + 1;
	return pstrdup(p);
}

/* The batch is over. */
void
SubSlotEnd(void)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_slot->batch = 0;
	my_slot->current = -1;
	LWLockRelease(SubLock);
}

/*
 * SubSlotKeeper
 *		The keeper that is giving back the rest of the batch, or 0: nobody.
 */
int
SubSlotKeeper(void)
{
	int			pid;

	LWLockAcquire(SubLock, LW_SHARED);
	pid = my_slot->cutting;
	if (pid != 0)
	{
		SubHome    *home = SubHomeFind(my_database, false);

		if (home == NULL || home->keeper != pid)
			pid = 0;
	}
	LWLockRelease(SubLock);
	return pid;
}

void
SubSlotCount(int64 handled, int64 failed, int64 undecodable, int64 lost)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz at = now - now % SUB_BUCKET_USECS;
	int			i = (at / SUB_BUCKET_USECS) % SUB_RATE_BUCKETS;

	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_entry->handled += handled;
	my_entry->failed += failed;
	my_entry->undecodable += undecodable;
	my_entry->lost += lost;
	if (my_entry->bucket_at[i] != at)
	{
		my_entry->bucket_at[i] = at;
		my_entry->bucket[i] = 0;
	}
	my_entry->bucket[i] += handled;
	my_entry->failures = 0;
	LWLockRelease(SubLock);
}

void
SubSlotError(const char *error)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	my_entry->error_at = GetCurrentTimestamp();
	SubCopyText(my_entry->error, error);
	LWLockRelease(SubLock);
}

/*
 * SubSlotProblem
 *		The subscription cannot run, and the process leaves.  The keeper finds
 *		out for itself whether that changes.
 */
void
SubSlotProblem(const char *problem)
{
	LWLockAcquire(SubLock, LW_EXCLUSIVE);
	SubCopyText(my_entry->problem, problem);
	my_entry->crowded = false;
	my_entry->failures++;
	my_entry->retry_at =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									DatabaseRetryDelay(my_entry->failures));
	LWLockRelease(SubLock);
	my_end = END_ASKED;
}
