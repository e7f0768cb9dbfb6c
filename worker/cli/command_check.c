/* SPDX-License-Identifier: MIT */
/* `tableward check [--online]`: validates the configuration. */
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/cli/commands.h"
#include "worker/cli/online.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"

static void add_count(struct buf *line, size_t count, const char *what)
{
    buf_add_format(line, ", %zu %s%s", count, what, count == 1 ? "" : "s");
}

static void print_well(const struct load *load)
{
    struct buf line;

    buf_init(&line, 4096);
    buf_add_format(&line, "%s is right", load->file);
    add_count(&line, load->stores.count, "store");
    add_count(&line, load->setup.queue_count, "queue");
    add_count(&line, load->jobs.count, "job");
    printf("%s\n", buf_text(&line));
    buf_done(&line);
}

static int run(const struct invocation *invocation)
{
    struct session session;
    int code = session_open(&session, invocation, SESSION_ALL);

    if (code == EXIT_DONE) {
        print_problems(&session.problems);
        print_well(session.load);
        if (invocation->values[OPTION_ONLINE])
            code = online_check(&session);
    }
    session_close(&session);
    return code;
}

static const struct command_option OPTIONS[] = {
    {OPTION_ONLINE, "also reach every store, table and queue"},
    {OPTION_COUNT, NULL},
};

const struct command command_check = {
    .name = "check",
    .arguments = "[--online]",
    .summary = "says whether the configuration is right",
    .details =
        "Every mistake with its place, and exit code 78. All variables of "
        "the environment that\nit names must be set. With --online "
        "also which right is missing on which table or\nqueue, and "
        "whether the clock is off; nothing is written.\n",
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
