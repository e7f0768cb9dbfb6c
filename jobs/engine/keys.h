/* SPDX-License-Identifier: MIT */
/* The keys of an entity as a list of JSON, ["PartitionKey","RowKey"]: so they
 * stand in checkpoints, in provenance, in what is told of differences. */
#ifndef TW_JOBS_ENGINE_KEYS_H
#define TW_JOBS_ENGINE_KEYS_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

struct json;

/* keys_write: add the list. */
void keys_write(
    struct buf *to, struct slice partition_key, struct slice row_key);

/* keys_read: false: json is NULL, or no list of two texts. What is read is
 * borrowed from json. */
bool keys_read(const struct json *json, struct slice *ret_partition_key,
    struct slice *ret_row_key);

#endif
