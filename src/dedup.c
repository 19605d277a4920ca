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
 * At REPEATABLE READ the server refuses with a serialization failure to skip
 * a row that its snapshot cannot see.  That a key has been taken this very
 * moment is no reason for a send to fail, so there even a single row is
 * written in a subtransaction, and tried again.
 *
 * At SERIALIZABLE the server notes a skipped row as read, and senders of the
 * same keys abort each other.  There the order is the reverse: look first,
 * then insert what was not found with a plain INSERT, in a subtransaction; a
 * unique violation says that a key has been taken in between.  Such a send
 * waits for an open send too, but not for a settlement under way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "savepoint.h"
#include "send.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/* how often one key may be found neither free nor taken */
#define MAX_TRIES	100

typedef struct DedupKey
{
	text	   *key;
	int			pos;			/* in the caller's order */
} DedupKey;

static bool
all_have_ids(text **ids, int from, int count)
{
	for (int i = from; i < from + count; i++)
	{
		if (ids[i] == NULL)
			return false;
	}
	return true;
}

/*
 * insert_unfound
 *		What is done at SERIALIZABLE.
 */
static void
insert_unfound(SendRows *rows, int from, int count, text **ids)
{
	MemoryContext old = MemoryContextSwitchTo(rows->cxt);
	int		   *index = palloc(sizeof(int) * count);
	SendRows   *unfound;
	int			n = 0;

	DedupFind(rows, from, count, ids);
	for (int i = from; i < from + count; i++)
	{
		if (ids[i] == NULL)
			index[n++] = i;
	}
	unfound = SendInsertPick(rows, index, n);
	MemoryContextSwitchTo(old);
	if (n == 0)
		return;
	SendInsertRun(unfound, 0, n, false, GetLatestSnapshot());
	if (rows->id_returned)
		DedupFind(rows, from, count, ids);
	for (int i = 0; i < n && !rows->id_returned; i++)
		ids[index[i]] = SendInsertIdText(rows, index[i]);
}

/*
 * insert_or_find
 *		What is done at the other levels.
 */
static void
insert_or_find(SendRows *rows, int from, int count, text **ids)
{
	uint64		added = SendInsertRun(rows, from, count, true,
									  GetLatestSnapshot());

	if (added < count || rows->id_returned)
	{
		DedupFind(rows, from, count, ids);
		return;
	}
	for (int i = from; i < from + count; i++)
		ids[i] = SendInsertIdText(rows, i);
}

/*
 * write_rows
 *		Write some of the rows; true when each has an id.
 */
static bool
write_rows(SendRows *rows, int from, int count, text **ids)
{
	for (int i = from; i < from + count; i++)
		ids[i] = NULL;
	SPI_connect();
	if (IsolationIsSerializable())
		insert_unfound(rows, from, count, ids);
	else
		insert_or_find(rows, from, count, ids);
	SPI_finish();
	return all_have_ids(ids, from, count);
}

/*
 * key_just_taken
 *		Does the error say only that another send was faster?  Other failures,
 *		a real read/write conflict or what a trigger raised, are the caller's.
 */
static bool
key_just_taken(SendRows *rows, const ErrorData *error)
{
	char	   *index;

	if (error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE)
		return error->funcname != NULL &&
			strcmp(error->funcname, "ExecCheckTupleVisible") == 0;
	if (error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION ||
		error->constraint_name == NULL)
		return false;
	index = get_rel_name(rows->target->dedup_index);
	return index != NULL && strcmp(error->constraint_name, index) == 0;
}

/*
 * try_rows
 *		write_rows so that nothing stays when it fails; see the head of the
 *		file for why.
 */
static bool
try_rows(SendRows *rows, int from, int count, text **ids, bool last)
{
	Savepoint	savepoint;
	volatile bool done = false;

	if (count == 1 && !IsolationUsesXactSnapshot())
		return write_rows(rows, from, count, ids);
	SavepointBegin(&savepoint);
	PG_TRY();
	{
		done = write_rows(rows, from, count, ids);
		SavepointEnd(&savepoint, done);
	}
	PG_CATCH();
	{
		ErrorData  *error = SavepointCaught(&savepoint, savepoint.cxt);

		if (last || !key_just_taken(rows, error))
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
 * insert_all
 *		Rows whose keys are all different and in order.
 */
static void
insert_all(SendRows *rows, text **ids)
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
	insert_all(SendInsertPick(rows, index, unique), picked);
	for (int i = 0, u = -1; i < n; i++)
	{
		if (i == 0 || !same_key(&keys[i - 1], &keys[i]))
			u++;
		ids[keys[i].pos] = picked[u];
	}
	send_unkeyed(rows, ids);
}
