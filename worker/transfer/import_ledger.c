/* SPDX-License-Identifier: MIT */
/* The ledger's entity of an import. */
#include "worker/transfer/import_ledger.h"

#include <inttypes.h>

#include "jobs/engine/call.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/ledger_change.h"
#include "worker/run/message.h"
#include "worker/store/store.h"
#include "worker/transfer/transfer.h"

#define KIND "import"

/* The number of tries of a write while its outcome is unknown. */
#define WRITE_TRIES 3

/* The number of tries to take over the entity while other processes write
 * it. */
#define TAKE_TRIES 5

#define CHECKPOINT_MAX 512

/* ---- requests ---- */

struct reading {
    struct import_ledger *ledger;
    struct slice id;
    struct ledger_run *run;
};

static enum tw_err get(void *context, struct exchange *exchange)
{
    struct reading *reading = context;

    return ledger_get(reading->ledger->transfer->store, exchange,
        slice_of(IMPORT_LEDGER_JOB), reading->id, reading->run);
}

/* A write of ledger->run. `owner` and `operation` are those of the last write
 * that this process knows. If the stored entity has other values, it was
 * written later, by a request that this process does not know (such as a late
 * request of a process that has ended). Its position is then later, too. */
struct writing {
    struct import_ledger *ledger;
    struct slice owner, operation;
};

static bool is_passed(
    const struct writing *writing, const struct ledger_run *stored)
{
    const struct ledger_run *run = &writing->ledger->run;

    if (slice_equal(stored->owner, run->owner))
        return false;
    return !slice_equal(stored->owner, writing->owner) ||
           !slice_equal(stored->operation, writing->operation);
}

static enum tw_err apply(
    struct ledger_run *run, int64_t now_ticks, void *context, struct err *err)
{
    const struct writing *writing = context;
    struct import_ledger *ledger = writing->ledger;
    bool is_stored = run->etag.len > 0;

    (void)now_ticks;
    if (is_stored && run->state == LEDGER_CANCELLED)
        return err_fail(
            err, TW_INVALID, "import %.*s was cancelled", SLICE_ARG(run->id));
    if (is_stored && is_passed(writing, run)) {
        ledger->taken_over = true;
        return err_fail(err, TW_STOPPED,
            "another process has taken over import %.*s", SLICE_ARG(run->id));
    }
    ledger_take_over(run, &ledger->run);
    return TW_OK;
}

static enum tw_err change(void *context, struct exchange *exchange)
{
    struct writing *writing = context;
    struct import_ledger *ledger = writing->ledger;
    struct ledger_change change = {.store = ledger->transfer->store,
        .deadline = exchange->deadline,
        .apply = apply,
        .context = writing};
    struct err err = {""};
    enum tw_err outcome = ledger_change(&change,
        ledger->is.etag.len > 0 ? LEDGER_STORED : LEDGER_ABSENT, &ledger->is,
        &err);

    *exchange = change.last;
    exchange->err = err;
    return outcome;
}

static enum tw_err write_over(
    struct import_ledger *ledger, struct slice owner, struct err *err)
{
    struct writing writing = {
        ledger, owner, ledger_text(&ledger->run, ledger->is.operation)};
    enum tw_err outcome = TW_UNKNOWN;

    ledger->run.updated_ticks = platform_wall_ticks();
    for (int i = 0; i < WRITE_TRIES && outcome == TW_UNKNOWN; i++)
        outcome = call_any(ledger->transfer->client, ledger->transfer->store,
            change, &writing, false, err);
    return outcome;
}

static enum tw_err write_run(struct import_ledger *ledger, struct err *err)
{
    return write_over(ledger, ledger->run.owner, err);
}

/* ---- opening ---- */

static void set_owner(struct import_ledger *ledger)
{
    char owner[40];

    text_random_id(owner);
    ledger->run.owner = ledger_text(&ledger->run, slice_of(owner));
    ledger->run.epoch++;
    ledger->run.attempt++;
}

static enum tw_err begin(struct import_ledger *ledger, struct slice id,
    struct slice args, struct err *err)
{
    struct ledger_run *run = &ledger->run;

    run->job = ledger_text(run, slice_of(IMPORT_LEDGER_JOB));
    run->id = ledger_text(run, id);
    run->kind = ledger_text(run, slice_of(KIND));
    run->args = ledger_text(run, args);
    run->requested_ticks = run->started_ticks = platform_wall_ticks();
    run->updated_ticks = run->requested_ticks;
    run->state = LEDGER_RUNNING; /* the entity is inserted in this state */
    set_owner(ledger);
    ledger_copy(&ledger->is, run);
    return write_run(ledger, err);
}

/* Returns the value of the member `name` if it is a positive integer; else 0.
 */
static int64_t number_of(const struct json *object, const char *name)
{
    const struct json *member = json_get(object, name);
    int64_t number = 0;

    return member && json_int64(member, &number) && number > 0 ? number : 0;
}

struct import_position import_ledger_position(struct slice checkpoint)
{
    struct import_position position = {0};
    struct json *json = NULL;

    if (json_parse(checkpoint, 1, &json, NULL) != TW_OK)
        return position;
    if (json_type(json) == JSON_OBJECT) {
        position.line = (uint64_t)number_of(json, "line");
        position.digest = number_of(json, "digest");
        position.rejected_bytes = number_of(json, "rejected_bytes");
        position.rejects_path = number_of(json, "rejects_path");
        position.rejects_size = number_of(json, "rejects_size");
        position.rejects_digest = number_of(json, "rejects_digest");
    }
    json_free(json);
    return position;
}

