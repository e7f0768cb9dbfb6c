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
    PAIR_READ,    /* its copy is to be inserted */
    PAIR_COPIED,  /* its copy is the run's own (rule M2) */
    PAIR_LEFT,    /* its source stays, for `why` if that is set */
    PAIR_CHANGED, /* a definite 412: the source has another ETag now */
    PAIR_ABSENT,  /* a definite 404: somebody else deleted the source */
    PAIR_DONE,    /* its source is deleted */
    PAIR_ANY,     /* for move_load_sort() */
};

/* What a read found at the keys of one side. */
struct found {
    bool there;
    bool equal;    /* it has the digest of the copy */
    int64_t ticks; /* its Timestamp; 0: none */
    char etag[ETAG_MAX];
};

struct pair {
    struct mover *mover;       /* for callbacks of a batch writer */
    struct keys keys[2];       /* by enum pair_side; in the load's arena */
    char etags[2][ETAG_MAX];   /* the source's as it was copied; the copy's, ""
                                  while it is not known */
    struct digest digest;      /* of the copy */
    const struct entity *copy; /* until it is handed to the batch writer */
    enum pair_state state;
    bool indeterminate; /* the outcome of an insert was unknown, or the copy was
                    accepted or taken over: it is not provably the run's own,
                    and nothing is written at the destination (rule M4) */
    bool delete_indeterminate; /* the source may have been deleted by the run
                           itself: absent means done (rule M5) */
    bool conflict;             /* an entity is at its destination key */
    bool named;                /* the report has it */
    const char *why; /* why both stay; static or in the load's arena */
    struct found found;
};

#define LOAD_SLOTS 4096 /* a power of two, more than three times the pairs */

struct load {
    struct arena arena;  /* keys */
    struct arena bodies; /* the copies */
    size_t bytes;        /* of the copies, in memory */
    bool has_large;      /* one of them alone is large */
    size_t listed_bytes; /* that the intent needs at most for its pairs */
    struct pair *pairs;  /* LOAD_MAX_PAIRS of them, owned */
    struct pair **order; /* likewise: sorted by one side */
    size_t count;
    uint16_t slots[LOAD_SLOTS]; /* index + 1 of a pair, by destination key */
};

/* move_load_init: empty. move_load_done frees. move_load_clear: empty again.
 * move_load_drop_bodies: the copies are not needed any more. */
void move_load_init(struct load *load);
void move_load_done(struct load *load);
void move_load_clear(struct load *load);
void move_load_drop_bodies(struct load *load);

/* move_load_is_full: an intent must not grow further, or memory. */
bool move_load_is_full(const struct load *load);

/* move_load_find: the pair with that destination key, or NULL. */
struct pair *move_load_find(
    const struct load *load, struct slice partition_key, struct slice row_key);

/* move_load_add: a pair whose destination key is not in the load yet. copy is
 * in load->bodies; NULL for a pair of an intent. */
struct pair *move_load_add(struct load *load, const struct keys *source,
    struct slice source_etag, const struct keys *copy_keys,
    const struct entity *copy);

/* move_load_sort: load->order becomes the pairs in that state, by that side's
 * keys. Returns their number. */
size_t move_load_sort(
    struct load *load, enum pair_state state, enum pair_side side);

/* move_load_count: of the pairs in that state. */
size_t move_load_count(const struct load *load, enum pair_state state);

/*
 * move_load_look_up: read what is at the keys of that side of load->order[0 ..
 * count-1], sorted by that side, into `found` of each: one range request for
 * each started hundred of a partition, more where other entities lie between.
 * Copies are read whole and compared by digest, of sources only the keys.
 */
TW_MUST_USE enum tw_err move_load_look_up(struct load *load, size_t count,
    enum pair_side side, struct run *run, struct store *store,
    const char *table, struct err *err);

/* found_set: what entity is, for a pair; NULL: nothing is there. */
void found_set(struct pair *pair, const struct entity *entity);

/* etag_copy: false, and to is "": longer than any store's. */
bool etag_copy(char to[ETAG_MAX], struct slice etag);

#endif
