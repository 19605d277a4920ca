/*-------------------------------------------------------------------------
 *
 * subview.c
 *	  The function behind view inbox_subscriptions.
 *
 * What is defined, from the table; what runs, from shared memory.  Anybody may
 * see that.  An error's text can hold data, so it is shown to those who have
 * the owner's privileges, or may read all statistics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "announce.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "queue.h"
#include "subshared.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define NUM_COLUMNS	25

/* What shared memory knows of one. */
typedef struct Running
{
	bool		known;
	SubEntry	entry;
	int			starting;
	int			handling;
	int			npids;
	Datum	   *pids;
	char		keeper_error[DATABASE_ERROR_LEN];
} Running;

PG_FUNCTION_INFO_V1(inbox_subscription_status_0_1);

static void
read_running(const char *name, Running *r)
{
	SubEntry   *entry;
	SubHome    *home;

	memset(r, 0, sizeof(*r));
	if (!SubReady())
		return;
	r->pids = palloc(SubShared->max * sizeof(Datum));
	LWLockAcquire(SubLock, LW_SHARED);
	home = SubHomeFind(MyDatabaseId, false);
	if (home != NULL && home->keeper == 0)
		memcpy(r->keeper_error, home->error, DATABASE_ERROR_LEN);
	entry = SubFind(MyDatabaseId, name);
	r->known = entry != NULL;
	if (r->known)
		r->entry = *entry;
	for (int i = 0; r->known && i < SubShared->max; i++)
	{
		SubSlot    *slot = &SubShared->slot[i];

		if (slot->entry != entry - SubShared->entry)
			continue;
		if (slot->pid == 0 || slot->phase == SUB_STARTING)
			r->starting++;
		else
			r->handling += slot->phase == SUB_HANDLING;
		if (slot->pid != 0)
			r->pids[r->npids++] = Int32GetDatum(slot->pid);
	}
	LWLockRelease(SubLock);
}

/*
 * state_of
 *		What the subscription does, and in *problem why not more.
 */
static const char *
state_of(Subscription *sub, Running *r, const char **problem)
{
	SubscriptionPlace place = SubscriptionPlaceOf(sub);

	*problem = NULL;
	if (!DatabaseReady())
	{
		*problem = "inbox is not preloaded";
		return "off";
	}
	if (place == PLACE_COPY)
	{
		*problem = "copied or restored: resume it with inbox_resume_subscription";
		return "restored";
	}
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(sub->owner)))
		*problem = "the owner does not exist";
	else if (get_rel_name(sub->queue) == NULL)
		*problem = "the queue does not exist";
	else if (place == PLACE_HOME && !OidIsValid(SubscriptionFindHandler(sub)))
		*problem = "the handler does not exist";
	if (*problem != NULL)
		return "broken";
	if (sub->paused)
		return r->npids > 0 ? "pausing" : "paused";
	if (RecoveryInProgress())
		*problem = "the server is a standby";
	else if (r->known && r->entry.problem[0] != '\0')
		*problem = r->entry.problem;
	else if (r->npids == 0 && r->keeper_error[0] != '\0')
		*problem = r->keeper_error;
	if (r->handling > 0)
		return "handling";
	if (r->npids > 0 && r->npids > r->starting)
		return "idle";
	if (r->known && r->entry.failures > 0 && r->entry.wanted > 0)
	{
		if (*problem == NULL)
			*problem = r->entry.error;
		return "failed";
	}
	return *problem != NULL ? "waiting" : "starting";
}

static char *
handler_name(Subscription *sub)
{
	if (SubscriptionPlaceOf(sub) == PLACE_HOME &&
		OidIsValid(SubscriptionFindHandler(sub)))
		return format_procedure(sub->handler_oid);
	return sub->handler;
}

static void
put_text(Datum *values, bool *nulls, int i, const char *text)
{
	nulls[i] = text == NULL;

	if (text !=NULL)
		values[i] = CStringGetTextDatum(text);
}

static void
put_interval(Datum *values, bool *nulls, int i, Interval *interval)
{
	nulls[i] = interval == NULL;
	values[i] = IntervalPGetDatum(interval);
}

static void
put_definition(Subscription *sub, Datum *values, bool *nulls)
{
	put_text(values, nulls, 0, sub->name);
	put_text(values, nulls, 1, get_rel_name(sub->queue) == NULL ? NULL :
			 QualifiedName(sub->queue));
	put_text(values, nulls, 2, handler_name(sub));
	put_text(values, nulls, 3, GetUserNameFromId(sub->owner, true));
	values[4] = Int32GetDatum(sub->workers);
	values[5] = BoolGetDatum(sub->by_key);
	put_interval(values, nulls, 6, sub->lease);
	put_text(values, nulls, 7, sub->on_error);
	put_text(values, nulls, 8, sub->on_decode_error);
	put_interval(values, nulls, 9, sub->decode_delay);
	put_text(values, nulls, 10, sub->group_key);
	put_interval(values, nulls, 11, sub->time_limit);
	values[12] = BoolGetDatum(sub->paused);
}

static void
put_running(Subscription *sub, Running *r, Datum *values, bool *nulls)
{
	const char *problem;
	bool		show = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), sub->owner);

	put_text(values, nulls, 13, state_of(sub, r, &problem));
	/* an error's text, or one of ours */
	put_text(values, nulls, 14, problem == r->entry.error && !show ?
			 "<insufficient privilege>" : problem);
	values[15] = Int32GetDatum(r->npids);
	values[16] = PointerGetDatum(construct_array(r->pids, r->npids, INT4OID,
												 sizeof(int32), true, TYPALIGN_INT));
	for (int i = 17; !r->known && i < NUM_COLUMNS; i++)
		nulls[i] = true;
	if (!r->known)
		return;
	values[17] = Int64GetDatum(r->entry.handled);
	values[18] = Int64GetDatum(r->entry.failed);
	values[19] = Int64GetDatum(r->entry.undecodable);
	values[20] = Int64GetDatum(r->entry.lost);
	values[21] = Float8GetDatum(SubRate(&r->entry, GetCurrentTimestamp()));
	put_text(values, nulls, 22, r->entry.error_at == 0 ? NULL :
			 show ? r->entry.error : "<insufficient privilege>");
	nulls[23] = r->entry.error_at == 0;
	values[23] = TimestampTzGetDatum(r->entry.error_at);
	values[24] = TimestampTzGetDatum(r->entry.since);
}

Datum
inbox_subscription_status_0_1(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	foreach(lc, SubscriptionReadAll())
	{
		Subscription *sub = lfirst(lc);
		Running		running;
		Datum		values[NUM_COLUMNS] = {0};
		bool		nulls[NUM_COLUMNS] = {0};

		read_running(sub->name, &running);
		put_definition(sub, values, nulls);
		put_running(sub, &running, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
