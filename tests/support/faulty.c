/* SPDX-License-Identifier: MIT */
/*
 * Every call becomes a request: what it is, its arguments, where its answer
 * goes. A fault is a row of a table that says how often the store sees the
 * request and what the caller is told; what is left are three answers of the
 * wrapper's own (a late one, a page, a refused key).
 */
#include "tests/support/faulty.h"

#include <string.h>

#include "worker/base/mem.h"

struct request {
    enum faulty_call call;
    const char *name; /* of the table or queue */
    struct slice partition_key, row_key;
    const struct scan_request *scan;
    struct continuation from;
    const struct batch *batch;
    struct slice text, id, pop_receipt;
    unsigned count;
    int64_t seconds;

    /* Where the answer goes. */
    struct page *page;
    struct batch_result *result;
    struct messages *messages;
    char *receipt;
    int64_t *number;
};

/* ---- the calls ---- */

static enum tw_err send_scan(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_scan(store, attempt, r->scan, r->page);
}

static enum tw_err send_get(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_get(
        store, attempt, r->name, r->partition_key, r->row_key, r->page);
}

static enum tw_err send_batch(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_batch(store, attempt, r->batch, r->result);
}

static enum tw_err send_create_table(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_create_table(store, attempt, r->name);
}

static enum tw_err send_list_tables(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_list_tables(store, attempt, r->from, r->page);
}

static enum tw_err send_queue_create(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_create(store, attempt, r->name);
}

static enum tw_err send_queue_put(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_put(
        store, attempt, r->name, r->text, r->seconds, r->messages);
}

static enum tw_err send_queue_get(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_get(
        store, attempt, r->name, r->count, r->seconds, r->messages);
}

static enum tw_err send_queue_renew(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_renew(
        store, attempt, r->name, r->id, r->receipt, r->seconds);
}

static enum tw_err send_queue_delete(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_delete(store, attempt, r->name, r->id, r->pop_receipt);
}

static enum tw_err send_queue_peek(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_peek(store, attempt, r->name, r->count, r->messages);
}

static enum tw_err send_queue_count(
    struct store *store, struct attempt *attempt, const struct request *r)
{
    return store_queue_count(store, attempt, r->name, r->number);
}

static enum tw_err (*const SEND[FAULTY_CALLS])(
    struct store *, struct attempt *, const struct request *) = {
    [FAULTY_SCAN] = send_scan,
    [FAULTY_GET] = send_get,
    [FAULTY_BATCH] = send_batch,
    [FAULTY_CREATE_TABLE] = send_create_table,
    [FAULTY_LIST_TABLES] = send_list_tables,
    [FAULTY_QUEUE_CREATE] = send_queue_create,
    [FAULTY_QUEUE_PUT] = send_queue_put,
    [FAULTY_QUEUE_GET] = send_queue_get,
    [FAULTY_QUEUE_RENEW] = send_queue_renew,
    [FAULTY_QUEUE_DELETE] = send_queue_delete,
    [FAULTY_QUEUE_PEEK] = send_queue_peek,
    [FAULTY_QUEUE_COUNT] = send_queue_count,
};

#define READS                                                                  \
    (FAULTY_SET(FAULTY_SCAN) | FAULTY_SET(FAULTY_GET) |                        \
        FAULTY_SET(FAULTY_LIST_TABLES) | FAULTY_SET(FAULTY_QUEUE_PEEK) |       \
        FAULTY_SET(FAULTY_QUEUE_COUNT))
#define WRITES (FAULTY_ALL & ~READS)

static bool in_set(unsigned set, enum faulty_call call)
{
    return (set & FAULTY_SET(call)) != 0;
}

/* ---- the faults ---- */

struct effect {
    const char *name;
    unsigned calls;   /* it can happen to these */
    unsigned applied; /* so often */
    bool sent;        /* bytes left for the service */
    bool hinted;
    int status;           /* of an answer, 0: none came */
    enum tw_err read;     /* what the caller of a read is told ... */
    enum tw_err write;    /* ... and of a write; TW_OK: what the store says */
    const char *sentence; /* and why */
};

