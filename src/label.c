/*-------------------------------------------------------------------------
 *
 * label.c
 *	  Registration of a queue: security labels of the provider "inbox".
 *
 * A queue is a table that carries our label.  There is no registry table that
 * could drift from the tables it describes: a label follows a rename of table
 * or column, goes with a drop, and travels through pg_dump.
 *
 * The label of a table is one JSON object: what the table is, its settings,
 * and a random token.  A queue names its dead-letter table by that table's
 * token, so that no rename parts the two.  The label of a column is the name
 * of its role.  Dead-letter tables label their columns too.
 *
 * Every label passes the provider's check hook (labelcheck.c), which also makes
 * every backend read it anew (queue.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_type.h"
#include "commands/seclabel.h"
#include "label.h"
#include "owner.h"
#include "pending.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef struct RoleInfo
{
	const char *name;
	const char *types;			/* for messages */
	Oid			type[4];
} RoleInfo;

static const RoleInfo role_info[NUM_ROLES] = {
	[ROLE_ID] = {"id", "bigint, integer, uuid or text",
	{INT8OID, INT4OID, UUIDOID, TEXTOID}},
	[ROLE_LOCKED_UNTIL] = {"locked_until", "timestamp with time zone",
	{TIMESTAMPTZOID}},
	[ROLE_CLAIMED_AT] = {"claimed_at", "timestamp with time zone",
	{TIMESTAMPTZOID}},
	[ROLE_ATTEMPT] = {"attempt", "smallint, integer or bigint",
	{INT4OID, INT2OID, INT8OID}},
	[ROLE_PAYLOAD] = {"payload", "any type", {InvalidOid}},
	[ROLE_HEADERS] = {"headers", "jsonb or json", {JSONBOID, JSONOID}},
	[ROLE_DUE_AT] = {"due_at", "timestamp with time zone", {TIMESTAMPTZOID}},
	[ROLE_PRIORITY] = {"priority", "smallint, integer or bigint",
	{INT4OID, INT2OID, INT8OID}},
	[ROLE_GROUP_KEY] = {"group_key", "text or character varying",
	{TEXTOID, VARCHAROID}},
	[ROLE_PARTITION_KEY] = {"partition_key", "text or character varying",
	{TEXTOID, VARCHAROID}},
	[ROLE_ENQUEUED_AT] = {"enqueued_at", "timestamp with time zone",
	{TIMESTAMPTZOID}},
	[ROLE_PROCESSED_AT] = {"processed_at", "timestamp with time zone",
	{TIMESTAMPTZOID}},
	[ROLE_LAST_ERROR] = {"last_error", "text or character varying without a length",
	{TEXTOID, VARCHAROID}},
	[ROLE_DEDUP_KEY] = {"dedup_key", "text or character varying",
	{TEXTOID, VARCHAROID}},
	[ROLE_DIED_AT] = {"died_at", "timestamp with time zone",
	{TIMESTAMPTZOID}},
	[ROLE_CAUSE] = {"cause", "text or character varying",
	{TEXTOID, VARCHAROID}},
	[ROLE_REST] = {"rest", "jsonb", {JSONBOID}},
};

const char *
RoleName(Role role)
{
	return role_info[role].name;
}

bool
RoleByName(const char *name, Role *role)
{
	for (int i = 0; i < NUM_ROLES; i++)
	{
		if (strcmp(role_info[i].name, name) == 0)
		{
			*role = (Role) i;
			return true;
		}
	}
	return false;
}

const char *
RoleTypesText(Role role)
{
	return role_info[role].types;
}

/*
 * Receipts and expiries are compared to the microsecond, so the two columns
 * that hold them must store all of it.  An error text may have any length.
 */
bool
RoleTypeFits(Role role, Oid type, int32 typmod)
{
	const RoleInfo *info = &role_info[role];

	if (!OidIsValid(info->type[0]))
		return true;
	if ((role == ROLE_LOCKED_UNTIL || role == ROLE_CLAIMED_AT) &&
		typmod >= 0 && typmod < 6)
		return false;
	if (role == ROLE_LAST_ERROR && typmod >= 0)
		return false;
	for (int i = 0; i < lengthof(info->type); i++)
	{
		if (OidIsValid(info->type[i]) && info->type[i] == type)
			return true;
	}
	return false;
}

static ObjectAddress
column_address(Oid relid, AttrNumber attno)
{
	ObjectAddress object;

	ObjectAddressSubSet(object, RelationRelationId, relid, attno);
	return object;
}

/*
 * LabelRead
 *		Parse a table's label; false when it has none.
 */
bool
LabelRead(Oid relid, QueueSettings *settings)
{
	ObjectAddress object = column_address(relid, 0);
	char	   *label = GetSecurityLabel(&object, LABEL_PROVIDER);

	if (label == NULL)
		return false;
	LabelParse(label, settings);
	return true;
}

bool
LabelReadRole(Oid relid, AttrNumber attno, Role *role)
{
	ObjectAddress object = column_address(relid, attno);
	char	   *label = GetSecurityLabel(&object, LABEL_PROVIDER);

	return label != NULL && RoleByName(label, role);
}

