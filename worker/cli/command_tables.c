/* SPDX-License-Identifier: MIT */
/* `tableward tables [--count] [--json]`: the tables of a store. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/scan.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/table_command.h"
#include "worker/store/store.h"

/* The longest name of a table, and the longest line for it. */
#define NAME_MAX_BYTES 256
#define LINE_MAX_BYTES 2048

struct tables {
    struct table_command command;
    const char *const *names;
    size_t count;
    int width; /* width of the longest name */
    bool counts, json;
    size_t printed;
    _Atomic int64_t total; /* entities counted so far, of all tables */
};

static void look(void *context, struct progress_state *ret)
{
    ret->done = atomic_load((_Atomic int64_t *)context);
}

/* Count the entities of command.table. */
static enum tw_err count_table(
    struct tables *tables, int64_t *ret, struct err *err)
{
    struct scan *scan = table_command_scan(&tables->command);
    const struct page *page;
    enum tw_err outcome;

    *ret = 0;
    do {
        outcome = scan_next(scan, &page, err);
        if (outcome != TW_OK || !page)
            break;
        *ret += (int64_t)page->count;
        atomic_fetch_add(&tables->total, (int64_t)page->count);
    } while (true);
    scan_close(scan);
    return outcome;
}

/* Print the line of a table. entities < 0: the entities were not counted. */
static void print_table(
    struct tables *tables, const char *name, int64_t entities)
{
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    if (tables->json) {
        buf_add_text(
            &line, tables->printed > 0 ? ",{\"Table\":" : "{\"Table\":");
        json_add_string(&line, slice_of(name));
        if (entities >= 0)
            buf_add_format(&line, ",\"Entities\":%" PRId64, entities);
        buf_add_char(&line, '}');
    } else if (entities >= 0) {
        buf_add_format(
            &line, "%-*s  %10" PRId64 "\n", tables->width, name, entities);
    } else {
        buf_add_format(&line, "%s\n", name);
    }
    tables->printed++;
    fputs(buf_text(&line), stdout);
    buf_done(&line);
}

/* Count and print one table. A table that was deleted after it was listed is
 * not printed. */
static enum tw_err print_one(
    struct tables *tables, const char *name, struct err *err)
{
    int64_t entities = -1;
    enum tw_err outcome = TW_OK;

    tables->command.table = name;
    if (tables->counts)
        outcome = count_table(tables, &entities, err);
    if (outcome == TW_OK)
        print_table(tables, name, entities);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err print_all(struct tables *tables, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (tables->json)
        fputs("[", stdout);
    for (size_t i = 0; i < tables->count && outcome == TW_OK; i++)
        outcome = print_one(tables, tables->names[i], err);
    if (tables->json && outcome == TW_OK)
        fputs("]\n", stdout);
    return outcome;
}

static void find_width(struct tables *tables)
{
    for (size_t i = 0; i < tables->count; i++) {
        size_t len = strnlen(tables->names[i], NAME_MAX_BYTES);

        if ((int)len > tables->width)
            tables->width = (int)len;
    }
}

static int list(struct tables *tables)
{
    struct slice keys[] = {slice_of("PartitionKey")};
    struct table_command *command = &tables->command;
    struct progress *progress = NULL;
    struct err err;
    enum tw_err outcome =
        table_command_list(command, &tables->names, &tables->count, &err);

    command->select = keys;
    command->select_count = 1;
    find_width(tables);
    if (outcome == TW_OK && tables->counts)
        progress = progress_start("tables", "counted", look, &tables->total);
    if (outcome == TW_OK)
        outcome = print_all(tables, &err);
    progress_end(progress);
    if (outcome != TW_OK)
        return table_command_failed(command, outcome, &err);
    if (!tables->counts)
        say("the entities were not counted: --count reads all of them, with "
            "one transaction for each 1,000, at about $0.00036 per 10,000 "
            "transactions");
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct tables tables = {.json = invocation->values[OPTION_JSON] != NULL};
    int code = table_command_open_all(&tables.command, invocation, false);

    if (code == EXIT_DONE) {
        tables.counts = invocation->values[OPTION_COUNT_ENTITIES] != NULL ||
                        tables.command.store->capabilities.local;
        code = list(&tables);
    }
    table_command_close(&tables.command);
    return code;
}

static const struct command_option OPTIONS[] = {
    {OPTION_COUNT_ENTITIES,
        "count the entities of an Azure store too, by reading all of them"},
    {OPTION_JSON, "one array of objects, for programs"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_tables = {
    .name = "tables",
    .arguments = "[--count] [--json]",
    .summary = "lists the tables of a store, with their number of entities",
    .details = "The tables are ordered by name, and include tableward's own. "
               "Entities are counted by\nreading them: always on an embedded "
               "store, and on Azure only with --count, because\nthis costs one "
               "transaction for each 1,000 entities.\n",
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
