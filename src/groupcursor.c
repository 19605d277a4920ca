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
 * With it goes a stretch of the claim order, from where the group's head was
 * taken to a few rows on, where the next one likely is.  It keeps scans short,
 * and is no truth either: groupwalk.c and grouplook.c go on without it where
 * nothing is found there.
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
#include "settings.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define LEVELS		12			/* of a queue, with a cursor of their own */
#define OWN_QUEUES	16			/* remembered without shared memory */

typedef struct LevelCursor
{
	bool		used;
	int64		level;
	uint64		turn;			/* when it was moved last */
	bool		cut;
	bool		near_known;
	HintRange	near;
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
		cursor->cut = found->cut;
		cursor->near_known = found->near_known;
		cursor->near = found->near;
		cursor->len = found->len;
		memcpy(cursor->key, found->key, found->len);
	}
	unlock_cursor(c);
}

/*
 * GroupCursorLevel
 *		The level that was served last, if any was.
 */
bool
GroupCursorLevel(Queue *q, int64 *level)
{
	QueueCursor *c = lock_cursor(q);
	uint64		turn = 0;

	for (int i = 0; i < LEVELS; i++)
	{
		LevelCursor *l = &c->level[i];

		if (l->used && l->turn > turn)
		{
			turn = l->turn;
			*level = l->level;
		}
	}
	unlock_cursor(c);
	return turn > 0;
}

/*
 * near_head
 *		Among which rows the next head of the group at hand may be, as far as
 *		the look at it has told.
 */
static bool
near_head(GroupFind *g, HintRange *near)
{
	near->lo = g->head_key;
	near->hi = g->ahead_known ? g->ahead : g->limit;
	return g->ahead_known || (g->part == PART_SELF && g->limited);
}

/*
 * GroupCursorMove
 *		A claim takes the group at hand.
 */
void
GroupCursorMove(GroupFind *g)
{
	const char *str = VARDATA_ANY(g->key);
	int			whole = VARSIZE_ANY_EXHDR(g->key);
	int			len = whole;
	HintRange	near;
	bool		near_known = near_head(g, &near);
	QueueCursor *c;
	LevelCursor *l;

	if (len > GROUP_CURSOR)
		len = pg_mbcliplen(str, len, GROUP_CURSOR);
	c = lock_cursor(g->q);
	l = &c->level[0];
	for (int i = 0; i < LEVELS; i++)
	{
		if (c->level[i].used && c->level[i].level == g->level)
		{
			l = &c->level[i];
			break;
		}
		if (c->level[i].turn < l->turn)
			l = &c->level[i];
	}
	l->used = true;
	l->level = g->level;
	l->turn = ++c->turns;
	l->cut = len < whole;
	l->near_known = near_known;
	l->near = near;
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
	g->scanning = g->passing = false;
	GroupFreeKey(&g->lower);
	GroupFreeKey(&g->key);
	switch (g->part)
	{
		case PART_NONE:
			GroupFreeKey(&g->bound);
			g->part = PART_ALL;
			if (g->cursor.known)
			{
				g->bound = GroupCopyKey(g, g->cursor.key, g->cursor.len);
				g->lower = GroupCopyKey(g, g->cursor.key, g->cursor.len);
				g->part = PART_AFTER;
			}
			return true;
		case PART_AFTER:
			g->part = g->direct && !g->cursor.cut ? PART_BEFORE : PART_UPTO;
			return true;
		case PART_BEFORE:
			g->part = PART_SELF;
			return true;
		case PART_ALL:
		case PART_UPTO:
		case PART_SELF:
		case PART_DONE:
			g->part = PART_DONE;
			break;
	}
	return false;
}
