/* SPDX-License-Identifier: MIT */
/*
 * What errors cost: a worker deletes channels with blogs and comments, once
 * without faults, once while three requests in ten fail, and once while the
 * service cannot be reached for ten minutes in the middle.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simulate/sim.h"
#include "worker/base/mem.h"
#include "worker/store/breaker.h"

#define CHANNELS 4
#define BLOGS 200
#define COMMENTS 10 /* number of comments under each blog */
#define SEEDS 24

/* ---- a kind without a model ---- */

struct load {
    struct sim *sim;
    struct arena arena;
};

static void put(struct load *load, const char *table, const char *partition_key,
    const char *row_key)
{
    struct entity entity;

    entity_init(
        &entity, &load->arena, slice_of(partition_key), slice_of(row_key));
    (void)sim_write(load->sim, table, OPERATION_INSERT, &entity, NULL);
}

static void fill(struct load *load, const char *channel)
{
    char blog[64], comment[32];

    put(load, "Channels", channel, "");
    for (int i = 0; i < BLOGS; i++) {
        (void)snprintf(blog, sizeof(blog), "%s-b%03d", channel, i);
        put(load, "Blogs", channel, blog);
        for (int n = 0; n < COMMENTS; n++) {
            (void)snprintf(comment, sizeof(comment), "c%03d", n);
            put(load, "Comments", blog, comment);
        }
    }
}

static void channel_name(char *to, size_t room, int number)
{
    (void)snprintf(to, room, "channel%d", number);
}

static const char *const TABLES[] = {"Channels", "Blogs", "Comments"};
#define TABLE_COUNT (sizeof(TABLES) / sizeof(TABLES[0]))

static void *load_begin(struct sim *sim)
{
    struct load *load = mem_alloc(sizeof(*load));
    char name[32];

    sim->state = load;
    load->sim = sim;
    arena_init(&load->arena);
    for (size_t i = 0; i < TABLE_COUNT; i++)
        sim_create_table(sim, TABLES[i]);
    for (int i = 0; i < CHANNELS; i++) {
        channel_name(name, sizeof(name), i);
        fill(load, name);
    }
    return load;
}

static char *load_job(void *state, unsigned n)
{
    return mem_format(SIM_JOB ":\n"
                              "    kind: cascade-delete\n"
                              "    args: [" SIM_ARGUMENT "]\n"
                              "    parent: {table: Channels, partition_key: "
                              "\"{what}\", row_key: \"\", tombstone: "
                              "{Deleted: true}}\n"
                              "    settle: 5s\n"
                              "    children:\n"
                              "      - table: Blogs\n"
                              "        partition_key: \"{what}\"\n"
                              "        children:\n"
                              "          - {table: Comments, "
                              "partition_key: \"{RowKey}\"}\n");
}

static void load_front_ends(void *state)
{
    struct load *load = state;
    char name[32];

    for (int i = 0; i < CHANNELS; i++) {
        channel_name(name, sizeof(name), i);
        sim_enqueue(load->sim, name, "", false, 0);
    }
}

static void load_ended(void *state, const struct sim_run *run)
{
    struct load *load = state;

    if (run->now.state != LEDGER_SUCCEEDED)
        sim_complain(load->sim, "%s has ended %s", run->key,
            ledger_state_name(run->now.state));
}

static void load_end(void *state)
{
    struct load *load = state;

    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (sim_each(load->sim, TABLES[i], NULL, NULL) != 0)
            sim_complain(load->sim, "%s is not empty", TABLES[i]);
    arena_done(&load->arena);
    mem_free(load);
}

static const struct sim_kind LOAD = {
    .name = "load",
    .begin = load_begin,
    .job = load_job,
    .front_ends = load_front_ends,
    .run_ended = load_ended,
    .end = load_end,
};

/* ---- three requests in ten fail ---- */

/* The mix of an overloaded service: most of the failed requests are answered
 * 503. The other failed requests are not sent, or end with an error, or are
 * carried out although their response is lost. The worker notices a lost
 * response within a second. */
static const struct faulty_share THREE_IN_TEN[] = {
    {FAULT_BUSY, 160, CALL_ALL},
    {FAULT_BUSY_HINTED, 40, CALL_ALL},
    {FAULT_UNSENT, 30, CALL_ALL},
    {FAULT_ERROR, 20, CALL_ALL},
    {FAULT_LOSE_ANSWER, 50, CALL_ALL},
};
#define THE_MIX                                                                \
    "16 busy, 4 busy for 1 s, 3 not sent, 2 error 500, 5 done but no answer"

