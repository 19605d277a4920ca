/*-------------------------------------------------------------------------
 *
 * position.h
 *	  Where claimable rows may be: positions and revisits; see hints.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_POSITION_H
#define INBOX_POSITION_H

#include "hintkey.h"

#define MAX_OPEN	64			/* ranges a queue can have open */
#define LOG_SIZE	256			/* openings a queue remembers */

/*
 * The keys at which claimable rows may be: ranges in key order that neither
 * overlap nor touch.  Each range that ends with a level of priority, or with
 * all keys, is the position of that level; the others are revisits.
 */
typedef struct OpenSet
{
	int64		overflows;		/* how often there was no room */
	int			n;
	HintRange	range[MAX_OPEN];
} OpenSet;

/*
 * The openings of late: how many there have been, and the lowest key of each
 * of the last LOG_SIZE.
 */
typedef struct OpenLog
{
	uint64		generation;
	HintKey		lowest[LOG_SIZE];
} OpenLog;

extern void OpenAll(OpenSet *set);
extern bool OpenAdd(OpenSet *set, const HintRange *range);
extern void OpenCut(OpenSet *set, const HintRange *range);
extern bool OpenContains(const OpenSet *set, const HintKey *key);
extern bool OpenEnd(const OpenSet *set, const HintKey *key, HintKey *end);

extern void LogAdd(OpenLog *log, const HintKey *lowest);
extern bool LogLowestSince(const OpenLog *log, uint64 generation,
						   HintKey *lowest);

#endif							/* INBOX_POSITION_H */
