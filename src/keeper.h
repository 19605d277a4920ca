/*-------------------------------------------------------------------------
 *
 * keeper.h
 *	  The keeper of a database's subscriptions; see keeper.c, keepstart.c and
 *	  keeplease.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_KEEPER_H
#define INBOX_KEEPER_H

#include "bgproc.h"
#include "datatype/timestamp.h"

/* keeper.c */
extern void KeeperStart(void);
extern bool KeeperTry(BgProcStep step, void *arg, int timeout);

/* keepstart.c */
extern TimestampTz KeeperStartWorkers(void);
extern bool KeeperAnyWorker(void);

/* keeplease.c */
extern bool KeeperKeepLeases(void);

#endif							/* INBOX_KEEPER_H */
