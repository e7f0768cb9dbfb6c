/* SPDX-License-Identifier: MIT */
/*
 * Answers to questions that take longer than a handler of the HTTP server may:
 * readings of the ledger, changes of runs. A handler asks; the module's one
 * thread finds the answer; a request with the same question soon after gets the
 * same answer. So any number of open pages costs one reading at a time, and a
 * store that does not respond holds up neither metrics nor health.
 */
#ifndef TW_MONITOR_ANSWERS_H
#define TW_MONITOR_ANSWERS_H

#include <stdint.h>

#include "worker/base/buf.h"

/* Questions that are kept with their answers. A further one replaces the
 * answered one that was asked for least recently. */
#define ANSWERS_MAX 8

struct answer {
    unsigned status; /* of HTTP */
    struct buf body;
};

struct answers_options {
    const char *name; /* of the thread */
    /* answer: find the answer; called on the module's thread. ret is 200 with
     * an empty body, of at most max_bytes. */
    void (*answer)(void *context, const char *question, struct answer *ret);
    /* tick: called on the module's thread every tick_ms; NULL: never. */
    void (*tick)(void *context);
    int64_t tick_ms;
    void *context;
    size_t max_bytes;
    int64_t fresh_ms; /* an answer is given again for so long, */
    int64_t share;    /* or for share times as long as it took to find, */
    int64_t old_ms;   /* but no longer than this */
    int64_t wait_ms;  /* answers_ask() waits so long for a new answer */
};

enum answers_state {
    ANSWERS_READY,
    ANSWERS_PENDING, /* ask again soon */
    ANSWERS_NONE,    /* answers_look(): the question was not asked, or long ago;
                        answers_ask(): too many questions are pending */
};

struct answers;

/* answers_new: starts the thread. options are copied. Owned. */
struct answers *answers_new(const struct answers_options *options);
/* answers_free: waits for the end of the answer() under way. NULL: nothing. */
void answers_free(struct answers *answers);

/*
 * answers_ask: *ret_status and the text in body get the answer if it is
 * ANSWERS_READY. Only a call that makes the thread look for a new answer waits,
 * for at most wait_ms. answers_look: the same for the question that begins with
 * `beginning`; never waits, and asks nothing. One thread calls both.
 */
enum answers_state answers_ask(struct answers *answers, const char *question,
    unsigned *ret_status, struct buf *body);
enum answers_state answers_look(struct answers *answers, const char *beginning,
    unsigned *ret_status, struct buf *body);

/* answers_forget: every answer is read again when it is requested next. */
void answers_forget(struct answers *answers);

#endif
