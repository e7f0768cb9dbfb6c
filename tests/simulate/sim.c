/* SPDX-License-Identifier: MIT */
/*
 * One simulation: it is set up, disturbed for a while, runs undisturbed until
 * all runs have ended, and is judged.
 */
#include "tests/simulate/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/yaml.h"
#include "tests/simulate/book.h"
#include "tests/simulate/front.h"
#include "tests/simulate/worker.h"
#include "tests/support/folder.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/run/setup.h"
#include "worker/store/embedded/embedded.h"

/* a Saturday */
#define BEGINNING_TICKS INT64_C(638993664000000000)
#define BEGINNING_MS 1000000

/* TROUBLE_MAX_MS: the longest time of the trouble. PEACE_MAX_MS: the longest
 * time from the end of the trouble to the end of all runs. It is long because
 * an attempt that failed silently is repeated only after ten visibility
 * timeouts, and because workers look for orphans only every ten minutes. */
#define TROUBLE_MAX_MS 90000
#define PEACE_MAX_MS (4 * 3600 * 1000)
#define STOP_MAX_MS 120000

/* The longest delay of a request. It is shorter than the time after which the
 * service ends a request. */
#define LATE_MAX_MS 29000

/* ---- chance ---- */

unsigned sim_draw(unsigned n)
{
    return (unsigned)virtual_random(n);
}

bool sim_chance(unsigned percent)
{
    return sim_draw(100) < percent;
}

void sim_complain(struct sim *sim, const char *format, ...)
{
    char *to = sim->result->complaint;
    va_list args;

    if (to[0])
        return;
    va_start(args, format);
    (void)vsnprintf(to, sizeof(sim->result->complaint), format, args);
    va_end(args);
    virtual_note("WRONG: %s", to);
}

/* ---- the service ---- */

static void tell_changes(struct sim *sim, const struct store_request *request)
{
    const struct batch *batch = request->batch;

    for (size_t i = 0; i < batch->count && sim->kind->changed; i++)
        sim->kind->changed(
            sim->state, &(struct sim_change){.by_front_end = sim->by_front_end,
                            .by_worker = sim->by_worker,
                            .table = batch->table,
                            .operation = &batch->operations[i],
                            .etag = request->result->etags[i]});
}

static void judge_taken(struct sim *sim, const struct store_request *request)
{
    if (request->call == CALL_BATCH && strcmp(request->name, BESIDE_TABLE) == 0)
        return;
    if (request->call == CALL_BATCH && strcmp(request->name, LEDGER_TABLE) == 0)
        book_commit(sim->book, request->batch, sim->by_worker);
    else if (request->call == CALL_BATCH)
        tell_changes(sim, request);
    else if (request->call == CALL_QUEUE_PUT && sim->by_worker)
        book_put(sim->book, request->name, request->text);
    else if (request->call == CALL_QUEUE_PUT)
        book_message(sim->book, request->name, request->messages->list[0].id,
            sim->put_run);
    else if (request->call == CALL_QUEUE_DELETE && sim->by_worker)
        book_deleted(sim->book, request->name, request->id);
}

static enum tw_err judge(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct sim *sim =
        (struct sim *)((char *)self - offsetof(struct sim, judge));
    enum tw_err outcome;

    sim->result->requests++;
    if (sim->by_worker &&
        !trouble_takes(&sim->troubles, exchange, request, &outcome))
        return outcome;
    outcome = trouble_send(&sim->troubles, self->inner, exchange, request);
    if (outcome == TW_OK && call_in(CALL_WRITES, request->call))
        judge_taken(sim, request);
    return outcome;
}

/* ---- kinds ---- */

void sim_create_table(struct sim *sim, const char *table)
{
    struct exchange exchange = {.deadline = NULL};

    if (store_create_table(sim->service, &exchange, table) != TW_OK)
        sim_complain(sim, "no table: %s", exchange.err.text);
    trouble_knows_table(&sim->troubles, table);
}

