/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The function that a subscription calls for each message.
 *
 * Its one argument says what it gets: jsonb the payload, inbox_delivery the
 * delivery, the queue's row type the whole row, and any other composite type
 * or domain the payload decoded into it (decode.c).
 *
 * It is called as a function call of a query would be, without the query:
 * with a snapshot, and atomic, so that a procedure that tries to commit gets
 * the error that it gets inside a transaction block.  The function is looked
 * up anew in each transaction, so whoever replaces or alters it need not tell.
 *
 * Called by subbatch.c and subscribe.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "funcapi.h"
#include "handler.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

static bool
is_delivery(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			schema = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return false;
	/* the name first: to find the extension's schema takes a scan */
	if (strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname),
			   "inbox_delivery") == 0)
		schema = ((Form_pg_type) GETSTRUCT(tuple))->typnamespace;
	ReleaseSysCache(tuple);
	return OidIsValid(schema) &&
		schema == ExtensionSchema(get_extension_oid("inbox", false));
}

static bool
kind_of(Oid argtype, Oid queue, HandlerKind *kind)
{
	char		typtype = get_typtype(argtype);

	if (argtype == JSONBOID)
		*kind = HANDLER_JSONB;
	else if (is_delivery(argtype))
		*kind = HANDLER_DELIVERY;
	else if (argtype == get_rel_type_id(queue))
		*kind = HANDLER_ROW;
	else if (typtype == TYPTYPE_COMPOSITE || typtype == TYPTYPE_DOMAIN)
		*kind = HANDLER_DECODED;
	else
		return false;
	return true;
}

/*
 * HandlerProblem
 *		Why this function can be no handler for the queue, and in *hint the
 *		cure; NULL when it can.
 */
const char *
HandlerProblem(Oid function, Oid queue, const char **hint, HandlerKind *kind)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	const char *problem = NULL;

	*hint = "Name another one with inbox_alter_subscription.";
	if (!HeapTupleIsValid(tuple))
		return "the handler does not exist";
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prokind != PROKIND_FUNCTION && proc->prokind != PROKIND_PROCEDURE)
	{
		problem = "a handler must be a function or a procedure";
		*hint = "An aggregate or window function cannot be called for a message.";
	}
	else if (proc->proretset)
	{
		problem = "a handler must not return a set";
		*hint = "What it returns is ignored; let it return void.";
	}
	else if (proc->prokind == PROKIND_PROCEDURE &&
			 !heap_attisnull(tuple, Anum_pg_proc_proargmodes, NULL))
	{
		problem = "a procedure with OUT or VARIADIC arguments cannot be a handler";
		*hint = "Declare its one argument IN, or use a function.";
	}
	else if (proc->pronargs != 1 || OidIsValid(proc->provariadic) ||
			 !kind_of(proc->proargtypes.values[0], queue, kind))
	{
		problem = "a handler must take one argument that a message can be";
		*hint = "That is jsonb, inbox_delivery, the queue's row type, another composite type, or a domain.";
	}
	ReleaseSysCache(tuple);
	return problem;
}

/*
 * HandlerOpen
 *		Look it up and get ready to call it, in the current memory context.
 */
void
HandlerOpen(Handler *h, Oid function, Queue *q)
{
	const char *hint;
	const char *problem = HandlerProblem(function, q->relid, &hint, &h->kind);
	Oid		   *argtypes;
	int			nargs;
	Const	   *arg;

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s", problem),
				 errhint("%s", hint)));
	if (!MayExecute(function, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION,
					   get_func_name(function));
	(void) get_func_signature(function, &argtypes, &nargs);
	h->function = function;
	h->q = q;
	h->cxt = CurrentMemoryContext;
	h->argtype = argtypes[0];
	h->collation = get_typcollation(h->argtype);
	h->strict = func_strict(function);
	h->procedure = get_func_prokind(function) == PROKIND_PROCEDURE;
	h->slot = NULL;
	h->leaf.rel = NULL;
	fmgr_info_cxt(function, &h->flinfo, h->cxt);
	arg = makeNullConst(h->argtype, -1, InvalidOid);
	fmgr_info_set_expr((Node *) makeFuncExpr(function, get_func_rettype(function),
											 list_make1(arg), InvalidOid,
											 InvalidOid, COERCE_EXPLICIT_CALL),
					   &h->flinfo);
	DeliverBeginKept(&h->sink, q);
	h->sink.shape = h->kind == HANDLER_ROW ? SHAPE_ROW : SHAPE_DELIVERY;
	h->desc = NULL;
	if (h->kind == HANDLER_ROW || h->kind == HANDLER_DELIVERY)
		h->desc = lookup_rowtype_tupdesc_copy(h->argtype, -1);
	else if (h->kind == HANDLER_DECODED)
		DecodeBegin(h);
}

