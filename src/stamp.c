/*-------------------------------------------------------------------------
 *
 * stamp.c
 *	  inbox_stamp: lease the rows that the caller names.
 *
 * They are judged and locked like those a claim finds; what is not claimable,
 * or locked by another transaction, is left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "claim.h"
#include "errors.h"
#include "lease.h"
#include "locate.h"
#include "receipt.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(inbox_stamp);

static Datum *
read_ids(Queue *q, const ArgArray *ids)
{
	Datum	   *keys = palloc(ids->n * sizeof(Datum));

	for (int i = 0; i < ids->n; i++)
	{
		if (ids->nulls[i] ||
			!ReceiptParseId(q, TextDatumGetCString(ids->values[i]), &keys[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("element %d of ids is no id of queue \"%s\"",
							i + 1, q->relname),
					 errdetail("The queue's ids are of type %s.",
							   format_type_be(q->col[ROLE_ID].type))));
	}
	return keys;
}

/*
 * inbox_stamp
 *		Lease rows that the caller names; what is not claimable, or locked by
 *		another transaction, is left out.
 */
Datum
inbox_stamp(PG_FUNCTION_ARGS)
{
	Queue	   *q;
	ArgArray	ids;
	Datum	   *keys;
	int64		lease;
	DeliverySink sink;
	Locator		locator;
	Claim		c;

	ArgRequireWritable("inbox_stamp");
	q = QueueOpen(ArgQueue(fcinfo, 0), RowExclusiveLock);
	ArgNotNull(fcinfo, 1, "ids");
	ArgGetArray(fcinfo, 1, TEXTOID, &ids);
	lease = LeaseSeconds(q, fcinfo, 2);
	QueueCheckRights(q, ACL_SELECT | ACL_UPDATE);
	DeliverCheckRights(q, SHAPE_DELIVERY);
	keys = read_ids(q, &ids);
	DeliverBegin(&sink, fcinfo, q, SHAPE_DELIVERY);
	if (q->settings.paused)
	{
		QueueClose(q);
		return (Datum) 0;
	}
	ClaimBegin(&c, q, lease, &sink);
	LocateBegin(&locator, &c.writer);
	for (int i = 0; i < ids.n; i++)
	{
		ItemPointerData tid;
		RowLeaf    *leaf = LocateVisible(&locator, keys[i], &tid);
		LeaseRow	row;

		if (leaf == NULL)
			continue;
		LeaseReadRow(q, leaf->attnos, leaf->old, &row);
		if (LeaseClaimable(q, &row, c.now))
			(void) ClaimTake(&c, RelationGetRelid(leaf->rel), &tid);
	}
	LocateEnd(&locator);
	ClaimEnd(&c);
	QueueClose(q);
	return (Datum) 0;
}
