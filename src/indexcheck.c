/*-------------------------------------------------------------------------
 *
 * indexcheck.c
 *	  What the indexes of an adopted table must and should be like.
 *
 * The id must be unique: a receipt names a row by it.  A dedup key needs the
 * unique index that an INSERT ... ON CONFLICT of ours infers.  The rest costs
 * only time, so a warning says which statement would save it.
 *
 * Called by inbox_adopt with the table locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "indexcheck.h"
#include "nodes/bitmapset.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* does an index have the property asked for? */
typedef bool (*IndexTest) (Relation index, const RoleColumn *col);

/*
 * The name of the first index that passes, or NULL.
 */
static char *
find_index(Relation rel, const RoleColumn *col, IndexTest test)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	char	   *found = NULL;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (test(index, col))
			found = pstrdup(RelationGetRelationName(index));
		index_close(index, NoLock);
		if (found != NULL)
			break;
	}
	list_free(indexes);
	return found;
}

static bool
is_usable_btree(Relation index)
{
	return index->rd_index->indisvalid &&
		(index->rd_rel->relam == BTREE_AM_OID);
}

static bool
is_unique_now(Relation index)
{
	return is_usable_btree(index) && index->rd_index->indisunique &&
		index->rd_index->indimmediate;
}

static bool
on_column_alone(Relation index, AttrNumber attno)
{
	return index->rd_index->indnkeyatts == 1 &&
		index->rd_index->indkey.values[0] == attno;
}

/*
 * Does a row with the given properties always satisfy the index's predicate?
 * Only NULL tests on the two columns (0: none) are understood.
 */
static bool
predicate_is(Relation index, AttrNumber not_null, AttrNumber null)
{
	List	   *predicate = RelationGetIndexPredicate(index);
	ListCell   *lc;

	foreach(lc, predicate)
	{
		NullTest   *test = (NullTest *) lfirst(lc);
		AttrNumber	attno;

		if (!IsA(test, NullTest) || !IsA(test->arg, Var))
			return false;
		attno = ((Var *) test->arg)->varattno;
		if (attno != (test->nulltesttype == IS_NULL ? null : not_null))
			return false;
	}
	return true;
}

static bool
predicate_names(Relation index, AttrNumber attno)
{
	Bitmapset  *columns = NULL;

	pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &columns);
	return bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns);
}

static bool
is_id_index(Relation index, const RoleColumn *col)
{
	return is_unique_now(index) && RelationGetIndexPredicate(index) == NIL &&
		on_column_alone(index, col[ROLE_ID].attno);
}

static bool
is_wider_id_index(Relation index, const RoleColumn *col)
{
	if (!is_unique_now(index) || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		if (index->rd_index->indkey.values[i] == col[ROLE_ID].attno)
			return true;
	}
	return false;
}

static void
warn_family(Relation rel, const char *id)
{
	ereport(WARNING,
			(errmsg("\"%s\" does not make sure that ids are unique",
					RelationGetRelationName(rel)),
			 errdetail("A receipt names a row by its id, and no index covers all partitions or child tables."),
			 errhint("Fill column \"%s\" from one sequence, or with random UUIDs.", id)));
}

/*
 * IndexCheckId
 *		Raise an error unless the id is unique and never null.  No index spans
 *		the partitions of a table unless it contains the partition key, nor
 *		any child tables; there we can only warn.
 */
void
IndexCheckId(Relation rel, const RoleColumn *col)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel),
										  col[ROLE_ID].attno - 1);
	const char *name = quote_identifier(NameStr(att->attname));
	char	   *table = QualifiedName(RelationGetRelid(rel));
	bool		partitioned = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	bool		unique = find_index(rel, col, is_id_index) != NULL;

	if (unique && att->attnotnull)
	{
		if (!partitioned && rel->rd_rel->relhassubclass)
			warn_family(rel, NameStr(att->attname));
		return;
	}
	if (unique)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("id column \"%s\" of \"%s\" allows nulls",
						NameStr(att->attname), RelationGetRelationName(rel)),
				 errhint("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", table, name)));
	if (partitioned && att->attnotnull &&
		find_index(rel, col, is_wider_id_index) != NULL)
	{
		warn_family(rel, NameStr(att->attname));
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("id column \"%s\" of \"%s\" is not unique",
					NameStr(att->attname), RelationGetRelationName(rel)),
			 partitioned ?
			 errdetail("It must be not null and part of a unique index or primary key.") :
			 errdetail("It must be not null and have a unique index of its own that is valid, not partial and not deferrable."),
			 OidIsValid(rel->rd_pkindex) ?
			 errhint("CREATE UNIQUE INDEX ON %s (%s);", table, name) :
			 errhint("ALTER TABLE %s ADD PRIMARY KEY (%s);", table, name)));
}