static const struct effect EFFECTS[FAULTS] = {
    [FAULT_NONE] = {"none", FAULTY_ALL, 1, true, false, 200, TW_OK, TW_OK,
        NULL},
    [FAULT_UNSENT] = {"unsent", FAULTY_ALL, 0, false, false, 0, TW_BUSY,
        TW_BUSY, "no connection, as the test wants"},
    [FAULT_BUSY] = {"busy", FAULTY_ALL, 0, true, false, 503, TW_BUSY, TW_BUSY,
        "503 ServerBusy, as the test wants"},
    [FAULT_BUSY_HINTED] = {"busy-hinted", FAULTY_ALL, 0, true, true, 503,
        TW_BUSY, TW_BUSY, "503 ServerBusy for a moment, as the test wants"},
    [FAULT_ERROR] = {"error", FAULTY_ALL, 0, true, false, 500, TW_BUSY,
        TW_UNKNOWN, "500 InternalError, as the test wants"},
    [FAULT_ERROR_HINTED] = {"error-hinted", FAULTY_ALL, 0, true, true, 500,
        TW_BUSY, TW_UNKNOWN, "500 InternalError for a moment"},
    [FAULT_LOSE_REQUEST] = {"lose-request", FAULTY_ALL, 0, true, false, 0,
        TW_UNKNOWN, TW_UNKNOWN, "the request was lost, as the test wants"},
    [FAULT_LOSE_ANSWER] = {"lose-answer", FAULTY_ALL, 1, true, false, 0,
        TW_UNKNOWN, TW_UNKNOWN, "the answer was lost, as the test wants"},
    [FAULT_REFUSED] = {"refused", FAULTY_ALL, 0, true, false, 403, TW_REFUSED,
        TW_REFUSED, "403 refused, as the test wants"},
    [FAULT_DELAY] = {"delay", FAULTY_ALL, 1, true, false, 200, TW_OK, TW_OK,
        NULL},
    [FAULT_LATE] = {"late", WRITES, 0, true, false, 0, TW_UNKNOWN, TW_UNKNOWN,
        "no answer in time, as the test wants"},
    [FAULT_TWICE] = {"twice", WRITES, 2, true, false, 200, TW_OK, TW_OK, NULL},
    [FAULT_TWICE_UNSEEN] = {"twice-unseen", WRITES, 2, true, false, 200, TW_OK,
        TW_OK, NULL},
    [FAULT_NO_INDEX] = {"no-index", FAULTY_SET(FAULTY_BATCH), 1, true, false,
        200, TW_OK, TW_OK, NULL},
    [FAULT_ONE_KEY] = {"one-key", FAULTY_SET(FAULTY_BATCH), 0, true, false, 412,
        TW_CONFLICT, TW_CONFLICT, "one key is refused, as the test wants"},
    [FAULT_SHORT_PAGE] = {"short-page", FAULTY_SET(FAULTY_SCAN), 1, true, false,
        200, TW_OK, TW_OK, NULL},
    [FAULT_EMPTY_PAGE] = {"empty-page", FAULTY_SET(FAULTY_SCAN), 0, true, false,
        200, TW_OK, TW_OK, NULL},
};

const char *faulty_name(enum fault fault)
{
    return EFFECTS[fault].name;
}

bool faulty_happens(enum fault fault, enum faulty_call call)
{
    return in_set(EFFECTS[fault].calls, call);
}

static enum tw_err say(
    struct attempt *attempt, enum tw_err code, const char *what)
{
    if (attempt->sent_ms == 0)
        attempt->sent_ms = world_boot_ms();
    return err_fail(&attempt->err, code, "%s", what);
}

/* What the caller is told of a fault, whatever the store has said. */
static enum tw_err tell(const struct faulty *faulty, enum fault fault,
    enum faulty_call call, struct attempt *attempt)
{
    const struct effect *effect = &EFFECTS[fault];
    enum tw_err code = in_set(READS, call) ? effect->read : effect->write;

    attempt->http_status = effect->status;
    attempt->date_ticks = effect->status > 0 ? world_wall_ticks() : 0;
    attempt->retry_after_ms = effect->hinted ? faulty->hint_ms : -1;
    if (effect->sent)
        return say(attempt, code, effect->sentence);
    attempt->sent_ms = 0;
    return err_fail(&attempt->err, code, "%s", effect->sentence);
}

