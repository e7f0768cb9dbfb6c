/* SPDX-License-Identifier: MIT */
/*
 * The queues of an embedded store. A message has a time, and is visible once
 * the store's clock (clock.h) has reached this time. A get sets a later time
 * and issues a new pop receipt. A receipt is a stamp (db.h), so an old receipt
 * is never valid again.
 */
#include "worker/store/embedded/queues.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/embedded/pool.h"

static enum tw_err find_queue(
    struct db *db, const char *queue, int64_t *ret, struct err *err)
{
    enum tw_err outcome = db_find(
        db, DB_QUEUE_FIND, DB_VALUES(db_text(slice_of(queue))), ret, err);

    if (outcome == TW_NOT_FOUND)
        return err_fail(err, outcome, "queue %s does not exist", queue);
    return outcome;
}

static struct slice write_receipt(int64_t stamp, struct arena *arena)
{
    return arena_format(arena, "%" PRId64, stamp);
}

/* Returns the stamp in a pop receipt; -1: the receipt is not a stamp of this
 * store. No message has the stamp -1. */
static int64_t read_receipt(struct slice receipt)
{
    int64_t stamp;

    return text_int64(receipt, 0, INT64_MAX, &stamp) ? stamp : -1;
}

static int64_t whole_seconds(int64_t ticks)
{
    return ticks - ticks % TICKS_PER_S;
}

/* ---- create ---- */

struct naming {
    const char *queue;
};

static enum tw_err create_body(struct db *db, void *arg, struct err *err)
{
    const struct naming *naming = arg;

    return db_run(db, DB_QUEUE_ADD, DB_VALUES(db_text(slice_of(naming->queue))),
        NULL, err);
}

static enum tw_err exists_body(struct db *db, void *arg, struct err *err)
{
    const struct naming *naming = arg;
    int64_t id;

    return find_queue(db, naming->queue, &id, err);
}

enum tw_err queues_create(
    struct store *store, struct exchange *exchange, const char *queue)
{
    struct naming naming = {queue};
    enum tw_err outcome =
        pool_read(embedded_pool(store), exchange, exists_body, &naming);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    exchange->err.text[0] = '\0';
    return pool_write(embedded_pool(store), exchange, create_body, &naming);
}

/* ---- put ---- */

struct putting {
    const char *queue;
    struct slice id, text;
    int64_t hide_s;
    struct messages *ret;
};

static enum tw_err put_body(struct db *db, void *arg, struct err *err)
{
    const struct putting *putting = arg;
    struct messages *ret = putting->ret;
    /* InsertionTime is compared with times that applications write, so it is a
     * time of the wall clock. */
    int64_t inserted = whole_seconds(platform_wall_ticks());
    int64_t visible = db_now_ticks(db) + putting->hide_s * TICKS_PER_S;
    int64_t queue, receipt;
    enum tw_err outcome = find_queue(db, putting->queue, &queue, err);

    if (outcome != TW_OK)
        return outcome;
    receipt = db_stamp(db);
    outcome = db_run(db, DB_MESSAGE_ADD,
        DB_VALUES(db_integer(queue), db_text(putting->id), db_integer(receipt),
            db_integer(inserted), db_integer(visible), db_bytes(putting->text)),
        NULL, err);
    if (outcome != TW_OK)
        return outcome;
    ret->list[0] = (struct message){
        .id = arena_copy(&ret->arena, putting->id),
        .pop_receipt = write_receipt(receipt, &ret->arena),
        .text = arena_copy(&ret->arena, putting->text),
        .inserted_ticks = inserted,
        .next_visible_ticks = visible,
    };
    ret->count = 1;
    return TW_OK;
}

enum tw_err queues_put(struct store *store, struct exchange *exchange,
    const char *queue, struct slice text, int64_t hide_s, struct messages *ret)
{
    char id[37];
    struct putting putting = {queue, {id, sizeof(id) - 1}, text, hide_s, ret};
    enum tw_err outcome;

    text_random_uuid(id);
    outcome = pool_write(embedded_pool(store), exchange, put_body, &putting);
    if (outcome != TW_OK)
        ret->count = 0;
    return outcome;
}

