/*-------------------------------------------------------------------------
 *
 * deadcheck.h
 *	  Can this table take a queue's dead letters?
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DEADCHECK_H
#define INBOX_DEADCHECK_H

#include "queue.h"

extern void DeadCheckTable(Relation queue, const RoleColumn *col,
						   Relation dead);
extern void DeadCheckQueue(Relation queue, const RoleColumn *col,
						   Relation dead);

#endif							/* INBOX_DEADCHECK_H */
