/* SPDX-License-Identifier: MIT */
/* Runs of the ledger: states, and conversion from entities and back. */
#include "worker/run/ledger.h"

#include <assert.h>
#include <stddef.h>

#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/retry.h"

/* ---- states ---- */

static const char *const state_names[] = {
    [LEDGER_QUEUED] = "queued",
    [LEDGER_RUNNING] = "running",
    [LEDGER_WAITING] = "waiting",
    [LEDGER_PAUSED] = "paused",
    [LEDGER_SUCCEEDED] = "succeeded",
    [LEDGER_FAILED] = "failed",
    [LEDGER_POISONED] = "poisoned",
    [LEDGER_CANCELLED] = "cancelled",
    [LEDGER_NEWER] = "newer",
    [LEDGER_DAMAGED] = "damaged",
};
#define STORED_STATE_COUNT LEDGER_NEWER

#define TO(state) (1u << (state))

/* The states that may follow each state. A state may also stay as it is. */
static const unsigned state_moves[] = {
    [LEDGER_QUEUED] = TO(LEDGER_RUNNING) | TO(LEDGER_WAITING) |
                      TO(LEDGER_PAUSED) | TO(LEDGER_POISONED) |
                      TO(LEDGER_CANCELLED),
    [LEDGER_RUNNING] = TO(LEDGER_QUEUED) | TO(LEDGER_WAITING) |
                       TO(LEDGER_PAUSED) | TO(LEDGER_SUCCEEDED) |
                       TO(LEDGER_FAILED) | TO(LEDGER_POISONED) |
                       TO(LEDGER_CANCELLED),
    [LEDGER_WAITING] = TO(LEDGER_QUEUED) | TO(LEDGER_RUNNING) |
                       TO(LEDGER_PAUSED) | TO(LEDGER_POISONED) |
                       TO(LEDGER_CANCELLED),
    [LEDGER_PAUSED] =
        TO(LEDGER_QUEUED) | TO(LEDGER_RUNNING) | TO(LEDGER_CANCELLED),
    [LEDGER_SUCCEEDED] = 0,
    [LEDGER_FAILED] = TO(LEDGER_QUEUED) | TO(LEDGER_CANCELLED),
    [LEDGER_POISONED] = TO(LEDGER_QUEUED) | TO(LEDGER_CANCELLED),
    [LEDGER_CANCELLED] = 0,
    [LEDGER_NEWER] = 0,
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

bool ledger_may_move(enum ledger_state from, enum ledger_state to)
{
    return from == to || (state_moves[from] & TO(to)) != 0;
}

enum tw_err ledger_move(
    struct ledger_run *run, enum ledger_state to, struct err *err)
{
    if (!ledger_may_move(run->state, to))
        return err_fail(err, TW_INVALID,
            "run %.*s/%.*s is %s: it cannot become %s", SLICE_ARG(run->job),
            SLICE_ARG(run->id), ledger_state_name(run->state),
            ledger_state_name(to));
    if (ledger_state_ended(run->state) || ledger_state_ended(to))
        run->ending = (struct slice){0};
    run->state = to;
    /* A running run keeps WaitsFor, because its next wait may be for the same
     * thing. */
    if (to != LEDGER_WAITING && to != LEDGER_RUNNING) {
        run->waits_for = (struct slice){0};
        run->waits_since_ticks = 0;
    }
    return TW_OK;
}

enum tw_err ledger_wait(struct ledger_run *run, const char *waits_for,
    int64_t now_ticks, int64_t until_ticks, struct err *err)
{
    bool still =
        run->waits_since_ticks > 0 && slice_is(run->waits_for, waits_for);
    enum tw_err outcome = ledger_move(run, LEDGER_WAITING, err);

    if (outcome != TW_OK)
        return outcome;
    run->waits_for = ledger_text(run, slice_of(waits_for));
    if (!still)
        run->waits_since_ticks = now_ticks;
    run->resumes_ticks = until_ticks;
    return TW_OK;
}

struct slice ledger_state_shown(const struct ledger_run *run)
{
    return run->state == LEDGER_NEWER ? run->state_name
                                      : slice_of(ledger_state_name(run->state));
}

bool ledger_waits_for_definition(const struct ledger_run *run)
{
    return run->state == LEDGER_WAITING &&
           slice_is(run->waits_for, LEDGER_WAITS_FOR_DEFINITION);
}

bool ledger_is_held(const struct ledger_run *run)
{
    return ledger_waits_for_definition(run) ||
           (run->state == LEDGER_WAITING &&
               (slice_is(run->waits_for, LEDGER_WAITS_FOR_STORE) ||
                   slice_is(run->waits_for, LEDGER_WAITS_FOR_ARCHIVE)));
}

bool ledger_lease_is_live(const struct ledger_run *run, int64_t now_ticks)
{
    return run->owner.len > 0 && run->lease_until_ticks > now_ticks;
}

void ledger_drop_owner(struct ledger_run *run)
{
    if (run->owner.len > 0 && run->silent == 0)
        run->silent = 1;
    run->owner = (struct slice){0};
}

bool ledger_has_crashed_owner(const struct ledger_run *run)
{
    return run->owner.len > 0 || run->silent > 0;
}

/* ---- fields ---- */

enum field_type {
    FIELD_STRING,
    FIELD_SPARSE, /* a String; absent: empty */
    FIELD_INT32,
    FIELD_SOME, /* an Int32; absent: 0 */
    FIELD_INT64,
    FIELD_KNOWN, /* an Int64 that is not below 0; absent: -1 */
    FIELD_TIME,  /* an Edm.DateTime; absent: 0 */
    FIELD_FLAG,  /* a Boolean; absent: false */
    FIELD_MAYBE, /* a Boolean in an int; absent: -1 */
    FIELD_SHARE, /* a Double that is not below 0; absent: -1 */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset;
};

#define FIELD(name, type, member)                                              \
    {                                                                          \
        name, type, offsetof(struct ledger_run, member)                        \
    }

/* All properties but State, in the order in which they are stored. */
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
    FIELD("Note", FIELD_SPARSE, note),
    FIELD("WaitsFor", FIELD_SPARSE, waits_for),
    FIELD("Control", FIELD_SPARSE, control),
    FIELD("Finish", FIELD_SPARSE, finish),
    FIELD("Operation", FIELD_SPARSE, operation),
    FIELD("Definition", FIELD_SPARSE, definition),
    FIELD("Traceparent", FIELD_SPARSE, traceparent),
    FIELD("PoisonId", FIELD_SPARSE, poison_id),
    FIELD("PoisonReceipt", FIELD_SPARSE, poison_receipt),
    FIELD("Binding", FIELD_SPARSE, binding),
    FIELD("Ending", FIELD_SPARSE, ending),
    FIELD("Format", FIELD_INT32, format),
    FIELD("Attempt", FIELD_INT32, attempt),
    FIELD("Failures", FIELD_INT32, failures),
    FIELD("Rounds", FIELD_INT32, rounds),
    FIELD("Epoch", FIELD_INT32, epoch),
    FIELD("Silent", FIELD_INT32, silent),
    FIELD("Throttled", FIELD_INT32, throttled),
    FIELD("FailedLogged", FIELD_SOME, failed_logged),
    FIELD("IdleSeconds", FIELD_SOME, idle_s),
    FIELD("EntitiesRead", FIELD_INT64, read),
    FIELD("EntitiesWritten", FIELD_INT64, written),
    FIELD("EntitiesDeleted", FIELD_INT64, deleted),
    FIELD("EntitiesSkipped", FIELD_INT64, skipped),
    FIELD("EntitiesFailed", FIELD_INT64, failed),
    FIELD("Transactions", FIELD_INT64, transactions),
    FIELD("Behind", FIELD_KNOWN, behind),
    FIELD("Share", FIELD_SHARE, share),
    FIELD("ParentFound", FIELD_MAYBE, parent_found),
    FIELD("AcceptDeletes", FIELD_FLAG, accept_deletes),
    FIELD("AcceptedAt", FIELD_TIME, accepted_ticks),
    FIELD("RequestedAt", FIELD_TIME, requested_ticks),
    FIELD("StartedAt", FIELD_TIME, started_ticks),
    FIELD("UpdatedAt", FIELD_TIME, updated_ticks),
    FIELD("LeaseUntil", FIELD_TIME, lease_until_ticks),
    FIELD("ResumesAt", FIELD_TIME, resumes_ticks),
    FIELD("FinishedAt", FIELD_TIME, finished_ticks),
    FIELD("CaughtUpTo", FIELD_TIME, caught_up_ticks),
    FIELD("WaitsSince", FIELD_TIME, waits_since_ticks),
    FIELD("MessageUntil", FIELD_TIME, message_until_ticks),
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* Returns the member of run for field; field->type determines the member's C
 * type. */
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
    *run = (struct ledger_run){
        .format = LEDGER_FORMAT, .behind = -1, .parent_found = -1, .share = -1};
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

/* Copy all texts that run refers to into a new arena of its own. */
static void own_texts(struct ledger_run *run)
{
    struct property *others = run->others;

    arena_init(&run->arena);
    run->job = ledger_text(run, run->job);
    run->id = ledger_text(run, run->id);
    run->etag = ledger_text(run, run->etag);
    run->index_etag = ledger_text(run, run->index_etag);
    run->state_name = ledger_text(run, run->state_name);
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
    own_texts(&copy);
    arena_done(&to->arena);
    *to = copy;
}

/* Returns since when no attempt has worked on the run, for ledger_note_idle();
 * 0: an attempt works on it, it waits for a retry, or it has ended for good. */
static int64_t idle_since_ticks(const struct ledger_run *run)
{
    switch (run->state) {
    case LEDGER_QUEUED:
    case LEDGER_PAUSED:
    case LEDGER_FAILED:
    case LEDGER_POISONED:
        return run->updated_ticks;
    case LEDGER_WAITING:
        return run->waits_for.len > 0 ? run->updated_ticks : 0;
    case LEDGER_RUNNING: /* the owner has crashed if LeaseUntil is in the
                            past */
        if (run->lease_until_ticks == 0)
            return 0;
        return run->lease_until_ticks > run->updated_ticks
                   ? run->lease_until_ticks
                   : run->updated_ticks;
    default:
        return 0;
    }
}

void ledger_note_idle(struct ledger_run *run, int64_t now_ticks)
{
    int64_t since_ticks = idle_since_ticks(run);
    int64_t idle_s = (now_ticks - since_ticks) / TICKS_PER_S;
    int32_t before = run->idle_s > 0 ? run->idle_s : 0;

    if (run->started_ticks == 0 || since_ticks == 0 || idle_s <= 0)
        return;
    run->idle_s =
        idle_s < INT32_MAX - before ? before + (int32_t)idle_s : INT32_MAX;
}

void ledger_expect_message(struct ledger_run *run, int64_t until_ticks)
{
    if (until_ticks > run->message_until_ticks)
        run->message_until_ticks = until_ticks;
}

void ledger_take_over(struct ledger_run *to, const struct ledger_run *from)
{
    struct ledger_run next = *from;

    next.job = to->job;
    next.id = to->id;
    next.etag = to->etag;
    next.index_etag = to->index_etag;
    next.state_name = to->state_name;
    next.newer = to->newer;
    next.control = to->control;
    next.finish = to->finish;
    next.others = to->others;
    next.other_count = to->other_count;
    ledger_expect_message(&next, to->message_until_ticks);
    own_texts(&next);
    arena_done(&to->arena);
    *to = next;
}

void ledger_accept_deletes(
    struct ledger_run *run, bool accepts, int64_t at_ticks)
{
    run->accept_deletes = accepts;
    run->accepted_ticks =
        at_ticks > run->accepted_ticks ? at_ticks : run->accepted_ticks + 1;
}

void ledger_compact(struct ledger_run *run)
{
    struct arena old = run->arena;

    own_texts(run);
    arena_done(&old);
}

void ledger_set_error(struct ledger_run *run, const char *error)
{
    run->error =
        ledger_text(run, text_cut(slice_of(error), LEDGER_MAX_ERROR_BYTES));
}

/* Does note, whose sentences are joined by "; ", have this sentence? */
static bool has_sentence(struct slice note, struct slice sentence)
{
    for (size_t at = 0; at + sentence.len <= note.len; at++) {
        bool begins = at == 0 || (at >= 2 && note.at[at - 1] == ' ' &&
                                     note.at[at - 2] == ';');
        size_t end = at + sentence.len;
        bool ends = end == note.len || note.at[end] == ';';

        if (begins && ends &&
            memcmp(note.at + at, sentence.at, sentence.len) == 0)
            return true;
    }
    return false;
}

void ledger_add_note(struct ledger_run *run, struct slice sentence)
{
    struct buf note;

    sentence = text_cut(sentence, LEDGER_MAX_NOTE_BYTES / 4);
    if (sentence.len == 0 || has_sentence(run->note, sentence) ||
        run->note.len + 2 + sentence.len > LEDGER_MAX_NOTE_BYTES)
        return;
    buf_init(&note, LEDGER_MAX_NOTE_BYTES);
    buf_add_slice(&note, run->note);
    buf_add_text(&note, run->note.len > 0 ? "; " : "");
    buf_add_slice(&note, sentence);
    run->note = ledger_text(run, buf_slice(&note));
    buf_done(&note);
}

/* ---- from an entity ---- */

static bool take_text(
    struct ledger_run *run, const struct property *property, struct slice *to)
{
    if (property->type != EDM_STRING)
        return false;
    return property_text(property, &run->arena, to);
}

static bool take_maybe(const struct property *property, int *to)
{
    bool is;

    if (!property_boolean(property, &is))
        return false;
    *to = is;
    return true;
}

/* Largest count taken from an entity; larger counts are cut, so that additions
 * do not overflow. Only another program can have written such a count. */
#define COUNT_MAX (INT64_MAX / 4)

static bool take_count(const struct property *property, int64_t *ret)
{
    int64_t count;

    if (!property_int64(property, &count))
        return false;
    *ret = count < 0 ? 0 : count > COUNT_MAX ? COUNT_MAX : count;
    return true;
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
    case FIELD_SOME:
        return property_int32(property, at);
    case FIELD_FLAG:
        return property_boolean(property, at);
    case FIELD_MAYBE:
        return take_maybe(property, at);
    case FIELD_SHARE:
        return property_double(property, at);
    case FIELD_INT64:
        return take_count(property, at);
    case FIELD_KNOWN:
        return property_int64(property, at);
    case FIELD_TIME:
        return property_ticks(property, at);
    }
    return false;
}

