/*-------------------------------------------------------------------------
 *
 * resting.c
 *	  What a worker leaves alone for a while, because it failed.
 *
 * A queue whose pass has failed rests for a second, then two, four, and so
 * on, until a pass succeeds.  The OID 0 stands for the look at the database
 * itself.  Process-local, and empty as long as all is well.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "database.h"
#include "resting.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

typedef struct Resting
{
	Oid			relid;			/* hash key */
	int			failures;		/* in a row */
	TimestampTz until;
} Resting;

static HTAB *resting = NULL;

void
RestingInit(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(Resting);
	ctl.hcxt = TopMemoryContext;
	resting = hash_create("inbox resting queues", 16, &ctl,
						  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* It has failed. */
void
RestingBegin(Oid relid)
{
	Resting    *entry;
	bool		found;

	entry = hash_search(resting, &relid, HASH_ENTER, &found);
	if (!found)
		entry->failures = 0;
	entry->failures++;
	entry->until =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									DatabaseRetryDelay(entry->failures));
}

bool
RestingIsOver(Oid relid)
{
	Resting    *entry = hash_search(resting, &relid, HASH_FIND, NULL);

	TimestampTz now = GetCurrentTimestamp();

	/* one that is longer than it was: the clock has been set back */
	return entry == NULL || entry->until <= now ||
		TimestampDifferenceExceeds(now, entry->until,
								   DatabaseRetryDelay(entry->failures));
}

/* It has succeeded. */
void
RestingEnd(Oid relid)
{
	hash_search(resting, &relid, HASH_REMOVE, NULL);
}

/* Forget queues that are no more. */
void
RestingForgetOthers(List *relids)
{
	HASH_SEQ_STATUS scan;
	Resting    *entry;

	if (hash_get_num_entries(resting) == 0)
		return;

	hash_seq_init(&scan, resting);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (!list_member_oid(relids, entry->relid))
			hash_search(resting, &entry->relid, HASH_REMOVE, NULL);
	}
}
