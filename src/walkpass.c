/*-------------------------------------------------------------------------
 *
 * walkpass.c
 *	  What a walk tells the hints as it goes, and how it keeps clear of the
 *	  walks of others.
 *
 * Many claimers begin at one place.  If each passed rows only after it has
 * taken them, all would go over the same rows, find them locked, leased or
 * gone, and do so again at the next place.  So a walk that has come to a
 * claimable row reserves it, and as many index entries behind it as it still
 * wants rows: it passes them all at once, before it takes the first (rule 4
 * of hints.c).  Then it has them for itself.  A walk that finds its place
 * passed by others reads the hints once more and goes on where they are not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pending.h"
#include "utils/inval.h"
#include "utils/timestamp.h"
#include "walk.h"

/* what a note costs to look at later is spread over this much more time */
#define PACE_USECS		5
/* after so many entries that are of no use, see whether others are ahead */
#define MAX_IDLE		32

/*
 * WalkReadHints
 *		What the walk is to go over: rule 2.  Settings that have changed since
 *		the hints were opened for them must be known, too.
 */
void
WalkReadHints(Walk *w)
{
	HintsRead(&w->view, HintsFor(w->q), w->now);
	if (w->view.hints != NULL)
		PendingOwn(w->view.hints, &w->view.open, w->now);
	w->range = 0;
	w->scanning = false;
	w->ahead = AHEAD_NONE;
	AcceptInvalidationMessages();
	if (!w->q->valid)
		w->passing = false;
	if (w->view.open.n > 0)
		w->lower = w->from = w->view.open.range[0].lo;
}

/*
 * WalkLookAfter
 *		When to look again at what this walk passes, if that may be of use from
 *		a time on.
 */
TimestampTz
WalkLookAfter(const Walk *w, TimestampTz t)
{
	return Max(t, w->now + (w->steps + w->probes) * PACE_USECS);
}

/*
 * WalkNoteLeased
 *		Note the run of leased rows at hand, before it is passed.
 */
void
WalkNoteLeased(Walk *w)
{
	if (w->leased.any && w->passing)
		HintsPassLeased(&w->view, w->leased.kind, w->leased.until,
						WalkLookAfter(w, w->leased.until),
						w->leased.claimed, &w->leased.keys, w->now);
	w->leased.any = false;
}

/*
 * WalkAddLeased
 *		The row at hand has a live lease.
 */
void
WalkAddLeased(Walk *w, const LeaseRow *row)
{
	LeasedRun  *run = &w->leased;
	int64		deliveries = LeaseReported(w->q, row) - 1;
	NoteKind	kind = deliveries <= 1 ? NOTE_FIRST :
		deliveries == 2 ? NOTE_SECOND : NOTE_LATER;

	if (run->any &&
		(kind != run->kind ||
		 LedgerGrain(run->until) != LedgerGrain(row->locked_until)))
		WalkNoteLeased(w);
	if (!run->any)
	{
		run->any = true;
		run->kind = kind;
		run->until = row->locked_until;
		run->claimed = row->claimed_at;
		run->keys = w->keys;
	}
	run->until = Min(run->until, row->locked_until);
	run->claimed = row->claimed ? Min(run->claimed, row->claimed_at) :
		PG_INT64_MIN;
	run->keys.hi = w->keys.hi;
}

/*
 * WalkPassTo
 *		All up to here has been walked over.
 */
void
WalkPassTo(Walk *w, const HintKey *to)
{
	HintRange	passed = {w->from, *to};

	w->unpassed = 0;
	WalkNoteLeased(w);
	if (KeyCompare(&w->from, to) > 0)
		return;
	if (w->passing)
	{
		if (w->wrote)
			PendingPassed(w->view.hints, &passed);
		HintsPass(&w->view, &passed);
	}
	w->from = KeyAfter(to);
}

/*
 * go_ahead
 *		Others have passed the key: go on behind them.
 */
static void
go_ahead(Walk *w, const HintKey *key)
{
	HintRange	walked = {KEY_FIRST, KeyBefore(key)};

	WalkPassTo(w, &w->seen);
	WalkReadHints(w);
	OpenCut(&w->view.open, &walked);
	if (w->view.open.n > 0)
		w->lower = w->from = w->view.open.range[0].lo;
}

/*
 * WalkIdle
 *		The entry at hand was of no use.  True when others have been here, and
 *		the walk has gone on behind them.
 */
bool
WalkIdle(Walk *w)
{
	HintKey		key;

	if (!w->passing || !w->q->integer_id)
		return false;
	if (++w->idle < 4 || (w->idle < MAX_IDLE ? (w->idle & (w->idle - 1)) != 0 :
						  w->idle % MAX_IDLE != 0))
		return false;
	WalkScanAhead(w, 1, &key);
	if (KeyCompare(&key, &w->from) < 0 ||
		HintsContains(w->view.hints, &key) ||
		PendingOwns(w->view.hints, &key, w->now))
		return false;
	go_ahead(w, &key);
	return true;
}

/*
 * WalkReserve
 *		The row at hand is claimable: pass it, and those behind it that the
 *		claim wants, before it is taken.  False when others have been here,
 *		and the walk has gone on behind them.  Who only looks takes nothing
 *		away from those who claim.
 */
bool
WalkReserve(Walk *w)
{
	HintRange	run;

	w->idle = 0;
	if (w->peek || !w->passing || !w->q->integer_id ||
		KeyCompare(&w->keys.hi, &w->from) < 0)
		return true;
	run.lo = w->from;
	WalkScanAhead(w, w->max_rows - w->taken, &run.hi);
	/* a copy may tell of rows that are not due by this walk's clock */
	if (QueueHas(w->q, ROLE_DUE_AT))
		run.hi.due = Min(run.hi.due, w->now);
	run.hi = KeyMin(&run.hi, &w->view.open.range[w->range].hi);
	WalkNoteLeased(w);
	PendingRoom();
	switch (HintsReserve(&w->view, &w->keys.lo, &run))
	{
		case RESERVE_DONE:
			PendingPassed(w->view.hints, &run);
			w->from = KeyAfter(&run.hi);
			w->unpassed = 0;
			break;
		case RESERVE_LIMITED:
			break;
		case RESERVE_PASSED:
			if (PendingOwns(w->view.hints, &w->keys.lo, w->now))
				break;
			go_ahead(w, &w->keys.lo);
			return false;
	}
	return true;
}

/*
 * WalkLeave
 *		The row at hand is not taken and must stay open.
 */
void
WalkLeave(Walk *w)
{
	HintKey		before = KeyBefore(&w->keys.lo);

	if (KeyCompare(&w->keys.hi, &w->from) < 0)
	{
		HintsOpen(w->view.hints, &w->keys);
		return;
	}
	WalkPassTo(w, &before);
	w->from = KeyAfter(&w->keys.hi);
}
