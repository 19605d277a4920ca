/*-------------------------------------------------------------------------
 *
 * queueroles.c
 *	  What a queue's columns and indexes are good for, and who may use them.
 *
 * Read from labels and catalogs when the queue's cache entry is made.  No code
 * of the table's owner runs: whoever meets the queue makes the entry.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "errors.h"
#include "indexcheck.h"
#include "queue.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * QueueIdIndex
 *		A unique index on the id column alone, by which a row can be found
 *		without SQL; a table with children has none.
 *
 * Whether an index is partial, its row of pg_index tells.  Asking the
 * relcache for the predicate would evaluate constant parts of it, and so run
 * functions of the table's owner as whoever meets the queue.
 */
Oid
QueueIdIndex(Relation rel, AttrNumber id)
{
	List	   *indexes;
	ListCell   *lc;
	Oid			found = InvalidOid;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relhassubclass)
		return InvalidOid;
	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (form->indisvalid && form->indisunique && form->indimmediate &&
			form->indnkeyatts == 1 && form->indkey.values[0] == id &&
			index->rd_rel->relam == BTREE_AM_OID &&
			heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
			found = RelationGetRelid(index);
		index_close(index, AccessShareLock);
		if (OidIsValid(found))
			break;
	}
	list_free(indexes);
	return found;
}

/*
 * ALTER TABLE changes a column's type without asking the label.
 */
static void
broken_column(Queue *q, Form_pg_attribute att, Role role)
{
	ereport(ERROR,
			(errcode(ERRCODE_INBOX_BROKEN_QUEUE),
			 errmsg("column \"%s\" of queue \"%s\" cannot have role \"%s\" any more",
					NameStr(att->attname), q->relname, RoleName(role)),
			 errdetail("It is of type %s.",
					   format_type_with_typemod(att->atttypid, att->atttypmod)),
			 errhint("The role needs %s.", RoleTypesText(role))));
}

static bool
is_plain(Queue *q, Relation rel)
{
	RoleColumn *priority = &q->col[ROLE_PRIORITY];

	return rel->rd_rel->relkind == RELKIND_RELATION &&
		!rel->rd_rel->relhassubclass && !rel->rd_rel->relispartition &&
		(priority->type != INT8OID || priority->notnull);
}

/*
 * QueueOrderIndex
 *		An index that claims can walk; a table with children has none.  Of a
 *		bigint that may be NULL, keys cannot tell NULL from the largest value.
 */
Oid
QueueOrderIndex(Queue *q, Relation rel)
{
	return is_plain(q, rel) ? IndexFindOrder(rel, q->col) : InvalidOid;
}

/*
 * QueueGroupIndexes
 *		The same for the indexes that claims on a FIFO queue walk.
 */
void
QueueGroupIndexes(Queue *q, Relation rel)
{
	if (!is_plain(q, rel))
		return;
	q->group_index = IndexFindGroup(rel, q->col, GROUP_INDEX_GROUPS, false);
	q->head_index = IndexFindGroup(rel, q->col, GROUP_INDEX_HEADS, false);
	q->lease_index = IndexFindGroup(rel, q->col, GROUP_INDEX_LEASES, false);
}

static void
require_role(Queue *q, Role role)
{
	if (!QueueHas(q, role))
		ereport(ERROR,
				(errcode(ERRCODE_INBOX_BROKEN_QUEUE),
				 errmsg("queue \"%s\" has no column with role \"%s\"",
						q->relname, RoleName(role)),
				 errhint("Call inbox_forget, then inbox_adopt.")));
}

/*
 * Columns may have been dropped, or let go of NOT NULL, since the table was
 * made a queue.
 */
static void
check_roles(Queue *q)
{
	require_role(q, ROLE_ID);
	require_role(q, ROLE_LOCKED_UNTIL);
	if (q->settings.max_attempts > 0)
		require_role(q, ROLE_ATTEMPT);
	if (q->settings.dead_group != NULL || q->settings.fifo)
		require_role(q, ROLE_GROUP_KEY);
	if (!q->col[ROLE_ID].notnull)
		ereport(ERROR,
				(errcode(ERRCODE_INBOX_BROKEN_QUEUE),
				 errmsg("id column %s of queue \"%s\" allows nulls",
						q->colname[ROLE_ID], q->relname),
				 errhint("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;",
						 q->name, q->colname[ROLE_ID])));
}

/*
 * QueueReadRoles
 *		Fill in the columns of an entry; an error when they will not do.
 */
void
QueueReadRoles(Queue *q, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
		Role		role;

		if (att->attisdropped || !LabelReadRole(q->relid, attno, &role) ||
			role >= NUM_QUEUE_ROLES)
			continue;
		if (!RoleTypeFits(role, att->atttypid, att->atttypmod))
			broken_column(q, att, role);
		q->col[role].attno = attno;
		q->col[role].type = att->atttypid;
		q->col[role].notnull = att->attnotnull;
		q->col[role].collation = att->attcollation;
		q->colname[role] = pstrdup(quote_identifier(NameStr(att->attname)));
	}
	check_roles(q);
}

/*
 * QueueMapRoles
 *		Where the roles' columns are in one table of the queue: the queue's
 *		own table, a partition, or a child, whose columns may be in another
 *		order.
 */
void
QueueMapRoles(Queue *q, Relation leaf, AttrNumber *attnos)
{
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		AttrNumber	attno = q->col[role].attno;

		if (attno != 0 && RelationGetRelid(leaf) != q->relid)
			attno = get_attnum(RelationGetRelid(leaf),
							   get_attname(q->relid, attno, false));
		attnos[role] = attno;
	}
}
