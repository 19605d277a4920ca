/*-------------------------------------------------------------------------
 *
 * subscription.h
 *	  Subscriptions as they are defined: the table inbox_subscription; see
 *	  subconfig.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBSCRIPTION_H
#define INBOX_SUBSCRIPTION_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"

/* columns of the table */
enum
{
	SUB_NAME,
	SUB_QUEUE,
	SUB_HANDLER,
	SUB_HANDLER_OID,
	SUB_HOME,
	SUB_OWNER,
	SUB_WORKERS,
	SUB_BY_KEY,
	SUB_LEASE,
	SUB_ON_ERROR,
	SUB_ON_DECODE_ERROR,
	SUB_DECODE_DELAY,
	SUB_GROUP_KEY,
	SUB_TIME_LIMIT,
	SUB_PAUSED,
	NUM_SUB_COLUMNS
};

/* one row of it */
typedef struct Subscription
{
	char	   *name;
	Oid			queue;			/* may have been dropped */
	char	   *handler;		/* as regprocedure would show it, with schema */
	Oid			handler_oid;	/* means something only at home */
	char	   *home;			/* where handler_oid was looked up */
	Oid			owner;			/* may have been dropped */
	int			workers;
	bool		by_key;
	Interval   *lease;			/* NULL: the queue's */
	char	   *on_error;
	char	   *on_decode_error;
	Interval   *decode_delay;	/* NULL: the queue's backoff */
	char	   *group_key;		/* NULL: all */
	Interval   *time_limit;		/* NULL: none */
	bool		paused;
	ItemPointerData tid;		/* of the row; invalid: not stored yet */
} Subscription;

/* what has become of a row that was written somewhere else */
typedef enum SubscriptionPlace
{
	PLACE_HOME,
	PLACE_UPGRADED,				/* the same database, after pg_upgrade */
	PLACE_COPY					/* a restored dump, or a copied database */
} SubscriptionPlace;

extern Oid	SubscriptionTable(void);
extern bool SubscriptionsExist(void);
extern List *SubscriptionReadAll(void);
extern Subscription *SubscriptionRead(const char *name);
extern void SubscriptionWrite(Subscription *sub);
extern void SubscriptionRemove(Subscription *sub);
extern void SubscriptionSetHandler(Subscription *sub, Oid handler);
extern SubscriptionPlace SubscriptionPlaceOf(const Subscription *sub);
extern Oid	SubscriptionFindHandler(const Subscription *sub);
extern Oid	SubscriptionFindAnew(const Subscription *sub);
extern uint64 SubscriptionPrint(const Subscription *sub);
extern int	SubscriptionTimeLimit(const Subscription *sub);

#endif							/* INBOX_SUBSCRIPTION_H */
