/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Run a piece of work as a table's owner.
 *
 * Burying, purging and redriving fire the user's triggers and evaluate his
 * index expressions and defaults.  They run as the owner of the queue and with
 * a fixed search path, whoever asked: a consumer then needs no rights on the
 * dead-letter table, and neither the consumer nor the worker, which connects
 * as the bootstrap superuser, lends its own rights to that code.  REINDEX and
 * autovacuum do the same.
 *
 * The reaper adds the restricted context, which keeps that code from leaving
 * anything behind in a superuser's session.  It forbids deferred constraint
 * triggers, so whoever asks for it makes constraints immediate first.  In a
 * consumer's own transaction they are the consumer's affair and stay as they
 * are.
 *
 * An error in between needs no cleanup here: transaction and subtransaction
 * abort restore user, security context and parameters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "owner.h"
#include "utils/guc.h"
#include "utils/syscache.h"

/*
 * OwnerOf
 *		The owner of a table; InvalidOid when that has just been dropped.
 */
Oid
OwnerOf(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

void
OwnerEnter(OwnerScope *scope, Oid owner, bool restricted)
{
	GetUserIdAndSecContext(&scope->userid, &scope->sec_context);
	SetUserIdAndSecContext(owner, scope->sec_context |
						   (restricted ? SECURITY_RESTRICTED_OPERATION :
							SECURITY_LOCAL_USERID_CHANGE));
	scope->guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

void
OwnerLeave(OwnerScope *scope)
{
	AtEOXact_GUC(false, scope->guc_level);
	SetUserIdAndSecContext(scope->userid, scope->sec_context);
}

/*
 * OwnerConstraintsImmediate
 *		SET CONSTRAINTS ALL IMMEDIATE: what has been deferred is checked now.
 */
void
OwnerConstraintsImmediate(void)
{
	ConstraintsSetStmt *stmt = makeNode(ConstraintsSetStmt);

	stmt->constraints = NIL;
	stmt->deferred = false;
	AfterTriggerSetState(stmt);
}
