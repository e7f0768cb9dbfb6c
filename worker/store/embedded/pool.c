/* SPDX-License-Identifier: MIT */
/*
 * The connections of an embedded store.
 *
 * Writing: a caller queues its request; if there is no leader, the caller
 * becomes the leader. The leader begins a transaction (waiting for other
 * processes), takes all requests queued by then, runs each as a separately
 * undoable part, commits once, wakes their callers, and stops being leader. The
 * caller of the first request that was queued in the meantime leads next. Each
 * caller is woken separately.
 *
 * Reading: a few connections, opened when first needed, each lent to one
 * reader. A store in memory has only one connection, so a reader becomes the
 * leader.
 */
#include "worker/store/embedded/pool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"
#include "worker/store/watch.h"

/* Maximum number of reading connections, for worker threads and the renewer;
 * each connection costs 256 KiB of memory. */
#define READERS_MAX 4

struct request {
    struct exchange *exchange;
    enum tw_err (*body)(struct db *, void *, struct err *);
    void *arg;
    enum tw_err outcome; /* valid once `done` is set */
    int64_t
        date_ticks; /* the store's clock after body; 0: body was not called */
    bool taken; /* a leader has taken this request; guarded by the pool's lock,
                   like next */
    struct request *next;

    /* Each request has its own lock, so that callers that are woken together do
     * not wait for each other. A thread that needs both locks takes the pool's
     * lock first. */
    struct platform_mutex lock;
    struct platform_cond wake;
    bool done, may_lead;
};

struct pool {
    const char *path;
    bool in_memory;
    struct db *writer; /* used by the leader; NULL: the file was opened with
                          DB_READ_ONLY */
    char identity[DB_IDENTITY_MAX + 1]; /* result of db_identity(); "" stands
                                           for NULL */

    struct platform_mutex lock; /* guards all fields below */
    struct platform_cond reader_free;
    struct db *idle[READERS_MAX];
    unsigned idle_count, reader_count;

    struct platform_cond
        leader_gone; /* signalled when there is no leader; readers of a store in
                        memory wait for this */
    bool led;
    struct request *queued, **queued_end;
};

enum tw_err pool_open(
    const char *path, bool only_reads, struct pool **ret, struct err *err)
{
    struct pool *pool;
    struct db *writer = NULL, *reader = NULL;
    const char *identity;
    enum tw_err outcome = db_open(path, DB_WRITER, &writer, err);

    if (outcome == TW_FULL && only_reads)
        outcome = db_open(path, DB_READ_ONLY, &reader, err);
    if (outcome != TW_OK)
        return outcome;
    identity = db_identity(writer ? writer : reader);
    pool = mem_alloc(sizeof(*pool));
    pool->path = path;
    pool->in_memory = strcmp(path, DB_MEMORY) == 0;
    pool->writer = writer;
    if (identity)
        memcpy(pool->identity, identity, strlen(identity) + 1);
    if (reader)
        pool->idle[pool->idle_count++] = reader;
    pool->reader_count = pool->idle_count;
    pool->queued_end = &pool->queued;
    platform_mutex_init(&pool->lock);
    platform_cond_init(&pool->reader_free);
    platform_cond_init(&pool->leader_gone);
    *ret = pool;
    return TW_OK;
}

/* Resolves symbolic links, because SQLite keeps its log beside the file that a
 * link points to. */
struct watch *pool_watch(
    struct pool *pool, void (*changed)(void *context), void *context)
{
    char path[PATH_MAX];

    if (pool->in_memory || realpath(pool->path, path) == NULL)
        return NULL;
    return watch_begin(path, changed, context);
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    for (unsigned i = 0; i < pool->idle_count; i++)
        db_close(pool->idle[i]);
    db_close(pool->writer);
    platform_cond_done(&pool->leader_gone);
    platform_cond_done(&pool->reader_free);
    platform_mutex_done(&pool->lock);
    mem_free(pool);
}

bool pool_is_read_only(const struct pool *pool)
{
    return pool->writer == NULL;
}

const char *pool_identity(const struct pool *pool)
{
    return pool->identity[0] ? pool->identity : NULL;
}

/* ---- reading and writing ---- */

static enum tw_err too_long(struct pool *pool, struct exchange *exchange)
{
    return err_fail(&exchange->err, TW_BUSY,
        "%s: timed out waiting for other threads of this process", pool->path);
}

/* Checks the deadline for the last time, then calls body. */
static enum tw_err run(struct db *db, struct request *request)
{
    struct exchange *exchange = request->exchange;
    int64_t now_ms = platform_boot_ms();
    enum tw_err outcome;

    if (!deadline_is_open(exchange->deadline, now_ms))
        return err_fail(&exchange->err, TW_STOPPED,
            "the deadline has passed; the file was not accessed");
    exchange->sent_ms = now_ms;
    outcome = request->body(db, request->arg, &exchange->err);
    request->date_ticks = db_now_ticks(db);
    return outcome;
}

