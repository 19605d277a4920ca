/*-------------------------------------------------------------------------
 *
 * look.c
 *	  Read the rows of a queue for a view, as whoever looks.
 *
 * Where row security does not apply to the user the table is read here,
 * without running any code of its owner's.  Where it applies, a statement
 * does it, as the user, because policies go by who asks.  That runs what the
 * owner has written into them, in a view that the user may never have meant
 * to ask about that table.  So it happens in a security-restricted operation
 * and read-only: a policy decides what is seen, it has no business to write.
 * Nothing else of the owner's gets a say: the statement only names columns,
 * and what it brings is judged and formatted in C.
 *
 * A queue that is locked, or fails, is left out with a notice.
 *
 * Called by leases.c, groupview.c and deadview.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "guard.h"
#include "label.h"
#include "lib/stringinfo.h"
#include "look.h"
#include "miscadmin.h"
#include "sample.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define CHUNK	100

/* what the guarded part works on */
typedef struct Guarded
{
	bool		(*work) (void *arg);
	void	   *arg;
	bool		locked;			/* a table of the queue is */
} Guarded;

/*
 * LookMayReadSome
 *		Has the user any right to read this table?  Who has none is not told
 *		of its troubles.
 */
bool
LookMayReadSome(Oid relid)
{
	bool		missing = false;

	return pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT,
								 &missing) == ACLCHECK_OK ||
		(!missing && pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT,
											   ACLMASK_ANY) == ACLCHECK_OK);
}

/*
 * LookMayRead
 *		SELECT on the table, or on each of the columns to read.
 */
bool
LookMayRead(const Look *look)
{
	if (pg_class_aclcheck(look->relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	for (int role = 0; role < NUM_ROLES; role++)
	{
		if (look->col[role] != 0 &&
			pg_attribute_aclcheck(look->relid, look->col[role], GetUserId(),
								  ACL_SELECT) != ACLCHECK_OK)
			return false;
	}
	return true;
}

static void
visit_row(const Look *look, const AttrNumber *attnos, TupleTableSlot *slot,
		  MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	CHECK_FOR_INTERRUPTS();
	look->visit(attnos, slot, look->arg);
	MemoryContextSwitchTo(old);
	MemoryContextReset(cxt);
}

static void
read_leaf(const Look *look, SampleLeaf *leaf, Snapshot snapshot,
		  MemoryContext cxt)
{
	TableScanDesc scan = table_beginscan(leaf->rel, snapshot, 0, NULL);
	AttrNumber	attnos[NUM_ROLES];

	/* a partition or child may have its columns in another order */
	for (int role = 0; role < NUM_ROLES; role++)
	{
		attnos[role] = look->col[role];
		if (attnos[role] != 0 && RelationGetRelid(leaf->rel) != look->relid)
			attnos[role] = get_attnum(RelationGetRelid(leaf->rel),
									  get_attname(look->relid, attnos[role],
												  false));
	}
	while (table_scan_getnextslot(scan, ForwardScanDirection, leaf->slot))
		visit_row(look, attnos, leaf->slot, cxt);
	table_endscan(scan);
}

static bool
read_tables(const Look *look, MemoryContext cxt)
{
	Sample		s;
	ListCell   *lc;

	if (!SampleOpen(&s, look->relid))
		return false;
	foreach(lc, s.leaves)
		read_leaf(look, (SampleLeaf *) lfirst(lc), s.snapshot, cxt);
	SampleClose(&s);
	return true;
}

/*
 * look_sql
 *		The columns to read, and where in the result each role is.
 */
static char *
look_sql(const Look *look, AttrNumber *attnos)
{
	StringInfoData sql;
	AttrNumber	n = 0;

	memset(attnos, 0, NUM_ROLES * sizeof(AttrNumber));
	initStringInfo(&sql);
	for (int role = 0; role < NUM_ROLES; role++)
	{
		if (look->col[role] == 0)
			continue;
		attnos[role] = ++n;
		appendStringInfo(&sql, "%s %s", n == 1 ? "SELECT" : ",",
						 quote_identifier(get_attname(look->relid,
													  look->col[role], false)));
	}
	appendStringInfo(&sql, " FROM %s", QualifiedName(look->relid));
	if (look->condition != NULL)
		appendStringInfo(&sql, " WHERE %s", look->condition);
	return sql.data;
}

static void
fetch_rows(const Look *look, Portal portal, const AttrNumber *attnos,
		   MemoryContext cxt)
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
			visit_row(look, attnos, slot, cxt);
		}
		ExecClearTuple(slot);
		SPI_freetuptable(SPI_tuptable);
	}
	ExecDropSingleTupleTableSlot(slot);
}

