/* SPDX-License-Identifier: MIT */
/*
 * The lists are guarded by one lock. They are short (configured jobs, pairs of
 * a store and a cause, runs in progress), and the lock is taken a few times for
 * each attempt.
 */
#include "worker/run/activity.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "jobs/engine/run.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

/* Maximum number of held runs that are remembered, each with the store and the
 * cause that hold it. */
#define HELD_MAX 8192
/* A held run is forgotten this long after its until_ms. By then another worker
 * has continued the run, or the run was cancelled. */
#define HELD_GRACE_MS 60000

struct job {
    struct activity_job shown;
    char *name;
};

/* A run between activity_begin() and activity_end(). */
struct running {
    const struct run *run;
    size_t job;
    int64_t counted[ACTIVITY_ENTITIES]; /* run->counts as read last */
};

struct held {
    uint64_t run; /* hash of job and id */
    size_t hold;
    int64_t until_ms;
};

struct activity {
    struct platform_mutex lock; /* guards all fields below */
    struct job *jobs;
    size_t job_count;
    struct running *running;
    size_t running_count;
    struct held *held;
    size_t held_count;
    struct activity_hold *holds;
    size_t hold_count;
    char **stores; /* the names in holds */
    size_t store_count;
};

struct activity *activity_new(void)
{
    struct activity *activity = mem_alloc(sizeof(*activity));

    platform_mutex_init(&activity->lock);
    return activity;
}

void activity_free(struct activity *activity)
{
    if (!activity)
        return;
    for (size_t i = 0; i < activity->job_count; i++)
        mem_free(activity->jobs[i].name);
    for (size_t i = 0; i < activity->store_count; i++)
        mem_free(activity->stores[i]);
    mem_free(activity->jobs);
    mem_free(activity->running);
    mem_free(activity->held);
    mem_free(activity->holds);
    mem_free(activity->stores);
    platform_mutex_done(&activity->lock);
    mem_free(activity);
}

/* ---- jobs ---- (lock held) */

static size_t index_of(struct activity *activity, const char *name)
{
    struct job *job;

    for (size_t i = 0; i < activity->job_count; i++)
        if (strcmp(activity->jobs[i].name, name) == 0)
            return i;
    activity->jobs = mem_resize(
        activity->jobs, (activity->job_count + 1) * sizeof(*activity->jobs));
    job = &activity->jobs[activity->job_count];
    *job = (struct job){.name = mem_text(name, strlen(name))};
    job->shown.name = job->name;
    return activity->job_count++;
}

static struct activity_job *job_named(
    struct activity *activity, const char *name)
{
    size_t index = index_of(activity, name); /* may move activity->jobs */

    return &activity->jobs[index].shown;
}

void activity_add_job(struct activity *activity, const char *job)
{
    if (!activity)
        return;
    platform_lock(&activity->lock);
    (void)job_named(activity, job);
    platform_unlock(&activity->lock);
}

void activity_run_ended(
    struct activity *activity, const char *job, enum ledger_state state)
{
    static const struct {
        enum ledger_state state;
        enum activity_result result;
    } results[] = {
        {LEDGER_SUCCEEDED, ACTIVITY_RUN_SUCCEEDED},
        {LEDGER_FAILED, ACTIVITY_RUN_FAILED},
        {LEDGER_POISONED, ACTIVITY_RUN_POISONED},
        {LEDGER_CANCELLED, ACTIVITY_RUN_CANCELLED},
    };

    if (!activity)
        return;
    platform_lock(&activity->lock);
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].state == state)
            job_named(activity, job)->ended[results[i].result]++;
    platform_unlock(&activity->lock);
}

void activity_lease_lost(struct activity *activity, const char *job)
{
    if (!activity)
        return;
    platform_lock(&activity->lock);
    job_named(activity, job)->leases_lost++;
    platform_unlock(&activity->lock);
}

/* ---- runs in progress ---- */

static void read_counts(const struct run *run, int64_t ret[ACTIVITY_ENTITIES])
{
    ret[ACTIVITY_READ] = atomic_load(&run->counts.read);
    ret[ACTIVITY_WRITTEN] = atomic_load(&run->counts.written);
    ret[ACTIVITY_DELETED] = atomic_load(&run->counts.deleted);
    ret[ACTIVITY_SKIPPED] = atomic_load(&run->counts.skipped);
    ret[ACTIVITY_FAILED] = atomic_load(&run->counts.failed);
}

/* Call with the lock held. Add to the job's sums what the run has counted since
 * the last call. A kind may reset its count of failed entities, to report them
 * again; the job's sum does not fall then. */
static void count_entities(struct activity *activity, struct running *running)
{
    struct activity_job *job = &activity->jobs[running->job].shown;
    int64_t now[ACTIVITY_ENTITIES];

    read_counts(running->run, now);
    for (size_t i = 0; i < ACTIVITY_ENTITIES; i++) {
        if (now[i] > running->counted[i])
            job->entities[i] += now[i] - running->counted[i];
        running->counted[i] = now[i];
    }
}

void activity_begin(struct activity *activity, const struct run *run)
{
    struct running *running;

    if (!activity)
        return;
    platform_lock(&activity->lock);
    activity->running = mem_resize(activity->running,
        (activity->running_count + 1) * sizeof(*activity->running));
    running = &activity->running[activity->running_count++];
    *running =
        (struct running){.run = run, .job = index_of(activity, run->job)};
    read_counts(run, running->counted);
    activity->jobs[running->job].shown.in_progress++;
    platform_unlock(&activity->lock);
}

