/*-------------------------------------------------------------------------
 *
 * redrivesql.c
 *	  The statement that brings dead letters back into their queue.
 *
 * One statement moves all of them: it picks and locks them, newest first,
 * inserts what it can, and deletes exactly those that were inserted.  A row
 * whose id or deduplication key is taken is not inserted and so stays.
 *
 * The columns come from where deadsql.c has put them; a column added to the
 * queue since then gets its default.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "deadmap.h"
#include "history.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#define NAMED_IDS	"20"		/* ids told of rows that stay */

/*
 * The statement in the making.  In it the dead letters are d, and r is what
 * they keep as JSON, as a row of the queue.
 */
typedef struct Redrive
{
	DeadMap		map;
	bool		row_used;		/* is r needed? */
	StringInfoData picked;		/* expressions over the dead letter */
	StringInfoData columns;		/* of the queue */
	StringInfoData aliases;		/* of the expressions, in the same order */
} Redrive;

static char *
type_name(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	return format_type_extended(att->atttypid, -1, FORMAT_TYPE_FORCE_QUALIFY);
}

static char *
dead_column(const DeadMap *map, AttrNumber attno)
{
	return psprintf("d.%s", DeadMapColumn(map->dest, attno));
}

/* The JSON object of what the destination had no column for, or NULL. */
static char *
kept_object(const DeadMap *map)
{
	if (map->to_queue)
		return "(o.o -> 'rest')";
	if (map->by_role[ROLE_REST] != 0)
		return dead_column(map, map->by_role[ROLE_REST]);
	return NULL;
}

static char *
default_value(const DeadMap *map, AttrNumber attno)
{
	Node	   *expr = build_column_default(map->queue, attno);

	if (expr == NULL)
		return "NULL";
	return deparse_expression(expr,
							  deparse_context_for(RelationGetRelationName(map->queue),
												  RelationGetRelid(map->queue)),
							  false, false);
}

static char *
row_column(Redrive *re, AttrNumber attno)
{
	re->row_used = true;
	return psprintf("r.%s", DeadMapColumn(re->map.queue, attno));
}

static char *
kept_value(Redrive *re, AttrNumber attno)
{
	const DeadMap *map = &re->map;
	const char *name = NameStr(TupleDescAttr(RelationGetDescr(map->queue),
											 attno - 1)->attname);

	if (kept_object(map) == NULL)
		return NULL;
	return psprintf("CASE WHEN jsonb_exists(%s, %s) THEN %s ELSE %s END",
					kept_object(map), quote_literal_cstr(name),
					row_column(re, attno), default_value(map, attno));
}

/*
 * Headers with the redrive in their history.  A message from another queue
 * gets back the origin it had before, or headers that were no object.
 */
static char *
headers_value(Redrive *re, AttrNumber attno)
{
	const DeadMap *map = &re->map;
	StringInfoData buf;
	AttrNumber	source = map->dest_of[attno - 1];
	char	   *old;

	initStringInfo(&buf);
	if (map->to_queue)
		old = psprintf("(%s::jsonb)",
					   dead_column(map, map->by_role[ROLE_HEADERS]));
	else if (source != 0)
		old = psprintf("(%s::jsonb)", dead_column(map, source));
	else if (kept_object(map) != NULL)
		old = psprintf("(%s::jsonb)", row_column(re, attno));
	else
		return NULL;
	appendStringInfoChar(&buf, '(');
	if (map->to_queue)
		appendStringInfoString(&buf, "CASE WHEN jsonb_exists(o.o, 'headers') THEN o.o -> 'headers' ELSE ");
	HistoryAppendSql(&buf, old, "$2", !map->to_queue ? "" :
					 "- 'origin' || CASE WHEN jsonb_exists(o.o, 'origin') "
					 "THEN jsonb_build_object('origin', o.o -> 'origin') "
					 "ELSE '{}'::jsonb END");
	appendStringInfo(&buf, "%s)::%s", map->to_queue ? " END" : "",
					 type_name(map->queue, attno));
	return buf.data;
}

/*
 * What a column of the queue gets, or NULL to leave it to its default.
 */
