/* SPDX-License-Identifier: MIT */
/*
 * A lease: the right of one attempt to work on one run. The lease in the ledger
 * (Owner, Epoch, LeaseUntil) is the only one: it alone decides who works, and
 * until when. The message's visibility decides only when a worker receives the
 * message again; its renewal is best effort, and the queue service's clock is
 * never compared with the ledger's.
 *
 * No lock: a lease belongs to one thread at a time. The attempt takes it, lends
 * it to the renewer from renewal_start() to renewal_stop(), and ends it. The
 * renewer may use the parts marked L (ledger) and M (message) at the same time
 * on two threads. Others look only at the deadline, which is atomic.
 *
 * Clocks. An answer of the ledger with Date D (whole seconds) to a request sent
 * at boot time s proves that at boot time b the clock of any server of the
 * table service shows at most D + 3 s + (b - s): 1 s for the seconds that Date
 * cuts off, 2 s by which its servers differ. So a LeaseUntil of D + 3 s +
 * (b - s) + visibility timeout expires for nobody before boot time b +
 * visibility timeout, and that is the deadline of a write sent at b.
 * While a hypervisor pauses this machine its boot time stops: see
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

/* The message of a run that is held, or left alone, comes again after so long
 * at most. */
#define HOLD_MAX_MS INT64_C(300000)

struct job;

/* The message that rang. All borrowed until lease_acquire() returns. */
struct lease_message {
    const char *queue;
    struct slice id, pop_receipt, text;
    int64_t inserted_ticks;
    int64_t dequeue_count; /* above 1: it has been taken before */
    int64_t sent_ms;       /* when the Get that brought it was sent */
};

struct lease_request {
    struct store *store;
    const struct job *job;
    struct slice id;
    struct slice args_json;  /* empty: whatever the ledger says (orphans) */
    int64_t requested_ticks; /* 0: the message's InsertionTime, else now */
    struct slice traceparent;
    const struct lease_message *message; /* NULL: none */
    bool must_exist;     /* take up what is in the ledger, begin nothing */
    bool resumes_paused; /* `run`: a paused run goes on; workers leave it */
    bool accept_deletes;
    int64_t visibility_timeout_s, max_attempts;
    struct lock_file *lock_file; /* of this process; NULL: none */
};

/* What a person asks of the owner of a live lease. */
enum lease_asked { LEASE_ASKED_NOTHING, LEASE_ASKED_PAUSE, LEASE_ASKED_CANCEL };

struct lease {
    struct store *store;
    int64_t visibility_timeout_ms;
    struct lock_file *lock_file; /* of this process; NULL: none */
    size_t noted;                /* where it notes the run */
    bool may_own; /* the ledger may name this lease as the run's owner */

    /* M. The message; without one has_message is false. */
    bool has_message;
    char queue[64];
    char message_id[QUEUE_ID_MAX];
    char pop_receipt[QUEUE_RECEIPT_MAX];
    char *text; /* its body, for the poison queue. Owned */
    size_t text_len;
    int64_t message_sent_ms; /* the last request that hid it; M, as above */

    struct ledger_run stored; /* L, as all below: as last stored, with ETags */
    struct ledger_run run;    /* what is to be stored next */
    char owner[LOCK_FILE_OWNER_MAX]; /* the Owner it was taken with */
    int64_t deadline_ms;             /* of the lease, on platform_boot_ms() */
    bool previous_owner_crashed; /* from an attempt that did not let go in order
                                  */
    bool starts_over; /* its checkpoint was made under another definition, so
                         that what it knew is lost */
    bool binds;       /* no attempt before this one has used a definition */
    bool closes_job;  /* the write that ends the run closes its job (A5) */
    enum lease_asked asked; /* what a person asks of the owner */
    char end_operation[17]; /* of a write that let go, whose outcome is not
                               known; empty: none */
    bool unstorable; /* LEASE_UNKNOWN: because of this run, not of the store */

    /* The newest sight of the table service's clock: the request that brought
     * it was sent, and answered, then. */
    int64_t date_ticks, date_sent_ms, date_answered_ms;

    struct lease_clock clock; /* what the Dates of all responses show */
    struct deadline deadline; /* the run's requests end before the deadline */
    struct deadline own;      /* the lease's own may start until the deadline */
    _Atomic int64_t requests; /* made by the lease itself, for Transactions */
    int64_t until_ticks;      /* LEASE_HELD: the service's time to come back */
};

enum lease_outcome {
    LEASE_ACQUIRED,  /* the run is ours until the deadline closes  */
    LEASE_RUN_ENDED, /* it has ended: lease->run says how; delete the message */
    LEASE_HELD,      /* another owner has it, or its time has not come: hide
                        the message until lease->until_ticks                 */
    LEASE_RUN_PAUSED, /* delete the message: `resume` puts another            */
    LEASE_RUN_MISSING, /* must_exist, and there is none */
    LEASE_REFUSED,     /* the id is known with other arguments, or what the
                          ledger has under it cannot be read, or not changed   */
    LEASE_OUTAGE, /* the store cannot be used; err says why               */
};

