/* SPDX-License-Identifier: MIT */
/*
 * Most faults are rows of a table: how often the inner store gets the request,
 * and what the caller is told. The other cases have code of their own: late
 * writes, pages and refused keys.
 */
#include "tests/support/faulty.h"

#include <string.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

/* ---- the faults ---- */

struct effect {
    unsigned calls;   /* the calls that can meet it */
    unsigned applied; /* how often the inner store gets the request */
    bool sent;        /* bytes of the request were sent to the service */
    bool hinted;
    int status;           /* of the answer; 0: there was no answer */
    enum tw_err read;     /* what the caller of a read is told, ... */
    enum tw_err write;    /* ... of a write; TW_OK: what the store says */
    const char *sentence; /* ... with this message */
};

static const struct effect EFFECTS[FAULTS] = {
    [FAULT_NONE] = {CALL_ALL, 1, true, false, 200, TW_OK, TW_OK, NULL},
    [FAULT_UNSENT] = {CALL_ALL, 0, false, false, 0, TW_BUSY, TW_BUSY,
        "no connection, as the test wants"},
    [FAULT_BUSY] = {CALL_ALL, 0, true, false, 503, TW_BUSY, TW_BUSY,
        "503 ServerBusy, as the test wants"},
    [FAULT_BUSY_HINTED] = {CALL_ALL, 0, true, true, 503, TW_BUSY, TW_BUSY,
        "503 ServerBusy for a moment, as the test wants"},
    [FAULT_ERROR] = {CALL_ALL, 0, true, false, 500, TW_BUSY, TW_UNKNOWN,
        "500 InternalError, as the test wants"},
    [FAULT_ERROR_HINTED] = {CALL_ALL, 0, true, true, 500, TW_BUSY, TW_UNKNOWN,
        "500 InternalError for a moment"},
    [FAULT_LOSE_REQUEST] = {CALL_ALL, 0, true, false, 0, TW_UNKNOWN, TW_UNKNOWN,
        "the request was lost, as the test wants"},
    [FAULT_LOSE_ANSWER] = {CALL_ALL, 1, true, false, 0, TW_UNKNOWN, TW_UNKNOWN,
        "the answer was lost, as the test wants"},
    [FAULT_REFUSED] = {CALL_ALL, 0, true, false, 403, TW_REFUSED, TW_REFUSED,
        "403 refused, as the test wants"},
    [FAULT_DELAY] = {CALL_ALL, 1, true, false, 200, TW_OK, TW_OK, NULL},
    [FAULT_LATE] = {CALL_WRITES, 0, true, false, 0, TW_UNKNOWN, TW_UNKNOWN,
        "no answer in time, as the test wants"},
    [FAULT_TWICE] = {CALL_WRITES, 2, true, false, 200, TW_OK, TW_OK, NULL},
    [FAULT_TWICE_UNSEEN] = {CALL_WRITES, 2, true, false, 200, TW_OK, TW_OK,
        NULL},
    [FAULT_NO_INDEX] = {CALL_SET(CALL_BATCH), 1, true, false, 200, TW_OK, TW_OK,
        NULL},
    [FAULT_ONE_KEY] = {CALL_SET(CALL_BATCH), 0, true, false, 412, TW_CONFLICT,
        TW_CONFLICT, "one key is refused, as the test wants"},
    [FAULT_SHORT_PAGE] = {CALL_SET(CALL_SCAN), 1, true, false, 200, TW_OK,
        TW_OK, NULL},
    [FAULT_EMPTY_PAGE] = {CALL_SET(CALL_SCAN), 0, true, false, 200, TW_OK,
        TW_OK, NULL},
};

/* Returns whether a request of this call can meet the fault. */
static bool happens(enum fault fault, enum store_call call)
{
    return call_in(EFFECTS[fault].calls, call);
}

static enum tw_err say(
    struct exchange *exchange, enum tw_err outcome, const char *what)
{
    if (exchange->sent_ms == 0)
        exchange->sent_ms = platform_boot_ms();
    return err_fail(&exchange->err, outcome, "%s", what);
}

/* Sets what the caller is told of a fault, whatever the store has said. */
static enum tw_err tell(const struct faulty *faulty, enum fault fault,
    enum store_call call, struct exchange *exchange)
{
    const struct effect *effect = &EFFECTS[fault];
    enum tw_err outcome =
        call_in(CALL_READS, call) ? effect->read : effect->write;

