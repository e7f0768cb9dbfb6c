/* SPDX-License-Identifier: MIT */
/* Counts, without writing, what the steps would change in each entity. */
#include "jobs/upgrade/count.h"

#include <inttypes.h>

#include "jobs/counting.h"
#include "jobs/engine/profile.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/index_row.h"
#include "jobs/upgrade/applied.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define FIRST_FAILED 10
#define DETAILS_MAX_BYTES (1024 * 1024)

/* Number of bytes that a batch request adds to each entity. */
#define OPERATION_BYTES 512

struct count {
    const struct upgrade *upgrade;
    struct upgrade_how how;
    struct store *store;
    struct run *run;
    struct job_estimate *estimate;
    struct selection selection;
    struct profile *profile;
    struct counting counting;
    struct upgrade_tally one, all; /* one: counts of one entity; all: sums of
                                      the counts of all changed entities */
    struct arena scratch;          /* memory of one entity */
    struct buf failed;             /* lines about the first failed entities */
    int64_t outside, leftover, skipped, failed_count;
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

/* Add the counts of one entity to the sums, if the entity is changed; reset the
 * counts. */
static void take_tally(struct count *count, bool changed)
{
    for (size_t v = 0; v < count->upgrade->version_count; v++)
        for (size_t i = 0; i < UPGRADE_MAX_STEPS; i++) {
            if (changed)
                count->all.counts[v][i] += count->one.counts[v][i];
            count->one.counts[v][i] = 0;
        }
}

static void count_entity(struct count *count, const struct entity *entity)
{
    struct upgrade_result result;
    struct err why;
    enum upgrade_outcome outcome =
        upgrade_apply(&count->how, entity, &count->scratch, &result, &why);
    int64_t version;

    switch (outcome) {
    case UPGRADE_CHANGED:
        counting_add(&count->counting, &result.entity,
            entity_json_bytes(&result.entity) + OPERATION_BYTES);
        break;
    case UPGRADE_UNCHANGED:
        count->leftover +=
            upgrade_leftover(count->upgrade, entity, &version) != NULL;
        break;
    case UPGRADE_OUTSIDE:
        count->outside++;
        break;
    case UPGRADE_SKIPPED:
        count->skipped++;
        break;
    case UPGRADE_FAILED:
        note_failed(count, entity, why.text);
        break;
    }
    take_tally(count, outcome == UPGRADE_CHANGED);
}

static enum tw_err count_page(
    struct count *count, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    atomic_fetch_add(&count->run->counts.read, (int64_t)page->count);
    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        const struct entity *entity = &page->entities[i];

        if (!selection_matches(&count->selection, entity) ||
            is_index_row(entity, count->upgrade->table_ref.table))
            continue;
        count_entity(count, entity);
        arena_clear(&count->scratch);
        outcome = profile_add(count->profile, entity, err);
    }
    return outcome;
}

static enum tw_err count_all(struct count *count, struct err *err)
{
    struct scan_spec spec = {.store = count->store,
        .table = count->upgrade->table_ref.table,
        .run = count->run};
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    selection_spec_sure(&count->selection, &count->estimate->arena, &spec);
    scan = scan_open(count->run->pool_client, &spec);
    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_OK && page)
            outcome = count_page(count, page, err);
    } while (outcome == TW_OK && page);
    count->counting.shown->pages = (int64_t)scan_pages(scan);
    scan_close(scan);
    return outcome;
}

/* ---- the details ---- */

static void add_steps(const struct count *count, struct buf *to)
{
    for (size_t v = 0; v < count->upgrade->version_count; v++)
        for (size_t i = 0; i < count->upgrade->versions[v].step_count; i++) {
            const struct upgrade_version *version =
                &count->upgrade->versions[v];
            const struct upgrade_step *step = &version->steps[i];

            buf_add_format(to, "version %" PRId64 ", %s %.*s: changes %lld\n",
                version->number, upgrade_step_name(step->type),
                SLICE_ARG(step->property), (long long)count->all.counts[v][i]);
        }
}

