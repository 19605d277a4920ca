/*-------------------------------------------------------------------------
 *
 * hintkey.h
 *	  Places in the claim order of a queue.
 *
 * A key is (priority, due time, id), each as a 64-bit number; what the queue
 * has no column for is zero.  An id that is not an integer cannot be told
 * apart by its key: such a key stands for all rows of its due time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HINTKEY_H
#define INBOX_HINTKEY_H

typedef struct HintKey
{
	int64		priority;
	int64		due;
	int64		id;
} HintKey;

/* both ends belong to it */
typedef struct HintRange
{
	HintKey		lo;
	HintKey		hi;
} HintRange;

#define KEY_FIRST	((HintKey) {PG_INT64_MIN, PG_INT64_MIN, PG_INT64_MIN})
#define KEY_LAST	((HintKey) {PG_INT64_MAX, PG_INT64_MAX, PG_INT64_MAX})

static inline int
KeyCompare(const HintKey *a, const HintKey *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->due != b->due)
		return a->due < b->due ? -1 : 1;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return 0;
}

static inline HintKey
KeyMin(const HintKey *a, const HintKey *b)
{
	return KeyCompare(a, b) <= 0 ? *a : *b;
}

static inline HintKey
KeyMax(const HintKey *a, const HintKey *b)
{
	return KeyCompare(a, b) >= 0 ? *a : *b;
}

/* the key just before; the first key has none and stays */
static inline HintKey
KeyBefore(const HintKey *key)
{
	HintKey		k = *key;

	if (k.id > PG_INT64_MIN)
		k.id--;
	else if (k.due > PG_INT64_MIN)
	{
		k.due--;
		k.id = PG_INT64_MAX;
	}
	else if (k.priority > PG_INT64_MIN)
	{
		k.priority--;
		k.due = k.id = PG_INT64_MAX;
	}
	return k;
}

/* the key just behind; the last key has none and stays */
static inline HintKey
KeyAfter(const HintKey *key)
{
	HintKey		k = *key;

	if (k.id < PG_INT64_MAX)
		k.id++;
	else if (k.due < PG_INT64_MAX)
	{
		k.due++;
		k.id = PG_INT64_MIN;
	}
	else if (k.priority < PG_INT64_MAX)
	{
		k.priority++;
		k.due = k.id = PG_INT64_MIN;
	}
	return k;
}

/*
 * How far two ranges are apart, to compare it with how far others are: zero
 * when they overlap.  Another priority is farther than any time, another time
 * farther than any id.
 */
static inline double
RangeDistance(const HintRange *a, const HintRange *b)
{
	const HintKey *from = &a->hi;
	const HintKey *to = &b->lo;

	if (KeyCompare(&b->hi, &a->lo) < 0)
	{
		from = &b->hi;
		to = &a->lo;
	}
	if (KeyCompare(from, to) >= 0)
		return 0;
	if (from->priority != to->priority)
		return 1e40 * ((double) to->priority - (double) from->priority);
	if (from->due != to->due)
		return 1e20 * ((double) to->due - (double) from->due);
	return (double) to->id - (double) from->id;
}

#endif							/* INBOX_HINTKEY_H */
