/* SPDX-License-Identifier: MIT */
/* What import, export, count and census share: a table of a store, and its
 * options. */
#ifndef TW_CLI_TRANSFER_H
#define TW_CLI_TRANSFER_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/cli/command.h"
#include "worker/run/local_run.h"
#include "worker/cli/session.h"

struct entity;
struct scan;
struct store;

struct transfer {
    const struct invocation *invocation;
    struct session session;
    bool opened; /* the session */
    struct arena arena;
    struct store *store; /* NULL: its file is not there */
    const char *table;
    struct slice filter;
    struct slice *select; /* NULL: everything */
    size_t select_count;
};

/* transfer_open: the configuration, the table's name, --filter, --select and
 * --store, and lanes. An exit code; transfer_close() in any case. */
int transfer_open(struct transfer *transfer,
    const struct invocation *invocation, bool may_create);
void transfer_close(struct transfer *transfer);

/* transfer_check_file: refuse a file of a store, or the configuration. "-":
 * standard input. An exit code. */
int transfer_check_file(const struct transfer *transfer, const char *path);

/* transfer_scan: the entities that filter matches, with what select names;
 * those after the keys of after, where it is not NULL. */
struct scan *transfer_scan(
    struct transfer *transfer, const struct entity *after);

/* transfer_failed: say why a request came to nothing; an exit code. */
int transfer_failed(
    struct transfer *transfer, enum tw_err code, struct err *err);

/* transfer_no_table: say that there is no such table, and which may have been
 * meant; EXIT_FAILED. */
int transfer_no_table(struct transfer *transfer);

#endif
