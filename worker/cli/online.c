/* SPDX-License-Identifier: MIT */
/*
 * Rights are tested without changing anything. One entity is read from each
 * table. Update and delete are tried on an entity that cannot exist, because
 * the service responds "not found" if it grants the right. The right to insert
 * cannot be tested this way.
 */
#include "worker/cli/online.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

/* The clock difference from which a warning is printed. The service refuses
 * requests if the clock is wrong by 15 minutes. */
#define CLOCK_OFF_TICKS (60 * TICKS_PER_S)

/* An ETag in the service's form that no entity has. */
#define NO_ETAG "W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\""

struct online {
    struct session *session;
    struct store *store; /* NULL: the file of the store does not exist yet */
    const char *name;    /* name of the store that is checked */
    int exit_code;
    int64_t off_ticks; /* service's clock minus this machine's, at the last
                          response */
    bool has_clock;
};

struct probe {
    struct online *online;
    const char *name; /* name of the table or queue */
    enum operation_type type;
    char key[40];
    int64_t count;
};

struct named {
    size_t store;
    const char *table;
    bool is_needed; /* the table must exist, because a job reads it or does not
                       create it */
};

static void note_clock(struct online *online, const struct exchange *exchange)
{
    if (exchange->date_ticks <= 0)
        return;
    online->off_ticks = exchange->date_ticks - platform_wall_ticks();
    online->has_clock = true;
}

/* ---- one request each ---- */

static enum tw_err list_tables(void *context, struct exchange *exchange)
{
    struct probe *probe = context;
    const struct continuation begin = {.more = false};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_list_tables(probe->online->store, exchange, begin, &page);
    note_clock(probe->online, exchange);
    page_done(&page);
    return outcome;
}

static enum tw_err read_table(void *context, struct exchange *exchange)
{
    struct probe *probe = context;
    struct slice keys[] = {slice_of("PartitionKey")};
    const struct scan_request request = {
        .table = probe->name, .select = keys, .select_count = 1, .top = 1};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_scan(probe->online->store, exchange, &request, &page);
    note_clock(probe->online, exchange);
    page_done(&page);
    return outcome;
}

static enum tw_err change_table(void *context, struct exchange *exchange)
{
    struct probe *probe = context;
    const struct operation operation = {
        .type = probe->type,
        .entity = {.partition_key = slice_of(probe->key),
            .row_key = slice_of(probe->key),
            .etag = slice_of(NO_ETAG)},
    };
    const struct batch batch = {
        .table = probe->name, .operations = &operation, .count = 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    enum tw_err outcome =
        store_batch(probe->online->store, exchange, &batch, result);

    mem_free(result);
    return outcome;
}

static enum tw_err count_queue(void *context, struct exchange *exchange)
{
    struct probe *probe = context;
    enum tw_err outcome = store_queue_count(
        probe->online->store, exchange, probe->name, &probe->count);

    note_clock(probe->online, exchange);
    return outcome;
}

static enum tw_err delete_message(void *context, struct exchange *exchange)
{
    struct probe *probe = context;

    return store_queue_delete(probe->online->store, exchange, probe->name,
        slice_of(probe->key), slice_of("AgAAAAMAAAAAAAAAAAAAAAAAAAA="));
}

/* ---- results ---- */

/* Set the exit code, unless a higher one is set, so that a store that cannot be
 * reached (69) overrides a missing table (1). */
static void fails(struct online *online, int exit_code)
{
    if (exit_code > online->exit_code)
        online->exit_code = exit_code;
}

static void report(
    struct online *online, const char *what, const char *name, const char *says)
{
    printf("store %s: %s%s%s: %s\n", online->name, what, *name ? " " : "", name,
        says);
}

static void report_failed(struct online *online, enum tw_err outcome,
    const char *right, const struct probe *probe, const struct err *err)
{
    if (outcome == TW_FORBIDDEN)
        say("the permission to %s %s is missing: %s", right,
            probe->name[0] ? probe->name : "tables", err->text);
    else
        say("%s", err->text);
    fails(online, EXIT_UNREACHABLE);
}

static enum tw_err ask(struct online *online,
    enum tw_err (*call)(void *context, struct exchange *exchange),
    struct probe *probe, struct err *err)
{
    return session_call(online->session, online->store, call, probe, true, err);
}

static void try_change(struct online *online, struct probe *probe,
    enum operation_type type, const char *right)
{
    struct err err;
    enum tw_err outcome;