static char *
redriven_value(Redrive *re, AttrNumber attno)
{
	const DeadMap *map = &re->map;
	AttrNumber	source = map->dest_of[attno - 1];

	switch (map->role[attno - 1])
	{
		case ROLE_ATTEMPT:
			return psprintf("%d", map->q->settings.attempt_base);
		case ROLE_LOCKED_UNTIL:
		case ROLE_PROCESSED_AT:
			return psprintf("NULL::%s", type_name(map->queue, attno));
		case ROLE_HEADERS:
			return headers_value(re, attno);
		case ROLE_ID:
			if (map->to_queue)
				return psprintf("(o.o ->> 'id')::%s", type_name(map->queue, attno));
			break;
		case ROLE_LAST_ERROR:
			if (map->to_queue)
				return "o.o ->> 'error'";
			break;
		case ROLE_PAYLOAD:
			/* JSON there, of another type here */
			if (source != 0 && strcmp(type_name(map->dest, source),
									  type_name(map->queue, attno)) != 0)
				return row_column(re, attno);
			break;
		default:
			break;
	}
	if (source != 0)
		return dead_column(map, source);
	return kept_value(re, attno);
}

static void
list_columns(Redrive *re)
{
	const DeadMap *map = &re->map;
	int			natts = RelationGetNumberOfAttributes(map->queue);

	initStringInfo(&re->picked);
	initStringInfo(&re->columns);
	initStringInfo(&re->aliases);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		bool		first = re->columns.len == 0;
		char	   *value;

		if (!DeadMapLive(map->queue, attno) ||
			(value = redriven_value(re, attno)) == NULL)
			continue;
		appendStringInfo(&re->picked, ", %s AS c%d", value, attno);
		appendStringInfo(&re->columns, "%s%s", first ? "" : ", ",
						 DeadMapColumn(map->queue, attno));
		appendStringInfo(&re->aliases, "%sp.c%d", first ? "" : ", ", attno);
	}
}

/* The object that is turned into r. */
static char *
kept_row(const DeadMap *map)
{
	AttrNumber	attno = map->q->col[ROLE_PAYLOAD].attno;
	AttrNumber	source = attno == 0 ? 0 : map->dest_of[attno - 1];
	char	   *kept = kept_object(map);

	if (kept == NULL || source == 0)
		return kept;
	return psprintf("%s || jsonb_build_object(%s, d.%s)",
					psprintf("coalesce(%s, '{}'::jsonb)", kept),
					quote_literal_cstr(get_attname(map->q->relid, attno, false)),
					DeadMapColumn(map->dest, source));
}

static void
append_pick(StringInfo sql, const Redrive *re)
{
	const DeadMap *map = &re->map;
	AttrNumber	died = map->by_role[ROLE_DIED_AT];
	char	   *order = died != 0 ? dead_column(map, died) : "NULL::pg_catalog.timestamptz";
	bool		notnull = died != 0 &&
		TupleDescAttr(RelationGetDescr(map->dest), died - 1)->attnotnull;

	if (map->to_queue)
		order = "o.o ->> 'died_at' COLLATE \"C\"";
	appendStringInfo(sql,
					 "WITH pick AS (SELECT d.tableoid AS t, d.ctid AS c, %s AS k%s "
					 "FROM %s d",
					 order, re->picked.data,
					 QualifiedName(RelationGetRelid(map->dest)));
	if (map->to_queue)
		appendStringInfo(sql, " CROSS JOIN LATERAL (SELECT d.%s::jsonb #> '{inbox,origin}' AS o) o",
						 DeadMapColumn(map->dest, map->by_role[ROLE_HEADERS]));
	if (re->row_used)
		appendStringInfo(sql, " CROSS JOIN LATERAL jsonb_populate_record(NULL::%s, %s) r",
						 map->q->name, kept_row(map));
	if (map->to_queue)
	{
		const char *locked = DeadMapColumn(map->dest, map->by_role[ROLE_LOCKED_UNTIL]);
		AttrNumber	processed = map->by_role[ROLE_PROCESSED_AT];

		appendStringInfo(sql, " WHERE o.o ->> 'token' = '%s' AND "
						 "(d.%s IS NULL OR d.%s <= $3)",
						 map->q->settings.token, locked, locked);
		if (processed != 0)
			appendStringInfo(sql, " AND d.%s IS NULL",
							 DeadMapColumn(map->dest, processed));
	}
	/* the index on died_at has nulls on the other side */
	appendStringInfo(sql, " ORDER BY %s DESC%s, %s DESC LIMIT $1 "
					 "FOR UPDATE OF d SKIP LOCKED)",
					 order, notnull ? "" : " NULLS LAST", dead_column(map, map->by_role[ROLE_ID]));
}

