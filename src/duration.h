/*-------------------------------------------------------------------------
 *
 * duration.h
 *	  Interval arguments: what is allowed, and how an absurd one is refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DURATION_H
#define INBOX_DURATION_H

#include "datatype/timestamp.h"

#define MAX_WAIT_USECS		(USECS_PER_HOUR)
#define MAX_DELAY_USECS		(INT64CONST(3660) * USECS_PER_DAY)	/* ten years */

extern int64 DurationMicros(const Interval *iv, const char *what, int64 min,
							int64 max, const char *max_text);
extern int64 DurationLease(const Interval *iv);
extern void DurationCheckDelay(const Interval *iv);

#endif							/* INBOX_DURATION_H */
