/*-------------------------------------------------------------------------
 *
 * receipt.h
 *	  Receipts: the opaque proof that a delivery is still its holder's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_RECEIPT_H
#define INBOX_RECEIPT_H

#include "lease.h"

/* A receipt a client sent, taken apart. */
typedef struct Receipt
{
	bool		valid;			/* false: NULL or malformed */
	Datum		id;				/* of the id column's type */
	int64		number;
} Receipt;

extern Size ReceiptShmemSize(void);
extern void ReceiptShmemInit(void);

extern TimestampTz ReceiptInstant(TimestampTz now, const LeaseRow *row);
extern TimestampTz ReceiptExpiry(TimestampTz expiry);

extern bool ReceiptParseId(Queue *q, const char *str, Datum *id);
extern int	ReceiptCompareIds(Queue *q, Datum a, Datum b);
extern Datum ReceiptId(Queue *q, const AttrNumber *attnos,
					   TupleTableSlot *slot);
extern int64 ReceiptIntegerId(Queue *q, Datum id);
extern char *ReceiptIdText(Queue *q, Datum id);
extern void ReceiptParse(Queue *q, text *receipt, Receipt *result);
extern int64 ReceiptNumber(Queue *q, const LeaseRow *row);
extern char *ReceiptText(Queue *q, Datum id, const LeaseRow *row);
extern bool ReceiptHeld(Queue *q, const Receipt *receipt, const LeaseRow *row);

#endif							/* INBOX_RECEIPT_H */
