/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever fails, is cut off, comes late or happens at the same time, a
 * cascade ends as one undisturbed run would: what was under the parent before
 * the last settle pass is deleted, the parent last of all, and nothing else is
 * touched.
 *
 * A storm is a random tree in a store that fails at random, under a front end
 * that writes between the run's requests, with attempts that are stopped or
 * killed anywhere. What the tables must hold is kept in a plain list.
 *
 *   TABLEWARD_SEEDS=5000  that many storms instead of the everyday number
 *   TABLEWARD_SEED=17     only that storm
 */
#include "tests/support/storm.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cascade_key.h"
#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/request_pool.h"

#define EVERYDAY_SEEDS 100
#define THINGS_MAX 4096
#define ABSENT (INT64_MIN / 2) /* value of free_ms while there is no parent */
#define ATTEMPTS_MAX 300
#define STORMY_ATTEMPTS 25 /* in later attempts no request fails */

/* ---- shapes: what a tree looks like ---- */

#define KINDS_MAX 5

/* Entities that one rule finds. In the templates of keys: %c the channel, %a
 * the RowKey of the entity above, %n a number. */
struct kind_of_thing {
    const char *table;
    int above; /* index of the kind above; -1: the parent */
    const char *partition_key, *row_key;
    const char *link; /* property that the rule's filter reads, or NULL */
    bool to_channel;  /* the value of link is the channel; false: the RowKey of
                         the entity above */
    unsigned most;    /* maximum number under one entity */
};

struct shape {
    const char *parent_table, *parent_row_key;
    const char *children; /* YAML, below `children:` */
    struct kind_of_thing kinds[KINDS_MAX];
};

static const struct shape SHAPES[] = {
    {"Channels", "", "      - {table: Blogs, partition_key: \"{channel}\"}\n",
        {{"Blogs", -1, "%c", "b%n", NULL, false, 250}}},
    {"Channels", "",
        "      - table: Blogs\n"
        "        partition_key: \"{channel}\"\n"
        "        children:\n"
        "          - {table: Comments, partition_key: \"{PartitionKey}\", "
        "row_key_prefix: \"{RowKey}_\", filter: \"Blog eq '{RowKey}'\"}\n"
        "      - {table: ByMonth, partition_key_prefix: \"{channel}_\", "
        "filter: \"Channel eq '{channel}'\"}\n",
        {{"Blogs", -1, "%c", "b%n", NULL, false, 12},
            {"Comments", 0, "%c", "%a_%n", "Blog", false, 6},
            {"ByMonth", -1, "%c_%n", "x", "Channel", true, 20}}},
    {"Channels", "",
        "      - table: Blogs\n"
        "        partition_key: \"{channel}\"\n"
        "        children:\n"
        "          - table: Comments\n"
        "            partition_key: \"{PartitionKey}\"\n"
        "            filter: \"Blog eq '{RowKey}'\"\n"
        "            children:\n"
        "              - {table: Likes, partition_key: \"{RowKey}\"}\n"
        "              - {table: Flags, filter: \"Comment eq '{RowKey}'\"}\n"
        "          - {table: Likes, partition_key: \"{RowKey}\"}\n",
        {{"Blogs", -1, "%c", "%cb%n", NULL, false, 6},
            {"Comments", 0, "%c", "%a_%n", "Blog", false, 4},
            {"Likes", 1, "%a", "l%n", NULL, false, 4},
            {"Flags", 1, "p%n", "%a_%n", "Comment", false, 2},
            {"Likes", 0, "%a", "l%n", NULL, false, 3}}},
    {"Things", "",
        "      - table: Things\n"
        "        partition_key: \"{channel}\"\n"
        "        row_key_prefix: \"b\"\n"
        "        children:\n"
        "          - {table: Things, partition_key: \"{PartitionKey}\", "
        "row_key_prefix: \"c{RowKey}_\"}\n",
        {{"Things", -1, "%c", "b%n", NULL, false, 10},
            {"Things", 0, "%c", "c%a_%n", NULL, false, 8}}},
    {"Things", "", /* the parent and its children are in one table */
        "      - {table: Things, partition_key: \"{channel}\"}\n",
        {{"Things", -1, "%c", "b%n", NULL, false, 30}}},
    {"Nodes", "root", /* as above, with three levels in one table */
        "      - table: Nodes\n"
        "        filter: \"Parent eq '{channel}'\"\n"
        "        children:\n"
        "          - table: Nodes\n"
        "            row_key_prefix: \"{RowKey}.\"\n"
        "            filter: \"Parent eq '{RowKey}'\"\n"
        "            children:\n"
        "              - {table: Nodes, row_key_prefix: \"{RowKey}.\", "
        "filter: \"Parent eq '{RowKey}'\"}\n",
        {{"Nodes", -1, "n", "%c.%n", "Parent", true, 6},
            {"Nodes", 0, "n", "%a.%n", "Parent", false, 4},
            {"Nodes", 1, "m%n", "%a.%n", "Parent", false, 4}}},
    {"Channels", "",
        "      - {table: Subscriptions, filter: \"Channel eq '{channel}'\"}\n",
        {{"Subscriptions", -1, "user%n", "s%n", "Channel", true, 120}}},
};

#define SHAPES_COUNT (sizeof(SHAPES) / sizeof(SHAPES[0]))

static const char *const TABLES[] = {"Channels", "Blogs", "Comments", "Likes",
    "Flags", "ByMonth", "Things", "Nodes", "Subscriptions"};

#define TABLES_COUNT (sizeof(TABLES) / sizeof(TABLES[0]))

/* ---- the model ---- */

enum fate {
    STAYS, /* the thing must exist, byte for byte as it was written last */
    GOES,  /* the thing must be deleted: it was under the parent before the last
              settle pass began */
    EITHER, /* both are right: the thing was written while the last settle pass
               began */
};

struct thing {
    const char *table;
    struct slice partition_key, row_key;
    int kind;  /* -1: a parent */
    int above; /* index of the thing that this one is under, or -1 */
    enum fate fate;
    struct slice line; /* the entity as it was written last */
    struct slice etag;
};

