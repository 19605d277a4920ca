/*-------------------------------------------------------------------------
 *
 * workerview.c
 *	  The function behind view inbox_workers.
 *
 * Anybody may see that the workers run.  An error's text can hold data, so it
 * is shown only to those who may read all statistics, as a query's text is in
 * pg_stat_activity.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "announce.h"
#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "database.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define NUM_COLUMNS	14

static void put_row(ReturnSetInfo *rsinfo, DatabaseEntry *entry,
					bool show_error);
static const char *state_name(DatabaseEntry *entry);
static char *error_text(DatabaseEntry *entry);

PG_FUNCTION_INFO_V1(inbox_worker_status_0_1);
Datum
inbox_worker_status_0_1(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DatabaseEntry *entries;
	bool		show_error;
	int			count;
	int			i;

	InitMaterializedSRF(fcinfo, 0);

	/* nobody works where nothing is shared */
	if (!DatabaseReady())
		return (Datum) 0;

	WorkerAnnounce();
	show_error = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	entries = DatabaseCopyAll(&count);
	for (i = 0; i < count; i++)
	{
		/* of a first look, only the trouble is worth a row */
		if (entries[i].confirmed || entries[i].failures > 0)
			put_row(rsinfo, &entries[i], show_error);
	}
	pfree(entries);

	return (Datum) 0;
}

static void
put_row(ReturnSetInfo *rsinfo, DatabaseEntry *entry, bool show_error)
{
	char	   *name = get_database_name(entry->database);
	Datum		values[NUM_COLUMNS];
	bool		nulls[NUM_COLUMNS] = {0};
	int			i = 0;

	/* dropped this moment */
	if (name == NULL)
		return;

	values[i++] = CStringGetTextDatum(name);
	nulls[i] = entry->pid == 0;
	values[i++] = Int32GetDatum(entry->pid);
	values[i++] = CStringGetTextDatum(state_name(entry));
	nulls[i] = entry->started_at == 0;
	values[i++] = TimestampTzGetDatum(entry->started_at);
	nulls[i] = entry->tick_at == 0;
	values[i++] = TimestampTzGetDatum(entry->tick_at);
	nulls[i] = entry->ticks == 0;
	values[i++] = DirectFunctionCall7(make_interval,
									  Int32GetDatum(0), Int32GetDatum(0),
									  Int32GetDatum(0), Int32GetDatum(0),
									  Int32GetDatum(0), Int32GetDatum(0),
									  Float8GetDatum(entry->tick_usecs / 1000000.0));
	values[i++] = Int64GetDatum(entry->ticks);
	nulls[i] = entry->ticks == 0;
	values[i++] = Int32GetDatum(entry->queues);
	values[i++] = Int64GetDatum(entry->counts.expired);
	values[i++] = Int64GetDatum(entry->counts.buried);
	values[i++] = Int64GetDatum(entry->counts.purged);
	values[i++] = Int64GetDatum(entry->counts.set_aside);
	nulls[i] = entry->error_at == 0;
	values[i++] = CStringGetTextDatum(show_error ? error_text(entry) :
									  "<insufficient privilege>");
	nulls[i] = entry->error_at == 0;
	values[i++] = TimestampTzGetDatum(entry->error_at);
	Assert(i == NUM_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static const char *
state_name(DatabaseEntry *entry)
{
	switch (entry->phase)
	{
		case DATABASE_UNKNOWN:
			break;
		case DATABASE_WANTED:
			return entry->failures > 0 ? "failed" : "waiting";
		case DATABASE_STARTING:
		case DATABASE_PROBING:
			return "starting";
		case DATABASE_IDLE:
			return "idle";
		case DATABASE_SWEEPING:
			return "sweeping";
		case DATABASE_AWAY:
			return "away";
	}
	return "unknown";
}

/* The text is in the encoding of the database it came from. */
static char *
error_text(DatabaseEntry *entry)
{
	char	   *p;

	if (entry->error_encoding != GetDatabaseEncoding())
	{
		for (p = entry->error; *p; p++)
		{
			if (IS_HIGHBIT_SET(*p))
				*p = '?';
		}
	}
	return entry->error;
}
