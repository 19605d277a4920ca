/*-------------------------------------------------------------------------
 *
 * deadmap.h
 *	  Which column of a queue goes to which column of its dead letters.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_DEADMAP_H
#define INBOX_DEADMAP_H

#include "lib/stringinfo.h"
#include "queue.h"

#define NO_ROLE		((Role) NUM_ROLES)

typedef struct DeadMap
{
	Queue	   *q;
	Relation	queue;
	Relation	dest;			/* dead-letter table, or another queue */
	bool		to_queue;
	Role	   *role;			/* of the queue's columns, by attno - 1 */
	AttrNumber *dest_of;		/* of the queue's columns, by attno - 1: the
								 * column of dest that takes it, or 0 */
	AttrNumber	by_role[NUM_ROLES]; /* columns of dest */
} DeadMap;

extern void DeadMapOpen(DeadMap *map, Queue *q, LOCKMODE lockmode);
extern void DeadMapClose(DeadMap *map);
extern bool DeadMapLive(Relation rel, AttrNumber attno);
extern const char *DeadMapColumn(Relation rel, AttrNumber attno);
extern char *DeadMapType(Relation rel, AttrNumber attno);

/* deadsql.c */

/*
 * Parameters of the statement that buries: the queue's columns, $n being
 * column n, and behind them
 */
typedef enum BuryArg
{
	ARG_DIED_AT = 1,
	ARG_CAUSE,
	ARG_ERROR,
	ARG_ATTEMPT,
	ARG_ENTRY,					/* of the history */
	ARG_EXTRA					/* jsonb: columns only a child table has; for
								 * a queue as destination, the origin */
} BuryArg;

#define NUM_BURY_ARGS	ARG_EXTRA

/* name/value pairs of jsonb_build_object, which takes 100 arguments at most */
typedef struct JsonPairs
{
	StringInfoData sql;
	int			n;
} JsonPairs;

extern void JsonPairsInit(JsonPairs *pairs);
extern void JsonPairsAdd(JsonPairs *pairs, const char *name, const char *value);
extern char *JsonPairsSql(JsonPairs *pairs);
extern char *DeadInsertSql(Queue *q, int *nargs, Oid **argtypes);

/* redrivesql.c; parameters: most rows (NULL: all), history entry, now */
extern char *RedriveSql(Queue *q);
extern char *RedriveGroupSql(Queue *q);

#endif							/* INBOX_DEADMAP_H */
