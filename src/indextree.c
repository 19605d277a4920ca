/*-------------------------------------------------------------------------
 *
 * indextree.c
 *	  An index's predicate and expressions, as they are stored.
 *
 * The relcache would hand them out evaluated where they are constant.  That
 * runs functions of the table's owner as whoever asks, and we ask about
 * tables whose owner nobody has chosen to trust: the worker goes through all
 * queues, and so does whoever looks at a view.
 *
 * Called by indexcheck.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_index.h"
#include "indextree.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

/*
 * IndexTreeGet
 *		The attribute of pg_index, which is indpred or indexprs; NULL when the
 *		index has none.
 */
Node *
IndexTreeGet(Relation index, AttrNumber attno)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, index->rd_indextuple,
										attno, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(datum));
}

bool
IndexTreePartial(Relation index)
{
	return IndexTreeGet(index, Anum_pg_index_indpred) != NULL;
}

/*
 * IndexTreeHolds
 *		Does a row with the given properties always satisfy the predicate?
 *		Only NULL tests on the two columns (0: none) are understood.
 */
bool
IndexTreeHolds(Relation index, AttrNumber not_null, AttrNumber null)
{
	Node	   *predicate = IndexTreeGet(index, Anum_pg_index_indpred);
	ListCell   *lc;

	foreach(lc, make_ands_implicit((Expr *) predicate))
	{
		NullTest   *test = (NullTest *) lfirst(lc);
		AttrNumber	attno;

		if (!IsA(test, NullTest) || !IsA(test->arg, Var))
			return false;
		attno = ((Var *) test->arg)->varattno;
		if (attno <= 0 ||
			attno != (test->nulltesttype == IS_NULL ? null : not_null))
			return false;
	}
	return true;
}

/*
 * IndexTreeNames
 *		Does the predicate contain this column?
 */
bool
IndexTreeNames(Relation index, AttrNumber attno)
{
	Bitmapset  *columns = NULL;

	pull_varattnos(IndexTreeGet(index, Anum_pg_index_indpred), 1, &columns);
	return bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns);
}
