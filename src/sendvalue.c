/*-------------------------------------------------------------------------
 *
 * sendvalue.c
 *	  The values of a send, in the types of the table's columns.
 *
 * An element of an array that is NULL means what a NULL argument of
 * inbox_send means: the column's default.  A statement over arrays cannot say
 * DEFAULT for some rows, so the default is evaluated here for each of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "send.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

/* A column's default, ready to be evaluated for many rows. */
typedef struct DefaultState
{
	const SendField *field;
	EState	   *estate;
	ExprState  *expr;
} DefaultState;

static void
default_begin(DefaultState *state, const SendField *field)
{
	state->field = field;
	state->estate = NULL;
	if (IsA(field->default_expr, NextValueExpr))
		return;					/* an identity column, the common case */
	state->estate = CreateExecutorState();
	state->expr = ExecPrepareExpr((Expr *) field->default_expr, state->estate);
}

static Datum
default_next(DefaultState *state, bool *isnull)
{
	ExprContext *econtext;
	Datum		value;

	if (state->estate == NULL)
	{
		NextValueExpr *nve = (NextValueExpr *) state->field->default_expr;
		int64		id = nextval_internal(nve->seqid, false);

		*isnull = false;
		if (nve->typeId == INT8OID)
			return Int64GetDatum(id);
		if (nve->typeId == INT4OID)
			return Int32GetDatum((int32) id);
		return Int16GetDatum((int16) id);
	}
	econtext = GetPerTupleExprContext(state->estate);
	ResetExprContext(econtext);
	value = ExecEvalExprSwitchContext(state->expr, econtext, isnull);
	return *isnull ? value :
		datumCopy(value, state->field->typbyval, state->field->typlen);
}

static void
default_end(DefaultState *state)
{
	if (state->estate != NULL)
		FreeExecutorState(state->estate);
}

static SendColumn *
use_column(SendRows *rows, Role role, int n)
{
	SendColumn *col = &rows->col[role];

	col->used = true;
	col->values = palloc(sizeof(Datum) * n);
	col->nulls = palloc(sizeof(bool) * n);
	return col;
}

/*
 * fill_defaults
 *		Give the elements that the caller left NULL the column's default.
 */
static void
fill_defaults(SendRows *rows, Role role, const bool *left_null)
{
	const SendField *field = &rows->target->field[role];
	SendColumn *col = &rows->col[role];
	DefaultState state;
	bool		begun = false;

	if (field->default_expr == NULL)
		return;
	for (int i = 0; i < rows->n; i++)
	{
		if (!left_null[i])
			continue;
		if (!begun)
			default_begin(&state, field);
		begun = true;
		col->values[i] = default_next(&state, &col->nulls[i]);
	}
	if (begun)
		default_end(&state);
}

/*
 * all_null
 *		Nothing to insert into a column: it need not be named, and takes its
 *		default from the server.
 */
static bool
all_null(const ArgArray *array)
{
	for (int i = 0; i < array->n; i++)
	{
		if (!array->nulls[i])
			return false;
	}
	return true;
}

static void
need_role(Queue *q, Role role)
{
	if (QueueHas(q, role))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("queue \"%s\" has no %s column", q->relname, RoleName(role)),
			 role == ROLE_PAYLOAD ?
			 errhint("Send with a plain INSERT, or name a column for it: inbox_adopt(..., payload => ...).") :
			 errhint("Leave the argument out, or name a column for it: inbox_adopt(..., %s => ...).",
					 RoleName(role))));
}

/*
 * SendValueIds
 *		Make the ids, in the order of the rows.
 */
void
SendValueIds(SendRows *rows)
{
	DefaultState state;
	SendColumn *col;

	if (rows->id_returned)
		return;
	col = use_column(rows, ROLE_ID, rows->n);
	default_begin(&state, &rows->target->field[ROLE_ID]);
	for (int i = 0; i < rows->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		col->values[i] = default_next(&state, &col->nulls[i]);
	}
	default_end(&state);
}

text *
SendValueIdText(SendTarget *target, Datum id)
{
	char		digits[MAXINT8LEN + 1];

	if (target->id_out.fn_oid == F_INT8OUT)
		return cstring_to_text_with_len(digits,
										pg_lltoa(DatumGetInt64(id), digits));
	return cstring_to_text(OutputFunctionCall(&target->id_out, id));
}

/*
 * payload_text
 *		What payload #>> '{}' gives: a string without its quotes, anything
 *		else as JSON; NULL for the JSON null.
 */
static char *
payload_text(Jsonb *jb)
{
	JsonbValue	v;

	if (JB_ROOT_IS_SCALAR(jb) && JsonbExtractScalar(&jb->root, &v))
	{
		if (v.type == jbvNull)
			return NULL;
		if (v.type == jbvString)
			return pnstrdup(v.val.string.val, v.val.string.len);
	}
	return JsonbToCString(NULL, &jb->root, VARSIZE(jb));
}

/*
 * populate_payload
 *		A JSON array or object for a column of an array or composite type, by
 *		the server's own rules: as one field of a record.
 */
