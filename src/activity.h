/*-------------------------------------------------------------------------
 *
 * activity.h
 *	  What inbox_queues shows of a queue's past and of its hints; see
 *	  activity.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ACTIVITY_H
#define INBOX_ACTIVITY_H

#include "datatype/timestamp.h"
#include "queue.h"

#define NUM_ACTIVITY_COLUMNS	30

/* What the queue itself tells, if it can be opened. */
typedef struct Activity
{
	bool		known;			/* the rest is set */
	bool		has_priority;
	bool		has_due;
	const char *no_hints;		/* why claims do not use hints, or NULL */
} Activity;

extern void ActivityOfQueue(Queue *q, Activity *a);
extern void ActivityPut(Oid relid, const Activity *a, TimestampTz now,
						Datum *values, bool *nulls);

#endif							/* INBOX_ACTIVITY_H */
