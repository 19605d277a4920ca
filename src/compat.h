/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  The one place that knows PostgreSQL versions.
 *
 * PostgreSQL 15 is the floor; 16, 17 and 18 are supported.  Everything else
 * in src/ is written against the newest signatures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_COMPAT_H
#define INBOX_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "inbox needs PostgreSQL 15 or newer"
#endif

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "parser/parse_relation.h"
#include "postmaster/bgworker.h"
#if PG_VERSION_NUM >= 180000
#include "rewrite/rewriteHandler.h"
#endif
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/* 17 knows infinite intervals */
#if PG_VERSION_NUM >= 170000
#define IntervalIsInfinite(iv)	INTERVAL_NOT_FINITE(iv)
#else
#define IntervalIsInfinite(iv)	false
#endif

/*
 * Give an executor state the range table that a write to one relation needs.
 * Returns where it keeps the set of columns being updated: in the range table
 * entry itself, or since 16 beside it.
 */
static inline Bitmapset **
MakeResultRangeTable(EState *estate, Relation rel)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
#if PG_VERSION_NUM >= 160000
	List	   *perms = NIL;
	RTEPermissionInfo *perm;
#endif

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(rel);
	rte->relkind = rel->rd_rel->relkind;
	rte->rellockmode = AccessShareLock;
#if PG_VERSION_NUM >= 160000
	perm = addRTEPermissionInfo(&perms, rte);
#if PG_VERSION_NUM >= 180000
	ExecInitRangeTable(estate, list_make1(rte), perms, bms_make_singleton(1));
#else
	ExecInitRangeTable(estate, list_make1(rte), perms);
#endif
	return &perm->updatedCols;
#else
	ExecInitRangeTable(estate, list_make1(rte));
	return &rte->updatedCols;
#endif
}

/* 17 no longer tests for a snapshot that is too old */
static inline Buffer
BtreeLastLeaf(Relation index)
{
#if PG_VERSION_NUM >= 170000
	return _bt_get_endpoint(index, 0, true);
#else
	return _bt_get_endpoint(index, 0, true, NULL);
#endif
}

/* 18 counts index searches in a structure of the caller's */
static inline IndexScanDesc
BeginIndexScan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 18 can leave room in front of the tuple */
static inline MinimalTuple
FormMinimalTuple(TupleDesc desc, Datum *values, bool *nulls)
{
#if PG_VERSION_NUM >= 180000
	return heap_form_minimal_tuple(desc, values, nulls, 0);
#else
	return heap_form_minimal_tuple(desc, values, nulls);
#endif
}

/* 18 has generated columns that are stored nowhere */
#if PG_VERSION_NUM < 180000
#define ATTRIBUTE_GENERATED_VIRTUAL 'v'
#endif

static inline bool
HasGenerated(TupleDesc desc)
{
	TupleConstr *constr = desc->constr;

#if PG_VERSION_NUM >= 180000
	if (constr != NULL && constr->has_generated_virtual)
		return true;
#endif
	return constr != NULL && constr->has_generated_stored;
}

/*
 * slot_getallattrs, with such columns computed.  The values stay in the slot
 * until it is cleared; they live in the current context.
 */
static inline void
SlotGetAll(Relation rel, TupleTableSlot *slot)
{
#if PG_VERSION_NUM >= 180000
	TupleDesc	desc = RelationGetDescr(rel);
	EState	   *estate;
	ExprContext *econtext;
#endif

	slot_getallattrs(slot);
#if PG_VERSION_NUM >= 180000
	if (desc->constr == NULL || !desc->constr->has_generated_virtual)
		return;
	estate = CreateExecutorState();
	econtext = GetPerTupleExprContext(estate);
	econtext->ecxt_scantuple = slot;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Expr	   *expr;
		Datum		value;

		if (att->attisdropped ||
			att->attgenerated != ATTRIBUTE_GENERATED_VIRTUAL)
			continue;
		expr = (Expr *) build_generation_expression(rel, i + 1);
		value = ExecEvalExprSwitchContext(ExecPrepareExpr(expr, estate),
										  econtext, &slot->tts_isnull[i]);
		slot->tts_values[i] = slot->tts_isnull[i] ? (Datum) 0 :
			datumCopy(value, att->attbyval, att->attlen);
	}
	FreeExecutorState(estate);
#endif
}

