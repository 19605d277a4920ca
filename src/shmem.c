/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  The library's shared memory: asked for, and set up, in one place.
 *
 * Only a preloaded library can have any; without it every user of shared
 * memory finds itself switched off.  Each part says how much it needs, sets
 * itself up in a function of its own, and gets its lock from here.  After a
 * crash the startup hook runs again on fresh memory, so each part must
 * initialise every field it has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "database.h"
#include "group.h"
#include "hints.h"
#include "miscadmin.h"
#include "quickcommit.h"
#include "receipt.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "subshared.h"
#include "totals.h"
#include "waiters.h"

#define TRANCHE_NAME	"inbox"

/* places in the tranche */
enum
{
	LOCK_DATABASES,
	LOCK_SUBSCRIPTIONS,
	NUM_LOCKS
};

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void request_shmem(void);
static void startup_shmem(void);

/* Called from _PG_init. */
void
InboxShmemInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

static void
request_shmem(void)
{
	if (previous_request_hook)
		previous_request_hook();

	RequestAddinShmemSpace(add_size(DatabaseShmemSize(), ReceiptShmemSize()));
	RequestAddinShmemSpace(add_size(QuickShmemSize(), WaitersShmemSize()));
	RequestAddinShmemSpace(add_size(HintsShmemSize(), TotalsShmemSize()));
	RequestAddinShmemSpace(add_size(GroupShmemSize(), GroupSpotShmemSize()));
	RequestAddinShmemSpace(SubShmemSize());
	RequestNamedLWLockTranche(TRANCHE_NAME, NUM_LOCKS);
}

static void
startup_shmem(void)
{
	LWLockPadded *locks;

	if (previous_startup_hook)
		previous_startup_hook();

	locks = GetNamedLWLockTranche(TRANCHE_NAME);

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	DatabaseShmemStartup(&locks[LOCK_DATABASES].lock);
	SubShmemStartup(&locks[LOCK_SUBSCRIPTIONS].lock);
	ReceiptShmemInit();
	HintsShmemInit();
	GroupShmemInit();
	GroupSpotShmemInit();
	QuickShmemInit();
	TotalsShmemInit();
	WaitersShmemInit();
	LWLockRelease(AddinShmemInitLock);
}
