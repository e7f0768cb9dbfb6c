/* SPDX-License-Identifier: MIT */
/* The keys of an entity as a JSON list, ["PartitionKey","RowKey"], as used in
 * checkpoints, in TablewardSource and in reports of differences. */
#ifndef TW_JOBS_ENGINE_KEYS_H
#define TW_JOBS_ENGINE_KEYS_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

struct json;

/* keys_write: append the keys as a JSON list. */
void keys_write(
    struct buf *to, struct slice partition_key, struct slice row_key);

/* keys_read: read the keys from a JSON list. False: json is NULL or not a list
 * of two strings. The keys are borrowed from json. */
bool keys_read(const struct json *json, struct slice *ret_partition_key,
    struct slice *ret_row_key);

#endif
