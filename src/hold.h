/*-------------------------------------------------------------------------
 *
 * hold.h
 *	  Keep the workers out of a database while a command needs it empty.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HOLD_H
#define INBOX_HOLD_H

extern void HoldTake(Oid database);
extern void HoldRelease(Oid database);
extern void HoldReleaseAll(void);
extern bool HoldExists(Oid database);

#endif							/* INBOX_HOLD_H */
