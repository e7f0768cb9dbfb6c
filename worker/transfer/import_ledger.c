/* SPDX-License-Identifier: MIT */
/* The ledger's entity of an import. */
#include "worker/transfer/import_ledger.h"

#include <inttypes.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/run/message.h"
#include "worker/store/store.h"
#include "worker/transfer/transfer.h"

#define KIND "import"

/* How often a write whose outcome is unknown is sent. */
#define WRITE_TRIES 3

/* How often the entity is taken where others write it at the same time. */
#define TAKE_TRIES 5

#define CHECKPOINT_MAX 512

/* ---- requests ---- */

static enum tw_err create(void *context, struct attempt *attempt)
{
    struct import_ledger *ledger = context;

    return ledger_create(ledger->transfer->store, attempt);
}

static enum tw_err insert(void *context, struct attempt *attempt)
{
    struct import_ledger *ledger = context;

    return ledger_insert(ledger->transfer->store, attempt, &ledger->run);
}

struct reading {
    struct import_ledger *ledger;
    struct slice id;
    struct ledger_run *run;
};

static enum tw_err get(void *context, struct attempt *attempt)
{
    struct reading *reading = context;

    return ledger_get(reading->ledger->transfer->store, attempt,
        slice_of(IMPORT_LEDGER_JOB), reading->id, reading->run);
}

struct writing {
    struct import_ledger *ledger;
    enum ledger_marker marker;
};

static enum tw_err update(void *context, struct attempt *attempt)
{
    struct writing *writing = context;

    return ledger_update(writing->ledger->transfer->store, attempt,
        &writing->ledger->run, writing->marker);
}

static enum tw_err call(struct import_ledger *ledger,
    enum tw_err (*what)(void *context, struct attempt *attempt), void *context,
    bool repeatable, struct err *err)
{
    return transfer_call(ledger->transfer, what, context, repeatable, err);
}

/* After a conflict or an unknown outcome, Owner says whose write is stored, and
 * UpdatedAt whether it is this one. TW_UNKNOWN: it is not; send it again. */
static enum tw_err resolve(
    struct import_ledger *ledger, enum tw_err code, struct err *err)
{
    struct ledger_run *run = &ledger->run, stored;
    struct reading reading = {ledger, run->id, &stored};

    if (code != TW_UNKNOWN && code != TW_CONFLICT && code != TW_NOT_FOUND)
        return code;
    ledger_run_init(&stored);
    code = call(ledger, get, &reading, true, err);
    if (code == TW_OK && stored.state == LEDGER_CANCELLED)
        code = err_fail(
            err, TW_INVALID, "import %.*s was cancelled", SLICE_ARG(run->id));
    else if (code == TW_OK && !slice_equal(stored.owner, run->owner)) {
        ledger->taken_over = true;
        code = err_fail(err, TW_STOPPED,
            "another process has taken over import %.*s", SLICE_ARG(run->id));
    } else if (code == TW_OK) {
        run->etag = ledger_text(run, stored.etag);
        if (stored.updated_ticks != run->updated_ticks)
            code = err_fail(err, TW_UNKNOWN,
                "the outcome of the write of import %.*s to the ledger is "
                "unknown",
                SLICE_ARG(run->id));
    }
    ledger_run_done(&stored);
    return code;
}

static enum tw_err write_run(
    struct import_ledger *ledger, enum ledger_marker marker, struct err *err)
{
    struct writing writing = {ledger, marker};
    enum tw_err code = TW_UNKNOWN;

    ledger->run.updated_ticks = world_wall_ticks();
    for (int i = 0; i < WRITE_TRIES && code == TW_UNKNOWN; i++) {
        code = call(ledger, update, &writing, false, err);
        if (code != TW_OK)
            code = resolve(ledger, code, err);
    }
    return code;
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
    enum tw_err code = call(ledger, create, ledger, true, err);

