/* SPDX-License-Identifier: MIT */
/*
 * One run: attempts follow each other on the caller's thread. Between them the
 * thread waits for the settle time of a cascade, for the time after a failure,
 * for another process's lease or for the end of an outage.
 */
#include "worker/run/single.h"

#include <inttypes.h>

#include "jobs/engine/run.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/run/attempt.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/run/outage.h"
#include "worker/run/renewer.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* Longest time between two reads of a waiting run, so that `cancel`, `pause`
 * and `finish` take effect within 10 s. */
#define NOTICED_WITHIN_MS INT64_C(5000)

struct single {
    struct single_options options;
    struct request_pool *request_pool;
    struct renewer *renewer;
    char *object; /* "run JOB/ID" */
    bool said_held;
    struct err said;        /* cause of the wait, as last logged */
    int64_t said_repeat_ms; /* when to log the cause again; boot clock */
    struct outage outage;

    struct platform_mutex lock; /* guards all fields below */
    struct platform_cond changed;
    bool stopping;
    struct run *run; /* the attempt under way; NULL: no attempt */
    struct single_progress last;
};

/* ---- progress, stopping ---- */

static bool is_stopping(void *context)
{
    struct single *single = context;
    bool stopping;

    platform_lock(&single->lock);
    stopping = single->stopping;
    platform_unlock(&single->lock);
    return stopping;
}

/* Call with the lock held, and while single->run is set. Notes the counts of
 * the run. */
static void note_counts(struct single *single)
{
    struct run *run = single->run;

    single->last.read = atomic_load(&run->counts.read);
    single->last.written = atomic_load(&run->counts.written);
    single->last.deleted = atomic_load(&run->counts.deleted);
    single->last.skipped = atomic_load(&run->counts.skipped);
    single->last.failed = atomic_load(&run->counts.failed);
    single->last.share = atomic_load(&run->share);
}

static void watch(void *context, struct run *run)
{
    struct single *single = context;

    platform_lock(&single->lock);
    if (single->run)
        note_counts(single);
    single->run = run;
    single->last.working = run != NULL;
    platform_unlock(&single->lock);
}

void single_read_progress(struct single *single, struct single_progress *ret)
{
    platform_lock(&single->lock);
    if (single->run)
        note_counts(single);
    *ret = single->last;
    platform_unlock(&single->lock);
}

void single_stop(struct single *single)
{
    platform_lock(&single->lock);
    single->stopping = true;
    platform_wake_all(&single->changed);
    platform_unlock(&single->lock);
}

/* Wait until until_ms, but for at most most_ms, after which the caller makes
 * another attempt. False: stopped while waiting. */
static bool wait_until(
    struct single *single, int64_t until_ms, int64_t most_ms, bool held)
{
    int64_t again_ms = platform_boot_ms() + most_ms;
    bool stopping;

    if (again_ms > until_ms)
        again_ms = until_ms;
    platform_lock(&single->lock);
    single->last.until_ms = until_ms;
    single->last.held_by_another = held;
    while (!single->stopping && platform_boot_ms() < again_ms)
        (void)platform_wait(&single->changed, &single->lock, again_ms);
    single->last.until_ms = 0;
    single->last.held_by_another = false;
    stopping = single->stopping;
    platform_unlock(&single->lock);
    return !stopping;
}

/* ---- outcomes of an attempt ---- */

static bool pass_time(struct single *single, const struct attempt_result *work)
{
    const struct setup *setup = single->options.definition->setup;
    /* Attempts are made before until_ms, too, because an owner may release its
     * lease early, and an operator may cancel, pause or finish a waiting
     * run. */
    int64_t most_ms =
        work->held ? 1000 : setup->visibility_timeout_s * 1000 / 3;

    if (most_ms > NOTICED_WITHIN_MS)
        most_ms = NOTICED_WITHIN_MS;

    if (work->for_cause && (strcmp(single->said.text, work->err.text) != 0 ||
                               platform_boot_ms() >= single->said_repeat_ms)) {
        single->said = work->err;
        single->said_repeat_ms = platform_boot_ms() + OUTAGE_REPEAT_MS;
        log_warn(single->object, "%s", work->err.text);
    }
    if (work->held && !single->said_held)
        log_info(single->object, "another process executes this run: waiting "
                                 "until it releases the lease");
    single->said_held = work->held;
    return wait_until(single, work->until_ms, most_ms, work->held);
}

static bool wait_out_outage(
    struct single *single, const struct attempt_result *work)
{
    struct outage *outage = &single->outage;

    if (outage_failed(outage, platform_boot_ms(), &work->err))
        log_warn(single->object,
            "the ledger cannot be used; tries again soon: %s", work->err.text);
    return wait_until(single, outage->until_ms, outage->wait_ms, false);
}

static void log_end_of_outage(struct single *single)
{
    int64_t lasted_s = outage_ends(&single->outage, platform_boot_ms());

    if (lasted_s >= 0)
        log_info(single->object, "continues; the outage lasted %" PRId64 " s",
            lasted_s);
}

static void set_ended(
    const struct attempt_result *work, struct single_result *ret)
{
    ret->state = work->state;
    ret->already = work->already;
    ret->otherwise = work->otherwise;
    ret->finished_ticks = work->finished_ticks;
    ret->err = work->err;
}

static void set_refused(const struct attempt_result *work,
    struct single_result *ret, enum tw_err *ret_outcome, struct err *err)
{
    ret->unreadable = work->outcome == TW_INVALID;
    if (ret->unreadable) {
        ret->err = work->err;
        return;
    }
    *err = work->err;
    *ret_outcome = TW_CONFLICT;
}

/* Decide whether another attempt follows. False: none follows; *ret_outcome and
 * ret are the result. */
