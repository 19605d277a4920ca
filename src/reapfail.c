/*-------------------------------------------------------------------------
 *
 * reapfail.c
 *	  What the reaper says of rows that it could not deal with.
 *
 * Called by reaprow.c and reap.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "aside.h"
#include "reaprow.h"
#include "receipt.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define MAX_REPORTS		10		/* messages about failures, per pass */

/* The id of a row, for a message. */
static char *
row_id(ReapPass *pass, ItemPointer tid)
{
	TupleTableSlot *slot = table_slot_create(pass->leaf, NULL);
	char	   *text = "?";

	if (table_tuple_fetch_row_version(pass->leaf, tid, SnapshotAny, slot))
	{
		bool		isnull;
		Datum		id = slot_getattr(slot, pass->attno[ROLE_ID], &isnull);

		if (!isnull)
			text = ReceiptIdText(pass->q, id);
	}
	ExecDropSingleTupleTableSlot(slot);
	return text;
}

void
ReapSetAside(ReapPass *pass, ItemPointer tid, TransactionId xmin,
			 const ErrorData *error)
{
	int			rest = AsideAdd(RelationGetRelid(pass->leaf), tid,
								xmin, pass->now);

	pass->counts->set_aside++;
	if (!pass->by_hand)
		pass->rows_left--;
	if (pass->reports++ >= MAX_REPORTS)
		return;
	ereport(pass->by_hand ? WARNING : LOG,
			(errcode(error->sqlerrcode),
			 errmsg("could not reap message %s of queue \"%s\": %s",
					row_id(pass, tid), pass->q->relname, error->message),
			 pass->by_hand ? errdetail("The message stays where it is.") :
			 errdetail("The message stays where it is and is tried again after %d s.",
					   rest)));
}

/*
 * ReapReportRest
 *		At the end of a pass: how many failures were not reported one by one.
 */
void
ReapReportRest(ReapPass *pass)
{
	if (pass->reports > MAX_REPORTS)
		ereport(pass->by_hand ? WARNING : LOG,
				(errmsg("could not reap %d more messages of queue \"%s\"",
						pass->reports - MAX_REPORTS, pass->q->relname)));
}
