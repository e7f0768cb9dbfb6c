/* SPDX-License-Identifier: MIT */
/*
 * The rounds of a table job: which round reads everything and which only what
 * has changed, when the run ends, and what CaughtUpTo is.
 *
 *   first       reads everything
 *   catching up reads what has changed since the round before began, until
 *               one took under a minute, or more than half as long as the one
 *               before
 *   last        reads everything: a round that asks for newer entities only
 *               misses a copy that somebody deleted
 *   following   (follow: true) as catching up, and everything once an hour;
 *               at once after a round that found differences, else a minute
 *               apart
 *   finishing   (`finish`) reads everything, until nothing is behind
 *
 * Where a store cannot be asked for newer entities, every round reads
 * everything. A first round of under a minute is followed by the last one.
 *
 * A kind calls rounds_begin(), reads what rounds->full and rounds->since_ticks
 * say, adds the differences it repairs to rounds->found, and calls
 * rounds_end(). An attempt that ends between the two hands rounds over in its
 * checkpoint (rounds_write(), rounds_read()), and the next one goes on in the
 * same round.
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

    /* Of the round under way. number is 0 before the first one. */
    int64_t number;
    enum rounds_stage stage;
    bool under_way;      /* begun and not ended */
    bool full;           /* read everything; else newer entities only: */
    int64_t since_ticks; /* those with a Timestamp of at least this */
    int64_t began_ticks; /* the service's clock before its first request */
    int64_t found;       /* differences that it repaired */

    /* Kept from round to round. */
    int64_t took_ms;    /* the round before; -1: there was none */
    int64_t full_ticks; /* when the last full round began */
    int64_t spent_ms;   /* on this round, by attempts that have ended */

    int64_t attempt_ms; /* when this attempt began with it; not written */
    const struct store *store; /* of the sources; borrowed, not written */
};

enum rounds_next {
    ROUNDS_AGAIN, /* begin another round now */
    ROUNDS_WAIT,  /* RUN_WAITING: until when, and waits_for, are set */
    ROUNDS_DONE,  /* the run has done its work */
};

/*
 * rounds_begin: a new round, or the one under way again. Asks the store of the
 * sources for its clock (one request, for an entity of table that does not
 * exist). Counts the round in run->rounds.
 */
TW_MUST_USE enum tw_err rounds_begin(struct rounds *rounds, struct run *run,
    struct store *store, const char *table, struct err *err);

/*
 * rounds_end: the round is complete: all of it was read, every repair is
 * stored. behind: how many of its repairs have changed again since (A2).
 * Sets run->behind and run->caught_up_ticks: the service's clock when the
 * round began, less 5 s.
 */
enum rounds_next rounds_end(
    struct rounds *rounds, struct run *run, int64_t behind);

/* rounds_counts_behind: does anybody ask how much is behind after this round?
 * Of a round that repaired nothing, nothing is. */
bool rounds_counts_behind(const struct rounds *rounds);

/* rounds_margin: ticks, less the 5 s by which clocks may differ (A3). */
int64_t rounds_margin(int64_t ticks);

/* rounds_write: as a JSON object. rounds_read: false: json is NULL, or none of
 * ours; then rounds is as it was. */
void rounds_write(const struct rounds *rounds, struct buf *to);
bool rounds_read(struct rounds *rounds, const struct json *json);

#endif