static Datum
populate_payload(SendRows *rows, Jsonb *jb, bool *isnull)
{
	Queue	   *q = rows->q;
	SPIPlanPtr	plan;
	Oid			argtypes[] = {TEXTOID, JSONBOID};
	Datum		args[2];
	Datum		value;

	args[0] = CStringGetTextDatum(get_attname(q->relid,
											  q->col[ROLE_PAYLOAD].attno, false));
	args[1] = JsonbPGetDatum(jb);
	SPI_connect();
	plan = QueueFindPlan(q, PLAN_SEND, SEND_POPULATE);
	if (plan == NULL)
		plan = QueueSavePlan(q, PLAN_SEND, SEND_POPULATE,
							 psprintf("SELECT (pg_catalog.jsonb_populate_record(NULL::%s,"
									  " pg_catalog.jsonb_build_object($1, $2))).%s",
									  q->name, q->colname[ROLE_PAYLOAD]),
							 2, argtypes, CURSOR_OPT_GENERIC_PLAN);
	if (SPI_execute_plan(plan, args, NULL, true, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not convert a payload");
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
						  isnull);
	if (!*isnull)
		value = SPI_datumTransfer(value, rows->target->field[ROLE_PAYLOAD].typbyval,
								  rows->target->field[ROLE_PAYLOAD].typlen);
	SPI_finish();
	return value;
}

static Datum
convert_payload(SendRows *rows, Datum payload, bool *isnull)
{
	SendTarget *target = rows->target;
	Oid			type = rows->q->col[ROLE_PAYLOAD].type;
	Jsonb	   *jb;
	char	   *str;

	*isnull = false;
	if (type == JSONBOID)
		return payload;
	jb = DatumGetJsonbP(payload);
	if (type == JSONOID)
		return PointerGetDatum(cstring_to_text(JsonbToCString(NULL, &jb->root,
															  VARSIZE(jb))));
	if (rows->target->payload_nested && !JB_ROOT_IS_SCALAR(jb))
		return populate_payload(rows, jb, isnull);
	str = payload_text(jb);
	*isnull = (str == NULL);
	/* a domain may refuse NULL, so its input function must see it */
	return InputFunctionCall(&target->payload_in, str, target->payload_ioparam,
							 target->field[ROLE_PAYLOAD].typmod);
}

/*
 * SendValuePayloads
 *		Refuses what a NOT NULL column would refuse, before anything is
 *		written and with the position of the culprit.
 */
void
SendValuePayloads(SendRows *rows, const ArgArray *payloads)
{
	SendField  *field = &rows->target->field[ROLE_PAYLOAD];
	SendColumn *col;

	if (!QueueHas(rows->q, ROLE_PAYLOAD) && all_null(payloads))
		return;
	need_role(rows->q, ROLE_PAYLOAD);
	if (all_null(payloads) && (field->default_expr != NULL || !field->not_null))
		return;
	col = use_column(rows, ROLE_PAYLOAD, rows->n);
	for (int i = 0; i < rows->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		col->nulls[i] = payloads->nulls[i];
		col->values[i] = (Datum) 0;
		if (!col->nulls[i])
			col->values[i] = convert_payload(rows, payloads->values[i],
											 &col->nulls[i]);
		if (!col->nulls[i] || !field->not_null ||
			(payloads->nulls[i] && field->default_expr != NULL))
			continue;
		if (rows->n == 1)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("payload must not be null")));
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("payload must not be null"),
				 errdetail("Element %d of payloads is null.", i + 1)));
	}
	fill_defaults(rows, ROLE_PAYLOAD, payloads->nulls);
}

void
SendValueHeaders(SendRows *rows, const ArgArray *headers)
{
	SendColumn *col;

	if (!headers->given)
		return;
	need_role(rows->q, ROLE_HEADERS);
	if (all_null(headers))
		return;
	col = use_column(rows, ROLE_HEADERS, rows->n);
	for (int i = 0; i < rows->n; i++)
	{
		col->nulls[i] = headers->nulls[i];
		col->values[i] = headers->values[i];
		if (!col->nulls[i] && rows->q->col[ROLE_HEADERS].type == JSONOID)
			col->values[i] = DirectFunctionCall1(json_in,
												 DirectFunctionCall1(jsonb_out, col->values[i]));
	}
	fill_defaults(rows, ROLE_HEADERS, headers->nulls);
}

/*
 * SendValueKeys
 *		Text columns.  A length limit is enforced here, so that a dedup key is
 *		looked up as it is stored.
 */
void
SendValueKeys(SendRows *rows, Role role, const ArgArray *keys)
{
	int32		typmod = rows->target->field[role].typmod;
	SendColumn *col;

	if (!keys->given)
		return;
	need_role(rows->q, role);
	if (all_null(keys))
		return;
	col = use_column(rows, role, rows->n);
	for (int i = 0; i < rows->n; i++)
	{
		col->nulls[i] = keys->nulls[i];
		col->values[i] = keys->values[i];
		if (!col->nulls[i] && rows->q->col[role].type == VARCHAROID)
			col->values[i] = DirectFunctionCall3(varchar, col->values[i],
												 Int32GetDatum(typmod),
												 BoolGetDatum(false));
	}
	fill_defaults(rows, role, keys->nulls);
}

/*
 * SendValueShared
 *		One due time (timestamptz) or priority (integer) for all rows.
 */
void
SendValueShared(SendRows *rows, Role role, Datum value)
{
	SendColumn *col;

	need_role(rows->q, role);
	col = use_column(rows, role, 1);
	col->shared = true;
	col->nulls[0] = false;
	col->values[0] = value;
	if (rows->q->col[role].type == INT2OID)
		col->values[0] = DirectFunctionCall1(i4toi2, value);
	else if (rows->q->col[role].type == INT8OID)
		col->values[0] = DirectFunctionCall1(int48, value);
}
