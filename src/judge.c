/*-------------------------------------------------------------------------
 *
 * judge.c
 *	  Judge receipts by the rows they name, and act for those that hold.
 *
 * Extend and settle differ only in what they do for a receipt that holds its
 * row.  What they share is told here:
 *
 * 1. Take every receipt apart; a malformed one is judged invalid.
 * 2. Go through the receipts in the order of their ids, whatever order they
 *	  came in: two calls over the same rows then lock them in the same order
 *	  and cannot deadlock.
 * 3. Lock each row in its newest version, waiting for whoever is changing it;
 *	  judge each of the receipts that name it; act for the one that holds it,
 *	  if any.
 *
 * A row that is to be deleted, and nothing else, need not be locked before:
 * the delete waits for whoever is changing the row, and fails if the version
 * that was judged is not the newest any more.
 *
 * The answer is one verdict for each receipt, in the order they came in.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "judge.h"
#include "locate.h"

/* ids so close together, and so many of them, are found by one scan */
#define MAX_GAP		8
#define MIN_RUN		3

const char *
VerdictName(Verdict verdict)
{
	static const char *const names[] = {
		[VERDICT_OK] = "ok",
		[VERDICT_DEAD] = "dead",
		[VERDICT_STALE] = "stale",
		[VERDICT_GONE] = "gone",
		[VERDICT_DUPLICATE] = "duplicate",
		[VERDICT_INVALID] = "invalid",
		[VERDICT_LOCKED] = "locked",
	};

	return names[verdict];
}

void
JudgeInit(Judgement *j, Queue *q, Datum *receipts, bool *nulls, int n,
		  JudgeAct act)
{
	memset(j, 0, sizeof(*j));
	j->q = q;
	j->n = n;
	j->act = act;
	j->wait = LockWaitBlock;
	j->receipts = palloc0(n * sizeof(Receipt));
	j->verdicts = palloc0(n * sizeof(Verdict));
	for (int i = 0; i < n; i++)
	{
		ReceiptParse(q, nulls[i] ? NULL : DatumGetTextPP(receipts[i]),
					 &j->receipts[i]);
		if (!j->receipts[i].valid)
			j->verdicts[i] = VERDICT_INVALID;
	}
}

/*
 * By id, so that rows are locked in one order; then by number and position,
 * so that a receipt named twice stands behind itself.
 */
static int
compare_items(const void *a, const void *b, void *arg)
{
	Judgement  *j = (Judgement *) arg;
	int			i = *(const int *) a;
	int			k = *(const int *) b;
	int			cmp;

	cmp = ReceiptCompareIds(j->q, j->receipts[i].id, j->receipts[k].id);
	if (cmp == 0)
		cmp = (j->receipts[i].number > j->receipts[k].number) -
			(j->receipts[i].number < j->receipts[k].number);
	return cmp != 0 ? cmp : i - k;
}

/*
 * judge_items
 *		The verdicts of all receipts of one id, by its row; the one that holds
 *		it, or -1.
 */
static int
judge_items(Judgement *j, const int *order, int n, Verdict otherwise,
			const LeaseRow *row)
{
	int			holder = -1;

	for (int i = 0; i < n; i++)
	{
		int			item = order[i];

		if (i > 0 && j->receipts[order[i - 1]].number == j->receipts[item].number)
			j->verdicts[item] = VERDICT_DUPLICATE;
		else
		{
			j->verdicts[item] = otherwise;
			if (otherwise == VERDICT_STALE &&
				ReceiptHeld(j->q, &j->receipts[item], row))
				holder = item;
		}
	}
	return holder;
}

/*
 * act_unlocked
 *		Where to act is to delete, it is a lock too: a receipt that holds the
 *		version visible now holds the row, if that version can be deleted.
 *		False: nothing is settled, lock the row and judge what is there then.
 */
static bool
act_unlocked(Judgement *j, Locator *loc, const int *order, int n)
{
	RowLeaf    *leaf = LocateUnlocked(loc, j->receipts[order[0]].id);
	LeaseRow	row;
	int			holder;

	if (leaf == NULL)
		return false;
	LeaseReadRow(j->q, leaf->attnos, leaf->old, &row);
	if (row.finished)
		return false;
	holder = judge_items(j, order, n, VERDICT_STALE, &row);
	if (holder < 0)
		return false;
	j->unlocked = true;
	j->verdicts[holder] = j->act(j, leaf, &row, holder);
	j->unlocked = false;
	return j->verdicts[holder] != VERDICT_AGAIN;
}

/*
 * judge_row
 *		All receipts of one id: order[0] to order[n - 1].
 */
static void
judge_row(Judgement *j, Locator *loc, LockTupleMode mode, const int *order,
		  int n)
{
	RowLeaf    *leaf = NULL;
	LeaseRow	row;
	Verdict		otherwise = VERDICT_GONE;
	int			holder;

	if (j->try_unlocked && act_unlocked(j, loc, order, n))
		return;
	switch (LocateRow(loc, j->receipts[order[0]].id, mode, j->wait, &leaf))
	{
		case LOCATE_OK:
			LeaseReadRow(j->q, leaf->attnos, leaf->old, &row);
			if (!row.finished)
				otherwise = VERDICT_STALE;
			break;
		case LOCATE_LOCKED:
			otherwise = VERDICT_LOCKED;
			break;
		default:
			break;
	}
	holder = judge_items(j, order, n, otherwise, &row);
	if (holder >= 0)
		j->verdicts[holder] = j->act(j, leaf, &row, holder);
}

/*
 * begin_run
 *		See how far the ids go on without great gaps from order[i]; returns the
 *		first item that is not among them.
 */
static int
begin_run(Judgement *j, Locator *loc, const int *order, int i, int n)
{
	int64		last = 0;
	int			k;

	if (!j->q->integer_id)
		return n;
	for (k = i; k < n; k++)
	{
		int64		id = ReceiptIntegerId(j->q, j->receipts[order[k]].id);

		if (k > i && (uint64) id - (uint64) last > MAX_GAP)
			break;
		last = id;
	}
	if (k - i >= MIN_RUN)
		LocateRun(loc, last);
	return k;
}

/*
 * JudgeAll
 *		Judge and act; mode is how the rows are locked.
 */
void
JudgeAll(Judgement *j, LockTupleMode mode)
{
	int		   *order = palloc(j->n * sizeof(int));
	int			n = 0;
	int			run_end = 0;
	Locator		loc;

	for (int i = 0; i < j->n; i++)
	{
		if (j->receipts[i].valid)
			order[n++] = i;
	}
	qsort_arg(order, n, sizeof(int), compare_items, j);
	j->now = LeaseNow();
	WriterBegin(&j->writer, j->q);
	LocateBegin(&loc, &j->writer);
	for (int i = 0, end; i < n; i = end)
	{
		for (end = i + 1; end < n; end++)
		{
			if (ReceiptCompareIds(j->q, j->receipts[order[i]].id,
								  j->receipts[order[end]].id) != 0)
				break;
		}
		if (i >= run_end)
			run_end = begin_run(j, &loc, order, i, n);
		judge_row(j, &loc, mode, order + i, end - i);
	}
	LocateEnd(&loc);
	WriterEnd(&j->writer);
}

/*
 * JudgeRequireWritten
 *		A row that its holder may change but a trigger or policy keeps from
 *		being changed is an error: a verdict would say something else.
 */
void
JudgeRequireWritten(Judgement *j, bool written)
{
	if (!written)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a row of queue \"%s\" could not be changed",
						j->q->relname),
				 errdetail("A trigger or a row security policy of the table kept it as it is.")));
}
