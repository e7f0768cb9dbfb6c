/* SPDX-License-Identifier: MIT */
/* The scenarios of the crash sweep. */
#include "tests/sweep/scenario.h"

#include <stdlib.h>

#include "tests/support/direct.h"
#include "tests/support/upgrade_model.h"
#include "tests/sweep/judge.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* Seconds from the tombstone to the last settle pass in the scenarios with
 * SETTLE_LONG. */
#define LAST_LOOK_S 150

/* ---- stages ---- */

/* Adds an entity to the stage and returns its index. properties: as in service
 * JSON, without braces. */
static size_t add(struct stage *stage, const char *table,
    struct slice partition_key, struct slice row_key, struct slice properties,
    size_t parent, bool doomed)
{
    struct sweep_entity *entity;
    struct err err;

    if (stage->count == stage->room) {
        stage->room = stage->room * 2 + 64;
        stage->list =
            mem_resize(stage->list, stage->room * sizeof(*stage->list));
    }
    entity = &stage->list[stage->count];
    *entity = (struct sweep_entity){
        .table = table, .parent = parent, .doomed = doomed};
    if (entity_parse(
            arena_format(&stage->arena, "{%.*s}", SLICE_ARG(properties)), false,
            &stage->arena, &entity->entity, NULL, &err) != TW_OK)
        abort();
    entity->entity.partition_key = arena_copy(&stage->arena, partition_key);
    entity->entity.row_key = arena_copy(&stage->arena, row_key);
    return stage->count++;
}

static void ask(struct stage *stage)
{
    stage->messages[stage->message_count++] =
        "{\"job\":\"" SWEEP_JOB "\",\"args\":{\"channel\":\"Football\"},"
        "\"id\":\"" SWEEP_ID "\"}";
}

static size_t add_channel(struct stage *stage, const char *name, bool doomed)
{
    return add(stage, "Channels", slice_of(name), slice_of(""),
        slice_of("\"Title\":\"One \\u00e9\",\"Members\":3,\"Rate\":1.0,"
                 "\"CreatedOn@odata.type\":\"Edm.DateTime\","
                 "\"CreatedOn\":\"2020-02-02T02:02:02.1234567Z\""),
        NO_PARENT, doomed);
}

static size_t add_blog(struct stage *stage, const char *channel,
    unsigned number, size_t parent, bool doomed)
{
    struct arena *arena = &stage->arena;

    return add(stage, "Blogs", slice_of(channel),
        arena_format(arena, "b%05u", number),
        arena_format(arena,
            "\"Text\":\"number %u\",\"Size@odata.type\":\"Edm.Int64\","
            "\"Size\":\"%u\",\"Channel\":\"%s\"",
            number, number * 1000003u, channel),
        parent, doomed);
}

/* Adds a channel with `blogs` blogs. */
static size_t add_flat(
    struct stage *stage, const char *name, unsigned blogs, bool doomed)
{
    size_t channel = add_channel(stage, name, doomed);

    for (unsigned i = 0; i < blogs; i++)
        (void)add_blog(stage, name, i, channel, doomed);
    return channel;
}

/* Adds a channel with blogs, their comments, the likes of these, and blogs by
 * month. */
static void add_deep(struct stage *stage, const char *name, bool doomed)
{
    struct arena *arena = &stage->arena;
    size_t channel = add_channel(stage, name, doomed);

    for (unsigned i = 0; i < 4; i++) {
        size_t blog = add_blog(stage, name, i, channel, doomed);

        for (unsigned j = 0; j < i * 2; j++) {
            struct slice key = arena_format(arena, "b%05u_%02u", i, j);
            size_t comment = add(stage, "Comments", slice_of(name), key,
                arena_format(arena, "\"Blog\":\"b%05u\"", i), blog, doomed);

            if (j % 2)
                (void)add(stage, "Likes",
                    arena_format(arena, "%s-%.*s", name, SLICE_ARG(key)),
                    slice_of("one"), slice_of(""), comment, doomed);
        }
    }
    for (unsigned i = 0; i < 3; i++)
        (void)add(stage, "BlogsByMonth",
            arena_format(arena, "%s_7979_%02u", name, i + 1), slice_of("b"),
            arena_format(arena, "\"Channel\":\"%s\"", name), channel, doomed);
}

