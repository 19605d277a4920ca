/*-------------------------------------------------------------------------
 *
 * groupstatement.h
 *	  The statements by which groupsql.c finds groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_GROUPSTATEMENT_H
#define INBOX_GROUPSTATEMENT_H

#include "queue.h"

/* variants of the plans: one of these, */
#define SQL_LEVEL		1
#define SQL_GROUPS		2
#define SQL_LEASES		3
#define SQL_HEAD		4
#define SQL_LOOSE		5
#define SQL_WHICH		0x07
/* and what it is limited to */
#define AT_LEVEL		0x08
#define AT_NULL			0x10
#define ABOVE_LEVEL		0x20
#define BEHIND_LOWER	0x40
#define UP_TO_BOUND		0x80
#define OF_GROUP		0x100

#define PARAM_NOW		1
#define PARAM_LEVEL		2
#define PARAM_GROUP		3
#define PARAM_LOWER		4
#define PARAM_BOUND		5

extern char *GroupStatement(Queue *q, uint32 variant);

#endif							/* INBOX_GROUPSTATEMENT_H */
