/*-------------------------------------------------------------------------
 *
 * hints.h
 *	  What the server remembers of a queue's order, so that no claim steps
 *	  over what is dead or leased; see hints.c for the protocol.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HINTS_H
#define INBOX_HINTS_H

#include "ledger.h"
#include "position.h"
#include "queue.h"

typedef struct QueueHints QueueHints;

/*
 * Which ledger a lease is entered in: rows taken at a level's position, and
 * rows taken again, by how often before; each lies in another stretch of the
 * claim order.
 */
typedef enum LeaseKind
{
	LEASE_NEW,
	LEASE_REVISITED,
	LEASE_SECOND,
	LEASE_LATER,
	LEASE_EXTENDED				/* has been extended since */
} LeaseKind;

#define NUM_LEASE_KINDS		(LEASE_EXTENDED + 1)

/*
 * The same for a lease that a walk has met: by how often the row has been
 * delivered.
 */
typedef enum NoteKind
{
	NOTE_FIRST,
	NOTE_SECOND,
	NOTE_LATER,
	NOTE_DELAYED				/* no lease: rows that are not due */
} NoteKind;

#define NUM_NOTE_KINDS		(NOTE_DELAYED + 1)

/* What a claim knows of the hints: rule 2. */
typedef struct HintView
{
	QueueHints *hints;			/* NULL: none, everything may be claimable */
	uint64		generation;
	OpenSet		open;
} HintView;

/* What became of an attempt to reserve a run of rows. */
typedef enum ReserveResult
{
	RESERVE_DONE,
	RESERVE_LIMITED,			/* rule 3 forbids it */
	RESERVE_PASSED				/* others have passed it already */
} ReserveResult;

/* What an operator is shown. */
typedef struct HintsState
{
	OpenSet		open;
	int			covers;
	int64		falls;			/* how often something was forgotten */
} HintsState;

/* hinttable.c */
extern Size HintsShmemSize(void);
extern void HintsShmemInit(void);
extern bool HintsPresent(void);
extern QueueHints *HintsFor(Queue *q);
extern QueueHints *HintsForTable(Oid relid);
extern void HintsUntold(Oid relid);
extern int	HintsNumber(const QueueHints *hints);
extern void HintsForgetGone(List *relids);
extern void HintsForgetDatabase(Oid database);
extern void HintsOpenDatabase(void);
extern void HintsClaiming(TransactionId xid);
extern bool HintsIsClaimer(TransactionId xid);

/* hintkey.c */
extern void KeysOfRow(Queue *q, const AttrNumber *attnos,
					  TupleTableSlot *slot, HintRange *keys);

/* hintwalk.c */
extern void HintsRead(HintView *view, QueueHints *hints, TimestampTz now);
extern void HintsPass(HintView *view, const HintRange *passed);
extern ReserveResult HintsReserve(HintView *view, const HintKey *key,
								  HintRange *run);
extern void HintsPassLeased(HintView *view, NoteKind kind,
							TimestampTz until, TimestampTz look, TimestampTz claimed,
							const HintRange *keys, TimestampTz now);
extern bool HintsPassDelayed(HintView *view, TimestampTz due,
							 TimestampTz look, const HintRange *keys,
							 TimestampTz now);
extern bool HintsPassLocked(HintView *view, const HintRange *keys,
							TimestampTz now);
extern uint64 HintsGeneration(QueueHints *hints);
extern bool HintsLowestSince(QueueHints *h, uint64 generation, HintKey *lowest);
extern bool HintsNoneBefore(QueueHints *hints, uint64 generation,
							const HintKey *key);
extern bool HintsContains(QueueHints *hints, const HintKey *key);

/* hintdue.c */
extern TimestampTz HintsNextLook(QueueHints *hints);

/* hints.c */
extern void HintsOpen(QueueHints *hints, const HintRange *keys);
extern void HintsOpenAll(QueueHints *hints);
extern void HintsDistrust(QueueHints *hints);
extern void HintsEnter(QueueHints *hints, LeaseKind kind, TimestampTz until,
					   const HintRange *keys, int64 count, uint64 sum);
extern void HintsNote(QueueHints *hints, TimestampTz until,
					  const HintRange *keys);
extern void HintsTakeOff(QueueHints *hints, TimestampTz until,
						 const HintRange *keys, int64 count, uint64 sum);
extern void HintsWatch(QueueHints *hints, const HintRange *keys,
					   TransactionId xid);
extern void HintsLook(QueueHints *hints, HintsState *state);

#endif							/* INBOX_HINTS_H */
