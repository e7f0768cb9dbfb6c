/* SPDX-License-Identifier: MIT */
/* `tableward jobs [JOB]`: prints the configured jobs. */
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/cli/commands.h"
#include "worker/cli/session.h"

#define EXPLAIN_MAX ((size_t)16 * 1024 * 1024)

/* Print NAME=..., or [NAME=a|b] if a run may omit the argument. */
static void print_arg(const struct job_arg *arg)
{
    if (!arg->implied) {
        printf(" %.*s=...", SLICE_ARG(arg->name));
        return;
    }
    printf(" [%.*s=", SLICE_ARG(arg->name));
    for (size_t i = 0; arg->implied->choices[i]; i++)
        printf("%s%s", i > 0 ? "|" : "", arg->implied->choices[i]);
    printf("]");
}

static void print_job(const struct job *job)
{
    printf("%s", job->name);
    for (size_t i = 0; i < job->arg_count; i++)
        print_arg(&job->args[i]);
    printf("  (%s: %s)\n", job->kind->name, job->kind->summary);
}

static void explain(const struct job *job)
{
    struct buf text;

    print_job(job);
    buf_init(&text, EXPLAIN_MAX);
    job->kind->explain(job, &text);
    fputs(buf_text(&text), stdout);
    buf_done(&text);
}

static int show(struct session *session, const struct invocation *invocation)
{
    const struct jobs *jobs = &session->load->jobs;
    const struct job *job;
    int code;

    if (invocation->arg_count > 0) {
        code = session_job(session, invocation->args[0], &job);
        if (code == EXIT_DONE)
            explain(job);
        return code;
    }
    for (size_t i = 0; i < jobs->count; i++)
        print_job(&jobs->list[i]);
    return EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct session session;
    int code = session_open(&session, invocation, SESSION_SOME);

    if (code == EXIT_DONE)
        code = show(&session, invocation);
    session_close(&session);
    return code;
}

const struct command command_jobs = {
    .name = "jobs",
    .arguments = "[JOB]",
    .summary = "lists the configured jobs, or what one job reads and writes",
    .max_args = 1,
    .only_reads = true,
    .run = run,
};
