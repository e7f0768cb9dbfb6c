/* SPDX-License-Identifier: MIT */
/*
 * A store in front of the store of a hosted run. With it a test says what
 * single requests meet: the n-th request of a call on a table gets another
 * answer, or a function is called right before it or after it. Requests of the
 * test itself meet no event.
 */
#ifndef TW_TESTS_SUPPORT_SCRIPT_H
#define TW_TESTS_SUPPORT_SCRIPT_H

#include <stdbool.h>

#include "tests/support/hosted.h"
#include "tests/support/interpose.h"

#define SCRIPT_EVENTS_MAX 16

struct script_event {
    /* Which requests: all conditions must hold. */
    enum store_call call;
    const char *table;
    enum operation_type type; /* for a batch: the type of its first operation */
    unsigned first, last;     /* counted from 1, since the event was added */

    /* What happens to these requests. */
    enum tw_err answer; /* TW_OK: the answer of the store */
    bool unsent;        /* the requests are not carried out; `answer` must not
                           be TW_OK */
    bool dies; /* the worker is killed: before the request is sent if `unsent`,
                  else after it was carried out */
    void (*before)(struct hosted *h);
    void (*after)(struct hosted *h);

    unsigned seen;
};

struct script {
    struct interposed outer;
    struct hosted *h;
    struct store *inner;
    bool quiet; /* true: the test itself sends requests */
    struct script_event events[SCRIPT_EVENTS_MAX];
    size_t count;
};

/* script_init: puts s in front of h->store. hosted_done() still closes the
 * store of h. Needs virtual clocks if the run waits for requests that may
 * arrive late. */
void script_init(struct script *s, struct hosted *h);

/* script_batch: adds an event for the batches number `first` to `last` to this
 * table whose first operation has this type.
 * script_call: adds an event for the requests number `first` to `last` of this
 * call on this table.
 * Both return the event, which lives as long as s. The test then sets what the
 * requests meet. */
struct script_event *script_batch(struct script *s, const char *table,
    enum operation_type type, unsigned first, unsigned last);
struct script_event *script_call(struct script *s, enum store_call call,
    const char *table, unsigned first, unsigned last);

/* script_unsent: the requests of event are not carried out, and get this
 * answer. Returns event. */
struct script_event *script_unsent(
    struct script_event *event, enum tw_err answer);

/* script_clear: removes all events. */
void script_clear(struct script *s);

#endif
