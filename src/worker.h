/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The process that reaps one database's queues; see worker.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef INBOX_WORKER_H
#define INBOX_WORKER_H

extern PGDLLEXPORT void WorkerMain(Datum main_arg);

#endif							/* INBOX_WORKER_H */
