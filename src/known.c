/*-------------------------------------------------------------------------
 *
 * known.c
 *	  Where the rows are that this session has leased lately.
 *
 * Most deliveries are settled by the session that claimed them, soon
 * after.  It has just written the row, so it knows where the version is that
 * the settlement looks for, and need not search the index on the id.  What is
 * found there is believed only if it has that id and is the version visible
 * now (locate.c); else the index is searched.  So nothing has to be made void:
 * not by an abort, not by others who change, move or remove the row.
 *
 * A fixed number of places, each for the ids that share its number.  It
 * lives as long as the queue's cache entry.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "locate.h"
#include "utils/memutils.h"

#define PLACES	256				/* a power of two */

typedef struct KnownRow
{
	int64		id;
	ItemPointerData tid;		/* invalid: nothing is known */
} KnownRow;

static KnownRow *
place_of(Queue *q, int64 id)
{
	return &q->known[id & (PLACES - 1)];
}

/*
 * KnownNote
 *		The row with this id has just been written here.
 */
void
KnownNote(Queue *q, int64 id, ItemPointer tid)
{
	KnownRow   *row;

	/* no place is valid in zeroed memory */
	if (q->known == NULL)
		q->known = MemoryContextAllocZero(q->cxt, PLACES * sizeof(KnownRow));
	row = place_of(q, id);
	row->id = id;
	row->tid = *tid;
}

bool
KnownTid(Queue *q, int64 id, ItemPointer tid)
{
	KnownRow   *row;

	if (q->known == NULL)
		return false;
	row = place_of(q, id);
	if (row->id != id || !ItemPointerIsValid(&row->tid))
		return false;
	*tid = row->tid;
	return true;
}
