/* SPDX-License-Identifier: MIT */
/*
 * `tableward export TABLE [FILE]`: entities as JSON Lines, in one spelling, so
 * that two tables which hold the same give the same file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/scan.h"
#include "worker/base/buf.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/transfer/export_file.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/store/canonical.h"
#include "worker/store/store.h"
#include "worker/transfer/entity_line.h"
#include "worker/transfer/lines.h"

/* What is gathered before it is written. */
#define WRITE_BYTES ((size_t)256 * 1024)

struct export
{
    struct transfer transfer;
    struct export_file file;
    struct entity last; /* that an earlier process has written; its keys */
    bool goes_on;       /* after last */
    _Atomic int64_t total;

    struct arena arena; /* of the entity that is being written */
    struct buf text;
};

/* ---- what goes there ---- */

static int write_text(struct export *export)
{
    int code = export_file_write(&export->file, buf_slice(&export->text));

    buf_clear(&export->text);
    return code;
}

static int write_page(struct export *export, const struct page *page)
{
    int code = EXIT_DONE;

    for (size_t i = 0; i < page->count && code == EXIT_DONE; i++) {
        struct entity entity;

        arena_clear(&export->arena);
        canonical_entity(&page->entities[i], &export->arena, &entity);
        entity_write(&entity, &export->text);
        buf_add_char(&export->text, '\n');
        if (export->text.len >= WRITE_BYTES)
            code = write_text(export);
    }
    return code == EXIT_DONE ? write_text(export) : code;
}

static int copy(struct export *export, enum tw_err *ret_code, struct err *err)
{
    struct scan *scan = transfer_scan(
        &export->transfer, export->goes_on ? &export->last : NULL);
    const struct page *page = NULL;
    int exit_code = EXIT_DONE;

    do {
        *ret_code = scan_next(scan, &page, err);
        if (*ret_code != TW_OK || !page)
            break;
        exit_code = write_page(export, page);
        atomic_fetch_add(&export->total, (int64_t)page->count);
    } while (exit_code == EXIT_DONE);
    scan_close(scan);
    return exit_code;
}

static void look(void *context, struct progress_state *ret)
{
    struct export *export = context;

    ret->done = atomic_load(&export->total);
}

static void say_total(struct export *export)
{
    struct buf line;

    if (!export->file.path)
        return;
    buf_init(&line, 64);
    say_number(&line, atomic_load(&export->total), "entity is", "entities are");
    say("%s in %s", buf_text(&line), export->file.path);
    buf_done(&line);
}

static int carry(struct export *export)
{
    struct progress *progress =
        progress_start("export", "exported", look, export);
    struct err err;
    enum tw_err code;
    int exit_code = copy(export, &code, &err);

    progress_end(progress);
    if (exit_code == EXIT_DONE && code == TW_NOT_FOUND)
        exit_code = transfer_no_table(&export->transfer);
    else if (exit_code == EXIT_DONE && code != TW_OK)
        exit_code = transfer_failed(&export->transfer, code, &err);
    if (exit_code == EXIT_DONE)
        exit_code = export_file_keep(&export->file);
    if (exit_code == EXIT_DONE)
        say_total(export);
    return exit_code;
}

/* ---- going on ---- */

/* What one id stands for, in one text. */
static void add_what(struct export *export, struct buf *to)
{
    const struct transfer *transfer = &export->transfer;

    buf_add_format(to, "%s\n%s\n", transfer->store->name, transfer->table);
    buf_add_slice(to, transfer->filter);
    for (size_t i = 0; i < transfer->select_count; i++) {
        buf_add_char(to, '\n');
        buf_add_slice(to, transfer->select[i]);
    }
}

static void say_going_on(struct export *export)
{
    struct buf line;

    buf_init(&line, 4096);
    buf_add_text(&line, "going on after ");
    entity_add_keys(&line, export->last.partition_key, export->last.row_key);
    buf_add_text(&line, "; entities there: ");
    say_count(&line, export->file.lines);
    say("%s", buf_text(&line));
    buf_done(&line);
}

static int read_last(struct export *export)
{
    struct slice line = buf_slice(&export->file.last);
    bool blank = false;
    struct err err;

    if (export->file.lines == 0)
        return EXIT_DONE;
    if (entity_line(line, false, &export->transfer.arena, &export->last, &blank,
            &err) != TW_OK ||
        blank) {
        say("%s is no part of an export, its last line is no entity: remove it",
            export->file.part);
        return EXIT_FAILED;
    }
    export->goes_on = true;
    atomic_store(&export->total, export->file.lines);
    say_going_on(export);
    return EXIT_DONE;
}

static int open_file(struct export *export)
{
    const struct invocation *invocation = export->transfer.invocation;
    const char *path = invocation->arg_count > 1 ? invocation->args[1] : NULL;
    const char *id = invocation->values[OPTION_ID];
    struct slice checked;
    struct buf what;
    int code = path && strcmp(path, "-") != 0
                   ? transfer_check_file(&export->transfer, path)
                   : EXIT_DONE;

    if (code != EXIT_DONE)
        return code;
    if (!id)
        return export_file_open(&export->file, path, NULL);
    code = args_read_id(id, &checked);
    if (code != EXIT_DONE)
        return code;
    buf_init(&what, (size_t)256 * 1024);
    add_what(export, &what);
    code = export_file_open(&export->file, path,
        &(struct export_id){
            .id = id,
            .what = buf_slice(&what),
            .goes_on = export->transfer.store->traits.ordered,
        });
    buf_done(&what);
    return code == EXIT_DONE ? read_last(export) : code;
}

/* ---- the command ---- */

static int run(const struct invocation *invocation)
{
    struct export export = {.goes_on = false};
    int code = transfer_open(&export.transfer, invocation, false);

    arena_init(&export.arena);
    buf_init(&export.text, WRITE_BYTES + LINES_MAX_BYTES);
    if (code == EXIT_DONE)
        code = open_file(&export);
    if (code == EXIT_DONE)
        code = carry(&export);
    export_file_close(&export.file);
    buf_done(&export.text);
    arena_done(&export.arena);
    transfer_close(&export.transfer);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_FILTER, "only entities that match, in OData: \"Rating ge 4\""},
    {OPTION_SELECT, "only these properties, besides the keys"},
    {OPTION_ID, "keep what is written when interrupted; the same id goes on"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_export = {
    .name = "export",
    .arguments = "TABLE [FILE]",
    .summary = "writes the entities of a table as JSON Lines",
    .details =
        "To FILE, which is there only once it is complete, or to "
        "standard output (also: -).\nOne entity a line, ordered by key, in the "
        "service's own JSON; `import` reads it.\nProperties are ordered by "
        "name and every value has one spelling, so that tables\nwhich hold the "
        "same give the same file. With --id what is written lies in\n"
        "FILE.ID-....part until FILE is complete, and the same id goes on "
        "behind it.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