/*
 * RedriveSql
 *		The statement for dead letters in a table or another queue.  Its row:
 *		inserted, deleted, picked, ids of rows that were picked and stay.
 */
char *
RedriveSql(Queue *q)
{
	Redrive		re = {0};
	StringInfoData sql;
	const char *id = q->colname[ROLE_ID];
	int			k = q->col[ROLE_ID].attno;

	DeadMapOpen(&re.map, q, RowExclusiveLock);
	list_columns(&re);
	initStringInfo(&sql);
	append_pick(&sql, &re);
	appendStringInfo(&sql,
					 ", ins AS (INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE "
					 "SELECT %s FROM pick p ON CONFLICT DO NOTHING RETURNING %s AS id)",
					 q->name, re.columns.data, re.aliases.data, id);
	/* with two dead letters of one id only the newer one was inserted */
	appendStringInfo(&sql,
					 ", gone AS (SELECT DISTINCT ON (i.id) p.t, p.c FROM ins i "
					 "JOIN pick p ON p.c%d = i.id ORDER BY i.id, p.k DESC NULLS LAST)"
					 ", del AS (DELETE FROM %s d USING gone g "
					 "WHERE d.ctid = g.c AND d.tableoid = g.t RETURNING 1) ",
					 k, QualifiedName(RelationGetRelid(re.map.dest)));
	appendStringInfo(&sql,
					 "SELECT (SELECT count(*) FROM ins), (SELECT count(*) FROM del), "
					 "(SELECT count(*) FROM pick), "
					 "(SELECT string_agg(s.id, ', ') FROM (SELECT p.c%d::text AS id "
					 "FROM pick p WHERE NOT EXISTS (SELECT FROM gone g WHERE g.t = p.t AND g.c = p.c) "
					 "LIMIT " NAMED_IDS ") s)", k);
	DeadMapClose(&re.map);
	return sql.data;
}

/*
 * RedriveGroupSql
 *		The same for dead letters in a group of the queue itself.
 */
char *
RedriveGroupSql(Queue *q)
{
	StringInfoData sql;
	const char *group = q->colname[ROLE_GROUP_KEY];
	const char *locked = q->colname[ROLE_LOCKED_UNTIL];
	char	   *headers = psprintf("(d.%s::jsonb)", q->colname[ROLE_HEADERS]);

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "WITH pick AS (SELECT d.tableoid AS t, d.ctid AS c FROM %s d "
					 "WHERE d.%s = %s AND (d.%s IS NULL OR d.%s <= $3) "
					 "AND jsonb_exists(%s -> 'inbox', 'group')",
					 q->name, group, quote_literal_cstr(q->settings.dead_group),
					 locked, locked, headers);
	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(&sql, " AND d.%s IS NULL", q->colname[ROLE_PROCESSED_AT]);
	appendStringInfo(&sql,
					 " ORDER BY %s #>> '{inbox,history,-1,at}' COLLATE \"C\" DESC, d.%s DESC "
					 "LIMIT $1 FOR UPDATE OF d SKIP LOCKED)"
					 ", upd AS (UPDATE %s d SET %s = %s #>> '{inbox,group}', %s = NULL, ",
					 headers, q->colname[ROLE_ID], q->name, group, headers, locked);
	if (QueueHas(q, ROLE_ATTEMPT))
		appendStringInfo(&sql, "%s = %d, ", q->colname[ROLE_ATTEMPT],
						 q->settings.attempt_base);
	/* one that failed in the dead group, too, is pausing */
	if (QueueHas(q, ROLE_DUE_AT))
		appendStringInfo(&sql, "%1$s = CASE WHEN d.%1$s > $3 THEN $3 ELSE d.%1$s END, ",
						 q->colname[ROLE_DUE_AT]);
	appendStringInfo(&sql, "%s = (", q->colname[ROLE_HEADERS]);
	HistoryAppendSql(&sql, headers, "$2", "- 'group'");
	appendStringInfo(&sql, ")::%s FROM pick p WHERE d.ctid = p.c AND d.tableoid = p.t RETURNING 1) "
					 "SELECT (SELECT count(*) FROM upd), (SELECT count(*) FROM upd), "
					 "(SELECT count(*) FROM upd), NULL::text",
					 q->col[ROLE_HEADERS].type == JSONOID ? "json" : "jsonb");
	return sql.data;
}