    probe->type = type;
    outcome = ask(online, change_table, probe, &err);
    if (outcome != TW_OK && outcome != TW_NOT_FOUND && outcome != TW_CONFLICT)
        report_failed(online, outcome, right, probe, &err);
}

static void report_missing(struct online *online, const struct named *named)
{
    if (named->is_needed) {
        say("store %s: table %s does not exist, and a job needs it",
            online->name, named->table);
        fails(online, EXIT_FAILED);
    } else {
        report(online, "table", named->table, "does not exist yet");
    }
}

static void check_table(struct online *online, const struct named *named)
{
    const char *table = named->table;
    struct probe probe = {.online = online, .name = table};
    struct err err;
    enum tw_err outcome = ask(online, read_table, &probe, &err);

    text_random_uuid(probe.key);
    if (outcome == TW_NOT_FOUND) {
        report_missing(online, named);
        return;
    }
    if (outcome != TW_OK) {
        report_failed(online, outcome, "read", &probe, &err);
        return;
    }
    report(online, "table", table, "exists");
    if (online->store->read_only)
        return; /* reach() has already reported that the store refuses writes */
    try_change(online, &probe, OPERATION_MERGE, "update");
    try_change(online, &probe, OPERATION_DELETE, "delete from");
}

static void check_queue(struct online *online, const char *queue)
{
    struct probe probe = {.online = online, .name = queue};
    char says[80];
    struct err err;
    enum tw_err outcome = ask(online, count_queue, &probe, &err);

    text_random_uuid(probe.key);
    if (outcome == TW_NOT_FOUND) {
        report(
            online, "queue", queue, "does not exist yet: a worker creates it");
        return;
    }
    if (outcome != TW_OK) {
        report_failed(online, outcome, "read", &probe, &err);
        return;
    }
    snprintf(says, sizeof(says), "has %" PRId64 " message%s", probe.count,
        probe.count == 1 ? "" : "s");
    report(online, "queue", queue, says);
    if (online->store->read_only)
        return;
    outcome = ask(online, delete_message, &probe, &err);
    if (outcome == TW_FORBIDDEN)
        report_failed(online, outcome, "process messages of", &probe, &err);
}

/* ---- everything in the configuration ---- */

struct tables {
    struct named *list;
    size_t count, room;
};

static void add_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    struct tables *tables = ctx;
    bool needs = access != JOB_MAKES;

    for (size_t i = 0; i < tables->count; i++) {
        struct named *named = &tables->list[i];

        if (named->store != store || strcmp(named->table, table) != 0)
            continue;
        named->is_needed |= needs;
        return;
    }
    if (tables->count == tables->room) {
        tables->room = 2 * tables->room + 16;
        tables->list =
            mem_resize(tables->list, tables->room * sizeof(*tables->list));
    }
    tables->list[tables->count++] = (struct named){store, table, needs};
}

static void add_tables_of_jobs(const struct load *load, struct tables *to)
{
    for (size_t i = 0; i < load->jobs.count; i++) {
        const struct job *job = &load->jobs.list[i];

        job->kind->tables(job, add_table, to);
    }
    if (load->setup.store < load->stores.count)
        add_table(to, load->setup.store, LEDGER_TABLE, JOB_MAKES);
}

static void check_clock(struct online *online)
{
    int64_t off_s = online->off_ticks / TICKS_PER_S;

    if (!online->has_clock || llabs(online->off_ticks) < CLOCK_OFF_TICKS)
        return;
    if (online->store->capabilities.local) {
        printf("store %s: the store's clock is %" PRId64
               " s %s this machine's, because this machine's clock was set; "
               "the difference shrinks slowly\n",
            online->store->name, (int64_t)llabs(off_s),
            off_s > 0 ? "ahead of" : "behind");
        return;
    }
    say("store %s: the clock of this machine is %" PRId64
        " s %s the store's; at 15 minutes the store refuses every request",
        online->store->name, (int64_t)llabs(off_s),
        off_s > 0 ? "behind" : "ahead of");
    fails(online, EXIT_UNREACHABLE);
}

/* Report a store whose file does not exist. An embedded store without a file
 * has no tables. */
static void report_no_file(struct online *online, size_t store,
    const struct tables *tables, const struct err *err)
{
    printf("%s\n", err->text);
    for (size_t i = 0; i < tables->count; i++)
        if (tables->list[i].store == store)
            report_missing(online, &tables->list[i]);
}

/* Open the store, list its tables and report the result. False: nothing else of
 * this store can be checked. */
static bool reach(
    struct online *online, size_t store, const struct tables *tables)
{
    struct load *load = online->session->load;
    struct probe probe = {.online = online, .name = ""};
    struct err err;
    enum tw_err outcome = load_store(load, store, false, &err);

    online->name = load->stores.names[store];
    online->store = NULL;

