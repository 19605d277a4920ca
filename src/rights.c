/*-------------------------------------------------------------------------
 *
 * rights.c
 *	  What the current user may do to a queue's table, remembered.
 *
 * Each call asks several times, and each answer is a walk over the table's
 * ACL and the user's roles.  So the last answer is kept in the queue's entry,
 * for one user.  What it rests on, and what makes it void:
 *
 *	  the table's ACL, owner and row security	the entry goes with every
 *												change of the table (queue.c)
 *	  the user's attributes and memberships		their catalogs' invalidations,
 *												which step "epoch"
 *	  who the user is							kept beside the answer
 *
 * These are the invalidations by which the server's own caches of catalogs
 * and role memberships go, so an answer is never older than theirs.
 * Privileges on single columns are not remembered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "queue.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/rls.h"
#include "utils/syscache.h"

/* all that we ever ask for */
#define RIGHTS	(ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE)

static uint64 epoch = 1;

static void
forget_rights(Datum arg, int cacheid, uint32 hashvalue)
{
	epoch++;
}

/*
 * RightsInit
 *		Once in a backend, before the first question.
 */
void
RightsInit(void)
{
	CacheRegisterSyscacheCallback(AUTHOID, forget_rights, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_rights, (Datum) 0);
	/* the database's owner is a member of pg_database_owner */
	CacheRegisterSyscacheCallback(DATABASEOID, forget_rights, (Datum) 0);
}

/*
 * RightsEpoch
 *		Another number than before if anything of a role may have changed.
 */
uint64
RightsEpoch(void)
{
	return epoch;
}

/*
 * QueueHasRights
 *		Has the current user all of these privileges on the whole table?
 */
bool
QueueHasRights(Queue *q, AclMode mode)
{
	Oid			user = GetUserId();

	Assert((mode & ~RIGHTS) == 0);
	if (q->rights_epoch != epoch || q->rights_user != user)
	{
		uint64		asked = epoch;

		q->rights_epoch = 0;
		q->rights = pg_class_aclmask(q->relid, user, RIGHTS, ACLMASK_ALL);
		q->rights_user = user;
		q->rights_epoch = asked;
	}
	return (q->rights & mode) == mode;
}

/*
 * QueueCheckRights
 *		Raise an error unless the current user has each of the privileges on
 *		the table, or on at least one of its columns; a statement then checks
 *		the columns it touches.
 */
void
QueueCheckRights(Queue *q, AclMode mode)
{
	if (QueueHasRights(q, mode))
		return;
	for (AclMode bit = 1; bit <= mode; bit <<= 1)
	{
		if ((mode & bit) == 0 ||
			pg_class_aclcheck(q->relid, GetUserId(), bit) == ACLCHECK_OK)
			continue;
		if ((bit & ACL_ALL_RIGHTS_COLUMN) == 0 ||
			pg_attribute_aclcheck_all(q->relid, GetUserId(), bit,
									  ACLMASK_ANY) != ACLCHECK_OK)
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, q->relname);
	}
}

/*
 * QueueRowSecurity
 *		Do policies concern the current user?  Only whether the table has any
 *		is remembered.
 */
bool
QueueRowSecurity(Queue *q)
{
	return q->row_security &&
		check_enable_rls(q->relid, InvalidOid, true) == RLS_ENABLED;
}