static bool play(
    uint64_t seed, const struct sim_script *script, struct sim_result *ret)
{
    const struct sim_options options = {
        .seed = seed, .kind = &LOAD, .script = script};

    sim_play(&options, ret);
    if (ret->complaint[0])
        printf(
            "seed %llu failed: %s\n", (unsigned long long)seed, ret->complaint);
    return !ret->complaint[0];
}

static bool measure_errors(void)
{
    const struct sim_script calm = {.shares = NULL};
    const struct sim_script stormy = {.shares = THREE_IN_TEN,
        .share_count = sizeof(THREE_IN_TEN) / sizeof(THREE_IN_TEN[0])};
    double clean = 0, errors = 0, ratio, calm_s = 0, stormy_s = 0;
    struct sim_result result;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (!play(seed, &calm, &result))
            return false;
        clean += result.worker_requests;
        calm_s += (double)result.done_ms / 1000;
        if (!play(seed, &stormy, &result))
            return false;
        errors += result.worker_requests;
        stormy_s += (double)result.done_ms / 1000;
    }
    ratio = errors / clean;
    printf("errors: 30 %% of the requests fail (" THE_MIX
           "): %.0f requests (polls apart) in %.0f s, without them %.0f in "
           "%.0f s: ratio "
           "%.2f (below 1.5)\n",
        errors / SEEDS, stormy_s / SEEDS, clean / SEEDS, calm_s / SEEDS, ratio);
    return ratio < 1.5;
}

/* ---- the service cannot be reached for ten minutes ---- */

#define OUTAGE_AFTER_MS 300
#define OUTAGE_MS 600000
#define A_SECOND_MS 1000

/* The number of requests after which the breaker must be open. It opens after
 * BREAKER_FAILURES failures in a row, and a response to a request that was sent
 * before the outage restarts this count. */
#define TO_KNOW (3 * BREAKER_FAILURES)

/* The probes of an open breaker, one a second. If a probe is delayed before it
 * is sent, the next probe follows it after less than a second. */
struct probes {
    unsigned count;
    int64_t due_ms;   /* when the next probe may be sent */
    int64_t early_ms; /* the longest time by which a probe was early */
};

static void count_probe(void *ctx, int64_t at_ms, bool queue)
{
    struct probes *probes = (struct probes *)ctx + queue;

    if (++probes->count <= TO_KNOW || at_ms > probes->due_ms)
        probes->due_ms = at_ms;
    if (probes->due_ms - at_ms > probes->early_ms)
        probes->early_ms = probes->due_ms - at_ms;
    probes->due_ms += A_SECOND_MS;
}

static bool measure_outage(void)
{
    struct sim_result result;
    unsigned total = 0;
    int64_t early_ms = 0;
    double late_s = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct probes probes[STORE_SERVICES] = {{0}};
        const struct sim_script script = {.outage_after_ms = OUTAGE_AFTER_MS,
            .outage_ms = OUTAGE_MS,
            .unreached = count_probe,
            .ctx = probes};

        if (!play(seed, &script, &result))
            return false;
        if (probes[SERVICE_TABLES].count + probes[SERVICE_QUEUES].count <=
            2 * TO_KNOW) {
            printf("outage: nobody was asked whether it is over\n");
            return false;
        }
        for (size_t i = 0; i < STORE_SERVICES; i++) {
            if (probes[i].early_ms > early_ms)
                early_ms = probes[i].early_ms;
            total += probes[i].count;
        }
        late_s += (double)(result.done_ms - OUTAGE_AFTER_MS - OUTAGE_MS) / 1000;
    }
    printf("outage: nobody is there for 600 s: %u requests; after the first "
           "%d of a service at most 1 in a second, none earlier than that by "
           "more than %lld "
           "ms (below %d); all is done %.0f s after it\n",
        total / SEEDS, TO_KNOW, (long long)early_ms, A_SECOND_MS,
        late_s / SEEDS);
    return early_ms < A_SECOND_MS;
}

int sim_measure(void)
{
    bool good = measure_errors();

    return measure_outage() && good ? 0 : 1;
}
