/*-------------------------------------------------------------------------
 *
 * deadview.c
 *	  The function behind view inbox_dead: dead letters of all queues.
 *
 * Row security applies, and a table without SELECT for whoever looks is left
 * out.  The payload is not among the columns; it is one join on the id away.
 *
 * What is known of a dead letter is in columns of a dead-letter table, in the
 * origin that a message in another queue carries in its headers, or in the
 * last entry of the history of one that stayed under dead_group.  Headers are
 * anybody's to write; what is not as bury.c writes it is shown as NULL.
 *
 * How rows are read, and what happens to a queue that cannot be, is in look.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "announce.h"
#include "bury.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "history.h"
#include "look.h"
#include "owner.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#define COLUMNS			7

/* what is read of a row */
static const Role in_table[] = {
	ROLE_ID, ROLE_CAUSE, ROLE_LAST_ERROR, ROLE_ATTEMPT, ROLE_DIED_AT
};
static const Role in_queue[] = {ROLE_HEADERS};
static const Role in_group[] = {
	ROLE_ID, ROLE_GROUP_KEY, ROLE_PROCESSED_AT, ROLE_HEADERS
};

typedef struct Listing
{
	Oid			relid;
	Oid			dest;			/* where the dead letters are */
	Queue	   *q;
	Look		look;
	Oid			type[NUM_ROLES];	/* of the columns read */
	ReturnSetInfo *rsinfo;
	/* the row at hand */
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
	int			n;
} Listing;

static void
put(Listing *l, bool known, Datum value)
{
	l->nulls[l->n] = !known;
	l->values[l->n++] = value;
}

static void
put_text(Listing *l, const char *str)
{
	put(l, str != NULL, str ? CStringGetTextDatum(str) : (Datum) 0);
}

static bool
read_column(const AttrNumber *attnos, TupleTableSlot *slot, Role role,
			Datum *value)
{
	bool		isnull = true;

	if (attnos[role] != 0)
		*value = slot_getattr(slot, attnos[role], &isnull);
	return !isnull;
}

static char *
column_text(const Listing *l, const AttrNumber *attnos, TupleTableSlot *slot,
			Role role)
{
	Datum		value;
	Oid			func;
	bool		isvarlena;

	if (!read_column(attnos, slot, role, &value))
		return NULL;
	getTypeOutputInfo(l->type[role], &func, &isvarlena);
	return OidOutputFunctionCall(func, value);
}

/* A member of a JSON object, or NULL. */
static JsonbValue *
member(JsonbContainer *object, const char *key)
{
	if (object == NULL || !JsonContainerIsObject(object))
		return NULL;
	return getKeyJsonValueFromContainer(object, key, strlen(key), NULL);
}

static JsonbContainer *
member_container(JsonbContainer *object, const char *key)
{
	JsonbValue *v = member(object, key);

	return v != NULL && v->type == jbvBinary ? v->val.binary.data : NULL;
}

static char *
member_text(JsonbContainer *object, const char *key)
{
	JsonbValue *v = member(object, key);

	if (v != NULL && v->type == jbvString)
		return pnstrdup(v->val.string.val, v->val.string.len);
	if (v != NULL && v->type == jbvNumeric)
		return DatumGetCString(DirectFunctionCall1(numeric_out,
												   NumericGetDatum(v->val.numeric)));
	return NULL;
}

static JsonbContainer *
last_element(JsonbContainer *array)
{
	JsonbValue *v;

	if (array == NULL || !JsonContainerIsArray(array) ||
		JsonContainerSize(array) == 0)
		return NULL;
	v = getIthJsonbValueFromContainer(array, JsonContainerSize(array) - 1);
	return v->type == jbvBinary ? v->val.binary.data : NULL;
}

/* What the headers hold under the key inbox, or NULL. */
static JsonbContainer *
inbox_headers(const Listing *l, const AttrNumber *attnos,
			  TupleTableSlot *slot)
{
	Datum		value;

	if (!read_column(attnos, slot, ROLE_HEADERS, &value))
		return NULL;
	if (l->type[ROLE_HEADERS] == JSONOID)
		value = DirectFunctionCall1(jsonb_in,
									CStringGetDatum(TextDatumGetCString(value)));
	return member_container(&DatumGetJsonbP(value)->root, "inbox");
}

/* The columns that JSON of ours tells. */
static void
put_json(Listing *l, JsonbContainer *json, const char *time_key)
{
	char	   *attempt = member_text(json, "attempt");
	char	   *time = member_text(json, time_key);
	TimestampTz at = 0;
	bool		counted = attempt != NULL && strlen(attempt) <= 18 &&
		attempt[0] != '\0' && strspn(attempt, "0123456789") == strlen(attempt);
	bool		timed = time != NULL && HistoryParseTime(time, &at);

	put_text(l, member_text(json, "cause"));
	put_text(l, member_text(json, "error"));
	put(l, counted, counted ? Int64GetDatum(strtoi64(attempt, NULL, 10)) : 0);
	put(l, timed, TimestampTzGetDatum(at));
}

static void
begin_row(Listing *l)
{
	l->n = 0;
	put_text(l, l->q->name);
	put_text(l, QualifiedName(l->dest));
}

static void
end_row(Listing *l)
{
	Assert(l->n == COLUMNS);
	tuplestore_putvalues(l->rsinfo->setResult, l->rsinfo->setDesc, l->values,
						 l->nulls);
}