/* ---- get, peek ---- */

struct getting {
    const char *queue;
    unsigned count;
    int64_t visibility_timeout_s;
    struct messages *ret;
    int64_t numbers[QUEUE_MAX_GET];
};

static void add_message(struct db *db, struct getting *getting)
{
    struct messages *ret = getting->ret;
    struct arena *arena = &ret->arena;

    getting->numbers[ret->count] = db_column_integer(db, DB_MESSAGE_DUE, 0);
    ret->list[ret->count++] = (struct message){
        .id = arena_copy(arena, db_column_bytes(db, DB_MESSAGE_DUE, 1)),
        .inserted_ticks = db_column_integer(db, DB_MESSAGE_DUE, 2),
        .next_visible_ticks = db_column_integer(db, DB_MESSAGE_DUE, 3),
        .dequeue_count = db_column_integer(db, DB_MESSAGE_DUE, 4),
        .text = arena_copy(arena, db_column_bytes(db, DB_MESSAGE_DUE, 5)),
    };
}

/* Reads the first visible messages without changing them. */
static enum tw_err read_due(struct db *db, struct getting *getting,
    int64_t queue, int64_t now_ticks, struct err *err)
{
    bool row = false;
    enum tw_err outcome = db_start(db, DB_MESSAGE_DUE,
        DB_VALUES(db_integer(queue), db_integer(now_ticks),
            db_integer(getting->count)),
        err);

    if (outcome == TW_OK)
        outcome = db_next(db, DB_MESSAGE_DUE, &row, err);
    while (outcome == TW_OK && row) {
        add_message(db, getting);
        outcome = db_next(db, DB_MESSAGE_DUE, &row, err);
    }
    db_end(db, DB_MESSAGE_DUE);
    return outcome;
}

static enum tw_err peek_body(struct db *db, void *arg, struct err *err)
{
    struct getting *getting = arg;
    int64_t queue;
    enum tw_err outcome = find_queue(db, getting->queue, &queue, err);

    if (outcome == TW_OK)
        outcome = read_due(db, getting, queue, db_now_ticks(db), err);
    return outcome;
}

/* Hides the messages and gives them a pop receipt. All messages of one get
 * share one receipt, as in the service. */
static enum tw_err take(
    struct db *db, struct getting *getting, int64_t now_ticks, struct err *err)
{
    struct messages *ret = getting->ret;
    int64_t visible = now_ticks + getting->visibility_timeout_s * TICKS_PER_S;
    int64_t receipt = db_stamp(db);
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < ret->count && outcome == TW_OK; i++) {
        outcome = db_run(db, DB_MESSAGE_TAKE,
            DB_VALUES(db_integer(receipt), db_integer(visible),
                db_integer(getting->numbers[i])),
            NULL, err);
        ret->list[i].pop_receipt = write_receipt(receipt, &ret->arena);
        ret->list[i].next_visible_ticks = visible;
        ret->list[i].dequeue_count++;
    }
    return outcome;
}

static enum tw_err get_body(struct db *db, void *arg, struct err *err)
{
    struct getting *getting = arg;
    int64_t now_ticks = db_now_ticks(db);
    int64_t queue;
    enum tw_err outcome = find_queue(db, getting->queue, &queue, err);

    if (outcome == TW_OK)
        outcome = read_due(db, getting, queue, now_ticks, err);
    if (outcome == TW_OK && getting->ret->count > 0)
        outcome = take(db, getting, now_ticks, err);
    return outcome;
}

enum tw_err queues_peek(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, struct messages *ret)
{
    struct getting getting = {.queue = queue, .count = count, .ret = ret};
    enum tw_err outcome =
        pool_read(embedded_pool(store), exchange, peek_body, &getting);

    if (outcome != TW_OK)
        ret->count = 0;
    return outcome;
}

