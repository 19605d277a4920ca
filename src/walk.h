/*-------------------------------------------------------------------------
 *
 * walk.h
 *	  Find claimable rows by walking the claim index; see walk.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_WALK_H
#define INBOX_WALK_H

#include "access/genam.h"
#include "access/stratnum.h"
#include "hints.h"
#include "lease.h"
#include "share.h"
#include "write.h"

/* A run of rows with live leases, not yet noted; all of one kind. */
typedef struct LeasedRun
{
	bool		any;
	NoteKind	kind;
	TimestampTz until;			/* the first that ends; all in one grain */
	TimestampTz claimed;		/* when the first was claimed, if that is
								 * known */
	HintRange	keys;
} LeasedRun;

typedef struct Walk
{
	Queue	   *q;
	RowLeaf    *leaf;
	TimestampTz now;
	text	   *group;			/* only rows of this group_key, or NULL */
	const KeyShare *share;		/* only rows of this share, or NULL */
	Relation	index;			/* opened by the first scan, or NULL */
	IndexScanDesc scan;
	int			ahead;			/* next entry of walkahead.c's copy, or: */
#define AHEAD_NONE		(-1)	/* the index is scanned */
#define AHEAD_LEVEL_END	(-2)	/* all that is due of the level was there */
	uint64		serial;			/* of that copy */
	BlockNumber blocks;			/* of the table; of use with the copy */
	struct IndexFetchTableData *fetch;	/* likewise */
	ScanKeyData lower_keys[2];	/* of the scan's bounds */
	ScanKeyData upper_keys[2];
	TupleTableSlot *slot;		/* the row at hand */
	HintView	view;
	int			range;			/* of view.open, being walked */
	HintKey		lower;			/* where the scan of this level began */
	bool		scanning;		/* a level's scan is under way */
	HintKey		from;			/* all behind this is passed already */
	HintRange	keys;			/* of the row at hand */
	HintKey		seen;			/* the last row's key, KEY_FIRST: none yet */
	bool		passing;		/* false: passes nothing any more (rule 7) */
	bool		wrote;			/* the transaction had written before (rule 4) */
	int			stride;			/* rows taken between two passes */
	int			unpassed;		/* rows taken since the last one */
	int			idle;			/* entries of no use since the last row of use */
	int64		max_rows;		/* that are wanted */
	int64		steps;			/* index entries gone to */
	int64		probes;			/* for the next level, or what is not due */
	int64		dead;			/* of them, those of rows that are gone */
	int64		taken;			/* rows */
	bool		peek;			/* rows are looked for, not taken */
	bool		want_due;		/* find out next_due */
	TimestampTz next_due;		/* when a level that was walked to its end has
								 * its next row come due */
	LeasedRun	leased;
} Walk;

/* the range at hand */
static inline HintRange *
WalkRange(Walk *w)
{
	return &w->view.open.range[w->range];
}

extern bool WalkUsable(RowLeaf *leaf, Queue *q);
extern void WalkBegin(Walk *w, Queue *q, RowLeaf *leaf, TimestampTz now,
					  text *group, int64 max_rows);
extern void WalkShare(Walk *w, const KeyShare *share);
extern bool WalkNext(Walk *w, ItemPointer tid);
extern void WalkTook(Walk *w, bool taken);
extern LeaseKind WalkLeaseKind(const Walk *w, const LeaseRow *row);
extern void WalkEnd(Walk *w);

/* walklevel.c */
extern bool WalkAdvance(Walk *w);
extern void WalkEndRange(Walk *w);

/* walkpass.c */
extern void WalkReadHints(Walk *w);
extern void WalkAddLeased(Walk *w, const LeaseRow *row);
extern TimestampTz WalkLookAfter(const Walk *w, TimestampTz t);
extern void WalkNoteLeased(Walk *w);
extern void WalkPassTo(Walk *w, const HintKey *to);
extern bool WalkIdle(Walk *w);
extern bool WalkReserve(Walk *w);
extern void WalkLeave(Walk *w);

/* walkahead.c */
extern bool AheadBegin(Walk *w);
extern bool AheadNext(Walk *w);
extern void AheadKey(const Walk *w, int64 entries, HintKey *key);
extern void AheadKeep(Walk *w);

/* walkscan.c */
#define WALK_SCAN_KEYS	3		/* at most */

extern RegProcedure WalkPriorityOperator(Oid type, StrategyNumber strategy);
extern bool WalkRangeEnds(const Walk *w);
extern void WalkEntryKey(Queue *q, IndexTuple itup, TupleDesc desc,
						 HintKey *key);
extern void WalkScanLevel(Walk *w);
extern void WalkScanAhead(Walk *w, int64 entries, HintKey *key);
extern TimestampTz WalkScanNextDue(Walk *w);
extern bool WalkScanNextLevel(Walk *w, bool first, int64 *priority);

#endif							/* INBOX_WALK_H */