static void
close_leaf(Handler *h)
{
	if (h->leaf.rel == NULL)
		return;
	ExecDropSingleTupleTableSlot(h->slot);
	table_close(h->leaf.rel, NoLock);
	h->leaf.rel = NULL;
}

void
HandlerClose(Handler *h)
{
	close_leaf(h);
}

/*
 * Are the same columns of the same types in it?  More at the end do no harm.
 */
static bool
same_layout(TupleDesc then, TupleDesc now)
{
	if (then->natts > now->natts)
		return false;
	for (int i = 0; i < then->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(then, i);
		Form_pg_attribute b = TupleDescAttr(now, i);

		if (a->atttypid != b->atttypid || a->attisdropped != b->attisdropped)
			return false;
	}
	return true;
}

/*
 * HandlerShow
 *		The row to be handled next; false when its table has been altered since
 *		it was claimed, so that its copy cannot be read any more.
 */
bool
HandlerShow(Handler *h, KeptRow *row)
{
	if (h->leaf.rel == NULL || RelationGetRelid(h->leaf.rel) != row->relid)
	{
		close_leaf(h);
		h->leaf.rel = try_relation_open(row->relid, RowExclusiveLock);
		if (h->leaf.rel == NULL)
			return false;
		h->slot = MakeSingleTupleTableSlot(RelationGetDescr(h->leaf.rel),
										   &TTSOpsHeapTuple);
		if (!same_layout(row->desc, RelationGetDescr(h->leaf.rel)))
			return false;
		QueueMapRoles(h->q, h->leaf.rel, h->leaf.attnos);
	}
	ExecStoreHeapTuple(row->tuple, h->slot, false);
	return true;
}

/*
 * HandlerDecode
 *		The argument for the row at hand.  Every error raised here is the
 *		payload's.
 */
Datum
HandlerDecode(Handler *h, bool *isnull)
{
	Datum		value;

	if (h->desc != NULL)
	{
		Datum	   *values = palloc0(h->desc->natts * sizeof(Datum));
		bool	   *nulls = palloc0(h->desc->natts * sizeof(bool));

		DeliverForm(&h->sink, &h->leaf, h->slot, h->desc, values, nulls);
		*isnull = false;
		return HeapTupleGetDatum(heap_form_tuple(h->desc, values, nulls));
	}
	value = DeliverPayload(&h->sink, &h->leaf, h->slot, isnull);
	if (!*isnull)
		value = PointerGetDatum(PG_DETOAST_DATUM(value));
	if (h->kind == HANDLER_DECODED)
		value = DecodePayload(h, value, *isnull, isnull);
	if (*isnull && h->strict)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("payload is null, and the handler is STRICT")));
	return value;
}

/*
 * HandlerCall
 *		Call it; what it returns is ignored.
 */
void
HandlerCall(Handler *h, Datum arg, bool isnull)
{
	LOCAL_FCINFO(fcinfo, 1);
	PgStat_FunctionCallUsage usage;
	CallContext *context = NULL;

	if (h->procedure)
	{
		context = makeNode(CallContext);
		context->atomic = true;
	}
	InitFunctionCallInfoData(*fcinfo, &h->flinfo, 1, h->collation,
							 (Node *) context, NULL);
	fcinfo->args[0].value = arg;
	fcinfo->args[0].isnull = isnull;
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_init_function_usage(fcinfo, &usage);
	(void) FunctionCallInvoke(fcinfo);
	pgstat_end_function_usage(&usage, true);
	PopActiveSnapshot();
	CommandCounterIncrement();
}
