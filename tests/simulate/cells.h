/* SPDX-License-Identifier: MIT */
/*
 * The oracle of simulations of copies, moves and deletes. It observes the
 * writes that the service carries out, and knows from them which values were
 * acknowledged to clients and which entity is at each key. It knows nothing of
 * how a job works.
 *
 * Each entity that a client writes has a value: a unique number in the property
 * V. A value is live until a client overwrites or deletes an entity that has
 * this value.
 */
#ifndef TW_TESTS_SIMULATE_CELLS_H
#define TW_TESTS_SIMULATE_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/simulate/sim.h"

#define CELLS_VALUES_MAX 4096
#define CELLS_VALUE "V"
#define CELLS_MARK "TablewardSource"

/* One place in a table: a PartitionKey and a RowKey. */
struct cell {
    struct cell *next;
    struct slice table;
    struct entity now; /* the entity, or only its keys if there is none */
    bool there;
    bool client;       /* a client wrote it last */
    int value;         /* 0: the entity has none */
    const char *what;  /* set by the kind: argument of the runs that select the
                          entity, or NULL */
    int64_t since_ms;  /* since when `what` has this value */
    struct slice mark; /* the TablewardSource that a worker last wrote here */
};

/* An entity as a client wrote it. A client that copies an entity writes its
 * value again under other keys. */
struct written {
    struct written *before;
    struct entity entity;
};

struct value {
    struct written *written; /* newest first */
    int live;                /* number of entities with this value whose write
                                was acknowledged to a client */
    int is;                  /* number of entities that have this value now */
    bool named;              /* a run's report named an entity with this
                                value */
    bool doubtful;           /* a cancelled run may have left two entities with
                                this value */
};

struct cells {
    struct sim *sim;
    struct arena arena;
    struct cell *first;
    struct value values[CELLS_VALUES_MAX];
    int count; /* values[1] to values[count - 1] are in use; values[0] means
                  "no value" */
};

void cells_init(struct cells *cells, struct sim *sim);
void cells_done(struct cells *cells);

/* cells_find: returns the cell of these keys; NULL: nothing was ever written
 * there. */
struct cell *cells_find(struct cells *cells, const char *table,
    struct slice partition_key, struct slice row_key);

/* cells_has_mark: true if the entity has the TablewardSource that a worker last
 * wrote at these keys. */
bool cells_has_mark(const struct cell *cell);

/* cells_some: returns a random cell of `table` that has an entity; NULL: the
 * table is empty. */
struct cell *cells_some(struct cells *cells, const char *table);

/* cells_alive: number of entities in `table`. */
int cells_alive(const struct cells *cells, const char *table);

/* cells_store: notes an operation that was carried out. If a client made it,
 * the overwritten value is no longer live, and the new value is. */
void cells_store(struct cells *cells, const struct sim_change *change);

/* cells_value_of: number of the value of the entity; 0: it has none. */
int cells_value_of(const struct cells *cells, const struct entity *entity);

/* cells_fill: sets the properties that a client gives an entity: a new value,
 * its group (the text K: k0, k1, ... of `groups` groups) and random properties
 * of other types. */
void cells_fill(struct cells *cells, struct entity *entity, unsigned groups);

/* cells_group: the group of the entity; empty: it has none. */
struct slice cells_group(const struct entity *entity);

/* cells_judge_losses: complains of each live value that no entity has. */
void cells_judge_losses(struct cells *cells, const char *when);

/* cells_note_named: sets `named` of each value whose entity the report of the
 * run names. If the report is truncated, sets it for every value that may have
 * been named. */
void cells_note_named(struct cells *cells, const struct sim_run *run);

/* cells_judge_tables: complains unless the tables have exactly the entities
 * that were written last. */
void cells_judge_tables(
    struct cells *cells, const char *const *tables, size_t count);

/* cells_has_trouble: true if any process crashed or stalled, or any request met
 * a fault. */
bool cells_has_trouble(const struct cells *cells);

#endif
