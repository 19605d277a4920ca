/*-------------------------------------------------------------------------
 *
 * subown.c
 *	  What a handler does to the row of its own message.
 *
 * A handler may delete the row, as it would in a queue without settlements,
 * or settle its delivery in another way than as done: it has the receipt.
 * That is its decision, and takes effect with its other effects.  To the
 * settlement afterwards the row looks as if the lease had been lost.
 *
 * The two are told apart by what the row was before the handler began: a
 * snapshot of now, but with the command counter of then, sees what others have
 * done (the keeper may have extended the lease) and nothing of the handler's.
 * If the receipt holds that version, nobody but the handler can have changed
 * it: the version that the handler has written or deleted is locked since.
 *
 * Called by subgroup.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "locate.h"
#include "subgroup.h"
#include "subshared.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

/*
 * held_before
 *		Did this receipt hold its row when the handler began?
 */
static bool
held_before(Queue *q, RowWriter *writer, const Receipt *receipt,
			CommandId begun)
{
	SnapshotData snapshot;
	Oid			relid;
	ItemPointerData tid;
	RowLeaf    *leaf;
	LeaseRow	row;

	memcpy(&snapshot, GetLatestSnapshot(), sizeof(SnapshotData));
	snapshot.curcid = begun;
	if (!LocateBySql(q, receipt->id, &snapshot, &relid, &tid))
		return false;
	leaf = WriterLeaf(writer, relid);
	if (!table_tuple_fetch_row_version(leaf->rel, &tid, SnapshotAny, leaf->old))
		return false;
	LeaseReadRow(q, leaf->attnos, leaf->old, &row);
	return ReceiptHeld(q, receipt, &row);
}

/*
 * receipt_now
 *		The receipt that the row is leased by now; NULL: it is not.
 */
static char *
receipt_now(Queue *q, RowWriter *writer, Datum id)
{
	Locator		loc;
	ItemPointerData tid;
	RowLeaf    *leaf;
	LeaseRow	row;
	char	   *receipt = NULL;

	LocateBegin(&loc, writer);
	leaf = LocateVisible(&loc, id, &tid);
	if (leaf != NULL)
	{
		LeaseReadRow(q, leaf->attnos, leaf->old, &row);
		if (row.leased && !row.resting && !row.finished)
			receipt = ReceiptText(q, id, &row);
	}
	LocateEnd(&loc);
	return receipt;
}

/*
 * BatchOwnDoing
 *		A settlement was told that the row is gone, or not held any more: is that
 *		the handler's own doing?  Where an extension makes another receipt, it
 *		may have been one, and the message is settled by that.
 */
bool
BatchOwnDoing(BatchGroup *g, Queue *q, int item, SettleRequest *request)
{
	KeptRow    *kept = g->w->rows[item];
	bool		changing = !QueueHas(q, ROLE_CLAIMED_AT);
	RowWriter	writer;
	Receipt		receipt;
	bool		own;

	ReceiptParse(q, cstring_to_text(kept->receipt), &receipt);
	WriterBegin(&writer, q);
	own = held_before(q, &writer, &receipt, kept->begun);
	if (!own && changing)
	{
		ReceiptParse(q, cstring_to_text(SubSlotReceipt(item)), &receipt);
		own = held_before(q, &writer, &receipt, kept->begun);
	}
	if (own && changing)
	{
		char	   *now = receipt_now(q, &writer, receipt.id);
		Datum		datum;

		if (now != NULL)
		{
			datum = CStringGetTextDatum(now);
			(void) SettleAll(q, &datum, request, 1);
		}
	}
	WriterEnd(&writer);
	return own;
}
