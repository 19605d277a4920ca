/*-------------------------------------------------------------------------
 *
 * bgproc.h
 *	  What background processes of ours have in common; see bgproc.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_BGPROC_H
#define INBOX_BGPROC_H

#include "postmaster/bgworker.h"

/* What such a process says of itself. */
typedef struct BgProc
{
	const char *wait_name;		/* in pg_stat_activity, when it sleeps */
	uint32		wait_event;		/* bgproc.c's own */
	/* with BgProcTry: does somebody need the database empty? */
	bool		(*must_leave) (void);
	/* and: an error, for people to see */
	void		(*failed) (const char *message);
} BgProc;

typedef void (*BgProcStep) (void *arg);

extern void BgProcDescribe(BackgroundWorker *worker, const char *type,
						   const char *function, Datum arg);
extern long BgProcRefusedFor(void);
extern bool BgProcStart(BackgroundWorker *worker,
						BackgroundWorkerHandle **handle, const char *detail);
extern bool BgProcTry(const BgProc *self, BgProcStep step, void *arg,
					  int timeout);
extern void BgProcSleep(BgProc *self, long wait);

#endif							/* INBOX_BGPROC_H */
