/*-------------------------------------------------------------------------
 *
 * senddirect.c
 *	  Write the rows of a send without SQL.
 *
 * For tables that sendplain.c calls plain.  Defaults are filled in,
 * constraints checked and indexes served as an INSERT would, by the same
 * functions of the executor.  Several rows go through the table's multi
 * insert, as COPY does it: up to BUFFER_ROWS rows or BUFFER_BYTES bytes at a
 * time, then their index entries.
 *
 * No strategy of bulk writing is used.  It would keep the pages of a large
 * batch out of the shared buffers, and a queue's rows are read soon.
 *
 * Statement triggers do not fire, so the hints are told and the rows are
 * counted here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "delta.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pending.h"
#include "sendplain.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#define BUFFER_ROWS		1000
#define BUFFER_BYTES	65536
#define AIM_ROWS		8

typedef struct DirectSend
{
	SendRows   *rows;
	SendPlain  *plain;
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *rri;
	CommandId	cid;
	int			natts;
	Datum	   *value;			/* a row of this call's defaults */
	bool	   *isnull;
	bool	   *given;			/* columns with values of their own */
	ExprState **each;			/* by column; NULL: nothing to evaluate */
	bool		any_each;
	AttrNumber	attnos[NUM_QUEUE_ROLES];
	int			max_slots;
	int			nslots;			/* made */
	int			used;			/* holding rows */
	Size		bytes;
	TupleTableSlot **slots;
	HintRange	keys;			/* of all rows */
} DirectSend;

static void
fill_roles(DirectSend *d)
{
	SendRows   *rows = d->rows;

	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		SendColumn *col = &rows->col[role];
		AttrNumber	attno = rows->q->col[role].attno;

		d->attnos[role] = attno;
		if (!col->used)
			continue;
		d->given[attno - 1] = true;
		if (col->shared)
		{
			d->value[attno - 1] = col->values[0];
			d->isnull[attno - 1] = col->nulls[0];
		}
	}
}

/*
 * fill_defaults
 *		Defaults that are the same for all rows of the call.  They stay until
 *		its end.
 */
static void
fill_defaults(DirectSend *d)
{
	for (int i = 0; i < d->natts; i++)
	{
		PlainColumn *col = &d->plain->col[i];
		ExprState  *state;

		if (d->given[i] || col->kind == PLAIN_CONSTANT)
			continue;
		if (col->kind == PLAIN_NOW)
		{
			d->value[i] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
			d->isnull[i] = false;
			continue;
		}
		state = ExecPrepareExpr(col->expr, d->estate);
		if (col->kind == PLAIN_ONCE)
			d->value[i] = ExecEvalExpr(state,
									   CreateExprContext(d->estate),
									   &d->isnull[i]);
		else
		{
			d->each[i] = state;
			d->any_each = true;
		}
	}
}

/*
 * prepare_target
 *		What the executor's functions need.  The columns we write are named as
 *		those being changed: error messages show them to who may not read the
 *		others.
 */
static void
prepare_target(DirectSend *d)
{
	Bitmapset **columns;

	d->estate = CreateExecutorState();
	d->cid = GetCurrentCommandId(true);
	d->estate->es_output_cid = d->cid;
	columns = MakeResultRangeTable(d->estate, d->rel);
	for (int i = 0; i < d->natts; i++)
	{
		if (d->given[i] && d->plain->constraints)
			*columns = bms_add_member(*columns, i + 1 -
									  FirstLowInvalidHeapAttributeNumber);
	}
	d->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(d->rri, d->rel, 1, NULL, 0);
	ExecOpenIndices(d->rri, false);
}

static void
begin_send(DirectSend *d, SendRows *rows, SendPlain *plain, Relation rel)
{
	memset(d, 0, sizeof(*d));
	d->rows = rows;
	d->plain = plain;
	d->rel = rel;
	d->natts = plain->desc->natts;
	d->value = palloc(sizeof(Datum) * d->natts);
	memcpy(d->value, plain->value, sizeof(Datum) * d->natts);
	d->isnull = palloc(sizeof(bool) * d->natts);
	memcpy(d->isnull, plain->isnull, sizeof(bool) * d->natts);
	d->given = palloc0(sizeof(bool) * d->natts);
	d->each = palloc0(sizeof(ExprState *) * d->natts);
	d->max_slots = plain->one_by_one ? 1 : Min(rows->n, BUFFER_ROWS);
	d->slots = palloc(sizeof(TupleTableSlot *) * d->max_slots);
	fill_roles(d);
	prepare_target(d);
	fill_defaults(d);
}

/*
 * put_row
 *		Row i in a slot.  Its values stay where they are: in the arguments, or
 *		in the context that is reset when the rows have been written.
 */
static TupleTableSlot *
put_row(DirectSend *d, int i)
{
	TupleTableSlot *slot;
	SendRows   *rows = d->rows;

	if (d->used == d->nslots)
		d->slots[d->nslots++] = MakeSingleTupleTableSlot(d->plain->desc,
														 &TTSOpsVirtual);
	slot = ExecClearTuple(d->slots[d->used++]);
	memcpy(slot->tts_values, d->value, sizeof(Datum) * d->natts);
	memcpy(slot->tts_isnull, d->isnull, sizeof(bool) * d->natts);
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
	{
		SendColumn *col = &rows->col[role];

		if (!col->used || col->shared)
			continue;
		slot->tts_values[d->attnos[role] - 1] = col->values[i];
		slot->tts_isnull[d->attnos[role] - 1] = col->nulls[i];
	}
	for (int c = 0; d->any_each && c < d->natts; c++)
	{
		if (d->each[c] != NULL)
			slot->tts_values[c] = ExecEvalExprSwitchContext(d->each[c],
															GetPerTupleExprContext(d->estate),
															&slot->tts_isnull[c]);
	}
	slot->tts_tableOid = RelationGetRelid(d->rel);
	return ExecStoreVirtualTuple(slot);
}