int sim_each(struct sim *sim, const char *table, sim_seen *seen, void *ctx)
{
    struct scan_request request = {.table = table};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    enum tw_err outcome;
    int count = 0;

    page_init(&page);
    do {
        outcome = store_scan(sim->service, &exchange, &request, &page);
        for (size_t i = 0; i < page.count && outcome == TW_OK && seen; i++)
            seen(ctx, table, &page.entities[i]);
        count += outcome == TW_OK ? (int)page.count : 0;
        request.from = page.next;
    } while (outcome == TW_OK && page.next.more);
    page_done(&page);
    if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        sim_complain(sim, "%s: %s", table, exchange.err.text);
    return outcome == TW_NOT_FOUND ? -1 : count;
}

/* ---- front ends ---- */

int64_t sim_now_ticks(void)
{
    int64_t ticks;

    virtual_mask();
    ticks = platform_wall_ticks();
    virtual_unmask();
    return ticks;
}

bool sim_get(struct sim *sim, const char *table, struct slice partition_key,
    struct slice row_key, struct page *page)
{
    struct exchange exchange = {.deadline = NULL};
    enum tw_err outcome;

    virtual_mask();
    outcome =
        store_get(sim->service, &exchange, table, partition_key, row_key, page);
    virtual_unmask();
    if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        sim_complain(sim, "a front end's get: %s", exchange.err.text);
    return outcome == TW_OK;
}

enum tw_err sim_write(struct sim *sim, const char *table,
    enum operation_type type, const struct entity *entity, char *etag)
{
    const struct operation operation = {type, *entity};
    const struct batch batch = {table, &operation, 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    struct exchange exchange = {.deadline = NULL};
    enum tw_err outcome;

    virtual_mask();
    sim->by_worker = false;
    sim->by_front_end = true;
    outcome = store_batch(&sim->judge.store, &exchange, &batch, result);
    sim->by_front_end = false;
    virtual_note("front end: %s %d %.*s/%.*s: %s", table, (int)type,
        ENTITY_KEYS(entity), err_name(outcome));
    virtual_unmask();
    if (outcome == TW_OK && etag)
        memcpy(etag, result->etags[0], sizeof(result->etags[0]));
    mem_free(result);
    if (outcome == TW_INVALID || outcome == TW_BUSY || outcome == TW_UNKNOWN)
        sim_complain(sim, "a front end's write: %s", exchange.err.text);
    return outcome;
}

/* Puts a message. run: JOB/ID; JOB/ if the id is that of the message; empty if
 * the message belongs to no run. */
static void put(
    struct sim *sim, const char *queue, struct slice text, const char *run)
{
    struct exchange exchange = {.deadline = NULL};
    struct messages messages;

    messages_init(&messages);
    trouble_need_queue(&sim->troubles, queue);
    virtual_mask();
    sim->by_worker = false;
    sim->put_run = run;
    if (store_queue_put(
            &sim->judge.store, &exchange, queue, text, 0, &messages) != TW_OK)
        sim_complain(sim, "a front end's put: %s", exchange.err.text);
    virtual_unmask();
    messages_done(&messages);
}

void sim_enqueue(struct sim *sim, const char *what, const char *id, bool bound,
    int64_t at_ticks)
{
    const char *more = sim->kind->more_args ? sim->kind->more_args : "";
    char args[128], run[128];
    struct buf text;

    if (bound && !sim->kind->two_jobs) {
        put(sim, SIM_BOUND, slice_of(what), SIM_JOB "/");
        return;
    }
    if (sim->kind->two_jobs)
        (void)snprintf(args, sizeof(args), "{}");
    else
        (void)snprintf(
            args, sizeof(args), "{\"" SIM_ARGUMENT "\":\"%s\"%s}", what, more);
    (void)snprintf(run, sizeof(run), SIM_JOB "/%s", id);
    buf_init(&text, QUEUE_MAX_MESSAGE_BYTES);
    message_compose(slice_of(SIM_JOB), slice_of(args), slice_of(id), at_ticks,
        slice_of(""), &text);
    put(sim, bound ? SIM_BOUND : SIM_QUEUE, buf_slice(&text), run);
    buf_done(&text);
}

static void control_enqueue_args(
    struct sim *sim, size_t index, const struct run_args *args, const char *id)
{
    const struct setup_queue queue = {
        .name = SIM_QUEUE, .poison_queue = SIM_QUEUE "-poison"};
    const struct job *job = &sim->jobs[0].list[index];
    const struct control_enqueue order = {
        .queue = &queue, .job = job, .args = *args, .id = slice_of(id)};
    char run[128], ret_id[QUEUE_ID_MAX + 1];
    struct err err;
    enum tw_err outcome;

