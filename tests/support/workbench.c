/* SPDX-License-Identifier: MIT */
/* The surroundings of a worker: see workbench.h. */
#include "tests/support/workbench.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/ledger_change.h"
#include "worker/run/renewer.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/request_pool.h"

struct bench_run {
    struct ledger_run run;
    struct bench_run *next;
};

#define WAIT_MAX_MS 30000

/* ---- the store that counts, delays and fails ---- */

static void sleep_ms(struct workbench *bench, int64_t wait_ms)
{
    int64_t until_ms = platform_boot_ms() + wait_ms;

    workbench_locked(bench,
        while (platform_boot_ms() < until_ms)(void)
            platform_wait(&bench->changed, &bench->lock, until_ms));
}

static enum bench_fault planned_fault(
    const struct workbench *bench, enum bench_call call, unsigned n)
{
    for (size_t i = 0; i < bench->fault_count; i++) {
        const struct bench_fault_range *range = &bench->faults[i];

        if (range->call == call && n >= range->first && n <= range->last)
            return range->fault;
    }
    return BENCH_PASS;
}

static enum bench_fault fault_of(struct workbench *bench, enum bench_call call)
{
    enum bench_fault fault = BENCH_PASS;
    int64_t delay_ms;
    unsigned n;

    workbench_locked(bench, n = ++bench->calls[call]);
    if (bench->between)
        bench->between(bench, call, n);
    platform_lock(&bench->lock);
    if (bench->down)
        fault = BENCH_FAIL;
    else if (bench->fault)
        fault = bench->fault(bench, call, n);
    else
        fault = planned_fault(bench, call, n);
    delay_ms = bench->delay_ms;
    platform_unlock(&bench->lock);
    if (delay_ms > 0)
        sleep_ms(bench, delay_ms);
    return fault;
}

static enum tw_err spoil(
    struct exchange *exchange, enum bench_fault fault, enum tw_err outcome)
{
    static const struct {
        enum tw_err outcome;
        int http_status;
        const char *says;
    } FAULTS[] = {
        [BENCH_FAIL] = {TW_BUSY, 0, "the store is down"},
        [BENCH_THROTTLE] = {TW_BUSY, 503, "503 ServerBusy"},
        [BENCH_LOCK] = {TW_BUSY, 409, "409 QueueBeingDeleted"},
        [BENCH_REFUSE] = {TW_REFUSED, 0, "the key is wrong"},
        [BENCH_FORBID] = {TW_FORBIDDEN, 0, "the right is missing"},
        [BENCH_LOSE_ANSWER] = {TW_UNKNOWN, 0, "the answer was lost"},
        [BENCH_LOSE_REQUEST] = {TW_UNKNOWN, 0, "the answer was lost"},
        [BENCH_CONFLICT] = {TW_CONFLICT, 0, "another ETag"},
        [BENCH_GONE] = {TW_NOT_FOUND, 0, "it is not there"},
        [BENCH_INVALID] = {TW_INVALID, 400, "the service says 400"},
    };

    if (fault == BENCH_PASS)
        return outcome;
    if (FAULTS[fault].outcome == TW_UNKNOWN)
        exchange->date_ticks = 0;
    if (FAULTS[fault].http_status > 0)
        exchange->http_status = FAULTS[fault].http_status;
    return err_fail(
        &exchange->err, FAULTS[fault].outcome, "%s", FAULTS[fault].says);
}

/* Puts the service's time in the answer ahead by the pauses of this machine:
 * the service's clock goes on during a pause. */
static void add_pauses(struct workbench *bench, struct exchange *exchange)
{
    workbench_locked(
        bench, if (exchange->date_ticks > 0) exchange->date_ticks +=
               bench->paused_ms * TICKS_PER_MS);
}

