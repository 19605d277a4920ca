/*-------------------------------------------------------------------------
 *
 * subscribe.h
 *	  Making and ending subscriptions; see subscribe.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_SUBSCRIBE_H
#define INBOX_SUBSCRIBE_H

extern void SubscribeForgetQueue(Oid queue);

#endif							/* INBOX_SUBSCRIBE_H */
