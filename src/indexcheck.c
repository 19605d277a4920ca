/*-------------------------------------------------------------------------
 *
 * indexcheck.c
 *	  What the indexes of a queue must and should be like.
 *
 * The id must be unique: a receipt names a row by it.  A dedup key needs the
 * unique index that an INSERT ... ON CONFLICT of ours infers.  The rest costs
 * only time, so a warning says which statement would save it.
 *
 * Called by inbox_adopt, and by inbox_alter when it rebuilds the indexes of a
 * created queue, with the table locked.
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
#include "indextree.h"
#include "nodes/bitmapset.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* does an index have the property asked for? */
typedef bool (*IndexTest) (Relation index, const RoleColumn *col);

/*
 * The first index that passes, or InvalidOid.
 */
static Oid
find_index(Relation rel, const RoleColumn *col, IndexTest test)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	Oid			found = InvalidOid;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (test(index, col))
			found = RelationGetRelid(index);
		index_close(index, NoLock);
		if (OidIsValid(found))
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

static bool
is_id_index(Relation index, const RoleColumn *col)
{
	return is_unique_now(index) && !IndexTreePartial(index) &&
		on_column_alone(index, col[ROLE_ID].attno);
}

static bool
is_wider_id_index(Relation index, const RoleColumn *col)
{
	if (!is_unique_now(index) || IndexTreePartial(index))
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
	bool		unique = OidIsValid(find_index(rel, col, is_id_index));

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
		OidIsValid(find_index(rel, col, is_wider_id_index)))
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
		IndexTreeHolds(index, col[ROLE_DEDUP_KEY].attno, finished) &&
		(finished == 0 || IndexTreeNames(index, finished));
}

static const char *
column_name(Oid relid, const RoleColumn *col, Role role)
{
	return quote_identifier(get_attname(relid, col[role].attno, false));
}

/*
 * IndexDedupSql
 *		The statement that makes the index on the dedup key.
 */
char *
IndexDedupSql(Oid relid, const RoleColumn *col)
{
	const char *key = column_name(relid, col, ROLE_DEDUP_KEY);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE UNIQUE INDEX ON %s (%s) WHERE %s IS NOT NULL",
					 QualifiedName(relid), key, key);
	if (col[ROLE_PROCESSED_AT].attno != 0)
		appendStringInfo(&sql, " AND %s IS NULL",
						 column_name(relid, col, ROLE_PROCESSED_AT));
	return sql.data;
}

/* not one that backs a UNIQUE constraint, which has no predicate */
static bool
is_partial_dedup_index(Relation index, const RoleColumn *col)
{
	return is_dedup_index(index, col) &&
		IndexTreeNames(index, col[ROLE_DEDUP_KEY].attno);
}

/*
 * IndexFindDedup
 *		The index on the dedup key that inbox_create made.
 */
Oid
IndexFindDedup(Relation rel, const RoleColumn *col)
{
	if (col[ROLE_DEDUP_KEY].attno == 0)
		return InvalidOid;
	return find_index(rel, col, is_partial_dedup_index);
}

/*
 * IndexCheckDedup
 *		The index that keeps a dedup key from being there twice in unfinished
 *		rows; an error when there is none.
 */
Oid
IndexCheckDedup(Relation rel, const RoleColumn *col)
{
	Oid			index;

	if (col[ROLE_DEDUP_KEY].attno == 0)
		return InvalidOid;
	index = find_index(rel, col, is_dedup_index);
	if (OidIsValid(index))
		return index;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("no unique index on dedup key column %s of \"%s\"",
					column_name(RelationGetRelid(rel), col, ROLE_DEDUP_KEY),
					RelationGetRelationName(rel)),
			 errdetail("Without it, two sends at once would both add a row."),
			 errhint("%s;", IndexDedupSql(RelationGetRelid(rel), col))));
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

/*
 * IndexIsClaim
 *		Does this index hold every unfinished row, in claim order?
 */
bool
IndexIsClaim(Relation index, const RoleColumn *col)
{
	Role		order[3];
	int			n = claim_order(col, order);
	AttrNumber	finished = col[ROLE_PROCESSED_AT].attno;

	if (!is_usable_btree(index) || index->rd_index->indnkeyatts < n ||
		!IndexTreeHolds(index, 0, finished) ||
		(finished != 0 && !IndexTreeNames(index, finished)))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (index->rd_index->indkey.values[i] != col[order[i]].attno ||
			index->rd_indoption[i] != 0)
			return false;
	}
	return true;
}

/*
 * IndexFindOrder
 *		An index that claims can walk, or InvalidOid.
 */
Oid
IndexFindOrder(Relation rel, const RoleColumn *col)
{
	return find_index(rel, col, IndexIsClaim);
}

/*
 * IndexClaimSql
 *		The statement that makes the index in claim order.
 */
char *
IndexClaimSql(Oid relid, const RoleColumn *col)
{
	Role		order[3];
	int			n = claim_order(col, order);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX ON %s (",
					 QualifiedName(relid));
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "" : ", ",
						 column_name(relid, col, order[i]));
	appendStringInfoChar(&sql, ')');
	if (col[ROLE_PROCESSED_AT].attno != 0)
		appendStringInfo(&sql, " WHERE %s IS NULL",
						 column_name(relid, col, ROLE_PROCESSED_AT));
	return sql.data;
}

static bool
is_bare_claim_index(Relation index, const RoleColumn *col)
{
	Role		order[3];

	return IndexIsClaim(index, col) && !index->rd_index->indisunique &&
		index->rd_index->indnatts == claim_order(col, order);
}

/*
 * IndexFindClaim
 *		The index in claim order, and of nothing else, that inbox_create made.
 */
Oid
IndexFindClaim(Relation rel, const RoleColumn *col)
{
	return find_index(rel, col, is_bare_claim_index);
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
	pull_varattnos(IndexTreeGet(index, Anum_pg_index_indexprs), 1, &columns);
	pull_varattnos(IndexTreeGet(index, Anum_pg_index_indpred), 1, &columns);
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
IndexWarn(Relation rel, const RoleColumn *col, bool fifo)
{
	Oid			lease_index;

	if (fifo)
	{
		/* whose claims write to all indexes anyway */
		IndexGroupWarn(rel, col);
		return;
	}
	if (!OidIsValid(find_index(rel, col, IndexIsClaim)))
		ereport(WARNING,
				(errmsg("no index of \"%s\" serves the claim order",
						RelationGetRelationName(rel)),
				 errdetail("Each claim has to read and sort the whole table."),
				 errhint("%s;", IndexClaimSql(RelationGetRelid(rel), col))));
	lease_index = find_index(rel, col, has_lease_column);
	if (OidIsValid(lease_index))
		ereport(WARNING,
				(errmsg("index \"%s\" contains a column that every claim changes",
						get_rel_name(lease_index)),
				 errdetail("Each claim, extension and release then has to write to all indexes of the table."),
				 errhint("If nothing else needs it: DROP INDEX %s;",
						 QualifiedName(lease_index))));
}
