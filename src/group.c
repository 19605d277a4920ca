/*-------------------------------------------------------------------------
 *
 * group.c
 *	  FIFO queues: one row of a group in work, in order, and groups in turn.
 *
 * A group are the unfinished rows that have the same group_key.  Its head is
 * the first of them in claim order.  A claim takes heads alone, and none of a
 * group that has a live lease, or rests, or whose head is not due, spent, or
 * being changed by somebody.
 *
 * The protocol, for each group that a claim tries:
 *
 * 1. Take the group's lock, without waiting; if somebody has it, the group is
 *	  blocked.  It is a lock of the lock manager's, on database, table and a
 *	  hash of the key, and is kept to the end of the transaction if a row is
 *	  taken.  Two groups of one hash share a lock, which costs a delay.
 * 2. Take a snapshot, after the lock, whatever the isolation level.
 * 3. Look, with this snapshot, for all rows of the group that have a lease.
 *	  One that is live, or rests, blocks the group.
 * 4. Look, with this snapshot, for the head.  Unless it is claimable the group
 *	  is blocked.
 * 5. Rows whose lease has ended and that are not the head (others have entered
 *	  ahead of them) lose it for good: they are locked without waiting, in the
 *	  version the snapshot sees, and locked_until is set to NULL.
 * 6. Lock the head without waiting, in the version the snapshot sees, and
 *	  write the lease.  Where 5 or 6 fails, the group is blocked.
 *
 * Why no two rows of a group are ever in work: let C be a claim that takes
 * row h of a group.
 *
 * a. Another claim in the group that has not ended holds the lock: C does
 *	  not come to 2.  One that has ended did so before C had the lock, for
 *	  locks are let go after the end is visible, so C's snapshot sees what it
 *	  wrote: a lease that is live blocks C at 3.  A claim that is undone by
 *	  its savepoint is invisible before its lock is released.
 * b. With an MVCC snapshot each row shows in exactly one version.  An
 *	  extension that runs at the same time writes a new version and a new index
 *	  entry, and a look at what is current at each entry could miss both.
 * c. What else makes a live lease is an extension of one that has ended.  If
 *	  it has committed before the snapshot, C sees it at 3.  Else C must lock
 *	  the very version before it at 5 or 6, which fails if the extension is
 *	  under way or has committed by then; and if C comes first, the extension
 *	  waits for it and then finds a row that its receipt does not hold.
 * d. So when C has written its lease, no other row of the group has one, and
 *	  none gets one before a claim that comes after C has ended.
 *
 * Why the order is kept: a row that is ahead of h and visible to the snapshot
 * is the head, and h is not.  One that commits later was not there when the
 * group's turn came, and waits as any later entry does.  A head that somebody
 * is deleting, settling or changing is still visible as it was, and cannot be
 * locked at 6: nothing behind it is taken until it is known what becomes of
 * it.  The same holds for a prepared transaction, which keeps its locks.
 *
 * A spent head blocks its group until it is buried: nobody delivers it, and
 * what comes next is the reaper's to say.
 *
 * Which groups are tried: the levels of priority in turn, and on each level
 * the groups that have a row there, in the order of an index on (priority,
 * group_key, due_at, id), from the cursor on (groupcursor.c), around the end
 * and back to it.  A group counts at the level of its head: where the look
 * finds the head on another level, the group is left alone.  No worse level is
 * begun while one has something to take.  What a walk sees of a row without
 * the lock may rule its group out, but never in.
 *
 * Rows without a group, and those of the dead group for who asks for it by
 * name, are claimed like those of a plain queue.  On each level they and the
 * groups take turns, from row to row and from claim to claim.
 *
 * The number of groups that one call locks is bounded, as the lock table has
 * room for about max_locks_per_transaction locks of each session.
 *
 * Called by find.c and stamp.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "group.h"
#include "hints.h"
#include "miscadmin.h"
#include "totals.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* advisory locks of SQL use 1 and 2 as the last field, create.c its own */
#define GROUP_LOCK		0x1b1

