/*-------------------------------------------------------------------------
 *
 * walkahead.c
 *	  The index entries behind the last row a walk has taken, remembered.
 *
 * A scan of the claim index reads a whole page of it, some 250 entries, and a
 * claim of one row uses the first.  That was the largest part of what such a
 * claim costs.  So a walk that ends in the middle of a page keeps a copy of
 * the entries behind it, in the queue's cache entry, and the next walks of
 * this session go to the rows by these.  Nothing is believed of a row but
 * what is read there and then; the copy says only where rows may be.
 *
 * What makes it good enough.  The copy has all index entries with keys from
 * "from" to "to" that there were when the hints had the number "generation"
 * (the hints' log, see hints.c), because the page was read after the number.
 *
 * 1. A row that comes to one of these keys later is opened there, after its
 *	  index entry is made, and that is in the log from "generation" on.  So a
 *	  walk uses the copy only if since then nothing has been opened at or
 *	  below "to".  As that walk has read the hints before (rule 2), what is
 *	  opened later keeps it from passing (rule 3), just as if it had read
 *	  the index itself.  Then it may also move "generation" up to its own.
 * 2. What the transaction itself has made claimable is in no log yet: with
 *	  such rows the index is read.
 * 3. A row that has moved to another page has an entry that the copy lacks.
 *	  It was claimable before or after the move; if after, its key has been
 *	  opened, and if before, it is leased now and in a ledger, or its claim
 *	  has yet to tell (rule 5).  Unless the hints have been forgotten: that
 *	  makes every copy void, as the log then begins anew.
 * 4. Nobody keeps VACUUM from removing a row that the copy points to, and its
 *	  place may be used again, by whatever row.  So the key of what is found
 *	  must be the entry's.  The table may even end before that place.
 * 5. A key that is not due by this walk's clock ends the level, as the scan
 *	  would (rule 7).
 *
 * The queue's cache entry goes when the table or an index of it changes, the
 * copy with it.  A walk that does not pass (a filter) neither uses nor keeps
 * one, nor does a revisit: it would throw away that of the position.
 *
 * Called by walk.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "pending.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "walk.h"

/* more are wanted than a page has: the copy is not worth the while */
#define MANY_ROWS	200

typedef struct AheadEntry
{
	ItemPointerData tid;
	LocationIndex tuple;		/* offset into "tuples" */
} AheadEntry;

typedef struct WalkAhead
{
	uint64		serial;			/* of what is in here */
	uint64		generation;
	HintKey		from;
	HintKey		to;
	int			n;				/* 0: there is no copy */
	TupleDesc	desc;			/* the index's */
	AheadEntry	entry[MaxTIDsPerBTreePage];
	char		tuples[BLCKSZ] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} WalkAhead;

static HintKey
entry_key(const Walk *w, const WalkAhead *ahead, int i)
{
	HintKey		key;

	WalkEntryKey(w->q, (IndexTuple) (ahead->tuples + ahead->entry[i].tuple),
				 ahead->desc, &key);
	return key;
}

/*
 * May this walk, where it is, use or make a copy?
 */
static bool
suitable(const Walk *w)
{
	HintKey		level_end = {w->lower.priority, PG_INT64_MAX, PG_INT64_MAX};

	return w->passing && w->q->integer_id &&
		KeyCompare(&w->view.open.range[w->range].hi, &level_end) >= 0;
}

/*
 * first_from
 *		The first entry at or behind a key; n if there is none.
 */
