/*-------------------------------------------------------------------------
 *
 * groupcursor.c
 *	  Where the next claim on a FIFO queue begins.
 *
 * Groups are served in turn: a claim begins after the group that the last one
 * ended at.  So there is a cursor for each level of priority in use, or the
 * groups of one level that come late in the index would starve whenever
 * another level gets a message now and then.  With more levels in use than
 * there is room for, those served longest ago begin with their first group.
 *
 * A cursor is a bound, never a truth: whatever it holds, each group of a level
 * is gone to once.  So it may be lost, belong to another table by now, or be
 * cut: a key longer than it has room for begins again with the first of the
 * groups whose keys begin alike.
 *
 * Beside the cursors are the spots of a few groups, where their heads were.
 *
 * With shared memory all backends share the cursors, and move them at each
 * group they take, so that claimers at the same time do not try the same
 * groups.  Without it each backend has its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "group.h"
#include "hints.h"
#include "mb/pg_wchar.h"
#include "pending.h"
#include "settings.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define LEVELS		12			/* of a queue, with a cursor of their own */
/* groups of a queue whose head is remembered, found by hash */
#define SPOT_SETS	16
#define SPOT_WAYS	4
#define OWN_QUEUES	16			/* remembered without shared memory */

/* a head is remembered that has so many dead entries before it, or pages */
#define SPOT_DEAD		32
#define SPOT_PAGES		16
/* for a second, or as much longer as it took to look at them */
#define SPOT_TIME		USECS_PER_SEC
#define SPOT_PACE		10		/* microseconds */
#define SPOT_PAGE_PACE	100

typedef struct LevelCursor
{
	bool		used;
	int64		level;
	uint64		turn;			/* when it was moved last */
	int			len;
	char		key[GROUP_CURSOR];
} LevelCursor;

typedef struct QueueCursor
{
	slock_t		lock;
	Oid			relid;			/* without shared memory */
	uint64		turns;
	bool		loose_next;
	LevelCursor level[LEVELS];
	TimestampTz spots_until;	/* when the last of them is too old */
	GroupSpot	spot[SPOT_SETS][SPOT_WAYS];
} QueueCursor;

static QueueCursor *cursors = NULL; /* in shared memory */
static QueueCursor own[OWN_QUEUES];

Size
GroupShmemSize(void)
{
	return mul_size(InboxMaxQueues, sizeof(QueueCursor));
}

/*
 * GroupShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
GroupShmemInit(void)
{
	bool		found;

	cursors = ShmemInitStruct("inbox group cursors", GroupShmemSize(), &found);
	if (found)
		return;
	memset(cursors, 0, GroupShmemSize());
	for (int i = 0; i < InboxMaxQueues; i++)
		SpinLockInit(&cursors[i].lock);
}

/*
 * lock_cursor
 *		The queue's cursors, locked if they are shared.
 */
static QueueCursor *
lock_cursor(Queue *q)
{
	QueueHints *hints = HintsFor(q);
	QueueCursor *c;

	if (cursors != NULL && hints != NULL)
	{
		c = &cursors[HintsNumber(hints)];
		SpinLockAcquire(&c->lock);
		return c;
	}
	c = &own[q->relid % OWN_QUEUES];
	if (c->relid != q->relid)
		memset(c, 0, sizeof(QueueCursor));
	c->relid = q->relid;
	return c;
}

static void
unlock_cursor(QueueCursor *c)
{
	if (c < own || c >= own + OWN_QUEUES)
		SpinLockRelease(&c->lock);
}

/*
 * GroupCursorRead
 *		Where to begin on a level.
 */
void
GroupCursorRead(Queue *q, int64 level, GroupCursor *cursor)
{
	QueueCursor *c = lock_cursor(q);
	LevelCursor *found = NULL;

	for (int i = 0; i < LEVELS; i++)
	{
		LevelCursor *l = &c->level[i];

		if (l->used && l->level == level)
			found = l;
	}
	cursor->known = found != NULL;
	cursor->loose_next = c->loose_next;
	if (found != NULL)
	{
		cursor->len = found->len;
		memcpy(cursor->key, found->key, found->len);
	}
	unlock_cursor(c);
}

/*
 * GroupCursorMove
 *		A claim takes this group.
 */
void
GroupCursorMove(Queue *q, int64 level, text *key)
{
	const char *str = VARDATA_ANY(key);
	int			len = VARSIZE_ANY_EXHDR(key);
	QueueCursor *c;
	LevelCursor *l;

	if (len > GROUP_CURSOR)
		len = pg_mbcliplen(str, len, GROUP_CURSOR);
	c = lock_cursor(q);
	l = &c->level[0];
	for (int i = 0; i < LEVELS; i++)
	{
		if (c->level[i].used && c->level[i].level == level)
		{
			l = &c->level[i];
			break;
		}
		if (c->level[i].turn < l->turn)
			l = &c->level[i];
	}
	l->used = true;
	l->level = level;
	l->turn = ++c->turns;
	l->len = len;
	memcpy(l->key, str, len);
	unlock_cursor(c);
}

/*
 * GroupCursorTurn
 *		Whose turn is next: that of a row without a group?
 */
