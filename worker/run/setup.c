/* SPDX-License-Identifier: MIT */
/* `worker:` of the configuration, and struct definition, which several threads
 * share by a reference count. */
#include "worker/run/setup.h"

#include <stdlib.h>
#include <strings.h>

#include "config/settings.h"
#include "worker/base/address.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/run/lock_file.h"
#include "worker/store/store.h"

#define VISIBILITY_MIN_MS 2000
#define VISIBILITY_MAX_MS INT64_C(604800000)
#define POLL_MAX_MS INT64_C(86400000)
#define KEEP_RUNS_MAX_MS INT64_C(3153600000000) /* 100 years */
#define DEFAULT_QUEUE "tableward"

/* The settings as the configuration file has them. */
struct raw_setup {
    struct slice store, listen;
    struct yaml_node *queues, *poll, *admin_token_file;
    int64_t slots, requests, visibility_timeout_ms, max_attempts,
        max_entities_per_second, keep_runs_ms;
    double price_per_10k;
    int log_level;
};

#define RAW(field) SETTING_FIELD(struct raw_setup, field)

static const struct setting worker_table[] = {
    {.key = "store",
        .type = SETTING_TEXT,
        .offset = RAW(store),
        .help = "the store of queues and ledger; default: the default store; "
                "the ledger does not move to another store by itself"},
    {.key = "queues",
        .type = SETTING_NODE,
        .offset = RAW(queues),
        .help = "the queues that are served, created when missing; []: none"},
    {.key = "slots",
        .type = SETTING_INT,
        .offset = RAW(slots),
        .fallback = "16",
        .min = 1,
        .max = SETUP_SLOTS_MAX,
        .help = "maximum number of runs at once"},
    {.key = "requests",
        .former = "lanes", /* retired: read by older versions */
        .type = SETTING_INT,
        .offset = RAW(requests),
        .fallback = "64",
        .min = 1,
        .max = 256,
        .help = "maximum number of storage requests at once, over all runs"},
    {.key = "visibility_timeout",
        .type = SETTING_DURATION_MS,
        .offset = RAW(visibility_timeout_ms),
        .fallback = "60s",
        .min = VISIBILITY_MIN_MS,
        .max = VISIBILITY_MAX_MS,
        .help = "time after which another worker continues a killed worker's "
                "runs; whole seconds, at least 2s"},
    {.key = "poll",
        .type = SETTING_NODE,
        .offset = RAW(poll),
        .help = "how often an empty queue is polled: {min: 100ms, max: 30s}"},
    {.key = "max_attempts",
        .type = SETTING_INT,
        .offset = RAW(max_attempts),
        .fallback = "5",
        .min = 1,
        .max = 1000,
        .help =
            "failed attempts in a row, without progress, after which a run is "
            "poisoned"},
    {.key = "max_entities_per_second",
        .type = SETTING_INT,
        .offset = RAW(max_entities_per_second),
        .fallback = "0",
        .min = 0,
        .max = 1000000000,
        .help = "maximum rate of this process, in entities per second; 0: as "
                "fast as the service allows"},
    {.key = "price_per_10k",
        .type = SETTING_DOUBLE,
        .offset = RAW(price_per_10k),
        .fallback = "0.00036",
        .min = 0,
        .max = 1000000,
        .help = "dollars per 10,000 transactions, for estimates"},
    {.key = "keep_runs",
        .type = SETTING_DURATION_MS,
        .offset = RAW(keep_runs_ms),
        .fallback = "90d",
        .min = 0,
        .max = KEEP_RUNS_MAX_MS,
        .help = "how long succeeded and cancelled runs are kept after their "
                "end; failed runs stay until dropped; 0: for ever"},
    {.key = "log_level",
        .type = SETTING_CHOICE,
        .offset = RAW(log_level),
        .fallback = "info",
        .choices = log_level_names,
        .help = "log level of the command worker; its option --log-level takes "
                "precedence"},
    {.key = "listen",
        .type = SETTING_TEXT,
        .offset = RAW(listen),
        .help = "address and port of metrics, health and dashboard; absent: "
                "none"},
    {.key = "admin_token_file",
        .type = SETTING_NODE,
        .offset = RAW(admin_token_file),
        .help = "a file with the token that the dashboard requires for "
                "changes; absent: the dashboard is read-only"},
};

const struct settings_section setup_worker_section =
    SETTINGS_SECTION("worker", worker_table);

