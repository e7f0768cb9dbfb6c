/* SPDX-License-Identifier: MIT */
/*
 * `worker:` of the configuration: which queues are served, where the ledger is,
 * how many runs execute at once. And struct definition: one loaded
 * configuration, which lives as long as any run that was started with it.
 */
#ifndef TW_RUN_SETUP_H
#define TW_RUN_SETUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/arena.h"
#include "worker/base/log.h"
#include "worker/base/slice.h"

struct settings_section;
struct store;

/* The largest `slots`. */
#define SETUP_SLOTS_MAX 256

/* A queue's name with this suffix is the name of its poison queue. */
#define SETUP_POISON_SUFFIX "-poison"

struct setup_queue {
    const char *name;
    const char *poison_queue; /* name-poison */
    const struct job *job;    /* bound queue: the job whose one argument is the
                                 whole body; NULL: the queue takes JSON messages
                                 for any job */
    bool base64;              /* bound queue: the body is base64, not text */
    size_t slots; /* maximum number of runs of this queue at once; 0: no
                     limit */
};

struct setup {
    size_t store; /* index, in struct job_stores, of the store of queues and
                     ledger; if none is configured, the number of stores */
    struct setup_queue *queues;
    size_t queue_count; /* 0: `queues: []`, the worker receives no messages */
    int64_t slots, requests;
    int64_t visibility_timeout_s; /* in seconds, 2 .. 604800 */
    int64_t poll_min_ms, poll_max_ms;
    int64_t max_attempts;
    int64_t max_entities_per_second; /* limit for all runs of the worker
                                        together; 0: none */
    double price_per_10k;            /* dollars per 10,000 transactions */
    int64_t keep_runs_ms; /* how long succeeded and cancelled runs are kept; 0:
                             for ever */
    const char *listen;   /* valid for address_parse(); NULL: no server */
    const char *admin_token_file; /* the path as configured, to be resolved with
                                     definition_path(); NULL: none */
    const char *unset;            /* name of an environment variable that
                                     admin_token_file needs and that is not
                                     set; NULL: none */
    struct mark unset_mark;   /* where admin_token_file names this variable */
    enum log_level log_level; /* used by `worker` without --log-level */
};

/*
 * setup_load: read `worker:` from node. If node is NULL, the defaults apply:
 * one queue, "tableward", and the default store. Every mistake, and every job
 * that would change the ledger's table, is added to problems. Settings that are
 * valid are set nevertheless. ret lives in arena and refers to jobs, which must
 * outlive ret.
 */
void setup_load(const struct yaml_node *node, const struct job_stores *stores,
    const struct jobs *jobs, struct arena *arena, struct setup *ret,
    struct problems *problems);

/* setup_queue_for: find the queue on which `enqueue` puts a message for job:
 * the queue bound to job, else the first unbound queue. NULL: no queue serves
 * job. */
const struct setup_queue *setup_queue_for(
    const struct setup *setup, const struct job *job);

/*
 * setup_queue_of_run: find the queue for a wake-up message of a run of job.
 * This is `queue`, the run's own queue, if it is still served and not bound to
 * another job; else the result of setup_queue_for(). NULL: no queue serves the
 * run.
 */
const struct setup_queue *setup_queue_of_run(
    const struct setup *setup, const struct job *job, struct slice queue);

/*
 * setup_queue_of_orphan: find the queue by which this worker serves a run of
 * `job` that has no message. queue: the queue of the run. Returns this queue.
 * NULL: this worker does not serve it, so other workers continue the run. If
 * `queue` is empty, because the command `tableward run` began the run,
 * setup_queue_for() finds the result.
 */
const struct setup_queue *setup_queue_of_orphan(
    const struct setup *setup, const struct job *job, struct slice queue);

/* setup_queue_named: find the served queue of this name; NULL: none. */
const struct setup_queue *setup_queue_named(
    const struct setup *setup, struct slice name);

/*
 * One loaded configuration, shared by everything that was started with this
 * configuration. The loader (worker/cli/load) fills the struct and sets
 * references to 1; the last definition_drop(), on any thread, calls release.
 */
struct definition {
    const struct jobs *jobs;
    const struct job_stores *stores; /* the open stores that the worker and its
                                        jobs use */
    const struct setup *setup;
    const char *archive_folder; /* base of relative `archive:` paths */
    const char *lock_folder;    /* folder of lock files; NULL: no lock files */
    void (*release)(struct definition *definition); /* may be NULL */
    void *owner;                                    /* data of the loader, for
                                                       release() */
    _Atomic unsigned references;
};

struct lock_file;

/* definition_lock_file: open a lock file for this process, as lock_file_open()
 * does. */
struct lock_file *definition_lock_file(const struct definition *definition);

/* definition_path: return a copy of path if it is absolute; else put the folder
 * of the configuration's relative paths before it. Owned. */
char *definition_path(const struct definition *definition, const char *path);

/* definition_hold: take one more reference; returns definition.
 * definition_drop: give a reference back; does nothing if given NULL. */
struct definition *definition_hold(struct definition *definition);
void definition_drop(struct definition *definition);

/*
 * definition_share_credentials: call when definition replaces former, before
 * another thread uses definition. Runs that were started with former, or with
 * an earlier definition, then use the credentials of definition, for each store
 * that has the same name and account in both.
 */
void definition_share_credentials(
    const struct definition *definition, const struct definition *former);

/* definition_store: return the store of queues and ledger; NULL: not
 * configured. */
struct store *definition_store(const struct definition *definition);

/* The keys of `worker:`. */
extern const struct settings_section setup_worker_section;
extern const struct settings_section setup_poll_section;
extern const struct settings_section setup_queue_section;

#endif