static void fill_tiny(struct stage *stage)
{
    (void)add_flat(stage, "Football", 2, true);
    (void)add_flat(stage, "Footbal", 1, false);
    ask(stage);
}

static void fill_small(struct stage *stage)
{
    (void)add_flat(stage, "Football", 12, true);
    (void)add_flat(stage, "Footbal", 3, false);
    (void)add_flat(stage, "Football_", 3, false);
    ask(stage);
}

static void fill_small_twice(struct stage *stage)
{
    fill_small(stage);
    ask(stage);
}

static void fill_large(struct stage *stage)
{
    (void)add_flat(stage, "Football", 2600, true);
    (void)add_flat(stage, "Footbal", 150, false);
    ask(stage);
}

static void fill_nested(struct stage *stage)
{
    add_deep(stage, "Football", true);
    add_deep(stage, "Footbal", false);
    add_deep(stage, "Football_", false);
    ask(stage);
}

static void fill_refused(struct stage *stage)
{
    (void)add_flat(stage, "Football", 12, false);
    ask(stage);
}

/* Adds a channel and its blogs for a delete job, which must delete the blogs
 * from b00004 to before b02000; the channel itself remains. */
static void add_purged(struct stage *stage, unsigned blogs)
{
    size_t channel = add_channel(stage, "Football", false);

    for (unsigned i = 0; i < blogs; i++)
        (void)add_blog(stage, "Football", i, channel, i >= 4 && i < 2000);
    (void)add_flat(stage, "Footbal", 6, false);
    (void)add_flat(stage, "Football_", 6, false);
    ask(stage);
}

static void fill_purged(struct stage *stage)
{
    add_purged(stage, 12);
}

static void fill_purged_large(struct stage *stage)
{
    add_purged(stage, 2300);
}

/* The front end creates the channel again, with a blog, once the run has
 * deleted it. */
static void fill_renewed(struct stage *stage)
{
    size_t channel = add_flat(stage, "Football", 3, true);

    stage->list[channel].again = true;
    stage->list[add_blog(stage, "Football", 99, channel, false)].later = true;
    ask(stage);
}

/* The front end inserts blogs because it has not seen the tombstone. */
static void fill_late(struct stage *stage)
{
    size_t channel = add_flat(stage, "Football", 250, true);

    stage->list[add_blog(stage, "Football", 10000, channel, true)].later = true;
    stage
        ->list[add(stage, "Blogs", slice_of("Football"), slice_of("a"),
            slice_of("\"Late\":true"), channel, true)]
        .later = true;
    ask(stage);
}

static enum tw_err get_channel(const struct scene *scene, struct page *to)
{
    return direct_get(
        scene->store, "Channels", slice_of("Football"), slice_of(""), to);
}

static bool channel_is_gone(const struct scene *scene)
{
    return get_channel(scene, NULL) == TW_NOT_FOUND;
}

/* True if the channel has a tombstone and the last settle pass has not
 * begun. */
static bool channel_settles(const struct scene *scene)
{
    struct page page;
    int64_t ticks;
    bool is;

    page_init(&page);
    is = get_channel(scene, &page) == TW_OK &&
         entity_find(&page.entities[0], slice_of("Deleted")) &&
         text_ticks(page.entities[0].timestamp, &ticks) &&
         platform_wall_ticks() - ticks < LAST_LOOK_S * TICKS_PER_S;
    page_done(&page);
    return is;
}

/* ---- stages of upgrades ---- */

static void ask_for_job(struct stage *stage, const char *job)
{
    stage->messages[stage->message_count++] = arena_format(
        &stage->arena, "{\"job\":\"%s\",\"id\":\"" SWEEP_ID "\"}", job)
                                                  .at;
}

