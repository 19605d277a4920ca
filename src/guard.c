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

#include "guard.h"
#include "savepoint.h"

/*
 * GuardRun
 *		Do the work; NULL if it went well, else the error's message.  Being
 *		cancelled is nobody's fault and ends the whole statement.
 */
const char *
GuardRun(void (*work) (void *arg), void *arg)
{
	Savepoint	savepoint;
	const char *volatile message = NULL;

	SavepointBegin(&savepoint);
	PG_TRY();
	{
		work(arg);
		SavepointEnd(&savepoint, true);
	}
	PG_CATCH();
	{
		ErrorData  *error = SavepointCaught(&savepoint, savepoint.cxt);

		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
			ReThrowError(error);
		message = error->message;
	}
	PG_END_TRY();
	return message;
}
