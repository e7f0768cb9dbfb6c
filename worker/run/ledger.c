/* SPDX-License-Identifier: MIT */
/* Each run's state, progress and checkpoint: from entities and back. */
#include "worker/run/ledger.h"

#include <assert.h>
#include <stddef.h>

#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* ---- states ---- */

static const char *const state_names[] = {
    [LEDGER_QUEUED] = "queued",
    [LEDGER_RUNNING] = "running",
    [LEDGER_WAITING] = "waiting",
    [LEDGER_SUCCEEDED] = "succeeded",
    [LEDGER_FAILED] = "failed",
    [LEDGER_POISONED] = "poisoned",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_DAMAGED] = "damaged",
};
#define STORED_STATE_COUNT LEDGER_DAMAGED

#define TO(state) (1u << (state))

/* Where a run may go from each state; to stay is always allowed. */
static const unsigned state_moves[] = {
    [LEDGER_QUEUED] =
        TO(LEDGER_RUNNING) | TO(LEDGER_POISONED) | TO(LEDGER_CANCELLED),
    [LEDGER_RUNNING] = TO(LEDGER_QUEUED) | TO(LEDGER_WAITING) |
                       TO(LEDGER_SUCCEEDED) | TO(LEDGER_FAILED) |
                       TO(LEDGER_POISONED) | TO(LEDGER_CANCELLED),
    [LEDGER_WAITING] =
        TO(LEDGER_RUNNING) | TO(LEDGER_POISONED) | TO(LEDGER_CANCELLED),
    [LEDGER_SUCCEEDED] = 0,
    [LEDGER_FAILED] = TO(LEDGER_QUEUED) | TO(LEDGER_CANCELLED),
    [LEDGER_POISONED] = TO(LEDGER_QUEUED) | TO(LEDGER_CANCELLED),
    [LEDGER_CANCELLED] = 0,
    [LEDGER_DAMAGED] = 0,
};

const char *ledger_state_name(enum ledger_state state)
{
    return state_names[state];
}

bool ledger_state_named(struct slice name, enum ledger_state *ret)
{
    for (size_t i = 0; i < STORED_STATE_COUNT; i++) {
        if (slice_is(name, state_names[i])) {
            *ret = (enum ledger_state)i;
            return true;
        }
    }
    return false;
}

bool ledger_state_ended(enum ledger_state state)
{
    return state >= LEDGER_SUCCEEDED && state <= LEDGER_CANCELLED;
}

bool ledger_move(struct ledger_run *run, enum ledger_state to)
{
    if (run->state != to && !(state_moves[run->state] & TO(to)))
        return false;
    run->state = to;
    return true;
}

/* ---- fields ---- */

enum field_type {
    FIELD_STRING,
    FIELD_SPARSE,
    FIELD_INT32,
    FIELD_INT64,
    FIELD_TIME
};

struct field {
    const char *name;
    enum field_type type; /* SPARSE: a string, absent when empty; TIME: absent
                             when 0 */
    size_t offset;
};

#define FIELD(name, type, member)                                              \
    {                                                                          \
        name, type, offsetof(struct ledger_run, member)                        \
    }

/* All but State, in the order in which they are stored. */
static const struct field fields[] = {
    FIELD("Kind", FIELD_STRING, kind),
    FIELD("Args", FIELD_STRING, args),
    FIELD("Queue", FIELD_STRING, queue),
    FIELD("Worker", FIELD_STRING, worker),
    FIELD("Owner", FIELD_STRING, owner),
    FIELD("Phase", FIELD_STRING, phase),
    FIELD("Checkpoint", FIELD_STRING, checkpoint),
    FIELD("Error", FIELD_STRING, error),
    FIELD("FailedEntities", FIELD_SPARSE, failed_entities),
    FIELD("Definition", FIELD_SPARSE, definition),
    FIELD("Traceparent", FIELD_SPARSE, traceparent),
    FIELD("PoisonId", FIELD_SPARSE, poison_id),
    FIELD("PoisonReceipt", FIELD_SPARSE, poison_receipt),
    FIELD("Attempt", FIELD_INT32, attempt),
    FIELD("Failures", FIELD_INT32, failures),
    FIELD("Passes", FIELD_INT32, passes),
    FIELD("Epoch", FIELD_INT32, epoch),
    FIELD("Silent", FIELD_INT32, silent),
    FIELD("EntitiesRead", FIELD_INT64, read),
    FIELD("EntitiesWritten", FIELD_INT64, written),
    FIELD("EntitiesDeleted", FIELD_INT64, deleted),
    FIELD("EntitiesSkipped", FIELD_INT64, skipped),
    FIELD("EntitiesFailed", FIELD_INT64, failed),
    FIELD("Transactions", FIELD_INT64, transactions),
    FIELD("RequestedAt", FIELD_TIME, requested_ticks),
    FIELD("StartedAt", FIELD_TIME, started_ticks),
    FIELD("UpdatedAt", FIELD_TIME, updated_ticks),
    FIELD("LeaseUntil", FIELD_TIME, lease_until_ticks),
    FIELD("ResumesAt", FIELD_TIME, resumes_ticks),
    FIELD("FinishedAt", FIELD_TIME, finished_ticks),
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* For a slice, an int32_t or an int64_t, as the field's type says. */
static void *field_at(struct ledger_run *run, const struct field *field)
{
    return (char *)run + field->offset;
}

static const void *field_of(
    const struct ledger_run *run, const struct field *field)
{
    return (const char *)run + field->offset;
}

static const struct field *field_named(struct slice name)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (slice_is(name, fields[i].name))
            return &fields[i];
    return NULL;
}