struct storm {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    uint64_t seed;
    uint64_t dice; /* used by the run's thread only */
    const struct shape *shape;
    bool archives, clear, late_inserts;
    int64_t settle_ms;

    /* Shares of all requests, in thousandths: those that fail, and those after
     * which the front end acts. */
    unsigned faulty_share, front_end_share;

    /* Guarded by faulty.mutex: */
    struct arena arena;
    struct thing things[THINGS_MAX];
    int count;
    unsigned numbers; /* numbers that are used in keys so far */
    int64_t free_ms;  /* when the parent was last seen without tombstone */
    bool held;        /* the parent has been seen with a tombstone */
    bool newer; /* the parent is newer than the request: the run must not delete
         anything */
    unsigned asked;   /* calls of choose() so far */
    unsigned kill_at; /* call of choose() that closes the deadline; 0: none */
    bool killed;      /* the deadline closed */
    char complaint[1024]; /* the first mistake that was found */

    /* Used by the run's thread only: */
    struct storm_saves saves;
};

#define complain(s, ...)                                                       \
    storm_complain((s)->complaint, sizeof((s)->complaint), __VA_ARGS__)

/* ---- the front end ---- */

static bool look_at(
    struct storm *s, const struct thing *thing, struct page *page)
{
    struct exchange exchange = {.deadline = NULL};

    return store_get(s->h.store, &exchange, thing->table, thing->partition_key,
               thing->row_key, page) == TW_OK;
}

static bool is_there(struct storm *s, const struct thing *thing)
{
    struct page page;
    bool there;

    page_init(&page);
    there = look_at(s, thing, &page);
    page_done(&page);
    return there;
}

static struct slice line_of(struct storm *s, const struct entity *entity)
{
    struct buf text;
    struct slice line;

    buf_init(&text, 1024 * 1024);
    entity_write(entity, &text);
    line = arena_copy(&s->arena, buf_slice(&text));
    buf_done(&text);
    return line;
}

static bool write_thing(struct storm *s, struct thing *thing,
    enum operation_type type, const struct entity *entity)
{
    struct operation operation = {type, *entity};
    struct batch batch = {thing->table, &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    static struct batch_result result;

    if (store_batch(s->h.store, &exchange, &batch, &result) != TW_OK)
        return false;
    thing->line = line_of(s, entity);
    thing->etag = arena_copy(&s->arena, slice_of(result.etags[0]));
    return true;
}

static const char *channel_of(const struct storm *s, int above)
{
    while (s->things[above].above >= 0)
        above = s->things[above].above;
    return s->things[above].partition_key.at;
}

/* Add an entity of kind under the thing at index above. -1: the key is used
 * already. */
static int add_child(struct storm *s, int kind, int above, enum fate fate)
{
    const struct kind_of_thing *what = &s->shape->kinds[kind];
    const char *channel = channel_of(s, above);
    struct slice row_key_above = s->things[above].row_key;
    unsigned number = ++s->numbers;
    struct thing *thing = &s->things[s->count];
    struct entity entity;

    assert_true(s->count < THINGS_MAX);
    *thing = (struct thing){.table = what->table,
        .kind = kind,
        .above = above,
        .fate = fate,
        .partition_key = cascade_key(
            &s->arena, what->partition_key, channel, row_key_above, number),
        .row_key = cascade_key(
            &s->arena, what->row_key, channel, row_key_above, number)};
    entity_init(&entity, &s->arena, thing->partition_key, thing->row_key);
    if (what->link)
        entity_set_string(&entity, &s->arena, what->link,
            what->to_channel ? slice_of(channel) : row_key_above);
    entity_set_int32(&entity, &s->arena, "N", (int32_t)number);
    return write_thing(s, thing, OPERATION_INSERT, &entity) ? s->count++ : -1;
}

static int add_parent(
    struct storm *s, const char *channel, enum fate fate, int64_t created)
{
    struct thing *thing = &s->things[s->count];
    struct entity entity;

