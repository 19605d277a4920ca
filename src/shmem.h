/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  The library's shared memory; see shmem.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SHMEM_H
#define INBOX_SHMEM_H

extern void InboxShmemInit(void);

#endif							/* INBOX_SHMEM_H */
