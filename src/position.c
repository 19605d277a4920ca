/*-------------------------------------------------------------------------
 *
 * position.c
 *	  Where claimable rows may be: a set of key ranges, and the log of what
 *	  was added to it.
 *
 * Plain arithmetic over memory that the caller has locked; nothing here
 * allocates or raises.  hints.c tells what it is for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "position.h"

void
OpenAll(OpenSet *set)
{
	set->n = 1;
	set->range[0].lo = KEY_FIRST;
	set->range[0].hi = KEY_LAST;
}

/*
 * first_reaching
 *		The first range that ends at or behind a key.
 */
static int
first_reaching(const OpenSet *set, const HintKey *key)
{
	int			lo = 0;
	int			hi = set->n;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (KeyCompare(&set->range[mid].hi, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool
OpenContains(const OpenSet *set, const HintKey *key)
{
	int			i = first_reaching(set, key);

	return i < set->n && KeyCompare(&set->range[i].lo, key) <= 0;
}

/*
 * OpenEnd
 *		The end of the range that contains a key; false when there is none.
 */
bool
OpenEnd(const OpenSet *set, const HintKey *key, HintKey *end)
{
	int			i = first_reaching(set, key);

	if (i == set->n || KeyCompare(&set->range[i].lo, key) > 0)
		return false;
	*end = set->range[i].hi;
	return true;
}

static void
replace(OpenSet *set, int from, int count, const HintRange *by, int nby)
{
	memmove(&set->range[from + nby], &set->range[from + count],
			(set->n - from - count) * sizeof(HintRange));
	for (int i = 0; i < nby; i++)
		set->range[from + i] = by[i];
	set->n += nby - count;
}

/*
 * make_room
 *		Join two neighbours, the closest: right, only slower, since what lies
 *		between them is walked again.
 */
static void
make_room(OpenSet *set)
{
	int			best = 0;
	double		distance = 0;

	for (int i = 0; i + 1 < set->n; i++)
	{
		double		d = RangeDistance(&set->range[i], &set->range[i + 1]);

		if (i == 0 || d < distance)
		{
			best = i;
			distance = d;
		}
	}
	set->range[best].hi = set->range[best + 1].hi;
	replace(set, best + 1, 1, NULL, 0);
	set->overflows++;
}

/*
 * OpenAdd
 *		Add a range.  Returns false when it was there already.
 */
bool
OpenAdd(OpenSet *set, const HintRange *range)
{
	HintRange	joined = *range;
	HintKey		before = KeyBefore(&range->lo);
	HintKey		after = KeyAfter(&range->hi);
	int			from;
	int			to;

	from = first_reaching(set, &before);
	if (from < set->n &&
		KeyCompare(&set->range[from].lo, &range->lo) <= 0 &&
		KeyCompare(&set->range[from].hi, &range->hi) >= 0)
		return false;
	for (to = from; to < set->n; to++)
	{
		if (KeyCompare(&set->range[to].lo, &after) > 0)
			break;
		joined.lo = KeyMin(&joined.lo, &set->range[to].lo);
		joined.hi = KeyMax(&joined.hi, &set->range[to].hi);
	}
	if (to == from && set->n == MAX_OPEN)
	{
		make_room(set);
		return OpenAdd(set, range);
	}
	replace(set, from, to - from, &joined, 1);
	return true;
}

/*
 * OpenCut
 *		Take a range away.
 */
void
OpenCut(OpenSet *set, const HintRange *range)
{
	int			from = first_reaching(set, &range->lo);

	while (from < set->n && KeyCompare(&set->range[from].lo, &range->hi) <= 0)
	{
		HintRange	old = set->range[from];
		HintRange	rest[2];
		int			n = 0;

		if (KeyCompare(&old.lo, &range->lo) < 0)
		{
			rest[n].lo = old.lo;
			rest[n++].hi = KeyBefore(&range->lo);
		}
		if (KeyCompare(&old.hi, &range->hi) > 0)
		{
			rest[n].lo = KeyAfter(&range->hi);
			rest[n++].hi = old.hi;
		}
		/* no room for the hole: leave the range as it is */
		if (n == 2 && set->n == MAX_OPEN)
		{
			set->overflows++;
			return;
		}
		replace(set, from, 1, rest, n);
		from += n;
	}
}

void
LogAdd(OpenLog *log, const HintKey *lowest)
{
	log->lowest[log->generation % LOG_SIZE] = *lowest;
	log->generation++;
}

/*
 * LogLowestSince
 *		The lowest key opened since a generation, KEY_LAST when none was;
 *		false when the log does not reach back so far.
 */
bool
LogLowestSince(const OpenLog *log, uint64 generation, HintKey *lowest)
{
	*lowest = KEY_LAST;
	if (log->generation - generation > LOG_SIZE)
		return false;
	for (uint64 g = generation; g < log->generation; g++)
		*lowest = KeyMin(lowest, &log->lowest[g % LOG_SIZE]);
	return true;
}
