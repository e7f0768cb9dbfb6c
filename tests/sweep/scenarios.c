/* SPDX-License-Identifier: MIT */
/* The table of what is swept. */
#include "tests/sweep/scenario.h"

#include <stdlib.h>

#include "tests/sweep/judge.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"

/* Of `settle`, from the tombstone on. */
#define LAST_LOOK_S 150

/* ---- stages ---- */

/* Its index. properties: as in service JSON, without braces. */
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

/* A channel with blogs. */
static size_t add_flat(
    struct stage *stage, const char *name, unsigned blogs, bool doomed)
{
    size_t channel = add_channel(stage, name, doomed);

    for (unsigned i = 0; i < blogs; i++)
        (void)add_blog(stage, name, i, channel, doomed);
    return channel;
}

/* Blogs with comments, these with likes, and blogs by month. */
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

/* Once it is gone, the channel is made again, with a blog. */
static void fill_renewed(struct stage *stage)
{
    size_t channel = add_flat(stage, "Football", 3, true);

    stage->list[channel].again = true;
    stage->list[add_blog(stage, "Football", 99, channel, false)].later = true;
    ask(stage);
}

/* A writer that has not seen the tombstone. */
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

static enum tw_err get_channel(const struct scene *scene, struct page *ret)
{
    struct attempt attempt = {0};

    return store_get(scene->store, &attempt, "Channels", slice_of("Football"),
        slice_of(""), ret);
}

static bool channel_is_gone(const struct scene *scene)
{
    struct page page;
    bool is;

    page_init(&page);
    is = get_channel(scene, &page) == TW_NOT_FOUND;
    page_done(&page);
    return is;
}

/* Has it a tombstone, younger than the last look? */
static bool channel_settles(const struct scene *scene)
{
    struct page page;
    int64_t ticks;
    bool is;

    page_init(&page);
    is = get_channel(scene, &page) == TW_OK &&
         entity_find(&page.entities[0], slice_of("Deleted")) &&
         text_ticks(page.entities[0].timestamp, &ticks) &&
         world_wall_ticks() - ticks < LAST_LOOK_S * TICKS_PER_S;
    page_done(&page);
    return is;
}

/* ---- configurations ---- */

#define WORKER                                                                 \
    "worker:\n"                                                                \
    "  queues:\n"                                                              \
    "    - name: " SWEEP_QUEUE "\n"                                            \
    "  slots: 2\n"                                                             \
    "  lanes: 4\n"                                                             \
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

#define AT_ONCE "    settle: 0s\n"
/* LAST_LOOK_S says the same. */
#define SETTLE_LONG "    settle: [5s, 150s]\n"
#define SETTLE "    settle: [5s, 45s]\n"
#define ARCHIVE "    archive: archive\n"

/* The lease is renewed every 20 s, and the checkpoint stored then. */
#define FAST_MS 5
#define SLOW_MS 3000

static const struct scenario SCENARIOS[] = {
    {.name = "tiny",
        .configuration = WORKER JOB FLAT AT_ONCE,
        .fill = fill_tiny,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .end = LEDGER_SUCCEEDED,
        .pairs = true},
    {.name = "small",
        .configuration = WORKER JOB FLAT AT_ONCE,
        .fill = fill_small,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .end = LEDGER_SUCCEEDED},
    {.name = "small-twice",
        .configuration = WORKER JOB FLAT AT_ONCE,
        .fill = fill_small_twice,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .end = LEDGER_SUCCEEDED},
    {.name = "small-archive",
        .configuration = WORKER JOB FLAT AT_ONCE ARCHIVE,
        .fill = fill_small,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .end = LEDGER_SUCCEEDED,
        .archived = true,
        .pairs = true},
    {.name = "nested",
        .configuration = WORKER JOB DEEP AT_ONCE,
        .fill = fill_nested,
        .judge = judge_cascade,
        .way_max_ms = SLOW_MS,
        .end = LEDGER_SUCCEEDED},
    {.name = "nested-archive",
        .configuration = WORKER JOB DEEP AT_ONCE ARCHIVE,
        .fill = fill_nested,
        .judge = judge_cascade,
        .way_max_ms = SLOW_MS,
        .end = LEDGER_SUCCEEDED,
        .archived = true},
    {.name = "settle",
        .configuration = WORKER JOB DEEP SETTLE,
        .fill = fill_nested,
        .judge = judge_cascade,
        .way_max_ms = SLOW_MS,
        .end = LEDGER_SUCCEEDED},
    {.name = "renewed",
        .configuration = WORKER JOB FLAT AT_ONCE,
        .fill = fill_renewed,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .acts = channel_is_gone,
        .end = LEDGER_SUCCEEDED},
    {.name = "late-children",
        .configuration = WORKER JOB FLAT SETTLE_LONG ARCHIVE,
        .fill = fill_late,
        .judge = judge_cascade,
        .way_max_ms = SLOW_MS,
        .acts = channel_settles,
        .end = LEDGER_SUCCEEDED,
        .archived = true},
    {.name = "refused",
        .configuration = WORKER JOB FLAT AT_ONCE "    refuse_above: 3\n",
        .fill = fill_refused,
        .judge = judge_cascade,
        .way_max_ms = FAST_MS,
        .end = LEDGER_FAILED,
        .pairs = true},
    {.name = "large",
        .configuration = WORKER JOB FLAT AT_ONCE,
        .fill = fill_large,
        .judge = judge_cascade,
        .way_max_ms = SLOW_MS,
        .end = LEDGER_SUCCEEDED},
};

const struct scenario *scenarios(size_t *ret_count)
{
    *ret_count = sizeof(SCENARIOS) / sizeof(SCENARIOS[0]);
    return SCENARIOS;
}
