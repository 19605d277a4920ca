/*-------------------------------------------------------------------------
 *
 * notify.h
 *	  NOTIFY by the worker, for clients with an event loop; see notify.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_NOTIFY_H
#define INBOX_NOTIFY_H

#include "queue.h"

extern void NotifyIfAny(Queue *q);

#endif							/* INBOX_NOTIFY_H */
