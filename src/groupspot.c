/*-------------------------------------------------------------------------
 *
 * groupspot.c
 *	  Where the heads of a few busy groups of a FIFO queue were last.
 *
 * A group that is served again and again has all that was settled in front of
 * its head, until a vacuum goes by.  Where that is much, the place where the
 * head was taken is remembered, for a short time, and the next look begins
 * there.  GroupWalkLook in grouplook.c tells why that may be trusted; the
 * claims of others must show, so there are spots in shared memory alone.
 *
 * Each queue has a few sets of them; a group's is among those of one set, and
 * takes the place of the oldest there.  They are read and written under the
 * queue's spinlock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "group.h"
#include "hints.h"
#include "pending.h"
#include "settings.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define SPOT_SETS	16
#define SPOT_WAYS	4

/* a head is remembered that has so many dead entries before it, or pages */
#define SPOT_DEAD		32
#define SPOT_PAGES		16
/* for a second, or as much longer as it took to look at them */
#define SPOT_TIME		USECS_PER_SEC
#define SPOT_PACE		10		/* microseconds */
#define SPOT_PAGE_PACE	100

typedef struct QueueSpots
{
	slock_t		lock;
	TimestampTz until;			/* when the last of them is too old */
	GroupSpot	spot[SPOT_SETS][SPOT_WAYS];
} QueueSpots;

static QueueSpots *spots = NULL;	/* in shared memory */

Size
GroupSpotShmemSize(void)
{
	return mul_size(InboxMaxQueues, sizeof(QueueSpots));
}

/*
 * GroupSpotShmemInit
 *		Called from the startup hook, with AddinShmemInitLock held.
 */
void
GroupSpotShmemInit(void)
{
	bool		found;

	spots = ShmemInitStruct("inbox group spots", GroupSpotShmemSize(), &found);
	if (found)
		return;
	memset(spots, 0, GroupSpotShmemSize());
	for (int i = 0; i < InboxMaxQueues; i++)
		SpinLockInit(&spots[i].lock);
}

/*
 * lock_spots
 *		Those of the queue, locked; NULL if it has none.
 */
static QueueSpots *
lock_spots(Queue *q)
{
	QueueHints *hints = HintsFor(q);
	QueueSpots *s;

	if (spots == NULL || hints == NULL)
		return NULL;
	s = &spots[HintsNumber(hints)];
	SpinLockAcquire(&s->lock);
	return s;
}

/*
 * set_of
 *		The spots among which that of a group is.
 */
static GroupSpot *
set_of(QueueSpots *s, uint64 hash)
{
	return s->spot[hash % SPOT_SETS];
}

/*
 * GroupSpotsThere
 *		Is any head of the queue remembered?
 */
bool
GroupSpotsThere(Queue *q, TimestampTz now)
{
	QueueSpots *s = lock_spots(q);
	bool		there;

	if (s == NULL)
		return false;
	there = s->until > now;
	SpinLockRelease(&s->lock);
	return there;
}

/*
 * GroupSpotFind
 *		Where the group's head was, if it cannot be before.
 */
bool
GroupSpotFind(Queue *q, uint64 hash, TimestampTz now, GroupSpot *spot)
{
	QueueSpots *s = lock_spots(q);
	GroupSpot  *set;
	bool		found = false;

	if (s == NULL)
		return false;
	set = set_of(s, hash);
	for (int i = 0; i < SPOT_WAYS && !found; i++)
	{
		found = set[i].hash == hash && set[i].until > now;
		if (found)
			*spot = set[i];
	}
	SpinLockRelease(&s->lock);
	return found && HintsNoneBefore(HintsFor(q), spot->generation, &spot->key);
}

/*
 * keep
 *		In place of the group's last one, or of the oldest.
 */
static void
keep(QueueSpots *s, const GroupSpot *spot)
{
	GroupSpot  *set = set_of(s, spot->hash);
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
	s->until = Max(s->until, spot->until);
}

static void
forget(QueueSpots *s, uint64 hash)
{
	GroupSpot  *set = set_of(s, hash);

	for (int i = 0; i < SPOT_WAYS; i++)
	{
		if (set[i].hash == hash)
			set[i].until = 0;
	}
}

/*
 * GroupSpotTook
 *		Remember where the head was, if there is much before it that is gone.
 *		What does not begin at the spot must take it away.
 */
void
GroupSpotTook(GroupFind *g)
{
	HintRange	passed = {KEY_FIRST, g->head_key};
	bool		much = g->spotted || g->look_dead >= SPOT_DEAD ||
		g->look_pages >= SPOT_PAGES;
	QueueSpots *s;

	g->spot.hash = g->hash;
	g->spot.key = g->head_key;
	if (!g->spotted)
		g->spot.until = g->now +
			Max(SPOT_TIME, g->look_dead * SPOT_PACE +
				g->look_pages * SPOT_PAGE_PACE);
	s = lock_spots(g->q);
	if (s == NULL)
		return;
	if (much)
		keep(s, &g->spot);
	else
		forget(s, g->hash);
	SpinLockRelease(&s->lock);
	/* what it had settled before would be back */
	if (much && g->wrote)
		PendingPassed(HintsFor(g->q), &passed);
}
