/* SPDX-License-Identifier: MIT */
/* `tableward worker [--drain]`: runs the service. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "worker/base/log.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/signals.h"
#include "worker/monitor/health.h"
#include "worker/monitor/monitor.h"
#include "worker/run/activity.h"
#include "worker/run/consumer.h"
#include "worker/run/lock_file.h"
#include "worker/run/notify.h"
#include "worker/store/store.h"

/* The shortest and the longest delay before another try to open a store. */
#define REOPEN_MIN_MS 1000
#define REOPEN_MAX_MS 30000

struct service {
    struct session session;
    bool level_is_given; /* --log-level is given: log_level of the configuration
                            is not used */
    const char *config;  /* path of the configuration; borrowed */
    const struct setup *started_with; /* settings of the configuration at the
                                         start; NULL before serve() */
    struct consumer *consumer;
    struct monitor *monitor; /* the server on `listen`; NULL: nothing is
                                served */
    struct notify *notify;
    struct signals *signals;
    bool stopped; /* a stop signal has come; under session.mutex */
    /* SIGHUP has come. show_consumer() passes on a SIGHUP that came before the
     * consumer existed. Under session.mutex, except in on_early_signal(). */
    bool reload_is_wanted;
};

/* ---- the stores of a worker: for queues and ledger, and for all jobs ---- */

static enum tw_err open_all(
    struct load *load, size_t *ret_store, struct err *err)
{
    enum tw_err outcome = load_store(load, load->setup.store, true, err);

    *ret_store = load->setup.store;
    for (size_t i = 0; i < load->jobs.count && outcome == TW_OK; i++)
        outcome = load_job_stores(load, &load->jobs.list[i], ret_store, err);
    return outcome;
}

static void set_log_level(
    const struct service *service, const struct setup *setup)
{
    if (!service->level_is_given)
        log_set_level(setup->log_level);
}

/* ---- reload ---- */

static void log_problems(const struct problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        const struct problem *problem = &problems->list[i];

        if (problem->warning)
            continue;
        log_error("configuration", "%s:%u:%u: %s", problem->mark.file,
            problem->mark.line, problem->mark.column, problem->text);
    }
}

/* Read a valid configuration and open its stores. NULL: the errors are in
 * problems; if problems has no error, err has the cause. */
