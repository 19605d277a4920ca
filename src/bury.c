/*-------------------------------------------------------------------------
 *
 * bury.c
 *	  Dead letters: the atomic move out of the queue.
 *
 * A row that may not be delivered again goes to its queue's dead letters: a
 * dead-letter table, another queue, or a group of its own in the same table.
 * Settling calls this for the row a consumer holds, the reaper for rows whose
 * last lease has ended; either has the row locked and judged.
 *
 * The copy is written before the row is deleted, and both belong to one
 * transaction: never two copies, never none.  A trigger that quietly
 * suppresses one half is therefore an error.  Both halves run as the queue's
 * owner (see owner.c), so that a consumer needs no rights on the dead letters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "burial.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deadmap.h"
#include "delta.h"
#include "history.h"
#include "lease.h"
#include "owner.h"
#include "receipt.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

const char *
BuryCauseText(BuryCause cause)
{
	switch (cause)
	{
		case CAUSE_FAILED:
			return "failed";
		case CAUSE_LEASE_LOST:
			return "lease lost";
		case CAUSE_UNDECODABLE:
			return "undecodable";
		case CAUSE_BURIED:
			return "buried";
	}
	return "buried";			/* keep compiler quiet */
}

/*
 * BuryConfigured
 *		Has the queue dead letters, and are they there?
 */
bool
BuryConfigured(Queue *q)
{
	if (q->settings.dead_group != NULL)
		return QueueHas(q, ROLE_GROUP_KEY);
	return OidIsValid(q->dead_relid);
}

/*
 * BuryWhyNot
 *		Why the queue has no dead letters, as a sentence.
 */
const char *
BuryWhyNot(Queue *q)
{
	if (q->settings.dead_group != NULL)
		return "Its dead_group needs a column with the role \"group_key\".";
	if (q->settings.dead_letter[0] == '\0')
		return "It names no dead-letter table.";
	if (OidIsValid(q->dead_named))
		return "Its dead-letter table belongs to another role than the queue.";
	return "Its dead-letter table does not exist any more.";
}

/*
 * BuryRefuse
 *		Raise the error that says why the queue has no dead letters.
 */
void
BuryRefuse(Queue *q)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("queue \"%s\" has no place for dead letters", q->relname),
			 errdetail("%s", BuryWhyNot(q)),
			 q->settings.dead_group == NULL && OidIsValid(q->dead_named) ?
			 errhint("Give both the same owner, or name another one with inbox_alter(%s, dead_letter => ...).",
					 quote_literal_cstr(q->name)) :
			 errhint("Name one with inbox_alter(%s, dead_letter => ...).",
					 quote_literal_cstr(q->name))));
}

/*
 * BuryRequire
 *		Called before anything is written, where a bury may become necessary.
 */
void
BuryRequire(Queue *q)
{
	if (!BuryConfigured(q))
		BuryRefuse(q);
}

Datum
BurialValue(const Burial *b, Role role, bool *isnull)
{
	*isnull = true;
	if (b->leaf->attnos[role] == 0)
		return (Datum) 0;
	return slot_getattr(b->leaf->old, b->leaf->attnos[role], isnull);
}

char *
BurialId(const Burial *b)
{
	return ReceiptIdText(b->q, b->id);
}

void
BurialPutJson(StringInfo buf, const char *key, const char *value)
{
	appendStringInfo(buf, "%s\"%s\": ", buf->len > 1 ? ", " : "", key);
	if (value == NULL)
		appendStringInfoString(buf, "null");
	else
		escape_json(buf, value);
}

Datum
BurialEntry(const Burial *b)
{
	HistoryEvent ev = {"buried", b->died_at, BuryCauseText(b->cause),
	QueueHas(b->q, ROLE_ATTEMPT) ? b->attempt : -1, b->error};

	return HistoryEntry(&ev);
}

/*
 * Where a row in another queue came from, without the columns that
 * deadsql.c adds.
 */
static Datum
origin(const Burial *b)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	BurialPutJson(&buf, "token", b->q->settings.token);
	BurialPutJson(&buf, "queue", b->q->name);
	BurialPutJson(&buf, "id", BurialId(b));
	BurialPutJson(&buf, "cause", BuryCauseText(b->cause));
	BurialPutJson(&buf, "error", b->error);
	appendStringInfo(&buf, ", \"attempt\": " INT64_FORMAT ", \"died_at\": ",
					 b->attempt);
	HistoryTime(&buf, b->died_at);
	appendStringInfoChar(&buf, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
}

/*
 * Columns that an inheritance child has and the queue has not, as jsonb.  SPI
 * is connected.
 */
static Datum
child_columns(const Burial *b, bool *isnull)
{
	TupleDesc	desc = RelationGetDescr(b->leaf->rel);
	Oid		   *types = palloc(sizeof(Oid) * desc->natts);
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	char	   *nulls = palloc(desc->natts);
	JsonPairs	pairs;

	JsonPairsInit(&pairs);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		null;

		if (att->attisdropped ||
			get_attnum(b->q->relid, NameStr(att->attname)) != InvalidAttrNumber)
			continue;
		types[pairs.n] = att->atttypid;
		values[pairs.n] = slot_getattr(b->leaf->old, i + 1, &null);
		nulls[pairs.n] = null ? 'n' : ' ';
		JsonPairsAdd(&pairs, NameStr(att->attname), psprintf("$%d", pairs.n + 1));
	}
	*isnull = true;
	if (pairs.n == 0)
		return (Datum) 0;
	if (SPI_execute_with_args(psprintf("SELECT %s", JsonPairsSql(&pairs)),
							  pairs.n, types, values, nulls, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_with_args failed");
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, isnull);
}

