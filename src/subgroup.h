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
	bool		quick;			/* see subquick.c */
	Handler		handler;
	MemoryContext item_cxt;
	/* to be settled at the end */
	int			n;
	int			nhandled;
	int			nundecodable;
	int		   *items;
	SettleRequest *requests;
} BatchGroup;

extern void BatchHandleFirst(BatchGroup *g, int time_limit);
extern void BatchHandleLater(BatchGroup *g, int time_limit);
extern int	BatchPatience(SubWorker *w);
extern bool BatchGroupRun(BatchGroup *g, int end, ErrorData **error);

/* subown.c */
extern bool BatchOwnDoing(BatchGroup *g, Queue *q, int item,
						  SettleRequest *request);

#endif							/* INBOX_SUBGROUP_H */
