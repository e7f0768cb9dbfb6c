/* SPDX-License-Identifier: MIT */
/*
 * `tableward import TABLE FILE`: JSON Lines into a table.
 *
 * Every entity is inserted first. Where one is there already, an equal one is
 * fine, and a different one goes by --on-conflict with the ETag that was read;
 * so lines may be sent again after a crash or a lost answer. The engine's flow
 * makes batches of them, by PartitionKey.
 *
 * Lines of the same key must keep their order, which batches in flight do not:
 * the keys of a stretch of lines are remembered, and everything is settled
 * before one of them comes again, or the stretch is full.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/flow.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/entity_line.h"
#include "worker/cli/import_ledger.h"
#include "worker/cli/lines.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/transfer.h"
#include "worker/store/store.h"

/* Entities of a stretch, and places for their hashes; a power of two. */
#define STRETCH_MAX 32768
#define PLACES (2 * STRETCH_MAX)

/* With --id: how often the ledger is told. */
#define SAVE_MS 1000

enum on_conflict {
    CONFLICT_FAIL,
    CONFLICT_SKIP,
    CONFLICT_REPLACE,
    CONFLICT_MERGE
};

static const char *const ON_CONFLICT[] = {
    "fail", "skip", "replace", "merge", NULL};
static const char *const ON_ERROR[] = {"fail", "skip", NULL};

struct import {
    struct transfer transfer;
    const char *path;
    int on_conflict; /* enum on_conflict */
    int skip_errors; /* index into ON_ERROR */

    struct lines *lines;
    uint64_t skip_lines; /* stored by an earlier process */
    struct arena arena;  /* of the line that is worked on */

    struct local_run local;
    struct flow *flow;
    uint64_t first_ticket; /* of this stretch */
    size_t count;          /* entities of this stretch */
    uint64_t hashes[STRETCH_MAX], numbers[STRETCH_MAX];
    uint64_t places[PLACES]; /* hashes, scattered; 0: free */

    struct import_ledger ledger;
    bool with_ledger;
    int64_t save_ms; /* when it is told next */

    uint64_t line;         /* settled, with all before it, at the last drain */
    int64_t wrong;         /* lines that could not be taken */
    bool failed;           /* one of them ends the import */
    struct err last_error; /* for the ledger */
};

/* ---- lines that are wrong ---- */

/* The one that ends the import is said last of all. */
static void wrong(struct import *import, uint64_t number, const char *what)
{
    struct err err;

    err_fail(
        &err, TW_INVALID, "%s:%" PRIu64 ": %s", import->path, number, what);
    if (import->skip_errors || import->failed)
        say("%s", err.text);
    if (!import->failed)
        import->last_error = err;
    import->failed = !import->skip_errors;
    import->wrong++;
}

