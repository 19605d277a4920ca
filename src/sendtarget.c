/*-------------------------------------------------------------------------
 *
 * sendtarget.c
 *	  What a send must know of a queue's table.
 *
 * INSERT is the only right that a send needs, and RETURNING would need SELECT.
 * So the id is made before the row is: its column's default is evaluated
 * here, with the caller's rights as the server would, and inserted as a value.
 * Where that cannot tell the id (the column has no default, it is generated
 * from others, or a trigger may change it) the statement returns it.
 *
 * A target hangs on its queue's cache entry and goes with it, so every change
 * of the table makes a new one.  Only the triggers of a partition can change
 * without that; they are looked up at each send.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "indexcheck.h"
#include "rewrite/rewriteHandler.h"
#include "send.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* the roles that a send fills */
static const Role sent_roles[] = {
	ROLE_ID, ROLE_PAYLOAD, ROLE_HEADERS, ROLE_DUE_AT, ROLE_PRIORITY,
	ROLE_GROUP_KEY, ROLE_PARTITION_KEY, ROLE_DEDUP_KEY
};

static void
read_field(SendField *field, Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	/* unnest would take a composite value apart */
	field->arraytype = type_is_rowtype(att->atttypid) ? InvalidOid :
		get_array_type(att->atttypid);
	field->typmod = att->atttypmod;
	field->typlen = att->attlen;
	field->typbyval = att->attbyval;
	field->typalign = att->attalign;
	field->not_null = att->attnotnull;
	field->generated = att->attgenerated != '\0';
	if (!field->generated)
		field->default_expr = build_column_default(rel, attno);
}

static SendTarget *
build_target(Queue *q, Relation rel)
{
	SendTarget *target = MemoryContextAllocZero(q->cxt, sizeof(SendTarget));
	TriggerDesc *triggers = rel->trigdesc;
	Oid			func;
	Oid			base;
	bool		isvarlena;

	for (int i = 0; i < lengthof(sent_roles); i++)
	{
		if (QueueHas(q, sent_roles[i]))
			read_field(&target->field[sent_roles[i]], rel,
					   q->col[sent_roles[i]].attno);
	}
	target->id_returned =
		target->field[ROLE_ID].default_expr == NULL ||
		(triggers != NULL && triggers->trig_insert_before_row);
	target->id_missing =
		target->field[ROLE_ID].default_expr == NULL &&
		!target->field[ROLE_ID].generated &&
		(triggers == NULL || !triggers->trig_insert_before_row) &&
		q->relkind == RELKIND_RELATION;
	getTypeOutputInfo(q->col[ROLE_ID].type, &func, &isvarlena);
	fmgr_info_cxt(func, &target->id_out, q->cxt);
	if (QueueHas(q, ROLE_PAYLOAD))
	{
		getTypeInputInfo(q->col[ROLE_PAYLOAD].type, &func,
						 &target->payload_ioparam);
		fmgr_info_cxt(func, &target->payload_in, q->cxt);
		base = getBaseType(q->col[ROLE_PAYLOAD].type);
		target->payload_nested = type_is_rowtype(base) ||
			OidIsValid(get_element_type(base));
	}
	return target;
}

SendTarget *
SendTargetGet(Queue *q)
{
	if (q->send == NULL)
	{
		Relation	rel = table_open(q->relid, NoLock);
		MemoryContext old = MemoryContextSwitchTo(q->cxt);

		q->send = build_target(q, rel);
		MemoryContextSwitchTo(old);
		table_close(rel, NoLock);
	}
	return q->send;
}

static bool
has_before_row_trigger(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		found;
	Relation	rel;

	if (!HeapTupleIsValid(tuple))
		return false;
	found = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	if (!found)
		return false;
	rel = try_table_open(relid, AccessShareLock);
	if (rel == NULL)
		return false;
	found = rel->trigdesc != NULL && rel->trigdesc->trig_insert_before_row;
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * SendTargetReturnsId
 *		Must the statement return the id, because it cannot be told before?
 */
bool
SendTargetReturnsId(Queue *q)
{
	SendTarget *target = SendTargetGet(q);
	List	   *relids;
	ListCell   *lc;

	if (target->id_missing)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("queue \"%s\" has no default for its id column",
						q->relname),
				 errhint("Give the column a default, or send with a plain INSERT that names the id.")));
	if (target->id_returned || q->relkind != RELKIND_PARTITIONED_TABLE)
		return target->id_returned;
	relids = find_all_inheritors(q->relid, NoLock, NULL);
	foreach(lc, relids)
	{
		if (has_before_row_trigger(lfirst_oid(lc)))
			return true;
	}
	return false;
}

/*
 * SendTargetCheckDedup
 *		Raise an error unless an index decides which send of a key is first.
 *		inbox_adopt has asked the same, but indexes can be dropped.
 */
void
SendTargetCheckDedup(Queue *q)
{
	SendTarget *target = SendTargetGet(q);
	Relation	rel;

	if (OidIsValid(target->dedup_index))
		return;
	rel = table_open(q->relid, NoLock);
	target->dedup_index = IndexCheckDedup(rel, q->col);
	table_close(rel, NoLock);
}
