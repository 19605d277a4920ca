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
#include "nodes/primnodes.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

/*
 * What a saved plan of a queue is for.  One kind has as many plans as it is
 * asked for with different variants; what a variant is, the file says that
 * makes the plan.
 */
typedef enum PlanKind
{
	PLAN_FIND,					/* find.c: claimable rows of one priority */
	PLAN_GROUP,					/* groupsql.c */
	PLAN_LEVEL,					/* find.c: the next priority */
	PLAN_LOCATE,				/* locate.c: a row by its id */
	PLAN_UPDATE,				/* write.c: set the columns of some roles */
	PLAN_DELETE,				/* write.c */
	PLAN_BURY,					/* bury.c */
	PLAN_SEND					/* sendinsert.c and dedup.c */
} PlanKind;

typedef struct SavedPlan
{
	PlanKind	kind;
	uint32		variant;
	SPIPlanPtr	plan;
	struct SavedPlan *next;
} SavedPlan;

typedef struct RoleColumn
{
	AttrNumber	attno;			/* 0: the queue has no such role */
	Oid			type;
	bool		notnull;
	Oid			collation;
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
	Oid			order_index;	/* index that claims can walk, or InvalidOid */
	/* of a FIFO queue, which has no order_index; see groupwalk.c */
	Oid			group_index;
	Oid			head_index;
	Oid			lease_index;
	bool		told;			/* the hints are told what happens to it */
	bool		row_security;	/* enabled, for whomever it concerns */
	Oid			filenode;		/* changes when the table is rewritten */
	bool		integer_id;		/* ids have a place in keys (hintkey.h) */
	Oid			dead_relid;		/* dead-letter table or queue, or InvalidOid */
	Oid			dead_named;		/* the same, even if of another owner */
	LabelKind	dead_kind;

	MemoryContext cxt;			/* holds all of this */
	SavedPlan  *plans;
	struct QueueHints *hints;	/* shared, or NULL; see HintsFor */
	bool		hints_refused;
	uint32		hints_freed;	/* entries that had been freed by then */
	struct KnownRow *known;		/* known.c's, made by the first claim */
	struct WalkAhead *ahead;	/* walkahead.c's, made by the first walk */
	struct SendTarget *send;	/* sendtarget.c's, made at the first send */

	/* rights.c's own: what the user was found to have */
	Oid			rights_user;
	AclMode		rights;
	uint64		rights_epoch;
	uint64		roles_epoch;	/* when the entry was made */

	/* writeleaf.c's own: how the table is written, but for user and rights */
	bool		ways_known;
	bool		update_needs_sql;
	bool		delete_needs_sql;

	/* queue.c's own */
	bool		valid;
	bool		retired;
	int			pins;
} Queue;

#define QueueHas(q, role)	((q)->col[role].attno != 0)

extern void QueueInit(void);
extern Queue *QueueOpen(text *name, LOCKMODE lockmode);
extern Queue *QueueOpenOid(Oid relid);
extern Queue *QueueOpenType(Oid type, LOCKMODE lockmode);
extern Queue *QueueTryOpen(Oid relid, LOCKMODE lockmode, bool nowait);
extern void QueueClose(Queue *q);

/* queueplan.c */
extern SPIPlanPtr QueueFindPlan(Queue *q, PlanKind kind, uint32 variant);
extern SPIPlanPtr QueueSavePlan(Queue *q, PlanKind kind, uint32 variant,
								const char *sql, int nargs, Oid *argtypes,
								int options);
extern void QueueFreePlans(Queue *q);

/* queueroles.c */
extern void QueueReadRoles(Queue *q, Relation rel);
extern Oid	QueueIdIndex(Relation rel, AttrNumber id);
extern void QueueGroupIndexes(Queue *q, Relation rel);
extern Oid	QueueOrderIndex(Queue *q, Relation rel);
extern void QueueMapRoles(Queue *q, Relation leaf, AttrNumber *attnos);

/* rights.c */
extern void RightsInit(void);
extern uint64 RightsEpoch(void);
extern bool QueueHasRights(Queue *q, AclMode mode);
extern void QueueCheckRights(Queue *q, AclMode mode);
extern bool QueueRowSecurity(Queue *q);

/* name.c */
extern RangeVar *QueueParseName(text *name);
extern bool QueueNameIsOid(const char *name);
extern void QueueRefuse(Oid relid);
extern Oid	QueueResolve(text *name, LOCKMODE lockmode);
extern Oid	QueueFindOwned(text *name, LOCKMODE lockmode);
extern Oid	QueueResolveOwned(text *name, LOCKMODE lockmode);
extern char *QualifiedName(Oid relid);

#endif							/* INBOX_QUEUE_H */
