/*-------------------------------------------------------------------------
 *
 * settleargs.c
 *	  What the arguments of a settlement ask for.
 *
 * Misspelt outcomes, bad delays and arrays of another length are misuse: an
 * error before anything is written.
 *
 * Called by settle.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "args.h"
#include "bury.h"
#include "catalog/pg_type.h"
#include "duration.h"
#include "settle.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const char *const outcome_names[] = {
	[OUTCOME_DONE] = "done",
	[OUTCOME_DROP] = "drop",
	[OUTCOME_RETRY] = "retry",
	[OUTCOME_RELEASE] = "release",
	[OUTCOME_DEAD] = "dead",
};

static Outcome
parse_outcome(const char *name)
{
	for (int i = 0; i < lengthof(outcome_names); i++)
	{
		if (strcmp(name, outcome_names[i]) == 0)
			return (Outcome) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid outcome \"%s\"", name),
			 errhint("Valid outcomes are done, drop, retry, release and dead.")));
	return OUTCOME_DONE;		/* keep compiler quiet */
}

/*
 * check_request
 *		What is misuse whatever the state of the row.
 */
static void
check_request(Queue *q, const SettleRequest *request)
{
	if (request->delay != NULL)
		DurationCheckDelay(request->delay);
	if (request->outcome == OUTCOME_DEAD)
		BuryRequire(q);
}

/*
 * SettleReadRequest
 *		The arguments of inbox_settle that say what to do.
 */
void
SettleReadRequest(FunctionCallInfo fcinfo, Queue *q, SettleRequest *request)
{
	ArgNotNull(fcinfo, 2, "outcome");
	request->outcome = parse_outcome(ArgString(fcinfo, 2));
	request->undecodable = false;
	request->delay = PG_ARGISNULL(3) ? NULL : PG_GETARG_INTERVAL_P(3);
	request->error = ArgString(fcinfo, 4);
	check_request(q, request);
}

/*
 * SettleReadRequests
 *		The arguments of inbox_settle_batch that say what to do.
 */
SettleRequest *
SettleReadRequests(FunctionCallInfo fcinfo, Queue *q, int n)
{
	SettleRequest *requests = palloc0(n * sizeof(SettleRequest));
	ArgArray	outcomes;
	ArgArray	delays;
	ArgArray	errors;

	ArgNotNull(fcinfo, 2, "outcomes");
	ArgGetArray(fcinfo, 2, TEXTOID, &outcomes);
	ArgGetArray(fcinfo, 3, INTERVALOID, &delays);
	ArgGetArray(fcinfo, 4, TEXTOID, &errors);
	ArgCheckLength(&outcomes, "outcomes", n, "receipts", true);
	ArgCheckLength(&delays, "delays", n, "receipts", true);
	ArgCheckLength(&errors, "errors", n, "receipts", true);
	/* checked even if there is no receipt to settle */
	for (int i = 0; i < outcomes.n; i++)
	{
		if (outcomes.nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("element %d of outcomes must not be null", i + 1)));
		(void) parse_outcome(TextDatumGetCString(outcomes.values[i]));
	}
	for (int i = 0; i < n; i++)
	{
		int			o = outcomes.n == 1 ? 0 : i;
		int			d = delays.n == 1 ? 0 : i;
		int			e = errors.n == 1 ? 0 : i;

		requests[i].outcome = parse_outcome(TextDatumGetCString(outcomes.values[o]));
		if (delays.given && !delays.nulls[d])
			requests[i].delay = DatumGetIntervalP(delays.values[d]);
		if (errors.given && !errors.nulls[e])
			requests[i].error = TextDatumGetCString(errors.values[e]);
		check_request(q, &requests[i]);
	}
	return requests;
}
