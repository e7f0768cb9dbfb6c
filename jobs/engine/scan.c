/* SPDX-License-Identifier: MIT */
/*
 * Reads the pages of a table, one after another.
 *
 * While the caller works on one page, the next one is in flight. If the scan
 * has to wait for the next page, it requests the page after the next one as
 * soon as the header of the response has the continuation token, without
 * waiting for the body. A response may fail after its header, and the response
 * to the retry may have another token. So the early page is used only if the
 * completed response has the token with which the early page was requested.
 *
 * The number of entities to request (`top`) depends on their measured size. An
 * entity may have a few hundred bytes or a megabyte, and a service that does
 * not limit its responses in bytes would send a gigabyte for a thousand
 * entities. So `top` falls after a response that was too large, and rises again
 * while entities are small.
 */
#include "jobs/engine/scan.h"

#include <assert.h>
#include <stdatomic.h>

#include "jobs/engine/run.h"
#include "jobs/engine/share.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/request_pool.h"

/* Limit of one response, in bytes. The largest entity of the service has 1 MiB,
 * and its JSON up to three times as much. */
#define ANSWER_MAX_BYTES (4 * 1024 * 1024)

/* `top` of the first page of whole entities, when their size is not known yet.
 * It is more than the 100 operations of a batch, so that one page can have all
 * entities of a batch (resolve.c). */
#define FIRST_TOP 128

/* TOP_FALL: the factor by which `top` falls after a response that was too
 * large. TOP_RISE: the factor by which `top` may rise from page to page.
 * TOP_RISE_CAREFUL replaces TOP_RISE once a response has been too large. */
#define TOP_FALL 8
#define TOP_RISE 10
#define TOP_RISE_CAREFUL 2

/* A key after which to continue. */
struct position {
    bool known;
    struct slice partition_key, row_key; /* owned */
};

/* A request for a page. */
struct asking {
    struct pool_request task; /* first member: cast to this struct */
    struct scan *scan;
    struct scan_request request;
    struct position from; /* owns the keys of request.from */
    struct page *page;
    bool under_way;
    bool beside; /* the page was requested early, before the previous page has
                  * arrived */
};

struct scan {
    struct pool_client *pool_client;
    struct scan_spec spec; /* copy of the caller's spec; its texts live in
                            * arena */
    struct arena arena;

    /* The ranges that remain to be read, in order; step is the index of the
     * range being read. The bounds of the ranges point into spec or into start.
     */
    struct range_pair {
        struct key_range partition_key, row_key;
    } steps[2];
    size_t step_count, step;
    struct position start;

    struct page pages[3];
    struct page *current; /* the page that scan_next() returned last */
    struct asking askings[2];
    struct asking *first, *second; /* request for the next page, and for the
                                    * page after the next */
    struct position last;          /* the last key received */
    bool reopened;                 /* reopen() was called since the last page
                                    * was received */
    size_t received;

    size_t page_bytes; /* target memory of a page */
    unsigned top;
    bool top_fits;     /* top has the value that page_bytes and mean_bytes
                        * require */
    bool careful;      /* a response has been too large */
    size_t mean_bytes; /* memory of an average entity; 0: not known */

    /* May the thread that makes the request of `first` request the page of
     * `second`? That thread then sets may_follow to false. True only while the
     * run's thread waits for the page of `first`, and only if top_fits. During
     * the wait the run's thread changes no field above. */
    atomic_bool may_follow;
    enum tw_err failed;
    struct share *share; /* NULL: spec.tells_share is false */
};

static void forget_position(struct position *position)
{
    mem_free_slice(&position->partition_key);
    mem_free_slice(&position->row_key);
    *position = (struct position){0};
}

static void set_position(
    struct position *position, struct slice partition_key, struct slice row_key)
{
    struct position was = *position;

    position->partition_key = mem_slice(partition_key);
    position->row_key = mem_slice(row_key);
    position->known = true;
    forget_position(&was);
}

/* ---- ranges ---- */

