/*-------------------------------------------------------------------------
 *
 * history.c
 *	  What happened to a message, kept in its headers.
 *
 * Every bury and redrive adds an entry to headers -> inbox -> history, newest
 * last.  A message that goes round for ever must not grow for ever, so the
 * oldest entries fall off and a long error text is cut.  Headers that are no
 * JSON object have no room for a key; they are left as they are.
 *
 * The new headers are computed by SQL, because a redrive moves many rows in
 * one statement; bury.c uses the same expression for its one row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "history.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#define MAX_ENTRIES		20
#define MAX_ERROR_BYTES	2048

/*
 * HistoryTime
 *		Append an instant as a JSON string, in UTC whatever the session's time
 *		zone, so that entries of different sessions compare.
 */
void
HistoryTime(StringInfo buf, TimestampTz at)
{
	char		encoded[MAXDATELEN + 1];
	int			utc = 0;

	JsonEncodeDateTime(encoded, TimestampTzGetDatum(at), TIMESTAMPTZOID, &utc);
	escape_json(buf, encoded);
}

/*
 * HistoryParseTime
 *		The reverse; false where somebody has written something else.
 */
bool
HistoryParseTime(const char *str, TimestampTz *at)
{
	struct pg_tm tm = {0};
	fsec_t		fsec = 0;
	int			utc = 0;
	int			n = 0;

	if (sscanf(str, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon,
			   &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &n) != 6 ||
		n != strlen("2000-01-01T00:00:00"))
		return false;
	str += n;
	if (*str == '.')
	{
		int			digits = strspn(str + 1, "0123456789");

		if (digits < 1 || digits > 6)
			return false;
		fsec = atoi(str + 1);
		for (int i = digits; i < 6; i++)
			fsec *= 10;
		str += digits + 1;
	}
	return strcmp(str, "+00:00") == 0 &&
		ValidateDate(DTK_DATE_M, false, false, false, &tm) == 0 &&
		tm.tm_hour < HOURS_PER_DAY && tm.tm_min < MINS_PER_HOUR &&
		tm.tm_sec < SECS_PER_MINUTE && tm.tm_hour >= 0 && tm.tm_min >= 0 &&
		tm.tm_sec >= 0 && tm2timestamp(&tm, fsec, &utc, at) == 0;
}

/*
 * HistoryEntry
 *		One entry as a jsonb datum.
 */
Datum
HistoryEntry(const HistoryEvent *ev)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"event\": \"%s\", \"at\": ", ev->event);
	HistoryTime(&buf, ev->at);
	if (ev->cause != NULL)
		appendStringInfo(&buf, ", \"cause\": \"%s\"", ev->cause);
	if (ev->attempt >= 0)
		appendStringInfo(&buf, ", \"attempt\": " INT64_FORMAT, ev->attempt);
	if (ev->error != NULL)
	{
		int			len = pg_mbcliplen(ev->error, strlen(ev->error),
									   MAX_ERROR_BYTES);

		appendStringInfoString(&buf, ", \"error\": ");
		escape_json(&buf, pnstrdup(ev->error, len));
	}
	appendStringInfoChar(&buf, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
}

/*
 * HistoryAppendSql
 *		Append the SQL expression for headers with one more entry.
 *
 * "headers" and "entry" are jsonb expressions; "change" is what else is done
 * to the object under the key inbox, as the tail of an expression, such as
 * "|| $5" or "- 'origin'".  Meant for the search path of owner.c.
 */
void
HistoryAppendSql(StringInfo buf, const char *headers, const char *entry,
				 const char *change)
{
	appendStringInfo(buf,
					 "CASE WHEN %1$s IS NULL OR jsonb_typeof(%1$s) = 'object' THEN "
					 "jsonb_set(coalesce(%1$s, '{}'::jsonb), '{inbox}', "
					 "(CASE WHEN jsonb_typeof(%1$s -> 'inbox') = 'object' "
					 "THEN %1$s -> 'inbox' ELSE '{}'::jsonb END %2$s) || "
					 "jsonb_build_object('history', "
					 "coalesce(jsonb_path_query_array(%1$s, '$.inbox.history[last - %3$d to last]'), '[]'::jsonb) "
					 "|| jsonb_build_array(%4$s))) "
					 "ELSE %1$s END",
					 headers, change, MAX_ENTRIES - 2, entry);
}
