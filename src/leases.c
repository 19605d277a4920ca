/*-------------------------------------------------------------------------
 *
 * leases.c
 *	  The function behind view inbox_leases.
 *
 * It shows every live lease in the queues that the current user may read.
 * No index holds the state of a lease, so each table is read whole.
 *
 * Where row security does not apply to the user the table is read here,
 * without running any code of its owner's.  Where it applies, a statement
 * does it, as the user, because policies go by who asks.  That runs what the
 * owner has written into them, in a view that the user may never have meant
 * to ask about that table.  So it happens in a security-restricted operation
 * and read-only: a policy decides what is seen, it has no business to write.
 *
 * A queue that is locked, or fails, is left out with a notice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "announce.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "lease.h"
#include "lib/stringinfo.h"
#include "locate.h"
#include "miscadmin.h"
#include "receipt.h"
#include "sample.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define NUM_COLUMNS		7
#define CHUNK			100

/* what is read of a row */
static const Role shown[] = {
	ROLE_ID, ROLE_LOCKED_UNTIL, ROLE_CLAIMED_AT, ROLE_ATTEMPT, ROLE_DUE_AT,
	ROLE_PROCESSED_AT, ROLE_GROUP_KEY
};

typedef struct Listing
{
	Oid			relid;
	Queue	   *q;
	ReturnSetInfo *rsinfo;
	TimestampTz now;
	MemoryContext row_cxt;
	bool		locked;			/* a table of the queue is */
} Listing;

static bool
may_read(Queue *q)
{
	if (pg_class_aclcheck(q->relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	for (int i = 0; i < lengthof(shown); i++)
	{
		if (QueueHas(q, shown[i]) &&
			pg_attribute_aclcheck(q->relid, q->col[shown[i]].attno,
								  GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			return false;
	}
	return true;
}

static void
put_lease(Listing *l, const AttrNumber *attnos, TupleTableSlot *slot,
		  const LeaseRow *row)
{
	Queue	   *q = l->q;
	Datum		values[NUM_COLUMNS] = {0};
	bool		nulls[NUM_COLUMNS] = {0};
	bool		isnull;

	values[0] = CStringGetTextDatum(q->name);
	values[1] = CStringGetTextDatum(ReceiptIdText(q, slot_getattr(slot, attnos[ROLE_ID], &isnull)));
	nulls[2] = !QueueHas(q, ROLE_ATTEMPT);
	values[2] = Int32GetDatum((int32) Min(LeaseReported(q, row) - 1, PG_INT32_MAX));
	nulls[3] = !row->claimed;
	values[3] = TimestampTzGetDatum(row->claimed_at);
	values[4] = TimestampTzGetDatum(row->locked_until);
	values[5] = DirectFunctionCall2(timestamp_mi,
									TimestampTzGetDatum(row->locked_until),
									TimestampTzGetDatum(l->now));
	nulls[6] = true;
	if (attnos[ROLE_GROUP_KEY] != 0)
		values[6] = slot_getattr(slot, attnos[ROLE_GROUP_KEY], &nulls[6]);
	tuplestore_putvalues(l->rsinfo->setResult, l->rsinfo->setDesc, values, nulls);
}

static void
visit_row(Listing *l, const AttrNumber *attnos, TupleTableSlot *slot)
{
	LeaseRow	row;
	MemoryContext old;

	LeaseReadRow(l->q, attnos, slot, &row);
	if (LeaseStateOf(l->q, &row, l->now) != LEASE_LIVE)
		return;
	old = MemoryContextSwitchTo(l->row_cxt);
	put_lease(l, attnos, slot, &row);
	MemoryContextSwitchTo(old);
	MemoryContextReset(l->row_cxt);
}

static void
read_tables(Listing *l)
{
	Sample		s;
	ListCell   *lc;

	if (!SampleOpen(&s, l->q->relid))
	{
		l->locked = true;
		return;
	}
	SampleMapRoles(&s, l->q);
	foreach(lc, s.leaves)
	{
		SampleLeaf *leaf = (SampleLeaf *) lfirst(lc);
		TableScanDesc scan = table_beginscan(leaf->rel, s.snapshot, 0, NULL);

		while (table_scan_getnextslot(scan, ForwardScanDirection, leaf->slot))
		{
			CHECK_FOR_INTERRUPTS();
			visit_row(l, leaf->attnos, leaf->slot);
		}
		table_endscan(scan);
	}
	SampleClose(&s);
}

/*
 * leases_sql
 *		The rows with a lease that runs, and where in the result each role is.
 */
static char *
leases_sql(Queue *q, AttrNumber *attnos)
{
	StringInfoData sql;
	AttrNumber	n = 0;

	memset(attnos, 0, NUM_QUEUE_ROLES * sizeof(AttrNumber));
	initStringInfo(&sql);
	for (int i = 0; i < lengthof(shown); i++)
	{
		if (!QueueHas(q, shown[i]))
			continue;
		attnos[shown[i]] = ++n;
		appendStringInfo(&sql, "%s %s", n == 1 ? "SELECT" : ",",
						 q->colname[shown[i]]);
	}
	appendStringInfo(&sql, " FROM %s WHERE %s OPERATOR(pg_catalog.>) $1",
					 q->name, q->colname[ROLE_LOCKED_UNTIL]);
	return sql.data;
}

static void
fetch_rows(Listing *l, Portal portal, const AttrNumber *attnos)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(portal->tupDesc,
													&TTSOpsHeapTuple);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(portal, true, CHUNK);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			ExecStoreHeapTuple(SPI_tuptable->vals[i], slot, false);
			visit_row(l, attnos, slot);
		}
		ExecClearTuple(slot);
		SPI_freetuptable(SPI_tuptable);
	}
	ExecDropSingleTupleTableSlot(slot);
}

static void
read_by_sql(Listing *l)
{
	AttrNumber	attnos[NUM_QUEUE_ROLES];
	SnapshotData copy;
	Oid			type = TIMESTAMPTZOID;
	Datum		value = TimestampTzGetDatum(l->now);
	Portal		portal;
	Oid			user;
	int			sec_context;

	GetUserIdAndSecContext(&user, &sec_context);
	SetUserIdAndSecContext(user, sec_context | SECURITY_RESTRICTED_OPERATION);
	/* until the end of GuardRun's subtransaction */
	XactReadOnly = true;
	SPI_connect();
	PushActiveSnapshot(FreshSnapshot(l->q, &copy));
	portal = SPI_cursor_open_with_args(NULL, leases_sql(l->q, attnos), 1,
									   &type, &value, NULL, true, 0);
	fetch_rows(l, portal, attnos);
	SPI_cursor_close(portal);
	PopActiveSnapshot();
	SPI_finish();
	SetUserIdAndSecContext(user, sec_context);
}

static void
list_guarded(void *arg)
{
	Listing    *l = (Listing *) arg;

	l->q = QueueTryOpen(l->relid, AccessShareLock, false);
	if (l->q == NULL)
		return;
	if (!may_read(l->q))
		 /* nothing to see */ ;
	else if (check_enable_rls(l->relid, InvalidOid, true) == RLS_ENABLED)
		read_by_sql(l);
	else
		read_tables(l);
	QueueClose(l->q);
	UnlockRelationOid(l->relid, AccessShareLock);
}

static void
leave_out(Oid relid, const char *reason)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL)
		ereport(NOTICE,
				(errmsg("queue \"%s\" is left out: %s", name, reason)));
}

