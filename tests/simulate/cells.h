/* SPDX-License-Identifier: MIT */
/*
 * The oracle of worlds with copies, moves and deletes. It knows what clients
 * were told is stored and what each key of a table holds, from the writes as
 * the service takes them, and nothing of how a job works.
 *
 * What a client writes is a value: it has a number, in the property V. A value
 * is live until a client overwrites or deletes an entity that holds it.
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

/* One pair of keys in a table. */
struct cell {
    struct cell *next;
    struct slice table;
    struct entity now; /* its keys; while there is one, all of it */
    bool there;
    bool client; /* a client wrote it last */
    int value;   /* 0: the entity has none */
    const char
        *what; /* the kind's: the argument of runs that mean it, or NULL */
    int64_t since_ms;  /* ... and from when on */
    struct slice mark; /* TablewardSource as a worker wrote it here last */
};

/* An entity as a client wrote it. Who copies an entity writes its value once
 * more, under other keys. */
struct written {
    struct written *before;
    struct entity entity;
};

struct value {
    struct written *written; /* the newest first */
    int live;                /* entities that clients were told are stored */
    int is;                  /* entities that hold it */
    bool named;              /* a report named an entity that held it */
    bool doubtful;           /* a cancelled run may have left it twice */
};

struct cells {
    struct sim *sim;
    struct arena arena;
    struct cell *first;
    struct value values[CELLS_VALUES_MAX];
    int count; /* values; 0 is none */
};

void cells_init(struct cells *cells, struct sim *sim);
void cells_done(struct cells *cells);

/* cells_find: NULL: nobody has ever written there. */
struct cell *cells_find(struct cells *cells, const char *table,
    struct slice partition_key, struct slice row_key);

/* cells_has_mark: has it the TablewardSource that a worker wrote there? */
bool cells_has_mark(const struct cell *cell);

/* cells_some: one of table that is there; NULL: none is. */
struct cell *cells_some(struct cells *cells, const char *table);

/* cells_alive: entities of table. */
int cells_alive(const struct cells *cells, const char *table);

/* cells_store: an operation was taken. By a client: the value that was there is
 * no longer live, that of the operation is. */
void cells_store(struct cells *cells, const struct sim_change *change);

/* cells_value_of: the number of the value that it holds; 0: none. */
int cells_value_of(const struct cells *cells, const struct entity *entity);

/* cells_fill: as a client makes an entity: a value of its own, a group (the
 * text K), k0 and as many more, and properties of other types. */
void cells_fill(struct cells *cells, struct entity *entity, unsigned groups);

/* cells_group: the entity's; empty: it has none. */
struct slice cells_group(const struct entity *entity);

/* cells_judge_losses: complains where a value that is live is nowhere. */
void cells_judge_losses(struct cells *cells, const char *when);

/* cells_is_named: does the report of the run name the entity? A report that is
 * cut off names all. cells_note_named: keeps what it names. */
bool cells_is_named(const struct sim_run *run, const struct entity *entity);
void cells_note_named(struct cells *cells, const struct sim_run *run);

/* cells_judge_tables: is every entity as it was written last? */
void cells_judge_tables(
    struct cells *cells, const char *const *tables, size_t count);

/* cells_has_trouble: has anything crashed, stalled, failed or come late? */
bool cells_has_trouble(const struct cells *cells);

#endif
