/*-------------------------------------------------------------------------
 *
 * deadsql.c
 *	  The statement that puts one row into the dead-letter table or queue.
 *
 * It is made once per queue and kept as a plan; bury.c binds the row's columns
 * and what the bury adds.  All of it runs under the search path of owner.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "deadmap.h"
#include "history.h"
#include "utils/builtins.h"
#include "utils/rel.h"

typedef struct Insert
{
	StringInfoData columns;
	StringInfoData values;
} Insert;

void
JsonPairsInit(JsonPairs *pairs)
{
	initStringInfo(&pairs->sql);
	pairs->n = 0;
}

void
JsonPairsAdd(JsonPairs *pairs, const char *name, const char *value)
{
	if (pairs->n == 0)
		appendStringInfoString(&pairs->sql, "jsonb_build_object(");
	else if (pairs->n % 50 == 0)
		appendStringInfoString(&pairs->sql, ") || jsonb_build_object(");
	else
		appendStringInfoString(&pairs->sql, ", ");
	appendStringInfo(&pairs->sql, "%s, %s", quote_literal_cstr(name), value);
	pairs->n++;
}

char *
JsonPairsSql(JsonPairs *pairs)
{
	appendStringInfoString(&pairs->sql, pairs->n > 0 ? ")" : "'{}'::jsonb");
	return pairs->sql.data;
}

static char *
bury_arg(const DeadMap *map, BuryArg arg)
{
	return psprintf("$%d", RelationGetNumberOfAttributes(map->queue) + arg);
}

static Oid
column_type(Relation rel, AttrNumber attno)
{
	return TupleDescAttr(RelationGetDescr(rel), attno - 1)->atttypid;
}

/* The headers with this bury in their history, as jsonb. */
static char *
headers_value(const DeadMap *map)
{
	StringInfoData buf;
	AttrNumber	attno = map->q->col[ROLE_HEADERS].attno;
	char	   *old = attno == 0 ? "NULL::jsonb" : psprintf("($%d::jsonb)", attno);

	initStringInfo(&buf);
	HistoryAppendSql(&buf, old, bury_arg(map, ARG_ENTRY), "");
	return buf.data;
}

/*
 * What one column of the queue holds when the row has died, fit for the
 * column "target" of the destination or, when that is 0, for JSON.
 */
static char *
row_value(const DeadMap *map, AttrNumber attno, AttrNumber target)
{
	switch (map->role[attno - 1])
	{
		case ROLE_ATTEMPT:
			return bury_arg(map, ARG_ATTEMPT);
		case ROLE_LAST_ERROR:
			/* an explicit cast cuts the text where the column is too short */
			if (target != 0)
				return psprintf("%s::%s", bury_arg(map, ARG_ERROR),
								DeadMapType(map->dest, target));
			return bury_arg(map, ARG_ERROR);
		case ROLE_HEADERS:
			if (target != 0 && column_type(map->dest, target) == JSONOID)
				return psprintf("(%s)::json", headers_value(map));
			return headers_value(map);
		default:
			return psprintf("$%d", attno);
	}
}

static bool
ends_with_life(Role role)
{
	return role == ROLE_LOCKED_UNTIL || role == ROLE_PROCESSED_AT;
}

static void
add_column(Insert *ins, Relation dest, AttrNumber attno, const char *value)
{
	bool		first = ins->columns.len == 0;

	appendStringInfo(&ins->columns, "%s%s", first ? "" : ", ",
					 DeadMapColumn(dest, attno));
	appendStringInfo(&ins->values, "%s%s", first ? "" : ", ", value);
}

/* What a dead-letter table has and the queue has not. */
static void
add_dead_columns(Insert *ins, const DeadMap *map)
{
	const AttrNumber *by_role = map->by_role;
	AttrNumber	attno;

	if ((attno = by_role[ROLE_DIED_AT]) != 0)
		add_column(ins, map->dest, attno, bury_arg(map, ARG_DIED_AT));
	if ((attno = by_role[ROLE_CAUSE]) != 0)
		add_column(ins, map->dest, attno,
				   psprintf("%s::%s", bury_arg(map, ARG_CAUSE),
							DeadMapType(map->dest, attno)));
	attno = by_role[ROLE_LAST_ERROR];
	if (attno != 0 && !QueueHas(map->q, ROLE_LAST_ERROR))
		add_column(ins, map->dest, attno,
				   psprintf("%s::%s", bury_arg(map, ARG_ERROR),
							DeadMapType(map->dest, attno)));
	attno = by_role[ROLE_HEADERS];
	if (attno != 0 && !QueueHas(map->q, ROLE_HEADERS))
		add_column(ins, map->dest, attno,
				   column_type(map->dest, attno) == JSONOID ?
				   psprintf("(%s)::json", headers_value(map)) :
				   headers_value(map));
}

/*
 * A column with no place in the dead-letter table.  Leaving a value behind
 * would be losing it; but a receipt number or a computed value is nothing to
 * refuse a bury for.
 */
static void
check_left_out(const DeadMap *map, AttrNumber attno)
{
	if (map->role[attno - 1] == ROLE_CLAIMED_AT ||
		!DeadMapLive(map->queue, attno))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("dead-letter table \"%s\" has no column for \"%s\" of queue \"%s\"",
					RelationGetRelationName(map->dest),
					NameStr(TupleDescAttr(RelationGetDescr(map->queue),
										  attno - 1)->attname),
					map->q->relname),
			 errhint("Add a column of that name and type to the dead-letter table.")));
}

