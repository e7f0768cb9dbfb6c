/* SPDX-License-Identifier: MIT */
/*
 * Front end of both stores: arguments and the deadline are checked once here,
 * and results are reset, so that an implementation gets only valid calls and
 * starts from a clean state.
 */
#include "worker/store/store.h"

#include <string.h>
#include <strings.h>

#include "worker/base/hash.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/store/lease_clock.h"
#include "worker/store/meter.h"

#define SCAN_MAX_BYTES (32 * 1024 * 1024)
#define SELECT_MAX 255
#define QUEUE_MAX_HIDE_S 604800

bool store_same(const struct store *a, const struct store *b)
{
    if (a == b)
        return true;
    return a->capabilities.endpoint && b->capabilities.endpoint &&
           strcasecmp(a->capabilities.endpoint, b->capabilities.endpoint) == 0;
}

/* ---- pages, messages ---- */

void page_init(struct page *page)
{
    *page = (struct page){0};
    arena_init(&page->arena);
    arena_init_small(&page->next_arena);
    buf_init(&page->body, 0);
}

void page_done(struct page *page)
{
    arena_done(&page->arena);
    arena_done(&page->next_arena);
    buf_done(&page->body);
    page_init(page);
}

void page_clear(struct page *page)
{
    arena_clear(&page->arena);
    buf_clear(&page->body);
    page->entities = NULL;
    page->count = 0;
    page->next = (struct continuation){0};
}

void messages_init(struct messages *messages)
{
    arena_init(&messages->arena);
    messages->count = 0;
}

void messages_done(struct messages *messages)
{
    arena_done(&messages->arena);
    messages->count = 0;
}

static void messages_clear(struct messages *messages)
{
    arena_clear(&messages->arena);
    messages->count = 0;
}

/* ---- ranges of keys ---- */

struct key_range key_range_exact(struct slice key)
{
    return (struct key_range){.has_from = true, .exact = true, .from = key};
}

/* Returns how many bytes the last code point of valid UTF-8 takes. */
static size_t last_code_point_bytes(struct slice text)
{
    size_t len = 1;

    while (len < text.len && (text.at[text.len - len] & 0xc0) == 0x80)
        len++;
    return len;
}

/*
 * Returns a code point that is greater than c in both orders of texts (by code
 * point and by UTF-16 unit); 0: there is none. Surrogates are not code points,
 * so after U+D7FF comes U+10000, which begins with D800 in UTF-16. U+FFFF has
 * none: each greater code point begins with a surrogate in UTF-16, which is
 * less than FFFF.
 */
static uint32_t next_code_point(uint32_t c)
{
    if (c == 0xffff || c >= 0x10ffff)
        return 0;
    return c == 0xd7ff ? 0x10000 : c + 1;
}

/*
 * Finds a key above all keys that begin with prefix, in both orders. The last
 * code point of prefix for which next_code_point() returns a result is replaced
 * by the result, and all code points after it are dropped. So the first
 * difference between the new key and a key that begins with prefix is at that
 * code point, where the new key is greater in both orders. False: there is no
 * such key.
 */
static bool bound_above(
    struct slice prefix, struct arena *arena, struct slice *ret)
{
    struct slice kept = prefix;

    while (kept.len > 0) {
        size_t bytes = last_code_point_bytes(kept), len;
        struct slice last = {kept.at + kept.len - bytes, bytes};
        uint32_t next = next_code_point(text_decode(last, &len));

        kept.len -= bytes;
        if (next != 0) {
            struct buf key;

            buf_init(&key, kept.len + 4);
            buf_add_slice(&key, kept);
            text_encode(&key, next);
            *ret = arena_copy(arena, buf_slice(&key));
            buf_done(&key);
            return true;
        }
    }
    return false;
}

struct key_range key_range_prefix(struct slice prefix, struct arena *arena)
{
    struct key_range range = {0};

    if (prefix.len == 0)
        return range;
    range.has_from = true;
    range.from = prefix;
    range.has_below = bound_above(prefix, arena, &range.below);
    return range;
}

