/*-------------------------------------------------------------------------
 *
 * subscribe.c
 *	  inbox_subscribe, inbox_alter_subscription, inbox_unsubscribe,
 *	  inbox_pause_subscription, inbox_resume_subscription.
 *
 * A subscription belongs to the role that makes it, and its handler runs as
 * that role.  So only a member of the role may alter it.  The owner of the
 * queue may stop it as well: it is his table.
 *
 * Whoever changes definitions locks their table against others who do, until
 * the end of his transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "subcheck.h"
#include "subscribe.h"
#include "subshared.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

PG_FUNCTION_INFO_V1(inbox_subscribe);
PG_FUNCTION_INFO_V1(inbox_alter_subscription);
PG_FUNCTION_INFO_V1(inbox_unsubscribe);
PG_FUNCTION_INFO_V1(inbox_pause_subscription);
PG_FUNCTION_INFO_V1(inbox_resume_subscription);

static char *
name_arg(FunctionCallInfo fcinfo)
{
	char	   *name;

	ArgNotNull(fcinfo, 0, "name");
	name = ArgString(fcinfo, 0);
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("subscription name must not be empty")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("subscription name \"%s\" is too long", name),
				 errhint("A name has at most %d bytes.", NAMEDATALEN - 1)));
	return name;
}

/*
 * lock_definitions
 *		Against others who write them, until the end of the transaction.
 */
static void
lock_definitions(void)
{
	LockRelationOid(SubscriptionTable(), ShareRowExclusiveLock);
}

/*
 * reserve
 *		Room for so many workers more, for a subscription that needs "workers".
 *		Called before its definition is written.
 */
static void
reserve(const char *name, int more, int workers)
{
	ListCell   *lc;
	int			own = 0;
	int			taken;

	foreach(lc, SubscriptionReadAll())
		own += ((Subscription *) lfirst(lc))->workers;
	if (SubReserve(more, own, &taken))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("subscription \"%s\" needs %d workers, but inbox.max_subscription_workers has only %d of %d left",
					name, workers, Max(SubShared->max - taken, 0) + (workers - more),
					SubShared->max),
			 errhint("Raise inbox.max_subscription_workers and restart the server, or give other subscriptions fewer workers.")));
}

static Interval *
interval_arg(FunctionCallInfo fcinfo, int n)
{
	Interval   *copy;

	if (PG_ARGISNULL(n))
		return NULL;
	copy = palloc(sizeof(Interval));
	*copy = *PG_GETARG_INTERVAL_P(n);
	return copy;
}

static void
require_preload(void)
{
	if (DatabaseReady())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("inbox is not preloaded, so nobody would run a subscription"),
			 errhint("Add inbox to shared_preload_libraries and restart the server.")));
}

Datum
inbox_subscribe(PG_FUNCTION_ARGS)
{
	Subscription sub = {0};
	Oid			handler;
	Queue	   *q;

	ArgRequireWritable("inbox_subscribe");
	require_preload();
	sub.name = name_arg(fcinfo);
	q = QueueOpen(ArgQueue(fcinfo, 1), AccessShareLock);
	ArgNotNull(fcinfo, 2, "handler");
	ArgNotNull(fcinfo, 3, "workers");
	ArgNotNull(fcinfo, 4, "by_key");
	handler = PG_GETARG_OID(2);
	sub.queue = q->relid;
	sub.owner = GetUserId();
	sub.workers = PG_GETARG_INT32(3);
	sub.by_key = PG_GETARG_BOOL(4);
	sub.lease = interval_arg(fcinfo, 5);
	sub.on_error = ArgString(fcinfo, 6);
	sub.on_decode_error = ArgString(fcinfo, 7);
	sub.decode_delay = interval_arg(fcinfo, 8);
	sub.group_key = ArgString(fcinfo, 9);
	sub.time_limit = interval_arg(fcinfo, 10);
	ItemPointerSetInvalid(&sub.tid);
	SubCheckSettings(&sub);
	SubCheckQueue(&sub, handler, q);
	SubCheckOwner(sub.owner);
	lock_definitions();
	if (SubscriptionRead(sub.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("subscription \"%s\" already exists", sub.name),
				 errhint("Change it with inbox_alter_subscription, or end it with inbox_unsubscribe.")));
	reserve(sub.name, sub.workers, sub.workers);
	SubscriptionSetHandler(&sub, handler);
	SubscriptionWrite(&sub);
	SubChanged(sub.name);
	QueueClose(q);
	PG_RETURN_VOID();
}

/*
 * open_subscription
 *		The subscription of that name, for one who may change it; "stop": who
 *		may at least stop it.
 */
static Subscription *
open_subscription(FunctionCallInfo fcinfo, bool stop)
{
	char	   *name = name_arg(fcinfo);
	Subscription *sub;

	lock_definitions();
	sub = SubscriptionRead(name);
	if (sub == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist", name),
				 errhint("View inbox_subscriptions lists those that do.")));
	if (!has_privs_of_role(GetUserId(), sub->owner) &&
		!(stop && get_rel_name(sub->queue) != NULL &&
		  OwnsRelation(sub->queue, GetUserId())))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of the role that owns subscription \"%s\"",
						sub->name)));
	return sub;
}

