/*-------------------------------------------------------------------------
 *
 * subconfig.c
 *	  Subscriptions as they are defined: the table inbox_subscription.
 *
 * It is a configuration table of the extension, so that its rows are in dumps.
 * Nobody but its owner, the bootstrap superuser, may write it: who could would
 * run functions as anybody.  The functions that do, after their checks, write
 * it here as a catalog is written, without SQL and so without anybody's
 * search path, triggers or rules.
 *
 * Queue and owner are a regclass and a regrole: they follow every rename, are
 * names in a dump, and pg_upgrade keeps the OIDs that they stand for.  It does
 * not keep those of functions and would refuse a regprocedure.  So a handler
 * is kept as its OID, which follows renames, and as text, which the keeper
 * brings up to date; "home" tells whether the OID means anything:
 *
 *	  another system identifier only: pg_upgrade; the text counts.
 *
 *	  another database or another table: a dump was restored, or the database
 *	  copied.  A copy must not begin to handle messages by itself, perhaps
 *	  while the restore is still under way: it waits to be resumed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "compat.h"
#include "miscadmin.h"
#include "subscription.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/regproc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/*
 * SubscriptionTable
 *		The table; InvalidOid without the extension.
 */
Oid
SubscriptionTable(void)
{
	Oid			extension = get_extension_oid("inbox", true);

	if (!OidIsValid(extension))
		return InvalidOid;
	return get_relname_relid("inbox_subscription", ExtensionSchema(extension));
}

static char *
home_of(Oid table)
{
	return psprintf(UINT64_FORMAT ".%u.%u", GetSystemIdentifier(),
					MyDatabaseId, table);
}

static char *
get_text(Datum *values, bool *nulls, int column)
{
	return nulls[column] ? NULL : TextDatumGetCString(values[column]);
}

static Interval *
get_interval(Datum *values, bool *nulls, int column)
{
	Interval   *copy;

	if (nulls[column])
		return NULL;
	copy = palloc(sizeof(Interval));
	*copy = *DatumGetIntervalP(values[column]);
	return copy;
}

static Subscription *
from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Subscription *sub = palloc0(sizeof(Subscription));
	Datum		values[NUM_SUB_COLUMNS];
	bool		nulls[NUM_SUB_COLUMNS];

	heap_deform_tuple(tuple, desc, values, nulls);
	sub->name = get_text(values, nulls, SUB_NAME);
	sub->queue = DatumGetObjectId(values[SUB_QUEUE]);
	sub->handler = get_text(values, nulls, SUB_HANDLER);
	sub->handler_oid = DatumGetObjectId(values[SUB_HANDLER_OID]);
	sub->home = get_text(values, nulls, SUB_HOME);
	sub->owner = DatumGetObjectId(values[SUB_OWNER]);
	sub->workers = DatumGetInt32(values[SUB_WORKERS]);
	sub->by_key = DatumGetBool(values[SUB_BY_KEY]);
	sub->lease = get_interval(values, nulls, SUB_LEASE);
	sub->on_error = get_text(values, nulls, SUB_ON_ERROR);
	sub->on_decode_error = get_text(values, nulls, SUB_ON_DECODE_ERROR);
	sub->decode_delay = get_interval(values, nulls, SUB_DECODE_DELAY);
	sub->group_key = get_text(values, nulls, SUB_GROUP_KEY);
	sub->time_limit = get_interval(values, nulls, SUB_TIME_LIMIT);
	sub->paused = DatumGetBool(values[SUB_PAUSED]);
	sub->tid = tuple->t_self;
	return sub;
}

/*
 * read_table
 *		All rows, or the one of that name, as of now: whoever wrote last
 *		counts, whatever the isolation level.
 */
static List *
read_table(const char *name, bool first_only)
{
	Oid			relid = SubscriptionTable();
	List	   *subs = NIL;
	Relation	rel;
	SysScanDesc scan;
	Snapshot	snapshot;
	HeapTuple	tuple;

	if (!OidIsValid(relid))
		return NIL;
	rel = table_open(relid, AccessShareLock);
	if (RelationGetDescr(rel)->natts != NUM_SUB_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has other columns than this version of inbox expects",
						RelationGetRelationName(rel)),
				 errhint("Run ALTER EXTENSION inbox UPDATE.")));
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Subscription *sub = from_tuple(tuple, RelationGetDescr(rel));

		if (name == NULL || strcmp(sub->name, name) == 0)
			subs = lappend(subs, sub);
		if (first_only && subs != NIL)
			break;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return subs;
}

bool
SubscriptionsExist(void)
{
	return read_table(NULL, true) != NIL;
}

List *
SubscriptionReadAll(void)
{
	return read_table(NULL, false);
}

/*
 * SubscriptionRead
 *		The subscription of that name, or NULL.
 */
Subscription *
SubscriptionRead(const char *name)
{
	List	   *subs = read_table(name, true);

	return subs == NIL ? NULL : linitial(subs);
}

static void
put_text(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	if (value != NULL)
		values[column] = CStringGetTextDatum(value);
}

static void
put_interval(Datum *values, bool *nulls, int column, Interval *value)
{
	nulls[column] = value == NULL;
	if (value != NULL)
		values[column] = IntervalPGetDatum(value);
}

/*
 * SubscriptionWrite
 *		Insert or update its row.  The caller has locked the table against
 *		other writers.
 */