    (void)snprintf(run, sizeof(run), "%s/%s", job->name, id);
    trouble_need_queue(&sim->troubles, SIM_QUEUE);
    virtual_mask();
    sim->by_worker = false;
    sim->put_run = run;
    outcome = control_enqueue(&sim->judge.store, &order, ret_id, &err);
    virtual_unmask();
    if (outcome != TW_OK && outcome != TW_CONFLICT)
        sim_complain(sim, "enqueue: %s", err.text);
}

void sim_control_enqueue(struct sim *sim, const char *what, const char *id)
{
    sim_control_enqueue_job(sim, 0, what, id);
}

void sim_control_enqueue_job(
    struct sim *sim, size_t job, const char *what, const char *id)
{
    const struct slice name = slice_of(SIM_ARGUMENT), value = slice_of(what);

    control_enqueue_args(sim, job,
        &(struct run_args){sim->kind->two_jobs ? 0 : 1, &name, &value}, id);
}

void sim_control_enqueue_beside(struct sim *sim, const char *id)
{
    control_enqueue_args(
        sim, sim->jobs[0].count - 1, &(struct run_args){0, NULL, NULL}, id);
}

void sim_control_enqueue_phase(
    struct sim *sim, const char *what, const char *id, const char *phase)
{
    const struct slice names[] = {slice_of(SIM_ARGUMENT), slice_of("phase")};
    const struct slice values[] = {slice_of(what), slice_of(phase)};

    control_enqueue_args(sim, 0, &(struct run_args){2, names, values}, id);
}

/* Returns the ID of a run's key, JOB/ID. */
static struct slice id_of(const char *key)
{
    return slice_of(strchr(key, '/') + 1);
}

typedef enum tw_err ask_run(struct store *store, struct slice job,
    struct slice id, struct ledger_run *was, bool *asked, struct err *err);

/* Calls `ask` (control_cancel() or control_pause()) for some run of SIM_JOB and
 * copies the run's key to `key`, which has the size of sim_run's key. Returns
 * false if nothing was asked. */
static bool ask_some(
    struct sim *sim, ask_run *ask, const char *what, char *key, size_t room)
{
    const struct sim_run *run = book_some_run(sim->book);
    struct ledger_run was;
    struct err err;
    enum tw_err outcome;
    bool asked;

    if (!run || !slice_is(run->now.job, SIM_JOB))
        return false;
    (void)snprintf(key, room, "%s", run->key);
    ledger_run_init(&was);
    virtual_mask();
    sim->by_worker = false;
    virtual_note("%s is to be %s", key, what);
    outcome = ask(
        &sim->judge.store, slice_of(SIM_JOB), id_of(key), &was, &asked, &err);
    virtual_unmask();
    ledger_run_done(&was);
    if (outcome != TW_OK && outcome != TW_CONFLICT)
        sim_complain(sim, "to be %s: %s", what, err.text);
    return outcome == TW_OK;
}

/* True if the run is paused, or its owner will pause it. */
static bool wants_resume(struct sim *sim, const char *key)
{
    const struct sim_run *run = book_find(sim->book, slice_of(key));

    return run && !run->ended &&
           (run->now.state == LEDGER_PAUSED ||
               slice_is(run->now.control, LEDGER_CONTROL_PAUSE));
}

/* Resumes the run as `tableward resume` does it, on a worker's queue. */
static enum tw_err resume_run(struct sim *sim, const char *key, struct err *err)
{
    struct setup_queue queue = {
        .name = SIM_QUEUE, .poison_queue = SIM_QUEUE "-poison"};
    const struct setup setup = {.queues = &queue, .queue_count = 1};
    struct store *list[] = {&sim->judge.store};
    const char *names[] = {sim->judge.store.name};
    const struct job_stores stores = {
        .count = 1, .stores = list, .names = names};
    const struct definition definition = {
        .jobs = &sim->jobs[0], .stores = &stores, .setup = &setup};
    struct control_resumed resumed;
    enum tw_err outcome;