static void ask_for(struct stage *stage, const char *id, const char *phase)
{
    stage->messages[stage->message_count++] = arena_format(&stage->arena,
        "{\"job\":\"" SWEEP_UPGRADE "\",\"id\":\"%s\",\"args\":{\"phase\":"
        "\"%s\"}}",
        id, phase)
                                                  .at;
}

/* Adds an entity to one of two partitions. */
static void add_post(struct stage *stage, unsigned number, const char *kind,
    const char *version, const char *properties)
{
    struct arena *arena = &stage->arena;

    (void)add(stage, "Posts", arena_format(arena, "p%u", number % 2),
        arena_format(arena, "e%05u", number),
        arena_format(arena,
            "\"EntityType\":\"%s\",\"Title\":\"Number %u\"%s%s%s%s", kind,
            number, *version ? ",\"SchemaVersion\":" : "", version,
            *properties ? "," : "", properties),
        NO_PARENT, false);
}

#define OLD_POST                                                               \
    "\"Text\":\"caf\\u00e9\",\"Rating\":\"4.5\",\"Legacy\":true,"              \
    "\"Size@odata.type\":\"Edm.Int64\",\"Size\":\"9007199254740993\","         \
    "\"When@odata.type\":\"Edm.DateTime\","                                    \
    "\"When\":\"2024-02-29T12:34:56.1234567Z\""
#define NEW_POST                                                               \
    "\"Body\":\"new\",\"Rating\":1.5,\"Language\":\"cy\",\"SizeText\":\"1\""

/* Adds entities of all versions and of two kinds. */
static void add_posts(struct stage *stage)
{
    add_post(stage, 0, "Blog", "", OLD_POST);
    add_post(stage, 1, "Blog", "1", OLD_POST);
    add_post(stage, 2, "Blog", "2", NEW_POST);
    add_post(stage, 3, "Blog", "7", OLD_POST);
    add_post(stage, 4, "Blog", "1.0", "");
    add_post(stage, 5, "Page", "1", OLD_POST);
    add_post(stage, 6, "Blog", "1", OLD_POST);
}

static void fill_posts(struct stage *stage)
{
    add_posts(stage);
    ask_for(stage, SWEEP_ID, "all");
}

/* Some of these entities cannot be upgraded. */
static void fill_failing_posts(struct stage *stage)
{
    add_posts(stage);
    add_post(stage, 7, "Blog", "1", "\"Text\":\"one\",\"Body\":\"two\"");
    add_post(stage, 8, "Blog", "", "\"Rating\":\"04\"");
    add_post(stage, 9, "Blog", "1", "\"Rating\":\"none\"");
    add_post(stage, 10, "Page", "1", "\"Rating\":\"none\"");
    ask_for(stage, SWEEP_ID, "all");
}

/* One entity in a hundred cannot be upgraded. The next attempt must not count
 * again what a killed attempt has counted. */
static void fill_many_posts(struct stage *stage)
{
    for (unsigned i = 0; i < 2300; i++)
        add_post(stage, i, i % 7 ? "Blog" : "Page", i % 3 ? "1" : "",
            i % 100 == 50 ? "\"Rating\":\"none\""
            : i % 5       ? OLD_POST
                          : "");
    ask_for(stage, SWEEP_ID, "all");
}

static void fill_some_posts(struct stage *stage)
{
    for (unsigned i = 0; i < 48; i++)
        add_post(stage, i, i % 7 ? "Blog" : "Page", i % 3 ? "1" : "",
            i % 5 ? OLD_POST : "");
    ask_for(stage, SWEEP_ID, "all");
}

static void fill_both_phases(struct stage *stage)
{
    add_posts(stage);
    ask_for(stage, SWEEP_ID, "expand");
    ask_for(stage, SWEEP_CONTRACT_ID, "contract");
}

/* ---- stages of copies and moves ---- */

/* Adds a source with properties of all types, in one of two partitions and one
 * of three months. */
static void add_source(struct stage *stage, unsigned number)
{
    struct arena *arena = &stage->arena;

    (void)add(stage, SWEEP_SOURCE, arena_format(arena, "p%u", number % 2),
        arena_format(arena, "e%05u", number),
        arena_format(arena,
            "\"Month\":%u,\"Title\":\"caf\\u00e9 %u\",\"Whole\":5.0,"
            "\"Size@odata.type\":\"Edm.Int64\","
            "\"Size\":\"9007199254740993\",\"Legacy\":true",
            1 + number % 3, number),
        NO_PARENT, false);
}

