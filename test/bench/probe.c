/*-------------------------------------------------------------------------
 *
 * probe.c
 *	  What pgbench cannot measure: the spread of single claims, and the time
 *	  from a commit to the claim that gets the message.
 *
 *	probe cycle N SECONDS CLAIM SETTLE
 *		claims and settles N times, or for so long, in one session; prints the
 *		claim's median, p99 and maximum and the settlement's median, in
 *		microseconds.
 *	probe wait WAITERS N PACE CHANNEL CLAIM SETTLE SEND
 *		sends N messages, one each PACE milliseconds, to so many waiting
 *		sessions; prints median, p99 and maximum in milliseconds, and how many
 *		messages never came.  CHANNEL "-": the claim itself waits; else waiters
 *		LISTEN on it and the sender NOTIFYs.
 *
 * CLAIM returns a receipt (and for "wait" the number that SEND got as $1),
 * SETTLE takes it.  Connects as the environment says.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libpq-fe.h"

static double *sent;			/* when COMMIT left, by message */
static double *got;				/* when the claim's answer came; 0: not yet */
static int	nmessages;
static int	delivered;
static int	ready;				/* waiters that wait */
static bool stop;
static const char *channel;
static const char *claim_sql;
static const char *settle_sql;

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static PGresult *
check(PGconn *conn, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
	{
		fprintf(stderr, "probe: %s", PQerrorMessage(conn));
		exit(1);
	}
	return res;
}

static void
run(PGconn *conn, const char *sql)
{
	PQclear(check(conn, PQexec(conn, sql)));
}

static PGconn *
open_session(void)
{
	PGconn	   *conn = PQconnectdb("");

	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "probe: %s", PQerrorMessage(conn));
		exit(1);
	}
	return conn;
}

static PGconn *
open_consumer(void)
{
	PGconn	   *conn = open_session();

	PQclear(check(conn, PQprepare(conn, "claim", claim_sql, 0, NULL)));
	PQclear(check(conn, PQprepare(conn, "settle", settle_sql, 0, NULL)));
	return conn;
}

static void
settle(PGconn *conn, const char *receipt)
{
	PQclear(check(conn, PQexecPrepared(conn, "settle", 1, &receipt, NULL, NULL, 0)));
}

