/* SPDX-License-Identifier: MIT */
/*
 * `tableward import TABLE FILE`: JSON Lines or CSV into a table.
 *
 * Every entity is inserted first. Where one is there already, an equal one is
 * fine, and a different one goes by --on-conflict with the ETag that was read;
 * so records may be sent again after a crash or a lost answer. A sorter brings
 * them together by PartitionKey, and the engine's flow makes batches of them.
 *
 * Records of the same key must keep their order, which batches in flight do
 * not: the keys of a stretch of records are remembered, and everything is
 * settled before one of them comes again, or the stretch is full.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/engine/flow.h"
#include "jobs/engine/sorter.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/hash.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/transfer/import_ledger.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/store/store.h"
#include "worker/transfer/records.h"
#include "worker/transfer/rejects.h"
#include "worker/transfer/pending_keys.h"

/* With --id: how often the ledger is told. And for how long at most what comes
 * slowly waits for more of its PartitionKey. */
#define SAVE_MS 1000
#define POUR_MS 1000

/* --on-conflict: what is done if an entity has the key of a record. */
enum on_conflict {
    CONFLICT_FAIL,
    CONFLICT_SKIP,
    CONFLICT_REPLACE,
    CONFLICT_MERGE,
};

static const char *const CONFLICT_NAMES[] = {
    [CONFLICT_FAIL] = "fail",
    [CONFLICT_SKIP] = "skip",
    [CONFLICT_REPLACE] = "replace",
    [CONFLICT_MERGE] = "merge",
    NULL,
};

static const char *const ON_ERROR[] = {"fail", "skip", NULL};
/* By enum records_format. */
static const char *const FORMAT[] = {"json", "csv", NULL};

/* A record that is on its way to the store. */
struct sent {
    struct import *import;
    struct sent *next, *previous;
    uint64_t number; /* its line */
    size_t len;      /* of the record; 0 where nobody wants it back */
    char raw[];
};

struct import {
    struct transfer transfer;
    const char *path, *rejected; /* rejected: NULL: nobody keeps them */
    int on_conflict;             /* enum on_conflict */
    int skip_errors;             /* index into ON_ERROR */
    int format;                  /* enum records_format */

    struct records *records;
    int64_t digest;          /* of all before the record that is worked on */
    struct rejects *rejects; /* NULL: nobody keeps them */
    struct arena arena;      /* of the record that is worked on */

    struct local_run local;
    struct sorter *sorter;
    struct flow *flow;
    struct sent *sent;      /* all that are on their way */
    struct stretch stretch; /* their keys */
    int64_t pour_ms;        /* when the sorter is poured at the latest */
    struct err why;         /* of the record that is failing */

    struct import_ledger ledger;
    bool with_ledger;
    int64_t save_ms; /* when it is told next */

    struct import_counts settled; /* up to its place, at the last drain */
    int64_t wrong;                /* records that could not be taken */
    bool failed;                  /* one of them ends the import */
    struct err last_error;        /* for the ledger */
};

/* ---- records that are wrong ---- */

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

/* The flow's word on an entity; on_settled() knows its line. */
static void on_failed(void *context, const struct run_failure *failure)
{
    struct import *import = context;
    struct buf text;

    buf_init(&text, sizeof(import->why.text));
    buf_add_text(&text, "entity ");
    text_quote(&text, failure->partition_key);
    buf_add_char(&text, ' ');
    text_quote(&text, failure->row_key);
    buf_add_format(&text, ": %s", failure->why);
    err_fail(&import->why, TW_INVALID, "%s", buf_text(&text));
    buf_done(&text);
}

static struct sent *keep_sent(
    struct import *import, const struct record *record)
{
    size_t len = import->rejects ? record->raw.len : 0;
    struct sent *sent = mem_alloc(sizeof(*sent) + len);

    sent->import = import;
    sent->number = record->first;
    sent->len = len;
    if (len > 0)
        memcpy(sent->raw, record->raw.at, len);
    sent->next = import->sent;
    if (sent->next)
        sent->next->previous = sent;
    import->sent = sent;
    return sent;
}

static void forget_sent(struct sent *sent)
{
    if (sent->next)
        sent->next->previous = sent->previous;
    if (sent->previous)
        sent->previous->next = sent->next;
    else
        sent->import->sent = sent->next;
    mem_free(sent);
}

