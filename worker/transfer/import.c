/* SPDX-License-Identifier: MIT */
/*
 * Every entity is inserted first. If an entity with the same keys exists, it is
 * read: an equal entity is accepted, and a different one is handled by
 * on_conflict, with the ETag that was read. So records may be sent again after
 * a crash or an unknown outcome. A sorter groups the records by PartitionKey,
 * and a batch writer makes batches of them.
 *
 * Records with the same key must keep their order, but batches in flight have
 * no order. So a set holds the keys of the records in flight. If the key of
 * the next record is in the set, or the set is full, the import first waits
 * until all records in flight are confirmed.
 *
 * import_run() is the list of steps, and the parts of this file follow in that
 * order.
 */
#include "worker/transfer/import.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "jobs/engine/batch_writer.h"
#include "jobs/engine/call.h"
#include "jobs/engine/sorter.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/hash.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/local_run.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"
#include "worker/transfer/pending_keys.h"
#include "worker/transfer/rejects.h"
#include "worker/transfer/rejects_tail.h"

/* The interval of ledger updates of an import with an id. */
#define SAVE_MS 1000
/* The longest time for which a record is held back, to be sent in one batch
 * with others of its PartitionKey. */
#define SUBMIT_MS 1000

#define ARGS_MAX 65536

/* A record that is in flight. */
struct sent {
    struct import *import;
    struct sent *next, *previous;
    uint64_t number; /* number of the record's first line */
    size_t len;      /* length of raw; 0 if rejected lines are not kept */
    char raw[];
};

struct import {
    struct transfer transfer;
    struct import_options options;

    struct records *records;
    _Atomic(struct records *) opened; /* equals `records` once the file is open;
                                         for import_progress() */
    int64_t digest;          /* records_digest() before the current record */
    struct rejects *rejects; /* NULL: rejected lines are not kept */
    struct arena arena;      /* memory of the current record */

    struct local_run local;
    struct sorter *sorter;
    struct batch_writer *batch_writer;
    struct sent *sent; /* all records in flight */
    struct pending_keys pending;
    int64_t submit_ms; /* when the sorter is flushed at the latest */
    struct err why;    /* why the batch writer last reported a failed record */

    struct import_ledger ledger;
    bool with_ledger;
    int64_t save_ms; /* time of the next ledger update */

    struct import_counts confirmed; /* counts up to confirmed.position */
    int64_t rejected;   /* number of records that this process rejected */
    bool failed;        /* an invalid record ends the import */
    struct err failure; /* error of that record */
    bool repeated;
};

/* ---- files ---- */

/* Open the files. The rejects file is locked before this process takes over the
 * id. So if another process, perhaps with the same id, still writes the file,
 * this process ends here, and the other process keeps the id. */
static enum tw_err open_files(struct import *import, struct err *err)
{
    const struct import_options *options = &import->options;
    enum tw_err outcome = records_open(options->path, options->format,
        import->transfer.stopped, &import->records, err);

    if (outcome != TW_OK)
        return outcome;
    atomic_store(&import->opened, import->records);
    return options->rejects_path
               ? rejects_open(options->rejects_path, &import->rejects, err)
               : TW_OK;
}

/* ---- the ledger ---- */

static void add_member(struct buf *to, const char *name, const char *value)
{
    buf_add_format(to, "%s\"%s\":", to->len > 1 ? "," : "", name);
    json_add_string(to, slice_of(value));
}

static enum tw_err open_ledger(struct import *import, struct err *err)
{
    enum tw_err outcome;
    struct buf args;

    if (!import->options.id)
        return TW_OK;
    buf_init(&args, ARGS_MAX);
    buf_add_char(&args, '{');
    add_member(&args, "table", import->transfer.table);
    add_member(&args, "file", import->options.path);
    buf_add_char(&args, '}');
    import->with_ledger = true;
    import->save_ms = platform_boot_ms() + SAVE_MS;
    outcome = import_ledger_open(&import->ledger, &import->transfer,
        import->options.id, buf_slice(&args), &import->confirmed.position,
        &import->repeated, err);
    buf_done(&args);
    return outcome;
}