/* Is key `a` before key `b` in every store? Stores order keys beyond U+FFFF
 * differently (by code point or by UTF-16 unit), so both orders are compared.
 */
static bool is_before(struct slice a, struct slice b)
{
    return slice_compare(a, b) < 0 && text_utf16_compare(a, b) < 0;
}

/* Sets *ret to the part of range after the key `after`. False: this part is
 * empty. */
static bool range_after(
    const struct key_range *range, struct slice after, struct key_range *ret)
{
    *ret = *range;
    if (range->exact)
        return is_before(after, range->from);
    if (range->has_from && is_before(after, range->from))
        return true;
    ret->has_from = ret->from_exclusive = true;
    ret->from = after;
    return true;
}

static void add_step(struct scan *scan, const struct key_range *partition_key,
    const struct key_range *row_key)
{
    scan->steps[scan->step_count++] = (struct range_pair){
        .partition_key = *partition_key,
        .row_key = *row_key,
    };
}

/* Plan the ranges to be read: those after position, or everything if position
 * is not known or the store's scans are not in key order. */
static void plan_steps(struct scan *scan, const struct position *position)
{
    const struct key_range *partition_keys = &scan->spec.partition_key;
    const struct key_range *row_keys = &scan->spec.row_key;
    struct key_range same, rest;

    scan->step = scan->step_count = 0;
    if (!position->known || !scan->spec.store->capabilities.ordered) {
        add_step(scan, partition_keys, row_keys);
        return;
    }
    set_position(&scan->start, position->partition_key, position->row_key);
    same = key_range_exact(scan->start.partition_key);
    if (key_range_has(partition_keys, same.from) &&
        range_after(row_keys, scan->start.row_key, &rest))
        add_step(scan, &same, &rest);
    if (range_after(partition_keys, scan->start.partition_key, &rest))
        add_step(scan, &rest, row_keys);
}

/* ---- requests ---- */

/* Does the page begin at or before the last key that the scan has received? */
static bool goes_back(const struct scan *scan, const struct page *page)
{
    const struct entity *first = page->entities;
    const struct position *last = &scan->last;

    if (!scan->spec.store->capabilities.ordered || !last->known ||
        page->count == 0)
        return false;
    if (!slice_equal(first->partition_key, last->partition_key))
        return is_before(first->partition_key, last->partition_key);
    return slice_equal(first->row_key, last->row_key) ||
           is_before(first->row_key, last->row_key);
}

static void follow(void *context, const struct continuation *next);

/* Request a page. A page that begins before the end of the previous page is
 * refused (TW_BUSY), because the scan would read the same pages for ever. */
static enum tw_err send_page(
    struct pool_request *task, struct exchange *exchange)
{
    struct asking *asking = (struct asking *)task;
    struct scan_request request = asking->request;
    struct page *page = asking->page;
    enum tw_err outcome;

    if (task->most > 0 && task->most < request.top)
        request.top = task->most;
    outcome = store_scan(asking->scan->spec.store, exchange, &request, page);
    if (outcome == TW_OK)
        task->came = page->count > 0 ? (unsigned)page->count : 1;
    if (outcome != TW_OK || asking->beside || !goes_back(asking->scan, page))
        return outcome;
    page->count = 0;
    page->next = (struct continuation){.more = false};
    return err_fail(&exchange->err, TW_BUSY,
        "the page does not begin after the end of the previous page; check the "
        "proxy, if there is one");
}

/* Returns the estimated memory of a page in flight, for the request pool's
 * budget. */
static size_t expected_bytes(const struct scan *scan)
{
    size_t bytes = scan->mean_bytes * scan->top + 64 * 1024;

    if (scan->mean_bytes == 0 && !scan->spec.select)
        return ANSWER_MAX_BYTES;
    if (scan->mean_bytes == 0)
        bytes = 1024 * 1024;
    return bytes < ANSWER_MAX_BYTES ? bytes : ANSWER_MAX_BYTES;
}

/* Returns the partition of a request for the rate limiter, or 0 if the page may
 * have entities of many partitions. */
