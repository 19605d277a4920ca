/*-------------------------------------------------------------------------
 *
 * labeltext.c
 *	  The label of a table as text: one JSON object, read and written here.
 *
 * Durations are numbers of seconds, fractions allowed, so that the text means
 * the same whatever the session's DateStyle and IntervalStyle.  A key that is
 * not known is an error: a label written by a newer version must not lose a
 * setting silently.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "label.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

void
LabelDefaults(QueueSettings *settings)
{
	memset(settings, 0, sizeof(*settings));
	settings->kind = LABEL_QUEUE;
	settings->lease = 30;
	settings->attempt_base = 1;
	settings->backoff = USECS_PER_SEC;
	settings->backoff_max = USECS_PER_HOUR;
	settings->retention = NO_RETENTION;
	settings->triggers = true;
}

void
LabelNewToken(char *token)
{
	uint8		random[TOKEN_LEN / 2];

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random token")));
	hex_encode((const char *) random, sizeof(random), token);
	token[TOKEN_LEN] = '\0';
}

static void
bad_label(const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid inbox label"),
			 errdetail("The key \"%s\" is not known or has a value of the wrong kind.", key),
			 errhint("Register the table with inbox_create or inbox_adopt.")));
}

static char *
label_string(const char *key, const JsonbValue *v)
{
	if (v->type != jbvString)
		bad_label(key);
	return pnstrdup(v->val.string.val, v->val.string.len);
}

static void
label_token(const char *key, const JsonbValue *v, char *token)
{
	char	   *s = label_string(key, v);

	if (strlen(s) != TOKEN_LEN || strspn(s, "0123456789abcdef") != TOKEN_LEN)
		bad_label(key);
	strlcpy(token, s, TOKEN_LEN + 1);
}

static double
label_number(const char *key, const JsonbValue *v, double min, double max)
{
	double		d;

	if (v->type != jbvNumeric)
		bad_label(key);
	d = DatumGetFloat8(DirectFunctionCall1(numeric_float8,
										   NumericGetDatum(v->val.numeric)));
	if (isnan(d) || d < min || d > max)
		bad_label(key);
	return d;
}

static int64
label_duration(const char *key, const JsonbValue *v)
{
	return (int64) rint(label_number(key, v, 0, 1e10) * USECS_PER_SEC);
}

static bool
label_bool(const char *key, const JsonbValue *v)
{
	if (v->type != jbvBool)
		bad_label(key);
	return v->val.boolean;
}

static void
apply_key(QueueSettings *s, const char *key, const JsonbValue *v)
{
	if (strcmp(key, "kind") == 0)
	{
		char	   *kind = label_string(key, v);

		if (strcmp(kind, "queue") == 0)
			s->kind = LABEL_QUEUE;
		else if (strcmp(kind, "dead") == 0)
			s->kind = LABEL_DEAD;
		else
			bad_label(key);
	}
	else if (strcmp(key, "token") == 0)
		label_token(key, v, s->token);
	else if (strcmp(key, "lease") == 0)
		s->lease = (int64) label_number(key, v, 1, 1e10);
	else if (strcmp(key, "max_attempts") == 0)
		s->max_attempts = (int) label_number(key, v, 1, PG_INT16_MAX);
	else if (strcmp(key, "attempt_base") == 0)
		s->attempt_base = (int) label_number(key, v, 0, 1);
	else if (strcmp(key, "dead_letter") == 0)
		label_token(key, v, s->dead_letter);
	else if (strcmp(key, "dead_group") == 0)
		s->dead_group = label_string(key, v);
	else if (strcmp(key, "backoff") == 0)
		s->backoff = label_duration(key, v);
	else if (strcmp(key, "backoff_max") == 0)
		s->backoff_max = label_duration(key, v);
	else if (strcmp(key, "retention") == 0)
		s->retention = label_duration(key, v);
	else if (strcmp(key, "fifo") == 0)
		s->fifo = label_bool(key, v);
	else if (strcmp(key, "fifo_requeue") == 0)
		s->fifo_requeue = label_bool(key, v);
	else if (strcmp(key, "paused") == 0)
		s->paused = label_bool(key, v);
	else if (strcmp(key, "created") == 0)
		s->created = label_bool(key, v);
	else if (strcmp(key, "triggers") == 0)
		s->triggers = label_bool(key, v);
	else
		bad_label(key);
}

/*
 * LabelParse
 *		Read a table's label; strings are palloc'd in the current context.
 */
void
LabelParse(const char *label, QueueSettings *settings)
{
	Jsonb	   *jb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
														CStringGetDatum(label)));
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	char	   *key = NULL;

	LabelDefaults(settings);
	if (!JB_ROOT_IS_OBJECT(jb))
		bad_label("");
	it = JsonbIteratorInit(&jb->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(v.val.string.val, v.val.string.len);
		else if (token == WJB_VALUE)
			apply_key(settings, key, &v);
	}
	if (settings->token[0] == '\0')
		bad_label("token");
}

static void
put_string(StringInfo buf, const char *key, const char *value)
{
	appendStringInfo(buf, ", \"%s\": ", key);
	escape_json(buf, value);
}

static void
put_duration(StringInfo buf, const char *key, int64 usecs)
{
	appendStringInfo(buf, ", \"%s\": " INT64_FORMAT, key,
					 usecs / USECS_PER_SEC);
	if (usecs % USECS_PER_SEC != 0)
		appendStringInfo(buf, ".%06d", (int) (usecs % USECS_PER_SEC));
}

static void
put_flag(StringInfo buf, const char *key, bool value)
{
	if (value)
		appendStringInfo(buf, ", \"%s\": true", key);
}

/*
 * LabelFormat
 *		The reverse of LabelParse.
 */
char *
LabelFormat(const QueueSettings *s)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (s->kind == LABEL_DEAD)
	{
		appendStringInfo(&buf, "{\"kind\": \"dead\", \"token\": \"%s\"",
						 s->token);
		put_flag(&buf, "created", s->created);
		appendStringInfoChar(&buf, '}');
		return buf.data;
	}
	appendStringInfo(&buf, "{\"kind\": \"queue\", \"token\": \"%s\", \"lease\": "
					 INT64_FORMAT, s->token, s->lease);
	if (s->max_attempts > 0)
		appendStringInfo(&buf, ", \"max_attempts\": %d", s->max_attempts);
	appendStringInfo(&buf, ", \"attempt_base\": %d", s->attempt_base);
	if (s->dead_letter[0] != '\0')
		put_string(&buf, "dead_letter", s->dead_letter);
	if (s->dead_group != NULL)
		put_string(&buf, "dead_group", s->dead_group);
	put_duration(&buf, "backoff", s->backoff);
	put_duration(&buf, "backoff_max", s->backoff_max);
	if (s->retention != NO_RETENTION)
		put_duration(&buf, "retention", s->retention);
	put_flag(&buf, "fifo", s->fifo);
	put_flag(&buf, "fifo_requeue", s->fifo_requeue);
	put_flag(&buf, "paused", s->paused);
	put_flag(&buf, "created", s->created);
	if (!s->triggers)
		appendStringInfoString(&buf, ", \"triggers\": false");
	appendStringInfoChar(&buf, '}');
	return buf.data;
}
