/* SPDX-License-Identifier: MIT */
/*
 * What a copy of an entity is, said a second time and in other words: tests
 * judge by it what a worker has stored. It knows the key templates and the
 * shapes that the tests use, and no others.
 */
#ifndef TW_TESTS_SUPPORT_COPY_MODEL_H
#define TW_TESTS_SUPPORT_COPY_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define COPY_TARGETS_MAX 2
#define COPY_PROVENANCE "TablewardSource"

/* A key of a copy. */
enum copy_key {
    COPY_SAME,         /* the source's own       */
    COPY_SUFFIX,       /* {PartitionKey}_x       */
    COPY_ALL,          /* all                    */
    COPY_MONTH,        /* {PartitionKey}_{Month:02} */
    COPY_FULL,         /* {PartitionKey}-{RowKey}   */
    COPY_ROW_MONTH,    /* {RowKey}_{Month}       */
    COPY_BARE_MONTH,   /* {Month}                */
    COPY_NAME,         /* {lower(Name)}          */
    COPY_PREFIX,       /* i:{RowKey}             */
    COPY_PREFIX_MONTH, /* i:{RowKey}:{13 - Month:02} */
    COPY_KEYS,
};

/* Which properties a copy has. */
enum copy_shape {
    COPY_WHOLE,
    COPY_DROPS,   /* without Legacy and Bytes */
    COPY_KEEPS,   /* Token, Month and Title alone */
    COPY_CHANGES, /* Title becomes Heading; Copied, Origin and Level are set */
    COPY_SHAPES,
};

struct copy_target {
    const char *table;
    enum copy_key partition_key, row_key;
};

struct copy_model {
    struct copy_target targets[COPY_TARGETS_MAX];
    size_t count;
    enum copy_shape shape;
};

/* copy_model_make: the copy of source, without provenance, in arena. False:
 * there is none, whoever tries. */
bool copy_model_make(const struct copy_model *model, size_t target,
    const struct entity *source, struct arena *arena, struct entity *ret);

/* copy_model_keys_change: may they, while the source keeps its own? */
bool copy_model_keys_change(const struct copy_model *model);

/* copy_model_add: `to` and `properties` as the configuration has them, in a
 * job's map. */
void copy_model_add(const struct copy_model *model, struct buf *to);

/* copy_model_add_reindex: the same as `copies` of a reindex. */
void copy_model_add_reindex(const struct copy_model *model, struct buf *to);

/* What a copy says of its source. */
struct copy_source {
    struct slice store, table, partition_key, row_key, etag, job, run;
};

/* copy_model_source: false: it says nothing. */
bool copy_model_source(
    const struct entity *copy, struct arena *arena, struct copy_source *ret);

/* copy_model_same: the same keys, and properties but for the provenance.
 * copy_model_covers: all that part has, whole has too. */
bool copy_model_same(const struct entity *a, const struct entity *b);
bool copy_model_covers(const struct entity *whole, const struct entity *part);

/* copy_model_lay: over it what copy has, as a merge does. */
void copy_model_lay(
    struct entity *over, const struct entity *copy, struct arena *arena);

#endif
