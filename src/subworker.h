/*-------------------------------------------------------------------------
 *
 * subworker.h
 *	  A process of a subscription; see subworker.c and subbatch.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBWORKER_H
#define INBOX_SUBWORKER_H

#include <signal.h>

#include "deliver.h"
#include "find.h"
#include "subscription.h"

typedef struct SubWorker
{
	Subscription *sub;
	Oid			handler;
	KeyShare	share;
	int			time_limit;		/* of one handling, in milliseconds; 0: none */
	MemoryContext cxt;			/* of the batch */

	/* the batch: rows claimed in one transaction */
	int			n;
	KeptRow   **rows;
	int64		lease;			/* seconds */

	/* how much is done at once */
	double		usecs;			/* a message takes, lately, commit and all */
	double		busy;			/* its handling alone */
	int			group;			/* messages handled in one transaction */
	int			spurious;		/* handlings that failed only in company */
	int			trust;			/* handled since something went wrong */
	bool		claim_next;		/* there is something only a claim can take */
	TimestampTz logged_at;		/* the last error in the log */
} SubWorker;

/* What a signal would strike. */
typedef enum SubActivity
{
	ACTIVITY_IDLE,
	ACTIVITY_BUSY,				/* a transaction, but no handler */
	ACTIVITY_HANDLING
} SubActivity;

extern volatile sig_atomic_t SubActivityNow;

/* subworker.c */
extern bool SubMustLeave(void);

/* subbatch.c */
extern int	BatchClaimRows(SubWorker *w);
extern void BatchHandle(SubWorker *w);

/* subquick.c */
extern bool BatchQuick(SubWorker *w);

/* subsettle.c */
extern char *BatchErrorText(const ErrorData *error);
extern ErrorData *BatchEndError(MemoryContext cxt);
extern void BatchLog(SubWorker *w, ErrorData *error);
extern bool BatchPayloadsFault(const ErrorData *error);
extern void BatchSettleFailed(SubWorker *w, int item, const ErrorData *error,
							  bool undecodable);
extern void BatchRelease(SubWorker *w, int first, int end);
extern void BatchFailure(SubWorker *w, bool undecodable, const char *error,
						 struct SettleRequest *request);

#endif							/* INBOX_SUBWORKER_H */
