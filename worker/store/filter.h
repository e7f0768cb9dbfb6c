/* SPDX-License-Identifier: MIT */
/*
 * OData filters: at most 15 comparisons `property op constant`, where op is eq,
 * ne, gt, ge, lt or le. Comparisons are joined by `and` and `or`, of which
 * `and` binds tighter, and negated by `not (...)`. Constants: 'text' (a ' in it
 * is doubled), 5 (Int32), 5L (Int64), 2.5 or 1e-3 (Double), true, false,
 * datetime'2024-01-01T00:00:00Z', guid'...', X'0aff' and binary'0aff'.
 *
 * Comparisons are strict about types: a comparison with a constant of another
 * type, or of a property that the entity lacks, is false, even with ne. So `not
 * (p ge 5)` is true for an entity without p. Strings are ordered by UTF-16
 * units, times by ticks, false before true; NaN differs from everything, itself
 * too.
 *
 * Source: Table service REST, "Querying tables and entities".
 */
#ifndef TW_STORE_FILTER_H
#define TW_STORE_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct filter; /* lives in the arena of filter_parse(); immutable */

#define FILTER_MAX_COMPARISONS 15

/*
 * filter_parse: parse text. On an error, err has the column of the error,
 * counted from 1. An empty text is the filter that matches everything.
 * PartitionKey, RowKey and Timestamp are properties.
 */
TW_MUST_USE enum tw_err filter_parse(struct slice text, struct arena *arena,
    const struct filter **ret, struct err *err);

/* filter_check: check that filter_parse() accepts text. *ret_offset: byte
 * offset of the error, unchanged on TW_OK; err has no column, for callers that
 * add their own location. */
TW_MUST_USE enum tw_err filter_check(
    struct slice text, size_t *ret_offset, struct err *err);

/* filter_matches: does filter match entity? NULL matches everything. */
bool filter_matches(const struct filter *filter, const struct entity *entity);

/* What a change of an entity does to one property, for filter_effect(). `what`
 * describes the property after the change. */
struct filter_known {
    enum {
        FILTER_SAME,    /* the property is unchanged */
        FILTER_ABSENT,  /* the entity has no property `name` */
        FILTER_TYPE,    /* the property, if there is one, has the type `type` */
        FILTER_RETYPED, /* like FILTER_TYPE; and if the property had this type
                           before, it is unchanged */
        FILTER_VALUE,   /* the property is *value */
        FILTER_ANY,     /* nothing is known of the property */
    } what;
    bool was_absent;   /* the entity had no property `name` before */
    struct slice name; /* not a key */
    enum edm_type type;
    const struct property *value;
};

struct filter_effect {
    bool matches; /* the filter may match a changed entity */
    bool loses;   /* the filter may match an entity before the change, and not
                     match it afterwards */
};

/*
 * filter_effect: returns what the change that `known` describes means for
 * filter. Properties with other names are unchanged. A member of the result
 * that is false is certain: what it describes happens to no entity.
 */
struct filter_effect filter_effect(const struct filter *filter,
    const struct filter_known *known, size_t count);

/* filter_properties: return the property names in filter, each once; borrowed
 * from filter. */
const struct slice *filter_properties(
    const struct filter *filter, size_t *ret_count);

/* filter_comparisons: return the number of comparisons in filter. */
size_t filter_comparisons(const struct filter *filter);

/*
 * filter_is_plain: does filter have only eq comparisons with texts, booleans
 * and guids, joined by `and` and `or`? All stores agree on what such a filter
 * matches.
 */
bool filter_is_plain(const struct filter *filter);

/* A comparison `name eq 'text'`. The offsets are of bytes in the text of
 * filter_parse(). */
struct filter_equality {
    struct slice name;
    struct slice text; /* without the quotes, and '' as ' */
    size_t name_at;    /* offset of the name */
    size_t begin, end; /* begin: offset of the opening quote; end: offset just
                          after the closing quote */
};

/*
 * filter_equalities: write to ret the comparisons with eq and a String that are
 * true for each entity that filter matches, because only `and` joins them to
 * the rest of the filter, perhaps within parentheses. Returns their number. ret
 * has room for FILTER_MAX_COMPARISONS; the slices are borrowed from filter.
 */
size_t filter_equalities(
    const struct filter *filter, struct filter_equality *ret);

/* filter_add_literal: add 'text' with ' doubled. */
void filter_add_literal(struct buf *to, struct slice text);

#endif
