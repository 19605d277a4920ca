/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  Find claimable rows by walking the claim index, without SQL.
 *
 * For plain tables, those that write.c writes directly.  The walk goes over
 * the ranges of the open set (hints.c), each from its lower end.  Within a
 * range it goes level by level of priority: one index scan finds what is due
 * on a level, from a lower bound on due time and id; one more probe finds
 * the next level.
 *
 * Rows are read as of now, with SnapshotSelf: no snapshot has to be taken,
 * none of the transaction's own is asked, and nothing enters the read set of
 * a serializable transaction.  A row whose version changes while we look may
 * be missed.  That is no harm: whoever leaves it claimable opens its key
 * after our look at the hints, and then we do not pass it (rules 1 to 3).
 *
 * What a walk passes it reports as it goes: rows taken by WalkTook, leased
 * rows in runs, noted before anything behind them is passed (rule 5).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/subtrans.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "hints.h"
#include "miscadmin.h"
#include "settings.h"
#include "storage/procarray.h"
#include "totals.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "walk.h"

/*
 * WalkUsable
 *		May this caller's claims on the queue walk?
 */
bool
WalkUsable(RowLeaf *leaf, Queue *q)
{
	return InboxDirect && OidIsValid(q->order_index) && leaf->direct_update;
}

/*
 * WalkBegin
 *		Reads the hints before the first row is read: rule 2.
 */
void
WalkBegin(Walk *w, Queue *q, RowLeaf *leaf, TimestampTz now, text *group,
		  int64 max_rows)
{
	memset(w, 0, offsetof(Walk, view));
	w->q = q;
	w->leaf = leaf;
	w->now = now;
	w->group = group;
	w->share = NULL;
	w->max_rows = max_rows;
	w->passing = HintsFor(q) != NULL && group == NULL &&
		q->settings.dead_group == NULL;
	WalkReadHints(w);
	w->wrote = TransactionIdIsValid(GetTopTransactionIdIfAny());
	w->stride = (int) Max(1, Min(max_rows / 16, 16));
	w->unpassed = w->idle = 0;
	w->steps = w->probes = w->dead = w->taken = 0;
	w->peek = false;
	w->want_due = false;
	w->next_due = PG_INT64_MAX;
	w->leased.any = false;
	w->index = NULL;
	w->scan = NULL;
	w->fetch = NULL;
	w->slot = table_slot_create(leaf->rel, NULL);
}

/*
 * WalkShare
 *		Rows with a key that falls to another share are stepped over.
 */
void
WalkShare(Walk *w, const KeyShare *share)
{
	w->share = share;
	w->passing = false;
}

/*
 * The key up to which a row may be passed.  A key that stands for several
 * rows is not passed with the first of them.
 */
static HintKey
passable(Walk *w, const HintRange *keys)
{
	return w->q->integer_id ? keys->hi : KeyBefore(&keys->lo);
}

static bool
other_group(Walk *w)
{
	AttrNumber	attno = w->leaf->attnos[ROLE_GROUP_KEY];
	bool		isnull;
	Datum		datum;

	if (w->group == NULL && w->q->settings.dead_group == NULL)
		return false;
	datum = slot_getattr(w->slot, attno, &isnull);
	if (w->group != NULL)
		return isnull ||
			!DatumGetBool(DirectFunctionCall2Coll(texteq,
												  TupleDescAttr(RelationGetDescr(w->leaf->rel), attno - 1)->attcollation,
												  datum, PointerGetDatum(w->group)));
	return !isnull && strcmp(TextDatumGetCString(datum),
							 w->q->settings.dead_group) == 0;
}

/*
 * next_row
 *		The next row of the scan.  Unlike index_getnext_slot this counts the
 *		entries of rows that are gone, and does not look for another version of
 *		the row it found: that would be the lease we have just written.
 */
