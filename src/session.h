/*-------------------------------------------------------------------------
 *
 * session.h
 *	  Settings that our processes depend on, whatever the server's are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SESSION_H
#define INBOX_SESSION_H

extern void SessionHarden(void);
extern void SessionReload(void);

#endif							/* INBOX_SESSION_H */
