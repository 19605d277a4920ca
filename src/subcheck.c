/*-------------------------------------------------------------------------
 *
 * subcheck.c
 *	  What is checked before a subscription is written: its settings, its
 *	  owner, its queue and handler.
 *
 * All of it may change afterwards.  The processes look again at each claim
 * (subworker.c), and say in view inbox_subscriptions what is the matter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bury.h"
#include "catalog/pg_authid.h"
#include "compat.h"
#include "duration.h"
#include "handler.h"
#include "miscadmin.h"
#include "settle.h"
#include "subcheck.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Is the role allowed to run a process?  That one does log in, before 17. */
static bool
may_log_in(Oid owner)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(owner));
	bool		login;

	if (!HeapTupleIsValid(tuple))
		return false;
	login = !NEEDS_LOGIN || ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	return login;
}

static bool
may_connect(Oid owner)
{
	return superuser_arg(owner) || MayConnect(MyDatabaseId, owner);
}

/*
 * SubOwnerProblem
 *		Why no process can connect as this role, or NULL.
 */
const char *
SubOwnerProblem(Oid owner)
{
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
		return "the owner does not exist";
	if (!may_log_in(owner))
		return "the owner may not log in";
	if (!may_connect(owner))
		return "the owner may not connect to this database";
	return NULL;
}

/*
 * SubCheckOwner
 *		The same for one who makes a subscription.
 */
void
SubCheckOwner(Oid owner)
{
	if (!may_log_in(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ROLE_SPECIFICATION),
				 errmsg("role \"%s\" cannot own a subscription, because it may not log in",
						GetUserNameFromId(owner, false)),
				 errdetail("Before PostgreSQL 17 a background worker can only run as a role that may."),
				 errhint("ALTER ROLE ... LOGIN will do, without a password; or subscribe as another role.")));
	if (!may_connect(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" may not connect to this database",
						GetUserNameFromId(owner, false)),
				 errdetail("The subscription's workers connect as that role.")));
}

static void
check_policy(const char *what, const char *policy, bool may_drop)
{
	if (policy != NULL &&
		(strcmp(policy, "retry") == 0 || strcmp(policy, "dead") == 0 ||
		 (may_drop && strcmp(policy, "drop") == 0)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s \"%s\"", what, policy == NULL ? "NULL" : policy),
			 may_drop ? errhint("Valid values are drop, retry and dead.") :
			 errhint("Valid values are retry and dead.")));
}

/*
 * SubCheckSettings
 *		What does not need the queue.
 */
void
SubCheckSettings(Subscription *sub)
{
	if (sub->workers < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("workers must be at least 1"),
				 errhint("To stop a subscription, use inbox_pause_subscription.")));
	check_policy("on_error", sub->on_error, false);
	check_policy("on_decode_error", sub->on_decode_error, true);
	if (sub->lease != NULL)
		(void) DurationLease(sub->lease);
	if (sub->decode_delay != NULL)
	{
		DurationCheckDelay(sub->decode_delay);
		if (strcmp(sub->on_decode_error, "retry") != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("decode_delay has no meaning with on_decode_error => '%s'",
							sub->on_decode_error),
					 errhint("Set on_decode_error => 'retry' as well, or leave decode_delay out.")));
	}
	if (sub->time_limit != NULL)
		sub->time_limit->time = DurationMicros(sub->time_limit, "time_limit", 1000,
											   USECS_PER_DAY, "one day");
	if (sub->time_limit != NULL)
		sub->time_limit->day = sub->time_limit->month = 0;
}

/*
 * SubCheckQueue
 *		Can this queue's messages be handled so, by this function?
 */
void
SubCheckQueue(Subscription *sub, Oid handler, Queue *q)
{
	HandlerKind kind;
	const char *hint;
	const char *problem = HandlerProblem(handler, q->relid, &hint, &kind);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("%s", problem),
				 errhint("%s", hint)));
	if (!MayExecute(handler, sub->owner))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(handler));
	if (sub->by_key && !QueueHas(q, ROLE_PARTITION_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queue \"%s\" has no partition_key column", q->relname),
				 errhint("Name one with inbox_adopt(..., partition_key => ...), or leave by_key out.")));
	if (sub->group_key != NULL && !QueueHas(q, ROLE_GROUP_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queue \"%s\" has no group_key column", q->relname),
				 errhint("Name one with inbox_adopt(..., group_key => ...).")));
	if (strcmp(sub->on_error, "dead") == 0 ||
		strcmp(sub->on_decode_error, "dead") == 0)
		BuryRequire(q);
	if (sub->owner == GetUserId())
	{
		SettleCheckRights(q, false);
		DeliverCheckRights(q, kind == HANDLER_ROW ? SHAPE_ROW : SHAPE_DELIVERY);
	}
}
