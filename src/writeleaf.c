/*-------------------------------------------------------------------------
 *
 * writeleaf.c
 *	  The tables of a queue, opened for writing, and the way each is written.
 *
 * write.c tells the two ways and why there are two.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "changed.h"
#include "compat.h"
#include "settings.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "write.h"

/*
 * Could writing the columns of our roles move a row of this partition?
 */
static bool
may_move(Queue *q, Relation leaf)
{
	List	   *ancestors;
	ListCell   *lc;
	bool		result = false;

	if (!leaf->rd_rel->relispartition)
		return false;
	ancestors = get_partition_ancestors(RelationGetRelid(leaf));
	foreach(lc, ancestors)
	{
		Relation	rel = table_open(lfirst_oid(lc), AccessShareLock);
		PartitionKey key = RelationGetPartitionKey(rel);

		for (int i = 0; i < key->partnatts && !result; i++)
		{
			Role		role;

			/* an expression may contain any column */
			result = key->partattrs[i] == 0 ||
				(LabelReadRole(q->relid,
							   get_attnum(q->relid,
										  get_attname(RelationGetRelid(rel),
													  key->partattrs[i], false)),
							   &role) &&
				 role != ROLE_ID && role != ROLE_PAYLOAD &&
				 role != ROLE_PRIORITY && role != ROLE_ENQUEUED_AT &&
				 role != ROLE_PARTITION_KEY && role != ROLE_DEDUP_KEY);
		}
		table_close(rel, NoLock);
	}
	list_free(ancestors);
	return result;
}

/*
 * table_needs_sql
 *		Why writes of an event to a leaf need SQL, whoever makes them.
 */
static const char *
table_needs_sql(Relation leaf, Relation root, int16 event)
{
	TriggerDesc *trig = leaf->trigdesc;

	if (leaf->rd_rules != NULL || root->rd_rules != NULL)
		return "the table has a rule";
	if (HasGenerated(RelationGetDescr(leaf)))
		return "the table has a generated column";
	if (trig && (event == TRIGGER_TYPE_UPDATE ? trig->trig_update_before_row :
				 trig->trig_delete_before_row))
		return "the table has a BEFORE trigger";
	if (!ChangedOnlyOurs(trig, event) ||
		!ChangedOnlyOurs(root->trigdesc, event))
		return "the table has a statement trigger";
	return NULL;
}

/*
 * WriterNeedsSql
 *		Why writes of an event (TRIGGER_TYPE_UPDATE or TRIGGER_TYPE_DELETE) to
 *		a leaf need SQL, whatever the user's privileges; NULL when they do not.
 */
const char *
WriterNeedsSql(Queue *q, Relation leaf, Relation root, int16 event)
{
	if (QueueRowSecurity(q))
		return "row security applies";
	return table_needs_sql(leaf, root, event);
}

/*
 * find_ways
 *		The same for the queue's own table, which is asked for in each call:
 *		the answer lasts as long as the queue's entry.
 */
static void
find_ways(Queue *q, Relation rel)
{
	if (q->ways_known)
		return;
	q->update_needs_sql = may_move(q, rel) ||
		table_needs_sql(rel, rel, TRIGGER_TYPE_UPDATE) != NULL;
	q->delete_needs_sql = table_needs_sql(rel, rel, TRIGGER_TYPE_DELETE) != NULL;
	q->ways_known = true;
}

/*
 * wants_direct
 *		Is a table to be written directly that can be?
 *
 * Not with inbox.direct off.  But AFTER ROW triggers would then fire after
 * each row instead of at the end of the call, and the setting changes no
 * result.
 */
static bool
wants_direct(Relation leaf, int16 event)
{
	TriggerDesc *trig = leaf->trigdesc;

	return InboxDirect ||
		(trig && (event == TRIGGER_TYPE_UPDATE ? trig->trig_update_after_row :
				  trig->trig_delete_after_row));
}

/*
 * choose_way
 *		Which writes to this leaf need no SQL.
 */
static void
choose_way(Queue *q, RowLeaf *leaf, Relation root)
{
	Relation	rel = leaf->rel;

	leaf->rules = rel->rd_rules != NULL || root->rd_rules != NULL;
	leaf->has_checks = rel->rd_att->constr && rel->rd_att->constr->num_check > 0;
	leaf->needs_executor = WriteNeedsExecutor(rel);
	if (rel == root)
	{
		bool		by_policy = QueueRowSecurity(q);

		find_ways(q, rel);
		leaf->direct_update = !q->update_needs_sql && !by_policy;
		leaf->direct_delete = !q->delete_needs_sql && !by_policy;
	}
	else
	{
		leaf->direct_update = !may_move(q, rel) &&
			WriterNeedsSql(q, rel, root, TRIGGER_TYPE_UPDATE) == NULL;
		leaf->direct_delete =
			WriterNeedsSql(q, rel, root, TRIGGER_TYPE_DELETE) == NULL;
	}
	leaf->direct_update = leaf->direct_update &&
		wants_direct(rel, TRIGGER_TYPE_UPDATE) &&
		QueueHasRights(q, ACL_SELECT | ACL_UPDATE);
	leaf->direct_delete = leaf->direct_delete &&
		wants_direct(rel, TRIGGER_TYPE_DELETE) &&
		QueueHasRights(q, ACL_SELECT | ACL_DELETE);
}

/*
 * WriterLeaf
 *		The leaf a row was found in, opened at its first row.  That may be in
 *		a subtransaction, which it outlives.
 */
RowLeaf *
WriterLeaf(RowWriter *w, Oid relid)
{
	RowLeaf    *leaf;
	MemoryContext old;
	ResourceOwner owner = CurrentResourceOwner;

	for (leaf = w->leaves; leaf != NULL; leaf = leaf->next)
	{
		if (RelationGetRelid(leaf->rel) == relid)
			return leaf;
	}
	old = MemoryContextSwitchTo(w->cxt);
	CurrentResourceOwner = w->owner;
	leaf = palloc0(sizeof(RowLeaf));
	leaf->rel = table_open(relid, RowExclusiveLock);
	if (leaf->rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("queue \"%s\" has rows in \"%s\", which is not a table",
						w->q->relname, RelationGetRelationName(leaf->rel)),
				 errhint("Detach the foreign partition: its rows cannot be leased.")));
	QueueMapRoles(w->q, leaf->rel, leaf->attnos);
	leaf->old = table_slot_create(leaf->rel, NULL);
	if (relid == w->q->relid)
		choose_way(w->q, leaf, leaf->rel);
	else
	{
		Relation	root = table_open(w->q->relid, NoLock);

		choose_way(w->q, leaf, root);
		table_close(root, NoLock);
	}
	leaf->next = w->leaves;
	w->leaves = leaf;
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
	return leaf;
}
