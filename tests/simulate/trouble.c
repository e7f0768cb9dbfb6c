/* SPDX-License-Identifier: MIT */
/* Services and machines in trouble: when trouble begins, and what it does to
 * requests. */
#include "tests/simulate/trouble.h"

#include <stdio.h>
#include <string.h>

#include "tests/simulate/book.h"
#include "tests/simulate/sim.h"
#include "tests/simulate/wire.h"
#include "tests/simulate/worker.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define BIT(trouble) (1U << (trouble))
#define DATA_GONE                                                              \
    (BIT(TROUBLE_DATA_REFUSED) | BIT(TROUBLE_DATA_SILENT) | BIT(TROUBLE_DNS))

/* WORLDS: percentage of simulations that can have trouble. SECONDS: percentage
 * of these that can have a second kind of trouble. */
#define WORLDS 40
#define SECONDS 30

/* The longest time for which a name server delays a request. */
#define DNS_MAX_MS 45000

/* The shortest duration of each trouble, and by how much it may be longer. */
static const struct {
    const char *name;
    unsigned least_ms, more_ms;
} TROUBLE[TROUBLES] = {
    [TROUBLE_QUEUES_SILENT] = {"queues silent", 1000, 60000},
    [TROUBLE_QUEUES_BEHIND] = {"queues behind", 0, 0},
    [TROUBLE_QUEUES_AHEAD] = {"queues ahead", 0, 0},
    [TROUBLE_DATA_REFUSED] = {"data refused", 1000, 90000},
    [TROUBLE_DATA_SILENT] = {"data silent", 1000, 90000},
    [TROUBLE_QUEUE_DELETED] = {"queue deleted", 30000, 1},
    [TROUBLE_TABLE_DELETED] = {"table deleted", 30000, 10000},
    [TROUBLE_DNS] = {"DNS hangs", 1000, 40000},
    [TROUBLE_PAUSE] = {"pause", 5000, 200000},
};

static const char *const QUEUES[TROUBLE_QUEUES] = {SIM_QUEUE, SIM_BOUND};

const char *trouble_name(enum trouble trouble)
{
    return TROUBLE[trouble].name;
}

bool trouble_has(const struct troubles *troubles, enum trouble trouble)
{
    return troubles->drawn & BIT(trouble);
}

bool trouble_lasts(const struct troubles *troubles, enum trouble trouble)
{
    return virtual_ms() < troubles->until_ms[trouble];
}

bool trouble_has_data_apart(const struct troubles *troubles)
{
    return troubles->drawn & DATA_GONE;
}

void trouble_knows_table(struct troubles *troubles, const char *table)
{
    if (troubles->table_count < TROUBLE_TABLES)
        troubles->tables[troubles->table_count++] = table;
}

/* ---- when trouble begins ---- */

static void draw_clock(struct troubles *troubles)
{
    static const int64_t SHIFTS_MS[] = {6000, 8000, 40000, 600000};

    if (trouble_has(troubles, TROUBLE_QUEUES_BEHIND))
        troubles->queue_shift_ms = -SIM_PICK(SHIFTS_MS);
    else if (trouble_has(troubles, TROUBLE_QUEUES_AHEAD))
        troubles->queue_shift_ms = SIM_PICK(SHIFTS_MS);
    if (troubles->queue_shift_ms != 0)
        virtual_note("the clock of the queues is %lld ms before the tables'",
            (long long)troubles->queue_shift_ms);
}

void trouble_draw(struct troubles *troubles, struct sim *sim)
{
    troubles->sim = sim;
    for (size_t i = 0; i < TROUBLE_QUEUES; i++)
        (void)snprintf(troubles->queue_names[i],
            sizeof(troubles->queue_names[i]), "%s", QUEUES[i]);
    if (!sim_chance(WORLDS))
        return;
    troubles->drawn = BIT(sim_draw(TROUBLES));
    if (sim_chance(SECONDS))
        troubles->drawn |= BIT(sim_draw(TROUBLES));
    troubles->deleted_says_409 = sim_chance(50);
    draw_clock(troubles);
    troubles->met = troubles->drawn &
                    (BIT(TROUBLE_QUEUES_BEHIND) | BIT(TROUBLE_QUEUES_AHEAD));
}

