/*-------------------------------------------------------------------------
 *
 * deliver.h
 *	  Deliveries: claimed rows in the shape that was asked for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DELIVER_H
#define INBOX_DELIVER_H

#include "access/tupconvert.h"
#include "fmgr.h"
#include "hintkey.h"
#include "nodes/execnodes.h"
#include "write.h"

typedef enum DeliveryShape
{
	SHAPE_DELIVERY,				/* inbox_delivery */
	SHAPE_IDS,					/* id, receipt, attempt, locked_until */
	SHAPE_ROW,					/* the queue's own row type */
	SHAPE_KEPT					/* kept as it is, for later */
} DeliveryShape;

/*
 * A row that was claimed in an earlier transaction.  Nothing of it is looked
 * at but what the receipt is made of: its payload may be unreadable.
 */
typedef struct KeptRow
{
	char	   *receipt;
	Oid			relid;			/* where it lies */
	TupleDesc	desc;			/* of that table then */
	HeapTuple	tuple;
	CommandId	begun;			/* what the handler does has this, or later */
} KeptRow;

typedef struct DeliverySink
{
	Queue	   *q;
	DeliveryShape shape;
	MemoryContext cxt;			/* of the whole call */
	ReturnSetInfo *rsinfo;		/* NULL: SHAPE_KEPT */
	List	   *kept;			/* of KeptRow */
	FmgrInfo	to_jsonb[NUM_QUEUE_ROLES];	/* set up at first use */
	RowLeaf    *map_leaf;		/* the leaf that "map" converts from */
	TupleConversionMap *map;
	/* rows that come in another order than they are returned in */
	bool		sorts;
	struct SortedRow *rows;
	int			nrows;
	int			size;
} DeliverySink;

extern void DeliverCheckRights(Queue *q, DeliveryShape shape);
extern void DeliverBegin(DeliverySink *sink, FunctionCallInfo fcinfo,
						 Queue *q, DeliveryShape shape);
extern void DeliverBeginKept(DeliverySink *sink, Queue *q);
extern void DeliverForm(DeliverySink *sink, RowLeaf *leaf,
						TupleTableSlot *slot, TupleDesc desc,
						Datum *values, bool *nulls);
extern Datum DeliverPayload(DeliverySink *sink, RowLeaf *leaf,
							TupleTableSlot *slot, bool *isnull);
extern void DeliverRow(DeliverySink *sink, RowLeaf *leaf, TupleTableSlot *slot);

/* deliversort.c */
extern void DeliverLater(DeliverySink *sink, RowLeaf *leaf,
						 TupleTableSlot *slot, Datum *values, bool *nulls);
extern int	DeliverOrder(Queue *q, const HintKey *a, Datum a_id,
						 const HintKey *b, Datum b_id);
extern void DeliverSorted(DeliverySink *sink);

#endif							/* INBOX_DELIVER_H */
