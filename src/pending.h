/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  What a transaction will have to tell the hints; see pending.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_PENDING_H
#define INBOX_PENDING_H

#include "hints.h"
#include "lease.h"

extern void PendingInit(void);
extern void PendingLease(Queue *q, LeaseKind kind, const LeaseRow *row,
						 const HintRange *keys);
extern void PendingExtend(Queue *q, const LeaseRow *before,
						  const LeaseRow *after, const HintRange *keys);
extern void PendingSettle(Queue *q, const LeaseRow *row,
						  const HintRange *keys);
extern void PendingOpen(Queue *q, const HintRange *keys, int64 rows);
extern void PendingSent(Queue *q, const HintRange *keys, int64 rows);
extern void PendingWake(Queue *q);
extern void PendingNote(Queue *q, TimestampTz until, const HintRange *keys);
extern void PendingPassed(QueueHints *hints, const HintRange *keys);
extern bool PendingUntold(QueueHints *hints);
extern void PendingOpenAll(Oid relid);
extern void PendingRoom(void);
extern bool PendingOwns(QueueHints *hints, const HintKey *key,
						TimestampTz now);
extern bool PendingOwnsAny(const QueueHints *hints, TimestampTz now);
extern void PendingOwn(QueueHints *hints, OpenSet *open, TimestampTz now);

#endif							/* INBOX_PENDING_H */
