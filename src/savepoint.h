/*-------------------------------------------------------------------------
 *
 * savepoint.h
 *	  A subtransaction around work that may fail; see savepoint.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SAVEPOINT_H
#define INBOX_SAVEPOINT_H

#include "utils/resowner.h"

typedef struct Savepoint
{
	MemoryContext cxt;
	ResourceOwner owner;
} Savepoint;

extern void SavepointBegin(Savepoint *s);
extern void SavepointEnd(const Savepoint *s, bool keep);
extern ErrorData *SavepointCaught(const Savepoint *s, MemoryContext cxt);

#endif							/* INBOX_SAVEPOINT_H */
