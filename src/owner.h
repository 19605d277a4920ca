/*-------------------------------------------------------------------------
 *
 * owner.h
 *	  Run a piece of work as a table's owner, with nothing of the caller's
 *	  session able to reach into it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_OWNER_H
#define INBOX_OWNER_H

typedef struct OwnerScope
{
	Oid			userid;			/* to go back to */
	int			sec_context;
	int			guc_level;
} OwnerScope;

extern Oid	OwnerOf(Oid relid);
extern void OwnerEnter(OwnerScope *scope, Oid owner, bool restricted);
extern void OwnerLeave(OwnerScope *scope);
extern void OwnerConstraintsImmediate(void);

#endif							/* INBOX_OWNER_H */