static bool take_state(struct ledger_run *run, const struct property *property)
{
    if (!take_text(run, property, &run->state_name))
        return false;
    if (!ledger_state_named(run->state_name, &run->state))
        run->state = LEDGER_NEWER;
    return true;
}

/* Set err to the reason why the entity cannot be read as a run. property: the
 * invalid property; NULL: State is missing. The entity's keys may be any text
 * that another program has written, so entity_add_keys() quotes them. */
static enum tw_err cannot_read(const struct entity *entity,
    const struct property *property, struct err *err)
{
    struct buf keys;

    buf_init(&keys, sizeof(err->text));
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    if (property)
        err_fail(err, TW_INVALID,
            "in the ledger, property %.*s of run %s is invalid",
            SLICE_ARG(property->name), buf_text(&keys));
    else
        err_fail(err, TW_INVALID, "in the ledger, run %s has no State",
            buf_text(&keys));
    buf_done(&keys);
    return TW_INVALID;
}

bool ledger_is_newer(const struct entity *entity)
{
    const struct property *format = entity_find(entity, slice_of("Format"));
    int32_t number;

    return format && property_int32(format, &number) && number > LEDGER_FORMAT;
}

static enum tw_err take_properties(
    const struct entity *entity, struct ledger_run *run, struct err *err)
{
    bool has_state = false, is_newer = ledger_is_newer(entity);

    run->others = arena_alloc(
        &run->arena, (entity->property_count + 1) * sizeof(*run->others));
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        const struct field *field = field_named(property->name);
        bool is_state = slice_is(property->name, "State");

        if (is_state ? !take_state(run, property)
                     : field && !take_field(run, field, property) && !is_newer)
            return cannot_read(entity, property, err);
        has_state = has_state || is_state;
        if (!is_state && !field)
            copy_property(
                &run->arena, &run->others[run->other_count++], property);
    }
    run->newer = run->state == LEDGER_NEWER || run->format > LEDGER_FORMAT;
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