/* Refuse to repeat an import that has succeeded with other content, because the
 * exit code would say that the content of the file is stored. The path does not
 * identify the content: the file may have been replaced, and the path of every
 * standard input is "-". So the file is read, and compared by number and digest
 * of its lines. */
static enum tw_err check_repeated(struct import *import, struct err *err)
{
    const struct import_position *position = &import->confirmed.position;
    const char *path = import->options.path;
    enum tw_err outcome = records_skip(import->records, position->line, err);

    /* Try to read a further line, which the file must not have. + 2, not + 1,
     * because the header of a CSV file has been read already: if no record
     * follows the header, the position is line 0. */
    if (outcome == TW_OK && records_digest(import->records) == position->digest)
        outcome = records_skip(import->records, position->line + 2, err);
    if (outcome != TW_OK || records_digest(import->records) == position->digest)
        return outcome;
    return err_fail(err, TW_CONFLICT,
        "import %s has succeeded with other content than %s has now: nothing "
        "was imported; import this content under another id",
        import->options.id, strcmp(path, "-") == 0 ? "standard input" : path);
}

/* Refuse an id under which entities were skipped, unless --on-conflict is skip
 * again. Otherwise these entities would stay different from the file, because
 * their lines are not read again. */
static enum tw_err check_skipped(const struct import *import, struct err *err)
{
    int64_t skipped = import->ledger.before.skipped;

    if (skipped == 0 || import->options.on_conflict == IMPORT_CONFLICT_SKIP)
        return TW_OK;
    return err_fail(err, TW_CONFLICT,
        "import %s skipped %" PRId64
        " entit%s of table %s that differ%s from the file (--on-conflict "
        "skip). Continued under this id, the import would not read their lines "
        "again: import the file under another id, which begins at the first "
        "line",
        import->options.id, skipped, skipped == 1 ? "y" : "ies",
        import->transfer.table, skipped == 1 ? "s" : "");
}

/* ---- the table ---- */

/* What the table holds before this process writes to it. */
enum table_content {
    CONTENT_UNKNOWN, /* the table has entities, or this process has no right to
                        read it */
    CONTENT_MISSING, /* there is no such table */
    CONTENT_EMPTY,   /* the table has no entity */
};

/* Find out what the table contains. A SAS may allow inserts, but neither reads
 * nor the creation of tables. So TW_FORBIDDEN is no failure here, because the
 * first batch shows whether inserts are allowed. */
static enum tw_err find_content(
    struct transfer *transfer, enum table_content *ret, struct err *err)
{
    const struct scan_request request = {.table = transfer->table, .top = 1};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome =
        call_scan(transfer->client, transfer->store, &request, &page, err);
    *ret = CONTENT_UNKNOWN;
    if (outcome == TW_OK && page.count == 0 && !page.next.more)
        *ret = CONTENT_EMPTY;
    else if (outcome == TW_NOT_FOUND)
        *ret = CONTENT_MISSING;
    page_done(&page);
    return outcome == TW_NOT_FOUND || outcome == TW_FORBIDDEN ||
                   outcome == TW_TOO_LARGE
               ? TW_OK
               : outcome;
}

/* Refuse to continue an import whose table no longer holds what an earlier
 * process with this id has stored there. Otherwise the lines up to the position
 * would be skipped, and would be missing from the new table. An import that has
 * succeeded is refused only if the table is missing, because its entities may
 * have been deleted since. */
static enum tw_err check_content(
    const struct import *import, enum table_content content, struct err *err)
{
    const struct import_counts *before = &import->ledger.before;
    uint64_t line = import->confirmed.position.line;
    bool empty = content == CONTENT_EMPTY && !import->repeated &&
                 before->written + before->skipped > 0;

    if (line == 0 || !(empty || content == CONTENT_MISSING))
        return TW_OK;
    return err_fail(err, TW_CONFLICT,
        "the first %" PRIu64
        " lines of %s are stored in table %s according to import %s, but the "
        "table %s: import the file under another id, to begin at the first "
        "line",
        line, import->options.path, import->transfer.table, import->options.id,
        empty ? "is empty" : "does not exist any more");
}