/* ---- a run ---- */

void ledger_run_init(struct ledger_run *run)
{
    *run = (struct ledger_run){0};
    arena_init(&run->arena);
}

void ledger_run_done(struct ledger_run *run)
{
    arena_done(&run->arena);
    ledger_run_init(run);
}

struct slice ledger_text(struct ledger_run *run, struct slice text)
{
    return text.len ? arena_copy(&run->arena, text) : (struct slice){0};
}

static void copy_property(
    struct arena *arena, struct property *to, const struct property *from)
{
    to->type = from->type;
    to->name = arena_copy(arena, from->name);
    to->json = arena_copy(arena, from->json);
}

/* Make all that run refers to its own. */
static void own_texts(struct ledger_run *run)
{
    struct property *others = run->others;

    run->job = ledger_text(run, run->job);
    run->id = ledger_text(run, run->id);
    run->etag = ledger_text(run, run->etag);
    run->marker_etag = ledger_text(run, run->marker_etag);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        struct slice *text = field_at(run, &fields[i]);

        if (fields[i].type == FIELD_STRING || fields[i].type == FIELD_SPARSE)
            *text = ledger_text(run, *text);
    }
    if (run->other_count == 0)
        return;
    run->others =
        arena_alloc(&run->arena, run->other_count * sizeof(*run->others));
    for (size_t i = 0; i < run->other_count; i++)
        copy_property(&run->arena, &run->others[i], &others[i]);
}

void ledger_copy(struct ledger_run *to, const struct ledger_run *from)
{
    struct ledger_run copy = *from;

    assert(to != from);
    arena_init(&copy.arena);
    own_texts(&copy);
    arena_done(&to->arena);
    *to = copy;
}

void ledger_take_others(struct ledger_run *to, const struct ledger_run *from)
{
    to->etag = ledger_text(to, from->etag);
    to->other_count = from->other_count;
    to->others =
        arena_alloc(&to->arena, (from->other_count + 1) * sizeof(*to->others));
    for (size_t i = 0; i < from->other_count; i++)
        copy_property(&to->arena, &to->others[i], &from->others[i]);
}

void ledger_compact(struct ledger_run *run)
{
    struct arena old = run->arena;

    arena_init(&run->arena);
    own_texts(run);
    arena_done(&old);
}

void ledger_set_error(struct ledger_run *run, const char *error)
{
    run->error =
        ledger_text(run, text_cut(slice_of(error), LEDGER_MAX_ERROR_BYTES));
}

/* ---- from an entity ---- */

static bool take_text(
    struct ledger_run *run, const struct property *property, struct slice *to)
{
    if (property->type != EDM_STRING)
        return false;
    return property_text(property, &run->arena, to);
}

static bool take_field(struct ledger_run *run, const struct field *field,
    const struct property *property)
{
    void *at = field_at(run, field);

    switch (field->type) {
    case FIELD_STRING:
    case FIELD_SPARSE:
        return take_text(run, property, at);
    case FIELD_INT32:
        return property_int32(property, at);
    case FIELD_INT64:
        return property_int64(property, at);
    case FIELD_TIME:
        return property_ticks(property, at);
    }
    return false;
}

