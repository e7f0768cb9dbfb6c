/* SPDX-License-Identifier: MIT */
/* Digests of applied steps, stored beside the ledger. */
#include "jobs/upgrade/applied.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/call.h"
#include "jobs/engine/digest.h"
#include "jobs/engine/run.h"
#include "worker/base/arena.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

#define TRIES_MAX 10
#define ROW_KEY_MAX 64
/* Suffix of the RowKey of the row with the state of the expand. */
#define EXPAND_SUFFIX "expand"

/* A row of the partition `!steps`, as stored. */
struct row {
    char row_key[ROW_KEY_MAX];
    struct page page;
    const struct entity *entity; /* NULL: the row does not exist */
};

/* ---- names ---- */

/* Digest the table's name in lower case, because table names are
 * case-insensitive. */
static void digest_table(struct applied *applied)
{
    char *text = mem_format(
        "%s\n%s", applied->account, applied->upgrade->table_ref.table);
    struct digest digest;

    for (char *at = strchr(text, '\n'); *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at + 'a' - 'A');
    digest = digest_of(slice_of(text));
    digest_text(&digest, applied->table_digest);
    mem_free(text);
}

void applied_init(struct applied *applied, const struct upgrade *upgrade,
    const struct store *store, struct run *run)
{
    *applied = (struct applied){
        .upgrade = upgrade, .run = run, .account = store_account(store)};
    digest_table(applied);
}

/* ---- rows ---- */

static void row_init(struct row *row)
{
    row->entity = NULL;
    page_init(&row->page);
}

static void expand_row_init(struct row *row, const struct applied *applied)
{
    (void)snprintf(row->row_key, sizeof(row->row_key), "%s.%s",
        applied->table_digest, EXPAND_SUFFIX);
    row_init(row);
}

static void version_row_key(const struct applied *applied,
    const struct upgrade_version *version, char to[ROW_KEY_MAX])
{
    (void)snprintf(
        to, ROW_KEY_MAX, "%s.%" PRId64, applied->table_digest, version->number);
}

static void version_row_init(struct row *row, const struct applied *applied,
    const struct upgrade_version *version)
{
    version_row_key(applied, version, row->row_key);
    row_init(row);
}

static void row_done(struct row *row)
{
    page_done(&row->page);
}

static enum tw_err read_row(
    struct row *row, const struct applied *applied, struct err *err)
{
    struct run *run = applied->run;
    enum tw_err outcome = call_get(run->pool_client, run->ledger,
        run->ledger_table, slice_of(APPLIED_PARTITION), slice_of(row->row_key),
        &row->page, NULL, err);

