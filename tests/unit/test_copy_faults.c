/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever fails, is cut off, arrives late or happens at the same time, a
 * copy loses nothing, and ends as one undisturbed run would.
 *
 * A storm is a table of sources and a job that copies it, in a store that fails
 * at random, with attempts that are stopped or killed anywhere. Meanwhile an
 * application inserts, changes, re-keys, swaps and deletes sources, edits and
 * deletes copies, inserts foreign entities at the keys of copies, and copies
 * entities together with their TablewardSource. The checks use only what the
 * application was told: an entity that was acknowledged is still stored, unless
 * the application deleted or overwrote it, or the job may replace it. After a
 * last, undisturbed run the copies match their sources.
 *
 *   TABLEWARD_SEEDS=5000  number of storms, instead of the default
 *   TABLEWARD_SEED=17     only the storm with this seed
 */
#include "tests/support/storm.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

#define EVERYDAY_SEEDS 40
#define SOURCES 12
#define SIZES 4
#define CELLS_MAX 512
#define ATTEMPTS_MAX 200
#define STORMY_ATTEMPTS 20

/* What the application last wrote at these keys. */
enum cell_kind {
    SOURCE,  /* never changed by the job */
    FOREIGN, /* a foreign entity: the job changes it only with `replace` */
    EDITED,  /* written over a copy, with its TablewardSource */
};

struct keys {
    const char *partition_key, *row_key;
};

struct cell {
    const char *table;
    struct keys at;
    enum cell_kind kind;
    const char *value; /* value of the property V; "": the entity is deleted */
};

enum shape { OTHER_TABLE, INDEX, TWO, SHAPES };
enum conflict { FAIL, SKIP, REPLACE, CONFLICTS };

struct storm {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    uint64_t seed, dice;
    enum shape shape;
    enum conflict conflict;
    const char *destination;
    unsigned faulty_share, writer_share;
    bool clear, quiet;

    /* The following members are guarded by faulty.mutex. */
    struct arena arena; /* of all texts and entities */
    struct cell cells[CELLS_MAX];
    size_t count;
    unsigned values;
    unsigned asked, kill_at;
    bool killed;
    char complaint[1024];
};

#define complain(s, ...)                                                       \
    storm_complain((s)->complaint, sizeof((s)->complaint), __VA_ARGS__)

/* ---- entities ---- */

static bool same_keys(struct keys a, struct keys b)
{
    return strcmp(a.partition_key, b.partition_key) == 0 &&
           strcmp(a.row_key, b.row_key) == 0;
}

static void set_cell(struct storm *s, const char *table, struct keys at,
    enum cell_kind kind, const char *value)
{
    size_t i = 0;

    while (i < s->count && (strcmp(s->cells[i].table, table) != 0 ||
                               !same_keys(s->cells[i].at, at)))
        i++;
    assert_true(i < CELLS_MAX);
    s->count += i == s->count;
    s->cells[i] = (struct cell){table, at, kind, value};
}

static bool get(
    struct storm *s, const char *table, struct keys at, struct entity *ret)
{
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    bool there;

    page_init(&page);
    there = store_get(s->h.store, &exchange, table, slice_of(at.partition_key),
                slice_of(at.row_key), &page) == TW_OK;
    if (there)
        entity_copy(ret, &s->arena, &page.entities[0]);
    page_done(&page);
    return there;
}

static bool send(
    struct storm *s, const char *table, const struct operation *operation)
{
    static struct batch_result result;
    struct exchange exchange = {.deadline = NULL};
    const struct batch batch = {table, operation, 1};

    return store_batch(s->h.store, &exchange, &batch, &result) == TW_OK;
}

/* Returns a property as a text; "": the entity does not have it. */
static const char *text_of(
    struct storm *s, const struct entity *entity, const char *name)
{
    const struct property *property = entity_find(entity, slice_of(name));
    struct slice text;

    return property && property_text(property, &s->arena, &text)
               ? arena_copy(&s->arena, text).at
               : "";
}

static const char *read_text(
    struct storm *s, const char *table, struct keys at, const char *name)
{
    struct entity entity;

