/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Keep one queue's error from what is done for the others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_GUARD_H
#define INBOX_GUARD_H

extern const char *GuardRun(void (*work) (void *arg), void *arg);

#endif							/* INBOX_GUARD_H */