static void add_sources(struct stage *stage, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add_source(stage, i);
    ask_for_job(stage, SWEEP_CARRY);
}

static void fill_sources(struct stage *stage)
{
    add_sources(stage, 7);
}

static void fill_some_sources(struct stage *stage)
{
    add_sources(stage, 16);
}

static void fill_two_sources(struct stage *stage)
{
    add_sources(stage, 2);
}

static void fill_many_sources(struct stage *stage)
{
    add_sources(stage, 1300);
}

/* At the destination there are three entities: one equals a copy, one is
 * another entity at a destination key, and one is at a key that no source has.
 */
static void fill_taken_sources(struct stage *stage)
{
    add_sources(stage, 5);
    (void)add(stage, SWEEP_COPIES, slice_of("p0_01"), slice_of("e00000"),
        slice_of("\"Month\":1,\"Title\":\"caf\\u00e9 0\",\"Whole\":5.0,"
                 "\"Size@odata.type\":\"Edm.Int64\","
                 "\"Size\":\"9007199254740993\",\"Legacy\":true"),
        NO_PARENT, false);
    (void)add(stage, SWEEP_COPIES, slice_of("p1_02"), slice_of("e00001"),
        slice_of("\"Month\":2"), NO_PARENT, false);
    (void)add(stage, SWEEP_COPIES, slice_of("p9_01"), slice_of("e00001"),
        slice_of("\"Month\":2"), NO_PARENT, false);
}

/* ---- copies and moves, as the judge knows them ---- */

static const struct sweep_carry COPY = {0}, COPY_WITHIN = {.within = true},
                                MOVE = {.move = true},
                                MOVE_WITHIN = {.move = true, .within = true};

/* ---- upgrades, as the judge knows them ---- */

#define POSTS                                                                  \
    .filter_property = "EntityType", .filter_value = "Blog",                   \
    .version = "SchemaVersion", .from = 1, .to = 2, .absent_is_at = true
#define MODEL_STEPS(error)                                                     \
    .steps = {{.type = MODEL_ADD,                                              \
                  .property = "Language",                                      \
                  .edm = EDM_STRING,                                           \
                  .value = "\"en\""},                                          \
        {.type = MODEL_RENAME, .property = "Text", .to = "Body"},              \
        {.type = MODEL_RETYPE,                                                 \
            .property = "Rating",                                              \
            .edm = EDM_DOUBLE,                                                 \
            .on_error = error},                                                \
        {.type = MODEL_RETYPE,                                                 \
            .property = "Size",                                                \
            .to = "SizeText",                                                  \
            .edm = EDM_STRING,                                                 \
            .on_error = "fail"},                                               \
        {.type = MODEL_REMOVE, .property = "Legacy"}},                         \
    .count = 5
#define MODEL_STEPS_KEPT                                                       \
    .steps = {{.type = MODEL_RENAME, .property = "Text", .to = "Body"},        \
        {.type = MODEL_RETYPE,                                                 \
            .property = "Size",                                                \
            .to = "SizeText",                                                  \
            .edm = EDM_STRING,                                                 \
            .on_error = "fail"},                                               \
        {.type = MODEL_REMOVE, .property = "Legacy"}},                         \
    .count = 3

static const struct model_upgrade UPGRADE = {POSTS, MODEL_STEPS("fail")},
                                  SKIPPING = {POSTS, MODEL_STEPS("skip")},
                                  EXPAND = {POSTS, MODEL_STEPS_KEPT,
                                      .phase = MODEL_EXPAND},
                                  CONTRACT = {POSTS, MODEL_STEPS_KEPT,
                                      .phase = MODEL_CONTRACT};

/* ---- configurations ---- */

