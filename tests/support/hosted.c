/* SPDX-License-Identifier: MIT */
/* A run without a worker: see hosted.h. */
#include "tests/support/hosted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/yaml.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/request_pool.h"

#define REQUESTS_AT_ONCE 4

/* ---- the callbacks ---- */

static bool host_stopping(struct run *run)
{
    struct hosted *h = run->owner;

    h->share = run->share;
    if (h->between)
        h->between(h);
    return h->stopping_calls++ >= h->stop_after && h->stop_after >= 0;
}

static void host_save(struct run *run, struct slice checkpoint, bool progress)
{
    struct hosted *h = run->owner;

    mem_free(h->checkpoint);
    h->checkpoint = mem_text(checkpoint.at, checkpoint.len);
    h->accept_deletes = atomic_load(&run->accept_deletes);
    if (h->saved)
        h->saved(h);
}

static enum tw_err host_phase(struct run *run, const char *phase,
    struct slice checkpoint, struct err *err)
{
    struct hosted *h = run->owner;
    enum tw_err outcome = TW_OK;
    bool stored = true;

    if (h->phasing) {
        stored = false;
        outcome = h->phasing(h, &stored);
    }
    if (!deadline_is_open(h->deadline, platform_boot_ms()))
        return err_fail(err, TW_STOPPED, "the deadline has passed");
    if (stored) {
        host_save(run, checkpoint, true);
        mem_free(h->phase);
        h->phase = mem_text(phase, strlen(phase));
    }
    return outcome == TW_OK ? TW_OK
                            : err_fail(err, outcome, "as the test wants");
}

static enum tw_err host_is_open(struct run *run, struct slice job,
    struct slice id, bool *ret, struct err *err)
{
    struct hosted *h = run->owner;

    *ret = h->other_open;
    return h->open_outcome == TW_OK
               ? TW_OK
               : err_fail(err, h->open_outcome, "as the test wants");
}

static void host_forget_failed(struct run *run, int64_t count)
{
    struct hosted *h = run->owner;

    run->counts.failed = count;
    h->failed_why[0] = '\0';
}

static void host_failed(struct run *run, const struct run_failure *failure)
{
    struct hosted *h = run->owner;

    run->counts.failed++;
    snprintf(h->failed_step, sizeof(h->failed_step), "%s",
        failure->step ? failure->step : "");
    snprintf(h->failed_why, sizeof(h->failed_why), "%s %.*s/%.*s: %s",
        failure->table, SLICE_ARG(failure->partition_key),
        SLICE_ARG(failure->row_key), failure->why);
    if (h->failing)
        h->failing(h, failure);
}

static void host_note(struct run *run, const char *sentence)
{
    struct hosted *h = run->owner;
    size_t len = strlen(h->note);

    if (!strstr(h->note, sentence))
        snprintf(h->note + len, sizeof(h->note) - len, "%s\n", sentence);
}

static const struct run_callbacks HOST = {
    .stopping = host_stopping,
    .save = host_save,
    .phase = host_phase,
    .is_open = host_is_open,
    .failed = host_failed,
    .note = host_note,
    .forget_failed = host_forget_failed,
};

/* ---- set up ---- */

void hosted_load(struct hosted *h, const char *configuration)
{
    struct problems problems;
    struct yaml_node *root;

    problems_init(&problems);
    root = yaml_read("test.yaml",
        arena_copy(&h->arena, slice_of(configuration)), &h->arena, &problems);
    if (root)
        jobs_load(root, &h->stores, &h->arena, &h->jobs, &problems);
    if (problems.errors > 0)
        problems_print(&problems, stderr);
    assert_int_equal(problems.errors, 0);
    problems_done(&problems);
}

void hosted_init(struct hosted *h, const char *configuration)
{
    struct err err;

    memset(h, 0, sizeof(*h));
    arena_init(&h->arena);
    h->store_name = "main";
    assert_ok(embedded_open(h->store_name, ":memory:", &h->store, &err));
    h->request_pool = request_pool_new(REQUESTS_AT_ONCE, 0);
    h->stores = (struct job_stores){
        .count = 1, .names = &h->store_name, .stores = &h->store};
    test_folder(h->folder);
    hosted_forget(h, "r1");
    hosted_load(h, configuration);
}

