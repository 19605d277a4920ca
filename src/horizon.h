/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  Who holds the oldest snapshot; see horizon.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HORIZON_H
#define INBOX_HORIZON_H

#include "datatype/timestamp.h"

typedef struct SnapshotHolder
{
	const char *kind;			/* NULL: nobody holds one */
	int			pid;			/* 0: no process */
	bool		has_age;
	int64		age;			/* microseconds */
	int64		xids;			/* transactions begun since */
} SnapshotHolder;

extern void HorizonFind(SnapshotHolder *holder);

#endif							/* INBOX_HORIZON_H */