    if (outcome == TW_NOT_FOUND) {
        report_no_file(online, store, tables, &err);
        return false;
    }
    if (outcome != TW_OK) {
        fails(
            online, session_open_failed(online->session, store, outcome, &err));
        return false;
    }
    online->store = load->open[store];
    online->has_clock = false;
    if (online->store->capabilities.acts_as)
        report(online, "acts as", "", online->store->capabilities.acts_as);
    outcome = ask(online, list_tables, &probe, &err);
    if (outcome == TW_OK)
        report(
            online, load->open[store]->capabilities.kind, "", "is reachable");
    else
        report_failed(online, outcome, "list", &probe, &err);
    check_clock(online);
    if (online->store->read_only) {
        say("store %s: its file cannot be written: a worker cannot use the "
            "store, and only commands that do not write can use it",
            online->name);
        fails(online, EXIT_UNREACHABLE);
    }
    return outcome == TW_OK || outcome == TW_FORBIDDEN;
}

/* Is the store at index `store`, which must be open, the ledger's store,
 * perhaps under another name? */
static bool is_of_ledger(struct load *load, size_t store)
{
    size_t ledger = load->setup.store;
    struct err ignored;

    return load_store(load, ledger, false, &ignored) == TW_OK &&
           store_is_one(load->open[store], load->open[ledger]);
}

/* Warn if this store has a ledger but is not the configured store of the
 * ledger. A change of `store:` or `default_store:` may have left the ledger
 * behind, or another configuration may use it. */
static void warn_of_other_ledger(struct online *online, size_t store)
{
    struct load *load = online->session->load;
    struct probe probe = {.online = online, .name = LEDGER_TABLE};
    struct err ignored;

    if (load->setup.store >= load->stores.count)
        return;
    if (is_of_ledger(load, store) ||
        ask(online, read_table, &probe, &ignored) != TW_OK)
        return;
    say("warning: store %s has a ledger too (table " LEDGER_TABLE
        "), but this configuration has its ledger in store %s: the runs, "
        "closed jobs and locks in store %s are not known here, and a change of "
        "`default_store:`, or of `store:` in `worker:`, does not move them",
        online->name, load->stores.names[load->setup.store], online->name);
}

static void check_store(
    struct online *online, size_t store, const struct tables *tables)
{
    const struct setup *setup = &online->session->load->setup;

    if (!reach(online, store, tables))
        return;
    for (size_t i = 0; i < tables->count; i++)
        if (tables->list[i].store == store)
            check_table(online, &tables->list[i]);
    warn_of_other_ledger(online, store);
    for (size_t i = 0; i < setup->queue_count && setup->store == store; i++) {
        check_queue(online, setup->queues[i].name);
        check_queue(online, setup->queues[i].poison_queue);
    }
}

/* ---- folders ---- */

/* Shorten path to the nearest existing folder above it (unchanged if path
 * exists), and get its status. False: errno says why none was found. */
static bool find_folder(char *path, struct stat *ret)
{
    while (stat(path, ret) != 0) {
        char *slash = strrchr(path, '/');

        if (errno != ENOENT || slash == NULL || slash[1] == '\0')
            return false;
        slash[slash == path] = '\0';
    }
    return true;
}

/* Check the right to create files in the folder or, if the folder is missing,
 * to create the folder. Nothing is created, because it would belong to the user
 * who runs the check. */
static void check_folder(struct online *online, const struct job *job,
    const char *key, const char *folder)
{
    char *path = folder[0] == '/' ? mem_text(folder, strlen(folder))
                                  : mem_format("%s/%s",
                                        online->session->load->folder, folder);
    struct stat info;

    if (!find_folder(path, &info))
        say("job %s: %s: %s: %s", job->name, key, path, strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        say("job %s: %s: %s is not a folder", job->name, key, path);
    else if (access(path, R_OK | W_OK | X_OK) != 0)
        say("job %s: %s: %s: %s; the worker's user must be able to write there",
            job->name, key, path, strerror(errno));
    else
        path[0] = '\0';
    if (path[0] != '\0')
        fails(online, EXIT_FAILED);
    mem_free(path);
}

static void check_folders(struct online *online)
{
    const struct jobs *jobs = &online->session->load->jobs;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->list[i];
        const char *archive =
            job->kind->archive ? job->kind->archive(job) : NULL;

        if (archive)
            check_folder(online, job, "archive", archive);
        if (job->failures)
            check_folder(online, job, "failures", job->failures);
    }
}

int online_check(struct session *session)
{
    struct online online = {.session = session, .exit_code = EXIT_DONE};
    struct tables tables = {.list = NULL};

    session_request_pool(session);
    add_tables_of_jobs(session->load, &tables);
    for (size_t i = 0; i < session->load->stores.count; i++)
        if (!atomic_load(&session->stopped))
            check_store(&online, i, &tables);
    mem_free(tables.list);
    check_folders(&online);
    return atomic_load(&session->stopped) ? session_stopped()
                                          : online.exit_code;
}
