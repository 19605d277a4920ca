/*-------------------------------------------------------------------------
 *
 * sendplain.c
 *	  Which tables a send writes without SQL, and what such a table puts into
 *	  the columns that a send leaves out.
 *
 * Plain are tables where an INSERT does no more than constraints and indexes
 * ask for: no rules, no partitions, no generated columns, no triggers but
 * ours.  Foreign keys are triggers too; children get no rows of their parent.
 * The caller must have the right to insert into all columns, and no policy
 * may concern it.
 *
 * What is found out about the table lives as long as its queue's cache entry,
 * which goes with every change of the table.  A default that is made of the
 * server's own functions is as good as its text.  Functions of users and
 * domains can change without the table; defaults that have such are planned
 * anew in each call.
 *
 * User code may look at the table.  Where it may notice whether the rows
 * before are already there, rows are written one by one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "changed.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "sendplain.h"
#include "settings.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

static bool
has_generated(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attgenerated != '\0')
			return true;
	}
	return false;
}

/*
 * A due time without all its digits would have to be rounded.
 */
static bool
is_plain(Queue *q, Relation rel)
{
	Form_pg_class form = rel->rd_rel;
	TriggerDesc *triggers = rel->trigdesc;

	return form->relkind == RELKIND_RELATION &&
		rel->rd_tableam == GetHeapamTableAmRoutine() &&
		form->relpersistence != RELPERSISTENCE_TEMP &&
		!form->relispartition && rel->rd_rules == NULL &&
		!has_generated(RelationGetDescr(rel)) &&
		!(triggers && triggers->trig_insert_before_row) &&
		!(triggers && triggers->trig_insert_after_row) &&
		ChangedOnlyOurs(triggers, TRIGGER_TYPE_INSERT) &&
		(!QueueHas(q, ROLE_DUE_AT) || q->send->field[ROLE_DUE_AT].typmod < 0);
}

static bool
is_users_function(Oid func, void *context)
{
	return func >= FirstNormalObjectId;
}

static bool
has_user_code(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) ||
		check_functions_in_node(node, is_users_function, context))
		return true;
	return expression_tree_walker(node, has_user_code, context);
}

static bool
is_now(Node *expr)
{
	if (IsA(expr, FuncExpr))
		return ((FuncExpr *) expr)->funcid == F_NOW;
	return IsA(expr, SQLValueFunction) &&
		((SQLValueFunction *) expr)->op == SVFOP_CURRENT_TIMESTAMP;
}

/*
 * missing_value
 *		What an INSERT puts into a column that it does not name; NULL for a
 *		null that nobody checks.
 */
static Node *
missing_value(Relation rel, Form_pg_attribute att)
{
	Node	   *expr = build_column_default(rel, att->attnum);
	Oid			base;
	int32		typmod = att->atttypmod;

	if (expr != NULL || get_typtype(att->atttypid) != TYPTYPE_DOMAIN)
		return expr;
	base = getBaseTypeAndTypmod(att->atttypid, &typmod);
	expr = (Node *) makeConst(base, typmod, att->attcollation, att->attlen,
							  (Datum) 0, true, att->attbyval);
	return coerce_to_domain(expr, base, typmod, att->atttypid,
							COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
}

/*
 * classify
 *		How to come by one column's missing value.  Runs in a context that does
 *		not last; what is kept goes into "cxt".
 */
static void
classify(SendPlain *plain, Relation rel, Form_pg_attribute att,
		 MemoryContext cxt)
{
	PlainColumn *col = &plain->col[att->attnum - 1];
	Node	   *expr = missing_value(rel, att);
	bool		users;
	MemoryContext old;

	if (expr == NULL)
		return;
	users = has_user_code(expr, NULL);
	if (!users)
	{
		Node	   *planned = (Node *) expression_planner((Expr *) expr);

		if (IsA(planned, Const))
		{
			Const	   *c = (Const *) planned;

			old = MemoryContextSwitchTo(cxt);
			plain->isnull[att->attnum - 1] = c->constisnull;
			if (!c->constisnull)
				plain->value[att->attnum - 1] = datumCopy(c->constvalue,
														  c->constbyval,
														  c->constlen);
			MemoryContextSwitchTo(old);
			return;
		}
	}
	old = MemoryContextSwitchTo(cxt);
	col->expr = (Expr *) copyObject(expr);
	MemoryContextSwitchTo(old);
	col->kind = contain_volatile_functions(expr) ? PLAIN_EACH : PLAIN_ONCE;
	if (is_now(expr))
		col->kind = PLAIN_NOW;
	plain->user_code |= users;
	plain->one_by_one |= users && col->kind == PLAIN_EACH;
}

static void
look_at_checks(SendPlain *plain, Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	plain->constraints = constr != NULL;
	for (int i = 0; constr != NULL && i < constr->num_check; i++)
	{
		if (has_user_code(stringToNode(constr->check[i].ccbin), NULL))
			plain->user_code = plain->one_by_one = true;
	}
}

static SendPlain *
build_plain(Queue *q, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	MemoryContext old = MemoryContextSwitchTo(q->cxt);
	SendPlain  *plain = palloc0(sizeof(SendPlain));
	MemoryContext cxt = AllocSetContextCreate(q->cxt, "inbox defaults",
											  ALLOCSET_SMALL_SIZES);

	plain->usable = is_plain(q, rel);
	plain->desc = CreateTupleDescCopy(desc);
	plain->col = palloc0(sizeof(PlainColumn) * desc->natts);
	plain->value = palloc0(sizeof(Datum) * desc->natts);
	plain->isnull = palloc(sizeof(bool) * desc->natts);
	memset(plain->isnull, true, sizeof(bool) * desc->natts);
	MemoryContextSwitchTo(cxt);
	if (plain->usable)
	{
		for (int i = 0; i < desc->natts; i++)
		{
			if (!TupleDescAttr(desc, i)->attisdropped)
				classify(plain, rel, TupleDescAttr(desc, i), q->cxt);
		}
		look_at_checks(plain, rel);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return plain;
}

/*
 * SendPlainGet
 *		What is known of a table that this caller's send writes without SQL;
 *		NULL when it must be SQL.
 */
SendPlain *
SendPlainGet(SendRows *rows, Relation rel)
{
	Queue	   *q = rows->q;
	SendPlain  *plain;

	if (!InboxDirect || rows->id_returned)
		return NULL;
	if (q->send->plain == NULL)
		q->send->plain = build_plain(q, rel);
	plain = q->send->plain;
	if (!plain->usable || QueueRowSecurity(q) || !QueueHasRights(q, ACL_INSERT))
		return NULL;
	return plain;
}
