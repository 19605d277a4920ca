/*-------------------------------------------------------------------------
 *
 * share.h
 *	  Consumers that divide a queue among them by partition_key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SHARE_H
#define INBOX_SHARE_H

#include "catalog/pg_collation.h"
#include "executor/tuptable.h"
#include "utils/fmgrprotos.h"

/*
 * One of several consumers: it gets the rows whose key falls to it, and those
 * without a key.
 */
typedef struct KeyShare
{
	int			number;			/* from 0 */
	int			of;
} KeyShare;

/*
 * Does the row in a slot fall to somebody else?  find.c says the same in SQL.
 */
static inline bool
ShareOfOthers(const KeyShare *share, AttrNumber attno, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		key;
	uint32		hash;

	if (share == NULL)
		return false;
	key = slot_getattr(slot, attno, &isnull);
	if (isnull)
		return false;
	hash = DatumGetUInt32(DirectFunctionCall1Coll(hashtext, C_COLLATION_OID, key));
	return (int) (hash & PG_INT32_MAX) % share->of != share->number;
}

#endif							/* INBOX_SHARE_H */