    trouble_need_queue(&sim->troubles, SIM_QUEUE);
    virtual_mask();
    sim->by_worker = false;
    sim->put_run = key;
    virtual_note("%s is to be resumed", key);
    outcome = control_resume(
        &definition, slice_of(SIM_JOB), id_of(key), &resumed, err);
    virtual_unmask();
    return outcome;
}

/* Resumes the run, if necessary several times, until it is no longer paused.
 * One time may not be enough, because the owner may see the pause late, or may
 * be dead. */
static void resume_after_a_while(struct sim *sim, const char *key)
{
    struct err err;

    do {
        enum tw_err outcome;

        front_thinks(20000);
        if (!wants_resume(sim, key))
            return;
        outcome = resume_run(sim, key, &err);
        if (outcome != TW_OK && outcome != TW_CONFLICT)
            sim_complain(sim, "resume: %s", err.text);
    } while (wants_resume(sim, key));
}

void sim_ask(struct sim *sim)
{
    char key[sizeof(((struct sim_run *)0)->key)];

    if (sim_chance(30)) {
        (void)ask_some(sim, control_cancel, "cancelled", key, sizeof(key));
    } else if (ask_some(sim, control_pause, "paused", key, sizeof(key))) {
        sim->result->pauses++;
        resume_after_a_while(sim, key);
    }
}

void sim_enqueue_garbage(struct sim *sim)
{
    put(sim, SIM_QUEUE, slice_of("{\"job\": \"none\"}"), "");
}

/* ---- the network and the service ---- */

/* Weights from which a seed draws the shares of its faults. */
static const struct faulty_share STORM[] = {
    {FAULT_UNSENT, 2, CALL_ALL},
    {FAULT_BUSY, 4, CALL_ALL},
    {FAULT_BUSY_HINTED, 3, CALL_ALL},
    {FAULT_ERROR, 3, CALL_ALL},
    {FAULT_ERROR_HINTED, 1, CALL_ALL},
    {FAULT_LOSE_REQUEST, 3, CALL_ALL},
    {FAULT_LOSE_ANSWER, 6, CALL_ALL},
    {FAULT_LATE, 5, CALL_ALL},
    {FAULT_TWICE, 2, CALL_ALL},
    {FAULT_TWICE_UNSEEN, 2, CALL_ALL},
    {FAULT_NO_INDEX, 2, CALL_ALL},
    {FAULT_ONE_KEY, 1, CALL_ALL},
    {FAULT_SHORT_PAGE, 5, CALL_ALL},
    {FAULT_EMPTY_PAGE, 3, CALL_ALL},
};

#define STORM_KINDS (sizeof(STORM) / sizeof(STORM[0]))

/* Draws some kinds of faults, which together happen to at most `total` of a
 * thousand requests. */
static void draw_shares(struct sim *sim)
{
    static const unsigned SHARES[] = {0, 20, 60, 120, 200, 300};
    struct faulty_share *shares =
        arena_alloc(&sim->arena, STORM_KINDS * sizeof(*shares));
    unsigned total = SIM_PICK(SHARES), weights = 0;
    size_t only = sim_chance(25) ? sim_draw(STORM_KINDS) : STORM_KINDS;

    for (size_t i = 0; i < STORM_KINDS; i++) {
        shares[i] = STORM[i];
        if ((only < STORM_KINDS ? i != only : sim_chance(40)) ||
            (sim->once && STORM[i].fault == FAULT_TWICE))
            shares[i].per_mille = 0;
        else if (sim_chance(20))
            shares[i].per_mille *= 4;
        weights += shares[i].per_mille;
    }
    for (size_t i = 0; i < STORM_KINDS && weights > 0; i++)
        shares[i].per_mille = shares[i].per_mille * total / weights;
    faulty_seed(&sim->faults, virtual_random(UINT64_MAX), shares, STORM_KINDS);
}

static void draw_weather(struct sim *sim)
{
    draw_shares(sim);
    sim->faults.late_spread_ms = SIM_PICK(((int64_t[]){50, 1000, LATE_MAX_MS}));
    sim->faults.late_requests = sim_draw(4);
    sim->faults.hint_ms = 1 + sim_draw(2000);
    sim->faults.page_max = sim_chance(50) ? 1 + sim_draw(7) : 0;
    sim->latency_ms = SIM_PICK(((int64_t[]){0, 5, 20, 80}));
    sim->dates_cut = sim_chance(60);
}

static void set_weather(struct sim *sim)
{
    faulty_seed(&sim->faults, virtual_random(UINT64_MAX), sim->script->shares,
        sim->script->share_count);
    sim->faults.hint_ms = 1000;
    sim->latency_ms = 20;
    sim->dates_cut = true;
}

/* Makes the service unreachable for a while. */
static void draw_outage(struct sim *sim)
{
    int64_t ms = 1 + (int64_t)sim_draw(20000);

    virtual_note("the service is away for %lld ms", (long long)ms);
    sim->down_until_ms = virtual_ms() + ms;
}

/* A worker that was told to stop while it was stalled may end only now. */
void sim_keep_alive(struct sim *sim)
{
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (!worker_alive(sim->workers[i]))
            worker_start(sim->workers[i]);
}

/* Disturbs workers and services until the time of the trouble is over and all
 * front ends have stopped. */
static void trouble(struct sim *sim)
{
    int64_t until_ms = virtual_ms() + (int64_t)sim_draw(TROUBLE_MAX_MS);
    unsigned pause_ms = SIM_PICK(((unsigned[]){1000, 5000, 20000}));

    while (virtual_ms() < until_ms || sim->front_ends > 0) {
        virtual_sleep((int64_t)sim_draw(pause_ms) + 1);
        if (virtual_ms() >= until_ms) {
            if (trouble_has(&sim->troubles, TROUBLE_QUEUE_DELETED))
                sim_keep_alive(sim); /* front ends wait until a worker creates
                                        the deleted queue */
            continue;
        }
        if (sim_chance(6))
            draw_outage(sim);
        else if (sim->troubles.drawn == 0 || sim_chance(60) ||
                 !trouble_comes(&sim->troubles))
            worker_befall(sim->workers[sim_draw(sim->worker_count)]);
    }
}

/* ---- peace ---- */

static int64_t count_messages(struct sim *sim, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};
    int64_t count = -1;

