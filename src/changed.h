/*-------------------------------------------------------------------------
 *
 * changed.h
 *	  The triggers by which plain INSERT, COPY and UPDATE reach the hints.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_CHANGED_H
#define INBOX_CHANGED_H

#include "queue.h"
#include "utils/reltrigger.h"

extern void ChangedAddTriggers(Oid relid, Oid namespaceid);
extern bool ChangedHasTriggers(Oid relid);
extern void ChangedDropTriggers(Oid relid);
extern bool ChangedOnlyOurs(const TriggerDesc *triggers, int16 event);

#endif							/* INBOX_CHANGED_H */