void
GroupCursorTurn(Queue *q, bool loose_next)
{
	QueueCursor *c = lock_cursor(q);

	c->loose_next = loose_next;
	unlock_cursor(c);
}

/*
 * GroupHash
 *		Of the key of the group at hand; keys that are equal have the same.
 */
uint64
GroupHash(GroupFind *g)
{
	return DatumGetUInt64(DirectFunctionCall2Coll(hashtextextended,
												  g->q->col[ROLE_GROUP_KEY].collation,
												  PointerGetDatum(g->key),
												  Int64GetDatum(0)));
}

/*
 * set_of
 *		The spots among which that of a group is.
 */
static GroupSpot *
set_of(QueueCursor *c, uint64 hash)
{
	return c->spot[hash % SPOT_SETS];
}

/*
 * GroupSpotsThere
 *		Is any head of the queue remembered?  Without shared memory none is, as
 *		the claims of others would not show.
 */
bool
GroupSpotsThere(Queue *q, TimestampTz now)
{
	QueueCursor *c;
	bool		there;

	if (cursors == NULL || HintsFor(q) == NULL)
		return false;
	c = lock_cursor(q);
	there = c->spots_until > now;
	unlock_cursor(c);
	return there;
}

/*
 * GroupSpotFind
 *		Where the group's head was, if it cannot be before.
 */
bool
GroupSpotFind(Queue *q, uint64 hash, TimestampTz now, GroupSpot *spot)
{
	QueueHints *hints = HintsFor(q);
	QueueCursor *c = lock_cursor(q);
	GroupSpot  *set = set_of(c, hash);
	bool		found = false;

	for (int i = 0; i < SPOT_WAYS && !found; i++)
	{
		found = set[i].hash == hash && set[i].until > now;
		if (found)
			*spot = set[i];
	}
	unlock_cursor(c);
	return found && HintsNoneBefore(hints, spot->generation, &spot->key);
}

/*
 * spot_keep
 *		In place of the group's last one, or of the oldest.
 */
static void
spot_keep(Queue *q, const GroupSpot *spot)
{
	QueueCursor *c = lock_cursor(q);
	GroupSpot  *set = set_of(c, spot->hash);
	int			n = 0;

	for (int i = 0; i < SPOT_WAYS; i++)
	{
		if (set[i].hash == spot->hash)
		{
			n = i;
			break;
		}
		if (set[i].until < set[n].until)
			n = i;
	}
	set[n] = *spot;
	c->spots_until = Max(c->spots_until, spot->until);
	unlock_cursor(c);
}

static void
spot_forget(Queue *q, uint64 hash)
{
	QueueCursor *c = lock_cursor(q);
	GroupSpot  *set = set_of(c, hash);

	for (int i = 0; i < SPOT_WAYS; i++)
	{
		if (set[i].hash == hash)
			set[i].until = 0;
	}
	unlock_cursor(c);
}

/*
 * GroupSpotTook
 *		Remember where the head was, if there is much before it that is gone.
 *		What does not begin at the spot must take it away: see GroupWalkLook
 *		in grouplook.c, which tells why a spot may be trusted.
 */
void
GroupSpotTook(GroupFind *g)
{
	HintRange	passed = {KEY_FIRST, g->head_key};

	if (!g->spotted && g->look_dead < SPOT_DEAD && g->look_pages < SPOT_PAGES)
	{
		spot_forget(g->q, g->hash);
		return;
	}
	g->spot.hash = g->hash;
	g->spot.key = g->head_key;
	if (!g->spotted)
		g->spot.until = g->now +
			Max(SPOT_TIME, g->look_dead * SPOT_PACE +
				g->look_pages * SPOT_PAGE_PACE);
	spot_keep(g->q, &g->spot);
	/* what it had settled before would be back */
	if (g->wrote)
		PendingPassed(HintsFor(g->q), &passed);
}

text *
GroupCopyKey(GroupFind *g, const char *str, int len)
{
	text	   *copy = MemoryContextAlloc(g->cxt, VARHDRSZ + len);

	SET_VARSIZE(copy, VARHDRSZ + len);
	memcpy(VARDATA(copy), str, len);
	return copy;
}

void
GroupFreeKey(text **key)
{
	if (*key != NULL)
		pfree(*key);
	*key = NULL;
}

/*
 * GroupNextPart
 *		Begin the next part of the level's groups; false at the end.
 */
bool
GroupNextPart(GroupFind *g)
{
	g->scanning = false;
	GroupFreeKey(&g->lower);
	GroupFreeKey(&g->key);
	switch (g->part)
	{
		case PART_NONE:
			GroupFreeKey(&g->bound);
			g->part = PART_UPTO;
			if (g->cursor.known)
			{
				g->bound = GroupCopyKey(g, g->cursor.key, g->cursor.len);
				g->lower = GroupCopyKey(g, g->cursor.key, g->cursor.len);
				g->part = PART_AFTER;
			}
			return true;
		case PART_AFTER:
			g->part = PART_UPTO;
			return true;
		case PART_UPTO:
		case PART_DONE:
			g->part = PART_DONE;
			break;
	}
	return false;
}
