/*-------------------------------------------------------------------------
 *
 * locate.h
 *	  Find a row by its id and lock its newest version; see locate.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LOCATE_H
#define INBOX_LOCATE_H

#include "access/genam.h"
#include "access/tableam.h"
#include "nodes/lockoptions.h"
#include "utils/snapshot.h"
#include "write.h"

typedef enum LocateResult
{
	LOCATE_OK,					/* locked; the version is in leaf->old */
	LOCATE_GONE,				/* no such row */
	LOCATE_LOCKED,				/* somebody holds it (LockWaitSkip only) */
	LOCATE_CHANGED				/* locate.c's own: look again */
} LocateResult;

typedef struct Locator
{
	RowWriter  *w;
	/* searching without SQL */
	RowLeaf    *leaf;			/* the queue's table; NULL: by SQL */
	Snapshot	snapshot;
	BlockNumber blocks;			/* of the table; Invalid: not asked for yet */
	BlockNumber visited;		/* last page gone to without the index */
	bool		deleting;		/* what is found will be deleted */
	Relation	index;			/* opened when it is needed */
	IndexScanDesc scan;
	/* locaterun.c: a run of ids, found by one scan */
	bool		has_run;
	int64		run_last;		/* its last id */
	bool		scanning_run;
	bool		has_entry;		/* an index entry is at hand: */
	int64		entry_id;
	ItemPointerData entry;
} Locator;

extern TM_Result LockVersion(RowLeaf *leaf, ItemPointer tid, Snapshot snapshot,
							 LockTupleMode mode, LockWaitPolicy policy,
							 uint8 flags);
extern int	PlanByIndex(void);
extern Snapshot FreshSnapshot(Queue *q, SnapshotData *copy);

extern bool LocateBySql(Queue *q, Datum id, Snapshot snapshot, Oid *relid,
						ItemPointer tid);
extern void LocateBegin(Locator *loc, RowWriter *w);
extern RowLeaf *LocateVisible(Locator *loc, Datum id, ItemPointer tid);
extern LocateResult LocateRow(Locator *loc, Datum id, LockTupleMode mode,
							  LockWaitPolicy policy, RowLeaf **leaf);
extern RowLeaf *LocateUnlocked(Locator *loc, Datum id);
extern void LocateEnd(Locator *loc);

/* locaterun.c */
extern void LocateRun(Locator *loc, int64 last);
extern bool LocateInRun(Locator *loc, int64 id, ItemPointer tid);

/* known.c */
extern void KnownNote(Queue *q, int64 id, ItemPointer tid);
extern bool KnownTid(Queue *q, int64 id, ItemPointer tid);

#endif							/* INBOX_LOCATE_H */