static void on_settled(void *context, const struct flow_settled *how)
{
    struct sent *sent = context;
    struct import *import = sent->import;

    if (how->end == FLOW_ENDED_FAILED) {
        wrong(import, sent->number, import->why.text);
        if (import->rejects)
            rejects_add(import->rejects, (struct slice){sent->raw, sent->len});
    }
    forget_sent(sent);
}

/* ---- an entity that is there already ---- */

static bool is_stored(const struct import *import, const struct entity *sent,
    const struct entity *now)
{
    return entity_has_all(now, sent) &&
           (import->on_conflict == CONFLICT_MERGE ||
               now->property_count == sent->property_count);
}

static enum flow_verdict decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    const struct import *import = ((const struct sent *)context)->import;

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

static enum tw_err pour(struct import *import, struct err *err)
{
    import->pour_ms = world_boot_ms() + POUR_MS;
    return sorter_pour(import->sorter, import->flow, err);
}

/* Who goes on knows by this whether somebody has mended the file. */
static enum tw_err look_at_rejects(struct import *import, struct err *err)
{
    struct import_place *place = &import->settled.place;
    enum tw_err code;

    if (!import->rejects)
        return TW_OK;
    code = rejects_sync(import->rejects, &place->left, err);
    if (code == TW_OK && import->with_ledger)
        place->seen = rejects_digest(import->rejects, place->left);
    return code;
}

/* What was passed over is on disk before the ledger says so. */
static enum tw_err sync_rejects(struct import *import, struct err *err)
{
    enum tw_err code = look_at_rejects(import, err);

    if (code == TW_OK)
        import->settled.place.rejected_bytes = import->settled.place.left;
    return code;
}

/* The ledger counts what lies before its place alone: who goes on there reads
 * the rest again. */
static void settle(struct import *import, uint64_t line)
{
    const struct run_counts *counts = &import->local.run.counts;
    struct import_counts *settled = &import->settled;

    settled->place.line = line;
    settled->place.digest = import->digest;
    settled->read = atomic_load(&counts->read);
    settled->written = atomic_load(&counts->written);
    settled->skipped = atomic_load(&counts->skipped);
    settled->failed = import->wrong;
}

/* Everything up to line is stored, or was passed over. */
static enum tw_err end_stretch(
    struct import *import, uint64_t line, struct err *err)
{
    enum tw_err code = pour(import, err);

    if (code == TW_OK)
        code = flow_drain(import->flow, err);
    if (code != TW_OK)
        return code;
    stretch_clear(&import->stretch);
    if (import->failed)
        return TW_OK;
    if (import->with_ledger)
        code = sync_rejects(import, err);
    if (code == TW_OK)
        settle(import, line);
    return code;
}

static enum tw_err save(struct import *import, uint64_t line, struct err *err)
{
    enum tw_err code;

    if (!import->with_ledger || world_boot_ms() < import->save_ms)
        return TW_OK;
    code = end_stretch(import, line, err);
    if (code != TW_OK || import->failed)
        return code;
    code = import_ledger_save(&import->ledger, &import->settled, err);
    import->save_ms = world_boot_ms() + SAVE_MS;
    return code;
}

static enum tw_err add(
    struct import *import, const struct record *record, struct err *err)
{
    const struct entity *entity = &record->entity;

    if (!stretch_add(&import->stretch, entity)) {
        enum tw_err code = end_stretch(import, record->first - 1, err);

        if (code != TW_OK)
            return code;
        (void)stretch_add(&import->stretch, entity);
    }
    atomic_fetch_add(&import->local.run.counts.read, 1);
    sorter_add(import->sorter,
        &(struct flow_item){
            .store = import->transfer.store,
            .table = import->transfer.table,
            .operation = {.type = OPERATION_INSERT, .entity = *entity},
            .decide = decide,
            .context = keep_sent(import, record),
            .settled = on_settled,
        });
    if (!sorter_is_full(import->sorter) && world_boot_ms() < import->pour_ms)
        return TW_OK;
    return pour(import, err);
}

/* ---- records ---- */

static enum tw_err take(
    struct import *import, const struct record *record, struct err *err)
{
    if (record->wrong) {
        wrong(import, record->first, record->why.text);
        if (import->rejects && !record->spilled)
            rejects_add(import->rejects, record->raw);
        return TW_OK;
    }
    return record->blank ? TW_OK : add(import, record, err);
}

static enum tw_err take_all(struct import *import, struct err *err)
{
    uint64_t line = import->settled.place.line;
    enum tw_err code = TW_OK;
    struct record record;
    bool end = false;

