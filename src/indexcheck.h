/*-------------------------------------------------------------------------
 *
 * indexcheck.h
 *	  What the indexes of a queue must and should be like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_INDEXCHECK_H
#define INBOX_INDEXCHECK_H

#include "queue.h"

/* of a FIFO queue; see groupwalk.c */
typedef enum GroupIndex
{
	GROUP_INDEX_GROUPS,
	GROUP_INDEX_HEADS,
	GROUP_INDEX_LEASES
} GroupIndex;

#define NUM_GROUP_INDEXES	(GROUP_INDEX_LEASES + 1)

extern Oid	IndexFindOrder(Relation rel, const RoleColumn *col);
extern void IndexCheckId(Relation rel, const RoleColumn *col);
extern Oid	IndexCheckDedup(Relation rel, const RoleColumn *col);
extern Oid	IndexFindClaim(Relation rel, const RoleColumn *col);
extern Oid	IndexFindDedup(Relation rel, const RoleColumn *col);
extern char *IndexClaimSql(Oid relid, const RoleColumn *col);
extern char *IndexDedupSql(Oid relid, const RoleColumn *col);
extern bool IndexIsClaim(Relation index, const RoleColumn *col);
extern void IndexWarn(Relation rel, const RoleColumn *col, bool fifo);

/* groupindex.c */
extern bool IndexIsGroup(Relation index, const RoleColumn *col,
						 GroupIndex which);
extern Oid	IndexFindGroup(Relation rel, const RoleColumn *col,
						   GroupIndex which, bool bare);
extern char *IndexGroupSql(Oid relid, const RoleColumn *col, GroupIndex which,
						   bool concurrently);
extern void IndexGroupWarn(Relation rel, const RoleColumn *col);
extern void IndexGroupCreate(Oid relid, const RoleColumn *col);
extern void IndexGroupDrop(Oid relid, const RoleColumn *col);

#endif							/* INBOX_INDEXCHECK_H */
