/* SPDX-License-Identifier: MIT */
/*
 * Counts of the requests to each configured store, for metrics: by operation,
 * how they ended and how long they took. A meter belongs to the name of a
 * store and lives as long as the process, so that its counts go on when the
 * configuration is read again. Counting takes a few atomic additions a request;
 * any thread may count and read.
 */
#ifndef TW_STORE_METER_H
#define TW_STORE_METER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"

struct exchange;

enum meter_operation {
    METER_CREATE_TABLE,
    METER_LIST_TABLES,
    METER_SCAN,
    METER_GET,
    METER_BATCH,
    METER_GIVE_BACK, /* unused space of an embedded file */
    METER_QUEUE_CREATE,
    METER_QUEUE_PUT,
    METER_QUEUE_GET,
    METER_QUEUE_RENEW,
    METER_QUEUE_DELETE,
    METER_QUEUE_PEEK,
    METER_QUEUE_COUNT,
    METER_OPERATIONS
};

enum meter_outcome {
    METER_OK,
    METER_NOT_FOUND,
    METER_CONFLICT,
    METER_UNKNOWN,     /* sent, but no response came */
    METER_THROTTLED,   /* refused with status 429 or 503 */
    METER_BUSY,        /* another response that allows a later try */
    METER_UNREACHABLE, /* no response, and certainly not carried out */
    METER_REFUSED,
    METER_FORBIDDEN,
    METER_INVALID,
    METER_TOO_LARGE,
    METER_STOPPED,
    METER_FULL,
    METER_OUTCOMES
};

/* Durations are counted in METER_BOUNDS + 1 classes. Each class but the last
 * has an upper bound in meter_bounds_ms. */
#define METER_BOUNDS 12
extern const int64_t meter_bounds_ms[METER_BOUNDS];

struct meter_counts {
    _Atomic uint64_t outcomes[METER_OUTCOMES];
    _Atomic uint64_t durations[METER_BOUNDS + 1]; /* number of requests in each
                                                     class of durations */
    _Atomic uint64_t total_ms;
};

struct meter {
    char *store;
    struct meter_counts operations[METER_OPERATIONS];
    struct meter *next;
};

/* meter_named: return the meter of the store of this name. Never freed. */
struct meter *meter_named(const char *store);

/* meter_add: count a request that took took_ms and ended with outcome. Does
 * nothing if meter is NULL. */
void meter_add(struct meter *meter, enum meter_operation operation,
    const struct exchange *exchange, enum tw_err outcome, int64_t took_ms);

/* meter_operation_name: return "scan", "queue_get", ... meter_outcome_name:
 * return "ok", "not_found", ... Static. */
const char *meter_operation_name(enum meter_operation operation);
const char *meter_outcome_name(enum meter_outcome outcome);

#endif
