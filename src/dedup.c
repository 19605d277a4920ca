/*-------------------------------------------------------------------------
 *
 * dedup.c
 *	  Sends with a dedup key.
 *
 * While an unfinished row has the key, a send adds nothing and gives that
 * row's id.  A partial unique index decides who is first:
 *
 * 1. INSERT ... ON CONFLICT DO NOTHING on the newest snapshot.  It waits for an
 *	  open send of the same key.
 * 2. When it added fewer rows than it was given, look for the rows that have
 *	  the keys, again on the newest snapshot.
 * 3. A key that is neither inserted nor found belonged to a row that has been
 *	  settled in between: start again.
 *
 * Keys are inserted in one fixed order, that of their bytes, so that two
 * batches wait for each other in one direction only.  Starting again for some
 * keys while later ones are already inserted would break the order.  So more
 * than one row at a time is written in a subtransaction, which is rolled back
 * and tried again in smaller pieces; a single row breaks no order.
 *
 * At REPEATABLE READ and SERIALIZABLE the server refuses with a serialization
 * failure to skip a row that its snapshot cannot see.  That a key has been
 * taken this very moment is no reason for a send to fail, so there even a
 * single row is written in a subtransaction, and tried again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "send.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* how often one key may be found neither free nor taken */
#define MAX_TRIES	100

typedef struct DedupKey
{
	text	   *key;
	int			pos;			/* in the caller's order */
} DedupKey;

/* off while the lookups are planned; see find_rows */
static const char *const planner_off[] = {
	"enable_seqscan", "enable_bitmapscan", "enable_indexonlyscan"
};

/*
 * Both lookups give position and id.  LATERAL and LIMIT leave the planner no
 * other join than one lookup for each key.
 */
static char *
find_sql(Queue *q, bool arrays)
{
	const char *key = q->colname[ROLE_DEDUP_KEY];
	const char *id = q->colname[ROLE_ID];
	StringInfoData buf;

	initStringInfo(&buf);
	if (arrays)
		appendStringInfo(&buf, "SELECT u.n, t.id"
						 " FROM ROWS FROM (pg_catalog.unnest($1)) WITH ORDINALITY AS u(k, n),"
						 " LATERAL (SELECT t.%s FROM %s AS t"
						 " WHERE t.%s OPERATOR(pg_catalog.=) u.k",
						 id, q->name, key);
	else
		appendStringInfo(&buf, "SELECT 1::pg_catalog.int8, t.%s FROM %s AS t"
						 " WHERE t.%s OPERATOR(pg_catalog.=) $1",
						 id, q->name, key);
	appendStringInfo(&buf, " AND t.%s IS NOT NULL", key);
	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(&buf, " AND t.%s IS NULL",
						 q->colname[ROLE_PROCESSED_AT]);
	appendStringInfo(&buf, " LIMIT 1%s", arrays ? ") AS t(id)" : "");
	return buf.data;
}

/*
 * latest_snapshot
 *		The newest state.  At SERIALIZABLE an ordinary snapshot would leave
 *		predicate locks on index pages behind, by which unrelated sends abort
 *		each other; one of the "self" kind does not.  Under row security the
 *		policies' own queries share the snapshot and need an ordinary one.
 */
static Snapshot
latest_snapshot(Queue *q, Snapshot self)
{
	Snapshot	snapshot = GetLatestSnapshot();

	if (!IsolationIsSerializable() ||
		check_enable_rls(q->relid, InvalidOid, true) == RLS_ENABLED)
		return snapshot;
	*self = *snapshot;
	self->snapshot_type = SNAPSHOT_SELF;
	return self;
}

/*
 * find_rows
 *		Fill in the ids of the rows that have these keys.  The plan outlives
 *		the table's size of today and must be an index scan then too.  Bitmap
 *		and index-only scans would not be safe with the "self" snapshot.
 */
static void
find_rows(SendRows *rows, int from, int count, text **ids)
{
	Queue	   *q = rows->q;
	bool		arrays = count > 1;
	uint32		shape = SEND_FIND | (arrays ? SEND_ARRAYS : 0);
	SPIPlanPtr	plan = QueueFindPlan(q, PLAN_SEND, shape);
	Oid			type = arrays ? rows->target->field[ROLE_DEDUP_KEY].arraytype :
		q->col[ROLE_DEDUP_KEY].type;
	Datum		keys = arrays ? SendInsertArray(rows, ROLE_DEDUP_KEY, from, count) :
		rows->col[ROLE_DEDUP_KEY].values[from];
	int			guc_level = NewGUCNestLevel();
	SnapshotData self;
	int			rc;

	for (int i = 0; i < lengthof(planner_off); i++)
		(void) set_config_option(planner_off[i], "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_SEND, shape, find_sql(q, arrays), 1,
							 &type, CURSOR_OPT_GENERIC_PLAN);
	rc = SPI_execute_snapshot(plan, &keys, NULL, latest_snapshot(q, &self),
							  InvalidSnapshot, true, false, 0);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_snapshot returned %s",
			 SPI_result_code_string(rc));
	AtEOXact_GUC(true, guc_level);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		MemoryContext old = MemoryContextSwitchTo(rows->cxt);
		bool		isnull;
		int64		pos = DatumGetInt64(SPI_getbinval(tuple, SPI_tuptable->tupdesc,
													  1, &isnull));
		Datum		id = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull);

		if (!isnull)
			ids[from + pos - 1] = SendValueIdText(rows->target, id);
		MemoryContextSwitchTo(old);
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * write_rows
 *		Steps 1 and 2 for some of the rows; true when each has an id.
 */
