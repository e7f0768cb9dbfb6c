/* SPDX-License-Identifier: MIT */
/* What a command provides to an import or an export: a table of a store, a
 * client for requests, and a function that reports to an operator. */
#ifndef TW_TRANSFER_TRANSFER_H
#define TW_TRANSFER_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct pool_client;
struct store;

/* Everything is borrowed for the life of the import or the export. */
struct transfer {
    struct store *store;
    const char *table;
    struct pool_client *client;
    unsigned in_flight; /* how many batches of an import may be in flight */
    const _Atomic bool *stopped; /* set when SIGINT or SIGTERM is received */

    /* report: print one sentence for an operator, without an end of line. */
    void (*report)(void *context, const char *sentence);
    /* restart: return a client for the last requests after a stop; the old
     * `client` must not be used any more. NULL: `client` is never stopped. */
    struct pool_client *(*restart)(void *context);
    void *context;
};

/* transfer_report: report a sentence, formatted as by printf. */
void transfer_report(const struct transfer *transfer, const char *format, ...)
    TW_PRINTF(2, 3);

/* transfer_stopped: returns TW_STOPPED and sets err if a stop signal has come,
 * else TW_OK. */
TW_MUST_USE enum tw_err transfer_stopped(
    const struct transfer *transfer, struct err *err);

#endif
