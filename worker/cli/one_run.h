/* SPDX-License-Identifier: MIT */
/*
 * Shared by the commands cancel, pause, resume and finish: finds the run that
 * an ID names, and waits until the run's owner has carried out a request.
 */
#ifndef TW_CLI_ONE_RUN_H
#define TW_CLI_ONE_RUN_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/cli/command.h"
#include "worker/cli/session.h"
#include "worker/run/ledger.h"
#include "worker/run/runs.h"

struct one_run {
    struct session session;
    struct store *store;
    struct runs runs;
    const struct ledger_run *run; /* the run, as one_run_open() read it */
    const struct job *job;        /* job of run; NULL: no longer configured */
};

/*
 * one_run_open: read the configuration and find the run that the first argument
 * names; if several jobs have a run of that ID, the run for which wanted() is
 * true. Returns an exit code and prints the reason of a failure; call
 * one_run_close() in any case.
 */
int one_run_open(struct one_run *one, const struct invocation *invocation,
    bool (*wanted)(const struct ledger_run *run));
void one_run_close(struct one_run *one);

/* one_run_is_open: has run not ended, and is it no import? May be given to
 * one_run_open() as `wanted`. */
bool one_run_is_open(const struct ledger_run *run);

/*
 * one_run_wait: read the run again until done(run) is true, but no longer than
 * about 12 s. EXIT_DONE: *ret is the run (call ledger_run_init() before).
 * EXIT_STOPPED, with a message: the run's owner has not acted yet, or a signal
 * came; the request remains in the ledger. Other exit codes: the ledger could
 * not be read.
 */
int one_run_wait(struct one_run *one,
    bool (*done)(const struct ledger_run *run), struct ledger_run *ret);

/* A request to the owner of a run. If the run has no owner, ask() carries out
 * the request itself. */
struct one_run_ask {
    /* ask: control_cancel or control_pause. */
    enum tw_err (*ask)(struct store *store, struct slice job, struct slice id,
        struct ledger_run *ret, bool *ret_asked, struct err *err);
    bool (*done)(const struct ledger_run *run); /* has the owner acted? */
    enum ledger_state to;                       /* the requested state */
    /* end: called on success; returns the exit code. */
    int (*end)(const struct one_run *one);
    /* ended: called if the run had ended before the request, or ended in a
     * state other than `to`; returns the exit code. */
    int (*ended)(const struct ledger_run *run);
};

/* one_run_ask: make the request. If ask() has not carried out the request, wait
 * until an owner has carried it out. Print the result. Returns an exit code. */
int one_run_ask(struct one_run *one, const struct one_run_ask *ask);

/* one_run_say_ended: print how run has ended. Returns EXIT_FAILED. */
int one_run_say_ended(const struct ledger_run *run);

/* one_run_add_command: add `tableward run JOB NAME=VALUE ... --id ID`, with
 * the values quoted for a shell. */
void one_run_add_command(const struct ledger_run *run, struct buf *to);

#endif
