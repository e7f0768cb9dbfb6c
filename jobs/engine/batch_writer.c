/* SPDX-License-Identifier: MIT */
/*
 * The states of an operation:
 *
 *   open       the batch of the operation takes more operations
 *   ready      the batch is full or sealed, and waits to be sent
 *   under way  the request pool has the batch; or, after a refusal or an
 *              unknown outcome, the current state is being re-read. The batch
 *              is ready again after the re-read, with those of its operations
 *              that are not completed
 *   completed  the operation has an end
 *
 * Everything happens on the thread of the run: responses are handled whenever
 * the batch writer has to wait, and by batch_writer_low_water(). A failure that
 * no retry can repair breaks the batch writer: its batches are dropped without
 * completing their operations, so the low-water mark remains below the sequence
 * numbers of these operations.
 */
#include "jobs/engine/batch_writer.h"

#include <assert.h>

#include "jobs/engine/batch_buffer.h"
#include "jobs/engine/resolve.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/request_pool.h"
#include "worker/store/retry.h"

/* Limits of the open batches: their number, and the bytes of all together.
 * Beyond these limits the least recently used batch is sealed. */
#define OPEN_MAX 64
#define OPEN_MAX_BYTES (4 * 1024 * 1024)

/* An open batch is sealed if more than this number of operations were added
 * after its first operation. Without this limit, a batch that never fills would
 * hold back the low-water mark, and callers could not free the memory of later
 * operations. */
#define OPEN_MAX_SEQUENCES 4096

/* Limit of the bytes of all batches under way together; a batch that is larger
 * than the limit is sent while no other batch is under way. */
#define UNDER_WAY_MAX_BYTES (4 * 1024 * 1024)

/* Limit of the distance between the newest sequence number and the low-water
 * mark; a power of two. */
#define SEQUENCES_MAX 65536

/* Limits of the responses in a row that complete no operation of a batch: after
 * ROUNDS_BEFORE_SPLIT the batch is split, after ROUNDS_MAX its operations
 * fail. */
#define ROUNDS_BEFORE_SPLIT 4
#define ROUNDS_MAX 50

/*
 * Limits of the re-reads in progress: their number, and their memory in bytes
 * (exceeded by one re-read at most). Beyond these limits a batch waits before
 * its re-read begins.
 */
#define RESOLVING_MAX 8
#define RESOLVING_MAX_BYTES (4 * 1024 * 1024)

struct batch_buffers {
    struct batch_buffer *first, *last;
    size_t count, bytes;
};

struct batch_writer {
    struct run *run;
    unsigned in_flight;
    struct batch_buffers open;      /* batches that take operations, the most
                                     * recently used first */
    struct batch_buffers ready;     /* batches to be sent next, in this order */
    struct batch_buffers under_way; /* batches in the request pool, or being
                                     * re-read, or waiting for a re-read */
    unsigned resolving;     /* number of batches of under_way that are being
                             * re-read */
    size_t resolving_bytes; /* memory of the re-reads in progress */
    uint64_t seen;          /* what request_pool_wait_any() returned last: the
                             * number of requests that have ended so far */

    uint64_t sequence, low_water;
    unsigned char completed[SEQUENCES_MAX / 8]; /* one bit per sequence number
                                                 modulo SEQUENCES_MAX: set if
                                                 the operation is completed and
                                                 above low_water */

    int64_t done, failed;
    bool indeterminate; /* a request had an unknown outcome */
    bool finishing;     /* batch_writer_finish() is running: no batch is sent
                         * any more */
    enum tw_err broken;
    struct err why;
};

/* ---- lists of batches ---- */

static void push(struct batch_buffers *list, struct batch_buffer *batch_buffer)
{
    batch_buffer->next = NULL;
    if (list->last)
        list->last->next = batch_buffer;
    else
        list->first = batch_buffer;
    list->last = batch_buffer;
    list->count++;
    list->bytes += batch_buffer->bytes;
}

