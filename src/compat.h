/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  The one place that knows PostgreSQL versions.
 *
 * PostgreSQL 15 is the floor; 16, 17 and 18 are supported.  Everything else
 * in src/ is written against the newest signatures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_COMPAT_H
#define INBOX_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "inbox needs PostgreSQL 15 or newer"
#endif

#include "catalog/pg_class.h"
#include "utils/acl.h"

/* 17 knows infinite intervals */
#if PG_VERSION_NUM >= 170000
#define IntervalIsInfinite(iv)	INTERVAL_NOT_FINITE(iv)
#else
#define IntervalIsInfinite(iv)	false
#endif

static inline bool
OwnsRelation(Oid relid, Oid roleid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, roleid);
#else
	return pg_class_ownercheck(relid, roleid);
#endif
}

#endif							/* INBOX_COMPAT_H */
