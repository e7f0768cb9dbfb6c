/* SPDX-License-Identifier: MIT */
/* A table of a store, for the commands that read or write its entities. */
#include "worker/cli/table_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/engine/scan.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/cli/signals.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* The maximum number of table names that are compared to find the nearest
 * name. */
#define NAMES_MAX 1000

/* The maximum number of tables of a store, all of whose names are in memory. */
#define TABLES_MAX 250000

/* ---- options ---- */

static int read_filter(struct table_command *command)
{
    const char *text = command->invocation->values[OPTION_FILTER];
    struct err err;
    size_t offset;

    if (!text)
        return EXIT_DONE;
    command->filter = slice_of(text);
    if (filter_check(command->filter, &offset, &err) == TW_OK)
        return EXIT_DONE;
    return print_usage("--filter, column %zu: %s", offset + 1, err.text);
}

static size_t count_names(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == ',';
    return count;
}

static int read_select(struct table_command *command)
{
    const char *text = command->invocation->values[OPTION_SELECT];
    struct err err;

    if (!text)
        return EXIT_DONE;
    command->select = arena_alloc(
        &command->arena, count_names(text) * sizeof(*command->select));
    for (;;) {
        struct slice name = {text, strcspn(text, ",")};

        if (entity_check_name(name, &err) != TW_OK)
            return print_usage("--select: %s", err.text);
        command->select[command->select_count++] = name;
        if (text[name.len] == '\0')
            return EXIT_DONE;
        text += name.len + 1;
    }
}

static int read_table(struct table_command *command)
{
    struct err err;

    command->table = command->invocation->args[0];
    if (entity_check_table(slice_of(command->table), &err) == TW_OK)
        return EXIT_DONE;
    return print_usage("%s", err.text);
}

int table_command_choice(const struct invocation *invocation,
    enum option option, const char *name, const char *const *choices, int *ret)
{
    const char *text = invocation->values[option];
    size_t count = 0;

    for (; text && choices[count]; count++)
        if (strcmp(text, choices[count]) == 0) {
            *ret = (int)count;
            return EXIT_DONE;
        }
    return text ? print_unknown(
                      name, text, text_nearest(slice_of(text), choices, count))
                : EXIT_DONE;
}

static bool is_csv_name(const char *path)
{
    size_t len = path ? strlen(path) : 0;

    return len >= 4 && strcasecmp(path + len - 4, ".csv") == 0;
}

int table_command_format(const struct table_command *command, const char *path,
    enum records_format *ret)
{
    static const char *const names[] = {"json", "csv", NULL};
    int format = is_csv_name(path) ? RECORDS_CSV : RECORDS_JSON_LINES;
    int code = table_command_choice(
        command->invocation, OPTION_FORMAT, "--format", names, &format);

    *ret = (enum records_format)format;
    return code;
}

/* ---- the end after a stop signal ---- */

/* The time from a stop signal after which the watcher ends the process. Without
 * the watcher, a command that waits for a response, or for the reader of a
 * pipe, might end much later. */
#define STOP_MS 4000

static void watch(void *arg)
{
    struct table_command *command = arg;
    struct session *session = &command->session;
    int64_t until_ms;

    platform_lock(&session->mutex);
    while (!command->ended && !atomic_load(&session->stopped))
        (void)platform_wait(&session->cond, &session->mutex, PLATFORM_NEVER);
    until_ms = platform_boot_ms() + STOP_MS;
    while (!command->ended &&
           platform_wait(&session->cond, &session->mutex, until_ms))
        ;
    if (!command->ended) {
        if (command->abort)
            command->abort(command->abort_context);
        signals_exit_now(session_stopped());
    }
    platform_unlock(&session->mutex);
}

static void end_watch(struct table_command *command)
{
    if (!command->watched)
        return;
    platform_lock(&command->session.mutex);
    command->ended = true;
    platform_wake_all(&command->session.cond);
    platform_unlock(&command->session.mutex);
    platform_join(&command->watcher);
}

void table_command_on_abort(
    struct table_command *command, void (*abort)(void *context), void *context)
{
    platform_lock(&command->session.mutex);
    command->abort = abort;
    command->abort_context = context;
    platform_unlock(&command->session.mutex);
}

/* ---- opening and closing ---- */

static int open_store(struct table_command *command, bool may_create)
{
    int code;

    command->opened = true;
    code = session_open(
        &command->session, command->invocation, SESSION_ENVIRONMENT);
    if (code == EXIT_DONE)
        code = session_store(&command->session, command->invocation, may_create,
            &command->store);
    return code == EXIT_DONE && !command->store ? EXIT_FAILED : code;
}

static int open_command(struct table_command *command,
    const struct invocation *invocation, bool may_create, bool one_table)
{
    int code = EXIT_DONE;

    *command = (struct table_command){.invocation = invocation};
    arena_init(&command->arena);
    if (one_table)
        code = read_table(command);
    if (code == EXIT_DONE)
        code = read_filter(command);
    if (code == EXIT_DONE)
        code = read_select(command);
    if (code == EXIT_DONE)
        code = open_store(command, may_create);
    if (code != EXIT_DONE)
        return code;
    session_request_pool(&command->session);
    command->watched = true;
    platform_start(&command->watcher, "stop", watch, command);
    return EXIT_DONE;
}

int table_command_open(struct table_command *command,
    const struct invocation *invocation, bool may_create)
{
    return open_command(command, invocation, may_create, true);
}

