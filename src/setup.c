/*-------------------------------------------------------------------------
 *
 * setup.c
 *	  What inbox_create, inbox_adopt and inbox_alter share.
 *
 * The three take the same settings, in the same order, as a row of arguments.
 * They are read and checked one by one here, then, once it is known which
 * columns the queue has, in combination.  A NULL argument leaves the setting
 * as it is: at its default in a new queue, unchanged in inbox_alter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "duration.h"
#include "setup.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

static const char *const setting_names[NUM_SETTINGS] = {
	[SETTING_LEASE] = "lease",
	[SETTING_MAX_ATTEMPTS] = "max_attempts",
	[SETTING_DEAD_LETTER] = "dead_letter",
	[SETTING_BACKOFF] = "backoff",
	[SETTING_BACKOFF_MAX] = "backoff_max",
	[SETTING_RETENTION] = "retention",
	[SETTING_DEAD_GROUP] = "dead_group",
	[SETTING_FIFO] = "fifo",
	[SETTING_FIFO_RETRY] = "fifo_retry",
};

static int64
read_duration(FunctionCallInfo fcinfo, int n, const char *what)
{
	return DurationMicros(PG_GETARG_INTERVAL_P(n), what, 0, MAX_DELAY_USECS,
						  "ten years");
}

static int
read_max_attempts(FunctionCallInfo fcinfo, int n)
{
	int			max_attempts = PG_GETARG_INT32(n);

	if (max_attempts < 1 || max_attempts > PG_INT16_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid max_attempts %d", max_attempts),
				 errdetail("max_attempts is between 1 and %d.", PG_INT16_MAX),
				 errhint("For no cap on the attempts, leave max_attempts out or reset it with inbox_alter.")));
	return max_attempts;
}

/* is a retried head to be requeued? */
static bool
read_fifo_retry(const char *value)
{
	if (strcmp(value, "hold") != 0 && strcmp(value, "requeue") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid fifo_retry \"%s\"", value),
				 errhint("Use \"hold\" or \"requeue\".")));
	return strcmp(value, "requeue") == 0;
}

/*
 * SetupReadSettings
 *		Read the settings among a function's arguments, the first of which is
 *		"first", over those in *settings.  Returns the argument dead_letter,
 *		or NULL: it names a table, which the caller looks up.
 */
text *
SetupReadSettings(FunctionCallInfo fcinfo, int first, QueueSettings *settings)
{
	if (!PG_ARGISNULL(first + SETTING_LEASE))
		settings->lease =
			DurationLease(PG_GETARG_INTERVAL_P(first + SETTING_LEASE));
	if (!PG_ARGISNULL(first + SETTING_MAX_ATTEMPTS))
		settings->max_attempts = read_max_attempts(fcinfo,
												   first + SETTING_MAX_ATTEMPTS);
	if (!PG_ARGISNULL(first + SETTING_BACKOFF))
		settings->backoff = read_duration(fcinfo, first + SETTING_BACKOFF,
										  "backoff");
	if (!PG_ARGISNULL(first + SETTING_BACKOFF_MAX))
		settings->backoff_max = read_duration(fcinfo,
											  first + SETTING_BACKOFF_MAX,
											  "backoff_max");
	if (!PG_ARGISNULL(first + SETTING_RETENTION))
		settings->retention = read_duration(fcinfo, first + SETTING_RETENTION,
											"retention");
	if (!PG_ARGISNULL(first + SETTING_DEAD_GROUP))
		settings->dead_group = ArgString(fcinfo, first + SETTING_DEAD_GROUP);
	if (!PG_ARGISNULL(first + SETTING_FIFO))
		settings->fifo = PG_GETARG_BOOL(first + SETTING_FIFO);
	if (!PG_ARGISNULL(first + SETTING_FIFO_RETRY))
		settings->fifo_requeue =
			read_fifo_retry(ArgString(fcinfo, first + SETTING_FIFO_RETRY));
	if (PG_ARGISNULL(first + SETTING_DEAD_LETTER))
		return NULL;
	return PG_GETARG_TEXT_PP(first + SETTING_DEAD_LETTER);
}

static Setting
setting_by_name(const char *name)
{
	StringInfoData valid;

	for (int i = 0; i < NUM_SETTINGS; i++)
	{
		if (strcmp(setting_names[i], name) == 0)
			return (Setting) i;
	}
	initStringInfo(&valid);
	for (int i = 0; i < NUM_SETTINGS; i++)
		appendStringInfo(&valid, "%s%s", i == 0 ? "" : ", ", setting_names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized setting \"%s\"", name),
			 errhint("The settings are %s.", valid.data)));
	return SETTING_LEASE;		/* keep compiler quiet */
}

static void
reset_one(QueueSettings *s, Setting setting)
{
	QueueSettings fresh;

	LabelDefaults(&fresh);
	switch (setting)
	{
		case SETTING_LEASE:
			s->lease = fresh.lease;
			break;
		case SETTING_MAX_ATTEMPTS:
			s->max_attempts = fresh.max_attempts;
			break;
		case SETTING_DEAD_LETTER:
			s->dead_letter[0] = '\0';
			break;
		case SETTING_BACKOFF:
			s->backoff = fresh.backoff;
			break;
		case SETTING_BACKOFF_MAX:
			s->backoff_max = fresh.backoff_max;
			break;
		case SETTING_RETENTION:
			s->retention = fresh.retention;
			break;
		case SETTING_DEAD_GROUP:
			s->dead_group = fresh.dead_group;
			break;
		case SETTING_FIFO:
			s->fifo = fresh.fifo;
			break;
		case SETTING_FIFO_RETRY:
			s->fifo_requeue = fresh.fifo_requeue;
			break;
	}
}

