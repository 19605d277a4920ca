/*-------------------------------------------------------------------------
 *
 * reaprow.c
 *	  What the reaper does with the rows of a stretch of pages.
 *
 * A row is judged twice: while the pages are read, and again in its newest
 * version once it is locked.  Rows that somebody else has locked are skipped,
 * never waited for: a settlement or a claim under way decides about them.
 *
 * The scan uses a snapshot of now, also in a transaction that has an older
 * one, and at SERIALIZABLE one that leaves no trace: whether the reaper reads
 * a row must not make somebody else's transaction fail.
 *
 * One bad row must not stop the others, so rows are dealt with in
 * subtransactions.  One for each row would be dear, so a run of rows shares
 * one; if that fails, the run is repeated row by row, and the row that fails
 * by itself is set aside (see aside.c).  A pass begins with short runs: should
 * the owner's triggers be slow, it ends well before it would be broken off.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/subtrans.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "aside.h"
#include "bury.h"
#include "commands/trigger.h"
#include "delta.h"
#include "lease.h"
#include "locate.h"
#include "miscadmin.h"
#include "owner.h"
#include "pending.h"
#include "reaprow.h"
#include "receipt.h"
#include "savepoint.h"
#include "settings.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "waiters.h"

#define RUN_ROWS		50		/* most rows of one subtransaction */

typedef enum Deed
{
	LEAVE,
	BURY,
	PURGE
} Deed;

typedef struct Candidate
{
	ItemPointerData tid;
	TransactionId xmin;
} Candidate;

typedef struct Candidates
{
	Candidate  *rows;
	int			n;
	int			size;
} Candidates;

void
ReapSetLeaf(ReapPass *pass, Relation leaf)
{
	/* what LeaseReadRow reads */
	static const Role needed[] = {
		ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT, ROLE_DUE_AT, ROLE_PROCESSED_AT,
		ROLE_ATTEMPT
	};

	pass->leaf = leaf;
	QueueMapRoles(pass->q, leaf, pass->attno);
	pass->last_attno = 0;
	for (int i = 0; i < lengthof(needed); i++)
		pass->last_attno = Max(pass->last_attno, pass->attno[needed[i]]);
}

/*
 * What is to be done with a row.  *expired is set when its lease has ended
 * and it may be claimed again.
 */
static Deed
judge(const ReapPass *pass, TupleTableSlot *slot, bool *expired,
	  bool *claimable)
{
	const QueueSettings *s = &pass->q->settings;
	bool		isnull;
	LeaseRow	row;

	*expired = *claimable = false;
	slot_getsomeattrs(slot, pass->last_attno);
	LeaseReadRow(pass->q, pass->attno, slot, &row);
	if (row.finished)
	{
		Datum		processed = slot_getattr(slot, pass->attno[ROLE_PROCESSED_AT],
											 &isnull);

		return s->retention != NO_RETENTION &&
			DatumGetTimestampTz(processed) <= pass->now - s->retention ?
			PURGE : LEAVE;
	}
	if (row.leased && row.locked_until > pass->now)
		return LEAVE;
	if (LeaseSpent(pass->q, &row))
		return BURY;
	*expired = row.leased && !row.resting;
	*claimable = LeaseClaimable(pass->q, &row, pass->now);
	return LEAVE;
}

/*
 * being_claimed
 *		Is a transaction that claims rows writing this one?  It will tell of it.
 */
static bool
being_claimed(TupleTableSlot *slot)
{
	bool		should_free;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	uint16		infomask = tuple->t_data->t_infomask;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(tuple->t_data);

	return (infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI)) == 0 &&
		!HEAP_XMAX_IS_LOCKED_ONLY(infomask) &&
		TransactionIdIsInProgress(xmax) &&
		HintsIsClaimer(SubTransGetTopmostTransaction(xmax));
}

/*
 * open_missed
 *		Rule 8 of hints.c: a claimable row whose key is not open is one that no
 *		callback has told of.
 */
static void
open_missed(ReapPass *pass, TupleTableSlot *slot)
{
	HintRange	keys;

	KeysOfRow(pass->q, pass->attno, slot, &keys);
	if (!OpenContains(&pass->view.open, &keys.lo) &&
		!HintsContains(pass->view.hints, &keys.lo) &&
		!being_claimed(slot))
	{
		HintsOpen(pass->view.hints, &keys);
		WaitersWake(HintsNumber(pass->view.hints), 1);
	}
}

/*
 * Lock one row, judge it again and act.  Returns false when there was nothing
 * to do.
 */
static bool
reap_row(ReapPass *pass, RowWriter *writer, RowLeaf *leaf,
		 const Candidate *row, ReapCounts *done)
{
	ItemPointerData tid = row->tid;
	bool		expired;
	bool		claimable;

	if (LockVersion(leaf, &tid, pass->snapshot, LockTupleExclusive,
					LockWaitSkip, 0) != TM_Ok)
		return false;
	switch (judge(pass, leaf->old, &expired, &claimable))
	{
		case LEAVE:
			return false;
		case BURY:
			/* its group is free */
			if (pass->q->settings.fifo)
				PendingWake(pass->q);
			BuryRow(pass->q, leaf, CAUSE_LEASE_LOST, NULL, true);
			done->buried++;
			break;
		case PURGE:
			if (!WriterDelete(writer, leaf))
				ereport(ERROR,
						(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
						 errmsg("a trigger suppressed the delete")));
			DeltaCount(pass->q, TOTAL_PURGED, 1);
			done->purged++;
			break;
	}
	return true;
}