void hosted_lose_checkpoint(struct hosted *h)
{
    mem_free(h->checkpoint);
    h->checkpoint = NULL;
}

void hosted_forget(struct hosted *h, const char *id)
{
    h->note[0] = '\0';
    h->passes = 0;
    h->share = -1;
    hosted_lose_checkpoint(h);
    mem_free(h->phase);
    h->phase = NULL;
    h->id = id;
    h->stop_after = -1;
    h->requested_ticks = platform_wall_ticks();
}

void hosted_done(struct hosted *h)
{
    hosted_forget(h, "");
    request_pool_free(h->request_pool);
    store_close(h->store);
    arena_done(&h->arena);
    folder_remove(h->folder);
    h->store = NULL;
}

TEST_FIXTURE(hosted_test, struct hosted, TEST_NOTHING, hosted_done)

int hosted_set_up(void **state)
{
    return hosted_test_set_up(state);
}

int hosted_tear_down(void **state)
{
    return hosted_test_tear_down(state);
}

/* ---- tables ---- */

void hosted_table(struct hosted *h, const char *table)
{
    struct exchange exchange = {.deadline = NULL};

    assert_ok(store_create_table(h->store, &exchange, table));
}

void hosted_begin(
    struct hosted *h, const char *configuration, const char *tables)
{
    char list[256], *rest = list;
    const char *table;

    hosted_init(h, configuration);
    (void)snprintf(list, sizeof(list), "%s", tables);
    while ((table = strtok_r(rest, " ", &rest)))
        hosted_table(h, table);
}

void hosted_restart(
    struct hosted *h, const char *configuration, const char *tables)
{
    if (h->store)
        hosted_done(h);
    hosted_begin(h, configuration, tables);
}

static void send(struct hosted *h, const char *table,
    const struct operation *operations, size_t count)
{
    struct exchange exchange = {.deadline = NULL};
    struct batch batch = {table, operations, count};
    static struct batch_result result;

    if (store_batch(h->store, &exchange, &batch, &result) != TW_OK)
        fail_msg("%s: %s", table, exchange.err.text);
}

static struct entity parse(struct hosted *h, const char *partition_key,
    const char *row_key, const char *properties)
{
    char *text = mem_format("{%s}", properties ? properties : "");
    struct entity entity;
    struct err err;

    if (entity_parse(arena_copy(&h->arena, slice_of(text)), false, &h->arena,
            &entity, NULL, &err) != TW_OK)
        fail_msg("%s", err.text);
    mem_free(text);
    entity.partition_key = arena_copy(&h->arena, slice_of(partition_key));
    entity.row_key = arena_copy(&h->arena, slice_of(row_key));
    return entity;
}

void hosted_put(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key, const char *properties)
{
    struct operation operation = {
        OPERATION_INSERT, parse(h, partition_key, row_key, properties)};

    send(h, table, &operation, 1);
}

void hosted_fill(struct hosted *h, const char *table, const char *partition_key,
    unsigned count)
{
    struct operation operations[BATCH_MAX_OPERATIONS];
    size_t gathered = 0;

    for (unsigned i = 0; i < count; i++) {
        char row_key[16];

        snprintf(row_key, sizeof(row_key), "b%05u", i);
        operations[gathered++] = (struct operation){
            OPERATION_INSERT, parse(h, partition_key, row_key, "\"N\":1")};
        if (gathered == BATCH_MAX_OPERATIONS || i + 1 == count) {
            send(h, table, operations, gathered);
            gathered = 0;
        }
    }
}