    exchange->http_status = effect->status;
    exchange->date_ticks = effect->status > 0 ? platform_wall_ticks() : 0;
    exchange->retry_after_ms = effect->hinted ? faulty->hint_ms : -1;
    if (effect->sent)
        return say(exchange, outcome, effect->sentence);
    exchange->sent_ms = 0;
    return err_fail(&exchange->err, outcome, "%s", effect->sentence);
}

/* ---- the choice of the fault ---- */

static uint64_t mix(uint64_t x)
{
    return hash_mix(x + UINT64_C(0x9e3779b97f4a7c15));
}

/* Returns a number below limit for the n-th request. For each purpose it is
 * another number. */
static uint64_t draw(
    const struct faulty *faulty, unsigned n, unsigned purpose, uint64_t limit)
{
    return mix(faulty->seed ^ mix(((uint64_t)purpose << 32) | n)) % limit;
}

enum purpose { WHICH_FAULT, WHICH_KEY, WHICH_MOMENT };

static enum fault by_share(
    const struct faulty *faulty, enum store_call call, unsigned n)
{
    uint64_t drawn = draw(faulty, n, WHICH_FAULT, 1000);

    for (size_t i = 0; i < faulty->share_count; i++) {
        const struct faulty_share *share = &faulty->shares[i];

        if (!call_in(share->calls, call) || !happens(share->fault, call))
            continue;
        if (drawn < share->per_mille)
            return share->fault;
        drawn -= share->per_mille;
    }
    return FAULT_NONE;
}

/* Returns what this request meets, and in *ret_n its number. */
static enum fault choose(
    struct faulty *faulty, enum store_call call, unsigned *ret_n)
{
    enum fault fault;

    faulty_land(faulty, platform_boot_ms());
    platform_lock(&faulty->mutex);
    *ret_n = faulty->requests++;
    if (faulty->choose)
        fault = faulty->choose(faulty->ctx, call, faulty->calls[call]);
    else
        fault = by_share(faulty, call, *ret_n);
    if (!happens(fault, call))
        fault = FAULT_NONE;
    faulty->calls[call]++;
    faulty->met[fault]++;
    platform_unlock(&faulty->mutex);
    return fault;
}

/* ---- requests whose answer the caller does not get ---- */

static enum tw_err send_unseen(struct faulty *faulty, struct request_copy *copy)
{
    struct exchange exchange = {.deadline = NULL};

    return request_send(faulty->outer.inner, &exchange, &copy->request);
}

static void send_again(
    struct faulty *faulty, const struct store_request *request)
{
    struct request_copy *copy = request_copy(request);

    (void)send_unseen(faulty, copy);
    request_copy_free(copy);
}

/* ---- late writes ---- */

struct faulty_late {
    struct faulty_late *next;
    struct request_copy *copy;
    int64_t due_ms;
    unsigned due_request;
};

static void late_free(struct faulty_late *late)
{
    request_copy_free(late->copy);
    mem_free(late);
}

static void put_off(
    struct faulty *faulty, const struct store_request *request, unsigned n)
{
    struct faulty_late *late = mem_alloc(sizeof(*late)), **end;
    uint64_t spread = (uint64_t)faulty->late_spread_ms + 1;

    late->copy = request_copy(request);
    late->due_ms = platform_boot_ms() + faulty->late_ms +
                   (int64_t)draw(faulty, n, WHICH_MOMENT, spread);
    late->due_request = n + 1 + faulty->late_requests;
    platform_lock(&faulty->mutex);
    for (end = &faulty->late; *end; end = &(*end)->next)
        continue;
    *end = late;
    platform_unlock(&faulty->mutex);
}

/* Removes the first late write that is due from the list and returns it; NULL:
 * none is due. */
static struct faulty_late *take_due(struct faulty *faulty, int64_t now_ms)
{
    struct faulty_late **at, *late = NULL;

    platform_lock(&faulty->mutex);
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
    platform_unlock(&faulty->mutex);
    return late;
}

void faulty_land(struct faulty *faulty, int64_t now_ms)
{
    struct faulty_late *late;

    while ((late = take_due(faulty, now_ms)) != NULL) {
        bool taken = send_unseen(faulty, late->copy) == TW_OK;

        platform_lock(&faulty->mutex);
        faulty->landed++;
        faulty->changed_late += taken;
        platform_unlock(&faulty->mutex);
        late_free(late);
    }
}

/* ---- one request ---- */

static void wait_ms(struct faulty *faulty, int64_t ms)
{
    int64_t until_ms = platform_boot_ms() + ms;

    platform_lock(&faulty->mutex);
    while (platform_boot_ms() < until_ms)
        (void)platform_wait(&faulty->never, &faulty->mutex, until_ms);
    platform_unlock(&faulty->mutex);
}

