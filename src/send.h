/*-------------------------------------------------------------------------
 *
 * send.h
 *	  Sending: the steps between the SQL functions and the table.
 *
 * send.c checks the arguments, sendvalue.c turns them into columns of the
 * table's own types, and senddirect.c, sendinsert.c or dedup.c writes them;
 * sendtarget.c knows what the table is like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SEND_H
#define INBOX_SEND_H

#include "args.h"
#include "fmgr.h"
#include "queue.h"

/* One column that a send may fill. */
typedef struct SendField
{
	Oid			arraytype;		/* InvalidOid: rows are written one by one */
	int32		typmod;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	bool		not_null;
	bool		generated;
	Node	   *default_expr;	/* NULL: none */
} SendField;

/* What a send must know of a queue's table; lives as long as its entry. */
typedef struct SendTarget
{
	SendField	field[NUM_QUEUE_ROLES];
	bool		id_returned;	/* the server makes the id; see sendtarget.c */
	bool		id_missing;		/* nothing makes an id at all */
	Oid			dedup_index;	/* once looked for */
	FmgrInfo	id_out;
	FmgrInfo	payload_in;
	Oid			payload_ioparam;
	bool		payload_nested; /* an array or composite type */
	struct SendPlain *plain;	/* sendplain.c's, once looked for */
} SendTarget;

/*
 * Rows about to be written, by column.  A column that is not used takes the
 * table's default.
 */
typedef struct SendColumn
{
	bool		used;
	bool		shared;			/* one value, at 0, for all rows */
	Datum	   *values;
	bool	   *nulls;
} SendColumn;

typedef struct SendRows
{
	Queue	   *q;
	SendTarget *target;
	int			n;
	bool		id_returned;	/* ids are not among the columns */
	MemoryContext cxt;			/* where ids are made; outlives SPI */
	SendColumn	col[NUM_QUEUE_ROLES];
} SendRows;

/* Shapes of statements: the roles used as bits, and these. */
#define SEND_ARRAYS			(1 << NUM_QUEUE_ROLES)
#define SEND_DEDUP			(1 << (NUM_QUEUE_ROLES + 1))
#define SEND_FIND			(1 << (NUM_QUEUE_ROLES + 2))
#define SEND_POPULATE		(1 << (NUM_QUEUE_ROLES + 3))

/* sendtarget.c */
extern SendTarget *SendTargetGet(Queue *q);
extern bool SendTargetReturnsId(Queue *q);
extern void SendTargetCheckDedup(Queue *q);

/* sendvalue.c */
extern void SendValueIds(SendRows *rows);
extern void SendValuePayloads(SendRows *rows, const ArgArray *payloads);
extern void SendValueHeaders(SendRows *rows, const ArgArray *headers);
extern void SendValueKeys(SendRows *rows, Role role, const ArgArray *keys);
extern void SendValueShared(SendRows *rows, Role role, Datum value);
extern text *SendValueIdText(SendTarget *target, Datum id);

/* sendinsert.c */
extern void SendInsert(SendRows *rows, text **ids);
extern uint64 SendInsertRun(SendRows *rows, int from, int count, bool dedup,
							Snapshot snapshot);
extern bool SendInsertByArray(SendRows *rows);
extern SendRows *SendInsertPick(SendRows *rows, const int *index, int n);
extern text *SendInsertIdText(SendRows *rows, int i);
extern Datum SendInsertArray(SendRows *rows, Role role, int from, int count);

/* dedup.c */
extern void DedupSend(SendRows *rows, text **ids);

/* dedupfind.c */
extern void DedupFind(SendRows *rows, int from, int count, text **ids);

#endif							/* INBOX_SEND_H */
