/* SPDX-License-Identifier: MIT */
/* `tableward export TABLE [FILE]`: a table as JSON Lines or CSV. */
#include <stdio.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/transfer/export.h"

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

static int perform(
    struct table_command *command, const struct export_options *options)
{
    const struct transfer transfer = table_command_transfer(command);
    struct export *export = export_new(&transfer, options);
    struct progress *progress =
        progress_start("export", "exported", look, export);
    struct err err;
    enum tw_err outcome;

    table_command_on_abort(command, on_abort, export);
    outcome = export_run(export, &err);
    progress_end(progress);
    table_command_on_abort(command, NULL, NULL);
    if (outcome == TW_OK)
        print_total(options, export);
    export_free(export);
    if (outcome == TW_CONFLICT)
        return print_usage("%s", err.text);
    return outcome == TW_OK ? EXIT_DONE
                            : table_command_failed(command, outcome, &err);
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

static int run(const struct invocation *invocation)
{
    struct table_command command;
    struct export_options options;
    int code = table_command_open(&command, invocation, false);

    if (code == EXIT_DONE)
        code = read_options(&command, &options);
    if (code == EXIT_DONE)
        code = perform(&command, &options);
    table_command_close(&command);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_FILTER, "only entities that match, in OData: \"Rating ge 4\""},
    {OPTION_SELECT, "only these properties, beside the keys"},
    {OPTION_FORMAT, "json or csv; default: csv if FILE ends in .csv"},
    {OPTION_FORCE, "replace FILE if it exists"},
    {OPTION_ID,
        "keep what is written if interrupted; the same id again continues"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_export = {
    .name = "export",
    .arguments = "TABLE [FILE]",
    .summary = "writes the entities of a table as JSON Lines or CSV",
    .details =
        "To FILE, which exists only once it is complete, or to standard output "
        "(also: -).\nOne entity a line, ordered by key, in the service's own "
        "JSON; `import` reads it.\nProperties are ordered by name and every "
        "value has one text form, so that tables with\nthe same content give "
        "the same file. With --id what is written is kept in\n"
        "FILE.ID-....part until FILE is complete, and the same id continues "
        "it.\n\n"
        "CSV is what Storage Explorer writes, without Timestamp, with the type "
        "of each value in\nthe column PROPERTY@type; `import` reads it without "
        "loss. The table is read twice, first\nfor the names of its "
        "properties, unless --select names them.\n",
    .required = REQUIRED,
    .max_args = 2,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