void
SubscriptionWrite(Subscription *sub)
{
	Relation	rel = table_open(SubscriptionTable(), RowExclusiveLock);
	Datum		values[NUM_SUB_COLUMNS] = {0};
	bool		nulls[NUM_SUB_COLUMNS] = {0};
	HeapTuple	tuple;

	put_text(values, nulls, SUB_NAME, sub->name);
	values[SUB_QUEUE] = ObjectIdGetDatum(sub->queue);
	put_text(values, nulls, SUB_HANDLER, sub->handler);
	values[SUB_HANDLER_OID] = ObjectIdGetDatum(sub->handler_oid);
	put_text(values, nulls, SUB_HOME, sub->home);
	values[SUB_OWNER] = ObjectIdGetDatum(sub->owner);
	values[SUB_WORKERS] = Int32GetDatum(sub->workers);
	values[SUB_BY_KEY] = BoolGetDatum(sub->by_key);
	put_interval(values, nulls, SUB_LEASE, sub->lease);
	put_text(values, nulls, SUB_ON_ERROR, sub->on_error);
	put_text(values, nulls, SUB_ON_DECODE_ERROR, sub->on_decode_error);
	put_interval(values, nulls, SUB_DECODE_DELAY, sub->decode_delay);
	put_text(values, nulls, SUB_GROUP_KEY, sub->group_key);
	put_interval(values, nulls, SUB_TIME_LIMIT, sub->time_limit);
	values[SUB_PAUSED] = BoolGetDatum(sub->paused);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	if (ItemPointerIsValid(&sub->tid))
	{
		tuple->t_self = sub->tid;
		CatalogTupleUpdate(rel, &tuple->t_self, tuple);
	}
	else
		CatalogTupleInsert(rel, tuple);
	sub->tid = tuple->t_self;
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

void
SubscriptionRemove(Subscription *sub)
{
	Relation	rel = table_open(SubscriptionTable(), RowExclusiveLock);

	CatalogTupleDelete(rel, &sub->tid);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/*
 * SubscriptionSetHandler
 *		The handler is this function, as of here and now.
 */
void
SubscriptionSetHandler(Subscription *sub, Oid handler)
{
	sub->handler_oid = handler;
	sub->handler = format_procedure_qualified(handler);
	sub->home = home_of(SubscriptionTable());
}

SubscriptionPlace
SubscriptionPlaceOf(const Subscription *sub)
{
	const char *home = home_of(SubscriptionTable());
	const char *there = strchr(sub->home, '.');

	if (strcmp(home, sub->home) == 0)
		return PLACE_HOME;
	return there != NULL && strcmp(strchr(home, '.'), there) == 0 ?
		PLACE_UPGRADED : PLACE_COPY;
}

static Oid
find_by_name(const Subscription *sub)
{
	FmgrInfo	flinfo;

	LOCAL_FCINFO(fcinfo, 1);
	Datum		oid;

	fmgr_info(F_TO_REGPROCEDURE, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(sub->handler);
	fcinfo->args[0].isnull = false;
	oid = FunctionCallInvoke(fcinfo);
	return fcinfo->isnull ? InvalidOid : DatumGetObjectId(oid);
}

/*
 * SubscriptionFindHandler
 *		The function; InvalidOid when it is no more.  A name is looked up only
 *		where the OID says nothing, and may raise an error.
 */
Oid
SubscriptionFindHandler(const Subscription *sub)
{
	if (SubscriptionPlaceOf(sub) == PLACE_HOME)
		return SearchSysCacheExists1(PROCOID,
									 ObjectIdGetDatum(sub->handler_oid)) ?
			sub->handler_oid : InvalidOid;
	return find_by_name(sub);
}

/*
 * SubscriptionFindAnew
 *		The handler has been dropped: has it been made anew, under the same name
 *		and for the same argument?  It runs as the subscription's owner, so it
 *		must be his, or a superuser's: anybody may make a function where an
 *		owner's was.
 */
Oid
SubscriptionFindAnew(const Subscription *sub)
{
	Oid			handler = find_by_name(sub);
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(handler));
	Oid			maker;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	maker = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return maker == sub->owner || superuser_arg(maker) ? handler : InvalidOid;
}

static uint64
print_bytes(uint64 print, const void *bytes, int len)
{
	return hash_combine64(print, hash_bytes_extended(bytes, len, 0));
}

static uint64
print_string(uint64 print, const char *string)
{
	return string == NULL ? hash_combine64(print, 1) :
		print_bytes(print, string, strlen(string) + 1);
}

static uint64
print_interval(uint64 print, const Interval *interval)
{
	return interval == NULL ? hash_combine64(print, 1) :
		print_bytes(print, interval, sizeof(Interval));
}

/*
 * SubscriptionPrint
 *		A fingerprint: a process that runs by another one has to go.
 */
uint64
SubscriptionPrint(const Subscription *sub)
{
	uint64		print = 0;

	print = print_string(print, sub->name);
	print = print_bytes(print, &sub->queue, sizeof(Oid));
	print = print_bytes(print, &sub->handler_oid, sizeof(Oid));
	print = print_string(print, sub->home);
	print = print_bytes(print, &sub->owner, sizeof(Oid));
	print = print_bytes(print, &sub->workers, sizeof(int));
	print = print_bytes(print, &sub->by_key, sizeof(bool));
	print = print_interval(print, sub->lease);
	print = print_string(print, sub->on_error);
	print = print_string(print, sub->on_decode_error);
	print = print_interval(print, sub->decode_delay);
	print = print_string(print, sub->group_key);
	print = print_interval(print, sub->time_limit);
	return print_bytes(print, &sub->paused, sizeof(bool));
}

/*
 * SubscriptionTimeLimit
 *		In milliseconds; 0: none.
 */
int
SubscriptionTimeLimit(const Subscription *sub)
{
	if (sub->time_limit == NULL)
		return 0;
	return (int) Max(sub->time_limit->time / 1000, 1);
}
