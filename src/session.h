/*-------------------------------------------------------------------------
 *
 * session.h
 *	  What our processes have in common: settings, and how they stop.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SESSION_H
#define INBOX_SESSION_H

extern void SessionHarden(void);
extern void SessionSettle(void);
extern void SessionReload(void);
extern void SessionStop(SIGNAL_ARGS);
extern void SessionBusy(void);
extern void SessionIdle(void);
extern void SessionCheckStop(void);

#endif							/* INBOX_SESSION_H */
