/* SPDX-License-Identifier: MIT */
/*
 * What cancel, pause, resume and finish share: the run that an ID names, and
 * the wait for its owner to act.
 */
#ifndef TW_CLI_ONE_RUN_H
#define TW_CLI_ONE_RUN_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/cli/command.h"
#include "worker/cli/runs.h"
#include "worker/cli/session.h"
#include "worker/run/ledger.h"

struct one_run {
    struct session session;
    struct store *store;
    struct runs runs;
    const struct ledger_run *run; /* as it was when it was found */
    const struct job *job;        /* NULL: no longer configured */
};

/*
 * one_run_open: read the configuration and find the run that the first argument
 * names; of several jobs' runs of one ID the one that is wanted(). An exit
 * code, said; one_run_close() in any case.
 */
int one_run_open(struct one_run *one, const struct invocation *invocation,
    bool (*wanted)(const struct ledger_run *run));
void one_run_close(struct one_run *one);

/* one_run_is_open: a run, not an import, that has not ended: for wanted. */
bool one_run_is_open(const struct ledger_run *run);

/*
 * one_run_wait: read the run again until done(run), for some 10 s. EXIT_DONE:
 * ret (init'ed) is the run then. EXIT_STOPPED, said: its owner has not acted
 * yet, or a signal came; the request stays in the ledger. Else what the ledger
 * said.
 */
int one_run_wait(struct one_run *one,
    bool (*done)(const struct ledger_run *run), struct ledger_run *ret);

/* What is asked of a run's owner, or done at once where it has none. */
struct one_run_ask {
    /* ask: control_cancel or control_pause. */
    enum tw_err (*ask)(struct store *store, struct slice job, struct slice id,
        struct ledger_run *ret, bool *ret_asked, struct err *err);
    bool (*done)(const struct ledger_run *run); /* for one_run_wait() */
    enum ledger_state to;                       /* what it is to become */
    int (*end)(const struct one_run *one);      /* so it has */
    /* ended: it has ended, or had before. */
    int (*ended)(const struct ledger_run *run);
};

/* one_run_ask: ask, wait for the owner where it must act, and say how it went.
 * An exit code. */
int one_run_ask(struct one_run *one, const struct one_run_ask *ask);

/* one_run_say_ended: says how run has ended. EXIT_FAILED. */
int one_run_say_ended(const struct ledger_run *run);

/* one_run_add_command: add `tableward run JOB NAME=VALUE ... --id ID` for a
 * shell. */
void one_run_add_command(const struct ledger_run *run, struct buf *to);

#endif
