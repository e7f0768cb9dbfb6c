/* SPDX-License-Identifier: MIT */
/* `tableward check [--online]`: validates the configuration. */
#include <stdio.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/cli/commands.h"
#include "worker/cli/online.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/store/store.h"

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

/* Adds a problem for each credential because of which a worker would refuse the
 * configuration. `systemctl reload` runs `check` first, and must not reload
 * such a configuration. */
static void check_credentials(struct session *session)
{
    const struct load *load = session->load;
    const char *unread;
    struct err err;

    for (size_t i = 0; i < load->stores.count; i++) {
        const struct store_config *config = load->configs[i];

        if (store_check(config, &unread, &err) != TW_OK)
            problems_add(&session->problems, config->mark, "%s", err.text);
        else if (unread)
            problems_warn(&session->problems, config->mark,
                "store %s: %s was not checked: it does not exist, or this user "
                "may not read it",
                config->name, unread);
    }
}

/* Do a and b have the same AccountName and different endpoints? */
static bool may_be_one(const struct store *a, const struct store *b)
{
    const struct store_capabilities *first = &a->capabilities,
                                    *second = &b->capabilities;

    return first->account_name && second->account_name &&
           strcmp(first->account_name, second->account_name) == 0 &&
           strcmp(store_account(a), store_account(b)) != 0;
}

/* Warns of each store that may be the same account as an earlier store, under
 * another host name. A store that cannot be opened is skipped. */
static void warn_of_one_account(struct session *session)
{
    struct load *load = session->load;
    struct store *const *open = load->open;
    struct err ignored;

    for (size_t i = 0; i < load->stores.count; i++) {
        size_t first = 0;

        if (!load->configs[i]->is_azure ||
            load_store(load, i, false, &ignored) != TW_OK)
            continue;
        while (first < i && !(open[first] && may_be_one(open[first], open[i])))
            first++;
        if (first < i)
            problems_warn(&session->problems, load->configs[i]->mark,
                "stores %s and %s have the same AccountName, %s, but different "
                "endpoints. If they are one account, give both the same "
                "endpoint: a copy job does not recognise copies that it made "
                "under the other endpoint. (Jobs that use a table through both "
                "stores do wait for each other.)",
                load->stores.names[first], load->stores.names[i],
                open[i]->capabilities.account_name);
    }
}

static int check(struct session *session, bool online)
{
    check_credentials(session);
    if (session->problems.errors == 0)
        warn_of_one_account(session);
    print_problems(&session->problems);
    if (session->problems.errors > 0)
        return EXIT_CONFIG_78;
    print_well(session->load);
    return online ? online_check(session) : EXIT_DONE;
}

static int run(const struct invocation *invocation)
{
    struct session session;
    int code = session_open(&session, invocation, SESSION_ALL);

    if (code == EXIT_DONE)
        code = check(&session, invocation->values[OPTION_ONLINE] != NULL);
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
        "Prints every error with its line and column; the exit code is 78 if "
        "there is one. All\nenvironment variables that the configuration names "
        "must be set, and a file that the\nconfiguration names for a "
        "credential must hold a credential, if this user may read\nthe file. "
        "--online also reports each missing permission on a table or queue, "
        "a\nwrong clock, and a ledger in another store than the configured "
        "one. Nothing is written.\n",
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