#define SETUP(field) SETTING_FIELD(struct setup, field)

static const struct setting poll_table[] = {
    {.key = "min",
        .type = SETTING_DURATION_MS,
        .offset = SETUP(poll_min_ms),
        .fallback = "100ms",
        .min = 1,
        .max = POLL_MAX_MS,
        .help = "wait after the first empty response"},
    {.key = "max",
        .type = SETTING_DURATION_MS,
        .offset = SETUP(poll_max_ms),
        .fallback = "30s",
        .min = 1,
        .max = POLL_MAX_MS,
        .help = "longest wait between two polls"},
};

const struct settings_section setup_poll_section =
    SETTINGS_SECTION("worker: poll", poll_table);

struct raw_queue {
    struct slice name, job, body;
    int encoding;
    int64_t slots;
};

static const char *const encodings[] = {"text", "base64", NULL};

#define RAW_QUEUE(field) SETTING_FIELD(struct raw_queue, field)

static const struct setting queue_table[] = {
    {.key = "name",
        .type = SETTING_TEXT,
        .offset = RAW_QUEUE(name),
        .required = true,
        .help = "name of the queue"},
    {.key = "job",
        .type = SETTING_TEXT,
        .offset = RAW_QUEUE(job),
        .help = "binds the queue: all its messages are for this job"},
    {.key = "body",
        .type = SETTING_TEXT,
        .offset = RAW_QUEUE(body),
        .help = "only with `job`: the argument whose value is the whole body"},
    {.key = "encoding",
        .type = SETTING_CHOICE,
        .offset = RAW_QUEUE(encoding),
        .choices = encodings,
        .help = "only with `job`: the encoding of the body; default: text"},
    {.key = "slots",
        .type = SETTING_INT,
        .offset = RAW_QUEUE(slots),
        .min = 1,
        .max = SETUP_SLOTS_MAX,
        .help =
            "maximum number of runs of this queue at once; default: all slots"},
};

const struct settings_section setup_queue_section =
    SETTINGS_SECTION("worker: queues: each entry", queue_table);

#define TABLE_SIZE(table) (sizeof(table) / sizeof((table)[0]))

struct setup_loader {
    const struct job_stores *stores;
    const struct jobs *jobs;
    struct arena *arena;
    struct setup *setup;
    struct problems *problems;
};

/* ---- stores ---- */

static void load_store(struct setup_loader *loader,
    const struct yaml_node *node, struct slice name)
{
    const struct job_stores *stores = loader->stores;
    const struct yaml_node *at = node ? yaml_get(node, "store") : NULL;

    loader->setup->store = stores->by_default;
    if (at == NULL) {
        if (node && stores->by_default == stores->count && stores->count > 0)
            problems_add(loader->problems, node->mark,
                "`store:` of `worker:` is missing: there are several stores "
                "and no `default_store:`");
        return;
    }
    for (size_t i = 0; i < stores->count; i++) {
        if (slice_is(name, stores->names[i])) {
            loader->setup->store = i;
            return;
        }
    }
    settings_unknown(loader->problems, at->mark, "store", name, stores->names,
        stores->count);
}

/* ---- the ledger ---- */

struct job_checked {
    const struct job *job;
    struct problems *problems;
    bool refused; /* a problem was added: at most one for each job */
};

static void check_job_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    struct job_checked *checked = ctx;

    (void)store;
    if (access == JOB_READS || checked->refused ||
        strcasecmp(table, LEDGER_TABLE) != 0)
        return;
    problems_add(checked->problems, checked->job->mark,
        "job %s would change the table " LEDGER_TABLE ", in which tableward "
        "keeps runs and locks: no job may write to it, move it or delete from "
        "it; to delete old runs, set `keep_runs` of `worker:`",
        checked->job->name);
    checked->refused = true;
}

/*
 * Refuse jobs that change the ledger, because such a job would delete its own
 * lease, the locks of table jobs and the intents of moves. The table's name is
 * refused in every store, because two stores may be one account, and another
 * store may have the ledger of another deployment.
 */
static void refuse_jobs_on_ledger(const struct setup_loader *loader)
{
    for (size_t i = 0; i < loader->jobs->count; i++) {
        const struct job *job = &loader->jobs->list[i];
        struct job_checked checked = {.job = job, .problems = loader->problems};

        job->kind->tables(job, check_job_table, &checked);
    }
}

