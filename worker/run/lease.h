/* SPDX-License-Identifier: MIT */
/*
 * A lease: the right of one attempt to work on one run. Only the lease in the
 * ledger (Owner, Epoch, LeaseUntil) decides which attempt works on a run, and
 * until when. The message's visibility decides only when a worker receives the
 * message again; its renewal is best effort, and the queue service's clock is
 * never compared with the ledger's.
 *
 * No lock: one thread at a time uses a lease. The attempt acquires the lease,
 * lends it to the renewer from renewal_start() to renewal_stop(), and releases
 * it. Two renewer threads may use the parts marked L (ledger) and M (message)
 * at the same time. Other threads read only the deadline, which is atomic.
 *
 * Clocks. A request is sent at boot time t, and the response of the ledger has
 * Date D (whole seconds). This proves that at a later boot time b the clock of
 * any server of the table service shows at most D + 3 s + (b - t): 1 s for the
 * fraction that Date cuts off, and 2 s by which its servers differ. So a
 * LeaseUntil of D + 3 s + (b - t) + visibility timeout expires on no server
 * before boot time b + visibility timeout. That is the deadline of a write sent
 * at b. The boot time stops while a hypervisor pauses this machine: see
 * lease_clock.h.
 */
#ifndef TW_RUN_LEASE_H
#define TW_RUN_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/lock_file.h"
#include "worker/store/deadline.h"
#include "worker/store/lease_clock.h"
#include "worker/store/store.h"

/* Longest time that a message is hidden because its run is held (see
 * lease_hold_run()) or cannot be changed. */
#define HOLD_MAX_MS INT64_C(300000)
/* A message may become visible later than requested by up to this time, because
 * the queue service hides messages for whole seconds, and the time is rounded
 * up. */
#define HIDE_ROUNDED_MS 1050

struct job;

/* The message of the attempt. All texts are borrowed until lease_acquire()
 * returns. */
struct lease_message {
    const char *queue;
    struct slice id, pop_receipt, text;
    int64_t inserted_ticks;
    int64_t dequeue_count; /* above 1: the message was received before */
    int64_t sent_ms;       /* when the Get that returned the message was sent */
};

struct lease_request {
    struct store *store;
    const struct job *job;
    struct slice accounts; /* bound_accounts() of job */
    struct slice id;
    struct slice args_json;  /* empty: use the ledger's Args (orphans) */
    int64_t requested_ticks; /* RequestedAt of a new run; 0: the message's
                                InsertionTime or, without a message, the present
                                time */
    struct slice traceparent;
    const struct lease_message *message; /* NULL: none */
    bool must_exist;     /* do not insert the run if the ledger does not have
                            it */
    bool resumes_paused; /* a paused run may be acquired: set by the `run`
                            command, not by workers */
    bool accept_deletes; /* true: the run accepts deletes, even if the ledger
                            says that it does not. It is ignored if AcceptedAt
                            is the InsertionTime of `message` or later: then an
                            attempt has already acted on the message, or the
                            message is out of date. false: as the ledger says */
    int64_t visibility_timeout_s, max_attempts;
    struct lock_file *lock_file; /* lock file of this process; NULL: none */
};

/* What an operator asks of the owner of a live lease. */
enum lease_asked { LEASE_ASKED_NOTHING, LEASE_ASKED_PAUSE, LEASE_ASKED_CANCEL };

struct lease {
    struct store *store;
    int64_t visibility_timeout_ms;
    struct lock_file *lock_file; /* lock file of this process; NULL: none */
    size_t noted;                /* index of the run's note in lock_file */
    bool may_own;                /* the ledger may have this lease's Owner */

    /* Marked M (see above): the message. If the attempt has no message,
     * has_message is false. */
    bool has_message;
    char queue[64];
    char message_id[QUEUE_ID_MAX];
    char pop_receipt[QUEUE_RECEIPT_MAX];
    char *text; /* the message's body, for the poison queue. Owned */
    size_t text_len;
    int64_t message_sent_ms; /* when the request that hid the message was sent:
                                the Get, or a renewal by poison.c */

