/* SPDX-License-Identifier: MIT */
/* Reads counts and ages of queued messages. */
#include "worker/cli/queues.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/store/store.h"

#define JSON_MAX_BYTES ((size_t)1024 * 1024)

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

/* Read the number of messages of queue; a missing queue counts as empty. */
static enum tw_err read_count(struct session *session, struct reading *reading,
    const char *queue, int64_t *ret, struct err *err)
{
    enum tw_err outcome;

    reading->queue = queue;
    outcome = session_call(
        session, reading->store, count_messages, reading, true, err);
    *ret = outcome == TW_OK ? reading->count : 0;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err read_oldest(struct session *session, struct reading *reading,
    const char *queue, int64_t *ret_ticks, struct err *err)
{
    enum tw_err outcome;

    reading->queue = queue;
    outcome = session_call(session, reading->store, peek, reading, true, err);
    *ret_ticks = outcome == TW_OK && reading->messages.count > 0
                     ? reading->messages.list[0].inserted_ticks
                     : 0;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err read_queue(struct session *session, struct store *store,
    const struct setup_queue *queue, struct queue_status *ret, struct err *err)
{
    struct reading reading = {.store = store};
    enum tw_err outcome;

    messages_init(&reading.messages);
    ret->name = queue->name;
    outcome = read_count(session, &reading, queue->name, &ret->messages, err);
    if (outcome == TW_OK && ret->messages > 0)
        outcome = read_oldest(
            session, &reading, queue->name, &ret->oldest_ticks, err);
    if (outcome == TW_OK)
        outcome = read_count(
            session, &reading, queue->poison_queue, &ret->poisoned, err);
    messages_done(&reading.messages);
    return outcome;
}

enum tw_err queues_read(struct session *session, struct store *store,
    struct queues *ret, struct err *err)
{
    const struct setup *setup = &session->load->setup;
    enum tw_err outcome = TW_OK;

    ret->count = 0;
    ret->list = mem_array(setup->queue_count + 1, sizeof(*ret->list));
    for (size_t i = 0; i < setup->queue_count && outcome == TW_OK; i++) {
        outcome =
            read_queue(session, store, &setup->queues[i], &ret->list[i], err);
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

static void print_queue(const struct queue_status *queue, int64_t now_ticks)
{
    struct buf line;

    buf_init(&line, 1024);
    buf_add_format(&line, "queue %s: ", queue->name);
    print_number(&line, queue->messages, "message", "messages");
    if (queue->oldest_ticks > 0) {
        buf_add_text(&line, ", the oldest waits ");
        print_age(&line, now_ticks - queue->oldest_ticks);
    }
    if (queue->poisoned > 0) {
        buf_add_text(&line, ", ");
        print_count(&line, queue->poisoned);
        buf_add_text(&line, " poisoned");
    }
    printf("%s\n", buf_text(&line));
    buf_done(&line);
}

void queues_print(
    const struct queues *queues, int64_t now_ticks, int64_t late_ticks)
{
    for (size_t i = 0; i < queues->count; i++)
        if (late_ticks < 0 ||
            queues_is_late(&queues->list[i], now_ticks, late_ticks))
            print_queue(&queues->list[i], now_ticks);
}

void queues_print_json(const struct queues *queues)
{
    char time[TEXT_TIME_MAX];
    struct buf text;

    buf_init(&text, JSON_MAX_BYTES);
    buf_add_char(&text, '[');
    for (size_t i = 0; i < queues->count; i++) {
        const struct queue_status *queue = &queues->list[i];

        buf_add_text(&text, i > 0 ? ",\n {\"Queue\":" : "{\"Queue\":");
        json_add_string(&text, slice_of(queue->name));
        buf_add_format(&text, ",\"Messages\":%" PRId64, queue->messages);
        if (queue->oldest_ticks > 0)
            buf_add_format(&text, ",\"Oldest\":\"%s\"",
                text_from_ticks(queue->oldest_ticks, time));
        buf_add_format(&text, ",\"Poisoned\":%" PRId64 "}", queue->poisoned);
    }
    printf("%s]\n", buf_text(&text));
    buf_done(&text);
}