    return get(s, table, at, &entity) ? text_of(s, &entity, name) : "";
}

/* Writes an entity at these keys with a new value, and with the properties of
 * `like`; size NULL: with the size of `like`. */
static void write_entity(struct storm *s, const char *table, struct keys at,
    const struct entity *like, const char *size, enum cell_kind kind)
{
    struct operation operation = {.type = OPERATION_INSERT};
    struct slice value = arena_format(&s->arena, "v%u", ++s->values);
    struct entity there;

    entity_init(&operation.entity, &s->arena, slice_of(at.partition_key),
        slice_of(at.row_key));
    for (size_t i = 0; like && i < like->property_count; i++)
        entity_set(&operation.entity, &s->arena, &like->properties[i]);
    entity_set_string(&operation.entity, &s->arena, "V", value);
    if (size)
        entity_set_string(&operation.entity, &s->arena, "Size", slice_of(size));
    if (get(s, table, at, &there)) {
        operation.type = OPERATION_REPLACE;
        operation.entity.etag = there.etag;
    }
    if (send(s, table, &operation))
        set_cell(s, table, at, kind, value.at);
}

static void delete_entity(struct storm *s, const char *table, struct keys at)
{
    struct operation operation = {.type = OPERATION_DELETE};

    if (get(s, table, at, &operation.entity) && send(s, table, &operation))
        set_cell(s, table, at, SOURCE, "");
}

/* ---- keys of sources and copies ---- */

static struct keys source_keys(struct storm *s, unsigned number)
{
    return (struct keys){"p", arena_format(&s->arena, "k%02u", number).at};
}

static struct keys some_source(struct storm *s, uint64_t *dice)
{
    return source_keys(s, storm_roll(dice, SOURCES));
}

static const char *some_size(struct storm *s, uint64_t *dice)
{
    return arena_format(&s->arena, "%u", 1 + storm_roll(dice, SIZES)).at;
}

/* Returns the keys of the copy of a source with this size. */
static struct keys copy_keys(
    struct storm *s, unsigned entry, struct keys source, const char *size)
{
    if (s->shape == INDEX)
        return (struct keys){"p", arena_format(&s->arena, "size:%s", size).at};
    return (struct keys){
        arena_format(&s->arena, "%s%s", entry == 0 ? "s" : "t", size).at,
        s->shape == TWO ? source.row_key : "one"};
}

static unsigned entries_of(const struct storm *s)
{
    return s->shape == TWO ? 2 : 1;
}

/* Returns the keys of the copy of a random source. */
static struct keys some_copy(struct storm *s, uint64_t *dice)
{
    struct keys source = some_source(s, dice);
    const char *size = some_size(s, dice);

    return copy_keys(s, storm_roll(dice, entries_of(s)), source, size);
}

/* ---- the application ---- */

static void write_source(struct storm *s, uint64_t *dice)
{
    struct keys at = some_source(s, dice);

    write_entity(s, "Shoes", at, NULL, some_size(s, dice), SOURCE);
}

static void delete_source(struct storm *s, uint64_t *dice)
{
    delete_entity(s, "Shoes", some_source(s, dice));
}

static void swap_sources(struct storm *s, uint64_t *dice)
{
    struct keys first = some_source(s, dice), second = some_source(s, dice);
    const char *of_first = read_text(s, "Shoes", first, "Size");
    const char *of_second = read_text(s, "Shoes", second, "Size");

    if (!*of_first || !*of_second)
        return;
    write_entity(s, "Shoes", first, NULL, of_second, SOURCE);
    write_entity(s, "Shoes", second, NULL, of_first, SOURCE);
}

static void edit_copy(struct storm *s, uint64_t *dice)
{
    struct keys at = some_copy(s, dice);
    struct entity copy;

    if (get(s, s->destination, at, &copy) &&
        entity_find(&copy, slice_of(SOURCE_PROPERTY)))
        write_entity(s, s->destination, at, &copy, NULL, EDITED);
}

static void delete_copy(struct storm *s, uint64_t *dice)
{
    delete_entity(s, s->destination, some_copy(s, dice));
}