int table_command_open_all(struct table_command *command,
    const struct invocation *invocation, bool may_create)
{
    return open_command(command, invocation, may_create, false);
}

void table_command_close(struct table_command *command)
{
    end_watch(command);
    if (command->opened)
        session_close(&command->session);
    arena_done(&command->arena);
}

/* ---- import and export ---- */

static void report(void *context, const char *sentence)
{
    (void)context;
    say("%s", sentence);
}

static struct pool_client *restart(void *context)
{
    struct table_command *command = context;

    session_again(&command->session);
    return command->session.client;
}

struct transfer table_command_transfer(struct table_command *command)
{
    return (struct transfer){
        .store = command->store,
        .table = command->table,
        .client = command->session.client,
        .in_flight = (unsigned)command->session.load->setup.requests,
        .stopped = &command->session.stopped,
        .report = report,
        .restart = restart,
        .context = command,
    };
}

int table_command_check_file(
    const struct table_command *command, const char *path)
{
    if (!load_keeps(command->session.load, path))
        return EXIT_DONE;
    return print_usage("%s is the configuration, or belongs to one of its "
                       "stores: name another file",
        strcmp(path, "-") == 0 ? "standard input" : path);
}

struct scan *table_command_scan(struct table_command *command)
{
    return scan_open(
        command->session.client, &(struct scan_spec){
                                     .store = command->store,
                                     .table = command->table,
                                     .filter = command->filter,
                                     .select = command->select,
                                     .select_count = command->select_count,
                                 });
}

/* ---- all tables ---- */

struct listing {
    struct store *store;
    struct continuation from;
    struct page page;
};

static enum tw_err list_tables(void *context, struct exchange *exchange)
{
    struct listing *listing = context;

    return store_list_tables(
        listing->store, exchange, listing->from, &listing->page);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Add the valid names of a page to names. Other names are left out, because
 * names are printed and become parts of paths. */
static const char **add_names(struct table_command *command,
    struct listing *listing, const char **names, size_t *count)
{
    const struct page *page = &listing->page;

    listing->from = page->next;
    names = mem_resize(names, (*count + page->count) * sizeof(*names));
    for (size_t i = 0; i < page->count; i++) {
        struct slice name = page->entities[i].partition_key;
        struct err err;

        if (entity_check_table(name, &err) != TW_OK)
            say("store %s: a table is left out: %s", command->store->name,
                err.text);
        else
            names[(*count)++] = arena_copy(&command->arena, name).at;
    }
    return names;
}

enum tw_err table_command_list(struct table_command *command,
    const char *const **ret, size_t *ret_count, struct err *err)
{
    struct listing listing = {.store = command->store};
    const char **names = NULL, **kept;
    enum tw_err outcome;

    *ret_count = 0;
    page_init(&listing.page);
    do {
        outcome = session_call(&command->session, command->store, list_tables,
            &listing, true, err);
        if (outcome == TW_OK)
            names = add_names(command, &listing, names, ret_count);
        if (*ret_count > TABLES_MAX)
            outcome = err_fail(err, TW_TOO_LARGE,
                "store %s lists more than %d tables", command->store->name,
                TABLES_MAX);
    } while (outcome == TW_OK && listing.from.more);
    page_done(&listing.page);
    kept = arena_alloc(&command->arena, (*ret_count + 1) * sizeof(*kept));
    if (*ret_count > 0) {
        memcpy(kept, names, *ret_count * sizeof(*kept));
        qsort(kept, *ret_count, sizeof(*kept), compare_names);
    }
    mem_free(names);
    *ret = kept;
    return outcome;
}

/* ---- failures ---- */

static const char *nearest_table(
    struct table_command *command, const struct page *page)
{
    const char *names[NAMES_MAX];
    size_t count = page->count < NAMES_MAX ? page->count : NAMES_MAX;

    for (size_t i = 0; i < count; i++)
        names[i] =
            arena_copy(&command->arena, page->entities[i].partition_key).at;
    return text_nearest(slice_of(command->table), names, count);
}

static int fail_no_table(struct table_command *command)
{
    struct listing listing = {.store = command->store};
    const char *near = NULL;
    struct err err;

    page_init(&listing.page);
    if (session_call(&command->session, command->store, list_tables, &listing,
            true, &err) == TW_OK)
        near = nearest_table(command, &listing.page);
    page_done(&listing.page);
    say("store %s has no table '%s'%s%s%s", command->store->name,
        command->table, near ? ", did you mean '" : "", near ? near : "",
        near ? "'?" : "");
    return EXIT_FAILED;
}

int table_command_failed(
    struct table_command *command, enum tw_err outcome, struct err *err)
{
    bool stopped = atomic_load(&command->session.stopped);

    switch (outcome) {
    case TW_NOT_FOUND:
        return fail_no_table(command);
    case TW_BUSY:
    case TW_UNKNOWN:
    case TW_REFUSED:
    case TW_FORBIDDEN:
        store_explain(command->store, outcome, err);
        return stopped ? session_stopped() : print_failed(outcome, err);
    case TW_STOPPED:
        return stopped ? session_stopped() : print_failed(outcome, err);
    case TW_OK:
    case TW_CONFLICT:
    case TW_INVALID:
    case TW_TOO_LARGE:
    case TW_FULL:
        break;
    }
    return print_failed(outcome, err);
}
