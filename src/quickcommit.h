/*-------------------------------------------------------------------------
 *
 * quickcommit.h
 *	  Claims that do not wait for the disk; see quickcommit.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_QUICKCOMMIT_H
#define INBOX_QUICKCOMMIT_H

extern void QuickInit(void);
extern Size QuickShmemSize(void);
extern void QuickShmemInit(void);

extern void QuickEnter(void);
extern void QuickLeave(void);
extern void QuickDirty(void);
extern bool QuickAfterCrash(void);

#endif							/* INBOX_QUICKCOMMIT_H */