/*
 * GroupBegin
 *		The shared hints are not followed here, but what is due to be opened is
 *		looked at, so that whoever waits knows when the next lease ends.
 */
void
GroupBegin(GroupFind *g, RowWriter *w, TimestampTz now, text *only)
{
	Queue	   *q = w->q;
	HintView	view;

	memset(g, 0, sizeof(*g));
	HintsRead(&view, HintsFor(q), now);
	g->q = q;
	g->w = w;
	g->now = now;
	g->only = only;
	g->loose_only = only != NULL && LeaseInDeadGroup(q, only);
	g->cxt = CurrentMemoryContext;
	g->next_due = PG_INT64_MAX;
	g->wrote = TransactionIdIsValid(GetTopTransactionIdIfAny());
	g->direct = GroupWalkUsable(w);
	if (g->direct)
		GroupWalkBegin(g);
}

/*
 * lock_group
 *		Step 1.
 */
static bool
lock_group(GroupFind *g)
{
	g->hash = GroupHash(g);
	if (g->peek)
		return true;
	SET_LOCKTAG_ADVISORY(g->tag, MyDatabaseId, g->q->relid,
						 (uint32) (g->hash ^ (g->hash >> 32)), GROUP_LOCK);
	g->locked = TryLock(&g->tag, ExclusiveLock);
	return g->locked;
}

static void
unlock_group(GroupFind *g)
{
	if (g->locked)
		(void) LockRelease(&g->tag, ExclusiveLock, false);
	g->locked = false;
}

/*
 * try_group
 *		Steps 1 to 4 for the group at hand.
 */
static bool
try_group(GroupFind *g)
{
	bool		free;

	if (!lock_group(g))
		return false;
	g->nended = 0;
	g->spotted = g->ahead_known = false;
	g->look_dead = g->look_pages = 0;
	free = g->direct ? GroupWalkLook(g) : GroupSqlLook(g);
	if (!free)
		unlock_group(g);
	return free;
}

/*
 * GroupLeaseEnded
 *		Step 3: has the lease of this row, of the group at hand, ended?  If so
 *		it is remembered for step 5.
 */
bool
GroupLeaseEnded(GroupFind *g, const LeaseRow *row, Oid relid, ItemPointer tid)
{
	if (!row->leased || row->finished)
		return true;
	if (row->locked_until > g->now || g->nended == GROUP_ENDED)
	{
		g->next_due = Min(g->next_due, Max(row->locked_until, g->now));
		return false;
	}
	g->ended[g->nended].relid = relid;
	g->ended[g->nended++].tid = *tid;
	return true;
}

/*
 * GroupIsHead
 *		Step 4: this is the head of the group at hand.  Is it claimable?
 */
bool
GroupIsHead(GroupFind *g, const LeaseRow *row, const AttrNumber *attnos,
			TupleTableSlot *slot)
{
	HintRange	keys;

	/* whose share the head is in takes it */
	if (ShareOfOthers(g->share, attnos[ROLE_PARTITION_KEY], slot))
		return false;
	if (!LeaseClaimable(g->q, row, g->now))
	{
		g->next_due = Min(g->next_due, LeaseNextDue(g->q, row, g->now));
		return false;
	}
	KeysOfRow(g->q, attnos, slot, &keys);
	g->head_key = keys.lo;
	g->head_level = keys.lo.priority;
	g->head_row.relid = slot->tts_tableOid;
	g->head_row.tid = slot->tts_tid;
	for (int i = 0; i < g->nended; i++)
	{
		if (g->ended[i].relid == g->head_row.relid &&
			ItemPointerEquals(&g->ended[i].tid, &g->head_row.tid))
			g->ended[i--] = g->ended[--g->nended];
	}
	return true;
}

static bool
full(GroupFind *g)
{
	return g->nlocked >= max_locks_per_xact;
}

/*
 * next_head
 *		The head of the next group on this level that may be taken.
 */
