/*-------------------------------------------------------------------------
 *
 * judge.h
 *	  Judge receipts by the rows they name; see judge.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_JUDGE_H
#define INBOX_JUDGE_H

#include "lease.h"
#include "nodes/lockoptions.h"
#include "receipt.h"
#include "write.h"

typedef enum Verdict
{
	VERDICT_OK,
	VERDICT_DEAD,				/* buried */
	VERDICT_STALE,				/* the row is no longer held by this receipt */
	VERDICT_GONE,				/* no such row, or finished */
	VERDICT_DUPLICATE,			/* named twice in one call */
	VERDICT_INVALID,			/* NULL or malformed */
	VERDICT_LOCKED,				/* not judged: somebody is changing the row;
								 * only when told not to wait */
	VERDICT_AGAIN				/* judge.c's own: lock it first */
} Verdict;

typedef struct Judgement Judgement;

/*
 * What to do for the receipt that holds the row locked in leaf->old.  Where
 * j->unlocked is set, it is not locked: the answer may be VERDICT_AGAIN, and
 * nothing done.
 */
typedef Verdict (*JudgeAct) (Judgement *j, RowLeaf *leaf, const LeaseRow *row,
							 int item);

/* The receipts of one call; settle and extend embed it in their own state. */
struct Judgement
{
	Queue	   *q;
	int			n;
	Receipt    *receipts;
	Verdict    *verdicts;
	TimestampTz now;			/* the call's one instant */
	LockWaitPolicy wait;
	RowWriter	writer;
	JudgeAct	act;
	bool		try_unlocked;	/* it may be asked for that */
	bool		unlocked;
};

extern const char *VerdictName(Verdict verdict);
extern void JudgeInit(Judgement *j, Queue *q, Datum *receipts, bool *nulls,
					  int n, JudgeAct act);
extern void JudgeAll(Judgement *j, LockTupleMode mode);
extern void JudgeRequireWritten(Judgement *j, bool written);

#endif							/* INBOX_JUDGE_H */
