/*-------------------------------------------------------------------------
 *
 * groupview.c
 *	  The function behind view inbox_groups.
 *
 * It shows each group of the FIFO queues that the current user may read: how
 * many messages it has, which is the head and what state that is in, and which
 * one is in work.  Each table is read whole, and what is known of a group is
 * kept until the end, so it is for people rather than for every second.
 *
 * How rows are read, and what happens to a queue that cannot be, is in look.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "announce.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "deliver.h"
#include "fmgr.h"
#include "funcapi.h"
#include "hints.h"
#include "lease.h"
#include "look.h"
#include "receipt.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/uuid.h"

#define NUM_COLUMNS		9

/* what is read of a row */
static const Role shown[] = {
	ROLE_ID, ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT, ROLE_ATTEMPT, ROLE_DUE_AT,
	ROLE_PRIORITY, ROLE_PROCESSED_AT, ROLE_GROUP_KEY
};

typedef struct ShownGroup
{
	struct ShownGroup *next;	/* another one with the same hash */
	text	   *key;
	int64		backlog;
	HintKey		order;			/* of the head */
	Datum		head;			/* its id */
	LeaseRow	row;
	bool		in_work;
	Datum		leased;			/* id of the row in work */
	TimestampTz until;
} ShownGroup;

typedef struct GroupEntry
{
	uint64		hash;			/* hash key */
	ShownGroup *first;
} GroupEntry;

typedef struct Listing
{
	Oid			relid;
	Queue	   *q;
	ReturnSetInfo *rsinfo;
	TimestampTz now;
	MemoryContext cxt;			/* of the queue at hand */
	HTAB	   *groups;
} Listing;

static ShownGroup *
find_group(Listing *l, text *key)
{
	uint64		hash = hash_bytes_extended((unsigned char *) VARDATA_ANY(key),
										   VARSIZE_ANY_EXHDR(key), 0);
	GroupEntry *entry;
	ShownGroup *g;
	bool		found;

	entry = (GroupEntry *) hash_search(l->groups, &hash, HASH_ENTER, &found);
	if (!found)
		entry->first = NULL;
	for (g = entry->first; g != NULL; g = g->next)
	{
		if (VARSIZE_ANY_EXHDR(g->key) == VARSIZE_ANY_EXHDR(key) &&
			memcmp(VARDATA_ANY(g->key), VARDATA_ANY(key),
				   VARSIZE_ANY_EXHDR(key)) == 0)
			return g;
	}
	g = palloc0(sizeof(ShownGroup));
	g->key = (text *) PG_DETOAST_DATUM_COPY(PointerGetDatum(key));
	g->next = entry->first;
	entry->first = g;
	return g;
}

static Datum
copy_id(Queue *q, Datum id)
{
	if (q->integer_id)
		return id;
	return datumCopy(id, false,
					 q->col[ROLE_ID].type == UUIDOID ? UUID_LEN : -1);
}

static void
visit_row(const AttrNumber *attnos, TupleTableSlot *slot, void *arg)
{
	Listing    *l = (Listing *) arg;
	Queue	   *q = l->q;
	MemoryContext old;
	LeaseRow	row;
	HintRange	keys;
	Datum		id;
	bool		isnull;
	ShownGroup *g;

	LeaseReadRow(q, attnos, slot, &row);
	if (row.finished || !row.grouped)
		return;
	KeysOfRow(q, attnos, slot, &keys);
	id = ReceiptId(q, attnos, slot);
	old = MemoryContextSwitchTo(l->cxt);
	g = find_group(l, DatumGetTextPP(slot_getattr(slot, attnos[ROLE_GROUP_KEY],
												  &isnull)));
	if (g->backlog++ == 0 ||
		DeliverOrder(q, &keys.lo, id, &g->order, g->head) < 0)
	{
		g->order = keys.lo;
		g->head = copy_id(q, id);
		g->row = row;
	}
	if (LeaseStateOf(q, &row, l->now) == LEASE_LIVE)
	{
		g->in_work = true;
		g->leased = copy_id(q, id);
		g->until = row.locked_until;
	}
	MemoryContextSwitchTo(old);
}

