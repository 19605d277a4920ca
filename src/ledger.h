/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  Outstanding leases, by the time they end; see hints.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LEDGER_H
#define INBOX_LEDGER_H

#include "datatype/timestamp.h"
#include "hintkey.h"

#define COVER_OPENED	PG_INT64_MAX	/* they have been */

/* leases that end this close together share a cover, in microseconds */
#define LEDGER_GRAIN	1024

/* where the grain begins that a time is in */
static inline TimestampTz
LedgerGrain(TimestampTz t)
{
	return t - t % LEDGER_GRAIN;
}

/*
 * Leases that end in an interval of time, and the keys they lie between.
 */
typedef struct Cover
{
	TimestampTz first;			/* whole grains: the interval begins here, */
	TimestampTz last;			/* and ends before this */
	TimestampTz look;			/* when the keys are to be opened, or: */
	int64		count;			/* leases entered and not yet taken off */
	uint64		sum;			/* of their hashes; zero when all are */
	bool		keep;			/* stays until its time, whatever its count */
	HintRange	keys;
} Cover;

/* Sorted by time; the intervals do not overlap. */
typedef struct Ledger
{
	int			n;
	int			size;			/* the most there may be */
	TimestampTz next_look;		/* the earliest of all; PG_INT64_MAX: none */
	Cover	   *cover;
} Ledger;

extern void LedgerInit(Ledger *ledger, Cover *cover, int size);
extern void LedgerReset(Ledger *ledger);
extern void LedgerEnter(Ledger *ledger, TimestampTz until,
						const HintRange *keys, int64 count, uint64 sum,
						TimestampTz now);
extern void LedgerNote(Ledger *ledger, TimestampTz until, TimestampTz look,
					   const HintRange *keys, TimestampTz now);
extern Cover *LedgerFind(Ledger *ledger, TimestampTz until,
						 const HintRange *keys);
extern void LedgerTakeOff(Ledger *ledger, Cover *cover, int64 count,
						  uint64 sum);
extern int	LedgerDue(Ledger *ledger, TimestampTz now, HintRange *keys);

#endif							/* INBOX_LEDGER_H */
