/*-------------------------------------------------------------------------
 *
 * walklevel.c
 *	  How a walk goes from level to level of priority, and from range to range
 *	  of the open set.
 *
 * There may be thousands of levels, and the open set has room for few ranges.
 * So a level that was walked to its end is closed: up to the first row that is
 * not due the index has no more entries there, and whoever adds one opens its
 * key (rule 1 of hints.c), so nothing is passed but empty keys.  Levels side
 * by side with nothing to claim make one closed range, whatever is leased in
 * them, and claims do not go there at all.  What is sent opens its level again
 * to the end (PendingSent): that is its position then, as it is for the last
 * level there is, which is never closed.
 *
 * Where rows are delayed a range is left from the first of them to the end of
 * the level.  It is not gone to before that one is due.  When half of the open
 * set is full, it is noted instead when that will be (rule 7).
 *
 * Called by walk.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"
#include "walk.h"

/* a level that is walked to its end is passed up to so long ago */
#define SETTLED_USECS	(10 * USECS_PER_SEC)

/*
 * end_level
 *		The level's scan is over: all that was due is passed.  Up to a while
 *		ago also where no row was seen, so that the dead entries there are not
 *		walked again.
 */
static void
end_level(Walk *w)
{
	HintKey		to = w->seen;

	if (QueueHas(w->q, ROLE_DUE_AT))
	{
		HintKey		settled = {w->lower.priority, w->now - SETTLED_USECS,
		PG_INT64_MAX};

		settled = KeyMin(&settled, &WalkRange(w)->hi);
		to = KeyMax(&settled, &w->seen);
	}
	WalkPassTo(w, &to);
	w->scanning = false;
	w->ahead = AHEAD_NONE;
	if (w->want_due && QueueHas(w->q, ROLE_DUE_AT))
		w->next_due = Min(w->next_due, WalkScanNextDue(w));
}

/*
 * WalkEndRange
 *		The range at hand ends within the level, and is all walked.
 */
void
WalkEndRange(Walk *w)
{
	WalkPassTo(w, &WalkRange(w)->hi);
	w->scanning = false;
	w->ahead = AHEAD_NONE;
	w->range++;
}

static HintKey
lowest_of(int64 priority)
{
	HintKey		key = {priority, PG_INT64_MIN, PG_INT64_MIN};

	return key;
}

/*
 * close_level
 *		Pass the rest of a level that is walked to its end, up to "end" or to
 *		the first row that is not due: the index has nothing there, and whoever
 *		adds something tells of it.  So thousands of levels with nothing to
 *		claim leave one closed range, and no position for each.
 */
static void
close_level(Walk *w, const HintKey *end)
{
	int64		priority = w->lower.priority;
	HintKey		level_end = {priority, PG_INT64_MAX, PG_INT64_MAX};
	HintKey		to = *end;
	HintRange	delayed = {{priority, PG_INT64_MAX, PG_INT64_MIN}};

	if (!w->passing || !w->q->settings.triggers)
		return;
	if (QueueHas(w->q, ROLE_DUE_AT))
		delayed.lo.due = WalkScanNextDue(w);
	delayed.hi = KeyMin(end, &level_end);
	if (delayed.lo.due != PG_INT64_MAX &&
		KeyCompare(&delayed.lo, &delayed.hi) <= 0 &&
		!HintsPassDelayed(&w->view, delayed.lo.due,
						  WalkLookAfter(w, delayed.lo.due), &delayed, w->now))
		to = KeyBefore(&delayed.lo);
	WalkPassTo(w, &to);
}

/*
 * next_level
 *		Go to the first level of the range, or to the next when one has begun.
 *		False when there is none.  Behind the last level of all everything
 *		stays open: that is its position.
 */
static bool
next_level(Walk *w, bool begun)
{
	HintRange  *range = WalkRange(w);
	HintKey		end = range->hi;
	HintKey		next;
	int64		priority;

	if (begun && end.priority <= w->lower.priority)
	{
		close_level(w, &end);
		return false;
	}
	if (!WalkScanNextLevel(w, !begun, &priority))
		return false;
	next = lowest_of(priority);
	if (KeyCompare(&next, &end) <= 0)
		end = KeyBefore(&next);
	if (begun)
	{
		HintKey		gap = lowest_of(w->lower.priority + 1);

		close_level(w, &end);
		w->from = KeyMax(&w->from, &gap);
	}
	/* nothing lies between the levels */
	WalkPassTo(w, &end);
	w->lower = w->from = next;
	return KeyCompare(&next, &range->hi) <= 0;
}

/*
 * not_due
 *		Is nothing due yet in the range at hand?
 */
static bool
not_due(Walk *w)
{
	HintRange  *range = WalkRange(w);

	if (!QueueHas(w->q, ROLE_DUE_AT) || range->lo.due <= w->now ||
		range->lo.due == PG_INT64_MAX ||
		range->lo.priority != range->hi.priority)
		return false;
	if (w->want_due)
		w->next_due = Min(w->next_due, range->lo.due);
	return true;
}

/*
 * WalkAdvance
 *		Begin the next scan: the first or next level of the range, or the next
 *		range.  False when all have been walked.
 */
bool
WalkAdvance(Walk *w)
{
	bool		levels = QueueHas(w->q, ROLE_PRIORITY);
	bool		begun = w->scanning;

	if (w->scanning)
		end_level(w);
	for (; w->range < w->view.open.n; w->range++, begun = false)
	{
		CHECK_FOR_INTERRUPTS();
		if (!begun)
		{
			w->lower = w->from = WalkRange(w)->lo;
			if (not_due(w))
				continue;
		}
		if (!levels && w->lower.priority < 0)
			w->lower = lowest_of(0);
		if (levels && (begun || w->lower.priority == PG_INT64_MIN))
		{
			if (!next_level(w, begun))
				continue;
		}
		else if (begun || (!levels && w->lower.priority > 0))
			continue;
		w->seen = KeyBefore(&w->from);
		if (!AheadBegin(w))
			WalkScanLevel(w);
		return true;
	}
	return false;
}
