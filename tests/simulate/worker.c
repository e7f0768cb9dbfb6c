/* SPDX-License-Identifier: MIT */
/* Workers and the random events that disturb them. */
#include "tests/simulate/worker.h"

#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/wire.h"
#include "worker/base/mem.h"
#include "worker/run/consumer.h"
#include "worker/run/lock_file.h"
#include "worker/run/setup.h"

/* The configuration as one process has read it. */
struct reading {
    struct store *stores[2];
    const char *names[2];
    struct job_stores job_stores;
    struct setup_queue queues[2];
    struct setup setup;
    struct definition definition;
};

/* One process of a worker. This struct and struct reading are never freed:
 * after a crash anything may still point to them. */
struct incarnation {
    struct incarnation *before; /* previous process of the same worker */
    struct worker *worker;
    int process;
    struct lock_file *lock_file;     /* NULL: none, or its process has ended */
    char owner[LOCK_FILE_OWNER_MAX]; /* an Owner of this process; empty: none */
    struct wire wire, data; /* wire: to the store of ledger and queues; data: to
                               the store of the job's tables */
    struct consumer *consumer;
    bool running;     /* consumer_new() has returned, consumer_free() is not
                         called yet */
    unsigned signals; /* number of threads that deliver a signal to it */
};

struct worker {
    struct sim *sim;
    unsigned number, starts;
    unsigned requests; /* of processes that have ended */
    int64_t visibility_timeout_s;
    unsigned slots, request_pool, definition, poll_max_ms;
    bool ordered;
    struct incarnation *now;
};

/* ---- a process ---- */

static struct definition *read_definition(struct incarnation *self)
{
    const struct worker *worker = self->worker;
    struct jobs *jobs = &worker->sim->jobs[worker->definition];
    struct reading *reading = mem_alloc(sizeof(*reading));

    bool apart = trouble_has_data_apart(&worker->sim->troubles);

    reading->stores[0] = &self->wire.outer.store;
    reading->stores[1] = &self->data.outer.store;
    reading->names[0] = "main";
    reading->names[1] = "data";
    reading->job_stores = (struct job_stores){.count = apart ? 2 : 1,
        .names = reading->names,
        .stores = reading->stores,
        .by_default = apart};
    reading->queues[0] = (struct setup_queue){
        .name = SIM_QUEUE, .poison_queue = SIM_QUEUE "-poison"};
    reading->queues[1] = (struct setup_queue){.name = SIM_BOUND,
        .poison_queue = SIM_BOUND "-poison",
        .job = worker->sim->kind->two_jobs ? NULL : &jobs->list[0]};
    reading->setup = (struct setup){.queues = reading->queues,
        .queue_count = 2,
        .slots = worker->slots,
        .requests = worker->request_pool,
        .visibility_timeout_s = worker->visibility_timeout_s,
        .poll_min_ms = 100,
        .poll_max_ms = worker->poll_max_ms,
        .max_attempts = 5};
    reading->definition = (struct definition){.jobs = jobs,
        .stores = &reading->job_stores,
        .setup = &reading->setup,
        .archive_folder = worker->sim->folder,
        .lock_folder = worker->sim->lock_folder,
        .references = 1};
    return &reading->definition;
}

/* Reads the configuration again after SIGHUP; the job may be another
 * version. */
static struct definition *reload(void *context)
{
    struct incarnation *self = context;

    self->worker->definition = sim_draw(SIM_DEFINITIONS);
    return read_definition(self);
}

/* Closes the lock file, when the process ends or crashes. */
static void close_lock_file(struct incarnation *self)
{
    lock_file_close(self->lock_file);
    self->lock_file = NULL;
}

static void run(void *arg)
{
    struct incarnation *self = arg;
    struct consumer_options options = {
        .definition = read_definition(self), .reload = reload, .context = self};
    struct consumer_result result;
    struct err err = {""};
    enum tw_err outcome;

    self->lock_file = definition_lock_file(options.definition);
    if (self->lock_file)
        (void)lock_file_owner(self->lock_file, self->owner);
    options.lock_file = self->lock_file;
    self->consumer = consumer_new(&options);
    self->running = true;
    outcome = consumer_run(self->consumer, &result, &err);
    if (outcome != TW_OK)
        sim_complain(self->worker->sim, "the worker ends with %s: %s",
            err_name(outcome), err.text);
    self->running = false;
    while (self->signals > 0)
        virtual_sleep(1);
    consumer_free(self->consumer);
    close_lock_file(self);
    virtual_note("worker %u has gone home", self->worker->number);
}