    while (code == TW_OK && !import->failed) {
        if (atomic_load(&import->transfer.session.stopped))
            return err_fail(err, TW_STOPPED, "stopped before the end");
        arena_clear(&import->arena);
        code =
            records_next(import->records, &import->arena, &record, &end, err);
        if (code != TW_OK || end)
            break;
        line = record.last;
        code = take(import, &record, err);
        import->digest = records_digest(import->records);
        if (code == TW_OK && !import->failed)
            code = save(import, line, err);
    }
    if (code == TW_OK)
        code = end_stretch(import, line, err);
    return code == TW_OK && !import->failed ? sync_rejects(import, err) : code;
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
            id, buf_slice(&args), &import->settled.place, ret_done, err);
    buf_done(&args);
    return code;
}

/* Returns the exit code: done is only what the ledger knows to be done. */
static int end_ledger(struct import *import, int exit_code)
{
    enum ledger_state state = exit_code == EXIT_DONE     ? LEDGER_SUCCEEDED
                              : exit_code == EXIT_FAILED ? LEDGER_FAILED
                                                         : LEDGER_WAITING;
    struct err err;
    enum tw_err code;

    if (!import->with_ledger || !import->ledger.stored || import->ledger.passed)
        return exit_code;
    flow_free(import->flow);
    import->flow = NULL;
    session_again(&import->transfer.session);
    code = import_ledger_end(&import->ledger, &import->settled, state,
        exit_code == EXIT_FAILED ? import->last_error.text : "", &err);
    if (code == TW_OK)
        return exit_code;
    say("the ledger could not be told: %s", err.text);
    if (exit_code != EXIT_DONE)
        return exit_code;
    return import->ledger.passed ? EXIT_STOPPED : say_exit(code);
}

/* ---- the whole ---- */

static void look(void *context, struct progress_state *ret)
{
    struct import *import = context;
    struct run_counts *counts = &import->local.run.counts;

    ret->done = atomic_load(&counts->written) + atomic_load(&counts->skipped);
    ret->share = records_share(import->records);
}