static uint64_t partition_of(
    const struct scan *scan, const struct scan_request *request)
{
    const struct key_range *key = &request->partition_key;

    return key->exact ? rate_limiter_partition(scan->spec.table, key->from) : 0;
}

static void begin_at(struct asking *asking, const struct continuation *from)
{
    set_position(&asking->from, from->partition_key, from->row_key);
    asking->request.from = *from;
    asking->request.from.partition_key = asking->from.partition_key;
    asking->request.from.row_key = asking->from.row_key;
}

/* Request the page that begins at asking->request.from. */
static void ask(struct asking *asking)
{
    struct scan *scan = asking->scan;
    const struct range_pair *step = &scan->steps[scan->step];

    asking->request = (struct scan_request){
        .table = scan->spec.table,
        .partition_key = step->partition_key,
        .row_key = step->row_key,
        .filter = scan->spec.filter,
        .select = scan->spec.select,
        .select_count = scan->spec.select_count,
        .top = scan->top,
        .max_bytes = ANSWER_MAX_BYTES,
        .from = asking->request.from,
        .follows = follow,
        .context = asking,
    };
    asking->task = (struct pool_request){
        .send = send_page,
        .repeatable = true,
        .store = scan->spec.store,
        .partition = partition_of(scan, &asking->request),
        .entities = scan->top,
        .scans = true,
        .bytes = expected_bytes(scan),
    };
    asking->under_way = true;
    request_pool_submit(scan->pool_client, &asking->task);
}

/* Request the page that begins at `from`. If no range remains, do nothing. */
static void ask_from(struct scan *scan, struct continuation from)
{
    struct asking *asking = scan->first;

    if (scan->step == scan->step_count)
        return;
    begin_at(asking, &from);
    asking->beside = false;
    ask(asking);
}

/* Request the page after the next one early, if the run's thread waits. Called
 * on the thread that makes the request of `first`, when the header of the
 * response has arrived. */
static void follow(void *context, const struct continuation *next)
{
    struct asking *asking = context;
    struct scan *scan = asking->scan;

    if (!next->more || !atomic_exchange(&scan->may_follow, false))
        return;
    asking = scan->second;
    begin_at(asking, next);
    asking->beside = true;
    ask(asking);
}

static void drop(struct asking *asking)
{
    if (asking->under_way)
        request_pool_cancel(asking->scan->pool_client, &asking->task);
    asking->under_way = false;
}

static void rise(struct scan *scan)
{
    size_t most =
        (size_t)scan->top * (scan->careful ? TOP_RISE_CAREFUL : TOP_RISE);
    size_t top = scan->page_bytes / scan->mean_bytes;

    if (top > PAGE_MAX_ENTITIES)
        top = PAGE_MAX_ENTITIES;
    scan->top_fits = top <= most;
    if (top > most)
        top = most;
    scan->top = top > 0 ? (unsigned)top : 1;
}

static void weigh(struct scan *scan, const struct page *page)
{
    size_t bytes = 0;

    for (size_t i = 0; i < page->count; i++)
        bytes += entity_size(&page->entities[i]);
    scan->mean_bytes = bytes / page->count + 1;
}

/* Make the requested page, which has arrived, the current one. */
static void take_page(struct scan *scan)
{
    struct page *page = scan->first->page;

    scan->first->page = scan->current;
    scan->current = page;
    page_clear(scan->first->page);
    scan->received++;
    scan->reopened = false;
    if (page->count == 0)
        return;
    set_position(&scan->last, page->entities[page->count - 1].partition_key,
        page->entities[page->count - 1].row_key);
    weigh(scan, page);
    rise(scan);
}

static bool goes_on_at(const struct page *page, const struct continuation *from)
{
    return page->next.more &&
           slice_equal(page->next.partition_key, from->partition_key) &&
           slice_equal(page->next.row_key, from->row_key);
}

/* Make sure that the page after the current one is requested. */
static void go_on(struct scan *scan)
{
    struct asking *asking = scan->second;

    scan->second = scan->first;
    scan->first = asking;
    if (asking->under_way && goes_on_at(scan->current, &asking->request.from))
        return;
    drop(asking);
    if (!scan->current->next.more)
        scan->step++;
    ask_from(scan, scan->current->next);
}

