/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever is lost, arrives late or twice, crashes or is written at the
 * same time, a move loses no value, doubles no value without reporting it, and
 * brings back no value that a client has deleted.
 *
 * A storm is a few moves, one after another, some of them given up in the
 * middle, over a store that fails at random. Meanwhile an application writes,
 * deletes and uses keys again, and others write at the destination. The checks
 * use only what clients were told. Every entity holds a number. Each number
 * must be stored as often as clients have stored it and not overwritten or
 * deleted it; if it is stored more often, a report must name the entity.
 *
 *   TABLEWARD_SEEDS=5000  that many storms instead of the everyday number
 *   TABLEWARD_SEED=17     only that storm, with every request
 */
#include "tests/support/storm.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faulty.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

#define EVERYDAY_SEEDS 150
#define VALUES_MAX 8192
#define ROWS 4
/* After so many attempts no request fails, so that the storm ends. */
#define STORMY_ATTEMPTS 12
#define ATTEMPTS_MAX 40
#define MANY 1150 /* more sources than a load holds */

/* Properties of an entity follow from its number, so that equal numbers are
 * equal entities. */
#define KEY_COUNT 3

static const char *const TABLES[] = {"Aaa", "Bbb", "Ccc"};
#define TABLE_COUNT 3

#define AB "kind: move, from: {table: Aaa}, to: {table: Bbb"
static const char JOBS[] =
    "ab: {" AB "}}\n"
    "ab-skip: {on_conflict: skip, " AB "}}\n"
    "ab-accept: {on_conflict: accept_equal, " AB "}}\n"
    "ab-key: {" AB ", row_key: \"{K}\"}}\n"
    "ab-some: {kind: move, from: {table: Aaa, filter: \"K ne 'k0'\"}, "
    "to: {table: Bbb, partition_key: \"{PartitionKey}\"}}\n"
    "bc: {kind: move, from: {table: Bbb}, to: {table: Ccc}}\n"
    "ba: {kind: move, from: {table: Bbb}, to: {table: Aaa}}\n"
    "rotate: {kind: move, from: {table: Aaa, partition_key: p}, "
    "to: {table: Aaa, partition_key: o}}\n";

static const char *const JOB_NAMES[] = {
    "ab", "ab", "ab-skip", "ab-key", "ab-some", "bc", "ba", "rotate"};
#define JOB_COUNT (sizeof(JOB_NAMES) / sizeof(JOB_NAMES[0]))

struct storm {
    struct hosted h;
    struct faulty faulty;
    struct store *inner;
    uint64_t seed, dice;
    bool trace;

    /* Faults and writes of others, in thousandths of all requests. */
    unsigned faulty_share, writer_share;
    bool foreign; /* other programs insert at the destination */
    bool accept;  /* on_conflict is accept_equal: no other program writes */
    bool large;   /* several loads: checked at the end only */
    bool clear;

    unsigned asked;
    unsigned kill_at; /* the deadline is over at this request; 0: never */
    bool killed;
    bool unknown; /* a write had an unknown outcome, or a worker was killed */

    int live[VALUES_MAX];   /* entities that are stored, as clients were told */
    int is[VALUES_MAX];     /* entities that exist */
    bool named[VALUES_MAX]; /* a report named an entity that held it */
    int deleted[VALUES_MAX];  /* entities that clients deleted, or that were
                                 replaced by one that was deleted */
    int replaced[VALUES_MAX]; /* the value that this one replaced; 0: none */
    int values;
    struct arena arena; /* of keys, and of entities that clients write */
    struct buf reports; /* of this attempt */
    char complaint[2048];
};

static unsigned roll(struct storm *s, unsigned below)
{
    return storm_roll(&s->dice, below);
}

#define trace(s, ...) ((s)->trace ? print_message(__VA_ARGS__) : (void)0)

#define complain(s, ...)                                                       \
    storm_complain((s)->complaint, sizeof((s)->complaint), __VA_ARGS__)

/* ---- what is stored ---- */