static void put_foreign(struct storm *s, uint64_t *dice)
{
    struct keys at = some_copy(s, dice);
    struct entity there;

    if (!get(s, s->destination, at, &there))
        write_entity(s, s->destination, at, NULL, NULL, FOREIGN);
}

/* Copies a copy, with all its properties, to other keys, as applications do. */
static void copy_on(struct storm *s, uint64_t *dice)
{
    struct keys from = some_copy(s, dice), to = some_copy(s, dice);
    struct entity copy, there;

    if (get(s, s->destination, from, &copy) &&
        !get(s, s->destination, to, &there))
        write_entity(s, s->destination, to, &copy, NULL, FOREIGN);
}

static void application_acts(
    struct storm *s, uint64_t *dice, unsigned per_mille)
{
    static void (*const ACTS[])(struct storm * s, uint64_t * dice) = {
        write_source, write_source, write_source, delete_source, swap_sources,
        edit_copy, delete_copy, put_foreign, copy_on};

    if (!s->quiet && storm_roll(dice, 1000) < per_mille)
        ACTS[storm_roll(dice, sizeof(ACTS) / sizeof(ACTS[0]))](s, dice);
}

/* ---- faults ---- */

static const enum fault SCAN_FAULTS[] = {
    FAULT_BUSY_HINTED, FAULT_SHORT_PAGE, FAULT_EMPTY_PAGE, FAULT_LOSE_ANSWER};
static const enum fault GET_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_REQUEST};
static const enum fault BATCH_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_ANSWER,
    FAULT_LOSE_REQUEST, FAULT_LATE, FAULT_LATE, FAULT_NO_INDEX};

FAULTY_CHOICE(weather)
{
    struct storm *s = ctx;
    uint64_t dice = storm_mix(s->seed ^ storm_mix(n * 3 + (unsigned)call));

    s->asked++;
    if (s->asked == s->kill_at && s->h.deadline) {
        s->killed = true;
        deadline_close(s->h.deadline);
    }
    application_acts(s, &dice, s->writer_share);
    if (s->clear || storm_roll(&dice, 1000) >= s->faulty_share)
        return FAULT_NONE;
    switch (call) {
    case CALL_SCAN:
        return STORM_PICK(&dice, SCAN_FAULTS);
    case CALL_GET:
        return STORM_PICK(&dice, GET_FAULTS);
    case CALL_BATCH:
        return STORM_PICK(&dice, BATCH_FAULTS);
    default:
        return FAULT_NONE;
    }
}

/* ---- a storm ---- */

static char *configuration_of(const struct storm *s)
{
    static const char *const TO[] = {
        [OTHER_TABLE] = "{table: BySize, partition_key: \"s{Size}\", row_key: "
                        "one}",
        [INDEX] = "{table: Shoes, row_key: \"size:{Size}\"}",
        [TWO] = "[{table: BySize, partition_key: \"s{Size}\"}, {table: BySize, "
                "partition_key: \"t{Size}\"}]",
    };
    static const char *const CONFLICT[] = {"fail", "skip", "replace"};

    return mem_format("storm:\n"
                      "  kind: copy\n"
                      "  from: {table: Shoes, row_key_below: \"l\"}\n"
                      "  to: %s\n"
                      "  on_conflict: %s\n",
        TO[s->shape], CONFLICT[s->conflict]);
}