/* For a request that the inner store does not get: checks the deadline, as the
 * inner store would. True: the deadline has passed; *ret is the outcome. */
static bool stays_away(
    const struct effect *effect, struct exchange *exchange, enum tw_err *ret)
{
    if (effect->applied > 0 ||
        deadline_is_open(exchange->deadline, platform_boot_ms()))
        return false;
    *ret = err_fail(&exchange->err, TW_STOPPED, "the deadline has passed");
    return true;
}

static enum tw_err meet(struct faulty *faulty, enum fault fault, unsigned n,
    struct exchange *exchange, const struct store_request *request)
{
    const struct effect *effect = &EFFECTS[fault];
    enum tw_err outcome;

    if (stays_away(effect, exchange, &outcome))
        return outcome;
    if (fault == FAULT_LATE)
        put_off(faulty, request, n);
    if (effect->applied == 0)
        return tell(faulty, fault, request->call, exchange);
    if (fault == FAULT_TWICE &&
        deadline_is_open(exchange->deadline, platform_boot_ms()))
        send_again(faulty, request);
    outcome = request_send(faulty->outer.inner, exchange, request);
    if (outcome == TW_STOPPED)
        return outcome;
    if (fault == FAULT_TWICE_UNSEEN)
        send_again(faulty, request);
    if (fault == FAULT_DELAY)
        wait_ms(faulty, faulty->delay_ms);
    if (fault == FAULT_LOSE_ANSWER)
        return tell(faulty, fault, request->call, exchange);
    return outcome;
}

/* ---- scans ---- */

static enum tw_err look_at_scan(struct faulty *faulty,
    struct exchange *exchange, const struct scan_request *request)
{
    unsigned scans = faulty_calls(faulty, CALL_SCAN);
    enum tw_err outcome = TW_OK;

    platform_lock(&faulty->mutex);
    if (scans < 64)
        faulty->tops[scans] = request->top;
    if (faulty->expire_token > 0 && request->from.more &&
        scans + 1 >= faulty->expire_token) {
        faulty->expire_token = 0;
        outcome = TW_INVALID;
    } else if (faulty->refuse_scans ||
               (faulty->top_max > 0 && request->top > faulty->top_max)) {
        outcome = TW_TOO_LARGE;
    }
    platform_unlock(&faulty->mutex);
    return outcome == TW_OK ? TW_OK
                            : say(exchange, outcome, "as the test wants");
}

/* Continuation tokens of empty pages. BEGINNING stands for the start of the
 * table. An empty page returns the token of its request with one more AGAIN
 * before it, so that no token comes twice in a row. No key has these texts. */
#define BEGINNING "the beginning"
#define AGAIN '\x01'

static struct slice add_again(struct arena *arena, struct slice token)
{
    return arena_format(arena, "%c%.*s", AGAIN, SLICE_ARG(token));
}

static struct slice without_again(struct slice token)
{
    while (token.len > 0 && token.at[0] == AGAIN) {
        token.at++;
        token.len--;
    }
    return token;
}

/* Returns an empty page that continues where the request began. The service may
 * answer any scan with such a page. */
static enum tw_err empty_page(struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    struct continuation from = request->from;

    if (!from.more)
        from.partition_key = slice_of(BEGINNING);
    page_done(ret);
    page_init(ret);
    ret->next = (struct continuation){
        .partition_key = add_again(&ret->arena, from.partition_key),
        .row_key = arena_copy(&ret->arena, from.row_key),
        .more = true};
    exchange->sent_ms = platform_boot_ms();
    exchange->date_ticks = platform_wall_ticks();
    return TW_OK;
}

static struct scan_request limit(const struct faulty *faulty, enum fault fault,
    const struct scan_request *request)
{
    struct scan_request limited = *request;
    unsigned most = fault == FAULT_SHORT_PAGE ? 1 : faulty->page_max;

    if (most > 0 && (limited.top == 0 || limited.top > most))
        limited.top = most;
    limited.from.partition_key = without_again(limited.from.partition_key);
    if (slice_is(limited.from.partition_key, BEGINNING))
        limited.from = (struct continuation){.more = false};
    return limited;
}

static enum tw_err meet_scan(struct faulty *faulty, struct exchange *exchange,
    const struct store_request *request)
{
    enum tw_err outcome = look_at_scan(faulty, exchange, request->scan);
    unsigned n;
    enum fault fault = choose(faulty, CALL_SCAN, &n);
    struct scan_request limited = limit(faulty, fault, request->scan);
    struct store_request sent = *request;

    if (outcome != TW_OK)
        return outcome;
    if (fault == FAULT_EMPTY_PAGE &&
        deadline_is_open(exchange->deadline, platform_boot_ms()))
        return empty_page(exchange, request->scan, request->page);
    sent.scan = &limited;
    return meet(faulty, fault, n, exchange, &sent);
}

