/*-------------------------------------------------------------------------
 *
 * send.c
 *	  inbox_send and inbox_send_batch.
 *
 * A send is an INSERT in the caller's transaction; a plain INSERT is as good.
 * These functions add what a plain INSERT does not: the payload is converted
 * to the column's type, a delay is counted from now, a dedup key is honoured,
 * and the id comes back as text.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "duration.h"
#include "fmgr.h"
#include "funcapi.h"
#include "send.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(inbox_send);
PG_FUNCTION_INFO_V1(inbox_send_batch);

/* the arguments, the same for both functions */
enum
{
	ARG_QUEUE,
	ARG_PAYLOAD,
	ARG_HEADERS,
	ARG_DELAY,
	ARG_DUE_AT,
	ARG_PRIORITY,
	ARG_GROUP_KEY,
	ARG_PARTITION_KEY,
	ARG_DEDUP_KEY
};

static void
get_one(FunctionCallInfo fcinfo, int n, ArgArray *array)
{
	array->given = !PG_ARGISNULL(n);
	array->n = 1;
	array->values = &fcinfo->args[n].value;
	array->nulls = &fcinfo->args[n].isnull;
}

/*
 * due_time
 *		When the rows come due, from whichever of the two arguments is given.
 */
static bool
due_time(FunctionCallInfo fcinfo, Datum *due)
{
	bool		delayed = !PG_ARGISNULL(ARG_DELAY);

	if (delayed && !PG_ARGISNULL(ARG_DUE_AT))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay and due_at cannot be given together"),
				 errhint("Use delay to count from now, due_at for a fixed time.")));
	if (delayed)
	{
		DurationCheckDelay(PG_GETARG_INTERVAL_P(ARG_DELAY));
		*due = DirectFunctionCall2(timestamptz_pl_interval,
								   TimestampTzGetDatum(GetCurrentTimestamp()),
								   PG_GETARG_DATUM(ARG_DELAY));
		return true;
	}
	if (PG_ARGISNULL(ARG_DUE_AT))
		return false;
	*due = PG_GETARG_DATUM(ARG_DUE_AT);
	if (TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(*due)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("due_at must be finite"),
				 errhint("To hold messages back without an end, pause the queue with inbox_pause.")));
	return true;
}

/*
 * fill_rows
 *		Turn the arguments into columns.  Nothing is written yet, so whatever
 *		is wrong with them changes nothing.
 */
static void
fill_rows(FunctionCallInfo fcinfo, SendRows *rows, const ArgArray *payloads,
		  const ArgArray *headers, const ArgArray *keys)
{
	Datum		due;

	SendValuePayloads(rows, payloads);
	SendValueHeaders(rows, headers);
	if (due_time(fcinfo, &due))
		SendValueShared(rows, ROLE_DUE_AT, due);
	if (!PG_ARGISNULL(ARG_PRIORITY))
		SendValueShared(rows, ROLE_PRIORITY, PG_GETARG_DATUM(ARG_PRIORITY));
	SendValueKeys(rows, ROLE_GROUP_KEY, &keys[0]);
	SendValueKeys(rows, ROLE_PARTITION_KEY, &keys[1]);
	SendValueKeys(rows, ROLE_DEDUP_KEY, &keys[2]);
}

/*
 * send_rows
 *		Both functions after their arguments are arrays; returns the ids.
 */
static text **
send_rows(FunctionCallInfo fcinfo, Queue *q, int n, const ArgArray *payloads,
		  const ArgArray *headers, const ArgArray *keys)
{
	SendRows	rows = {0};
	text	  **ids = palloc(sizeof(text *) * n);

	QueueCheckRights(q, ACL_INSERT);
	rows.q = q;
	rows.n = n;
	rows.cxt = CurrentMemoryContext;
	rows.target = SendTargetGet(q);
	rows.id_returned = SendTargetReturnsId(q);
	fill_rows(fcinfo, &rows, payloads, headers, keys);
	if (n == 0)
		return ids;
	SendValueIds(&rows);
	if (rows.col[ROLE_DEDUP_KEY].used)
		DedupSend(&rows, ids);
	else
		SendInsert(&rows, ids);
	return ids;
}

Datum
inbox_send(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext cxt;
	ArgArray	payload;
	ArgArray	headers;
	ArgArray	keys[3];
	Queue	   *q;
	text	   *id;

	ArgRequireWritable("inbox_send");
	cxt = AllocSetContextCreate(caller, "inbox send", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(cxt);
	q = QueueOpen(ArgQueue(fcinfo, ARG_QUEUE), RowExclusiveLock);
	get_one(fcinfo, ARG_PAYLOAD, &payload);
	get_one(fcinfo, ARG_HEADERS, &headers);
	for (int i = 0; i < 3; i++)
		get_one(fcinfo, ARG_GROUP_KEY + i, &keys[i]);
	id = send_rows(fcinfo, q, 1, &payload, &headers, keys)[0];
	QueueClose(q);
	MemoryContextSwitchTo(caller);
	if (id != NULL)
		id = (text *) DatumGetPointer(datumCopy(PointerGetDatum(id), false, -1));
	MemoryContextDelete(cxt);
	if (id == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(id);
}

Datum
inbox_send_batch(PG_FUNCTION_ARGS)
{
	static const char *const key_names[] =
	{"group_keys", "partition_keys", "dedup_keys"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext cxt;
	ArgArray	payloads;
	ArgArray	headers;
	ArgArray	keys[3];
	Queue	   *q;
	text	  **ids;

	ArgRequireWritable("inbox_send_batch");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	cxt = AllocSetContextCreate(caller, "inbox send", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(cxt);
	q = QueueOpen(ArgQueue(fcinfo, ARG_QUEUE), RowExclusiveLock);
	ArgNotNull(fcinfo, ARG_PAYLOAD, "payloads");
	ArgGetArray(fcinfo, ARG_PAYLOAD, JSONBOID, &payloads);
	ArgGetArray(fcinfo, ARG_HEADERS, JSONBOID, &headers);
	ArgCheckLength(&headers, "headers", payloads.n, "payloads", false);
	for (int i = 0; i < 3; i++)
	{
		ArgGetArray(fcinfo, ARG_GROUP_KEY + i, TEXTOID, &keys[i]);
		ArgCheckLength(&keys[i], key_names[i], payloads.n, "payloads", false);
	}
	ids = send_rows(fcinfo, q, payloads.n, &payloads, &headers, keys);
	for (int i = 0; i < payloads.n; i++)
	{
		Datum		value = PointerGetDatum(ids[i]);
		bool		isnull = (ids[i] == NULL);

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	QueueClose(q);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
	return (Datum) 0;
}
