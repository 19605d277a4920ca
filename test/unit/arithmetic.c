/*-------------------------------------------------------------------------
 *
 * arithmetic.c
 *	  The arithmetic of the hints (src/position.c, src/ledger.c) beside a
 *	  model of it that is too simple to be wrong.
 *
 * The open set's model is a set of single keys, of all there are in a small
 * universe; the ledger's is a list of leases.  What may never be:
 *
 *	  open set	a key added is missing; a key outside of what was cut is
 *				missing; ranges out of order, overlapping or touching;
 *	  log		an opening is not remembered, or remembered as higher;
 *	  ledger	a lease's keys are not opened by the time it ends, though it
 *				was neither taken off nor opened and passed again.
 *
 * What costs time only (keys open that need not be) is allowed where room is
 * short, and counted, so that a set which gives up at once would be noticed.
 *
 * Speaks TAP.  Argument: the seed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

/* the C library's, not those of a server's */
#undef printf
#undef snprintf

#include "../../src/ledger.c"
/* both files have one */
#define make_room make_room_in_set
#include "../../src/position.c"

#define PRIORITIES	3
#define DUES		40
#define IDS			5
#define KEYS		(PRIORITIES * DUES * IDS)
#define ROUNDS		200000
#define MAX_COVERS	500

static uint64 state;
static int	tests = 0;
static int	failures = 0;

static uint64
dice(uint64 n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state * UINT64CONST(2685821657736338717) >> 33) % n;
}

static void
ok(bool good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	failures += !good;
}

static HintKey
key(int i)
{
	HintKey		k = {i / (DUES * IDS), i / IDS % DUES, i % IDS};

	/* the outermost are the outermost there are */
	if (i % IDS == 0)
		k.id = PG_INT64_MIN;
	if (i % IDS == IDS - 1)
		k.id = PG_INT64_MAX;
	if (i == 0)
		return KEY_FIRST;
	if (i == KEYS - 1)
		return KEY_LAST;
	return k;
}

static HintRange
random_range(int *from, int *to, int widest)
{
	HintRange	r;

	*from = dice(KEYS);
	*to = *from + dice(widest);
	*to = Min(KEYS - 1, *to);
	r.lo = key(*from);
	r.hi = key(*to);
	return r;
}

static bool
in_order(const OpenSet *set)
{
	for (int i = 0; i < set->n; i++)
	{
		HintKey		after = KeyAfter(&set->range[i].hi);

		if (KeyCompare(&set->range[i].lo, &set->range[i].hi) > 0 ||
			(i + 1 < set->n && KeyCompare(&after, &set->range[i + 1].lo) >= 0))
			return false;
	}
	return set->n <= MAX_OPEN;
}

/*
 * Widest tells how wide ranges are: many narrow ones fill the set.
 */
static void
test_open_set(int widest, bool fills)
{
	static OpenSet set;
	bool		model[KEYS];
	bool		order = true;
	bool		lost = false;
	bool		answers = true;
	int64		extra = 0;
	int64		looked = 0;
	int			fullest = 0;
	char		name[100];

	OpenAll(&set);
	memset(model, true, sizeof(model));
	for (int round = 0; round < ROUNDS; round++)
	{
		int			from;
		int			to;
		HintRange	r = random_range(&from, &to, widest);
		bool		add = dice(2) == 0;

		if (add)
			answers = OpenAdd(&set, &r) || answers;
		else
			OpenCut(&set, &r);
		/* the model's keys lie between the real ones, too */
		for (int i = from; i <= to; i++)
			model[i] = add;
		order = order && in_order(&set);
		fullest = Max(fullest, set.n);
		for (int i = 0; i < KEYS && round % 16 == 0; i++)
		{
			HintKey		k = key(i);
			bool		open = OpenContains(&set, &k);

			lost = lost || (model[i] && !open);
			extra += !model[i] && open;
			looked++;
		}
		/* start over where room was short */
		if (round % 1000 == 0)
		{
			OpenAll(&set);
			memset(model, true, sizeof(model));
		}
	}
	snprintf(name, sizeof(name), "ranges up to %d: in order, apart, no more than fit", widest);
	ok(order, name);
	snprintf(name, sizeof(name), "ranges up to %d: no key lost", widest);
	ok(!lost, name);
	snprintf(name, sizeof(name), "ranges up to %d: %s", widest,
			 fills ? "room ran out" : "nothing open that need not be");
	ok(fills ? fullest == MAX_OPEN && extra > 0 && extra < looked / 2 :
	   extra == 0, name);
}

static void
test_log(void)
{
	static OpenLog log;
	static HintKey all[ROUNDS];
	bool		good = true;
	bool		forgets = false;

	for (int i = 0; i < ROUNDS; i++)
	{
		int			back = dice(LOG_SIZE + 20);
		uint64		since = i - Min(i, back);
		HintKey		lowest;
		HintKey		want = KEY_LAST;

		for (int j = since; j < i; j++)
			want = KeyMin(&want, &all[j]);
		if (LogLowestSince(&log, since, &lowest))
			good = good && KeyCompare(&want, &lowest) == 0;
		else
			forgets = forgets || i - since > LOG_SIZE;
		all[i] = key(dice(KEYS));
		LogAdd(&log, &all[i]);
	}
	ok(good, "log: the lowest key since");
	ok(forgets, "log: tells when it has forgotten");
}

typedef struct Lease
{
	bool		live;
	TimestampTz until;
	HintKey		key;
	uint64		hash;
} Lease;

#define LEASES	400

