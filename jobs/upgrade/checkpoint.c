/* SPDX-License-Identifier: MIT */
/*
 * The checkpoint of a schema upgrade between attempts:
 *
 *   {"version":2,"rounds":{...},"selected":N,"outside":N,"leftover":N,
 *    "failed":N,"skipped":N,"done":["pk","rk"]}
 *
 * "done" exists only within a round.
 */
#include "jobs/upgrade/checkpoint.h"

#include <stddef.h>

#include "jobs/engine/keys.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"

#define VERSION 2
#define DEPTH_MAX 4

static const struct count {
    const char *name;
    size_t offset;
} COUNTS[] = {
    {"selected", offsetof(struct upgrade_checkpoint, selected)},
    {"outside", offsetof(struct upgrade_checkpoint, outside)},
    {"leftover", offsetof(struct upgrade_checkpoint, leftover)},
    {"failed", offsetof(struct upgrade_checkpoint, failed)},
    {"skipped", offsetof(struct upgrade_checkpoint, skipped)},
};

#define COUNT_OF_COUNTS (sizeof(COUNTS) / sizeof(COUNTS[0]))

static int64_t *count_of(struct upgrade_checkpoint *checkpoint, size_t i)
{
    return (int64_t *)(void *)((char *)checkpoint + COUNTS[i].offset);
}

char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint)
{
    struct upgrade_checkpoint counts = *checkpoint;
    struct buf text;
    size_t before;

    buf_init(&text, UPGRADE_CHECKPOINT_MAX_BYTES);
    buf_add_format(&text, "{\"version\":%d,\"rounds\":", VERSION);
    rounds_write(&checkpoint->rounds, &text);
    for (size_t i = 0; i < COUNT_OF_COUNTS; i++)
        buf_add_format(&text, ",\"%s\":%lld", COUNTS[i].name,
            (long long)*count_of(&counts, i));
    before = text.len;
    if (checkpoint->in_round) {
        buf_add_text(&text, ",\"done\":");
        keys_write(&text, checkpoint->partition_key, checkpoint->row_key);
        (void)buf_keep(&text, before, sizeof("}") - 1);
    }
    buf_add_char(&text, '}');
    return buf_take(&text);
}

static bool read_count(const struct json *json, const char *name, int64_t *ret)
{
    const struct json *member = json_get(json, name);

    return member && json_int64(member, ret) && *ret >= 0;
}

static void read_position(const struct json *json, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    struct slice partition_key, row_key;

    if (!keys_read(json_get(json, "done"), &partition_key, &row_key))
        return;
    checkpoint->partition_key = arena_copy(arena, partition_key);
    checkpoint->row_key = arena_copy(arena, row_key);
    checkpoint->in_round = true;
}

static void read_members(const struct json *json, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    struct upgrade_checkpoint read = {.in_round = false};
    int64_t version;

    if (!read_count(json, "version", &version) || version != VERSION ||
        !rounds_read(&read.rounds, json_get(json, "rounds")))
        return;
    for (size_t i = 0; i < COUNT_OF_COUNTS; i++)
        if (!read_count(json, COUNTS[i].name, count_of(&read, i)))
            return;
    read_position(json, arena, &read);
    *checkpoint = read;
}

void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    struct json *json;

    *checkpoint = (struct upgrade_checkpoint){.in_round = false};
    if (text.len == 0 || json_parse(text, DEPTH_MAX, &json, NULL) != TW_OK)
        return;
    if (json_type(json) == JSON_OBJECT)
        read_members(json, arena, checkpoint);
    json_free(json);
}
