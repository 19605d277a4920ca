/*-------------------------------------------------------------------------
 *
 * history.h
 *	  What happened to a message, kept in its headers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_HISTORY_H
#define INBOX_HISTORY_H

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

/* one entry; what is NULL or negative is left out */
typedef struct HistoryEvent
{
	const char *event;			/* "buried" or "redriven" */
	TimestampTz at;
	const char *cause;
	int64		attempt;
	const char *error;
} HistoryEvent;

extern void HistoryTime(StringInfo buf, TimestampTz at);
extern bool HistoryParseTime(const char *str, TimestampTz *at);
extern Datum HistoryEntry(const HistoryEvent *ev);
extern void HistoryAppendSql(StringInfo buf, const char *headers,
							 const char *entry, const char *change);

#endif							/* INBOX_HISTORY_H */
