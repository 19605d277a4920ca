/*-------------------------------------------------------------------------
 *
 * settle.h
 *	  Settlements, for callers in C; see settle.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SETTLE_H
#define INBOX_SETTLE_H

#include "fmgr.h"
#include "judge.h"
#include "queue.h"

typedef enum Outcome
{
	OUTCOME_DONE,
	OUTCOME_DROP,
	OUTCOME_RETRY,
	OUTCOME_RELEASE,
	OUTCOME_DEAD
} Outcome;

/* What one receipt of a call asks for. */
typedef struct SettleRequest
{
	Outcome		outcome;
	bool		undecodable;	/* so says the dead letter, if it becomes one */
	Interval   *delay;			/* or NULL */
	char	   *error;			/* or NULL */
} SettleRequest;

extern void SettleDone(Queue *q, Datum *receipts, bool *nulls, int n);
extern Verdict *SettleAll(Queue *q, Datum *receipts, SettleRequest *requests,
						  int n);
extern void SettleCheckRights(Queue *q, bool dead);

/* settleargs.c */
extern void SettleReadRequest(FunctionCallInfo fcinfo, Queue *q,
							  SettleRequest *request);
extern SettleRequest *SettleReadRequests(FunctionCallInfo fcinfo, Queue *q,
										 int n);

#endif							/* INBOX_SETTLE_H */
