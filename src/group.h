/*-------------------------------------------------------------------------
 *
 * group.h
 *	  Find what may be claimed in a FIFO queue; see group.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_GROUP_H
#define INBOX_GROUP_H

#include "access/genam.h"
#include "access/skey.h"
#include "hintkey.h"
#include "lease.h"
#include "share.h"
#include "storage/lock.h"
#include "write.h"

#define GROUP_ENDED		64		/* ended leases of one group dealt with at
								 * once */
#define GROUP_SCAN_KEYS	5		/* at most */
#define GROUP_CURSOR	128		/* bytes of a group's key that are remembered */

/* a place to begin at */
typedef struct GroupCursor
{
	bool		known;
	bool		loose_next;		/* it is the turn of a row without a group */
	bool		cut;			/* the key is longer */
	bool		near_known;		/* among which rows the group's head may be: */
	HintRange	near;
	int			len;
	char		key[GROUP_CURSOR];
} GroupCursor;

/* where the head of a group is, as the last claim on it has found out */
typedef struct GroupSpot
{
	uint64		hash;			/* of the group's key */
	HintKey		key;			/* nothing of the group lies before */
	uint64		generation;		/* of the hints, when that was so */
	TimestampTz until;			/* good for so long */
} GroupSpot;

/* one row version */
typedef struct GroupRow
{
	Oid			relid;
	ItemPointerData tid;
} GroupRow;

/* which part of a level's groups is being gone through */
typedef enum GroupPart
{
	PART_NONE,
	PART_ALL,					/* there is no cursor */
	PART_AFTER,					/* those after the cursor */
	PART_BEFORE,				/* those before it */
	PART_SELF,					/* the one that it is at */
	PART_UPTO,					/* both: by SQL, or where its key is cut */
	PART_DONE
} GroupPart;

typedef struct GroupFind
{
	Queue	   *q;
	RowWriter  *w;
	RowLeaf    *leaf;			/* of a plain table */
	TimestampTz now;
	text	   *only;			/* only rows of this group_key, or NULL */
	const KeyShare *share;		/* only rows of this share, or NULL */
	bool		loose_only;		/* that is the dead group's */
	bool		direct;			/* without SQL */
	bool		peek;			/* takes no lock */
	bool		wrote;			/* the transaction had written before */
	MemoryContext cxt;
	TimestampTz next_due;		/* when a blocked group may be free */
	int64		steps;			/* index entries gone to */
	int64		dead;			/* of them, those of rows that are gone */
	int64		taken;			/* rows */

	/* the level of priority; PG_INT64_MAX stands for NULL */
	bool		started;
	bool		in_level;
	int64		level;
	bool		groups_done;
	bool		loose_done;
	bool		no_loose;		/* there are none on any level */
	bool		loose_turn;
	bool		loose_row;		/* the row returned last has no group */

	/* going through the groups of the level */
	GroupPart	part;
	GroupCursor cursor;
	text	   *bound;			/* the cursor's key, or NULL */
	text	   *lower;			/* all up to this key are done, or NULL */
	text	   *key;			/* the group at hand */
	bool		scanning;
	bool		limited;		/* its head is not likely behind this: */
	HintKey		limit;
	bool		at_entry;		/* the scan is at an entry not yet looked at */
	bool		across;			/* it goes on to the next level by itself */
	bool		passing;		/* the group at hand is decided */
	int			passed;			/* entries of it gone to since, or dead before */

	/* the lock of the group at hand */
	uint64		hash;			/* of its key */
	LOCKTAG		tag;
	bool		locked;
	int			nlocked;		/* groups locked for good */

	/* what the look at a group has found */
	GroupSpot	spot;			/* where it began */
	bool		spotted;
	bool		spots;			/* some group of the queue has one */
	bool		lease_ordered;	/* leases are in claim order */
	int64		look_dead;		/* entries of rows that are gone */
	int64		look_pages;		/* gone to */
	bool		ahead_known;	/* a row somewhat behind the head */
	HintKey		ahead;
	HintKey		head_key;
	int64		head_level;
	GroupRow	head_row;
	int			nended;
	GroupRow	ended[GROUP_ENDED]; /* not the head, but once leased */

	/* groupwalk.c's own */
	Relation	group_index;
	Relation	head_index;
	Relation	lease_index;
	IndexScanDesc groups;
	IndexScanDesc heads;
	IndexScanDesc leases;
	IndexScanDesc loose;
	TupleTableSlot *slot;
	TupleTableSlot *loose_slot;
	bool		keyed;			/* entries have a key in the claim order */
	ScanKeyData head_members[3];	/* of the scans' bounds */
	ScanKeyData head_limit[3];
	ScanKeyData lease_members[3];
	ScanKeyData near_members[2][2];
	bool		loose_scanning;

	/* groupsql.c's own */
	struct PortalData *portal;
} GroupFind;