static void
write_label(Oid relid, AttrNumber attno, const char *label)
{
	ObjectAddress object = column_address(relid, attno);

	if (label != NULL)
		LabelCheck(&object, label);
	SetSecurityLabel(&object, LABEL_PROVIDER, label);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}

void
LabelWrite(Oid relid, const QueueSettings *settings)
{
	write_label(relid, 0, LabelFormat(settings));
	/* other settings, other rows that are claimable */
	if (settings->kind == LABEL_QUEUE)
		PendingOpenAll(relid);
}

void
LabelWriteRole(Oid relid, AttrNumber attno, Role role)
{
	write_label(relid, attno, RoleName(role));
}

/*
 * LabelRemove
 *		Take every label of ours off a table and its columns.
 */
void
LabelRemove(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	int			natts = RelationGetNumberOfAttributes(rel);

	table_close(rel, NoLock);
	for (AttrNumber attno = 0; attno <= natts; attno++)
		write_label(relid, attno, NULL);
}

/*
 * scan_labels
 *		Call "visit" for each table that carries a label of ours, until it
 *		returns false.
 *
 * pg_seclabel has no index that would serve; it holds a few rows per queue.
 */
static void
scan_labels(bool (*visit) (Oid relid, const QueueSettings *s, void *arg),
			void *arg)
{
	Relation	rel = table_open(SecLabelRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		FormData_pg_seclabel *form = (FormData_pg_seclabel *) GETSTRUCT(tuple);
		bool		isnull;
		Datum		datum;
		QueueSettings settings;

		if (form->classoid != RelationRelationId || form->objsubid != 0)
			continue;
		datum = heap_getattr(tuple, Anum_pg_seclabel_provider,
							 RelationGetDescr(rel), &isnull);
		if (isnull || strcmp(TextDatumGetCString(datum), LABEL_PROVIDER) != 0)
			continue;
		datum = heap_getattr(tuple, Anum_pg_seclabel_label,
							 RelationGetDescr(rel), &isnull);
		LabelParse(TextDatumGetCString(datum), &settings);
		if (!visit(form->objoid, &settings, arg))
			break;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

typedef struct TokenSearch
{
	const char *token;
	Oid			owner;			/* InvalidOid: whoever it is */
	Oid			except;
	Oid			relid;
	LabelKind	kind;
} TokenSearch;

static bool
visit_token(Oid relid, const QueueSettings *s, void *arg)
{
	TokenSearch *search = (TokenSearch *) arg;

	if (relid == search->except || strcmp(s->token, search->token) != 0 ||
		(OidIsValid(search->owner) && OwnerOf(relid) != search->owner))
		return true;
	search->relid = relid;
	search->kind = s->kind;
	return false;
}

/*
 * LabelFindToken
 *		The table of this owner that carries this token, or InvalidOid.
 *
 * Tokens are no secret, and a table's owner may write any label on it.  So a
 * token says which of its owner's tables is meant, never that somebody may do
 * something to another's, or expects something of it.
 */
Oid
LabelFindToken(const char *token, Oid owner, LabelKind *kind)
{
	TokenSearch search = {token, owner, InvalidOid, InvalidOid, LABEL_NONE};

	scan_labels(visit_token, &search);
	*kind = search.kind;
	return search.relid;
}

/*
 * LabelOtherToken
 *		Another table that carries this token, or InvalidOid.
 */
Oid
LabelOtherToken(const char *token, Oid except)
{
	TokenSearch search = {token, InvalidOid, except, InvalidOid, LABEL_NONE};

	scan_labels(visit_token, &search);
	return search.relid;
}

typedef struct KindSearch
{
	LabelKind	kind;
	List	   *relids;
} KindSearch;

static bool
visit_kind(Oid relid, const QueueSettings *s, void *arg)
{
	KindSearch *search = (KindSearch *) arg;

	if (s->kind == search->kind)
		search->relids = lappend_oid(search->relids, relid);
	return true;
}

/*
 * LabelList
 *		All tables of one kind in this database.
 */
List *
LabelList(LabelKind kind)
{
	KindSearch	search = {kind, NIL};

	scan_labels(visit_kind, &search);
	return search.relids;
}

typedef struct UserSearch
{
	const char *token;
	Oid			owner;
	Oid			except;
	Oid			user;
} UserSearch;

static bool
visit_user(Oid relid, const QueueSettings *s, void *arg)
{
	UserSearch *search = (UserSearch *) arg;

	if (relid == search->except || s->kind != LABEL_QUEUE ||
		strcmp(s->dead_letter, search->token) != 0 ||
		OwnerOf(relid) != search->owner)
		return true;
	search->user = relid;
	return false;
}

/*
 * LabelDeadUser
 *		A queue other than "relid", of the same owner, that buries into the
 *		table of this token, or InvalidOid.
 */
Oid
LabelDeadUser(const char *token, Oid relid)
{
	UserSearch	search = {token, OwnerOf(relid), relid, InvalidOid};

	scan_labels(visit_user, &search);
	return search.user;
}