/* ---- queues ---- */

static const char *kept_text(struct arena *arena, struct slice text)
{
    return arena_copy(arena, text).at;
}

static void check_queue_name(struct setup_loader *loader,
    const struct yaml_node *node, struct slice name)
{
    const struct yaml_node *at = yaml_get(node, "name");
    size_t longest = 63 - strlen(SETUP_POISON_SUFFIX);
    struct err err;

    if (store_check_queue(name, &err) != TW_OK)
        problems_add(loader->problems, at->mark, "%s", err.text);
    else if (name.len > longest)
        problems_add(loader->problems, at->mark,
            "queue name '%.*s' is too long: with '%s' appended it may have at "
            "most 63 characters",
            SLICE_ARG(name), SETUP_POISON_SUFFIX);
    for (size_t i = 0; i < loader->setup->queue_count; i++)
        if (slice_is(name, loader->setup->queues[i].name))
            problems_add(loader->problems, at->mark,
                "queue '%.*s' is listed twice", SLICE_ARG(name));
}

static void unknown_job(
    struct setup_loader *loader, const struct yaml_node *at, struct slice name)
{
    const struct jobs *jobs = loader->jobs;
    const char **names =
        arena_alloc(loader->arena, (jobs->count + 1) * sizeof(*names));

    for (size_t i = 0; i < jobs->count; i++)
        names[i] = jobs->list[i].name;
    settings_unknown(
        loader->problems, at->mark, "job", name, names, jobs->count);
}

/* Check that body is the name of the job's only argument. */
static void check_body(struct setup_loader *loader,
    const struct yaml_node *node, const struct job *job, struct slice body)
{
    const struct yaml_node *at = yaml_get(node, "body");
    size_t declared = job_declared_args(job);
    const char *only;

    if (declared != 1) {
        problems_add(loader->problems, node->mark,
            "a queue can be bound only to a job with exactly one argument; "
            "job '%s' has %zu",
            job->name, declared);
        return;
    }
    if (at == NULL) {
        problems_add(loader->problems, node->mark,
            "a queue that has `job:` also needs `body: %.*s`",
            SLICE_ARG(job->args[0].name));
        return;
    }
    only = kept_text(loader->arena, job->args[0].name);
    if (!slice_is(body, only))
        settings_unknown(
            loader->problems, at->mark, "argument", body, &only, 1);
}

/* Is name a job whose definition has mistakes? Such a job is not reported as
 * unknown. */
static bool is_broken(const struct jobs *jobs, struct slice name)
{
    for (size_t i = 0; i < jobs->broken_count; i++)
        if (slice_is(name, jobs->broken[i]))
            return true;
    return false;
}

static void load_binding(struct setup_loader *loader,
    const struct yaml_node *node, const struct raw_queue *raw,
    struct setup_queue *queue)
{
    static const char *const need_job[] = {"body", "encoding"};
    const struct yaml_node *at = yaml_get(node, "job");

    if (at) {
        queue->job = jobs_find(loader->jobs, raw->job);
        queue->base64 = raw->encoding == 1;
        if (queue->job == NULL && !is_broken(loader->jobs, raw->job))
            unknown_job(loader, at, raw->job);
        if (queue->job)
            check_body(loader, node, queue->job, raw->body);
        return;
    }
    for (size_t i = 0; i < TABLE_SIZE(need_job); i++) {
        at = yaml_get(node, need_job[i]);
        if (at)
            problems_add(loader->problems, at->mark,
                "a queue that has `%s:` also needs `job:`", need_job[i]);
    }
}

static void add_queue(
    struct setup_loader *loader, struct slice name, struct setup_queue queue)
{
    queue.name = kept_text(loader->arena, name);
    queue.poison_queue = arena_format(
        loader->arena, "%.*s%s", SLICE_ARG(name), SETUP_POISON_SUFFIX)
                             .at;
    loader->setup->queues[loader->setup->queue_count++] = queue;
}

static void load_queue(
    struct setup_loader *loader, const struct yaml_node *node)
{
    struct raw_queue raw = {0};
    struct setup_queue queue = {0};

    if (!settings_load(node, "queue", queue_table, TABLE_SIZE(queue_table),
            loader->arena, &raw, loader->problems))
        return;
    check_queue_name(loader, node, raw.name);
    load_binding(loader, node, &raw, &queue);
    queue.slots = (size_t)raw.slots;
    add_queue(loader, raw.name, queue);
}

