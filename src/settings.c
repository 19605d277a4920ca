/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Configuration parameters, inbox.*.
 *
 * Called once, from _PG_init.  What sizes shared memory exists only where the
 * library is preloaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "settings.h"
#include "subshared.h"
#include "utils/guc.h"

#define DAY_SECS	(24 * 60 * 60)

int			InboxMaxLease = 7 * DAY_SECS;
int			InboxReapInterval = 1000;
int			InboxReapRows = 1000;
int			InboxReapPages = 4096;
int			InboxReapTimeout = 60000;
int			InboxMaxQueues = 256;
int			InboxMaxSubscriptionWorkers = 8;
int			InboxSubscriptionBatch = 100;
bool		InboxDirect = true;
bool		InboxNotify = false;
bool		InboxAsyncClaim = true;

static void
define_reap_settings(void)
{
	DefineCustomIntVariable("inbox.reap_interval",
							"Time between two passes of the worker over its database.",
							NULL,
							&InboxReapInterval,
							1000, 10, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("inbox.reap_rows",
							"Most rows that one reap pass buries or purges in one queue.",
							NULL,
							&InboxReapRows,
							1000, 1, 1000000,
							PGC_USERSET, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("inbox.reap_pages",
							"Most table pages that one reap pass reads in one queue.",
							NULL,
							&InboxReapPages,
							4096, 1, INT_MAX,
							PGC_USERSET, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("inbox.reap_timeout",
							"Time after which the worker breaks off a pass over one queue.",
							"Triggers of its owner run in it, and may take as long as they like; 0 lets them.",
							&InboxReapTimeout,
							60000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("inbox.notify",
							 "The worker sends NOTIFY for queues that have something to claim.",
							 "Once in each pass, on the channel that is named like the queue, with its schema.",
							 &InboxNotify,
							 false,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
}

static void
define_subscription_settings(void)
{
	DefineCustomIntVariable("inbox.subscription_batch",
							"Most messages that a worker of a subscription claims at a time.",
							"It claims fewer when they take long.",
							&InboxSubscriptionBatch,
							100, 1, SUB_MAX_BATCH,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("inbox.max_subscription_workers",
								"Most workers of all subscriptions of the server together.",
								NULL,
								&InboxMaxSubscriptionWorkers,
								8, 0, SUB_MAX_SLOTS,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
}

void
SettingsInit(void)
{
	DefineCustomIntVariable("inbox.max_lease",
							"Longest lease that a claim or an extension may ask for.",
							NULL,
							&InboxMaxLease,
							7 * DAY_SECS, 1, 3650 * DAY_SECS,
							PGC_SUSET, GUC_UNIT_S,
							NULL, NULL, NULL);

	define_reap_settings();
	define_subscription_settings();

	DefineCustomBoolVariable("inbox.direct",
							 "Walk and write plain tables without SQL.",
							 "Off, every table takes the way of those that cannot: slower, with the same result.",
							 &InboxDirect,
							 true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("inbox.async_claim",
							 "Commits of claims and extensions alone do not wait for the disk.",
							 "What a crash then loses is a lease: the row is delivered again.",
							 &InboxAsyncClaim,
							 true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("inbox.max_queues",
								"Queues that the shared hints have room for.",
								NULL,
								&InboxMaxQueues,
								256, 1, 100000,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);

	MarkGUCPrefixReserved("inbox");
}
