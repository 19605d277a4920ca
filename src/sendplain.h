/*-------------------------------------------------------------------------
 *
 * sendplain.h
 *	  Tables that a send writes without SQL; see sendplain.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SENDPLAIN_H
#define INBOX_SENDPLAIN_H

#include "access/tupdesc.h"
#include "send.h"

/* How a column that a send leaves out gets its value. */
typedef enum PlainKind
{
	PLAIN_CONSTANT,				/* it is in the template */
	PLAIN_NOW,					/* the start of the transaction */
	PLAIN_ONCE,					/* evaluated once for all rows of a call */
	PLAIN_EACH					/* evaluated for each row */
} PlainKind;

typedef struct PlainColumn
{
	PlainKind	kind;
	Expr	   *expr;
} PlainColumn;

typedef struct SendPlain
{
	bool		usable;			/* the table is plain; else nothing else
								 * counts */
	bool		constraints;
	bool		user_code;		/* needs a snapshot of its own */
	bool		one_by_one;
	TupleDesc	desc;			/* not counted, so that slots are cheap */
	PlainColumn *col;			/* by column of the table */
	Datum	   *value;			/* the template, likewise */
	bool	   *isnull;
} SendPlain;

extern SendPlain *SendPlainGet(SendRows *rows, Relation rel);

/* senddirect.c */
extern bool SendDirect(SendRows *rows);

#endif							/* INBOX_SENDPLAIN_H */
