/*-------------------------------------------------------------------------
 *
 * burygroup.c
 *	  Burying within the table, under a group of its own.
 *
 * Several queues may live in one table, told apart by the group_key; one of
 * these groups can be where the others' dead letters go.  Nothing moves then:
 * the row gets that group and fresh attempts, and its headers remember where
 * it was and how often it was tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "burial.h"
#include "catalog/pg_type.h"
#include "history.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

/*
 * The headers of a row that goes into the dead group, in the column's type.
 * "change" is what is added to the object under the key inbox.
 */
static Datum
group_headers(const Burial *b, const char *change, bool *isnull)
{
	Oid			type = b->q->col[ROLE_HEADERS].type;
	Oid			argtypes[3] = {type, JSONBOID, JSONBOID};
	Datum		args[3];
	char		nulls[3] = {' ', ' ', ' '};
	SPIPlanPtr	plan;
	Datum		result;

	args[0] = BurialValue(b, ROLE_HEADERS, isnull);
	nulls[0] = *isnull ? 'n' : ' ';
	args[1] = BurialEntry(b);
	args[2] = DirectFunctionCall1(jsonb_in, CStringGetDatum(change));
	SPI_connect();
	plan = QueueFindPlan(b->q, PLAN_BURY, 1);
	if (plan == NULL)
	{
		StringInfoData sql;

		initStringInfo(&sql);
		appendStringInfoString(&sql, "SELECT (");
		HistoryAppendSql(&sql, "($1::jsonb)", "$2", "|| $3");
		appendStringInfo(&sql, ")::%s", type == JSONOID ? "json" : "jsonb");
		plan = QueueSavePlan(b->q, PLAN_BURY, 1, sql.data, 3, argtypes, 0);
	}
	if (SPI_execute_plan(plan, args, nulls, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_plan failed");
	result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, isnull);
	if (!*isnull)
		result = SPI_datumTransfer(result, false, -1);
	SPI_finish();
	return result;
}

/*
 * BurialChangeGroup
 *		Bury the row in its table.
 *
 * The group it came from is remembered for the redrive.  A row that is spent
 * again in the dead group has nowhere to go: it stays, fresh, but pauses for
 * the queue's longest backoff, so that whoever serves that group does not spin
 * on it.
 */
void
BurialChangeGroup(const Burial *b)
{
	Queue	   *q = b->q;
	RowChange	change;
	RowWriter	writer;
	bool		isnull;
	Datum		group = BurialValue(b, ROLE_GROUP_KEY, &isnull);
	char	   *from = isnull ? NULL : TextDatumGetCString(group);
	bool		again = from != NULL && strcmp(from, q->settings.dead_group) == 0;

	ChangeInit(&change);
	ChangeSet(&change, ROLE_GROUP_KEY,
			  CStringGetTextDatum(q->settings.dead_group));
	ChangeSetNull(&change, ROLE_LOCKED_UNTIL);
	if (QueueHas(q, ROLE_ATTEMPT))
		ChangeSet(&change, ROLE_ATTEMPT,
				  LeaseAttemptDatum(q, q->settings.attempt_base));
	if (QueueHas(q, ROLE_LAST_ERROR) && b->error != NULL)
		ChangeSet(&change, ROLE_LAST_ERROR, CStringGetTextDatum(b->error));
	if (QueueHas(q, ROLE_DUE_AT) && again)
		ChangeSet(&change, ROLE_DUE_AT,
				  TimestampTzGetDatum(b->died_at + q->settings.backoff_max));
	if (QueueHas(q, ROLE_HEADERS))
	{
		StringInfoData kept;
		Datum		headers;

		initStringInfo(&kept);
		appendStringInfoChar(&kept, '{');
		if (!again)
			BurialPutJson(&kept, "group", from);
		appendStringInfoChar(&kept, '}');
		headers = group_headers(b, kept.data, &isnull);
		if (isnull)
			ChangeSetNull(&change, ROLE_HEADERS);
		else
			ChangeSet(&change, ROLE_HEADERS, headers);
	}
	if (WriterUpdate(&writer, BurialLeaf(b, &writer), &change) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
				 errmsg("message %s of queue \"%s\" was not updated",
						BurialId(b), q->relname),
				 errdetail("A trigger suppressed the update, so the message was not buried.")));
	WriterEnd(&writer);
}
