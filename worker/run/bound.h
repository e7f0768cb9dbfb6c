/* SPDX-License-Identifier: MIT */
/*
 * What a run is bound to: the kind of its job, the part of the definition that
 * decides which entities change and into what, and the accounts of the job's
 * stores. The first attempt binds the run. An attempt under another definition,
 * of another kind or in another account would change entities that were not
 * asked for, so such an attempt begins only after an operator has accepted the
 * change. Another kind is never accepted.
 *
 * One change needs no acceptance: rules were added (additions of struct kind),
 * and all tables of the job are still in the same account. The run then starts
 * over under the new definition.
 *
 * The ledger has the kind in Kind, and the rest in Definition:
 *
 *   [MARK OTHER :] HASH [/ PART ...] [. ACCOUNT ... TABLES]
 *
 * without spaces, except before TABLES. HASH is struct job's hash, 16 hex
 * digits; the PARTs are its parts. Each ACCOUNT is a digest of 16 hex digits,
 * in the order in which the job first uses its stores. TABLES is a text for
 * people: the tables of the job, with their accounts. ACCOUNTs and TABLES are
 * missing if one of the accounts was not known.
 *
 * The ACCOUNT of an Azure account comes from its AccountName and its cloud,
 * because two clouds may have accounts of one name. So workers may reach one
 * account under different hosts (a private endpoint, a custom domain). The
 * ACCOUNT of an Azurite comes from its host and port, because every Azurite has
 * the same AccountName. Locks differ: they count any two hosts with one
 * AccountName as one account (see locks.h).
 *
 * OTHER is the HASH of another definition and, if the accounts were known, a
 * digest of its ACCOUNTs. MARK says what is known about OTHER:
 *
 *   !   the run is held, because its job has the definition OTHER now
 *   ?   an operator has accepted OTHER and its accounts (`resume`)
 *   ~   an operator has accepted OTHER (`poison retry`), but no other accounts
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

/* bound_accounts: compose the end of Definition for the job: the dot, the
 * ACCOUNT of each of its stores, and TABLES. Empty if one of the accounts is
 * not known yet. Lives in arena. */
struct slice bound_accounts(const struct job *job,
    const struct job_stores *stores, struct arena *arena);

/* bound_definition_changed: has the job another HASH than the run? False for a
 * run that is not bound. True even if an operator has accepted the change. */
bool bound_definition_changed(
    const struct ledger_run *run, const struct job *job);

/*
 * bound_accounts_changed: is the job in another account than the run? With an
 * unchanged HASH the accounts must be the same ones, in the same order; a
 * changed definition may use more accounts or fewer. False if the accounts of
 * the job or of the run are not known. True even if an operator has accepted
 * the change.
 */
bool bound_accounts_changed(
    const struct ledger_run *run, const struct job *job, struct slice accounts);

/* bound_kind_changed: has the job another kind now than when the run was
 * enqueued or began? */
bool bound_kind_changed(const struct ledger_run *run, const struct job *job);

/* bound_kind_sentence: compose a sentence that names the kind of the job and
 * the kind of the run. Call if bound_kind_changed(). Owned. */
char *bound_kind_sentence(const struct ledger_run *run, const struct job *job);

/* bound_accepted: has an operator accepted the present definition of the job,
 * after it had changed? */
bool bound_accepted(const struct ledger_run *run, const struct job *job);

/*
 * bound_check: may an attempt of the run go on with this job? accounts: from
 * bound_accounts(); empty: not known, and then not compared. TW_OK: yes.
 * TW_CONFLICT: only after an operator has restored what has changed. If err
 * says so, the operator may accept the change instead.
 */
TW_MUST_USE enum tw_err bound_check(const struct ledger_run *run,
    const struct job *job, struct slice accounts, struct err *err);

/* bound_offer: call for a run that is held or refused because bound_check()
 * returned TW_CONFLICT. Notes in the run which definition and accounts `resume`
 * would accept. */
void bound_offer(
    struct ledger_run *run, const struct job *job, struct slice accounts);

/*
 * bound_accept: accept the definition and the accounts that bound_offer()
 * noted. Call before the run is `queued` again. In two cases returns false and
 * changes nothing:
 *
 * - bound_offer() noted no definition.
 * - The definition of job is not the noted one, because the operator has
 *   restored the job, or has edited it once more. This is not checked if an
 *   environment variable of job is not set here: the definition of job is not
 *   known then.
 */
bool bound_accept(struct ledger_run *run, const struct job *job);

/* bound_accept_definition: accept the definition of job, but no other accounts.
 * Does nothing to a run that is not bound. Call before the run is `queued`
 * again. */
void bound_accept_definition(struct ledger_run *run, const struct job *job);

/* bound_set: bind the run to the job. If the accounts are not known (empty),
 * the run stays bound to its former accounts. */
void bound_set(
    struct ledger_run *run, const struct job *job, struct slice accounts);

#endif
