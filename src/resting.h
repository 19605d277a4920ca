/*-------------------------------------------------------------------------
 *
 * resting.h
 *	  What a worker leaves alone for a while, because it failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_RESTING_H
#define INBOX_RESTING_H

#include "nodes/pg_list.h"

extern void RestingInit(void);
extern void RestingBegin(Oid relid);
extern bool RestingIsOver(Oid relid);
extern void RestingEnd(Oid relid);
extern void RestingForgetOthers(List *relids);

#endif							/* INBOX_RESTING_H */
