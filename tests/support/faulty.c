/* SPDX-License-Identifier: MIT */
/* A store that fails on request. */
#include "tests/support/faulty.h"

#include <string.h>

#include "worker/base/mem.h"

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

    faulty_land(faulty, world_boot_ms());
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
    case FAULT_BUSY_HINTED:
        attempt->retry_after_ms = 1;
        *ret = say(attempt, TW_BUSY, "busy for a moment");
        return true;
    case FAULT_NONE:
    case FAULT_LOSE_ANSWER:
    case FAULT_NO_INDEX:
    case FAULT_SHORT_PAGE:
    case FAULT_EMPTY_PAGE:
    case FAULT_LATE:
        break;
    }
    return false;
}

/* ---- what is late ---- */

void faulty_land(struct faulty *faulty, int64_t now_ms)
{
    struct faulty_late due[FAULTY_LATE_MAX];
    size_t count = 0, left = 0;

    world_lock(&faulty->mutex);
    for (size_t i = 0; i < faulty->late_count; i++)
        if (faulty->late[i].due_ms <= now_ms)
            due[count++] = faulty->late[i];
        else
            faulty->late[left++] = faulty->late[i];
    faulty->late_count = left;
    world_unlock(&faulty->mutex);
    for (size_t i = 0; i < count; i++) {
        struct batch batch = {due[i].table, &due[i].operation, 1};
        struct attempt attempt = {.fence = NULL};
        struct batch_result *result = mem_alloc(sizeof(*result));

        (void)!store_batch(faulty->inner, &attempt, &batch, result);
        mem_free(result);
    }
}

static void put_off(struct faulty *faulty, const struct batch *batch)
{
    struct faulty_late *late;

    if (batch->count != 1 || batch->operations[0].type != OPERATION_INSERT)
        return;
    world_lock(&faulty->mutex);
    if (faulty->late_count < FAULTY_LATE_MAX) {
        late = &faulty->late[faulty->late_count++];
        late->table = arena_copy(&faulty->arena, slice_of(batch->table)).at;
        late->operation.type = OPERATION_INSERT;
        entity_copy(&late->operation.entity, &faulty->arena,
            &batch->operations[0].entity);
        late->due_ms = world_boot_ms() + faulty->late_ms;
    }
    world_unlock(&faulty->mutex);
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

/* A token of our own: the beginning. */
#define BEGINNING "the beginning"

/* As a service may answer any request: to be continued where it began. */
static enum tw_err empty_page(struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    struct continuation from = request->from;

    if (!from.more)
        from.partition_key = slice_of(BEGINNING);
    page_done(ret);
    page_init(ret);
    ret->next = (struct continuation){
        .partition_key = arena_copy(&ret->arena, from.partition_key),
        .row_key = arena_copy(&ret->arena, from.row_key),
        .more = true};
    attempt->date_ticks = world_wall_ticks();
    return TW_OK;
}

static struct scan_request limit(const struct faulty *faulty, enum fault fault,
    const struct scan_request *request)
{
    struct scan_request limited = *request;
    unsigned most = fault == FAULT_SHORT_PAGE ? 1 : faulty->page_max;

    if (most > 0 && (limited.top == 0 || limited.top > most))
        limited.top = most;
    if (slice_is(limited.from.partition_key, BEGINNING))
        limited.from = (struct continuation){.more = false};
    return limited;
}

static enum tw_err faulty_scan(struct store *store, struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    struct faulty *faulty = faulty_of(store);
    enum tw_err code = look_at_scan(faulty, attempt, request);
    enum fault fault = choose(faulty, FAULTY_SCAN, &faulty->scans);
    struct scan_request limited;

    if (code != TW_OK || fails_before(fault, attempt, &code))
        return code;
    limited = limit(faulty, fault, request);
    if (fault == FAULT_EMPTY_PAGE)
        return empty_page(attempt, request, ret);
    code = store_scan(faulty->inner, attempt, &limited, ret);
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
    if (fault == FAULT_LATE) {
        put_off(faulty, batch);
        return say(attempt, TW_UNKNOWN, "late as the test wants");
    }
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
    arena_init(&faulty->arena);
}

void faulty_done(struct faulty *faulty)
{
    arena_done(&faulty->arena);
    world_mutex_done(&faulty->mutex);
}