static int value_of(const struct entity *entity)
{
    const struct property *property = entity_find(entity, slice_of("V"));
    int32_t value = 0;

    assert_true(property && property_int32(property, &value));
    return value;
}

/* Calls each() with every entity of every table. */
static void read_tables(
    struct storm *s, void (*each)(struct storm *s, const char *table,
                         const struct entity *entity))
{
    struct page page;

    page_init(&page);
    for (int i = 0; i < TABLE_COUNT; i++) {
        struct scan_request request = {.table = TABLES[i]};
        struct exchange exchange = {.deadline = NULL};

        do {
            assert_ok(store_scan(s->inner, &exchange, &request, &page));
            for (size_t j = 0; j < page.count; j++)
                each(s, TABLES[i], &page.entities[j]);
            request.from = page.next;
        } while (page.next.more);
    }
    page_done(&page);
}

static void count_value(
    struct storm *s, const char *table, const struct entity *entity)
{
    s->is[value_of(entity)]++;
}

/* Checks that no value is lost. With accept_equal a source and an equal entity
 * become one. */
static void judge_losses(struct storm *s, const char *when)
{
    memset(s->is, 0, sizeof(s->is));
    read_tables(s, count_value);
    for (int i = 1; i < s->values; i++)
        if (s->is[i] < (s->accept && s->live[i] > 0 ? 1 : s->live[i]))
            complain(s, "%s: %d is lost: %d of %d are left", when, i, s->is[i],
                s->live[i]);
}

static bool is_named(
    struct storm *s, const char *table, const struct entity *entity)
{
    struct buf keys;
    bool named;

    buf_init(&keys, 4096);
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    buf_add_format(&keys, " in %s", table);
    named = strstr(buf_text(&s->reports), buf_text(&keys)) != NULL;
    buf_done(&keys);
    return named;
}

static void mark_named(
    struct storm *s, const char *table, const struct entity *entity)
{
    if (is_named(s, table, entity))
        s->named[value_of(entity)] = true;
}

/* A later run may move an entity that was reported. */
static void keep_named(struct storm *s)
{
    if (s->reports.len > 0)
        read_tables(s, mark_named);
    buf_clear(&s->reports);
}

/* Call when no request is on its way. A delete by a client may be undone if it
 * concerned a load in progress when a worker was killed, or a source whose
 * delete by the move had an unknown outcome: such a source counts as moved if
 * it is absent (rules M5 and M6). */
static void judge_doubles(struct storm *s)
{
    judge_losses(s, "at the end");
    for (int i = 1; i < s->values; i++)
        if (s->is[i] > s->live[i] + (s->unknown ? s->deleted[i] : 0) &&
            !s->named[i])
            complain(s, "%d is there %d times, not %d, and none is named", i,
                s->is[i], s->live[i]);
}

/* ---- writers ---- */

