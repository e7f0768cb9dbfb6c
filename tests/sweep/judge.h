/* SPDX-License-Identifier: MIT */
/* The judges: they decide whether tables, queues, ledger and archive are in an
 * allowed state. */
#ifndef TW_TESTS_SWEEP_JUDGE_H
#define TW_TESTS_SWEEP_JUDGE_H

#include <stdbool.h>

#include "tests/support/direct.h"
#include "tests/sweep/scenario.h"
#include "worker/base/err.h"

/* judge_remember: reads every entity of the stage back, stores it in `was`, and
 * sorts the stage as the store does. If an entity is missing, ends the
 * process. */
void judge_remember(struct stage *stage, struct store *store);

/*
 * judge_cascade: the judge of scenarios with a cascade-delete or a delete. In a
 * scenario with a delete, the stage also has a parent entity, which the run
 * must not delete.
 *
 * At any moment:
 *
 * - an entity that the run must not delete is unchanged, also its ETag;
 * - a child is deleted before its parent;
 * - each entity in the tables is in the stage;
 * - if there is an archive, each deleted entity is in it;
 * - if the message is gone, the run has ended or is paused.
 *
 * At the end:
 *
 * - if the run succeeded, all entities that it must delete are gone; if it
 *   failed, all entities are unchanged; if it was cancelled, some may be gone;
 * - the counts are right;
 * - no run is listed as open;
 * - the queue is empty;
 * - the poison queue has a message only if the run failed.
 */
bool judge_cascade(const struct scene *scene, struct err *err);

/*
 * judge_upgrade: the judge of scenarios with upgrades.
 *
 * At any moment:
 *
 * - each entity is unchanged (also its ETag), or as the expand run makes it, or
 *   as the contract run makes it after that;
 * - a run that has ended has left nothing to do.
 *
 * At the end, moreover:
 *
 * - the counts are right;
 * - no run is listed as open;
 * - the queue is empty;
 * - the poison queue has one message for each failed run, and no other.
 */
bool judge_upgrade(const struct scene *scene, struct err *err);

/*
 * judge_carry: the judge of scenarios with a copy or a move.
 *
 * At any moment:
 *
 * - each source is unchanged (also its ETag), or (a move) the source is gone
 *   and its copy is stored;
 * - each copy is as the job makes it;
 * - every other entity is unchanged.
 *
 * When the run has ended and was not cancelled:
 *
 * - each source whose destination key was free has its copy;
 * - after a move no such source is at its source key any more.
 */
bool judge_carry(const struct scene *scene, struct err *err);

/* ---- for judges ---- */

#define judge_wrong(err, ...) (err_fail((err), TW_INVALID, __VA_ARGS__), false)

/* judge_wrong_at: sets err to the keys of the entity and what is wrong with it,
 * such as "is gone". Returns false. */
bool judge_wrong_at(struct err *err, const char *table,
    const struct entity *entity, const char *what);

/* judge_find: returns the index of the entity in the stage; stage->count: it is
 * not in the stage. */
size_t judge_find(
    const struct stage *stage, const char *table, const struct entity *entity);

/* judge_text: returns the entity as one text: ETag, Timestamp, keys and
 * properties. The caller frees it (mem_free). */
char *judge_text(const struct entity *entity);

/* A function that is called for each entity. */
struct judge_visitor {
    bool (*visit)(struct judge_visitor *visitor, const char *table,
        const struct entity *entity, struct err *err);
    struct stage *stage;
    const struct scene *scene;
    bool *seen; /* entities that were found, by index into the stage */
    void *ctx;
    struct err *err; /* err of judge_visit() */
};

/* judge_visit: calls visit for every entity of all tables except the
 * ledger's. */
bool judge_visit(
    struct store *store, struct judge_visitor *visitor, struct err *err);

/* judge_read_run: reads a run from the ledger; if the ledger does not have it,
 * its state is queued. */
bool judge_read_run(const struct scene *scene, const char *job, const char *id,
    struct ledger_run *ret, struct err *err);

/* judge_run: reads the job's run SWEEP_ID; false also if the run needs its
 * message and the message is gone. */
bool judge_run(const struct scene *scene, const char *job,
    struct ledger_run *ret, struct err *err);

/* judge_run_end: at the end, true if the job's run has ended as the scenario
 * requires (a run that was cancelled too late has succeeded), and the queues
 * and the ledger index agree. judge_queues: true if the queue is empty and the
 * poison queue has `copies` messages; after kills it may have more. */
bool judge_run_end(const struct scene *scene, const char *job,
    const struct ledger_run *run, struct err *err);
bool judge_queues(const struct scene *scene, int64_t copies, struct err *err);

/* judge_needs_message: true if the run has neither ended nor is paused. */
bool judge_needs_message(const struct ledger_run *run);

/* judge_no_marker: true if the ledger index lists no open run of the job. */
bool judge_no_marker(
    const struct scene *scene, const char *job, struct err *err);

#endif
