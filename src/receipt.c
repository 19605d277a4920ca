/*-------------------------------------------------------------------------
 *
 * receipt.c
 *	  Receipts: the opaque proof that a delivery is still its holder's.
 *
 * A receipt is the text <id>@<number>.  Where the table keeps claimed_at, the
 * number is the row's claim instant in microseconds since 1970.  It grows
 * with each claim of the row, whatever the clock does, and an extension
 * leaves it alone, so a holder cannot lose to its own heartbeat.  Where a
 * table has no claimed_at, the number is the expiry, and each extension makes
 * a new one.
 *
 * No two leases of a queue share a number.  For that a claim instant is
 * drawn from a counter in shared memory that never repeats and never falls
 * behind the clock; an expiry, which must stay near its time, gets its low
 * ten bits from a second counter, which repeats after 1024 leases, at a
 * million leases a second still a later millisecond; and leases of one call,
 * which begin at one instant, end that much later.  Without
 * shared_preload_libraries both counters are this backend's own, and the row
 * alone guarantees that its own claim instants grow.
 *
 * An id reads back only in the form in which we write it: one receipt has one
 * text.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "port/atomics.h"
#include "receipt.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#define UNIX_EPOCH_USECS \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

#define EXPIRY_BITS		10
#define EXPIRY_MASK		((INT64CONST(1) << EXPIRY_BITS) - 1)

typedef struct ReceiptShared
{
	pg_atomic_uint64 instant;	/* last claim instant handed out */
	pg_atomic_uint64 expiries;	/* how many expiries were handed out */
} ReceiptShared;

static ReceiptShared own;		/* without shared memory; zero is a start */
static ReceiptShared *shared = &own;

Size
ReceiptShmemSize(void)
{
	return sizeof(ReceiptShared);
}

/*
 * ReceiptShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
ReceiptShmemInit(void)
{
	bool		found;

	shared = ShmemInitStruct("inbox receipts", sizeof(ReceiptShared), &found);
	if (!found)
	{
		pg_atomic_init_u64(&shared->instant, 0);
		pg_atomic_init_u64(&shared->expiries, 0);
	}
}

/*
 * ReceiptInstant
 *		A claim instant: now, or as little later as makes it greater than
 *		every one handed out before and than the row's last one.  A row that
 *		is ahead, from another server or a clock that was stepped back, does
 *		not draw the counter along.
 */
TimestampTz
ReceiptInstant(TimestampTz now, const LeaseRow *row)
{
	uint64		last = pg_atomic_read_u64(&shared->instant);
	int64		next;

	do
	{
		next = Max(now, (int64) last + 1);
	} while (!pg_atomic_compare_exchange_u64(&shared->instant, &last,
											 (uint64) next));
	if (row->claimed && row->claimed_at >= next &&
		!TIMESTAMP_NOT_FINITE(row->claimed_at))
		next = row->claimed_at + 1;
	return next;
}

/*
 * ReceiptExpiry
 *		Move an expiry by less than two thousandths of a second, upward, so
 *		that it is unlike any other.  Where one call makes more leases than
 *		that has room for, they go on into the next thousandth.
 */
TimestampTz
ReceiptExpiry(TimestampTz expiry)
{
	static TimestampTz last_expiry;
	static int64 first_turn;
	int64		turn = (int64) pg_atomic_fetch_add_u64(&shared->expiries, 1);

	if (expiry != last_expiry)
	{
		last_expiry = expiry;
		first_turn = turn;
	}
	expiry += (turn - first_turn) & ~EXPIRY_MASK;
	return ((expiry + EXPIRY_MASK) & ~EXPIRY_MASK) + (turn & EXPIRY_MASK);
}

static bool
parse_number(const char *str, int64 min, int64 max, int64 *value)
{
	const char *digits = str + (*str == '-');
	size_t		len = strlen(digits);
	int64		v;

	if (len == 0 || len > 19 || strspn(digits, "0123456789") != len)
		return false;
	if (digits[0] == '0' && (len > 1 || digits != str))
		return false;
	errno = 0;
	v = strtoi64(str, NULL, 10);
	if (errno != 0 || v < min || v > max)
		return false;
	*value = v;
	return true;
}

static bool
is_uuid(const char *str)
{
	for (int i = 0; i < 36; i++)
	{
		bool		dash = (i == 8 || i == 13 || i == 18 || i == 23);

		if (dash ? str[i] != '-' :
			(str[i] == '\0' || strchr("0123456789abcdef", str[i]) == NULL))
			return false;
	}
	return str[36] == '\0';
}

/*
 * ReceiptParseId
 *		An id's text as a value of the id column's type; false when it is not
 *		one as we write it.
 */
bool
ReceiptParseId(Queue *q, const char *str, Datum *id)
{
	int64		value;

	switch (q->col[ROLE_ID].type)
	{
		case INT8OID:
			if (!parse_number(str, PG_INT64_MIN, PG_INT64_MAX, &value))
				return false;
			*id = Int64GetDatum(value);
			return true;
		case INT4OID:
			if (!parse_number(str, PG_INT32_MIN, PG_INT32_MAX, &value))
				return false;
			*id = Int32GetDatum((int32) value);
			return true;
		case UUIDOID:
			if (!is_uuid(str))
				return false;
			*id = DirectFunctionCall1(uuid_in, CStringGetDatum(str));
			return true;
		default:
			*id = CStringGetTextDatum(str);
			return true;
	}
}

/*
 * ReceiptCompareIds
 *		Any total order will do, as long as all calls lock rows in it.
 */