static bool apply(struct storm *s, const char *table, enum operation_type type,
    const struct entity *entity)
{
    struct operation operation = {type, *entity};
    struct batch batch = {table, &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;

    return store_batch(s->inner, &exchange, &batch, &result) == TW_OK;
}

struct keys {
    const char *partition_key, *row_key;
};

static struct entity make_entity(struct storm *s, struct keys at, int value)
{
    struct entity entity;

    entity_init(
        &entity, &s->arena, slice_of(at.partition_key), slice_of(at.row_key));
    entity_set_int32(&entity, &s->arena, "V", value);
    entity_set_string(&entity, &s->arena, "K",
        arena_format(&s->arena, "k%d", value % KEY_COUNT));
    return entity;
}

static int new_value(struct storm *s)
{
    assert_true(s->values < VALUES_MAX);
    return s->values++;
}

static void insert(
    struct storm *s, const char *table, struct keys at, int value)
{
    struct entity entity = make_entity(s, at, value);

    if (!apply(s, table, OPERATION_INSERT, &entity))
        return;
    s->live[value]++;
    trace(s, "    app inserts %s %s/%s %d\n", table, at.partition_key,
        at.row_key, value);
}

static bool read_one(
    struct storm *s, const char *table, struct keys at, struct entity *ret)
{
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    bool there;

    page_init(&page);
    there = store_get(s->inner, &exchange, table, slice_of(at.partition_key),
                slice_of(at.row_key), &page) == TW_OK;
    if (there)
        entity_copy(ret, &s->arena, &page.entities[0]);
    page_done(&page);
    return there;
}

/* Replaces or deletes the stored entity. */
static void change(
    struct storm *s, const char *table, struct keys at, bool deletes)
{
    struct entity is, entity;
    int was, value;

    if (!read_one(s, table, at, &is))
        return;
    was = value_of(&is);
    value = deletes ? was : new_value(s);
    entity = make_entity(s, at, value);
    entity.etag = is.etag;
    if (!apply(
            s, table, deletes ? OPERATION_DELETE : OPERATION_REPLACE, &entity))
        return;
    s->live[was]--;
    s->live[value] += !deletes;
    s->replaced[value] = deletes ? s->replaced[value] : was;
    for (int v = was; deletes && v > 0; v = s->replaced[v])
        s->deleted[v]++;
    trace(s, "    app %s %s %s/%s %d -> %d\n", deletes ? "deletes" : "replaces",
        table, at.partition_key, at.row_key, was, value);
}

static const char *row_key(struct storm *s, char kind, unsigned number)
{
    return arena_format(&s->arena, "%c%u", kind, number).at;
}

static struct keys pick_keys(struct storm *s)
{
    static const char *const PARTITIONS[] = {"p", "q", "o"};
    const char *partition_key = PARTITIONS[roll(s, 3)];
    char kind = roll(s, 3) == 0 ? 'k' : 'r';

    return (struct keys){partition_key, row_key(s, kind, roll(s, ROWS))};
}

/* May an entity still be moved to or from this partition? Then writers do not
 * write there (jobs/GUIDE.md). */
static bool has_sources(struct storm *s, const char *partition_key)
{
    struct entity entity;

    for (unsigned i = 0; i < 2 * ROWS; i++) {
        struct keys at = {partition_key, row_key(s, "rk"[i % 2], i / 2)};

        if (read_one(s, "Aaa", at, &entity) ||
            read_one(s, "Aaa", (struct keys){"p", at.row_key}, &entity))
            return true;
    }
    return false;
}

static void write_something(struct storm *s)
{
    const char *table = TABLES[roll(s, 5) == 0 ? 1 : 0];
    struct keys at = pick_keys(s);

    switch (roll(s, 6)) {
    case 0:
    case 1:
        insert(s, "Aaa", at, new_value(s));
        break;
    case 2:
        if (s->foreign)
            insert(s, TABLES[1 + roll(s, 2)], at, new_value(s));
        break;
    case 3:
        change(s, "Aaa", at, false);
        break;
    case 4:
        change(s, "Aaa", at, true);
        break;
    case 5:
        if (!has_sources(s, at.partition_key))
            change(s, table, at, roll(s, 2) == 0);
        break;
    }
}

/* ---- faults ---- */

static const enum fault SCAN_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_BUSY,
    FAULT_SHORT_PAGE, FAULT_EMPTY_PAGE, FAULT_LOSE_ANSWER};
static const enum fault GET_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_REQUEST};
static const enum fault BATCH_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_ANSWER,
    FAULT_LOSE_ANSWER, FAULT_LOSE_REQUEST, FAULT_LATE, FAULT_LATE,
    FAULT_NO_INDEX, FAULT_TWICE_UNSEEN};

static enum fault pick_fault(struct storm *s, enum store_call call)
{
    if (s->clear || roll(s, 1000) >= s->faulty_share)
        return FAULT_NONE;
    switch (call) {
    case CALL_SCAN:
        return STORM_PICK(&s->dice, SCAN_FAULTS);
    case CALL_GET:
        return STORM_PICK(&s->dice, GET_FAULTS);
    case CALL_BATCH:
        return STORM_PICK(&s->dice, BATCH_FAULTS);
    default:
        return FAULT_NONE;
    }
}

