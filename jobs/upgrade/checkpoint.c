/* SPDX-License-Identifier: MIT */
/*
 * What a schema upgrade keeps between attempts:
 *
 *   {"version":1,"pass":N,"waits":N,"surveyed":true,
 *    "done":["pk","rk"],"found":N,"awaited":N,"other":N,"held":N,"below":N,
 *    "failed":N,"skipped":N}
 *
 * "done" and the counts behind it are there within a pass only.
 */
#include "jobs/upgrade/checkpoint.h"

#include <stddef.h>

#include "jobs/engine/keys.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"

#define VERSION 1
#define DEPTH_MAX 3

/* The counts of a pass, by the names they have in JSON. */
static const struct count {
    const char *name;
    size_t offset;
} COUNTS[] = {
    {"found", offsetof(struct upgrade_checkpoint, found)},
    {"awaited", offsetof(struct upgrade_checkpoint, awaited)},
    {"other", offsetof(struct upgrade_checkpoint, other)},
    {"held", offsetof(struct upgrade_checkpoint, held)},
    {"below", offsetof(struct upgrade_checkpoint, below)},
    {"failed", offsetof(struct upgrade_checkpoint, failed)},
    {"skipped", offsetof(struct upgrade_checkpoint, skipped)},
};

#define COUNT_OF_COUNTS (sizeof(COUNTS) / sizeof(COUNTS[0]))

static int64_t *count_of(struct upgrade_checkpoint *checkpoint, size_t i)
{
    return (int64_t *)((char *)checkpoint + COUNTS[i].offset);
}

static void add_place(
    const struct upgrade_checkpoint *checkpoint, struct buf *to)
{
    struct upgrade_checkpoint counts = *checkpoint;

    buf_add_text(to, ",\"done\":");
    keys_write(to, checkpoint->partition_key, checkpoint->row_key);
    for (size_t i = 0; i < COUNT_OF_COUNTS; i++)
        buf_add_format(to, ",\"%s\":%lld", COUNTS[i].name,
            (long long)*count_of(&counts, i));
}

char *upgrade_checkpoint_write(const struct upgrade_checkpoint *checkpoint)
{
    struct buf text;

    buf_init(&text, UPGRADE_CHECKPOINT_MAX_BYTES);
    buf_add_format(&text,
        "{\"version\":%d,\"pass\":%lld,\"waits\":%lld,\"surveyed\":%s", VERSION,
        (long long)checkpoint->pass, (long long)checkpoint->waits,
        checkpoint->surveyed ? "true" : "false");
    if (checkpoint->in_pass) {
        size_t before = text.len;

        add_place(checkpoint, &text);
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

static bool read_place(const struct json *json, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    struct slice partition_key, row_key;

    if (!keys_read(json_get(json, "done"), &partition_key, &row_key))
        return false;
    for (size_t i = 0; i < COUNT_OF_COUNTS; i++)
        if (!read_count(json, COUNTS[i].name, count_of(checkpoint, i)))
            return false;
    checkpoint->partition_key = arena_copy(arena, partition_key);
    checkpoint->row_key = arena_copy(arena, row_key);
    checkpoint->in_pass = true;
    return true;
}

static void read_members(const struct json *json, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    const struct json *surveyed = json_get(json, "surveyed");
    struct upgrade_checkpoint read = {0};
    int64_t version;

    if (!read_count(json, "version", &version) || version != VERSION ||
        !read_count(json, "pass", &read.pass) ||
        !read_count(json, "waits", &read.waits) || !surveyed ||
        json_type(surveyed) != JSON_BOOLEAN)
        return;
    read.surveyed = json_boolean(surveyed);
    *checkpoint = read;
    if (read_place(json, arena, &read))
        *checkpoint = read;
}

void upgrade_checkpoint_read(struct slice text, struct arena *arena,
    struct upgrade_checkpoint *checkpoint)
{
    struct json *json;

    *checkpoint = (struct upgrade_checkpoint){0};
    if (text.len == 0 || json_parse(text, DEPTH_MAX, &json, NULL) != TW_OK)
        return;
    if (json_type(json) == JSON_OBJECT)
        read_members(json, arena, checkpoint);
    json_free(json);
}