/* Create the table, after the check. If the table were created before the check
 * and the process were killed in between, the next process could not find out
 * that the table was missing. */
static enum tw_err ensure_table(struct import *import, struct err *err)
{
    enum table_content content;
    enum tw_err outcome = find_content(&import->transfer, &content, err);

    if (outcome == TW_OK)
        outcome = check_content(import, content, err);
    if (outcome != TW_OK || content != CONTENT_MISSING)
        return outcome;
    return call_create_table(import->transfer.client, import->transfer.store,
        import->transfer.table, err);
}

/* ---- continuing after an earlier process ---- */

/* Skip the lines that an earlier process stored, and check that they are
 * unchanged. */
static enum tw_err skip_stored(struct import *import, struct err *err)
{
    const struct import_position *position = &import->confirmed.position;
    enum tw_err outcome = records_skip(import->records, position->line, err);

    import->digest = records_digest(import->records);
    if (outcome != TW_OK || position->line == 0)
        return outcome;
    if (position->digest != 0 && position->digest != import->digest)
        return err_fail(err, TW_INVALID,
            "%s: its first %" PRIu64
            " lines have changed since this id stored them: import it under "
            "another id",
            import->options.path, position->line);
    transfer_report(
        &import->transfer, "continuing after line %" PRIu64, position->line);
    return TW_OK;
}

static int64_t hash_path(const char *path)
{
    uint64_t hash = hash_slice(HASH_BEGIN, slice_of(path));

    return (int64_t)(hash_mix(hash) >> 1 | 1);
}

/* Stores a hash of the rejects file's path in the ledger before the first
 * rejected line is written to the file. If this process is killed, the next one
 * knows by the hash that the file belongs to this id. */
static enum tw_err begin_new_rejects(
    struct import *import, int64_t path, struct err *err)
{
    struct import_position *position = &import->confirmed.position;
    enum tw_err outcome = rejects_begin(
        import->rejects, records_header(import->records), REJECTS_NEW, err);

    if (outcome != TW_OK || !import->with_ledger)
        return outcome;
    position->rejects_path = path;
    position->rejected_bytes = 0;
    position->rejects_size = position->rejects_digest = 0;
    return import_ledger_save(&import->ledger, &import->confirmed, err);
}

static bool is_edited(struct import *import)
{
    const struct import_position *position = &import->confirmed.position;

    return rejects_is_edited(import->rejects, position->rejects_size,
               position->rejects_digest) ||
           rejects_tail_is_edited(import->rejects, position->rejects_size,
               import->options.path, position->line);
}

/* Continue the rejects file. The ledger is updated before the file is
 * truncated. If the file were truncated first and the process were killed in
 * between, the next process would report the truncated file as edited. */
static enum tw_err continue_rejects(
    struct import *import, int64_t path, struct err *err)
{
    struct import_position *position = &import->confirmed.position;
    enum tw_err outcome;

    if (is_edited(import))
        return err_fail(err, TW_INVALID,
            "%s was edited since this import was interrupted: first import "
            "that file, with its corrected lines, then delete it and "
            "continue this import",
            import->options.rejects_path);
    position->rejects_path = path;
    position->rejects_size = position->rejected_bytes;
    position->rejects_digest =
        rejects_digest(import->rejects, position->rejects_size);
    outcome = import_ledger_save(&import->ledger, &import->confirmed, err);
    if (outcome != TW_OK)
        return outcome;
    return rejects_begin(import->rejects, records_header(import->records),
        position->rejected_bytes, err);
}

static enum tw_err begin_rejects(struct import *import, struct err *err)
{
    const struct import_position *position = &import->confirmed.position;
    int64_t path;
    enum tw_err outcome;

    if (!import->rejects)
        return TW_OK;
    path = hash_path(import->options.rejects_path);
    outcome = position->rejects_path == path
                  ? continue_rejects(import, path, err)
                  : begin_new_rejects(import, path, err);
    records_keep_long(import->records, rejects_file(import->rejects));
    return outcome;
}

/* ---- rejected records ---- */

static void keep_rejected(struct import *import, struct slice raw)
{
    if (import->rejects)
        rejects_add(import->rejects, raw);
}