/*
 * Whoever has no right at all to read anything of the table is not told of
 * its troubles.
 */
static bool
may_read_some(Oid relid)
{
	bool		missing = false;

	return pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT,
								 &missing) == ACLCHECK_OK ||
		(!missing && pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT,
											   ACLMASK_ANY) == ACLCHECK_OK);
}

static void
list_queue(Listing *l)
{
	const char *error;

	if (!may_read_some(l->relid))
		return;
	l->locked = !ConditionalLockRelationOid(l->relid, AccessShareLock);
	if (!l->locked)
	{
		error = GuardRun(list_guarded, l);
		UnlockRelationOid(l->relid, AccessShareLock);
		if (error != NULL)
			leave_out(l->relid, error);
	}
	if (l->locked)
		leave_out(l->relid, "the table is locked");
}

PG_FUNCTION_INFO_V1(inbox_lease_status_0_1);

/*
 * inbox_lease_status() returns setof record
 */
Datum
inbox_lease_status_0_1(PG_FUNCTION_ARGS)
{
	Listing		l = {0};
	MemoryContext cxt;
	MemoryContext old;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	l.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox lease status",
								ALLOCSET_DEFAULT_SIZES);
	l.row_cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox lease row",
									  ALLOCSET_SMALL_SIZES);
	foreach(lc, LabelList(LABEL_QUEUE))
	{
		CHECK_FOR_INTERRUPTS();
		l.relid = lfirst_oid(lc);
		l.now = LeaseNow();
		old = MemoryContextSwitchTo(cxt);
		list_queue(&l);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	return (Datum) 0;
}