static void delete_queue(struct troubles *troubles)
{
    unsigned queue = sim_draw(TROUBLE_QUEUES);
    char *name = troubles->queue_names[queue];

    troubles->deleted_ms[queue] =
        virtual_ms() + TROUBLE[TROUBLE_QUEUE_DELETED].least_ms;
    (void)snprintf(name, sizeof(troubles->queue_names[queue]), "%s-%u",
        QUEUES[queue], ++troubles->generation[queue]);
    book_queue_deleted(troubles->sim->book, QUEUES[queue]);
}

static void delete_table(struct troubles *troubles)
{
    size_t drawn = sim_draw((unsigned)troubles->table_count + 1);

    troubles->table =
        drawn < troubles->table_count ? troubles->tables[drawn] : LEDGER_TABLE;
}

/* Pauses a worker that has a lease; a pause of the others changes nothing. */
static bool pause(struct troubles *troubles, int64_t ms)
{
    struct sim *sim = troubles->sim;
    unsigned first = sim_draw(sim->worker_count);

    for (unsigned i = 0; i < sim->worker_count; i++)
        if (worker_pause(sim->workers[(first + i) % sim->worker_count], ms))
            return true;
    return false;
}

bool trouble_comes(struct troubles *troubles)
{
    enum trouble trouble = (enum trouble)sim_draw(TROUBLES);
    int64_t ms;

    while (!trouble_has(troubles, trouble))
        trouble = (trouble + 1) % TROUBLES;
    if (TROUBLE[trouble].more_ms == 0 || trouble_lasts(troubles, trouble))
        return false;
    ms = (int64_t)TROUBLE[trouble].least_ms +
         (int64_t)sim_draw(TROUBLE[trouble].more_ms);
    if (trouble == TROUBLE_PAUSE && !pause(troubles, ms))
        return false;
    if (trouble == TROUBLE_QUEUE_DELETED)
        delete_queue(troubles);
    if (trouble == TROUBLE_TABLE_DELETED)
        delete_table(troubles);
    virtual_note("%s for %lld ms", trouble_name(trouble), (long long)ms);
    troubles->until_ms[trouble] = virtual_ms() + ms;
    troubles->met |= BIT(trouble);
    return true;
}

/* A paused machine continues only when its own pause is over. */
void trouble_ends(struct troubles *troubles)
{
    troubles->besieged = false;
    for (int i = 0; i < TROUBLES; i++)
        if (i != TROUBLE_PAUSE)
            troubles->until_ms[i] = 0;
}

/* ---- what trouble does to requests ---- */

static bool is_of_queues(const struct store_request *request)
{
    return request->call >= CALL_QUEUE_CREATE;
}

enum tw_err trouble_meets(struct troubles *troubles, const struct wire *wire,
    struct exchange *exchange, const struct store_request *request)
{
    if (wire->data && trouble_lasts(troubles, TROUBLE_DATA_REFUSED))
        return err_fail(&exchange->err, TW_BUSY, "connection refused");
    if (!trouble_lasts(troubles, TROUBLE_DNS) ||
        (troubles->besieged ? !wire->data : sim_chance(50)))
        return TW_OK;
    virtual_sleep((int64_t)sim_draw(DNS_MAX_MS) + 1);
    if (!troubles->besieged && sim_chance(50))
        return TW_OK;
    return err_fail(&exchange->err, TW_BUSY, "no address");
}

bool trouble_silences(struct troubles *troubles, const struct wire *wire,
    const struct store_request *request, bool *ret_arrives)
{
    bool silent = (is_of_queues(request) &&
                      trouble_lasts(troubles, TROUBLE_QUEUES_SILENT)) ||
                  (wire->data && trouble_lasts(troubles, TROUBLE_DATA_SILENT));

    *ret_arrives = !silent || sim_chance(50);
    return silent;
}

