/*-------------------------------------------------------------------------
 *
 * inbox.c
 *	  Entry point of the library.
 *
 * The library works with and without shared_preload_libraries.  Preloaded it
 * has shared memory, a launcher and one worker in each database that has the
 * extension; otherwise every function still works and nobody reaps unless
 * inbox_reap is called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "announce.h"
#include "delta.h"
#include "fmgr.h"
#include "label.h"
#include "launcher.h"
#include "pending.h"
#include "queue.h"
#include "quickcommit.h"
#include "settings.h"
#include "shmem.h"
#include "subshared.h"
#include "utility.h"
#include "waiters.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	SettingsInit();
	LabelInit();
	QueueInit();
	PendingInit();
	QuickInit();
	DeltaInit();
	WaitersInit();
	InboxShmemInit();
	AnnounceInit();
	SubHomeInit();
	UtilityInit();
	LauncherInit();
}
