/* SPDX-License-Identifier: MIT */
/*
 * A job is a piece of work that the configuration names; a kind is what it
 * does. A new kind is one file in this folder and one line in jobs.c.
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
struct store;

/* The stores a job may name. stores[i] is NULL where only loading is wanted. */
struct job_stores {
    size_t count;
    const char *const *names;
    struct store *const *stores;
    size_t by_default; /* index; count: there is none */
};

/* What a kind's loader is lent. */
struct job_loader {
    const char *job;
    const struct slice *args; /* names the job declares */
    size_t arg_count;
    const struct job_stores *stores; /* names only may be relied on */
    struct arena *arena;             /* for everything that stays */
    struct problems *problems;
    const char *unset; /* set by loaders: an environment variable
                          that a text needs and that is not set */
};

/* What a dry run says of one table. */
struct job_estimate_table {
    const char *table;
    bool table_scan; /* found by a filter alone */
    bool incomplete; /* counting ended at a limit: "at least" */
    int64_t entities, batches, pages;
    const char *first_keys[5]; /* "PartitionKey/RowKey" for people */
};

struct job_estimate {
    struct arena arena; /* everything lives here */
    struct job_estimate_table *tables;
    size_t table_count;
    int64_t transactions;
    int64_t read; /* entities read whole on the way; for the time it takes */
    const char *details; /* lines for people, printed after the tables; NULL:
                            none */
    const char *note;    /* a sentence, or NULL: "the parent does not exist" */
};

enum job_access {
    JOB_READS,
    JOB_MAKES,  /* as JOB_WRITES; where the table is missing it is made, or
                   nothing is to be done */
    JOB_WRITES, /* writes, empties or deletes from it; a table job locks it */
};

/*
 * An argument that every job of a kind takes without declaring it. A run that
 * leaves it out has its fallback; templates cannot name it.
 */
struct kind_arg {
    const char *name;
    const char *fallback;
    const char *const *choices; /* the only values, NULL at the end */
};

/* One kind of difference that `verify` looks for. */
struct job_difference {
    const char *what; /* "sources without a copy" */
    int64_t count;
    const char *first_keys[5]; /* TABLE PartitionKey/RowKey, for people */
};

struct job_verification {
    struct arena arena; /* everything lives here; released by the caller */
    struct job_difference *differences; /* also those that were not found */
    size_t count;
    int64_t read;     /* entities that were compared */
    const char *note; /* a sentence, or NULL */
};

struct kind {
    const char *name;    /* "cascade-delete" */
    const char *summary; /* one line for `jobs` */
    bool destructive;    /* `run` asks before it */
    bool has_parent;     /* fsck knows what to do with it */
    bool table_job;      /* rewrites whole tables: one open run for each table
                            that it writes (locks L1 to L4) */
    bool ends_load;      /* what it has begun it ends before it is cancelled or
                            paused, however long its store is busy (M8) */
    const struct kind_arg *args; /* NULL: none */
    size_t arg_count;

    /*
     * load: read node (the job's whole map; kind and args are read already)
     * into settings that live in the loader's arena. NULL: problems has been
     * added to. Refers to stores by index.
     */
    void *(*load)(const struct yaml_node *node, struct job_loader *loader);

    /*
     * link (NULL: nothing): once all jobs are read: what a kind must know of
     * the others, kept in its settings. jobs holds those that could be read;
     * what is kept lives in arena.
     */
    void (*link)(const struct job *job, const struct jobs *jobs,
        struct arena *arena, struct problems *problems);

    /*
     * accept (NULL: all): may a run have these arguments? Looks at nothing but
     * them, sends nothing. Not TW_OK: a run could never succeed (a forbidden
     * key); err says why. Asked before a run is put into the ledger; not where
     * the job has a variable unset.
     */
    enum tw_err (*accept)(
        const struct job *job, const struct run_args *args, struct err *err);

    /* explain: lines for people: what it reads and writes, in order. */
    void (*explain)(const struct job *job, struct buf *to);

    /* archive (NULL: the kind has none): the folder that the job archives into,
     * as it is configured; NULL: none. */
    const char *(*archive)(const struct job *job);

    /* tables: calls each(ctx, store index, table name) for every table it
     * reads or writes, perhaps more than once. */
    void (*tables)(const struct job *job,
        void (*each)(
            void *ctx, size_t store, const char *table, enum job_access access),
        void *ctx);

    /*
     * verify (NULL: the kind has none): do the tables match the job now? Reads
     * only. A difference counts once a second verification pass has confirmed
     * it. An argument that was not given has a value whose `at` is NULL; no
     * argument of run->args was asked about (accept). run->ledger is read-only
     * too, and NULL where there is no ledger yet. TW_CONFLICT: it needs an
     * argument that was not given; err names it.
     */
    enum tw_err (*verify)(const struct job *job,
        const struct job_stores *stores, struct run *run,
        struct job_verification *ret, struct err *err);

    /* follows (NULL: never): does a run repeat its rounds until `finish`? */
    bool (*follows)(const struct job *job);

    /* estimate: what a run with run->args would do; writes nothing. */
    enum tw_err (*estimate)(const struct job *job,
        const struct job_stores *stores, struct run *run,
        struct job_estimate *ret, struct err *err);

    /* run: one attempt, on the slot's thread. err says why, except for
     * RUN_SUCCEEDED and RUN_WAITING. */
    enum run_end (*run)(const struct job *job, const struct job_stores *stores,
        struct run *run, struct err *err);
};

struct job_arg {
    struct slice name;
    bool allow_empty;
    const struct kind_arg *implied; /* the kind's; NULL: the job declares it,
                                       and every run must give it */
};

struct job {
    const char *name;
    struct mark mark;
    const struct kind *kind;
    const struct job_arg *args; /* those that it declares, then the kind's */
    size_t arg_count;
    char hash[17];     /* of what decides which entities change and into what: a
                          checkpoint made under another one is not used */
    const char *unset; /* an environment variable it needs that is not set */
    const char *failures;            /* folder of failed entities; NULL: none */
    int64_t max_entities_per_second; /* of all its runs together; 0: no limit
                                        but the worker's */
    void *settings;                  /* the kind's */
};

/* job_arg_index: arg_count when there is none of that name. */
size_t job_arg_index(const struct job *job, struct slice name);

/* job_declared_args: how many of its arguments every run must give. */
size_t job_declared_args(const struct job *job);

#endif