FAULTY_CHOICE(weather)
{
    struct storm *s = ctx;
    enum fault fault;

    s->asked++;
    if (s->asked == s->kill_at && s->h.deadline) {
        s->killed = s->unknown = true;
        deadline_close(s->h.deadline);
    }
    if (!s->accept && roll(s, 1000) < s->writer_share)
        write_something(s);
    if (!s->large)
        judge_losses(s, "during a run");
    fault = pick_fault(s, call);
    s->unknown |= call == CALL_BATCH &&
                  (fault == FAULT_LOSE_ANSWER || fault == FAULT_LOSE_REQUEST ||
                      fault == FAULT_LATE);
    trace(s, "  %u %d %s%s\n", s->asked, (int)call, faulty_name(fault),
        s->killed ? " (killed)" : "");
    return fault;
}

/* ---- the ledger ---- */

static void keep_report(struct hosted *h, const struct run_failure *failure)
{
    struct storm *s = h->owner;

    entity_add_keys(&s->reports, failure->partition_key, failure->row_key);
    buf_add_format(&s->reports, " in %s: %s\n", failure->table, failure->why);
    trace(s, "    named: %s %.*s/%.*s: %s\n", failure->table,
        SLICE_ARG(failure->partition_key), SLICE_ARG(failure->row_key),
        failure->why);
}

static void print_batch(void *context, const struct batch *batch)
{
    static const char *const TYPES[] = {"insert", "replace", "merge", "delete"};

    for (size_t i = 0; i < batch->count && i < 20; i++)
        print_message("    %s %s %.*s/%.*s\n", TYPES[batch->operations[i].type],
            batch->table, SLICE_ARG(batch->operations[i].entity.partition_key),
            SLICE_ARG(batch->operations[i].entity.row_key));
}

/* ---- a storm ---- */

static void fill(struct storm *s)
{
    unsigned count = s->large ? MANY : 2 + roll(s, 2 * ROWS);

    s->values = 1;
    for (unsigned i = 0; i < count; i++) {
        int value = new_value(s);
        struct keys at = pick_keys(s);

        if (s->large)
            at.row_key = arena_format(&s->arena, "n%05u", i).at;
        if (!s->large && i > 0 && roll(s, 4) == 0)
            value = 1 + (int)roll(s, (unsigned)s->values - 1); /* equal */
        insert(s, TABLES[roll(s, 10) == 0], at, value);
    }
}

static void storm_init(struct storm *s, uint64_t seed)
{
    static const unsigned SHARES[] = {0, 20, 100, 250};

    s->seed = storm_mix(seed);
    s->dice = s->seed;
    s->faulty_share = SHARES[roll(s, 4)];
    s->writer_share = SHARES[roll(s, 4)];
    s->foreign = roll(s, 2) == 0;
    s->accept = roll(s, 8) == 0;
    s->large = roll(s, 16) == 0;
    arena_init(&s->arena);
    buf_init(&s->reports, 64 * 1024 * 1024);
    hosted_init(&s->h, JOBS);
    for (int i = 0; i < TABLE_COUNT; i++)
        hosted_table(&s->h, TABLES[i]);
    s->inner = s->h.store;
    fill(s);
    faulty_init(&s->faulty, s->inner);
    s->h.store = &s->faulty.outer.store;
    s->h.store->capabilities.late_writes = true;
    s->faulty.late_ms = roll(s, 28000);
    s->faulty.page_max = roll(s, 3) == 0 && !s->large ? 1 + roll(s, 3) : 0;
    s->faulty.ctx = s;
    s->faulty.choose = weather;
    if (s->trace)
        s->faulty.before = print_batch;
    s->h.owner = s;
    s->h.failing = keep_report;
}

static void storm_done(struct storm *s)
{
    faulty_done(&s->faulty);
    hosted_done(&s->h);
    buf_done(&s->reports);
    arena_done(&s->arena);
}

static void print_entity(
    struct storm *s, const char *table, const struct entity *entity)
{
    print_message("    %s %.*s/%.*s %d\n", table,
        SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key),
        value_of(entity));
}

