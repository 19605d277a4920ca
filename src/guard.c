/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Keep one queue's error from what is done for the others.
 *
 * A view over all queues must not fail because a column of one was dropped,
 * its policy raises, or its file cannot be read.  The work for each runs in a
 * subtransaction, and an error becomes a line of text.
 *
 * Called by stats.c, look.c and reap.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guard.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/*
 * GuardRun
 *		Do the work; NULL if it went well, else the error's message.  Being
 *		cancelled is nobody's fault and ends the whole statement.
 */
const char *
GuardRun(void (*work) (void *arg), void *arg)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	const char *volatile message = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		work(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		message = error->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return message;
}