static bool take_state(struct ledger_run *run, const struct property *property)
{
    struct slice name;

    return take_text(run, property, &name) &&
           ledger_state_named(name, &run->state);
}

/* Its keys are others' texts: they are shown, not repeated. */
static enum tw_err cannot_read(const struct entity *entity,
    const struct property *property, struct err *err)
{
    struct buf keys;

    buf_init(&keys, sizeof(err->text));
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    if (property)
        err_fail(err, TW_INVALID, "the ledger's %.*s of run %s cannot be read",
            SLICE_ARG(property->name), buf_text(&keys));
    else
        err_fail(err, TW_INVALID, "the ledger's entity %s has no State",
            buf_text(&keys));
    buf_done(&keys);
    return TW_INVALID;
}

static enum tw_err take_properties(
    const struct entity *entity, struct ledger_run *run, struct err *err)
{
    bool has_state = false;

    run->others = arena_alloc(
        &run->arena, (entity->property_count + 1) * sizeof(*run->others));
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        const struct field *field = field_named(property->name);
        bool is_state = slice_is(property->name, "State");

        if (is_state ? !take_state(run, property)
                     : field && !take_field(run, field, property))
            return cannot_read(entity, property, err);
        has_state = has_state || is_state;
        if (!is_state && !field)
            copy_property(
                &run->arena, &run->others[run->other_count++], property);
    }
    return has_state ? TW_OK : cannot_read(entity, NULL, err);
}

enum tw_err ledger_parse(
    const struct entity *entity, struct ledger_run *ret, struct err *err)
{
    struct ledger_run run;
    enum tw_err outcome;

    ledger_run_init(&run);
    run.job = ledger_text(&run, entity->partition_key);
    run.id = ledger_text(&run, entity->row_key);
    run.etag = ledger_text(&run, entity->etag);
    outcome = take_properties(entity, &run, err);
    if (outcome != TW_OK) {
        ledger_run_done(&run);
        return outcome;
    }
    ledger_run_done(ret);
    *ret = run;
    return TW_OK;
}

void ledger_parse_any(const struct entity *entity, struct ledger_run *ret)
{
    struct err err;

    if (ledger_parse(entity, ret, &err) == TW_OK)
        return;
    ledger_run_done(ret);
    ret->job = ledger_text(ret, entity->partition_key);
    ret->id = ledger_text(ret, entity->row_key);
    ret->state = LEDGER_DAMAGED;
    ledger_set_error(ret, err.text);
}

/* ---- to an entity ---- */

/* A text that is not UTF-8 would be refused, and with it the run's end. */
static void put_text(struct arena *arena, struct entity *entity,
    const char *name, struct slice text)
{
    struct buf repaired;

    if (text_is_utf8(text)) {
        entity_set_string(entity, arena, name, text);
        return;
    }
    buf_init(&repaired, 4 * text.len);
    text_repair(&repaired, text);
    entity_set_string(entity, arena, name, buf_slice(&repaired));
    buf_done(&repaired);
}

static void put_field(const struct ledger_run *run, const struct field *field,
    struct arena *arena, struct entity *entity)
{
    const void *at = field_of(run, field);
    const struct slice *text = at;
    const int64_t *number = at;

    switch (field->type) {
    case FIELD_SPARSE:
        if (text->len > 0)
            put_text(arena, entity, field->name, *text);
        return;
    case FIELD_STRING:
        put_text(arena, entity, field->name, *text);
        return;
    case FIELD_INT32:
        entity_set_int32(entity, arena, field->name, *(const int32_t *)at);
        return;
    case FIELD_INT64:
        entity_set_int64(entity, arena, field->name, *number);
        return;
    case FIELD_TIME:
        if (*number != 0)
            entity_set_datetime(entity, arena, field->name, *number);
        return;
    }
}

void ledger_entity(
    const struct ledger_run *run, struct arena *arena, struct entity *ret)
{
    entity_init(ret, arena, run->job, run->id);
    ret->etag = run->etag;
    entity_set_string(
        ret, arena, "State", slice_of(ledger_state_name(run->state)));
    for (size_t i = 0; i < FIELD_COUNT; i++)
        put_field(run, &fields[i], arena, ret);
    for (size_t i = 0; i < run->other_count; i++)
        entity_set(ret, arena, &run->others[i]);
}

