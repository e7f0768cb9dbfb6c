/* SPDX-License-Identifier: MIT */
/* `tableward enqueue JOB ...`: puts a message on the job's queue, as a front
 * end would. */
#include <stdio.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/text.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/run/bound.h"
#include "worker/run/control.h"
#include "worker/run/message.h"
#include "worker/store/store.h"

/* The longest delay that a queue accepts: seven days. */
#define DELAY_MAX_S 604800

static int choose_queue(struct session *session, const char *name,
    const struct job *job, const struct setup_queue **ret)
{
    int code;

    if (!name) {
        *ret = setup_queue_for(&session->load->setup, job);
        if (*ret)
            return EXIT_DONE;
        return print_usage("no queue in `queues` accepts job %s: add a queue "
                           "without `job:`, or with `job: %s`",
            job->name, job->name);
    }
    code = session_queue(session, name, ret);
    if (code == EXIT_DONE && (*ret)->job && (*ret)->job != job)
        return print_usage("queue %s is bound to job %s and accepts no other",
            name, (*ret)->job->name);
    return code;
}

static int read_delay(const char *text, int64_t *ret_s)
{
    int64_t ms = 0;

    if (text && (!text_duration_ms(slice_of(text), &ms) ||
                    ms > DELAY_MAX_S * INT64_C(1000)))
        return print_usage("--delay must be a duration of at most seven days, "
                           "such as 30s or 5m, not '%s'",
            text);
    *ret_s = (ms + 999) / 1000;
    return EXIT_DONE;
}

static int read_id(
    const char *text, const struct setup_queue *queue, struct slice *ret)
{
    if (!text)
        return EXIT_DONE;
    if (queue->job)
        return print_usage("queue %s is bound to job %s: there the message id "
                           "is the run id, so --id cannot be given",
            queue->name, queue->job->name);
    return args_read_id(text, ret);
}

static int read_request(struct session *session,
    const struct invocation *invocation, struct arena *arena,
    struct control_enqueue *ret)
{
    int code = session_job(session, invocation->args[0], &ret->job);

    ret->accept_deletes = invocation->values[OPTION_ACCEPT_DELETES] != NULL;
    if (code == EXIT_DONE)
        code = choose_queue(
            session, invocation->values[OPTION_QUEUE], ret->job, &ret->queue);
    if (code == EXIT_DONE)
        code = read_id(invocation->values[OPTION_ID], ret->queue, &ret->id);
    if (code == EXIT_DONE && ret->accept_deletes && ret->queue->job)
        code = print_usage(
            "queue %s is bound to job %s: its messages contain only the "
            "argument, so --accept-deletes cannot be given",
            ret->queue->name, ret->queue->job->name);
    if (code == EXIT_DONE)
        code = read_delay(invocation->values[OPTION_DELAY], &ret->delay_s);
    if (code == EXIT_DONE)
        code = args_read(ret->job, invocation->args + 1,
            invocation->arg_count - 1, arena, &ret->args);
    return code;
}

/* ---- an id that exists ---- */

struct known {
    struct store *store;
    struct slice job, id;
    struct ledger_run run;
    int64_t now_ticks; /* the service's clock when run was read */
};

static enum tw_err get_known(void *context, struct exchange *exchange)
{
    struct known *known = context;
    enum tw_err outcome =
        ledger_get(known->store, exchange, known->job, known->id, &known->run);

    known->now_ticks = exchange->date_ticks;
    return outcome;
}

/* Does a worker execute the run now, in an attempt that began without
 * --accept-deletes? The present round of that attempt deletes nothing that
 * needs --accept-deletes. */
static bool accepts_later(struct session *session, struct store *store,
    const struct control_enqueue *what)
{
    struct known known = {
        .store = store, .job = slice_of(what->job->name), .id = what->id};
    struct err ignored; /* not shown: control_enqueue() then fails for the same
                           reason */
    bool later;

    if (!what->accept_deletes || what->id.len == 0)
        return false;
    ledger_run_init(&known.run);
    later = session_call(session, store, get_known, &known, true, &ignored) ==
                TW_OK &&
            !known.run.accept_deletes &&
            ledger_lease_is_live(&known.run, known.now_ticks);
    ledger_run_done(&known.run);
    return later;
}

/* End the command, because a run already has the id. The command succeeds if
 * that run succeeded with the same arguments; otherwise `refused` is printed.
 */