/* ---- who decides ---- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A number below limit for the n-th request; another for another purpose. */
static uint64_t draw(
    const struct faulty *faulty, unsigned n, unsigned purpose, uint64_t limit)
{
    return mix(faulty->seed ^ mix(((uint64_t)purpose << 32) | n)) % limit;
}

enum purpose { WHICH_FAULT, WHICH_KEY, WHICH_MOMENT };

static enum fault by_share(
    const struct faulty *faulty, enum faulty_call call, unsigned n)
{
    uint64_t drawn = draw(faulty, n, WHICH_FAULT, 1000);

    for (size_t i = 0; i < faulty->share_count; i++) {
        const struct faulty_share *share = &faulty->shares[i];

        if (!in_set(share->calls, call) || !faulty_happens(share->fault, call))
            continue;
        if (drawn < share->per_mille)
            return share->fault;
        drawn -= share->per_mille;
    }
    return FAULT_NONE;
}

/* What this request meets; *ret_n is its number. */
static enum fault choose(
    struct faulty *faulty, enum faulty_call call, unsigned *ret_n)
{
    enum fault fault;

    faulty_land(faulty, world_boot_ms());
    world_lock(&faulty->mutex);
    *ret_n = faulty->requests++;
    if (faulty->choose)
        fault = faulty->choose(faulty->ctx, call, faulty->calls[call]);
    else
        fault = by_share(faulty, call, *ret_n);
    if (!faulty_happens(fault, call))
        fault = FAULT_NONE;
    faulty->calls[call]++;
    faulty->met[fault]++;
    world_unlock(&faulty->mutex);
    return fault;
}

/* ---- answers that nobody sees ---- */

struct unseen {
    struct request request; /* another's, but for where its answer goes */
    struct page page;
    struct messages messages;
    struct batch_result result;
    char receipt[QUEUE_RECEIPT_MAX];
    int64_t number;
};

static struct unseen *unseen_new(const struct request *request)
{
    struct unseen *unseen = mem_alloc(sizeof(*unseen));

    unseen->request = *request;
    page_init(&unseen->page);
    messages_init(&unseen->messages);
    unseen->request.page = &unseen->page;
    unseen->request.messages = &unseen->messages;
    unseen->request.result = &unseen->result;
    unseen->request.number = &unseen->number;
    if (request->receipt)
        memcpy(unseen->receipt, request->receipt, QUEUE_RECEIPT_MAX);
    unseen->request.receipt = unseen->receipt;
    return unseen;
}

static void unseen_free(struct unseen *unseen)
{
    page_done(&unseen->page);
    messages_done(&unseen->messages);
    mem_free(unseen);
}

static enum tw_err send_unseen(struct faulty *faulty, struct unseen *unseen)
{
    struct attempt attempt = {.fence = NULL};

    return SEND[unseen->request.call](
        faulty->inner, &attempt, &unseen->request);
}

static void send_again(struct faulty *faulty, const struct request *request)
{
    struct unseen *unseen = unseen_new(request);

    (void)send_unseen(faulty, unseen);
    unseen_free(unseen);
}

/* ---- what is late ---- */

struct faulty_late {
    struct faulty_late *next;
    struct arena arena; /* of what the request names */
    struct unseen *unseen;
    struct batch batch;
    int64_t due_ms;
    unsigned due_request;
};

static struct operation *copy_operations(
    struct arena *arena, const struct batch *batch)
{
    struct operation *copies =
        arena_alloc(arena, batch->count * sizeof(*copies));

    for (size_t i = 0; i < batch->count; i++) {
        copies[i].type = batch->operations[i].type;
        entity_copy(&copies[i].entity, arena, &batch->operations[i].entity);
    }
    return copies;
}

static struct faulty_late *late_new(const struct request *request)
{
    struct faulty_late *late = mem_alloc(sizeof(*late));
    struct request *copy;

