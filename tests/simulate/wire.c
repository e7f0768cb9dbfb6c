/* SPDX-License-Identifier: MIT */
/*
 * The stages of a request: it waits for a connection, checks the deadline,
 * leaves, travels, is carried out by the service at one moment, and its
 * response travels back. A process may be stalled or crash at each stage. A
 * request that has left by then still arrives, but the service does not carry
 * it out after SERVICE_MAX_MS.
 */
#include "tests/simulate/wire.h"

#include <string.h>

#include "tests/simulate/book.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

/* The service ends a request that takes longer. */
#define SERVICE_MAX_MS 30000
/* The longest wait for a lost response in a script: the connection is reset. */
#define RESET_MAX_MS 1000

/* Waits: mostly not at all, rarely for long. */
static void take_time(struct wire *wire)
{
    unsigned drawn = sim_draw(100);
    int64_t most_ms = wire->sim->latency_ms;

    if (drawn < 50 || most_ms == 0)
        virtual_yield();
    else if (drawn < 97)
        virtual_sleep((int64_t)sim_draw((unsigned)most_ms) + 1);
    else
        virtual_sleep((int64_t)sim_draw((unsigned)most_ms * 20) + 1);
}

static enum tw_err unreachable(struct wire *wire, struct exchange *exchange,
    const struct store_request *request)
{
    exchange->sent_ms = platform_boot_ms();
    wire->requests++;
    if (wire->unreached)
        wire->unreached(
            wire->ctx, virtual_ms(), request->call >= CALL_QUEUE_CREATE);
    return err_fail(&exchange->err, TW_BUSY, "nobody answers");
}

/* Checks the deadline at the last moment before the request is sent. */
static enum tw_err leave(struct wire *wire, struct exchange *exchange,
    const struct store_request *request)
{
    int64_t now_ms = platform_boot_ms();

    if (!deadline_is_open(exchange->deadline, now_ms))
        return err_fail(&exchange->err, TW_STOPPED, "the deadline has passed");
    exchange->sent_ms = now_ms;
    /* Polls are not counted: their number shows how long a run took, not what
     * it cost. */
    wire->requests += request->call != CALL_QUEUE_GET;
    virtual_mask();
    book_sent(wire->sim->book, wire->process, exchange->deadline, request);
    virtual_unmask();
    return TW_OK;
}

/* Has the service carry out the request, at one moment. */
static enum tw_err arrive(struct wire *wire, struct exchange *exchange,
    const struct store_request *request)
{
    struct exchange there = {.retry_after_ms = -1};
    struct store_request alone = *request;
    struct scan_request scan;
    enum tw_err outcome;

    if (request->call == CALL_SCAN) { /* the service must not call the worker's
                                         callback */
        scan = *request->scan;
        scan.follows = NULL;
        alone.scan = &scan;
    }
    virtual_mask();
    wire->sim->by_worker = true;
    outcome = request_pass(&wire->sim->faults.outer, &there, &alone);
    wire->sim->by_worker = false;
    if (outcome == TW_OK)
        book_taken(wire->sim->book, wire->process, exchange->deadline, request);
    virtual_note("%s %s: %s", call_name(request->call),
        request->name ? request->name : "", err_name(outcome));
    virtual_unmask();
    if (there.sent_ms == 0)
        exchange->sent_ms = 0;
    exchange->date_ticks = there.date_ticks;
    if (wire->sim->dates_cut)
        exchange->date_ticks -= exchange->date_ticks % TICKS_PER_S;
    exchange->retry_after_ms = there.retry_after_ms;
    exchange->http_status = there.http_status;
    exchange->err = there.err;
    return outcome;
}

static enum tw_err no_answer(struct exchange *exchange, const char *why)
{
    exchange->date_ticks = 0;
    exchange->retry_after_ms = -1;
    return err_fail(&exchange->err, TW_UNKNOWN, "%s", why);
}

/* Sends the request. Once it has left, it is carried out, even if its response
 * is lost. */
static enum tw_err attempt(struct wire *wire, struct exchange *exchange,
    const struct store_request *request)
{
    int64_t left_ms = virtual_ms(), limit_ms, lost_ms;
    enum tw_err outcome = TW_UNKNOWN;

    bool flies = wire->sim->troubles.drawn != 0 && sim_chance(50);
    bool arrives = true, silent, in_time;

    limit_ms = deadline_timeout_ms(exchange->deadline);
    lost_ms = wire->sim->script ? RESET_MAX_MS : limit_ms;
    silent = trouble_silences(&wire->sim->troubles, wire, request, &arrives);
    if (flies)
        virtual_leave();
    take_time(wire);
    in_time = virtual_ms() - left_ms <= SERVICE_MAX_MS;
    if (in_time && arrives)
        outcome = arrive(wire, exchange, request);
    if (flies)
        virtual_return();
    if (!in_time)
        return no_answer(exchange, "the service has given it up");
    if (silent) {
        virtual_sleep(limit_ms);
        return no_answer(exchange, "no answer at all");
    }
    if (outcome == TW_OK && request->call == CALL_SCAN &&
        request->scan->follows && request->page->next.more)
        request->scan->follows(request->scan->context, &request->page->next);
    if (outcome == TW_UNKNOWN && exchange->date_ticks == 0 && sim_chance(50))
        virtual_sleep((int64_t)sim_draw((unsigned)lost_ms) + 1);
    else
        take_time(wire);
    if (virtual_ms() - left_ms > limit_ms && sim_chance(50))
        return no_answer(exchange, "no answer in time");
    return outcome;
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct wire *wire = (struct wire *)self;
    char before[QUEUE_RECEIPT_MAX];
    enum tw_err outcome;

    if (request->receipt)
        memcpy(before, request->receipt, sizeof(before));
    take_time(wire);
    if (virtual_ms() < wire->sim->down_until_ms)
        return unreachable(wire, exchange, request);
    outcome = trouble_meets(&wire->sim->troubles, wire, exchange, request);
    if (outcome == TW_OK)
        outcome = leave(wire, exchange, request);
    if (outcome != TW_OK)
        return outcome;
    outcome = attempt(wire, exchange, request);
    if (request->call < CALL_QUEUE_CREATE && !wire->data) {
        virtual_mask();
        book_answered(wire->sim->book, wire->process, exchange->deadline,
            exchange->date_ticks);
        virtual_unmask();
    }
    if (outcome == TW_UNKNOWN)
        request_forget(request, before);
    return outcome;
}

void wire_init(
    struct wire *wire, struct sim *sim, const void *process, const char *name)
{
    *wire = (struct wire){.sim = sim, .process = process};
    interposed_init(&wire->outer, name, &sim->faults.outer.store, meet);
}