static void push_first(
    struct batch_buffers *list, struct batch_buffer *batch_buffer)
{
    batch_buffer->next = list->first;
    list->first = batch_buffer;
    if (!list->last)
        list->last = batch_buffer;
    list->count++;
    list->bytes += batch_buffer->bytes;
}

static void take_out(
    struct batch_buffers *list, struct batch_buffer *batch_buffer)
{
    struct batch_buffer **at = &list->first, *before = NULL;

    while (*at != batch_buffer) {
        before = *at;
        at = &before->next;
    }
    *at = batch_buffer->next;
    if (list->last == batch_buffer)
        list->last = before;
    list->count--;
    list->bytes -= batch_buffer->bytes;
}

static void drop_all(struct batch_buffers *list)
{
    while (list->first) {
        struct batch_buffer *batch_buffer = list->first;

        take_out(list, batch_buffer);
        batch_buffer_free(batch_buffer);
    }
}

/* ---- sequence numbers ---- */

static bool is_completed(
    const struct batch_writer *batch_writer, uint64_t sequence)
{
    uint64_t bit = sequence % SEQUENCES_MAX;

    return batch_writer->completed[bit / 8] >> (bit % 8) & 1;
}

static void set_completed(
    struct batch_writer *batch_writer, uint64_t sequence, bool completed)
{
    uint64_t bit = sequence % SEQUENCES_MAX;
    unsigned mask = 1u << (bit % 8), was = batch_writer->completed[bit / 8];

    batch_writer->completed[bit / 8] =
        (unsigned char)(completed ? was | mask : was & ~mask);
}

static void complete_sequence(
    struct batch_writer *batch_writer, uint64_t sequence)
{
    set_completed(batch_writer, sequence, true);
    while (batch_writer->low_water < batch_writer->sequence &&
           is_completed(batch_writer, batch_writer->low_water + 1)) {
        batch_writer->low_water++;
        set_completed(batch_writer, batch_writer->low_water, false);
    }
}

/* ---- completing operations ---- */

static void break_batch_writer(
    struct batch_writer *batch_writer, enum tw_err outcome, const char *why)
{
    if (batch_writer->broken != TW_OK)
        return;
    batch_writer->broken = err_fail(&batch_writer->why, outcome, "%s", why);
}

static void count_done(
    struct batch_writer *batch_writer, const struct operation *operation)
{
    struct run_counts *counts = &batch_writer->run->counts;

    atomic_fetch_add(operation->type == OPERATION_DELETE ? &counts->deleted
                                                         : &counts->written,
        1);
    batch_writer->done++;
}

static void report_failed(
    struct batch_writer *batch_writer, const struct batch_buffer_entry *entry)
{
    const struct entity *entity = &entry->item.operation.entity;

    batch_writer->failed++;
    batch_writer->run->callbacks->failed(batch_writer->run,
        &(struct run_failure){entry->item.table, entity->partition_key,
            entity->row_key, NULL, entry->why});
}

static void tell(const struct batch_buffer_entry *entry)
{
    static const enum batch_writer_end ends[] = {
        [ENTRY_DONE] = WRITTEN,
        [ENTRY_NO_OP] = WRITE_WAS_NO_OP,
        [ENTRY_ABSENT] = WRITE_OF_ABSENT,
        [ENTRY_SKIPPED] = WRITE_WAS_SKIPPED,
        [ENTRY_FAILED] = WRITE_FAILED,
    };
    const struct batch_item *item = &entry->item;

    if (item->completed)
        item->completed(
            item->context, &(struct batch_writer_completed){
                               .end = ends[entry->state],
                               .indeterminate = entry->indeterminate,
                               .etag = entry->etag,
                           });
}