/* Boot ids of the two hosts. */
static const char *const HOSTS[] = {"00000000-0000-4000-8000-0000000000aa",
    "00000000-0000-4000-8000-0000000000bb"};

static unsigned host_of(const struct worker *worker)
{
    return worker->sim->hosts > 1 ? worker->number % 2 : 0;
}

static void begin_wire(
    struct incarnation *self, struct wire *wire, const char *name)
{
    wire_init(wire, self->worker->sim, self, name);
    wire->outer.store.capabilities.late_writes = true;
    wire->outer.store.capabilities.ordered = self->worker->ordered;
}

void worker_start(struct worker *worker)
{
    struct incarnation *self = mem_alloc(sizeof(*self));
    char name[16];

    if (worker->now)
        worker->requests +=
            worker->now->wire.requests + worker->now->data.requests;
    (void)snprintf(
        name, sizeof(name), "w%u.%u", worker->number, ++worker->starts);
    self->worker = worker;
    self->before = worker->now;
    worker->now = self;
    begin_wire(self, &self->wire, "main");
    begin_wire(self, &self->data, "data");
    self->data.data = true;
    if (worker->sim->script) {
        self->wire.unreached = worker->sim->script->unreached;
        self->wire.ctx = worker->sim->script->ctx;
    }
    self->process = virtual_process(name);
    virtual_set_boot_id(self->process, HOSTS[host_of(worker)]);
    virtual_note("%s starts", name);
    virtual_start(self->process, "consumer", run, self);
}

static void signal_stop(void *arg)
{
    struct incarnation *self = arg;

    if (self->running)
        consumer_stop(self->consumer);
    self->signals--;
}

static void signal_reload(void *arg)
{
    struct incarnation *self = arg;

    if (self->running)
        consumer_reload(self->consumer);
    self->signals--;
}

/* Calls the handler in a thread of the process, as a signal does. */
static void send_signal(struct worker *worker, void (*handler)(void *arg))
{
    struct incarnation *self = worker->now;

    if (!self->running || !virtual_alive(self->process))
        return;
    self->signals++;
    virtual_start(self->process, "signal", handler, self);
}

void worker_stop(struct worker *worker)
{
    send_signal(worker, signal_stop);
}

/* Returns the part of an Owner that identifies its process. */
static struct slice process_of(struct slice owner)
{
    const char *at = memchr(owner.at, '@', owner.len);

    if (at == NULL)
        return (struct slice){0};
    return (struct slice){at, owner.len - (size_t)(at - owner.at)};
}

static struct incarnation *incarnation_of(struct sim *sim, struct slice owner)
{
    struct slice process = process_of(owner);

    for (unsigned i = 0; i < sim->worker_count && process.len > 0; i++)
        for (struct incarnation *at = sim->workers[i]->now; at; at = at->before)
            if (slice_equal(process, process_of(slice_of(at->owner))))
                return at;
    return NULL;
}

bool worker_is_known_dead(
    struct sim *sim, struct slice owner, struct slice other)
{
    const struct incarnation *was = incarnation_of(sim, owner);
    const struct incarnation *is = incarnation_of(sim, other);

    if (!was || !is || virtual_alive(was->process) ||
        host_of(was->worker) != host_of(is->worker))
        return false;
    sim->result->taken_early++;
    return true;
}

bool worker_alive(const struct worker *worker)
{
    return virtual_alive(worker->now->process);
}

unsigned worker_requests(const struct worker *worker)
{
    return worker->requests + worker->now->wire.requests +
           worker->now->data.requests;
}

/* ---- random events ---- */

static void draw_settings(struct worker *worker)
{
    static const int64_t TIMEOUTS_S[] = {2, 3, 5, 5, 10, 30};
    static const unsigned POLLS_MS[] = {500, 2000, 5000, 20000};

    worker->visibility_timeout_s = SIM_PICK(TIMEOUTS_S);
    worker->slots = 1 + sim_draw(2);
    worker->request_pool = 2 + sim_draw(3);
    worker->poll_max_ms = SIM_PICK(POLLS_MS);
    worker->definition = sim_chance(80) ? 0 : 1;
}

