/* SPDX-License-Identifier: MIT */
/*
 * A store in front of that of a hosted run, where a test says what single
 * requests meet: the n-th of a call on a table is answered otherwise, or
 * something happens right before it or after it. What the test itself asks
 * meets nothing.
 */
#ifndef TW_TESTS_SUPPORT_SCRIPT_H
#define TW_TESTS_SUPPORT_SCRIPT_H

#include <stdbool.h>

#include "tests/support/hosted.h"
#include "tests/support/interpose.h"

#define SCRIPT_EVENTS_MAX 16

struct script_event {
    /* Which requests: all of these. */
    enum store_call call;
    const char *table;
    enum operation_type type; /* of a batch: its first operation's */
    unsigned first, last;     /* counted from 1, while the event is there */

    /* What they meet. */
    enum tw_err answer; /* TW_OK: their own */
    bool unsent;        /* with an answer: they are not carried out */
    bool dies;          /* the worker is killed: before it is sent where it is
                           unsent, else once it is carried out */
    void (*before)(struct hosted *h);
    void (*after)(struct hosted *h);

    unsigned seen;
};

struct script {
    struct interposed outer;
    struct hosted *h;
    struct store *inner;
    bool quiet; /* the test itself asks */
    struct script_event events[SCRIPT_EVENTS_MAX];
    size_t count;
};

/* script_init: h->store meets s from now on. It stays the one that
 * hosted_done() closes. In a virtual world, where late is waited for. */
void script_init(struct script *s, struct hosted *h);

/* script_batch, script_call: an event for the first-th to last-th of them; what
 * they meet is set in what is returned, which lives as long as s. */
struct script_event *script_batch(struct script *s, const char *table,
    enum operation_type type, unsigned first, unsigned last);
struct script_event *script_call(struct script *s, enum store_call call,
    const char *table, unsigned first, unsigned last);

/* script_unsent: its requests are not carried out, and this is their answer;
 * returns event. */
struct script_event *script_unsent(
    struct script_event *event, enum tw_err answer);

/* script_clear: no event any more. */
void script_clear(struct script *s);

#endif
