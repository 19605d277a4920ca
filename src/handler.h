/*-------------------------------------------------------------------------
 *
 * handler.h
 *	  The function that a subscription calls for each message; see handler.c
 *	  and decode.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HANDLER_H
#define INBOX_HANDLER_H

#include "deliver.h"
#include "fmgr.h"

/* What its argument is made of. */
typedef enum HandlerKind
{
	HANDLER_JSONB,				/* the payload as it is */
	HANDLER_DECODED,			/* the payload, decoded into another type */
	HANDLER_DELIVERY,			/* inbox_delivery */
	HANDLER_ROW					/* the queue's row type */
} HandlerKind;

/* Good for one transaction, or shorter. */
typedef struct Handler
{
	Oid			function;
	HandlerKind kind;
	Oid			argtype;
	Oid			collation;
	bool		strict;
	bool		procedure;
	FmgrInfo	flinfo;
	Queue	   *q;
	DeliverySink sink;			/* makes deliveries and payloads */
	MemoryContext cxt;
	TupleDesc	desc;			/* of the delivery or row */
	/* decode.c */
	FmgrInfo	to_record;
	TupleDesc	record;			/* one column of the argument's type */
	/* the table that the row at hand lies in */
	RowLeaf		leaf;
	TupleTableSlot *slot;
} Handler;

extern const char *HandlerProblem(Oid function, Oid queue, const char **hint,
								  HandlerKind *kind);
extern void HandlerOpen(Handler *h, Oid function, Queue *q);
extern bool HandlerShow(Handler *h, KeptRow *row);
extern Datum HandlerDecode(Handler *h, bool *isnull);
extern void HandlerCall(Handler *h, Datum arg, bool isnull);
extern void HandlerClose(Handler *h);

/* decode.c */
extern void DecodeBegin(Handler *h);
extern Datum DecodePayload(Handler *h, Datum payload, bool payload_null,
						   bool *isnull);

#endif							/* INBOX_HANDLER_H */