/*
 * Returns the start of text, up to the first code point whose rank differs
 * between the two orders (U+E000 and more; surrogates are not code points). If
 * two texts differ within this start, both orders put the same one first.
 */
static struct slice agreed(struct slice text)
{
    static const unsigned char first_lead = 0xee; /* first byte of U+E000 */
    struct slice kept = {text.at, 0};

    while (kept.len < text.len && (unsigned char)text.at[kept.len] < first_lead)
        kept.len++;
    return kept;
}

struct key_range key_range_between(
    const struct slice *from, const struct slice *below, struct arena *arena)
{
    struct key_range range = {0};

    if (from && from->len > 0) {
        range.from = agreed(*from);
        range.has_from = range.from.len > 0;
    }
    if (below) {
        struct slice bound = agreed(*below);

        range.has_below = true;
        range.below = *below;
        if (bound.len < below->len)
            range.has_below =
                bound.len > 0 && bound_above(bound, arena, &range.below);
    }
    return range;
}

bool key_range_has(const struct key_range *range, struct slice key)
{
    if (range->exact)
        return slice_equal(range->from, key);
    if (range->has_from) {
        int order = text_utf16_compare(key, range->from);

        if (order < 0 || (order == 0 && range->from_exclusive))
            return false;
    }
    return !range->has_below || text_utf16_compare(key, range->below) < 0;
}

/* ---- what every call begins and ends with ---- */

static enum store_service service_of(enum meter_operation operation)
{
    return operation < METER_QUEUE_CREATE ? SERVICE_TABLES : SERVICE_QUEUES;
}

static enum tw_err begin(struct exchange *exchange)
{
    exchange->sent_ms = 0;
    exchange->date_ticks = 0;
    exchange->retry_after_ms = -1;
    exchange->http_status = 0;
    exchange->breaker_open = exchange->reached = false;
    exchange->err.text[0] = '\0';
    if (deadline_is_open(exchange->deadline, platform_boot_ms()))
        return TW_OK;
    return err_fail(&exchange->err, TW_STOPPED,
        "the deadline has passed; nothing was sent");
}

/* Makes the last checks before a request is sent. change: the part of the error
 * text that says what a read-only store cannot do; NULL: the request changes
 * nothing. */
static enum tw_err may_send(struct store *store, enum meter_operation operation,
    struct exchange *exchange, const char *change)
{
    struct breaker *breaker = &store->breakers[service_of(operation)];
    int64_t wait_ms;
    char cause[BREAKER_CAUSE_MAX];

    if (change && store->read_only)
        return err_fail(&exchange->err, TW_INVALID,
            "store '%s' is open for reading only: %s; nothing was sent",
            store->name, change);
    exchange->began_ms = platform_boot_ms();
    wait_ms = breaker_wait_ms(breaker, exchange->began_ms);
    if (wait_ms == 0)
        return TW_OK;
    breaker_cause(breaker, cause);
    exchange->retry_after_ms = wait_ms;
    exchange->breaker_open = true;
    return err_fail(&exchange->err, TW_BUSY, "store '%s' does not respond: %s",
        store->name, cause);
}

/* Did the exchange get a response? Any HTTP status is a response. */
static bool is_response(const struct exchange *exchange, enum tw_err outcome)
{
    return (outcome != TW_BUSY && outcome != TW_UNKNOWN) ||
           exchange->http_status != 0;
}

bool store_last_date(struct store *store, struct lease_response *ret)
{
    spin_lock_acquire(&store->dated_lock);
    *ret = store->dated;
    spin_lock_release(&store->dated_lock);
    return ret->date_ticks != 0;
}

/* Records the Date of a table service; clocks of queue services are ignored. */
static void note_date(struct store *store, enum store_service service,
    const struct exchange *exchange)
{
    struct lease_response response = {.date_ticks = exchange->date_ticks,
        .sent_ms = exchange->sent_ms,
        .answered_ms = platform_boot_ms() + 1}; /* the clock rounds down */

    if (service != SERVICE_TABLES || exchange->date_ticks == 0)
        return;
    if (exchange->deadline && exchange->deadline->clock)
        lease_clock_note(exchange->deadline->clock, store, &response);
    spin_lock_acquire(&store->dated_lock);
    if (response.sent_ms >= store->dated.sent_ms)
        store->dated = response;
    spin_lock_release(&store->dated_lock);
}

