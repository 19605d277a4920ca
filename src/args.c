/*-------------------------------------------------------------------------
 *
 * args.c
 *	  Arguments of SQL functions: what is common to checking them.
 *
 * Our functions are not STRICT: a NULL queue is a mistake that must be heard,
 * not a NULL result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

void
ArgNotNull(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

text *
ArgQueue(FunctionCallInfo fcinfo, int n)
{
	ArgNotNull(fcinfo, n, "queue");
	return PG_GETARG_TEXT_PP(n);
}

/*
 * ArgString
 *		A text argument as a C string; NULL for NULL.
 */
char *
ArgString(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

void
ArgGetArray(FunctionCallInfo fcinfo, int n, Oid elemtype, ArgArray *array)
{
	ArrayType  *arr;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	memset(array, 0, sizeof(*array));
	array->given = !PG_ARGISNULL(n);
	if (!array->given)
		return;
	arr = PG_GETARG_ARRAYTYPE_P(n);
	if (ARR_NDIM(arr) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array arguments must have one dimension")));
	get_typlenbyvalalign(elemtype, &typlen, &typbyval, &typalign);
	deconstruct_array(arr, elemtype, typlen, typbyval, typalign,
					  &array->values, &array->nulls, &array->n);
}

/*
 * ArgCheckLength
 *		An array beside another one of n elements "of": as many elements, or,
 *		where one_for_all is set, a single one.
 */
void
ArgCheckLength(const ArgArray *array, const char *name, int n,
			   const char *of, bool one_for_all)
{
	if (!array->given || array->n == n || (one_for_all && array->n == 1))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
			 errmsg("%s has %d elements, but %s has %d", name, array->n, of, n),
			 one_for_all ?
			 errhint("Give one element for all, or one for each element of %s.", of) :
			 errhint("Give one element for each element of %s.", of)));
}

void
ArgRequireWritable(const char *function)
{
	char		name[NAMEDATALEN + 2];

	snprintf(name, sizeof(name), "%s()", function);
	PreventCommandDuringRecovery(name);
	PreventCommandIfReadOnly(name);
	PreventCommandIfParallelMode(name);
}