enum tw_err queues_get(struct store *store, struct exchange *exchange,
    const char *queue, unsigned count, int64_t visibility_timeout_s,
    struct messages *ret)
{
    struct getting getting = {.queue = queue,
        .count = count,
        .visibility_timeout_s = visibility_timeout_s,
        .ret = ret};
    /* An idle worker polls. It peeks first, because a get is a write, which
     * would block other writers even if the queue is empty. */
    enum tw_err outcome = queues_peek(store, exchange, queue, 1, ret);

    if (outcome != TW_OK || ret->count == 0)
        return outcome;
    arena_clear(&ret->arena);
    ret->count = 0;
    outcome = pool_write(embedded_pool(store), exchange, get_body, &getting);
    if (outcome != TW_OK)
        ret->count = 0;
    return outcome;
}

/* ---- renew, delete ---- */

struct holding {
    const char *queue;
    struct slice id;
    int64_t receipt; /* the pop receipt that the message must have */
    int64_t hide_s;
    int64_t new_receipt;
};

static enum tw_err lost(int changed, struct err *err)
{
    if (changed > 0)
        return TW_OK;
    return err_fail(err, TW_CONFLICT,
        "the message was deleted, or another worker received it");
}

static enum tw_err renew_body(struct db *db, void *arg, struct err *err)
{
    struct holding *holding = arg;
    int64_t visible = db_now_ticks(db) + holding->hide_s * TICKS_PER_S;
    int changed = 0;
    int64_t queue;
    enum tw_err outcome = find_queue(db, holding->queue, &queue, err);

    if (outcome != TW_OK)
        return outcome;
    holding->new_receipt = db_stamp(db);
    outcome = db_run(db, DB_MESSAGE_RENEW,
        DB_VALUES(db_integer(holding->new_receipt), db_integer(visible),
            db_integer(queue), db_text(holding->id),
            db_integer(holding->receipt)),
        &changed, err);
    return outcome == TW_OK ? lost(changed, err) : outcome;
}

static enum tw_err delete_body(struct db *db, void *arg, struct err *err)
{
    const struct holding *holding = arg;
    int changed = 0;
    int64_t queue;
    enum tw_err outcome = find_queue(db, holding->queue, &queue, err);

    if (outcome == TW_OK)
        outcome = db_run(db, DB_MESSAGE_DELETE,
            DB_VALUES(db_integer(queue), db_text(holding->id),
                db_integer(holding->receipt)),
            &changed, err);
    return outcome == TW_OK ? lost(changed, err) : outcome;
}

enum tw_err queues_renew(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, char *pop_receipt, int64_t hide_s)
{
    struct holding holding = {.queue = queue,
        .id = id,
        .receipt = read_receipt(slice_of(pop_receipt)),
        .hide_s = hide_s};
    enum tw_err outcome =
        pool_write(embedded_pool(store), exchange, renew_body, &holding);

    if (outcome == TW_OK)
        (void)snprintf(
            pop_receipt, QUEUE_RECEIPT_MAX, "%" PRId64, holding.new_receipt);
    return outcome;
}

enum tw_err queues_delete(struct store *store, struct exchange *exchange,
    const char *queue, struct slice id, struct slice pop_receipt)
{
    struct holding holding = {
        .queue = queue, .id = id, .receipt = read_receipt(pop_receipt)};

    return pool_write(embedded_pool(store), exchange, delete_body, &holding);
}

/* ---- count ---- */

struct counting {
    const char *queue;
    int64_t count;
};

static enum tw_err count_body(struct db *db, void *arg, struct err *err)
{
    struct counting *counting = arg;
    int64_t queue;
    enum tw_err outcome = find_queue(db, counting->queue, &queue, err);

    if (outcome == TW_OK)
        outcome = db_find(db, DB_MESSAGE_COUNT, DB_VALUES(db_integer(queue)),
            &counting->count, err);
    return outcome;
}

enum tw_err queues_count(struct store *store, struct exchange *exchange,
    const char *queue, int64_t *ret)
{
    struct counting counting = {.queue = queue};
    enum tw_err outcome =
        pool_read(embedded_pool(store), exchange, count_body, &counting);

    if (outcome == TW_OK)
        *ret = counting.count;
    return outcome;
}