static void
read_by_sql(const Look *look, MemoryContext cxt)
{
	AttrNumber	attnos[NUM_ROLES];
	Oid			type = TIMESTAMPTZOID;
	Datum		value = TimestampTzGetDatum(look->now);
	Portal		portal;
	Oid			user;
	int			sec_context;

	GetUserIdAndSecContext(&user, &sec_context);
	SetUserIdAndSecContext(user, sec_context | SECURITY_RESTRICTED_OPERATION);
	/* until the end of GuardRun's subtransaction */
	XactReadOnly = true;
	SPI_connect();
	PushActiveSnapshot(GetLatestSnapshot());
	portal = SPI_cursor_open_with_args(NULL, look_sql(look, attnos), 1,
									   &type, &value, NULL, true, 0);
	fetch_rows(look, portal, attnos, cxt);
	SPI_cursor_close(portal);
	PopActiveSnapshot();
	SPI_finish();
	SetUserIdAndSecContext(user, sec_context);
}

/*
 * LookRows
 *		Visit the rows that the user sees; false when somebody holds a lock in
 *		the way.  To be called in the work of LookQueue, for a user who may.
 */
bool
LookRows(const Look *look)
{
	MemoryContext cxt;
	bool		free = true;

	if (!ConditionalLockRelationOid(look->relid, AccessShareLock))
		return false;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "inbox row",
								ALLOCSET_SMALL_SIZES);
	if (check_enable_rls(look->relid, InvalidOid, true) == RLS_ENABLED)
		read_by_sql(look, cxt);
	else
		free = read_tables(look, cxt);
	MemoryContextDelete(cxt);
	UnlockRelationOid(look->relid, AccessShareLock);
	return free;
}

static void
leave_out(Oid relid, const char *reason)
{
	char	   *name = get_rel_name(relid);

	if (name != NULL)
		ereport(NOTICE,
				(errmsg("queue \"%s\" is left out: %s", name, reason)));
}

static void
run_guarded(void *arg)
{
	Guarded    *g = (Guarded *) arg;

	g->locked = !g->work(g->arg);
}

/*
 * LookQueue
 *		Do the work for one queue, whose table is locked meanwhile; it returns
 *		false when another table of the queue is locked.
 */
void
LookQueue(Oid relid, bool (*work) (void *arg), void *arg)
{
	Guarded		g = {work, arg};
	const char *error;

	g.locked = !ConditionalLockRelationOid(relid, AccessShareLock);
	if (!g.locked)
	{
		error = GuardRun(run_guarded, &g);
		UnlockRelationOid(relid, AccessShareLock);
		if (error != NULL)
			leave_out(relid, error);
	}
	if (g.locked)
		leave_out(relid, "the table is locked");
}

/*
 * LookEach
 *		Call "look" for each queue, in a memory context that is reset after it.
 */
void
LookEach(void (*look) (Oid relid, void *arg), void *arg)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext,
											  "inbox look at a queue",
											  ALLOCSET_DEFAULT_SIZES);
	ListCell   *lc;

	foreach(lc, LabelList(LABEL_QUEUE))
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		CHECK_FOR_INTERRUPTS();
		look(lfirst_oid(lc), arg);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	MemoryContextDelete(cxt);
}
