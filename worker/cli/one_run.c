/* SPDX-License-Identifier: MIT */
/* Finds the one run that a command changes, and waits until the run's owner has
 * carried out the request. */
#include "worker/cli/one_run.h"

#include <inttypes.h>

#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/run/control.h"
#include "worker/store/store.h"
#include "worker/transfer/import_ledger.h"

/* The longest wait for the owner of a run. The owner reads a request when it
 * next renews the lease, at most 5 s later, and then stops its work in
 * progress. */
#define WAIT_MS 12000
#define POLL_MS 250

#define SENTENCE_MAX 65536

bool one_run_is_open(const struct ledger_run *run)
{
    return !ledger_state_ended(run->state) &&
           !slice_is(run->job, IMPORT_LEDGER_JOB);
}

static int find(struct one_run *one, const char *id,
    bool (*wanted)(const struct ledger_run *run))
{
    struct runs_reader reader = session_reader(&one->session, one->store);
    struct err err;
    enum tw_err outcome =
        runs_find(&reader, slice_of(""), id, &one->runs, &err);

    if (outcome == TW_OK)
        outcome = runs_pick(&one->runs, wanted, &one->run, &err);
    if (outcome != TW_OK)
        return print_failed(outcome, &err);
    one->job = jobs_find(&one->session.load->jobs, one->run->job);
    return EXIT_DONE;
}

int one_run_open(struct one_run *one, const struct invocation *invocation,
    bool (*wanted)(const struct ledger_run *run))
{
    const char *id = invocation->args[0];
    int code;

    *one = (struct one_run){.store = NULL};
    code = session_open(&one->session, invocation, SESSION_SOME);
    if (code == EXIT_DONE)
        code = session_ledger(&one->session, false, &one->store);
    if (code != EXIT_DONE)
        return code;
    if (!one->store) {
        say("the ledger has no run '%s'", id);
        return EXIT_FAILED;
    }
    session_request_pool(&one->session);
    return find(one, id, wanted);
}

void one_run_close(struct one_run *one)
{
    runs_done(&one->runs);
    session_close(&one->session);
}

/* ---- waiting ---- */

struct reading {
    struct one_run *one;
    struct ledger_run *run;
};

static enum tw_err read_run(void *context, struct exchange *exchange)
{
    struct reading *reading = context;
    const struct ledger_run *run = reading->one->run;

    return ledger_get(
        reading->one->store, exchange, run->job, run->id, reading->run);
}

/* Print that no worker can bring the run to the requested state `to`, because
 * its job is not configured. */
static int end_unconfigured(const struct ledger_run *run, const char *to)
{
    say("run %.*s cannot be %s yet: a load of it may be half done, with "
        "entities in both tables. No worker can complete the load, because job "
        "%.*s is not in the configuration: put the job back, and let a worker "
        "take the run",
        SLICE_ARG(run->id), to, SLICE_ARG(run->job));
    return EXIT_STOPPED;
}

static const char *requested_state(const struct ledger_run *run)
{
    return ledger_state_name(slice_is(run->control, LEDGER_CONTROL_CANCEL)
                                 ? LEDGER_CANCELLED
                                 : LEDGER_PAUSED);
}

static int end_waiting(const struct one_run *one, const struct ledger_run *now)
{
    if (!one->job && now->control.len > 0)
        return end_unconfigured(now, requested_state(now));
    if (now->owner.len == 0 && now->control.len > 0) {
        say("run %.*s is not %s yet: a load of it is half done, and the next "
            "worker that takes the run completes the load first. `tableward "
            "status %.*s` shows the state",
            SLICE_ARG(now->id), requested_state(now), SLICE_ARG(now->id));
        return EXIT_STOPPED;
    }
    if (one->job && one->job->kind->ends_load) {
        say("run %.*s is not %s yet: worker %.*s first completes the current "
            "load; if this worker dies, the worker that takes the run over "
            "completes the load. `tableward status %.*s` shows the state",
            SLICE_ARG(now->id), requested_state(now), SLICE_ARG(now->worker),
            SLICE_ARG(now->id));
        return EXIT_STOPPED;
    }
    say("run %.*s: worker %.*s has not responded yet. It responds when it next "
        "renews the lease; if the lease expires first, the worker that takes "
        "the run over responds. `tableward status %.*s` shows the state",
        SLICE_ARG(one->run->id), SLICE_ARG(now->worker),
        SLICE_ARG(one->run->id));
    return EXIT_STOPPED;
}