/* Returns the entity, in h->arena; NULL: there is no such entity. */
static const struct entity *get(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key)
{
    struct entity *entity = NULL;
    struct exchange exchange = {.deadline = NULL};
    struct page page;

    page_init(&page);
    if (store_get(h->store, &exchange, table, slice_of(partition_key),
            slice_of(row_key), &page) == TW_OK) {
        entity = arena_alloc(&h->arena, sizeof(*entity));
        entity_copy(entity, &h->arena, &page.entities[0]);
    }
    page_done(&page);
    return entity;
}

bool hosted_has(struct hosted *h, const char *table, const char *partition_key,
    const char *row_key)
{
    return get(h, table, partition_key, row_key) != NULL;
}

/* Returns a copy of text in h->arena, and releases text. */
static const char *keep_text(struct hosted *h, struct buf *text)
{
    const char *copy = arena_copy(&h->arena, buf_slice(text)).at;

    buf_done(text);
    return copy;
}

const char *hosted_json(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key)
{
    const struct entity *entity = get(h, table, partition_key, row_key);
    struct buf text;

    if (!entity)
        return NULL;
    buf_init(&text, 4 * ENTITY_MAX_BYTES);
    entity_write_properties(entity, &text);
    return keep_text(h, &text);
}

void hosted_replace(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key, const char *properties)
{
    const struct entity *entity = get(h, table, partition_key, row_key);
    struct operation operation = {
        OPERATION_REPLACE, parse(h, partition_key, row_key, properties)};

    assert_non_null(entity);
    operation.entity.etag = entity->etag;
    send(h, table, &operation, 1);
}

void hosted_remove(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key)
{
    const struct entity *entity = get(h, table, partition_key, row_key);

    assert_non_null(entity);
    send(h, table, &(struct operation){OPERATION_DELETE, *entity}, 1);
}

static unsigned read_all(struct hosted *h, const char *table, struct buf *to)
{
    struct scan_request request = {.table = table};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    unsigned count = 0;

    page_init(&page);
    do {
        if (store_scan(h->store, &exchange, &request, &page) != TW_OK)
            fail_msg("%s: %s", table, exchange.err.text);
        for (size_t i = 0; i < page.count; i++) {
            const struct entity *entity = &page.entities[i];

            buf_add_format(to, "%.*s/%.*s ", SLICE_ARG(entity->partition_key),
                SLICE_ARG(entity->row_key));
        }
        count += (unsigned)page.count;
        request.from = page.next;
    } while (page.next.more);
    page_done(&page);
    return count;
}

const char *hosted_dump(struct hosted *h, const char *table)
{
    struct buf text;

    buf_init(&text, 64 * 1024 * 1024);
    read_all(h, table, &text);
    return keep_text(h, &text);
}

unsigned hosted_count(struct hosted *h, const char *table)
{
    struct buf text;
    unsigned count;

    buf_init(&text, 64 * 1024 * 1024);
    count = read_all(h, table, &text);
    buf_done(&text);
    return count;
}

const char *hosted_explained(struct hosted *h, const char *job)
{
    const struct job *found = jobs_find(&h->jobs, slice_of(job));
    struct buf text;

    buf_init(&text, 4096);
    found->kind->explain(found, &text);
    return keep_text(h, &text);
}

/* ---- entities in one line ---- */

/* Returns "A=x,B=y" as JSON of two Strings. Owned by the caller. */
static char *strings_of(char *list)
{
    char *name, *json = mem_format("%s", "");

    while ((name = strtok_r(list, "=", &list))) {
        char *shorter = json;

        json = mem_format("%s%s\"%s\":\"%s\"", shorter, shorter[0] ? "," : "",
            name, strtok_r(list, ",", &list));
        mem_free(shorter);
    }
    return json;
}

static void insert_rows(struct hosted *h, const char *table, char *keys)
{
    char *key;

    while ((key = strtok_r(keys, " ", &keys))) {
        char *partition_key = strtok_r(key, "/", &key);
        char *strings = strchr(key, '(');
        char *properties = NULL;

        if (strings) {
            *strings++ = '\0';
            strings[strlen(strings) - 1] = '\0';
            properties = strings_of(strings);
        }
        hosted_put(h, table, partition_key, key, properties);
        mem_free(properties);
    }
}

