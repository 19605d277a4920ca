/*-------------------------------------------------------------------------
 *
 * duration.c
 *	  Interval arguments: what is allowed, and how an absurd one is refused.
 *
 * Clients bind intervals in many ways, and some of them slip: a driver that
 * turns its own duration type into a bare number of nanoseconds or
 * milliseconds is read as seconds.  A value far out of range therefore says
 * which slip it looks like.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "compat.h"
#include "duration.h"
#include "settings.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

/*
 * Say which unit the caller seems to have sent in place of seconds: the
 * largest one that makes the value sensible.  A bare number makes no days.
 */
static const char *
guess_slip(const Interval *iv, int64 max)
{
	double		secs = (double) iv->time / USECS_PER_SEC;
	double		max_secs = (double) max / USECS_PER_SEC;

	if (iv->day != 0 || iv->month != 0)
		return "Use a shorter interval.";
	if (secs / 1e9 >= 0.001 && secs / 1e9 <= max_secs)
		return "It looks like nanoseconds; pass an interval, for example make_interval(secs => 30).";
	if (secs / 1e3 >= 0.001 && secs / 1e3 <= max_secs)
		return "It looks like milliseconds; pass an interval, for example make_interval(secs => 30).";
	return "Pass an interval, for example make_interval(secs => 30).";
}

static void
bad_duration(const Interval *iv, const char *what, const char *why,
			 const char *hint)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(interval_out,
														   IntervalPGetDatum(iv)));

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s \"%s\"", what, text),
			 errdetail("%s", why),
			 hint ? errhint("%s", hint) : 0));
}

/*
 * DurationMicros
 *		An interval in microseconds, a month being 30 days, checked against
 *		its bounds.  "what" names the argument, "max_text" the upper bound.
 */
int64
DurationMicros(const Interval *iv, const char *what, int64 min, int64 max,
			   const char *max_text)
{
	double		usecs;

	if (IntervalIsInfinite(iv))
		bad_duration(iv, what, psprintf("A %s must be finite.", what), NULL);
	usecs = (double) iv->time +
		((double) iv->day + (double) iv->month * DAYS_PER_MONTH) * USECS_PER_DAY;
	if (usecs < 0)
		bad_duration(iv, what, psprintf("A %s must not be negative.", what), NULL);
	if (usecs < (double) min)
		bad_duration(iv, what, psprintf("A %s must be longer than zero.", what), NULL);
	if (usecs > (double) max)
		bad_duration(iv, what, psprintf("A %s is at most %s.", what, max_text),
					 guess_slip(iv, max));
	return iv->time +
		((int64) iv->day + (int64) iv->month * DAYS_PER_MONTH) * USECS_PER_DAY;
}

/*
 * DurationLease
 *		The length of a lease: whole seconds, a fraction rounded up.
 */
int64
DurationLease(const Interval *iv)
{
	char		max_text[64];
	int64		usecs;

	snprintf(max_text, sizeof(max_text), "inbox.max_lease (%d s)", InboxMaxLease);
	usecs = DurationMicros(iv, "lease", 1, (int64) InboxMaxLease * USECS_PER_SEC,
						   max_text);
	return (usecs + USECS_PER_SEC - 1) / USECS_PER_SEC;
}

void
DurationCheckDelay(const Interval *iv)
{
	(void) DurationMicros(iv, "delay", 0, MAX_DELAY_USECS, "ten years");
}
