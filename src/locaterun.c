/*-------------------------------------------------------------------------
 *
 * locaterun.c
 *	  Find the rows of a run of ids in one scan of the index on the id.
 *
 * A batch is settled in the order of its ids, and they mostly follow each
 * other.  To descend from the index's root for each of them was the largest
 * part of what settling a row cost; here one scan goes over them all.
 *
 * What makes it as good as a search for each: an index page is read after the
 * locator's snapshot was taken, so it has the entry of every version that the
 * snapshot sees; whoever takes a newer snapshot ends the run.  The scan keeps a
 * pin on the page, so VACUUM lets none of its entries point to another row.
 *
 * Called by locate.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "locate.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * LocateRun
 *		The ids up to this one will be asked for in their order, most of them.
 */
void
LocateRun(Locator *loc, int64 last)
{
	loc->has_run = true;
	loc->run_last = last;
	loc->scanning_run = false;
}

/*
 * begin_scan
 *		From an id to the run's last.
 */
static void
begin_scan(Locator *loc, int64 id)
{
	bool		narrow = loc->w->q->col[ROLE_ID].type == INT4OID;
	ScanKeyData keys[2];

	ScanKeyEntryInitialize(&keys[0], 0, 1, BTGreaterEqualStrategyNumber,
						   INT8OID, InvalidOid,
						   narrow ? F_INT48GE : F_INT8GE, Int64GetDatum(id));
	ScanKeyEntryInitialize(&keys[1], 0, 1, BTLessEqualStrategyNumber,
						   INT8OID, InvalidOid,
						   narrow ? F_INT48LE : F_INT8LE,
						   Int64GetDatum(loc->run_last));
	loc->scan->xs_want_itup = true;
	loc->scan->numberOfKeys = 2;
	index_rescan(loc->scan, keys, 2, NULL, 0);
	loc->scanning_run = true;
	loc->has_entry = false;
}

static bool
next_entry(Locator *loc)
{
	IndexScanDesc scan = loc->scan;
	ItemPointer tid = index_getnext_tid(scan, ForwardScanDirection);
	bool		isnull;
	Datum		id;

	loc->has_entry = tid != NULL;
	if (tid == NULL)
		return false;
	loc->entry = *tid;
	id = index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull);
	loc->entry_id = loc->w->q->col[ROLE_ID].type == INT4OID ?
		DatumGetInt32(id) : DatumGetInt64(id);
	return true;
}

/*
 * fetch_visible
 *		The version that the snapshot sees, of those that the entry at hand
 *		leads to, into leaf->old.
 */
static bool
fetch_visible(Locator *loc)
{
	Relation	rel = loc->scan->heapRelation;

	/* see locate.c's header */
	bool		by_hand = IsolationIsSerializable();
	ItemPointerData tid = loc->entry;
	bool		again = false;

	do
	{
		if (table_index_fetch_tuple(loc->scan->xs_heapfetch, &tid,
									by_hand ? SnapshotAny : loc->snapshot,
									loc->leaf->old, &again, NULL) &&
			(!by_hand ||
			 table_tuple_satisfies_snapshot(rel, loc->leaf->old, loc->snapshot)))
			return true;
	} while (again);
	return false;
}

/*
 * LocateInRun
 *		Find an id of the run, in an open scan; ids may be asked for more than
 *		once, but must not go down.
 */
bool
LocateInRun(Locator *loc, int64 id, ItemPointer tid)
{
	if (!loc->scanning_run)
		begin_scan(loc, id);
	while (loc->has_entry || next_entry(loc))
	{
		CHECK_FOR_INTERRUPTS();
		if (loc->entry_id > id)
			return false;
		if (loc->entry_id == id && fetch_visible(loc))
		{
			*tid = loc->leaf->old->tts_tid;
			return true;
		}
		loc->has_entry = false;
	}
	return false;
}