#define WORKER WORKER_OF("2")
#define WORKER_OF(slots)                                                       \
    "worker:\n"                                                                \
    "  queues:\n"                                                              \
    "    - name: " SWEEP_QUEUE "\n"                                            \
    "  slots: " slots "\n"                                                     \
    "  requests: 4\n"                                                          \
    "  visibility_timeout: 60s\n"                                              \
    "  poll: {min: 100ms, max: 5s}\n"                                          \
    "  max_attempts: 2\n"

#define JOB                                                                    \
    "jobs:\n"                                                                  \
    "  " SWEEP_JOB ":\n"                                                       \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"                                                    \
    "    parent:\n"                                                            \
    "      table: Channels\n"                                                  \
    "      partition_key: \"{channel}\"\n"                                     \
    "      row_key: \"\"\n"                                                    \
    "      tombstone: {Deleted: true}\n"

#define FLAT                                                                   \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"

#define DEEP                                                                   \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - table: Comments\n"                                            \
    "            partition_key: \"{PartitionKey}\"\n"                          \
    "            row_key_prefix: \"{RowKey}_\"\n"                              \
    "            filter: \"Blog eq '{RowKey}'\"\n"                             \
    "            children:\n"                                                  \
    "              - table: Likes\n"                                           \
    "                partition_key: \"{PartitionKey}-{RowKey}\"\n"             \
    "      - table: BlogsByMonth\n"                                            \
    "        partition_key_prefix: \"{channel}_\"\n"                           \
    "        filter: \"Channel eq '{channel}'\"\n"

#define PURGE                                                                  \
    "jobs:\n"                                                                  \
    "  " SWEEP_JOB ":\n"                                                       \
    "    kind: delete\n"                                                       \
    "    args: [channel]\n"                                                    \
    "    table: Blogs\n"                                                       \
    "    partition_key: \"{channel}\"\n"                                       \
    "    row_key_from: b00002\n"                                               \
    "    row_key_below: b02000\n"                                              \
    "    filter: \"Size ge 4000012L\"\n"

#define POSTS_JOB                                                              \
    "    kind: schema-upgrade\n"                                               \
    "    table: Posts\n"                                                       \
    "    filter: \"EntityType eq 'Blog'\"\n"                                   \
    "    version: {property: SchemaVersion, absent: 1}\n"                      \
    "    versions:\n"                                                          \
    "    - to: 2\n"

#define UPGRADE_JOB(error)                                                     \
    "jobs:\n"                                                                  \
    "  " SWEEP_UPGRADE ":\n" POSTS_JOB "      steps:\n"                        \
    "      - add: {property: Language, type: Edm.String, value: en}\n"         \
    "      - rename: {property: Text, to: Body}\n"                             \
    "      - retype: {property: Rating, to: Edm.Double, on_error: " error      \
    "}\n"                                                                      \
    "      - retype: {property: Size, to: Edm.String, to_property: "           \
    "SizeText}\n"                                                              \
    "      - remove: {property: Legacy}\n"

#define KEPT                                                                   \
    "      steps:\n"                                                           \
    "      - rename: {property: Text, to: Body}\n"                             \
    "      - retype: {property: Size, to: Edm.String, to_property: "           \
    "SizeText}\n"                                                              \
    "      - remove: {property: Legacy}\n"

#define BOTH_PHASES                                                            \
    "jobs:\n"                                                                  \
    "  " SWEEP_UPGRADE ":\n" POSTS_JOB KEPT

#define CARRY(kind, some, to)                                                  \
    "jobs:\n"                                                                  \
    "  " SWEEP_CARRY ":\n"                                                     \
    "    kind: " kind "\n"                                                     \
    "    from: {table: " SWEEP_SOURCE some "}\n"                               \
    "    to: {table: " to "}\n"
/* set_keys() in judge_carry.c has the same rules. */
#define TO_MONTHS SWEEP_COPIES ", partition_key: \"{PartitionKey}_{Month:02}\""
#define TO_INDEX SWEEP_SOURCE ", row_key: \"i:{Month:02}:{RowKey}\""
#define TO_MOVED SWEEP_SOURCE ", partition_key: moved"

