/* SPDX-License-Identifier: MIT */
/*
 * A load of a move: up to 1,000 sources with their copies, moved under one
 * intent. A load belongs to the thread of its run.
 */
#ifndef TW_JOBS_MOVE_LOAD_H
#define TW_JOBS_MOVE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/digest.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct mover;
struct run;
struct store;

#define LOAD_MAX_PAIRS 1000
#define ETAG_MAX 96 /* with its NUL, as in struct batch_result */

struct keys {
    struct slice partition_key, row_key;
};

enum pair_side { PAIR_SOURCE, PAIR_COPY };

enum pair_state {
    PAIR_READ,    /* its copy must be inserted */
    PAIR_COPIED,  /* its copy is the run's own (rule M2) */
    PAIR_LEFT,    /* its source stays; `why`: the reason, or NULL */
    PAIR_CHANGED, /* a definite 412: the source has another ETag now */
    PAIR_ABSENT,  /* a definite 404: another client deleted the source */
    PAIR_DONE,    /* its source is deleted */
    PAIR_ANY,     /* for move_load_sort() */
};

/* The entity that a read found at the keys of one side. */
struct found {
    bool there;
    bool equal;    /* its digest is that of the copy */
    int64_t ticks; /* its Timestamp; 0: none */
    char etag[ETAG_MAX];
};

struct pair {
    struct mover *mover;       /* for callbacks of a batch writer */
    struct keys keys[2];       /* by enum pair_side; in the load's arena */
    char etags[2][ETAG_MAX];   /* of the source that was copied; of the copy: ""
                                  while unknown */
    struct digest digest;      /* of the copy */
    const struct entity *copy; /* until the batch writer has it */
    enum pair_state state;
    /* The copy is not provably the run's own: an insert with an unknown
     * outcome, an accepted copy, or a take-over. Nothing is written at the
     * destination (rule M4). */
    bool indeterminate;

    bool delete_indeterminate; /* the run itself may have deleted the source:
                                  absent means done (rule M5) */
    bool conflict;             /* another entity is at its destination key */
    bool named;                /* already reported */
    const char *why; /* reason to report; static or in the load's arena */
    struct found found;
};

#define LOAD_SLOTS 4096 /* a power of two, more than three times the pairs */

struct load {
    struct arena arena;  /* keys */
    struct arena bodies; /* the copies */
    size_t bytes;        /* of the copies, in memory */
    bool has_large;      /* one copy alone is large */
    size_t listed_bytes; /* upper bound of the intent's list of pairs */
    struct pair *pairs;  /* LOAD_MAX_PAIRS of them, owned */
    struct pair **order; /* owned; sorted by one side */
    size_t count;
    uint16_t slots[LOAD_SLOTS]; /* index + 1 of a pair, by destination key */
};

/* move_load_init: an empty load. move_load_done: free. move_load_clear: empty
 * again. move_load_drop_bodies: free the copies. */
void move_load_init(struct load *load);
void move_load_done(struct load *load);
void move_load_clear(struct load *load);
void move_load_drop_bodies(struct load *load);

/* move_load_is_full: has the load reached a limit of pairs, memory or intent
 * size? */
bool move_load_is_full(const struct load *load);

/* move_load_find: the pair with this destination key, or NULL. */
struct pair *move_load_find(
    const struct load *load, struct slice partition_key, struct slice row_key);

/* move_load_add: add a pair whose destination key is not in the load yet. copy
 * is in load->bodies; NULL for a pair read from an intent. */
struct pair *move_load_add(struct load *load, const struct keys *source,
    struct slice source_etag, const struct keys *copy_keys,
    const struct entity *copy);

/* move_load_sort: set load->order to the pairs in this state, sorted by the
 * keys of this side. Returns their number. */
size_t move_load_sort(
    struct load *load, enum pair_state state, enum pair_side side);

/* move_load_count: the number of pairs in this state. */
size_t move_load_count(const struct load *load, enum pair_state state);

/*
 * move_load_look_up: read the entities at the keys of this side of
 * load->order[0 .. count-1] (sorted by this side) into `found` of each pair.
 * One range request for up to 100 keys of a partition, more if other entities
 * lie between them. Copies are read whole and compared by digest; of sources
 * only the keys are read.
 */
TW_MUST_USE enum tw_err move_load_look_up(struct load *load, size_t count,
    enum pair_side side, struct run *run, struct store *store,
    const char *table, struct err *err);

/* found_set: set pair->found from entity; NULL: no entity exists. */
void found_set(struct pair *pair, const struct entity *entity);

/* etag_copy: false: etag is longer than any store's; then to is "". */
bool etag_copy(char to[ETAG_MAX], struct slice etag);

#endif