static enum tw_err says(struct exchange *exchange,
    const struct store_request *request, const char *what)
{
    exchange->sent_ms = platform_boot_ms();
    exchange->date_ticks = platform_wall_ticks();
    exchange->http_status = 409;
    if (request->call == CALL_BATCH)
        request->result->failed = request->batch->count;
    return err_fail(&exchange->err, TW_BUSY, "409 %s", what);
}

static size_t queue_of(const char *name)
{
    size_t at = 0;

    while (at < TROUBLE_QUEUES && strcmp(name, QUEUES[at]) != 0)
        at++;
    return at;
}

bool trouble_takes(struct troubles *troubles, struct exchange *exchange,
    const struct store_request *request, enum tw_err *ret)
{
    const char *name = request->name ? request->name : "";
    size_t queue = is_of_queues(request) ? queue_of(name) : TROUBLE_QUEUES;
    const char *what = NULL;

    if (!is_of_queues(request) &&
        trouble_lasts(troubles, TROUBLE_TABLE_DELETED) &&
        strcmp(name, troubles->table) == 0)
        what = "TableBeingDeleted";
    if (queue < TROUBLE_QUEUES && virtual_ms() < troubles->deleted_ms[queue] &&
        (request->call == CALL_QUEUE_CREATE || troubles->deleted_says_409))
        what = "QueueBeingDeleted";
    if (what)
        *ret = says(exchange, request, what);
    return what == NULL;
}

const char *trouble_queue(const struct troubles *troubles, const char *queue)
{
    size_t at = queue_of(queue);

    return at < TROUBLE_QUEUES && troubles->sim ? troubles->queue_names[at]
                                                : queue;
}

/* Shifts all times in a response of the queue service, as a wrong clock of the
 * service does. */
static void shift_times(const struct troubles *troubles,
    struct exchange *exchange, struct messages *messages)
{
    int64_t shift_ticks = troubles->queue_shift_ms * TICKS_PER_MS;

    if (exchange->date_ticks > 0)
        exchange->date_ticks += shift_ticks;
    for (size_t i = 0; messages && i < messages->count; i++) {
        messages->list[i].inserted_ticks += shift_ticks;
        messages->list[i].next_visible_ticks += shift_ticks;
    }
}

enum tw_err trouble_send(struct troubles *troubles, struct store *service,
    struct exchange *exchange, const struct store_request *request)
{
    struct store_request there = *request;
    enum tw_err outcome;

    if (!is_of_queues(request))
        return request_send(service, exchange, request);
    there.name = trouble_queue(troubles, request->name);
    outcome = request_send(service, exchange, &there);
    shift_times(troubles, exchange, outcome == TW_OK ? there.messages : NULL);
    return outcome;
}

/* The longest time until a deleted queue exists again: 30 s during which it
 * cannot be created, then polls, and other trouble at the same time. */
#define QUEUE_MAX_MS 600000

static bool has_queue(const struct troubles *troubles, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};
    enum tw_err outcome;
    int64_t count;

    virtual_mask();
    outcome = store_queue_count(troubles->sim->service, &exchange,
        trouble_queue(troubles, queue), &count);
    virtual_unmask();
    return outcome == TW_OK;
}

void trouble_await_queues(const struct troubles *troubles)
{
    int64_t until_ms = virtual_ms() + QUEUE_MAX_MS;

    if (!trouble_has(troubles, TROUBLE_QUEUE_DELETED))
        return;
    for (size_t i = 0; i < TROUBLE_QUEUES; i++)
        while (!has_queue(troubles, QUEUES[i]) &&
               !troubles->sim->result->complaint[0]) {
            if (virtual_ms() > until_ms)
                sim_complain(
                    troubles->sim, "queue %s is not made again", QUEUES[i]);
            virtual_sleep(500);
        }
}

void trouble_need_queue(const struct troubles *troubles, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};

    virtual_mask();
    if (trouble_has(troubles, TROUBLE_QUEUE_DELETED) &&
        store_queue_create(troubles->sim->service, &exchange,
            trouble_queue(troubles, queue)) != TW_OK)
        sim_complain(troubles->sim, "no queue: %s", exchange.err.text);
    virtual_unmask();
}

