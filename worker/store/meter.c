/* SPDX-License-Identifier: MIT */
/* Counts of the requests to each store. */
#include "worker/store/meter.h"

#include <string.h>

#include "worker/base/mem.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

const int64_t meter_bounds_ms[METER_BOUNDS] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000};

static const char *const operations[METER_OPERATIONS] = {
    [METER_CREATE_TABLE] = "create_table",
    [METER_LIST_TABLES] = "list_tables",
    [METER_SCAN] = "scan",
    [METER_GET] = "get",
    [METER_BATCH] = "batch",
    [METER_GIVE_BACK] = "give_back",
    [METER_QUEUE_CREATE] = "queue_create",
    [METER_QUEUE_PUT] = "queue_put",
    [METER_QUEUE_GET] = "queue_get",
    [METER_QUEUE_RENEW] = "queue_renew",
    [METER_QUEUE_DELETE] = "queue_delete",
    [METER_QUEUE_PEEK] = "queue_peek",
    [METER_QUEUE_COUNT] = "queue_count",
};

static const char *const outcomes[METER_OUTCOMES] = {
    [METER_OK] = "ok",
    [METER_NOT_FOUND] = "not_found",
    [METER_CONFLICT] = "conflict",
    [METER_UNKNOWN] = "unknown",
    [METER_THROTTLED] = "throttled",
    [METER_BUSY] = "busy",
    [METER_UNREACHABLE] = "unreachable",
    [METER_REFUSED] = "refused",
    [METER_FORBIDDEN] = "forbidden",
    [METER_INVALID] = "invalid",
    [METER_TOO_LARGE] = "too_large",
    [METER_STOPPED] = "stopped",
    [METER_FULL] = "full",
};

/* All meters, the newest first. A meter is added, never removed or changed. */
static struct meter *_Atomic meters;

static struct meter *find(struct meter *first, const char *store)
{
    while (first && strcmp(first->store, store) != 0)
        first = first->next;
    return first;
}

struct meter *meter_named(const char *store)
{
    struct meter *first = atomic_load(&meters);
    struct meter *meter = find(first, store), *mine;

    if (meter)
        return meter;
    mine = mem_alloc(sizeof(*mine));
    mine->store = mem_text(store, strlen(store));
    for (;;) {
        mine->next = first;
        if (atomic_compare_exchange_weak(&meters, &first, mine))
            return mine;
        meter = find(first, store);
        if (meter) {
            mem_free(mine->store);
            mem_free(mine);
            return meter;
        }
    }
}

static enum meter_outcome outcome_of(
    const struct exchange *exchange, enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return METER_OK;
    case TW_NOT_FOUND:
        return METER_NOT_FOUND;
    case TW_CONFLICT:
        return METER_CONFLICT;
    case TW_UNKNOWN:
        return METER_UNKNOWN;
    case TW_BUSY:
        if (retry_is_throttled(exchange))
            return METER_THROTTLED;
        return exchange->http_status != 0 ? METER_BUSY : METER_UNREACHABLE;
    case TW_REFUSED:
        return METER_REFUSED;
    case TW_FORBIDDEN:
        return METER_FORBIDDEN;
    case TW_INVALID:
        return METER_INVALID;
    case TW_TOO_LARGE:
        return METER_TOO_LARGE;
    case TW_STOPPED:
        return METER_STOPPED;
    case TW_FULL:
        break;
    }
    return METER_FULL;
}

static void add(_Atomic uint64_t *to, uint64_t count)
{
    atomic_fetch_add_explicit(to, count, memory_order_relaxed);
}

void meter_add(struct meter *meter, enum meter_operation operation,
    const struct exchange *exchange, enum tw_err outcome, int64_t took_ms)
{
    struct meter_counts *counts;
    size_t class = 0;

    if (!meter)
        return;
    counts = &meter->operations[operation];
    while (class < METER_BOUNDS && took_ms > meter_bounds_ms[class])
        class ++;
    add(&counts->outcomes[outcome_of(exchange, outcome)], 1);
    add(&counts->durations[class], 1);
    add(&counts->total_ms, took_ms > 0 ? (uint64_t)took_ms : 0);
}

const char *meter_operation_name(enum meter_operation operation)
{
    return operations[operation];
}

const char *meter_outcome_name(enum meter_outcome outcome)
{
    return outcomes[outcome];
}
