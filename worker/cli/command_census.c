/* SPDX-License-Identifier: MIT */
/* `tableward census TABLE [--version-property P]`. */
#include <stdio.h>

#include "jobs/engine/census.h"
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
    struct census *census, const struct page *page, struct err *err)
{
    enum tw_err code = TW_OK;

    for (size_t i = 0; i < page->count && code == TW_OK; i++)
        code = census_add(census, &page->entities[i], err);
    return code;
}

static enum tw_err add_all(struct transfer *transfer, struct census *census,
    _Atomic int64_t *total, struct err *err)
{
    struct scan *scan = transfer_scan(transfer, NULL);
    const struct page *page;
    enum tw_err code;

    do {
        code = scan_next(scan, &page, err);
        if (code != TW_OK || !page)
            break;
        code = add_page(census, page, err);
        atomic_fetch_add(total, (int64_t)page->count);
    } while (code == TW_OK);
    scan_close(scan);
    return code;
}

static void print(const struct transfer *transfer, const struct census *census)
{
    struct buf output;

    buf_init(&output, OUTPUT_MAX);
    if (transfer->invocation->values[OPTION_JSON])
        census_add_json(census, transfer->table, &output);
    else
        census_add_text(census, &output);
    fputs(buf_text(&output), stdout);
    buf_done(&output);
}

static int take(struct transfer *transfer, struct census *census)
{
    _Atomic int64_t total = 0;
    struct progress *progress =
        progress_start("census", "counted", look, &total);
    struct err err;
    enum tw_err code = add_all(transfer, census, &total, &err);

    progress_end(progress);
    if (code == TW_NOT_FOUND)
        return transfer_no_table(transfer);
    if (code != TW_OK)
        return transfer_failed(transfer, code, &err);
    print(transfer, census);
    return EXIT_DONE;
}

/* Keys and Timestamp are no properties: every entity would be without. */
static int read_version(const struct invocation *invocation, struct slice *ret)
{
    static const char *const system[] = {"PartitionKey", "RowKey", "Timestamp"};
    const char *text = invocation->values[OPTION_VERSION_PROPERTY];
    struct err err;

    *ret = slice_of(text);
    if (!text)
        return EXIT_DONE;
    if (entity_check_name(*ret, &err) != TW_OK)
        return say_usage("--version-property: %s", err.text);
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++) {
        if (slice_is(*ret, system[i]))
            return say_usage(
                "--version-property: %s cannot hold a version", system[i]);
    }
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct transfer transfer;
    struct census *census;
    struct slice version;
    int code = read_version(invocation, &version);

    if (code != EXIT_DONE)
        return code;
    census = census_new(version);
    code = transfer_open(&transfer, invocation, false);
    if (code == EXIT_DONE)
        code = take(&transfer, census);
    transfer_close(&transfer);
    census_free(census);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_VERSION_PROPERTY, "also count the values of this property"},
    {OPTION_FILTER, "only entities that match, in OData: \"Rating ge 4\""},
    {OPTION_JSON, "one object, for programs"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_census = {
    .name = "census",
    .arguments = "TABLE [--version-property P] [--filter F] [--json]",
    .summary = "counts properties and their types, and versions, of a table",
    .details = "Exact, in one pass over all entities: per property the types "
               "met and how often,\nper version the number of entities, and "
               "the largest entity, in bytes as the\nservice counts them (it "
               "takes 1 MiB).\n",
    .required = REQUIRED,
    .max_args = 1,
    .options = OPTIONS,
    .run = run,
};