/* ---- the job beside ---- */

#define BESIDE_ENTITIES 30
/* After this time every stall is over. */
#define SIEGE_MS 100000
/*
 * The longest time of the run of the job beside is BESIDE_MAX_MS: polls of
 * 20 s, a lease of 33 s, and the work. If requests take long to fail, two times
 * are added:
 *
 * - TO_KNOW_MS: ten requests and the waits between them, until the breaker is
 *   open;
 * - for each earlier run the time of one failing request (SILENT_MS or
 *   DNS_MAX_MS), because there may be only one slot.
 */
#define BESIDE_MAX_MS 60000
#define TO_KNOW_MS 150000
#define SILENT_MS 7500

static int64_t longest_ms(const struct troubles *troubles, enum trouble gone)
{
    int64_t runs = troubles->sim->result->runs;

    if (gone == TROUBLE_DATA_REFUSED)
        return BESIDE_MAX_MS;
    return BESIDE_MAX_MS + TO_KNOW_MS +
           runs * (gone == TROUBLE_DNS ? DNS_MAX_MS : SILENT_MS);
}

void trouble_begin_beside(struct troubles *troubles)
{
    struct sim *sim = troubles->sim;
    struct entity entity;

    if (!trouble_has_data_apart(troubles))
        return;
    sim_create_table(sim, BESIDE_TABLE);
    for (int i = 0; i < BESIDE_ENTITIES; i++) {
        entity_init(&entity, &sim->arena, slice_of("b"),
            arena_format(&sim->arena, "e%d", i));
        (void)sim_write(sim, BESIDE_TABLE, OPERATION_INSERT, &entity, NULL);
    }
}

void trouble_add_beside_job(const struct troubles *troubles, struct buf *text)
{
    if (trouble_has_data_apart(troubles))
        buf_add_text(text, BESIDE_JOB ":\n"
                                      "    kind: delete\n"
                                      "    store: main\n"
                                      "    table: " BESIDE_TABLE "\n"
                                      "    all: true\n");
}

static bool has_ended(const void *ctx, const struct sim_run *run)
{
    return slice_is(run->now.job, BESIDE_JOB) && run->ended;
}

static void sleep_among_the_living(struct sim *sim, int64_t ms)
{
    int64_t until_ms = virtual_ms() + ms;

    while (virtual_ms() < until_ms) {
        sim_keep_alive(sim);
        virtual_sleep(100);
    }
}

void trouble_besiege(struct troubles *troubles)
{
    struct sim *sim = troubles->sim;
    enum trouble gone = trouble_has(troubles, TROUBLE_DNS) ? TROUBLE_DNS
                        : trouble_has(troubles, TROUBLE_DATA_REFUSED)
                            ? TROUBLE_DATA_REFUSED
                            : TROUBLE_DATA_SILENT;
    int64_t paused_ms = troubles->until_ms[TROUBLE_PAUSE] - virtual_ms();
    int64_t since_ms;

    if (!trouble_has_data_apart(troubles))
        return;
    virtual_note("%s, for good as it seems", trouble_name(gone));
    trouble_ends(troubles);
    troubles->until_ms[gone] = INT64_MAX;
    troubles->besieged = true;
    troubles->met |= BIT(gone);
    sleep_among_the_living(sim, SIEGE_MS + (paused_ms > 0 ? paused_ms : 0));
    sim_control_enqueue_beside(sim, "beside");
    since_ms = virtual_ms();
    while (
        !book_any(sim->book, has_ended, NULL) && !sim->result->complaint[0]) {
        if (virtual_ms() > since_ms + longest_ms(troubles, gone))
            sim_complain(sim, "%s holds up a run that needs nothing of it",
                trouble_name(gone));
        sleep_among_the_living(sim, 100);
    }
    sim->result->beside_ms = virtual_ms() - since_ms;
    if (sim_each(sim, BESIDE_TABLE, NULL, NULL) != 0)
        sim_complain(sim, "the run beside has left something");
}