/* Sets the default settings of the configuration. */
static void usual_settings(struct worker *worker)
{
    worker->visibility_timeout_s = 60;
    worker->slots = 4;
    worker->request_pool = 32;
    worker->poll_max_ms = 30000;
    worker->ordered = true;
}

static int64_t longer_than_a_lease(const struct worker *worker)
{
    unsigned timeout_ms = (unsigned)worker->visibility_timeout_s * 1000;

    return timeout_ms + (int64_t)sim_draw(timeout_ms * 2);
}

static void crash(struct worker *worker)
{
    worker->sim->result->crashes++;
    virtual_note("worker %u crashes", worker->number);
    virtual_crash(worker->now->process);
    close_lock_file(worker->now);
    if (sim_chance(30))
        draw_settings(worker);
}

static void stall(struct worker *worker)
{
    int64_t ms = longer_than_a_lease(worker);

    worker->sim->result->stalls++;
    virtual_note("worker %u stalls for %lld ms", worker->number, (long long)ms);
    virtual_stall(worker->now->process, ms);
}

static void stall_shortly(struct worker *worker)
{
    virtual_stall(worker->now->process,
        (int64_t)sim_draw((unsigned)worker->visibility_timeout_s * 1000));
}

/* Stops one thread of the process; thread: its name. */
static void freeze(struct worker *worker, const char *thread, const char *what)
{
    int64_t ms = longer_than_a_lease(worker);

    virtual_note("worker %u: %s frozen for %lld ms", worker->number, what,
        (long long)ms);
    virtual_stall_thread(worker->now->process, thread, ms);
}

static void freeze_renewer(struct worker *worker)
{
    worker->sim->result->stalls++;
    freeze(worker, "renewer", "renewer");
}

static void freeze_request_pool(struct worker *worker)
{
    freeze(worker, "request", "requests");
}

static void freeze_worker_threads(struct worker *worker)
{
    freeze(worker, "worker", "slots");
}

static void step_wall(struct worker *worker)
{
    int64_t ms = (int64_t)sim_draw(2400000) - 1200000;

    virtual_note(
        "worker %u: clock jumps by %lld ms", worker->number, (long long)ms);
    virtual_step_clocks(worker->now->process, ms, 0);
}

bool worker_pause(struct worker *worker, int64_t ms)
{
    struct incarnation *self = worker->now;

    if (!worker_alive(worker) || !book_holds(worker->sim->book, self) ||
        !virtual_pause(self->process, ms))
        return false;
    virtual_note("worker %u: all its clocks stand still for %lld ms",
        worker->number, (long long)ms);
    book_paused(worker->sim->book, self);
    return true;
}

/* Moves the boot clock forward, as after a suspend that no process noticed. */
static void step_boot(struct worker *worker)
{
    int64_t ms = longer_than_a_lease(worker) / 2;

    virtual_note("worker %u: boot clock jumps by %lld ms", worker->number,
        (long long)ms);
    virtual_step_clocks(worker->now->process, 0, ms);
}

static void terminate(struct worker *worker)
{
    virtual_note("worker %u: SIGTERM", worker->number);
    worker_stop(worker);
}

static void reread(struct worker *worker)
{
    virtual_note("worker %u: SIGHUP", worker->number);
    send_signal(worker, signal_reload);
}

void worker_befall(struct worker *worker)
{
    static void (*const PROCESS_FAULTS[])(struct worker *) = {crash, crash,
        crash, stall, stall, stall, stall_shortly, freeze_renewer,
        freeze_renewer, freeze_request_pool, freeze_worker_threads, step_wall,
        step_boot, terminate, reread};

    if (worker_alive(worker))
        SIM_PICK(PROCESS_FAULTS)(worker);
    else
        worker_start(worker);
}

struct worker *worker_new(struct sim *sim, unsigned number)
{
    struct worker *worker = mem_alloc(sizeof(*worker));

    worker->sim = sim;
    worker->number = number;
    worker->ordered = sim_chance(85);
    if (sim->script)
        usual_settings(worker);
    else
        draw_settings(worker);
    worker_start(worker);
    return worker;
}