static bool is_answer(enum tw_err outcome)
{
    return outcome != TW_STOPPED && outcome != TW_BUSY && outcome != TW_FULL;
}

static enum tw_err end(const struct request *request)
{
    if (is_answer(request->outcome))
        request->exchange->date_ticks = request->date_ticks;
    return request->outcome;
}

/* ---- reading ---- */

static enum tw_err borrow_writer(
    struct pool *pool, int64_t until_ms, struct exchange *exchange)
{
    bool in_time = true;
    enum tw_err outcome = TW_OK;

    platform_lock(&pool->lock);
    while (pool->led && in_time)
        in_time = platform_wait(&pool->leader_gone, &pool->lock, until_ms);
    if (pool->led)
        outcome = too_long(pool, exchange);
    else
        pool->led = true;
    platform_unlock(&pool->lock);
    return outcome;
}

/* Call with the lock held, when the caller stops being the leader. Makes the
 * caller of the first queued request the leader. */
static void lead_no_more(struct pool *pool)
{
    struct request *first = pool->queued;

    pool->led = false;
    if (pool->in_memory)
        platform_wake_all(&pool->leader_gone);
    if (!first)
        return;
    platform_lock(&first->lock);
    first->may_lead = true;
    platform_wake_all(&first->wake);
    platform_unlock(&first->lock);
}

static void return_writer(struct pool *pool)
{
    platform_lock(&pool->lock);
    lead_no_more(pool);
    platform_unlock(&pool->lock);
}

static void return_reader(struct pool *pool, struct db *db)
{
    platform_lock(&pool->lock);
    if (db)
        pool->idle[pool->idle_count++] = db;
    else
        pool->reader_count--;
    platform_wake_all(&pool->reader_free);
    platform_unlock(&pool->lock);
}

/* Lends an idle reader or, if there are fewer than READERS_MAX, a new one. */
static enum tw_err borrow_reader(struct pool *pool, int64_t until_ms,
    struct exchange *exchange, struct db **ret)
{
    bool in_time = true;
    enum tw_err outcome = TW_OK;

    *ret = NULL;
    platform_lock(&pool->lock);
    while (
        pool->idle_count == 0 && pool->reader_count == READERS_MAX && in_time)
        in_time = platform_wait(&pool->reader_free, &pool->lock, until_ms);
    if (pool->idle_count > 0)
        *ret = pool->idle[--pool->idle_count];
    else if (pool->reader_count < READERS_MAX)
        pool->reader_count++;
    else
        outcome = too_long(pool, exchange);
    platform_unlock(&pool->lock);
    if (outcome != TW_OK || (*ret && db_is_current(*ret)))
        return outcome;
    db_close(*ret);
    outcome = db_open(pool->path, pool->writer ? DB_READER : DB_READ_ONLY, ret,
        &exchange->err);
    if (outcome != TW_OK)
        return_reader(pool, NULL);
    return outcome;
}

/* Returns the connection to the pool. If the connection is no longer current,
 * what was read from it is not reliable; the connection is closed, and the
 * outcome is TW_BUSY. */
static enum tw_err end_reading(struct pool *pool, struct exchange *exchange,
    struct db *db, enum tw_err outcome)
{
    if (db_is_current(db)) {
        return_reader(pool, db);
        return outcome;
    }
    db_close(db);
    return_reader(pool, NULL);
    return err_fail(&exchange->err, TW_BUSY,
        "%s: another process began to write to it while it was read",
        pool->path);
}

enum tw_err pool_read(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg)
{
    int64_t until_ms =
        platform_boot_ms() + deadline_timeout_ms(exchange->deadline);
    struct request own = {.exchange = exchange, .body = body, .arg = arg};
    struct db *db = pool->writer;
    enum tw_err outcome;

    if (pool->in_memory)
        outcome = borrow_writer(pool, until_ms, exchange);
    else
        outcome = borrow_reader(pool, until_ms, exchange, &db);
    if (outcome != TW_OK)
        return outcome;
    db_wait_until(db, until_ms);
    own.outcome = db_read_clock(db, &exchange->err);
    if (own.outcome == TW_OK)
        own.outcome = run(db, &own);
    if (pool->in_memory)
        return_writer(pool);
    else
        own.outcome = end_reading(pool, exchange, db, own.outcome);
    return end(&own);
}

/* ---- writing ---- */

/* Does the outcome end the whole transaction, and not only the part? If it
 * does, SQLite has rolled the transaction back, or the caller must do so. */
static bool ends_all(enum tw_err outcome)
{
    return outcome == TW_FULL || outcome == TW_BUSY;
}

static enum tw_err run_part(struct db *db, struct request *request)
{
    struct err *err = &request->exchange->err;
    enum tw_err undone;
    enum tw_err outcome = db_part_begin(db, err);

