/*-------------------------------------------------------------------------
 *
 * hintkey.c
 *	  Where a row version is in the claim order of its queue.
 *
 * Whoever makes a row claimable, takes one or looks for one needs its key:
 * claims and settlements, sends, the triggers, the reaper.  The key of an
 * entry of the claim index is read in walkscan.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "hints.h"

static int64
order_value(TupleTableSlot *slot, AttrNumber attno, Oid type, int64 null_value)
{
	bool		isnull;
	Datum		datum = slot_getattr(slot, attno, &isnull);

	return isnull ? null_value : RoleInteger(type, datum);
}

/*
 * KeysOfRow
 *		Where a row version is in the claim order.
 */
void
KeysOfRow(Queue *q, const AttrNumber *attnos, TupleTableSlot *slot,
		  HintRange *keys)
{
	HintKey    *key = &keys->lo;

	key->priority = key->due = key->id = 0;
	if (attnos[ROLE_PRIORITY] != 0)
		key->priority = order_value(slot, attnos[ROLE_PRIORITY],
									q->col[ROLE_PRIORITY].type, PG_INT64_MAX);
	if (attnos[ROLE_DUE_AT] != 0)
		key->due = order_value(slot, attnos[ROLE_DUE_AT], INT8OID, PG_INT64_MAX);
	if (q->integer_id)
		key->id = order_value(slot, attnos[ROLE_ID], q->col[ROLE_ID].type, 0);
	keys->hi = keys->lo;
	if (!q->integer_id)
	{
		keys->lo.id = PG_INT64_MIN;
		keys->hi.id = PG_INT64_MAX;
	}
}