    *thing = (struct thing){.table = s->shape->parent_table,
        .kind = -1,
        .above = -1,
        .fate = fate,
        .partition_key = arena_copy(&s->arena, slice_of(channel)),
        .row_key = slice_of(s->shape->parent_row_key)};
    entity_init(&entity, &s->arena, thing->partition_key, thing->row_key);
    entity_set_datetime(&entity, &s->arena, "CreatedOn", created);
    entity_set_string(&entity, &s->arena, "Parent", slice_of(channel));
    return write_thing(s, thing, OPERATION_INSERT, &entity) ? s->count++ : -1;
}

static void add_tree(struct storm *s, int above, uint64_t *dice, unsigned size)
{
    int kind_above = s->things[above].kind;

    for (int kind = 0; kind < KINDS_MAX && s->shape->kinds[kind].table;
         kind++) {
        unsigned most = s->shape->kinds[kind].most * size / 4;
        unsigned number;

        if (s->shape->kinds[kind].above != kind_above)
            continue;
        number = storm_roll(dice, most + 1);
        for (unsigned i = 0; i < number; i++)
            add_tree(s, add_child(s, kind, above, s->things[above].fate), dice,
                size);
    }
}

/* Does the parent of the run (thing 0) carry a tombstone? */
static bool is_held(struct storm *s, bool *ret_there)
{
    struct page page;
    bool held;

    page_init(&page);
    *ret_there = look_at(s, &s->things[0], &page);
    held = *ret_there &&
           entity_find(&page.entities[0], slice_of("TablewardRun")) != NULL;
    page_done(&page);
    return held;
}

/* May a writer that keeps the rules of jobs/GUIDE.md store a child now? A
 * writer that saw the parent without a tombstone may store the child as long
 * after that as `settle` allows. */
static bool may_add(const struct storm *s)
{
    return !s->newer && (!s->held || platform_boot_ms() - s->free_ms <
                                         s->settle_ms * 6 / 10);
}

/* One of the kinds that are under the kind `above`, chosen at random; -1: there
 * is none. */
static int kind_below(const struct storm *s, int above, uint64_t *dice)
{
    int found = -1;

    for (int kind = 0; kind < KINDS_MAX && s->shape->kinds[kind].table; kind++)
        if (s->shape->kinds[kind].above == above &&
            (found < 0 || storm_roll(dice, 2) == 0))
            found = kind;
    return found;
}

static void adds_child(struct storm *s, uint64_t *dice)
{
    int above = storm_roll(dice, 3) == 0
                    ? 0
                    : (int)storm_roll(dice, (unsigned)s->count);
    int kind = kind_below(s, s->things[above].kind, dice);
    int child;

    if (s->things[above].fate != GOES || kind < 0 ||
        s->count + 1 >= THINGS_MAX || !may_add(s) ||
        (above > 0 && !is_there(s, &s->things[above])))
        return;
    child = add_child(s, kind, above, GOES);
    if (child >= 0 && s->held &&
        platform_boot_ms() - s->free_ms > s->settle_ms * 9 / 10)
        s->things[child].fate = EITHER;
}

/* Set the fate of everything that is under the thing at index. */
static void give_fate_below(struct storm *s, int index, enum fate fate)
{
    for (int i = index + 1; i < s->count; i++)
        if (s->things[i].above == index && s->things[i].fate == GOES) {
            s->things[i].fate = fate;
            give_fate_below(s, i, fate);
        }
}

/* Write an entity again: as it is, or with another link, so that no rule finds
 * it any more. */
static void changes_one(struct storm *s, uint64_t *dice)
{
    int index = (int)storm_roll(dice, (unsigned)s->count);
    struct thing *thing = &s->things[index];
    bool away = storm_roll(dice, 3) == 0;
    const char *link =
        thing->kind >= 0 ? s->shape->kinds[thing->kind].link : NULL;
    struct entity entity;
    struct page page;

    if (thing->fate != GOES || s->newer)
        return;
    page_init(&page);
    if (look_at(s, thing, &page)) {
        entity_copy(&entity, &s->arena, &page.entities[0]);
        entity_set_int32(
            &entity, &s->arena, "Touched", (int32_t)storm_roll(dice, 1000));
        if (away && link)
            entity_set_string(&entity, &s->arena, link, slice_of("elsewhere"));
        if (write_thing(s, thing, OPERATION_REPLACE, &entity) && away && link) {
            thing->fate = STAYS;
            give_fate_below(s, index, EITHER);
        }
    }
    page_done(&page);
}

/* Insert a parent with the keys of the run's parent, if these are free. */
static void makes_parent(struct storm *s, uint64_t *dice)
{
    bool newer = storm_roll(dice, 2) == 0;
    const char *channel = s->things[0].partition_key.at;
    int64_t created = s->h.requested_ticks + (newer ? 10 : -10) * TICKS_PER_S;
    int parent = add_parent(s, channel, GOES, created);

    if (parent < 0)
        return;
    if (s->h.phase) { /* in the last phase this is a new parent, whatever its
                         time of creation */
        s->things[parent].fate = STAYS;
        s->things[0].fate = EITHER; /* the same keys: only the new thing is
                                       compared with the table */
        add_tree(s, parent, dice, 1);
        return;
    }
    if (s->held)
        complain(s, "there was no parent while the run held it");
    s->things[0] = s->things[parent];
    s->count--;
    if (!newer)
        return;
    s->newer = true;
    for (int i = 0; i < s->count; i++)
        s->things[i].fate = STAYS;
}

static void look_for_tombstone(struct storm *s)
{
    int64_t now_ms = platform_boot_ms();
    bool there;

    if (s->held)
        return;
    s->held = is_held(s, &there);
    if (!s->held)
        s->free_ms = now_ms;
    if (!there) /* writers add no children if there is no parent */
        s->free_ms = ABSENT;
}

static void front_end_acts(struct storm *s, uint64_t *dice, unsigned share)
{
    look_for_tombstone(s);
    if (storm_roll(dice, 1000) >= share)
        return;
    switch (storm_roll(dice, 5)) {
    case 0:
    case 1:
    case 4:
        if (s->free_ms != ABSENT)
            adds_child(s, dice);
        break;
    case 2:
        changes_one(s, dice);
        break;
    case 3:
        makes_parent(s, dice);
        break;
    }
}

/* ---- the weather ---- */

static const enum fault SCAN_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_BUSY_HINTED,
    FAULT_SHORT_PAGE, FAULT_EMPTY_PAGE, FAULT_LOSE_ANSWER, FAULT_BUSY};
static const enum fault GET_FAULTS[] = {
    FAULT_BUSY_HINTED, FAULT_BUSY_HINTED, FAULT_LOSE_REQUEST};
static const enum fault BATCH_FAULTS[] = {FAULT_BUSY_HINTED, FAULT_LOSE_ANSWER,
    FAULT_LOSE_ANSWER, FAULT_LOSE_REQUEST, FAULT_LATE, FAULT_NO_INDEX};

/* Is the request an insert? The only insert of a run is the tombstone of an
 * absent parent. */
static bool is_insert(const struct storm *s, enum store_call call)
{
    return call == CALL_BATCH && !s->held && s->free_ms == ABSENT;
}

FAULTY_CHOICE(weather)
{
    struct storm *s = ctx;
    uint64_t dice = storm_mix(s->seed ^ storm_mix(n * 3 + (unsigned)call));

    s->asked++;
    if (s->asked == s->kill_at) {
        s->killed = true;
        deadline_close(s->h.deadline);
    }
    front_end_acts(s, &dice, s->front_end_share);
    if (!s->clear && s->late_inserts && is_insert(s, call) &&
        storm_roll(&dice, 2) == 0)
        return FAULT_LATE;
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

static int find_thing(
    const struct storm *s, const char *table, const struct entity *entity)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (strcmp(s->things[i].table, table) == 0 &&
            slice_equal(s->things[i].partition_key, entity->partition_key) &&
            slice_equal(s->things[i].row_key, entity->row_key))
            return i;
    return -1;
}

