/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  What must happen before and after utility commands.
 *
 * Commands that need a database empty get it free of our workers (hold.c),
 * provided that whoever runs them may: else anybody could keep a worker away.
 * So the checks here repeat those that the command is going to make.  They
 * never complain; that is the command's business, as is a database that does
 * not exist.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "announce.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "compat.h"
#include "database.h"
#include "hints.h"
#include "hold.h"
#include "miscadmin.h"
#include "subshared.h"
#include "tcop/utility.h"
#include "utility.h"
#include "utils/syscache.h"

static ProcessUtility_hook_type previous_utility_hook = NULL;

static void process_utility(PlannedStmt *pstmt, const char *query_string,
							bool read_only_tree,
							ProcessUtilityContext context,
							ParamListInfo params, QueryEnvironment *env,
							DestReceiver *dest, QueryCompletion *qc);
static Oid	database_to_empty(Node *stmt, bool top);
static Oid	source_of_create(CreatedbStmt *stmt);
static bool sets_tablespace(AlterDatabaseStmt *stmt);
static Oid	owned_database(const char *name);
static bool may_create_databases(void);
static bool is_template(Oid database);

/* Called from _PG_init. */
void
UtilityInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *env,
				DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		two_phase = IsA(stmt, TransactionStmt) &&
		((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED;
	Oid			held =
		database_to_empty(stmt, context == PROCESS_UTILITY_TOPLEVEL);

	if (OidIsValid(held))
		HoldTake(held);

	PG_TRY();
	{
		if (previous_utility_hook)
			previous_utility_hook(pstmt, query_string, read_only_tree, context,
								  params, env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query_string, read_only_tree,
									context, params, env, dest, qc);
	}
	PG_CATCH();
	{
		/* a savepoint may keep the transaction alive */
		HoldRelease(held);
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (two_phase)
		AnnounceTwoPhaseCommit();
	if (IsA(stmt, DropdbStmt) && OidIsValid(held))
	{
		/* a worker that was asked for and has not come yet shall not */
		DatabaseForget(held);
		HintsForgetDatabase(held);
		SubForgetDatabase(held);
	}
}

/*
 * The database that this command needs empty, if its user may run it.  Only
 * the renaming works within a transaction block; the others are going to be
 * refused there, so they get nothing.  (Inlined beside PG_TRY its variables
 * would make gcc warn.)
 */
static pg_noinline Oid
database_to_empty(Node *stmt, bool top)
{
	bool		in_block;

	/* ROLLBACK and its like come here in a transaction that has failed */
	if (!DatabaseReady() || !IsTransactionState())
		return InvalidOid;

	in_block = IsInTransactionBlock(top);
	switch (nodeTag(stmt))
	{
		case T_DropdbStmt:
			if (!in_block)
				return owned_database(((DropdbStmt *) stmt)->dbname);
			break;
		case T_CreatedbStmt:
			if (!in_block && may_create_databases())
				return source_of_create((CreatedbStmt *) stmt);
			break;
		case T_AlterDatabaseStmt:
			if (!in_block && sets_tablespace((AlterDatabaseStmt *) stmt))
				return owned_database(((AlterDatabaseStmt *) stmt)->dbname);
			break;
		case T_RenameStmt:
			if (((RenameStmt *) stmt)->renameType == OBJECT_DATABASE &&
				may_create_databases())
				return owned_database(((RenameStmt *) stmt)->subname);
			break;
		default:
			break;
	}
	return InvalidOid;
}

static Oid
source_of_create(CreatedbStmt *stmt)
{
	const char *name = "template1";
	ListCell   *cell;
	Oid			database;

	foreach(cell, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			name = defGetString(option);
	}

	database = get_database_oid(name, true);
	if (OidIsValid(database) &&
		(is_template(database) || OwnsDatabase(database, GetUserId())))
		return database;
	return InvalidOid;
}

static bool
sets_tablespace(AlterDatabaseStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->options)
	{
		if (strcmp(lfirst_node(DefElem, cell)->defname, "tablespace") == 0)
			return true;
	}
	return false;
}

/* The database of that name if it is the user's, and not the current one. */
static Oid
owned_database(const char *name)
{
	Oid			database = get_database_oid(name, true);

	if (OidIsValid(database) && database != MyDatabaseId &&
		OwnsDatabase(database, GetUserId()))
		return database;
	return InvalidOid;
}

static bool
may_create_databases(void)
{
	HeapTuple	tuple;
	bool		may;

	if (superuser())
		return true;

	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (!HeapTupleIsValid(tuple))
		return false;
	may = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
	ReleaseSysCache(tuple);
	return may;
}

static bool
is_template(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		template;

	if (!HeapTupleIsValid(tuple))
		return false;
	template = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	ReleaseSysCache(tuple);
	return template;
}
