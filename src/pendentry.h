/*-------------------------------------------------------------------------
 *
 * pendentry.h
 *	  One thing that a transaction will have to tell the hints; for pending.c,
 *	  which keeps the list, pendjoin.c, which keeps it short, and pendtell.c,
 *	  which tells.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_PENDENTRY_H
#define INBOX_PENDENTRY_H

#include "pending.h"

typedef enum PendingKind
{
	PENDING_LEASE,
	PENDING_ENTER,
	PENDING_TAKE_OFF,
	PENDING_NOTE,
	PENDING_OPEN,
	PENDING_WAKE,
	PENDING_OPEN_ALL,
	PENDING_PASSED
} PendingKind;

typedef struct PendingEntry
{
	PendingKind kind;
	QueueHints *hints;
	int			level;			/* nesting level of the subtransaction */
	LeaseKind	lease;
	TimestampTz until;			/* of leases: all end in the same grain */
	int64		attempt;		/* of leases taken off: all have the same */
	bool		coarse;			/* leases of several grains */
	HintRange	keys;
	int64		count;
	uint64		sum;			/* of the receipts' hashes */
} PendingEntry;

/* pendjoin.c */
extern PendingEntry *PendingFindJoining(PendingEntry *entries, int nentries,
										const PendingEntry *entry);
extern void PendingJoin(PendingEntry *e, const PendingEntry *entry);

/* pendtell.c */
extern void PendingTellInit(void);
extern void PendingTellCommit(const PendingEntry *e);
extern void PendingTellAbort(const PendingEntry *e);
extern void PendingTellPrepare(const PendingEntry *e, TransactionId xid);

#endif							/* INBOX_PENDENTRY_H */
