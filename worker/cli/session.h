/* SPDX-License-Identifier: MIT */
/*
 * The start of most commands: read the configuration, open stores, and create a
 * request pool. Each function returns an exit code and has already printed the
 * reason of a failure, so that a command is a list of steps.
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
#include "worker/run/runs.h"

struct request_pool;
struct pool_client;
struct local_run;
struct signals;
struct store;
struct exchange;

struct session {
    struct load *load; /* configuration; NULL once a definition owns it */
    struct problems problems;
    struct request_pool *request_pool; /* NULL before session_request_pool() */
    struct pool_client *client;        /* the pool's only client; replaced under
                                          mutex */
    struct signals *signals;
    _Atomic bool stopped; /* SIGINT or SIGTERM has come */
    struct platform_mutex mutex;
    struct platform_cond cond; /* wakes session_wait() when stopped changes */
};

/* How much of a configuration a command needs. */
enum session_need {
    SESSION_SOME, /* some stores and jobs, which the command opens later */
    SESSION_ENVIRONMENT, /* one store; without a configuration file it is the
                            store of $AZURE_STORAGE_CONNECTION_STRING */
    SESSION_WORKER, /* all jobs, their stores and the store of the queues */
    SESSION_ALL,    /* all stores and jobs */
};

/*
 * session_open: read the configuration and print all its errors; exit code 78
 * if there are any. Call session_close() also after a failure.
 */
int session_open(struct session *session, const struct invocation *invocation,
    enum session_need need);
void session_close(struct session *session);

/* session_only_reads: from now on the command writes to no store. Call before
 * the first store is opened; not needed for a command with only_reads. */
void session_only_reads(struct session *session);

/* session_job: find the job of that name. Exit code 64: unknown; the message
 * has the nearest name. */
int session_job(
    struct session *session, const char *name, const struct job **ret);

/* session_queue: find the served queue of that name. Exit code 64: unknown. */
int session_queue(
    struct session *session, const char *name, const struct setup_queue **ret);

/*
 * session_store: open the store of --store, else the default store. may_create
 * false: if the file of an embedded store does not exist, *ret is NULL and the
 * result is EXIT_DONE.
 */
int session_store(struct session *session, const struct invocation *invocation,
    bool may_create, struct store **ret);

/* session_ledger: open the store of queues and ledger; may_create as in
 * session_store(). */
int session_ledger(
    struct session *session, bool may_create, struct store **ret);

/* session_want_job: open the stores of a job. */
int session_want_job(struct session *session, const struct job *job);

/* session_open_failed: print why a store could not be opened; returns 78 for an
 * error in its configuration, else 69. */
int session_open_failed(struct session *session, size_t store,
    enum tw_err outcome, struct err *err);

/*
 * session_request_pool: create the request pool with the configured number of
 * threads. After this call SIGINT and SIGTERM stop the pool's requests and set
 * `stopped`.
 */
void session_request_pool(struct session *session);

/* session_again: replace the stopped client by a new one, for the last requests
 * to the store. Call when no request of the old client is in flight. */
void session_again(struct session *session);

/* session_local_run: init a run without a ledger; entities that the run cannot
 * process are printed. name and object as in struct local_run_options. */
void session_local_run(struct session *session, const char *name,
    const char *object, struct local_run *ret);

/* session_read_only: make all open stores refuse writes, for dry run and
 * verify. */
void session_read_only(struct session *session);

/* session_name_store: name the store that failed in err, because the outcome of
 * a kind does not name it. Only if outcome says that a store could not be
 * reached or refused a request: calls store_explain() for the first open store
 * whose last request failed. */
void session_name_store(
    const struct session *session, enum tw_err outcome, struct err *err);

/*
 * session_call: make the request call(context, exchange) through the request
 * pool, with its retries (repeatable: also after an unknown outcome). Calls
 * store_explain() for err.
 */
TW_MUST_USE enum tw_err session_call(struct session *session,
    struct store *store,
    enum tw_err (*call)(void *context, struct exchange *exchange),
    void *context, bool repeatable, struct err *err);

/* session_reader: make a reader of the runs in the ledger of store. Call after
 * session_request_pool(). */
struct runs_reader session_reader(
    const struct session *session, struct store *store);

/* session_stopped: print that the command was stopped; returns EXIT_STOPPED. */
int session_stopped(void);

/* session_wait: sleep for ms milliseconds. Returns true, perhaps earlier, if a
 * stop signal has come. */
bool session_wait(struct session *session, int64_t ms);

#endif
