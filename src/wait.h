/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Waiting until rows may be claimable; see wait.c and waitcall.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_WAIT_H
#define INBOX_WAIT_H

#include "fmgr.h"
#include "hints.h"

/* What an attempt that finds nothing tells. */
typedef struct WaitLook
{
	TimestampTz next_due;		/* when a row it has seen comes due, or
								 * PG_INT64_MAX */
	bool		selective;		/* somebody else might find something */
} WaitLook;

/* Look once more; true when that ends the wait. */
typedef bool (*WaitAttempt) (void *arg, WaitLook *look);

extern int64 WaitArg(FunctionCallInfo fcinfo, int n);
extern bool WaitPeek(Queue *q, WaitLook *look);
extern void WaitUntil(int64 usecs, QueueHints *hints, WaitAttempt attempt,
					  void *arg);

#endif							/* INBOX_WAIT_H */