static void storm_init(struct storm *s, uint64_t seed)
{
    static const unsigned SHARES[] = {0, 30, 100, 250};
    char *configuration;

    arena_init(&s->arena);
    s->seed = storm_mix(seed);
    s->dice = s->seed;
    s->shape = (enum shape)storm_roll(&s->dice, SHAPES);
    s->conflict = (enum conflict)storm_roll(&s->dice, CONFLICTS);
    s->destination = s->shape == INDEX ? "Shoes" : "BySize";
    s->faulty_share = SHARES[storm_roll(&s->dice, 4)];
    s->writer_share = SHARES[storm_roll(&s->dice, 4)];
    configuration = configuration_of(s);
    hosted_init(&s->h, configuration);
    mem_free(configuration);
    hosted_table(&s->h, "Shoes");
    hosted_table(&s->h, "BySize");
    faulty_init(&s->faulty, s->h.store);
    s->faulty.outer.store.capabilities.late_writes = true;
    s->faulty.late_ms = storm_roll(&s->dice, 29000);
    s->faulty.page_max =
        storm_roll(&s->dice, 2) == 0 ? 1 + storm_roll(&s->dice, 5) : 0;
    s->faulty.ctx = s;
    for (unsigned i = storm_roll(&s->dice, 20); i > 0; i--)
        write_source(s, &s->dice);
    s->faulty.choose = weather;
    s->stores[0] = &s->faulty.outer.store;
    s->h.stores.stores = s->stores;
    s->h.accept_deletes = storm_roll(&s->dice, 2) == 0;
    s->h.owner = s;
}

static void storm_done(struct storm *s)
{
    faulty_done(&s->faulty);
    hosted_done(&s->h);
    arena_done(&s->arena);
}

static enum run_end attempt(struct storm *s)
{
    unsigned way = s->clear ? 0 : storm_roll(&s->dice, 3);
    enum run_end end;

    platform_lock(&s->faulty.mutex);
    s->kill_at = way == 1 ? s->asked + 1 + storm_roll(&s->dice, 40) : 0;
    s->killed = false;
    platform_unlock(&s->faulty.mutex);
    s->h.stop_after = way == 2 ? (int64_t)storm_roll(&s->dice, 20) : -1;
    end = hosted_attempt(&s->h, "storm", "");
    s->h.previous_owner_crashed = s->killed;
    return s->killed ? RUN_LEASE_LOST : end;
}

static void one_run(struct storm *s, const char *id)
{
    hosted_forget(&s->h, id);
    s->h.previous_owner_crashed = false;
    for (unsigned i = 0;; i++) {
        enum run_end end;

        s->clear = s->quiet || i > STORMY_ATTEMPTS;
        end = attempt(s);
        if (end == RUN_SUCCEEDED || end == RUN_FAILED || s->complaint[0])
            return;
        if (end == RUN_TRY_AGAIN || i > ATTEMPTS_MAX) {
            complain(s, "attempt %u ended %d: %s", i, (int)end, s->h.err.text);
            return;
        }
    }
}

/* ---- the checks ---- */

static bool may_be_replaced(const struct storm *s, const struct cell *cell)
{
    switch (cell->kind) {
    case SOURCE:
        return false;
    case FOREIGN:
        return s->conflict == REPLACE;
    case EDITED:
        return s->conflict == REPLACE || s->shape == INDEX;
    }
    return false;
}

/* Checks that every acknowledged write is still stored. */
static void judge_cells(struct storm *s, const char *when)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct cell *cell = &s->cells[i];
        const char *value = read_text(s, cell->table, cell->at, "V");

        if (cell->value[0] && !may_be_replaced(s, cell) &&
            strcmp(value, cell->value) != 0)
            complain(s, "%s: %s %s/%s was %s (kind %d), now '%s'", when,
                cell->table, cell->at.partition_key, cell->at.row_key,
                cell->value, (int)cell->kind, value);
    }
}

/* Returns the Size of the stored source; "": the source does not exist. */
static const char *size_now(struct storm *s, unsigned number)
{
    return read_text(s, "Shoes", source_keys(s, number), "Size");
}

/* Returns how many sources have a copy at these keys. */
static unsigned claims(struct storm *s, struct keys at)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SOURCES; i++)
        for (unsigned entry = 0; entry < entries_of(s); entry++) {
            const char *size = size_now(s, i);

            count +=
                *size &&
                same_keys(copy_keys(s, entry, source_keys(s, i), size), at);
        }
    return count;
}

static bool is_own(
    struct storm *s, const struct entity *entity, struct source *ret)
{
    const struct source_table here =
        source_table_of(&s->faulty.outer.store, s->destination);

    return source_read(entity, &s->arena, ret) &&
           source_is_at(ret, entity, &here);
}