static void add_json_name(struct buf *to, const char *name)
{
    buf_add_char(to, ',');
    json_add_string(to, slice_of(name));
    buf_add_char(to, ':');
}

static void add_json_field(
    const struct ledger_run *run, const struct field *field, struct buf *to)
{
    const void *at = field_of(run, field);
    const struct slice *text = at;
    char time[TEXT_TIME_MAX];

    if (field->type == FIELD_SPARSE && text->len == 0)
        return;
    if (field->type == FIELD_TIME && *(const int64_t *)at == 0)
        return;
    add_json_name(to, field->name);
    switch (field->type) {
    case FIELD_STRING:
    case FIELD_SPARSE:
        json_add_string(to, *text);
        return;
    case FIELD_INT32:
        buf_add_format(to, "%d", (int)*(const int32_t *)at);
        return;
    case FIELD_INT64:
        buf_add_format(to, "%lld", (long long)*(const int64_t *)at);
        return;
    case FIELD_TIME:
        (void)text_from_ticks(*(const int64_t *)at, time);
        json_add_string(to, slice_of(time));
        return;
    }
}

void ledger_add_json(const struct ledger_run *run, struct buf *to)
{
    buf_add_text(to, "{\"Job\":");
    json_add_string(to, run->job);
    add_json_name(to, "Id");
    json_add_string(to, run->id);
    add_json_name(to, "State");
    json_add_string(to, slice_of(ledger_state_name(run->state)));
    for (size_t i = 0; i < FIELD_COUNT; i++)
        add_json_field(run, &fields[i], to);
    buf_add_char(to, '}');
}

/* ---- requests ---- */

enum tw_err ledger_create(struct store *store, struct attempt *attempt)
{
    return store_create_table(store, attempt, LEDGER_TABLE);
}

enum tw_err ledger_get(struct store *store, struct attempt *attempt,
    struct slice job, struct slice id, struct ledger_run *ret)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(store, attempt, LEDGER_TABLE, job, id, &page);
    if (outcome == TW_OK)
        outcome = ledger_parse(&page.entities[0], ret, &attempt->err);
    page_done(&page);
    return outcome;
}

static struct slice marker_key(struct arena *arena, struct slice id)
{
    return arena_format(arena, "%c%.*s", LEDGER_MARKER, SLICE_ARG(id));
}

/* One batch: the run, and its marker where one is given. */
static enum tw_err write_run(struct store *store, struct attempt *attempt,
    struct ledger_run *run, enum operation_type type, enum ledger_marker marker,
    size_t *ret_failed)
{
    struct operation operations[2] = {0};
    struct batch batch = {LEDGER_TABLE, operations, 1};
    struct batch_result result;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    operations[0].type = type;
    ledger_entity(run, &arena, &operations[0].entity);
    if (marker != LEDGER_MARKER_KEEP) {
        operations[1].type = marker == LEDGER_MARKER_REMOVE ? OPERATION_DELETE
                             : run->marker_etag.len > 0     ? OPERATION_MERGE
                                                            : OPERATION_INSERT;
        entity_init(&operations[1].entity, &arena, run->job,
            marker_key(&arena, run->id));
        operations[1].entity.etag = run->marker_etag;
        batch.count = 2;
    }
    outcome = store_batch(store, attempt, &batch, &result);
    *ret_failed = outcome == TW_OK ? 0 : result.failed;
    if (outcome == TW_OK) {
        run->etag = ledger_text(run, slice_of(result.etags[0]));
        if (marker != LEDGER_MARKER_KEEP)
            run->marker_etag = ledger_text(run, slice_of(result.etags[1]));
    }
    arena_done(&arena);
    return outcome;
}

/* Read the marker: its ETag, or nothing when there is none. */
static enum tw_err read_marker(
    struct store *store, struct attempt *attempt, struct ledger_run *run)
{
    struct page page;
    struct arena arena;
    enum tw_err outcome;

    page_init(&page);
    arena_init(&arena);
    outcome = store_get(store, attempt, LEDGER_TABLE, run->job,
        marker_key(&arena, run->id), &page);
    run->marker_etag = (struct slice){0};
    if (outcome == TW_OK)
        run->marker_etag = ledger_text(run, page.entities[0].etag);
    if (outcome == TW_NOT_FOUND)
        outcome = TW_OK;
    arena_done(&arena);
    page_done(&page);
    return outcome;
}

