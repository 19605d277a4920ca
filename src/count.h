/*-------------------------------------------------------------------------
 *
 * count.h
 *	  Count the messages of a queue by state; see count.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_COUNT_H
#define INBOX_COUNT_H

#include "lease.h"

typedef struct QueueCounts
{
	const char *problem;		/* not NULL: what could not be counted, why */
	bool		known;			/* all but the dead are set */
	int64		state[NUM_LEASE_STATES];
	bool		estimated;		/* one of the counts is */
	bool		has_dead;
	int64		dead;
	bool		has_oldest;
	TimestampTz oldest;			/* claimable since */
	int64		bytes;
	int64		dead_rows;
} QueueCounts;

extern void CountQueue(Queue *q, TimestampTz now, QueueCounts *counts);

#endif							/* INBOX_COUNT_H */
