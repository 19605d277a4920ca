/*-------------------------------------------------------------------------
 *
 * notify.c
 *	  NOTIFY by the worker, for clients with an event loop.
 *
 * A client that serves many queues, or must not block, can LISTEN.  With
 * inbox.notify on, the worker looks at each queue once a tick, and sends one
 * notification if there is something to claim.  A sender never sends one: the
 * lock that NOTIFY takes at commit would put all senders in a row.
 *
 * It tells what is, not what has changed.  So it comes again at each tick
 * until all is claimed, and a client that missed one misses nothing.
 *
 * Called by reap.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/async.h"
#include "notify.h"
#include "owner.h"
#include "settings.h"
#include "utils/memutils.h"
#include "wait.h"

/* queues whose name makes no channel, and that is in the log already */
static List *refused = NIL;

static void
refuse(Queue *q)
{
	MemoryContext old;

	if (list_member_oid(refused, q->relid))
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	refused = lappend_oid(refused, q->relid);
	MemoryContextSwitchTo(old);
	ereport(LOG,
			(errcode(ERRCODE_NAME_TOO_LONG),
			 errmsg("the name of queue %s is too long for a channel", q->name),
			 errdetail("No notifications are sent for it."),
			 errhint("Give it a name that takes at most %d bytes with its schema, or set inbox.notify to off.",
					 NAMEDATALEN - 1)));
}

/*
 * NotifyIfAny
 *		Notify the channel named like the queue if it has claimable rows.
 */
void
NotifyIfAny(Queue *q)
{
	OwnerScope	scope;
	WaitLook	look;
	bool		found;

	if (!InboxNotify)
		return;
	if (strlen(q->name) >= NAMEDATALEN)
	{
		refuse(q);
		return;
	}
	OwnerEnter(&scope, q->owner, true);
	found = WaitPeek(q, &look);
	OwnerLeave(&scope);
	if (found)
		Async_Notify(q->name, "");
}