/* Notes what tests read afterwards. */
static void note(struct workbench *bench, struct exchange *exchange,
    const struct store_request *request)
{
    platform_lock(&bench->lock);
    if (request->call == CALL_SCAN)
        bench->scan_max_ms = deadline_timeout_ms(exchange->deadline);
    if (request->call == CALL_QUEUE_GET)
        bench->hidden_s = request->seconds;
    if (request->call == CALL_BATCH)
        bench->ledger_writes +=
            strcmp(request->batch->table, LEDGER_TABLE) == 0;
    platform_unlock(&bench->lock);
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    static const enum bench_call SORTS[STORE_CALLS] = {[CALL_SCAN] = BENCH_SCAN,
        [CALL_GET] = BENCH_GET,
        [CALL_BATCH] = BENCH_BATCH,
        [CALL_CREATE_TABLE] = BENCH_CREATE,
        [CALL_LIST_TABLES] = BENCH_OTHER,
        [CALL_QUEUE_CREATE] = BENCH_CREATE,
        [CALL_QUEUE_PUT] = BENCH_PUT,
        [CALL_QUEUE_GET] = BENCH_QUEUE_GET,
        [CALL_QUEUE_RENEW] = BENCH_RENEW,
        [CALL_QUEUE_DELETE] = BENCH_DELETE,
        [CALL_QUEUE_PEEK] = BENCH_PEEK,
        [CALL_QUEUE_COUNT] = BENCH_OTHER};
    struct workbench *bench = ((struct bench_store *)self)->bench;
    enum tw_err outcome = TW_OK;
    enum bench_fault fault;

    note(bench, exchange, request);
    if (request->call == CALL_BATCH)
        request->result->failed = request->batch->count;
    if (request->call == CALL_QUEUE_GET && bench->down_queue &&
        strcmp(request->name, bench->down_queue) == 0) {
        sleep_ms(bench, bench->down_queue_ms);
        return spoil(exchange, BENCH_FAIL, TW_OK);
    }
    fault = fault_of(bench, SORTS[request->call]);
    if (fault == BENCH_PASS || fault == BENCH_LOSE_ANSWER)
        outcome = request_send(self->inner, exchange, request);
    add_pauses(bench, exchange);
    return spoil(exchange, fault, outcome);
}

/* ---- the kind ---- */

static enum tw_err accept_args(
    const struct job *job, const struct run_args *args, struct err *err)
{
    if (memchr(args->values[0].at, '/', args->values[0].len))
        return err_fail(err, TW_INVALID, "PartitionKey must not contain '/'");
    return TW_OK;
}

static void list_tables(const struct job *job,
    void (*each)(
        void *context, size_t store, const char *table, enum job_access access),
    void *context)
{
    each(context, 0, "Blogs", JOB_READS);
}

static enum run_end run_script(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct workbench *bench = job->settings;
    enum run_end end;
    unsigned attempt;

    platform_lock(&bench->lock);
    attempt = ++bench->attempts;
    bench->running++;
    if (bench->running > bench->together)
        bench->together = bench->running;
    platform_wake_all(&bench->changed);
    platform_unlock(&bench->lock);
    end =
        bench->script ? bench->script(bench, run, attempt, err) : RUN_SUCCEEDED;
    workbench_locked(bench, bench->running--);
    return end;
}

/* ---- the workbench ---- */

static bool says_stop(void *context)
{
    struct workbench *bench = context;
    bool stop;

    workbench_locked(bench, stop = bench->stop);
    return stop;
}

static void init_job(struct workbench *bench)
{
    bench->kind = (struct kind){.name = "scripted",
        .summary = "does what the test says",
        .accept = accept_args,
        .tables = list_tables,
        .run = run_script};
    bench->arg = (struct job_arg){.name = slice_of("channel")};
    bench->job = (struct job){.name = "delete-channel",
        .kind = &bench->kind,
        .args = &bench->arg,
        .arg_count = 1,
        .hash = "0123456789abcdef",
        .settings = bench};
    bench->jobs = (struct jobs){.list = &bench->job, .count = 1};
}

static void init_definition(struct workbench *bench)
{
    bench->stores_list[0] = bench->store;
    bench->store_names[0] = "main";
    bench->stores = (struct job_stores){
        .count = 1, .names = bench->store_names, .stores = bench->stores_list};
    bench->queues[0] = (struct setup_queue){
        .name = BENCH_QUEUE, .poison_queue = BENCH_QUEUE "-poison"};
    bench->queues[1] = (struct setup_queue){.name = BENCH_BOUND,
        .poison_queue = BENCH_BOUND "-poison",
        .job = &bench->job};
    bench->setup = (struct setup){.queues = bench->queues,
        .queue_count = 2,
        .slots = 2,
        .requests = 4,
        .visibility_timeout_s = 60,
        .poll_min_ms = 2,
        .poll_max_ms = 20,
        .max_attempts = 2};
    bench->definition = (struct definition){.jobs = &bench->jobs,
        .stores = &bench->stores,
        .setup = &bench->setup,
        .archive_folder = ".",
        .references = 1};
}