/* libcurl's clock and platform_boot_ms() differ by less than this. */
#define BRIEF_SLACK_MS 100

/* Did a request end without a response because its limit is shorter than the
 * limit of a run's request? A request of a run might have had a response. */
static bool was_brief(const struct exchange *exchange)
{
    const struct deadline *deadline = exchange->deadline;

    return deadline && deadline->brief &&
           platform_boot_ms() - exchange->began_ms >=
               deadline->request_ms - BRIEF_SLACK_MS;
}

/* Call after every request: records its Date and outcome, and counts it. */
static enum tw_err note_outcome(struct store *store,
    enum meter_operation operation, struct exchange *exchange,
    enum tw_err outcome)
{
    enum store_service service = service_of(operation);
    struct breaker *breaker = &store->breakers[service];

    if (store->meter)
        meter_add(store->meter, operation, exchange, outcome,
            platform_boot_ms() - exchange->began_ms);
    note_date(store, service, exchange);
    exchange->reached = breaker_reached(breaker, exchange->sent_ms);
    atomic_store(&store->failed, outcome == TW_BUSY || outcome == TW_UNKNOWN ||
                                     outcome == TW_REFUSED ||
                                     outcome == TW_FORBIDDEN);
    if (outcome == TW_STOPPED || outcome == TW_FULL || exchange->hurried)
        return outcome; /* these outcomes show nothing about the service */
    if (is_response(exchange, outcome))
        breaker_respond(breaker, exchange->sent_ms, outcome == TW_REFUSED);
    else if (!was_brief(exchange) && breaker_fail(breaker, platform_boot_ms(),
                                         exchange->sent_ms, exchange->err.text))
        exchange->breaker_open = true;
    return outcome;
}

/* Ends a call: the last checks, the request, and recording its outcome. */
#define SEND(result, store, operation, exchange, change, request)              \
    ((result) == TW_OK && ((result) = may_send(                                \
                               store, operation, exchange, change)) == TW_OK   \
            ? note_outcome(store, operation, exchange, request)                \
            : (result))

static enum tw_err begin_table(struct exchange *exchange, const char *table)
{
    enum tw_err result = begin(exchange);

    if (result == TW_OK)
        result = entity_check_table(slice_of(table), &exchange->err);
    return result;
}

static enum tw_err begin_queue(
    struct store *store, struct exchange *exchange, const char *queue)
{
    enum tw_err result = begin(exchange);

    if (result == TW_OK)
        result = store_check_queue(slice_of(queue), &exchange->err);
    if (result == TW_OK && !store->capabilities.has_queues)
        return err_fail(&exchange->err, TW_INVALID, "store '%s' has no queues",
            store->name);
    return result;
}

static enum tw_err check_number(struct exchange *exchange, const char *what,
    int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return TW_OK;
    return err_fail(&exchange->err, TW_INVALID,
        "%s is %lld; it must be %lld to %lld", what, (long long)value,
        (long long)min, (long long)max);
}

/* ---- tables ---- */

enum tw_err store_create_table(
    struct store *store, struct exchange *exchange, const char *table)
{
    enum tw_err result = begin_table(exchange, table);

    return SEND(result, store, METER_CREATE_TABLE, exchange,
        "a table cannot be created",
        store->ops->create_table(store, exchange, table));
}

static struct continuation keep(struct continuation from, struct arena *arena)
{
    if (!from.more)
        return (struct continuation){0};
    return (struct continuation){
        .partition_key = arena_copy(arena, from.partition_key),
        .row_key = arena_copy(arena, from.row_key),
        .more = true,
        .pages = from.pages,
        .mark = from.mark,
    };
}

