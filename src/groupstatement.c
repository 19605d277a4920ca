/*-------------------------------------------------------------------------
 *
 * groupstatement.c
 *	  The statements by which groupsql.c finds groups.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupstatement.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

static void
put_conditions(StringInfo sql, Queue *q, uint32 variant)
{
	const char *key = q->colname[ROLE_GROUP_KEY];
	const char *priority = q->colname[ROLE_PRIORITY];

	appendStringInfoString(sql, " WHERE true");
	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(sql, " AND %s IS NULL", q->colname[ROLE_PROCESSED_AT]);
	if (variant & AT_LEVEL)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.=) $%d", priority,
						 PARAM_LEVEL);
	if (variant & AT_NULL)
		appendStringInfo(sql, " AND %s IS NULL", priority);
	if (variant & ABOVE_LEVEL)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.>) $%d", priority,
						 PARAM_LEVEL);
	if (variant & OF_GROUP)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.=) $%d", key,
						 PARAM_GROUP);
	if (variant & BEHIND_LOWER)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.>) $%d", key,
						 PARAM_LOWER);
	if (variant & UP_TO_BOUND)
		appendStringInfo(sql, " AND %s OPERATOR(pg_catalog.<=) $%d", key,
						 PARAM_BOUND);
}

static void
put_order(StringInfo sql, Queue *q, bool priority)
{
	appendStringInfoString(sql, " ORDER BY ");
	if (priority && QueueHas(q, ROLE_PRIORITY))
		appendStringInfo(sql, "%s, ", q->colname[ROLE_PRIORITY]);
	if (QueueHas(q, ROLE_DUE_AT))
		appendStringInfo(sql, "%s, ", q->colname[ROLE_DUE_AT]);
	appendStringInfoString(sql, q->colname[ROLE_ID]);
}

/*
 * GroupStatement
 *		The text of one of them.
 */
char *
GroupStatement(Queue *q, uint32 variant)
{
	const char *key = q->colname[ROLE_GROUP_KEY];
	StringInfoData sql;

	initStringInfo(&sql);
	switch (variant & SQL_WHICH)
	{
		case SQL_LEVEL:
			appendStringInfo(&sql, "SELECT q.%s::pg_catalog.int8 FROM %s q",
							 q->colname[ROLE_PRIORITY], q->name);
			put_conditions(&sql, q, variant);
			/* bare, it would be the output column, which no index serves */
			appendStringInfo(&sql, " AND %s IS NOT NULL ORDER BY q.%s LIMIT 1",
							 q->colname[ROLE_PRIORITY], q->colname[ROLE_PRIORITY]);
			break;
		case SQL_GROUPS:
			appendStringInfo(&sql, "SELECT q.%s::pg_catalog.text FROM %s q", key,
							 q->name);
			put_conditions(&sql, q, variant);
			appendStringInfo(&sql, " AND %s IS NOT NULL", key);
			if (q->settings.dead_group != NULL)
				appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.<>) %s", key,
								 quote_literal_cstr(q->settings.dead_group));
			appendStringInfo(&sql, " ORDER BY q.%s LIMIT 1", key);
			break;
		case SQL_LEASES:
			appendStringInfo(&sql, "SELECT tableoid, ctid FROM %s", q->name);
			put_conditions(&sql, q, variant);
			appendStringInfo(&sql, " AND %s IS NOT NULL",
							 q->colname[ROLE_LOCKED_UNTIL]);
			break;
		case SQL_HEAD:
			appendStringInfo(&sql, "SELECT tableoid, ctid FROM %s", q->name);
			put_conditions(&sql, q, variant);
			put_order(&sql, q, true);
			appendStringInfoString(&sql, " LIMIT 1");
			break;
		case SQL_LOOSE:
			appendStringInfo(&sql, "SELECT tableoid, ctid FROM %s", q->name);
			put_conditions(&sql, q, variant);
			if (!(variant & OF_GROUP))
				appendStringInfo(&sql, " AND %s IS NULL", key);
			if (QueueHas(q, ROLE_DUE_AT))
				appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.<=) $%d",
								 q->colname[ROLE_DUE_AT], PARAM_NOW);
			put_order(&sql, q, false);
			break;
	}
	return sql.data;
}
