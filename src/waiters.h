/*-------------------------------------------------------------------------
 *
 * waiters.h
 *	  Who waits for which queue, and waking them; see waiters.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_WAITERS_H
#define INBOX_WAITERS_H

#define WAKE_ALL	PG_INT64_MAX

extern Size WaitersShmemSize(void);
extern void WaitersShmemInit(void);
extern void WaitersInit(void);

/* for those who wait */
extern bool WaitersFree(void);
extern void WaitersEnlist(int list);
extern void WaitersPassOn(void);
extern void WaitersForgetWake(void);
extern bool WaitersIsKeeper(void);
extern void WaitersLeave(void);

/* for those who wake; a list is a queue's, HintsNumber tells which */
extern void WaitersWake(int list, int64 rows);
extern void WaitersWakeLater(int list, int64 rows);

#endif							/* INBOX_WAITERS_H */
