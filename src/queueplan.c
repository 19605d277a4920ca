/*-------------------------------------------------------------------------
 *
 * queueplan.c
 *	  The saved plans of a queue.
 *
 * A plan belongs to the queue's cache entry (queue.c) and lives as long: its
 * text has names in it that the entry was made with.  Who needs a plan asks for
 * it by what it is for, and makes it when there is none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "queue.h"

/*
 * QueueFindPlan
 *		A plan saved before, or NULL.
 */
SPIPlanPtr
QueueFindPlan(Queue *q, PlanKind kind, uint32 variant)
{
	for (SavedPlan *p = q->plans; p != NULL; p = p->next)
	{
		if (p->kind == kind && p->variant == variant)
			return p->plan;
	}
	return NULL;
}

/*
 * QueueSavePlan
 *		Make a plan that lives as long as the entry.  SPI is connected.
 */
SPIPlanPtr
QueueSavePlan(Queue *q, PlanKind kind, uint32 variant, const char *sql,
			  int nargs, Oid *argtypes, int options)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(sql, nargs, argtypes, options);
	SavedPlan  *saved;

	if (plan == NULL)
		elog(ERROR, "SPI_prepare_cursor returned %s for \"%s\"",
			 SPI_result_code_string(SPI_result), sql);
	saved = MemoryContextAlloc(q->cxt, sizeof(SavedPlan));
	SPI_keepplan(plan);
	saved->kind = kind;
	saved->variant = variant;
	saved->plan = plan;
	saved->next = q->plans;
	q->plans = saved;
	return plan;
}

/*
 * QueueFreePlans
 *		The entry goes, which is where the list is kept.
 */
void
QueueFreePlans(Queue *q)
{
	for (SavedPlan *p = q->plans; p != NULL; p = p->next)
		SPI_freeplan(p->plan);
}
