/*-------------------------------------------------------------------------
 *
 * sendinsert.c
 *	  The statements that write the rows of a send.
 *
 * SendInsert is the one place through which sends without a dedup key reach
 * the table.  It gets finished columns.  Plain tables senddirect.c writes; for
 * the others all is left to the server, so that triggers, constraints,
 * partitions and row security work as for any INSERT.
 *
 * A statement names only the columns that have a value, so that the others
 * take the table's defaults.  One row is a VALUES list; more are one INSERT
 * over arrays.  Rows go one by one where the server makes the id (a trigger
 * may skip a row, and then nobody could tell which id belongs to which row),
 * and where a column's type has no array type.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "delta.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "sendplain.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The parameters of a statement, in the order of the roles. */
typedef struct SendParams
{
	int			n;
	Oid			types[NUM_QUEUE_ROLES];
	Datum		values[NUM_QUEUE_ROLES];
	char		nulls[NUM_QUEUE_ROLES];
} SendParams;

static uint32
statement_key(SendRows *rows, bool arrays, bool dedup)
{
	uint32		key = 0;

	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (rows->col[role].used)
			key |= 1 << role;
	}
	return key | (arrays ? SEND_ARRAYS : 0) | (dedup ? SEND_DEDUP : 0);
}

/*
 * put_source
 *		What is inserted: VALUES ($1, ...), or a SELECT over arrays.
 */
static void
put_source(StringInfo buf, SendRows *rows, bool arrays)
{
	StringInfoData select;
	StringInfoData from;
	StringInfoData names;
	int			n = 0;

	initStringInfo(&select);
	initStringInfo(&from);
	initStringInfo(&names);
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		const char *sep;

		if (!rows->col[role].used)
			continue;
		appendStringInfo(&select, "%s", n > 0 ? ", " : "");
		n++;
		if (!arrays || rows->col[role].shared)
		{
			appendStringInfo(&select, "$%d", n);
			continue;
		}
		sep = from.len > 0 ? ", " : "";
		appendStringInfo(&select, "u.c%d", n);
		appendStringInfo(&from, "%spg_catalog.unnest($%d)", sep, n);
		appendStringInfo(&names, "%sc%d", sep, n);
	}
	if (arrays)
		appendStringInfo(buf, " SELECT %s FROM ROWS FROM (%s) AS u(%s)",
						 select.data, from.data, names.data);
	else
		appendStringInfo(buf, " VALUES (%s)", select.data);
}

static char *
insert_sql(SendRows *rows, bool arrays, bool dedup)
{
	Queue	   *q = rows->q;
	StringInfoData buf;
	const char *sep = "";

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s", q->name);
	if (statement_key(rows, false, false) == 0)
		appendStringInfoString(&buf, " DEFAULT VALUES");
	else
	{
		appendStringInfoString(&buf, " (");
		for (int role = 0; role < NUM_QUEUE_ROLES; role++)
		{
			if (!rows->col[role].used)
				continue;
			appendStringInfo(&buf, "%s%s", sep, q->colname[role]);
			sep = ", ";
		}
		appendStringInfoString(&buf, ") OVERRIDING SYSTEM VALUE");
		put_source(&buf, rows, arrays);
	}
	if (dedup)
	{
		appendStringInfo(&buf, " ON CONFLICT (%s) WHERE %s IS NOT NULL",
						 q->colname[ROLE_DEDUP_KEY], q->colname[ROLE_DEDUP_KEY]);
		if (QueueHas(q, ROLE_PROCESSED_AT))
			appendStringInfo(&buf, " AND %s IS NULL",
							 q->colname[ROLE_PROCESSED_AT]);
		appendStringInfoString(&buf, " DO NOTHING");
	}
	else if (rows->id_returned)
		appendStringInfo(&buf, " RETURNING %s", q->colname[ROLE_ID]);
	return buf.data;
}

/*
 * SendInsertArray
 *		Part of a column as an array.
 */
Datum
SendInsertArray(SendRows *rows, Role role, int from, int count)
{
	const SendField *field = &rows->target->field[role];
	SendColumn *col = &rows->col[role];
	int			dims[1] = {count};
	int			lbs[1] = {1};

	return PointerGetDatum(construct_md_array(col->values + from,
											  col->nulls + from, 1, dims, lbs,
											  rows->q->col[role].type,
											  field->typlen, field->typbyval,
											  field->typalign));
}

static void
collect_params(SendParams *p, SendRows *rows, int from, int count, bool arrays)
{
	p->n = 0;
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		SendColumn *col = &rows->col[role];
		int			i = col->shared ? 0 : from;

		if (!col->used)
			continue;
		if (arrays && !col->shared)
		{
			p->types[p->n] = rows->target->field[role].arraytype;
			p->values[p->n] = SendInsertArray(rows, role, from, count);
			p->nulls[p->n] = ' ';
		}
		else
		{
			p->types[p->n] = rows->q->col[role].type;
			p->values[p->n] = col->values[i];
			p->nulls[p->n] = col->nulls[i] ? 'n' : ' ';
		}
		p->n++;
	}
}