/* The row's values in the column order of the queue's own table. */
static void
queue_columns(const Burial *b, Relation queue, Datum *values, char *nulls)
{
	TupleDesc	desc = RelationGetDescr(queue);
	bool		same = RelationGetRelid(b->leaf->rel) == b->q->relid;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		isnull = true;

		if (!att->attisdropped)
			values[i] = slot_getattr(b->leaf->old, same ? i + 1 :
									 get_attnum(RelationGetRelid(b->leaf->rel),
												NameStr(att->attname)),
									 &isnull);
		nulls[i] = isnull ? 'n' : ' ';
	}
}

static SPIPlanPtr
insert_plan(Queue *q)
{
	SPIPlanPtr	plan = QueueFindPlan(q, PLAN_BURY, 0);
	Oid		   *argtypes;
	int			nargs;
	char	   *sql;

	if (plan != NULL)
		return plan;
	sql = DeadInsertSql(q, &nargs, &argtypes);
	return QueueSavePlan(q, PLAN_BURY, 0, sql, nargs, argtypes, 0);
}

/*
 * Write the copy.  SPI is connected.
 */
static void
insert_copy(const Burial *b)
{
	SPIPlanPtr	plan = insert_plan(b->q);
	Relation	queue = table_open(b->q->relid, NoLock);
	int			natts = RelationGetNumberOfAttributes(queue);
	Datum	   *values = palloc0(sizeof(Datum) * (natts + NUM_BURY_ARGS));
	char	   *nulls = palloc(natts + NUM_BURY_ARGS);
	Datum	   *own = values + natts - 1;
	char	   *own_null = nulls + natts - 1;
	bool		isnull = false;
	int			rc;

	memset(nulls, ' ', natts + NUM_BURY_ARGS);
	queue_columns(b, queue, values, nulls);
	own[ARG_DIED_AT] = TimestampTzGetDatum(b->died_at);
	own[ARG_CAUSE] = CStringGetTextDatum(BuryCauseText(b->cause));
	if (b->error != NULL)
		own[ARG_ERROR] = CStringGetTextDatum(b->error);
	else
		own_null[ARG_ERROR] = 'n';
	own[ARG_ATTEMPT] = Int64GetDatum(b->attempt);
	own[ARG_ENTRY] = BurialEntry(b);
	if (b->q->dead_kind == LABEL_QUEUE)
		own[ARG_EXTRA] = origin(b);
	else
	{
		isnull = true;
		if (RelationGetRelid(b->leaf->rel) != b->q->relid)
			own[ARG_EXTRA] = child_columns(b, &isnull);
	}
	if (isnull)
		own_null[ARG_EXTRA] = 'n';
	table_close(queue, NoLock);

	rc = SPI_execute_plan(plan, values, nulls, false, 0);
	if (rc != SPI_OK_INSERT)
		elog(ERROR, "SPI_execute_plan returned %s", SPI_result_code_string(rc));
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
				 errmsg("dead letter of message %s of queue \"%s\" was not stored",
						BurialId(b), b->q->relname),
				 errdetail("A trigger or rule of \"%s\" suppressed the insert.",
						   get_rel_name(b->q->dead_relid))));
}

/*
 * The row in a writer of the owner's, whose rights need not be the caller's.
 */
RowLeaf *
BurialLeaf(const Burial *b, RowWriter *w)
{
	RowLeaf    *leaf;

	WriterBegin(w, b->q);
	leaf = WriterLeaf(w, RelationGetRelid(b->leaf->rel));
	ExecCopySlot(leaf->old, b->leaf->old);
	return leaf;
}

static void
move_row(const Burial *b)
{
	RowWriter	writer;

	SPI_connect();
	insert_copy(b);
	SPI_finish();
	if (!WriterDelete(&writer, BurialLeaf(b, &writer)))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
				 errmsg("message %s of queue \"%s\" was not deleted",
						BurialId(b), b->q->relname),
				 errdetail("A trigger suppressed the delete, so the message was not buried.")));
	WriterEnd(&writer);
}

/*
 * BuryRow
 *		Move one row to the dead letters of its queue.
 *
 * leaf->old holds the row's newest version, locked by this transaction and
 * found to be in need of burial.  The caller has called BuryRequire.
 * "restricted" is for the reaper (see owner.c).
 */
void
BuryRow(Queue *q, RowLeaf *leaf, BuryCause cause, const char *error,
		bool restricted)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox bury",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	OwnerScope	scope;
	Burial		b = {q, leaf};
	bool		isnull;

	b.died_at = GetCurrentTimestamp();
	b.cause = cause;
	b.error = error;
	SlotGetAll(leaf->rel, leaf->old);
	LeaseReadRow(q, leaf->attnos, leaf->old, &b.row);
	b.attempt = Max(LeaseReported(q, &b.row) - 1, 0);
	b.id = ReceiptId(q, leaf->attnos, leaf->old);
	if (error == NULL)
	{
		Datum		own = BurialValue(&b, ROLE_LAST_ERROR, &isnull);

		if (!isnull)
			b.error = TextDatumGetCString(own);
	}

	OwnerEnter(&scope, q->owner, restricted);
	if (q->settings.dead_group != NULL)
		BurialChangeGroup(&b);
	else
		move_row(&b);
	OwnerLeave(&scope);
	DeltaCount(q, TOTAL_BURIED, 1);
	if (cause == CAUSE_LEASE_LOST && b.row.leased && !b.row.resting)
		DeltaCount(q, TOTAL_EXPIRED, 1);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