/* Count a rejected record and report why. An error that ends the import is not
 * reported here, because import_run() returns it. */
static void reject(struct import *import, uint64_t number, const char *why)
{
    struct err err;

    err_fail(&err, TW_INVALID, "%s:%" PRIu64 ": %s", import->options.path,
        number, why);
    if (import->options.skip_errors || import->failed)
        transfer_report(&import->transfer, "%s", err.text);
    if (!import->failed)
        import->failure = err;
    import->failed = !import->options.skip_errors;
    import->rejected++;
}

/* Keeps the reason why the batch writer could not store a record. The batch
 * writer calls on_completed() next, which reports the reason with the line
 * number. */
static void on_failed(void *context, const struct run_failure *failure)
{
    struct import *import = context;
    struct buf text;

    buf_init(&text, sizeof(import->why.text));
    buf_add_text(&text, "entity ");
    entity_add_keys(&text, failure->partition_key, failure->row_key);
    buf_add_format(&text, ": %s", failure->why);
    err_fail(&import->why, TW_INVALID, "%s", buf_text(&text));
    buf_done(&text);
}

static struct sent *remember_sent(
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

static void on_completed(
    void *context, const struct batch_writer_completed *how)
{
    struct sent *sent = context;
    struct import *import = sent->import;

    if (how->end == WRITE_FAILED) {
        reject(import, sent->number, import->why.text);
        keep_rejected(import, (struct slice){sent->raw, sent->len});
    }
    forget_sent(sent);
}

/* ---- an entity that exists ---- */

static bool is_stored(const struct import *import, const struct entity *sent,
    const struct entity *now)
{
    return entity_has_all(now, sent) &&
           (import->options.on_conflict == IMPORT_CONFLICT_MERGE ||
               now->property_count == sent->property_count);
}

static enum write_decision decide(void *context, const struct operation *sent,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    const struct import *import = ((const struct sent *)context)->import;

    (void)arena;
    *ret = *sent;
    if (!now) {
        ret->type = OPERATION_INSERT;
        ret->entity.etag = slice_of("");
        return WRITE_SEND;
    }
    if (is_stored(import, &sent->entity, now))
        return WRITE_IS_DONE;
    ret->entity.etag = now->etag;
    switch (import->options.on_conflict) {
    case IMPORT_CONFLICT_SKIP:
        return WRITE_SKIP;
    case IMPORT_CONFLICT_REPLACE:
        ret->type = OPERATION_REPLACE;
        return WRITE_SEND;
    case IMPORT_CONFLICT_MERGE:
        ret->type = OPERATION_MERGE;
        return WRITE_SEND;
    case IMPORT_CONFLICT_FAIL:
        break;
    }
    err_fail(err, TW_CONFLICT,
        "a different entity exists: use --on-conflict skip, replace or merge");
    return WRITE_FAIL;
}

/* ---- confirmation ---- */

static enum tw_err submit(struct import *import, struct err *err)
{
    import->submit_ms = platform_boot_ms() + SUBMIT_MS;
    return sorter_flush(import->sorter, import->batch_writer, err);
}

/* Write the rejects file to disk, and note its size and its digest, by which a
 * later process detects that the file was edited. */
static enum tw_err sync_rejects(struct import *import, struct err *err)
{
    struct import_position *position = &import->confirmed.position;
    enum tw_err outcome;

    if (!import->rejects)
        return TW_OK;
    outcome = rejects_sync(import->rejects, &position->rejects_size, err);
    if (outcome == TW_OK && import->with_ledger)
        position->rejects_digest =
            rejects_digest(import->rejects, position->rejects_size);
    return outcome;
}

/* Make the rejected lines durable. They must be on disk before the ledger
 * counts them. */
static enum tw_err confirm_rejects(struct import *import, struct err *err)
{
    struct import_position *position = &import->confirmed.position;
    enum tw_err outcome = sync_rejects(import, err);

    if (outcome == TW_OK)
        position->rejected_bytes = position->rejects_size;
    return outcome;
}

/* Sets the counts that the ledger will store, for the lines up to `line`. Later
 * lines are not counted, because a process that continues the import reads them
 * again. */
static void set_confirmed(struct import *import, uint64_t line)
{
    const struct run_counts *counts = &import->local.run.counts;
    struct import_counts *confirmed = &import->confirmed;

    confirmed->position.line = line;
    confirmed->position.digest = import->digest;
    confirmed->read = atomic_load(&counts->read);
    confirmed->written = atomic_load(&counts->written);
    confirmed->skipped = atomic_load(&counts->skipped);
    confirmed->rejected = import->rejected;
}

/* Send all records and wait for the outcomes. TW_OK: all records up to `line`
 * are stored, skipped or rejected. */
static enum tw_err confirm(
    struct import *import, uint64_t line, struct err *err)
{
    enum tw_err outcome = submit(import, err);

    if (outcome == TW_OK)
        outcome = batch_writer_drain(import->batch_writer, err);
    if (outcome != TW_OK)
        return outcome;
    pending_keys_clear(&import->pending);
    if (import->failed)
        return TW_OK;
    if (import->with_ledger)
        outcome = confirm_rejects(import, err);
    if (outcome == TW_OK)
        set_confirmed(import, line);
    return outcome;
}

static enum tw_err save_if_due(
    struct import *import, uint64_t line, struct err *err)
{
    enum tw_err outcome;

    if (!import->with_ledger || platform_boot_ms() < import->save_ms)
        return TW_OK;
    outcome = confirm(import, line, err);
    if (outcome != TW_OK || import->failed)
        return outcome;
    outcome = import_ledger_save(&import->ledger, &import->confirmed, err);
    import->save_ms = platform_boot_ms() + SAVE_MS;
    return outcome;
}

/* ---- records ---- */

static enum tw_err insert(
    struct import *import, const struct record *record, struct err *err)
{
    const struct entity *entity = &record->entity;

    if (!pending_keys_add(&import->pending, entity)) {
        enum tw_err outcome = confirm(import, record->first - 1, err);

        if (outcome != TW_OK)
            return outcome;
        (void)pending_keys_add(&import->pending, entity);
    }
    atomic_fetch_add(&import->local.run.counts.read, 1);
    sorter_add(import->sorter,
        &(struct batch_item){
            .store = import->transfer.store,
            .table = import->transfer.table,
            .operation = {.type = OPERATION_INSERT, .entity = *entity},
            .decide = decide,
            .context = remember_sent(import, record),
            .completed = on_completed,
        });
    if (!sorter_is_full(import->sorter) &&
        platform_boot_ms() < import->submit_ms)
        return TW_OK;
    return submit(import, err);
}

static enum tw_err import_record(
    struct import *import, const struct record *record, struct err *err)
{
    if (record->invalid) {
        reject(import, record->first, record->why.text);
        if (!record->too_long)
            keep_rejected(import, record->raw);
        return TW_OK;
    }
    return record->blank ? TW_OK : insert(import, record, err);
}

static enum tw_err import_records(struct import *import, struct err *err)
{
    uint64_t line = import->confirmed.position.line;
    enum tw_err outcome = TW_OK;
    struct record record;
    bool end = false;

    while (outcome == TW_OK && !import->failed) {
        arena_clear(&import->arena);
        outcome = transfer_stopped(&import->transfer, err);
        if (outcome == TW_OK)
            outcome = records_next(
                import->records, &import->arena, &record, &end, err);
        if (outcome != TW_OK || end)
            break;
        line = record.last;
        outcome = import_record(import, &record, err);
        import->digest = records_digest(import->records);
        if (outcome == TW_OK && !import->failed)
            outcome = save_if_due(import, line, err);
    }
    if (outcome == TW_OK)
        outcome = confirm(import, line, err);
    return outcome == TW_OK && !import->failed ? confirm_rejects(import, err)
                                               : outcome;
}

/* ---- the end ---- */

static enum ledger_state state_after(enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return LEDGER_SUCCEEDED;
    case TW_NOT_FOUND:
    case TW_CONFLICT:
    case TW_INVALID:
    case TW_TOO_LARGE:
        return LEDGER_FAILED;
    case TW_BUSY:
    case TW_UNKNOWN:
    case TW_REFUSED:
    case TW_FORBIDDEN:
    case TW_STOPPED:
    case TW_FULL:
        break;
    }
    return LEDGER_WAITING;
}

