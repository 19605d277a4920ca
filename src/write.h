/*-------------------------------------------------------------------------
 *
 * write.h
 *	  The one place that changes rows of a queue; see write.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_WRITE_H
#define INBOX_WRITE_H

#include "executor/tuptable.h"
#include "queue.h"
#include "utils/resowner.h"

/* New values for the columns of some roles; the others stay. */
typedef struct RowChange
{
	bool		set[NUM_QUEUE_ROLES];
	bool		isnull[NUM_QUEUE_ROLES];
	Datum		value[NUM_QUEUE_ROLES];
} RowChange;

/*
 * One table that holds rows of the queue: its own, a partition or a child.
 * Opened at the first row met in it, closed by WriterEnd.
 */
typedef struct RowLeaf
{
	Relation	rel;
	AttrNumber	attnos[NUM_QUEUE_ROLES];
	TupleTableSlot *old;		/* for the caller: the version it locks */
	TupleTableSlot *new;		/* the version written last */
	/* set up at the first direct write that needs the executor */
	struct EState *estate;
	struct ResultRelInfo *rri;
	Bitmapset **updated;		/* columns the write at hand changes */
	bool		rules;			/* has rewrite rules */
	bool		direct_update;	/* without SQL */
	bool		direct_delete;
	bool		has_checks;		/* CHECK constraints */
	bool		needs_executor; /* for direct writes: see writedirect.c */
	struct RowLeaf *next;
} RowLeaf;

typedef struct RowWriter
{
	Queue	   *q;
	MemoryContext cxt;			/* of the whole call */
	ResourceOwner owner;		/* likewise */
	RowLeaf    *leaves;
	struct EState *triggers;	/* not NULL: an AFTER trigger level is open,
								 * and its triggers run in here */
} RowWriter;

extern void WriterBegin(RowWriter *w, Queue *q);
extern const char *WriterNeedsSql(Queue *q, Relation leaf, Relation root,
								  int16 event);
extern RowLeaf *WriterLeaf(RowWriter *w, Oid relid);
extern TupleTableSlot *WriterUpdate(RowWriter *w, RowLeaf *leaf,
									const RowChange *change);
extern bool WriterDelete(RowWriter *w, RowLeaf *leaf);
extern void WriterEnd(RowWriter *w);

/* writedirect.c */
extern bool WriteNeedsExecutor(Relation rel);
extern void WriteUpdate(RowWriter *w, RowLeaf *leaf, const RowChange *change);
extern void WriteDelete(RowWriter *w, RowLeaf *leaf);
extern bool WriteMayTryDelete(const RowLeaf *leaf);
extern bool WriteTryDelete(RowLeaf *leaf, ItemPointer tid);
extern void WriteEnd(RowLeaf *leaf);

#endif							/* INBOX_WRITE_H */
