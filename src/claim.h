/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Claims: lease rows and deliver them; see claim.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_CLAIM_H
#define INBOX_CLAIM_H

#include "deliver.h"
#include "find.h"
#include "wait.h"
#include "write.h"

typedef struct Claim
{
	Queue	   *q;
	TimestampTz now;			/* the one instant of rule 2 */
	int64		lease;			/* seconds */
	RowWriter	writer;
	Finder	   *finder;			/* NULL: the caller names the rows */
	DeliverySink *sink;
	MemoryContext row_cxt;		/* reset for each row */
} Claim;

extern void ClaimBegin(Claim *c, Queue *q, int64 lease, DeliverySink *sink);
extern bool ClaimTake(Claim *c, GroupFind *groups, Oid relid, ItemPointer tid);
extern void ClaimEnd(Claim *c);
extern int64 ClaimRows(Queue *q, int64 max_rows, int64 lease, text *group,
					   const KeyShare *share, DeliverySink *sink,
					   WaitLook *look);

#endif							/* INBOX_CLAIM_H */
