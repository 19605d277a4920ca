/*-------------------------------------------------------------------------
 *
 * deadmap.c
 *	  Which column of a queue goes to which column of its dead letters.
 *
 * Into a dead-letter table everything goes: by role first, then by name, and
 * what finds no column goes into the one with the role "rest".  Another queue
 * as destination takes the content of the message, but an id and a delivery
 * state of its own; what it does not take is kept in the headers.
 *
 * deadsql.c makes the statement that buries from this, redrivesql.c the one
 * that brings back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "bury.h"
#include "catalog/pg_type.h"
#include "deadmap.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* Can a value be written to the column: it exists and is not computed. */
bool
DeadMapLive(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	return !att->attisdropped && att->attgenerated == '\0';
}

const char *
DeadMapColumn(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	return quote_identifier(NameStr(att->attname));
}

/* The column's type as in a cast, with its length. */
char *
DeadMapType(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	return format_type_extended(att->atttypid, att->atttypmod,
								FORMAT_TYPE_TYPEMOD_GIVEN |
								FORMAT_TYPE_FORCE_QUALIFY);
}

static Role *
column_roles(Relation rel)
{
	int			natts = RelationGetNumberOfAttributes(rel);
	Role	   *roles = palloc(sizeof(Role) * Max(natts, 1));

	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		if (TupleDescAttr(RelationGetDescr(rel), attno - 1)->attisdropped ||
			!LabelReadRole(RelationGetRelid(rel), attno, &roles[attno - 1]))
			roles[attno - 1] = NO_ROLE;
	}
	return roles;
}

static bool
assignable(Relation from, AttrNumber a, Relation to, AttrNumber b)
{
	Oid			source = TupleDescAttr(RelationGetDescr(from), a - 1)->atttypid;
	Oid			target = TupleDescAttr(RelationGetDescr(to), b - 1)->atttypid;

	return can_coerce_type(1, &source, &target, COERCION_ASSIGNMENT);
}

/*
 * The column of a dead-letter table that takes one of the queue's, or 0.  A
 * column of the same name that has a role of its own is something else.
 */
static AttrNumber
counterpart(DeadMap *map, AttrNumber attno, const Role *dest_role)
{
	TupleDesc	desc = RelationGetDescr(map->queue);
	Role		role = map->role[attno - 1];
	AttrNumber	found = role == NO_ROLE ? 0 : map->by_role[role];

	if (found == 0)
	{
		found = get_attnum(RelationGetRelid(map->dest),
						   NameStr(TupleDescAttr(desc, attno - 1)->attname));
		if (found <= 0 || dest_role[found - 1] != NO_ROLE)
			return 0;
	}
	if (!DeadMapLive(map->dest, found) ||
		!assignable(map->queue, attno, map->dest, found))
		return 0;
	return found;
}

/* What a message has there by that queue's own defaults or rules. */
static bool
is_renewed(Role role)
{
	return role != NO_ROLE && role != ROLE_PAYLOAD && role != ROLE_PRIORITY &&
		role != ROLE_GROUP_KEY && role != ROLE_PARTITION_KEY;
}

/*
 * The same for another queue.  Its payload may be JSON where ours is not.
 */
static AttrNumber
content(DeadMap *map, AttrNumber attno, const Role *dest_role)
{
	AttrNumber	found;
	Oid			type;

	if (is_renewed(map->role[attno - 1]))
		return 0;
	found = counterpart(map, attno, dest_role);
	if (found != 0 || map->role[attno - 1] != ROLE_PAYLOAD)
		return found;
	found = map->by_role[ROLE_PAYLOAD];
	if (found == 0 || !DeadMapLive(map->dest, found))
		return 0;
	type = TupleDescAttr(RelationGetDescr(map->dest), found - 1)->atttypid;
	return type == JSONBOID || type == JSONOID ? found : 0;
}

/*
 * DeadMapOpen
 *		Lock the destination and pair the columns.  The caller has the queue
 *		locked and its dead letters are rows of a table.
 */
void
DeadMapOpen(DeadMap *map, Queue *q, LOCKMODE lockmode)
{
	Role	   *dest_role;
	int			natts;

	map->q = q;
	map->queue = table_open(q->relid, NoLock);
	map->dest = try_table_open(q->dead_relid, lockmode);
	if (map->dest == NULL)
		BuryRefuse(q);
	map->to_queue = q->dead_kind == LABEL_QUEUE;
	map->role = column_roles(map->queue);
	dest_role = column_roles(map->dest);
	memset(map->by_role, 0, sizeof(map->by_role));
	natts = RelationGetNumberOfAttributes(map->dest);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		if (dest_role[attno - 1] != NO_ROLE)
			map->by_role[dest_role[attno - 1]] = attno;
	}
	natts = RelationGetNumberOfAttributes(map->queue);
	map->dest_of = palloc0(sizeof(AttrNumber) * natts);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		if (TupleDescAttr(RelationGetDescr(map->queue), attno - 1)->attisdropped)
			continue;
		map->dest_of[attno - 1] = map->to_queue ? content(map, attno, dest_role) :
			counterpart(map, attno, dest_role);
	}
}

void
DeadMapClose(DeadMap *map)
{
	table_close(map->dest, NoLock);
	table_close(map->queue, NoLock);
}
