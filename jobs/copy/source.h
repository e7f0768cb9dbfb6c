/* SPDX-License-Identifier: MIT */
/*
 * The property TablewardSource of a copy: a String that contains JSON.
 *
 *   {"job":"blogs-by-month","to":0,"by":"8 hex digits",
 *    "from":["account","Blogs"],"at":["account","BlogsByMonth"],
 *    "own":["pk","rk"],"key":["pk","rk"],"etag":"W/\"...\"",
 *    "digest":"32 hex digits"}
 *
 *   job        the job's name
 *   to         the index that the entry of `to:` had when it made the copy
 *              (jobs/copy/work.h says what the index is for)
 *   by         a digest of the key templates of that entry
 *   from, at   account and table of the source, and of the copy
 *   own        keys of the copy
 *   key, etag  keys and ETag of the source that was copied
 *   digest     digest of the copy as it was written, without TablewardSource
 *
 * The job comes first, so that a range of this text selects the copies of one
 * job (source_filter()). An application that copies an entity with all its
 * properties copies this property too. So a copy is a job's own only if `at`
 * and `own` name the location at which it is stored (rule C1).
 */
#ifndef TW_JOBS_COPY_SOURCE_H
#define TW_JOBS_COPY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define SOURCE_PROPERTY "TablewardSource"

struct store;

/* A table of an account; names are compared without case. */
struct source_table {
    struct slice account, table;
};

struct source {
    struct slice job;
    int64_t entry;   /* index of the entry in the job's `to:`, when the copy was
                        written */
    struct slice by; /* digest of the entry's key templates */
    struct source_table from, at;
    struct slice own_partition_key, own_row_key; /* keys of the copy */
    struct slice partition_key, row_key, etag; /* keys and ETag of the source */
    struct slice digest; /* digest of the copy, computed by source_stamp() */
    bool restored;       /* set by copy_is_own() (jobs/copy/work.h) only */
    struct slice head;   /* result of source_head(), made once for many copies;
                            empty: source_stamp() calls source_head() */
};

/* source_table_of: returns account and name of a table in store. The texts are
 * borrowed from store and table. */
struct source_table source_table_of(
    const struct store *store, const char *table);

bool source_table_equal(
    const struct source_table *a, const struct source_table *b);

/* source_head: returns the beginning of the property, which is the same for all
 * copies of this job, entry and location, escaped as a JSON string. Made in
 * arena. */
struct slice source_head(const struct source *source, struct arena *arena);

/*
 * source_stamp: add TablewardSource to copy, with the digest of copy as it is
 * now and the keys of copy. The property is made in arena.
 */
void source_stamp(
    struct entity *copy, const struct source *source, struct arena *arena);

/* source_read: read TablewardSource of entity. False: entity has no
 * TablewardSource, or an invalid one. ret refers to texts in arena. */
bool source_read(
    const struct entity *entity, struct arena *arena, struct source *ret);

/* source_without_entry: returns the part of the text of TablewardSource after
 * the index of the entry, or the whole text if source_stamp() did not write it.
 * Borrowed from text. */
struct slice source_without_entry(struct slice text);

/* source_is_at: do the members `at` and `own` of source name the table `at` and
 * the keys of entity? */
bool source_is_at(const struct source *source, const struct entity *entity,
    const struct source_table *at);

/*
 * source_is_index_row: is entity, with this TablewardSource, an index row of
 * table `at`? It is if the members `from` and `at` of TablewardSource name the
 * same table, the name of this table is that of the parameter `at`, and the
 * member `own` has the keys of entity. The account in `source` may differ from
 * that of `at`: after an import into another account or store, index rows still
 * name the account in which they were written. A copy from a table of the same
 * name in another account is no index row, because `from` and `at` of its
 * TablewardSource differ.
 */
bool source_is_index_row(const struct source *source,
    const struct entity *entity, const struct source_table *at);

/* source_is_intact: is the digest of copy still the one in source? If not, copy
 * was edited after it was written. */
bool source_is_intact(const struct source *source, const struct entity *copy);

/* source_filter: append an OData filter that every copy of the job passes, and
 * few other entities. */
void source_filter(struct slice job, struct buf *to);

#endif