    /* Marked L (see above): all fields below. */
    struct ledger_run stored;        /* the run as last stored, with ETags */
    struct ledger_run run;           /* the run as the next write stores it */
    char owner[LOCK_FILE_OWNER_MAX]; /* the Owner that this lease wrote */
    int64_t deadline_ms;         /* end of the lease, on platform_boot_ms() */
    bool previous_owner_crashed; /* the previous owner did not release its
                                    lease */
    bool starts_over; /* the checkpoint was dropped, because it was made
                         under another definition */
    bool keeps_crash; /* lease_release() stores that the previous owner crashed,
                         because this attempt has not waited for its late
                         requests */
    bool binds; /* this attempt was the first to bind the run to a definition */
    bool only_load; /* the attempt may only complete a load, because an operator
                       had asked to cancel or pause the run before the attempt
                       began; stays true if the operator takes the request back
                     */
    bool closes_job; /* the write that ends the run closes its job (rule A5) */
    bool newly_accepted;    /* an operator has accepted deletes during this
                               attempt, and the kind has not been told yet */
    enum lease_asked asked; /* what an operator asks of the owner */
    bool load_open; /* the run may have a load that is not complete (load_open
                       of struct run). Then lease_release() neither cancels nor
                       pauses the run */
    char end_operation[17]; /* Operation of a release whose outcome is
                               indeterminate; empty: none */
    bool newly_held; /* lease_acquire() has stored that the run is held for its
                        definition, and the run was not held for it before */
    bool unstorable; /* the last write returned LEASE_UNKNOWN because of this
                        run's entity, not because of the store */

    /* date_ticks: the newest Date of the table service.
     * date_sent_ms: boot time at which the request with this Date was sent.
     * date_answered_ms: boot time at which its response had come. */
    int64_t date_ticks, date_sent_ms, date_answered_ms;

    struct lease_clock clock; /* what the Dates of all responses show about the
                                 lease */
    struct deadline deadline; /* deadline for requests of the kind, which end
                                 before deadline_ms */
    struct deadline own; /* deadline for requests of the lease itself, which may
                            start until deadline_ms */
    _Atomic int64_t requests; /* number of requests of the lease itself, part of
                                 Transactions */
    int64_t until_ticks;      /* LEASE_HELD: when to try again, on the
                                 service's clock */
};

enum lease_outcome {
    LEASE_ACQUIRED,   /* this attempt owns the run until the deadline */
    LEASE_RUN_ENDED,  /* the run has ended with lease->run.state; delete the
                         message */
    LEASE_HELD,       /* another owner has the run, or the run waits: hide the
                         message until lease->until_ticks */
    LEASE_RUN_PAUSED, /* the run is paused: delete the message, because `resume`
                         puts a new one */
    LEASE_RUN_MISSING, /* must_exist is set, but the run does not exist */
    LEASE_REFUSED, /* the id exists with other arguments; or the run is paused,
                      and its definition has changed; or the run's entity in the
                      ledger cannot be read or changed */
    LEASE_OUTAGE,  /* the store cannot be used; err has the cause */
};

/*
 * lease_init: prepare the lease; sends no request. lease_done frees the memory;
 * it does not release the lease in the ledger.
 */
void lease_init(struct lease *lease, const struct lease_request *request);
void lease_done(struct lease *lease);

/*
 * lease_acquire: acquire the lease with a conditional write of the run's
 * entity: Epoch + 1, a new Owner, LeaseUntil. If the run is free this takes two
 * requests, a read and the write. The read is not needed if the message names
 * no run id, is delivered for the first time, and the ledger's Date is known.
 * The lease of an owner that is known to be dead (lock_file.h) is ignored.
 * Retries while the service is busy, for at most 10 s. LEASE_ACQUIRED:
 * lease->run is the run as stored, in state `running`, and both deadlines are
 * set. *ret_outcome: for LEASE_OUTAGE the outcome of the store's request; for
 * LEASE_REFUSED TW_INVALID if the run's entity in the ledger cannot be used,
 * else TW_CONFLICT.
 */
enum lease_outcome lease_acquire(struct lease *lease,
    const struct lease_request *request, enum tw_err *ret_outcome,
    struct err *err);

/* Whether the ledger still has this lease. */
enum lease_status {
    LEASE_VALID,
    LEASE_LOST,    /* another Owner or Epoch, or the entity is gone */
    LEASE_UNKNOWN, /* the ledger could not be read or written */
};

/*
 * lease_renew_message: hide the message for another visibility timeout and keep
 * the new pop receipt. TW_CONFLICT: another worker has received the message, or
 * it was deleted; the message is no longer renewed. No outcome affects the
 * lease.
 */
enum tw_err lease_renew_message(struct lease *lease, struct err *err);