static bool
write_rows(SendRows *rows, int from, int count, text **ids)
{
	uint64		added;

	for (int i = from; i < from + count; i++)
		ids[i] = NULL;
	SPI_connect();
	added = SendInsertRun(rows, from, count, true, GetLatestSnapshot());
	if (added < count || rows->id_returned)
		find_rows(rows, from, count, ids);
	SPI_finish();
	if (added == count && !rows->id_returned)
	{
		for (int i = from; i < from + count; i++)
			ids[i] = SendValueIdText(rows->target, rows->col[ROLE_ID].values[i]);
	}
	for (int i = from; i < from + count; i++)
	{
		if (ids[i] == NULL)
			return false;
	}
	return true;
}

/*
 * key_taken_unseen
 *		Is this the serialization failure of ON CONFLICT?  Others, a real
 *		read/write conflict or one that a trigger raised, are the caller's.
 */
static bool
key_taken_unseen(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE &&
		error->funcname != NULL &&
		strcmp(error->funcname, "ExecCheckTupleVisible") == 0;
}

/*
 * try_rows
 *		write_rows so that nothing stays when it fails; see the head of the
 *		file for why.
 */
static bool
try_rows(SendRows *rows, int from, int count, text **ids, bool last)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	if (count == 1 && !IsolationUsesXactSnapshot())
		return write_rows(rows, from, count, ids);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		done = write_rows(rows, from, count, ids);
		if (done)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (last || !key_taken_unseen(error))
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return done;
}

static void
key_out_of_reach(SendRows *rows, int i)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("dedup key \"%s\" of queue \"%s\" is neither free nor found",
					TextDatumGetCString(rows->col[ROLE_DEDUP_KEY].values[i]),
					rows->q->relname),
			 errdetail("Row security hides the row that has it, or a trigger keeps new rows out."),
			 errhint("A sender must be allowed to see the rows that have the keys it sends.")));
}

/*
 * send_sorted
 *		Rows whose keys are all different and in order.
 */
static void
send_sorted(SendRows *rows, text **ids)
{
	int			size = SendInsertByArray(rows) ? rows->n : 1;
	int			done = 0;
	int			tries = 0;

	while (done < rows->n)
	{
		int			count = Min(size, rows->n - done);

		CHECK_FOR_INTERRUPTS();
		if (try_rows(rows, done, count, ids, count == 1 && tries == MAX_TRIES))
		{
			done += count;
			tries = 0;
		}
		else if (count > 1)
			size = count / 2;
		else if (tries++ == MAX_TRIES)
			key_out_of_reach(rows, done);
	}
}

static int
compare_keys(const void *a, const void *b)
{
	const DedupKey *ka = (const DedupKey *) a;
	const DedupKey *kb = (const DedupKey *) b;
	int			lena = VARSIZE_ANY_EXHDR(ka->key);
	int			lenb = VARSIZE_ANY_EXHDR(kb->key);
	int			cmp = memcmp(VARDATA_ANY(ka->key), VARDATA_ANY(kb->key),
							 Min(lena, lenb));

	if (cmp != 0)
		return cmp;
	if (lena != lenb)
		return lena < lenb ? -1 : 1;
	return ka->pos < kb->pos ? -1 : (ka->pos > kb->pos ? 1 : 0);
}

static bool
same_key(const DedupKey *a, const DedupKey *b)
{
	int			len = VARSIZE_ANY_EXHDR(a->key);

	return len == VARSIZE_ANY_EXHDR(b->key) &&
		memcmp(VARDATA_ANY(a->key), VARDATA_ANY(b->key), len) == 0;
}

/*
 * send_unkeyed
 *		The rows of a batch that have no dedup key after all.
 */
static void
send_unkeyed(SendRows *rows, text **ids)
{
	SendColumn *col = &rows->col[ROLE_DEDUP_KEY];
	int		   *index = palloc(sizeof(int) * rows->n);
	text	  **picked;
	int			n = 0;

	for (int i = 0; i < rows->n; i++)
	{
		if (col->nulls[i])
			index[n++] = i;
	}
	if (n == 0)
		return;
	picked = palloc(sizeof(text *) * n);
	SendInsert(SendInsertPick(rows, index, n), picked);
	for (int i = 0; i < n; i++)
		ids[index[i]] = picked[i];
}

/*
 * DedupSend
 *		Write rows that may have dedup keys; fills in their ids.  Several rows
 *		of one batch with the same key are one message.
 */
void
DedupSend(SendRows *rows, text **ids)
{
	SendColumn *col = &rows->col[ROLE_DEDUP_KEY];
	DedupKey   *keys = palloc(sizeof(DedupKey) * rows->n);
	int		   *index = palloc(sizeof(int) * rows->n);
	text	  **picked = palloc(sizeof(text *) * rows->n);
	int			n = 0;
	int			unique = 0;

	QueueCheckRights(rows->q, ACL_SELECT);
	SendTargetCheckDedup(rows->q);
	for (int i = 0; i < rows->n; i++)
	{
		if (col->nulls[i])
			continue;
		keys[n].key = DatumGetTextPP(col->values[i]);
		keys[n++].pos = i;
	}
	qsort(keys, n, sizeof(DedupKey), compare_keys);
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || !same_key(&keys[i - 1], &keys[i]))
			index[unique++] = keys[i].pos;
	}
	send_sorted(SendInsertPick(rows, index, unique), picked);
	for (int i = 0, u = -1; i < n; i++)
	{
		if (i == 0 || !same_key(&keys[i - 1], &keys[i]))
			u++;
		ids[keys[i].pos] = picked[u];
	}
	send_unkeyed(rows, ids);
}
