/*-------------------------------------------------------------------------
 *
 * burial.h
 *	  One row on its way to the dead letters; shared by bury.c and
 *	  burygroup.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_BURIAL_H
#define INBOX_BURIAL_H

#include "bury.h"
#include "lease.h"
#include "lib/stringinfo.h"

typedef struct Burial
{
	Queue	   *q;
	RowLeaf    *leaf;			/* the row is in leaf->old */
	LeaseRow	row;
	Datum		id;
	TimestampTz died_at;
	BuryCause	cause;
	const char *error;			/* or NULL */
	int64		attempt;		/* deliveries made */
} Burial;

extern Datum BurialValue(const Burial *b, Role role, bool *isnull);
extern char *BurialId(const Burial *b);
extern Datum BurialEntry(const Burial *b);
extern void BurialPutJson(StringInfo buf, const char *key, const char *value);
extern RowLeaf *BurialLeaf(const Burial *b, RowWriter *w);

/* burygroup.c */
extern void BurialChangeGroup(const Burial *b);

#endif							/* INBOX_BURIAL_H */