static int
by_value(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
quantile(double *sorted, int n, double q)
{
	return n > 0 ? sorted[(int) (q * (n - 1))] : 0;
}

static int
measure_cycles(int n, double seconds)
{
	PGconn	   *conn = open_consumer();
	double	   *claims = calloc(n, sizeof(double));
	double	   *settles = calloc(n, sizeof(double));
	double		deadline = now_us() + seconds * 1e6;
	int			i;

	/* the first calls build plans and caches */
	for (i = -10; i < n; i++)
	{
		double		t0 = now_us();
		PGresult   *res = check(conn, PQexecPrepared(conn, "claim", 0, NULL, NULL, NULL, 0));
		double		t1 = now_us();

		if (PQntuples(res) != 1)
		{
			fprintf(stderr, "probe: a claim returned %d rows\n", PQntuples(res));
			return 1;
		}
		settle(conn, PQgetvalue(res, 0, 0));
		PQclear(res);
		if (i >= 0)
		{
			claims[i] = t1 - t0;
			settles[i] = now_us() - t1;
			if (t1 > deadline)
				n = i + 1;
		}
	}
	qsort(claims, n, sizeof(double), by_value);
	qsort(settles, n, sizeof(double), by_value);
	printf("%.1f %.1f %.1f %.1f\n", quantile(claims, n, 0.5), quantile(claims, n, 0.99),
		   claims[n - 1], quantile(settles, n, 0.5));
	return 0;
}

/* Sleep until the server says something; a second at most. */
static void
await_notify(PGconn *conn)
{
	struct pollfd fd = {PQsocket(conn), POLLIN, 0};
	PGnotify   *notify;
	bool		any = false;

	while ((notify = PQnotifies(conn)) != NULL)
	{
		PQfreemem(notify);
		any = true;
	}
	if (any)
		return;
	poll(&fd, 1, 1000);
	PQconsumeInput(conn);
	while ((notify = PQnotifies(conn)) != NULL)
		PQfreemem(notify);
}

static void *
waiter(void *arg)
{
	PGconn	   *conn = open_consumer();

	(void) arg;
	if (channel)
	{
		char		sql[100];

		snprintf(sql, sizeof(sql), "LISTEN \"%s\"", channel);
		run(conn, sql);
	}
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
	{
		PGresult   *res = check(conn, PQexecPrepared(conn, "claim", 0, NULL, NULL, NULL, 0));
		double		t = now_us();

		if (PQntuples(res) > 0)
		{
			int			n = atoi(PQgetvalue(res, 0, 1));

			if (n >= 0 && n < nmessages)
			{
				got[n] = t;
				__atomic_add_fetch(&delivered, 1, __ATOMIC_SEQ_CST);
			}
			settle(conn, PQgetvalue(res, 0, 0));
		}
		else if (channel)
			await_notify(conn);
		PQclear(res);
	}
	PQfinish(conn);
	return NULL;
}

static void
send_all(const char *send_sql, int pace_ms)
{
	PGconn	   *conn = open_session();
	struct timespec pace = {pace_ms / 1000, pace_ms % 1000 * 1000000L};
	char		notify[100] = "";
	int			i;

	if (channel)
		snprintf(notify, sizeof(notify), "NOTIFY \"%s\"", channel);
	PQclear(check(conn, PQprepare(conn, "send", send_sql, 0, NULL)));
	for (i = 0; i < nmessages; i++)
	{
		char		number[20];
		const char *value = number;

		snprintf(number, sizeof(number), "%d", i);
		run(conn, "BEGIN");
		PQclear(check(conn, PQexecPrepared(conn, "send", 1, &value, NULL, NULL, 0)));
		if (channel)
			run(conn, notify);
		sent[i] = now_us();
		run(conn, "COMMIT");
		nanosleep(&pace, NULL);
	}
	PQfinish(conn);
}

static int
measure_waits(int nwaiters, int pace_ms, const char *send_sql)
{
	pthread_t  *threads = calloc(nwaiters, sizeof(pthread_t));
	double	   *times = calloc(nmessages, sizeof(double));
	double		deadline;
	int			i,
				n = 0;

	sent = calloc(nmessages, sizeof(double));
	got = calloc(nmessages, sizeof(double));
	for (i = 0; i < nwaiters; i++)
		pthread_create(&threads[i], NULL, waiter, NULL);
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < nwaiters)
		poll(NULL, 0, 5);
	poll(NULL, 0, 300);			/* and their first claims are asleep */
	send_all(send_sql, pace_ms);
	deadline = now_us() + 10e6;
	while (__atomic_load_n(&delivered, __ATOMIC_SEQ_CST) < nmessages && now_us() < deadline)
		poll(NULL, 0, 5);
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	for (i = 0; i < nwaiters; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < nmessages; i++)
		if (got[i] > 0)
			times[n++] = (got[i] - sent[i]) / 1000;
	qsort(times, n, sizeof(double), by_value);
	printf("%.3f %.3f %.3f %d\n", quantile(times, n, 0.5), quantile(times, n, 0.99),
		   n > 0 ? times[n - 1] : 0, nmessages - n);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "cycle") == 0)
	{
		claim_sql = argv[4];
		settle_sql = argv[5];
		return measure_cycles(atoi(argv[2]), atof(argv[3]));
	}
	if (argc == 9 && strcmp(argv[1], "wait") == 0)
	{
		nmessages = atoi(argv[3]);
		channel = strcmp(argv[5], "-") == 0 ? NULL : argv[5];
		claim_sql = argv[6];
		settle_sql = argv[7];
		return measure_waits(atoi(argv[2]), atoi(argv[4]), argv[8]);
	}
	fprintf(stderr, "probe: see the head of probe.c\n");
	return 2;
}
