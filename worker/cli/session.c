/* SPDX-License-Identifier: MIT */
/* Opens and closes what most commands need. */
#include "worker/cli/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/engine/call.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/cli/signals.h"
#include "worker/run/local_run.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

#define ENVIRONMENT "AZURE_STORAGE_CONNECTION_STRING"

/* ---- the configuration ---- */

static int no_file(bool environment)
{
    say("there is no configuration: looked for ./tableward.yaml and "
        "/etc/tableward/tableward.yaml; `tableward init` writes one, "
        "--config FILE names one%s",
        environment ? ", and $" ENVIRONMENT " is enough for some commands"
                    : "");
    return EXIT_CONFIG_78;
}

static int read_file(
    struct session *session, const char *path, enum session_need need)
{
    enum load_use use = need == SESSION_ALL      ? LOAD_ALL
                        : need == SESSION_WORKER ? LOAD_WORKER
                                                 : LOAD_SOME;
    struct err err;
    enum tw_err outcome =
        load_read(path, use, &session->load, &session->problems, &err);

    if (outcome == TW_OK)
        return EXIT_DONE;
    if (session->problems.errors > 0)
        print_problems(&session->problems);
    else
        say("%s", err.text);
    return EXIT_CONFIG_78;
}

int session_open(struct session *session, const struct invocation *invocation,
    enum session_need need)
{
    bool environment = need == SESSION_ENVIRONMENT;
    const char *path = load_find(invocation->values[OPTION_CONFIG]);
    const char *variable = getenv(ENVIRONMENT);
    int code = EXIT_DONE;

    *session = (struct session){.load = NULL};
    problems_init(&session->problems);
    platform_mutex_init(&session->mutex);
    platform_cond_init(&session->cond);
    if (path)
        code = read_file(session, path, need);
    else if (!environment || !variable || !*variable)
        code = no_file(environment);
    else
        session->load = load_environment(variable);
    if (code == EXIT_DONE && invocation->command->only_reads)
        session_only_reads(session);
    return code;
}

void session_only_reads(struct session *session)
{
    session->load->only_reads = true;
}

void session_close(struct session *session)
{
    signals_stop(session->signals);
    if (session->client)
        pool_client_free(session->client);
    if (session->request_pool)
        request_pool_free(session->request_pool);
    load_free(session->load);
    problems_done(&session->problems);
    platform_cond_done(&session->cond);
    platform_mutex_done(&session->mutex);
}

int session_job(
    struct session *session, const char *name, const struct job **ret)
{
    const struct jobs *jobs = &session->load->jobs;

    *ret = jobs_find(jobs, slice_of(name));
    if (*ret)
        return EXIT_DONE;
    return print_unknown("job", name, jobs_nearest(jobs, slice_of(name)));
}

int session_queue(
    struct session *session, const char *name, const struct setup_queue **ret)
{
    const struct setup *setup = &session->load->setup;
    const char **names;
    int code;

    *ret = setup_queue_named(setup, slice_of(name));
    if (*ret)
        return EXIT_DONE;
    names = mem_array(setup->queue_count + 1, sizeof(*names));
    for (size_t i = 0; i < setup->queue_count; i++)
        names[i] = setup->queues[i].name;
    code = print_unknown(
        "queue", name, text_nearest(slice_of(name), names, setup->queue_count));
    mem_free(names);
    return code;
}

/* ---- stores ---- */

/* Print all problems of the stores and jobs that the command needs; exit code
 * 78 if one is an error. */
static int refuse_problems(struct session *session)
{
    if (session->problems.errors == 0)
        return EXIT_DONE;
    print_problems(&session->problems);
    return EXIT_CONFIG_78;
}

int session_open_failed(
    struct session *session, size_t store, enum tw_err outcome, struct err *err)
{
    struct problems problem;

    if (outcome != TW_INVALID) {
        say("%s", err->text);
        return EXIT_UNREACHABLE;
    }
    problems_init(&problem);
    problems_add(
        &problem, session->load->configs[store]->mark, "%s", err->text);
    print_problems(&problem);
    problems_done(&problem);
    return EXIT_CONFIG_78;
}

static int open_store(
    struct session *session, size_t store, bool may_create, struct store **ret)
{
    struct err err;
    enum tw_err outcome;
    int exit_code;

    load_want_store(session->load, store, &session->problems);
    exit_code = refuse_problems(session);
    if (exit_code != EXIT_DONE)
        return exit_code;
    outcome = load_store(session->load, store, may_create, &err);
    if (outcome == TW_NOT_FOUND) {
        say("%s", err.text);
        *ret = NULL;
        return EXIT_DONE;
    }
    if (outcome != TW_OK)
        return session_open_failed(session, store, outcome, &err);
    *ret = session->load->open[store];
    return EXIT_DONE;
}

