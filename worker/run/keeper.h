/* SPDX-License-Identifier: MIT */
/*
 * The keeper of one held run: a thread that renews the lease while the slot's
 * thread works, message first, then the ledger. Between claim and end it alone
 * writes the run's entity; the slot hands it what to write (checkpoint,
 * progress, phase), and each renewal of the ledger stores the newest.
 *
 * Each held run has a keeper of its own, rather than one thread for all: with
 * a visibility timeout of 2 s on a slow connection a thread that waits for one
 * run's answer would let the others' leases lapse. It calls the store
 * directly, not through the lanes, so a busy pool cannot delay it.
 *
 * The ledger is written at a third of the visibility timeout, and every 5 s at
 * least: so that who looks sees how far the run is, and so that the owner sees
 * what people ask of it (Control, Finish). Earlier where
 * answers are slow: early enough that the run's own requests never find the
 * fence closed between two renewals.
 */
#ifndef TW_RUN_KEEPER_H
#define TW_RUN_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/engine/run.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/claim.h"

struct keeper;
struct lanes_client;

/*
 * keeper_start: lend claim to a new keeper until keeper_stop(). run's counts
 * and lanes' requests go into the ledger with each renewal. Where the message
 * is due already it is renewed before the return. Owned.
 */
struct keeper *keeper_start(
    struct claim *claim, struct run *run, const struct lanes_client *lanes);

/* keeper_save: run_host.save. */
void keeper_save(struct keeper *keeper, struct slice checkpoint, bool progress);

/*
 * keeper_phase: run_host.phase: TW_OK once it is stored. TW_STOPPED: the run
 * was overtaken or cancelled, or the lease ended first.
 */
TW_MUST_USE enum tw_err keeper_phase(struct keeper *keeper, const char *phase,
    struct slice checkpoint, struct err *err);

/* keeper_failed: a line about an entity that cannot succeed; the first ten of
 * the run are kept in the ledger. */
void keeper_failed(struct keeper *keeper, const char *line);

/* keeper_note: run_host.note: a sentence for the ledger's Note. */
void keeper_note(struct keeper *keeper, const char *sentence);

/* keeper_asked: what a person has asked of this run's owner. Any thread. */
enum claim_asked keeper_asked(struct keeper *keeper);

/* keeper_forget_failed: give up the lines so far: they will be told again. */
void keeper_forget_failed(struct keeper *keeper);

/* keeper_word: CLAIM_MINE until something else is known. Any thread. */
enum claim_word keeper_word(struct keeper *keeper);

/*
 * keeper_stop: end the thread and give claim back: claim->run has all that was
 * handed over, stored or not. *ret_progress: did the attempt advance? Frees
 * keeper.
 */
enum claim_word keeper_stop(struct keeper *keeper, bool *ret_progress);

#endif