static void ask_again(struct scan *scan)
{
    scan->first->beside = false;
    ask(scan->first);
}

static void ask_smaller(struct scan *scan)
{
    unsigned asked = scan->first->request.top;

    scan->careful = true;
    scan->top_fits = false;
    if (scan->top >= asked) /* otherwise `top` has fallen since this page was
                               requested */
        scan->top = asked > TOP_FALL ? asked / TOP_FALL : 1;
    scan->mean_bytes = 0;
    ask_again(scan);
}

/* Continue after the last key received, because the service has refused the
 * continuation token. */
static void reopen(struct scan *scan)
{
    struct position *position = scan->last.known ? &scan->last : &scan->start;

    scan->reopened = true;
    plan_steps(scan, position);
    ask_from(scan, (struct continuation){0});
}

static bool can_reopen(const struct scan *scan)
{
    return scan->first->request.from.more && !scan->reopened &&
           scan->spec.store->capabilities.ordered;
}

static enum tw_err fail(struct scan *scan, enum tw_err outcome, struct err *err)
{
    scan->failed = outcome;
    if (outcome == TW_TOO_LARGE)
        return err_fail(err, outcome,
            "table %s: one entity has more than %d bytes", scan->spec.table,
            ANSWER_MAX_BYTES);
    if (outcome == TW_NOT_FOUND)
        return err_fail(err, outcome, "table %s does not exist in store %s",
            scan->spec.table, scan->spec.store->name);
    return err_fail(err, outcome, "table %s: %s", scan->spec.table,
        scan->first->task.last.err.text);
}

/* May an early request have been given up because the store did not respond?
 * While a store does not respond, the request pool keeps one request waiting
 * for the store and gives up all others. The scan then requests the page
 * again. */
static bool is_worth_another(const struct asking *asking)
{
    return asking->beside && (asking->task.outcome == TW_BUSY ||
                                 asking->task.outcome == TW_UNKNOWN);
}

/* Wait for the requested page. After a failure that another request may
 * avoid, request the page again and wait for it. */
static enum tw_err receive(struct scan *scan, struct err *err)
{
    while (scan->first->under_way) {
        struct asking *asking = scan->first;
        enum tw_err outcome;

        atomic_store(&scan->may_follow, scan->top_fits);
        request_pool_wait(scan->pool_client, &asking->task);
        atomic_store(&scan->may_follow, false);
        asking->under_way = false;
        outcome = asking->task.outcome;
        if (outcome == TW_OK &&
            !(asking->beside && goes_back(scan, asking->page))) {
            take_page(scan);
            go_on(scan);
            break;
        }
        drop(scan->second);
        if (outcome == TW_OK || is_worth_another(asking))
            ask_again(scan);
        else if (outcome == TW_TOO_LARGE && asking->request.top > 1)
            ask_smaller(scan);
        else if (outcome == TW_INVALID && can_reopen(scan))
            reopen(scan);
        else
            return fail(scan, outcome, err);
    }
    if (scan->share && scan->current->count > 0)
        share_note(scan->share, &scan->current->entities[0]);
    return TW_OK;
}

/* ---- public functions ---- */

static struct key_range copy_range(
    struct arena *arena, const struct key_range *range)
{
    struct key_range copy = *range;

    copy.from = arena_copy(arena, range->from);
    copy.below = arena_copy(arena, range->below);
    return copy;
}

static const struct slice *copy_names(
    struct arena *arena, const struct slice *names, size_t count)
{
    struct slice *copy = arena_alloc(arena, (count + 1) * sizeof *copy);

    for (size_t i = 0; i < count; i++)
        copy[i] = arena_copy(arena, names[i]);
    return copy;
}