    arena_init(&late->arena);
    late->unseen = unseen_new(request);
    copy = &late->unseen->request;
    copy->name = arena_copy(&late->arena, slice_of(request->name)).at;
    copy->text = arena_copy(&late->arena, request->text);
    copy->id = arena_copy(&late->arena, request->id);
    copy->pop_receipt = arena_copy(&late->arena, request->pop_receipt);
    if (request->batch) {
        late->batch = (struct batch){copy->name,
            copy_operations(&late->arena, request->batch),
            request->batch->count};
        copy->batch = &late->batch;
    }
    return late;
}

static void late_free(struct faulty_late *late)
{
    unseen_free(late->unseen);
    arena_done(&late->arena);
    mem_free(late);
}

static void put_off(
    struct faulty *faulty, const struct request *request, unsigned n)
{
    struct faulty_late *late = late_new(request), **end;
    uint64_t spread = (uint64_t)faulty->late_spread_ms + 1;

    late->due_ms = world_boot_ms() + faulty->late_ms +
                   (int64_t)draw(faulty, n, WHICH_MOMENT, spread);
    late->due_request = n + 1 + faulty->late_requests;
    world_lock(&faulty->mutex);
    for (end = &faulty->late; *end; end = &(*end)->next)
        continue;
    *end = late;
    world_unlock(&faulty->mutex);
}

/* The first that is due is taken out of the list; NULL: none. */
static struct faulty_late *take_due(struct faulty *faulty, int64_t now_ms)
{
    struct faulty_late **at, *late = NULL;

    world_lock(&faulty->mutex);
    for (at = &faulty->late; *at && !late;) {
        bool due =
            (*at)->due_ms <= now_ms && (*at)->due_request <= faulty->requests;

        if (due || now_ms == INT64_MAX) {
            late = *at;
            *at = late->next;
        } else {
            at = &(*at)->next;
        }
    }
    world_unlock(&faulty->mutex);
    return late;
}

void faulty_land(struct faulty *faulty, int64_t now_ms)
{
    struct faulty_late *late;

    while ((late = take_due(faulty, now_ms)) != NULL) {
        bool taken = send_unseen(faulty, late->unseen) == TW_OK;

        world_lock(&faulty->mutex);
        faulty->landed++;
        faulty->changed_late += taken;
        world_unlock(&faulty->mutex);
        late_free(late);
    }
}

/* ---- one request ---- */

static void wait_ms(struct faulty *faulty, int64_t ms)
{
    int64_t until_ms = world_boot_ms() + ms;

    world_lock(&faulty->mutex);
    while (world_boot_ms() < until_ms)
        (void)world_wait(&faulty->never, &faulty->mutex, until_ms);
    world_unlock(&faulty->mutex);
}

/* The fence is asked where a store asks it, for a request that gets no
 * further than here. */
static bool stays_away(
    const struct effect *effect, struct attempt *attempt, enum tw_err *ret)
{
    if (effect->applied > 0 || fence_open(attempt->fence, world_boot_ms()))
        return false;
    *ret = err_fail(&attempt->err, TW_STOPPED, "the fence is shut");
    return true;
}

static enum tw_err meet(struct faulty *faulty, enum fault fault, unsigned n,
    struct attempt *attempt, const struct request *request)
{
    const struct effect *effect = &EFFECTS[fault];
    enum tw_err code;

    if (stays_away(effect, attempt, &code))
        return code;
    if (fault == FAULT_LATE)
        put_off(faulty, request, n);
    if (effect->applied == 0)
        return tell(faulty, fault, request->call, attempt);
    if (fault == FAULT_TWICE && fence_open(attempt->fence, world_boot_ms()))
        send_again(faulty, request);
    code = SEND[request->call](faulty->inner, attempt, request);
    if (code == TW_STOPPED)
        return code;
    if (fault == FAULT_TWICE_UNSEEN)
        send_again(faulty, request);
    if (fault == FAULT_DELAY)
        wait_ms(faulty, faulty->delay_ms);
    if (fault == FAULT_LOSE_ANSWER)
        return tell(faulty, fault, request->call, attempt);
    return code;
}

static enum tw_err plain(
    struct store *store, struct attempt *attempt, const struct request *request)
{
    struct faulty *faulty = (struct faulty *)store;
    unsigned n;
    enum fault fault = choose(faulty, request->call, &n);

