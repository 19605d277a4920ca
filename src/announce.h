/*-------------------------------------------------------------------------
 *
 * announce.h
 *	  Tell the launcher which databases have the extension.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_ANNOUNCE_H
#define INBOX_ANNOUNCE_H

extern void AnnounceInit(void);
extern void AnnounceTwoPhaseCommit(void);
extern void WorkerAnnounce(void);

#endif							/* INBOX_ANNOUNCE_H */
