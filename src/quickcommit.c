/*-------------------------------------------------------------------------
 *
 * quickcommit.c
 *	  Claims that do not wait for the disk.
 *
 * A claim or an extension that is lost in a crash of the server only frees
 * its row, as if the consumer had died.  So a transaction that has written
 * nothing else need not wait for its commit to reach the disk.
 *
 * 1. What a transaction writes to the WAL shows in XactLastRecEnd, the end of
 *	  its last record.  Around each piece of a claim or extension that may
 *	  write, QuickEnter and QuickLeave look at it.
 * 2. QuickEnter finds it where the last QuickLeave left it, or at nothing if
 *	  there was none.  If it has moved, something else has been written, and
 *	  the transaction is dirty for good.  Only a transaction without an ID may
 *	  have written whatever it likes: reading cleans pages.
 * 3. The same test is made before the commit.  If it passes, the commit is
 *	  asynchronous; synchronous_commit is put back after the commit or abort.
 * 4. What may write on others' behalf in between, a statement or a trigger,
 *	  calls QuickDirty.
 *
 * So an INSERT before, between or after claims makes the commit as durable as
 * the session asks, and so does a settlement: it is not bracketed.
 *
 * A message that takes the server down must be counted, or it would do so for
 * ever.  So for some minutes after the server has come up from a crash,
 * claims are as durable as anything else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "quickcommit.h"
#include "settings.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define AFTER_CRASH		(5 * USECS_PER_MINUTE)

/* written once, before any backend runs */
typedef struct QuickShared
{
	TimestampTz durable_until;	/* claims wait for the disk until then */
} QuickShared;

static QuickShared *shared = NULL;

static XLogRecPtr last_end = InvalidXLogRecPtr; /* as QuickLeave saw it */
static bool dirty = false;
static bool lowered = false;	/* synchronous_commit is not the session's */
static int	session_setting;

Size
QuickShmemSize(void)
{
	return sizeof(QuickShared);
}

/*
 * QuickShmemInit
 *		Called from the startup hook, before recovery, when the control file
 *		still tells how the server ended.
 */
void
QuickShmemInit(void)
{
	bool		found;
	bool		crc_ok;
	ControlFileData *control;

	shared = ShmemInitStruct("inbox quick commits", sizeof(QuickShared), &found);
	if (found)
		return;
	control = get_controlfile(DataDir, &crc_ok);
	shared->durable_until = 0;
	if (!crc_ok || (control->state != DB_SHUTDOWNED &&
					control->state != DB_SHUTDOWNED_IN_RECOVERY))
		shared->durable_until = GetCurrentTimestamp() + AFTER_CRASH;
	pfree(control);
}

/*
 * QuickAfterCrash
 *		Has the server come up from a crash just now?  Without shared memory
 *		nobody knows.
 */
bool
QuickAfterCrash(void)
{
	return shared == NULL || GetCurrentTimestamp() < shared->durable_until;
}

/*
 * QuickEnter
 *		A claim or an extension is about to read and write.
 */
void
QuickEnter(void)
{
	if (XactLastRecEnd != last_end &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		dirty = true;
}

/*
 * QuickLeave
 *		It has: all written since QuickEnter was its own.
 */
void
QuickLeave(void)
{
	last_end = XactLastRecEnd;
}

/*
 * QuickDirty
 *		The transaction writes more than claims and extensions.
 */
void
QuickDirty(void)
{
	dirty = true;
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (InboxAsyncClaim && !dirty && last_end != InvalidXLogRecPtr &&
				last_end == XactLastRecEnd &&
				synchronous_commit > SYNCHRONOUS_COMMIT_OFF &&
				(shared == NULL || shared->durable_until == 0 ||
				 shared->durable_until <= GetCurrentTimestamp()))
			{
				session_setting = synchronous_commit;
				synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
				lowered = true;
			}
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			if (lowered)
				synchronous_commit = session_setting;
			lowered = false;
			dirty = false;
			last_end = InvalidXLogRecPtr;
			break;
		default:
			break;
	}
}

void
QuickInit(void)
{
	RegisterXactCallback(at_xact_event, NULL);
}
