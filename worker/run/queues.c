/* SPDX-License-Identifier: MIT */
/* Reads counts and ages of queued messages. */
#include "worker/run/queues.h"

#include <inttypes.h>

#include "jobs/engine/call.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/runs.h"
#include "worker/run/setup.h"
#include "worker/store/store.h"

struct reading {
    struct store *store;
    const char *queue;
    int64_t count;
    struct messages messages;
};

static enum tw_err count_messages(void *context, struct exchange *exchange)
{
    struct reading *reading = context;

    return store_queue_count(
        reading->store, exchange, reading->queue, &reading->count);
}

static enum tw_err peek(void *context, struct exchange *exchange)
{
    struct reading *reading = context;

    return store_queue_peek(
        reading->store, exchange, reading->queue, 1, &reading->messages);
}

/* Make the request, which only reads, and name the store if it fails. */
static enum tw_err call(const struct runs_reader *reader,
    enum tw_err (*request)(void *context, struct exchange *exchange),
    struct reading *reading, const char *queue, struct err *err)
{
    enum tw_err outcome;

    reading->queue = queue;
    outcome =
        call_any(reader->client, reader->store, request, reading, true, err);
    if (outcome != TW_OK)
        store_explain(reader->store, outcome, err);
    return outcome;
}

/* Read the number of messages of queue; a missing queue counts as empty. */
static enum tw_err read_count(const struct runs_reader *reader,
    struct reading *reading, const char *queue, int64_t *ret, struct err *err)
{
    enum tw_err outcome = call(reader, count_messages, reading, queue, err);

    *ret = outcome == TW_OK ? reading->count : 0;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err read_oldest(const struct runs_reader *reader,
    struct reading *reading, const char *queue, int64_t *ret_ticks,
    struct err *err)
{
    enum tw_err outcome = call(reader, peek, reading, queue, err);

    *ret_ticks = outcome == TW_OK && reading->messages.count > 0
                     ? reading->messages.list[0].inserted_ticks
                     : 0;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err read_queue(const struct runs_reader *reader,
    const struct setup_queue *queue, struct queue_status *ret, struct err *err)
{
    struct reading reading = {.store = reader->store};
    enum tw_err outcome;

    messages_init(&reading.messages);
    ret->name = queue->name;
    outcome = read_count(reader, &reading, queue->name, &ret->messages, err);
    if (outcome == TW_OK && ret->messages > 0)
        outcome =
            read_oldest(reader, &reading, queue->name, &ret->oldest_ticks, err);
    if (outcome == TW_OK)
        outcome = read_count(
            reader, &reading, queue->poison_queue, &ret->poisoned, err);
    messages_done(&reading.messages);
    return outcome;
}

enum tw_err queues_read(const struct runs_reader *reader,
    const struct setup *setup, struct queues *ret, struct err *err)
{
    enum tw_err outcome = TW_OK;

    ret->count = 0;
    ret->list = mem_array(setup->queue_count + 1, sizeof(*ret->list));
    for (size_t i = 0; i < setup->queue_count && outcome == TW_OK; i++) {
        outcome = read_queue(reader, &setup->queues[i], &ret->list[i], err);
        ret->count++;
    }
    return outcome;
}

void queues_done(struct queues *queues)
{
    mem_free(queues->list);
    *queues = (struct queues){.list = NULL};
}

bool queues_is_late(
    const struct queue_status *queue, int64_t now_ticks, int64_t older_ticks)
{
    return queue->oldest_ticks > 0 &&
           now_ticks - queue->oldest_ticks > older_ticks;
}

void queues_add_json(const struct queues *queues, struct buf *to)
{
    char time[TEXT_TIME_MAX];

    buf_add_char(to, '[');
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_status *queue = &queues->list[i];

        buf_add_text(to, i > 0 ? ",\n {\"Queue\":" : "{\"Queue\":");
        json_add_string(to, slice_of(queue->name));
        buf_add_format(to, ",\"Messages\":%" PRId64, queue->messages);
        if (queue->oldest_ticks > 0)
            buf_add_format(to, ",\"Oldest\":\"%s\"",
                text_from_ticks(queue->oldest_ticks, time));
        buf_add_format(to, ",\"Poisoned\":%" PRId64 "}", queue->poisoned);
    }
    buf_add_char(to, ']');
}
