/* SPDX-License-Identifier: MIT */
/* A store that fails on request. */
#include "tests/support/faulty.h"

#include <string.h>

static struct faulty *faulty_of(struct store *store)
{
    return (struct faulty *)store;
}

static enum tw_err say(
    struct attempt *attempt, enum tw_err code, const char *what)
{
    if (attempt->sent_ms == 0)
        attempt->sent_ms = world_boot_ms();
    return err_fail(&attempt->err, code, "%s", what);
}

static enum fault choose(
    struct faulty *faulty, enum faulty_call call, unsigned *counter)
{
    enum fault fault = FAULT_NONE;

    world_lock(&faulty->mutex);
    if (faulty->choose)
        fault = faulty->choose(faulty->ctx, call, *counter);
    ++*counter;
    world_unlock(&faulty->mutex);
    return fault;
}

/* True: the request does not reach the store, *ret is the answer. */
static bool fails_before(
    enum fault fault, struct attempt *attempt, enum tw_err *ret)
{
    switch (fault) {
    case FAULT_BUSY:
        *ret = say(attempt, TW_BUSY, "busy as the test wants");
        return true;
    case FAULT_LOSE_REQUEST:
        *ret = say(attempt, TW_UNKNOWN, "lost as the test wants");
        return true;
    case FAULT_REFUSED:
        *ret = say(attempt, TW_REFUSED, "refused as the test wants");
        return true;
    case FAULT_NONE:
    case FAULT_LOSE_ANSWER:
    case FAULT_NO_INDEX:
        break;
    }
    return false;
}

static enum tw_err look_at_scan(struct faulty *faulty, struct attempt *attempt,
    const struct scan_request *request)
{
    enum tw_err code = TW_OK;

    world_lock(&faulty->mutex);
    if (faulty->scans < 64)
        faulty->tops[faulty->scans] = request->top;
    if (faulty->expire_token > 0 && request->from.more &&
        faulty->scans + 1 >= faulty->expire_token) {
        faulty->expire_token = 0;
        code = TW_INVALID;
    } else if (faulty->refuse_scans ||
               (faulty->top_max > 0 && request->top > faulty->top_max)) {
        code = TW_TOO_LARGE;
    }
    world_unlock(&faulty->mutex);
    return code == TW_OK ? TW_OK : say(attempt, code, "as the test wants");
}

static enum tw_err faulty_scan(struct store *store, struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    struct faulty *faulty = faulty_of(store);
    enum tw_err code = look_at_scan(faulty, attempt, request);
    enum fault fault = choose(faulty, FAULTY_SCAN, &faulty->scans);

    if (code != TW_OK || fails_before(fault, attempt, &code))
        return code;
    code = store_scan(faulty->inner, attempt, request, ret);
    if (code == TW_OK && fault == FAULT_LOSE_ANSWER)
        return say(attempt, TW_UNKNOWN, "lost as the test wants");
    return code;
}

static enum tw_err faulty_get(struct store *store, struct attempt *attempt,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct faulty *faulty = faulty_of(store);
    enum fault fault = choose(faulty, FAULTY_GET, &faulty->gets);
    enum tw_err code;

    if (fails_before(fault, attempt, &code))
        return code;
    return store_get(
        faulty->inner, attempt, table, partition_key, row_key, ret);
}

/* The index of the refused key, or batch->count. */
static size_t find_refused(
    const struct faulty *faulty, const struct batch *batch)
{
    size_t at = 0;

    if (!faulty->refused_key)
        return batch->count;
    while (at < batch->count &&
           !slice_is(batch->operations[at].entity.row_key, faulty->refused_key))
        at++;
    return at;
}

static void batch_begins(struct faulty *faulty, const struct batch *batch)
{
    world_lock(&faulty->mutex);
    faulty->operations += (unsigned)batch->count;
    if (batch->count > faulty->largest_batch)
        faulty->largest_batch = batch->count;
    if (++faulty->running > faulty->most_running)
        faulty->most_running = faulty->running;
    world_unlock(&faulty->mutex);
}

static void batch_ends(struct faulty *faulty)
{
    world_lock(&faulty->mutex);
    faulty->running--;
    world_unlock(&faulty->mutex);
}

static enum tw_err apply(struct faulty *faulty, enum fault fault,
    struct attempt *attempt, const struct batch *batch,
    struct batch_result *ret)
{
    size_t refused = find_refused(faulty, batch);
    enum tw_err code;

    if (faulty->before)
        faulty->before(faulty->ctx, batch);
    ret->failed = batch->count;
    if (fails_before(fault, attempt, &code))
        return code;
    if (refused < batch->count) {
        ret->failed = faulty->refusal_unnamed ? batch->count : refused;
        return say(attempt, faulty->refusal, "refused as the test wants");
    }
    code = store_batch(faulty->inner, attempt, batch, ret);
    if (code == TW_OK && fault == FAULT_LOSE_ANSWER) {
        ret->failed = batch->count;
        return say(attempt, TW_UNKNOWN, "lost as the test wants");
    }
    if (code != TW_OK && fault == FAULT_NO_INDEX)
        ret->failed = batch->count;
    return code;
}

static enum tw_err faulty_batch(struct store *store, struct attempt *attempt,
    const struct batch *batch, struct batch_result *ret)
{
    struct faulty *faulty = faulty_of(store);
    enum fault fault = choose(faulty, FAULTY_BATCH, &faulty->batches);
    enum tw_err code;

    batch_begins(faulty, batch);
    code = apply(faulty, fault, attempt, batch, ret);
    batch_ends(faulty);
    return code;
}

unsigned faulty_batches(struct faulty *faulty)
{
    unsigned batches;

    world_lock(&faulty->mutex);
    batches = faulty->batches;
    world_unlock(&faulty->mutex);
    return batches;
}

void faulty_init(struct faulty *faulty, struct store *inner)
{
    static const struct store_ops ops = {
        .scan = faulty_scan,
        .get = faulty_get,
        .batch = faulty_batch,
    };

    *faulty = (struct faulty){
        .store = {.ops = &ops, .traits = inner->traits, .name = "faulty"},
        .inner = inner,
    };
    world_mutex_init(&faulty->mutex);
}

void faulty_done(struct faulty *faulty)
{
    world_mutex_done(&faulty->mutex);
}