/*
 * Does next repeat an earlier continuation? A scan that followed it would never
 * end, and every page is paid for. One continuation is remembered, and replaced
 * each time the number of pages has doubled (Brent's algorithm). A loop of n
 * pages that begins after m pages is detected after at most 2 * max(m, n) + n +
 * 1 pages in all.
 */
static bool was_there(
    const struct continuation *from, struct continuation *next)
{
    uint64_t hash =
        hash_slice(hash_slice(HASH_BEGIN, next->partition_key), slice_of("\n"));

    hash = hash_mix(hash_slice(hash, next->row_key));
    next->pages = from->pages + 1;
    next->mark = (next->pages & from->pages) == 0 ? hash : from->mark;
    return from->pages > 0 && hash == from->mark;
}

/* Fails with TW_BUSY if the continuation repeats an earlier continuation. */
static enum tw_err check_goes_on(const char *what,
    const struct continuation *from, struct page *page, struct err *err)
{
    if (!page->next.more || !was_there(from, &page->next))
        return TW_OK;
    page->count = 0;
    page->next = (struct continuation){.more = false};
    return err_fail(err, TW_BUSY,
        "%s: the service repeated a continuation token, so the scan would "
        "never end (check the endpoint and any proxy)",
        what);
}

/* Empties the page, but moves the texts of its `next` to *ret_held, because the
 * request's `from` may point to them. */
static void begin_page(
    struct page *page, struct continuation *from, struct arena *ret_held)
{
    if (!from->more)
        *from = (struct continuation){.more = false};
    *ret_held = page->next_arena;
    arena_init_small(&page->next_arena);
    page_clear(page);
}

/* Ends the request for a page. The texts of the page's former `next`, in held,
 * are needed as long as the request may be made again. */
static enum tw_err end_page(struct page *page, struct arena *held,
    const char *what, const struct continuation *from, enum tw_err outcome,
    struct err *err)
{
    struct arena arena;

    if (outcome == TW_OK)
        outcome = check_goes_on(what, from, page, err);
    if (outcome == TW_OK) {
        arena_done(held);
        arena_init_small(&arena);
        page->next = keep(page->next, &arena);
    } else {
        arena = *held;
        page->next = (struct continuation){.more = false};
    }
    arena_done(&page->next_arena);
    page->next_arena = arena;
    return outcome;
}

enum tw_err store_list_tables(struct store *store, struct exchange *exchange,
    struct continuation from, struct page *ret)
{
    enum tw_err result = begin(exchange);
    struct arena held;

    if (result == TW_OK)
        result = may_send(store, METER_LIST_TABLES, exchange, NULL);
    if (result != TW_OK)
        return result;
    begin_page(ret, &from, &held);
    result = note_outcome(store, METER_LIST_TABLES, exchange,
        store->ops->list_tables(store, exchange, from, ret));
    return end_page(ret, &held, "list tables", &from, result, &exchange->err);
}

static enum tw_err check_select(
    struct exchange *exchange, const struct scan_request *request)
{
    enum tw_err result = check_number(exchange, "the number of selected names",
        request->select_count, 0, SELECT_MAX);

    if (request->select == NULL)
        return TW_OK;
    for (size_t i = 0; i < request->select_count && result == TW_OK; i++)
        result = entity_check_name(request->select[i], &exchange->err);
    return result;
}

/* Calls the caller's follows(), unless the continuation repeats. */
static void follow(void *context, const struct continuation *next)
{
    const struct scan_request *request = context;
    struct continuation whole = *next;

    if (!was_there(&request->from, &whole))
        request->follows(request->context, &whole);
}

enum tw_err store_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    struct scan_request whole = *request;
    enum tw_err result = begin_table(exchange, request->table);
    struct arena held;

    if (result == TW_OK)
        result =
            check_number(exchange, "top", request->top, 0, PAGE_MAX_ENTITIES);
    if (result == TW_OK)
        result = check_select(exchange, request);
    if (result == TW_OK)
        result = may_send(store, METER_SCAN, exchange, NULL);
    if (result != TW_OK)
        return result;
    if (whole.top == 0)
        whole.top = PAGE_MAX_ENTITIES;
    if (whole.max_bytes == 0)
        whole.max_bytes = SCAN_MAX_BYTES;
    if (request->follows) {
        whole.follows = follow;
        whole.context = (void *)(uintptr_t)request;
    }
    begin_page(ret, &whole.from, &held);
    result = note_outcome(store, METER_SCAN, exchange,
        store->ops->scan(store, exchange, &whole, ret));
    return end_page(
        ret, &held, request->table, &whole.from, result, &exchange->err);
}