static bool
next_row(Walk *w)
{
	if (w->ahead != AHEAD_NONE && AheadNext(w))
		return true;
	if (!w->scanning || w->ahead == AHEAD_LEVEL_END)
		return false;
	while (index_getnext_tid(w->scan, ForwardScanDirection) != NULL)
	{
		if ((++w->steps & 0xff) == 0)
			CHECK_FOR_INTERRUPTS();
		if (index_fetch_heap(w->scan, w->slot))
			return true;
		w->dead++;
		if (WalkIdle(w))
			return false;
	}
	return false;
}

/*
 * WalkNext
 *		The next row that was claimable when we read it.
 */
bool
WalkNext(Walk *w, ItemPointer tid)
{
	Queue	   *q = w->q;

	for (;;)
	{
		LeaseRow	row;

		if (!w->scanning && !WalkAdvance(w))
			return false;
		if (!next_row(w))
		{
			/* not so when the walk goes on behind others */
			if (w->scanning && WalkRangeEnds(w))
				WalkEndRange(w);
			else if (!WalkAdvance(w))
				return false;
			continue;
		}
		KeysOfRow(q, w->leaf->attnos, w->slot, &w->keys);
		if (KeyCompare(&w->keys.lo, &WalkRange(w)->hi) > 0)
		{
			WalkEndRange(w);
			continue;
		}
		LeaseReadRow(q, w->leaf->attnos, w->slot, &row);
		if (LeaseClaimable(q, &row, w->now))
		{
			if (other_group(w) ||
				ShareOfOthers(w->share, w->leaf->attnos[ROLE_PARTITION_KEY],
							  w->slot) || !WalkReserve(w))
				continue;
			*tid = w->slot->tts_tid;
			return true;
		}
		if (row.leased && row.locked_until > w->now && !row.finished)
			WalkAddLeased(w, &row);
		w->seen = passable(w, &w->keys);
		(void) WalkIdle(w);
	}
}

/*
 * may_pass_locked
 *		Rule 6: will whoever has the row locked tell what becomes of it?  Also
 *		true of a row that is not locked any more.
 */
static bool
may_pass_locked(Walk *w)
{
	bool		should_free;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(w->slot, false, &should_free);
	uint16		infomask = tuple->t_data->t_infomask;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(tuple->t_data);

	if ((infomask & HEAP_XMAX_IS_MULTI) || !TransactionIdIsNormal(xmax))
		return false;
	if (!TransactionIdIsInProgress(xmax))
		return true;
	return !HEAP_XMAX_IS_LOCKED_ONLY(infomask) &&
		HintsIsClaimer(SubTransGetTopmostTransaction(xmax));
}

/*
 * WalkTook
 *		Tells what became of the row that WalkNext returned.
 */
void
WalkTook(Walk *w, bool taken)
{
	if (!taken && w->passing &&
		!(may_pass_locked(w) && HintsPassLocked(&w->view, &w->keys, w->now)))
		WalkLeave(w);
	w->seen = passable(w, &w->keys);
	w->taken += taken;
	if (taken && ++w->unpassed >= w->stride)
		WalkPassTo(w, &w->seen);
}

/*
 * WalkLeaseKind
 *		Which ledger the lease of the row at hand goes into; "row" is the
 *		version that was claimable.
 */
LeaseKind
WalkLeaseKind(const Walk *w, const LeaseRow *row)
{
	HintKey		level_end = {w->keys.lo.priority, PG_INT64_MAX, PG_INT64_MAX};

	if (KeyCompare(&w->view.open.range[w->range].hi, &level_end) >= 0)
		return LEASE_NEW;
	switch (LeaseReported(w->q, row))
	{
		case 1:
			return LEASE_REVISITED;
		case 2:
			return LEASE_SECOND;
		default:
			return LEASE_LATER;
	}
}

void
WalkEnd(Walk *w)
{
	if (w->unpassed > 0)
		WalkPassTo(w, &w->seen);
	WalkNoteLeased(w);
	TotalsWalked(w->q, w->steps, w->dead, w->taken);
	if (w->fetch != NULL)
		table_index_fetch_end(w->fetch);
	if (w->scan != NULL)
	{
		AheadKeep(w);
		index_endscan(w->scan);
		index_close(w->index, NoLock);
	}
	ExecDropSingleTupleTableSlot(w->slot);
}
