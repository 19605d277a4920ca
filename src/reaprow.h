/*-------------------------------------------------------------------------
 *
 * reaprow.h
 *	  What the reaper does with the rows of a stretch of pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_REAPROW_H
#define INBOX_REAPROW_H

#include "hints.h"
#include "queue.h"
#include "reap.h"
#include "storage/block.h"
#include "utils/snapshot.h"

/* One pass over one queue. */
typedef struct ReapPass
{
	Queue	   *q;
	ReapCounts *counts;
	bool		by_hand;		/* no pauses, and failures are told the caller */
	bool		can_bury;		/* there is somewhere to bury, and it is free */
	int64		unburied;		/* spent rows met where it is not so */
	bool		prepared;		/* constraints are immediate */
	TimestampTz now;			/* judges all rows of the pass */
	Snapshot	snapshot;
	int64		pages_left;
	int64		rows_left;
	int			run;			/* rows of the next subtransaction */
	int			reports;		/* failures so far */

	/* the table at hand: the queue's own, a partition, or a child */
	Relation	leaf;
	AttrNumber	attno[NUM_QUEUE_ROLES];
	HintView	view;			/* what is open, if it has hints */
	AttrNumber	last_attno;		/* of those the judgement needs */
} ReapPass;

extern void ReapSetLeaf(ReapPass *pass, Relation leaf);
extern BlockNumber ReapPages(ReapPass *pass, BlockNumber from, BlockNumber to);

/* reapfail.c */
extern void ReapSetAside(ReapPass *pass, ItemPointer tid, TransactionId xmin,
						 const ErrorData *error);
extern void ReapReportRest(ReapPass *pass);

#endif							/* INBOX_REAPROW_H */
