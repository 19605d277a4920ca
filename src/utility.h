/*-------------------------------------------------------------------------
 *
 * utility.h
 *	  What must happen before and after utility commands; see utility.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_UTILITY_H
#define INBOX_UTILITY_H

extern void UtilityInit(void);

#endif							/* INBOX_UTILITY_H */