static void check_rows(struct hosted *h, const char *table, char *keys)
{
    char *wanted = mem_format("%s%s", keys, keys[0] ? " " : "");
    const char *is = hosted_dump(h, table);

    if (keys[0] && !strchr(keys, '/')) {
        if (hosted_count(h, table) != strtoul(keys, NULL, 10))
            fail_msg("%s: not %s: %s", table, keys, is);
    } else if (strcmp(is, wanted) != 0) {
        fail_msg("%s: '%s', not '%s'", table, is, wanted);
    }
    mem_free(wanted);
}

static void with_each_table(struct hosted *h, const char *rows,
    void (*what)(struct hosted *h, const char *table, char *keys))
{
    char *copy = mem_format("%s", rows), *rest = copy, *part;

    while ((part = strtok_r(rest, ";", &rest))) {
        char *keys = NULL;
        const char *table = strtok_r(part, " ", &keys);

        what(h, table, keys);
    }
    mem_free(copy);
}

void hosted_rows(struct hosted *h, const char *rows)
{
    with_each_table(h, rows, insert_rows);
}

void hosted_check(struct hosted *h, const char *rows)
{
    with_each_table(h, rows, check_rows);
}

/* ---- attempts ---- */

static void keep_result(struct hosted *h, const struct run *run)
{
    h->read = run->counts.read;
    h->written += run->counts.written;
    h->deleted += run->counts.deleted;
    h->skipped = run->counts.skipped;
    h->failed = run->counts.failed;
    h->share = run->share;
    h->passes = run->rounds;
    h->resumes_ticks = run->resumes_ticks;
    h->resumes_ms = run->resumes_ms;
    h->waits_for = run->waits_for;
    h->behind = run->behind;
    h->caught_up_ticks = run->caught_up_ticks;
    h->parent_found = run->parent_found;
    h->closes_job = run->closes_job;
}

/* Returns the arguments of a run: the declared argument has this value, the
 * argument of the kind has h->kind_arg. */
static struct run_args args_of(
    struct hosted *h, const struct job *job, const struct slice *value)
{
    struct slice *names =
        arena_alloc(&h->arena, (job->arg_count + 1) * sizeof(*names));
    struct slice *values =
        arena_alloc(&h->arena, (job->arg_count + 1) * sizeof(*values));

    for (size_t i = 0; i < job->arg_count; i++) {
        const struct kind_arg *implied = job->args[i].implied;

        names[i] = job->args[i].name;
        values[i] = !implied       ? *value
                    : !h->kind_arg ? slice_of(implied->fallback)
                                   : slice_of(h->kind_arg);
    }
    return (struct run_args){job->arg_count, names, values};
}

static struct run run_of(struct hosted *h, const struct job *job,
    const struct slice *value, const struct deadline *deadline)
{
    assert_non_null(job);
    return (struct run){.job = job->name,
        .id = h->id,
        .args = args_of(h, job, value),
        .requested_ticks = h->requested_ticks,
        .epoch = h->epoch,
        .previous_owner_crashed = h->previous_owner_crashed,
        .archive_folder = h->folder,
        .pool_client = pool_client_new(h->request_pool, deadline),
        .deadline = deadline,
        .counts = {.failed = h->failed},
        .rounds = h->passes,
        .share = h->share,
        .behind = -1,
        .parent_found = -1,
        .ledger = h->ledger ? h->ledger : h->store,
        .ledger_table = "TablewardRuns",
        .accept_deletes = h->accept_deletes,
        .finish = h->finish,
        .callbacks = &HOST,
        .owner = h};
}

enum tw_err hosted_estimate(struct hosted *h, const char *job,
    const char *argument, struct job_estimate *ret)
{
    const struct job *found = jobs_find(&h->jobs, slice_of(job));
    struct slice value = slice_of(argument);
    struct run run = run_of(h, found, &value, NULL);
    enum tw_err outcome;

    *ret = (struct job_estimate){.table_count = 0};
    arena_init(&ret->arena);
    outcome = found->kind->estimate(found, &h->stores, &run, ret, &h->err);
    pool_client_free(run.pool_client);
    return outcome;
}

