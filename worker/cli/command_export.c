/* SPDX-License-Identifier: MIT */
/* `tableward export TABLE [FILE]` and `export --all FOLDER`: tables as JSON
 * Lines or CSV. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "worker/base/buf.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"
#include "worker/transfer/export.h"
#include "worker/transfer/folder.h"

static void look(void *context, struct progress_state *ret)
{
    const struct export *export = context;

    ret->done = export_count(export);
    if (export_is_collecting(export))
        snprintf(ret->note, sizeof(ret->note), "reading the columns");
}

static void on_abort(void *context)
{
    export_abort(context);
}

static bool is_file(const struct export_options *options)
{
    return options->path && strcmp(options->path, "-") != 0;
}

static void print_total(
    const struct export_options *options, const struct export *export)
{
    struct buf line;

    if (!is_file(options))
        return;
    buf_init(&line, 64);
    print_number(&line, export_count(export), "entity", "entities");
    say_note("%s exported to %s", buf_text(&line), options->path);
    buf_done(&line);
}

static enum tw_err export_table(struct table_command *command,
    const struct export_options *options, struct err *err)
{
    const struct transfer transfer = table_command_transfer(command);
    struct export *export = export_new(&transfer, options);
    struct progress *progress =
        progress_start("export", "exported", look, export);
    enum tw_err outcome;

    table_command_on_abort(command, on_abort, export);
    outcome = export_run(export, err);
    progress_end(progress);
    table_command_on_abort(command, NULL, NULL);
    if (outcome == TW_OK)
        print_total(options, export);
    export_free(export);
    return outcome;
}

static int end_with(
    struct table_command *command, enum tw_err outcome, struct err *err)
{
    if (outcome == TW_OK)
        return EXIT_DONE;
    return outcome == TW_CONFLICT ? print_usage("%s", err->text)
                                  : table_command_failed(command, outcome, err);
}

static int read_options(
    struct table_command *command, struct export_options *options)
{
    const struct invocation *invocation = command->invocation;
    const char *path = invocation->arg_count > 1 ? invocation->args[1] : NULL;
    const char *id = invocation->values[OPTION_ID];
    struct slice checked;
    int code = id ? args_read_id(id, &checked) : EXIT_DONE;

    *options = (struct export_options){
        .path = path,
        .filter = command->filter,
        .select = command->select,
        .select_count = command->select_count,
        .id = id,
        .force = invocation->values[OPTION_FORCE] != NULL,
    };
    if (code == EXIT_DONE)
        code = table_command_format(command, path, &options->format);
    if (code == EXIT_DONE && is_file(options))
        code = table_command_check_file(command, path);
    return code;
}

static int run_one(const struct invocation *invocation)
{
    struct table_command command;
    struct export_options options;
    struct err err;
    int code = table_command_open(&command, invocation, false);

    if (code == EXIT_DONE)
        code = read_options(&command, &options);
    if (code == EXIT_DONE)
        code = end_with(&command, export_table(&command, &options, &err), &err);
    table_command_close(&command);
    return code;
}

/* ---- all tables ---- */

struct export_all {
    struct table_command command;
    const char *folder;
    struct export_options options;    /* options for the export of each table;
                                         only path differs */
    struct folder_progress *progress; /* progress file, from which a later
                                         export with the same id continues */
    const char *const *names;
    size_t count, exported;
};

static const char *path_of(struct export_all *all, const char *table)
{
    return folder_path(
        all->folder, table, all->options.format, &all->command.arena);
}

/* Did this export complete the table's file before the export was interrupted?
 * *ret_begun: did it begin the file? */
static bool is_done(struct export_all *all, const char *table, bool *ret_begun)
{
    bool done = false;

    *ret_begun = all->options.id && folder_progress_begun(all->progress, table,
                                        path_of(all, table), &done);
    return done;
}

/* Refuse the export because of a file in the folder, in two cases. The file has
 * another name than the file that this export writes for the same table, so
 * that `import --all` would find two files of one table. Or the export would
 * replace the file, and --force is not given. */
static int check_file(struct export_all *all, const struct folder_file *file)
{
    const char *path;
    bool begun;

    for (size_t i = 0; i < all->count; i++) {
        if (strcasecmp(all->names[i], file->table) != 0)
            continue;
        path = path_of(all, all->names[i]);
        if (strcmp(all->names[i], file->table) != 0 ||
            all->options.format != file->format)
            return print_usage(
                "%s and %s would be files of one table, which `import --all` "
                "refuses: remove the first of them",
                file->path, path);
        if (all->options.force || is_done(all, all->names[i], &begun) || begun)
            return table_command_check_file(&all->command, path);
        return print_usage("%s exists: --force replaces the files of all "
                           "tables%s",
            path,
            all->options.id
                ? ""
                : "; with --id an interrupted export can be continued");
    }
    say("%s belongs to no table of store %s and is kept, but `import --all` "
        "would import it",
        file->path, all->command.store->name);
    return EXIT_DONE;
}

/* Check all files of the folder, before anything is written. */
static int check_folder(struct export_all *all)
{
    struct folder folder;
    struct err err;
    enum tw_err outcome = folder_read(&folder, all->folder, NULL, NULL, &err);
    int code = EXIT_DONE;

    for (size_t i = 0; i < folder.count && code == EXIT_DONE; i++)
        code = check_file(all, &folder.files[i]);
    folder_done(&folder);
    return outcome == TW_OK ? code : end_with(&all->command, outcome, &err);
}

