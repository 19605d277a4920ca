/*-------------------------------------------------------------------------
 *
 * waiters.c
 *	  Who waits for which queue, and waking them.
 *
 * Each queue that has hints has a list of the processes that wait for it.
 * Whoever makes rows claimable wakes as many of them as there are rows, those
 * first that have waited longest.  So one row wakes one process, however many
 * are waiting, and a wake is worth something: who is woken and cannot use it
 * passes it on.  That is one who is cancelled or killed before it could look,
 * or one whose filter may have hidden the row.
 *
 * No wake is lost: a waiter enlists first, then looks for rows, then sleeps.
 * A row that its look misses becomes visible after it has enlisted, and the
 * one who tells of the row finds it on the list.
 *
 * No wake goes round for ever: wakes of a list are numbered, and a waiter
 * remembers the number at the time it enlisted.  A wake is passed on only to
 * one who enlisted before it, and who has looked since enlists anew.
 *
 * The last on the list, who will be woken last, keeps the time for all: it
 * looks when a delayed row comes due or a lease ends, and once a second for
 * what nobody tells of (wait.c).  When it leaves, the one who is then last
 * has to look, and goes on from there.
 *
 * Wakes are given when the transaction that tells has let go of its locks and
 * has told other sessions of changed catalogs, so that neither is in the way
 * of the one who wakes.
 *
 * Locking: each list has a spinlock, which also guards the entries on it.  A
 * process enlists and leaves with its own entry; others take it off the list,
 * and then tell by "woken".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/resowner.h"
#include "waiters.h"

#define NOBODY			(-1)
#define AT_ONCE			16		/* woken under one hold of the lock */
#define MAX_LATER		16		/* queues one transaction wakes for */

typedef struct Waiter
{
	Latch	   *latch;
	int			previous;		/* NOBODY: the first */
	int			next;
	bool		listed;
	bool		woken;			/* taken off the list to look for a row */
	uint64		enlisted;		/* number of the list's last wake then */
	uint64		wake;			/* number of the wake that woke it */
} Waiter;

typedef struct WaiterList
{
	slock_t		lock;
	int			first;
	int			last;
	uint64		wakes;			/* how many there have been */
} WaiterList;

typedef struct Waiters
{
	Waiter	   *waiter;			/* one for each process */
	WaiterList	list[FLEXIBLE_ARRAY_MEMBER];
} Waiters;

/* to be woken when the transaction's locks are gone */
typedef struct Later
{
	int			list;
	int64		rows;
} Later;

static Waiters *waiters = NULL;

/* what this process waits for: NOBODY, nothing */
static int	my_list = NOBODY;
static uint64 my_wake = 0;		/* number of the wake that is to be used */

static Later later[MAX_LATER];
static int	nlater = 0;

static Size
lists_size(void)
{
	return MAXALIGN(add_size(offsetof(Waiters, list),
							 mul_size(InboxMaxQueues, sizeof(WaiterList))));
}

Size
WaitersShmemSize(void)
{
	return add_size(lists_size(), mul_size(MaxPlaces(), sizeof(Waiter)));
}

/*
 * WaitersShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
WaitersShmemInit(void)
{
	bool		found;

	waiters = ShmemInitStruct("inbox waiters", WaitersShmemSize(), &found);
	if (found)
		return;
	memset(waiters, 0, WaitersShmemSize());
	waiters->waiter = (Waiter *) ((char *) waiters + lists_size());
	for (int i = 0; i < InboxMaxQueues; i++)
	{
		SpinLockInit(&waiters->list[i].lock);
		waiters->list[i].first = waiters->list[i].last = NOBODY;
	}
}

/*
 * Take an entry off its list.  Returns the latch of the one who is now last
 * and was not before, or NULL.
 */
static Latch *
unlink_waiter(WaiterList *list, Waiter *w)
{
	Latch	   *heir = NULL;

	if (w->previous == NOBODY)
		list->first = w->next;
	else
		waiters->waiter[w->previous].next = w->next;
	if (w->next == NOBODY)
	{
		list->last = w->previous;
		if (w->previous != NOBODY)
			heir = waiters->waiter[w->previous].latch;
	}
	else
		waiters->waiter[w->next].previous = w->previous;
	w->listed = false;
	return heir;
}

/*
 * Wake up to "rows" of those who enlisted before a wake; returns how many.
 */
static int64
give(WaiterList *list, int64 rows, uint64 wake)
{
	Latch	   *latch[AT_ONCE];
	int64		given = 0;
	int			n;

	do
	{
		n = 0;
		SpinLockAcquire(&list->lock);
		while (n < AT_ONCE && given < rows && list->first != NOBODY &&
			   waiters->waiter[list->first].enlisted < wake)
		{
			Waiter	   *w = &waiters->waiter[list->first];

			(void) unlink_waiter(list, w);
			w->woken = true;
			w->wake = wake;
			latch[n++] = w->latch;
			given++;
		}
		SpinLockRelease(&list->lock);
		for (int i = 0; i < n; i++)
			SetLatch(latch[i]);
	} while (n == AT_ONCE);
	return given;
}

