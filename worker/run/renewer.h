/* SPDX-License-Identifier: MIT */
/*
 * The renewer: a few threads that renew the leases of all runs of a process.
 * From renewal_start() to renewal_stop(), this process writes the run's entity
 * only through the renewer. The attempt hands over the values to write
 * (checkpoint, progress, phase, failed entities, notes), and each write of the
 * ledger stores the newest values.
 *
 * The renewer writes the ledger whenever a third of the visibility timeout has
 * passed, and at least every 5 s. So `status` shows the progress of the run, at
 * most 5 s of work are repeated after a crash, and the owner sees what
 * operators ask for (Control, Finish). If responses are slow the renewer writes
 * earlier, so that between two renewals the deadline always leaves time for the
 * run's own requests.
 *
 * A separate thread renews the message at the same interval of a third of the
 * visibility timeout, so that a queue service that does not respond delays no
 * lease. A message renewal that fails has no effect on the attempt.
 */
#ifndef TW_RUN_RENEWER_H
#define TW_RUN_RENEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/lease.h"

struct pool_client;
struct renewal; /* the renewals of one run, from renewal_start() to
                   renewal_stop() */
struct renewer;

/*
 * renewer_new: create a renewer for this many concurrent runs. One thread for
 * each four runs writes the ledger, and one thread renews the messages. The
 * first renewal starts the threads. Owned; call renewer_free() only when every
 * renewal has been stopped.
 */
struct renewer *renewer_new(size_t runs);

/* renewer_set_runs: change the number of concurrent runs, SETUP_SLOTS_MAX at
 * most. Adds the threads that are missing; keeps threads that are no longer
 * needed. */
void renewer_set_runs(struct renewer *renewer, size_t runs);

void renewer_free(struct renewer *renewer);

/*
 * renewal_start: lend lease to the renewer until renewal_stop(). Each write of
 * the ledger stores the counts of run, and the number of requests of
 * pool_client. Owned.
 */
struct renewal *renewal_start(struct renewer *renewer, struct lease *lease,
    struct run *run, struct pool_client *pool_client);

/* renewal_log_progress: call after renewal_start() to log the run's progress
 * once a minute, and throttling by the service. */
void renewal_log_progress(struct renewal *renewal);

/* renewal_save: implements run_callbacks.save. */
void renewal_save(
    struct renewal *renewal, struct slice checkpoint, bool progress);

/*
 * renewal_phase: implements run_callbacks.phase. TW_OK: the phase is stored.
 * TW_STOPPED: the lease was lost or expired before the phase was stored.
 */
TW_MUST_USE enum tw_err renewal_phase(struct renewal *renewal,
    const char *phase, struct slice checkpoint, struct err *err);

/*
 * renewal_failed: report a failed entity in one line. The ledger keeps the
 * run's first ten lines. Returns how many failed entities of the run were
 * logged before this one (ledger_run.failed_logged), and then adds this one to
 * that number. Any thread.
 */
int renewal_failed(struct renewal *renewal, const char *line);

/* renewal_note: implements run_callbacks.note. Adds sentence to the ledger's
 * Note. */
void renewal_note(struct renewal *renewal, const char *sentence);

/* renewal_asked: return what an operator has asked of this run's owner. Any
 * thread. */
enum lease_asked renewal_asked(struct renewal *renewal);

/* renewal_forget_failed: call when the kind will report all failed entities
 * again. Drops all lines of renewal_failed(), and those in the ledger. */
void renewal_forget_failed(struct renewal *renewal);

/* renewal_status: return LEASE_VALID until the lease is lost or expires, then
 * LEASE_LOST. Any thread. */
enum lease_status renewal_status(struct renewal *renewal);

/*
 * renewal_stop: wait for the renewer's requests in flight and give lease back.
 * lease->run then has all values that the attempt handed over, stored or not.
 * *ret_progress: true if the attempt made progress. Returns renewal_status().
 * Frees renewal.
 */
enum lease_status renewal_stop(struct renewal *renewal, bool *ret_progress);

#endif
