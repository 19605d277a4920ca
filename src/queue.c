/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  Backend-local cache of registered queues.
 *
 * An entry holds what a table's labels say, parsed, with what the catalogs
 * say about its columns, and the saved plans made from it.  It is thrown away
 * when the table's relcache entry, its dead-letter table's, or any schema's
 * name changes: entry and plans contain qualified names.
 *
 * The invalidation callbacks may run in the middle of a call that uses an
 * entry, so they only mark it.  A marked entry is replaced at the next
 * QueueOpen; while a call still has it pinned, it is put on a list of retired
 * entries and freed at the end of the transaction.  Pins lost to an error are
 * forgotten at the same time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "announce.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "hints.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "queue.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

typedef struct CacheEntry
{
	Oid			relid;			/* hash key */
	Queue	   *queue;
} CacheEntry;

static HTAB *cache = NULL;
static List *retired = NIL;		/* of Queue *, in CacheMemoryContext */
static int	all_pins = 0;		/* sum over the entries in the cache */
static Oid	building = InvalidOid;	/* table whose entry is being made, and */
static bool changed_meanwhile;	/* whether it has changed since we began */

static void
invalidate_rel(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS seq;
	CacheEntry *entry;

	if (!OidIsValid(relid) || relid == building)
		changed_meanwhile = true;
	hash_seq_init(&seq, cache);
	while ((entry = (CacheEntry *) hash_seq_search(&seq)) != NULL)
	{
		if (!OidIsValid(relid) || entry->relid == relid ||
			entry->queue->dead_named == relid)
			entry->queue->valid = false;
	}
}

static void
invalidate_names(Datum arg, int cacheid, uint32 hashvalue)
{
	invalidate_rel(arg, InvalidOid);
}

static void
free_queue(Queue *q)
{
	QueueFreePlans(q);
	MemoryContextDelete(q->cxt);
}

/*
 * No call outlives its transaction, so pins that an error has left behind are
 * void at its end.
 */
static void
at_xact_end(XactEvent event, void *arg)
{
	HASH_SEQ_STATUS seq;
	CacheEntry *entry;
	ListCell   *lc;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		event != XACT_EVENT_PREPARE)
		return;
	if (all_pins != 0)
	{
		hash_seq_init(&seq, cache);
		while ((entry = (CacheEntry *) hash_seq_search(&seq)) != NULL)
			entry->queue->pins = 0;
		all_pins = 0;
	}
	if (retired == NIL)
		return;
	foreach(lc, retired)
		free_queue((Queue *) lfirst(lc));
	list_free(retired);
	retired = NIL;
}

void
QueueInit(void)
{
	RegisterXactCallback(at_xact_end, NULL);
}

static void
init_cache(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(CacheEntry);
	cache = hash_create("inbox queues", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(invalidate_rel, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, invalidate_names, (Datum) 0);
	RightsInit();
}

/*
 * A destination that has come into other hands than the queue is none any
 * more: its triggers would run as the queue's owner.
 */
static void
find_dead_letters(Queue *q)
{
	const char *token = q->settings.dead_letter;
	LabelKind	kind;

	if (token[0] == '\0')
		return;
	q->dead_relid = LabelFindToken(token, q->owner, &q->dead_kind);
	q->dead_named = OidIsValid(q->dead_relid) ? q->dead_relid :
		LabelFindToken(token, InvalidOid, &kind);
}

/*
 * build_queue
 *		Make an entry from labels and catalogs; NULL when the table is no
 *		queue.  The caller holds a lock on the table.
 */
static Queue *
build_queue(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox queue",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Queue	   *q = palloc0(sizeof(Queue));

	if (!LabelRead(relid, &q->settings) || q->settings.kind != LABEL_QUEUE)
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		return NULL;
	}
	q->cxt = cxt;
	q->relid = relid;
	q->owner = rel->rd_rel->relowner;
	q->relkind = rel->rd_rel->relkind;
	q->row_security = rel->rd_rel->relrowsecurity;
	q->roles_epoch = RightsEpoch();
	q->filenode = rel->rd_rel->relfilenode;
	q->relname = pstrdup(RelationGetRelationName(rel));
	q->name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
										 q->relname);
	QueueReadRoles(q, rel);
	q->id_index = QueueIdIndex(rel, q->col[ROLE_ID].attno);
	q->integer_id = q->col[ROLE_ID].type == INT8OID ||
		q->col[ROLE_ID].type == INT4OID;
	if (q->settings.fifo)
		QueueGroupIndexes(q, rel);
	else
		q->order_index = QueueOrderIndex(q, rel);
	q->told = q->settings.fifo || OidIsValid(q->order_index);
	find_dead_letters(q);
	MemoryContextSwitchTo(old);
	return q;
}

