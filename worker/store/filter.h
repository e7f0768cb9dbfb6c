/* SPDX-License-Identifier: MIT */
/*
 * OData filters: comparisons of a property with a constant, and / or / not,
 * parentheses; at most 15 comparisons. Type strict; an entity that lacks the
 * property never matches, not even `ne`.
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

struct filter; /* lives in the arena it was parsed into; immutable */

#define FILTER_MAX_COMPARISONS 15

/*
 * filter_parse: err has the column, from 1. An empty text is the filter that
 * matches everything. PartitionKey, RowKey and Timestamp are properties.
 */
TW_MUST_USE enum tw_err filter_parse(struct slice text, struct arena *arena,
    const struct filter **ret, struct err *err);

/* filter_matches: NULL matches everything. */
bool filter_matches(const struct filter *filter, const struct entity *entity);

/* filter_properties: the names it reads, each once; borrowed from filter. */
const struct slice *filter_properties(
    const struct filter *filter, size_t *ret_count);

/* filter_add_literal: 'text' with ' doubled. */
void filter_add_literal(struct buf *to, struct slice text);

#endif
