/* SPDX-License-Identifier: MIT */
/* One process of a worker: see life.h. */
#include "tests/sweep/life.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/jobs.h"
#include "tests/support/direct.h"
#include "tests/support/virtual_platform.h"
#include "tests/sweep/judge.h"
#include "tests/sweep/person.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/consumer.h"
#include "worker/run/setup.h"

/* Limits of the virtual time and of the number of steps of one process. No
 * process that works correctly reaches them. */
#define LIMIT_MS ((int64_t)48 * 3600 * 1000)
#define LIMIT_STEPS 3000000

/* ---- the file ---- */

static struct store *open_file(const char *folder)
{
    static char path[128]; /* the store does not copy the path */

    (void)snprintf(path, sizeof(path), "%s/store.db", folder);
    return direct_open(SWEEP_STORE, path);
}

static void put_entity(struct store *store, const struct sweep_entity *entity)
{
    direct_insert(store, entity->table, &entity->entity);
}

void life_prepare(
    const struct scenario *scenario, struct stage *stage, const char *folder)
{
    struct store *store;

    virtual_platform_use(
        &(struct virtual_options){.boot_ms = LIFE_FIRST_MS - 5000,
            .wall_ticks = LIFE_FIRST_TICKS - 5 * TICKS_PER_S});
    arena_init(&stage->arena);
    scenario->fill(stage);
    store = open_file(folder);
    for (size_t i = 0; i < stage->count; i++)
        if (!stage->list[i].later)
            put_entity(store, &stage->list[i]);
    for (size_t i = 0; i < stage->message_count; i++)
        direct_put(store, SWEEP_QUEUE, stage->messages[i]);
    judge_remember(stage, store);
    store_close(store);
    virtual_platform_end();
}

/* ---- the worker ---- */

struct worker {
    const struct life *life;
    struct killer killer;
    struct person person;
    struct store *direct[1]; /* the store without the killer */
    struct arena arena;
    struct jobs jobs;
    struct setup setup;
    struct store *store_list[1];
    const char *store_names[1];
    struct job_stores stores;
    struct definition definition;
    struct consumer_result result;
    enum tw_err outcome;
    struct err err;
};

static void load(struct worker *worker)
{
    struct problems problems;
    struct yaml_node *root;

    worker->store_list[0] = &worker->killer.outer.store;
    worker->store_names[0] = SWEEP_STORE;
    worker->stores = (struct job_stores){
        .count = 1, .names = worker->store_names, .stores = worker->store_list};
    arena_init(&worker->arena);
    problems_init(&problems);
    root = yaml_read("sweep",
        arena_copy(
            &worker->arena, slice_of(worker->life->scenario->configuration)),
        &worker->arena, &problems);
    jobs_load(yaml_get(root, "jobs"), &worker->stores, &worker->arena,
        &worker->jobs, &problems);
    setup_load(yaml_get(root, "worker"), &worker->stores, &worker->jobs,
        &worker->arena, &worker->setup, &problems);
    if (problems.errors > 0) {
        problems_print(&problems, stderr);
        exit(1);
    }
    problems_done(&problems);
    worker->definition = (struct definition){.jobs = &worker->jobs,
        .stores = &worker->stores,
        .setup = &worker->setup,
        .archive_folder = worker->life->folder,
        .references = 1};
}

static void resume(struct worker *worker)
{
    struct job_stores stores = worker->stores;
    struct definition definition = worker->definition;

    stores.stores = worker->direct;
    definition.stores = &stores;
    person_resume(&worker->person, &definition);
}

static void serve(void *arg)
{
    struct worker *worker = arg;
    struct consumer_options options = {
        .definition = &worker->definition, .drain = true};
    struct consumer *consumer;

    resume(worker);
    consumer = consumer_new(&options);
    worker->outcome = consumer_run(consumer, &worker->result, &worker->err);
    consumer_free(consumer);
}

/* ---- the whole ---- */

static int __attribute__((format(printf, 2, 3)))
complain(const struct life *life, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(life->words->why, sizeof(life->words->why), format, args);
    va_end(args);
    return 1;
}

static struct scene scene_of(
    const struct life *life, struct store *store, bool ended)
{
    return (struct scene){.scenario = life->scenario,
        .stage = life->stage,
        .store = store,
        .folder = life->folder,
        .ended = ended,
        .killed = life->killed,
        .stopped = life->words->stopped,
        .acted = life->words->acted};
}

static int judge(const struct life *life, struct store *store, bool ended)
{
    struct scene scene = scene_of(life, store, ended);
    struct err err = {0};

    if (life->scenario->judge(&scene, &err))
        return 0;
    return complain(life, "%s: %s",
        ended              ? "at the end"
        : life->killed > 0 ? "after the kill"
                           : "between two lives",
        err.text);
}

/* Lets the front end act, between two processes, if its time has come. */
static void act(const struct life *life, struct store *store)
{
    struct scene scene = scene_of(life, store, false);

    if (!life->scenario->acts || scene.acted || !life->scenario->acts(&scene))
        return;
    for (size_t i = 0; i < life->stage->count; i++)
        if (life->stage->list[i].later || life->stage->list[i].again)
            put_entity(store, &life->stage->list[i]);
    life->words->acted = true;
    log_info("front end", "has acted");
}

static int work(const struct life *life, struct worker *worker)
{
    enum virtual_end end;

    load(worker);
    if (life->scenario->control != SWEEP_NOTHING)
        person_come(&worker->person, life->asks_at);
    virtual_start(virtual_process("worker"), "worker", serve, worker);
    end = virtual_run();
    killer_note_end(&worker->killer);
    if (end != VIRTUAL_DONE)
        return complain(life, "the worker %s",
            end == VIRTUAL_STUCK ? "waits for itself" : "does not end");
    if (worker->outcome != TW_OK)
        return complain(life, "the worker: %s", worker->err.text);
    return 0;
}

/* Judges the end of the process. If the run is paused, another process is
 * needed. */
static int end(
    const struct life *life, struct worker *worker, struct store *store)
{
    bool over = true;
    struct err err;

    if (life->scenario->control != SWEEP_NOTHING &&
        !person_leave(&worker->person, &over, &err))
        return complain(life, "%s", err.text);
    life->words->over = over;
    return judge(life, store, over);
}

int life_live(const struct life *life)
{
    struct worker worker = {.life = life};
    struct store *store;

    log_set(life->aloud ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
    virtual_platform_use(&(struct virtual_options){.seed = life->seed,
        .boot_ms = life->boot_ms,
        .wall_ticks = life->wall_ticks,
        .limit_ms = LIMIT_MS,
        .limit_steps = LIMIT_STEPS});
    life->words->why[0] = '\0';
    store = open_file(life->folder);
    if (life->number > 0) {
        if (judge(life, store, false) != 0)
            return 1;
        act(life, store);
    }
    killer_init(&worker.killer, store, life->scenario->way_max_ms, life->plan,
        life->words);
    worker.direct[0] = store;
    worker.person = (struct person){
        .scenario = life->scenario, .store = store, .killer = &worker.killer};
    if (work(life, &worker) != 0)
        return 1;
    return end(life, &worker, store);
}