    virtual_mask();
    if (store_queue_count(sim->service, &exchange,
            trouble_queue(&sim->troubles, queue), &count) != TW_OK)
        count = -1;
    virtual_unmask();
    return count;
}

static bool all_is_done(struct sim *sim)
{
    return sim->front_ends == 0 && book_all_ended(sim->book) &&
           count_messages(sim, SIM_QUEUE) == 0 &&
           count_messages(sim, SIM_BOUND) == 0;
}

static void calm_down(struct sim *sim)
{
    sim->down_until_ms = 0;
    sim->latency_ms = sim->latency_ms > 20 ? 20 : sim->latency_ms;
    faulty_seed(&sim->faults, 0, NULL, 0);
    sim->faults.page_max = 0;
}

static void make_peace(struct sim *sim)
{
    virtual_note("peace");
    calm_down(sim);
    trouble_ends(&sim->troubles);
}

static void wait_until_done(struct sim *sim)
{
    int64_t from_ms = virtual_ms(), until_ms = from_ms + PEACE_MAX_MS;

    while (!all_is_done(sim) && !sim->result->complaint[0]) {
        if (virtual_ms() > until_ms) {
            book_dump(sim->book);
            sim_complain(sim, "it does not end although all is well");
        }
        sim_keep_alive(sim);
        virtual_sleep(500);
    }
    sim->result->peace_ms = virtual_ms() - from_ms;
}