static void complete_entry(
    struct batch_writer *batch_writer, const struct batch_buffer_entry *entry)
{
    switch (entry->state) {
    case ENTRY_SEND:
        return;
    case ENTRY_DONE:
    case ENTRY_ABSENT:
        count_done(batch_writer, &entry->item.operation);
        break;
    case ENTRY_NO_OP:
        break;
    case ENTRY_SKIPPED:
        atomic_fetch_add(&batch_writer->run->counts.skipped, 1);
        break;
    case ENTRY_FAILED:
        report_failed(batch_writer, entry);
        break;
    }
    tell(entry);
    complete_sequence(batch_writer, entry->sequence);
}

/* Put a batch with its remaining operations in front of all ready batches or,
 * while batch_writer_finish() runs, free the batch. Takes ownership of the
 * batch. */
static void send_again(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    if (batch_writer->finishing)
        batch_buffer_free(batch_buffer);
    else
        push_first(&batch_writer->ready, batch_buffer);
}

static void split(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    struct batch_buffer *second = batch_buffer_split(batch_buffer);

    send_again(batch_writer, second);
    send_again(batch_writer, batch_buffer);
}

/* Complete the entries whose state is not ENTRY_SEND, and queue the others to
 * be sent again. Takes ownership of the batch. */
static void complete_batch_buffer(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    size_t before = batch_buffer->count;

    for (size_t i = 0; i < batch_buffer->count; i++)
        complete_entry(batch_writer, &batch_buffer->entries[i]);
    batch_buffer_compact(batch_buffer);
    batch_buffer->rounds =
        batch_buffer->count < before ? 0 : batch_buffer->rounds + 1;
    if (batch_buffer->count == 0)
        batch_buffer_free(batch_buffer);
    else if (batch_buffer->rounds >= ROUNDS_BEFORE_SPLIT &&
             batch_buffer->count > 1)
        split(batch_writer, batch_buffer);
    else
        send_again(batch_writer, batch_buffer);
}

/* ---- handling responses; each takes ownership of the batch ---- */

static void on_ok(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    for (size_t i = 0; i < batch_buffer->count; i++) {
        batch_buffer->entries[i].state = ENTRY_DONE;
        batch_buffer->entries[i].etag =
            slice_of(batch_buffer->result->etags[i]);
    }
    complete_batch_buffer(batch_writer, batch_buffer);
}

/*
 * Handle TW_TOO_LARGE or TW_INVALID, whose cause is one operation or the whole
 * batch. If the response names an operation, or the batch has only one, that
 * operation fails. Otherwise the batch is split in two.
 */
static void on_refused(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    size_t at = batch_buffer->result->failed;

    if (batch_buffer->count == 1)
        at = 0;
    if (at >= batch_buffer->count) {
        split(batch_writer, batch_buffer);
        return;
    }
    batch_buffer_fail(batch_buffer, &batch_buffer->entries[at],
        batch_buffer->task.last.err.text);
    complete_batch_buffer(batch_writer, batch_buffer);
}

static void break_on_answer(
    struct batch_writer *batch_writer, const struct batch_buffer *batch_buffer)
{
    struct err why = batch_buffer->task.last.err;

    err_prefix(&why, "table %s", batch_buffer->table);
    break_batch_writer(batch_writer, batch_buffer->task.outcome, why.text);
}

/* If the outcome of the batch is unknown, count this, and set the time of the
 * next try. The request pool never retries a write whose outcome is unknown, so
 * its backoff is applied here. */
static void count_unknown(struct batch_buffer *batch_buffer)
{
    uint64_t random;

    if (batch_buffer->task.outcome != TW_UNKNOWN) {
        batch_buffer->unknowns = 0;
        batch_buffer->not_before_ms = 0;
        return;
    }
    if (++batch_buffer->unknowns >= RETRY_TRIES)
        return;
    platform_random(&random, sizeof random);
    batch_buffer->not_before_ms =
        platform_boot_ms() + retry_backoff_ms(batch_buffer->unknowns,
                                 batch_buffer->task.last.http_status != 0,
                                 random,
                                 batch_buffer->task.last.retry_after_ms);
}