/* Refuse to serve the poison queue of a served queue, because the worker would
 * receive the poison copies that it puts there. */
static void check_poison_queues(
    struct setup_loader *loader, const struct yaml_node *node)
{
    const struct setup *setup = loader->setup;

    for (size_t i = 0; i < setup->queue_count; i++)
        for (size_t j = 0; j < setup->queue_count; j++)
            if (strcmp(setup->queues[i].poison_queue, setup->queues[j].name) ==
                0)
                problems_add(loader->problems, node->mark,
                    "queue '%s' is the poison queue of '%s', so a worker must "
                    "not serve it: remove it from `queues`",
                    setup->queues[j].name, setup->queues[i].name);
}

static void load_queues(
    struct setup_loader *loader, const struct yaml_node *node)
{
    size_t room = node && node->type == YAML_LIST ? node->count : 0;

    loader->setup->queues =
        arena_alloc(loader->arena, (room + 1) * sizeof(*loader->setup->queues));
    if (node == NULL) {
        add_queue(loader, slice_of(DEFAULT_QUEUE), (struct setup_queue){0});
        return;
    }
    if (node->type != YAML_LIST) {
        problems_add(loader->problems, node->mark,
            "`queues` must be a list of maps like {name: %s}", DEFAULT_QUEUE);
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        load_queue(loader, node->items[i]);
    check_poison_queues(loader, node);
}

/* ---- worker: ---- */

static struct yaml_node *empty_map(struct arena *arena)
{
    struct yaml_node *map = arena_alloc(arena, sizeof(*map));

    map->type = YAML_MAP;
    map->mark = (struct mark){"", 1, 1};
    return map;
}

static void load_poll(struct setup_loader *loader, const struct yaml_node *node)
{
    struct setup *setup = loader->setup;
    const struct yaml_node *max = node ? yaml_get(node, "max") : NULL;
    bool good = settings_load(node ? node : empty_map(loader->arena), "poll",
        poll_table, TABLE_SIZE(poll_table), loader->arena, setup,
        loader->problems);

    if (good && setup->poll_max_ms < setup->poll_min_ms) {
        if (max)
            problems_add(
                loader->problems, max->mark, "poll.max is less than poll.min");
        else
            setup->poll_max_ms = setup->poll_min_ms;
    }
}

static void check_visibility(struct setup_loader *loader,
    const struct yaml_node *node, int64_t visibility_timeout_ms)
{
    loader->setup->visibility_timeout_s = visibility_timeout_ms / 1000;
    if (visibility_timeout_ms % 1000 != 0)
        problems_add(loader->problems,
            yaml_get(node, "visibility_timeout")->mark,
            "visibility_timeout must be whole seconds");
}

/* ---- worker: listen, admin_token_file ---- */

static void load_listen(struct setup_loader *loader,
    const struct yaml_node *map, struct slice listen)
{
    const struct yaml_node *at = yaml_get(map, "listen");
    struct address address;
    struct err err;

    if (at == NULL || (listen.len == 0 && at->text.len > 0))
        return; /* absent, or already reported as a mistake */
    if (address_parse(listen, &address, &err) != TW_OK)
        problems_add(loader->problems, at->mark, "listen: %s", err.text);
    else
        loader->setup->listen = kept_text(loader->arena, listen);
}

static void load_token_file(
    struct setup_loader *loader, const struct yaml_node *at)
{
    struct slice path;

    if (at == NULL || !settings_text(at, false, loader->arena, &path,
                          &loader->setup->unset, loader->problems))
        return;
    if (path.len == 0 && loader->setup->unset == NULL)
        problems_add(loader->problems, at->mark,
            "`admin_token_file` is empty: name a file, or remove the key");
    else
        loader->setup->admin_token_file = kept_text(loader->arena, path);
    loader->setup->unset_mark = at->mark;
}

void setup_load(const struct yaml_node *node, const struct job_stores *stores,
    const struct jobs *jobs, struct arena *arena, struct setup *ret,
    struct problems *problems)
{
    struct setup_loader loader = {stores, jobs, arena, ret, problems};
    struct raw_setup raw = {0};
    const struct yaml_node *map = node ? node : empty_map(arena);