/*
 * reset_settings
 *		Argument "reset" names settings to unset.
 */
static void
reset_settings(FunctionCallInfo fcinfo, int n, Subscription *sub)
{
	ArgArray	reset;

	ArgGetArray(fcinfo, n, TEXTOID, &reset);
	for (int i = 0; i < reset.n; i++)
	{
		char	   *name = reset.nulls[i] ? pstrdup("NULL") :
			TextDatumGetCString(reset.values[i]);

		if (strcmp(name, "lease") == 0)
			sub->lease = NULL;
		else if (strcmp(name, "decode_delay") == 0)
			sub->decode_delay = NULL;
		else if (strcmp(name, "group_key") == 0)
			sub->group_key = NULL;
		else if (strcmp(name, "time_limit") == 0)
			sub->time_limit = NULL;
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" cannot be reset", name),
					 errhint("Settings that can be are lease, decode_delay, group_key and time_limit.")));
	}
}

Datum
inbox_alter_subscription(PG_FUNCTION_ARGS)
{
	Subscription *sub;
	Oid			handler;
	Queue	   *q;
	int			workers;

	ArgRequireWritable("inbox_alter_subscription");
	require_preload();
	sub = open_subscription(fcinfo, false);
	workers = sub->workers;
	reset_settings(fcinfo, 10, sub);
	handler = PG_ARGISNULL(1) ? SubscriptionFindHandler(sub) : PG_GETARG_OID(1);
	if (!PG_ARGISNULL(2))
		sub->workers = PG_GETARG_INT32(2);
	if (!PG_ARGISNULL(3))
		sub->by_key = PG_GETARG_BOOL(3);
	if (!PG_ARGISNULL(4))
		sub->lease = interval_arg(fcinfo, 4);
	if (!PG_ARGISNULL(5))
		sub->on_error = ArgString(fcinfo, 5);
	if (!PG_ARGISNULL(6))
		sub->on_decode_error = ArgString(fcinfo, 6);
	if (!PG_ARGISNULL(7))
		sub->decode_delay = interval_arg(fcinfo, 7);
	if (!PG_ARGISNULL(8))
		sub->group_key = ArgString(fcinfo, 8);
	if (!PG_ARGISNULL(9))
		sub->time_limit = interval_arg(fcinfo, 9);
	SubCheckSettings(sub);
	q = QueueTryOpen(sub->queue, AccessShareLock, false);
	if (q == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the queue of subscription \"%s\" does not exist", sub->name),
				 errhint("End the subscription with inbox_unsubscribe.")));
	SubCheckQueue(sub, handler, q);
	reserve(sub->name, sub->workers - workers, sub->workers);
	/* a copy stays one until it is resumed */
	if (SubscriptionPlaceOf(sub) != PLACE_COPY)
		SubscriptionSetHandler(sub, handler);
	else if (!PG_ARGISNULL(1))
		sub->handler = format_procedure_qualified(handler);
	SubscriptionWrite(sub);
	SubChanged(sub->name);
	QueueClose(q);
	PG_RETURN_VOID();
}

static void
remove_subscription(Subscription *sub)
{
	int			taken;

	SubscriptionRemove(sub);
	(void) SubReserve(-sub->workers, 0, &taken);
	SubChanged(sub->name);
}

Datum
inbox_unsubscribe(PG_FUNCTION_ARGS)
{
	ArgRequireWritable("inbox_unsubscribe");
	remove_subscription(open_subscription(fcinfo, true));
	PG_RETURN_VOID();
}

Datum
inbox_pause_subscription(PG_FUNCTION_ARGS)
{
	Subscription *sub;

	ArgRequireWritable("inbox_pause_subscription");
	sub = open_subscription(fcinfo, true);
	sub->paused = true;
	SubscriptionWrite(sub);
	SubChanged(sub->name);
	PG_RETURN_VOID();
}

/*
 * inbox_resume_subscription
 *		Undo inbox_pause_subscription; a copy begins to run by this.
 */
Datum
inbox_resume_subscription(PG_FUNCTION_ARGS)
{
	Subscription *sub;
	Oid			handler;

	ArgRequireWritable("inbox_resume_subscription");
	sub = open_subscription(fcinfo, true);
	if (SubscriptionPlaceOf(sub) != PLACE_HOME)
	{
		handler = SubscriptionFindHandler(sub);
		if (!OidIsValid(handler))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("handler %s of subscription \"%s\" does not exist",
							sub->handler, sub->name),
					 errhint("Name another one with inbox_alter_subscription.")));
		SubscriptionSetHandler(sub, handler);
	}
	sub->paused = false;
	SubscriptionWrite(sub);
	SubChanged(sub->name);
	PG_RETURN_VOID();
}

/*
 * SubscribeForgetQueue
 *		The queue is being dropped or forgotten: its subscriptions go, too.
 */
void
SubscribeForgetQueue(Oid queue)
{
	ListCell   *lc;
	bool		any = false;

	foreach(lc, SubscriptionReadAll())
		any |= ((Subscription *) lfirst(lc))->queue == queue;
	if (!any)
		return;
	lock_definitions();
	foreach(lc, SubscriptionReadAll())
	{
		Subscription *sub = lfirst(lc);

		if (sub->queue == queue)
			remove_subscription(sub);
	}
}
