/* SPDX-License-Identifier: MIT */
/* The store that kills: see killer.h. */
#include "tests/sweep/killer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "tests/sweep/person.h"
#include "worker/base/platform.h"

static const char *const POINTS[KILL_POINTS] = {
    [KILL_BEFORE_SEND] = "before-send",
    [KILL_AFTER_COMMIT] = "after-commit",
    [KILL_AFTER_ANSWER] = "after-answer",
};

const char *kill_point_name(enum kill_point point)
{
    return POINTS[point];
}

bool kill_point_named(const char *name, enum kill_point *ret)
{
    for (int i = 0; i < KILL_POINTS; i++) {
        if (strcmp(name, POINTS[i]) == 0) {
            *ret = (enum kill_point)i;
            return true;
        }
    }
    return false;
}

static struct killer *killer_of(struct store *store)
{
    return (struct killer *)store;
}

static struct store *inner_of(struct store *store)
{
    return killer_of(store)->inner;
}

void killer_note_end(struct killer *killer)
{
    virtual_mask();
    killer->words->boot_ms = platform_boot_ms();
    killer->words->wall_ticks = platform_wall_ticks();
    virtual_unmask();
}

static void die(struct killer *killer)
{
    killer_note_end(killer);
    (void)kill(getpid(), SIGKILL);
    abort();
}

/* A request, or its answer, is on its way. */
static void travel(struct killer *killer)
{
    virtual_sleep((int64_t)virtual_random((uint64_t)killer->way_max_ms));
}

static void die_soon(void *arg)
{
    travel(arg);
    die(arg);
}

/* A request sets out: which one it is. */
static unsigned set_out(struct store *store)
{
    struct killer *killer = killer_of(store);
    unsigned number = ++killer->words->requests;

    if (number == killer->signal_at)
        virtual_start(0, "person", killer->signal, killer->signal_context);
    travel(killer);
    if (number == killer->plan.request &&
        killer->plan.point == KILL_BEFORE_SEND)
        die(killer);
    return number;
}

static enum tw_err come_back(
    struct store *store, unsigned number, enum tw_err outcome)
{
    struct killer *killer = killer_of(store);

    if (number == killer->plan.request &&
        killer->plan.point == KILL_AFTER_COMMIT)
        die(killer);
    travel(killer);
    if (number == killer->plan.request)
        virtual_start(0, "reaper", die_soon, killer);
    return outcome;
}

/*
 * A request that may change a table of the job sets out: see person.h. The
 * ledger and what is beside it may be written at any time.
 */
static void check_may_write(struct store *store, const char *table)
{
    struct killer *killer = killer_of(store);
    struct last_words *words = killer->words;
    int64_t late_ms = virtual_ms() - words->asked_ms - killer->effect_ms;

    if (words->asked_ms == 0 || words->resumed || late_ms <= 0 ||
        strncmp(table, "Tableward", strlen("Tableward")) == 0)
        return;
    (void)snprintf(words->why, sizeof(words->why),
        "%s is written %lld ms after the run was asked to stop", table,
        (long long)(late_ms + killer->effect_ms));
    killer_note_end(killer);
    _exit(1);
}

#define PASS(store, request)                                                   \
    do {                                                                       \
        unsigned number = set_out(store);                                      \
                                                                               \
        return come_back(store, number, request);                              \
    } while (0)

static enum tw_err create_table(
    struct store *store, struct exchange *exchange, const char *table)
{
    check_may_write(store, table);
    PASS(store, store_create_table(inner_of(store), exchange, table));
}

static enum tw_err list_tables(struct store *store, struct exchange *exchange,
    struct continuation from, struct page *ret)
{
    PASS(store, store_list_tables(inner_of(store), exchange, from, ret));
}

static enum tw_err scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    PASS(store, store_scan(inner_of(store), exchange, request, ret));
}

static enum tw_err get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    PASS(store, store_get(inner_of(store), exchange, table, partition_key,
                    row_key, ret));
}

static enum tw_err batch(struct store *store, struct exchange *exchange,
    const struct batch *operations, struct batch_result *ret)
{
    check_may_write(store, operations->table);
    PASS(store, store_batch(inner_of(store), exchange, operations, ret));
}

static enum tw_err queue_create(
    struct store *store, struct exchange *exchange, const char *queue)
{
    PASS(store, store_queue_create(inner_of(store), exchange, queue));
}

static enum tw_err queue_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    PASS(store,
        store_queue_put(inner_of(store), exchange, queue, text, hide_s, ret));
}

static enum tw_err queue_get(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    PASS(store, store_queue_get(inner_of(store), exchange, queue, count,
                    visibility_timeout_s, ret));
}

static enum tw_err queue_renew(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    PASS(store, store_queue_renew(
                    inner_of(store), exchange, queue, id, pop_receipt, hide_s));
}

static enum tw_err queue_delete(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    PASS(store,
        store_queue_delete(inner_of(store), exchange, queue, id, pop_receipt));
}

static enum tw_err queue_peek(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, struct messages *ret)
{
    PASS(store, store_queue_peek(inner_of(store), exchange, queue, count, ret));
}

static enum tw_err queue_count(struct store *store, struct exchange *exchange,
    const char *queue, int64_t *ret)
{
    PASS(store, store_queue_count(inner_of(store), exchange, queue, ret));
}

static const struct store_ops OPS = {
    .create_table = create_table,
    .list_tables = list_tables,
    .scan = scan,
    .get = get,
    .batch = batch,
    .queue_create = queue_create,
    .queue_put = queue_put,
    .queue_get = queue_get,
    .queue_renew = queue_renew,
    .queue_delete = queue_delete,
    .queue_peek = queue_peek,
    .queue_count = queue_count,
};

void killer_init(struct killer *killer, struct store *inner, int64_t way_max_ms,
    struct kill_plan plan, struct last_words *words)
{
    *killer = (struct killer){.store = *inner,
        .inner = inner,
        .way_max_ms = way_max_ms,
        .plan = plan,
        .words = words};
    killer->store.ops = &OPS;
    words->requests = 0;
}
