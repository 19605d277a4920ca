/*-------------------------------------------------------------------------
 *
 * subcheck.h
 *	  What is checked before a subscription is written; see subcheck.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBCHECK_H
#define INBOX_SUBCHECK_H

#include "queue.h"
#include "subscription.h"

extern const char *SubOwnerProblem(Oid owner);
extern void SubCheckOwner(Oid owner);
extern void SubCheckSettings(Subscription *sub);
extern void SubCheckQueue(Subscription *sub, Oid handler, Queue *q);

#endif							/* INBOX_SUBCHECK_H */