void workbench_open_store(
    struct workbench *bench, const char *name, struct bench_store *ret)
{
    struct exchange exchange = {0};
    struct store *inner;
    struct err err;

    assert_ok(embedded_open(name, ":memory:", &inner, &err));
    interposed_init(&ret->outer, name, inner, meet);
    ret->bench = bench;
    assert_ok(ledger_create(inner, &exchange));
}

void workbench_add_store(struct workbench *bench, struct store *store)
{
    bench->two_stores[0] = bench->store;
    bench->two_stores[1] = store;
    bench->two_names[0] = "main";
    bench->two_names[1] = store->name;
    bench->stores = (struct job_stores){
        .count = 2, .names = bench->two_names, .stores = bench->two_stores};
}

void workbench_init(struct workbench *bench)
{
    memset(bench, 0, sizeof(*bench));
    platform_mutex_init(&bench->lock);
    platform_cond_init(&bench->changed);
    workbench_open_store(bench, "main", &bench->wrapped);
    bench->store = &bench->wrapped.store;
    init_job(bench);
    init_definition(bench);
    bench->request_pool = request_pool_new(4, 0);
    bench->renewer = renewer_new(4);
    bench->environment =
        (struct attempt_environment){.request_pool = bench->request_pool,
            .renewer = bench->renewer,
            .stopping = says_stop,
            .context = bench};
}

void workbench_done(struct workbench *bench)
{
    for (struct bench_run *one = atomic_load(&bench->runs), *next; one;
         one = next) {
        next = one->next;
        ledger_run_done(&one->run);
        mem_free(one);
    }
    renewer_free(bench->renewer);
    request_pool_free(bench->request_pool);
    store_close(bench->wrapped.inner);
    platform_cond_done(&bench->changed);
    platform_mutex_done(&bench->lock);
}

int workbench_set_up(void **state)
{
    struct workbench *bench = test_malloc(sizeof(*bench));

    workbench_init(bench);
    *state = bench;
    return 0;
}

int workbench_tear_down(void **state)
{
    struct workbench *bench = *state;

    /* An attempt is still running if an assertion has failed in its script. It
     * still uses the bench, and an abort here would hide the message of the
     * assertion. */
    if (bench->running > 0)
        return 0;
    workbench_done(bench);
    test_free(bench);
    return 0;
}

int workbench_set_up_virtual(void **state)
{
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    return workbench_set_up(state);
}

int workbench_tear_down_virtual(void **state)
{
    (void)workbench_tear_down(state);
    virtual_platform_end();
    return 0;
}

void workbench_meets(struct workbench *bench, enum bench_call call,
    unsigned first, unsigned last, enum bench_fault fault)
{
    unsigned made = bench->calls[call];

    assert_true(bench->fault_count < BENCH_FAULTS);
    bench->faults[bench->fault_count++] = (struct bench_fault_range){
        call, made + first, last == UINT_MAX ? last : made + last, fault};
}

void workbench_meets_each(struct workbench *bench,
    const struct bench_fault_range *faults, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (faults[i].fault != BENCH_PASS)
            workbench_meets(bench, faults[i].call, faults[i].first,
                faults[i].last, faults[i].fault);
}

void workbench_wait_for(struct workbench *bench,
    bool (*condition)(struct workbench *bench), const char *what,
    const char *file, int line)
{
    int64_t until_ms = platform_boot_ms() + WAIT_MAX_MS;

    while (!condition(bench)) {
        if (platform_boot_ms() > until_ms) {
            print_error("never came true: %s\n", what);
            _fail(file, line);
        }
        sleep_ms(bench, 2);
    }
}

void workbench_open_gate(struct workbench *bench)
{
    platform_lock(&bench->lock);
    bench->gate++;
    platform_wake_all(&bench->changed);
    platform_unlock(&bench->lock);
}

bool workbench_pass_gate(struct workbench *bench, struct run *run, unsigned n)
{
    bool open = false;

    while (!open && !run_stopping(run)) {
        platform_lock(&bench->lock);
        if (bench->gate < n)
            (void)platform_wait(
                &bench->changed, &bench->lock, platform_boot_ms() + 2);
        open = bench->gate >= n;
        platform_unlock(&bench->lock);
    }
    return open;
}

void workbench_make_queue(struct workbench *bench, const char *queue)
{
    struct exchange exchange = {0};

    assert_ok(store_queue_create(bench->wrapped.inner, &exchange, queue));
}

const char *workbench_put(
    struct workbench *bench, const char *queue, const char *text)
{
    struct exchange exchange = {0};
    struct messages put;
    struct slice id;