/* Adds a text to entity. Repairs invalid UTF-8, because the service would
 * refuse the whole write: then even the end of the run could not be stored. */
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

static bool is_absent(const struct field *field, const void *at)
{
    switch (field->type) {
    case FIELD_SPARSE:
        return ((const struct slice *)at)->len == 0;
    case FIELD_TIME:
        return *(const int64_t *)at == 0;
    case FIELD_KNOWN:
        return *(const int64_t *)at < 0;
    case FIELD_SOME:
        return *(const int32_t *)at == 0;
    case FIELD_FLAG:
        return !*(const bool *)at;
    case FIELD_MAYBE:
        return *(const int *)at < 0;
    case FIELD_SHARE:
        return *(const double *)at < 0;
    case FIELD_STRING:
    case FIELD_INT32:
    case FIELD_INT64:
        return false;
    }
    return false;
}

static void put_field(const struct ledger_run *run, const struct field *field,
    struct arena *arena, struct entity *entity)
{
    const void *at = field_of(run, field);

    if (is_absent(field, at))
        return;
    switch (field->type) {
    case FIELD_STRING:
    case FIELD_SPARSE:
        put_text(arena, entity, field->name, *(const struct slice *)at);
        return;
    case FIELD_INT32:
    case FIELD_SOME:
        entity_set_int32(entity, arena, field->name, *(const int32_t *)at);
        return;
    case FIELD_INT64:
    case FIELD_KNOWN:
        entity_set_int64(entity, arena, field->name, *(const int64_t *)at);
        return;
    case FIELD_FLAG:
        entity_set_boolean(entity, arena, field->name, true);
        return;
    case FIELD_MAYBE:
        entity_set_boolean(entity, arena, field->name, *(const int *)at != 0);
        return;
    case FIELD_SHARE:
        entity_set_double(entity, arena, field->name, *(const double *)at);
        return;
    case FIELD_TIME:
        entity_set_datetime(entity, arena, field->name, *(const int64_t *)at);
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

    if (is_absent(field, at))
        return;
    add_json_name(to, field->name);
    switch (field->type) {
    case FIELD_STRING:
    case FIELD_SPARSE:
        json_add_string(to, *text);
        return;
    case FIELD_INT32:
    case FIELD_SOME:
        buf_add_format(to, "%d", (int)*(const int32_t *)at);
        return;
    case FIELD_INT64:
    case FIELD_KNOWN:
        buf_add_format(to, "%lld", (long long)*(const int64_t *)at);
        return;
    case FIELD_FLAG:
        buf_add_text(to, "true");
        return;
    case FIELD_MAYBE:
        buf_add_text(to, *(const int *)at != 0 ? "true" : "false");
        return;
    case FIELD_SHARE:
        buf_add_format(to, "%.4f", *(const double *)at);
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
    json_add_string(to, ledger_state_shown(run));
    for (size_t i = 0; i < FIELD_COUNT; i++)
        add_json_field(run, &fields[i], to);
    buf_add_char(to, '}');
}

/* ---- requests ---- */

enum tw_err ledger_create(struct store *store, struct exchange *exchange)
{
    return store_create_table(store, exchange, LEDGER_TABLE);
}

static enum tw_err create_or_read(
    struct store *store, struct exchange *exchange)
{
    struct exchange scan = *exchange;
    struct page page;
    enum tw_err outcome = ledger_create(store, exchange);

    if (outcome != TW_FORBIDDEN)
        return outcome;
    page_init(&page);
    if (ledger_scan_index(store, &scan,
            &(struct ledger_index_scan){.job = slice_of(LEDGER_UNREADABLE)},
            (struct continuation){0}, &page) == TW_OK)
        outcome = TW_OK;
    page_done(&page);
    return outcome;
}

enum tw_err ledger_ensure(struct store *store, const struct deadline *deadline,
    int64_t unanswered_ms, struct err *err)
{
    struct retry_call call = retry_call(deadline, RETRY_BUSY_MS, unanswered_ms);
    enum tw_err outcome;

    do {
        outcome = create_or_read(store, &call.exchange);
        if (outcome == TW_UNKNOWN) /* the table can be created again without
                                      harm */
            outcome = TW_BUSY;
    } while (retry_call_again(&call, outcome));
    if (outcome != TW_OK)
        return err_fail(err, outcome, "%s", call.exchange.err.text);
    return TW_OK;
}

enum tw_err ledger_get(struct store *store, struct exchange *exchange,
    struct slice job, struct slice id, struct ledger_run *ret)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(store, exchange, LEDGER_TABLE, job, id, &page);
    if (outcome == TW_OK)
        outcome = ledger_parse(&page.entities[0], ret, &exchange->err);
    page_done(&page);
    return outcome;
}
