/*-------------------------------------------------------------------------
 *
 * hinttable.c
 *	  The table of the queues that have hints, in shared memory.
 *
 * An entry belongs to a table of a database from the first call that asks for
 * it until the table is no queue any more, which the worker finds out, or its
 * database is dropped.  While the table is locked by somebody who uses it as a
 * queue, a pointer to its entry stays good.
 *
 * Beside the entries there is, for each process, the transaction in which it
 * has claimed rows (rule 6 of hints.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat.h"
#include "hintentry.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "settings.h"
#include "storage/lmgr.h"
#include "storage/shmem.h"
#include "totals.h"
#include "utils/timestamp.h"
#include "waiters.h"

typedef struct HintTable
{
	LWLock		lock;
	bool		full_logged;
	pg_atomic_uint32 freed;		/* how often an entry was given back */
	int			size;

	/*
	 * for each process, the transaction in which it has claimed rows; each is
	 * written by its process alone, and read without a lock
	 */
	pg_atomic_uint32 *claimers;
	QueueHints	queue[FLEXIBLE_ARRAY_MEMBER];
} HintTable;

static HintTable *hint_table = NULL;

static Size
table_size(void)
{
	return add_size(offsetof(HintTable, queue),
					mul_size(InboxMaxQueues, sizeof(QueueHints)));
}

static Size
claimers_size(void)
{
	return mul_size(MaxPlaces(), sizeof(pg_atomic_uint32));
}

Size
HintsShmemSize(void)
{
	return add_size(MAXALIGN(table_size()), claimers_size());
}

static void
init_entry(QueueHints *h, int tranche)
{
	memset(h, 0, offsetof(QueueHints, new_covers));
	LWLockInitialize(&h->lock, tranche);
	LedgerInit(&h->ledger[LEASE_NEW], h->new_covers, NEW_COVERS);
	for (int i = LEASE_NEW + 1; i < NUM_LEASE_KINDS; i++)
		LedgerInit(&h->ledger[i], h->more_covers[i - 1], MORE_COVERS);
	for (int i = 0; i < NUM_NOTE_KINDS; i++)
		LedgerInit(&h->ledger[NUM_LEASE_KINDS + i], h->noted_covers[i],
				   NOTED_COVERS);
}

/*
 * HintsShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
HintsShmemInit(void)
{
	bool		found;
	int			tranche;

	hint_table = ShmemInitStruct("inbox hints", HintsShmemSize(), &found);
	if (found)
		return;
	tranche = LWLockNewTrancheId();
	memset(hint_table, 0, offsetof(HintTable, queue));
	hint_table->claimers = (pg_atomic_uint32 *)
		((char *) hint_table + MAXALIGN(table_size()));
	for (int i = 0; i < MaxPlaces(); i++)
		pg_atomic_init_u32(&hint_table->claimers[i], InvalidTransactionId);
	LWLockInitialize(&hint_table->lock, tranche);
	pg_atomic_init_u32(&hint_table->freed, 0);
	hint_table->size = InboxMaxQueues;
	for (int i = 0; i < hint_table->size; i++)
		init_entry(&hint_table->queue[i], tranche);
}

/*
 * HintsPresent
 *		Is there shared memory at all?
 */
bool
HintsPresent(void)
{
	return hint_table != NULL;
}

/*
 * HintsForTable
 *		The hints of a table's queue, or NULL: there is no shared memory, or
 *		no room.
 */
QueueHints *
HintsForTable(Oid relid)
{
	QueueHints *h = NULL;
	QueueHints *unused = NULL;

	if (hint_table == NULL)
		return NULL;
	LWLockAcquire(&hint_table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < hint_table->size && h == NULL; i++)
	{
		QueueHints *e = &hint_table->queue[i];

		if (e->relid == relid && e->database == MyDatabaseId)
			h = e;
		else if (!OidIsValid(e->relid) && unused == NULL)
			unused = e;
	}
	if (h == NULL && unused != NULL)
	{
		h = unused;
		LWLockAcquire(&h->lock, LW_EXCLUSIVE);
		HintsReset(h);
		h->shape = 0;
		h->open.overflows = h->overruns = h->resets = 0;
		LWLockRelease(&h->lock);
		TotalsReset(HintsNumber(h));
		h->database = MyDatabaseId;
		h->relid = relid;
	}
	LWLockRelease(&hint_table->lock);
	return h;
}

/*
 * HintsNumber
 *		The queue's number among all, from 0 to inbox.max_queues - 1.
 */
int
HintsNumber(const QueueHints *h)
{
	return h - hint_table->queue;
}

static uint32
shape_of(Queue *q)
{
	static const Role order[] = {ROLE_PRIORITY, ROLE_DUE_AT, ROLE_ID};
	uint32		shape = q->filenode;

	for (int i = 0; i < lengthof(order); i++)
	{
		shape = hash_combine(shape, q->col[order[i]].attno);
		shape = hash_combine(shape, q->col[order[i]].type);
	}
	return Max(shape, 1);
}

static void
check_shape(QueueHints *h, Queue *q)
{
	LWLockAcquire(&h->lock, LW_EXCLUSIVE);
	if (h->shape != shape_of(q))
	{
		HintsReset(h);
		h->shape = shape_of(q);
	}
	LWLockRelease(&h->lock);
}

/*
 * HintsUntold
 *		The queue has no index to walk, so nobody tells what happens to it.
 */
