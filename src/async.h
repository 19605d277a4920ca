/*-------------------------------------------------------------------------
 *
 * async.h
 *	  Claims that do not wait for the disk; see async.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ASYNC_H
#define INBOX_ASYNC_H

extern void AsyncInit(void);
extern Size AsyncShmemSize(void);
extern void AsyncShmemInit(void);

extern void AsyncEnter(void);
extern void AsyncLeave(void);
extern void AsyncDirty(void);

#endif							/* INBOX_ASYNC_H */
