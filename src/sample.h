/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Read rows of a table for statistics; see sample.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SAMPLE_H
#define INBOX_SAMPLE_H

#include "executor/tuptable.h"
#include "queue.h"
#include "utils/snapshot.h"

/* One table with storage: the table asked for, a partition or a child. */
typedef struct SampleLeaf
{
	Relation	rel;
	BlockNumber blocks;
	TupleTableSlot *slot;
	AttrNumber	attnos[NUM_QUEUE_ROLES];	/* set by SampleMapRoles */
} SampleLeaf;

typedef struct Sample
{
	List	   *leaves;			/* of SampleLeaf * */
	bool		heap;			/* all leaves are */
	uint64		blocks;			/* of all leaves */
	uint64		read;			/* of them, by SampleRows */
	Snapshot	snapshot;		/* of the moment of SampleOpen */
	Snapshot	registered;
	SnapshotData copy;
} Sample;

typedef void (*SampleVisit) (SampleLeaf *leaf, TupleTableSlot *slot, void *arg);

extern bool SampleOpen(Sample *s, Oid relid);
extern void SampleMapRoles(Sample *s, Queue *q);
extern void SampleRows(Sample *s, int pages, SampleVisit visit, void *arg);
extern void SampleClose(Sample *s);

#endif							/* INBOX_SAMPLE_H */
