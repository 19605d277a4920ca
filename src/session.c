/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What our processes have in common: settings, and how they stop.
 *
 * A process of ours gets what postgresql.conf and ALTER DATABASE or ALTER ROLE
 * ... SET say, like any session.  Some of that is meant for people and would
 * stop a worker: a read-only default, a timeout, another role.  Set here, with
 * a source that later reloads don't override, as autovacuum does it.
 *
 * A process that is told to end in mid-work dies of it like any session, with
 * a line in the log; one that is between two pieces of work leaves in silence,
 * as it does at each shutdown.  Both end with a status that is not zero.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "compat.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "session.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"

typedef struct Setting
{
	const char *name;
	const char *value;
} Setting;

/* for processes that run with rights of the server's */
static const Setting own_settings[] = {
	/* nothing but the built-in objects is found without a schema */
	{"search_path", "pg_catalog, pg_temp"},
	/* a pass that meets a locked table gives way, and soon */
	{"lock_timeout", "1s"},
};

/* for those that run as a user */
static const Setting user_settings[] = {
	{"lock_timeout", "0"},
};

static const Setting settings[] = {
	/* ALTER DATABASE ... SET can change the role */
	{"role", "none"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"statement_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
#ifdef HAVE_TRANSACTION_TIMEOUT
	{"transaction_timeout", "0"},
#endif
	/* one queue's error must not end the process */
	{"exit_on_error", "off"},
	{"zero_damaged_pages", "off"},
	{"ignore_checksum_failure", "off"},
};

/* at first it connects */
static volatile sig_atomic_t busy = true;

/* nobody waits for what it commits */
static bool quick = false;

static void limit_synchronous_commit(void);

static void
apply(const Setting *setting, int n)
{
	for (int i = 0; i < n; i++)
		SetConfigOption(setting[i].name, setting[i].value,
						PGC_SUSET, PGC_S_OVERRIDE);
}

/* Called once, right after connecting. */
void
SessionHarden(void)
{
	/* ALTER DATABASE ... SET session_authorization has no other way back */
	SetSessionAuthorization(GetAuthenticatedUserId(), true);

	apply(own_settings, lengthof(own_settings));
	apply(settings, lengthof(settings));
	quick = true;
	limit_synchronous_commit();
}

/*
 * The same in a process that is connected as a user, whose code it runs: that
 * finds its objects, and its commits are as durable, as in a session of his.
 */
void
SessionSettle(void)
{
	/* only a superuser's can have been changed */
	if (GetSessionUserId() != GetAuthenticatedUserId())
		SetSessionAuthorization(GetAuthenticatedUserId(), true);
	apply(user_settings, lengthof(user_settings));
	apply(settings, lengthof(settings));
}

/* Called where the process can bear changed settings. */
void
SessionReload(void)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		limit_synchronous_commit();
	}
}

/*
 * Never wait for a standby: it may be gone, and nobody waits for our commits.
 * What the server's owner has chosen below that stays.
 */
static void
limit_synchronous_commit(void)
{
	if (quick && synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		SetConfigOption("synchronous_commit", "local",
						PGC_SUSET, PGC_S_OVERRIDE);
}

/* Handler for SIGTERM. */
void
SessionStop(SIGNAL_ARGS)
{
	if (busy)
		die(postgres_signal_arg);
	else
		SignalHandlerForShutdownRequest(postgres_signal_arg);
}

/* A piece of work begins, that may wait for locks or run users' code. */
void
SessionBusy(void)
{
	busy = true;
	/* in this order, so that no request falls in between */
	SessionCheckStop();
}

/* It is over. */
void
SessionIdle(void)
{
	busy = false;
	SessionCheckStop();
}

/* To be called in every loop. */
void
SessionCheckStop(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		proc_exit(1);
}
