/*-------------------------------------------------------------------------
 *
 * drop.c
 *	  inbox_drop and inbox_forget: the end of a queue, with and without its
 *	  table.
 *
 * A dead-letter table goes with its queue when inbox made both.  One that the
 * user brought stays and becomes an ordinary table again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "changed.h"
#include "deadletter.h"
#include "errors.h"
#include "setup.h"
#include "subscribe.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/*
 * As long as another queue buries here, this one cannot go: its dead letters
 * would have no place.
 */
static void
check_no_user(Oid relid, const QueueSettings *settings)
{
	Oid			user = LabelDeadUser(settings->token, relid);

	if (!OidIsValid(user))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("queue %s buries in \"%s\"", QualifiedName(user),
					get_rel_name(relid)),
			 errhint("Give it another place first, with inbox_alter(%s, dead_letter => ...), or none.",
					 quote_literal_cstr(QualifiedName(user)))));
}

PG_FUNCTION_INFO_V1(inbox_drop);

/*
 * inbox_drop(queue text) returns void
 */
Datum
inbox_drop(PG_FUNCTION_ARGS)
{
	QueueSettings settings;
	Oid			relid;
	Oid			dead;
	StringInfoData sql;

	ArgRequireWritable("inbox_drop");
	relid = SetupOpenOwned(ArgQueue(fcinfo, 0), AccessExclusiveLock, &settings);
	check_no_user(relid, &settings);
	SubscribeForgetQueue(relid);
	dead = DeadLetterOwn(relid, &settings);
	initStringInfo(&sql);
	appendStringInfo(&sql, "DROP TABLE %s", QualifiedName(relid));
	if (OidIsValid(dead))
		appendStringInfo(&sql, ", %s", QualifiedName(dead));
	else
		DeadLetterDetach(relid, settings.dead_letter, false);
	SetupExec(sql.data);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(inbox_forget);

/*
 * inbox_forget(queue text) returns void
 *
 * Does not look at the roles, so that it also rids of a queue whose columns
 * have been dropped.  Takes a dead-letter table too, once no queue uses it.
 */
Datum
inbox_forget(PG_FUNCTION_ARGS)
{
	QueueSettings settings;
	Oid			relid;

	ArgRequireWritable("inbox_forget");
	relid = QueueResolveOwned(ArgQueue(fcinfo, 0), ShareUpdateExclusiveLock);
	if (!LabelRead(relid, &settings))
		ereport(ERROR,
				(errcode(ERRCODE_INBOX_NOT_A_QUEUE),
				 errmsg("\"%s\" is not a queue", get_rel_name(relid)),
				 errhint("There is nothing to forget.")));
	check_no_user(relid, &settings);
	SubscribeForgetQueue(relid);
	LabelRemove(relid);
	ChangedDropTriggers(relid);
	if (settings.kind == LABEL_QUEUE)
		DeadLetterDetach(relid, settings.dead_letter, false);
	PG_RETURN_VOID();
}