/* Store the final state in the ledger. outcome: the outcome of the import so
 * far. Returns outcome or, if it is TW_OK, the outcome of this write. */
static enum tw_err close_ledger(
    struct import *import, enum tw_err outcome, struct err *err)
{
    enum ledger_state state = state_after(outcome);
    struct err why;
    enum tw_err stored;

    if (!import->ledger.stored || import->ledger.taken_over || import->repeated)
        return outcome;
    batch_writer_free(import->batch_writer);
    import->batch_writer = NULL;
    if (import->transfer.restart)
        import->transfer.client =
            import->transfer.restart(import->transfer.context);
    stored = import_ledger_end(&import->ledger, &import->confirmed, state,
        state == LEDGER_FAILED ? err->text : "", &why);
    if (stored == TW_OK)
        return outcome;
    err_prefix(&why, "the ledger could not be updated");
    if (outcome != TW_OK) {
        transfer_report(&import->transfer, "%s", why.text);
        return outcome;
    }
    *err = why;
    return stored;
}

/* ---- the import ---- */

static enum tw_err store_all(struct import *import, struct err *err)
{
    struct err ignored;
    enum tw_err outcome = skip_stored(import, err);

    if (outcome == TW_OK)
        outcome = begin_rejects(import, err);
    if (outcome != TW_OK)
        return outcome;
    import->batch_writer =
        batch_writer_new(&import->local.run, import->transfer.in_flight);
    import->sorter = sorter_new();
    outcome = import_records(import, err);
    batch_writer_finish(import->batch_writer);
    if (outcome != TW_OK && sync_rejects(import, &ignored) != TW_OK)
        import->confirmed.position.rejects_digest = 0;
    if (outcome != TW_OK || !import->failed)
        return outcome;
    transfer_report(&import->transfer,
        "stopped at the first invalid line; with --on-error skip the import "
        "rejects such lines and continues");
    *err = import->failure;
    return TW_INVALID;
}

