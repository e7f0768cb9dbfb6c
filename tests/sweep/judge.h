/* SPDX-License-Identifier: MIT */
/* Whether tables, queues, ledger and archive are what they may be. */
#ifndef TW_TESTS_SWEEP_JUDGE_H
#define TW_TESTS_SWEEP_JUDGE_H

#include <stdbool.h>

#include "tests/support/direct.h"
#include "tests/sweep/scenario.h"
#include "worker/base/err.h"

/* judge_remember: read every entity of the stage back, for `was`, and sort the
 * stage as the store does. Ends the process where one is not there. */
void judge_remember(struct stage *stage, struct store *store);

/*
 * judge_cascade: a scenario's judge, also of the kind delete, whose entities
 * hang from what stays.
 *
 * At any moment: what is not doomed is as it was, to the ETag; a child is gone
 * before what it hangs from; nothing is there that was not; what is gone is in
 * the archive (where there is one); a message that is gone has a run that has
 * ended, or is paused.
 * At the end: what is doomed is gone (run succeeded) or all is as it was (run
 * failed) or neither (run cancelled); the counts are right; no marker, no
 * message; the poison queue holds what failed and nothing else.
 */
bool judge_cascade(const struct scene *scene, struct err *err);

/*
 * judge_upgrade: the judge of scenarios with upgrades.
 *
 * At any moment: each entity is as it was, to the ETag, or as the upgrade makes
 * it, or as the contract does after that; a run that has ended has left nothing
 * undone.
 * At the end: besides, the counts are right; no marker, no message; the poison
 * queue holds what failed and nothing else.
 */
bool judge_upgrade(const struct scene *scene, struct err *err);

/*
 * judge_carry: the judge of scenarios with a copy or a move.
 *
 * At any moment: each source is as it was, to the ETag, or gone with its copy
 * stored (a move); each copy is as the job makes it; everything else is as it
 * was. Once the run has ended, and was not cancelled: each source whose
 * destination key was free has its copy, and after a move is nowhere else.
 */
bool judge_carry(const struct scene *scene, struct err *err);

/* ---- for judges ---- */

#define judge_wrong(err, ...) (err_fail((err), TW_INVALID, __VA_ARGS__), false)

/* judge_wrong_at: what is wrong with an entity: "is gone". false. */
bool judge_wrong_at(struct err *err, const char *table,
    const struct entity *entity, const char *what);

/* judge_find: where the entity is in the stage; its count: nowhere. */
size_t judge_find(
    const struct stage *stage, const char *table, const struct entity *entity);

/* judge_text: the entity as one text: ETag, Timestamp, keys and properties.
 * Owned. */
char *judge_text(const struct entity *entity);

/* What is done with each entity. */
struct judge_visitor {
    bool (*visit)(struct judge_visitor *visitor, const char *table,
        const struct entity *entity, struct err *err);
    struct stage *stage;
    const struct scene *scene;
    bool *seen; /* by index into the stage */
    void *ctx;
    struct err *err; /* judge_visit()'s */
};

/* judge_visit: every entity but the ledger's. */
bool judge_visit(
    struct store *store, struct judge_visitor *visitor, struct err *err);

/* judge_read_run: of the ledger; one that is not there is queued. */
bool judge_read_run(const struct scene *scene, const char *job, const char *id,
    struct ledger_run *ret, struct err *err);

/* judge_run: the same of the job's one run, SWEEP_ID: and while it needs its
 * message, that is there. */
bool judge_run(const struct scene *scene, const char *job,
    struct ledger_run *ret, struct err *err);

/* judge_run_end: at the end: the job's one run has ended as the scenario says
 * (one that a person cancelled too late has succeeded); the queues and the
 * index show it. judge_queues: no message, and in the poison queue so many. */
bool judge_run_end(const struct scene *scene, const char *job,
    const struct ledger_run *run, struct err *err);
bool judge_queues(const struct scene *scene, int64_t copies, struct err *err);

/* judge_needs_message: is the run neither ended nor paused? */
bool judge_needs_message(const struct ledger_run *run);

/* judge_no_marker: no run of the job is marked as open. */
bool judge_no_marker(
    const struct scene *scene, const char *job, struct err *err);

#endif