/* At each level, an entity may be deleted only after everything under it. */
static void judge_delete(
    struct storm *s, const char *table, const struct entity *entity)
{
    int index = find_thing(s, table, entity);

    if (index < 0 || (s->things[index].kind >= 0 &&
                         !slice_equal(s->things[index].etag, entity->etag)))
        return;
    for (int i = 0; i < s->count; i++)
        if (s->things[i].above == index && s->things[i].fate == GOES &&
            is_there(s, &s->things[i]))
            complain(s, "%s %.*s/%.*s is deleted before %s %.*s/%.*s under it",
                table, SLICE_ARG(entity->partition_key),
                SLICE_ARG(entity->row_key), s->things[i].table,
                SLICE_ARG(s->things[i].partition_key),
                SLICE_ARG(s->things[i].row_key));
}

static void judge_batch(void *context, const struct batch *batch)
{
    struct storm *s = context;

    platform_lock(&s->faulty.mutex);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->operations[i].type == OPERATION_DELETE)
            judge_delete(s, batch->table, &batch->operations[i].entity);
    platform_unlock(&s->faulty.mutex);
}

/* ---- the ledger ---- */

static void keep_save(struct hosted *h)
{
    struct storm *s = h->owner;

    storm_save(&s->saves, h);
}

static enum tw_err store_phase(struct hosted *h, bool *ret_stored)
{
    struct storm *s = h->owner;
    enum tw_err outcome = TW_OK;

    platform_lock(&s->faulty.mutex);
    *ret_stored = true;
    if (!s->clear && storm_roll(&s->dice, 4) == 0) {
        outcome = TW_BUSY;
        *ret_stored = storm_roll(&s->dice, 2) == 0;
    }
    platform_unlock(&s->faulty.mutex);
    return outcome;
}

/* ---- a storm ---- */

static char *configuration_of(struct storm *s)
{
    static const char *const SETTLES[] = {
        "0s", "1s", "5s", "[50ms, 200ms]", "[1s, 5s]"};
    static const int64_t LAST_MS[] = {0, 1000, 5000, 200, 5000};
    unsigned settle = storm_roll(&s->dice, 5);

    s->settle_ms = LAST_MS[settle];
    s->archives = storm_roll(&s->dice, 3) == 0;
    return mem_format("storm:\n"
                      "    kind: cascade-delete\n"
                      "    args: [channel]\n"
                      "    parent: {table: %s, partition_key: \"{channel}\", "
                      "row_key: \"%s\", tombstone: {Deleted: true}, created: "
                      "CreatedOn}\n"
                      "    settle: %s\n%s%s"
                      "    children:\n%s",
        s->shape->parent_table, s->shape->parent_row_key, SETTLES[settle],
        s->archives ? "    archive: kept\n" : "",
        storm_roll(&s->dice, 4) == 0 ? "    refuse_above: 100000\n" : "",
        s->shape->children);
}

static void fill(struct storm *s)
{
    static const char *const OTHERS[] = {"New", "News2", "news"};
    static const unsigned SIZES[] = {0, 1, 4, 4};
    int64_t before = s->h.requested_ticks - TICKS_PER_S;
    uint64_t dice = s->dice;
    bool orphans = storm_roll(&dice, 5) == 0;
    int parent = add_parent(s, "News", GOES, before);

    add_tree(s, parent, &dice, SIZES[storm_roll(&dice, 4)]);
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
        add_tree(s, add_parent(s, OTHERS[i], STAYS, before), &dice, 1);
    if (orphans)
        hosted_remove(
            &s->h, s->shape->parent_table, "News", s->shape->parent_row_key);
}

static void storm_init(struct storm *s, uint64_t seed)
{
    static const unsigned SHARES[] = {0, 30, 100, 250};
    char *configuration;

    s->seed = storm_mix(seed);
    s->dice = s->seed;
    s->shape = &SHAPES[storm_roll(&s->dice, SHAPES_COUNT)];
    s->faulty_share = SHARES[storm_roll(&s->dice, 4)];
    s->front_end_share = SHARES[storm_roll(&s->dice, 4)];
    arena_init(&s->arena);
    configuration = configuration_of(s);
    hosted_init(&s->h, configuration);
    mem_free(configuration);
    for (size_t i = 0; i < TABLES_COUNT; i++)
        hosted_table(&s->h, TABLES[i]);
    faulty_init(&s->faulty, s->h.store);
    s->faulty.outer.store.capabilities.ordered = storm_roll(&s->dice, 5) > 0;
    s->faulty.outer.store.capabilities.late_writes = true;
    s->faulty.late_ms = storm_roll(&s->dice, 29000);
    s->late_inserts = storm_roll(&s->dice, 2) == 0;
    s->faulty.page_max =
        storm_roll(&s->dice, 2) == 0 ? 1 + storm_roll(&s->dice, 7) : 0;
    s->faulty.ctx = s;
    fill(s);
    s->free_ms = platform_boot_ms();
    s->faulty.choose = weather;
    s->faulty.before = judge_batch;
    s->stores[0] = &s->faulty.outer.store;
    s->h.stores.stores = s->stores;
    s->h.owner = s;
    s->h.saved = keep_save;
    s->h.phasing = store_phase;
}

static void storm_done(struct storm *s)
{
    faulty_done(&s->faulty);
    hosted_done(&s->h);
    arena_done(&s->arena);
    storm_saves_done(&s->saves);
}

/* Make one attempt, which is stopped or killed at a random request, or not
 * disturbed. */
static enum run_end attempt(struct storm *s)
{
    unsigned way = s->clear ? 0 : storm_roll(&s->dice, 3);
    enum run_end end;

