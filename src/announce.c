/*-------------------------------------------------------------------------
 *
 * announce.c
 *	  Tell the launcher which databases have the extension.
 *
 * The launcher looks into each database once, when it starts.  After that a
 * database is announced
 *
 * 1. by the commit of whatever created the extension there.  The creation is
 *	  noted by a hook that sees every way to do it, and looked up again just
 *	  before the commit, so that one that a savepoint took back is forgotten.
 *	  Two-phase transactions: COMMIT PREPARED looks for itself.
 *
 * 2. by the first library call of a backend.  That finds databases that came
 *	  about as copies, or that took no connections when the launcher looked.
 *	  If no worker runs there yet, its commit announces once more: a worker
 *	  that was quicker than the commit has not seen what it was for.
 *
 * When the extension is dropped, by whatever command, the worker is woken at
 * the commit to see for itself.
 *
 * Without a launcher there is nobody to tell but the user who creates the
 * extension.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "announce.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "database.h"
#include "hints.h"
#include "fmgr.h"
#include "hold.h"
#include "miscadmin.h"

static object_access_hook_type previous_access_hook = NULL;

/* this transaction's; forgotten at its end */
static bool created = false;
static bool dropped = false;
static bool announce_again = false;
static bool tell = false;

static void note_object_access(ObjectAccessType access, Oid class_id,
							   Oid object_id, int sub_id, void *arg);
static void at_xact_event(XactEvent event, void *arg);

/* Called from _PG_init. */
void
AnnounceInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_access_hook = object_access_hook;
	object_access_hook = note_object_access;
	RegisterXactCallback(at_xact_event, NULL);
}

/*
 * Called by whoever opens a queue or a view; costs nothing from the second
 * call on.
 */
void
WorkerAnnounce(void)
{
	static bool announced = false;

	if (announced || !DatabaseReady() || RecoveryInProgress())
		return;

	announced = true;
	if (!DatabaseAnnounce(MyDatabaseId))
		announce_again = true;
}

/* The transaction that COMMIT PREPARED ended may have made the extension. */
void
AnnounceTwoPhaseCommit(void)
{
	if (DatabaseReady() && !DatabaseKnown(MyDatabaseId))
		created = true;
}

/*
 * The name of a new extension can't be looked up yet, so any will do here.
 */
static void
note_object_access(ObjectAccessType access, Oid class_id,
				   Oid object_id, int sub_id, void *arg)
{
	if (previous_access_hook)
		previous_access_hook(access, class_id, object_id, sub_id, arg);

	if (class_id == ExtensionRelationId)
	{
		if (access == OAT_POST_CREATE)
			created = true;
		else if (access == OAT_DROP)
			dropped = true;
	}
}

static void
forget(void)
{
	created = false;
	dropped = false;
	announce_again = false;
	HoldReleaseAll();
}

/* What comes after the commit must not fail and does not allocate. */
static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (created)
				created = OidIsValid(get_extension_oid("inbox", true));
			break;
		case XACT_EVENT_COMMIT:
			/* what changed while the triggers were gone, nobody has told */
			if (created)
				HintsOpenDatabase();
			if (created || announce_again)
				DatabaseLookAgain(MyDatabaseId, true);
			else if (dropped)
				DatabaseLookAgain(MyDatabaseId, false);
			forget();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget();
			break;
		default:
			break;
	}
}

static void
tell_preload(XactEvent event, void *arg)
{
	if (tell && event == XACT_EVENT_PRE_COMMIT)
		ereport(NOTICE,
				(errcode(ERRCODE_WARNING),
				 errmsg("inbox is not preloaded, so no worker will bury spent messages or purge finished ones"),
				 errhint("Add inbox to shared_preload_libraries and restart the server, or call inbox_reap() at intervals.")));
	tell = false;
}

PG_FUNCTION_INFO_V1(inbox_tell_preload);

/*
 * inbox_tell_preload() returns void
 *		Called by the installation script, which then drops it.
 *
 * While such a script runs the server lets no notice through, so ours waits
 * for the commit.
 */
Datum
inbox_tell_preload(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (DatabaseReady())
		PG_RETURN_VOID();
	if (!registered)
		RegisterXactCallback(tell_preload, NULL);
	registered = true;
	tell = true;
	PG_RETURN_VOID();
}
