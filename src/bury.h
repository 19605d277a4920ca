/*-------------------------------------------------------------------------
 *
 * bury.h
 *	  Dead letters: the atomic move out of the queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_BURY_H
#define INBOX_BURY_H

#include "write.h"

typedef enum BuryCause
{
	CAUSE_FAILED,				/* asked to retry with its attempts spent */
	CAUSE_LEASE_LOST,			/* its last lease ended unsettled */
	CAUSE_UNDECODABLE,			/* payload its subscription cannot read */
	CAUSE_BURIED				/* settled as dead */
} BuryCause;

extern const char *BuryCauseText(BuryCause cause);
extern bool BuryConfigured(Queue *q);
extern const char *BuryWhyNot(Queue *q);
extern void BuryRefuse(Queue *q);
extern void BuryRequire(Queue *q);
extern void BuryRow(Queue *q, RowLeaf *leaf, BuryCause cause,
					const char *error, bool restricted);

#endif							/* INBOX_BURY_H */
