/* SPDX-License-Identifier: MIT */
/*
 * Reads and composes queue messages. No function here sends a request to a
 * store.
 *
 * On a queue without a bound job the body is a JSON object, plain or base64,
 * distinguished by its first character that is not white space:
 *
 *   {"job": "delete-channel", "args": {"channel": "Football"}, "id": "...",
 *    "at": "2026-11-21T12:00:00Z", "traceparent": "00-...-...-01",
 *    "accept_deletes": false}
 *
 * On a bound queue the whole body is the job's one argument, as text, or as
 * base64 if the queue's `encoding` says so. The exception is a JSON message
 * whose run is in the ledger: it is a wake-up message of that run. Either
 * tableward has put it, or it came while the queue had no job. In the same way,
 * a queue without a bound job may have a message whose body is an argument,
 * because it came while the queue was bound. If its run is in the ledger, it is
 * a wake-up message of that run.
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
    const struct job *job;    /* job of the run; NULL: not known */
    struct run_args args;     /* arguments, in the order of the job's
                                 definition */
    struct slice args_json;   /* args, as message_args_json() writes them */
    struct slice id;          /* empty: use the message's own id */
    int64_t requested_ticks;  /* `at`; 0: use InsertionTime */
    struct slice traceparent; /* traceparent of W3C Trace Context; empty:
                                 none */
    bool accept_deletes;
    struct slice unknown_job; /* the name of a job that is not in the
                                 configuration; id and args_json are then set as
                                 in the message, if present. The outcome is
                                 TW_INVALID, except on a bound queue (below) */

    /*
     * Only on a bound queue. If the body is also a JSON message, these are the
     * job, id and arguments of that JSON message. wake_up_job is NULL if the
     * configuration does not have this job; unknown_job then has its name. If
     * the ledger has a run with this job, id (empty: the message's own id) and
     * arguments, the message only wakes up that run.
     */
    const struct job *wake_up_job;
    struct slice wake_up_id;
    struct slice wake_up_args_json;
};

/*
 * message_read: parse the body of a message of queue. Texts live in arena.
 * TW_INVALID is the only failure: err has the reason, for the ledger. Then only
 * some members of ret are valid: job (if known), and what is set for
 * unknown_job and wake_up_*.
 */
TW_MUST_USE enum tw_err message_read(const struct setup_queue *queue,
    const struct jobs *jobs, struct slice body, struct arena *arena,
    struct request *ret, struct err *err);

/*
 * message_read_as_bound: call for a body that message_read() refused on a queue
 * without a bound job. Reads the body as on a queue that is bound to job, and
 * sets wake_up_job and wake_up_args_json. Texts live in arena. False: job does
 * not have exactly one argument, or does not accept this one.
 */
bool message_read_as_bound(const struct job *job, bool base64,
    struct slice body, struct arena *arena, struct request *ret);

/*
 * message_args: put the arguments of a message, or NAME=VALUE of the command
 * line, into the job's order, and check them. Each declared argument must be
 * given once, and no other argument may be given. Values must be valid UTF-8,
 * short enough for the ledger, and not empty unless the job allows this. The
 * service must allow the keys that the job makes of the values. This is not
 * checked while a variable of the job is unset, because the keys cannot be made
 * then. ret lives in arena; values are copied.
 */
TW_MUST_USE enum tw_err message_args(const struct job *job,
    const struct slice *names, const struct slice *values, size_t count,
    struct arena *arena, struct run_args *ret, struct err *err);

/* message_args_json: append {"name":"value",...}, in the order given. */
void message_args_json(const struct run_args *args, struct buf *to);

/* message_args_parse: read a run's arguments from its Args in the ledger.
 * TW_INVALID: they do not fit the present definition of job. */
TW_MUST_USE enum tw_err message_args_parse(const struct job *job,
    struct slice args_json, struct arena *arena, struct run_args *ret,
    struct err *err);

/* message_args_same: do the Args `a` and `b` hold the same names and values, in
 * any order? False if one of them is not a JSON object. */
bool message_args_same(struct slice a, struct slice b);

/*
 * message_is_of: is body a JSON message, plain or base64, with this job, id and
 * arguments? args_json empty: with any arguments. False for a body without a
 * run id.
 */
bool message_is_of(struct slice body, struct slice job, struct slice id,
    struct slice args_json);

/* message_has_job: is body a JSON object, plain or base64, with "job"? */
bool message_has_job(struct slice body);

/* message_is_traceparent: is text "00-", 32 hexadecimal digits, "-", 16
 * hexadecimal digits, "-" and 2 hexadecimal digits, in lower case? */
bool message_is_traceparent(struct slice text);

/* message_compose: append the JSON message of a run that the ledger has, as
 * enqueue and retry put it. at_ticks 0, traceparent empty: left out.
 * accept_deletes is left out, because the ledger has it. */
void message_compose(struct slice job, struct slice args_json, struct slice id,
    int64_t at_ticks, struct slice traceparent, struct buf *to);

/*
 * message_retell: write to `to`, which must be empty, the body of a new message
 * that repeats the request in body. If body is a JSON object with "job" (plain
 * or base64), the new body gets what body lacks: `id` as its id (unless `id` is
 * empty), and at_ticks as its time (unless at_ticks is 0). Any other body, and
 * one that would become too long for a queue, is copied unchanged.
 */
void message_retell(
    struct slice body, struct slice id, int64_t at_ticks, struct buf *to);

#endif