static void give_up_stubborn(struct batch_buffer *batch_buffer)
{
    for (size_t i = 0; i < batch_buffer->count; i++)
        if (batch_buffer->entries[i].state == ENTRY_SEND)
            batch_buffer_fail(batch_buffer, &batch_buffer->entries[i],
                "other writers changed the entity before each attempt to write "
                "it");
}

/* Wait until the re-read has ended, then handle its result. */
static void on_resolved(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    struct err why;
    enum tw_err outcome = resolve_end(batch_buffer->resolving, &why);

    batch_buffer->resolving = NULL;
    if (outcome != TW_OK) {
        break_batch_writer(batch_writer, outcome, why.text);
        batch_buffer_free(batch_buffer);
        return;
    }
    if (batch_buffer->rounds >= ROUNDS_MAX)
        give_up_stubborn(batch_buffer);
    if (batch_buffer->unknowns >= RETRY_TRIES)
        break_on_answer(batch_writer, batch_buffer);
    complete_batch_buffer(batch_writer, batch_buffer);
}

/* May the batch be re-read? While batch_writer_finish() runs, no batch is sent
 * again; a batch is then re-read only after an unknown outcome, because its
 * operations may have been carried out. */
static bool may_resolve(const struct batch_writer *batch_writer,
    const struct batch_buffer *batch_buffer)
{
    return batch_writer->broken == TW_OK &&
           (!batch_writer->finishing ||
               batch_buffer->task.outcome == TW_UNKNOWN);
}

static bool reads_enough(const struct batch_writer *batch_writer)
{
    return batch_writer->resolving >= RESOLVING_MAX ||
           batch_writer->resolving_bytes >= RESOLVING_MAX_BYTES;
}

/* Must the thread wait for the re-read of this batch? True also after several
 * refusals. Other writers then change the entities all the time, so the write
 * must follow the re-read at once. */
static bool must_resolve(const struct batch_writer *batch_writer,
    const struct batch_buffer *batch_buffer)
{
    return batch_writer->finishing ||
           batch_buffer->rounds >= ROUNDS_BEFORE_SPLIT;
}

/* Continue a batch whose re-read was begun. Takes ownership of the batch. If it
 * may not be re-read, free it. If the re-read has ended, or the thread must
 * wait for the end, handle the result. In all other cases put the batch back
 * into under_way. */
static void continue_resolving(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    if (!may_resolve(batch_writer, batch_buffer)) {
        resolve_free(batch_buffer->resolving);
        batch_buffer_free(batch_buffer);
    } else if (must_resolve(batch_writer, batch_buffer) ||
               resolve_is_ready(batch_buffer->resolving)) {
        on_resolved(batch_writer, batch_buffer);
    } else {
        batch_writer->resolving++;
        batch_buffer->resolving_bytes = resolve_bytes(batch_buffer->resolving);
        batch_writer->resolving_bytes += batch_buffer->resolving_bytes;
        push(&batch_writer->under_way, batch_buffer);
    }
}

/* Begin the re-read, or let the batch wait while too many re-reads are in
 * progress. Takes ownership of the batch. */
static void begin_resolving(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    batch_buffer->waits_to_resolve =
        may_resolve(batch_writer, batch_buffer) &&
        !must_resolve(batch_writer, batch_buffer) && reads_enough(batch_writer);
    if (batch_buffer->waits_to_resolve) {
        push(&batch_writer->under_way, batch_buffer);
        return;
    }
    if (may_resolve(batch_writer, batch_buffer))
        batch_buffer->resolving =
            resolve_begin(batch_writer->run, batch_buffer);
    continue_resolving(batch_writer, batch_buffer);
}

/* Handle a conflict or an unknown outcome: begin to re-read the entities of the
 * batch. */