static void add_number(struct buf *to, int64_t number, const char *of_which)
{
    if (number > 0)
        buf_add_format(to, "%s: %lld\n", of_which, (long long)number);
}

static void add_details(const struct count *count, struct buf *to)
{
    buf_add_format(to, "entities by version (%.*s):\n",
        SLICE_ARG(count->upgrade->version));
    profile_add_versions(count->profile, to);
    buf_add_format(to, "phase %s:\n", upgrade_phase_name(count->how.phase));
    add_steps(count, to);
    add_number(to, count->outside,
        "at versions that `versions:` does not contain, unchanged");
    add_number(to, count->leftover,
        "at the newest version, with a property that a step of an older "
        "version removed or retyped, unchanged");
    add_number(to, count->skipped, "would be skipped");
    add_number(to, count->failed_count, "would fail");
    buf_add_slice(to, buf_slice(&count->failed));
}

static void finish(struct count *count)
{
    const struct job_estimate_table *shown = count->counting.shown;
    struct job_estimate *estimate = count->estimate;
    struct buf details;

    buf_init(&details, DETAILS_MAX_BYTES);
    add_details(count, &details);
    if (details.len > 0 && buf_text(&details)[details.len - 1] == '\n')
        details.len--;
    estimate->details = arena_copy(&estimate->arena, buf_slice(&details)).at;
    buf_done(&details);
    /* Assume two rounds, the minimum of a run. */
    estimate->transactions = shown->pages * 2 + shown->batches;
    estimate->read = atomic_load(&count->run->counts.read) * 2;
}

/* Find out whether the run would be refused because of what earlier runs have
 * stored beside the ledger (rules U8 and A2). */
static enum tw_err find_refusal(struct count *count, struct err *err)
{
    struct job_estimate *estimate = count->estimate;
    struct applied applied;
    enum tw_err outcome;

    if (!count->run->ledger)
        return TW_OK;
    applied_init(&applied, count->upgrade, count->store, count->run);
    outcome = applied_check(&applied, count->how.phase, err);
    if (outcome != TW_INVALID)
        return outcome;
    estimate->refused = arena_copy(&estimate->arena, slice_of(err->text)).at;
    return TW_OK;
}

enum tw_err upgrade_count(const struct upgrade *upgrade, struct store *store,
    struct run *run, struct job_estimate *ret, struct err *err)
{
    struct count count = {.upgrade = upgrade,
        .store = store,
        .run = run,
        .estimate = ret,
        .one.counts =
            mem_array(upgrade->version_count, sizeof(*count.one.counts)),
        .all.counts =
            mem_array(upgrade->version_count, sizeof(*count.all.counts))};
    enum tw_err outcome;

    count.how = (struct upgrade_how){.upgrade = upgrade,
        .phase = upgrade_rules_phase(&run->args),
        .args = &run->args,
        .tally = &count.one};

    ret->table_count = 1;
    arena_init(&count.scratch);
    buf_init(&count.failed, DETAILS_MAX_BYTES / 2);
    count.profile = profile_new(upgrade->version);
    ret->tables = arena_alloc(&ret->arena, sizeof(*ret->tables));
    ret->tables[0].table = upgrade->table_ref.table;
    ret->tables[0].table_scan = true;
    counting_begin(&count.counting, ret->tables, &ret->arena,
        store->capabilities.batch_max_bytes);
    outcome = selection_of_run(
        &upgrade->selector, &run->args, &ret->arena, &count.selection, err);
    if (outcome == TW_OK)
        outcome = find_refusal(&count, err);
    if (outcome == TW_OK)
        outcome = count_all(&count, err);
    if (outcome == TW_OK)
        finish(&count);
    mem_free(count.one.counts);
    mem_free(count.all.counts);
    profile_free(count.profile);
    buf_done(&count.failed);
    arena_done(&count.scratch);
    return outcome;
}