    *ret = (struct setup){.store = stores->by_default};
    refuse_jobs_on_ledger(&loader);
    (void)settings_load(map, "worker", worker_table, TABLE_SIZE(worker_table),
        arena, &raw, problems);
    if (map->type != YAML_MAP)
        return;
    load_store(&loader, node, raw.store);
    load_queues(&loader, raw.queues);
    load_poll(&loader, raw.poll);
    check_visibility(&loader, map, raw.visibility_timeout_ms);
    load_listen(&loader, map, raw.listen);
    load_token_file(&loader, raw.admin_token_file);
    ret->slots = raw.slots;
    ret->requests = raw.requests;
    ret->max_attempts = raw.max_attempts;
    ret->max_entities_per_second = raw.max_entities_per_second;
    ret->price_per_10k = raw.price_per_10k;
    ret->keep_runs_ms = raw.keep_runs_ms;
    ret->log_level = (enum log_level)raw.log_level;
}

const struct setup_queue *setup_queue_for(
    const struct setup *setup, const struct job *job)
{
    for (size_t i = 0; i < setup->queue_count; i++)
        if (setup->queues[i].job == job)
            return &setup->queues[i];
    for (size_t i = 0; i < setup->queue_count; i++)
        if (setup->queues[i].job == NULL)
            return &setup->queues[i];
    return NULL;
}

static const struct setup_queue *own_queue(
    const struct setup *setup, const struct job *job, struct slice queue)
{
    const struct setup_queue *own = setup_queue_named(setup, queue);

    return own && (own->job == NULL || own->job == job) ? own : NULL;
}

const struct setup_queue *setup_queue_of_run(
    const struct setup *setup, const struct job *job, struct slice queue)
{
    const struct setup_queue *own = own_queue(setup, job, queue);

    return own ? own : setup_queue_for(setup, job);
}

const struct setup_queue *setup_queue_of_orphan(
    const struct setup *setup, const struct job *job, struct slice queue)
{
    return queue.len > 0 ? own_queue(setup, job, queue)
                         : setup_queue_for(setup, job);
}

const struct setup_queue *setup_queue_named(
    const struct setup *setup, struct slice name)
{
    for (size_t i = 0; i < setup->queue_count; i++)
        if (slice_is(name, setup->queues[i].name))
            return &setup->queues[i];
    return NULL;
}

/* ---- definitions ---- */

/*
 * The lock file of a dead process is kept for DEAD_KEPT visibility timeouts. By
 * then the leases of the process have expired. The lock file is kept at least
 * for DEAD_KEPT_MIN_MS, because a service manager may be slow to start the next
 * worker.
 */
#define DEAD_KEPT 2
#define DEAD_KEPT_MIN_MS INT64_C(60000)

struct lock_file *definition_lock_file(const struct definition *definition)
{
    int64_t keep_ms =
        DEAD_KEPT * definition->setup->visibility_timeout_s * 1000;

    return lock_file_open(definition->lock_folder,
        keep_ms > DEAD_KEPT_MIN_MS ? keep_ms : DEAD_KEPT_MIN_MS);
}

char *definition_path(const struct definition *definition, const char *path)
{
    return path[0] == '/' || definition->archive_folder == NULL
               ? mem_text(path, strlen(path))
               : mem_format("%s/%s", definition->archive_folder, path);
}

struct definition *definition_hold(struct definition *definition)
{
    atomic_fetch_add(&definition->references, 1);
    return definition;
}

void definition_drop(struct definition *definition)
{
    if (definition && atomic_fetch_sub(&definition->references, 1) == 1 &&
        definition->release)
        definition->release(definition);
}

static struct store *store_named(
    const struct definition *definition, const char *name)
{
    const struct job_stores *stores = definition->stores;

    for (size_t i = 0; i < stores->count; i++)
        if (stores->stores[i] && strcmp(stores->names[i], name) == 0)
            return stores->stores[i];
    return NULL;
}

void definition_share_credentials(
    const struct definition *definition, const struct definition *former)
{
    const struct job_stores *stores = definition->stores;

    for (size_t i = 0; i < stores->count; i++) {
        struct store *other = store_named(former, stores->names[i]);

        if (stores->stores[i] && other)
            store_share_credential(stores->stores[i], other);
    }
}

struct store *definition_store(const struct definition *definition)
{
    size_t index = definition->setup->store;

    if (index >= definition->stores->count)
        return NULL;
    return definition->stores->stores[index];
}
