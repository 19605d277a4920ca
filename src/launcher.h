/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that starts a worker in each database; see launcher.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_LAUNCHER_H
#define INBOX_LAUNCHER_H

extern void LauncherInit(void);
extern PGDLLEXPORT void LauncherMain(Datum main_arg);

#endif							/* INBOX_LAUNCHER_H */