    row->entity = outcome == TW_OK ? &row->page.entities[0] : NULL;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err write_row(const struct applied *applied,
    const struct operation *operation, struct err *err)
{
    struct run *run = applied->run;
    const struct batch batch = {run->ledger_table, operation, 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    enum tw_err outcome =
        call_batch(run->pool_client, run->ledger, &batch, result, NULL, err);

    mem_free(result);
    return outcome;
}

static struct operation row_operation(
    const struct row *row, const struct applied *applied, struct arena *arena)
{
    struct operation operation = {
        .type = row->entity ? OPERATION_REPLACE : OPERATION_INSERT};
    struct entity *entity = &operation.entity;

    entity_init(
        entity, arena, slice_of(APPLIED_PARTITION), slice_of(row->row_key));
    if (row->entity)
        entity->etag = row->entity->etag;
    entity_set_string(entity, arena, "Account", slice_of(applied->account));
    entity_set_string(
        entity, arena, "Table", slice_of(applied->upgrade->table_ref.table));
    entity_set_string(entity, arena, "Job", slice_of(applied->run->job));
    entity_set_string(entity, arena, "Run", slice_of(applied->run->id));
    return operation;
}

static struct slice text_of(
    const struct entity *entity, const char *name, struct arena *arena)
{
    const struct property *property = entity_find(entity, slice_of(name));
    struct slice text;

    return property && property_text(property, arena, &text) ? text
                                                             : slice_of("");
}

/* ---- the digests ---- */

static enum tw_err refuse_changed(const struct upgrade_version *version,
    const struct entity *stored, struct arena *arena, struct err *err)
{
    struct slice at = text_of(stored, "AppliedAt", arena),
                 job = text_of(stored, "Job", arena),
                 run = text_of(stored, "Run", arena);

    return err_fail(err, TW_INVALID,
        "the steps of version %" PRId64 " have changed since they were first "
        "applied (%.*s, run %.*s/%.*s): restore the old steps, and put the new "
        "ones into another version",
        version->number, SLICE_ARG(at), SLICE_ARG(job), SLICE_ARG(run));
}

/*
 * Compare `version:` of the job with the values in `stored`, the row of a
 * version. The values are the name of the version property, and the version of
 * an entity without this property (`absent`). If a run read another property as
 * the version, every entity would seem to be at the version `absent`, and the
 * run would carry out the steps again on values that applications have written
 * since. Rows that former versions of tableward wrote do not have these values.
 */
static enum tw_err check_where(const struct upgrade *upgrade,
    const struct entity *stored, struct arena *arena, struct err *err)
{
    const struct property *absent = entity_find(stored, slice_of("Absent"));
    struct slice name = text_of(stored, "VersionProperty", arena);
    int64_t was;

    if (name.len == 0 || !absent || !property_integer(absent, &was) ||
        (slice_equal(name, upgrade->version) && was == upgrade->absent))
        return TW_OK;
    return err_fail(err, TW_INVALID,
        "when steps were first applied to table %s, entities had their version "
        "in property %.*s, and entities without this property were at version "
        "%" PRId64 ": restore `version: {property: %.*s, absent: %" PRId64
        "}`, because otherwise applied steps would be carried out again",
        upgrade->table_ref.table, SLICE_ARG(name), was, SLICE_ARG(name), was);
}

/* Compare the digest of a stored row with the digest of its version's present
 * steps. */
static enum tw_err check_version(struct applied *applied, size_t index,
    const struct entity *stored, struct err *err)
{
    const struct upgrade_version *version = &applied->upgrade->versions[index];
    enum tw_err outcome = TW_OK;
    struct arena arena;

    arena_init(&arena);
    applied->known[index] =
        slice_is(text_of(stored, "Digest", &arena), version->digest);
    if (!applied->known[index])
        outcome = refuse_changed(version, stored, &arena, err);
    else
        outcome = check_where(applied->upgrade, stored, &arena, err);
    arena_done(&arena);
    return outcome;
}

/* Would entities miss the steps of the stored version `number`, because the
 * document does not contain this version? Entities below the version would be
 * upgraded past it, and entities at the version would stay there. False in two
 * cases: the version is above the newest version of the document, because a
 * newer configuration has applied it; or it is below the first version that
 * entities can have. */
static bool is_left_out(const struct upgrade *upgrade, int64_t number)
{
    int64_t first = upgrade->versions[0].number;

    return number < upgrade_rules_newest(upgrade) &&
           number > (first < upgrade->absent ? first : upgrade->absent);
}

static enum tw_err refuse_left_out(
    int64_t number, const struct entity *stored, struct err *err)
{
    struct arena arena;

    arena_init(&arena);
    err_fail(err, TW_INVALID,
        "`versions:` does not contain version %" PRId64 ", whose steps were "
        "applied (%.*s, run %.*s/%.*s): restore this version, because entities "
        "at a lower version would not get these steps, and entities that have "
        "them would stay at version %" PRId64,
        number, SLICE_ARG(text_of(stored, "AppliedAt", &arena)),
        SLICE_ARG(text_of(stored, "Job", &arena)),
        SLICE_ARG(text_of(stored, "Run", &arena)), number);
    arena_done(&arena);
    return TW_INVALID;
}

static enum tw_err check_row(
    struct applied *applied, const struct entity *stored, struct err *err)
{
    const struct upgrade *upgrade = applied->upgrade;
    const struct property *version = entity_find(stored, slice_of("Version"));
    int64_t number;

    for (size_t i = 0; i < upgrade->version_count; i++) {
        char row_key[ROW_KEY_MAX];

        version_row_key(applied, &upgrade->versions[i], row_key);
        if (slice_is(stored->row_key, row_key))
            return check_version(applied, i, stored, err);
    }
    /* The row with the state of the expand has no digest. */
    if (!entity_find(stored, slice_of("Digest")) || !version ||
        !property_integer(version, &number) || !is_left_out(upgrade, number))
        return TW_OK;
    return refuse_left_out(number, stored, err);
}

/* Check the rows of all versions of the table, also of those that the document
 * does not contain. */
static enum tw_err check_steps(struct applied *applied, struct err *err)
{
    struct run *run = applied->run;
    struct scan_request request = {.table = run->ledger_table,
        .partition_key = key_range_exact(slice_of(APPLIED_PARTITION))};
    struct slice prefix = slice_of(applied->table_digest);
    enum tw_err outcome;
    struct arena arena;
    struct page page;

    arena_init(&arena);
    page_init(&page);
    request.row_key = key_range_prefix(prefix, &arena);
    do {
        request.from = page.next;
        outcome =
            call_scan(run->pool_client, run->ledger, &request, &page, err);
        for (size_t i = 0; outcome == TW_OK && i < page.count; i++)
            if (slice_begins(page.entities[i].row_key, prefix))
                outcome = check_row(applied, &page.entities[i], err);
    } while (outcome == TW_OK && page.next.more);
    page_done(&page);
    arena_done(&arena);
    /* Before the first run there is no ledger. */
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err insert_digest(const struct applied *applied,
    const struct upgrade_version *version, const struct row *row,
    struct err *err)
{
    struct operation operation;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    operation = row_operation(row, applied, &arena);
    entity_set_int64(&operation.entity, &arena, "Version", version->number);
    entity_set_string(
        &operation.entity, &arena, "Digest", slice_of(version->digest));
    entity_set_string(&operation.entity, &arena, "VersionProperty",
        applied->upgrade->version);
    entity_set_int64(
        &operation.entity, &arena, "Absent", applied->upgrade->absent);
    entity_set_datetime(
        &operation.entity, &arena, "AppliedAt", platform_wall_ticks());
    outcome = write_row(applied, &operation, err);
    arena_done(&arena);
    return outcome;
}

/* Insert the row with the digest of a version, unless it exists. After a
 * conflict or an unknown outcome of the insert, the row is read again. */
static enum tw_err note_version(
    struct applied *applied, size_t index, struct err *err)
{
    const struct upgrade_version *version = &applied->upgrade->versions[index];
    enum tw_err outcome = TW_UNKNOWN;

    for (int i = 0; i < TRIES_MAX && !applied->known[index]; i++) {
        struct row row;

        version_row_init(&row, applied, version);
        outcome = read_row(&row, applied, err);
        if (outcome == TW_OK && row.entity)
            outcome = check_version(applied, index, row.entity, err);
        else if (outcome == TW_OK)
            outcome = insert_digest(applied, version, &row, err);
        applied->known[index] |= outcome == TW_OK;
        row_done(&row);
        if (outcome != TW_OK && outcome != TW_CONFLICT && outcome != TW_UNKNOWN)
            return outcome;
    }
    return applied->known[index] ? TW_OK : outcome;
}

enum tw_err applied_note(struct applied *applied, size_t first, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = first;
         outcome == TW_OK && i < applied->upgrade->version_count; i++)
        if (!applied->known[i])
            outcome = note_version(applied, i, err);
    return outcome;
}

/* ---- the state of the expand ---- */

static enum tw_err write_expand(const struct applied *applied,
    const struct row *row, int64_t behind, struct err *err)
{
    struct operation operation;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    operation = row_operation(row, applied, &arena);
    entity_set_int64(&operation.entity, &arena, "Version",
        upgrade_rules_newest(applied->upgrade));
    entity_set_int64(&operation.entity, &arena, "Behind", behind);
    outcome = write_row(applied, &operation, err);
    arena_done(&arena);
    return outcome;
}

/* Writes the row with the state of the expand. Only the run that has the
 * table's lock writes this row. */
enum tw_err applied_note_expand(
    struct applied *applied, int64_t behind, struct err *err)
{
    enum tw_err outcome = TW_UNKNOWN;

    for (int i = 0; i < TRIES_MAX; i++) {
        struct row row;

        expand_row_init(&row, applied);
        outcome = read_row(&row, applied, err);
        if (outcome == TW_OK)
            outcome = write_expand(applied, &row, behind, err);
        row_done(&row);
        if (outcome != TW_CONFLICT && outcome != TW_UNKNOWN)
            break;
    }
    return outcome;
}

static bool is_newest(const struct applied *applied, const struct entity *row)
{
    const struct property *version = entity_find(row, slice_of("Version"));
    int64_t number;

    return version && property_integer(version, &number) &&
           number == upgrade_rules_newest(applied->upgrade);
}

static enum tw_err check_behind(
    const struct applied *applied, const struct entity *row, struct err *err)
{
    const struct property *property = entity_find(row, slice_of("Behind"));
    struct arena arena;
    int64_t behind;
    char *run;

    if (!is_newest(applied, row) || !property ||
        !property_integer(property, &behind) || behind == 0)
        return TW_OK;
    arena_init(&arena);
    run = mem_format("%.*s/%.*s", SLICE_ARG(text_of(row, "Job", &arena)),
        SLICE_ARG(text_of(row, "Run", &arena)));
    if (behind < 0)
        err_fail(err, TW_INVALID,
            "run %s (phase=expand) has not ended: let it end before you run "
            "phase=contract",
            run);
    else
        err_fail(err, TW_INVALID,
            "run %s (phase=expand) ended with %" PRId64
            " entit%s written during its last round and not converted "
            "(Behind): stop the writers of the old release and run "
            "phase=expand again before you run phase=contract",
            run, behind, behind == 1 ? "y" : "ies");
    mem_free(run);
    arena_done(&arena);
    return TW_INVALID;
}

static enum tw_err check_expand(struct applied *applied, struct err *err)
{
    struct row row;
    enum tw_err outcome;

    expand_row_init(&row, applied);
    outcome = read_row(&row, applied, err);
    if (outcome == TW_OK && row.entity)
        outcome = check_behind(applied, row.entity, err);
    row_done(&row);
    return outcome;
}

/* ---- the check before a run ---- */

enum tw_err applied_check(
    struct applied *applied, enum upgrade_phase phase, struct err *err)
{
    enum tw_err outcome = check_steps(applied, err);

    if (outcome == TW_OK && phase == UPGRADE_CONTRACT)
        outcome = check_expand(applied, err);
    return outcome;
}