/*
 * A marker that is there without its run, as one that was left when somebody
 * deleted the run, is written again in the same batch, so that it is there
 * whoever takes it away meanwhile.
 */
enum tw_err ledger_insert(
    struct store *store, struct attempt *attempt, struct ledger_run *run)
{
    enum ledger_marker marker =
        ledger_state_ended(run->state) ? LEDGER_MARKER_KEEP : LEDGER_MARKER_ADD;
    enum tw_err outcome;
    size_t failed;

    run->marker_etag = (struct slice){0};
    outcome = write_run(store, attempt, run, OPERATION_INSERT, marker, &failed);
    if (outcome != TW_CONFLICT || failed != 1)
        return outcome;
    outcome = read_marker(store, attempt, run);
    if (outcome != TW_OK)
        return outcome;
    outcome = write_run(store, attempt, run, OPERATION_INSERT, marker, &failed);
    return outcome == TW_NOT_FOUND && failed == 1 ? TW_CONFLICT : outcome;
}

/* What is left to do with a marker whose ETag has just been read. */
static enum ledger_marker marker_left(
    const struct ledger_run *run, enum ledger_marker wanted)
{
    bool there = run->marker_etag.len > 0;

    if (wanted == LEDGER_MARKER_ADD && there)
        return LEDGER_MARKER_KEEP;
    if (wanted == LEDGER_MARKER_REMOVE && !there)
        return LEDGER_MARKER_KEEP;
    return wanted;
}

enum tw_err ledger_update(struct store *store, struct attempt *attempt,
    struct ledger_run *run, enum ledger_marker marker)
{
    enum tw_err outcome;
    size_t failed;

    if (marker == LEDGER_MARKER_REMOVE && run->marker_etag.len == 0) {
        outcome = read_marker(store, attempt, run);
        if (outcome != TW_OK)
            return outcome;
        marker = marker_left(run, marker);
    }
    outcome =
        write_run(store, attempt, run, OPERATION_REPLACE, marker, &failed);
    if ((outcome != TW_CONFLICT && outcome != TW_NOT_FOUND) || failed == 0 ||
        marker == LEDGER_MARKER_KEEP)
        return outcome;
    outcome = read_marker(store, attempt, run);
    if (outcome != TW_OK)
        return outcome;
    return write_run(store, attempt, run, OPERATION_REPLACE,
        marker_left(run, marker), &failed);
}

enum tw_err ledger_withdraw(
    struct store *store, struct attempt *attempt, struct ledger_run *run)
{
    enum ledger_marker marker =
        run->marker_etag.len > 0 ? LEDGER_MARKER_REMOVE : LEDGER_MARKER_KEEP;
    size_t failed;

    return write_run(store, attempt, run, OPERATION_DELETE, marker, &failed);
}

/* ---- many runs ---- */

/* Drop the markers from a page. */
static void drop_markers(struct page *page)
{
    size_t kept = 0;

    for (size_t i = 0; i < page->count; i++) {
        struct slice key = page->entities[i].row_key;

        if (key.len == 0 || key.at[0] != LEDGER_MARKER)
            page->entities[kept++] = page->entities[i];
    }
    page->count = kept;
}

enum tw_err ledger_scan(struct store *store, struct attempt *attempt,
    struct slice job, struct slice filter, struct continuation from,
    struct page *ret)
{
    struct scan_request request = {.table = LEDGER_TABLE,
        .filter = filter,
        .damaged_too = true,
        .from = from};
    enum tw_err outcome;

    if (job.len > 0) {
        request.partition_key = key_range_exact(job);
        /* '-' is the least character of run ids; markers lie below it. */
        request.row_key =
            (struct key_range){.has_from = true, .from = slice_of("-")};
    }
    outcome = store_scan(store, attempt, &request, ret);
    if (outcome == TW_OK)
        drop_markers(ret);
    return outcome;
}

enum tw_err ledger_scan_open(struct store *store, struct attempt *attempt,
    struct slice job, struct continuation from, struct page *ret)
{
    struct scan_request request = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(job),
        .row_key = {.has_from = true,
            .has_below = true,
            .from = slice_of("!"),
            .below = slice_of("\"")},
        .from = from};

    return store_scan(store, attempt, &request, ret);
}

struct slice ledger_marker_id(struct slice row_key)
{
    assert(row_key.len > 0 && row_key.at[0] == LEDGER_MARKER);
    return (struct slice){row_key.at + 1, row_key.len - 1};
}