/*
 * lease_write_run: store lease->run with a new LeaseUntil. LEASE_VALID: stored,
 * the deadline has moved, and lease->asked and lease->run.finish have what
 * operators asked of the owner since the last write. LEASE_UNKNOWN: not stored,
 * or the outcome is indeterminate; err has the cause. *ret_last: the last
 * request of the write; NULL: not wanted.
 */
enum lease_status lease_write_run(
    struct lease *lease, struct exchange *ret_last, struct err *err);

/*
 * lease_release: call when the state of lease->run is no longer `running`.
 * Stores lease->run without Owner and with LeaseUntil now. Retries until the
 * outcome is known or the lease expires. LEASE_VALID: stored, and lease->run is
 * the run as stored. If an operator has made a request for an open run
 * meanwhile, the stored run already follows it:
 *
 *   cancel, pause   the state is `cancelled` or `paused`. But if
 *                   lease->load_open is set, the request stays in the ledger,
 *                   and the next owner completes the load before acting on it
 *   finish          the run does not wait for its next round
 */
enum lease_status lease_release(struct lease *lease, struct err *err);

/* lease_hide_message: make the message visible again when the service's clock
 * reaches until_ticks (whole seconds, rounded up; 0 or a past time: at once).
 * Best effort. Without a message it does nothing. */
void lease_hide_message(struct lease *lease, int64_t until_ticks);

/* lease_hide_message_ms: make the message visible again after wait_ms (rounded
 * up to whole seconds). Best effort. */
void lease_hide_message_ms(struct lease *lease, int64_t wait_ms);

/* lease_delete_message: delete the message, with a few retries. If all fail,
 * the next worker that receives the message deletes it, because its run has
 * ended. */
void lease_delete_message(struct lease *lease);

/* lease_delete_poison_copy: delete the poison copy with this id and pop
 * receipt. Best effort. */
void lease_delete_poison_copy(
    struct lease *lease, struct slice id, struct slice receipt);

/*
 * lease_store_ending: call before the poison copy is put. Stores that the run
 * will end with state (failed or poisoned) and this reason. A later owner then
 * puts the poison copy and does not repeat the work. Retries until the outcome
 * is known or the lease expires. LEASE_VALID: stored.
 */
enum lease_status lease_store_ending(struct lease *lease,
    enum ledger_state state, const char *reason, struct err *err);

/* lease_ending: has lease_store_ending() stored an ending of the run?
 * *ret_reason is valid until run changes. */
bool lease_ending(const struct ledger_run *run, enum ledger_state *ret_state,
    struct slice *ret_reason);

/* What is put into a poison queue. Borrowed. */
struct poison_copy {
    struct slice queue;
    struct slice text; /* the message's body, or a composed wake-up message */
    bool may_be_there; /* the poison queue may have this poison copy already,
                          from an earlier attempt */
};

/*
 * lease_put_poison_copy: put the poison copy into the poison queue of
 * copy->queue, and note its id and pop receipt in lease->run. The poison queue
 * may have it already (may_be_there, or a put had an indeterminate outcome).
 * Then the poison queue is peeked before each put, and nothing is put until it
 * responds. If the peek finds a poison copy that names the run
 * (message_is_of()), no further copy is put, and the id of the found copy is
 * noted, with an empty receipt.
 */
enum tw_err lease_put_poison_copy(
    struct lease *lease, const struct poison_copy *copy, struct err *err);

/*
 * lease_hold_run: make run a held run. waits_for (LEDGER_WAITS_FOR_DEFINITION,
 * _STORE or _ARCHIVE) becomes its WaitsFor, `why` its Error. Until its next
 * retry the run waits for as long as it has been held so far, but at least 5 s
 * and at most 5 min. If most_ticks is not 0, the run waits at most most_ticks.
 * Sends no request.
 */
TW_MUST_USE enum tw_err lease_hold_run(struct ledger_run *run,
    const char *waits_for, int64_t now_ticks, int64_t most_ticks,
    const char *why, struct err *err);

/* lease_hold_without_job: call lease_hold_run() for a run whose job is not in
 * the configuration; the run then waits for its definition. */
TW_MUST_USE enum tw_err lease_hold_without_job(
    struct ledger_run *run, int64_t now_ticks, struct err *err);

/* lease_now_ticks: return a lower bound of the service's clock, in ticks. */
int64_t lease_now_ticks(const struct lease *lease);

/* lease_boot_ms: return the boot time at which the service's clock reaches
 * ticks. */
int64_t lease_boot_ms(const struct lease *lease, int64_t ticks);

#endif
