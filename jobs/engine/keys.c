/* SPDX-License-Identifier: MIT */
/* The keys of an entity as JSON. */
#include "jobs/engine/keys.h"

#include "worker/base/json.h"

void keys_write(
    struct buf *to, struct slice partition_key, struct slice row_key)
{
    buf_add_char(to, '[');
    json_add_string(to, partition_key);
    buf_add_char(to, ',');
    json_add_string(to, row_key);
    buf_add_char(to, ']');
}

bool keys_read(const struct json *json, struct slice *ret_partition_key,
    struct slice *ret_row_key)
{
    const struct json *partition_key, *row_key;

    if (!json || json_type(json) != JSON_ARRAY || json_count(json) != 2)
        return false;
    partition_key = json_at(json, 0);
    row_key = json_at(json, 1);
    if (json_type(partition_key) != JSON_STRING ||
        json_type(row_key) != JSON_STRING)
        return false;
    *ret_partition_key = json_string(partition_key);
    *ret_row_key = json_string(row_key);
    return true;
}
