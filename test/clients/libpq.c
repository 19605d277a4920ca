/*-------------------------------------------------------------------------
 *
 * libpq.c
 *	  inbox from C: every parameter is text, and its type is left to the
 *	  server.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

static PGconn *conn;
static const char *queue;

static void
say(const char *what, const char *got, const char *want)
{
	if (strcmp(got, want) == 0)
		printf("ok - %s\n", what);
	else
		printf("not ok - %s: %s\n", what, got);
}

/* $1 is the queue */
static PGresult *
call(const char *sql, const char *a, const char *b, const char *c)
{
	const char *values[] = {queue, a, b, c};
	int			n = 1 + (a != NULL) + (b != NULL) + (c != NULL);

	return PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
}

/* the first column of all rows */
static char *
all(PGresult *res)
{
	static char buf[1024];

	buf[0] = '\0';
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		snprintf(buf, sizeof(buf), "%s", PQresultErrorMessage(res));
	for (int i = 0; i < PQntuples(res); i++)
	{
		strcat(buf, i > 0 ? " " : "");
		strcat(buf, PQgetvalue(res, i, 0));
	}
	PQclear(res);
	return buf;
}

int
main(void)
{
	PGresult   *res;
	char		one[64];
	char		receipts[256];
	char		seen[64] = "";

	queue = getenv("QUEUE");
	conn = PQconnectdb("");
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "%s", PQerrorMessage(conn));
		return 1;
	}

	say("send", all(call("SELECT inbox_send($1, $2, delay => $3, priority => $4)",
						 "{\"n\": 1, \"text\": \"it's \\\"quoted\\\"\"}", "0 s", "1")), "1");
	say("send many", all(call("SELECT inbox_send_batch($1, $2, priority => $3, dedup_keys => $4)",
							  "{\"{\\\"n\\\": 2}\",\"{\\\"n\\\": 3}\",\"{\\\"n\\\": 4}\"}",
							  "2", "{a,b,NULL}")), "2 3 4");

	res = call("SELECT receipt, attempt || ' ' || (payload ->> 'text') FROM inbox_claim($1, $2, $3)",
			   "1", "20 s", NULL);
	snprintf(one, sizeof(one), "%s", PQgetvalue(res, 0, 0));
	say("claim", PQgetvalue(res, 0, 1), "1 it's \"quoted\"");
	PQclear(res);
	say("extend", all(call("SELECT concat_ws(' ', verdict, new_receipt = $2, locked_until > now() + '9 min'::interval) "
						   "FROM inbox_extend($1, $2, $3)", one, "10 min", NULL)), "ok t t");
	res = call("SELECT receipt FROM inbox_claim($1)", NULL, NULL, NULL);
	snprintf(receipts, sizeof(receipts), "{%s,%s,garbage,NULL}", one, PQgetvalue(res, 0, 0));
	PQclear(res);
	say("settle many", all(call("SELECT verdict FROM inbox_settle_batch($1, $2, '{retry,dead,done,done}', $3, $4)",
								receipts, "{1 h,NULL,NULL,NULL}",
								"{\"it's \\\"no\\\" good\",never,NULL,NULL}")), "ok dead invalid invalid");

	strcpy(receipts, "{}");
	for (;;)
	{
		res = call("SELECT receipt, payload ->> 'n' FROM inbox_next($1, $2, $3)", receipts, "1", NULL);
		if (PQntuples(res) == 0)
			break;
		snprintf(receipts, sizeof(receipts), "{%s}", PQgetvalue(res, 0, 0));
		strcat(seen, PQgetvalue(res, 0, 1));
		PQclear(res);
	}
	PQclear(res);
	say("next", seen, "34");
	say("a lost lease", all(call("SELECT inbox_settle($1, $2)", one, NULL, NULL)), "stale");
	res = call("SELECT inbox_settle($1, $2, strict => true)", one, NULL, NULL);
	say("strict", PQresultStatus(res) == PGRES_FATAL_ERROR ?
		PQresultErrorField(res, PG_DIAG_SQLSTATE) : "no error", "IB001");
	PQclear(res);
	PQfinish(conn);
	return 0;
}
