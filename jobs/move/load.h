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

/* Maximum number of pairs of a load. */
#define LOAD_MAX_PAIRS 1000
#define ETAG_MAX 96 /* bytes with the NUL, as in struct batch_result */

struct keys {
    struct slice partition_key, row_key;
};

enum pair_side { PAIR_SOURCE, PAIR_COPY };

enum pair_state {
    PAIR_READ,    /* source was read; its copy must be inserted */
    PAIR_COPIED,  /* copy is the run's own (M2) or accepted (M9) */
    PAIR_LEFT,    /* the pair is given up; `why` has the reason to report, or is
                     NULL */
    PAIR_CHANGED, /* a 412 (in a takeover: a read) has shown that the source
                     has another ETag now */
    PAIR_ABSENT,  /* a 404 (in a takeover: a read) has shown that the source
                     does not exist */
    PAIR_DONE,    /* source is deleted */
    PAIR_ANY,     /* used only as an argument of move_load_sort(): pairs in any
                     state */
};

/* The entity that a read found at the keys of one side. */
struct found {
    bool there;
    bool equal;    /* digest of the entity equals pair->digest */
    int64_t ticks; /* Timestamp of the entity; 0: it has none */
    char etag[ETAG_MAX];
};

struct pair {
    struct mover *mover;       /* mover of the load, for callbacks */
    struct keys keys[2];       /* keys of source and copy, by enum pair_side;
                                  texts in the load's arena */
    char etags[2][ETAG_MAX];   /* by enum pair_side: ETag of the source that was
                                  copied; ETag of the copy, "" while unknown */
    struct digest digest;      /* digest of the copy */
    const struct entity *copy; /* entity to insert; NULL: already sent, or the
                                  pair was taken over */
    enum pair_state state;
    /* The copy is not provably the run's own, because an insert had an unknown
     * outcome, the copy was accepted, or the pair was taken over. If true,
     * nothing more is written at the destination (rule M4). */
    bool indeterminate;

    bool delete_indeterminate; /* this or an earlier attempt may have deleted
                                  the source; so if the source is absent, the
                                  pair is done (rule M5) */
    bool conflict;   /* another entity is at the destination key of the pair */
    bool named;      /* the pair is already reported */
    const char *why; /* reason to report; static or in the load's arena */
    struct found found;
};

/* Slots of a load's hash table: a power of two, more than three times
 * LOAD_MAX_PAIRS. */
#define LOAD_SLOTS 4096

struct load {
    struct arena arena;  /* keys of the pairs */
    struct arena bodies; /* entities of the copies */
    size_t bytes;        /* memory of the copies */
    bool has_large;      /* one copy has at least LARGE_COPY_BYTES (load.c) */
    size_t listed_bytes; /* upper bound of the size of the intent's list of
                            pairs */
    struct pair *pairs;  /* array with room for LOAD_MAX_PAIRS pairs, owned */
    struct pair **order; /* result of move_load_sort(), owned */
    size_t count;
    uint16_t slots[LOAD_SLOTS]; /* hash table by destination key; a slot has the
                                   index of a pair plus 1, or 0 (free) */
};

/* move_load_init: make an empty load. move_load_done: free its memory.
 * move_load_clear: remove all pairs. move_load_drop_bodies: free the entities
 * of the copies. */
void move_load_init(struct load *load);
void move_load_done(struct load *load);
void move_load_clear(struct load *load);
void move_load_drop_bodies(struct load *load);

/* move_load_limit: returns the maximum number of pairs of a load under
 * max_entities_per_second (per_s; 0: no limit). Under such a limit a load takes
 * about a second, because a move completes up to two loads before it is paused
 * or cancelled. */
size_t move_load_limit(int64_t per_s);

/* move_load_is_full: has the load reached a limit of pairs (move_load_limit()),
 * memory or intent size? */
bool move_load_is_full(const struct load *load, size_t limit);

/* move_load_find: returns the pair with this destination key, or NULL. */
struct pair *move_load_find(
    const struct load *load, struct slice partition_key, struct slice row_key);

/* move_load_add: add a pair. Call only if move_load_find() finds no pair with
 * the destination keys copy_keys. copy must live in load->bodies, and is NULL
 * for a pair read from an intent. */
struct pair *move_load_add(struct load *load, const struct keys *source,
    struct slice source_etag, const struct keys *copy_keys,
    const struct entity *copy);

/* move_load_sort: set load->order to the pairs in state `state`, sorted by
 * their keys on side `side`. Returns the number of pairs in load->order. */
size_t move_load_sort(
    struct load *load, enum pair_state state, enum pair_side side);

/* pair_set_state: change the state of a pair. The table in load.c has the
 * possible changes; any other fails an assertion. */
void pair_set_state(struct pair *pair, enum pair_state state);

/* move_load_count: returns the number of pairs in state `state`. */
size_t move_load_count(const struct load *load, enum pair_state state);

/*
 * move_load_read: for each pair of load->order[0 .. count-1], read the entity
 * at the pair's keys on side `side` into pair->found. Call after
 * move_load_sort() with the same side. Sends one range request for up to 100
 * keys of a partition, and more requests if other entities lie between these
 * keys. Copies are read whole and compared by digest; of sources only the keys
 * are read.
 */
TW_MUST_USE enum tw_err move_load_read(struct load *load, size_t count,
    enum pair_side side, struct run *run, struct store *store,
    const char *table, struct err *err);

/* found_set: set pair->found from entity, which is NULL if no entity exists. */
void found_set(struct pair *pair, const struct entity *entity);

/* etag_copy: copy etag to `to`, with a NUL. False: etag is longer than any
 * store's ETags; `to` is then "". */
bool etag_copy(char to[ETAG_MAX], struct slice etag);

#endif
