/* SPDX-License-Identifier: MIT */
/*
 * A whole configuration file: stores, jobs, worker settings. Reading it opens
 * no store and needs no variable of the environment; a command then says which
 * stores and jobs it wants, and only those must be complete.
 */
#ifndef TW_CLI_LOAD_H
#define TW_CLI_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/run/setup.h"
#include "worker/store/open.h"

struct load {
    struct arena arena; /* everything below lives here */
    const char *file;   /* as named in messages; NULL: none was read */
    const char *folder; /* where relative paths start */
    struct store_config **configs; /* as many as stores.count */
    struct store **open;           /* stores.stores; NULL: not opened */
    bool *wanted; /* that a variable is not set has been said of store i */
    struct job_stores stores;
    struct jobs jobs;
    struct setup setup;
    struct definition definition;
};

/*
 * load_find: the file that is meant: named (--config, may be NULL), else
 * $TABLEWARD_CONFIG, else ./tableward.yaml, else
 * /etc/tableward/tableward.yaml. NULL: none of the latter two is there.
 */
const char *load_find(const char *named);

/* For what a configuration is read. */
enum load_use {
    LOAD_SOME,   /* the command says later which stores and jobs it wants   */
    LOAD_WORKER, /* wants all jobs, their stores and that of the queues     */
    LOAD_ALL,    /* wants everything there is                               */
};

/*
 * load_read: read and check the file at path; what use wants must be complete.
 * TW_INVALID: err says why it cannot be read, or problems has been added to.
 * path is borrowed for as long as problems is used. Owned; load_free().
 */
TW_MUST_USE enum tw_err load_read(const char *path, enum load_use use,
    struct load **ret, struct problems *problems, struct err *err);

/* load_environment: no file, and one store, named `azure`, from a connection
 * string. Owned. */
struct load *load_environment(const char *connection_string);

/* load_free: closes the stores that are open. NULL: nothing. */
void load_free(struct load *load);

/* load_want_store, load_want_job: add a problem for each variable of the
 * environment that is needed and not set, once; of a job, for its stores too.
 */
void load_want_store(
    struct load *load, size_t store, struct problems *problems);
void load_want_job(
    struct load *load, const struct job *job, struct problems *problems);

/*
 * load_store: open it, where it is not open yet. may_create false: an embedded
 * file that is not there is left so, TW_NOT_FOUND. Else as store_open().
 */
TW_MUST_USE enum tw_err load_store(
    struct load *load, size_t store, bool may_create, struct err *err);

/* load_is_new: the store is embedded, and its file is not there yet. */
bool load_is_new(const struct load *load, size_t store);

/* load_job_stores: load_store() for all that the job names. *ret_store is the
 * one that failed. */
TW_MUST_USE enum tw_err load_job_stores(struct load *load,
    const struct job *job, size_t *ret_store, struct err *err);

/* load_keeps: path is the configuration's file, or one of an embedded store:
 * nothing else may be written there. "-": standard input. */
bool load_keeps(const struct load *load, const char *path);

/* load_store_named: stores.count when there is none of that name. */
size_t load_store_named(const struct load *load, const char *name);
const char *load_store_nearest(const struct load *load, const char *name);

/* load_lend: the same for what a command asks of runs: without a reference,
 * for as long as load. */
const struct definition *load_lend(struct load *load);

/* load_definition: what the worker is given, with one reference; dropping the
 * last one frees load. */
struct definition *load_definition(struct load *load);

#endif
