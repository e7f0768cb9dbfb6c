/* SPDX-License-Identifier: MIT */
/*
 * A whole configuration file: stores, jobs, worker settings. Reading it opens
 * no store and requires no environment variable. A command then calls
 * load_want_store() and load_want_job() for the stores and jobs that it needs;
 * only those must be complete.
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
#include "worker/base/platform.h"
#include "worker/run/setup.h"
#include "worker/store/open.h"

struct settings_section;

struct load {
    struct arena arena; /* memory of all other fields */
    const char *file;   /* path for messages; NULL: no file was read */
    const char *folder; /* folder that relative paths are resolved against */
    struct store_config **configs; /* configurations of the stores: stores.count
                                      items */
    struct store **open;  /* the array stores.stores; open[i] is NULL if store i
                             is not open */
    struct store **later; /* later[i]: store i, if stores.open() has opened it;
                             NULL: it has not. Under mutex */
    struct platform_mutex mutex;
    bool *wanted;    /* wanted[i]: an unset variable of store i was already
                        reported */
    bool only_reads; /* the command writes to no store, so that embedded files
                        need not be writable; set before the first store is
                        opened */
    struct job_stores stores;
    struct jobs jobs;
    struct setup setup;
    struct definition definition;
};

/*
 * load_find: find the path of the configuration. It is `named` (the value of
 * --config, or NULL), else $TABLEWARD_CONFIG, else ./tableward.yaml, else
 * /etc/tableward/tableward.yaml. NULL: none of these is given or exists.
 */
const char *load_find(const char *named);

/* What must be complete after a configuration was read. */
enum load_use {
    LOAD_SOME,   /* nothing yet: the command calls load_want_store(),
                    load_want_job() later */
    LOAD_WORKER, /* all jobs, their stores and the store of the queues */
    LOAD_ALL,    /* all stores and jobs */
};

/*
 * load_read: read and check the file at path; what `use` needs must be
 * complete. TW_INVALID: the errors are in problems, or err says why the file
 * cannot be read. path is borrowed for the life of problems. *ret is owned;
 * free with load_free().
 */
TW_MUST_USE enum tw_err load_read(const char *path, enum load_use use,
    struct load **ret, struct problems *problems, struct err *err);

/* load_environment: make a configuration without a file, with one store, named
 * `azure`, from a connection string. Owned. */
struct load *load_environment(const char *connection_string);

/* load_free: also closes the open stores. Does nothing if given NULL. */
void load_free(struct load *load);

/* load_want_store, load_want_job: add a problem for an environment variable
 * that the store or the job needs and that is not set. load_want_job also does
 * this for the stores of the job. A store is reported only once. */
void load_want_store(
    struct load *load, size_t store, struct problems *problems);
void load_want_job(
    struct load *load, const struct job *job, struct problems *problems);

/*
 * load_store: open the store, unless it is open already. may_create false:
 * TW_NOT_FOUND if the file of an embedded store does not exist. TW_INVALID: one
 * reason is that the file of the store and the file of another open store have
 * the same identity, because one is a copy of the other. All other outcomes are
 * those of store_open().
 */
TW_MUST_USE enum tw_err load_store(
    struct load *load, size_t store, bool may_create, struct err *err);

/* load_is_new: is the store an embedded one whose file does not exist yet? */
bool load_is_new(const struct load *load, size_t store);

/* load_job_stores: call load_store() for all stores that the job uses.
 * *ret_store: the store that failed. */
TW_MUST_USE enum tw_err load_job_stores(struct load *load,
    const struct job *job, size_t *ret_store, struct err *err);

/* load_keeps: is path the file of the configuration or of an embedded store? No
 * command may import such a file or write to it. The path "-" stands for the
 * file that standard input is redirected from. */
bool load_keeps(const struct load *load, const char *path);

/* load_store_named: return the index of the store of that name; stores.count:
 * the name is unknown. */
size_t load_store_named(const struct load *load, const char *name);
const char *load_store_nearest(const struct load *load, const char *name);

/* load_lend: return the definition, for commands that change runs. Borrowed
 * from load, without a reference. Any thread may call it. */
const struct definition *load_lend(const struct load *load);

/* load_definition: make the definition for a worker, with one reference;
 * dropping the last reference frees load. */
struct definition *load_definition(struct load *load);

/* The keys of the configuration's top level. */
extern const struct settings_section load_section;

#endif
