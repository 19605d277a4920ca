/*-------------------------------------------------------------------------
 *
 * reap.h
 *	  One bounded pass over a queue; called by the worker and inbox_reap.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_REAP_H
#define INBOX_REAP_H

#include "nodes/pg_list.h"

typedef struct ReapCounts
{
	int64		expired;		/* ended leases seen */
	int64		buried;
	int64		purged;
	int64		set_aside;		/* failures to bury or purge a row */
} ReapCounts;

extern List *ReapQueues(void);
extern bool ReapQueue(Oid relid, ReapCounts *counts);

#endif							/* INBOX_REAP_H */