static bool
is_dedup_index(Relation index, const RoleColumn *col)
{
	AttrNumber	finished = col[ROLE_PROCESSED_AT].attno;

	return is_unique_now(index) &&
		on_column_alone(index, col[ROLE_DEDUP_KEY].attno) &&
		predicate_is(index, col[ROLE_DEDUP_KEY].attno, finished) &&
		(finished == 0 || predicate_names(index, finished));
}

static const char *
column_name(Relation rel, const RoleColumn *col, Role role)
{
	return quote_identifier(get_attname(RelationGetRelid(rel),
										col[role].attno, false));
}

/*
 * IndexCheckDedup
 *		Raise an error unless an index keeps a dedup key from being there
 *		twice in unfinished rows.
 */
void
IndexCheckDedup(Relation rel, const RoleColumn *col)
{
	const char *key;
	StringInfoData cure;

	if (col[ROLE_DEDUP_KEY].attno == 0 ||
		find_index(rel, col, is_dedup_index) != NULL)
		return;
	key = column_name(rel, col, ROLE_DEDUP_KEY);
	initStringInfo(&cure);
	appendStringInfo(&cure, "CREATE UNIQUE INDEX ON %s (%s) WHERE %s IS NOT NULL",
					 QualifiedName(RelationGetRelid(rel)), key, key);
	if (col[ROLE_PROCESSED_AT].attno != 0)
		appendStringInfo(&cure, " AND %s IS NULL",
						 column_name(rel, col, ROLE_PROCESSED_AT));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("no unique index on dedup key column %s of \"%s\"", key,
					RelationGetRelationName(rel)),
			 errdetail("Without it, two sends at once would both add a row."),
			 errhint("%s;", cure.data)));
}

/*
 * The roles that make up the claim order, each where it exists.
 */
static int
claim_order(const RoleColumn *col, Role *order)
{
	static const Role all[] = {ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ID};
	int			n = 0;

	for (int i = 0; i < lengthof(all); i++)
	{
		if (col[all[i]].attno != 0)
			order[n++] = all[i];
	}
	return n;
}

static bool
is_claim_index(Relation index, const RoleColumn *col)
{
	Role		order[3];
	int			n = claim_order(col, order);
	AttrNumber	finished = col[ROLE_PROCESSED_AT].attno;

	if (!is_usable_btree(index) || index->rd_index->indnkeyatts < n ||
		!predicate_is(index, 0, finished) ||
		(finished != 0 && !predicate_names(index, finished)))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (index->rd_index->indkey.values[i] != col[order[i]].attno ||
			index->rd_indoption[i] != 0)
			return false;
	}
	return true;
}

static void
warn_no_claim_index(Relation rel, const RoleColumn *col)
{
	Role		order[3];
	int			n = claim_order(col, order);
	StringInfoData cure;

	initStringInfo(&cure);
	appendStringInfo(&cure, "CREATE INDEX ON %s (",
					 QualifiedName(RelationGetRelid(rel)));
	for (int i = 0; i < n; i++)
		appendStringInfo(&cure, "%s%s", i == 0 ? "" : ", ",
						 column_name(rel, col, order[i]));
	appendStringInfoChar(&cure, ')');
	if (col[ROLE_PROCESSED_AT].attno != 0)
		appendStringInfo(&cure, " WHERE %s IS NULL",
						 column_name(rel, col, ROLE_PROCESSED_AT));
	ereport(WARNING,
			(errmsg("no index of \"%s\" serves the claim order",
					RelationGetRelationName(rel)),
			 errdetail("Each claim has to read and sort the whole table."),
			 errhint("%s;", cure.data)));
}

static bool
has_lease_column(Relation index, const RoleColumn *col)
{
	static const Role lease[] = {ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT,
	ROLE_ATTEMPT, ROLE_LAST_ERROR};
	Bitmapset  *columns = NULL;

	for (int i = 0; i < index->rd_index->indnatts; i++)
		columns = bms_add_member(columns, index->rd_index->indkey.values[i] -
								 FirstLowInvalidHeapAttributeNumber);
	pull_varattnos((Node *) RelationGetIndexExpressions(index), 1, &columns);
	pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &columns);
	for (int i = 0; i < lengthof(lease); i++)
	{
		AttrNumber	attno = col[lease[i]].attno;

		if (attno != 0 &&
			bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns))
			return true;
	}
	return false;
}

/*
 * IndexWarn
 *		Tell what makes claims slow.
 */
void
IndexWarn(Relation rel, const RoleColumn *col)
{
	char	   *lease_index = find_index(rel, col, has_lease_column);

	if (find_index(rel, col, is_claim_index) == NULL)
		warn_no_claim_index(rel, col);
	if (lease_index != NULL)
		ereport(WARNING,
				(errmsg("index \"%s\" contains a column that every claim changes",
						lease_index),
				 errdetail("Each claim, extension and release then has to write to all indexes of the table."),
				 errhint("If nothing else needs it: DROP INDEX %s;",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
													lease_index))));
}