    return meet(faulty, fault, n, attempt, request);
}

/* ---- scans ---- */

static enum tw_err look_at_scan(struct faulty *faulty, struct attempt *attempt,
    const struct scan_request *request)
{
    unsigned scans = faulty_calls(faulty, FAULTY_SCAN);
    enum tw_err code = TW_OK;

    world_lock(&faulty->mutex);
    if (scans < 64)
        faulty->tops[scans] = request->top;
    if (faulty->expire_token > 0 && request->from.more &&
        scans + 1 >= faulty->expire_token) {
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
    attempt->sent_ms = world_boot_ms();
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
    const struct scan_request *scan, struct page *ret)
{
    struct faulty *faulty = (struct faulty *)store;
    enum tw_err code = look_at_scan(faulty, attempt, scan);
    unsigned n;
    enum fault fault = choose(faulty, FAULTY_SCAN, &n);
    struct scan_request limited = limit(faulty, fault, scan);
    struct request request = {
        .call = FAULTY_SCAN, .scan = &limited, .page = ret};

    if (code != TW_OK)
        return code;
    if (fault == FAULT_EMPTY_PAGE &&
        fence_open(attempt->fence, world_boot_ms()))
        return empty_page(attempt, scan, ret);
    return meet(faulty, fault, n, attempt, &request);
}

/* ---- batches ---- */

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

/* The index of a key that is refused, or batch->count. */
static size_t find_refused(const struct faulty *faulty, enum fault fault,
    unsigned n, const struct batch *batch)
{
    size_t at = 0;

    if (fault == FAULT_ONE_KEY)
        return (size_t)draw(faulty, n, WHICH_KEY, batch->count);
    if (!faulty->refused_key || EFFECTS[fault].applied == 0)
        return batch->count;
    while (at < batch->count &&
           !slice_is(batch->operations[at].entity.row_key, faulty->refused_key))
        at++;
    return at;
}

static enum tw_err refuse(struct faulty *faulty, struct attempt *attempt,
    size_t refused, struct batch_result *ret)
{
    if (!faulty->refusal_unnamed)
        ret->failed = refused;
    attempt->date_ticks = world_wall_ticks();
    return say(attempt, faulty->refusal ? faulty->refusal : TW_CONFLICT,
        "refused as the test wants");
}

static enum tw_err meet_batch(struct faulty *faulty, enum fault fault,
    unsigned n, struct attempt *attempt, const struct request *request)
{
    const struct batch *batch = request->batch;
    size_t refused = find_refused(faulty, fault, n, batch);
    enum tw_err code;

    if (faulty->before)
        faulty->before(faulty->ctx, batch);
    request->result->failed = batch->count;
    if (refused < batch->count && fence_open(attempt->fence, world_boot_ms()))
        return refuse(faulty, attempt, refused, request->result);
    code = meet(faulty, fault, n, attempt, request);
    if (fault == FAULT_NO_INDEX || fault == FAULT_LOSE_ANSWER)
        request->result->failed = batch->count;
    return code;
}

static enum tw_err faulty_batch(struct store *store, struct attempt *attempt,
    const struct batch *batch, struct batch_result *ret)
{
    struct faulty *faulty = (struct faulty *)store;
    struct request request = {.call = FAULTY_BATCH,
        .name = batch->table,
        .batch = batch,
        .result = ret};
    unsigned n;
    enum fault fault = choose(faulty, FAULTY_BATCH, &n);
    enum tw_err code;

    batch_begins(faulty, batch);
    code = meet_batch(faulty, fault, n, attempt, &request);
    batch_ends(faulty);
    return code;
}

/* ---- the other calls ---- */

static enum tw_err faulty_get(struct store *store, struct attempt *attempt,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct request request = {.call = FAULTY_GET,
        .name = table,
        .partition_key = partition_key,
        .row_key = row_key,
        .page = ret};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_create_table(
    struct store *store, struct attempt *attempt, const char *table)
{
    struct request request = {.call = FAULTY_CREATE_TABLE, .name = table};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_list_tables(struct store *store,
    struct attempt *attempt, struct continuation from, struct page *ret)
{
    struct request request = {
        .call = FAULTY_LIST_TABLES, .from = from, .page = ret};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_create(
    struct store *store, struct attempt *attempt, const char *queue)
{
    struct request request = {.call = FAULTY_QUEUE_CREATE, .name = queue};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_put(struct store *store,
    struct attempt *attempt, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret)
{
    struct request request = {.call = FAULTY_QUEUE_PUT,
        .name = queue,
        .text = text,
        .seconds = hide_s,
        .messages = ret};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_get(struct store *store,
    struct attempt *attempt, const char *queue, unsigned count,
    int64_t visibility_timeout_s, struct messages *ret)
{
    struct request request = {.call = FAULTY_QUEUE_GET,
        .name = queue,
        .count = count,
        .seconds = visibility_timeout_s,
        .messages = ret};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_renew(struct store *store,
    struct attempt *attempt, const char *queue, struct slice id,
    char *pop_receipt, int64_t hide_s)
{
    struct request request = {.call = FAULTY_QUEUE_RENEW,
        .name = queue,
        .id = id,
        .receipt = pop_receipt,
        .seconds = hide_s};
    char before[QUEUE_RECEIPT_MAX];
    enum tw_err code;

    memcpy(before, pop_receipt, sizeof(before));
    code = plain(store, attempt, &request);
    if (code != TW_OK) /* an answer that was lost brings no receipt */
        memcpy(pop_receipt, before, sizeof(before));
    return code;
}

static enum tw_err faulty_queue_delete(struct store *store,
    struct attempt *attempt, const char *queue, struct slice id,
    struct slice pop_receipt)
{
    struct request request = {.call = FAULTY_QUEUE_DELETE,
        .name = queue,
        .id = id,
        .pop_receipt = pop_receipt};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_peek(struct store *store,
    struct attempt *attempt, const char *queue, unsigned count,
    struct messages *ret)
{
    struct request request = {.call = FAULTY_QUEUE_PEEK,
        .name = queue,
        .count = count,
        .messages = ret};

    return plain(store, attempt, &request);
}

static enum tw_err faulty_queue_count(struct store *store,
    struct attempt *attempt, const char *queue, int64_t *ret)
{
    struct request request = {
        .call = FAULTY_QUEUE_COUNT, .name = queue, .number = ret};

    return plain(store, attempt, &request);
}

static void faulty_close(struct store *store)
{
    store_close(((struct faulty *)store)->inner);
}

/* ---- the whole ---- */

unsigned faulty_calls(struct faulty *faulty, enum faulty_call call)
{
    unsigned calls;

    world_lock(&faulty->mutex);
    calls = faulty->calls[call];
    world_unlock(&faulty->mutex);
    return calls;
}

void faulty_init(struct faulty *faulty, struct store *inner)
{
    static const struct store_ops ops = {
        .create_table = faulty_create_table,
        .list_tables = faulty_list_tables,
        .scan = faulty_scan,
        .get = faulty_get,
        .batch = faulty_batch,
        .queue_create = faulty_queue_create,
        .queue_put = faulty_queue_put,
        .queue_get = faulty_queue_get,
        .queue_renew = faulty_queue_renew,
        .queue_delete = faulty_queue_delete,
        .queue_peek = faulty_queue_peek,
        .queue_count = faulty_queue_count,
        .close = faulty_close,
    };

    *faulty = (struct faulty){
        .store = {.ops = &ops, .traits = inner->traits, .name = "faulty"},
        .inner = inner,
        .hint_ms = 1,
        .delay_ms = 100,
    };
    world_mutex_init(&faulty->mutex);
    world_cond_init(&faulty->never);
}

void faulty_done(struct faulty *faulty)
{
    while (faulty->late) {
        struct faulty_late *late = faulty->late;

        faulty->late = late->next;
        late_free(late);
    }
    world_cond_done(&faulty->never);
    world_mutex_done(&faulty->mutex);
}

void faulty_seed(struct faulty *faulty, uint64_t seed,
    const struct faulty_share *shares, size_t count)
{
    faulty->choose = NULL;
    faulty->seed = seed;
    faulty->shares = shares;
    faulty->share_count = count;
}
