/*-------------------------------------------------------------------------
 *
 * groupindex.c
 *	  The indexes of a FIFO queue: which serve, and how to make them.
 *
 * What each is for is told in groupwalk.c.  None holds a finished row, where
 * the queue keeps those, or they would pile up in front of every head.
 *
 * Called with the table locked, when a queue's cache entry is made, and by
 * those who create, adopt and alter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type.h"
#include "indexcheck.h"
#include "indextree.h"
#include "lib/stringinfo.h"
#include "setup.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define MAX_ORDER	4

static const char *const purposes[] = {
	[GROUP_INDEX_GROUPS] = "the order of groups",
	[GROUP_INDEX_HEADS] = "the order within a group",
	[GROUP_INDEX_LEASES] = "the leases of a group",
};

/*
 * The roles whose columns an index begins with, each where it exists; their
 * number.
 */
static int
index_order(const RoleColumn *col, GroupIndex which, Role *order)
{
	static const Role wanted[][MAX_ORDER] = {
		[GROUP_INDEX_GROUPS] = {ROLE_PRIORITY, ROLE_GROUP_KEY, ROLE_DUE_AT, ROLE_ID},
		[GROUP_INDEX_HEADS] = {ROLE_GROUP_KEY, ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ID},
		[GROUP_INDEX_LEASES] = {ROLE_GROUP_KEY, ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ID},
	};
	int			n = 0;

	for (int i = 0; i < MAX_ORDER; i++)
	{
		if (col[wanted[which][i]].attno != 0)
			order[n++] = wanted[which][i];
	}
	return n;
}

/*
 * Are keys compared as the column's own values are?
 */
static bool
compares(Relation index, int i, const RoleColumn *col, Role role)
{
	Oid			type;
	int32		typmod;
	Oid			collation;

	if (role != ROLE_GROUP_KEY)
		return true;
	get_atttypetypmodcoll(index->rd_index->indrelid, col[role].attno, &type,
						  &typmod, &collation);
	return index->rd_opfamily[i] == TEXT_BTREE_FAM_OID &&
		index->rd_indcollation[i] == collation;
}

/*
 * IndexIsGroup
 *		Does this index serve that purpose?
 */
bool
IndexIsGroup(Relation index, const RoleColumn *col, GroupIndex which)
{
	Role		order[MAX_ORDER];
	int			n = index_order(col, which, order);
	AttrNumber	finished = col[ROLE_PROCESSED_AT].attno;
	AttrNumber	until = col[ROLE_LOCKED_UNTIL].attno;
	bool		leases = which == GROUP_INDEX_LEASES;

	/* the group alone will do, but see GroupWalkLook */
	if (leases)
		n = 1;

	if (!index->rd_index->indisvalid || index->rd_rel->relam != BTREE_AM_OID ||
		index->rd_index->indnkeyatts < n ||
		!IndexTreeHolds(index, leases ? until : 0, finished))
		return false;
	if (leases ? !IndexTreeNames(index, until) :
		(finished != 0 && !IndexTreeNames(index, finished)))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (index->rd_index->indkey.values[i] != col[order[i]].attno ||
			index->rd_indoption[i] != 0 || !compares(index, i, col, order[i]))
			return false;
	}
	return true;
}

/*
 * IndexFindGroup
 *		An index for this purpose, or InvalidOid.  "bare" is one that is as
 *		IndexGroupSql makes it.
 */
Oid
IndexFindGroup(Relation rel, const RoleColumn *col, GroupIndex which,
			   bool bare)
{
	List	   *indexes = RelationGetIndexList(rel);
	Role		order[MAX_ORDER];
	int			n = index_order(col, which, order);
	ListCell   *lc;
	Oid			found = InvalidOid;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (IndexIsGroup(index, col, which) &&
			(!bare || (!index->rd_index->indisunique &&
					   index->rd_index->indnatts == n)))
			found = RelationGetRelid(index);
		index_close(index, NoLock);
		if (OidIsValid(found))
			break;
	}
	list_free(indexes);
	return found;
}

/*
 * IndexGroupSql
 *		The statement that makes such an index; NULL where another one serves
 *		the purpose as well.
 */
char *
IndexGroupSql(Oid relid, const RoleColumn *col, GroupIndex which,
			  bool concurrently)
{
	Role		order[MAX_ORDER];
	int			n = index_order(col, which, order);
	StringInfoData sql;
	const char *word = " WHERE ";

	if (which == GROUP_INDEX_HEADS && col[ROLE_PRIORITY].attno == 0)
		return NULL;
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %sON %s (",
					 concurrently ? "CONCURRENTLY " : "", QualifiedName(relid));
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "" : ", ",
						 quote_identifier(get_attname(relid, col[order[i]].attno,
													  false)));
	appendStringInfoChar(&sql, ')');
	if (which == GROUP_INDEX_LEASES)
	{
		appendStringInfo(&sql, "%s%s IS NOT NULL", word,
						 quote_identifier(get_attname(relid, col[ROLE_LOCKED_UNTIL].attno,
													  false)));
		word = " AND ";
	}
	if (col[ROLE_PROCESSED_AT].attno != 0)
		appendStringInfo(&sql, "%s%s IS NULL", word,
						 quote_identifier(get_attname(relid, col[ROLE_PROCESSED_AT].attno,
													  false)));
	return sql.data;
}

/*
 * IndexGroupWarn
 *		Tell which indexes of a FIFO queue are missing.
 */
void
IndexGroupWarn(Relation rel, const RoleColumn *col)
{
	for (int which = 0; which < NUM_GROUP_INDEXES; which++)
	{
		char	   *sql = IndexGroupSql(RelationGetRelid(rel), col, which,
										rel->rd_rel->relkind == RELKIND_RELATION);

		if (sql != NULL && !OidIsValid(IndexFindGroup(rel, col, which, false)))
			ereport(WARNING,
					(errmsg("no index of \"%s\" serves %s",
							RelationGetRelationName(rel), purposes[which]),
					 errdetail("Each claim has to look for it in all unfinished messages, or in all of a group."),
					 errhint("%s;", sql)));
	}
}

/*
 * IndexGroupCreate
 *		Make those that are missing; the caller owns the table.
 */
void
IndexGroupCreate(Oid relid, const RoleColumn *col)
{
	for (int which = 0; which < NUM_GROUP_INDEXES; which++)
	{
		char	   *sql = IndexGroupSql(relid, col, which, false);
		Relation	rel = relation_open(relid, NoLock);
		bool		there = OidIsValid(IndexFindGroup(rel, col, which, false));

		relation_close(rel, NoLock);
		if (sql != NULL && !there)
			SetupExec(sql);
	}
}

/*
 * IndexGroupDrop
 *		Drop those that inbox has made.
 */
void
IndexGroupDrop(Oid relid, const RoleColumn *col)
{
	for (int which = 0; which < NUM_GROUP_INDEXES; which++)
	{
		Relation	rel = relation_open(relid, NoLock);
		Oid			index = IndexFindGroup(rel, col, which, true);

		relation_close(rel, NoLock);
		if (OidIsValid(index))
			SetupExec(psprintf("DROP INDEX %s", QualifiedName(index)));
	}
}
