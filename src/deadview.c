/*-------------------------------------------------------------------------
 *
 * deadview.c
 *	  The view inbox_dead: dead letters of all queues.
 *
 * Each queue's dead letters are read by a query of their own, with the rights
 * of whoever looks: row security applies, and a table without SELECT for him
 * is left out.  The payload is not among the columns; it is one join on the
 * id away.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "bury.h"
#include "deadmap.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "owner.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define COLUMNS			7
#define ROWS_AT_ONCE	1000

/* What bury.c has written, or a NULL where somebody has changed it. */
#define TIME_PATTERN \
	"'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T" \
	"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?[+]00:00$'"

static char *
column_or_null(const DeadMap *map, Role role, const char *type)
{
	AttrNumber	attno = map->by_role[role];

	if (attno == 0)
		return psprintf("NULL::%s", type);
	return psprintf("d.%s::%s", DeadMapColumn(map->dest, attno), type);
}

/* The columns that JSON of ours tells. */
static void
append_json_columns(StringInfo sql, const char *time_key)
{
	appendStringInfo(sql,
					 "o.o ->> 'cause', o.o ->> 'error', "
					 "CASE WHEN o.o ->> 'attempt' ~ '^[0-9]{1,18}$' "
					 "THEN (o.o ->> 'attempt')::bigint END, "
					 "CASE WHEN o.o ->> '%s' ~ " TIME_PATTERN
					 " THEN (o.o ->> '%s')::timestamptz END",
					 time_key, time_key);
}

static char *
table_query(Queue *q)
{
	StringInfoData sql;
	DeadMap		map;

	initStringInfo(&sql);
	DeadMapOpen(&map, q, AccessShareLock);
	appendStringInfo(&sql, "SELECT %s, ", column_or_null(&map, ROLE_ID, "text"));
	if (map.to_queue && map.by_role[ROLE_HEADERS] == 0)
		sql.data = NULL;		/* nothing tells which rows are ours */
	else if (map.to_queue)
	{
		resetStringInfo(&sql);
		appendStringInfoString(&sql, "SELECT o.o ->> 'id', ");
		append_json_columns(&sql, "died_at");
		appendStringInfo(&sql, " FROM %s d CROSS JOIN LATERAL "
						 "(SELECT d.%s::jsonb #> '{inbox,origin}' AS o) o "
						 "WHERE o.o ->> 'token' = '%s'",
						 QualifiedName(RelationGetRelid(map.dest)),
						 DeadMapColumn(map.dest, map.by_role[ROLE_HEADERS]),
						 q->settings.token);
	}
	else
		appendStringInfo(&sql, "%s, %s, %s, %s FROM %s d",
						 column_or_null(&map, ROLE_CAUSE, "text"),
						 column_or_null(&map, ROLE_LAST_ERROR, "text"),
						 column_or_null(&map, ROLE_ATTEMPT, "bigint"),
						 column_or_null(&map, ROLE_DIED_AT, "timestamptz"),
						 QualifiedName(RelationGetRelid(map.dest)));
	DeadMapClose(&map);
	return sql.data;
}

static char *
group_query(Queue *q)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT d.%s::text, ", q->colname[ROLE_ID]);
	if (QueueHas(q, ROLE_HEADERS))
	{
		append_json_columns(&sql, "at");
		appendStringInfo(&sql, " FROM %s d CROSS JOIN LATERAL "
						 "(SELECT d.%s::jsonb #> '{inbox,history,-1}' AS o) o",
						 q->name, q->colname[ROLE_HEADERS]);
	}
	else
		appendStringInfo(&sql, "NULL::text, NULL::text, NULL::bigint, "
						 "NULL::timestamptz FROM %s d", q->name);
	appendStringInfo(&sql, " WHERE d.%s = %s", q->colname[ROLE_GROUP_KEY],
					 quote_literal_cstr(q->settings.dead_group));
	if (QueueHas(q, ROLE_PROCESSED_AT))
		appendStringInfo(&sql, " AND d.%s IS NULL", q->colname[ROLE_PROCESSED_AT]);
	return sql.data;
}

static void
put_rows(ReturnSetInfo *rsinfo, const char *queue, const char *dest)
{
	SPITupleTable *rows = SPI_tuptable;
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {false};

	values[0] = CStringGetTextDatum(queue);
	values[1] = CStringGetTextDatum(dest);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		for (int k = 2; k < COLUMNS; k++)
			values[k] = SPI_getbinval(rows->vals[i], rows->tupdesc, k - 1, &nulls[k]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static void
read_dead(ReturnSetInfo *rsinfo, Queue *q, Oid destid)
{
	char	   *dest = QualifiedName(destid);
	OwnerScope	scope;
	char	   *sql;
	Portal		portal;

	/* as himself: what counts is the search path */
	OwnerEnter(&scope, GetUserId(), false);
	SPI_connect();
	sql = q->settings.dead_group != NULL ? group_query(q) : table_query(q);
	if (sql != NULL)
	{
		portal = SPI_cursor_open_with_args(NULL, sql, 0, NULL, NULL, NULL, true, 0);
		do
		{
			SPI_cursor_fetch(portal, true, ROWS_AT_ONCE);
			put_rows(rsinfo, q->name, dest);
			SPI_freetuptable(SPI_tuptable);
		} while (SPI_processed > 0);
		SPI_cursor_close(portal);
	}
	SPI_finish();
	OwnerLeave(&scope);
}

/* The table that holds a queue's dead letters, or InvalidOid. */
static Oid
dead_letters_of(Oid relid)
{
	QueueSettings settings;
	LabelKind	kind;

	if (!LabelRead(relid, &settings))
		return InvalidOid;
	if (settings.dead_group != NULL)
		return relid;
	if (settings.dead_letter[0] == '\0')
		return InvalidOid;
	return LabelFindToken(settings.dead_letter, &kind);
}

PG_FUNCTION_INFO_V1(inbox_dead_letters);

/*
 * inbox_dead_letters()
 *		returns setof (queue, dead_letter, id, cause, error, attempt, died_at)
 */
Datum
inbox_dead_letters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *relids;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	relids = LabelList(LABEL_QUEUE);
	foreach(lc, relids)
	{
		Oid			relid = lfirst_oid(lc);
		Oid			dest = dead_letters_of(relid);
		Queue	   *q;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(dest) ||
			pg_class_aclcheck(dest, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			continue;
		q = QueueTryOpen(relid, AccessShareLock, false);
		if (q == NULL)
			continue;
		if (BuryConfigured(q))
			read_dead(rsinfo, q, dest);
		QueueClose(q);
	}
	return (Datum) 0;
}
