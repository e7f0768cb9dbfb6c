/* SPDX-License-Identifier: MIT */
/*
 * What most commands begin with: the configuration, the stores they want, and
 * request threads to reach them by. Everything returns an exit code and has
 * said why, so that a command is a list of steps.
 */
#ifndef TW_CLI_SESSION_H
#define TW_CLI_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "jobs/job.h"
#include "worker/base/err.h"
#include "worker/base/platform.h"
#include "worker/cli/command.h"
#include "worker/cli/load.h"

struct request_pool;
struct pool_client;
struct local_run;
struct signals;
struct store;
struct exchange;

struct session {
    struct load *load; /* NULL once it was given away */
    struct problems problems;
    struct request_pool *request_pool; /* after session_request_pool() */
    struct pool_client *client;        /* its only one; changed under mutex */
    struct signals *signals;
    _Atomic bool stopped; /* SIGINT or SIGTERM has come */
    struct platform_mutex mutex;
    struct platform_cond cond; /* for session_wait(): stopped has changed */
};

/* How much of a configuration a command needs. */
enum session_need {
    SESSION_SOME,        /* some stores and jobs, asked for below           */
    SESSION_ENVIRONMENT, /* one store: where there is no file,
                            $AZURE_STORAGE_CONNECTION_STRING is enough      */
    SESSION_WORKER,      /* what a worker needs                             */
    SESSION_ALL,         /* everything                                      */
};

/*
 * session_open: read the configuration; everything wrong with it is said
 * (78). session_close() also after a failure.
 */
int session_open(struct session *session, const struct invocation *invocation,
    enum session_need need);
void session_close(struct session *session);

/* session_job: the job of that name; 64 with the nearest one. */
int session_job(
    struct session *session, const char *name, const struct job **ret);

/* session_queue: the served queue of that name; 64. */
int session_queue(
    struct session *session, const char *name, const struct setup_queue **ret);

/*
 * session_store: open the store that --store names, else the default one.
 * may_create false: *ret is NULL where the embedded file is not there, with
 * EXIT_DONE.
 */
int session_store(struct session *session, const struct invocation *invocation,
    bool may_create, struct store **ret);

/* session_ledger: the same for the store of queues and ledger. */
int session_ledger(
    struct session *session, bool may_create, struct store **ret);

/* session_want_job: open the stores of a job. */
int session_want_job(struct session *session, const struct job *job);

/* session_open_failed: say why a store could not be opened: 78 for what is
 * wrong with its configuration, else 69. */
int session_open_failed(
    struct session *session, size_t store, enum tw_err code, struct err *err);

/*
 * session_request_pool: request threads as the configuration has them; SIGINT
 * and SIGTERM stop them from now on, and set `stopped`.
 */
void session_request_pool(struct session *session);

/* session_again: a new client in place of one that was stopped, for a last
 * word to the store; nothing may use the old one any more. */
void session_again(struct session *session);

/* session_local_run: a run without a ledger; entities that it cannot process
 * are reported. name and object as in struct local_run_options. */
void session_local_run(struct session *session, const char *name,
    const char *object, struct local_run *ret);

/* session_explain: err of an outcome, with the store's name and, where it
 * could not be reached, what to check. */
void session_explain(
    const struct store *store, enum tw_err code, struct err *err);

/* session_read_only: nothing is written any more through the stores that are
 * open: dry run and verify. */
void session_read_only(struct session *session);

/* session_name_store: the same as session_explain() for a kind's outcome, which
 * does not say which of the job's stores did not answer. */
void session_name_store(
    const struct session *session, enum tw_err code, struct err *err);

/*
 * session_call: call(context, attempt) through the request pool, with their
 * retries (repeatable: also after an unknown outcome). err is explained.
 */
TW_MUST_USE enum tw_err session_call(struct session *session,
    struct store *store,
    enum tw_err (*call)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err);

/* session_stopped: say that it was stopped; EXIT_STOPPED. */
int session_stopped(void);

/* session_wait: sleep, or until stopped: then true. */
bool session_wait(struct session *session, int64_t ms);

#endif
