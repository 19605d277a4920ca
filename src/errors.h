/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  SQLSTATEs of inbox's own.
 *
 * Everything that PostgreSQL already has a code for uses that code.  What is
 * left is class IB; clients match on these, so none of them ever changes its
 * meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ERRORS_H
#define INBOX_ERRORS_H

#include "utils/elog.h"

/* a settlement under "strict" found a row that its receipt does not hold */
#define ERRCODE_INBOX_NOT_HELD		MAKE_SQLSTATE('I', 'B', '0', '0', '1')
/* the table exists, but it is not registered as a queue */
#define ERRCODE_INBOX_NOT_A_QUEUE	MAKE_SQLSTATE('I', 'B', '0', '0', '2')
/* the table is registered, but its labels and columns do not fit together */
#define ERRCODE_INBOX_BROKEN_QUEUE	MAKE_SQLSTATE('I', 'B', '0', '0', '3')

#endif							/* INBOX_ERRORS_H */
