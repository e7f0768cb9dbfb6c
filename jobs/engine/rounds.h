/* SPDX-License-Identifier: MIT */
/*
 * A run of a table job reads its tables in rounds. This file decides when a
 * round reads all entities and when it reads only the changed ones, when the
 * run ends, and which value CaughtUpTo has. A run has these stages:
 *
 *   first       reads everything
 *   catching up reads what has changed since the previous round began. The
 *               stage ends after a round that took less than a minute, or
 *               more than half as long as the round before
 *   last        reads everything, because a round that asks only for newer
 *               entities does not notice that another program deleted a copy
 *   following   (follow: true) reads what has changed, and everything once an
 *               hour. If a round found differences, the next round begins at
 *               once, else a minute after this round began. An attempt that
 *               has lasted 5 minutes begins no further round, because only
 *               the next attempt uses a changed configuration. If `follow` is
 *               removed from the job, the stage `last` comes next
 *   finishing   (`finish`) reads everything; repeated until nothing is behind
 *
 * If a store cannot be asked for newer entities, every round reads everything.
 * If the first round takes less than a minute, the stage `last` comes next.
 *
 * A kind calls rounds_begin(), reads what rounds->full and rounds->since_ticks
 * specify, adds the number of repaired differences to rounds->found, and calls
 * rounds_end(). If an attempt ends before rounds_end(), it saves rounds in its
 * checkpoint (rounds_write(), rounds_read()), and the next attempt continues
 * the same round. A2 and A3 below are rules of jobs/GUIDE.md.
 */
#ifndef TW_JOBS_ENGINE_ROUNDS_H
#define TW_JOBS_ENGINE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"

struct json;
struct run;
struct store;

enum rounds_stage {
    ROUNDS_FIRST,
    ROUNDS_CATCHING_UP,
    ROUNDS_LAST,
    ROUNDS_FOLLOWING,
    ROUNDS_FINISHING,
};

struct rounds {
    /* Set by the kind before anything else. */
    bool follow;

    /* The current round. number is 1 for the first round, and 0 before it has
     * begun. */
    int64_t number;
    enum rounds_stage stage;
    bool under_way;      /* the round has begun (rounds_begin()) and not ended
                          * (rounds_end()) */
    bool full;           /* the round reads all entities; false: only those
                            written since since_ticks */
    int64_t since_ticks; /* least Timestamp of the entities to read, if full is
                          * false */
    int64_t began_ticks; /* the service's clock before the round's first
                          * request */
    int64_t found;       /* number of differences that the round repaired */

    /* Values that later rounds use too. */
    int64_t took_ms;    /* duration of the previous round; -1: there was none */
    int64_t full_ticks; /* when the last full round began */
    int64_t spent_ms;   /* time that earlier attempts spent on the current
                         * round */

    int64_t attempt_ms; /* platform_boot_ms() when this attempt began the round;
                         * not saved */
    int64_t first_ms;   /* platform_boot_ms() when this attempt began its first
                         * round; 0: it has not begun a round. Not saved */
    const struct store *store; /* the store of the sources; borrowed, not
                                * saved */
};

enum rounds_next {
    ROUNDS_AGAIN, /* begin another round now */
    ROUNDS_WAIT,  /* end the attempt as RUN_WAITING; resumes_ticks and waits_for
                   * of the run are set */
    ROUNDS_DONE,  /* the run is complete */
};

/*
 * rounds_begin: begin a new round, or continue the current one. For a new
 * round, increments run->rounds, and reads the clock of `store`, which has the
 * sources, by a request for an entity of `table` that does not exist.
 */
TW_MUST_USE enum tw_err rounds_begin(struct rounds *rounds, struct run *run,
    struct store *store, const char *table, struct err *err);

/*
 * rounds_end: end the round. Call when all entities are read and all repairs
 * are stored. `behind` is the number of entities that the round repaired and
 * that have changed again since (A2). Sets run->behind to this number. Sets
 * run->caught_up_ticks to the time, less 5 s, that the service's clock showed
 * when the round began.
 */
enum rounds_next rounds_end(
    struct rounds *rounds, struct run *run, int64_t behind);

/* rounds_counts_behind: must the caller count the entities that are behind
 * after this round? If the round repaired nothing, no entity is behind. */
bool rounds_counts_behind(const struct rounds *rounds);

/* rounds_margin: returns ticks less 5 s, because clocks may differ (A3); at
 * least 0. */
int64_t rounds_margin(int64_t ticks);

/* rounds_write: append rounds as a JSON object. rounds_read: read such an
 * object; false if json is NULL or not such an object, and rounds is then
 * unchanged. */
void rounds_write(const struct rounds *rounds, struct buf *to);
bool rounds_read(struct rounds *rounds, const struct json *json);

#endif