/* Waits until no delayed request can reach the service any more. */
static void let_late_land(struct sim *sim)
{
    virtual_sleep(LATE_MAX_MS + 1000);
    virtual_mask();
    faulty_land(&sim->faults, INT64_MAX);
    virtual_unmask();
}

static void send_home(struct sim *sim)
{
    int64_t until_ms;

    while (trouble_lasts(&sim->troubles, TROUBLE_PAUSE))
        virtual_sleep(1000);
    until_ms = virtual_ms() + STOP_MAX_MS;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        worker_stop(sim->workers[i]);
        while (worker_alive(sim->workers[i]) && !sim->result->complaint[0]) {
            virtual_sleep(100);
            if (virtual_ms() > until_ms)
                sim_complain(sim, "a worker that was told to stop does not");
        }
    }
}

/* Plays the script until all runs have ended. */
static void play_script(struct sim *sim)
{
    const struct sim_script *script = sim->script;

    if (script->outage_ms > 0) {
        virtual_sleep(script->outage_after_ms);
        sim->down_until_ms = virtual_ms() + script->outage_ms;
    }
    wait_until_done(sim);
    sim->result->done_ms = virtual_ms() - BEGINNING_MS;
    sim->result->worker_requests = worker_requests(sim->workers[0]);
}

static void direct(void *arg)
{
    struct sim *sim = arg;

    if (sim->kind->front_ends)
        sim->kind->front_ends(sim->state);
    else
        front_start(sim);
    if (sim->script)
        play_script(sim);
    else
        trouble(sim);
    if (trouble_has_data_apart(&sim->troubles)) {
        calm_down(sim);
        trouble_besiege(&sim->troubles);
    }
    make_peace(sim);
    wait_until_done(sim);
    let_late_land(sim);
    send_home(sim);
}

/* ---- set-up and end ---- */

static void load_jobs(struct sim *sim, unsigned n)
{
    static const char *const names[] = {"main", "data"};
    static struct store *const none[] = {NULL, NULL};
    bool apart = trouble_has_data_apart(&sim->troubles);
    const struct job_stores stores = {.count = apart ? 2 : 1,
        .names = names,
        .stores = none,
        .by_default = apart};
    char *own = sim->kind->job(sim->state, n), *text;
    struct problems problems;
    struct yaml_node *root;
    struct buf whole;

    buf_init(&whole, 65536);
    buf_add_text(&whole, own);
    mem_free(own);
    trouble_add_beside_job(&sim->troubles, &whole);
    text = buf_take(&whole);
    problems_init(&problems);
    root = yaml_read("simulation.yaml", arena_copy(&sim->arena, slice_of(text)),
        &sim->arena, &problems);
    if (root)
        jobs_load(root, &stores, &sim->arena, &sim->jobs[n], &problems);
    if (problems.errors > 0) {
        problems_print(&problems, stderr);
        sim_complain(sim, "the configuration is wrong");
    }
    problems_done(&problems);
    mem_free(text);
}

static void make_queue(struct sim *sim, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};

    if (store_queue_create(sim->service, &exchange, queue) != TW_OK)
        sim_complain(sim, "no queue: %s", exchange.err.text);
}

