/* SPDX-License-Identifier: MIT */
/*
 * Lists of runs: the ledger index rows, the jobs that have runs, and whole
 * scans. The RowKeys of all ledger index rows of one list have the same prefix,
 * so a list is one range of one partition.
 */
#include <stdio.h>

#include "worker/base/text.h"
#include "worker/run/ledger.h"

/* Lower bound of keys that do not begin with '!'. '"' follows '!' in the order
 * of keys, and every run id and every name of a job begins with a higher
 * character. */
#define AFTER_OWN_MARK "\""

static const char *const prefixes[] = {
    [LEDGER_INDEX_OPEN] = "!open!",
    [LEDGER_INDEX_FAILED] = "!failed!",
    [LEDGER_INDEX_ENDED] = "!ended!",
};
/* Upper bounds of the keys of each list: its prefix with '"' instead of the
 * last '!'. */
static const char *const limits[] = {
    [LEDGER_INDEX_OPEN] = "!open\"",
    [LEDGER_INDEX_FAILED] = "!failed\"",
    [LEDGER_INDEX_ENDED] = "!ended\"",
};
#define INDEX_COUNT (sizeof(prefixes) / sizeof(prefixes[0]))

enum ledger_index ledger_index_of(enum ledger_state state)
{
    switch (state) {
    case LEDGER_FAILED:
    case LEDGER_POISONED:
        return LEDGER_INDEX_FAILED;
    case LEDGER_SUCCEEDED:
    case LEDGER_CANCELLED:
        return LEDGER_INDEX_ENDED;
    case LEDGER_QUEUED:
    case LEDGER_RUNNING:
    case LEDGER_WAITING:
    case LEDGER_PAUSED:
    case LEDGER_NEWER:
    case LEDGER_DAMAGED:
        break;
    }
    return LEDGER_INDEX_OPEN;
}

const char *ledger_day(int64_t ticks, char *to)
{
    struct text_date date = text_date_of(ticks);

    (void)snprintf(to, LEDGER_DAY_MAX, "%04d-%02d-%02d",
        (int)((unsigned)date.year % 10000u), (int)((unsigned)date.month % 100u),
        (int)((unsigned)date.day % 100u));
    return to;
}

struct slice ledger_index_key(const struct ledger_run *run, struct arena *arena)
{
    enum ledger_index index = ledger_index_of(run->state);
    char day[LEDGER_DAY_MAX];

    if (index != LEDGER_INDEX_ENDED)
        return arena_format(
            arena, "%s%.*s", prefixes[index], SLICE_ARG(run->id));
    return arena_format(arena, "%s%s!%.*s", prefixes[index],
        ledger_day(run->finished_ticks, day), SLICE_ARG(run->id));
}

bool ledger_index_id(struct slice row_key, struct slice *ret_id)
{
    for (size_t i = 0; i < INDEX_COUNT; i++) {
        size_t skipped = strlen(prefixes[i]);

        if (!slice_begins(row_key, slice_of(prefixes[i])))
            continue;
        if (i == LEDGER_INDEX_ENDED)
            skipped += LEDGER_DAY_MAX; /* skip the day and the '!' after the
                                          day */
        if (row_key.len <= skipped)
            return false;
        *ret_id = (struct slice){row_key.at + skipped, row_key.len - skipped};
        return true;
    }
    return false;
}

static enum ledger_state state_of_row(
    const struct entity *entity, struct arena *arena)
{
    const struct property *property = entity_find(entity, slice_of("State"));
    enum ledger_state state = LEDGER_QUEUED;
    struct slice name;

    if (property && property_text(property, arena, &name))
        (void)ledger_state_named(name, &state);
    return state;
}

static int64_t time_of_row(const struct entity *entity, const char *name)
{
    const struct property *property = entity_find(entity, slice_of(name));
    int64_t ticks = 0;

    return property && property_ticks(property, &ticks) ? ticks : 0;
}

