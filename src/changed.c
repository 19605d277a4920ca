/*-------------------------------------------------------------------------
 *
 * changed.c
 *	  The triggers by which plain INSERT, COPY and UPDATE reach the hints.
 *
 * A row that somebody writes by hand may be claimable, anywhere in the claim
 * order.  AFTER STATEMENT triggers with transition tables tell us the keys of
 * such rows; they are opened when the transaction commits.  Leased rows are
 * noted instead.  All rows of an UPDATE count, even where neither place nor
 * lease has changed: there is a new version, and a walk that goes by while
 * it comes may see neither the old nor the new one.  DELETE and TRUNCATE make
 * nothing claimable.
 *
 * The triggers depend on the extension and go with it.  What they do not
 * see (disabled triggers, logical replication, a partition written to
 * directly) the reaper finds by and by.
 *
 * Our own writes to plain tables do not run statements, and tell the hints
 * themselves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "changed.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "delta.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pending.h"
#include "setup.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#define ON_INSERT	"inbox_inserted"
#define ON_UPDATE	"inbox_updated"

PG_FUNCTION_INFO_V1(inbox_changed);

/*
 * Only superusers make functions in C, so it is no namesake of some user's.
 */
static bool
is_ours(const Trigger *trigger)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID,
										ObjectIdGetDatum(trigger->tgfoid));
	Form_pg_proc form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	result = form->prolang == ClanguageId &&
		strcmp(NameStr(form->proname), "inbox_changed") == 0;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * ChangedOnlyOurs
 *		Does an event (TRIGGER_TYPE_UPDATE, …) concern no trigger, but ours,
 *		that needs a statement: for its own sake or for transition tables?
 */
bool
ChangedOnlyOurs(const TriggerDesc *triggers, int16 event)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if ((trigger->tgtype & event) == 0)
			continue;
		if (TRIGGER_FOR_ROW(trigger->tgtype) &&
			trigger->tgoldtable == NULL && trigger->tgnewtable == NULL)
			continue;
		if (!is_ours(trigger))
			return false;
	}
	return true;
}

/*
 * ChangedHasTriggers
 *		Has the table its triggers?  They go with the extension, and a new one
 *		finds the queues without.
 */
bool
ChangedHasTriggers(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	int			n = 0;

	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
		n += is_ours(&rel->trigdesc->triggers[i]);
	table_close(rel, NoLock);
	return n == 2;
}

void
ChangedDropTriggers(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	TriggerDesc *triggers = rel->trigdesc;
	List	   *names = NIL;
	ListCell   *lc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		if (is_ours(&triggers->triggers[i]))
			names = lappend(names, pstrdup(triggers->triggers[i].tgname));
	}
	table_close(rel, NoLock);
	foreach(lc, names)
		SetupExec(psprintf("DROP TRIGGER %s ON %s",
						   quote_identifier((char *) lfirst(lc)),
						   QualifiedName(relid)));
}

/*
 * go_with_extension
 *		ALTER TRIGGER ... DEPENDS ON EXTENSION, which would lock the extension
 *		against everybody who makes a queue until this transaction is over.
 */
static void
go_with_extension(Oid relid, const char *name)
{
	ObjectAddress trigger;
	ObjectAddress extension;

	ObjectAddressSet(trigger, TriggerRelationId,
					 get_trigger_oid(relid, name, false));
	ObjectAddressSet(extension, ExtensionRelationId,
					 get_extension_oid("inbox", false));
	LockDatabaseObject(ExtensionRelationId, extension.objectId, 0,
					   AccessShareLock);
	recordDependencyOn(&trigger, &extension, DEPENDENCY_AUTO_EXTENSION);
}

/*
 * ChangedAddTriggers
 *		Give a queue its triggers, as the table's owner would.  The namespace
 *		is the extension's.  A table that was restored without its labels has
 *		them already.
 */
void
ChangedAddTriggers(Oid relid, Oid namespaceid)
{
	char	   *table = QualifiedName(relid);
	char	   *function = quote_qualified_identifier(get_namespace_name(namespaceid),
													  "inbox_changed");

	ChangedDropTriggers(relid);
	SetupExec(psprintf("CREATE TRIGGER " ON_INSERT " AFTER INSERT ON %s"
					   " REFERENCING NEW TABLE AS inbox_new"
					   " FOR EACH STATEMENT EXECUTE FUNCTION %s()",
					   table, function));
	SetupExec(psprintf("CREATE TRIGGER " ON_UPDATE " AFTER UPDATE ON %s"
					   " REFERENCING NEW TABLE AS inbox_new"
					   " FOR EACH STATEMENT EXECUTE FUNCTION %s()",
					   table, function));
	go_with_extension(relid, ON_INSERT);
	go_with_extension(relid, ON_UPDATE);
}

/*
 * Rows next to each other that are of one level are told of as one.
 */
typedef struct UnleasedRun
{
	int64		rows;
	HintRange	keys;
} UnleasedRun;

static void
tell_run(Queue *q, UnleasedRun *run, bool sent)
{
	if (run->rows > 0 && sent)
		PendingSent(q, &run->keys, run->rows);
	else if (run->rows > 0)
		PendingOpen(q, &run->keys, run->rows);
	run->rows = 0;
}

static void
add_unleased(Queue *q, UnleasedRun *run, const HintRange *keys, bool sent)
{
	if (run->rows > 0 && run->keys.lo.priority != keys->lo.priority)
		tell_run(q, run, sent);
	if (run->rows++ == 0)
		run->keys = *keys;
	run->keys.lo = KeyMin(&run->keys.lo, &keys->lo);
	run->keys.hi = KeyMax(&run->keys.hi, &keys->hi);
}

/*
 * tell_changes
 *		Tell of a statement's rows; of the leased ones too.
 */
static void
tell_changes(Queue *q, TriggerData *trigger)
{
	bool		sent = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
	Relation	rel = trigger->tg_relation;
	AttrNumber	attnos[NUM_QUEUE_ROLES];
	TupleTableSlot *new = MakeSingleTupleTableSlot(RelationGetDescr(rel),
												   &TTSOpsMinimalTuple);
	UnleasedRun run = {0};

	QueueMapRoles(q, rel, attnos);
	while (tuplestore_gettupleslot(trigger->tg_newtable, true, false, new))
	{
		HintRange	keys;
		LeaseRow	row;

		CHECK_FOR_INTERRUPTS();
		LeaseReadRow(q, attnos, new, &row);
		if (row.finished)
			continue;
		KeysOfRow(q, attnos, new, &keys);
		if (row.leased)
			PendingNote(q, row.locked_until, &keys);
		else
			add_unleased(q, &run, &keys, sent);
	}
	tell_run(q, &run, sent);
	ExecDropSingleTupleTableSlot(new);
}

/*
 * inbox_changed
 *		The trigger function.  On a table that is no queue (any more) it does
 *		nothing.
 */
Datum
inbox_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Queue	   *q;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event) ||
		trigger->tg_newtable == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("inbox_changed is the function of the triggers that inbox makes"),
				 errhint("inbox_create and inbox_adopt add them.")));
	q = QueueTryOpen(RelationGetRelid(trigger->tg_relation), AccessShareLock,
					 false);
	if (q == NULL)
		return PointerGetDatum(NULL);
	tell_changes(q, trigger);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		DeltaCount(q, TOTAL_SENT,
				   tuplestore_tuple_count(trigger->tg_newtable));
	QueueClose(q);
	return PointerGetDatum(NULL);
}
