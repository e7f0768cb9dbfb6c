/* SPDX-License-Identifier: MIT */
/*
 * A job is a piece of work that the configuration names. Its kind, such as
 * copy, says what the job does. Each kind is defined by a struct kind in a
 * folder of its own (jobs/copy), and has one line in the table of jobs.c.
 * jobs/KINDS.md describes how to write a kind. L1 to L4 and M8 below are rules
 * of jobs/GUIDE.md.
 */
#ifndef TW_JOBS_JOB_H
#define TW_JOBS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/engine/run.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct job;
struct jobs;
struct retry_call;
struct store;

/* The stores that a job may name. stores[i] is NULL if no job of the
 * configuration uses the store, or if the program only reads the configuration
 * and makes no requests. */
struct job_stores {
    size_t count;
    const char *const *names;
    struct store *const *stores;
    size_t by_default; /* index of the default store; equal to count: none */

    /*
     * open: open the store with the index `index`. Call it if a run needs this
     * store although stores[index] is NULL. *ret is borrowed, and later calls
     * return the same store. TW_NOT_FOUND: the file of an embedded store does
     * not exist. The other outcomes are those of store_open(). Any thread may
     * call. If open is NULL, only the stores in stores[] can be used.
     */
    enum tw_err (*open)(
        void *owner, size_t index, struct store **ret, struct err *err);
    void *owner; /* passed to open() as its first argument */
};

/* The input of the function `load` of a kind; borrowed. */
struct job_loader {
    const char *job;
    const struct slice *args; /* the arguments that the job declares */
    size_t arg_count;
    const struct job_stores *stores; /* the stores; a loader may use only their
                                      * names */
    struct arena *arena; /* owns everything that must outlive loading */
    struct problems *problems;
    const char *unset; /* set by loaders: name of an environment variable that a
                        * text of the job needs and that is not set; NULL:
                        * none */
};

/* The result of a dry run for one table. */
struct job_estimate_table {
    const char *table;
    bool table_scan; /* the selector does not restrict PartitionKey, so the
                      * whole table is scanned */
    bool incomplete; /* counting stopped at a limit, so each count is printed
                        with "at least" */
    int64_t entities, batches, pages;
    const char *first_keys[5]; /* keys of the first entities as
                                  "PartitionKey/RowKey", for people */
};

struct job_estimate {
    struct arena arena; /* everything lives here; initialised and released by
                         * the caller of estimate */
    struct job_estimate_table *tables;
    size_t table_count;
    int64_t transactions;
    int64_t read;        /* number of entities that a run reads whole; the
                          * estimated duration depends on it */
    const char *details; /* lines for people, printed after the tables; NULL:
                            none */
    const char *note;    /* sentence for people, such as "the parent does not
                          * exist"; NULL: none */
    const char *refused; /* why a run would be refused; NULL: it would be
                          * accepted. A missing table is no reason here */
};

enum job_access {
    JOB_READS,
    JOB_MAKES,  /* like JOB_WRITES; but the table may be missing: the job then
                 * creates it or has nothing to do */
    JOB_WRITES, /* writes to the table, empties it or deletes from it; a job
                 * whose kind has table_job locks it */
};

/*
 * An argument that all jobs of a kind have without declaring it. If a run does
 * not give the argument, its value is the fallback. Templates cannot use it.
 */
struct kind_arg {
    const char *name;
    const char *fallback;
    const char *const *choices; /* the allowed values, with NULL at the end */
};

/* One kind of difference that `verify` looks for. */
struct job_difference {
    const char *what; /* description, such as "sources without a copy" */
    int64_t count;
    const char *first_keys[5]; /* TABLE PartitionKey/RowKey, for people */
};

struct job_verification {
    struct arena arena; /* everything lives here; initialised and released by
                         * the caller of verify */
    struct job_difference *differences; /* one entry for each kind of
                                         * difference, even if its count is 0 */
    size_t count;
    int64_t read;     /* number of entities that were compared */
    const char *note; /* sentence for people; NULL: none */
};

/*
 * What a kind must have: name, summary, sections, load, explain, tables,
 * estimate and run. Everything else may be false, NULL or 0; if a function may
 * be NULL, its comment says what NULL means.
 */
struct kind {
    const char *name;    /* name in `kind:`, such as "cascade-delete" */
    const char *summary; /* description in one line, printed by the command
                            `jobs` */
    bool destructive;    /* `run` asks for confirmation */
    bool has_parent;     /* jobs of the kind delete the children of a parent */
    bool table_job;      /* jobs of the kind rewrite whole tables, so a table
                          * may have only one open run that writes to it (locks
                          * L1 to L4) */
    bool ends_load;      /* a run completes its current load before it is
                          * cancelled or paused, even if the store is busy for
                          * long (M8) */
    /*
     * open_load (NULL unless ends_load): set *ret to whether an attempt of run
     * `id` of `job` has begun a load that no attempt has completed. Reads the
     * rows of the kind in the ledger's table. `call` limits the retries. After
     * an outcome other than TW_OK, call->exchange has the reason.
     */
    enum tw_err (*open_load)(struct store *ledger, const char *ledger_table,
        struct slice job, struct slice id, struct retry_call *call, bool *ret);
    /*
     * additions (NULL: none): name of the configuration key that holds a list
     * of rules, both in a job's map and in each rule. Rules may be added to
     * these lists while a run is open. The run then starts over under the new
     * definition. After any other change of the definition, the run waits until
     * an operator accepts the change (worker/run/bound.h). If the kind has no
     * additions, the run waits after every change.
     */
    const char *additions;
    const struct kind_arg *args; /* NULL: none */
    size_t arg_count;
    /* The configuration keys of the kind's jobs, one section per map, for
     * `help KIND` and `help config KEY`; NULL at the end. */
    const struct settings_section *const *sections;

