/* SPDX-License-Identifier: MIT */
/*
 * A pack is a batch in the making, and on its way: operations of one table and
 * PartitionKey, each with its ticket and its fate. Used by flow and resolve
 * alone.
 */
#ifndef TW_JOBS_ENGINE_PACK_H
#define TW_JOBS_ENGINE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/engine/flow.h"
#include "worker/base/arena.h"
#include "worker/store/lanes.h"
#include "worker/store/store.h"

enum pack_fate {
    PACK_SEND,   /* to be sent, again perhaps */
    PACK_DONE,   /* what was wanted is so */
    PACK_KEPT,   /* it was so before */
    PACK_GONE,   /* what was to be deleted was not there any more */
    PACK_SPARED, /* it no longer concerns the run */
    PACK_FAILED, /* it can never succeed: entry->why */
};

struct pack_entry {
    struct flow_item item; /* its operation lives in the pack's arena */
    uint64_t ticket;
    enum pack_fate fate;
    const char *why;
    struct slice etag; /* of what is stored now, once that is known */
    bool unsure; /* the outcome of a request that carried it was unknown */
};

struct pack {
    struct lanes_task task; /* first, so that it leads back to the pack */
    struct pack *next;
    struct arena arena;
    struct store *store;
    const char *table;
    struct slice partition_key;

    struct pack_entry *entries;
    size_t count, room;
    size_t bytes;              /* when encoded, counted generously */
    struct slice last_row_key; /* of the entries, while they are in order */
    bool in_order;

    /* While it is sent. */
    struct batch batch;
    struct batch_result *result; /* in arena */

    unsigned singles;  /* refused operations that were read one by one */
    unsigned rounds;   /* answers in a row after which none was settled */
    unsigned unknowns; /* unknown outcomes in a row */
    int64_t not_before_ms;
    struct resolving *resolving; /* what it met is being read, or NULL; */
    size_t resolving_bytes;      /* the flow counts so much for that */
    bool waits_to_resolve;       /* for its turn */
};

/* pack_new: an empty one for what item is for. Owned. */
struct pack *pack_new(const struct flow_item *item);
void pack_free(struct pack *pack);

/* pack_takes: is item for this table and PartitionKey? */
bool pack_takes(const struct pack *pack, const struct flow_item *item);

/* pack_has_room: would item still go into the same batch? Not when it is full
 * or would be too large, nor when it has the same key already. */
bool pack_has_room(const struct pack *pack, const struct flow_item *item);

void pack_add(struct pack *pack, const struct flow_item *item, uint64_t ticket);

/* pack_find: the entry of that RowKey, or NULL. */
struct pack_entry *pack_find(const struct pack *pack, struct slice row_key);

/* pack_change: send operation instead; copied. */
void pack_change(struct pack *pack, struct pack_entry *entry,
    const struct operation *operation);

/* pack_store: entry ends with fate, and this ETag (copied) is stored now. */
void pack_store(struct pack *pack, struct pack_entry *entry,
    enum pack_fate fate, struct slice etag);

/* pack_doubt: nobody knows what became of the operations just sent. */
void pack_doubt(struct pack *pack);

/* pack_fail: entry can never succeed. */
void pack_fail(struct pack *pack, struct pack_entry *entry, const char *why);

/* pack_compact: keep only what is to be sent, and only its memory. */
void pack_compact(struct pack *pack);

/* pack_split: the second half goes into a pack of its own. Owned. */
struct pack *pack_split(struct pack *pack);

/* pack_submit: hand it to the lanes; it is borrowed until it is done. */
void pack_submit(struct pack *pack, struct lanes_client *lanes);

/* pack_call: the same, and it is done when this returns. */
void pack_call(struct pack *pack, struct lanes_client *lanes);

#endif