/* 16 can limit the index entries of a new version to some kinds of index */
#if PG_VERSION_NUM < 160000
typedef bool TU_UpdateIndexes;
#define TU_None			false
#endif

/* index entries for a row just inserted */
static inline List *
InsertIndexTuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL,
								 false);
#else
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL);
#endif
}

/*
 * Take a lock if it is free, and there is room for it; 18 can also log that it
 * was not.
 */
static inline bool
TryLock(const LOCKTAG *tag, LOCKMODE mode)
{
#if PG_VERSION_NUM >= 180000
	return LockAcquireExtended(tag, mode, false, true, false, NULL,
							   false) != LOCKACQUIRE_NOT_AVAIL;
#else
	return LockAcquireExtended(tag, mode, false, true, false,
							   NULL) != LOCKACQUIRE_NOT_AVAIL;
#endif
}

/* and for the new version of one, where simple_table_tuple_update asks for it */
static inline List *
UpdateIndexTuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate,
				  TU_UpdateIndexes which)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, true, false, NULL, NIL,
								 which == TU_Summarizing);
#else
	return ExecInsertIndexTuples(rri, slot, estate, true, false, NULL, NIL);
#endif
}

/* one of pgstat_fetch_stat_numbackends() entries, from 1 */
static inline LocalPgBackendStatus *
LocalBackendStatus(int i)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(i);
#else
	return pgstat_fetch_stat_local_beentry(i);
#endif
}

/*
 * This process's place among all that can run transactions, from 0.
 */
#if PG_VERSION_NUM >= 170000
#define MyPlace()	MyProcNumber
#define MaxPlaces()	(MaxBackends + NUM_AUXILIARY_PROCS)
#else
#define MyPlace()	(MyBackendId - 1)
#define MaxPlaces()	MaxBackends
#endif

static inline bool
OwnsRelation(Oid relid, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, roleid);
#else
	return pg_class_ownercheck(relid, roleid);
#endif
}

static inline bool
OwnsDatabase(Oid database, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, roleid);
#else
	return pg_database_ownercheck(database, roleid);
#endif
}

/* 17 lets extensions name their wait events; "cached" is the caller's static */
static inline uint32
NamedWaitEvent(uint32 *cached, const char *name)
{
#if PG_VERSION_NUM >= 170000
	if (*cached == 0)
		*cached = WaitEventExtensionNew(name);
	return *cached;
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* libpq/libpq.h has it, but needs Kerberos' headers where the server uses it */
extern bool pq_check_connection(void);

/* exported since 16 */
static inline Oid
ExtensionSchema(Oid extension)
{
#if PG_VERSION_NUM >= 160000
	return get_extension_schema(extension);
#else
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			schema = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return schema;
#endif
}

/*
 * The OID of an extension, as of now.  18 has a cache for it, and a commit
 * wakes a worker before it tells caches.
 */
static inline Oid
ExtensionNow(const char *name)
{
#if PG_VERSION_NUM >= 180000
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	Snapshot	now = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			extension = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum(name));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, now, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		extension = ((Form_pg_extension) GETSTRUCT(tuple))->oid;
	systable_endscan(scan);
	UnregisterSnapshot(now);
	table_close(rel, AccessShareLock);
	return extension;
#else
	return get_extension_oid(name, true);
#endif
}

static inline bool
MayExecute(Oid function, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, roleid,
						   ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, roleid, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

static inline bool
MayConnect(Oid database, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(DatabaseRelationId, database, roleid,
						   ACL_CONNECT) == ACLCHECK_OK;
#else
	return pg_database_aclcheck(database, roleid, ACL_CONNECT) == ACLCHECK_OK;
#endif
}

/* since 17 a background worker can run as a role that may not log in */
#if PG_VERSION_NUM >= 170000
#define CONNECT_AS_ANYBODY	BGWORKER_BYPASS_ROLELOGINCHECK
#define NEEDS_LOGIN			false
#else
#define CONNECT_AS_ANYBODY	0
#define NEEDS_LOGIN			true
#endif

/* what DROP DATABASE leaves behind when it is interrupted, since 15.4 */
#ifndef DATCONNLIMIT_INVALID_DB
#define DATCONNLIMIT_INVALID_DB	(-2)
#endif

/* 17 can limit the time of a whole transaction */
#if PG_VERSION_NUM >= 170000
#define HAVE_TRANSACTION_TIMEOUT	1
#endif

#endif							/* INBOX_COMPAT_H */