enum tw_err import_run(struct import *import, struct err *err)
{
    enum tw_err outcome = open_files(import, err);

    if (outcome == TW_OK)
        outcome = open_ledger(import, err);
    if (outcome == TW_OK && import->repeated)
        outcome = check_repeated(import, err);
    if (outcome != TW_OK)
        return outcome;
    outcome = check_skipped(import, err);
    if (outcome == TW_OK)
        outcome = ensure_table(import, err);
    if (outcome == TW_OK && !import->repeated)
        outcome = store_all(import, err);
    return close_ledger(import, outcome, err);
}

struct import_result import_result(const struct import *import)
{
    const struct run_counts *counts = &import->local.run.counts;

    return (struct import_result){
        .written = atomic_load(&counts->written),
        .skipped = atomic_load(&counts->skipped),
        .rejected = import->ledger.before.rejected + import->rejected,
        .repeated = import->repeated,
    };
}

int64_t import_progress(struct import *import, int *ret_share)
{
    const struct run_counts *counts = &import->local.run.counts;
    struct records *records = atomic_load(&import->opened);

    *ret_share = records ? records_share(records) : -1;
    return atomic_load(&counts->written) + atomic_load(&counts->skipped);
}

struct import *import_new(
    const struct transfer *transfer, const struct import_options *options)
{
    struct import *import = mem_alloc(sizeof(*import));

    import->transfer = *transfer;
    import->options = *options;
    arena_init(&import->arena);
    local_run_init(&import->local, &(struct local_run_options){
                                       .name = "import",
                                       .object = "import",
                                       .client = transfer->client,
                                       .stopped = transfer->stopped,
                                       .failed = on_failed,
                                       .context = import,
                                   });
    return import;
}

void import_free(struct import *import)
{
    if (!import)
        return;
    sorter_free(import->sorter);
    batch_writer_free(import->batch_writer);
    while (import->sent)
        forget_sent(import->sent);
    if (import->with_ledger)
        import_ledger_done(&import->ledger);
    rejects_close(import->rejects);
    records_close(import->records);
    arena_done(&import->arena);
    mem_free(import);
}
