/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Configuration parameters, inbox.*.
 *
 * Called once, from _PG_init.  Everything here can be changed by a reload;
 * no parameter sizes shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "settings.h"
#include "utils/guc.h"

#define DAY_SECS	(24 * 60 * 60)

int			InboxMaxLease = 7 * DAY_SECS;
int			InboxReapInterval = 1000;
int			InboxReapRows = 1000;
int			InboxReapPages = 4096;

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

	MarkGUCPrefixReserved("inbox");
}
