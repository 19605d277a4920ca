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
 * group_of_row
 *		The key of the FIFO group a row version belongs to; NULL: to none.
 */
static text *
group_of_row(Queue *q, const AttrNumber *attnos, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		datum;
	text	   *key;

	if (!q->settings.fifo || attnos[ROLE_GROUP_KEY] == 0)
		return NULL;
	datum = slot_getattr(slot, attnos[ROLE_GROUP_KEY], &isnull);
	if (isnull)
		return NULL;
	key = DatumGetTextPP(datum);
	return LeaseInDeadGroup(q, key) ? NULL : key;
}

/*
 * begin_groups
 *		What a FIFO group allows is found out as in a claim.
 */
static GroupFind *
begin_groups(Claim *c)
{
	GroupFind  *groups;

	if (!c->q->settings.fifo)
		return NULL;
	groups = palloc(sizeof(GroupFind));
	GroupBegin(groups, &c->writer, c->now, NULL);
	if (!groups->direct)
		SPI_connect();
	return groups;
}

static void
end_groups(GroupFind *groups)
{
	if (groups == NULL)
		return;
	GroupEnd(groups);
	if (!groups->direct)
		SPI_finish();
	pfree(groups);
}

/*
 * stamp_row
 *		Lease a row that is claimable, unless its group forbids it.
 */
static void
stamp_row(Claim *c, GroupFind *groups, RowLeaf *leaf, ItemPointer tid,
		  bool grouped)
{
	Oid			relid = RelationGetRelid(leaf->rel);
	text	   *key = NULL;
	bool		took;

	if (grouped)
	{
		key = group_of_row(c->q, leaf->attnos, leaf->old);
		key = GroupCopyKey(groups, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
		if (!GroupTry(groups, key, relid, tid))
			return;
	}
	took = ClaimTake(c, grouped ? groups : NULL, relid, tid);
	if (grouped)
		GroupTook(groups, took);
	GroupFreeKey(&key);
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
	GroupFind  *groups;

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
	groups = begin_groups(&c);
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
			stamp_row(&c, groups, leaf, &tid, row.grouped);
	}
	LocateEnd(&locator);
	end_groups(groups);
	ClaimEnd(&c);
	QueueClose(q);
	return (Datum) 0;
}
