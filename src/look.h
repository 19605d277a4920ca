/*-------------------------------------------------------------------------
 *
 * look.h
 *	  Read the rows of a queue for a view, as whoever looks; see look.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LOOK_H
#define INBOX_LOOK_H

#include "executor/tuptable.h"
#include "queue.h"

/* "attnos" says where in the slot the column of each role is, 0: nowhere */
typedef void (*LookVisit) (const AttrNumber *attnos, TupleTableSlot *slot,
						   void *arg);

typedef struct Look
{
	Oid			relid;
	AttrNumber	col[NUM_ROLES]; /* columns to read; 0: not that one */
	const char *condition;		/* what rows must fulfil at least, or NULL; */
	TimestampTz now;			/* its $1 */
	LookVisit	visit;			/* called in a context of the row's own */
	void	   *arg;
} Look;

extern bool LookMayReadSome(Oid relid);
extern bool LookMayRead(const Look *look);
extern bool LookRows(const Look *look);
extern void LookQueue(Oid relid, bool (*work) (void *arg), void *arg);
extern void LookEach(void (*look) (Oid relid, void *arg), void *arg);

#endif							/* INBOX_LOOK_H */