    platform_lock(&s->faulty.mutex);
    s->kill_at =
        way == 1 ? s->asked + 1 +
                       storm_roll(&s->dice, storm_roll(&s->dice, 2) ? 4 : 30)
                 : 0;
    s->killed = false;
    platform_unlock(&s->faulty.mutex);
    s->h.stop_after = way == 2 ? (int64_t)storm_roll(
                                     &s->dice, storm_roll(&s->dice, 2) ? 2 : 20)
                               : -1;
    end = hosted_attempt(&s->h, "storm", "News");
    s->h.previous_owner_crashed = s->killed;
    if (!s->killed || (end == RUN_SUCCEEDED && storm_roll(&s->dice, 2) == 0))
        return end;
    storm_forget_some(
        &s->saves, &s->h, &s->dice); /* even if the attempt has succeeded, the
                                        ledger does not have that */
    return RUN_LEASE_LOST;
}

/* Let the front end act, and late requests arrive, until then. */
static void pass_time(struct storm *s, int64_t until_ms)
{
    do {
        platform_lock(&s->faulty.mutex);
        front_end_acts(s, &s->dice, s->front_end_share > 0 ? 700 : 0);
        platform_unlock(&s->faulty.mutex);
        faulty_land(&s->faulty, platform_boot_ms());
        usleep(500);
    } while (platform_boot_ms() < until_ms);
}

static void wait_between(struct storm *s, enum run_end end)
{
    int64_t wait_ms = 0;

    if (end == RUN_WAITING)
        wait_ms =
            (s->h.resumes_ticks - platform_wall_ticks()) / TICKS_PER_MS + 1;
    else if (storm_roll(&s->dice, 3) == 0)
        wait_ms = storm_roll(&s->dice, (unsigned)s->settle_ms * 3 / 2 + 1);
    pass_time(s, platform_boot_ms() + wait_ms);
}

/* Let the slowest writers that keep the rules write now, after the run has made
 * its last pass. */
static void wait_for_writers(struct storm *s)
{
    while (s->held && s->free_ms != ABSENT && may_add(s))
        pass_time(s, 0);
}

static void run_to_the_end(struct storm *s)
{
    unsigned attempts = 0;
    enum run_end end;

    for (;;) {
        s->clear = attempts > STORMY_ATTEMPTS;
        end = attempt(s);
        if (end == RUN_SUCCEEDED || s->complaint[0])
            break;
        if (end == RUN_FAILED || end == RUN_TRY_AGAIN) {
            complain(s, "the run ended %d: %s; %s", (int)end, s->h.err.text,
                s->h.failed_why);
            return;
        }
        if (attempts++ > ATTEMPTS_MAX) {
            complain(s, "the run does not end");
            return;
        }
        wait_between(s, end);
    }
    wait_for_writers(s);
}

/* ---- the judgement ---- */

static void judge_stored(
    struct storm *s, const char *table, const struct entity *entity)
{
    int index = find_thing(s, table, entity);
    const struct thing *thing = &s->things[index];