/*
 * Look at all leases whose keys are opened, and note those that have not
 * ended, as walk.c does.  How many ranges were opened?
 */
static int
open_due(Ledger *ledger, Lease *lease, TimestampTz now)
{
	HintRange	keys[MAX_COVERS];
	int			n = LedgerDue(ledger, now, keys);

	for (int i = 0; i < LEASES; i++)
	{
		Lease	   *l = &lease[i];
		bool		found = false;

		for (int j = 0; j < n && l->live && !found; j++)
			found = KeyCompare(&keys[j].lo, &l->key) <= 0 &&
				KeyCompare(&keys[j].hi, &l->key) >= 0;
		if (found && l->until <= now)
			l->live = false;
		else if (found)
		{
			HintRange	r = {l->key, l->key};
			Cover	   *c = LedgerFind(ledger, l->until, &r);

			if (c == NULL || c->look > l->until)
				LedgerNote(ledger, l->until, l->until, &r, now);
		}
	}
	return n;
}

static bool
any_late(const Lease *lease, TimestampTz now)
{
	for (int i = 0; i < LEASES; i++)
	{
		if (lease[i].live && lease[i].until <= now)
			return true;
	}
	return false;
}

static bool
covers_in_order(const Ledger *ledger)
{
	for (int i = 0; i < ledger->n; i++)
	{
		if (ledger->cover[i].first >= ledger->cover[i].last ||
			(i > 0 && ledger->cover[i - 1].last > ledger->cover[i].first) ||
			ledger->next_look > ledger->cover[i].look)
			return false;
	}
	return true;
}

/*
 * A history of claims, settlements and walks over time.  Where a cover is
 * opened the walk is supposed to look at all leases between its keys, and
 * to note those that have not ended, as walk.c does.
 */
static void
test_ledger(int longest, int size, bool fills)
{
	static Cover cover[MAX_COVERS];
	static Ledger ledger;
	static Lease lease[LEASES];
	TimestampTz now = INT64CONST(800000000000000);
	bool		late = false;
	bool		order = true;
	int			fullest = 0;
	int64		opened = 0;
	int64		settled = 0;
	char		name[100];

	LedgerInit(&ledger, cover, size);
	memset(lease, 0, sizeof(lease));
	for (int round = 0; round < ROUNDS; round++)
	{
		now += dice(USECS_PER_SEC / 10);
		if (dice(2) == 0)
		{
			Lease	   *l = &lease[dice(LEASES)];

			if (!l->live)
			{
				HintRange	r;

				l->live = true;
				l->until = now + 1 + dice(longest) * USECS_PER_SEC / 4;
				/* now and then one that never ends */
				if (dice(10000) == 0)
					l->until = PG_INT64_MAX - dice(2);
				l->key = key(dice(KEYS));
				l->hash = state;
				r.lo = r.hi = l->key;
				LedgerEnter(&ledger, l->until, &r, 1, l->hash, now);
			}
		}
		else
		{
			Lease	   *l = &lease[dice(LEASES)];

			/* at times one that was never entered */
			if (l->live || dice(20) == 0)
			{
				HintRange	r = {l->key, l->key};
				Cover	   *c = LedgerFind(&ledger, l->until, &r);

				if (c != NULL)
					LedgerTakeOff(&ledger, c, 1, l->live ? l->hash : state);
				l->live = false;
				settled++;
			}
		}
		opened += open_due(&ledger, lease, now);
		late = late || any_late(lease, now);
		fullest = Max(fullest, ledger.n);
		order = order && covers_in_order(&ledger);
	}
	snprintf(name, sizeof(name), "leases up to %d, %d covers: in order, apart", longest, size);
	ok(order && fullest <= size, name);
	snprintf(name, sizeof(name), "leases up to %d, %d covers: none forgotten", longest, size);
	ok(!late, name);
	snprintf(name, sizeof(name), "leases up to %d, %d covers: %s", longest, size,
			 fills ? "room ran out" : "room enough");
	ok((fullest == size) == fills && settled > 0 && opened > 0, name);
}

/*
 * Without strange settlements, a cover goes when its last lease is settled.
 */
static void
test_settled(void)
{
	static Cover cover[10];
	static Ledger ledger;
	TimestampTz until = INT64CONST(800000000000000);
	bool		good = true;

	LedgerInit(&ledger, cover, lengthof(cover));
	for (int round = 0; round < 1000; round++)
	{
		int			n = 1 + dice(20);
		uint64		hash[20];
		HintRange	r = {key(10), key(20)};

		for (int i = 0; i < n; i++)
		{
			hash[i] = (state = state + dice(1000) + 1);
			LedgerEnter(&ledger, until + i, &r, 1, hash[i], until - 100);
		}
		for (int i = 0; i < n; i++)
		{
			good = good && ledger.n == 1;
			LedgerTakeOff(&ledger, LedgerFind(&ledger, until + i, &r), 1, hash[i]);
		}
		good = good && ledger.n == 0 && ledger.next_look == PG_INT64_MAX;
	}
	ok(good, "a cover goes with its last lease");
}

int
main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	printf("# seed %llu\n", (unsigned long long) state);
	state = state * 2 + 1;
	test_open_set(3, true);
	test_open_set(10, true);
	test_open_set(KEYS / 4, false);
	test_log();
	test_ledger(40, MAX_COVERS, false);
	test_ledger(1000, 64, true);
	test_ledger(100000, 64, true);
	test_ledger(40, 2, true);
	test_settled();
	printf("1..%d\n", tests);
	return failures > 0;
}
