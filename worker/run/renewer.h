/* SPDX-License-Identifier: MIT */
/*
 * The renewer: a few threads that renew the leases of all runs of a process.
 * Between acquisition and end only the renewer writes a run's entity. The
 * attempt hands over what is to be written (checkpoint, progress, phase,
 * failed entities, notes), and each write of the ledger stores the newest.
 *
 * The ledger is written at a third of the visibility timeout, and at least
 * every 5 s: so `status` shows how far the run is, a crash repeats at most 5 s
 * of work, and the owner sees what people ask of it (Control, Finish). With
 * slow answers it is written earlier, so that the run's own requests never
 * find the deadline too close between two renewals.
 *
 * The message is renewed at a third of the visibility timeout by a thread of
 * its own: a queue service that does not answer delays no lease. A message
 * renewal that fails has no effect on the attempt.
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
struct renewal; /* of one run, from renewal_start() to renewal_stop() */
struct renewer;

/*
 * renewer_new: for so many runs at a time: one thread for each four of them
 * writes the ledger, and one renews messages. The first renewal starts them.
 * Owned; renewer_free() requires that no renewal is left.
 */
struct renewer *renewer_new(size_t runs);
void renewer_free(struct renewer *renewer);

/*
 * renewal_start: lend lease to the renewer until renewal_stop(). run's counts
 * and the number of the request pool's requests go into the ledger with each
 * write. Owned.
 */
struct renewal *renewal_start(struct renewer *renewer, struct lease *lease,
    struct run *run, struct pool_client *request_pool);

/* renewal_save: run_callbacks.save. */
void renewal_save(
    struct renewal *renewal, struct slice checkpoint, bool progress);

/*
 * renewal_phase: run_callbacks.phase: TW_OK once it is stored. TW_STOPPED: the
 * lease was lost or expired first.
 */
TW_MUST_USE enum tw_err renewal_phase(struct renewal *renewal,
    const char *phase, struct slice checkpoint, struct err *err);

/* renewal_failed: a line about an entity that cannot succeed; the first ten of
 * the run are kept in the ledger. */
void renewal_failed(struct renewal *renewal, const char *line);

/* renewal_note: run_callbacks.note: a sentence for the ledger's Note. */
void renewal_note(struct renewal *renewal, const char *sentence);

/* renewal_asked: what a person has asked of this run's owner. Any thread. */
enum lease_asked renewal_asked(struct renewal *renewal);

/* renewal_forget_failed: drop the lines so far: they will be reported again. */
void renewal_forget_failed(struct renewal *renewal);

/* renewal_word: LEASE_VALID while the lease is held. Any thread. */
enum lease_status renewal_word(struct renewal *renewal);

/*
 * renewal_stop: wait for requests under way and give lease back: lease->run has
 * all that was handed over, stored or not. *ret_progress: did the attempt make
 * progress? Frees renewal.
 */
enum lease_status renewal_stop(struct renewal *renewal, bool *ret_progress);

#endif
