/* SPDX-License-Identifier: MIT */
/*
 * What a message asks for. Pure: bytes in, a request or a sentence out.
 *
 * On a queue without a bound job the body is a JSON object, plain or base64,
 * told apart by its first character that is not white space:
 *
 *   {"job": "delete-channel", "args": {"channel": "Football"}, "id": "...",
 *    "at": "2026-11-21T12:00:00Z", "traceparent": "00-...-...-01",
 *    "accept_deletes": false}
 *
 * On a bound queue the whole body is the job's one argument, as text, or as
 * base64 where the queue says so; never guessed.
 */
#ifndef TW_RUN_MESSAGE_H
#define TW_RUN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/setup.h"

struct request {
    const struct job *job;    /* NULL: it could not be told */
    struct run_args args;     /* in the job's order */
    struct slice args_json;   /* the same as message_args_json() writes it */
    struct slice id;          /* empty: the message's own id */
    int64_t requested_ticks;  /* `at`; 0: InsertionTime counts */
    struct slice traceparent; /* W3C, or empty */
    bool accept_deletes;
    struct slice unknown_job; /* not in the configuration: its name; id and
                                 args_json, as they came, are set where the
                                 message has them. TW_INVALID because of it,
                                 but on a bound queue (below) */

    /* Bound queues only: the body is also a JSON message for this very job, or
     * for unknown_job, with this id. Where the ledger has a run of this id with
     * these arguments it is that run's wake-up message, and nothing else. */
    struct slice wake_up_id;
    struct slice wake_up_args_json;
};

/*
 * message_read: understand the body of a message of queue. Texts live in
 * arena. TW_INVALID: err is the reason, for the ledger; ret->job is set where
 * the job could be told, all else is not to be used, but for wake_up_id. It
 * never fails otherwise.
 */
TW_MUST_USE enum tw_err message_read(const struct setup_queue *queue,
    const struct jobs *jobs, struct slice body, struct arena *arena,
    struct request *ret, struct err *err);

/*
 * message_args: put named values into the job's order and check them: each
 * declared argument once, none else, valid UTF-8, empty only where the job
 * allows it, no key made of them that the service forbids (where no variable
 * that the job needs is unset: else keys cannot be made yet), short enough for
 * the ledger. The command line's NAME=VALUE come through here too. Lives in
 * arena; values are copied.
 */
TW_MUST_USE enum tw_err message_args(const struct job *job,
    const struct slice *names, const struct slice *values, size_t count,
    struct arena *arena, struct run_args *ret, struct err *err);

/* message_args_json: add {"name":"value",...}, in the order given. */
void message_args_json(const struct run_args *args, struct buf *to);

/* message_args_parse: the arguments of a run from the ledger's Args, for its
 * job. TW_INVALID: they do not fit the job as it is defined now. */
TW_MUST_USE enum tw_err message_args_parse(const struct job *job,
    struct slice args_json, struct arena *arena, struct run_args *ret,
    struct err *err);

/* message_args_same: do two Args hold the same names and values, in whatever
 * order? Texts that are not JSON objects are equal to nothing. */
bool message_args_same(struct slice a, struct slice b);

/*
 * message_is_of: does body name the run, as a JSON message, plain or base64,
 * with this job, this id and these arguments? args_json empty: with any. The
 * body of a message that does not carry its run's id names none.
 */
bool message_is_of(struct slice body, struct slice job, struct slice id,
    struct slice args_json);

/*
 * message_compose: add the JSON message for a run: what enqueue and retry put.
 * at_ticks 0, traceparent empty, accept_deletes false: left out.
 */
void message_compose(struct slice job, struct slice args_json, struct slice id,
    int64_t at_ticks, struct slice traceparent, bool accept_deletes,
    struct buf *to);

/*
 * message_retell: add body, so that as a new message it is still the old
 * request: a JSON object, plain or base64, that names a "job" gets id and the
 * time at_ticks where it has none (id empty, at_ticks 0: none); anything else,
 * and what would be too long for a queue then, is added as it is. to is empty.
 */
void message_retell(
    struct slice body, struct slice id, int64_t at_ticks, struct buf *to);

#endif