/*
 * payload_size
 *		What makes one row much larger than another: its payload, as it was
 *		given.  Everything else is as good as BUFFER_ROWS allows.
 */
static Size
payload_size(DirectSend *d, TupleTableSlot *slot)
{
	AttrNumber	attno = d->attnos[ROLE_PAYLOAD];

	if (d->max_slots == 1 || attno == 0 || slot->tts_isnull[attno - 1] ||
		TupleDescAttr(d->plain->desc, attno - 1)->attlen != -1)
		return 0;
	return VARSIZE_ANY(DatumGetPointer(slot->tts_values[attno - 1]));
}

/*
 * add_row
 *		Take a row up for writing.
 */
static void
add_row(DirectSend *d, int i)
{
	TupleTableSlot *slot = put_row(d, i);
	HintRange	keys;

	if (d->plain->constraints)
		ExecConstraints(d->rri, slot, d->estate);
	d->bytes += payload_size(d, slot);
	KeysOfRow(d->rows->q, d->attnos, slot, &keys);
	if (i == 0)
		d->keys = keys;
	d->keys.lo = KeyMin(&d->keys.lo, &keys.lo);
	d->keys.hi = KeyMax(&d->keys.hi, &keys.hi);
}

/*
 * aim_at_end
 *		Tell a btree to try its last leaf first.  It remembers that by itself
 *		once it is large; searching from the root for each row is a fifth of
 *		what a send costs.  No more than a guess: the index looks whether the
 *		key belongs there, and forgets the page when it does not.
 */
static void
aim_at_end(Relation index)
{
	Buffer		leaf;

	if (index->rd_rel->relam != BTREE_AM_OID ||
		RelationGetTargetBlock(index) != InvalidBlockNumber)
		return;
	leaf = BtreeLastLeaf(index);
	if (!BufferIsValid(leaf))
		return;
	RelationSetTargetBlock(index, BufferGetBlockNumber(leaf));
	UnlockReleaseBuffer(leaf);
}

/*
 * index_rows
 *		Make the index entries of the rows in the slots: one index after the
 *		other, as entries of neighbouring rows mostly go into the same page.
 *		The executor is shown one index at a time for that.
 */
static void
index_rows(DirectSend *d)
{
	ResultRelInfo *rri = d->rri;
	int			nindexes = rri->ri_NumIndices;
	RelationPtr indexes = rri->ri_IndexRelationDescs;
	IndexInfo **infos = rri->ri_IndexRelationInfo;
	int			at_once = d->used > 1 ? 1 : nindexes;

	rri->ri_NumIndices = at_once;
	for (int x = 0; x < nindexes; x += at_once)
	{
		rri->ri_IndexRelationDescs = indexes + x;
		rri->ri_IndexRelationInfo = infos + x;
		for (int i = 0; i < d->used; i++)
		{
			/* again now and then: a split makes it forget, too */
			if (d->used - i >= AIM_ROWS && i % AIM_ROWS == 0)
				aim_at_end(indexes[x]);
			(void) InsertIndexTuples(rri, d->slots[i], d->estate);
		}
	}
	rri->ri_NumIndices = nindexes;
	rri->ri_IndexRelationDescs = indexes;
	rri->ri_IndexRelationInfo = infos;
}

/*
 * write_rows
 *		Write the rows in the slots.
 */
static void
write_rows(DirectSend *d)
{
	MemoryContext old;

	/* the table may leave copies of the rows behind */
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(d->estate));
	if (d->used == 1)
		table_tuple_insert(d->rel, d->slots[0], d->cid, 0, NULL);
	else
		table_multi_insert(d->rel, d->slots, d->used, d->cid, 0, NULL);
	MemoryContextSwitchTo(old);
	index_rows(d);
	ResetPerTupleExprContext(d->estate);
	d->used = 0;
	d->bytes = 0;
}

static void
end_send(DirectSend *d)
{
	for (int i = 0; i < d->nslots; i++)
		ExecDropSingleTupleTableSlot(d->slots[i]);
	ExecCloseIndices(d->rri);
	FreeExecutorState(d->estate);
	CommandCounterIncrement();
}

/*
 * SendDirect
 *		Write all rows; false, and nothing done, when it must be SQL.
 */
bool
SendDirect(SendRows *rows)
{
	Relation	rel = table_open(rows->q->relid, NoLock);
	SendPlain  *plain = SendPlainGet(rows, rel);
	DirectSend	d;

	if (plain == NULL)
	{
		table_close(rel, NoLock);
		return false;
	}
	if (plain->user_code)
	{
		CommandCounterIncrement();
		PushActiveSnapshot(GetTransactionSnapshot());
	}
	begin_send(&d, rows, plain, rel);
	for (int i = 0; i < rows->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		add_row(&d, i);
		if (d.used == d.max_slots || d.bytes >= BUFFER_BYTES)
			write_rows(&d);
	}
	if (d.used > 0)
		write_rows(&d);
	end_send(&d);
	if (plain->user_code)
		PopActiveSnapshot();
	PendingSent(rows->q, &d.keys, rows->n);
	DeltaCount(rows->q, TOTAL_SENT, rows->n);
	table_close(rel, NoLock);
	return true;
}
