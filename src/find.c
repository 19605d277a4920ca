/*-------------------------------------------------------------------------
 *
 * find.c
 *	  The one place that finds claimable rows, in claim order.
 *
 * Plain tables are walked by index (walk.c), the others searched by SQL
 * (findsql.c).  What is returned is a candidate; the caller locks and judges
 * it.
 *
 * What a FIFO queue has to offer is found by group.c.
 *
 * SPI stays connected from FindBegin to FindEnd where SQL is used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "find.h"
#include "settings.h"

#define MAX_CHUNK	100

/*
 * FindBegin
 *		Plain tables are walked (walk.c), the others searched by SQL.
 */
void
FindBegin(Finder *f, RowWriter *w, TimestampTz now, text *group,
		  int64 max_rows)
{
	Queue	   *q = w->q;

	memset(f, 0, offsetof(Finder, walk));
	memset((char *) f + offsetof(Finder, started), 0,
		   sizeof(Finder) - offsetof(Finder, started));
	f->q = q;
	f->now = now;
	f->group = group;
	f->chunk = Min(max_rows, MAX_CHUNK);
	if (q->settings.fifo)
	{
		f->groups = palloc(sizeof(GroupFind));
		GroupBegin(f->groups, w, now, group);
		if (!f->groups->direct)
			SPI_connect();
		return;
	}
	if (InboxDirect && OidIsValid(q->order_index))
	{
		RowLeaf    *leaf = WriterLeaf(w, q->relid);

		f->walking = WalkUsable(leaf, q);
		if (f->walking)
			WalkBegin(&f->walk, q, leaf, now, group, max_rows);
	}
	if (!f->walking)
		SPI_connect();
}

/*
 * FindPeek
 *		The caller only looks.
 */
void
FindPeek(Finder *f)
{
	if (f->groups != NULL)
		f->groups->peek = true;
	else if (f->walking)
		f->walk.peek = true;
}

/*
 * FindShare
 *		Only rows of this share are wanted; before the first of them.
 */
void
FindShare(Finder *f, const KeyShare *share)
{
	f->share = share;
	if (f->groups != NULL)
		f->groups->share = share;
	else if (f->walking)
		WalkShare(&f->walk, share);
}

/*
 * FindWantDue
 *		If it finds nothing, the caller will want to know when to look again.
 */
void
FindWantDue(Finder *f)
{
	if (f->walking)
		f->walk.want_due = true;
}

/*
 * FindNextDue
 *		When that is, as far as the walk has seen; a search by SQL does not
 *		tell.
 */
TimestampTz
FindNextDue(Finder *f)
{
	if (f->groups != NULL)
		return f->groups->next_due;
	return f->walking ? f->walk.next_due : PG_INT64_MAX;
}

/*
 * FindStop
 *		No more rows are wanted.
 */
void
FindStop(Finder *f)
{
	if (f->groups != NULL)
		GroupEnd(f->groups);
	else if (f->walking)
		WalkEnd(&f->walk);
	else if (f->portal != NULL)
		SPI_cursor_close(f->portal);
}

/*
 * FindEnd
 *		Frees all that was allocated since FindBegin, where that was by SQL.
 */
void
FindEnd(Finder *f)
{
	if (f->groups != NULL ? !f->groups->direct : !f->walking)
		SPI_finish();
}

/*
 * FindSelective
 *		Might somebody else find what it does not?
 */
bool
FindSelective(const Finder *f)
{
	if (f->group != NULL || f->share != NULL)
		return true;
	if (f->groups != NULL)
		return !f->groups->direct;
	return !f->walking || f->q->settings.dead_group != NULL;
}

/*
 * FindTook
 *		Tells whether the row that FindNext returned last was taken.
 */
void
FindTook(Finder *f, bool taken)
{
	if (f->groups != NULL)
		GroupTook(f->groups, taken);
	else if (f->walking)
		WalkTook(&f->walk, taken);
}

/*
 * FindLeaseKind
 *		Which ledger its lease goes into.  A row found by SQL may be anywhere.
 */
LeaseKind
FindLeaseKind(Finder *f, const LeaseRow *row)
{
	return f->walking ? WalkLeaseKind(&f->walk, row) : LEASE_LATER;
}

/*
 * FindNext
 *		The next candidate: the table it is in, and its address there.
 */
bool
FindNext(Finder *f, Oid *relid, ItemPointer tid)
{
	if (f->groups != NULL)
		return GroupNext(f->groups, relid, tid);
	if (f->walking)
	{
		*relid = f->q->relid;
		return WalkNext(&f->walk, tid);
	}
	return FindSqlNext(f, relid, tid);
}
