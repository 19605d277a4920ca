/*-------------------------------------------------------------------------
 *
 * delta.h
 *	  What a transaction will add to the totals of queues; see delta.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DELTA_H
#define INBOX_DELTA_H

#include "totals.h"

extern void DeltaInit(void);
extern void DeltaCount(Queue *q, Total total, int64 n);
extern int64 DeltaPending(Queue *q, Total total);
extern void DeltaCorrect(Queue *q, Total total, int64 n);

#endif							/* INBOX_DELTA_H */
