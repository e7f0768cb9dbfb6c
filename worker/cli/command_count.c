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
    struct transfer *transfer, _Atomic int64_t *ret, struct err *err)
{
    struct scan *scan = transfer_scan(transfer, NULL);
    const struct page *page;
    enum tw_err code;

    do {
        code = scan_next(scan, &page, err);
        if (code == TW_OK && page)
            atomic_fetch_add(ret, (int64_t)page->count);
    } while (code == TW_OK && page);
    scan_close(scan);
    return code;
}

static int count(struct transfer *transfer)
{
    struct slice keys[] = {slice_of("PartitionKey")};
    _Atomic int64_t total = 0;
    struct progress *progress;
    struct err err;
    enum tw_err code;

    transfer->select = keys;
    transfer->select_count = 1;
    progress = progress_start("count", "counted", look, &total);
    code = count_all(transfer, &total, &err);
    progress_end(progress);
    if (code == TW_NOT_FOUND)
        return transfer_no_table(transfer);
    if (code != TW_OK)
        return transfer_failed(transfer, code, &err);
    printf("%" PRId64 "\n", atomic_load(&total));
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct transfer transfer;
    int code = transfer_open(&transfer, invocation, false);

    if (code == EXIT_DONE)
        code = count(&transfer);
    transfer_close(&transfer);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_FILTER, "only entities that match, in OData: \"Rating ge 4\""},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_count = {
    .name = "count",
    .arguments = "TABLE [--filter F]",
    .summary = "counts the entities of a table",
    .required = REQUIRED,
    .max_args = 1,
    .options = OPTIONS,
    .run = run,
};