int one_run_wait(struct one_run *one,
    bool (*done)(const struct ledger_run *run), struct ledger_run *ret)
{
    struct reading reading = {one, ret};
    int64_t until_ms = platform_boot_ms() + WAIT_MS;
    enum tw_err outcome;
    struct err err;

    for (;;) {
        outcome = session_call(
            &one->session, one->store, read_run, &reading, true, &err);
        if (atomic_load(&one->session.stopped))
            return session_stopped();
        if (outcome != TW_OK)
            return print_failed(outcome, &err);
        if (done(ret))
            return EXIT_DONE;
        if (platform_boot_ms() >= until_ms)
            return end_waiting(one, ret);
        if (session_wait(&one->session, POLL_MS))
            return session_stopped();
    }
}

/* Wait until the run is in the requested state. The owner may also have ended
 * the run before it read the request. */
static int wait_for_owner(struct one_run *one, const struct one_run_ask *ask)
{
    struct ledger_run now;
    int code;

    ledger_run_init(&now);
    code = one_run_wait(one, ask->done, &now);
    if (code == EXIT_DONE)
        code = now.state == ask->to ? ask->end(one) : ask->ended(&now);
    ledger_run_done(&now);
    return code;
}

/* Print the command that continues the run. No queue serves the run, so only
 * the command `run` can complete the load that is half done. */
static int end_unserved(const struct one_run *one, const char *state)
{
    struct buf command;

    buf_init(&command, SENTENCE_MAX);
    one_run_add_command(one->run, &command);
    say("run %.*s is not %s yet: a load of it is half done, and no queue "
        "serves job %.*s; complete the load with: %s",
        SLICE_ARG(one->run->id), state, SLICE_ARG(one->run->job),
        buf_text(&command));
    buf_done(&command);
    return EXIT_STOPPED;
}

/* Wake a worker, and wait until it has carried out the request. Call if the
 * request waits for the next owner, because a load of the run is half done. */
static int wake_next_owner(struct one_run *one, const struct one_run_ask *ask,
    const struct ledger_run *was)
{
    bool unserved = false;
    struct err err;
    enum tw_err outcome =
        control_wake(load_lend(one->session.load), was, &unserved, &err);

    if (unserved && !one->job)
        return end_unconfigured(was, ledger_state_name(ask->to));
    if (unserved)
        return end_unserved(one, ledger_state_name(ask->to));
    return outcome == TW_OK ? wait_for_owner(one, ask)
                            : print_failed(outcome, &err);
}

int one_run_ask(struct one_run *one, const struct one_run_ask *ask)
{
    struct ledger_run was;
    bool asked = false;
    struct err err;
    enum tw_err outcome;
    int code;

    ledger_run_init(&was);
    outcome =
        ask->ask(one->store, one->run->job, one->run->id, &was, &asked, &err);
    if (outcome == TW_OK && asked && was.owner.len == 0)
        code = wake_next_owner(one, ask, &was);
    else if (outcome == TW_OK)
        code = asked ? wait_for_owner(one, ask) : ask->end(one);
    else if (outcome == TW_CONFLICT && ledger_state_ended(was.state))
        code = ask->ended(&was);
    else
        code = print_failed(outcome, &err);
    ledger_run_done(&was);
    return code;
}

int one_run_say_ended(const struct ledger_run *run)
{
    say("run %.*s has ended already: %.*s", SLICE_ARG(run->id),
        SLICE_ARG(ledger_state_shown(run)));
    return EXIT_FAILED;
}

/* ---- the command that continues a run ---- */

/* Add text in single quotes for a shell, each single quote in text as '\''. */
static void add_quoted(struct buf *to, struct slice text)
{
    buf_add_char(to, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\'')
            buf_add_text(to, "'\\'");
        buf_add_char(to, text.at[i]);
    }
    buf_add_char(to, '\'');
}

void one_run_add_command(const struct ledger_run *run, struct buf *to)
{
    struct json *args;

    buf_add_format(to, "tableward run %.*s", SLICE_ARG(run->job));
    if (json_parse(run->args, 1, &args, NULL) == TW_OK) {
        for (size_t i = 0;
             json_type(args) == JSON_OBJECT && i < json_count(args); i++) {
            buf_add_format(to, " %.*s=", SLICE_ARG(json_name(args, i)));
            if (json_type(json_value(args, i)) == JSON_STRING)
                add_quoted(to, json_string(json_value(args, i)));
        }
        json_free(args);
    }
    buf_add_format(to, " --id %.*s", SLICE_ARG(run->id));
}