static void say_sums(struct import *import)
{
    struct run_counts *counts = &import->local.run.counts;
    int64_t skipped = atomic_load(&counts->skipped);
    struct buf line;

    buf_init(&line, 512);
    say_number(
        &line, atomic_load(&counts->written), "entity is", "entities are");
    buf_add_format(&line, " stored in %s", import->transfer.table);
    if (skipped > 0) {
        buf_add_text(&line, ", ");
        say_number(&line, skipped, "was there and stays as it is",
            "were there and stay as they are");
    }
    if (import->wrong > 0) {
        buf_add_text(&line, ", ");
        say_number(&line, import->wrong, "line was passed over",
            "lines were passed over");
        if (import->rejects)
            buf_add_format(&line, " and %s in %s",
                import->wrong == 1 ? "is" : "are", import->rejected);
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

static int end_overtaken(const struct err *err)
{
    say("%s", err->text);
    return EXIT_STOPPED;
}

static int end_early(struct import *import, enum tw_err code, struct err *err)
{
    bool stopped = atomic_load(&import->transfer.session.stopped);

    if (import->ledger.passed)
        return end_overtaken(err);
    /* A file, not the store. */
    if (code == TW_INVALID || (code == TW_STOPPED && !stopped)) {
        import->last_error = *err;
        say("%s", err->text);
        return code == TW_INVALID ? EXIT_FAILED : EXIT_STOPPED;
    }
    return transfer_failed(&import->transfer, code, err);
}

static int carry(struct import *import)
{
    struct progress *progress;
    struct err err, unseen;
    enum tw_err code;

    local_run_init(
        &import->local, &import->transfer.session, "import", "import");
    import->local.failed = on_failed;
    import->local.context = import;
    import->flow = flow_new(&import->local.run,
        (unsigned)import->transfer.session.load->setup.lanes);
    import->sorter = sorter_new();
    progress = progress_start("import", "imported", look, import);
    code = take_all(import, &err);
    flow_settle(import->flow);
    progress_end(progress);
    if (code != TW_OK && look_at_rejects(import, &unseen) != TW_OK)
        import->settled.place.seen = 0;
    if (import->failed)
        return end_failed(import);
    if (code != TW_OK)
        return end_early(import, code, &err);
    say_sums(import);
    return EXIT_DONE;
}

/* What the id knows, and the table. *ret_done: nothing is left to do. */
static int prepare(struct import *import, bool *ret_done)
{
    const char *id = import->transfer.invocation->values[OPTION_ID];
    struct err err;
    enum tw_err code = make_table(&import->transfer, &err);

    if (code == TW_OK && id)
        code = open_ledger(import, id, ret_done, &err);
    if (import->ledger.passed)
        return end_overtaken(&err);
    if (code == TW_CONFLICT)
        return say_usage("%s", err.text);
    if (code != TW_OK)
        return say_failed(code, &err);
    if (*ret_done)
        say("import %s succeeded before: nothing is left to do", id);
    return EXIT_DONE;
}

/* What an earlier process has stored is passed over: of the same file. */
static enum tw_err skip_stored(struct import *import, struct err *err)
{
    const struct import_place *place = &import->settled.place;
    enum tw_err code = records_skip(import->records, place->line, err);

    import->digest = records_digest(import->records);
    if (code != TW_OK || place->line == 0)
        return code;
    if (place->digest != 0 && place->digest != import->digest)
        return err_fail(err, TW_INVALID,
            "%s: its first %" PRIu64
            " lines, which this id has stored, are others now: import it "
            "under another id",
            import->path, place->line);
    say("going on after line %" PRIu64, place->line);
    return TW_OK;
}

static int64_t name_of(const char *path)
{
    uint64_t hash = hash_slice(HASH_BEGIN, slice_of(path));

    return (int64_t)(hash_mix(hash) >> 1 | 1);
}

/* The ledger is told of the file before anything is in it: a process that goes
 * on after a kill knows then whose the file is. */
static enum tw_err begin_new_rejects(
    struct import *import, int64_t name, struct err *err)
{
    struct import_place *place = &import->settled.place;
    enum tw_err code = rejects_begin(
        import->rejects, records_header(import->records), REJECTS_NEW, err);

    if (code != TW_OK || !import->with_ledger)
        return code;
    place->kept = name;
    place->rejected_bytes = place->left = place->seen = 0;
    return import_ledger_save(&import->ledger, &import->settled, err);
}

/* And of what is about to be cut off, before it is gone: a process that goes on
 * after a kill would take the rest for a file that somebody has mended. */
static enum tw_err go_on_with_rejects(
    struct import *import, int64_t name, struct err *err)
{
    struct import_place *place = &import->settled.place;
    enum tw_err code;

    if (rejects_is_mended(import->rejects, place->left, place->seen))
        return err_fail(err, TW_INVALID,
            "%s is not as this id has left it: import what is mended in it, "
            "and remove it",
            import->rejected);
    place->kept = name;
    place->left = place->rejected_bytes;
    place->seen = rejects_digest(import->rejects, place->left);
    code = import_ledger_save(&import->ledger, &import->settled, err);
    if (code != TW_OK)
        return code;
    return rejects_begin(import->rejects, records_header(import->records),
        place->rejected_bytes, err);
}

static enum tw_err begin_rejects(struct import *import, struct err *err)
{
    const struct import_place *place = &import->settled.place;
    int64_t name = name_of(import->rejected);
    bool ours =
        place->kept == name || (place->kept == 0 && place->rejected_bytes > 0);

    return ours ? go_on_with_rejects(import, name, err)
                : begin_new_rejects(import, name, err);
}

/* The files, where an earlier process has left them. */
static int place_files(struct import *import)
{
    struct err err;
    enum tw_err code = skip_stored(import, &err);

    if (code == TW_OK && import->rejects)
        code = begin_rejects(import, &err);
    if (code != TW_OK)
        return end_early(import, code, &err);
    if (import->rejects)
        records_spill(import->records, rejects_spill(import->rejects));
    return EXIT_DONE;
}

/* The file of what is passed over is taken before the id is: who still writes
 * it, perhaps under the same id, is not disturbed. */
static enum tw_err open_files(struct import *import, struct err *err)
{
    enum tw_err code =
        records_open(import->path, (enum records_format)import->format,
            &import->transfer.session.stopped, &import->records, err);

    if (code == TW_OK && import->rejected)
        code = rejects_open(import->rejected, &import->rejects, err);
    return code;
}

static int perform(struct import *import)
{
    struct err err;
    enum tw_err opened = open_files(import, &err);
    bool done = false;
    int code;

    if (opened != TW_OK)
        return end_early(import, opened, &err);
    code = prepare(import, &done);
    if (code != EXIT_DONE || done)
        return code;
    code = place_files(import);
    return end_ledger(import, code == EXIT_DONE ? carry(import) : code);
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

/* The regular file that is imported, which may be standard input. */
static bool look_at_input(const struct import *import, struct stat *ret)
{
    int failed = strcmp(import->path, "-") == 0 ? fstat(STDIN_FILENO, ret)
                                                : stat(import->path, ret);

    return failed == 0 && S_ISREG(ret->st_mode);
}

static bool is_input(const struct import *import, const char *path)
{
    struct stat one, other;

    return look_at_input(import, &one) && stat(path, &other) == 0 &&
           one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

/* Beside a pipe, a device or standard input no file belongs. */
static bool has_place_beside(const struct import *import)
{
    struct stat is;

    return strcmp(import->path, "-") != 0 && look_at_input(import, &is);
}

/* Where the records go that are passed over. */
static int read_rejected(struct import *import)
{
    const char *given = import->transfer.invocation->values[OPTION_REJECTED];

    if (given && !import->skip_errors)
        return say_usage("--rejected wants --on-error skip");
    if (given && is_input(import, given))
        return say_usage("--rejected names the file that is imported");
    if (given || !import->skip_errors || !has_place_beside(import))
        import->rejected = given;
    else
        import->rejected =
            arena_format(&import->transfer.arena, "%s.rejected", import->path)
                .at;
    return EXIT_DONE;
}

static enum records_format format_of(const char *path)
{
    size_t len = strlen(path);

    return len >= 4 && strcasecmp(path + len - 4, ".csv") == 0
               ? RECORDS_CSV
               : RECORDS_JSON_LINES;
}

static int read_options(struct import *import)
{
    const struct invocation *invocation = import->transfer.invocation;
    const char *id = invocation->values[OPTION_ID];
    struct slice checked;
    int code = id ? args_read_id(id, &checked) : EXIT_DONE;

    import->path = invocation->args[1];
    import->format = (int)format_of(import->path);
    if (code == EXIT_DONE)
        code = read_choice(invocation, OPTION_ON_CONFLICT, "--on-conflict",
            CONFLICT_NAMES, &import->on_conflict);
    if (code == EXIT_DONE)
        code = read_choice(invocation, OPTION_ON_ERROR, "--on-error", ON_ERROR,
            &import->skip_errors);
    if (code == EXIT_DONE)
        code = read_choice(
            invocation, OPTION_FORMAT, "--format", FORMAT, &import->format);
    if (code == EXIT_DONE)
        code = read_rejected(import);
    if (code == EXIT_DONE)
        code = transfer_check_file(&import->transfer, import->path);
    if (code == EXIT_DONE && import->rejected)
        code = transfer_check_file(&import->transfer, import->rejected);
    return code;
}

static void drop_sent(struct import *import)
{
    while (import->sent)
        forget_sent(import->sent);
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
    sorter_free(import->sorter);
    flow_free(import->flow);
    drop_sent(import);
    if (import->with_ledger)
        import_ledger_done(&import->ledger);
    rejects_close(import->rejects);
    records_close(import->records);
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
    {OPTION_REJECTED, "where skip keeps such lines; default: FILE.rejected"},
    {OPTION_FORMAT, "json or csv; default: csv for a FILE that ends in .csv"},
    {OPTION_ID, "keep in the ledger how far it is; the same id again goes on"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_import = {
    .name = "import",
    .arguments = "TABLE FILE",
    .summary = "stores entities from JSON Lines, as export writes them, or CSV",
    .details =
        "FILE may be - for standard input. A missing table is created. An "
        "entity that is\nthere and equal is fine, so an import may be "
        "repeated. "
        "Timestamp and odata.* are\npassed over. With --id the ledger of the "
        "same store keeps the last line that is\nstored with all before it "
        "(job -import in `status`).\n\n"
        "CSV is what Storage Explorer writes: a header with PartitionKey and "
        "RowKey, cells\nquoted where they need it, the type of a property in "
        "the column PROPERTY@type (String\nwithout one). An empty cell "
        "without a type is a property that is not there.\n\n"
        "With --on-error skip the lines that cannot be taken are told by their "
        "number and\nkept as they came, so that they can be mended and "
        "imported; of a pipe only with\n--rejected. "
        "What is in such a file already is never written over, and while one "
        "import\nwrites it, another is refused it.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
