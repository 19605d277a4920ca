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

extern Oid	IndexFindOrder(Relation rel, const RoleColumn *col);
extern void IndexCheckId(Relation rel, const RoleColumn *col);
extern Oid	IndexCheckDedup(Relation rel, const RoleColumn *col);
extern Oid	IndexFindClaim(Relation rel, const RoleColumn *col);
extern Oid	IndexFindDedup(Relation rel, const RoleColumn *col);
extern char *IndexClaimSql(Oid relid, const RoleColumn *col);
extern char *IndexDedupSql(Oid relid, const RoleColumn *col);
extern bool IndexIsClaim(Relation index, const RoleColumn *col);
extern void IndexWarn(Relation rel, const RoleColumn *col);

#endif							/* INBOX_INDEXCHECK_H */
