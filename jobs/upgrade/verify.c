/* SPDX-License-Identifier: MIT */
/*
 * `verify` of an upgrade reads the table twice. The first reading remembers
 * which entities differ. The second reading reports those of them that still
 * differ. So an entity that a run converts between the two readings is not
 * reported.
 */
#include "jobs/upgrade/verify.h"

#include <inttypes.h>

#include "jobs/engine/bloom_filter.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/selector.h"
#include "jobs/index_row.h"
#include "jobs/upgrade/steps.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define FIRST_KEYS                                                             \
    (sizeof(((struct job_difference *)0)->first_keys) / sizeof(char *))

enum difference {
    BELOW,    /* entity is at an older version */
    DIFFERS,  /* entity is at the newest version, but a run would change it */
    REFUSED,  /* entity is at the newest version, but a step fails for it */
    LEFTOVER, /* entity is at the newest version, and has a property that an
                 older version removed or retyped */
    DIFFERENCES,
    NONE = DIFFERENCES,
};

static const char *const WHAT[] = {
    [BELOW] = "entities below the newest version",
    [DIFFERS] = "entities at the newest version that a run would change",
    [REFUSED] = "entities at the newest version for which a step fails",
    [LEFTOVER] =
        ("entities at the newest version with a property that an older "
         "version removed or retyped"),
};

struct verify {
    const struct upgrade *upgrade;
    struct upgrade_how how;
    struct store *store;
    struct run *run;
    struct selection selection;
    struct bloom_filter *found; /* differing entities of the first reading */
    bool confirms;              /* this is the second reading */
    int64_t differing; /* number of differing entities in this reading */
    int64_t skipped, outside;
    struct job_verification *ret;
    struct arena scratch; /* memory of one entity */
};

/* ---- one entity ---- */

/* Returns how entity differs. A skipped entity is no difference, because a run
 * leaves it unchanged. */
static enum difference judge(struct verify *verify, const struct entity *entity)
{
    struct upgrade_result result;
    struct err why;
    int64_t version;

    switch (
        upgrade_apply(&verify->how, entity, &verify->scratch, &result, &why)) {
    case UPGRADE_CHANGED:
        return result.is_below ? BELOW : DIFFERS;
    case UPGRADE_FAILED:
        return result.is_below ? BELOW : REFUSED;
    case UPGRADE_UNCHANGED:
        return upgrade_leftover(verify->upgrade, entity, &version) ? LEFTOVER
                                                                   : NONE;
    case UPGRADE_SKIPPED:
        verify->skipped++;
        break;
    case UPGRADE_OUTSIDE:
        verify->outside++;
        break;
    }
    return NONE;
}

static void report(
    struct verify *verify, enum difference what, const struct entity *entity)
{
    struct job_difference *difference = &verify->ret->differences[what];
    struct buf key;

    if (difference->count < (int64_t)FIRST_KEYS) {
        buf_init(&key, 8 * ENTITY_MAX_KEY_BYTES);
        buf_add_format(&key, "%s ", verify->upgrade->table_ref.table);
        entity_add_keys(&key, entity->partition_key, entity->row_key);
        difference->first_keys[difference->count] =
            arena_copy(&verify->ret->arena, buf_slice(&key)).at;
        buf_done(&key);
    }
    difference->count++;
}

static void check_entity(struct verify *verify, const struct entity *entity)
{
    enum difference what = judge(verify, entity);

    if (what == NONE)
        return;
    verify->differing++;
    if (!verify->confirms)
        bloom_filter_add(
            verify->found, 0, entity->partition_key, entity->row_key);
    else if (bloom_filter_has(
                 verify->found, 0, entity->partition_key, entity->row_key))
        report(verify, what, entity);
}

/* ---- a reading ---- */

static void check_page(struct verify *verify, const struct page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct entity *entity = &page->entities[i];

        if (!selection_matches(&verify->selection, entity) ||
            is_index_row(entity, verify->upgrade->table_ref.table))
            continue;
        verify->ret->read += !verify->confirms;
        check_entity(verify, entity);
        arena_clear(&verify->scratch);
    }
}

static enum tw_err read_all(struct verify *verify, struct err *err)
{
    struct scan_spec spec = {.store = verify->store,
        .table = verify->upgrade->table_ref.table,
        .run = verify->run};
    const struct page *page;
    struct scan *scan;
    enum tw_err outcome;

    verify->differing = verify->skipped = verify->outside = 0;
    selection_spec_sure(&verify->selection, &verify->ret->arena, &spec);
    scan = scan_open(verify->run->pool_client, &spec);
    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_OK && page) {
            atomic_fetch_add(&verify->run->counts.read, (int64_t)page->count);
            check_page(verify, page);
        }
    } while (outcome == TW_OK && page);
    scan_close(scan);
    return outcome;
}

static enum tw_err read_twice(struct verify *verify, struct err *err)
{
    enum tw_err outcome = read_all(verify, err);

    if (outcome != TW_OK || verify->differing == 0)
        return outcome;
    verify->confirms = true;
    return read_all(verify, err);
}

/* ---- the report ---- */

static void add_note(struct verify *verify)
{
    if (verify->skipped == 0 && verify->outside == 0)
        return;
    verify->ret->note = arena_format(&verify->ret->arena,
        "entities left below the newest version because of `on_error: skip`: "
        "%" PRId64
        "; entities at versions that `versions:` does not contain: %" PRId64,
        verify->skipped, verify->outside)
                            .at;
}

static void begin(struct verify *verify)
{
    struct job_verification *ret = verify->ret;

    ret->count = DIFFERENCES;
    arena_init(&verify->scratch);
    ret->differences =
        arena_alloc(&ret->arena, DIFFERENCES * sizeof(*ret->differences));
    for (size_t i = 0; i < DIFFERENCES; i++)
        ret->differences[i].what = WHAT[i];
    verify->found = bloom_filter_new();
}

enum tw_err upgrade_verify(const struct upgrade *upgrade, struct store *store,
    struct run *run, struct job_verification *ret, struct err *err)
{
    struct verify verify = {.upgrade = upgrade,
        .how = {.upgrade = upgrade,
            .phase = upgrade_rules_phase(&run->args),
            .args = &run->args},
        .store = store,
        .run = run,
        .ret = ret};
    enum tw_err outcome;

    begin(&verify);
    outcome = selection_of_run(
        &upgrade->selector, &run->args, &ret->arena, &verify.selection, err);
    if (outcome == TW_OK)
        outcome = read_twice(&verify, err);
    if (outcome == TW_OK)
        add_note(&verify);
    bloom_filter_free(verify.found);
    arena_done(&verify.scratch);
    return outcome;
}