int session_store(struct session *session, const struct invocation *invocation,
    bool may_create, struct store **ret)
{
    const char *name = invocation->values[OPTION_STORE];
    size_t store = session->load->stores.by_default;

    if (name) {
        store = load_store_named(session->load, name);
        if (store == session->load->stores.count)
            return print_unknown(
                "store", name, load_store_nearest(session->load, name));
    }
    return open_store(session, store, may_create, ret);
}

int session_ledger(struct session *session, bool may_create, struct store **ret)
{
    size_t store = session->load->setup.store;

    if (store >= session->load->stores.count)
        return log_no_store();
    return open_store(session, store, may_create, ret);
}

int session_want_job(struct session *session, const struct job *job)
{
    size_t failed;
    struct err err;
    enum tw_err outcome;
    int exit_code;

    load_want_job(session->load, job, &session->problems);
    exit_code = refuse_problems(session);
    if (exit_code != EXIT_DONE)
        return exit_code;
    outcome = load_job_stores(session->load, job, &failed, &err);
    return outcome == TW_OK
               ? EXIT_DONE
               : session_open_failed(session, failed, outcome, &err);
}

/* ---- requests ---- */

static void on_signal(void *context, int number)
{
    struct session *session = context;

    if (number == SIGHUP)
        return;
    platform_lock(&session->mutex);
    atomic_store(&session->stopped, true);
    platform_wake_all(&session->cond);
    request_pool_stop(session->client);
    platform_unlock(&session->mutex);
}

static struct pool_client *new_client(struct session *session)
{
    struct pool_client *client = pool_client_new(session->request_pool, NULL);

    request_pool_reach_until(client, platform_boot_ms() + RETRY_UNANSWERED_MS);
    return client;
}

void session_request_pool(struct session *session)
{
    const struct setup *setup = &session->load->setup;

    session->request_pool = request_pool_new(
        (unsigned)setup->requests, setup->max_entities_per_second);
    session->client = new_client(session);
    session->signals = signals_start(on_signal, session);
}

void session_again(struct session *session)
{
    struct pool_client *old = session->client;

    platform_lock(&session->mutex);
    session->client = new_client(session);
    platform_unlock(&session->mutex);
    pool_client_free(old);
}

static void log_failure(void *context, const struct run_failure *failure)
{
    (void)context;
    say("table %s, entity %.*s/%.*s: %s", failure->table,
        SLICE_ARG(failure->partition_key), SLICE_ARG(failure->row_key),
        failure->why);
}

void session_local_run(struct session *session, const char *name,
    const char *object, struct local_run *ret)
{
    local_run_init(ret, &(struct local_run_options){
                            .name = name,
                            .object = object,
                            .client = session->client,
                            .stopped = &session->stopped,
                            .archive_folder = session->load->folder,
                            .failed = log_failure,
                        });
}

void session_read_only(struct session *session)
{
    const struct job_stores *stores = &session->load->stores;

    for (size_t i = 0; i < stores->count; i++)
        if (stores->stores[i])
            stores->stores[i]->read_only = true;
}

void session_name_store(
    const struct session *session, enum tw_err outcome, struct err *err)
{
    const struct job_stores *stores = &session->load->stores;
    bool unreached = print_exit(outcome) == EXIT_UNREACHABLE;

    for (size_t i = 0; i < stores->count && unreached; i++)
        if (stores->stores[i] && atomic_load(&stores->stores[i]->failed)) {
            store_explain(stores->stores[i], outcome, err);
            return;
        }
}

enum tw_err session_call(struct session *session, struct store *store,
    enum tw_err (*call)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err)
{
    enum tw_err outcome =
        call_any(session->client, store, call, context, repeatable, err);

    if (outcome != TW_OK)
        store_explain(store, outcome, err);
    return outcome;
}

struct runs_reader session_reader(
    const struct session *session, struct store *store)
{
    return (struct runs_reader){
        .client = session->client,
        .store = store,
        .jobs = &session->load->jobs,
    };
}

int session_stopped(void)
{
    say("stopped before the end");
    return EXIT_STOPPED;
}

bool session_wait(struct session *session, int64_t ms)
{
    int64_t until_ms = platform_boot_ms() + ms;
    bool stopped;

    platform_lock(&session->mutex);
    while (!atomic_load(&session->stopped) &&
           platform_wait(&session->cond, &session->mutex, until_ms))
        ;
    stopped = atomic_load(&session->stopped);
    platform_unlock(&session->mutex);
    return stopped;
}
