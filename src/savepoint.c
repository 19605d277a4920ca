/*-------------------------------------------------------------------------
 *
 * savepoint.c
 *	  A subtransaction around work that may fail, or is not to stay.
 *
 * The server leaves a subtransaction in another memory context and with
 * another resource owner than it was entered with; whoever goes on afterwards
 * needs his own.
 *
 * Each caller has a PG_TRY of its own, and calls SavepointCaught in its
 * PG_CATCH before anything that may fail: if an error left before, the
 * transaction would be deeper than whoever catches it believes.
 *
 * Called by claim.c, dedup.c, guard.c, reaprow.c and subgroup.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "savepoint.h"
#include "utils/memutils.h"

static void
go_on(const Savepoint *s)
{
	MemoryContextSwitchTo(s->cxt);
	CurrentResourceOwner = s->owner;
}

/*
 * SavepointBegin
 *		Enter a subtransaction, in the memory context of the caller.
 */
void
SavepointBegin(Savepoint *s)
{
	s->cxt = CurrentMemoryContext;
	s->owner = CurrentResourceOwner;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(s->cxt);
}

/*
 * SavepointEnd
 *		Leave it; what was done stays, or is undone.
 */
void
SavepointEnd(const Savepoint *s, bool keep)
{
	if (keep)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	go_on(s);
}

/*
 * SavepointCaught
 *		An error was caught: undo what was done.  Returns the error, in the
 *		given memory context.
 */
ErrorData *
SavepointCaught(const Savepoint *s, MemoryContext cxt)
{
	ErrorData  *error;

	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	FlushErrorState();
	SavepointEnd(s, false);
	return error;
}
