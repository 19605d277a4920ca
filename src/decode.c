/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  Decode a payload into the type of a handler's argument.
 *
 * The work is PostgreSQL's: the conversions are those of
 * jsonb_populate_record, for which the payload is wrapped as the one field of
 * a record, so that one way serves composite types and domains over anything.
 *
 * It is stricter in one thing.  jsonb_populate_record makes NULL of a field
 * that is not there, and whoever misspells a field would never hear of it.
 * Here each attribute of a composite type must be there, at whatever depth; a
 * JSON null is there, and makes NULL.  Fields that the type does not have are
 * ignored, so that a sender may be ahead of its handler.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "handler.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* errors name it */
#define FIELD	"payload"

static void check_fields(JsonbContainer *json, Oid type);

/*
 * DecodeBegin
 *		Once per handler.
 */
void
DecodeBegin(Handler *h)
{
	h->record = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(h->record, 1, FIELD, h->argtype, -1, 0);
	BlessTupleDesc(h->record);
	fmgr_info_cxt(F_JSONB_TO_RECORD, &h->to_record, h->cxt);
	fmgr_info_set_expr((Node *) makeFuncExpr(F_JSONB_TO_RECORD, RECORDOID,
											 list_make1(makeNullConst(JSONBOID, -1, InvalidOid)),
											 InvalidOid, InvalidOid,
											 COERCE_EXPLICIT_CALL),
					   &h->to_record);
}

static void
mistyped(const char *wanted, Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("payload has no JSON %s where type %s needs one", wanted,
					format_type_be(type))));
}

/*
 * check_value
 *		A value, for a field or element of this type.
 */
static void
check_value(JsonbValue *value, Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	if (value->type == jbvNull)
		return;
	if (OidIsValid(element))
	{
		if (!type_is_rowtype(element) || value->type != jbvBinary ||
			!JsonContainerIsArray(value->val.binary.data))
			return;
		for (uint32 i = 0; i < JsonContainerSize(value->val.binary.data); i++)
			check_value(getIthJsonbValueFromContainer(value->val.binary.data, i),
						element);
	}
	else if (type_is_rowtype(base) && base != RECORDOID)
	{
		if (value->type != jbvBinary)
			mistyped("object", base);
		check_fields(value->val.binary.data, base);
	}
}

/*
 * check_fields
 *		Is each attribute of the composite type a field of the object?
 */
static void
check_fields(JsonbContainer *json, Oid type)
{
	TupleDesc	desc;

	check_stack_depth();
	if (!JsonContainerIsObject(json))
		mistyped("object", type);
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		char	   *name = NameStr(att->attname);
		JsonbValue *value;

		if (att->attisdropped)
			continue;
		value = getKeyJsonValueFromContainer(json, name, strlen(name), NULL);
		if (value == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("payload has no field \"%s\"", name),
					 errdetail("Type %s has it; a field that may be missing must be there as null.",
							   format_type_be(type))));
		check_value(value, att->atttypid);
	}
	ReleaseTupleDesc(desc);
}

/*
 * wrap
 *		{"payload": payload}
 */
static Jsonb *
wrap(Jsonb *payload)
{
	JsonbParseState *state = NULL;
	JsonbValue	key;
	JsonbValue	value;

	key.type = jbvString;
	key.val.string.val = pstrdup(FIELD);
	key.val.string.len = strlen(FIELD);
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	(void) pushJsonbValue(&state, WJB_KEY, &key);
	if (payload == NULL)
		value.type = jbvNull;
	else if (JB_ROOT_IS_SCALAR(payload))
		(void) JsonbExtractScalar(&payload->root, &value);
	else
	{
		value.type = jbvBinary;
		value.val.binary.data = &payload->root;
		value.val.binary.len = VARSIZE(payload) - VARHDRSZ;
	}
	(void) pushJsonbValue(&state, WJB_VALUE, &value);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/*
 * DecodePayload
 *		The argument that the payload makes.
 */
Datum
DecodePayload(Handler *h, Datum payload, bool payload_null, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 1);
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo};
	Jsonb	   *jb = payload_null ? NULL : DatumGetJsonbP(payload);
	Oid			base = getBaseType(h->argtype);
	HeapTupleHeader header;
	HeapTupleData tuple;

	if (type_is_rowtype(base))
	{
		if (jb == NULL)
			mistyped("object", base);
		check_fields(&jb->root, base);
	}
	rsinfo.expectedDesc = h->record;
	InitFunctionCallInfoData(*fcinfo, &h->to_record, 1, InvalidOid, NULL,
							 (Node *) &rsinfo);
	fcinfo->args[0].value = JsonbPGetDatum(wrap(jb));
	fcinfo->args[0].isnull = false;
	header = DatumGetHeapTupleHeader(FunctionCallInvoke(fcinfo));
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	return heap_getattr(&tuple, 1, h->record, isnull);
}
