/*-------------------------------------------------------------------------
 *
 * settle.h
 *	  Settlements, for those who settle from C.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SETTLE_H
#define INBOX_SETTLE_H

#include "queue.h"

extern void SettleDone(Queue *q, Datum *receipts, bool *nulls, int n);

#endif							/* INBOX_SETTLE_H */
