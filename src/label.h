/*-------------------------------------------------------------------------
 *
 * label.h
 *	  Registration of a queue: security labels of the provider "inbox".
 *
 * The label on a table holds what it is and its settings, as one JSON object;
 * the label on a column is the name of its role.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LABEL_H
#define INBOX_LABEL_H

#include "access/attnum.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_type_d.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* What a column is for.  The names are in label.c, role_info. */
typedef enum Role
{
	ROLE_ID,
	ROLE_LOCKED_UNTIL,
	ROLE_CLAIMED_AT,
	ROLE_ATTEMPT,
	ROLE_PAYLOAD,
	ROLE_HEADERS,
	ROLE_DUE_AT,
	ROLE_PRIORITY,
	ROLE_GROUP_KEY,
	ROLE_PARTITION_KEY,
	ROLE_ENQUEUED_AT,
	ROLE_PROCESSED_AT,
	ROLE_LAST_ERROR,
	ROLE_DEDUP_KEY,
	/* only in dead-letter tables */
	ROLE_DIED_AT,
	ROLE_CAUSE,
	ROLE_REST
} Role;

#define NUM_QUEUE_ROLES		(ROLE_DEDUP_KEY + 1)
#define NUM_ROLES			(ROLE_REST + 1)

typedef enum LabelKind
{
	LABEL_NONE,					/* not registered */
	LABEL_QUEUE,
	LABEL_DEAD					/* a dead-letter table */
} LabelKind;

/*
 * The value of a column of an integer type, or of an instant.
 */
static inline int64
RoleInteger(Oid type, Datum value)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

#define LABEL_PROVIDER	"inbox"
#define TOKEN_LEN	32			/* hexadecimal digits */
#define NO_RETENTION	(-1)

/*
 * The label of a table, parsed.  Durations are microseconds but for the
 * lease, which is whole seconds.
 */
typedef struct QueueSettings
{
	LabelKind	kind;
	char		token[TOKEN_LEN + 1];
	int64		lease;			/* seconds */
	int			max_attempts;	/* 0: no cap */
	int			attempt_base;	/* what the attempt column starts at: 0 or 1 */
	char		dead_letter[TOKEN_LEN + 1]; /* token of the dead-letter table
											 * or queue; empty: none */
	char	   *dead_group;		/* group_key value to bury under, or NULL */
	int64		backoff;
	int64		backoff_max;
	int64		retention;		/* NO_RETENTION: finished rows stay */
	bool		fifo;
	bool		fifo_requeue;	/* false: a retried head holds its group */
	bool		paused;
	bool		created;		/* by inbox_create, not adopted */
	bool		triggers;		/* adopted with triggers => true */
} QueueSettings;

extern const char *RoleName(Role role);
extern bool RoleByName(const char *name, Role *role);
extern bool RoleTypeFits(Role role, Oid type, int32 typmod);
extern const char *RoleTypesText(Role role);

extern void LabelDefaults(QueueSettings *settings);
extern void LabelNewToken(char *token);
extern void LabelParse(const char *label, QueueSettings *settings);
extern char *LabelFormat(const QueueSettings *settings);

extern bool LabelRead(Oid relid, QueueSettings *settings);
extern bool LabelReadRole(Oid relid, AttrNumber attno, Role *role);
extern void LabelWrite(Oid relid, const QueueSettings *settings);
extern void LabelWriteRole(Oid relid, AttrNumber attno, Role role);
extern void LabelRemove(Oid relid);
extern Oid	LabelFindToken(const char *token, Oid owner, LabelKind *kind);
extern List *LabelList(LabelKind kind);
extern Oid	LabelOtherToken(const char *token, Oid except);
extern Oid	LabelDeadUser(const char *token, Oid relid);

/* labelcheck.c */
extern void LabelInit(void);
extern void LabelCheck(const ObjectAddress *object, const char *seclabel);

#endif							/* INBOX_LABEL_H */
