/* SPDX-License-Identifier: MIT */
/* Scans the table page by page into a file; for CSV, a scan before that
 * collects the names of the columns. export_run() is the list of steps, and the
 * parts of this file follow in that order. */
#include "worker/transfer/export.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/engine/scan.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/canonical.h"
#include "worker/store/store.h"
#include "worker/transfer/columns.h"
#include "worker/transfer/csv.h"
#include "worker/transfer/entity_line.h"
#include "worker/transfer/export_file.h"
#include "worker/transfer/lines.h"

/* When the collected text has this size, it is written to the file. */
#define WRITE_BYTES ((size_t)256 * 1024)
#define WHAT_MAX ((size_t)256 * 1024)

struct export
{
    struct transfer transfer;
    struct export_options options;

    struct export_file file;
    bool opened;             /* export_file_open() was called for file */
    struct arena last_arena; /* memory of the entity in `last` */
    struct entity last;      /* keys of the last entity in an existing partial
                                file */
    bool continues;          /* the scan begins after the keys of last */

    struct columns *columns;   /* CSV: names of the columns so far; else NULL */
    const struct slice *names; /* names of all properties with columns */
    size_t name_count;

    _Atomic int64_t total;
    _Atomic bool collecting;
    struct arena arena; /* memory of the current entity */
    struct buf text;    /* lines that are not yet written to file */

    struct platform_mutex mutex;
    char *temporary; /* path of the file that export_abort() removes, or NULL;
                        protected by mutex */
};

/* ---- the file ---- */

/* Add a text that identifies what is exported. */
static void add_what(const struct export *export, struct buf *to)
{
    const struct export_options *options = &export->options;

    buf_add_format(to, "%s\n%s\n%s\n", export->transfer.store->name,
        store_account(export->transfer.store), export->transfer.table);
    buf_add_slice(to, options->filter);
    for (size_t i = 0; i < options->select_count; i++) {
        buf_add_char(to, '\n');
        buf_add_slice(to, options->select[i]);
    }
}

static void report_continuing(struct export *export)
{
    struct buf keys;

    buf_init(&keys, 4096);
    entity_add_keys(&keys, export->last.partition_key, export->last.row_key);
    transfer_report(&export->transfer,
        "continuing after %s; entities in the file: %" PRId64, buf_text(&keys),
        export->file.lines);
    buf_done(&keys);
}

static enum tw_err read_last(struct export *export, struct err *err)
{
    bool blank = false;

    if (export->file.lines == 0)
        return TW_OK;
    if (entity_line(buf_slice(&export->file.last), false, &export->last_arena,
            &export->last, &blank, err) != TW_OK ||
        blank)
        return err_fail(err, TW_INVALID,
            "%s is not a partial export, because its last line is not an "
            "entity: remove the file",
            export->file.part);
    export->continues = true;
    atomic_store(&export->total, export->file.lines);
    report_continuing(export);
    return TW_OK;
}

/* Sets the file that export_abort() removes. This is the partial file, but no
 * file if the export has an id, because the export can then be continued from
 * the partial file. */
static void set_temporary(struct export *export)
{
    const char *part = export->options.id ? NULL : export->file.part;

    platform_lock(&export->mutex);
    mem_free(export->temporary);
    export->temporary = part ? mem_text(part, strlen(part)) : NULL;
    platform_unlock(&export->mutex);
}

static enum tw_err open_file(struct export *export, struct err *err)
{
    const struct export_options *options = &export->options;
    enum tw_err outcome;
    struct buf what;

    if (options->id && options->format == RECORDS_CSV)
        return err_fail(err, TW_CONFLICT,
            "--id cannot continue a CSV file: export JSON Lines");
    buf_init(&what, WHAT_MAX);
    add_what(export, &what);
    export->opened = true;
    outcome = export_file_open(&export->file,
        &(struct export_file_options){
            .path = options->path,
            .force = options->force,
            .id = options->id,
            .what = buf_slice(&what),
            .continues = export->transfer.store->capabilities.ordered,
            .completes = options->completes,
            .context = options->context,
        },
        err);
    buf_done(&what);
    set_temporary(export);
    return outcome == TW_OK ? read_last(export, err) : outcome;
}

static enum tw_err write_text(struct export *export, struct err *err)
{
    enum tw_err outcome =
        export_file_write(&export->file, buf_slice(&export->text), err);

    buf_clear(&export->text);
    return outcome;
}

/* ---- scans ---- */

static struct scan *open_scan(struct export *export)
{
    const struct export_options *options = &export->options;
    struct scan_spec spec = {
        .store = export->transfer.store,
        .table = export->transfer.table,
        .filter = options->filter,
        .select = options->select,
        .select_count = options->select_count,
    };

    if (export->continues) {
        spec.resumed = true;
        spec.after_partition_key = export->last.partition_key;
        spec.after_row_key = export->last.row_key;
    }
    return scan_open(export->transfer.client, &spec);
}

static enum tw_err scan_all(struct export *export,
    enum tw_err (*each)(
        struct export *export, const struct page *page, struct err *err),
    struct err *err)
{
    struct scan *scan = open_scan(export);
    const struct page *page = NULL;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome != TW_OK || !page)
            break;
        outcome = each(export, page, err);
        if (outcome == TW_OK)
            outcome = transfer_stopped(&export->transfer, err);
    } while (outcome == TW_OK);
    scan_close(scan);
    return outcome;
}