/*
 * lease_init: nothing is held; lease_done frees what the lease holds in
 * memory, it lets go of nothing.
 */
void lease_init(struct lease *lease, const struct lease_request *wish);
void lease_done(struct lease *lease);

/*
 * lease_acquire: conditional write of the ledger entity: Epoch + 1, an Owner of
 * its own, LeaseUntil. Two requests where nothing stands in the way; one where
 * the message names no run, comes for the first time, and the ledger's Date is
 * known. The lease of an owner that is known to be dead (lock_file.h) does not.
 * *ret_outcome is the store's, for LEASE_OUTAGE; for LEASE_REFUSED it is
 * TW_INVALID where the ledger's entity cannot be used, TW_CONFLICT else. A
 * service that is busy is waited for.
 */
enum lease_outcome lease_acquire(struct lease *lease,
    const struct lease_request *wish, enum tw_err *ret_outcome,
    struct err *err);

/* How a lease stands with what is stored. */
enum lease_status {
    LEASE_VALID,
    LEASE_LOST,    /* another Owner or Epoch, or the entity is gone */
    LEASE_UNKNOWN, /* the ledger could not be read or written */
};

/*
 * lease_renew_message: hide it for another visibility timeout and store the new
 * pop receipt. TW_CONFLICT: another worker has received the message, or it is
 * gone; the lease goes on without it. No outcome affects the lease.
 */
enum tw_err lease_renew_message(struct lease *lease, struct err *err);

/*
 * lease_write_run: store lease->run with a new LeaseUntil. LEASE_VALID: stored,
 * the deadline has moved, and lease->asked and lease->run.finish are as people
 * have asked meanwhile. LEASE_UNKNOWN: it is not, so far; err says why.
 */
enum lease_status lease_write_run(struct lease *lease, struct err *err);

/*
 * lease_release: store lease->run, whose state is no longer `running`, without
 * Owner and with LeaseUntil now; tries again until it is known or the lease is
 * over. LEASE_VALID: it is stored, and lease->run is as stored: an open run
 * that was to be cancelled or paused is so now; one that was to finish does not
 * wait for its next round.
 */
enum lease_status lease_release(struct lease *lease, struct err *err);

/* lease_hide_message: make the message visible again when the service's clock
 * is at until_ticks (whole seconds, rounded up; 0 or over: at once). Without a
 * message, or without luck, nothing. */
void lease_hide_message(struct lease *lease, int64_t until_ticks);

/* lease_hide_message_ms: the same, in so many milliseconds. */
void lease_hide_message_ms(struct lease *lease, int64_t wait_ms);

/* lease_delete_message: tried a few times; a message that stays is deleted
 * when it comes again, for its run has ended. */
void lease_delete_message(struct lease *lease);

/*
 * lease_store_ending: store, before its copy is put, that the run ends as state
 * (failed or poisoned) for that reason: who takes it over puts the copy and
 * repeats no work. Tries again until it is known or the lease is over.
 * LEASE_VALID: it is stored.
 */
enum lease_status lease_store_ending(struct lease *lease,
    enum ledger_state state, const char *reason, struct err *err);

/* lease_ending: was that stored before this lease? *ret_reason lives as long as
 * lease->run is not changed. */
bool lease_ending(const struct lease *lease, enum ledger_state *ret_state,
    struct slice *ret_reason);

/* What goes into a poison queue. Borrowed. */
struct poison_copy {
    struct slice queue;
    struct slice text; /* the message's body, or one composed */
    bool may_be_there; /* an attempt before this one may have put it */
};

/*
 * lease_put_poison_copy: put the copy into queue-poison, and note its id and
 * pop receipt in lease->run. Where a copy may be there already (also after a
 * put whose outcome is unknown) the queue is peeked before each put: while it
 * does not answer, nothing is put; and a copy that names the run
 * (message_is_of) is not put again: its id is noted, without a receipt.
 */
enum tw_err lease_put_poison_copy(
    struct lease *lease, const struct poison_copy *copy, struct err *err);

/* lease_accept_definition: the next attempt takes a changed definition of its
 * job and begins with its first round. */
void lease_accept_definition(struct ledger_run *run);

/*
 * lease_hold_run: make run one that is held: it waits for waits_for
 * (definition, store or archive, LEDGER_WAITS_FOR_*). It is looked at again
 * after as long as it has been held, 5 s to 5 min, but at most most_ticks later
 * (0: 5 min).
 */
TW_MUST_USE enum tw_err lease_hold_run(struct ledger_run *run,
    const char *waits_for, int64_t now_ticks, int64_t most_ticks,
    const char *why, struct err *err);

/* lease_now_ticks: the service's clock at least, in ticks. */
int64_t lease_now_ticks(const struct lease *lease);

/* lease_boot_ms: when the service's clock will be at ticks, on ours. */
int64_t lease_boot_ms(const struct lease *lease, int64_t ticks);

#endif
