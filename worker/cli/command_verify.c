/* SPDX-License-Identifier: MIT */
/* `tableward verify JOB ...`: checks whether the tables match the job now. */
#include <inttypes.h>
#include <stdio.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/verification.h"
#include "worker/run/ledger.h"
#include "worker/run/local_run.h"
#include "worker/store/store.h"

#define OUTPUT_MAX ((size_t)16 * 1024 * 1024)

static void look(void *context, struct progress_state *ret)
{
    struct run *run = context;

    ret->done = atomic_load(&run->counts.read);
    ret->share = atomic_load(&run->share);
}

static int print_result(const struct job *job,
    const struct job_verification *verification, bool json)
{
    int64_t count = verification_count(verification);
    struct buf text;

    buf_init(&text, OUTPUT_MAX);
    if (json)
        verification_add_json(job, verification, &text);
    else
        verification_add_text(job, verification, &text);
    fputs(buf_text(&text), stdout);
    buf_done(&text);
    if (count == 0)
        return EXIT_DONE;
    say("%s: verify found %" PRId64 " %s", job->name, count,
        count == 1 ? "difference" : "differences");
    return EXIT_FAILED;
}

static int compare(struct session *session, const struct job *job,
    struct run *run, struct job_verification *ret)
{
    struct progress *progress =
        progress_start(run_log(run)->object, "compared", look, run);
    struct err err = {{0}};
    enum tw_err outcome;

    session_read_only(session);
    outcome = job->kind->verify(job, &session->load->stores, run, ret, &err);
    if (outcome != TW_OK)
        session_name_store(session, outcome, &err);
    progress_end(progress);
    if (atomic_load(&session->stopped))
        return session_stopped();
    if (outcome == TW_CONFLICT)
        return print_usage("%s", err.text);
    return outcome == TW_OK ? EXIT_DONE : print_failed(outcome, &err);
}

static int verify(struct session *session, const struct job *job,
    const struct run_args *args, bool json)
{
    struct job_verification result = {.count = 0};
    struct store *ledger = NULL;
    char *object = NULL;
    struct local_run local;
    int code = session_ledger(session, false, &ledger);

    if (code != EXIT_DONE)
        return code;
    session_request_pool(session);
    object = mem_format("verify %s", job->name);
    session_local_run(session, job->name, object, &local);
    local.run.args = *args;
    local.run.ledger = ledger;
    local.run.ledger_table = LEDGER_TABLE;
    arena_init(&result.arena);
    code = compare(session, job, &local.run, &result);
    if (code == EXIT_DONE)
        code = print_result(job, &result, json);
    arena_done(&result.arena);
    mem_free(object);
    return code;
}

static int find_job(struct session *session,
    const struct invocation *invocation, const struct job **ret)
{
    int code = session_job(session, invocation->args[0], ret);

    if (code != EXIT_DONE)
        return code;
    if (!(*ret)->kind->verify)
        return print_usage("job %s is of kind %s, which verify does not check",
            (*ret)->name, (*ret)->kind->name);
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    bool json = invocation->values[OPTION_JSON] != NULL;
    const struct job *job = NULL;
    struct run_args args = {0};
    struct session session;
    struct arena arena;
    int code;

    if (invocation->values[OPTION_REPAIR])
        return print_usage("verify --repair is planned and not supported yet: "
                           "run the job, which repairs the differences");
    arena_init(&arena);
    code = session_open(&session, invocation, SESSION_SOME);
    if (code == EXIT_DONE)
        code = find_job(&session, invocation, &job);
    if (code == EXIT_DONE)
        code = args_read_some(job, invocation->args + 1,
            invocation->arg_count - 1, &arena, &args);
    if (code == EXIT_DONE)
        code = session_want_job(&session, job);
    if (code == EXIT_DONE)
        code = verify(&session, job, &args, json);
    session_close(&session);
    arena_done(&arena);
    return code;
}

static const char *const REQUIRED[] = {"JOB", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_JSON, "print one JSON object, for programs"},
    {OPTION_REPAIR, "not supported yet; planned: enqueue a run that repairs "
                    "the differences"},
    {OPTION_COUNT, NULL},
};

const struct command command_verify = {
    .name = "verify",
    .arguments = "JOB [NAME=VALUE ...]",
    .summary = "checks whether the tables match a job now",
    .details =
        "Reads only. A second read confirms each difference. Prints counts and "
        "the first keys;\nexit code 1 if there is a difference.\n\nFor a "
        "cascade, verify finds the parent of a child by the values that the "
        "child contains.\nSo each rule must use an argument, or a key or "
        "property of the entity above, as a whole\nkey, at the beginning of a "
        "key, or compared with eq in the filter. If the value of an\nargument "
        "cannot be found in this way, give NAME=VALUE; without it verify exits "
        "with code\n64. If the entity above cannot be found in this way, the "
        "result names the rule as not\nverified.\n",
    .required = REQUIRED,
    .max_args = (size_t)-1,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