static enum tw_err note_complete(
    void *context, const char *part, struct err *err)
{
    struct export_all *all = context;

    return folder_progress_complete(
        all->progress, all->command.table, part, err);
}

static int export_one(struct export_all *all, const char *table)
{
    struct export_options options = all->options;
    bool begun;
    struct err err;
    enum tw_err outcome;

    if (is_done(all, table, &begun))
        return EXIT_DONE;
    options.path = path_of(all, table);
    all->command.table = table;
    options.completes = note_complete;
    options.context = all;
    outcome = folder_progress_begin(all->progress, table, &err);
    if (outcome == TW_OK)
        outcome = export_table(&all->command, &options, &err);
    if (outcome == TW_NOT_FOUND) {
        say("table %s was deleted during the export and is not exported: the "
            "part that was read is removed",
            table);
        return EXIT_DONE;
    }
    all->exported += outcome == TW_OK;
    return end_with(&all->command, outcome, &err);
}

/* Exports the ledger first, so that no exported run claims progress that the
 * exported tables do not contain. */
static int export_each(struct export_all *all)
{
    int code = EXIT_DONE;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < all->count && code == EXIT_DONE; i++)
            if ((strcasecmp(all->names[i], LEDGER_TABLE) == 0) == (pass == 0))
                code = export_one(all, all->names[i]);
    return code;
}

static void report_dropped(const char *table, const char *part)
{
    say("table %s was deleted after this export was interrupted: the file %s, "
        "with what was read of the table, is removed",
        table, part);
}

static int perform_all(struct export_all *all)
{
    struct err err;
    enum tw_err outcome =
        table_command_list(&all->command, &all->names, &all->count, &err);
    int code;

    if (outcome == TW_OK)
        outcome = folder_create(all->folder, &err);
    if (outcome == TW_OK)
        outcome = folder_progress_open(all->folder, all->options.id,
            all->command.store, &all->progress, &err);
    if (outcome != TW_OK)
        return end_with(&all->command, outcome, &err);
    code = check_folder(all);
    if (code == EXIT_DONE && all->options.id)
        folder_progress_drop_deleted(
            all->progress, all->names, all->count, report_dropped);
    if (code == EXIT_DONE)
        code = export_each(all);
    if (code == EXIT_DONE)
        say("%zu table%s exported to %s", all->exported,
            all->exported == 1 ? "" : "s", all->folder);
    folder_progress_close(all->progress, code == EXIT_DONE);
    return code;
}

static int refuse_with_all(const struct invocation *invocation)
{
    if (invocation->arg_count > 1)
        return print_usage(
            "export --all needs one FOLDER, and exports every table");
    if (invocation->values[OPTION_FILTER] || invocation->values[OPTION_SELECT])
        return print_usage("--filter and --select cannot be used with --all");
    return EXIT_DONE;
}

static int run_all(const struct invocation *invocation)
{
    struct export_all all = {.folder = invocation->args[0]};
    int code = refuse_with_all(invocation);

    if (code != EXIT_DONE)
        return code;
    code = table_command_open_all(&all.command, invocation, false);
    if (code == EXIT_DONE)
        code = read_options(&all.command, &all.options);
    if (code == EXIT_DONE && all.options.id &&
        all.options.format == RECORDS_CSV)
        code = print_usage("--id cannot continue a CSV file: export JSON "
                           "Lines");
    if (code == EXIT_DONE)
        code = perform_all(&all);
    table_command_close(&all.command);
    return code;
}

/* ---- the command ---- */

static int run(const struct invocation *invocation)
{
    return invocation->values[OPTION_ALL] ? run_all(invocation)
                                          : run_one(invocation);
}

static const char *const REQUIRED[] = {"TABLE, or --all and a FOLDER", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_ALL, "every table of the store, each into a file of FOLDER"},
    {OPTION_FILTER,
        "only entities that match this OData filter: \"Rating ge 4\""},
    {OPTION_SELECT, "only these properties, besides the keys"},
    {OPTION_FORMAT, "json or csv; default: csv if FILE ends in .csv"},
    {OPTION_FORCE, "replace existing files"},
    {OPTION_ID, "keep the partial file if the export is interrupted; an export "
                "with the same id continues it"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_export = {
    .name = "export",
    .arguments = "TABLE [FILE] | --all FOLDER",
    .summary = "writes the entities of a table as JSON Lines or CSV",
    .details =
        "Writes to FILE, which appears when the export is complete, or to "
        "standard output if FILE\nis missing or -. One entity a line, ordered "
        "by key, in the service's own JSON; `import`\nreads it. Properties are "
        "ordered by name and every value has one text form, so that\ntables "
        "with the same content give the same file. With --id an interrupted "
        "export keeps\nwhat it has written in FILE.ID-....part, and an export "
        "with the same id continues it.\n\nCSV has the form that Storage "
        "Explorer writes, without Timestamp, with the type of\neach value in "
        "the column PROPERTY@type; `import` reads it without loss. The table "
        "is\nread twice, first for the names of its properties, unless "
        "--select names them.\n\n--all exports each table to "
        "FOLDER/TABLE.jsonl, including tableward's own tables, the\nledger "
        "first; existing files are replaced only with --force. With --id an "
        "interrupted\nexport continues with the table that it had reached. "
        "Tables are read one after\nanother: writes during the export may be "
        "in one table and not in another.\n",
    .required = REQUIRED,
    .max_args = 2,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