/*
 * All of it as the owner, the end of the writer too, where triggers fire.
 * What the writer holds belongs to the subtransaction, whose abort lets go
 * of it.
 */
static void
reap_rows(ReapPass *pass, const Candidate *rows, int n, ReapCounts *done)
{
	OwnerScope	scope;
	RowWriter	writer;
	RowLeaf    *leaf;

	OwnerEnter(&scope, pass->q->owner, true);
	WriterBegin(&writer, pass->q);
	leaf = WriterLeaf(&writer, RelationGetRelid(pass->leaf));
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		reap_row(pass, &writer, leaf, &rows[i], done);
	}
	WriterEnd(&writer);
	OwnerLeave(&scope);
}

/*
 * Deal with rows in one subtransaction; the error that undid it, or NULL.
 */
static ErrorData *
try_rows(ReapPass *pass, const Candidate *rows, int n)
{
	Savepoint	savepoint;
	ReapCounts	done = {0};
	ErrorData  *volatile error = NULL;

	SavepointBegin(&savepoint);
	PG_TRY();
	{
		MemoryContextSwitchTo(AllocSetContextCreate(CurTransactionContext,
													"inbox reap",
													ALLOCSET_DEFAULT_SIZES));
		reap_rows(pass, rows, n, &done);
		SavepointEnd(&savepoint, true);
	}
	PG_CATCH();
	{
		error = SavepointCaught(&savepoint, savepoint.cxt);
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
	}
	PG_END_TRY();

	if (error == NULL)
	{
		pass->counts->buried += done.buried;
		pass->counts->purged += done.purged;
		pass->rows_left -= done.buried + done.purged;
	}
	return error;
}

/*
 * The owner's triggers run restricted (see owner.c), which allows no deferred
 * ones; besides, an error at commit could not be put down to a row.
 */
static void
prepare(ReapPass *pass)
{
	if (pass->prepared)
		return;
	OwnerConstraintsImmediate();
	pass->prepared = true;
}

/*
 * Deal with candidates until the pass has done enough; the number dealt with.
 */
static int
reap_candidates(ReapPass *pass, Candidate *rows, int n)
{
	int			i = 0;

	if (n > 0)
		prepare(pass);
	while (i < n && pass->rows_left > 0)
	{
		int			run = Min(Min(pass->run, n - i), pass->rows_left);
		ErrorData  *error = try_rows(pass, rows + i, run);

		for (int j = i; error != NULL && j < i + run && pass->rows_left > 0; j++)
		{
			ErrorData  *own = run == 1 ? error : try_rows(pass, rows + j, 1);

			if (own != NULL)
				ReapSetAside(pass, &rows[j].tid, rows[j].xmin, own);
		}
		i += run;
		/* triggers may be slow: what is done must be committed in time */
		if (pass->run < RUN_ROWS)
			pass->run *= 2;
		if (!pass->by_hand && InboxReapTimeout > 0 &&
			TimestampDifferenceExceeds(pass->now, GetCurrentTimestamp(),
									   InboxReapTimeout / 10))
			pass->rows_left = 0;
	}
	return Min(i, n);
}

static void
add_candidate(ReapPass *pass, Candidates *found, TupleTableSlot *slot)
{
	bool		isnull;
	TransactionId xmin = DatumGetTransactionId(slot_getsysattr(slot,
															   MinTransactionIdAttributeNumber,
															   &isnull));

	if (!pass->by_hand &&
		AsideResting(RelationGetRelid(pass->leaf), &slot->tts_tid, xmin, pass->now))
		return;
	if (found->n == found->size)
	{
		found->size = Max(found->size * 2, 256);
		found->rows = found->rows == NULL ?
			palloc(sizeof(Candidate) * found->size) :
			repalloc(found->rows, sizeof(Candidate) * found->size);
	}
	found->rows[found->n].tid = slot->tts_tid;
	found->rows[found->n].xmin = xmin;
	found->n++;
}

static void
find_candidates(ReapPass *pass, BlockNumber from, BlockNumber to,
				Candidates *found)
{
	TupleTableSlot *slot = table_slot_create(pass->leaf, NULL);
	TableScanDesc scan;
	ItemPointerData first;
	ItemPointerData last;

	HintsRead(&pass->view, OidIsValid(pass->q->order_index) ?
			  HintsFor(pass->q) : NULL, pass->now);
	ItemPointerSet(&first, from, FirstOffsetNumber);
	ItemPointerSet(&last, to - 1, MaxOffsetNumber);
	scan = table_beginscan_tidrange(pass->leaf, pass->snapshot, &first, &last);
	while (table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
	{
		bool		expired;
		bool		claimable;
		Deed		deed = judge(pass, slot, &expired, &claimable);

		if (claimable && pass->view.hints != NULL)
			open_missed(pass, slot);
		if (expired)
			pass->counts->expired++;
		else if (deed == BURY && !pass->can_bury)
			pass->unburied++;
		else if (deed != LEAVE)
			add_candidate(pass, found, slot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * ReapPages
 *		Reap a stretch of pages of the table at hand, as far as the pass may
 *		go; the page to go on from.
 */
BlockNumber
ReapPages(ReapPass *pass, BlockNumber from, BlockNumber to)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox reap pages",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Candidates	found = {0};
	BlockNumber next = to;
	int			done;

	find_candidates(pass, from, to, &found);
	pass->pages_left -= to - from;
	done = reap_candidates(pass, found.rows, found.n);
	if (done < found.n)
		next = ItemPointerGetBlockNumber(&found.rows[done].tid);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return next;
}