void activity_end(struct activity *activity, const struct run *run)
{
    if (!activity)
        return;
    platform_lock(&activity->lock);
    for (size_t i = 0; i < activity->running_count; i++) {
        struct running *running = &activity->running[i];

        if (running->run != run)
            continue;
        count_entities(activity, running);
        activity->jobs[running->job].shown.in_progress--;
        *running = activity->running[--activity->running_count];
        break;
    }
    platform_unlock(&activity->lock);
}

struct activity_job *activity_jobs(struct activity *activity, size_t *ret_count)
{
    struct activity_job *jobs;

    platform_lock(&activity->lock);
    for (size_t i = 0; i < activity->running_count; i++)
        count_entities(activity, &activity->running[i]);
    jobs = mem_array(activity->job_count, sizeof(*jobs));
    for (size_t i = 0; i < activity->job_count; i++)
        jobs[i] = activity->jobs[i].shown;
    *ret_count = activity->job_count;
    platform_unlock(&activity->lock);
    return jobs;
}

/* ---- held runs ---- (lock held) */

static const char *store_named(struct activity *activity, const char *name)
{
    for (size_t i = 0; i < activity->store_count; i++)
        if (strcmp(activity->stores[i], name) == 0)
            return activity->stores[i];
    activity->stores = mem_resize(activity->stores,
        (activity->store_count + 1) * sizeof(*activity->stores));
    activity->stores[activity->store_count] = mem_text(name, strlen(name));
    return activity->stores[activity->store_count++];
}

/* Returns "other" for a cause that only a newer version knows. */
static const char *cause_of(struct slice waits_for)
{
    static const char *const causes[] = {LEDGER_WAITS_FOR_STORE,
        LEDGER_WAITS_FOR_ARCHIVE, LEDGER_WAITS_FOR_DEFINITION,
        LEDGER_WAITS_FOR_TURN};

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (slice_is(waits_for, causes[i]))
            return causes[i];
    return "other";
}

static size_t hold_of(
    struct activity *activity, const char *store, const char *cause)
{
    for (size_t i = 0; i < activity->hold_count; i++)
        if (strcmp(activity->holds[i].store, store) == 0 &&
            activity->holds[i].cause == cause)
            return i;
    activity->holds = mem_resize(
        activity->holds, (activity->hold_count + 1) * sizeof(*activity->holds));
    activity->holds[activity->hold_count] = (struct activity_hold){
        .store = store_named(activity, store), .cause = cause};
    return activity->hold_count++;
}

static uint64_t hash_of(struct slice job, struct slice id)
{
    uint64_t hash = hash_slice(hash_slice(HASH_BEGIN, job), slice_of("/"));

    return hash_mix(hash_slice(hash, id));
}

static void forget(struct activity *activity, struct held *held)
{
    activity->holds[held->hold].count--;
    *held = activity->held[--activity->held_count];
}

static struct held *held_of(struct activity *activity, uint64_t run)
{
    for (size_t i = 0; i < activity->held_count; i++)
        if (activity->held[i].run == run)
            return &activity->held[i];
    return NULL;
}

static void forget_old(struct activity *activity, int64_t now_ms)
{
    for (size_t i = activity->held_count; i > 0; i--)
        if (activity->held[i - 1].until_ms + HELD_GRACE_MS < now_ms)
            forget(activity, &activity->held[i - 1]);
}

void activity_held(struct activity *activity, struct slice job, struct slice id,
    const char *store, struct slice waits_for, int64_t until_ms)
{
    uint64_t run = hash_of(job, id);
    struct held *held;

    if (!activity)
        return;
    platform_lock(&activity->lock);
    held = held_of(activity, run);
    if (held)
        forget(activity, held);
    if (activity->held_count == HELD_MAX)
        forget_old(activity, platform_boot_ms());
    if (activity->held_count < HELD_MAX) {
        activity->held = mem_resize(activity->held,
            (activity->held_count + 1) * sizeof(*activity->held));
        held = &activity->held[activity->held_count++];
        *held = (struct held){.run = run,
            .hold = hold_of(activity, store, cause_of(waits_for)),
            .until_ms = until_ms};
        activity->holds[held->hold].count++;
    }
    platform_unlock(&activity->lock);
}

void activity_not_held(
    struct activity *activity, struct slice job, struct slice id)
{
    struct held *held;

    if (!activity)
        return;
    platform_lock(&activity->lock);
    held =
        activity->held_count > 0 ? held_of(activity, hash_of(job, id)) : NULL;
    if (held)
        forget(activity, held);
    platform_unlock(&activity->lock);
}

struct activity_hold *activity_holds(
    struct activity *activity, size_t *ret_count)
{
    struct activity_hold *holds;

    platform_lock(&activity->lock);
    forget_old(activity, platform_boot_ms());
    holds = mem_array(activity->hold_count, sizeof(*holds));
    for (size_t i = 0; i < activity->hold_count; i++)
        holds[i] = activity->holds[i];
    *ret_count = activity->hold_count;
    platform_unlock(&activity->lock);
    return holds;
}