/* Slow enough for a pause in the middle of a run. */
#define PACED "    max_entities_per_second: 2\n"
#define AT_ONCE "    settle: 0s\n"
/* LAST_LOOK_S is the last of these times. */
#define SETTLE_LONG "    settle: [5s, 150s]\n"
#define SETTLE "    settle: [5s, 45s]\n"
#define ARCHIVE "    archive: archive\n"

/* Travel times of requests. With SLOW_MS the lease is renewed, and a checkpoint
 * stored, every 20 s. */
#define FAST_MS 5
#define SLOW_MS 3000
/* The lease is renewed, and a checkpoint stored, in the middle of a round. */
#define SLOWEST_MS 9000
/* Requests are so fast that a run stops within 10 s when it is asked to. */
#define PACED_MS 300
/* Before a move stops, it completes its load. After a kill the next worker does
 * this, some hours later. */
#define LOAD_MS INT64_C(86400000)

#define ROW(NAME, CONFIGURATION, FILL, JUDGE, WAY_MAX_MS, END)                 \
    .name = NAME, .configuration = CONFIGURATION, .fill = FILL,                \
    .judge = JUDGE, .way_max_ms = WAY_MAX_MS, .end = END
#define CASCADE(NAME, JOBS, FILL, WAY_MAX_MS)                                  \
    ROW(NAME, WORKER JOBS, FILL, judge_cascade, WAY_MAX_MS, LEDGER_SUCCEEDED)
#define UPGRADED(NAME, JOBS, FILL, WAY_MAX_MS, END)                            \
    ROW(NAME, WORKER JOBS, FILL, judge_upgrade, WAY_MAX_MS, END)
#define CARRIED(NAME, JOBS, FILL, WAY_MAX_MS, END)                             \
    ROW(NAME, WORKER JOBS, FILL, judge_carry, WAY_MAX_MS, END)

