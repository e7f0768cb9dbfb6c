/* SPDX-License-Identifier: MIT */
/*
 * What a run is bound to: the kind of its job, the part of the definition that
 * decides which entities change and into what, and the accounts of the job's
 * stores. The first attempt binds the run, because an attempt of another kind,
 * or in another account, would change entities that were not asked for.
 *
 * The ledger has the kind in Kind, and the other two in Definition:
 *
 *   [MARK] HASH [. ACCOUNT ...]
 *
 * HASH is struct job's hash; each ACCOUNT a digest of 16 hex digits, in the
 * order in which the job first uses its stores. An Azure account is known by
 * its name, because workers may reach it under different hosts. The accounts
 * are missing if one of them was not known. MARK says what a person has
 * accepted:
 *
 *   ?   (`resume`) another HASH and other accounts
 *   ~   (`poison retry`) another HASH
 *
 * Another kind is never accepted.
 */
#ifndef TW_RUN_BOUND_H
#define TW_RUN_BOUND_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct job;
struct job_stores;
struct ledger_run;

/* bound_accounts: compose the end of Definition for the job: a dot, then the
 * ACCOUNT of each of its stores, without spaces. Empty if one of the accounts
 * is not known yet. Lives in arena. */
struct slice bound_accounts(const struct job *job,
    const struct job_stores *stores, struct arena *arena);

/* bound_definition_changed: has the job another HASH than the run? False for a
 * run that is not bound. True even if a person has accepted the change. */
bool bound_definition_changed(
    const struct ledger_run *run, const struct job *job);

/*
 * bound_accounts_changed: is the job in another account than the run? With an
 * unchanged HASH the accounts must be the same ones, in the same order; a
 * changed definition may use more of them, or fewer. False if the accounts of
 * the job or of the run are not known. True even if a person has accepted the
 * change.
 */
bool bound_accounts_changed(
    const struct ledger_run *run, const struct job *job, struct slice accounts);

/* bound_kind_changed: is the job of another kind than the run was begun or
 * enqueued with? */
bool bound_kind_changed(const struct ledger_run *run, const struct job *job);

/* bound_kind_sentence: compose a sentence that names the kind of the job and
 * the kind of the run. Call if bound_kind_changed(). Owned. */
char *bound_kind_sentence(const struct ledger_run *run, const struct job *job);

/*
 * bound_check: may an attempt of the run go on with this job? TW_OK: yes.
 * TW_CONFLICT: not before a person has restored what has changed or, if err
 * says so, accepted the change. Another HASH needs to be accepted only for a
 * table job (table_job of the job's kind).
 */
TW_MUST_USE enum tw_err bound_check(const struct ledger_run *run,
    const struct job *job, struct slice accounts, struct err *err);

/* bound_accept: let the run's next attempt accept another HASH, and if
 * `accounts` is true also other accounts. Call before the run is `queued`
 * again. */
void bound_accept(struct ledger_run *run, bool accounts);

/* bound_set: bind the run to the job. Accounts that are not known (empty) leave
 * the run bound to its former ones. */
void bound_set(
    struct ledger_run *run, const struct job *job, struct slice accounts);

#endif
