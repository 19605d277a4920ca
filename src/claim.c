/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  Claims: find claimable rows, lease them, deliver them.
 *
 * Each candidate is locked without waiting, in the very version that was
 * judged claimable; a row that somebody else has locked or changed since is
 * passed over.  So a row that stays locked is one that is returned, but for
 * the tables written by SQL, where a trigger or policy may refuse the write
 * after the lock; there each row has a subtransaction of its own, whose
 * rollback lets go of it.
 *
 * Called by claimcall.c and stamp.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "claim.h"
#include "delta.h"
#include "errors.h"
#include "find.h"
#include "lease.h"
#include "locate.h"
#include "miscadmin.h"
#include "pending.h"
#include "quickcommit.h"
#include "receipt.h"
#include "savepoint.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* what is done to one row version; what it has written, or NULL */
typedef TupleTableSlot *(*WriteVersion) (Claim *c, RowLeaf *leaf,
										 ItemPointer tid);

/*
 * tell_hints
 *		Note what the hints will have to know of a lease just written; "before"
 *		is the version that was claimable.
 */
static void
tell_hints(Claim *c, const LeaseRow *before, TupleTableSlot *slot)
{
	AttrNumber *attnos;
	LeaseRow	after;
	HintRange	keys;

	if (!c->q->told)
		return;
	attnos = WriterLeaf(&c->writer, slot->tts_tableOid)->attnos;
	LeaseReadRow(c->q, attnos, slot, &after);
	KeysOfRow(c->q, attnos, slot, &keys);
	if (c->q->integer_id)
		KnownNote(c->q, keys.lo.id, &slot->tts_tid);
	PendingLease(c->q, c->finder == NULL ? LEASE_LATER :
				 FindLeaseKind(c->finder, before), &after, &keys);
}

/*
 * lose_version
 *		Lock this version of a row and end its lease, whose time is over: step
 *		5 of group.c.
 */
static TupleTableSlot *
lose_version(Claim *c, RowLeaf *leaf, ItemPointer tid)
{
	LeaseRow	row;
	RowChange	change;
	TupleTableSlot *slot;
	HintRange	keys;

	if (LockVersion(leaf, tid, GetActiveSnapshot(), LockTupleNoKeyExclusive,
					LockWaitSkip, 0) != TM_Ok)
		return NULL;
	LeaseReadRow(c->q, leaf->attnos, leaf->old, &row);
	Assert(row.leased && row.locked_until <= c->now);
	KeysOfRow(c->q, leaf->attnos, leaf->old, &keys);
	ChangeLose(&change);
	slot = WriterUpdate(&c->writer, leaf, &change);
	if (slot != NULL && !row.resting)
	{
		DeltaCount(c->q, TOTAL_EXPIRED, 1);
		PendingSettle(c->q, &row, &keys);
	}
	return slot;
}

/*
 * lease_version
 *		Lock this version of a row and write the lease; NULL when it cannot be
 *		had.
 */
static TupleTableSlot *
lease_version(Claim *c, RowLeaf *leaf, ItemPointer tid)
{
	LeaseRow	row;
	RowChange	change;
	TupleTableSlot *slot;

	if (LockVersion(leaf, tid, GetActiveSnapshot(), LockTupleNoKeyExclusive,
					LockWaitSkip, 0) != TM_Ok)
		return NULL;
	LeaseReadRow(c->q, leaf->attnos, leaf->old, &row);
	Assert(LeaseClaimable(c->q, &row, c->now));
	ChangeTake(&change, c->q, &row, c->now, c->lease);
	slot = WriterUpdate(&c->writer, leaf, &change);
	if (slot == NULL)
		return NULL;
	DeltaCount(c->q, TOTAL_CLAIMED, 1);
	if (row.leased && !row.resting)
		DeltaCount(c->q, TOTAL_EXPIRED, 1);
	tell_hints(c, &row, slot);
	return slot;
}

/*
 * write_in_subxact
 *		Either of these, letting go of the lock if nothing was written.
 *
 * The slots outlive the subtransaction, so none of them may enter or leave it
 * with a pin on a buffer.  Nor may an error leave: whoever catches it must find the
 * transaction as deep as it was.
 */
