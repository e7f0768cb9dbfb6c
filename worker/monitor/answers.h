/* SPDX-License-Identifier: MIT */
/*
 * Answers to questions. Finding an answer (reading the ledger, changing a run)
 * takes longer than a handler of the HTTP server may take. A handler asks and
 * never waits: the module's one thread finds the answer, and the client sends
 * its request again to get it. A request that asks the same question soon
 * afterwards gets the same answer. So any number of open pages costs one
 * reading at a time, and no reading, however slow its store, holds up metrics
 * or health.
 */
#ifndef TW_MONITOR_ANSWERS_H
#define TW_MONITOR_ANSWERS_H

#include <stdint.h>

#include "worker/base/buf.h"

/* Number of questions that are kept, with their answers. A further question
 * replaces the answered one that was asked least recently. */
#define ANSWERS_MAX 8

struct answer {
    unsigned status; /* status code of HTTP */
    struct buf body;
};

struct answers_options {
    const char *name; /* name of the thread */
    /* answer: find the answer; called on the module's thread. ret has status
     * 200 and an empty body, which may grow to max_bytes. */
    void (*answer)(void *context, const char *question, struct answer *ret);
    /* tick: called on the module's thread every tick_ms; NULL: never. */
    void (*tick)(void *context);
    int64_t tick_ms;
    void *context;
    size_t max_bytes;
    /* An answer is given again for fresh_ms or, if that is longer, for `share`
     * times the time that it took to find the answer, but never for longer than
     * old_ms. An answer that no caller has received yet is kept for old_ms. */
    int64_t fresh_ms, share, old_ms;
};

enum answers_state {
    ANSWERS_READY,
    ANSWERS_PENDING, /* the answer is not known yet: ask again soon */
    ANSWERS_NONE,    /* answers_look(): the question is not kept; answers_ask():
                        too many questions are pending */
};

struct answers;

/* answers_new: starts the thread. options are copied. Owned. */
struct answers *answers_new(const struct answers_options *options);
/* answers_free: waits for the end of the answer() under way. Does nothing if
 * given NULL. */
void answers_free(struct answers *answers);

/*
 * answers_ask: ask for the answer to question. If the answer is not ready, the
 * module's thread will find it. answers_look: look up the kept question that
 * begins with `beginning`, without making the thread find an answer. If either
 * returns ANSWERS_READY, *ret_status has the status of the answer, and its text
 * was added to body. Neither waits. One thread calls both.
 */
enum answers_state answers_ask(struct answers *answers, const char *question,
    unsigned *ret_status, struct buf *body);
enum answers_state answers_look(struct answers *answers, const char *beginning,
    unsigned *ret_status, struct buf *body);

/* answers_forget: forget all answers, also one that the thread is looking for.
 * Call after a change that these answers do not show. */
void answers_forget(struct answers *answers);

#endif
