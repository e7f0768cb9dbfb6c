/* SPDX-License-Identifier: MIT */
/* Finds jobs whose runs would wait for a run of a job with `follow: true`. */
#include "jobs/following.h"

#include <strings.h>

#include "jobs/job.h"

/* A table that one job writes, and another job. Does the other job write the
 * table too? */
struct looking {
    const struct job *other;
    size_t store; /* index of the store of `table` */
    const char *table;
    const char *shared; /* a table that both jobs write; NULL: none */
};

static void compare_table(
    void *context, size_t store, const char *table, enum job_access access)
{
    struct looking *looking = context;

    if (access != JOB_READS && store == looking->store &&
        strcasecmp(table, looking->table) == 0)
        looking->shared = looking->table;
}

static void compare_tables(
    void *context, size_t store, const char *table, enum job_access access)
{
    struct looking *looking = context;

    if (access == JOB_READS || looking->shared)
        return;
    looking->store = store;
    looking->table = table;
    looking->other->kind->tables(looking->other, compare_table, looking);
}

/* Returns the name of a table that both jobs write, or NULL. */
static const char *shared_table(const struct job *job, const struct job *other)
{
    struct looking looking = {.other = other};

    job->kind->tables(job, compare_tables, &looking);
    return looking.shared;
}

static bool follows(const struct job *job)
{
    return job->kind->follows && job->kind->follows(job);
}

static void check_pair(
    const struct job *job, const struct job *other, struct problems *problems)
{
    const char *table = shared_table(job, other);

    if (!table)
        return;
    if (follows(job) && follows(other))
        problems_add(problems, other->mark,
            "jobs %s and %s both have `follow: true` and write table %s: a run "
            "of one job would wait until a run of the other job is ended by "
            "`finish`",
            job->name, other->name, table);
    else
        problems_warn(problems, (follows(job) ? job : other)->mark,
            "job %s has `follow: true`: while a run of it is open, runs of job "
            "%s wait for table %s",
            (follows(job) ? job : other)->name,
            (follows(job) ? other : job)->name, table);
}

void following_check(const struct jobs *jobs, struct problems *problems)
{
    for (size_t i = 0; i < jobs->count; i++)
        for (size_t k = i + 1; k < jobs->count; k++) {
            const struct job *job = &jobs->list[i], *other = &jobs->list[k];

            if (job->kind->table_job && other->kind->table_job &&
                (follows(job) || follows(other)))
                check_pair(job, other, problems);
        }
}
