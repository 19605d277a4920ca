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

#endif							/* INBOX_COMPAT_H */
