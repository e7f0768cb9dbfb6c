/* SPDX-License-Identifier: MIT */
/* The ledger's entity of an import. */
#include "worker/transfer/import_ledger.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/cli/runs.h"
#include "worker/cli/session.h"
#include "worker/run/message.h"
#include "worker/store/store.h"

#define KIND "import"

/* How often a write whose outcome is unknown is sent. */
#define WRITE_TRIES 3

/* How often the entity is taken where others write it at the same time. */
#define TAKE_TRIES 5

/* ---- requests ---- */

static enum tw_err create(void *context, struct attempt *attempt)
{
    struct import_ledger *ledger = context;

    return ledger_create(ledger->store, attempt);
}

static enum tw_err insert(void *context, struct attempt *attempt)
{
    struct import_ledger *ledger = context;

    return ledger_insert(ledger->store, attempt, &ledger->run);
}

struct reading {
    struct import_ledger *ledger;
    struct slice id;
    struct ledger_run *run;
};

static enum tw_err get(void *context, struct attempt *attempt)
{
    struct reading *reading = context;

    return ledger_get(reading->ledger->store, attempt, slice_of(RUNS_IMPORT),
        reading->id, reading->run);
}

struct writing {
    struct import_ledger *ledger;
    enum ledger_marker marker;
};

static enum tw_err update(void *context, struct attempt *attempt)
{
    struct writing *writing = context;

    return ledger_update(writing->ledger->store, attempt, &writing->ledger->run,
        writing->marker);
}

static enum tw_err call(struct import_ledger *ledger,
    enum tw_err (*what)(void *context, struct attempt *attempt), void *context,
    bool repeatable, struct err *err)
{
    return session_call(
        ledger->session, ledger->store, what, context, repeatable, err);
}

/* A conflict, or no answer: Owner says whose write is stored, and UpdatedAt
 * whether it is this one. TW_UNKNOWN: it is not; send it again. */
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
            err, TW_CONFLICT, "import %.*s was cancelled", SLICE_ARG(run->id));
    else if (code == TW_OK && !slice_equal(stored.owner, run->owner)) {
        ledger->passed = true;
        code = err_fail(err, TW_CONFLICT,
            "another process has taken import %.*s over", SLICE_ARG(run->id));
    } else if (code == TW_OK) {
        run->etag = ledger_text(run, stored.etag);
        if (stored.updated_ticks != run->updated_ticks)
            code = err_fail(err, TW_UNKNOWN,
                "the ledger's answers for import %.*s were lost",
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
    run->job = ledger_text(run, slice_of(RUNS_IMPORT));
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

/* Whole numbers from 0 on; what is none is 0. */
static int64_t number_of(const struct json *object, const char *name)
{
    const struct json *member = json_get(object, name);
    int64_t number = 0;

    return member && json_int64(member, &number) && number > 0 ? number : 0;
}

struct import_place import_ledger_place(struct slice checkpoint)
{
    struct import_place place = {0};
    struct json *json = NULL;

    if (json_parse(checkpoint, 1, &json, NULL) != TW_OK)
        return place;
    if (json_type(json) == JSON_OBJECT) {
        place.line = (uint64_t)number_of(json, "line");
        place.rejected_bytes = number_of(json, "rejected");
        place.digest = number_of(json, "digest");
        place.kept = number_of(json, "kept");
        place.left = number_of(json, "left");
        place.seen = number_of(json, "seen");
    }
    json_free(json);
    return place;
}

static enum tw_err take_up(
    struct import_ledger *ledger, struct import_place *ret, struct err *err)
{
    struct ledger_run *run = &ledger->run;
    bool ended = ledger_state_ended(run->state);

    if (run->state == LEDGER_CANCELLED)
        return err_fail(
            err, TW_CONFLICT, "import %.*s was cancelled", SLICE_ARG(run->id));
    *ret = import_ledger_place(run->checkpoint);
    ledger->before = (struct import_counts){
        .read = run->read,
        .written = run->written,
        .skipped = run->skipped,
        .failed = run->failed,
    };
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
    struct slice args, struct import_place *ret, bool *ret_done,
    struct err *err)
{
    struct reading reading = {ledger, slice_of(id), &ledger->run};
    enum tw_err code;

    ledger_run_init(&ledger->run);
    ledger->before = (struct import_counts){.read = 0};
    ledger->passed = false;
    code = call(ledger, get, &reading, true, err);
    if (code == TW_NOT_FOUND)
        code = begin(ledger, reading.id, args, err);
    else if (code == TW_OK && !message_args_same(ledger->run.args, args))
        code = err_fail(err, TW_CONFLICT,
            "id %s is known: it imports something else, %.*s", id,
            SLICE_ARG(ledger->run.args));
    else if (code == TW_OK && ledger->run.state == LEDGER_SUCCEEDED)
        *ret_done = true;
    else if (code == TW_OK)
        code = take_up(ledger, ret, err);
    return code;
}

enum tw_err import_ledger_open(struct import_ledger *ledger,
    struct session *session, struct store *store, const char *id,
    struct slice args, struct import_place *ret, bool *ret_done,
    struct err *err)
{
    enum tw_err code;

    ledger->session = session;
    ledger->store = store;
    code = take(ledger, id, args, ret, ret_done, err);
    for (int i = 1; i < TAKE_TRIES && ledger->passed; i++) {
        ledger_run_done(&ledger->run);
        code = take(ledger, id, args, ret, ret_done, err);
    }
    ledger->stored = code == TW_OK;
    return code;
}

/* ---- going on ---- */

/* The arena of a run only grows; a copy of it holds what counts. */
static void set_counts(
    struct import_ledger *ledger, const struct import_counts *counts)
{
    struct ledger_run fresh;
    char checkpoint[240];

    snprintf(checkpoint, sizeof(checkpoint),
        "{\"line\":%" PRIu64 ",\"rejected\":%" PRId64 ",\"digest\":%" PRId64
        ",\"kept\":%" PRId64 ",\"left\":%" PRId64 ",\"seen\":%" PRId64 "}",
        counts->place.line, counts->place.rejected_bytes, counts->place.digest,
        counts->place.kept, counts->place.left, counts->place.seen);
    ledger_run_init(&fresh);
    ledger_copy(&fresh, &ledger->run);
    ledger_run_done(&ledger->run);
    ledger->run = fresh;
    ledger->run.checkpoint = ledger_text(&ledger->run, slice_of(checkpoint));
    ledger->run.read = ledger->before.read + counts->read;
    ledger->run.written = ledger->before.written + counts->written;
    ledger->run.skipped = ledger->before.skipped + counts->skipped;
    ledger->run.failed = ledger->before.failed + counts->failed;
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