static bool
next_head(GroupFind *g, Oid *relid, ItemPointer tid)
{
	while (!full(g) && (g->direct ? GroupWalkNext(g) : GroupSqlNext(g)))
	{
		CHECK_FOR_INTERRUPTS();
		if (!try_group(g))
			continue;
		if (g->head_level != g->level)
		{
			unlock_group(g);
			continue;
		}
		*relid = g->head_row.relid;
		*tid = g->head_row.tid;
		g->loose_row = false;
		return true;
	}
	return false;
}

static bool
next_loose(GroupFind *g, Oid *relid, ItemPointer tid)
{
	bool		found;

	*relid = g->q->relid;
	/* what was found of the groups tried before */
	g->nended = 0;
	found = g->direct ? GroupWalkLoose(g, tid) : GroupSqlLoose(g, relid, tid);
	g->loose_row = true;
	return found;
}

/*
 * begin_level
 *		Begin the next level of priority; false when there is none.
 */
static bool
begin_level(GroupFind *g)
{
	if (full(g) || !(g->direct ? GroupWalkLevel(g) : GroupSqlLevel(g)))
		return false;
	g->in_level = true;
	g->groups_done = g->loose_only;
	g->loose_done = g->no_loose;
	g->part = PART_NONE;
	if (g->loose_only)
		return true;
	GroupCursorRead(g->q, g->level, &g->cursor);
	/* another table's */
	if (!g->keyed)
		g->cursor.near_known = false;
	if (g->taken == 0)
		g->loose_turn = g->cursor.loose_next;
	return true;
}

/*
 * the_one
 *		Of a claim on one group alone.
 */
static bool
the_one(GroupFind *g, Oid *relid, ItemPointer tid)
{
	if (g->started)
		return false;
	g->started = true;
	g->key = g->only;
	g->loose_row = false;
	if (!try_group(g))
		return false;
	*relid = g->head_row.relid;
	*tid = g->head_row.tid;
	return true;
}

/*
 * GroupNext
 *		The next row that may be claimed.  If it is a head, its group is
 *		locked until GroupTook.
 */
bool
GroupNext(GroupFind *g, Oid *relid, ItemPointer tid)
{
	if (g->only != NULL && !g->loose_only)
		return the_one(g, relid, tid);
	for (;;)
	{
		if (!g->in_level && !begin_level(g))
			return false;
		if (!g->groups_done && (!g->loose_turn || g->loose_done))
		{
			if (next_head(g, relid, tid))
				return true;
			g->groups_done = true;
		}
		if (!g->loose_done)
		{
			if (next_loose(g, relid, tid))
				return true;
			g->loose_done = true;
		}
		if (g->groups_done && g->loose_done)
		{
			g->in_level = false;
			if (!g->direct)
				GroupSqlEndLevel(g);
		}
	}
}

/*
 * GroupTry
 *		May this version of a row, of this group, be claimed?  If so, the group
 *		is locked until GroupTook.
 */
bool
GroupTry(GroupFind *g, text *key, Oid relid, ItemPointer tid)
{
	g->key = key;
	g->loose_row = false;
	g->nended = 0;
	if (full(g) || !try_group(g))
		return false;
	if (g->head_row.relid == relid && ItemPointerEquals(&g->head_row.tid, tid))
		return true;
	unlock_group(g);
	return false;
}

/*
 * GroupTook
 *		Tells what became of the row that was returned last.
 */
void
GroupTook(GroupFind *g, bool taken)
{
	if (!taken)
	{
		unlock_group(g);
		return;
	}
	g->taken++;
	g->locked = false;
	if (g->loose_only)
		return;
	if (!g->loose_row)
	{
		GroupSpotTook(g);
		g->nlocked++;
		if (g->in_level)
			GroupCursorMove(g);
	}
	if (g->in_level && !g->no_loose)
	{
		g->loose_turn = !g->loose_row;
		GroupCursorTurn(g->q, g->loose_turn);
	}
}

void
GroupEnd(GroupFind *g)
{
	unlock_group(g);
	if (g->direct)
		GroupWalkEnd(g);
	else
		GroupSqlEndLevel(g);
	if (!g->peek)
		TotalsWalked(g->q, g->steps, g->dead, g->taken);
}