static int
first_from(const Walk *w, const WalkAhead *ahead, const HintKey *key)
{
	int			low = 0;
	int			high = ahead->n;

	while (low < high)
	{
		int			mid = (low + high) / 2;
		HintKey		here = entry_key(w, ahead, mid);

		if (KeyCompare(&here, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/*
 * AheadBegin
 *		Begin the level of w->lower in the copy; false when the index must be
 *		read.
 */
bool
AheadBegin(Walk *w)
{
	WalkAhead  *ahead = w->q->ahead;
	HintKey		lowest;

	if (ahead == NULL || ahead->n == 0 || !suitable(w) ||
		KeyCompare(&w->lower, &ahead->from) < 0 ||
		KeyCompare(&w->lower, &ahead->to) > 0 ||
		PendingOwnsAny(w->view.hints, w->now))
		return false;
	if (!HintsLowestSince(w->view.hints, ahead->generation, &lowest) ||
		KeyCompare(&lowest, &ahead->to) <= 0)
	{
		ahead->n = 0;
		ahead->serial++;
		return false;
	}
	ahead->generation = w->view.generation;
	w->ahead = first_from(w, ahead, &w->lower);
	w->serial = ahead->serial;
	w->blocks = RelationGetNumberOfBlocks(w->leaf->rel);
	if (w->fetch == NULL)
		w->fetch = table_index_fetch_begin(w->leaf->rel);
	w->scanning = true;
	return true;
}

/*
 * AheadNext
 *		The next row by the copy, in w->slot.  False at the end of the level,
 *		or at that of the copy: then the walk goes on in the index.
 */
bool
AheadNext(Walk *w)
{
	WalkAhead  *ahead = w->q->ahead;

	/* a claim within this one, in a user's function, has made another copy */
	if (ahead->serial != w->serial)
	{
		w->ahead = AHEAD_NONE;
		w->lower = KeyAfter(&w->seen);
		WalkScanLevel(w);
		return false;
	}
	while (w->ahead < ahead->n)
	{
		HintKey		key = entry_key(w, ahead, w->ahead);
		ItemPointerData tid = ahead->entry[w->ahead++].tid;
		bool		again = false;

		if (key.due > w->now)
		{
			w->ahead = AHEAD_LEVEL_END;
			return false;
		}
		if ((++w->steps & 0xff) == 0)
			CHECK_FOR_INTERRUPTS();
		if (ItemPointerGetBlockNumber(&tid) < w->blocks &&
			table_index_fetch_tuple(w->fetch, &tid, SnapshotSelf, w->slot,
									&again, NULL))
		{
			HintRange	found;

			KeysOfRow(w->q, w->leaf->attnos, w->slot, &found);
			if (KeyCompare(&found.lo, &key) == 0)
				return true;
		}
		w->dead++;
		if (WalkIdle(w))
			return false;
	}
	w->ahead = AHEAD_NONE;
	w->lower = KeyAfter(&ahead->to);
	WalkScanLevel(w);
	return false;
}

/*
 * AheadKey
 *		WalkScanAhead for the entries of the copy.
 */
void
AheadKey(const Walk *w, int64 entries, HintKey *key)
{
	WalkAhead  *ahead = w->q->ahead;
	int			last = (int) Min(w->ahead + entries - 2, ahead->n - 1);

	*key = entry_key(w, ahead, last);
}

static WalkAhead *
ahead_of(Queue *q, Relation index)
{
	if (q->ahead == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(q->cxt);
		WalkAhead  *ahead = palloc(sizeof(WalkAhead));

		ahead->n = 0;
		ahead->serial = 0;
		ahead->desc = CreateTupleDescCopy(RelationGetDescr(index));
		q->ahead = ahead;
		MemoryContextSwitchTo(old);
	}
	return q->ahead;
}

/*
 * AheadKeep
 *		The walk ends in a scan of the index: keep what it has read and not
 *		gone to.
 */
void
AheadKeep(Walk *w)
{
	BTScanOpaque scan = (BTScanOpaque) w->scan->opaque;
	BTScanPos	pos = &scan->currPos;
	WalkAhead  *ahead;

	/* the row that a look has found is still to be taken, and not in the copy */
	if (w->peek || !w->scanning || w->ahead != AHEAD_NONE ||
		w->max_rows > MANY_ROWS || !suitable(w) ||
		!BTScanPosIsValid(*pos) || scan->currTuples == NULL ||
		pos->itemIndex >= pos->lastItem)
		return;
	ahead = ahead_of(w->q, w->index);
	ahead->n = 0;
	ahead->serial++;
	ahead->generation = w->view.generation;
	memcpy(ahead->tuples, scan->currTuples, pos->nextTupleOffset);
	for (int i = pos->itemIndex + 1; i <= pos->lastItem; i++)
	{
		ahead->entry[ahead->n].tid = pos->items[i].heapTid;
		ahead->entry[ahead->n++].tuple = pos->items[i].tupleOffset;
	}
	ahead->from = KeyAfter(&w->seen);
	ahead->to = entry_key(w, ahead, ahead->n - 1);
}