static void
visit_table(const AttrNumber *attnos, TupleTableSlot *slot, void *arg)
{
	Listing    *l = (Listing *) arg;
	Datum		value = 0;
	bool		known;

	begin_row(l);
	put_text(l, column_text(l, attnos, slot, ROLE_ID));
	put_text(l, column_text(l, attnos, slot, ROLE_CAUSE));
	put_text(l, column_text(l, attnos, slot, ROLE_LAST_ERROR));
	known = read_column(attnos, slot, ROLE_ATTEMPT, &value);
	put(l, known, Int64GetDatum(RoleInteger(l->type[ROLE_ATTEMPT], value)));
	known = read_column(attnos, slot, ROLE_DIED_AT, &value);
	put(l, known, value);
	end_row(l);
}

static void
visit_queue(const AttrNumber *attnos, TupleTableSlot *slot, void *arg)
{
	Listing    *l = (Listing *) arg;
	JsonbContainer *origin = member_container(inbox_headers(l, attnos, slot),
											  "origin");
	char	   *token = member_text(origin, "token");

	if (token == NULL || strcmp(token, l->q->settings.token) != 0)
		return;
	begin_row(l);
	put_text(l, member_text(origin, "id"));
	put_json(l, origin, "died_at");
	end_row(l);
}

static void
visit_group(const AttrNumber *attnos, TupleTableSlot *slot, void *arg)
{
	Listing    *l = (Listing *) arg;
	char	   *group = column_text(l, attnos, slot, ROLE_GROUP_KEY);
	JsonbContainer *history;
	Datum		finished;

	if (group == NULL || strcmp(group, l->q->settings.dead_group) != 0 ||
		read_column(attnos, slot, ROLE_PROCESSED_AT, &finished))
		return;
	history = member_container(inbox_headers(l, attnos, slot), "history");
	begin_row(l);
	put_text(l, column_text(l, attnos, slot, ROLE_ID));
	put_json(l, last_element(history), "at");
	end_row(l);
}

/*
 * map_roles
 *		Where the roles' columns are in the table that holds the dead letters.
 *		One whose type has been changed since is as good as none.
 */
static void
map_roles(Listing *l, const Role *roles, int n)
{
	char	   *name;

	for (AttrNumber attno = 1; (name = get_attname(l->dest, attno, true)) != NULL;
		 attno++)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;
		Role		role;

		pfree(name);
		/* dropped columns have names but no labels */
		if (!LabelReadRole(l->dest, attno, &role))
			continue;
		get_atttypetypmodcoll(l->dest, attno, &type, &typmod, &collation);
		for (int i = 0; i < n; i++)
		{
			if (roles[i] == role && RoleTypeFits(role, type, typmod))
			{
				l->look.col[role] = attno;
				l->type[role] = type;
			}
		}
	}
}

static bool
read_dead(Listing *l)
{
	Queue	   *q = l->q;

	memset(&l->look, 0, sizeof(l->look));
	l->look.relid = l->dest;
	l->look.arg = l;
	if (q->settings.dead_group != NULL)
	{
		map_roles(l, in_group, lengthof(in_group));
		l->look.visit = visit_group;
	}
	else if (q->dead_kind == LABEL_QUEUE)
	{
		map_roles(l, in_queue, lengthof(in_queue));
		/* nothing tells which rows are ours */
		if (l->look.col[ROLE_HEADERS] == 0)
			return true;
		l->look.visit = visit_queue;
	}
	else
	{
		map_roles(l, in_table, lengthof(in_table));
		/* a statement must name one column at least */
		if (l->look.col[ROLE_ID] == 0)
			return true;
		l->look.visit = visit_table;
	}
	return !LookMayRead(&l->look) || LookRows(&l->look);
}

/*
 * list_queue
 *		Work for LookQueue.
 */
static bool
list_queue(void *arg)
{
	Listing    *l = (Listing *) arg;
	bool		free = true;

	l->q = QueueTryOpen(l->relid, AccessShareLock, false);
	if (l->q == NULL)
		return true;
	l->dest = l->q->settings.dead_group != NULL ? l->relid : l->q->dead_relid;
	if (BuryConfigured(l->q))
		free = read_dead(l);
	QueueClose(l->q);
	UnlockRelationOid(l->relid, AccessShareLock);
	return free;
}

/*
 * The table that holds a queue's dead letters, or InvalidOid.
 */
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
	return LabelFindToken(settings.dead_letter, OwnerOf(relid), &kind);
}

static void
look_at(Oid relid, void *arg)
{
	Listing    *l = (Listing *) arg;
	Oid			dest = dead_letters_of(relid);

	l->relid = relid;
	if (OidIsValid(dest) && LookMayReadSome(dest))
		LookQueue(relid, list_queue, l);
}

PG_FUNCTION_INFO_V1(inbox_dead_letters);

/*
 * inbox_dead_letters()
 *		returns setof (queue, dead_letter, id, cause, error, attempt, died_at)
 */
Datum
inbox_dead_letters(PG_FUNCTION_ARGS)
{
	Listing		l = {0};

	InitMaterializedSRF(fcinfo, 0);
	WorkerAnnounce();
	l.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LookEach(look_at, &l);
	return (Datum) 0;
}