static void
table_values(Insert *ins, const DeadMap *map)
{
	int			natts = RelationGetNumberOfAttributes(map->queue);
	AttrNumber	rest = map->by_role[ROLE_REST];
	JsonPairs	pairs;

	JsonPairsInit(&pairs);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(map->queue), attno - 1);
		AttrNumber	target = map->dest_of[attno - 1];

		if (att->attisdropped || ends_with_life(map->role[attno - 1]))
			continue;
		if (target != 0)
			add_column(ins, map->dest, target, row_value(map, attno, target));
		else if (rest != 0)
			JsonPairsAdd(&pairs, NameStr(att->attname), row_value(map, attno, 0));
		else
			check_left_out(map, attno);
	}
	add_dead_columns(ins, map);
	if (rest != 0)
	{
		char	   *extra = bury_arg(map, ARG_EXTRA);

		add_column(ins, map->dest, rest, pairs.n == 0 ? extra :
				   psprintf("%s || coalesce(%s, '{}'::jsonb)",
							JsonPairsSql(&pairs), extra));
	}
}

/*
 * Headers that tell where the message came from.  Beside the origin proper
 * they keep all columns that the other queue does not take, for the redrive,
 * and the origin the message had before, when it has come down a chain.
 */
static char *
origin_headers(const DeadMap *map, const char *kept)
{
	StringInfoData buf;
	AttrNumber	attno = map->q->col[ROLE_HEADERS].attno;
	char	   *old = attno == 0 ? "NULL::jsonb" : psprintf("($%d::jsonb)", attno);
	char	   *origin = psprintf("%s || jsonb_build_object('rest', %s)",
								  bury_arg(map, ARG_EXTRA), kept);
	char	   *entry = bury_arg(map, ARG_ENTRY);

	initStringInfo(&buf);
	appendStringInfo(&buf, "CASE WHEN jsonb_typeof(%s) <> 'object' THEN "
					 "jsonb_build_object('inbox', jsonb_build_object("
					 "'origin', %s || jsonb_build_object('headers', %s), "
					 "'history', jsonb_build_array(%s))) ELSE ",
					 old, origin, old, entry);
	HistoryAppendSql(&buf, old, entry,
					 psprintf("|| jsonb_build_object('origin', %s || "
							  "CASE WHEN jsonb_typeof(%s #> '{inbox,origin}') = 'object' "
							  "THEN jsonb_build_object('origin', %s #> '{inbox,origin}') "
							  "ELSE '{}'::jsonb END)", origin, old, old));
	appendStringInfoString(&buf, " END");
	return buf.data;
}

static void
queue_values(Insert *ins, const DeadMap *map)
{
	int			natts = RelationGetNumberOfAttributes(map->queue);
	AttrNumber	headers = map->by_role[ROLE_HEADERS];
	AttrNumber	payload = map->by_role[ROLE_PAYLOAD];
	JsonPairs	kept,
				all;

	JsonPairsInit(&kept);
	JsonPairsInit(&all);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(map->queue), attno - 1);
		Role		role = map->role[attno - 1];
		AttrNumber	target = map->dest_of[attno - 1];

		if (att->attisdropped || ends_with_life(role) || role == ROLE_ATTEMPT)
			continue;
		JsonPairsAdd(&all, NameStr(att->attname), psprintf("$%d", attno));
		if (target == 0)
		{
			if (role != ROLE_ID && role != ROLE_HEADERS && role != ROLE_LAST_ERROR)
				JsonPairsAdd(&kept, NameStr(att->attname), psprintf("$%d", attno));
		}
		else if (role == ROLE_PAYLOAD &&
				 att->atttypid != column_type(map->dest, target))
			add_column(ins, map->dest, target, psprintf("to_jsonb($%d)", attno));
		else
			add_column(ins, map->dest, target, psprintf("$%d", attno));
	}
	/* row mode: the message is the whole row */
	if (payload != 0 && !QueueHas(map->q, ROLE_PAYLOAD))
		add_column(ins, map->dest, payload, JsonPairsSql(&all));
	if (map->by_role[ROLE_LAST_ERROR] != 0)
		add_column(ins, map->dest, map->by_role[ROLE_LAST_ERROR],
				   bury_arg(map, ARG_ERROR));
	if (headers != 0)
		add_column(ins, map->dest, headers,
				   psprintf("(%s)::%s", origin_headers(map, JsonPairsSql(&kept)),
							DeadMapType(map->dest, headers)));
}

/*
 * DeadInsertSql
 *		The statement, and the types of its parameters (see BuryArg).
 */
char *
DeadInsertSql(Queue *q, int *nargs, Oid **argtypes)
{
	static const Oid own_types[NUM_BURY_ARGS] = {
		TIMESTAMPTZOID, TEXTOID, TEXTOID, INT8OID, JSONBOID, JSONBOID
	};
	DeadMap		map;
	Insert		ins;
	int			natts;
	char	   *sql;

	DeadMapOpen(&map, q, RowExclusiveLock);
	natts = RelationGetNumberOfAttributes(map.queue);
	*nargs = natts + NUM_BURY_ARGS;
	*argtypes = palloc(sizeof(Oid) * *nargs);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(map.queue), i);

		(*argtypes)[i] = att->attisdropped ? INT4OID : att->atttypid;
	}
	memcpy(*argtypes + natts, own_types, sizeof(own_types));

	initStringInfo(&ins.columns);
	initStringInfo(&ins.values);
	if (map.to_queue)
		queue_values(&ins, &map);
	else
		table_values(&ins, &map);
	if (ins.columns.len == 0)
		sql = psprintf("INSERT INTO %s DEFAULT VALUES", QualifiedName(RelationGetRelid(map.dest)));
	else
		sql = psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)",
					   QualifiedName(RelationGetRelid(map.dest)), ins.columns.data, ins.values.data);
	DeadMapClose(&map);
	return sql;
}