/*
 * SendInsertByArray
 *		Can these rows be written by one statement?
 */
bool
SendInsertByArray(SendRows *rows)
{
	if (rows->id_returned)
		return false;
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		if (rows->col[role].used && !rows->col[role].shared &&
			!OidIsValid(rows->target->field[role].arraytype))
			return false;
	}
	return true;
}

/*
 * SendInsertRun
 *		Insert some of the rows with one statement, and say how many were
 *		added.  SPI is connected.  With "dedup" a row whose key is taken is
 *		left out.
 */
uint64
SendInsertRun(SendRows *rows, int from, int count, bool dedup,
			  Snapshot snapshot)
{
	bool		arrays = count > 1;
	uint32		key = statement_key(rows, arrays, dedup);
	MemoryContext old = MemoryContextSwitchTo(rows->cxt);
	SendParams	params;
	SPIPlanPtr	plan;
	int64		sent;
	int			rc;

	collect_params(&params, rows, from, count, arrays);
	MemoryContextSwitchTo(old);
	plan = QueueFindPlan(rows->q, PLAN_SEND, key);
	if (plan == NULL)
		plan = QueueSavePlan(rows->q, PLAN_SEND, key,
							 insert_sql(rows, arrays, dedup), params.n,
							 params.types, CURSOR_OPT_GENERIC_PLAN);
	sent = DeltaPending(rows->q, TOTAL_SENT);
	rc = SPI_execute_snapshot(plan, params.values, params.nulls, snapshot,
							  InvalidSnapshot, false, true, 0);
	if (rc != SPI_OK_INSERT && rc != SPI_OK_INSERT_RETURNING)
		elog(ERROR, "SPI_execute_snapshot returned %s",
			 SPI_result_code_string(rc));
	/* an adopted table may have no trigger that counts */
	DeltaCorrect(rows->q, TOTAL_SENT, sent + SPI_processed);
	return SPI_processed;
}

/*
 * returned_id
 *		The id that the last statement returned; NULL when a trigger has
 *		skipped the row.
 */
static text *
returned_id(SendRows *rows)
{
	text	   *result = NULL;
	MemoryContext old;
	bool		isnull;
	Datum		id;

	if (SPI_processed > 0)
	{
		id = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
						   &isnull);
		old = MemoryContextSwitchTo(rows->cxt);
		if (!isnull)
			result = SendValueIdText(rows->target, id);
		MemoryContextSwitchTo(old);
	}
	SPI_freetuptable(SPI_tuptable);
	return result;
}

/*
 * SendInsertIdText
 *		The id that was made for a row before it was written.
 */
text *
SendInsertIdText(SendRows *rows, int i)
{
	MemoryContext old = MemoryContextSwitchTo(rows->cxt);
	text	   *id = SendValueIdText(rows->target,
									 rows->col[ROLE_ID].values[i]);

	MemoryContextSwitchTo(old);
	return id;
}

static void
insert_by_sql(SendRows *rows, text **ids)
{
	SPI_connect();
	if (rows->n > 1 && SendInsertByArray(rows))
		SendInsertRun(rows, 0, rows->n, false, InvalidSnapshot);
	else
	{
		for (int i = 0; i < rows->n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			SendInsertRun(rows, i, 1, false, InvalidSnapshot);
			if (rows->id_returned)
				ids[i] = returned_id(rows);
		}
	}
	SPI_finish();
}

/*
 * SendInsert
 *		Write rows without a dedup key; fills in their ids.
 */
void
SendInsert(SendRows *rows, text **ids)
{
	if (!SendDirect(rows))
		insert_by_sql(rows, ids);
	for (int i = 0; i < rows->n && !rows->id_returned; i++)
		ids[i] = SendInsertIdText(rows, i);
}

/*
 * SendInsertPick
 *		Some of the rows, in another order; values are shared with the
 *		original.
 */
SendRows *
SendInsertPick(SendRows *rows, const int *index, int n)
{
	SendRows   *result = palloc(sizeof(SendRows));

	*result = *rows;
	result->n = n;
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		SendColumn *from = &rows->col[role];
		SendColumn *to = &result->col[role];

		if (!from->used || from->shared)
			continue;
		to->values = palloc(sizeof(Datum) * n);
		to->nulls = palloc(sizeof(bool) * n);
		for (int i = 0; i < n; i++)
		{
			to->values[i] = from->values[index[i]];
			to->nulls[i] = from->nulls[index[i]];
		}
	}
	return result;
}