static bool go_on(struct single *single, const struct attempt_result *work,
    struct single_result *ret, enum tw_err *ret_outcome, struct err *err)
{
    *ret_outcome = TW_OK;
    if (work->end != ATTEMPT_OUTAGE)
        log_end_of_outage(single);
    switch (work->end) {
    case ATTEMPT_RUN_ENDED:
        set_ended(work, ret);
        return false;
    case ATTEMPT_DEFERRED:
        if (work->archive_full)
            ret->err = work->err;
        ret->stopped = work->archive_full || !pass_time(single, work);
        return !ret->stopped;
    case ATTEMPT_PAUSED:
        ret->stopped = ret->paused = true;
        return false;
    case ATTEMPT_STOPPED:
        ret->stopped = is_stopping(single);
        return !ret->stopped;
    case ATTEMPT_OUTAGE:
        ret->stopped = !wait_out_outage(single, work);
        return !ret->stopped;
    case ATTEMPT_LEASE_LOST:
        ret->stopped = work->lease_expired && is_stopping(single);
        ret->overtaken = !work->lease_expired;
        return work->lease_expired && !ret->stopped;
    case ATTEMPT_RUN_MISSING:
    case ATTEMPT_REFUSED:
        set_refused(work, ret, ret_outcome, err);
        return false;
    }
    return false;
}

/* ---- the run ---- */

struct single *single_new(const struct single_options *options)
{
    struct single *single = mem_alloc(sizeof(*single));

    single->options = *options;
    single->object =
        mem_format("run %s/%.*s", options->job->name, SLICE_ARG(options->id));
    single->last.share = -1;
    platform_mutex_init(&single->lock);
    platform_cond_init(&single->changed);
    return single;
}

void single_free(struct single *single)
{
    if (single == NULL)
        return;
    platform_cond_done(&single->changed);
    platform_mutex_done(&single->lock);
    mem_free(single->object);
    mem_free(single);
}

/* Create the ledger's table if it is missing. Called before the first attempt,
 * so that a ledger that cannot be reached or created is reported at once. */
static enum tw_err create_ledger(struct store *store, struct err *err)
{
    struct deadline deadline;

    deadline_init(&deadline, PLATFORM_NEVER, DEADLINE_REQUEST_MAX_MS);
    return ledger_ensure(store, &deadline, RETRY_UNANSWERED_MS, err);
}

/* Make attempts until the run ends or stops. Deletes are accepted for one round
 * only: the first attempt that acquires the run stores the acceptance in the
 * ledger, so the later attempts do not accept deletes once more. */
static enum tw_err attempts(struct single *single,
    struct lease_request *request, struct single_result *ret, struct err *err)
{
    struct attempt_environment environment = {
        .request_pool = single->request_pool,
        .renewer = single->renewer,
        .lock_file = single->options.lock_file,
        .stopping = is_stopping,
        .watch = watch,
        .context = single};
    struct attempt_result work;
    enum tw_err outcome;

    do {
        attempt_run(&environment, single->options.definition, request,
            &single->options.args, &work);
        if (work.acquired)
            request->accept_deletes = false;
    } while (go_on(single, &work, ret, &outcome, err));
    return outcome;
}

/*
 * Call if the command was stopped between two attempts, or before the run's end
 * was stored. Pauses the run, so that workers skip it. If the pause cannot be
 * stored, a worker continues the run, as after a kill. Do not call if another
 * process has the lease, because that process would obey the pause.
 */
static bool pause_run(struct single *single, struct store *store)
{
    const struct single_options *options = &single->options;
    bool asked;
    struct err err;
    enum tw_err outcome;

    outcome = control_stop(
        store, slice_of(options->job->name), options->id, &asked, &err);
    if (outcome != TW_OK)
        log_warn(single->object,
            "could not be paused, so a worker may continue it: %s", err.text);
    return outcome == TW_OK;
}

static struct lease_request request_of(
    const struct single *single, const struct buf *args_json)
{
    const struct single_options *options = &single->options;
    const struct setup *setup = options->definition->setup;

    return (struct lease_request){
        .store = definition_store(options->definition),
        .job = options->job,
        .id = options->id,
        .args_json = buf_slice(args_json),
        .visibility_timeout_s = setup->visibility_timeout_s,
        .max_attempts = setup->max_attempts,
        .lock_file = options->lock_file,
        .resumes_paused = true,
        .accept_deletes = options->accept_deletes};
}

enum tw_err single_run(
    struct single *single, struct single_result *ret, struct err *err)
{
    const struct definition *definition = single->options.definition;
    const struct setup *setup = definition->setup;
    struct store *store = definition_store(definition);
    struct single_result result = {.state = LEDGER_QUEUED};
    struct lease_request request;
    struct buf args;
    enum tw_err outcome;

    if (store == NULL)
        return err_fail(err, TW_INVALID,
            "the ledger has no store: write `default_store:`, or `store:` in "
            "`worker:`");
    outcome = create_ledger(store, err);
    if (outcome != TW_OK)
        return outcome;
    buf_init(&args, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_args_json(&single->options.args, &args);
    single->request_pool = request_pool_new(
        (unsigned)setup->requests, setup->max_entities_per_second);
    single->renewer = renewer_new(1);
    request = request_of(single, &args);
    outcome = attempts(single, &request, &result, err);
    result.elsewhere = result.stopped && single->said_held;
    if (outcome == TW_OK && result.stopped && !result.paused &&
        !result.elsewhere && result.err.text[0] == '\0')
        result.paused = pause_run(single, store);
    renewer_free(single->renewer);
    request_pool_free(single->request_pool);
    buf_done(&args);
    if (outcome == TW_OK)
        *ret = result;
    return outcome;
}
