/*-------------------------------------------------------------------------
 *
 * args.h
 *	  Arguments of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ARGS_H
#define INBOX_ARGS_H

#include "fmgr.h"
#include "utils/array.h"

/* one element of an array argument */
typedef struct ArgArray
{
	bool		given;			/* false: the argument was NULL */
	int			n;
	Datum	   *values;
	bool	   *nulls;
} ArgArray;

extern text *ArgQueue(FunctionCallInfo fcinfo, int n);
extern void ArgNotNull(FunctionCallInfo fcinfo, int n, const char *name);
extern char *ArgString(FunctionCallInfo fcinfo, int n);
extern void ArgGetArray(FunctionCallInfo fcinfo, int n, Oid elemtype,
						ArgArray *array);
extern void ArgCheckLength(const ArgArray *array, const char *name, int n,
						   const char *of, bool one_for_all);
extern void ArgRequireWritable(const char *function);

#endif							/* INBOX_ARGS_H */
