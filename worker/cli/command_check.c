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
    buf_add_format(&line, "%s is valid", load->file);
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
    {OPTION_ONLINE, "also connect to every store, table and queue"},
    {OPTION_COUNT, NULL},
};

const struct command command_check = {
    .name = "check",
    .arguments = "[--online]",
    .summary = "validates the configuration",
    .details =
        "Prints every error with its line and column; then the exit code is "
        "78. All\nenvironment variables that the configuration names must be "
        "set. --online also\nreports each missing permission on a table or "
        "queue, and a wrong clock. Nothing is\nwritten.\n",
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
