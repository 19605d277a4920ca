/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  Outstanding leases, by the time they end.
 *
 * A claim enters its leases, a settlement takes them off.  Leases that end in
 * the same moment share an entry, a cover: how many they are and the keys
 * between which they lie.  So a million leases fit, and one that is settled
 * is found by the time it would have ended, which its row tells.  When all of
 * a cover's leases are taken off it is forgotten; otherwise its keys are
 * opened when its time comes, and claims walk over them.
 *
 * A moment is a thousandth of a second.  Most claims then have a cover of
 * their own, which goes when they are settled; and where one row of a hundred
 * is not, what is walked again is the few rows beside it.  With one cover a
 * second it would be all the rows of that second, which an old snapshot keeps
 * in the index as dead entries, for each of the leases that end in it.
 *
 * A lease may be taken off that was never entered: it is from before a
 * restart, was made by hand, or lies in two covers and is taken off the wrong
 * one.  It must not make a cover seem done that is not.  So a cover sums up
 * hashes of its leases' receipts, and is done only when count and sum are
 * both zero.  One that never gets there is opened at its time, needlessly.
 *
 * A queue has several ledgers, so that leases of rows far apart in the claim
 * order do not share a cover, which would span all that lies between.  A
 * lease that was not entered is noted by the walk that meets it, in a ledger
 * for such.
 *
 * When all covers are used up, neighbours are joined that lie closest
 * together for how far off they are.  A joined cover is opened when the first
 * of its leases ends: the walk notes each of the others, and when that ends.
 *
 * Plain arithmetic over memory that the caller has locked; nothing here
 * allocates or raises.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger.h"

void
LedgerInit(Ledger *ledger, Cover *cover, int size)
{
	ledger->cover = cover;
	ledger->size = size;
	LedgerReset(ledger);
}

void
LedgerReset(Ledger *ledger)
{
	ledger->n = 0;
	ledger->next_look = PG_INT64_MAX;
}

static void
find_next_look(Ledger *ledger)
{
	ledger->next_look = PG_INT64_MAX;
	for (int i = 0; i < ledger->n; i++)
		ledger->next_look = Min(ledger->next_look, ledger->cover[i].look);
}

static void
widen(HintRange *keys, const HintRange *by)
{
	keys->lo = KeyMin(&keys->lo, &by->lo);
	keys->hi = KeyMax(&keys->hi, &by->hi);
}

/*
 * A lease that never ends, made by hand, ends with the last second there is.
 */
static TimestampTz
bounded(TimestampTz until)
{
	return Min(until, PG_INT64_MAX - 2 * USECS_PER_SEC);
}

/*
 * find_cover
 *		The first cover that ends behind a time.
 */