/* ---- the columns of CSV ---- */

static enum tw_err fail_entity(
    const struct entity *entity, enum tw_err outcome, struct err *err)
{
    struct buf keys;

    buf_init(&keys, sizeof(err->text));
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    err_prefix(err, "entity %s", buf_text(&keys));
    buf_done(&keys);
    return outcome;
}

static enum tw_err collect_names(
    struct export *export, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count; i++) {
        const struct entity *entity = &page->entities[i];

        for (size_t k = 0; k < entity->property_count; k++) {
            outcome =
                columns_add(export->columns, entity->properties[k].name, err);
            if (outcome != TW_OK)
                return fail_entity(entity, outcome, err);
        }
    }
    return outcome;
}

static bool is_system_property(struct slice name)
{
    return slice_is(name, "PartitionKey") || slice_is(name, "RowKey") ||
           slice_is(name, "Timestamp");
}

/* Find the columns. With --select, the selected properties are the columns,
 * even those that no entity has. Without --select, a scan collects the names of
 * all properties. */
static enum tw_err find_columns(struct export *export, struct err *err)
{
    const struct export_options *options = &export->options;
    enum tw_err outcome = TW_OK;

    export->columns = columns_new();
    atomic_store(&export->collecting, true);
    if (!options->select)
        outcome = scan_all(export, collect_names, err);
    atomic_store(&export->collecting, false);
    for (size_t i = 0; i < options->select_count && outcome == TW_OK; i++)
        if (!is_system_property(options->select[i]))
            outcome = columns_add(export->columns, options->select[i], err);
    export->names = columns_names(export->columns, &export->name_count);
    return outcome;
}

static enum tw_err begin_csv(struct export *export, struct err *err)
{
    enum tw_err outcome = find_columns(export, err);

    if (outcome == TW_OK)
        csv_write_header(export->names, export->name_count, &export->text);
    return outcome == TW_OK ? write_text(export, err) : outcome;
}

/* ---- entities ---- */

static enum tw_err write_csv(
    struct export *export, const struct entity *entity, struct err *err)
{
    enum tw_err outcome = csv_write_entity(
        entity, export->names, export->name_count, &export->text, err);

    if (outcome == TW_NOT_FOUND)
        err_fail(err, outcome = TW_INVALID,
            "a property was added while the table was exported: run the export "
            "again");
    return outcome == TW_OK ? TW_OK : fail_entity(entity, outcome, err);
}

static enum tw_err write_entity(
    struct export *export, const struct entity *stored, struct err *err)
{
    struct entity entity;

    arena_clear(&export->arena);
    canonical_entity(stored, &export->arena, &entity);
    if (export->options.format == RECORDS_CSV)
        return write_csv(export, &entity, err);
    entity_write(&entity, &export->text);
    buf_add_char(&export->text, '\n');
    return TW_OK;
}

static enum tw_err write_page(
    struct export *export, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++) {
        outcome = write_entity(export, &page->entities[i], err);
        if (outcome == TW_OK && export->text.len >= WRITE_BYTES)
            outcome = write_text(export, err);
    }
    if (outcome == TW_OK)
        outcome = write_text(export, err);
    atomic_fetch_add(&export->total, (int64_t)page->count);
    return outcome;
}

/* ---- the export ---- */

enum tw_err export_run(struct export *export, struct err *err)
{
    enum tw_err outcome = open_file(export, err);

    if (outcome == TW_OK && export->options.format == RECORDS_CSV)
        outcome = begin_csv(export, err);
    if (outcome == TW_OK)
        outcome = scan_all(export, write_page, err);
    if (outcome == TW_OK)
        outcome = export_file_finish(&export->file, err);
    if (outcome == TW_NOT_FOUND)
        export->file.with_id = false;
    return outcome;
}

int64_t export_count(const struct export *export)
{
    return atomic_load(&export->total);
}

bool export_is_collecting(const struct export *export)
{
    return atomic_load(&export->collecting);
}

void export_abort(struct export *export)
{
    platform_lock(&export->mutex);
    if (export->temporary)
        (void)unlink(export->temporary);
    platform_unlock(&export->mutex);
}

struct export *export_new(
    const struct transfer *transfer, const struct export_options *options)
{
    struct export *export = mem_alloc(sizeof(*export));

    export->transfer = *transfer;
    export->options = *options;
    arena_init(&export->last_arena);
    arena_init(&export->arena);
    buf_init(&export->text, WRITE_BYTES + LINES_MAX_BYTES);
    platform_mutex_init(&export->mutex);
    return export;
}

static void close_file(struct export *export)
{
    char *part = export->file.part;
    char *copy = part ? mem_text(part, strlen(part)) : NULL;

    if (export_file_close(&export->file))
        transfer_report(&export->transfer,
            "the entities written so far stay in %s: the same --id continues "
            "this export",
            copy);
    mem_free(copy);
}

void export_free(struct export *export)
{
    if (!export)
        return;
    if (export->opened)
        close_file(export);
    columns_free(export->columns);
    buf_done(&export->text);
    arena_done(&export->arena);
    arena_done(&export->last_arena);
    platform_mutex_done(&export->mutex);
    mem_free(export->temporary);
    mem_free(export);
}
