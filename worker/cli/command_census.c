/* SPDX-License-Identifier: MIT */
/* `tableward census TABLE [--version-property P]`. */
#include <stdio.h>

#include "jobs/engine/profile.h"
#include "jobs/engine/scan.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/store/store.h"

#define OUTPUT_MAX ((size_t)1 << 40)

static void look(void *context, struct progress_state *ret)
{
    ret->done = atomic_load((_Atomic int64_t *)context);
}

static enum tw_err add_page(
    struct profile *profile, const struct page *page, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < page->count && outcome == TW_OK; i++)
        outcome = profile_add(profile, &page->entities[i], err);
    return outcome;
}

static enum tw_err add_all(struct table_command *command,
    struct profile *profile, _Atomic int64_t *total, struct err *err)
{
    struct scan *scan = table_command_scan(command);
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome != TW_OK || !page)
            break;
        outcome = add_page(profile, page, err);
        atomic_fetch_add(total, (int64_t)page->count);
    } while (outcome == TW_OK);
    scan_close(scan);
    return outcome;
}

static void print(
    const struct table_command *command, const struct profile *profile)
{
    struct buf output;

    buf_init(&output, OUTPUT_MAX);
    if (command->invocation->values[OPTION_JSON])
        profile_add_json(profile, command->table, &output);
    else
        profile_add_text(profile, &output);
    fputs(buf_text(&output), stdout);
    buf_done(&output);
}

static int take(struct table_command *command, struct profile *profile)
{
    _Atomic int64_t total = 0;
    struct progress *progress =
        progress_start("census", "counted", look, &total);
    struct err err;
    enum tw_err outcome = add_all(command, profile, &total, &err);

    progress_end(progress);
    if (outcome != TW_OK)
        return table_command_failed(command, outcome, &err);
    print(command, profile);
    return EXIT_DONE;
}

/* Read the name of the version property. Keys and Timestamp are refused: they
 * are not properties, so no entity would have a version. */
static int read_version(const struct invocation *invocation, struct slice *ret)
{
    static const char *const system[] = {"PartitionKey", "RowKey", "Timestamp"};
    const char *text = invocation->values[OPTION_VERSION_PROPERTY];
    struct err err;

    *ret = slice_of(text);
    if (!text)
        return EXIT_DONE;
    if (entity_check_name(*ret, &err) != TW_OK)
        return print_usage("--version-property: %s", err.text);
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++) {
        if (slice_is(*ret, system[i]))
            return print_usage(
                "--version-property: %s cannot hold a version", system[i]);
    }
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct table_command command;
    struct profile *profile;
    struct slice version;
    int code = read_version(invocation, &version);

    if (code != EXIT_DONE)
        return code;
    profile = profile_new(version);
    code = table_command_open(&command, invocation, false);
    if (code == EXIT_DONE)
        code = take(&command, profile);
    table_command_close(&command);
    profile_free(profile);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_VERSION_PROPERTY, "also count the values of this property"},
    {OPTION_FILTER,
        "only entities that match this OData filter: \"Rating ge 4\""},
    {OPTION_JSON, "print one JSON object, for programs"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_census = {
    .name = "census",
    .arguments = "TABLE [--version-property P] [--filter F] [--json]",
    .summary = "counts properties, types and versions of a table's entities",
    .details =
        "Reads all entities once and counts exactly: the types of each "
        "property, the\nentities of each version, and the largest entity, in "
        "bytes as the service counts\nthem (its limit is 1 MiB).\n",
    .required = REQUIRED,
    .max_args = 1,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