static int
find_cover(const Ledger *ledger, TimestampTz until)
{
	int			lo = 0;
	int			hi = ledger->n;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (ledger->cover[mid].last <= until)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void
remove_cover(Ledger *ledger, int i)
{
	memmove(&ledger->cover[i], &ledger->cover[i + 1],
			(ledger->n - i - 1) * sizeof(Cover));
	ledger->n--;
}

/*
 * How wide two neighbours would be, in time, for how far off they are.
 */
static double
joint_width(const Cover *a, const Cover *b, TimestampTz now)
{
	double		far = (double) Max(a->last - now, USECS_PER_SEC);

	return (double) (b->last - a->first) / far;
}

static void
join(Cover *a, const Cover *b)
{
	a->last = b->last;
	a->look = Min(a->look, b->look);
	a->count += b->count;
	a->sum += b->sum;
	a->keep = a->keep || b->keep;
	widen(&a->keys, &b->keys);
}

/*
 * make_room
 *		Join neighbours, the closest first, until an eighth of all is free: so
 *		it costs little for each cover that is made.
 */
static void
make_room(Ledger *ledger, TimestampTz now)
{
	int			enough = ledger->size - Max(ledger->size / 8, 1);

	for (double limit = 1.0 / 4096; ledger->n > enough; limit *= 2)
	{
		int			n = 1;

		for (int i = 1; i < ledger->n; i++)
		{
			Cover	   *last = &ledger->cover[n - 1];

			if (joint_width(last, &ledger->cover[i], now) <= limit)
				join(last, &ledger->cover[i]);
			else
				ledger->cover[n++] = ledger->cover[i];
		}
		ledger->n = n;
	}
}

/*
 * cover_for
 *		The cover of leases that end at a time; a new one is empty.
 */
static Cover *
cover_for(Ledger *ledger, TimestampTz until, const HintRange *keys,
		  TimestampTz now)
{
	int			i;
	Cover	   *c;

	i = find_cover(ledger, until);
	if (i < ledger->n && ledger->cover[i].first <= until)
		return &ledger->cover[i];
	if (ledger->n == ledger->size)
	{
		make_room(ledger, now);
		return cover_for(ledger, until, keys, now);
	}
	memmove(&ledger->cover[i + 1], &ledger->cover[i],
			(ledger->n - i) * sizeof(Cover));
	ledger->n++;
	c = &ledger->cover[i];
	c->first = LedgerGrain(until);
	c->last = c->first + LEDGER_GRAIN;
	c->look = PG_INT64_MAX;
	c->count = 0;
	c->sum = 0;
	c->keep = false;
	c->keys = *keys;
	return c;
}

/*
 * LedgerEnter
 *		Enter leases that end at "until" and lie between two keys.
 */
void
LedgerEnter(Ledger *ledger, TimestampTz until, const HintRange *keys,
			int64 count, uint64 sum, TimestampTz now)
{
	Cover	   *c = cover_for(ledger, bounded(until), keys, now);

	widen(&c->keys, keys);
	c->count += count;
	c->sum += sum;
	c->look = Min(c->look, until);
	ledger->next_look = Min(ledger->next_look, c->look);
}

/*
 * LedgerNote
 *		A walk has passed a lease that it does not know to be entered: see that
 *		its key is looked at by then.
 */
void
LedgerNote(Ledger *ledger, TimestampTz until, TimestampTz look,
		   const HintRange *keys, TimestampTz now)
{
	Cover	   *c = cover_for(ledger, bounded(until), keys, now);

	widen(&c->keys, keys);
	c->keep = true;
	c->look = Min(c->look, look);
	ledger->next_look = Min(ledger->next_look, c->look);
}

/*
 * LedgerFind
 *		The cover of leases with this end and these keys, or NULL.
 */
Cover *
LedgerFind(Ledger *ledger, TimestampTz until, const HintRange *keys)
{
	int			i = find_cover(ledger, bounded(until));
	Cover	   *c = &ledger->cover[i];

	if (i == ledger->n || c->first > bounded(until) ||
		KeyCompare(&c->keys.lo, &keys->lo) > 0 ||
		KeyCompare(&c->keys.hi, &keys->hi) < 0)
		return NULL;
	return c;
}

/*
 * LedgerTakeOff
 *		Leases are settled, or end at another time now.
 */
void
LedgerTakeOff(Ledger *ledger, Cover *cover, int64 count, uint64 sum)
{
	bool		was_next = cover->look == ledger->next_look;

	cover->count -= count;
	cover->sum -= sum;
	if (cover->count != 0 || cover->sum != 0 || cover->keep)
		return;
	remove_cover(ledger, cover - ledger->cover);
	if (was_next)
		find_next_look(ledger);
}

/*
 * LedgerDue
 *		The keys of the covers that are to be looked at now; returns how many
 *		there are.  Covers whose time is over are done with.  The others stay
 *		until then, so that what is taken off finds the right one; nobody counts
 *		on them any more.
 */
int
LedgerDue(Ledger *ledger, TimestampTz now, HintRange *keys)
{
	int			n = 0;
	int			left = 0;

	if (now < ledger->next_look)
		return 0;
	for (int i = 0; i < ledger->n; i++)
	{
		Cover	   *c = &ledger->cover[i];

		if (c->look <= now)
		{
			keys[n++] = c->keys;
			c->look = COVER_OPENED;
			c->keep = true;
		}
		if (c->look == COVER_OPENED && c->last <= now)
			continue;
		if (left < i)
			ledger->cover[left] = *c;
		left++;
	}
	ledger->n = left;
	find_next_look(ledger);
	return n;
}