extern void GroupBegin(GroupFind *g, RowWriter *w, TimestampTz now,
					   text *only);
extern bool GroupNext(GroupFind *g, Oid *relid, ItemPointer tid);
extern bool GroupTry(GroupFind *g, text *key, Oid relid, ItemPointer tid);
extern void GroupTook(GroupFind *g, bool taken);
extern void GroupEnd(GroupFind *g);
extern bool GroupLeaseEnded(GroupFind *g, const LeaseRow *row, Oid relid,
							ItemPointer tid);
extern bool GroupIsHead(GroupFind *g, const LeaseRow *row,
						const AttrNumber *attnos, TupleTableSlot *slot);

/* groupwalk.c */
extern bool GroupWalkUsable(RowWriter *w);
extern void GroupWalkBegin(GroupFind *g);
extern bool GroupWalkNext(GroupFind *g);
extern void GroupWalkEnd(GroupFind *g);

/* groupscan.c */
extern AttrNumber GroupKeyAttno(const GroupFind *g);
extern void GroupPutKey(ScanKey key, Relation index, AttrNumber attno,
						StrategyNumber strategy, Oid subtype,
						RegProcedure func, Datum value);
extern void GroupPutNull(ScanKey key, AttrNumber attno);
extern int	GroupPutLevel(GroupFind *g, ScanKey key, Relation index,
						  AttrNumber attno);
extern void GroupPutBound(GroupFind *g, ScanKey key, ScanKey members,
						  AttrNumber attno, StrategyNumber strategy,
						  const HintKey *bound, bool levels);
extern int64 GroupEntryLevel(GroupFind *g);
extern IndexScanDesc GroupScan(GroupFind *g, IndexScanDesc *scan,
							   Relation index, Snapshot snapshot, ScanKey keys,
							   int n, bool want_entry);
extern void GroupScanPart(GroupFind *g);
extern bool GroupScanEntry(GroupFind *g);
extern void GroupEntryKey(GroupFind *g, IndexScanDesc scan, HintKey *key);

/* grouplevel.c */
extern bool GroupWalkLevel(GroupFind *g);

/* grouplook.c */
extern bool GroupWalkSpot(GroupFind *g);
extern bool GroupWalkLook(GroupFind *g);
extern bool GroupWalkLoose(GroupFind *g, ItemPointer tid);

/* groupsql.c */
extern bool GroupSqlLevel(GroupFind *g);
extern bool GroupSqlNext(GroupFind *g);
extern bool GroupSqlLook(GroupFind *g);
extern bool GroupSqlLoose(GroupFind *g, Oid *relid, ItemPointer tid);
extern void GroupSqlEndLevel(GroupFind *g);

/* groupcursor.c */
extern Size GroupShmemSize(void);
extern void GroupShmemInit(void);
extern void GroupCursorRead(Queue *q, int64 level, GroupCursor *cursor);
extern bool GroupCursorLevel(Queue *q, int64 *level);
extern void GroupCursorMove(GroupFind *g);
extern uint64 GroupHash(GroupFind *g);
extern void GroupCursorTurn(Queue *q, bool loose_next);
extern text *GroupCopyKey(GroupFind *g, const char *str, int len);
extern void GroupFreeKey(text **key);
extern bool GroupNextPart(GroupFind *g);

/* groupspot.c */
extern Size GroupSpotShmemSize(void);
extern void GroupSpotShmemInit(void);
extern bool GroupSpotsThere(Queue *q, TimestampTz now);
extern bool GroupSpotFind(Queue *q, uint64 hash, TimestampTz now,
						  GroupSpot *spot);
extern void GroupSpotTook(GroupFind *g);

#endif							/* INBOX_GROUP_H */