/* Move a failed import to `queued`, as `poison retry` does, because only a
 * queued or waiting run may become `running`. */
static enum tw_err reopen(struct import_ledger *ledger, struct err *err)
{
    struct ledger_run *run = &ledger->run;
    enum tw_err outcome = TW_OK;

    run->finished_ticks = 0;
    ledger_set_error(run, "");
    if (ledger_state_ended(run->state))
        outcome = ledger_move(run, LEDGER_QUEUED, err);
    if (outcome == TW_OK && run->state != ledger->is.state)
        outcome = write_run(ledger, err);
    return outcome;
}

static enum tw_err continue_run(struct import_ledger *ledger, struct err *err)
{
    struct ledger_run *run = &ledger->run;
    struct slice was;
    enum tw_err outcome;

    if (run->state == LEDGER_CANCELLED)
        return err_fail(
            err, TW_INVALID, "import %.*s was cancelled", SLICE_ARG(run->id));
    outcome = reopen(ledger, err);
    if (outcome == TW_OK)
        outcome = ledger_move(run, LEDGER_RUNNING, err);
    if (outcome != TW_OK)
        return outcome;
    was = ledger_text(run, run->owner);
    set_owner(ledger);
    return write_over(ledger, was, err);
}

static enum tw_err take(struct import_ledger *ledger, const char *id,
    struct slice args, struct import_position *ret, bool *ret_done,
    struct err *err)
{
    struct reading reading = {ledger, slice_of(id), &ledger->run};
    enum tw_err outcome;

    ledger_run_init(&ledger->run);
    ledger_run_init(&ledger->is);
    ledger->taken_over = false;
    outcome = call_any(ledger->transfer->client, ledger->transfer->store, get,
        &reading, true, err);
    if (outcome == TW_OK) {
        ledger_copy(&ledger->is, &ledger->run);
        *ret = import_ledger_position(ledger->run.checkpoint);
    }
    ledger->before = (struct import_counts){
        .read = ledger->run.read,
        .written = ledger->run.written,
        .skipped = ledger->run.skipped,
        .rejected = ledger->run.failed,
    };
    if (outcome == TW_NOT_FOUND)
        outcome = begin(ledger, reading.id, args, err);
    else if (outcome == TW_OK && !message_args_same(ledger->run.args, args))
        outcome = err_fail(err, TW_CONFLICT,
            "id %s belongs to another import, %.*s: use another id", id,
            SLICE_ARG(ledger->run.args));
    else if (outcome == TW_OK && ledger->run.state == LEDGER_SUCCEEDED)
        *ret_done = true;
    else if (outcome == TW_OK)
        outcome = continue_run(ledger, err);
    return outcome;
}

enum tw_err import_ledger_open(struct import_ledger *ledger,
    const struct transfer *transfer, const char *id, struct slice args,
    struct import_position *ret, bool *ret_done, struct err *err)
{
    enum tw_err outcome;

    ledger->transfer = transfer;
    outcome = take(ledger, id, args, ret, ret_done, err);
    for (int i = 1; i < TAKE_TRIES && ledger->taken_over; i++) {
        import_ledger_done(ledger);
        outcome = take(ledger, id, args, ret, ret_done, err);
    }
    ledger->stored = outcome == TW_OK;
    return outcome;
}

/* ---- progress ---- */

static void write_position(
    struct buf *to, const struct import_position *position)
{
    buf_add_format(to,
        "{\"line\":%" PRIu64 ",\"digest\":%" PRId64
        ",\"rejected_bytes\":%" PRId64,
        position->line, position->digest, position->rejected_bytes);
    buf_add_format(to,
        ",\"rejects_path\":%" PRId64 ",\"rejects_size\":%" PRId64
        ",\"rejects_digest\":%" PRId64 "}",
        position->rejects_path, position->rejects_size,
        position->rejects_digest);
}

/* Set the counts and the checkpoint in a new copy of the run, because the arena
 * of a run only grows. */
static void set_counts(
    struct import_ledger *ledger, const struct import_counts *counts)
{
    struct ledger_run fresh;
    struct buf checkpoint;

    buf_init(&checkpoint, CHECKPOINT_MAX);
    write_position(&checkpoint, &counts->position);
    ledger_run_init(&fresh);
    ledger_copy(&fresh, &ledger->run);
    ledger_run_done(&ledger->run);
    ledger->run = fresh;
    ledger->run.checkpoint = ledger_text(&ledger->run, buf_slice(&checkpoint));
    ledger->run.read = ledger->before.read + counts->read;
    ledger->run.written = ledger->before.written + counts->written;
    ledger->run.skipped = ledger->before.skipped + counts->skipped;
    ledger->run.failed = ledger->before.rejected + counts->rejected;
    buf_done(&checkpoint);
}

enum tw_err import_ledger_save(struct import_ledger *ledger,
    const struct import_counts *counts, struct err *err)
{
    set_counts(ledger, counts);
    return write_run(ledger, err);
}

enum tw_err import_ledger_end(struct import_ledger *ledger,
    const struct import_counts *counts, enum ledger_state state,
    const char *why, struct err *err)
{
    enum tw_err outcome;

    set_counts(ledger, counts);
    outcome = ledger_move(&ledger->run, state, err);
    if (outcome != TW_OK)
        return outcome;
    ledger_set_error(&ledger->run, why);
    if (ledger_state_ended(state))
        ledger->run.finished_ticks = platform_wall_ticks();
    return write_run(ledger, err);
}

void import_ledger_done(struct import_ledger *ledger)
{
    ledger_run_done(&ledger->run);
    ledger_run_done(&ledger->is);
}
