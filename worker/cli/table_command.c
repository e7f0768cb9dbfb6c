/* SPDX-License-Identifier: MIT */
/* A table of a store, for the commands that carry its entities. */
#include "worker/cli/table_command.h"

#include <string.h>

#include "jobs/engine/scan.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* Names of tables that are looked at for the nearest one. */
#define NAMES_MAX 1000

/* ---- options ---- */

static int read_filter(struct transfer *transfer)
{
    const char *text = transfer->invocation->values[OPTION_FILTER];
    struct err err;
    size_t offset;

    if (!text)
        return EXIT_DONE;
    transfer->filter = slice_of(text);
    if (filter_check(transfer->filter, &offset, &err) == TW_OK)
        return EXIT_DONE;
    return say_usage("--filter, column %zu: %s", offset + 1, err.text);
}

static size_t count_names(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == ',';
    return count;
}

static int read_select(struct transfer *transfer)
{
    const char *text = transfer->invocation->values[OPTION_SELECT];
    struct err err;

    if (!text)
        return EXIT_DONE;
    transfer->select = arena_alloc(
        &transfer->arena, count_names(text) * sizeof(*transfer->select));
    for (;;) {
        struct slice name = {text, strcspn(text, ",")};

        if (entity_check_name(name, &err) != TW_OK)
            return say_usage("--select: %s", err.text);
        transfer->select[transfer->select_count++] = name;
        if (text[name.len] == '\0')
            return EXIT_DONE;
        text += name.len + 1;
    }
}

static int read_table(struct transfer *transfer)
{
    struct err err;

    transfer->table = transfer->invocation->args[0];
    if (entity_check_table(slice_of(transfer->table), &err) == TW_OK)
        return EXIT_DONE;
    return say_usage("%s", err.text);
}

/* ---- the whole ---- */

int transfer_open(struct transfer *transfer,
    const struct invocation *invocation, bool may_create)
{
    int code;

    *transfer = (struct transfer){.invocation = invocation};
    arena_init(&transfer->arena);
    code = read_table(transfer);
    if (code == EXIT_DONE)
        code = read_filter(transfer);
    if (code == EXIT_DONE)
        code = read_select(transfer);
    if (code != EXIT_DONE)
        return code;
    transfer->opened = true;
    code = session_open(&transfer->session, invocation, SESSION_ENVIRONMENT);
    if (code == EXIT_DONE)
        code = session_store(
            &transfer->session, invocation, may_create, &transfer->store);
    if (code == EXIT_DONE && !transfer->store)
        code = EXIT_FAILED;
    if (code == EXIT_DONE)
        session_lanes(&transfer->session);
    return code;
}

void transfer_close(struct transfer *transfer)
{
    if (transfer->opened)
        session_close(&transfer->session);
    arena_done(&transfer->arena);
}

int transfer_check_file(const struct transfer *transfer, const char *path)
{
    if (!load_keeps(transfer->session.load, path))
        return EXIT_DONE;
    return say_usage("%s is the configuration, or belongs to one of its "
                     "stores: name another file",
        strcmp(path, "-") == 0 ? "standard input" : path);
}

struct scan *transfer_scan(
    struct transfer *transfer, const struct entity *after)
{
    struct scan_spec spec = {
        .store = transfer->store,
        .table = transfer->table,
        .filter = transfer->filter,
        .select = transfer->select,
        .select_count = transfer->select_count,
    };

    if (after) {
        spec.resumed = true;
        spec.after_partition_key = after->partition_key;
        spec.after_row_key = after->row_key;
    }
    return scan_open(transfer->session.client, &spec);
}

int transfer_failed(
    struct transfer *transfer, enum tw_err code, struct err *err)
{
    if (atomic_load(&transfer->session.stopped))
        return session_stopped();
    session_explain(transfer->store, code, err);
    return say_failed(code, err);
}

/* ---- a table that is not there ---- */

struct listing {
    struct store *store;
    struct page page;
};

static enum tw_err list_tables(void *context, struct attempt *attempt)
{
    struct listing *listing = context;
    const struct continuation begin = {.more = false};

    return store_list_tables(listing->store, attempt, begin, &listing->page);
}

static const char *nearest_table(
    struct transfer *transfer, const struct page *page)
{
    const char *names[NAMES_MAX];
    size_t count = page->count < NAMES_MAX ? page->count : NAMES_MAX;

    for (size_t i = 0; i < count; i++)
        names[i] =
            arena_copy(&transfer->arena, page->entities[i].partition_key).at;
    return text_nearest(slice_of(transfer->table), names, count);
}

int transfer_no_table(struct transfer *transfer)
{
    struct listing listing = {.store = transfer->store};
    const char *near = NULL;
    struct err err;

    page_init(&listing.page);
    if (session_call(&transfer->session, transfer->store, list_tables, &listing,
            true, &err) == TW_OK)
        near = nearest_table(transfer, &listing.page);
    page_done(&listing.page);
    say("store %s has no table '%s'%s%s%s", transfer->store->name,
        transfer->table, near ? ", did you mean '" : "", near ? near : "",
        near ? "'?" : "");
    return EXIT_FAILED;
}