static int end_known(const struct known *known, const struct job *job,
    struct slice args_json, const struct err *refused)
{
    char time[TEXT_TIME_MAX];
    bool otherwise =
        bound_kind_changed(&known->run, job) ||
        (!job->unset && bound_definition_changed(&known->run, job));

    if (!message_args_same(known->run.args, args_json))
        return print_usage("%s", refused->text);
    if (known->run.state != LEDGER_SUCCEEDED)
        return print_failed(TW_CONFLICT, refused);
    printf("%.*s\n", SLICE_ARG(known->id));
    say_note("run %.*s succeeded at %s%s", SLICE_ARG(known->id),
        print_time(known->run.finished_ticks, time),
        otherwise ? ", under another definition of its job: nothing is "
                    "enqueued; another --id starts another run"
                  : ": nothing is left to do");
    return EXIT_DONE;
}

static int look_at_known(struct session *session, struct store *store,
    const struct control_enqueue *what, const struct err *refused)
{
    struct known known = {
        .store = store, .job = slice_of(what->job->name), .id = what->id};
    struct buf args;
    struct err err;
    int code;

    ledger_run_init(&known.run);
    buf_init(&args, SIZE_MAX / 2);
    message_args_json(&what->args, &args);
    if (session_call(session, store, get_known, &known, true, &err) == TW_OK)
        code = end_known(&known, what->job, buf_slice(&args), refused);
    else
        code = print_failed(TW_CONFLICT, refused);
    buf_done(&args);
    ledger_run_done(&known.run);
    return code;
}

/* Open the store of queue and ledger. If this created the store's file, print
 * the path, because the worker may read another file: this shell may not have
 * the service's $STATE_DIRECTORY. */
static int open_ledger(struct session *session, struct store **ret)
{
    const struct load *load = session->load;
    size_t store = load->setup.store;
    bool is_new = store < load->stores.count && load_is_new(load, store);
    int code = session_ledger(session, true, ret);

    if (code == EXIT_DONE && is_new)
        say_note("store %s: created the new file %s", load->stores.names[store],
            load->configs[store]->path.at);
    return code;
}

static int enqueue(struct session *session, struct store *store,
    const struct control_enqueue *what)
{
    char id[QUEUE_ID_MAX + 1];
    struct err err;
    bool later = accepts_later(session, store, what);
    enum tw_err outcome = control_enqueue(store, what, id, &err);

    if (outcome == TW_CONFLICT && what->id.len > 0)
        return look_at_known(session, store, what, &err);
    if (outcome != TW_OK) {
        store_explain(store, outcome, &err);
        return print_failed(outcome, &err);
    }
    printf("%s\n", id);
    if (later)
        say_note("run %s is being executed: --accept-deletes counts for the "
                 "next round that it begins. If the present round fails "
                 "because of its deletes, `tableward run %s --accept-deletes` "
                 "starts another run",
            id, what->job->name);
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct control_enqueue what = {.queue = NULL};
    struct store *store = NULL;
    struct session session;
    struct arena arena;
    int code;

    arena_init(&arena);
    code = session_open(&session, invocation, SESSION_SOME);
    if (code == EXIT_DONE)
        code = read_request(&session, invocation, &arena, &what);
    if (code == EXIT_DONE)
        code = open_ledger(&session, &store);
    if (code == EXIT_DONE) {
        session_request_pool(&session);
        code = enqueue(&session, store, &what);
    }
    session_close(&session);
    arena_done(&arena);
    return code;
}

static const char *const REQUIRED[] = {"JOB", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_QUEUE, "the queue; default: the queue bound to the job, else the "
                   "first unbound queue"},
    {OPTION_ID, "the run id; default: a random one. Not on a bound queue"},
    {OPTION_DELAY,
        "hide the message for this time, such as 5m: the run begins later"},
    {OPTION_ACCEPT_DELETES,
        "let a copy job delete any number of copies in its next complete "
        "round; without this option the limit is 100 copies, or a tenth of its "
        "copies if that is more"},
    {OPTION_COUNT, NULL},
};

const struct command command_enqueue = {
    .name = "enqueue",
    .arguments = "JOB [NAME=VALUE ...]",
    .summary = "puts a message for a job on its queue, and prints the run id",
    .required = REQUIRED,
    .max_args = (size_t)-1,
    .options = OPTIONS,
    .run = run,
};