int
ReceiptCompareIds(Queue *q, Datum a, Datum b)
{
	switch (q->col[ROLE_ID].type)
	{
		case INT8OID:
			return (DatumGetInt64(a) > DatumGetInt64(b)) -
				(DatumGetInt64(a) < DatumGetInt64(b));
		case INT4OID:
			return (DatumGetInt32(a) > DatumGetInt32(b)) -
				(DatumGetInt32(a) < DatumGetInt32(b));
		case UUIDOID:
			return memcmp(DatumGetUUIDP(a), DatumGetUUIDP(b), UUID_LEN);
		default:
			{
				text	   *ta = DatumGetTextPP(a);
				text	   *tb = DatumGetTextPP(b);
				int			la = VARSIZE_ANY_EXHDR(ta);
				int			lb = VARSIZE_ANY_EXHDR(tb);
				int			cmp = memcmp(VARDATA_ANY(ta), VARDATA_ANY(tb),
										 Min(la, lb));

				return cmp != 0 ? cmp : la - lb;
			}
	}
}

/*
 * ReceiptId
 *		The id of a row version.  The queue's id column allows no nulls, but
 *		that of an inheritance child may.
 */
Datum
ReceiptId(Queue *q, const AttrNumber *attnos, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		id = slot_getattr(slot, attnos[ROLE_ID], &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("a row of queue \"%s\" has no id", q->relname),
				 errdetail("It is in table \"%s\".",
						   get_rel_name(slot->tts_tableOid)),
				 errhint("Give it an id, and make the column NOT NULL there too.")));
	return id;
}

static char *
integer_text(int64 value)
{
	char	   *str = palloc(MAXINT8LEN + 1);

	pg_lltoa(value, str);
	return str;
}

/*
 * ReceiptIntegerId
 *		An id of a queue whose ids are integers.
 */
int64
ReceiptIntegerId(Queue *q, Datum id)
{
	return q->col[ROLE_ID].type == INT4OID ? DatumGetInt32(id) : DatumGetInt64(id);
}

char *
ReceiptIdText(Queue *q, Datum id)
{
	switch (q->col[ROLE_ID].type)
	{
		case INT8OID:
			return integer_text(DatumGetInt64(id));
		case INT4OID:
			return integer_text(DatumGetInt32(id));
		case UUIDOID:
			return DatumGetCString(DirectFunctionCall1(uuid_out, id));
		default:
			return TextDatumGetCString(id);
	}
}

/*
 * ReceiptParse
 *		Take a receipt apart, at its last @; NULL or malformed: not valid.
 */
void
ReceiptParse(Queue *q, text *receipt, Receipt *result)
{
	char	   *str;
	char	   *at;

	result->valid = false;
	if (receipt == NULL)
		return;
	str = text_to_cstring(receipt);
	at = strrchr(str, '@');
	if (at == NULL)
		return;
	*at = '\0';
	result->valid = parse_number(at + 1, 0, PG_INT64_MAX, &result->number) &&
		ReceiptParseId(q, str, &result->id);
}

/*
 * ReceiptNumber
 *		The number that a holder of this row version shows.
 */
int64
ReceiptNumber(Queue *q, const LeaseRow *row)
{
	if (!QueueHas(q, ROLE_CLAIMED_AT))
		return row->locked_until + UNIX_EPOCH_USECS;
	return row->claimed ? row->claimed_at + UNIX_EPOCH_USECS : -1;
}

char *
ReceiptText(Queue *q, Datum id, const LeaseRow *row)
{
	char	   *of = ReceiptIdText(q, id);
	size_t		len = strlen(of);
	char	   *str = palloc(len + 1 + MAXINT8LEN + 1);

	memcpy(str, of, len);
	str[len] = '@';
	pg_lltoa(ReceiptNumber(q, row), str + len + 1);
	return str;
}

/*
 * ReceiptHeld
 *		Rule 6.  The clock has no say: a holder whose lease has ended holds
 *		its row until somebody else takes it.
 */
bool
ReceiptHeld(Queue *q, const Receipt *receipt, const LeaseRow *row)
{
	return row->leased && !row->resting && !row->finished &&
		ReceiptNumber(q, row) == receipt->number;
}

PG_FUNCTION_INFO_V1(inbox_receipt);

/*
 * inbox_receipt
 *		The receipt of a row that a claim by row type returned; NULL when the
 *		row is not leased.
 */
Datum
inbox_receipt(PG_FUNCTION_ARGS)
{
	HeapTupleHeader header;
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	HeapTupleData tuple;
	TupleDesc	desc;
	TupleTableSlot *slot;
	AttrNumber	attnos[NUM_QUEUE_ROLES];
	LeaseRow	row;
	Queue	   *q;
	Datum		id;
	bool		isnull;
	char	   *receipt = NULL;

	if (!OidIsValid(get_typ_typrelid(type)))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("inbox_receipt takes a row of a queue, not a value of type %s",
						format_type_be(type)),
				 errhint("Select from the queue itself, as in SELECT inbox_receipt(q) FROM some_queue q.")));
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	q = QueueOpenType(type, AccessShareLock);
	header = PG_GETARG_HEAPTUPLEHEADER(0);
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	desc = lookup_rowtype_tupdesc(type, -1);
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	ExecStoreHeapTuple(&tuple, slot, false);
	for (int role = 0; role < NUM_QUEUE_ROLES; role++)
		attnos[role] = q->col[role].attno;
	LeaseReadRow(q, attnos, slot, &row);
	id = slot_getattr(slot, attnos[ROLE_ID], &isnull);
	if (!isnull && row.leased && !row.resting && !row.finished && ReceiptNumber(q, &row) >= 0)
		receipt = ReceiptText(q, id, &row);
	ExecDropSingleTupleTableSlot(slot);
	ReleaseTupleDesc(desc);
	QueueClose(q);
	if (receipt == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(receipt));
}
