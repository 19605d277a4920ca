/*-------------------------------------------------------------------------
 *
 * reap.c
 *	  One bounded pass over a queue: bury what is spent, purge what is
 *	  finished and old.
 *
 * The worker runs such a pass at each tick, inbox_reap runs it by hand.
 *
 * No index may hold the state of a lease (claims would not be HOT), so the
 * pass reads the table itself, a bounded number of pages at a time.  The
 * worker goes on where its last pass ended; the place is a hint kept in its
 * memory.  By hand a pass goes over the whole table, because a caller such as
 * a scheduled job may be a new session each time.
 *
 * An ended lease needs nothing done about it: the row is claimable by its
 * clock alone, and a late holder whose row nobody has taken still holds it.
 * They are only counted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "args.h"
#include "aside.h"
#include "bury.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "funcapi.h"
#include "guard.h"
#include "miscadmin.h"
#include "notify.h"
#include "reap.h"
#include "reaprow.h"
#include "settings.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define PAGES_AT_ONCE	128
#define LOOK_PAGES		256
#define MAX_PLACES		10000

/* where the next pass over a queue begins */
typedef struct Place
{
	Oid			relid;			/* hash key */
	Oid			leaf;
	BlockNumber block;
} Place;

static HTAB *places = NULL;

/*
 * Places of tables that are gone are not worth tracking: when there are too
 * many of them, all are forgotten.
 */
static Place *
find_place(Oid relid)
{
	HASHCTL		ctl = {0};
	Place	   *place;
	bool		found;

	if (places != NULL && hash_get_num_entries(places) >= MAX_PLACES)
	{
		hash_destroy(places);
		places = NULL;
	}
	if (places == NULL)
	{
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(Place);
		places = hash_create("inbox reap places", 64, &ctl,
							 HASH_ELEM | HASH_BLOBS);
	}
	place = (Place *) hash_search(places, &relid, HASH_ENTER, &found);
	if (!found)
	{
		place->leaf = InvalidOid;
		place->block = 0;
	}
	return place;
}

/*
 * The tables that hold the queue's rows, locked; one that somebody else has
 * locked is left for another pass.
 */
static List *
list_leaves(Queue *q)
{
	List	   *all;
	List	   *leaves = NIL;
	ListCell   *lc;

	if (q->relkind == RELKIND_RELATION && !has_subclass(q->relid))
		return list_make1_oid(q->relid);
	all = find_all_inheritors(q->relid, NoLock, NULL);
	foreach(lc, all)
	{
		Oid			relid = lfirst_oid(lc);

		if (relid != q->relid &&
			!ConditionalLockRelationOid(relid, RowExclusiveLock))
			continue;
		if (get_rel_relkind(relid) == RELKIND_RELATION)
			leaves = lappend_oid(leaves, relid);
	}
	list_free(all);
	return leaves;
}

/*
 * Reap the pages of one table from one to another; false when the pass has
 * done enough before the end.
 */
static bool
sweep_leaf(ReapPass *pass, Oid relid, BlockNumber from, BlockNumber to,
		   Place *place)
{
	Relation	leaf = table_open(relid, NoLock);

	if (!RELATION_IS_OTHER_TEMP(leaf) &&
		leaf->rd_tableam->scan_set_tidrange != NULL)
	{
		ReapSetLeaf(pass, leaf);
		to = Min(to, RelationGetNumberOfBlocks(leaf));
		while (from < to && pass->pages_left > 0 && pass->rows_left > 0)
		{
			BlockNumber stop = from + Min(PAGES_AT_ONCE, pass->pages_left);

			CHECK_FOR_INTERRUPTS();
			from = ReapPages(pass, from, Min(stop, to));
		}
	}
	else
		from = to;
	table_close(leaf, NoLock);
	place->leaf = relid;
	place->block = from;
	return from >= to;
}

/*
 * Sweep from the place on, around the end, and back to it.
 */
static bool
sweep(ReapPass *pass, Place *place)
{
	List	   *leaves = list_leaves(pass->q);
	int			n = list_length(leaves);
	int			first = 0;
	Place		start = *place;

	for (int i = 0; i < n; i++)
	{
		if (list_nth_oid(leaves, i) == start.leaf)
			first = i;
	}
	if (n > 0 && list_nth_oid(leaves, first) != start.leaf)
		start.block = 0;
	for (int i = 0; i <= n && n > 0; i++)
	{
		if (!sweep_leaf(pass, list_nth_oid(leaves, (first + i) % n),
						i == 0 ? start.block : 0,
						i == n ? start.block : InvalidBlockNumber, place))
			return false;
	}
	return true;
}

/*
 * May the pass bury?  A destination that somebody has locked is left for
 * another pass of the worker's.
 */
static bool
can_bury(const ReapPass *pass)
{
	Queue	   *q = pass->q;

	if (q->settings.max_attempts == 0 || !BuryConfigured(q))
		return false;
	return q->settings.dead_group != NULL || pass->by_hand ||
		ConditionalLockRelationOid(q->dead_relid, RowExclusiveLock);
}

/*
 * With nowhere to bury, that is reported for the queue as a whole.
 */