    if (index < 0)
        complain(s, "%s %.*s/%.*s was never written by anybody", table,
            SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
    else if (thing->fate == GOES)
        complain(s, "%s %.*s/%.*s is still there", table,
            SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
    else if (!slice_equal(thing->etag, entity->etag) ||
             !slice_equal(thing->line, line_of(s, entity)))
        complain(s, "%s %.*s/%.*s was touched", table,
            SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key));
}

static void judge_table(struct storm *s, const char *table)
{
    struct scan_request request = {.table = table};
    struct exchange exchange = {.deadline = NULL};
    struct page page;

    page_init(&page);
    do {
        assert_ok(store_scan(s->h.store, &exchange, &request, &page));
        for (size_t i = 0; i < page.count; i++)
            judge_stored(s, table, &page.entities[i]);
        request.from = page.next;
    } while (page.next.more);
    page_done(&page);
}

/* The lines of the archive, of all epochs. Owned. */
static char *read_archive(struct storm *s)
{
    char *command =
        mem_format("cat %s/kept/storm/r1/*.jsonl 2>/dev/null", s->h.folder);
    FILE *pipe = popen(command, "r");
    struct buf text;
    char chunk[4096];
    size_t len;

    assert_non_null(pipe);
    buf_init(&text, 64 * 1024 * 1024);
    while ((len = fread(chunk, 1, sizeof(chunk), pipe)) > 0)
        buf_add(&text, chunk, len);
    pclose(pipe);
    mem_free(command);
    return buf_take(&text);
}

/* Every deleted entity must be in the archive as it was written last. */
static void judge_archive(struct storm *s)
{
    char *lines = s->archives ? read_archive(s) : NULL;

    for (int i = 1; i < s->count && lines; i++) {
        const struct thing *thing = &s->things[i];
        char *line;

        if (thing->fate != GOES)
            continue;
        line = mem_format("%.*s\n", SLICE_ARG(thing->line));
        if (!strstr(lines, line))
            complain(s, "the archive lacks %s", line);
        mem_free(line);
    }
    mem_free(lines);
}

static void judge(struct storm *s)
{
    faulty_land(&s->faulty, INT64_MAX);
    for (size_t i = 0; i < TABLES_COUNT; i++)
        judge_table(s, TABLES[i]);
    for (int i = 0; i < s->count; i++)
        if (s->things[i].fate == STAYS && !is_there(s, &s->things[i]))
            complain(s, "%s %.*s/%.*s is gone", s->things[i].table,
                SLICE_ARG(s->things[i].partition_key),
                SLICE_ARG(s->things[i].row_key));
    judge_archive(s);
}

static void weather_one(uint64_t seed, bool alone)
{
    struct storm *s = mem_alloc(sizeof(*s));
    char complaint[1024];

    storm_init(s, seed);
    run_to_the_end(s);
    if (!s->complaint[0])
        judge(s);
    snprintf(complaint, sizeof(complaint), "%s", s->complaint);
    if (complaint[0])
        print_message("shape %d, settle %d ms, faults %u, front end %u, "
                      "epoch %d, %s, newer %d, phase %s\n",
            (int)(s->shape - SHAPES), (int)s->settle_ms, s->faulty_share,
            s->front_end_share, (int)s->h.epoch,
            s->archives ? "archive" : "no archive", s->newer,
            s->h.phase ? s->h.phase : "");
    storm_done(s);
    mem_free(s);
    if (complaint[0])
        fail_msg(
            "TABLEWARD_SEED=%llu: %s", (unsigned long long)seed, complaint);
}

TEST(cascade_weathers_every_storm)
{
    storm_each_seed(weather_one, EVERYDAY_SEEDS);
}

/* ---- what went wrong once ---- */

#define ORPHANS                                                                \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"\", tombstone: {Deleted: true}}\n"

/* A run with a store that fails as the test chooses. */
struct trial {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    unsigned requests;
    enum fault first_batch; /* what happens to the first batch */
    bool kills;             /* the attempt is killed with the first batch */
    bool empty_pages; /* every page is empty and has a continuation token */
    unsigned scan_us; /* duration of scans before the first batch */
};

FAULTY_CHOICE(trial_weather)
{
    struct trial *t = ctx;

    if (call == CALL_SCAN && t->faulty.calls[CALL_BATCH] == 0 && t->scan_us > 0)
        usleep(t->scan_us);
    if (call == CALL_SCAN && t->empty_pages)
        return FAULT_EMPTY_PAGE;
    if (call != CALL_BATCH || n > 0)
        return FAULT_NONE;
    if (t->kills)
        deadline_close(t->h.deadline);
    return t->first_batch;
}

static void trial_init(struct trial *t, const char *configuration)
{
    memset(t, 0, sizeof(*t));
    hosted_init(&t->h, configuration);
    for (size_t i = 0; i < TABLES_COUNT; i++)
        hosted_table(&t->h, TABLES[i]);
    faulty_init(&t->faulty, t->h.store);
    t->faulty.outer.store.capabilities.late_writes = true;
    t->faulty.late_ms = 29000;
    t->faulty.choose = trial_weather;
    t->faulty.ctx = t;
    t->stores[0] = &t->faulty.outer.store;
    t->h.stores.stores = t->stores;
}

static void trial_done(struct trial *t)
{
    faulty_done(&t->faulty);
    hosted_done(&t->h);
}

static const char FLAT[] = "flat:\n"
                           "    kind: cascade-delete\n"
                           "    args: [channel]\n" ORPHANS "    settle: 0s\n"
                           "    children:\n"
                           "      - {table: Blogs, partition_key: "
                           "\"{channel}\"}\n";

TEST_FIXTURE(trial, struct trial, TEST_NOTHING, trial_done)

#define TRIAL_TEST(name)                                                       \
    TEST_WITH(name, trial_set_up, trial_tear_down, struct trial *t)

/* Blogs have child rules, so they stay until the last settle pass. That they
 * are found does not repeat the passes before it. */
TRIAL_TEST(between_two_settle_passes_it_waits_although_blogs_are_kept)
{
    trial_init(t,
        "nested:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n" ORPHANS "    settle: [1s, 20s]\n"
        "    children:\n"
        "      - table: Blogs\n"
        "        partition_key: \"{channel}\"\n"
        "        children:\n"
        "          - {table: Comments, partition_key: \"{RowKey}\"}\n");
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_fill(&t->h, "Blogs", "News", 3);
    hosted_put(&t->h, "Comments", "b00000", "c", NULL);
    assert_int_equal(hosted_run(&t->h, "nested", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
    assert_int_equal(hosted_count(&t->h, "Comments"), 0);
    /* Passes: at once, after 1 s, after 20 s, and the last one, which finds
     * nothing. `passes` is the sum over all attempts. */
    assert_in_range(t->h.passes, 4, 5);
}

static unsigned scans_of_a_run(bool has_parent)
{
    struct trial t;
    unsigned scans;

    trial_init(&t, FLAT);
    if (has_parent)
        hosted_put(&t.h, "Channels", "News", "", NULL);
    hosted_put(&t.h, "Blogs", "News", "b", NULL);
    assert_int_equal(hosted_run(&t.h, "flat", "News"), RUN_SUCCEEDED);
    scans = t.faulty.calls[CALL_SCAN];
    trial_done(&t);
    return scans;
}

/* The parent's table is checked. The table of the first rule needs no check,
 * because its first page has been requested already. */
TEST(an_absent_parent_costs_one_request_more)
{
    assert_int_equal(scans_of_a_run(false), scans_of_a_run(true) + 1);
}

/* Put a blog before the second scan, which is that of the first settle pass. */
FAULTY_CHOICE(puts_a_blog_before_the_first_settle_pass)
{
    struct trial *t = ctx;

    if (call == CALL_SCAN && n == 1)
        hosted_put(&t->h, "Blogs", "News", "late", NULL);
    return FAULT_NONE;
}

/* A settle pass that finds something is followed by another pass at once,
 * before the next settle pass is due. */
TRIAL_TEST(a_settle_pass_that_finds_something_is_followed_by_another)
{
    trial_init(t, "flat:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: [1s, 20s]\n"
                  "    children:\n"
                  "      - {table: Blogs, partition_key: \"{channel}\"}\n");
    t->faulty.choose = puts_a_blog_before_the_first_settle_pass;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
    assert_int_equal(t->faulty.calls[CALL_SCAN], 4);
}

/* Put a blog just before the first batch, which is the tombstone; the first
 * page was read before. */
FAULTY_CHOICE(puts_a_blog_before_the_tombstone)
{
    struct trial *t = ctx;

    if (call == CALL_BATCH && n == 0) {
        assert_int_equal(t->faulty.calls[CALL_SCAN], 1);
        hosted_put(&t->h, "Blogs", "News", "late", NULL);
    }
    return FAULT_NONE;
}

/* A first page that was read before the tombstone does not count as a settle
 * pass. */
TRIAL_TEST(a_child_that_comes_behind_the_first_page_goes_too)
{
    trial_init(t, FLAT);
    t->faulty.choose = puts_a_blog_before_the_tombstone;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
    assert_int_equal(hosted_count(&t->h, "Channels"), 0);
}

/* Change the blog just before the first batch, which is the tombstone. */
FAULTY_CHOICE(takes_the_blog_elsewhere)
{
    struct trial *t = ctx;

    if (call == CALL_BATCH && n == 0) {
        hosted_remove(&t->h, "Blogs", "all", "b1");
        hosted_put(&t->h, "Blogs", "all", "b1", "\"Channel\":\"Sports\"");
    }
    return FAULT_NONE;
}

/* By a page that was read before the tombstone, the run would delete the
 * comments of a blog that belongs to another channel by then. */
TRIAL_TEST(a_blog_that_leaves_before_the_tombstone_keeps_its_comments)
{
    trial_init(t, "nested:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: 0s\n"
                  "    children:\n"
                  "      - table: Blogs\n"
                  "        filter: \"Channel eq '{channel}'\"\n"
                  "        children:\n"
                  "          - {table: Comments, partition_key: "
                  "\"{RowKey}\"}\n");
    t->faulty.choose = takes_the_blog_elsewhere;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_put(&t->h, "Blogs", "all", "b1", "\"Channel\":\"News\"");
    hosted_put(&t->h, "Blogs", "all", "b2", "\"Channel\":\"News\"");
    hosted_put(&t->h, "Comments", "b1", "c", NULL);
    hosted_put(&t->h, "Comments", "b2", "c", NULL);
    assert_int_equal(hosted_run(&t->h, "nested", "News"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&t->h, "Blogs"), "all/b1 ");
    assert_string_equal(hosted_dump(&t->h, "Comments"), "b1/c ");
}

/* Refuse every scan: if the table of the first rule cannot be read, the parent
 * must not be marked. */
FAULTY_CHOICE(refuses_to_list)
{
    return call == CALL_SCAN ? FAULT_REFUSED : FAULT_NONE;
}

TRIAL_TEST(a_table_that_may_not_be_read_leaves_the_parent_as_it_is)
{
    trial_init(t, FLAT);
    t->faulty.choose = refuses_to_list;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    assert_int_not_equal(hosted_attempt(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(t->faulty.calls[CALL_BATCH], 0);
}

/* Lose the first batch, the tombstone: the parent is read again, then
 * marked. */
FAULTY_CHOICE(loses_the_tombstone)
{
    return call == CALL_BATCH && n == 0 ? FAULT_LOSE_REQUEST : FAULT_NONE;
}

/* The three scans: the page that is read ahead, the count, the settle pass. */
TRIAL_TEST(what_is_to_go_is_counted_once)
{
    trial_init(t, "flat:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: 0s\n"
                  "    refuse_above: 5\n"
                  "    children:\n"
                  "      - {table: Blogs, partition_key: \"{channel}\"}\n");
    t->faulty.choose = loses_the_tombstone;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_put(&t->h, "Blogs", "News", "b", NULL);
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(t->faulty.calls[CALL_SCAN], 3);
}

/* Put a blog while the parent is read for the second time, for the first settle
 * pass. */
FAULTY_CHOICE(puts_a_blog_while_the_parent_is_read)
{
    struct trial *t = ctx;

    if (call == CALL_GET && n == 1) {
        assert_int_equal(t->faulty.calls[CALL_SCAN], 1);
        hosted_put(&t->h, "Blogs", "News", "late", NULL);
    }
    return FAULT_NONE;
}

/* A page that was read before the settle pass is due does not count as a settle
 * pass. */
TRIAL_TEST(a_settle_pass_reads_nothing_before_its_time)
{
    trial_init(t, "flat:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: 1s\n"
                  "    children:\n"
                  "      - {table: Blogs, partition_key: \"{channel}\"}\n");
    request_pool_free(t->h.request_pool);
    t->h.request_pool =
        request_pool_new(1, 0); /* one request after the other */
    t->faulty.choose = puts_a_blog_while_the_parent_is_read;
    t->faulty.ctx = t;
    hosted_put(&t->h, "Channels", "News", "", NULL);
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
}

/* The parent is read before the tombstone and before the second pass. Its
 * delete carries the ETag of the second read. */
TRIAL_TEST(the_parent_is_read_once_a_pass)
{
    trial_init(t, FLAT);
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_put(&t->h, "Blogs", "News", "b", NULL);
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Channels"), 0);
    assert_int_equal(t->faulty.calls[CALL_GET], 2);
}

TRIAL_TEST(tombstone_of_a_killed_attempt_that_lands_late_is_deleted)
{
    trial_init(t, FLAT);
    t->first_batch = FAULT_LATE;
    t->kills = true;
    assert_int_equal(hosted_attempt(&t->h, "flat", "News"), RUN_LEASE_LOST);
    t->h.previous_owner_crashed = true;
    assert_int_equal(hosted_attempt(&t->h, "flat", "News"), RUN_WAITING);
    t->h.previous_owner_crashed = false;
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    faulty_land(&t->faulty, INT64_MAX);
    assert_int_equal(hosted_count(&t->h, "Channels"), 0);
}

/* Attempts once continued with a parent that was created meanwhile. After its
 * delete, the tombstone that arrived late stayed for ever. */
TEST(tombstone_that_lands_late_is_deleted_though_the_name_was_used)
{
    struct trial t;

    for (int taken = 0; taken < 2; taken++) {
        trial_init(&t, FLAT);
        t.first_batch = FAULT_LATE;
        t.kills = true;
        assert_int_equal(hosted_attempt(&t.h, "flat", "News"), RUN_LEASE_LOST);
        hosted_put(&t.h, "Channels", "News", "", "\"New\":true");
        t.h.previous_owner_crashed = true;
        assert_int_equal(hosted_attempt(&t.h, "flat", "News"), RUN_WAITING);
        t.h.previous_owner_crashed = false;
        if (taken > 0) /* the parent is deleted by another run */
            hosted_remove(&t.h, "Channels", "News", "");
        faulty_land(&t.faulty, INT64_MAX);
        assert_int_equal(hosted_run(&t.h, "flat", "News"), RUN_SUCCEEDED);
        assert_int_equal(hosted_count(&t.h, "Channels"), 0);
        trial_done(&t);
    }
}

TRIAL_TEST(stopped_after_a_lost_insert_it_still_waits_for_it)
{
    trial_init(t, FLAT);
    t->first_batch = FAULT_LATE;
    t->h.stop_after = 0;
    assert_int_equal(hosted_attempt(&t->h, "flat", "News"), RUN_STOPPED);
    t->h.stop_after = -1;
    assert_int_equal(hosted_run(&t->h, "flat", "News"), RUN_SUCCEEDED);
    faulty_land(&t->faulty, INT64_MAX);
    assert_int_equal(hosted_count(&t->h, "Channels"), 0);
}

/* The count for refuse_above may take longer than the time that an insert may
 * be late. */
TRIAL_TEST(lost_insert_is_waited_for_from_when_it_was_sent)
{
    trial_init(t, "counted:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: 0s\n"
                  "    refuse_above: 5\n"
                  "    children:\n"
                  "      - {table: Blogs, partition_key: \"{channel}\"}\n");
    t->first_batch = FAULT_LATE;
    t->scan_us = 400000; /* 40 s of the fast clock */
    assert_int_equal(hosted_run(&t->h, "counted", "News"), RUN_SUCCEEDED);
    faulty_land(&t->faulty, INT64_MAX);
    assert_int_equal(hosted_count(&t->h, "Channels"), 0);
}

TRIAL_TEST(refuse_above_is_not_asked_again_midway)
{
    trial_init(t, "counted:\n"
                  "    kind: cascade-delete\n"
                  "    args: [channel]\n" ORPHANS "    settle: 60s\n"
                  "    refuse_above: 5\n"
                  "    children:\n"
                  "      - {table: Blogs, partition_key: \"{channel}\"}\n");
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_put(&t->h, "Blogs", "News", "a", NULL);
    assert_int_equal(hosted_attempt(&t->h, "counted", "News"), RUN_WAITING);
    hosted_fill(&t->h, "Blogs", "News", 10);
    hosted_remove(&t->h, "Channels", "News", "");
    assert_int_equal(hosted_run(&t->h, "counted", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
}

TRIAL_TEST(stops_while_a_filter_matches_nothing_for_ever)
{
    trial_init(t,
        "filtered:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n" ORPHANS "    settle: 0s\n"
        "    children:\n"
        "      - {table: Blogs, filter: \"Channel eq '{channel}'\"}\n");
    t->empty_pages = true;
    t->h.stop_after = 5;
    assert_int_equal(hosted_attempt(&t->h, "filtered", "News"), RUN_STOPPED);
}

/* The last two rules find only the blog itself, which does not count as its
 * own child. So the walk may stop inside the blog at a path that has found
 * nothing. */
static const char THREADS[] =
    "threads:\n"
    "    kind: cascade-delete\n"
    "    args: [channel]\n" ORPHANS "    settle: 0s\n"
    "    children:\n"
    "      - table: Blogs\n"
    "        partition_key: \"{channel}\"\n"
    "        children:\n"
    "          - {table: Comments, partition_key: \"{Thread}\"}\n"
    "          - {table: Blogs, partition_key: \"{PartitionKey}\", row_key: "
    "\"{RowKey}\"}\n"
    "          - {table: Blogs, partition_key: \"{PartitionKey}\", row_key: "
    "\"{RowKey}\"}\n";

TEST(blog_that_changed_between_attempts_is_visited_again)
{
    for (int stop = 0; stop < 12; stop++) {
        struct trial t;

        trial_init(&t, THREADS);
        hosted_put(&t.h, "Channels", "News", "", NULL);
        hosted_put(&t.h, "Blogs", "News", "b", "\"Thread\":\"old\"");
        hosted_put(&t.h, "Comments", "new", "c", NULL);
        t.h.stop_after = stop;
        if (hosted_attempt(&t.h, "threads", "News") == RUN_STOPPED &&
            hosted_has(&t.h, "Blogs", "News", "b")) {
            hosted_remove(&t.h, "Blogs", "News", "b");
            hosted_put(&t.h, "Blogs", "News", "b", "\"Thread\":\"new\"");
            t.h.stop_after = -1;
            assert_int_equal(
                hosted_run(&t.h, "threads", "News"), RUN_SUCCEEDED);
            assert_int_equal(hosted_count(&t.h, "Comments"), 0);
            assert_int_equal(hosted_count(&t.h, "Blogs"), 0);
        }
        trial_done(&t);
    }
}

/* Both rules find the blog. As a leaf of the second rule it would be deleted at
 * once. */
TRIAL_TEST(leaf_that_has_children_by_another_rule_stays_for_them)
{
    trial_init(t,
        "twice:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n" ORPHANS "    settle: 60s\n"
        "    children:\n"
        "      - table: Blogs\n"
        "        partition_key: \"{channel}\"\n"
        "        children:\n"
        "          - {table: Comments, partition_key: \"{RowKey}\"}\n"
        "      - {table: Blogs, filter: \"Channel eq '{channel}'\"}\n");
    hosted_put(&t->h, "Channels", "News", "", NULL);
    hosted_put(&t->h, "Blogs", "News", "b", "\"Channel\":\"News\"");
    hosted_put(&t->h, "Blogs", "Else", "b", "\"Channel\":\"News\"");
    assert_int_equal(hosted_attempt(&t->h, "twice", "News"), RUN_WAITING);
    assert_string_equal(hosted_dump(&t->h, "Blogs"), "News/b ");
    hosted_put(&t->h, "Comments", "b", "late", NULL);
    hosted_remove(&t->h, "Channels", "News", "");
    assert_int_equal(hosted_run(&t->h, "twice", "News"), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&t->h, "Blogs"), 0);
    assert_int_equal(hosted_count(&t->h, "Comments"), 0);
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