static void on_met(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    count_unknown(batch_buffer);
    begin_resolving(batch_writer, batch_buffer);
}

static void on_answer(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    switch (batch_buffer->task.outcome) {
    case TW_OK:
        on_ok(batch_writer, batch_buffer);
        break;
    case TW_UNKNOWN:
        batch_writer->indeterminate = true;
        batch_buffer_doubt(batch_buffer);
        on_met(batch_writer, batch_buffer);
        break;
    case TW_CONFLICT:
    case TW_NOT_FOUND:
        on_met(batch_writer, batch_buffer);
        break;
    case TW_TOO_LARGE:
    case TW_INVALID:
        on_refused(batch_writer, batch_buffer);
        break;
    case TW_BUSY:
    case TW_REFUSED:
    case TW_FORBIDDEN:
    case TW_STOPPED:
    case TW_FULL:
        break_on_answer(batch_writer, batch_buffer);
        batch_buffer_free(batch_buffer);
        break;
    }
}

static bool has_ended(const struct batch_writer *batch_writer,
    const struct batch_buffer *batch_buffer)
{
    if (batch_buffer->waits_to_resolve)
        return !reads_enough(batch_writer);
    return batch_buffer->resolving
               ? resolve_is_ready(batch_buffer->resolving)
               : request_pool_done(
                     batch_writer->run->pool_client, &batch_buffer->task);
}

/* Handle a batch whose request or re-read has ended. Takes ownership of the
 * batch. */
static void on_end(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    take_out(&batch_writer->under_way, batch_buffer);
    if (batch_buffer->waits_to_resolve) {
        begin_resolving(batch_writer, batch_buffer);
    } else if (batch_buffer->resolving) {
        batch_writer->resolving--;
        batch_writer->resolving_bytes -= batch_buffer->resolving_bytes;
        continue_resolving(batch_writer, batch_buffer);
    } else {
        on_answer(batch_writer, batch_buffer);
    }
}

/* Handle all batches whose request or re-read has ended. Repeat this until
 * there are no more of them, because after the end of a re-read a waiting batch
 * may begin its own re-read. */
static void reap(struct batch_writer *batch_writer)
{
    bool any;

    do {
        struct batch_buffer *batch_buffer = batch_writer->under_way.first;

        any = false;
        while (batch_buffer) {
            struct batch_buffer *next = batch_buffer->next;

            if (has_ended(batch_writer, batch_buffer)) {
                on_end(batch_writer, batch_buffer);
                any = true;
            }
            batch_buffer = next;
        }
    } while (any);
}

/* ---- sending ---- */

static bool may_send(const struct batch_writer *batch_writer,
    const struct batch_buffer *batch_buffer)
{
    if (batch_writer->under_way.count >= batch_writer->in_flight)
        return false;
    return batch_writer->under_way.count == 0 ||
           batch_writer->under_way.bytes + batch_buffer->bytes <=
               UNDER_WAY_MAX_BYTES;
}

/*
 * Does max_entities_per_second allow the batch now? If not, the call waits a
 * moment and handles the batches that have ended, so that the run's counts grow
 * meanwhile. Then it returns false, and another batch may be the first ready
 * one. If the run must stop, the call breaks the batch writer, and the next
 * attempt sends the batches that were not sent.
 */
static bool spend(
    struct batch_writer *batch_writer, const struct batch_buffer *batch_buffer)
{
    if (request_pool_spend(
            batch_writer->run->pool_client, (unsigned)batch_buffer->count))
        return true;
    if (run_stopping(batch_writer->run))
        break_batch_writer(batch_writer, TW_STOPPED, "stopped");
    else
        reap(batch_writer);
    return false;
}

/* What the caller of send_ready() does next. */
enum after_send {
    CALLER_CONTINUES, /* does other work while the batches are under way */
    CALLER_WAITS,     /* only waits for the responses, so a single batch is
                         sent on the caller's thread */
};

