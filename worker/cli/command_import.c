/* SPDX-License-Identifier: MIT */
/* `tableward import TABLE FILE` and `import --all FOLDER`: JSON Lines or CSV
 * into tables. */
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/engine/probe.h"
#include "worker/base/buf.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/run/ledger.h"
#include "worker/transfer/folder.h"
#include "worker/transfer/import.h"

/* The values of --on-conflict, indexed by enum import_conflict. */
static const char *const ON_CONFLICT[] = {
    "fail", "skip", "replace", "merge", NULL};
static const char *const ON_ERROR[] = {"fail", "skip", NULL};

/* ---- options ---- */

/* Get the status of the file at path, or of standard input for "-". False: it
 * is not a regular file. */
static bool stat_input(const char *path, struct stat *ret)
{
    int failed =
        strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, ret) : stat(path, ret);

    return failed == 0 && S_ISREG(ret->st_mode);
}

static bool is_input(const char *input, const char *path)
{
    struct stat one, other;

    return stat_input(input, &one) && stat(path, &other) == 0 &&
           one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

/* Does the input have a default rejects file, FILE.rejected? Only a regular
 * file that is not standard input has one. */
static bool has_rejects_by_default(const char *input)
{
    struct stat is;

    return strcmp(input, "-") != 0 && stat_input(input, &is);
}

static int read_rejected(
    struct table_command *command, struct import_options *options)
{
    const char *given = command->invocation->values[OPTION_REJECTED];

    if (given && !options->skip_errors)
        return print_usage("--rejected needs --on-error skip");
    if (given && is_input(options->path, given))
        return print_usage(
            "--rejected must not name the file that is imported");
    if (given || !options->skip_errors ||
        !has_rejects_by_default(options->path))
        options->rejects_path = given;
    else
        options->rejects_path =
            arena_format(&command->arena, "%s.rejected", options->path).at;
    return EXIT_DONE;
}

static int read_choices(
    struct table_command *command, struct import_options *options)
{
    int on_conflict = IMPORT_CONFLICT_FAIL, skip_errors = 0;
    int code = table_command_choice(command->invocation, OPTION_ON_CONFLICT,
        "--on-conflict", ON_CONFLICT, &on_conflict);

    if (code == EXIT_DONE)
        code = table_command_choice(command->invocation, OPTION_ON_ERROR,
            "--on-error", ON_ERROR, &skip_errors);
    options->on_conflict = (enum import_conflict)on_conflict;
    options->skip_errors = skip_errors != 0;
    return code;
}

/* Read the options for the import of the file at path. id may be NULL. */
static int read_options(struct table_command *command, const char *path,
    const char *id, struct import_options *options)
{
    struct slice checked;
    int code = id ? args_read_id(id, &checked) : EXIT_DONE;

    *options = (struct import_options){.path = path, .id = id};
    if (code == EXIT_DONE)
        code = read_choices(command, options);
    if (code == EXIT_DONE)
        code = table_command_format(command, options->path, &options->format);
    if (code == EXIT_DONE)
        code = read_rejected(command, options);
    if (code == EXIT_DONE)
        code = table_command_check_file(command, options->path);
    if (code == EXIT_DONE && options->rejects_path)
        code = table_command_check_file(command, options->rejects_path);
    return code;
}

/* ---- the import ---- */

static void look(void *context, struct progress_state *ret)
{
    ret->done = import_progress(context, &ret->share);
}

static void print_stored(
    const struct table_command *command, const struct import_result *result)
{
    struct buf line;

    buf_init(&line, 512);
    print_number(&line, result->written, "entity", "entities");
    buf_add_format(&line, " stored in %s", command->table);
    if (result->skipped > 0) {
        buf_add_text(&line, ", ");
        print_number(&line, result->skipped, "entity existed and is unchanged",
            "entities existed and are unchanged");
    }
    say_note("%s", buf_text(&line));
    buf_done(&line);
}

/* Returns the exit code for the outcome. If it is 1, prints the reason as the
 * last line. */
static int end_with(
    const struct import_options *options, const struct import_result *result)
{
    struct buf line;

    if (result->rejected == 0)
        return EXIT_DONE;
    buf_init(&line, 4096);
    print_number(&line, result->rejected, "line was", "lines were");
    buf_add_text(&line, " rejected");
    if (options->rejects_path)
        buf_add_format(&line, ": see %s", options->rejects_path);
    say("%s", buf_text(&line));
    buf_done(&line);
    return EXIT_FAILED;
}

/* Import the file. *ret_result (may be NULL) is set if all lines are stored,
 * skipped or rejected. */
static int perform(struct table_command *command,
    const struct import_options *options, struct import_result *ret_result)
{
    const struct transfer transfer = table_command_transfer(command);
    struct import *import = import_new(&transfer, options);
    struct progress *progress =
        progress_start("import", "imported", look, import);
    struct err err;
    enum tw_err outcome = import_run(import, &err);
    struct import_result result = import_result(import);

    progress_end(progress);
    import_free(import);
    if (outcome == TW_CONFLICT)
        return print_usage("%s", err.text);
    if (outcome != TW_OK)
        return table_command_failed(command, outcome, &err);
    if (result.repeated)
        say_note(
            "import %s has already succeeded: nothing was done", options->id);
    else
        print_stored(command, &result);
    if (ret_result)
        *ret_result = result;
    return end_with(options, &result);
}

static int run_one(const struct invocation *invocation)
{
    struct table_command command;
    struct import_options options;
    int code;

    if (invocation->arg_count < 2)
        return print_usage("import needs FILE: tableward import TABLE FILE");
    code = table_command_open(&command, invocation, true);
    if (code == EXIT_DONE)
        code = read_options(&command, invocation->args[1],
            invocation->values[OPTION_ID], &options);
    if (code == EXIT_DONE)
        code = perform(&command, &options, NULL);
    table_command_close(&command);
    return code;
}

/* ---- all tables ---- */

static void report_other(void *context, const char *path)
{
    (void)context;
    say("%s is not imported: its name is not TABLE.jsonl or TABLE.csv", path);
}

/* Is table the ledger, or the table of jobs/engine/probe.h? Neither is
 * imported: a worker would continue the runs of the ledger, and the other
 * table has only temporary entities. */
static bool is_own_table(const char *table)
{
    return strcasecmp(table, LEDGER_TABLE) == 0 ||
           strcasecmp(table, PROBE_TABLE) == 0;
}

/* Refuse a folder that cannot be imported as a whole. */
static int check_folder(const char *path, const struct folder *folder)
{
    if (folder->unfinished)
        return print_usage(
            "%s belongs to an export that is not complete: continue the export "
            "with its --id; if it had no --id, repeat the export with --force, "
            "or remove the file",
            folder->unfinished);
    if (folder->unknown)
        return print_usage("%s seems to contain entities, which this import "
                           "would leave out: uncompress it, rename it to "
                           "TABLE.jsonl or TABLE.csv, or move it out of the "
                           "folder",
            folder->unknown);
    for (size_t i = 1; i < folder->count; i++)
        if (strcasecmp(folder->files[i - 1].table, folder->files[i].table) == 0)
            return print_usage("%s and %s are files of one table, because the "
                               "case of table names is ignored: remove one",
                folder->files[i - 1].path, folder->files[i].path);
    if (folder->count == 0)
        return print_usage("%s contains no TABLE.jsonl or TABLE.csv", path);
    return EXIT_DONE;
}

static int import_file(struct table_command *command,
    const struct folder_file *file, struct import_result *ret_result)
{
    const char *id = command->invocation->values[OPTION_ID];
    struct import_options options;
    int code;

    command->table = file->table;
    if (id)
        id = arena_format(&command->arena, "%s.%s", id, file->table).at;
    code = read_options(command, file->path, id, &options);
    return code == EXIT_DONE ? perform(command, &options, ret_result) : code;
}

/* Import each file. Rejected lines in one table do not stop the import of the
 * next. */
static int import_each(
    struct table_command *command, const struct folder *folder)
{
    size_t imported = 0, repeated = 0, rejected = 0;
    int code = EXIT_DONE;

    for (size_t i = 0; i < folder->count && code == EXIT_DONE; i++) {
        const struct folder_file *file = &folder->files[i];
        struct import_result result = {.rejected = 0};

        if (is_own_table(file->table)) {
            say("%s is not imported: it is a table of tableward itself, and a "
                "worker would continue the runs of an imported ledger; `import "
                "%s FILE` imports it",
                file->path, file->table);
            continue;
        }
        code = import_file(command, file, &result);
        if (result.rejected > 0)
            code = EXIT_DONE;
        rejected += result.rejected > 0;
        repeated += result.repeated;
        imported += !result.repeated;
    }
    if (code != EXIT_DONE)
        return code;
    say("%zu table%s imported", imported, imported == 1 ? "" : "s");
    if (repeated > 0)
        say("%zu table%s skipped: already imported under this id, from the "
            "same content; take a new id to import %s again",
            repeated, repeated == 1 ? "" : "s", repeated == 1 ? "it" : "them");
    if (rejected == 0)
        return EXIT_DONE;
    say("lines of %zu table%s were rejected", rejected,
        rejected == 1 ? "" : "s");
    return EXIT_FAILED;
}

static int perform_all(struct table_command *command, const char *path)
{
    struct folder folder;
    struct err err;
    int code;

    if (folder_read(&folder, path, report_other, NULL, &err) != TW_OK)
        code = print_usage("%s", err.text);
    else
        code = check_folder(path, &folder);
    if (code == EXIT_DONE)
        code = import_each(command, &folder);
    folder_done(&folder);
    return code;
}

static int run_all(const struct invocation *invocation)
{
    struct table_command command;
    int code;

    if (invocation->arg_count > 1)
        return print_usage(
            "import --all needs one FOLDER, and imports every table in it");
    if (invocation->values[OPTION_FORMAT] ||
        invocation->values[OPTION_REJECTED])
        return print_usage("--format and --rejected cannot be used with --all");
    code = table_command_open_all(&command, invocation, true);
    if (code == EXIT_DONE)
        code = perform_all(&command, invocation->args[0]);
    table_command_close(&command);
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
    {OPTION_ALL, "every TABLE.jsonl and TABLE.csv of FOLDER, as export --all "
                 "writes them"},
    {OPTION_ON_CONFLICT, "if a different entity has the keys: fail (the "
                         "default), skip, replace or merge"},
    {OPTION_ON_ERROR, "if a line is invalid: fail (the default) or skip"},
    {OPTION_REJECTED,
        "with --on-error skip: the file for rejected lines; default: "
        "FILE.rejected"},
    {OPTION_FORMAT, "json or csv; default: csv if FILE ends in .csv"},
    {OPTION_ID, "record the progress under this id; an import with the same id "
                "continues it"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_import = {
    .name = "import",
    .arguments = "TABLE FILE | --all FOLDER",
    .summary = "stores entities from JSON Lines, as export writes them, or CSV",
    .details =
        "FILE may be - for standard input. A missing table is created. An "
        "equal entity that\nexists is accepted, so an import can be repeated. "
        "Timestamp and odata.* are ignored. A\nline with a name that contains "
        "@ is invalid, unless the name is NAME@odata.type or\nsimilar. With "
        "--id the ledger of the same store records the line up to which "
        "everything\nis stored (`status` lists the import under the job named "
        "\"-import\"). If an import with\nthe same id has succeeded, the "
        "import does nothing if FILE has the same content (exit\ncode 0), and "
        "exits with code 64 if FILE has other content. If an import with the "
        "same id\nhas skipped entities, it cannot continue with another "
        "--on-conflict.\n\nCSV has the form that Storage Explorer writes: a "
        "header with PartitionKey and RowKey,\ncells quoted where necessary, "
        "the type of a property in the column PROPERTY@type\n(String without "
        "one). If both cells are empty, the entity does not have the "
        "property.\n\nWith --on-error skip, invalid lines are reported by "
        "their number and kept unchanged\nin the file of --rejected, so that "
        "they "
        "can be corrected and imported; standard\ninput and pipes require "
        "--rejected. A file of rejected lines that is not empty\nis never "
        "overwritten, and only one import at a time writes it. If a line "
        "was\nrejected the exit code is 1.\n\n--all imports each file of "
        "FOLDER into the table of its name; with --id each import\ngets the id "
        "ID.TABLE. The ledger (TablewardRuns) is not imported, because a "
        "worker\nwould continue the runs in it.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