static TupleTableSlot *
write_in_subxact(WriteVersion write, Claim *c, RowLeaf *leaf, ItemPointer tid)
{
	Savepoint	savepoint;
	TupleTableSlot *volatile slot = NULL;

	ExecClearTuple(leaf->old);
	SavepointBegin(&savepoint);
	PG_TRY();
	{
		slot = write(c, leaf, tid);
		if (slot != leaf->old)
			ExecClearTuple(leaf->old);
		if (slot != NULL)
			ExecMaterializeSlot(slot);
		SavepointEnd(&savepoint, slot != NULL);
	}
	PG_CATCH();
	{
		ReThrowError(SavepointCaught(&savepoint, savepoint.cxt));
	}
	PG_END_TRY();
	return slot;
}

static TupleTableSlot *
write_version(WriteVersion write, Claim *c, Oid relid, ItemPointer tid)
{
	RowLeaf    *leaf = WriterLeaf(&c->writer, relid);
	TupleTableSlot *slot;

	QuickEnter();
	if (leaf->direct_update)
		slot = write(c, leaf, tid);
	else
		slot = write_in_subxact(write, c, leaf, tid);
	QuickLeave();
	return slot;
}

/*
 * lose_ended
 *		The leases in the group that have ended, but for the head's; false
 *		when one is being changed by somebody.  Where there may be more of
 *		them, the group is left for the next claim.
 */
static bool
lose_ended(Claim *c, GroupFind *g)
{
	for (int i = 0; i < g->nended; i++)
	{
		if (write_version(lose_version, c, g->ended[i].relid,
						  &g->ended[i].tid) == NULL)
			return false;
	}
	return true;
}

/*
 * ClaimTake
 *		Lease a row, if it can be had, and deliver it.  "groups" is what has
 *		found it in a FIFO queue, else NULL.
 */
bool
ClaimTake(Claim *c, GroupFind *groups, Oid relid, ItemPointer tid)
{
	MemoryContext old = MemoryContextSwitchTo(c->row_cxt);
	TupleTableSlot *slot = NULL;

	if (groups == NULL || lose_ended(c, groups))
		slot = write_version(lease_version, c, relid, tid);
	/* the write may have moved it to another partition */
	if (slot != NULL)
		DeliverRow(c->sink, WriterLeaf(&c->writer, slot->tts_tableOid), slot);
	MemoryContextSwitchTo(old);
	MemoryContextReset(c->row_cxt);
	return slot != NULL;
}

void
ClaimBegin(Claim *c, Queue *q, int64 lease, DeliverySink *sink)
{
	c->q = q;
	c->lease = lease;
	c->finder = NULL;
	c->sink = sink;
	c->now = LeaseNow();
	c->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox claim row",
									   ALLOCSET_DEFAULT_SIZES);
	WriterBegin(&c->writer, q);
}

void
ClaimEnd(Claim *c)
{
	WriterEnd(&c->writer);
	MemoryContextDelete(c->row_cxt);
}

/*
 * find_next
 *		FindNext; what a walk writes is page cleaning.
 */
static bool
find_next(Finder *finder, Oid *relid, ItemPointer tid)
{
	bool		found;

	QuickEnter();
	found = FindNext(finder, relid, tid);
	QuickLeave();
	return found;
}

/*
 * ClaimRows
 *		Claim up to max_rows rows of an open queue into the sink; returns how
 *		many.
 */
int64
ClaimRows(Queue *q, int64 max_rows, int64 lease, text *group,
		  const KeyShare *share, DeliverySink *sink, WaitLook *look)
{
	Claim		c;
	Finder		finder;
	Oid			relid;
	ItemPointerData tid;
	int64		taken = 0;

	if (max_rows == 0 || q->settings.paused)
		return 0;
	ClaimBegin(&c, q, lease, sink);
	FindBegin(&finder, &c.writer, c.now, group, max_rows);
	/* groups are gone through in another order than that of their heads */
	sink->sorts = q->settings.fifo && max_rows > 1;
	c.finder = &finder;
	if (share != NULL)
		FindShare(&finder, share);
	if (look != NULL)
		FindWantDue(&finder);
	while (taken < max_rows && find_next(&finder, &relid, &tid))
	{
		bool		took = ClaimTake(&c, finder.groups, relid, &tid);

		FindTook(&finder, took);
		taken += took;
	}
	/* a search by SQL has the writer's memory, a walk uses its table */
	FindStop(&finder);
	ClaimEnd(&c);
	FindEnd(&finder);
	DeliverSorted(sink);
	if (look != NULL)
	{
		look->next_due = FindNextDue(&finder);
		look->selective = FindSelective(&finder);
	}
	return taken;
}