static const struct scenario SCENARIOS[] = {
    {CASCADE("tiny", JOB FLAT AT_ONCE, fill_tiny, FAST_MS), .pairs = true},
    {CASCADE("small", JOB FLAT AT_ONCE, fill_small, FAST_MS)},
    {CASCADE("small-twice", JOB FLAT AT_ONCE, fill_small_twice, FAST_MS)},
    {CASCADE("small-archive", JOB FLAT AT_ONCE ARCHIVE, fill_small, FAST_MS),
        .archived = true, .pairs = true},
    {CASCADE("nested", JOB DEEP AT_ONCE, fill_nested, SLOW_MS)},
    {CASCADE("nested-archive", JOB DEEP AT_ONCE ARCHIVE, fill_nested, SLOW_MS),
        .archived = true},
    {CASCADE("settle", JOB DEEP SETTLE, fill_nested, SLOW_MS)},
    {CASCADE("renewed", JOB FLAT AT_ONCE, fill_renewed, FAST_MS),
        .acts = channel_is_gone},
    {CASCADE("late-children", JOB FLAT SETTLE_LONG ARCHIVE, fill_late, SLOW_MS),
        .acts = channel_settles, .archived = true},
    {ROW("refused", WORKER JOB FLAT AT_ONCE "    refuse_above: 3\n",
         fill_refused, judge_cascade, FAST_MS, LEDGER_FAILED),
        .pairs = true},
    {CASCADE("large", JOB FLAT AT_ONCE, fill_large, SLOW_MS)},
    {CASCADE("purge", PURGE, fill_purged, FAST_MS), .pairs = true},
    {CASCADE("purge-large", PURGE, fill_purged_large, SLOWEST_MS)},
    {UPGRADED(
         "upgrade", UPGRADE_JOB("fail"), fill_posts, FAST_MS, LEDGER_SUCCEEDED),
        .upgrade = &UPGRADE, .pairs = true},
    {UPGRADED("upgrade-failing", UPGRADE_JOB("fail"), fill_failing_posts,
         SLOW_MS, LEDGER_FAILED),
        .upgrade = &UPGRADE},
    {UPGRADED("upgrade-skipping", UPGRADE_JOB("skip"), fill_failing_posts,
         FAST_MS, LEDGER_FAILED),
        .upgrade = &SKIPPING},
    {UPGRADED("upgrade-large", UPGRADE_JOB("fail"), fill_many_posts, SLOWEST_MS,
         LEDGER_FAILED),
        .upgrade = &UPGRADE},
    {ROW("expand-contract", WORKER_OF("1") BOTH_PHASES, fill_both_phases,
         judge_upgrade, FAST_MS, LEDGER_SUCCEEDED),
        .upgrade = &EXPAND, .contract = &CONTRACT},
    {CARRIED("copy", CARRY("copy", "", TO_MONTHS), fill_sources, FAST_MS,
         LEDGER_SUCCEEDED),
        .carry = &COPY},
    {CARRIED("copy-within", CARRY("copy", "", TO_INDEX), fill_sources, SLOW_MS,
         LEDGER_SUCCEEDED),
        .carry = &COPY_WITHIN},
    {CARRIED("copy-large", CARRY("copy", "", TO_MONTHS), fill_many_sources,
         SLOWEST_MS, LEDGER_SUCCEEDED),
        .carry = &COPY},
    {CARRIED("copy-failing", CARRY("copy", "", TO_MONTHS), fill_taken_sources,
         FAST_MS, LEDGER_FAILED),
        .carry = &COPY},
    {CARRIED("move-two", CARRY("move", "", TO_MONTHS), fill_two_sources,
         FAST_MS, LEDGER_SUCCEEDED),
        .carry = &MOVE, .pairs = true},
    {CARRIED("move", CARRY("move", "", TO_MONTHS), fill_sources, SLOW_MS,
         LEDGER_SUCCEEDED),
        .carry = &MOVE},
    {CARRIED("move-within", CARRY("move", ", partition_key: p0", TO_MOVED),
         fill_sources, FAST_MS, LEDGER_SUCCEEDED),
        .carry = &MOVE_WITHIN},
    {CARRIED("move-failing", CARRY("move", "", TO_MONTHS), fill_taken_sources,
         FAST_MS, LEDGER_FAILED),
        .carry = &MOVE},
    {CARRIED("move-large", CARRY("move", "", TO_MONTHS), fill_many_sources,
         SLOWEST_MS, LEDGER_SUCCEEDED),
        .carry = &MOVE},
    {CASCADE("pause-cascade", JOB DEEP AT_ONCE PACED, fill_nested, PACED_MS),
        .control = SWEEP_PAUSE, .job = SWEEP_JOB},
    {CASCADE("cancel-cascade", JOB DEEP AT_ONCE PACED, fill_nested, PACED_MS),
        .control = SWEEP_CANCEL, .job = SWEEP_JOB},
    {UPGRADED("pause-upgrade", UPGRADE_JOB("fail") PACED, fill_some_posts,
         PACED_MS, LEDGER_SUCCEEDED),
        .control = SWEEP_PAUSE, .job = SWEEP_UPGRADE, .upgrade = &UPGRADE},
    {CARRIED("pause-copy", CARRY("copy", "", TO_MONTHS) PACED,
         fill_some_sources, PACED_MS, LEDGER_SUCCEEDED),
        .control = SWEEP_PAUSE, .job = SWEEP_CARRY, .carry = &COPY},
    {CARRIED("pause-move", CARRY("move", "", TO_MONTHS) PACED,
         fill_some_sources, PACED_MS, LEDGER_SUCCEEDED),
        .control = SWEEP_PAUSE, .effect_ms = LOAD_MS, .job = SWEEP_CARRY,
        .carry = &MOVE},
    {CARRIED("cancel-move", CARRY("move", "", TO_MONTHS) PACED,
         fill_some_sources, PACED_MS, LEDGER_SUCCEEDED),
        .control = SWEEP_CANCEL, .effect_ms = LOAD_MS, .job = SWEEP_CARRY,
        .carry = &MOVE},
};

const struct scenario *scenarios(size_t *ret_count)
{
    *ret_count = sizeof(SCENARIOS) / sizeof(SCENARIOS[0]);
    return SCENARIOS;
}