/* Send as many ready batches as the limits allow. */
static void send_ready(
    struct batch_writer *batch_writer, enum after_send after_send)
{
    while (batch_writer->broken == TW_OK && batch_writer->ready.first &&
           may_send(batch_writer, batch_writer->ready.first)) {
        struct batch_buffer *batch_buffer = batch_writer->ready.first;

        if (!spend(batch_writer, batch_buffer))
            continue;
        take_out(&batch_writer->ready, batch_buffer);
        push(&batch_writer->under_way, batch_buffer);
        if (after_send == CALLER_WAITS && !batch_writer->ready.first &&
            batch_writer->under_way.count == 1)
            batch_buffer_call(batch_buffer, batch_writer->run->pool_client);
        else
            batch_buffer_submit(batch_buffer, batch_writer->run->pool_client);
    }
}

static void wait_one(struct batch_writer *batch_writer)
{
    batch_writer->seen = request_pool_wait_any(
        batch_writer->run->pool_client, batch_writer->seen);
    reap(batch_writer);
    send_ready(batch_writer, CALLER_CONTINUES);
}

static void cut(
    struct batch_writer *batch_writer, struct batch_buffer *batch_buffer)
{
    take_out(&batch_writer->open, batch_buffer);
    push(&batch_writer->ready, batch_buffer);
}

static void cut_all(struct batch_writer *batch_writer)
{
    while (batch_writer->open.last)
        cut(batch_writer, batch_writer->open.last);
}

static struct batch_buffer *find_open(
    struct batch_writer *batch_writer, const struct batch_item *item)
{
    struct batch_buffer *batch_buffer = batch_writer->open.first;

    while (batch_buffer && !batch_buffer_takes(batch_buffer, item))
        batch_buffer = batch_buffer->next;
    return batch_buffer;
}

/* Returns the batch to which item is added: an open one, or a new one. */
static struct batch_buffer *batch_buffer_for(
    struct batch_writer *batch_writer, const struct batch_item *item)
{
    struct batch_buffer *batch_buffer = find_open(batch_writer, item);

    if (batch_buffer && !batch_buffer_has_room(batch_buffer, item)) {
        cut(batch_writer, batch_buffer);
        batch_buffer = NULL;
    }
    if (batch_buffer)
        take_out(&batch_writer->open, batch_buffer);
    else
        batch_buffer = batch_buffer_new(item);
    return batch_buffer;
}

/* If SEQUENCES_MAX sequence numbers are above the low-water mark, send all open
 * batches and wait until the low-water mark has risen. */
static void make_room_for_sequence(struct batch_writer *batch_writer)
{
    if (batch_writer->sequence - batch_writer->low_water < SEQUENCES_MAX)
        return;
    cut_all(batch_writer);
    send_ready(batch_writer, CALLER_WAITS);
    while (batch_writer->broken == TW_OK &&
           batch_writer->sequence - batch_writer->low_water >= SEQUENCES_MAX)
        wait_one(batch_writer);
}

/* Seal the batches that have been open too long. The check is made at every
 * (OPEN_MAX_SEQUENCES / 4)-th operation only, to save time. */
static void cut_old(struct batch_writer *batch_writer)
{
    struct batch_buffer *batch_buffer = batch_writer->open.first;

    if (batch_writer->sequence % (OPEN_MAX_SEQUENCES / 4) != 0)
        return;
    while (batch_buffer) {
        struct batch_buffer *next = batch_buffer->next;

        if (batch_buffer->entries[0].sequence + OPEN_MAX_SEQUENCES <
            batch_writer->sequence)
            cut(batch_writer, batch_buffer);
        batch_buffer = next;
    }
}

/* Seal the batches that are full or beyond the limits, and wait until all ready
 * batches are sent. */