static void copy_spec(struct scan *scan, const struct scan_spec *spec)
{
    struct arena *arena = &scan->arena;
    struct scan_spec *copy = &scan->spec;

    *copy = *spec;
    copy->table = arena_copy(arena, slice_of(spec->table)).at;
    copy->partition_key = copy_range(arena, &spec->partition_key);
    copy->row_key = copy_range(arena, &spec->row_key);
    copy->filter = arena_copy(arena, spec->filter);
    if (spec->select)
        copy->select = copy_names(arena, spec->select, spec->select_count);
    copy->after_partition_key = arena_copy(arena, spec->after_partition_key);
    copy->after_row_key = arena_copy(arena, spec->after_row_key);
}

struct scan *scan_open(
    struct pool_client *pool_client, const struct scan_spec *spec)
{
    struct scan *scan = mem_alloc(sizeof *scan);
    struct position after;

    scan->pool_client = pool_client;
    arena_init(&scan->arena);
    copy_spec(scan, spec);
    for (size_t i = 0; i < 3; i++)
        page_init(&scan->pages[i]);
    scan->current = &scan->pages[0];
    for (size_t i = 0; i < 2; i++) {
        scan->askings[i].scan = scan;
        scan->askings[i].page = &scan->pages[i + 1];
    }
    scan->first = &scan->askings[0];
    scan->second = &scan->askings[1];
    scan->mean_bytes = spec->entity_bytes;
    scan->page_bytes = spec->page_bytes ? spec->page_bytes : SCAN_PAGE_BYTES;
    scan->top = spec->first_top ? spec->first_top
                : spec->select  ? PAGE_MAX_ENTITIES
                                : FIRST_TOP;
    scan->top_fits = scan->top == PAGE_MAX_ENTITIES;
    after = (struct position){
        .known = spec->resumed,
        .partition_key = scan->spec.after_partition_key,
        .row_key = scan->spec.after_row_key,
    };
    plan_steps(scan, &after);
    ask_from(scan, (struct continuation){0});
    if (spec->tells_share)
        scan->share = share_new(pool_client, &scan->spec);
    return scan;
}

enum tw_err scan_next(
    struct scan *scan, const struct page **ret, struct err *err)
{
    assert(scan->failed == TW_OK);
    while (scan->first->under_way) {
        enum tw_err outcome = receive(scan, err);

        if (outcome != TW_OK)
            return outcome;
        if (scan->current->count > 0) {
            *ret = scan->current;
            return TW_OK;
        }
        if (scan->first->under_way && scan->spec.run &&
            run_stopping(scan->spec.run)) {
            scan->failed = TW_STOPPED;
            return err_fail(err, TW_STOPPED, "stopped");
        }
    }
    *ret = NULL;
    return TW_OK;
}

enum tw_err scan_wait(struct scan *scan)
{
    if (!scan->first->under_way)
        return TW_OK;
    request_pool_wait(scan->pool_client, &scan->first->task);
    return scan->first->task.outcome;
}

void scan_drop_page(struct scan *scan)
{
    page_done(scan->current);
    page_init(scan->current);
}

size_t scan_bytes(const struct scan *scan)
{
    return scan->first->under_way ? scan->first->task.bytes : 0;
}

bool scan_has_come(const struct scan *scan)
{
    return !scan->first->under_way ||
           request_pool_done(scan->pool_client, &scan->first->task);
}

void scan_note_share(struct scan *scan, const struct entity *entity)
{
    if (scan->share)
        share_note(scan->share, entity);
}

size_t scan_pages(const struct scan *scan)
{
    return scan->received;
}

void scan_give_up(struct scan *scan)
{
    for (size_t i = 0; i < 2; i++)
        if (scan->askings[i].under_way)
            request_pool_give_up(scan->pool_client, &scan->askings[i].task);
}

void scan_close(struct scan *scan)
{
    if (!scan)
        return;
    drop(scan->first);
    drop(scan->second);
    for (size_t i = 0; i < 3; i++)
        page_done(&scan->pages[i]);
    forget_position(&scan->first->from);
    forget_position(&scan->second->from);
    forget_position(&scan->start);
    forget_position(&scan->last);
    share_free(scan->share);
    arena_done(&scan->arena);
    mem_free(scan);
}