/* After a kill the ledger has one of the earlier checkpoints. */
static enum run_end attempt(struct storm *s, const char *job)
{
    unsigned way = s->clear ? 0 : roll(s, 4);
    char *before = s->h.checkpoint ? mem_format("%s", s->h.checkpoint) : NULL;
    enum run_end end;

    s->kill_at =
        way == 1 || way == 3 ? s->asked + 1 + roll(s, way == 1 ? 12 : 60) : 0;
    s->killed = false;
    s->h.stop_after = way == 2 ? (int64_t)roll(s, 6) : -1;
    trace(s, "%s, attempt %d\n", job, (int)s->h.epoch + 1);
    end = hosted_attempt(&s->h, job, NULL);
    trace(s, "  ended %d: %s\n", (int)end, s->h.err.text);
    if (s->trace)
        read_tables(s, print_entity);
    keep_named(s);
    s->h.previous_owner_crashed = s->killed;
    if (s->killed) {
        if (roll(s, 2) == 0) {
            mem_free(s->h.checkpoint);
            s->h.checkpoint = before;
            before = NULL;
        }
        end = RUN_LEASE_LOST;
    }
    mem_free(before);
    virtual_sleep(8000 + (int64_t)roll(s, 60000));
    return end;
}

static bool is_over(enum run_end end)
{
    return end == RUN_SUCCEEDED || end == RUN_FAILED;
}

/* Makes attempts until the run ends or is given up. */
static void run_job(struct storm *s, const char *job, const char *id, bool last)
{
    enum run_end end = RUN_STOPPED;
    unsigned attempts = 0;

    hosted_forget(&s->h, id);
    s->clear = false;
    while (!is_over(end) && !s->complaint[0]) {
        s->clear = attempts > STORMY_ATTEMPTS || (last && attempts > 3);
        end = attempt(s, job);
        if (attempts++ > ATTEMPTS_MAX) {
            complain(s, "%s does not end: %d %s", job, (int)end, s->h.err.text);
            return;
        }
        if (!last && !is_over(end) && roll(s, 4) == 0)
            return; /* cancelled: its intents stay */
    }
}

static void run_jobs(struct storm *s)
{
    unsigned count = 1 + roll(s, 3);

    virtual_sleep(10000); /* the first entities are older than any intent */
    for (unsigned i = 0; i < count && !s->complaint[0]; i++) {
        char id[16];

        snprintf(id, sizeof(id), "r%u", i);
        run_job(s, s->accept ? "ab-accept" : JOB_NAMES[roll(s, JOB_COUNT)], id,
            false);
    }
    /* The last two jobs finish what the others have left. */
    if (!s->complaint[0])
        run_job(s, s->accept ? "ab-accept" : "ab", "last1", true);
    if (!s->complaint[0] && !s->accept)
        run_job(s, "bc", "last2", true);
}

static void judge(struct storm *s)
{
    struct scan_request request = {.table = "TablewardRuns",
        .partition_key = key_range_exact(slice_of("!intents"))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;

    faulty_land(&s->faulty, INT64_MAX);
    judge_doubles(s);
    page_init(&page);
    if (store_scan(s->inner, &exchange, &request, &page) == TW_OK &&
        page.count > 0)
        complain(s, "an intent is left");
    page_done(&page);
}

static void weather_one(uint64_t seed, bool trace)
{
    struct storm *s = mem_alloc(sizeof(*s));
    char complaint[2048];

    virtual_platform_use(&(struct virtual_options){.seed = seed,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    s->trace = trace;
    storm_init(s, seed);
    run_jobs(s);
    if (!s->complaint[0])
        judge(s);
    snprintf(complaint, sizeof(complaint), "%s", s->complaint);
    storm_done(s);
    mem_free(s);
    virtual_platform_end();
    if (complaint[0])
        fail_msg(
            "TABLEWARD_SEED=%llu: %s", (unsigned long long)seed, complaint);
}

TEST(a_move_weathers_every_storm)
{
    log_set(LOG_ERROR, LOG_TEXT);
    storm_each_seed(weather_one, EVERYDAY_SEEDS);
}