/*
 * WaitersWake
 *		Rows have become claimable, so many or WAKE_ALL.
 */
void
WaitersWake(int place, int64 rows)
{
	WaiterList *list;
	uint64		wake;

	if (waiters == NULL || rows <= 0)
		return;
	list = &waiters->list[place];
	/* with the one of the waiter, between enlisting and looking */
	pg_memory_barrier();
	if (*(volatile int *) &list->first == NOBODY)
		return;
	SpinLockAcquire(&list->lock);
	wake = ++list->wakes;
	SpinLockRelease(&list->lock);
	(void) give(list, rows, wake);
}

/*
 * WaitersWakeLater
 *		The same when the transaction, or subtransaction, that is ending has
 *		released its locks.
 */
void
WaitersWakeLater(int place, int64 rows)
{
	if (waiters == NULL)
		return;
	for (int i = 0; i < nlater; i++)
	{
		if (later[i].list != place)
			continue;
		if (later[i].rows != WAKE_ALL)
			later[i].rows = rows == WAKE_ALL ? rows : later[i].rows + rows;
		return;
	}
	if (nlater == MAX_LATER)
	{
		WaitersWake(place, rows);
		return;
	}
	later[nlater].list = place;
	later[nlater++].rows = rows;
}

static void
at_release(ResourceReleasePhase phase, bool isCommit, bool isTopLevel,
		   void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	while (nlater > 0)
	{
		nlater--;
		WaitersWake(later[nlater].list, later[nlater].rows);
	}
}

void
WaitersInit(void)
{
	RegisterResourceReleaseCallback(at_release, NULL);
}

static void
at_exit(int code, Datum arg)
{
	WaitersLeave();
}

/*
 * WaitersFree
 *		Can this process enlist?  Not without shared memory, nor while it
 *		waits already: a trigger of the claimed rows may claim, too.
 */
bool
WaitersFree(void)
{
	return waiters != NULL && my_list == NOBODY;
}

/*
 * WaitersEnlist
 *		Go to the end of a list, unless we are on it.  If we were woken, we
 *		now have a wake to use or to pass on.
 */
void
WaitersEnlist(int place)
{
	static bool registered = false;
	WaiterList *list = &waiters->list[place];
	int			me = MyPlace();
	Waiter	   *w = &waiters->waiter[me];

	if (!registered)
		before_shmem_exit(at_exit, (Datum) 0);
	registered = true;
	my_list = place;
	SpinLockAcquire(&list->lock);
	if (w->woken)
		my_wake = w->wake;
	w->woken = false;
	if (!w->listed)
	{
		w->latch = MyLatch;
		w->enlisted = list->wakes;
		w->previous = list->last;
		w->next = NOBODY;
		if (list->last == NOBODY)
			list->first = me;
		else
			waiters->waiter[list->last].next = me;
		list->last = me;
		w->listed = true;
	}
	SpinLockRelease(&list->lock);
	/* enlist first, then look */
	pg_memory_barrier();
}

/*
 * WaitersForgetWake
 *		It was of use, or can be of none to anybody.
 */
void
WaitersForgetWake(void)
{
	my_wake = 0;
}

/*
 * WaitersPassOn
 *		The wake we hold, if any, may be of use to somebody else.
 */
void
WaitersPassOn(void)
{
	uint64		wake = my_wake;

	my_wake = 0;
	if (wake != 0)
		(void) give(&waiters->list[my_list], 1, wake);
}

/*
 * WaitersIsKeeper
 *		Are we the one who keeps the time?
 */
bool
WaitersIsKeeper(void)
{
	WaiterList *list = &waiters->list[my_list];
	bool		result;

	SpinLockAcquire(&list->lock);
	result = list->last == MyPlace();
	SpinLockRelease(&list->lock);
	return result;
}

/*
 * WaitersLeave
 *		Wait no more; wakes that we have not used are passed on.
 */
void
WaitersLeave(void)
{
	WaiterList *list;
	Waiter	   *w;
	Latch	   *heir = NULL;
	uint64		wake = 0;

	if (my_list == NOBODY)
		return;
	list = &waiters->list[my_list];
	w = &waiters->waiter[MyPlace()];
	SpinLockAcquire(&list->lock);
	if (w->listed)
		heir = unlink_waiter(list, w);
	else if (w->woken)
		wake = w->wake;
	w->woken = false;
	SpinLockRelease(&list->lock);
	if (heir != NULL)
		SetLatch(heir);
	WaitersPassOn();
	my_wake = wake;
	WaitersPassOn();
	my_list = NOBODY;
}