    if (outcome != TW_OK)
        return outcome;
    outcome = run(db, request);
    if (outcome == TW_OK)
        return db_part_keep(db, err);
    if (ends_all(outcome))
        return outcome;
    undone = db_part_undo(db, NULL);
    return undone == TW_OK ? outcome : undone;
}

static void fail_all(
    struct request *requests, enum tw_err outcome, const struct err *err)
{
    struct err copy = *err;

    for (struct request *each = requests; each; each = each->next) {
        each->outcome = outcome;
        each->exchange->err = copy;
    }
}

/* Runs the requests in the open transaction, and commits it or rolls it back.
 */
static void run_group(struct db *db, struct request *requests)
{
    struct err err;
    enum tw_err outcome;

    for (struct request *each = requests; each; each = each->next) {
        each->outcome = run_part(db, each);
        if (ends_all(each->outcome)) {
            db_rollback(db);
            fail_all(requests, each->outcome, &each->exchange->err);
            return;
        }
    }
    outcome = db_commit(db, &err);
    if (outcome != TW_OK)
        fail_all(requests, outcome, &err);
}

/* Call with the lock held. Removes all queued requests, and returns them as a
 * list. */
static struct request *take_queued(struct pool *pool)
{
    struct request *requests = pool->queued;

    for (struct request *each = requests; each; each = each->next)
        each->taken = true;
    pool->queued = NULL;
    pool->queued_end = &pool->queued;
    return requests;
}

/* Call with the lock held. Removes request from the queue without running
 * it. */
static void give_up(
    struct pool *pool, struct request *request, enum tw_err outcome)
{
    struct request **at = &pool->queued;

    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    if (!*at)
        pool->queued_end = at;
    request->outcome = outcome;
    request->done = true;
}

/* Wakes the callers of requests, which are done. A caller may free its request
 * as soon as this function has released the request's lock. */
static void tell(struct request *requests)
{
    struct request *next;

    for (struct request *each = requests; each; each = next) {
        next = each->next;
        platform_lock(&each->lock);
        each->done = true;
        platform_wake_all(&each->wake);
        platform_unlock(&each->lock);
    }
}

/* Call with the lock held, which is released meanwhile and held again on
 * return. Runs all queued requests in one transaction. own, the caller's
 * request, must be queued; it is done on return. */
static void lead(struct pool *pool, struct request *own, int64_t until_ms)
{
    struct request *requests = NULL;
    enum tw_err outcome;

    pool->led = true;
    platform_unlock(&pool->lock);
    db_wait_until(pool->writer, until_ms);
    outcome = db_begin(pool->writer, &own->exchange->err);
    platform_lock(&pool->lock);
    if (outcome != TW_OK)
        give_up(pool, own, outcome);
    else
        requests = take_queued(pool);
    platform_unlock(&pool->lock);
    if (requests)
        run_group(pool->writer, requests);
    tell(requests);
    db_tidy(pool->writer);
    platform_lock(&pool->lock);
    lead_no_more(pool);
}

/*
 * Waits until own is done, or until the caller may lead (run the queued
 * requests itself), or until the time until_ms. Returns whether own is done.
 * *ret_in_time: until_ms has not passed.
 */
static bool wait_for_turn(
    struct request *own, int64_t until_ms, bool *ret_in_time)
{
    bool in_time = true;
    bool done;

    platform_lock(&own->lock);
    while (!own->done && !own->may_lead && in_time)
        in_time = platform_wait(&own->wake, &own->lock, until_ms);
    own->may_lead = false;
    done = own->done;
    platform_unlock(&own->lock);
    *ret_in_time = in_time;
    return done;
}

static void write_in_turn(
    struct pool *pool, struct request *own, int64_t until_ms)
{
    bool in_time = true;
    bool done = false;

    platform_lock(&pool->lock);
    *pool->queued_end = own;
    pool->queued_end = &own->next;
    platform_unlock(&pool->lock);
    while (!done) {
        bool taken;

        platform_lock(&pool->lock);
        taken = own->taken;
        if (!taken && !pool->led) {
            lead(pool, own, until_ms);
            done = true;
        } else if (!taken && !in_time) {
            give_up(pool, own, too_long(pool, own->exchange));
            done = true;
        }
        platform_unlock(&pool->lock);
        if (!done)
            done =
                wait_for_turn(own, taken ? PLATFORM_NEVER : until_ms, &in_time);
    }
}

enum tw_err pool_write(struct pool *pool, struct exchange *exchange,
    enum tw_err (*body)(struct db *, void *, struct err *), void *arg)
{
    int64_t until_ms =
        platform_boot_ms() + deadline_timeout_ms(exchange->deadline);
    struct request own = {.exchange = exchange, .body = body, .arg = arg};

    platform_mutex_init(&own.lock);
    platform_cond_init(&own.wake);
    write_in_turn(pool, &own, until_ms);
    platform_cond_done(&own.wake);
    platform_mutex_done(&own.lock);
    return end(&own);
}
