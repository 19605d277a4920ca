/*-------------------------------------------------------------------------
 *
 * deadletter.h
 *	  Where a queue buries: finding, checking, making and labelling the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DEADLETTER_H
#define INBOX_DEADLETTER_H

#include "queue.h"

extern Oid	DeadLetterFind(text *name, bool created, const char *queue);
extern void DeadLetterAttach(Relation queue, const RoleColumn *col, Oid dead,
							 QueueSettings *settings);
extern void DeadLetterCreate(Relation queue, const RoleColumn *col,
							 QueueSettings *settings);
extern Oid	DeadLetterOwn(Oid queue, const QueueSettings *settings);
extern void DeadLetterDetach(Oid queue, const char *token, bool notice);

#endif							/* INBOX_DEADLETTER_H */