/* Returns the name of a folder of this process, which exists once something is
 * stored there. */
static const char *folder_name(struct sim *sim)
{
    const char *above = getenv("TMPDIR");

    return arena_format(&sim->arena, "%s/tableward-simulate.%d",
        above ? above : "/tmp", (int)getpid())
        .at;
}

/* Gives a third of the simulations lock files and one or two hosts. The seed
 * decides this without a draw, because another draw would change all later
 * draws. */
static void set_hosts(struct sim *sim)
{
    uint64_t other = sim->result->seed / 5;

    if (sim->script || other % 3 != 0)
        return;
    (void)mkdir(sim->folder, 0700);
    sim->lock_folder = arena_format(&sim->arena, "%s/locks", sim->folder).at;
    sim->hosts = other % 2 ? 1 : 2;
}

static void build(struct sim *sim)
{
    struct err err;

    sim->folder = folder_name(sim);
    set_hosts(sim);

    if (embedded_open("service", ":memory:", &sim->service, &err) != TW_OK)
        sim_complain(sim, "no store: %s", err.text);
    interposed_init(&sim->judge, "judge", sim->service, judge);
    faulty_init(&sim->faults, &sim->judge.store);
    sim->book = book_new(sim);
    if (!sim->script)
        trouble_draw(&sim->troubles, sim);
    sim->state = sim->kind->begin(sim);
    for (unsigned n = 0; n < SIM_DEFINITIONS; n++)
        load_jobs(sim, n);
    make_queue(sim, SIM_QUEUE);
    make_queue(sim, SIM_BOUND);
    trouble_begin_beside(&sim->troubles);
    if (sim->script)
        set_weather(sim);
    else
        draw_weather(sim);
    sim->worker_count = sim->script ? 1 : 1 + sim_draw(SIM_WORKERS_MAX);
    for (unsigned i = 0; i < sim->worker_count; i++)
        sim->workers[i] = worker_new(sim, i + 1);
}

static void judge_the_end(struct sim *sim, enum virtual_end end)
{
    static const char *const ENDS[] = {
        [VIRTUAL_STUCK] = "everybody waits for ever",
        [VIRTUAL_TOO_LONG] = "it takes too long",
    };

    if (end != VIRTUAL_DONE)
        sim_complain(sim, "%s", ENDS[end]);
    if (sim->result->complaint[0])
        return;
    book_end(sim->book);
    sim->kind->end(sim->state);
}

static void take_counts(struct sim *sim)
{
    struct sim_result *result = sim->result;

    for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++)
        result->faults += sim->faults.met[fault];
    result->troubles = sim->troubles.met;
    result->late_landed = sim->faults.landed;
    result->late_taken = sim->faults.changed_late;
    result->steps = virtual_steps();
    result->virtual_ms = virtual_ms() - BEGINNING_MS;
    result->hash = virtual_hash();
}

static void tear_down(struct sim *sim)
{
    folder_remove(sim->folder);
    faulty_done(&sim->faults);
    store_close(sim->service);
    arena_done(&sim->arena);
}

void sim_play(const struct sim_options *options, struct sim_result *ret)
{
    const struct virtual_options world = {.seed = options->seed,
        .boot_ms = BEGINNING_MS,
        .wall_ticks = BEGINNING_TICKS,
        .limit_ms = TROUBLE_MAX_MS * 10 + PEACE_MAX_MS * 2,
        .limit_steps = 2000000};
    struct sim *sim = mem_alloc(sizeof(*sim));

    *ret = (struct sim_result){.seed = options->seed};
    sim->kind = options->kind;
    sim->script = options->script;
    sim->result = ret;
    virtual_platform_use(&world);
    virtual_trace(options->trace);
    arena_init(&sim->arena);
    build(sim);
    virtual_start(virtual_process("director"), "director", direct, sim);
    judge_the_end(sim, virtual_run());
    take_counts(sim);
    tear_down(sim);
    virtual_platform_end();
    mem_free(sim);
}
