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

/* New values for the columns of some roles; the others stay. */
typedef struct RowChange
{
	bool		set[NUM_QUEUE_ROLES];
	bool		isnull[NUM_QUEUE_ROLES];
	Datum		value[NUM_QUEUE_ROLES];
} RowChange;

typedef struct RowWriter RowWriter;

extern RowWriter *WriterBegin(Queue *q);
extern bool WriterUpdate(RowWriter *w, Relation leaf, TupleTableSlot *slot,
						 const RowChange *change);
extern bool WriterDelete(RowWriter *w, Relation leaf, TupleTableSlot *slot);
extern void WriterEnd(RowWriter *w);

#endif							/* INBOX_WRITE_H */
