/*-------------------------------------------------------------------------
 *
 * subbatch.c
 *	  Handle a batch, by and by, and hand back what is left of it.
 *
 * How many messages share a transaction, and how many are claimed at a time,
 * goes by how long they took lately: both begin with one.  What failed in
 * company begins anew, alone (the rules are in subgroup.c); what fails alone has
 * failed (subsettle.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "storage/latch.h"
#include "subgroup.h"
#include "subshared.h"
#include "utils/timestamp.h"

/* a batch is not to take longer, in microseconds */
#define BATCH_USECS		100000

/*
 * BatchClaimRows
 *		How many messages to claim: what takes a moment, by what they took
 *		lately.  Those that wait in a batch nobody else can have.
 */
int
BatchClaimRows(SubWorker *w)
{
	int			rows = InboxSubscriptionBatch;

	if (w->usecs <= 0)
		return 1;
	if (w->usecs * rows > BATCH_USECS)
		rows = (int) Max(BATCH_USECS / w->usecs, 1);
	return rows;
}

/*
 * learn
 *		How long something takes: slowness at once, speed by and by.
 */
static double
learn(double known, double usecs)
{
	usecs = Max(usecs, 0.01);
	return known == 0 || usecs > known ? usecs : (3 * known + usecs) / 4;
}

/*
 * BatchLearn
 *		From a transaction that went well.  The longest of several handlings
 *		counts as one of the others: on a busy machine it is the one during
 *		which somebody else ran.  A slow commit is no reason for more of them,
 *		so it does not count for what goes into one.
 */
void
BatchLearn(BatchGroup *g, TimestampTz began)
{
	SubWorker  *w = g->w;
	int			limit = w->spurious >= MAX_SPURIOUS ? 1 : GROUP_MAX;
	double		others = g->gaps > 1 ? (double) (g->took - g->longest) / (g->gaps - 1) :
		g->took;
	double		elapsed = GetCurrentTimestamp() - began - g->took + others * g->gaps;

	w->usecs = learn(w->usecs, elapsed / Max(g->n, 1));
	w->busy = learn(w->busy, others);
	if (w->busy * w->group * 2 > GROUP_USECS)
		w->group = (int) Max(Min(GROUP_USECS / w->busy, w->group), 1);
	else
		w->group = Min(w->group * 2, limit);
}

/*
 * failed_alone
 *		What becomes of a message that failed with a transaction to itself.
 */
static void
failed_alone(BatchGroup *g, ErrorData *error)
{
	SubWorker  *w = g->w;
	int			item = g->first;
	bool		held = SubSlotLeave(item);

	if (!held || g->lost)
		SubSlotCount(0, 0, 0, 1);
	else if (error->sqlerrcode == ERRCODE_QUERY_CANCELED && SubMustLeave())
		BatchRelease(w, item, item + 1);
	else
	{
		BatchLog(w, error);
		BatchSettleFailed(w, item, error,
						  g->step == STEP_DECODE && BatchPayloadsFault(error));
	}
	SubSlotDone(item + 1);
}

/*
 * went_well
 *		A transaction is committed, whose first message may be the one that
 *		spoilt the last; returns the one that spoilt this, or -1.
 */
static int
went_well(BatchGroup *g, TimestampTz began, int spoilt)
{
	SubWorker  *w = g->w;

	if (g->n > 0)
	{
		BatchLearn(g, began);
		w->trust = g->nundecodable > 0 || g->again ? 0 : w->trust + g->n;
	}
	if (g->first == spoilt && w->spurious < MAX_SPURIOUS)
		w->spurious++;
	return g->spoilt ? g->next : -1;
}

/*
 * wait_for_keeper
 *		It may be giving back what it took out of the batch: a claim before
 *		that would pass those messages over.
 */
static void
wait_for_keeper(void)
{
	while (SubSlotKeeper() != 0)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 100, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		if (ShutdownRequestPending)
			return;
	}
}

/*
 * BatchHandle
 *		Handle what has been claimed, and hand back what is left.
 */
void
BatchHandle(SubWorker *w)
{
	BatchGroup	g = {.w = w};
	char	  **receipts = palloc(w->n * sizeof(char *));
	int			published;
	int			alone_until = 0;
	int			spoilt = -1;

	for (int i = 0; i < w->n; i++)
		receipts[i] = w->rows[i]->receipt;
	SubActivityNow = ACTIVITY_BUSY;
	pgstat_report_activity(STATE_RUNNING, psprintf("handle messages of subscription %s", w->sub->name));
	published = SubSlotBegin(w->sub->queue, w->lease, receipts, w->n);
	if (published < w->n)
	{
		BatchRelease(w, published, w->n);
		w->n = published;
	}
	while (g.first < w->n && !g.over && !SubMustLeave())
	{
		bool		alone = g.first < alone_until || w->group == 1;
		TimestampTz began = GetCurrentTimestamp();
		ErrorData  *error;

		if (BatchGroupRun(&g, Min(g.first + (alone ? 1 : w->group), w->n), &error))
		{
			spoilt = went_well(&g, began, spoilt);
			if (g.again)
				alone_until = g.next + 1;
			g.first = g.next;
			continue;
		}
		w->group = 1;
		w->trust = 0;
		if (g.step == STEP_OPEN)
		{
			BatchLog(w, error);
			SubSlotError(error->message);
			break;
		}
		if (g.n > 1)
			alone_until = g.next;
		else
		{
			/* those before it are lost */
			g.first = g.n > 0 ? g.items[0] : g.next;
			failed_alone(&g, error);
			g.first++;
		}
	}
	if (!g.over && g.first < w->n)
		BatchRelease(w, g.first, w->n);
	wait_for_keeper();
	SubSlotEnd();
	(void) pgstat_report_stat(false);
	SubActivityNow = ACTIVITY_IDLE;
	QueryCancelPending = false;
}
