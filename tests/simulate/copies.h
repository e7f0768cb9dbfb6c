/* SPDX-License-Identifier: MIT */
/*
 * What the tables of a migration, or of a reindex, may be: every state that a
 * source ever had, what stands at the destinations, and whose it is. It sees
 * each write as the service takes it.
 *
 * Of a worker it wants: a copy is of a state that its source really had, and as
 * the job makes it; a copy never goes back to an older state, and never takes
 * the place of what is none of its source, but where on_conflict says so; no
 * copy goes while its source is as it was copied; of a move, no source goes
 * before all its copies stand, and no copy goes that is all there is.
 */
#ifndef TW_TESTS_SIMULATE_COPIES_H
#define TW_TESTS_SIMULATE_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/simulate/sim.h"
#include "tests/support/copy_model.h"

#define COPIES_SOURCE "Things"
#define COPIES_TARGET "Copies"
#define COPIES_OTHER "Index"

enum copies_conflict {
    COPIES_FAIL,
    COPIES_SKIP,
    COPIES_REPLACE,
    COPIES_MERGE,
    COPIES_CONFLICTS,
};

/* What the job is. */
struct copies_rules {
    struct copy_model model;
    enum copies_conflict on_conflict;
    bool move, strip;
    bool reindex;     /* copies are the job's own, beside their sources */
    bool filtered;    /* by EntityType */
    bool by_argument; /* ... which is the argument's */
    const char *kind; /* ... or this one */
};

/* A state of a source. */
struct version {
    struct version *before;
    int number;
    struct entity now; /* with its ETag */
    int64_t since_ms;
    bool moved, deleted; /* a worker has deleted it; a user has */
};

/* One key of the source. */
struct thing {
    struct slice partition_key, row_key;
    struct version *last; /* NULL: it never was */
    bool alive;
    int64_t changed_ms; /* by whoever */
    bool unsure;        /* the answer to a worker's write for it was lost */
};

/* One key of a destination. */
struct cell {
    struct cell *next;
    struct slice table;
    struct entity now; /* with its ETag */
    bool alive;
    struct thing *of; /* what it holds; NULL: something else */
    struct version *holds;
    const struct sim_run *run; /* that wrote it last */
    bool marked;               /* it says of what it is a copy */
    bool touched;              /* by a user, since a worker wrote it */
    bool forced;               /* it was written over what others had made */
    int64_t user_ms;           /* when a user did last */
};

struct copies;

/* copies_new: things are made one by one. Owned. */
struct copies *copies_new(struct sim *sim, const struct copies_rules *rules);
void copies_free(struct copies *copies);

struct thing *copies_add(
    struct copies *copies, struct slice partition_key, struct slice row_key);
struct thing *copies_some(struct copies *copies);
int copies_alive(const struct copies *copies);

/* copies_some_cell: one that is there, or NULL. */
const struct cell *copies_some_cell(struct copies *copies);

/* copies_committed: a batch, a user's or a worker's. */
void copies_committed(struct copies *copies, const struct sim_commit *commit);

/* copies_unsure: the answer to a worker's batch was lost. */
void copies_unsure(struct copies *copies, const struct batch *batch);

/* copies_run_moved: the state of a run has changed. copies_judge_end: it has
 * ended. */
void copies_run_moved(struct copies *copies, const struct sim_run *run);
void copies_judge_end(struct copies *copies, const struct sim_run *run);

/* copies_rest: from now on no worker may write anything, and a run reads the
 * source once; unless something is left to do. */
void copies_rest(struct copies *copies);

/* copies_judge_reader: who polls has found nothing in the source, when `was`
 * was its last state; and looks at the destinations now. */
void copies_judge_reader(struct copies *copies, const struct thing *thing,
    const struct version *was);

/* copies_judge_tables: is every table as it was written? */
void copies_judge_tables(struct copies *copies);

#endif