static const char *
state_name(Listing *l, const ShownGroup *g)
{
	switch (LeaseStateOf(l->q, &g->row, l->now))
	{
		case LEASE_READY:
			return "ready";
		case LEASE_EXPIRED:
			return "expired";
		case LEASE_DELAYED:
			return g->row.resting && g->row.locked_until > l->now ?
				"resting" : "delayed";
		case LEASE_LIVE:
			return "leased";
		case LEASE_SPENT:
			return "spent";
		case LEASE_FINISHED:
			break;
	}
	return NULL;
}

static void
put_group(Listing *l, const ShownGroup *g)
{
	Queue	   *q = l->q;
	Datum		values[NUM_COLUMNS] = {0};
	bool		nulls[NUM_COLUMNS] = {0};
	bool		rests = g->row.resting && g->row.locked_until > l->now;

	values[0] = CStringGetTextDatum(q->name);
	values[1] = PointerGetDatum(g->key);
	values[2] = Int64GetDatum(g->backlog);
	values[3] = CStringGetTextDatum(ReceiptIdText(q, g->head));
	values[4] = CStringGetTextDatum(state_name(l, g));
	nulls[5] = !QueueHas(q, ROLE_ATTEMPT);
	values[5] = Int32GetDatum((int32) Min(LeaseReported(q, &g->row), PG_INT32_MAX));
	nulls[6] = !g->row.has_due;
	values[6] = TimestampTzGetDatum(g->row.due_at);
	nulls[7] = !g->in_work;
	if (g->in_work)
		values[7] = CStringGetTextDatum(ReceiptIdText(q, g->leased));
	nulls[8] = !g->in_work && !rests;
	values[8] = TimestampTzGetDatum(g->in_work ? g->until : g->row.locked_until);
	tuplestore_putvalues(l->rsinfo->setResult, l->rsinfo->setDesc, values, nulls);
}

static void
put_groups(Listing *l)
{
	HASH_SEQ_STATUS seq;
	GroupEntry *entry;

	hash_seq_init(&seq, l->groups);
	while ((entry = (GroupEntry *) hash_seq_search(&seq)) != NULL)
	{
		for (ShownGroup *g = entry->first; g != NULL; g = g->next)
			put_group(l, g);
	}
}

/*
 * list_queue
 *		Work for LookQueue.
 */
static bool
list_queue(void *arg)
{
	Listing    *l = (Listing *) arg;
	Look		look = {l->relid};
	HASHCTL		ctl = {0};
	bool		free = true;

	l->q = QueueTryOpen(l->relid, AccessShareLock, false);
	if (l->q == NULL)
		return true;
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(GroupEntry);
	ctl.hcxt = l->cxt;
	l->groups = hash_create("inbox groups", 256, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < lengthof(shown); i++)
		look.col[shown[i]] = l->q->col[shown[i]].attno;
	look.now = l->now;
	look.visit = visit_row;
	look.arg = l;
	if (l->q->settings.fifo && LookMayRead(&look))
		free = LookRows(&look);
	if (free)
		put_groups(l);
	QueueClose(l->q);
	UnlockRelationOid(l->relid, AccessShareLock);
	return free;
}

static void
look_at(Oid relid, void *arg)
{
	Listing    *l = (Listing *) arg;

	l->relid = relid;
	l->now = LeaseNow();
	l->cxt = CurrentMemoryContext;
	if (LookMayReadSome(relid))
		LookQueue(relid, list_queue, l);
}

PG_FUNCTION_INFO_V1(inbox_group_status_0_1);

/*
 * inbox_group_status() returns setof record
 */
Datum
inbox_group_status_0_1(PG_FUNCTION_ARGS)
{
	Listing		l = {0};

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	l.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LookEach(look_at, &l);
	return (Datum) 0;
}
