/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  A registered queue as the backend knows it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_QUEUE_H
#define INBOX_QUEUE_H

#include "executor/spi.h"
#include "label.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* Saved plans of a queue; who owns a slot is said where it is filled. */
typedef enum QueuePlan
{
	PLAN_SEND,
	PLAN_SEND_RETURNING,
	PLAN_SEND_DEDUP,
	PLAN_SEND_DEDUP_FIND,
	PLAN_FIND,					/* find.c: claimable rows of one priority */
	PLAN_FIND_GROUP,			/* the same with a group filter */
	PLAN_NEXT_LEVEL,			/* find.c: next priority */
	PLAN_NEXT_LEVEL_GROUP,
	PLAN_LOCATE,				/* locate.c: row by id */
	PLAN_LEASE,					/* write.c: statements of the SQL writer */
	PLAN_EXTEND,
	PLAN_FINISH,
	PLAN_RETRY,
	PLAN_DELETE,
	PLAN_BURY,					/* bury.c */
	PLAN_BURY_GROUP,
	PLAN_REDRIVE,
	NUM_PLANS
} QueuePlan;

typedef struct RoleColumn
{
	AttrNumber	attno;			/* 0: the queue has no such role */
	Oid			type;
} RoleColumn;

/*
 * Entries live in a backend-local cache keyed by table OID and are rebuilt
 * after a relcache invalidation.  Read only outside queue.c, but for plans.
 */
typedef struct Queue
{
	Oid			relid;
	Oid			owner;
	char		relkind;
	char	   *name;			/* schema-qualified and quoted, as in SQL */
	char	   *relname;		/* for messages: unqualified, unquoted */
	QueueSettings settings;
	RoleColumn	col[NUM_QUEUE_ROLES];
	char	   *colname[NUM_QUEUE_ROLES];	/* quoted; NULL without role */
	Oid			id_index;		/* valid unique btree on id alone, or
								 * InvalidOid: rows are found by SQL */
	Oid			dead_relid;		/* dead-letter table or queue, or InvalidOid */
	LabelKind	dead_kind;

	MemoryContext cxt;			/* holds all of this; plans hang on it too */
	SPIPlanPtr	plans[NUM_PLANS];

	/* queue.c's own */
	bool		valid;
	bool		retired;
	int			pins;
} Queue;

#define QueueHas(q, role)	((q)->col[role].attno != 0)

extern void QueueInit(void);
extern Oid	QueueResolve(text *name, LOCKMODE lockmode);
extern Oid	QueueFindOwned(text *name, LOCKMODE lockmode);
extern Oid	QueueResolveOwned(text *name, LOCKMODE lockmode);
extern Queue *QueueOpen(text *name, LOCKMODE lockmode);
extern Queue *QueueOpenOid(Oid relid);
extern Queue *QueueTryOpen(Oid relid, LOCKMODE lockmode, bool nowait);
extern void QueueClose(Queue *q);
extern SPIPlanPtr QueueSavePlan(Queue *q, QueuePlan slot, const char *sql,
								int nargs, Oid *argtypes, int options);
extern char *QualifiedName(Oid relid);
extern void QueueMapRoles(Queue *q, Relation leaf, AttrNumber *attnos);

/* Rights of the current user on the queue's table; see queue.c. */


extern void QueueCheckRights(Queue *q, AclMode mode);

#endif							/* INBOX_QUEUE_H */
