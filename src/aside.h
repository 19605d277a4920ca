/*-------------------------------------------------------------------------
 *
 * aside.h
 *	  Rows that the reaper could not deal with and leaves alone for a while.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ASIDE_H
#define INBOX_ASIDE_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"

extern bool AsideResting(Oid relid, const ItemPointerData *tid,
						 TransactionId xmin, TimestampTz now);
extern int	AsideAdd(Oid relid, const ItemPointerData *tid,
					 TransactionId xmin, TimestampTz now);

#endif							/* INBOX_ASIDE_H */
