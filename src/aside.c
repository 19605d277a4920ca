/*-------------------------------------------------------------------------
 *
 * aside.c
 *	  Rows that the reaper could not deal with and leaves alone for a while.
 *
 * A row whose burial fails would fail again at each pass, so it rests: one
 * second at first, twice as long after each failure, ten minutes at most.
 * What rests is one version of a row, told by its place and its xmin: when
 * somebody changes the row, it is tried again at once.
 *
 * The memory is the process's own and is lost with it, which costs one failed
 * attempt.  It is bounded: when it is full, rows whose rest is over are
 * forgotten first; if that makes no room, a row is not remembered and is
 * tried again when the sweep next comes round.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "aside.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#define FIRST_REST	1			/* seconds */
#define LONGEST_REST	600
#define MAX_ASIDE	8192

/* hashed as it lies in memory, so there must be no gap in it */
typedef struct AsideKey
{
	Oid			relid;
	uint32		block;
	uint32		offset;
} AsideKey;

typedef struct AsideEntry
{
	AsideKey	key;
	TransactionId xmin;
	int			rest;			/* seconds */
	TimestampTz until;
} AsideEntry;

static HTAB *asides = NULL;

/* "tid" is NULL for a queue as a whole. */
static AsideKey
make_key(Oid relid, const ItemPointerData *tid)
{
	AsideKey	key = {relid, 0, 0};

	if (tid != NULL)
	{
		key.block = ItemPointerGetBlockNumber(tid);
		key.offset = ItemPointerGetOffsetNumber(tid);
	}
	return key;
}

static void
init_asides(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(AsideKey);
	ctl.entrysize = sizeof(AsideEntry);
	asides = hash_create("inbox rows set aside", 64, &ctl,
						 HASH_ELEM | HASH_BLOBS);
}

static void
forget_rested(TimestampTz now)
{
	HASH_SEQ_STATUS seq;
	AsideEntry *entry;

	hash_seq_init(&seq, asides);
	while ((entry = (AsideEntry *) hash_seq_search(&seq)) != NULL)
	{
		if (entry->until <= now)
			hash_search(asides, &entry->key, HASH_REMOVE, NULL);
	}
}

bool
AsideResting(Oid relid, const ItemPointerData *tid, TransactionId xmin,
			 TimestampTz now)
{
	AsideKey	key = make_key(relid, tid);
	AsideEntry *entry;

	if (asides == NULL)
		return false;
	entry = (AsideEntry *) hash_search(asides, &key, HASH_FIND, NULL);
	/* a rest that is longer than it was: the clock has been set back */
	return entry != NULL && entry->xmin == xmin && entry->until > now &&
		entry->until <= now + entry->rest * USECS_PER_SEC;
}

/*
 * AsideAdd
 *		Let a row rest, and return for how many seconds.
 */
int
AsideAdd(Oid relid, const ItemPointerData *tid, TransactionId xmin,
		 TimestampTz now)
{
	AsideKey	key = make_key(relid, tid);
	AsideEntry *entry;
	bool		found;

	if (asides == NULL)
		init_asides();
	if (hash_get_num_entries(asides) >= MAX_ASIDE)
		forget_rested(now);
	if (hash_get_num_entries(asides) >= MAX_ASIDE &&
		hash_search(asides, &key, HASH_FIND, NULL) == NULL)
		return FIRST_REST;
	entry = (AsideEntry *) hash_search(asides, &key, HASH_ENTER, &found);
	if (!found || entry->xmin != xmin)
		entry->rest = FIRST_REST;
	else
		entry->rest = Min(entry->rest * 2, LONGEST_REST);
	entry->xmin = xmin;
	entry->until = TimestampTzPlusMilliseconds(now, entry->rest * 1000);
	return entry->rest;
}
