/* SPDX-License-Identifier: MIT */
/* Decides what single requests of a run meet. */
#include "tests/support/script.h"

#include <string.h>

#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"

static const char *table_of(const struct store_request *request)
{
    return request->batch  ? request->batch->table
           : request->scan ? request->scan->table
                           : request->name;
}

static bool concerns(
    const struct script_event *event, const struct store_request *request)
{
    const char *table = table_of(request);

    return request->call == event->call && table &&
           strcmp(table, event->table) == 0 &&
           (request->call != CALL_BATCH ||
               request->batch->operations[0].type == event->type);
}

static enum tw_err answer(
    const struct script_event *event, struct exchange *exchange)
{
    if (event->answer == TW_UNKNOWN)
        exchange->sent_ms = platform_boot_ms();
    return err_fail(&exchange->err, event->answer, "as the test wants");
}

static void happen(struct script *s, void (*what)(struct hosted *h))
{
    if (!what)
        return;
    s->quiet = true;
    what(s->h);
    s->quiet = false;
}

static enum tw_err meet_event(struct script *s,
    const struct script_event *event, struct exchange *exchange,
    const struct store_request *request)
{
    enum tw_err outcome;

    happen(s, event->before);
    if (event->dies && event->unsent)
        deadline_close(s->h->deadline);
    if (event->unsent)
        return answer(event, exchange);
    outcome = request_send(s->inner, exchange, request);
    happen(s, event->after);
    if (event->dies)
        deadline_close(s->h->deadline);
    return event->answer == TW_OK ? outcome : answer(event, exchange);
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct script *s = (struct script *)self;
    struct script_event *met = NULL;

    for (size_t i = 0; i < s->count && !s->quiet; i++) {
        struct script_event *event = &s->events[i];

        if (concerns(event, request) && ++event->seen >= event->first &&
            event->seen <= event->last && !met)
            met = event;
    }
    return met ? meet_event(s, met, exchange, request)
               : request_send(s->inner, exchange, request);
}

void script_init(struct script *s, struct hosted *h)
{
    memset(s, 0, sizeof(*s));
    s->h = h;
    s->inner = h->store;
    interposed_init(&s->outer, "main", s->inner, meet);
    s->outer.store.capabilities = s->inner->capabilities;
    h->store = &s->outer.store;
}

static struct script_event *add(struct script *s)
{
    assert_true(s->count < SCRIPT_EVENTS_MAX);
    return &s->events[s->count++];
}

struct script_event *script_batch(struct script *s, const char *table,
    enum operation_type type, unsigned first, unsigned last)
{
    struct script_event *event = add(s);

    *event = (struct script_event){.call = CALL_BATCH,
        .table = table,
        .type = type,
        .first = first,
        .last = last};
    return event;
}

struct script_event *script_call(struct script *s, enum store_call call,
    const char *table, unsigned first, unsigned last)
{
    struct script_event *event = add(s);

    *event = (struct script_event){
        .call = call, .table = table, .first = first, .last = last};
    return event;
}

struct script_event *script_unsent(
    struct script_event *event, enum tw_err answer)
{
    event->answer = answer;
    event->unsent = true;
    return event;
}

void script_clear(struct script *s)
{
    s->count = 0;
}
