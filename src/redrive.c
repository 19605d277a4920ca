/*-------------------------------------------------------------------------
 *
 * redrive.c
 *	  inbox_redrive: dead letters back into their queue.
 *
 * They come back with the ids they had, with all their attempts, and with the
 * redrive in their history; claimed_at is kept, so that receipt numbers of a
 * row go on growing.  It is the reverse of a bury and, like it, runs as the
 * queue's owner, once the caller's own rights are checked.
 *
 * Dead letters that somebody else has locked are skipped.  One whose id or
 * deduplication key is taken by a message of the queue stays dead; the caller
 * is told by a notice.  Any other error, say of a trigger, undoes the call, and
 * so does, from REPEATABLE READ on, a message with the same key that commits
 * while this waits for it: the transaction's snapshot cannot see it (40001).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "bury.h"
#include "catalog/pg_type.h"
#include "deadmap.h"
#include "delta.h"
#include "history.h"
#include "lease.h"
#include "miscadmin.h"
#include "owner.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* what the statement tells */
typedef struct Redriven
{
	int64		inserted;
	int64		deleted;
	int64		picked;
	char	   *stayed;			/* ids, or NULL */
} Redriven;

static void
check_rights(Queue *q)
{
	AclResult	result;

	if (q->settings.dead_group != NULL)
	{
		QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
		return;
	}
	QueueCheckRights(q, ACL_INSERT);
	for (AclMode bit = ACL_SELECT; bit <= ACL_DELETE; bit <<= 1)
	{
		if (bit != ACL_SELECT && bit != ACL_DELETE)
			continue;
		result = pg_class_aclcheck(q->dead_relid, GetUserId(), bit);
		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_TABLE, get_rel_name(q->dead_relid));
	}
}

/*
 * What has to be there for the way back to be known.
 */
static void
check_way_back(Queue *q)
{
	bool		headers = q->settings.dead_group != NULL ?
		QueueHas(q, ROLE_HEADERS) : true;
	QueueSettings settings;

	if (q->settings.dead_group == NULL && q->dead_kind == LABEL_QUEUE &&
		LabelRead(q->dead_relid, &settings))
	{
		Queue	   *dest = QueueTryOpen(q->dead_relid, RowExclusiveLock, false);

		headers = dest != NULL && QueueHas(dest, ROLE_HEADERS);
		if (dest != NULL)
			QueueClose(dest);
	}
	if (!headers)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("dead letters of queue \"%s\" do not tell where they came from",
						q->relname),
				 errdetail("They are kept in a table without a column of the role \"headers\"."),
				 errhint("Move them by hand.")));
}

static Redriven
execute(Queue *q, const char *sql, Datum max_rows, bool all)
{
	HistoryEvent ev = {"redriven", LeaseNow(), NULL, -1, NULL};
	Oid			types[3] = {INT8OID, JSONBOID, TIMESTAMPTZOID};
	Datum		args[3];
	char		nulls[3] = {all ? 'n' : ' ', ' ', ' '};
	Redriven	result;
	SPIPlanPtr	plan;
	bool		isnull;
	HeapTuple	tuple;
	TupleDesc	desc;
	int			rc;

	args[0] = max_rows;
	args[1] = HistoryEntry(&ev);
	args[2] = TimestampTzGetDatum(ev.at);
	plan = SPI_prepare(sql, 3, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare returned %s", SPI_result_code_string(SPI_result));
	rc = SPI_execute_snapshot(plan, args, nulls, GetLatestSnapshot(),
							  InvalidSnapshot, false, true, 0);
	if (rc != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "SPI_execute_snapshot returned %s", SPI_result_code_string(rc));
	tuple = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	result.inserted = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &isnull));
	result.deleted = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
	result.picked = DatumGetInt64(SPI_getbinval(tuple, desc, 3, &isnull));
	result.stayed = SPI_getvalue(tuple, desc, 4);
	if (result.stayed != NULL)
	{
		int			len = strlen(result.stayed) + 1;

		result.stayed = memcpy(SPI_palloc(len), result.stayed, len);
	}
	return result;
}

static Redriven
redrive(Queue *q, Datum max_rows, bool all)
{
	OwnerScope	scope;
	Redriven	result;

	OwnerEnter(&scope, q->owner, false);
	/* a long statement that runs once: compiling it costs more than it saves */
	(void) set_config_option("jit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	result = execute(q, q->settings.dead_group != NULL ? RedriveGroupSql(q) :
					 RedriveSql(q), max_rows, all);
	SPI_finish();
	OwnerLeave(&scope);
	/* never two copies, never none */
	if (result.inserted != result.deleted)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("dead letters of queue \"%s\" could not be moved",
						q->relname),
				 errdetail(INT64_FORMAT " were inserted and " INT64_FORMAT " deleted: a trigger changed or suppressed some of it, or somebody changed them meanwhile.",
						   result.inserted, result.deleted)));
	return result;
}

PG_FUNCTION_INFO_V1(inbox_redrive);

/*
 * inbox_redrive(queue text, max_rows bigint) returns bigint
 */
Datum
inbox_redrive(PG_FUNCTION_ARGS)
{
	bool		all = PG_ARGISNULL(1);
	Redriven	result;
	Queue	   *q;
	int64		sent;

	ArgRequireWritable("inbox_redrive");
	if (!all && PG_GETARG_INT64(1) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must not be negative"),
				 errhint("Leave it out to redrive all dead letters.")));
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	BuryRequire(q);
	check_rights(q);
	check_way_back(q);
	sent = DeltaPending(q, TOTAL_SENT);
	result = redrive(q, all ? (Datum) 0 : PG_GETARG_DATUM(1), all);
	/* the trigger has taken them for sends */
	DeltaCorrect(q, TOTAL_SENT, sent);
	DeltaCount(q, TOTAL_REDRIVEN, result.inserted);
	if (result.picked > result.inserted)
		ereport(NOTICE,
				(errmsg_plural("%lld dead letter of queue \"%s\" stays dead",
							   "%lld dead letters of queue \"%s\" stay dead",
							   (long) (result.picked - result.inserted),
							   (long long) (result.picked - result.inserted),
							   q->relname),
				 errdetail("The id or the deduplication key is taken by another message. Ids: %s.",
						   result.stayed)));
	QueueClose(q);
	PG_RETURN_INT64(result.inserted);
}
