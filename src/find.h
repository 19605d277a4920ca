/*-------------------------------------------------------------------------
 *
 * find.h
 *	  The one place that finds claimable rows; see find.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_FIND_H
#define INBOX_FIND_H

#include "executor/spi.h"
#include "group.h"
#include "lease.h"
#include "walk.h"

typedef struct Finder
{
	Queue	   *q;
	TimestampTz now;
	text	   *group;			/* only rows of this group_key, or NULL */
	GroupFind  *groups;			/* of a FIFO queue; all below unused */
	const KeyShare *share;		/* only rows of this share, or NULL */
	bool		walking;		/* without SQL; all below but "walk" unused */
	Walk		walk;
	uint64		chunk;			/* how many rows to read at a time */
	/* where we are */
	bool		started;
	bool		null_level;		/* reading the rows without a priority */
	int64		level;			/* the priority being read */
	Portal		portal;			/* open on that level, or NULL */
	SPITupleTable *rows;
	uint64		nrows;
	uint64		next;
} Finder;

extern void FindBegin(Finder *f, RowWriter *w, TimestampTz now, text *group,
					  int64 max_rows);
extern void FindPeek(Finder *f);
extern void FindShare(Finder *f, const KeyShare *share);
extern void FindWantDue(Finder *f);
extern TimestampTz FindNextDue(Finder *f);
extern bool FindNext(Finder *f, Oid *relid, ItemPointer tid);
extern bool FindSelective(const Finder *f);
extern void FindTook(Finder *f, bool taken);
extern LeaseKind FindLeaseKind(Finder *f, const LeaseRow *row);
extern void FindStop(Finder *f);
extern void FindEnd(Finder *f);

/* findsql.c */
extern bool FindSqlNext(Finder *f, Oid *relid, ItemPointer tid);

#endif							/* INBOX_FIND_H */
