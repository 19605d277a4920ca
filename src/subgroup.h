/*-------------------------------------------------------------------------
 *
 * subgroup.h
 *	  Messages of a batch that are handled in one transaction; see subgroup.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBGROUP_H
#define INBOX_SUBGROUP_H

#include "handler.h"
#include "settle.h"
#include "subworker.h"

/* each may have a transaction id of its own; a backend caches 64 */
#define GROUP_MAX		50
/* a transaction is not to take longer, in microseconds */
#define GROUP_USECS		10000
/* how often a handling may fail only in company before it gets none */
#define MAX_SPURIOUS	3

/* How far the message at hand has come. */
typedef enum BatchStep
{
	STEP_OPEN,
	STEP_DECODE,
	STEP_HANDLE,
	STEP_SETTLE
} BatchStep;

/* The messages of one transaction. */
typedef struct BatchGroup
{
	SubWorker  *w;
	int			first;
	int			next;			/* the one at hand, or to come */
	BatchStep	step;
	bool		again;			/* that one is to begin anew, alone */
	bool		spoilt;			/* for an error, not for its slowness */
	bool		over;			/* no more of the batch is ours */
	bool		lost;			/* it ended for a lost lease */
	/* how long handlings took, in microseconds */
	TimestampTz clock;			/* when the last one began; 0: none has */
	int			gaps;
	int64		took;
	int64		longest;
	Handler		handler;
	MemoryContext item_cxt;
	/* to be settled at the end */
	int			n;
	int			nhandled;
	int			nundecodable;
	int		   *items;
	SettleRequest *requests;
} BatchGroup;

extern void BatchHandleOne(BatchGroup *g, int time_limit);
extern void BatchClock(BatchGroup *g, TimestampTz now);
extern int	BatchPatience(SubWorker *w);
extern bool BatchGroupRun(BatchGroup *g, int end, ErrorData **error);

/* subown.c */
extern bool BatchOwnDoing(BatchGroup *g, Queue *q, int item,
						  SettleRequest *request);

/* subbatch.c */
extern void BatchLearn(BatchGroup *g, TimestampTz began);

#endif							/* INBOX_SUBGROUP_H */