/* ---- batches ---- */

static void batch_begins(struct faulty *faulty, const struct batch *batch)
{
    platform_lock(&faulty->mutex);
    faulty->operations += (unsigned)batch->count;
    if (batch->count > faulty->largest_batch)
        faulty->largest_batch = batch->count;
    if (++faulty->running > faulty->most_running)
        faulty->most_running = faulty->running;
    platform_unlock(&faulty->mutex);
}

static void batch_ends(struct faulty *faulty)
{
    platform_lock(&faulty->mutex);
    faulty->running--;
    platform_unlock(&faulty->mutex);
}

/* Returns the index of the operation whose key is refused, or batch->count. */
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

static enum tw_err refuse(struct faulty *faulty, struct exchange *exchange,
    size_t refused, struct batch_result *ret)
{
    if (!faulty->refusal_unnamed)
        ret->failed = refused;
    exchange->date_ticks = platform_wall_ticks();
    return say(exchange, faulty->refusal ? faulty->refusal : TW_CONFLICT,
        "refused as the test wants");
}

static enum tw_err apply_batch(struct faulty *faulty, enum fault fault,
    unsigned n, struct exchange *exchange, const struct store_request *request)
{
    const struct batch *batch = request->batch;
    size_t refused = find_refused(faulty, fault, n, batch);
    enum tw_err outcome;

    if (faulty->before) {
        (void)pthread_mutex_lock(&faulty->turn);
        faulty->before(faulty->ctx, batch);
        (void)pthread_mutex_unlock(&faulty->turn);
    }
    request->result->failed = batch->count;
    if (refused < batch->count &&
        deadline_is_open(exchange->deadline, platform_boot_ms()))
        return refuse(faulty, exchange, refused, request->result);
    outcome = meet(faulty, fault, n, exchange, request);
    if (fault == FAULT_NO_INDEX || outcome == TW_UNKNOWN)
        request->result->failed = batch->count;
    return outcome;
}

static enum tw_err meet_batch(struct faulty *faulty, struct exchange *exchange,
    const struct store_request *request)
{
    unsigned n;
    enum fault fault = choose(faulty, CALL_BATCH, &n);
    enum tw_err outcome;

    batch_begins(faulty, request->batch);
    outcome = apply_batch(faulty, fault, n, exchange, request);
    batch_ends(faulty);
    return outcome;
}

static enum tw_err meet_any(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct faulty *faulty = (struct faulty *)self;
    char before[QUEUE_RECEIPT_MAX];
    enum fault fault;
    enum tw_err outcome;
    unsigned n;

    if (request->call == CALL_SCAN)
        return meet_scan(faulty, exchange, request);
    if (request->call == CALL_BATCH)
        return meet_batch(faulty, exchange, request);
    if (request->receipt)
        memcpy(before, request->receipt, sizeof(before));
    fault = choose(faulty, request->call, &n);
    outcome = meet(faulty, fault, n, exchange, request);
    if (outcome != TW_OK) /* the answer was lost, with all that it brought */
        request_forget(request, before);
    return outcome;
}

/* ---- the store ---- */

unsigned faulty_calls(struct faulty *faulty, enum store_call call)
{
    unsigned calls;

    platform_lock(&faulty->mutex);
    calls = faulty->calls[call];
    platform_unlock(&faulty->mutex);
    return calls;
}

void faulty_init(struct faulty *faulty, struct store *inner)
{
    pthread_mutexattr_t again;

    *faulty = (struct faulty){.hint_ms = 1, .delay_ms = 100};
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&faulty->turn, &again);
    (void)pthread_mutexattr_destroy(&again);
    interposed_init(&faulty->outer, "faulty", inner, meet_any);
    platform_mutex_init(&faulty->mutex);
    platform_cond_init(&faulty->never);
}

void faulty_done(struct faulty *faulty)
{
    while (faulty->late) {
        struct faulty_late *late = faulty->late;

        faulty->late = late->next;
        late_free(late);
    }
    platform_cond_done(&faulty->never);
    platform_mutex_done(&faulty->mutex);
    (void)pthread_mutex_destroy(&faulty->turn);
}

void faulty_seed(struct faulty *faulty, uint64_t seed,
    const struct faulty_share *shares, size_t count)
{
    faulty->choose = NULL;
    faulty->seed = seed;
    faulty->shares = shares;
    faulty->share_count = count;
}