static enum tw_err check_keys(
    struct slice partition_key, struct slice row_key, struct err *err)
{
    enum tw_err result = entity_check_key("PartitionKey", partition_key, err);

    if (result == TW_OK)
        result = entity_check_key("RowKey", row_key, err);
    return result;
}

enum tw_err store_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    enum tw_err result = begin_table(exchange, table);
    struct arena arena;

    if (result == TW_OK)
        result = check_keys(partition_key, row_key, &exchange->err);
    if (result == TW_OK)
        result = may_send(store, METER_GET, exchange, NULL);
    if (result != TW_OK)
        return result;
    arena_init(&arena);
    partition_key = arena_copy(&arena, partition_key);
    row_key = arena_copy(&arena, row_key);
    page_clear(ret);
    result = note_outcome(store, METER_GET, exchange,
        store->ops->get(store, exchange, table, partition_key, row_key, ret));
    arena_done(&arena);
    return result;
}

enum tw_err store_check_etag(struct slice etag, struct err *err)
{
    if (etag.len == 0)
        return err_fail(err, TW_INVALID,
            "the operation has no ETag: it needs the ETag that was read");
    if (slice_is(etag, "*"))
        return err_fail(err, TW_INVALID,
            "the ETag * would overwrite the entity in any state");
    for (size_t i = 0; i < etag.len; i++) {
        if (etag.at[i] < 0x20 || etag.at[i] > 0x7e)
            return err_fail(err, TW_INVALID, "the ETag has invalid characters");
    }
    return TW_OK;
}

static enum tw_err check_operation(
    const struct operation *operation, struct err *err)
{
    const struct entity *entity = &operation->entity;
    enum tw_err result = TW_OK;

    if (operation->type != OPERATION_INSERT)
        result = store_check_etag(entity->etag, err);
    if (result == TW_OK && operation->type != OPERATION_DELETE)
        return entity_check(entity, err);
    if (result == TW_OK)
        result = check_keys(entity->partition_key, entity->row_key, err);
    return result;
}

/* Are the RowKeys of the batch in ascending order, as in most batches? Then
 * none is repeated. */
static bool is_ascending(const struct batch *batch)
{
    for (size_t i = 1; i < batch->count; i++)
        if (slice_compare(batch->operations[i - 1].entity.row_key,
                batch->operations[i].entity.row_key) >= 0)
            return false;
    return true;
}

static enum tw_err check_neighbours(
    const struct batch *batch, size_t index, bool ascending, struct err *err)
{
    const struct entity *entity = &batch->operations[index].entity;

    if (!slice_equal(
            entity->partition_key, batch->operations[0].entity.partition_key))
        return err_fail(err, TW_INVALID,
            "operation %zu has a different PartitionKey than operation 1; all "
            "operations of a batch must have the same one",
            index + 1);
    for (size_t i = 0; i < index && !ascending; i++) {
        if (slice_equal(entity->row_key, batch->operations[i].entity.row_key))
            return err_fail(err, TW_INVALID,
                "operations %zu and %zu have the same RowKey; a batch may "
                "change an entity only once",
                i + 1, index + 1);
    }
    return TW_OK;
}

/* Checks the operations of a batch. *failed: the index of the invalid
 * operation; unchanged if all are valid. */
static enum tw_err check_operations(
    const struct batch *batch, size_t *failed, size_t *bytes, struct err *err)
{
    bool ascending = is_ascending(batch);

    *bytes = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        enum tw_err result = check_neighbours(batch, i, ascending, err);

        if (result == TW_OK)
            result = check_operation(operation, err);
        if (result != TW_OK) {
            *failed = i;
            return result;
        }
        if (operation->type != OPERATION_DELETE)
            *bytes += entity_json_bytes(&operation->entity);
    }
    return TW_OK;
}

