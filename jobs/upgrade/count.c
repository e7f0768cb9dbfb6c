/* SPDX-License-Identifier: MIT */
/* A pass that only looks: what the steps would do to each entity. */
#include "jobs/upgrade/count.h"

#include "jobs/counting.h"
#include "jobs/engine/census.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define FIRST_FAILED 10
#define DETAILS_MAX_BYTES (1024 * 1024)

/* What is written around an entity in a batch. */
#define OPERATION_BYTES 512

struct count {
    const struct upgrade *upgrade;
    struct store *store;
    struct run *run;
    struct job_estimate *estimate;
    struct selection selection;
    struct census *census;
    struct counting counting;
    struct upgrade_tally steps;
    struct arena scratch; /* of one entity */
    struct buf failed;    /* lines about the first ones */
    int64_t below, other, held, skipped, failed_count;
};

/* ---- counting ---- */

static void note_failed(
    struct count *count, const struct entity *entity, const char *why)
{
    if (count->failed_count++ >= FIRST_FAILED)
        return;
    buf_add_text(&count->failed, "  ");
    entity_add_keys(&count->failed, entity->partition_key, entity->row_key);
    buf_add_format(&count->failed, ": %s\n", why);
}

static void count_due(struct count *count, const struct entity *entity)
{
    struct entity changed;
    struct err why;

    switch (upgrade_apply(count->upgrade, &count->run->args, entity,
        &count->scratch, &changed, &count->steps, &why)) {
    case UPGRADE_CHANGED:
        counting_add(&count->counting, &changed,
            entity_json_bytes(&changed) + OPERATION_BYTES);
        break;
    case UPGRADE_UNCHANGED:
        break;
    case UPGRADE_SKIPPED:
        count->skipped++;
        break;
    case UPGRADE_FAILED:
        note_failed(count, entity, why.text);
        break;
    }
}

static void count_entity(struct count *count, const struct entity *entity)
{
    bool contracts = count->upgrade->phase == UPGRADE_CONTRACT;

    switch (upgrade_version(count->upgrade, entity, NULL)) {
    case UPGRADE_AT_FROM:
        count->below += contracts;
        if (!contracts)
            count_due(count, entity);
        break;
    case UPGRADE_AT_TO:
        if (contracts)
            count_due(count, entity);
        else if (upgrade_holds(count->upgrade, entity) >= 0)
            count->held++;
        break;
    case UPGRADE_BEFORE:
        count->below++;
        break;
    case UPGRADE_OTHER:
        count->other++;
        break;
    }
}

static enum tw_err count_page(
    struct count *count, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&count->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        const struct entity *entity = &page->entities[i];

        if (!selection_matches(&count->selection, entity))
            continue;
        count_entity(count, entity);
        arena_clear(&count->scratch);
        outcome = census_add(count->census, entity, err);
    }
    return outcome;
}

static enum tw_err count_all(struct count *count, struct err *err)
{
    struct scan_spec spec = {.store = count->store,
        .table = count->upgrade->place.table,
        .run = count->run};
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    selection_spec_sure(&count->selection, &count->estimate->arena, &spec);
    scan = scan_open(count->run->lanes, &spec);
    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_OK && page)
            outcome = count_page(count, page, err);
    } while (outcome == TW_OK && page);
    count->counting.shown->pages = (int64_t)scan_pages(scan);
    scan_close(scan);
    return outcome;
}

/* ---- what is said of it ---- */

static void add_steps(const struct count *count, struct buf *to)
{
    for (size_t i = 0; i < count->upgrade->step_count; i++) {
        const struct upgrade_step *step = &count->upgrade->steps[i];

        buf_add_format(to, "step %zu, %s %.*s: changes %lld\n", i + 1,
            upgrade_step_name(step->type), SLICE_ARG(step->property),
            (long long)count->steps.carried_out[i]);
    }
}

static void add_number(struct buf *to, int64_t number, const char *of_which)
{
    if (number > 0)
        buf_add_format(to, "%s: %lld\n", of_which, (long long)number);
}

static void add_details(const struct count *count, struct buf *to)
{
    bool contracts = count->upgrade->phase == UPGRADE_CONTRACT;

    buf_add_format(to, "entities by version (%.*s):\n",
        SLICE_ARG(count->upgrade->version));
    census_add_versions(count->census, to);
    add_steps(count, to);
    add_number(to, count->below,
        contracts ? "below the version to be contracted, so it would refuse"
                  : "waiting for an earlier upgrade");
    add_number(to, count->other, "at other versions, left alone");
    add_number(to, count->held,
        "at the new version, and yet with what a step takes away");
    add_number(to, count->skipped, "would be skipped");
    add_number(to, count->failed_count, "would fail");
    buf_add_slice(to, buf_slice(&count->failed));
}

/* Reading it once more is what shows that nothing is left. */
static void set_sums(struct count *count)
{
    const struct job_estimate_table *shown = count->counting.shown;
    int64_t passes = shown->batches > 0 ? 2 : 1;

    count->estimate->transactions = shown->pages * passes + shown->batches;
    count->estimate->read = atomic_load(&count->run->counts.read) * passes;
}

static void finish(struct count *count)
{
    struct job_estimate *estimate = count->estimate;
    struct buf details;

    buf_init(&details, DETAILS_MAX_BYTES);
    add_details(count, &details);
    if (details.len > 0 && buf_text(&details)[details.len - 1] == '\n')
        details.len--;
    estimate->details = arena_copy(&estimate->arena, buf_slice(&details)).at;
    set_sums(count);
    buf_done(&details);
}

enum tw_err upgrade_count(const struct upgrade *upgrade, struct store *store,
    struct run *run, struct job_estimate *ret, struct err *err)
{
    struct count count = {
        .upgrade = upgrade, .store = store, .run = run, .estimate = ret};
    enum tw_err outcome;

    *ret = (struct job_estimate){.table_count = 1};
    arena_init(&ret->arena);
    arena_init(&count.scratch);
    buf_init(&count.failed, DETAILS_MAX_BYTES / 2);
    count.census = census_new(upgrade->version);
    ret->tables = arena_alloc(&ret->arena, sizeof(*ret->tables));
    ret->tables[0].table = upgrade->place.table;
    ret->tables[0].table_scan = true;
    counting_begin(&count.counting, ret->tables, &ret->arena,
        store->traits.batch_max_bytes);
    outcome = upgrade_rules_select(
        upgrade, &run->args, &ret->arena, &count.selection, err);
    if (outcome == TW_OK)
        outcome = count_all(&count, err);
    if (outcome == TW_OK)
        finish(&count);
    census_free(count.census);
    buf_done(&count.failed);
    arena_done(&count.scratch);
    return outcome;
}