    if (code != TW_OK)
        return code;
    run->job = ledger_text(run, slice_of(IMPORT_LEDGER_JOB));
    run->id = ledger_text(run, id);
    run->kind = ledger_text(run, slice_of(KIND));
    run->args = ledger_text(run, args);
    run->requested_ticks = run->started_ticks = world_wall_ticks();
    run->updated_ticks = run->requested_ticks;
    ledger_move(run, LEDGER_RUNNING);
    set_owner(ledger);
    code = call(ledger, insert, ledger, false, err);
    return code == TW_OK ? TW_OK : resolve(ledger, code, err);
}

/* A positive integer; 0 for anything else. */
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

static enum tw_err continue_run(
    struct import_ledger *ledger, struct import_position *ret, struct err *err)
{
    struct ledger_run *run = &ledger->run;
    bool ended = ledger_state_ended(run->state);

    if (run->state == LEDGER_CANCELLED)
        return err_fail(
            err, TW_INVALID, "import %.*s was cancelled", SLICE_ARG(run->id));
    *ret = import_ledger_position(run->checkpoint);
    if (ended)
        ledger_move(run, LEDGER_QUEUED);
    ledger_move(run, LEDGER_RUNNING);
    run->finished_ticks = 0;
    ledger_set_error(run, "");
    set_owner(ledger);
    return write_run(
        ledger, ended ? LEDGER_MARKER_ADD : LEDGER_MARKER_KEEP, err);
}

static enum tw_err take(struct import_ledger *ledger, const char *id,
    struct slice args, struct import_position *ret, bool *ret_done,
    struct err *err)
{
    struct reading reading = {ledger, slice_of(id), &ledger->run};
    enum tw_err code;

    ledger_run_init(&ledger->run);
    ledger->taken_over = false;
    code = call(ledger, get, &reading, true, err);
    ledger->before = (struct import_counts){
        .read = ledger->run.read,
        .written = ledger->run.written,
        .skipped = ledger->run.skipped,
        .rejected = ledger->run.failed,
    };
    if (code == TW_NOT_FOUND)
        code = begin(ledger, reading.id, args, err);
    else if (code == TW_OK && !message_args_same(ledger->run.args, args))
        code = err_fail(err, TW_CONFLICT,
            "id %s belongs to an import of something else, %.*s: use another "
            "id",
            id, SLICE_ARG(ledger->run.args));
    else if (code == TW_OK && ledger->run.state == LEDGER_SUCCEEDED)
        *ret_done = true;
    else if (code == TW_OK)
        code = continue_run(ledger, ret, err);
    return code;
}

enum tw_err import_ledger_open(struct import_ledger *ledger,
    const struct transfer *transfer, const char *id, struct slice args,
    struct import_position *ret, bool *ret_done, struct err *err)
{
    enum tw_err code;

    ledger->transfer = transfer;
    code = take(ledger, id, args, ret, ret_done, err);
    for (int i = 1; i < TAKE_TRIES && ledger->taken_over; i++) {
        ledger_run_done(&ledger->run);
        code = take(ledger, id, args, ret, ret_done, err);
    }
    ledger->stored = code == TW_OK;
    return code;
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

/* The arena of a run only grows: a fresh copy keeps memory bounded. */
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
    return write_run(ledger, LEDGER_MARKER_KEEP, err);
}

enum tw_err import_ledger_end(struct import_ledger *ledger,
    const struct import_counts *counts, enum ledger_state state,
    const char *why, struct err *err)
{
    set_counts(ledger, counts);
    ledger_move(&ledger->run, state);
    ledger_set_error(&ledger->run, why);
    if (!ledger_state_ended(state))
        return write_run(ledger, LEDGER_MARKER_KEEP, err);
    ledger->run.finished_ticks = world_wall_ticks();
    return write_run(ledger, LEDGER_MARKER_REMOVE, err);
}

void import_ledger_done(struct import_ledger *ledger)
{
    ledger_run_done(&ledger->run);
}