/*
 * SetupReset
 *		Put the settings that an array argument names back to their defaults.
 */
void
SetupReset(FunctionCallInfo fcinfo, int n, int first, QueueSettings *settings)
{
	ArgArray	names;

	ArgGetArray(fcinfo, n, TEXTOID, &names);
	for (int i = 0; i < names.n; i++)
	{
		Setting		setting;

		if (names.nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("reset must not contain nulls")));
		setting = setting_by_name(TextDatumGetCString(names.values[i]));
		if (!PG_ARGISNULL(first + setting))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s is both set and reset", setting_names[setting]),
					 errhint("Either give it a value or name it in reset.")));
		reset_one(settings, setting);
	}
}

static void
needs_role(const RoleColumn *col, Role role, const char *setting)
{
	if (col[role].attno != 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s needs a column with role \"%s\"", setting,
					RoleName(role)),
			 errhint("Name that column in inbox_adopt: %s => '...'; a table that is a queue already needs inbox_forget first.",
					 RoleName(role))));
}

/*
 * A delivery that is the last one leaves max_attempts and the base, 0 or 1,
 * added up in the column.
 */
static void
check_attempt_type(const QueueSettings *s, const RoleColumn *attempt)
{
	if (attempt->type == INT2OID &&
		s->max_attempts + s->attempt_base > PG_INT16_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("max_attempts %d does not fit the attempt column",
						s->max_attempts),
				 errdetail("The column is of type smallint."),
				 errhint("Use at most %d, or make the column an integer.",
						 PG_INT16_MAX - s->attempt_base)));
}

/*
 * An adopted table has no place for its dead letters but the one it is given,
 * so the cap and the place go together.
 */
static void
check_adopted_cap(const QueueSettings *s, bool dead_letter)
{
	bool		dead = dead_letter || s->dead_group != NULL;

	if (s->max_attempts > 0 && !dead)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_attempts needs a place for dead letters"),
				 errhint("Name a table or queue in dead_letter, or a group in dead_group.")));
	if (s->max_attempts == 0 && dead)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s needs max_attempts",
						dead_letter ? "dead_letter" : "dead_group"),
				 errhint("Set max_attempts too: the number of deliveries after which a message is dead.")));
}

/*
 * Burying by group writes the group key.
 */
static void
check_dead_group(Oid relid, const RoleColumn *col)
{
	AttrNumber	attno = col[ROLE_GROUP_KEY].attno;

	needs_role(col, ROLE_GROUP_KEY, "dead_group");
	if (OidIsValid(relid) && get_attgenerated(relid, attno) != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("dead_group cannot be set in a generated column"),
				 errdetail("Column \"%s\" has the role \"%s\".",
						   get_attname(relid, attno, false),
						   RoleName(ROLE_GROUP_KEY)),
				 errhint("Use dead_letter.")));
}

/*
 * A head that holds its group rests under a claim instant that nobody has.
 */
static void
check_fifo(const QueueSettings *s, const RoleColumn *col)
{
	needs_role(col, ROLE_GROUP_KEY, "fifo");
	if (!s->fifo_requeue && col[ROLE_CLAIMED_AT].attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("fifo_retry \"hold\" needs a column with role \"claimed_at\""),
				 errdetail("It tells a message that rests from one that is leased."),
				 errhint("Add a timestamptz column and name it in inbox_adopt: claimed_at => '...'; or use fifo_retry => 'requeue'.")));
}

/*
 * SetupCheck
 *		Do the settings fit each other and the columns?  "dead_letter" tells
 *		that the queue has, or is to have, a table or queue to bury in; a
 *		table yet to be made is InvalidOid.
 */
void
SetupCheck(const QueueSettings *settings, Oid relid, const RoleColumn *col,
		   bool dead_letter)
{
	if (settings->backoff_max < settings->backoff)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("backoff_max is shorter than backoff"),
				 errdetail("backoff is the first pause, backoff_max the longest."),
				 errhint("Set both backoff and backoff_max.")));
	if (dead_letter && settings->dead_group != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("dead_letter and dead_group exclude each other"),
				 errhint("Use one of them; unset the other with inbox_alter(..., reset => '{...}').")));
	if (settings->dead_group != NULL)
		check_dead_group(relid, col);
	if (settings->fifo)
		check_fifo(settings, col);
	if (settings->retention != NO_RETENTION)
		needs_role(col, ROLE_PROCESSED_AT, "retention");
	if (settings->max_attempts > 0)
	{
		needs_role(col, ROLE_ATTEMPT, "max_attempts");
		check_attempt_type(settings, &col[ROLE_ATTEMPT]);
	}
	if (!settings->created)
		check_adopted_cap(settings, dead_letter);
}

/*
 * SetupExec
 *		Run one statement of DDL as the current user.
 */
void
SetupExec(const char *sql)
{
	int			rc;

	SPI_connect();
	rc = SPI_execute(sql, false, 0);
	if (rc < 0)
		elog(ERROR, "SPI_execute returned %s for \"%s\"",
			 SPI_result_code_string(rc), sql);
	SPI_finish();
}

/*
 * SetupOpenOwned
 *		Find and lock a queue of the current user's, and read its settings.
 */
Oid
SetupOpenOwned(text *name, LOCKMODE lockmode, QueueSettings *settings)
{
	Oid			relid = QueueResolveOwned(name, lockmode);

	if (!LabelRead(relid, settings) || settings->kind != LABEL_QUEUE)
		QueueRefuse(relid);
	return relid;
}