    /*
     * load: read node (the job's whole map; kind and args are already read)
     * into settings in the loader's arena, and return them, or NULL if a
     * problem was added. Settings refer to stores by index.
     */
    void *(*load)(const struct yaml_node *node, struct job_loader *loader);

    /*
     * link (NULL: none): store in the settings what the kind must know of the
     * other jobs. Called once, when all jobs are read; `jobs` has only the jobs
     * without a mistake. The stored data lives in arena.
     */
    void (*link)(const struct job *job, const struct jobs *jobs,
        struct arena *arena, struct problems *problems);

    /*
     * accept (NULL: accepts all): may a run have these arguments? Makes no
     * requests. Any outcome but TW_OK: a run with these arguments can never
     * succeed, for example because they make a forbidden key; err says why.
     * Called before a run is added to the ledger, but not if the job needs an
     * environment variable that is not set.
     */
    enum tw_err (*accept)(
        const struct job *job, const struct run_args *args, struct err *err);

    /* explain: append lines for people: what the job reads and writes, in
     * order. */
    void (*explain)(const struct job *job, struct buf *to);

    /* archive (NULL: jobs of the kind have no archive): the job's archive
     * folder, as configured. Returns NULL if the job has none. */
    const char *(*archive)(const struct job *job);

    /* tables: call each(ctx, store index, table name, access) at least once for
     * every table that the job reads or writes. */
    void (*tables)(const struct job *job,
        void (*each)(
            void *ctx, size_t store, const char *table, enum job_access access),
        void *ctx);

    /*
     * verify (NULL: the kind has none): do the tables match the job now? Reads
     * only. A difference is counted only after a second verification pass has
     * confirmed it.
     *
     *   run->args    Not checked by accept(). An argument that was not given
     *                has a value whose `at` is NULL.
     *   run->ledger  May only be read. NULL: there is no ledger yet.
     *   *ret         Initialised and released by the caller, as for estimate.
     *
     * TW_CONFLICT: verify needs an argument that was not given; err names it.
     */
    enum tw_err (*verify)(const struct job *job,
        const struct job_stores *stores, struct run *run,
        struct job_verification *ret, struct err *err);

    /* follows (NULL: never): does a run of the job repeat its rounds until
     * `finish`? */
    bool (*follows)(const struct job *job);

    /*
     * estimate: fill *ret with what a run with run->args would do; makes no
     * writes. The caller has set *ret to zero and initialised ret->arena, and
     * releases it with arena_done(), whatever the outcome.
     */
    enum tw_err (*estimate)(const struct job *job,
        const struct job_stores *stores, struct run *run,
        struct job_estimate *ret, struct err *err);

    /* run: make one attempt, on the worker thread, and return how it ended. err
     * has the reason, except after RUN_SUCCEEDED and RUN_WAITING. */
    enum run_end (*run)(const struct job *job, const struct job_stores *stores,
        struct run *run, struct err *err);
};

struct job_arg {
    struct slice name;
    bool allow_empty;
    const struct kind_arg *implied; /* the kind's argument, if all jobs of the
                                     * kind have it; NULL: the job declares this
                                     * argument, so every run must give it */
};

struct job {
    const char *name;
    struct mark mark;
    const struct kind *kind;
    const struct job_arg *args; /* arguments that the job declares, then those
                                 * of its kind */
    size_t arg_count;
    char hash[17]; /* hash, in hex, of the settings that decide what a
                    * run changes. A checkpoint with another hash is not
                    * used. A run that began with another hash may be
                    * held (worker/run/bound.h) */
    /*
     * A list of hashes of 16 hex digits, if the kind has additions: first the
     * hash of the job's map without its rules, then one hash for each rule. The
     * hash of a rule covers the maps around the rule and the rule itself,
     * without its child rules. So if only rules were added since a run began,
     * the list has all hashes that it had when the run began. NULL: the kind
     * has no additions, or the list is too long for the ledger.
     */
    const char *parts;
    const char *unset;    /* name of an environment variable that the job needs
                           * and that is not set; NULL: none */
    const char *failures; /* folder of failed entities; NULL: none */
    int64_t max_entities_per_second; /* limit for all runs of the job together;
                                      * 0: only the worker's limit applies */
    void *settings;                  /* what kind->load() returned */
};

/* job_arg_index: returns the index of the argument `name`, or job->arg_count if
 * the job has no such argument. */
size_t job_arg_index(const struct job *job, struct slice name);

/* job_declared_args: returns the number of arguments that every run must give.
 */
size_t job_declared_args(const struct job *job);

#endif