static uint64_t hash_keys(struct slice partition_key, struct slice row_key)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (size_t i = 0; i < partition_key.len; i++)
        hash = (hash ^ (unsigned char)partition_key.at[i]) *
               UINT64_C(1099511628211);
    hash = (hash ^ 0) * UINT64_C(1099511628211);
    for (size_t i = 0; i < row_key.len; i++)
        hash = (hash ^ (unsigned char)row_key.at[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* The flow's word on an entity: which line was it? */
static void on_failed(void *context, const char *table,
    struct slice partition_key, struct slice row_key, const char *why)
{
    struct import *import = context;
    uint64_t hash = hash_keys(partition_key, row_key), number = 0;
    struct buf text;

    (void)table;
    for (size_t i = 0; i < import->count; i++)
        if (import->hashes[i] == hash)
            number = import->numbers[i];
    buf_init(&text, sizeof(import->last_error.text));
    buf_add_text(&text, "entity ");
    text_quote(&text, partition_key);
    buf_add_char(&text, ' ');
    text_quote(&text, row_key);
    buf_add_format(&text, ": %s", why);
    wrong(import, number, buf_text(&text));
    buf_done(&text);
}

/* ---- an entity that is there already ---- */

static bool has_all(const struct entity *entity, const struct entity *of)
{
    for (size_t i = 0; i < of->property_count; i++) {
        const struct property *property =
            entity_find(entity, of->properties[i].name);

        if (!property || !property_equal(property, &of->properties[i]))
            return false;
    }
    return true;
}

static bool is_stored(const struct import *import, const struct entity *sent,
    const struct entity *now)
{
    return has_all(now, sent) &&
           (import->on_conflict == CONFLICT_MERGE ||
               now->property_count == sent->property_count);
}

static enum flow_verdict decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    const struct import *import = context;

    (void)arena;
    *ret = *sent;
    if (!now) {
        ret->type = OPERATION_INSERT;
        ret->entity.etag = slice_of("");
        return FLOW_SEND;
    }
    if (is_stored(import, &sent->entity, now))
        return FLOW_DONE;
    ret->entity.etag = now->etag;
    switch ((enum on_conflict)import->on_conflict) {
    case CONFLICT_SKIP:
        return FLOW_SPARE;
    case CONFLICT_REPLACE:
        ret->type = OPERATION_REPLACE;
        return FLOW_SEND;
    case CONFLICT_MERGE:
        ret->type = OPERATION_MERGE;
        return FLOW_SEND;
    case CONFLICT_FAIL:
        break;
    }
    err_fail(err, TW_CONFLICT,
        "it exists already and is different: --on-conflict skip, replace or "
        "merge says what to do");
    return FLOW_FAIL;
}

/* ---- stretches ---- */

static bool is_known(const struct import *import, uint64_t hash, size_t *ret_at)
{
    size_t at = hash % PLACES;

    while (import->places[at] && import->places[at] != hash)
        at = (at + 1) % PLACES;
    *ret_at = at;
    return import->places[at] == hash;
}

/* Everything up to line is stored, or was passed over. */
static enum tw_err end_stretch(
    struct import *import, uint64_t line, struct err *err)
{
    enum tw_err code = flow_drain(import->flow, err);

    if (code != TW_OK)
        return code;
    import->count = 0;
    memset(import->places, 0, sizeof(import->places));
    if (!import->failed)
        import->line = line;
    return TW_OK;
}

static void fill_counts(struct import *import, struct import_counts *ret)
{
    struct run_counts *counts = &import->local.run.counts;

    *ret = (struct import_counts){
        .line = import->line,
        .read = atomic_load(&counts->read),
        .written = atomic_load(&counts->written),
        .skipped = atomic_load(&counts->skipped),
        .failed = import->wrong,
    };
}

static enum tw_err save(struct import *import, uint64_t line, struct err *err)
{
    struct import_counts counts;
    enum tw_err code;

    if (!import->with_ledger || world_boot_ms() < import->save_ms)
        return TW_OK;
    code = end_stretch(import, line, err);
    if (code != TW_OK || import->failed)
        return code;
    fill_counts(import, &counts);
    import->save_ms = world_boot_ms() + SAVE_MS;
    return import_ledger_save(&import->ledger, &counts, err);
}

static enum tw_err add(struct import *import, const struct entity *entity,
    uint64_t number, struct err *err)
{
    const struct flow_item item = {
        .store = import->transfer.store,
        .table = import->transfer.table,
        .operation = {.type = OPERATION_INSERT, .entity = *entity},
        .decide = decide,
        .context = import,
    };
    uint64_t hash = hash_keys(entity->partition_key, entity->row_key);
    enum tw_err code = TW_OK;
    size_t at;

    if (is_known(import, hash, &at) || import->count == STRETCH_MAX) {
        code = end_stretch(import, number - 1, err);
        (void)is_known(import, hash, &at);
    }
    if (code != TW_OK)
        return code;
    import->places[at] = hash;
    import->hashes[import->count] = hash;
    import->numbers[import->count++] = number;
    return flow_add(import->flow, &item, err);
}

/* ---- lines ---- */

static enum tw_err take_line(
    struct import *import, struct slice line, uint64_t number, struct err *err)
{
    struct entity entity;
    bool blank;
    struct err why;

    arena_clear(&import->arena);
    if (entity_line(line, number == 1, &import->arena, &entity, &blank, &why) !=
        TW_OK) {
        wrong(import, number, why.text);
        return TW_OK;
    }
    if (blank)
        return TW_OK;
    atomic_fetch_add(&import->local.run.counts.read, 1);
    return add(import, &entity, number, err);
}

static enum tw_err take_lines(struct import *import, struct err *err)
{
    enum tw_err code = TW_OK;
    struct slice line;
    bool end = false;

    while (code == TW_OK && !import->failed) {
        uint64_t number;

        if (atomic_load(&import->transfer.session.stopped))
            return err_fail(err, TW_STOPPED, "stopped before the end");
        code = lines_next(import->lines, &line, &end, err);
        if (code == TW_OK && end)
            break;
        number = lines_number(import->lines);
        if (number <= import->skip_lines) {
            code = code == TW_TOO_LARGE ? TW_OK : code;
            continue;
        }
        if (code == TW_TOO_LARGE) {
            wrong(import, number, err->text);
            code = TW_OK;
        } else if (code == TW_OK) {
            code = take_line(import, line, number, err);
        }
        if (code == TW_OK && !import->failed)
            code = save(import, number, err);
    }
    if (code == TW_OK)
        code = end_stretch(import, lines_number(import->lines), err);
    return code;
}

/* ---- the table ---- */

static enum tw_err look_at_table(void *context, struct attempt *attempt)
{
    struct transfer *transfer = context;
    const struct scan_request request = {.table = transfer->table, .top = 1};
    struct page page;
    enum tw_err code;

    page_init(&page);
    code = store_scan(transfer->store, attempt, &request, &page);
    page_done(&page);
    return code;
}

static enum tw_err create_table(void *context, struct attempt *attempt)
{
    struct transfer *transfer = context;

    return store_create_table(transfer->store, attempt, transfer->table);
}

/* A signature may allow to add entities and neither to read nor to create; the
 * first batch says so where that does not do. */
static enum tw_err make_table(struct transfer *transfer, struct err *err)
{
    enum tw_err code = session_call(&transfer->session, transfer->store,
        look_at_table, transfer, true, err);

    if (code == TW_NOT_FOUND)
        return session_call(&transfer->session, transfer->store, create_table,
            transfer, true, err);
    return code == TW_REFUSED || code == TW_TOO_LARGE ? TW_OK : code;
}

/* ---- the ledger ---- */

static void add_member(struct buf *to, const char *name, const char *value)
{
    buf_add_format(to, "%s\"%s\":", to->len > 1 ? "," : "", name);
    json_add_string(to, slice_of(value));
}

static enum tw_err open_ledger(
    struct import *import, const char *id, bool *ret_done, struct err *err)
{
    struct transfer *transfer = &import->transfer;
    enum tw_err code;
    struct buf args;

    buf_init(&args, 65536);
    buf_add_char(&args, '{');
    add_member(&args, "table", transfer->table);
    add_member(&args, "file", import->path);
    buf_add_char(&args, '}');
    import->with_ledger = true;
    import->save_ms = world_boot_ms() + SAVE_MS;
    code =
        import_ledger_open(&import->ledger, &transfer->session, transfer->store,
            id, buf_slice(&args), &import->skip_lines, ret_done, err);
    import->line = import->skip_lines;
    buf_done(&args);
    return code;
}

/* Returns the exit code: done is only what the ledger knows to be done. */
static int end_ledger(struct import *import, int exit_code)
{
    struct import_counts counts;
    enum ledger_state state = exit_code == EXIT_DONE     ? LEDGER_SUCCEEDED
                              : exit_code == EXIT_FAILED ? LEDGER_FAILED
                                                         : LEDGER_WAITING;
    struct err err;
    enum tw_err code;

    if (!import->with_ledger || !import->ledger.stored)
        return exit_code;
    fill_counts(import, &counts);
    flow_free(import->flow);
    import->flow = NULL;
    session_again(&import->transfer.session);
    code = import_ledger_end(&import->ledger, &counts, state,
        exit_code == EXIT_FAILED ? import->last_error.text : "", &err);
    if (code == TW_OK)
        return exit_code;
    say("the ledger could not be told: %s", err.text);
    return exit_code == EXIT_DONE ? say_exit(code) : exit_code;
}

/* ---- the whole ---- */

static void look(void *context, struct progress_state *ret)
{
    struct import *import = context;
    struct run_counts *counts = &import->local.run.counts;

    ret->done = atomic_load(&counts->written) + atomic_load(&counts->skipped);
    ret->share = lines_share(import->lines);
}

static void say_sums(struct import *import)
{
    struct run_counts *counts = &import->local.run.counts;
    struct buf line;

    buf_init(&line, 512);
    say_count(&line, atomic_load(&counts->written));
    buf_add_format(&line, " entities are stored in %s", import->transfer.table);
    if (atomic_load(&counts->skipped) > 0) {
        buf_add_text(&line, ", ");
        say_count(&line, atomic_load(&counts->skipped));
        buf_add_text(&line, " were there and stay as they are");
    }
    if (import->wrong > 0) {
        buf_add_text(&line, ", ");
        say_count(&line, import->wrong);
        buf_add_text(&line, " lines were passed over");
    }
    say("%s", buf_text(&line));
    buf_done(&line);
}

static int end_failed(struct import *import)
{
    say("stopped at the first error (--on-error skip passes over lines that "
        "cannot be taken)");
    say("%s", import->last_error.text);
    return EXIT_FAILED;
}

static int carry(struct import *import)
{
    struct progress *progress;
    struct err err;
    enum tw_err code;

    local_run_init(
        &import->local, &import->transfer.session, "import", "import");
    import->local.failed = on_failed;
    import->local.context = import;
    import->flow = flow_new(&import->local.run,
        (unsigned)import->transfer.session.load->setup.lanes);
    progress = progress_start("import", "imported", look, import);
    code = take_lines(import, &err);
    flow_settle(import->flow);
    progress_end(progress);
    if (import->failed)
        return end_failed(import);
    if (code == TW_OK)
        say_sums(import);
    if (code == TW_INVALID) { /* the file */
        import->last_error = err;
        say("%s", err.text);
        return EXIT_FAILED;
    }
    return code == TW_OK ? EXIT_DONE
                         : transfer_failed(&import->transfer, code, &err);
}

/* What the id knows, and the table. *ret_done: nothing is left to do. */
static int prepare(struct import *import, bool *ret_done)
{
    const char *id = import->transfer.invocation->values[OPTION_ID];
    struct err err;
    enum tw_err code = make_table(&import->transfer, &err);

    if (code == TW_OK && id)
        code = open_ledger(import, id, ret_done, &err);
    if (code == TW_CONFLICT)
        return say_usage("%s", err.text);
    if (code != TW_OK)
        return say_failed(code, &err);
    if (*ret_done)
        say("import %s succeeded before: nothing is left to do", id);
    else if (import->skip_lines > 0)
        say("going on after line %" PRIu64, import->skip_lines);
    return EXIT_DONE;
}

static int perform(struct import *import)
{
    struct err err;
    bool done = false;
    int code;

    if (lines_open(import->path, &import->transfer.session.stopped,
            &import->lines, &err) != TW_OK) {
        say("%s", err.text);
        return EXIT_FAILED;
    }
    code = prepare(import, &done);
    if (code != EXIT_DONE || done)
        return code;
    return end_ledger(import, carry(import));
}

/* ---- the command ---- */

static int read_choice(const struct invocation *invocation, enum option option,
    const char *name, const char *const *choices, int *ret)
{
    const char *text = invocation->values[option];
    size_t count = 0;

    for (; text && choices[count]; count++)
        if (strcmp(text, choices[count]) == 0) {
            *ret = (int)count;
            return EXIT_DONE;
        }
    return text ? say_unknown(
                      name, text, text_nearest(slice_of(text), choices, count))
                : EXIT_DONE;
}

static int read_options(struct import *import)
{
    const struct invocation *invocation = import->transfer.invocation;
    const char *id = invocation->values[OPTION_ID];
    struct slice checked;
    int code = id ? args_read_id(id, &checked) : EXIT_DONE;

    import->path = invocation->args[1];
    if (code != EXIT_DONE)
        return code;
    code = read_choice(invocation, OPTION_ON_CONFLICT, "--on-conflict",
        ON_CONFLICT, &import->on_conflict);
    if (code == EXIT_DONE)
        code = read_choice(invocation, OPTION_ON_ERROR, "--on-error", ON_ERROR,
            &import->skip_errors);
    return code;
}

static int run(const struct invocation *invocation)
{
    struct import *import = mem_alloc(sizeof(*import));
    int code = transfer_open(&import->transfer, invocation, true);

    arena_init(&import->arena);
    if (code == EXIT_DONE)
        code = read_options(import);
    if (code == EXIT_DONE)
        code = perform(import);
    flow_free(import->flow);
    if (import->with_ledger)
        import_ledger_done(&import->ledger);
    lines_close(import->lines);
    arena_done(&import->arena);
    transfer_close(&import->transfer);
    mem_free(import);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", "FILE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_ON_CONFLICT, "where another entity has the key: fail (the "
                         "default), skip, replace or merge"},
    {OPTION_ON_ERROR,
        "a line that cannot be taken: fail (the default) or skip"},
    {OPTION_ID, "keep in the ledger how far it is; the same id again goes on"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_import = {
    .name = "import",
    .arguments = "TABLE FILE",
    .summary = "stores entities from JSON Lines, as export writes them",
    .details =
        "FILE may be - for standard input. A missing table is created. An "
        "entity that is\nthere and equal is fine, so an import may be "
        "repeated. "
        "Timestamp and odata.* are\npassed over. With --id the ledger of the "
        "same store keeps the last line that is\nstored with all before it "
        "(job -import in `status`).\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