static enum tw_err check_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, size_t *failed)
{
    enum tw_err result =
        check_number(exchange, "the number of operations in a batch",
            (int64_t)batch->count, 1, BATCH_MAX_OPERATIONS);
    size_t bytes;

    if (result == TW_OK)
        result = check_operations(batch, failed, &bytes, &exchange->err);
    if (result == TW_OK && bytes > store->capabilities.batch_max_bytes)
        return err_fail(&exchange->err, TW_TOO_LARGE,
            "the batch is larger than %zu bytes",
            store->capabilities.batch_max_bytes);
    return result;
}

enum tw_err store_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    enum tw_err result;

    ret->failed = batch->count;
    result = begin_table(exchange, batch->table);
    if (result == TW_OK)
        result = check_batch(store, exchange, batch, &ret->failed);
    return SEND(result, store, METER_BATCH, exchange,
        "an entity cannot be written",
        store->ops->batch(store, exchange, batch, ret));
}

/* ---- queues ---- */

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_queue_name(struct slice name)
{
    if (name.len < 3 || name.len > 63)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        bool edge = i == 0 || i == name.len - 1;

        if (is_lower_or_digit(name.at[i]))
            continue;
        if (name.at[i] != '-' || edge || name.at[i - 1] == '-')
            return false;
    }
    return true;
}

enum tw_err store_check_queue(struct slice name, struct err *err)
{
    struct buf quoted;

    if (is_queue_name(name))
        return TW_OK;
    buf_init(&quoted, 1024);
    text_quote(&quoted, name);
    err_fail(err, TW_INVALID,
        "invalid queue name %s: 3 to 63 of a-z, 0-9 and -, beginning and "
        "ending with a letter or digit, without --",
        buf_text(&quoted));
    buf_done(&quoted);
    return TW_INVALID;
}

enum tw_err store_queue_create(
    struct store *store, struct exchange *exchange, const char *queue)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    return SEND(result, store, METER_QUEUE_CREATE, exchange,
        "a queue cannot be created",
        store->ops->queue_create(store, exchange, queue));
}

/* Can the service's XML represent text? It uses XML 1.0, which cannot represent
 * most control characters and two non-characters, not even escaped. */
static bool xml_carries(struct slice text)
{
    size_t len;

    if (!text_is_utf8(text))
        return false;
    for (; text.len > 0; text.at += len, text.len -= len) {
        uint32_t c = text_decode(text, &len);

        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0xfffe ||
            c == 0xffff)
            return false;
    }
    return true;
}

static enum tw_err check_message(struct exchange *exchange, struct slice text)
{
    if (text.len > QUEUE_MAX_MESSAGE_BYTES)
        return err_fail(&exchange->err, TW_TOO_LARGE,
            "the message has %zu bytes; a queue takes at most 64 KiB",
            text.len);
    if (!xml_carries(text))
        return err_fail(&exchange->err, TW_INVALID,
            "the message has characters that a queue cannot carry as text: "
            "send it as base64");
    return TW_OK;
}

enum tw_err store_queue_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    if (result == TW_OK)
        result = check_message(exchange, text);
    if (result == TW_OK)
        result = check_number(exchange,
            "the time a message is hidden, in "
            "seconds,",
            hide_s, 0, QUEUE_MAX_HIDE_S);
    messages_clear(ret);
    return SEND(result, store, METER_QUEUE_PUT, exchange,
        "a message cannot be put",
        store->ops->queue_put(store, exchange, queue, text, hide_s, ret));
}

enum tw_err store_queue_get(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    if (result == TW_OK)
        result = check_number(
            exchange, "the number of messages", count, 1, QUEUE_MAX_GET);
    if (result == TW_OK)
        result = check_number(exchange, "the visibility timeout in seconds",
            visibility_timeout_s, 1, QUEUE_MAX_HIDE_S);
    messages_clear(ret);
    return SEND(result, store, METER_QUEUE_GET, exchange,
        "a message cannot be taken",
        store->ops->queue_get(
            store, exchange, queue, count, visibility_timeout_s, ret));
}