/*
 * A dead-letter table that is named but not there yet (a restore is under
 * way) would not invalidate the entry when it comes, so look again.  Saved
 * plans have policies in them: the server makes them anew for another role,
 * but not for the same one with other attributes or memberships.
 */
static bool
usable(Queue *q)
{
	return q->valid &&
		!(q->row_security && q->roles_epoch != RightsEpoch()) &&
		(OidIsValid(q->dead_named) || q->settings.dead_letter[0] == '\0');
}

/*
 * Tables that were dropped are not asked for again; their entries go when
 * another is made.
 */
static void
sweep(void)
{
	HASH_SEQ_STATUS seq;
	CacheEntry *entry;

	hash_seq_init(&seq, cache);
	while ((entry = (CacheEntry *) hash_seq_search(&seq)) != NULL)
	{
		Queue	   *q = entry->queue;

		if (q->valid || q->pins > 0)
			continue;
		hash_search(cache, &entry->relid, HASH_REMOVE, NULL);
		free_queue(q);
	}
}

/*
 * lookup
 *		The pinned entry of a table the caller has locked, or NULL.
 */
static Queue *
lookup(Oid relid)
{
	CacheEntry *entry;
	Relation	rel;
	Queue	   *q;
	bool		found;

	if (cache == NULL)
		init_cache();
	entry = (CacheEntry *) hash_search(cache, &relid, HASH_FIND, NULL);
	if (entry != NULL && usable(entry->queue))
	{
		entry->queue->pins++;
		all_pins++;
		return entry->queue;
	}
	if (entry != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(CacheMemoryContext);

		q = entry->queue;
		if (q->pins > 0)
		{
			q->retired = true;
			retired = lappend(retired, q);
		}
		MemoryContextSwitchTo(old);
		hash_search(cache, &relid, HASH_REMOVE, NULL);
		if (q->pins == 0)
			free_queue(q);
		else
			all_pins -= q->pins;
	}
	sweep();

	/*
	 * inbox_alter does not conflict with the lock we hold: what it commits
	 * after we have read the label makes the entry good for this call alone.
	 */
	building = relid;
	changed_meanwhile = false;
	rel = relation_open(relid, NoLock);
	q = build_queue(rel);
	relation_close(rel, NoLock);
	building = InvalidOid;
	if (q == NULL)
		return NULL;
	q->valid = !changed_meanwhile;
	if (!q->told)
		HintsUntold(relid);
	MemoryContextSetParent(q->cxt, CacheMemoryContext);
	entry = (CacheEntry *) hash_search(cache, &relid, HASH_ENTER, &found);
	Assert(!found);
	entry->queue = q;
	q->pins = 1;
	all_pins++;
	return q;
}

void
QueueClose(Queue *q)
{
	Assert(q->pins > 0);
	q->pins--;
	if (!q->retired)
		all_pins--;
}

/*
 * QueueOpenOid
 *		The entry of a table that the caller has locked.
 */
Queue *
QueueOpenOid(Oid relid)
{
	Queue	   *q = lookup(relid);

	WorkerAnnounce();
	if (q == NULL)
		QueueRefuse(relid);
	return q;
}

/*
 * QueueOpen
 *		Resolve a name, lock the table until the end of the transaction, and
 *		return its entry, to be given back with QueueClose.
 */
Queue *
QueueOpen(text *name, LOCKMODE lockmode)
{
	return QueueOpenOid(QueueResolve(name, lockmode));
}

/*
 * QueueOpenType
 *		The queue that has this row type, whose table is yet to be locked; by
 *		then it may have been dropped.
 */
Queue *
QueueOpenType(Oid type, LOCKMODE lockmode)
{
	Oid			relid = get_typ_typrelid(type);

	LockRelationOid(relid, lockmode);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the queue has been dropped"),
				 errhint("Create it with inbox_create.")));
	return QueueOpenOid(relid);
}

/*
 * QueueTryOpen
 *		For those who go through all queues: NULL when the table has gone, is
 *		no queue any more, or (with nowait) when somebody holds a lock in the
 *		way.
 */
Queue *
QueueTryOpen(Oid relid, LOCKMODE lockmode, bool nowait)
{
	Queue	   *q = NULL;

	if (!nowait)
		LockRelationOid(relid, lockmode);
	else if (!ConditionalLockRelationOid(relid, lockmode))
		return NULL;
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		q = lookup(relid);
	if (q == NULL)
		UnlockRelationOid(relid, lockmode);
	return q;
}