static struct load *read_again(
    const char *path, struct problems *problems, struct err *err)
{
    struct load *load = NULL;
    size_t store;

    if (load_read(path, LOAD_WORKER, &load, problems, err) != TW_OK)
        return NULL;
    if (load->setup.store >= load->stores.count)
        err_fail(err, TW_INVALID,
            "the worker has no store: write `store:` in `worker:`, or "
            "`default_store:`");
    else if (open_all(load, &store, err) == TW_OK)
        return load;
    load_free(load);
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Warns that `listen` was changed, because the worker keeps its old address.
 * Before it could find out whether the new address can be listened on, it would
 * have to give up the old one. */
static void warn_of_listen(
    const struct service *service, const struct setup *setup)
{
    const struct setup *now = service->started_with;

    if (!same_text(now->listen, setup->listen) ||
        !same_text(now->admin_token_file, setup->admin_token_file))
        log_warn("configuration", "changes of `listen` and `admin_token_file` "
                                  "take effect after a restart only");
}

static struct definition *reload(void *context)
{
    struct service *service = context;
    struct problems problems;
    struct load *load;
    struct err err;

    problems_init(&problems);
    load = read_again(service->config, &problems, &err);
    log_problems(&problems);
    if (!load && problems.errors == 0)
        log_error("configuration",
            "%s is refused, and the old configuration stays: %s",
            service->config, err.text);
    else if (!load)
        log_error("configuration",
            "%s is refused, and the old configuration stays", service->config);
    problems_done(&problems);
    return load ? load_definition(load) : NULL;
}

static void note_reload(void *context, const struct definition *accepted)
{
    struct service *service = context;

    monitor_note_reload(service->monitor, accepted != NULL);
    if (!accepted)
        return;
    set_log_level(service, accepted->setup);
    log_info("configuration", "%s was read again", service->config);
    warn_of_listen(service, accepted->setup);
}

/* ---- signals ---- */

static void on_signal(void *context, int number)
{
    struct service *service = context;
    struct consumer *consumer;

    platform_lock(&service->session.mutex);
    if (number == SIGHUP)
        service->reload_is_wanted = true;
    else
        service->stopped = true;
    consumer = service->consumer;
    platform_wake_all(&service->session.cond);
    platform_unlock(&service->session.mutex);
    if (!consumer)
        return;
    if (number == SIGHUP)
        consumer_reload(consumer);
    else
        consumer_stop(consumer);
}

/* The signal callback while the configuration is read, whose file may be a
 * pipe that blocks. A stop signal exits at once, because no run is in
 * progress. */
static void on_early_signal(void *context, int number)
{
    struct service *service = context;

    if (number != SIGHUP)
        signals_exit_now(EXIT_DONE);
    service->reload_is_wanted = true;
}

/* Wait ms milliseconds, or until a stop signal. True: a stop signal came. */
static bool wait_before_reopening(struct service *service, int64_t ms)
{
    struct session *session = &service->session;
    int64_t until_ms = platform_boot_ms() + ms;
    bool stopped;

    platform_lock(&session->mutex);
    while (!service->stopped &&
           platform_wait(&session->cond, &session->mutex, until_ms))
        ;
    stopped = service->stopped;
    platform_unlock(&session->mutex);
    return stopped;
}

/* ---- the start ---- */

static int read_configuration(
    struct service *service, const struct invocation *invocation)
{
    struct session *session = &service->session;
    struct signals *signals = signals_start(on_early_signal, service);
    int code = session_open(session, invocation, SESSION_WORKER);

    signals_stop(signals);
    if (code != EXIT_DONE)
        return code;
    if (session->load->setup.store >= session->load->stores.count)
        return log_no_store();
    service->level_is_given = invocation->values[OPTION_LOG_LEVEL] != NULL;
    set_log_level(service, &session->load->setup);
    service->config = load_find(invocation->values[OPTION_CONFIG]);
    return EXIT_DONE;
}

/* Opens the stores. A folder that cannot be written, or a full disk, counts as
 * an outage, so it is logged and opening is tried again. *ret_stopped: a stop
 * signal came first. */
static int open_stores(struct service *service, bool *ret_stopped)
{
    int64_t wait_ms = REOPEN_MIN_MS;
    struct session *session = &service->session;
    enum tw_err outcome;
    struct err err;
    size_t store;

    for (;;) {
        outcome = open_all(session->load, &store, &err);
        if (outcome == TW_OK)
            return EXIT_DONE;
        if (outcome != TW_FULL)
            return session_open_failed(session, store, outcome, &err);
        log_error("worker", "%s; trying again in %" PRId64 " s", err.text,
            wait_ms / 1000);
        notify_status(service->notify, "waiting: %s", err.text);
        if (wait_before_reopening(service, wait_ms)) {
            *ret_stopped = true;
            return EXIT_DONE;
        }
        wait_ms = wait_ms * 2 < REOPEN_MAX_MS ? wait_ms * 2 : REOPEN_MAX_MS;
    }
}

static void open_notify(struct service *service)
{
    struct err err;

    service->notify = notify_open(getenv("NOTIFY_SOCKET"),
        getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"), &err);
    if (!service->notify)
        log_warn(
            "worker", "the service manager cannot be notified: %s", err.text);
}

/* Set the consumer to which signals are passed, and pass it the signals that
 * came before. */
static void show_consumer(struct service *service, struct consumer *consumer)
{
    bool stopped, again;

    platform_lock(&service->session.mutex);
    service->consumer = consumer;
    stopped = service->stopped;
    again = service->reload_is_wanted;
    platform_unlock(&service->session.mutex);
    if (stopped)
        consumer_stop(consumer);
    if (again)
        consumer_reload(consumer);
}

/* ---- the end ---- */

static int end_of_drain(const struct consumer_result *result)
{
    int64_t bad = result->failed + result->poisoned;

    if (bad == 0 && result->left == 0)
        return EXIT_DONE;
    if (bad == 0) {
        say("%" PRId64 " open run%s left: held, paused, with `follow: true`, "
            "without a message, or with a job or queue that is not "
            "in this configuration; `tableward status` names %s",
            result->left, result->left == 1 ? " is" : "s are",
            result->left == 1 ? "it" : "them");
        return EXIT_STOPPED;
    }
    if (bad > 1)
        say("failed runs: %" PRId64 ", poisoned runs: %" PRId64
            "; `tableward poison list` says why; the last error:",
            result->failed, result->poisoned);
    say("%s", result->err.text);
    return EXIT_FAILED;
}

static int end_of_service(
    const struct definition *definition, enum tw_err outcome, struct err *err)
{
    if (outcome == TW_INVALID) {
        say("%s", err->text);
        return EXIT_CONFIG_78;
    }
    store_explain(definition_store(definition), outcome, err);
    return print_failed(outcome, err);
}

/* ---- what it serves on `listen` ---- */

/* Serve on the address of `listen`, if there is one. If the exit code is not
 * EXIT_DONE, the cause was printed. */
static int start_monitor(struct service *service,
    const struct definition *definition, struct consumer *consumer,
    struct activity *activity)
{
    struct monitor_options options = {.definition = definition,
        .consumer = consumer,
        .activity = activity,
        .watchdog_ms = 2 * notify_watchdog_ms(service->notify)};
    enum tw_err outcome;
    struct err err;

    if (!definition->setup->listen)
        return EXIT_DONE;
    outcome = monitor_start(&options, &service->monitor, &err);
    if (outcome == TW_OK)
        return EXIT_DONE;
    say("%s", err.text);
    return outcome == TW_INVALID ? EXIT_CONFIG_78 : EXIT_UNREACHABLE;
}

static int run_consumer(struct service *service, struct consumer *consumer,
    const struct definition *definition, bool drain)
{
    struct consumer_result result = {.succeeded = 0};
    enum tw_err outcome;
    struct err err;

    show_consumer(service, consumer);
    outcome = consumer_run(consumer, &result, &err);
    if (outcome != TW_OK)
        return end_of_service(definition, outcome, &err);
    return drain && !result.stopped ? end_of_drain(&result) : EXIT_DONE;
}

static int serve(struct service *service, bool drain)
{
    struct definition *definition = load_definition(service->session.load);
    bool listens = definition->setup->listen != NULL;
    struct consumer_options options = {
        .definition = definition_hold(definition),
        .drain = drain,
        .notify = service->notify,
        .lock_file = definition_lock_file(definition),
        .activity = listens ? activity_new() : NULL,
        .heartbeat_ms = listens ? HEALTH_HEARTBEAT_MS : 0,
        .reload = reload,
        .reloaded = note_reload,
        .context = service,
    };
    struct consumer *consumer = consumer_new(&options);
    int exit_code;

    service->session.load = NULL;
    service->started_with = definition->setup;
    exit_code = start_monitor(service, definition, consumer, options.activity);
    if (exit_code == EXIT_DONE)
        exit_code = run_consumer(service, consumer, definition, drain);
    monitor_stop(service->monitor);
    /* The signal thread is stopped last, because it ends the process if the
     * steps above take too long. */
    signals_stop(service->signals);
    service->signals = NULL;
    consumer_free(consumer);
    activity_free(options.activity);
    lock_file_close(options.lock_file);
    definition_drop(definition);
    return exit_code;
}

static int run(const struct invocation *invocation)
{
    struct service service = {.config = NULL};
    bool stopped = false;
    int code;

    code = read_configuration(&service, invocation);
    if (code != EXIT_DONE)
        goto done;
    open_notify(&service);
    service.signals = signals_start(on_signal, &service);
    code = open_stores(&service, &stopped);
    if (code == EXIT_DONE && !stopped)
        code = serve(&service, invocation->values[OPTION_DRAIN] != NULL);
done:
    signals_stop(service.signals);
    notify_close(service.notify);
    session_close(&service.session);
    return code;
}

static const struct command_option OPTIONS[] = {
    {OPTION_DRAIN,
        "exit when no served queue holds a message, visible or hidden, and no "
        "run is active; exit code 1 if a run failed, 75 if open runs are left"},
    {OPTION_COUNT, NULL},
};

const struct command command_worker = {
    .name = "worker",
    .arguments = "[--drain]",
    .summary = "serves the queues, in the foreground",
    .details =
        "SIGTERM and SIGINT stop every run gracefully, and the exit code is 0; "
        "other workers\ncontinue the runs. SIGHUP reads the configuration "
        "again; an invalid one is refused, and\nthe old one stays.\n",
    .options = OPTIONS,
    .run = run,
};