bool ledger_index_row(
    const struct entity *entity, struct arena *arena, struct ledger_row *ret)
{
    const struct property *queue = entity_find(entity, slice_of("Queue"));
    struct slice id;

    if (!ledger_index_id(entity->row_key, &id))
        return false;
    *ret = (struct ledger_row){
        .job = arena_copy(arena, entity->partition_key),
        .id = arena_copy(arena, id),
        .state = state_of_row(entity, arena),
        .requested_ticks = time_of_row(entity, "RequestedAt"),
        .finished_ticks = time_of_row(entity, "FinishedAt"),
    };
    if (queue)
        (void)property_text(queue, arena, &ret->queue);
    return true;
}

/* Returns the range of the keys of one list, of some of its days, or of ids
 * with one prefix. */
static struct key_range range_of(
    const struct ledger_index_scan *scan, struct arena *arena)
{
    const char *prefix = prefixes[scan->index];
    struct key_range range = {.has_from = true,
        .has_below = true,
        .from = slice_of(prefix),
        .below = slice_of(limits[scan->index])};

    if (scan->index != LEDGER_INDEX_ENDED && scan->id_prefix.len > 0)
        return key_range_prefix(
            arena_format(arena, "%s%.*s", prefix, SLICE_ARG(scan->id_prefix)),
            arena);
    if (scan->index == LEDGER_INDEX_ENDED && scan->from_day)
        range.from = arena_format(arena, "%s%s", prefix, scan->from_day);
    if (scan->index == LEDGER_INDEX_ENDED && scan->below_day)
        range.below = arena_format(arena, "%s%s", prefix, scan->below_day);
    return range;
}

enum tw_err ledger_scan_index(struct store *store, struct exchange *exchange,
    const struct ledger_index_scan *scan, struct continuation from,
    struct page *ret)
{
    struct arena arena;
    struct scan_request request = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(scan->job),
        .top = scan->top,
        .damaged_too = true,
        .from = from};
    enum tw_err outcome;

    arena_init(&arena);
    request.row_key = range_of(scan, &arena);
    outcome = store_scan(store, exchange, &request, ret);
    arena_done(&arena);
    return outcome;
}

enum tw_err ledger_next_job(struct store *store, struct exchange *exchange,
    struct slice after, struct arena *arena, struct slice *ret)
{
    static const struct slice nothing[] = {{"State", 5}};
    struct scan_request request = {.table = LEDGER_TABLE,
        .partition_key = {.has_from = true,
            .from_exclusive = after.len > 0,
            .from = after.len > 0 ? after : slice_of(AFTER_OWN_MARK)},
        .select = nothing,
        .select_count = 1,
        .top = 1,
        .damaged_too = true};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    do {
        request.from = page.next;
        outcome = store_scan(store, exchange, &request, &page);
    } while (outcome == TW_OK && page.count == 0 && page.next.more);
    if (outcome == TW_OK && page.count == 0)
        outcome = TW_NOT_FOUND;
    if (outcome == TW_OK)
        *ret = arena_copy(arena, page.entities[0].partition_key);
    page_done(&page);
    return outcome;
}

static bool is_own(struct slice key)
{
    return key.len > 0 && key.at[0] == LEDGER_OWN_MARK;
}

/* Drop rows that are not runs. The ranges of the scan exclude them, but a store
 * may return entities outside of the ranges. */
static void drop_own(struct page *page)
{
    size_t kept = 0;

    for (size_t i = 0; i < page->count; i++) {
        const struct entity *entity = &page->entities[i];

        if (!is_own(entity->row_key) && !is_own(entity->partition_key))
            page->entities[kept++] = *entity;
    }
    page->count = kept;
}

enum tw_err ledger_scan(struct store *store, struct exchange *exchange,
    struct slice job, struct slice filter, struct continuation from,
    struct page *ret)
{
    const struct key_range not_own = {
        .has_from = true, .from = slice_of(AFTER_OWN_MARK)};
    struct scan_request request = {.table = LEDGER_TABLE,
        .partition_key = job.len > 0 ? key_range_exact(job) : not_own,
        .filter = filter,
        .damaged_too = true,
        .from = from};
    enum tw_err outcome;

    if (job.len > 0)
        request.row_key = not_own;
    outcome = store_scan(store, exchange, &request, ret);
    if (outcome == TW_OK)
        drop_own(ret);
    return outcome;
}