    messages_init(&put);
    workbench_make_queue(bench, queue);
    assert_ok(store_queue_put(
        bench->wrapped.inner, &exchange, queue, slice_of(text), 0, &put));
    id = ledger_text(workbench_new_run(bench), put.list[0].id);
    messages_done(&put);
    return id.at;
}

int64_t workbench_take(
    struct workbench *bench, const char *queue, struct messages *ret)
{
    struct exchange exchange = {0};

    assert_ok(store_queue_get(bench->wrapped.inner, &exchange, queue, 1,
        bench->setup.visibility_timeout_s, ret));
    assert_int_equal(ret->count, 1);
    return exchange.sent_ms;
}

struct lease_message workbench_receive(
    struct workbench *bench, const char *queue, struct messages *taken)
{
    int64_t sent_ms = workbench_take(bench, queue, taken);
    const struct message *message = &taken->list[0];

    return (struct lease_message){.queue = queue,
        .id = message->id,
        .pop_receipt = message->pop_receipt,
        .text = message->text,
        .inserted_ticks = message->inserted_ticks,
        .sent_ms = sent_ms};
}

void workbench_consume(
    struct workbench *bench, const char *queue, const char *text)
{
    struct exchange exchange = {0};
    struct messages taken;

    messages_init(&taken);
    (void)workbench_take(bench, queue, &taken);
    assert_true(slice_is(taken.list[0].text, text));
    assert_ok(store_queue_delete(bench->wrapped.inner, &exchange, queue,
        taken.list[0].id, taken.list[0].pop_receipt));
    messages_done(&taken);
}

int64_t workbench_count(struct workbench *bench, const char *queue)
{
    struct exchange exchange = {0};
    int64_t count = 0;

    if (store_queue_count(bench->wrapped.inner, &exchange, queue, &count) !=
        TW_OK)
        return 0;
    return count;
}

bool workbench_run(struct workbench *bench, const char *job, const char *id,
    struct ledger_run *ret)
{
    struct exchange exchange = {0};
    enum tw_err outcome = ledger_get(
        bench->wrapped.inner, &exchange, slice_of(job), slice_of(id), ret);

    assert_true(outcome == TW_OK || outcome == TW_NOT_FOUND);
    return outcome == TW_OK;
}

struct ledger_run *workbench_new_run(struct workbench *bench)
{
    struct bench_run *one = mem_alloc(sizeof(*one));

    ledger_run_init(&one->run);
    one->next = atomic_load(&bench->runs);
    while (!atomic_compare_exchange_weak(&bench->runs, &one->next, one))
        continue;
    return &one->run;
}

struct ledger_run *workbench_football(struct workbench *bench, const char *id)
{
    struct ledger_run *run = workbench_new_run(bench);

    run->job = slice_of(bench->job.name);
    run->id = ledger_text(run, slice_of(id));
    run->args = slice_of("{\"channel\":\"Football\"}");
    return run;
}

struct ledger_run *workbench_stored(
    struct workbench *bench, const char *job, const char *id)
{
    struct ledger_run *run = workbench_new_run(bench);

    if (!workbench_run(bench, job, id, run))
        fail_msg("the ledger has no run %s of %s", id, job);
    return run;
}

const char *workbench_state(
    struct workbench *bench, const char *job, const char *id)
{
    struct ledger_run run;
    const char *state = "none";

    ledger_run_init(&run);
    if (workbench_run(bench, job, id, &run))
        state = ledger_state_name(run.state);
    ledger_run_done(&run);
    return state;
}

size_t workbench_listed(
    struct workbench *bench, const char *job, enum ledger_index index)
{
    const struct ledger_index_scan scan = {
        .job = slice_of(job), .index = index};
    struct exchange exchange = {0};
    struct page page;
    size_t count;

    page_init(&page);
    assert_ok(ledger_scan_index(bench->wrapped.inner, &exchange, &scan,
        (struct continuation){0}, &page));
    count = page.count;
    page_done(&page);
    return count;
}

static enum tw_err apply_stored(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    const struct ledger_run *next = context;

    if (run->etag.len > 0)
        return err_fail(err, TW_CONFLICT, "it is there already");
    ledger_take_over(run, next);
    run->others = next->others;
    run->other_count = next->other_count;
    run->control = ledger_text(run, next->control);
    run->finish = ledger_text(run, next->finish);
    return TW_OK;
}

