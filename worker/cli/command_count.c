/* SPDX-License-Identifier: MIT */
/* `tableward count TABLE [--filter F]`. */
#include <inttypes.h>
#include <stdio.h>

#include "jobs/engine/scan.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/table_command.h"
#include "worker/store/store.h"

static void look(void *context, struct progress_state *ret)
{
    ret->done = atomic_load((_Atomic int64_t *)context);
}

static enum tw_err count_all(
    struct table_command *command, _Atomic int64_t *ret, struct err *err)
{
    struct scan *scan = table_command_scan(command);
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_OK && page)
            atomic_fetch_add(ret, (int64_t)page->count);
    } while (outcome == TW_OK && page);
    scan_close(scan);
    return outcome;
}

static int count(struct table_command *command)
{
    struct slice keys[] = {slice_of("PartitionKey")};
    _Atomic int64_t total = 0;
    struct progress *progress;
    struct err err;
    enum tw_err outcome;

    command->select = keys;
    command->select_count = 1;
    progress = progress_start("count", "counted", look, &total);
    outcome = count_all(command, &total, &err);
    progress_end(progress);
    if (outcome != TW_OK)
        return table_command_failed(command, outcome, &err);
    printf("%" PRId64 "\n", atomic_load(&total));
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct table_command command;
    int code = table_command_open(&command, invocation, false);

    if (code == EXIT_DONE)
        code = count(&command);
    table_command_close(&command);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_FILTER,
        "only entities that match this OData filter: \"Rating ge 4\""},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_count = {
    .name = "count",
    .arguments = "TABLE [--filter F]",
    .summary = "counts the entities of a table",
    .required = REQUIRED,
    .max_args = 1,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
