/*-------------------------------------------------------------------------
 *
 * setup.h
 *	  What inbox_create, inbox_adopt and inbox_alter share: the settings among
 *	  their arguments, and running DDL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SETUP_H
#define INBOX_SETUP_H

#include "args.h"
#include "queue.h"

/* in the order of the functions' arguments */
typedef enum Setting
{
	SETTING_LEASE,
	SETTING_MAX_ATTEMPTS,
	SETTING_DEAD_LETTER,
	SETTING_BACKOFF,
	SETTING_BACKOFF_MAX,
	SETTING_RETENTION,
	SETTING_DEAD_GROUP,
	SETTING_FIFO,
	SETTING_FIFO_RETRY
} Setting;

#define NUM_SETTINGS	(SETTING_FIFO_RETRY + 1)

extern text *SetupReadSettings(FunctionCallInfo fcinfo, int first,
							   QueueSettings *settings);
extern void SetupReset(FunctionCallInfo fcinfo, int n, int first,
					   QueueSettings *settings);
extern void SetupCheck(const QueueSettings *settings, Oid relid,
					   const RoleColumn *col, bool dead_letter);
extern void SetupExec(const char *sql);
extern Oid	SetupOpenOwned(text *name, LOCKMODE lockmode,
						   QueueSettings *settings);

#endif							/* INBOX_SETUP_H */