/* Checks the message id and the pop receipt, because they become parts of a
 * URL. */
static enum tw_err check_receipt(
    struct exchange *exchange, struct slice id, struct slice pop_receipt)
{
    if (id.len == 0 || id.len >= QUEUE_ID_MAX)
        return err_fail(
            &exchange->err, TW_INVALID, "the message id is invalid");
    if (pop_receipt.len == 0 || pop_receipt.len >= QUEUE_RECEIPT_MAX)
        return err_fail(
            &exchange->err, TW_INVALID, "the pop receipt is invalid");
    return TW_OK;
}

enum tw_err store_queue_renew(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    if (result == TW_OK)
        result = check_receipt(exchange, id, slice_of(pop_receipt));
    if (result == TW_OK)
        result = check_number(exchange, "the visibility timeout in seconds",
            hide_s, 0, QUEUE_MAX_HIDE_S);
    return SEND(result, store, METER_QUEUE_RENEW, exchange,
        "a message cannot be hidden",
        store->ops->queue_renew(
            store, exchange, queue, id, pop_receipt, hide_s));
}

enum tw_err store_queue_delete(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    if (result == TW_OK)
        result = check_receipt(exchange, id, pop_receipt);
    return SEND(result, store, METER_QUEUE_DELETE, exchange,
        "a message cannot be deleted",
        store->ops->queue_delete(store, exchange, queue, id, pop_receipt));
}

enum tw_err store_queue_peek(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, struct messages *ret)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    if (result == TW_OK)
        result = check_number(
            exchange, "the number of messages", count, 1, QUEUE_MAX_GET);
    messages_clear(ret);
    return SEND(result, store, METER_QUEUE_PEEK, exchange, NULL,
        store->ops->queue_peek(store, exchange, queue, count, ret));
}

enum tw_err store_queue_count(struct store *store, struct exchange *exchange,
    const char *queue, int64_t *ret)
{
    enum tw_err result = begin_queue(store, exchange, queue);

    return SEND(result, store, METER_QUEUE_COUNT, exchange, NULL,
        store->ops->queue_count(store, exchange, queue, ret));
}

enum tw_err store_give_back(
    struct store *store, struct exchange *exchange, bool *ret_more)
{
    enum tw_err result = begin(exchange);

    *ret_more = false;
    if (result != TW_OK || !store->ops->give_back || store->read_only)
        return result;
    return SEND(result, store, METER_GIVE_BACK, exchange, NULL,
        store->ops->give_back(store, exchange, ret_more));
}

const char *store_account(const struct store *store)
{
    if (store->capabilities.identity)
        return store->capabilities.identity;
    return store->capabilities.endpoint ? store->capabilities.endpoint
                                        : store->name;
}

bool store_is_one(const struct store *a, const struct store *b)
{
    const char *one = a->capabilities.cloud_account,
               *other = b->capabilities.cloud_account;

    return strcmp(store_account(a), store_account(b)) == 0 ||
           (one && other && strcmp(one, other) == 0);
}

void store_share_credential(struct store *store, struct store *former)
{
    if (store != former && store->ops == former->ops &&
        store->ops->share_credential)
        store->ops->share_credential(store, former);
}

struct watch *store_watch(
    struct store *store, void (*changed)(void *context), void *context)
{
    return store->ops->watch ? store->ops->watch(store, changed, context)
                             : NULL;
}

void store_explain(
    const struct store *store, enum tw_err outcome, struct err *err)
{
    bool unreached =
        (outcome == TW_BUSY || outcome == TW_UNKNOWN) && !stop_is_asked();
    struct err why = *err;

    err_fail(err, outcome, "store %s: %s%s", store->name, why.text,
        unreached && strcmp(store->capabilities.kind, "azure") == 0
            ? "; check the address in its configuration, and the network"
            : "");
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->ops->close(store);
}
