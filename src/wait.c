/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting until rows may be claimable.
 *
 * A wait is a loop of attempts, with sleep in between.  What ends a sleep:
 *
 *	  somebody has made rows claimable, and wakes as many waiters (waiters.c);
 *
 *	  a delayed row comes due, a lease ends, or the hints have to look again
 *	  at a row that was locked: the waiter who keeps the time knows when;
 *
 *	  a tick, for what nobody tells of: changes with triggers disabled, the end
 *	  of a prepared transaction, a row lock that is gone.  It is a second for
 *	  the one who keeps the time, a few for the others.
 *
 * So an idle waiter costs an attempt every few seconds.  Where the server has
 * no shared memory of ours, or no room in it for the queue, a wait polls, less
 * and less often.
 *
 * The end of a wait goes by the monotonic clock: a step of the other one must
 * not make it longer.  A client that has gone away is noticed before the next
 * attempt, so that no message is leased to nobody.
 *
 * Called by claim.c and waitcall.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "compat.h"
#include "duration.h"
#include "lease.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "totals.h"
#include "utils/inval.h"
#include "utils/timestamp.h"
#include "wait.h"
#include "waiters.h"

#define KEEPER_TICK		USECS_PER_SEC
#define TICK			(4 * USECS_PER_SEC) /* and up to half as much more */
#define POLL_MIN		(10 * INT64CONST(1000))
#define POLL_MAX		USECS_PER_SEC
/* between two attempts at a time that was announced, growing when in vain */
#define PAUSE_MIN		(1 * INT64CONST(1000))
#define PAUSE_MAX		(100 * INT64CONST(1000))

typedef struct Wait
{
	QueueHints *hints;			/* NULL: poll */
	int64		end;			/* by the monotonic clock */
	int64		poll;
	int64		pause;
	bool		announced;		/* the sleep ends at a time announced */
	WaitLook	look;
} Wait;

static uint32 wait_event = 0;

/*
 * WaitArg
 *		The argument "wait" of a function, in microseconds; 0: do not wait.
 */
int64
WaitArg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return 0;
	return DurationMicros(PG_GETARG_INTERVAL_P(n), "wait", 0, MAX_WAIT_USECS,
						  "one hour");
}

static int64
monotonic_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/*
 * How long to sleep, at most, in microseconds.
 */
static int64
sleep_time(Wait *w)
{
	TimestampTz look;
	TimestampTz now;

	w->announced = false;
	if (w->hints == NULL)
	{
		int64		poll = w->poll;

		w->poll = Min(2 * w->poll, POLL_MAX);
		return poll;
	}
	if (!WaitersIsKeeper())
		return TICK + (int64) (pg_prng_double(&pg_global_prng_state) * (TICK / 2));
	look = Min(w->look.next_due, HintsNextLook(w->hints));
	now = LeaseNow();
	if (look >= now + KEEPER_TICK)
		return KEEPER_TICK;
	w->announced = true;
	return Max(look - now, w->pause);
}

/*
 * End the session if its client has gone.  The check may reset our latch, so
 * interrupts have to be looked at, and an attempt made, before the next sleep.
 */
static void
check_client(void)
{
	if (MyProcPort == NULL || whereToSendOutput != DestRemote ||
		pq_check_connection())
		return;
	ClientConnectionLost = true;
	InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
}

/*
 * sleep_some
 *		Sleep until there is reason for another attempt.
 */
static void
sleep_some(Wait *w, int64 usecs)
{
	int			result;

	result = WaitLatch(MyLatch,
					   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					   (long) ((usecs + 999) / 1000),
					   NamedWaitEvent(&wait_event, "InboxWait"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	check_client();
	CHECK_FOR_INTERRUPTS();
	if (result & WL_TIMEOUT)
		w->pause = Min(2 * w->pause, PAUSE_MAX);
	else
	{
		w->pause = PAUSE_MIN;
		w->announced = false;
	}
}

/*
 * try_again
 *		An attempt, and what becomes of the wake that led to it.
 */
static bool
try_again(Wait *w, WaitAttempt attempt, void *arg)
{
	bool		done;

	if (w->hints != NULL)
		WaitersEnlist(HintsNumber(w->hints));
	AcceptInvalidationMessages();
	w->look.next_due = PG_INT64_MAX;
	w->look.selective = false;
	done = attempt(arg, &w->look);
	if (w->hints == NULL)
		return done;
	if (done || !w->look.selective)
		WaitersForgetWake();
	else if (w->announced)
		/* nobody else keeps the time for rows that our filter hides */
		WaitersWake(HintsNumber(w->hints), 1);
	WaitersPassOn();
	return done;
}

/*
 * WaitUntil
 *		Attempt again and again, until it is done or the time is over.
 */
void
WaitUntil(int64 usecs, QueueHints *hints, WaitAttempt attempt, void *arg)
{
	Wait		w = {0};
	bool		enlists = hints != NULL && WaitersFree();
	bool		slept = false;

	w.hints = enlists ? hints : NULL;
	w.end = monotonic_now() + usecs;
	w.poll = POLL_MIN;
	w.pause = PAUSE_MIN;
	PG_TRY();
	{
		while (!try_again(&w, attempt, arg))
		{
			int64		left = w.end - monotonic_now();

			if (left <= 0)
				break;
			if (!slept && hints != NULL)
				TotalsWaited(hints);
			slept = true;
			sleep_some(&w, Min(left, sleep_time(&w)));
		}
	}
	PG_CATCH();
	{
		if (enlists)
			WaitersLeave();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (enlists)
		WaitersLeave();
}
