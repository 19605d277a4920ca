/*-------------------------------------------------------------------------
 *
 * extend.h
 *	  Extensions, for callers in C; see extend.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_EXTEND_H
#define INBOX_EXTEND_H

#include "judge.h"

extern Verdict *ExtendUnlocked(Queue *q, Datum *receipts, int n, int64 lease);

#endif							/* INBOX_EXTEND_H */