static enum tw_err insert_run(struct workbench *bench, struct ledger_run *run)
{
    struct ledger_change change = {
        .store = bench->wrapped.inner, .apply = apply_stored, .context = run};
    struct ledger_run stored;
    struct err err;
    enum tw_err outcome;

    ledger_run_init(&stored);
    stored.job = ledger_text(&stored, run->job);
    stored.id = ledger_text(&stored, run->id);
    outcome = ledger_change(&change, LEDGER_ABSENT, &stored, &err);
    if (outcome == TW_OK) {
        run->etag = ledger_text(run, stored.etag);
        run->index_etag = ledger_text(run, stored.index_etag);
    }
    ledger_run_done(&stored);
    return outcome;
}

static enum tw_err replace_run(struct workbench *bench, struct ledger_run *run)
{
    struct operation operation = {.type = OPERATION_REPLACE};
    const struct batch batch = {LEDGER_TABLE, &operation, 1};
    struct exchange exchange = {0};
    struct batch_result result;
    struct arena arena;
    enum tw_err outcome;

    char id[33];

    arena_init(&arena);
    text_random_id(id);
    id[16] = '\0';
    run->operation = ledger_text(run, slice_of(id));
    ledger_entity(run, &arena, &operation.entity);
    outcome = store_batch(bench->wrapped.inner, &exchange, &batch, &result);
    if (outcome == TW_OK)
        run->etag = ledger_text(run, slice_of(result.etags[0]));
    arena_done(&arena);
    return outcome;
}

enum tw_err workbench_store_run(struct workbench *bench, struct ledger_run *run)
{
    return run->etag.len > 0 ? replace_run(bench, run) : insert_run(bench, run);
}

void workbench_spoil_run(
    struct workbench *bench, const char *job, const char *id)
{
    struct ledger_run *run = workbench_new_run(bench);
    bool is_there = workbench_run(bench, job, id, run);
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    entity_init(&entity, &arena, slice_of(job), slice_of(id));
    entity_set_int32(&entity, &arena, "State", 5);
    entity.etag = run->etag;
    workbench_write(
        bench, is_there ? OPERATION_REPLACE : OPERATION_INSERT, &entity);
    arena_done(&arena);
}

void workbench_fill_run(struct workbench *bench, struct ledger_run *run)
{
    char name[8];

    run->others = arena_alloc(
        &run->arena, ENTITY_MAX_READ_PROPERTIES * sizeof(*run->others));
    do {
        (void)snprintf(name, sizeof(name), "P%zu", run->other_count);
        run->others[run->other_count++] = (struct property){.type = EDM_INT32,
            .name = arena_copy(&run->arena, slice_of(name)),
            .json = slice_of("1")};
    } while (workbench_store_run(bench, run) == TW_OK);
}

void workbench_write(struct workbench *bench, enum operation_type type,
    const struct entity *entity)
{
    const struct operation operation = {.type = type, .entity = *entity};
    const struct batch batch = {LEDGER_TABLE, &operation, 1};
    struct exchange exchange = {0};
    struct batch_result result;

    assert_ok(store_batch(bench->wrapped.inner, &exchange, &batch, &result));
}

bool workbench_cancel(struct workbench *bench, const char *id)
{
    bool asked;
    struct err err;

    assert_ok(control_cancel(bench->wrapped.inner, slice_of(bench->job.name),
        slice_of(id), workbench_new_run(bench), &asked, &err));
    return asked;
}

struct lease_request workbench_lease_request(
    struct workbench *bench, const char *id)
{
    return (struct lease_request){.store = bench->store,
        .job = &bench->job,
        .id = slice_of(id),
        .args_json = slice_of("{\"channel\":\"Football\"}"),
        .visibility_timeout_s = bench->setup.visibility_timeout_s,
        .max_attempts = bench->setup.max_attempts};
}

/* ---- the log ---- */

static FILE *logged;
static int logged_before;

void workbench_log_begin(void)
{
    logged = tmpfile();
    assert_non_null(logged);
    logged_before = dup(STDERR_FILENO);
    (void)dup2(fileno(logged), STDERR_FILENO);
}

unsigned workbench_log_end(const char *text)
{
    unsigned count = 0;
    char line[2000];

    (void)dup2(logged_before, STDERR_FILENO);
    (void)close(logged_before);
    rewind(logged);
    while (fgets(line, sizeof(line), logged))
        count += strstr(line, text) != NULL;
    (void)fclose(logged);
    return count;
}
