/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  Configuration parameters, inbox.*; defined in settings.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SETTINGS_H
#define INBOX_SETTINGS_H

/* longest lease anybody may ask for, in seconds */
extern int	InboxMaxLease;

/* time between two passes of the worker over a database, in milliseconds */
extern int	InboxReapInterval;

/* most rows that one reap pass buries or purges in one queue */
extern int	InboxReapRows;

/* most table pages that one reap pass reads in one queue */
extern int	InboxReapPages;

/* time after which the worker breaks off a pass, in milliseconds; 0: never */
extern int	InboxReapTimeout;

/* queues that the shared hints have room for */
extern int	InboxMaxQueues;

/* plain tables are written and walked without SQL */
extern bool InboxDirect;

/* commits of claims and extensions alone do not wait for the disk */
extern bool InboxAsyncClaim;

/* the worker notifies those who listen for a queue */
extern bool InboxNotify;

/* most workers of all subscriptions together */
extern int	InboxMaxSubscriptionWorkers;

/* most messages that one of them claims at a time */
extern int	InboxSubscriptionBatch;

extern void SettingsInit(void);

#endif							/* INBOX_SETTINGS_H */