void
HintsUntold(Oid relid)
{
	if (hint_table == NULL)
		return;
	LWLockAcquire(&hint_table->lock, LW_SHARED);
	for (int i = 0; i < hint_table->size; i++)
	{
		QueueHints *h = &hint_table->queue[i];

		if (h->relid != relid || h->database != MyDatabaseId)
			continue;
		LWLockAcquire(&h->lock, LW_EXCLUSIVE);
		h->shape = 0;
		LWLockRelease(&h->lock);
	}
	LWLockRelease(&hint_table->lock);
}

/*
 * HintsFor
 *		The same for an open queue, which keeps them at hand.
 */
QueueHints *
HintsFor(Queue *q)
{
	uint32		freed;

	if (q->hints != NULL || hint_table == NULL)
		return q->hints;
	/* an entry may have been given back, and somebody got one for this queue */
	freed = pg_atomic_read_u32(&hint_table->freed);
	if (q->hints_refused && q->hints_freed == freed)
		return NULL;
	q->hints_freed = freed;
	q->hints = HintsForTable(q->relid);
	if (q->hints != NULL)
		check_shape(q->hints, q);
	else
	{
		q->hints_refused = true;
		if (!hint_table->full_logged)
			ereport(LOG,
					(errmsg("no room for the hints of queue \"%s\"", q->relname),
					 errdetail("Claims on it walk from the left of its index, past all that is leased or dead."),
					 errhint("Raise inbox.max_queues, now %d.", InboxMaxQueues)));
		hint_table->full_logged = true;
	}
	return q->hints;
}

/*
 * The tables of this database that have an entry and are not on a list.
 */
static List *
list_others(List *relids)
{
	List	   *others = NIL;
	Oid		   *found = palloc(hint_table->size * sizeof(Oid));
	int			n = 0;

	LWLockAcquire(&hint_table->lock, LW_SHARED);
	for (int i = 0; i < hint_table->size; i++)
	{
		QueueHints *h = &hint_table->queue[i];

		if (OidIsValid(h->relid) && h->database == MyDatabaseId)
			found[n++] = h->relid;
	}
	LWLockRelease(&hint_table->lock);
	for (int i = 0; i < n; i++)
	{
		if (!list_member_oid(relids, found[i]))
			others = lappend_oid(others, found[i]);
	}
	pfree(found);
	return others;
}

/*
 * Give back the entry of a table, or (InvalidOid) those of a whole database.
 * Who waits for one has to be told.
 */
static void
give_back(Oid database, Oid relid)
{
	LWLockAcquire(&hint_table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < hint_table->size; i++)
	{
		QueueHints *h = &hint_table->queue[i];

		if (!OidIsValid(h->relid) || h->database != database ||
			(OidIsValid(relid) && h->relid != relid))
			continue;
		h->relid = InvalidOid;
		pg_atomic_fetch_add_u32(&hint_table->freed, 1);
		WaitersWake(i, WAKE_ALL);
	}
	LWLockRelease(&hint_table->lock);
}

/*
 * HintsForgetGone
 *		Give back the entries of this database's tables that are no queue any
 *		more; the worker has listed those that are.
 *
 * A queue that is not on the list may be one that is just being created, by a
 * transaction that uses its entry already.  The lock keeps everybody out who
 * could: sends, claims, and who creates or drops.
 */
void
HintsForgetGone(List *relids)
{
	ListCell   *lc;

	if (hint_table == NULL)
		return;
	foreach(lc, list_others(relids))
	{
		Oid			relid = lfirst_oid(lc);
		QueueSettings settings;

		if (!ConditionalLockRelationOid(relid, ShareLock))
			continue;
		if (!LabelRead(relid, &settings) || settings.kind != LABEL_QUEUE)
			give_back(MyDatabaseId, relid);
		UnlockRelationOid(relid, ShareLock);
	}
}

/*
 * HintsForgetDatabase
 *		The same for a database that has been dropped.
 */
void
HintsForgetDatabase(Oid database)
{
	if (hint_table != NULL)
		give_back(database, InvalidOid);
}

/*
 * HintsClaiming
 *		This process's transaction has claimed rows, or (InvalidTransactionId)
 *		has told all about them.
 */
void
HintsClaiming(TransactionId xid)
{
	if (hint_table != NULL)
		pg_atomic_write_u32(&hint_table->claimers[MyPlace()], xid);
}

/*
 * HintsIsClaimer
 *		Is this a transaction that has claimed rows and is still to tell?
 */
bool
HintsIsClaimer(TransactionId xid)
{
	if (hint_table == NULL || !TransactionIdIsNormal(xid))
		return false;
	for (int i = 0; i < MaxPlaces(); i++)
	{
		if (pg_atomic_read_u32(&hint_table->claimers[i]) == xid)
			return true;
	}
	return false;
}

/*
 * HintsOpenDatabase
 *		The same for all queues of this database.
 */
void
HintsOpenDatabase(void)
{
	if (hint_table == NULL)
		return;
	LWLockAcquire(&hint_table->lock, LW_SHARED);
	for (int i = 0; i < hint_table->size; i++)
	{
		if (OidIsValid(hint_table->queue[i].relid) &&
			hint_table->queue[i].database == MyDatabaseId)
			HintsOpenAll(&hint_table->queue[i]);
	}
	LWLockRelease(&hint_table->lock);
}
