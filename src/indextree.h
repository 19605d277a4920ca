/*-------------------------------------------------------------------------
 *
 * indextree.h
 *	  An index's predicate and expressions, as they are stored.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_INDEXTREE_H
#define INBOX_INDEXTREE_H

#include "utils/rel.h"

extern Node *IndexTreeGet(Relation index, AttrNumber attno);
extern bool IndexTreePartial(Relation index);
extern bool IndexTreeHolds(Relation index, AttrNumber not_null,
						   AttrNumber null);
extern bool IndexTreeNames(Relation index, AttrNumber attno);

#endif							/* INBOX_INDEXTREE_H */
