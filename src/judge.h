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
#include "receipt.h"
#include "write.h"

typedef enum Verdict
{
	VERDICT_OK,
	VERDICT_DEAD,				/* buried */
	VERDICT_STALE,				/* the row is no longer held by this receipt */
	VERDICT_GONE,				/* no such row, or finished */
	VERDICT_DUPLICATE,			/* named twice in one call */
	VERDICT_INVALID				/* NULL or malformed */
} Verdict;

typedef struct Judgement Judgement;

/* What to do for the receipt that holds the row locked in leaf->old. */
typedef Verdict (*JudgeAct) (Judgement *j, RowLeaf *leaf, const LeaseRow *row,
							 int item);

/* The same for a row that is not locked; false when it has to be. */
typedef bool (*JudgeQuickAct) (Judgement *j, RowLeaf *leaf,
							   const LeaseRow *row, int item);

/* The receipts of one call; settle and extend embed it in their own state. */
struct Judgement
{
	Queue	   *q;
	int			n;
	Receipt    *receipts;
	Verdict    *verdicts;
	TimestampTz now;			/* the call's one instant */
	RowWriter	writer;
	JudgeAct	act;
	JudgeQuickAct quick;		/* or NULL */
};

extern const char *VerdictName(Verdict verdict);
extern void JudgeInit(Judgement *j, Queue *q, Datum *receipts, bool *nulls,
					  int n, JudgeAct act);
extern void JudgeAll(Judgement *j, LockTupleMode mode);
extern void JudgeRequireWritten(Judgement *j, bool written);

#endif							/* INBOX_JUDGE_H */