static void send_surplus(struct batch_writer *batch_writer)
{
    struct batch_buffer *newest = batch_writer->open.first;

    if (newest->count == BATCH_MAX_OPERATIONS)
        cut(batch_writer, newest);
    cut_old(batch_writer);
    while (batch_writer->open.count > OPEN_MAX ||
           batch_writer->open.bytes > OPEN_MAX_BYTES)
        cut(batch_writer, batch_writer->open.last);
    send_ready(batch_writer, CALLER_CONTINUES);
    while (batch_writer->broken == TW_OK && batch_writer->ready.first)
        wait_one(batch_writer);
}

static enum tw_err outcome_of(
    const struct batch_writer *batch_writer, struct err *err)
{
    if (batch_writer->broken == TW_OK)
        return TW_OK;
    return err_fail(err, batch_writer->broken, "%s", batch_writer->why.text);
}

/* ---- public functions ---- */

struct batch_writer *batch_writer_new(struct run *run, unsigned in_flight)
{
    struct batch_writer *batch_writer = mem_alloc(sizeof *batch_writer);

    assert(in_flight > 0);
    batch_writer->run = run;
    batch_writer->in_flight = in_flight;
    return batch_writer;
}

enum tw_err batch_writer_add(struct batch_writer *batch_writer,
    const struct batch_item *item, struct err *err)
{
    struct batch_buffer *batch_buffer;

    make_room_for_sequence(batch_writer);
    if (batch_writer->broken != TW_OK)
        return outcome_of(batch_writer, err);
    batch_buffer = batch_buffer_for(batch_writer, item);
    batch_buffer_add(batch_buffer, item, ++batch_writer->sequence);
    push_first(&batch_writer->open, batch_buffer);
    send_surplus(batch_writer);
    return outcome_of(batch_writer, err);
}

enum tw_err batch_writer_seal(
    struct batch_writer *batch_writer, struct err *err)
{
    cut_all(batch_writer);
    reap(batch_writer);
    send_ready(batch_writer, CALLER_CONTINUES);
    return outcome_of(batch_writer, err);
}

enum tw_err batch_writer_drain(
    struct batch_writer *batch_writer, struct err *err)
{
    cut_all(batch_writer);
    send_ready(batch_writer, CALLER_WAITS);
    while (batch_writer->broken == TW_OK &&
           (batch_writer->ready.first || batch_writer->under_way.first))
        wait_one(batch_writer);
    return outcome_of(batch_writer, err);
}

void batch_writer_finish(struct batch_writer *batch_writer)
{
    batch_writer->finishing = true;
    drop_all(&batch_writer->open);
    drop_all(&batch_writer->ready);
    while (batch_writer->under_way.first) {
        struct batch_buffer *batch_buffer = batch_writer->under_way.first;

        request_pool_cancel(
            batch_writer->run->pool_client, &batch_buffer->task);
        on_end(batch_writer, batch_buffer);
    }
    if (batch_writer->sequence > batch_writer->low_water)
        break_batch_writer(
            batch_writer, TW_STOPPED, "the batch writer was ended");
    batch_writer->finishing = false;
}

uint64_t batch_writer_sequence(const struct batch_writer *batch_writer)
{
    return batch_writer->sequence;
}

uint64_t batch_writer_low_water(struct batch_writer *batch_writer)
{
    reap(batch_writer);
    send_ready(batch_writer, CALLER_CONTINUES);
    return batch_writer->low_water;
}

int64_t batch_writer_failed(const struct batch_writer *batch_writer)
{
    return batch_writer->failed;
}

int64_t batch_writer_done(const struct batch_writer *batch_writer)
{
    return batch_writer->done;
}

bool batch_writer_is_indeterminate(const struct batch_writer *batch_writer)
{
    return batch_writer->indeterminate;
}

void batch_writer_free(struct batch_writer *batch_writer)
{
    if (!batch_writer)
        return;
    batch_writer_finish(batch_writer);
    mem_free(batch_writer);
}