/* After an undisturbed run: checks that the copy of this source exists. Returns
 * whether the run had to fail because of the source. */
static bool judge_copy(struct storm *s, unsigned number, unsigned entry)
{
    struct keys from = source_keys(s, number), to;
    const char *size = size_now(s, number);
    const char *wanted = read_text(s, "Shoes", from, "V");
    struct entity copy;
    struct source is;
    bool fails = false;

    if (!*size)
        return false;
    to = copy_keys(s, entry, from, size);
    if (!get(s, s->destination, to, &copy))
        complain(s, "the copy of %s is missing at %s/%s", from.row_key,
            to.partition_key, to.row_key);
    else if (!is_own(s, &copy, &is))
        fails = s->conflict != SKIP; /* a foreign entity */
    else if (!slice_is(is.row_key, from.row_key) || is.entry != entry)
        /* It collides with another copy, or it is the edited copy of another
         * source. */
        fails = claims(s, to) > 1 || s->conflict != SKIP;
    else if (source_is_intact(&is, &copy) &&
             strcmp(text_of(s, &copy, "V"), wanted) != 0)
        complain(s, "the copy of %s at %s/%s is %s, and not %s", from.row_key,
            to.partition_key, to.row_key, text_of(s, &copy, "V"), wanted);
    if (fails && s->h.end != RUN_FAILED)
        complain(s, "%s %s/%s is in the way of %s, and the run ended %d: %s %s",
            s->destination, to.partition_key, to.row_key, from.row_key,
            (int)s->h.end,
            hosted_json(&s->h, s->destination, to.partition_key, to.row_key),
            hosted_json(&s->h, "Shoes", "p", from.row_key));
    return fails;
}

/* Checks that each intact copy has its source. */
static void judge_orphans(struct storm *s)
{
    struct scan_request request = {.table = s->destination};
    struct exchange exchange = {.deadline = NULL};
    struct page page;

    page_init(&page);
    assert_ok(store_scan(s->h.store, &exchange, &request, &page));
    for (size_t i = 0; i < page.count; i++) {
        const struct entity *entity = &page.entities[i];
        struct keys at = {arena_copy(&s->arena, entity->partition_key).at,
            arena_copy(&s->arena, entity->row_key).at};
        struct source is;

        if (is_own(s, entity, &is) &&
            (source_is_intact(&is, entity) || s->shape == INDEX) &&
            claims(s, at) == 0)
            complain(s, "%s %s/%s is a copy without a source", s->destination,
                at.partition_key, at.row_key);
    }
    page_done(&page);
}

static void judge_end(struct storm *s)
{
    bool fails = false;

    judge_cells(s, "after the last run");
    for (unsigned i = 0; i < SOURCES; i++)
        for (unsigned entry = 0; entry < entries_of(s); entry++)
            fails |= judge_copy(s, i, entry);
    judge_orphans(s);
    if (fails != (s->h.end == RUN_FAILED))
        complain(s, "the last run ended %d: %s; %s", (int)s->h.end,
            s->h.err.text, s->h.failed_why);
}

static void one_storm(uint64_t seed, bool alone)
{
    struct storm *s = mem_alloc(sizeof(*s));

    storm_init(s, seed);
    for (unsigned i = 0; i < 2 && !s->complaint[0]; i++) {
        one_run(s, i == 0 ? "r1" : "r2");
        judge_cells(s, "after a run");
    }
    faulty_land(&s->faulty, INT64_MAX);
    s->quiet = true;
    s->h.accept_deletes = true;
    if (!s->complaint[0])
        one_run(s, "r3");
    if (!s->complaint[0])
        judge_end(s);
    if (s->complaint[0])
        fail_msg("TABLEWARD_SEED=%llu (shape %d, conflict %d): %s",
            (unsigned long long)seed, (int)s->shape, (int)s->conflict,
            s->complaint);
    storm_done(s);
    mem_free(s);
}

TEST(a_copy_loses_nothing_in_any_weather)
{
    storm_each_seed(one_storm, EVERYDAY_SEEDS);
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
