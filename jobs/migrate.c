/* SPDX-License-Identifier: MIT */
/* migrate: copies, or moves, what a selection of a table holds; the work itself
 * is copier.h. */
#include "jobs/migrate.h"

#include "jobs/copier.h"
#include "jobs/migrate_rules.h"

static void *migrate_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    return migrate_rules_load(node, loader);
}

static void migrate_explain(const struct job *job, struct buf *to)
{
    migrate_rules_explain(job->settings, to);
}

static void migrate_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct copier_rules *rules = job->settings;

    each(ctx, rules->from.store, rules->from.table, JOB_WRITES);
    for (size_t i = 0; i < rules->target_count; i++)
        each(ctx, rules->targets[i].place.store, rules->targets[i].place.table,
            JOB_WRITES);
}

static enum tw_err migrate_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    return copier_accept(job->settings, args, err);
}

static enum tw_err migrate_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    return copier_estimate(job->settings, stores, run, ret, err);
}

static enum run_end migrate_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    return copier_run(job->settings, stores, run, err);
}

const struct kind migrate_kind = {
    .name = "migrate",
    .summary = "copies or moves entities to new keys, tables and accounts",
    .destructive = true,
    .load = migrate_load,
    .explain = migrate_explain,
    .accept = migrate_accept,
    .tables = migrate_tables,
    .estimate = migrate_estimate,
    .run = migrate_run,
};
