/*-------------------------------------------------------------------------
 *
 * head.h
 *	  The rows at the head of a queue; see head.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HEAD_H
#define INBOX_HEAD_H

#include "sample.h"

extern bool HeadRows(Sample *s, Queue *q, int entries, SampleVisit visit,
					 void *arg);

#endif							/* INBOX_HEAD_H */