enum tw_err hosted_verify(struct hosted *h, const char *job,
    const char *argument, struct job_verification *ret)
{
    const struct job *found = jobs_find(&h->jobs, slice_of(job));
    struct slice value = slice_of(argument);
    struct run run = run_of(h, found, &value, NULL);
    enum tw_err outcome;

    *ret = (struct job_verification){.count = 0};
    arena_init(&ret->arena);
    outcome = found->kind->verify(found, &h->stores, &run, ret, &h->err);
    pool_client_free(run.pool_client);
    return outcome;
}

int64_t hosted_differences(struct hosted *h, const char *job, const char *what)
{
    struct job_verification found = {.count = 0};
    int64_t count = 0;

    assert_ok(hosted_verify(h, job, "", &found));
    for (size_t i = 0; i < found.count; i++)
        if (strstr(found.differences[i].what, what))
            count += found.differences[i].count;
    arena_done(&found.arena);
    return count;
}

enum run_end hosted_attempt(
    struct hosted *h, const char *job, const char *argument)
{
    const struct job *found = jobs_find(&h->jobs, slice_of(job));
    struct slice value = slice_of(argument);
    struct deadline deadline;
    struct run run;
    char *checkpoint = h->checkpoint ? mem_format("%s", h->checkpoint) : NULL;
    char *phase = h->phase ? mem_format("%s", h->phase) : NULL;

    h->epoch++;
    deadline_init(&deadline, PLATFORM_NEVER, DEADLINE_REQUEST_MAX_MS);
    h->deadline = &deadline;
    run = run_of(h, found, &value, &deadline);
    run.checkpoint = slice_of(checkpoint);
    run.phase = slice_of(phase);
    h->stopping_calls = 0;
    h->err.text[0] = '\0';
    h->end = found->kind->run(found, &h->stores, &run, &h->err);
    keep_result(h, &run);
    pool_client_free(run.pool_client);
    h->deadline = NULL;
    mem_free(checkpoint);
    mem_free(phase);
    return h->end;
}

static void sleep_until(int64_t ticks)
{
    while (platform_wall_ticks() < ticks) {
        struct timespec pause = {0, 5000000};

        nanosleep(&pause, NULL);
    }
}

enum run_end hosted_run(struct hosted *h, const char *job, const char *argument)
{
    while (hosted_attempt(h, job, argument) == RUN_WAITING)
        sleep_until(h->resumes_ticks);
    return h->end;
}

void hosted_check_why(const struct hosted *h, const char *part)
{
    if (!strstr(h->err.text, part))
        fail_msg("'%s' is not in: %s", part, h->err.text);
}

void hosted_check_note(const struct hosted *h, const char *part)
{
    if (!strstr(h->note, part))
        fail_msg("'%s' is not in: %s", part, h->note);
}

static void check_end(struct hosted *h, enum run_end wanted, const char *rows)
{
    if (h->end != wanted)
        fail_msg("it ended with %d, not %d: %s; %s", (int)h->end, (int)wanted,
            h->err.text, h->failed_why);
    hosted_check(h, rows);
}

void hosted_succeeds(
    struct hosted *h, const char *job, const char *argument, const char *rows)
{
    (void)hosted_run(h, job, argument);
    check_end(h, RUN_SUCCEEDED, rows);
}

void hosted_fails(struct hosted *h, const char *job, const char *argument,
    const char *why, const char *rows)
{
    (void)hosted_run(h, job, argument);
    check_end(h, RUN_FAILED, rows);
    hosted_check_why(h, why);
}

void hosted_waits(
    struct hosted *h, const char *job, const char *argument, const char *rows)
{
    (void)hosted_attempt(h, job, argument);
    check_end(h, RUN_WAITING, rows);
}