static void
report_unburied(ReapPass *pass)
{
	Queue	   *q = pass->q;
	int			rest;

	if (BuryConfigured(q) ||
		(!pass->by_hand &&
		 AsideResting(q->relid, NULL, InvalidTransactionId, pass->now)))
		return;
	rest = AsideAdd(q->relid, NULL, InvalidTransactionId, pass->now);
	pass->counts->set_aside += pass->unburied;
	ereport(pass->by_hand ? WARNING : LOG,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("spent messages of queue \"%s\" cannot be buried", q->relname),
			 pass->by_hand ? errdetail("%s", BuryWhyNot(q)) :
			 errdetail("%s The next report is after %d s.", BuryWhyNot(q),
					   rest),
			 errhint("Name one with inbox_alter(%s, dead_letter => ...).",
					 quote_literal_cstr(q->name))));
}

/*
 * Can rows of this queue be spent, or finished and old?  Otherwise the pass
 * only looks for rows that the hints do not know, and takes its time.
 */
static bool
needs_reaping(Queue *q)
{
	return q->settings.max_attempts > 0 ||
		(QueueHas(q, ROLE_PROCESSED_AT) &&
		 q->settings.retention != NO_RETENTION);
}

static bool
run_pass(Queue *q, ReapCounts *counts, bool by_hand)
{
	ReapPass	pass = {0};
	Place		head = {q->relid, InvalidOid, 0};
	bool		complete;

	pass.q = q;
	pass.counts = counts;
	pass.by_hand = by_hand;
	pass.now = GetCurrentTimestamp();
	pass.pages_left = by_hand ? PG_INT64_MAX :
		needs_reaping(q) ? InboxReapPages : Min(InboxReapPages, LOOK_PAGES);
	pass.rows_left = InboxReapRows;
	pass.run = 1;
	pass.can_bury = can_bury(&pass);
	if (IsolationIsSerializable())
		pass.snapshot = SnapshotSelf;
	else
		pass.snapshot = RegisterSnapshot(GetLatestSnapshot());
	complete = sweep(&pass, by_hand ? &head : find_place(q->relid));
	if (!IsolationIsSerializable())
		UnregisterSnapshot(pass.snapshot);
	ReapReportRest(&pass);
	if (pass.unburied > 0)
		report_unburied(&pass);
	return needs_reaping(q) && (!complete || pass.rows_left <= 0);
}

/*
 * ReapQueues
 *		The queues of this database.
 */
List *
ReapQueues(void)
{
	return LabelList(LABEL_QUEUE);
}

/*
 * ReapQueue
 *		The worker's pass over one queue; true when more is to be done at once.
 *
 * Adds to *counts.  A queue that has gone, or that somebody has locked, is
 * passed over.  Runs in a transaction of its own.
 */
bool
ReapQueue(Oid relid, ReapCounts *counts)
{
	Queue	   *q = QueueTryOpen(relid, RowExclusiveLock, true);
	bool		more = false;

	if (q == NULL)
		return false;
	if (needs_reaping(q) || OidIsValid(q->order_index))
		more = run_pass(q, counts, false);
	if (!more)
		NotifyIfAny(q);
	QueueClose(q);
	return more;
}

static void
reap_by_hand(ReturnSetInfo *rsinfo, Queue *q)
{
	ReapCounts	counts = {0};
	Datum		values[5];
	bool		nulls[5] = {false};

	(void) run_pass(q, &counts, true);
	values[0] = CStringGetTextDatum(q->name);
	values[1] = Int64GetDatum(counts.expired);
	values[2] = Int64GetDatum(counts.buried);
	values[3] = Int64GetDatum(counts.purged);
	values[4] = Int64GetDatum(counts.set_aside);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static bool
may_reap(Oid relid)
{
	return pg_class_aclcheck(relid, GetUserId(), ACL_DELETE) == ACLCHECK_OK &&
		(pg_class_aclcheck(relid, GetUserId(), ACL_UPDATE) == ACLCHECK_OK ||
		 pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE,
								   ACLMASK_ANY) == ACLCHECK_OK);
}

/* one queue of all, and where its row goes */
typedef struct HandReap
{
	Oid			relid;
	ReturnSetInfo *rsinfo;
} HandReap;

/*
 * Work for GuardRun: the trouble of one owner's queue is none of the others'.
 */
static void
reap_guarded(void *arg)
{
	HandReap   *hand = (HandReap *) arg;
	Queue	   *q = QueueTryOpen(hand->relid, RowExclusiveLock, true);

	if (q == NULL)
		return;
	reap_by_hand(hand->rsinfo, q);
	QueueClose(q);
}

static void
reap_all(ReturnSetInfo *rsinfo)
{
	ListCell   *lc;

	foreach(lc, ReapQueues())
	{
		HandReap	hand = {lfirst_oid(lc), rsinfo};
		char	   *name = get_rel_name(hand.relid);
		const char *error;

		if (name == NULL || !may_reap(hand.relid))
			continue;
		error = GuardRun(reap_guarded, &hand);
		if (error != NULL)
			ereport(WARNING,
					(errmsg("queue \"%s\" is left out: %s", name, error)));
	}
}

PG_FUNCTION_INFO_V1(inbox_reap);

/*
 * inbox_reap(queue text)
 *		returns setof (queue, expired, buried, purged, set_aside)
 */
Datum
inbox_reap(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Queue	   *q;

	ArgRequireWritable("inbox_reap");
	InitMaterializedSRF(fcinfo, 0);
	if (!PG_ARGISNULL(0))
	{
		q = QueueOpen(PG_GETARG_TEXT_PP(0), RowExclusiveLock);
		QueueCheckRights(q, ACL_UPDATE | ACL_DELETE);
		reap_by_hand(rsinfo, q);
		QueueClose(q);
		return (Datum) 0;
	}
	reap_all(rsinfo);
	return (Datum) 0;
}
