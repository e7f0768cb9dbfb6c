/* SPDX-License-Identifier: MIT */
/*
 * What a run that copies keeps between attempts:
 *
 *   {"version":1,"stage":"passes","pass":N,"doubt":false,"late":false,
 *    "not_before":N,"sweep":false,"anew":false,"left_over":N,
 *    "done":["pk","rk"]}
 *
 * "left_over" is there where it is above 0, "done" within a pass only.
 */
#include "jobs/copier_checkpoint.h"

#include <stddef.h>

#include "jobs/engine/keys.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"

#define VERSION 1
#define DEPTH_MAX 3

static const char *const STAGES[] = {
    [COPIER_BEGINS] = "begins",
    [COPIER_PASSES] = "passes",
    [COPIER_LOOKS] = "looks",
    [COPIER_STRIPS] = "strips",
};

#define STAGE_COUNT (sizeof(STAGES) / sizeof(STAGES[0]))

/* What is true or false, by the names it has in JSON. */
static const struct flag {
    const char *name;
    size_t offset;
} FLAGS[] = {
    {"doubt", offsetof(struct copier_checkpoint, doubt)},
    {"late", offsetof(struct copier_checkpoint, late)},
    {"sweep", offsetof(struct copier_checkpoint, sweep)},
    {"anew", offsetof(struct copier_checkpoint, anew)},
};

#define FLAG_COUNT (sizeof(FLAGS) / sizeof(FLAGS[0]))

static bool *flag_of(struct copier_checkpoint *checkpoint, size_t i)
{
    return (bool *)((char *)checkpoint + FLAGS[i].offset);
}

static void add_place(
    const struct copier_checkpoint *checkpoint, struct buf *to)
{
    size_t before = to->len;

    buf_add_text(to, ",\"done\":");
    keys_write(to, checkpoint->partition_key, checkpoint->row_key);
    (void)buf_keep(to, before, sizeof("}") - 1);
}

char *copier_checkpoint_write(const struct copier_checkpoint *checkpoint)
{
    struct copier_checkpoint flags = *checkpoint;
    struct buf text;

    buf_init(&text, COPIER_CHECKPOINT_MAX_BYTES);
    buf_add_format(&text,
        "{\"version\":%d,\"stage\":\"%s\",\"pass\":%lld,\"not_before\":%lld",
        VERSION, STAGES[checkpoint->stage], (long long)checkpoint->pass,
        (long long)checkpoint->not_before_ticks);
    for (size_t i = 0; i < FLAG_COUNT; i++)
        buf_add_format(&text, ",\"%s\":%s", FLAGS[i].name,
            *flag_of(&flags, i) ? "true" : "false");
    if (checkpoint->left_over > 0)
        buf_add_format(
            &text, ",\"left_over\":%lld", (long long)checkpoint->left_over);
    if (checkpoint->in_pass)
        add_place(checkpoint, &text);
    buf_add_char(&text, '}');
    return buf_take(&text);
}

static bool read_count(const struct json *json, const char *name, int64_t *ret)
{
    const struct json *member = json_get(json, name);

    return member && json_int64(member, ret) && *ret >= 0;
}

static bool read_stage(const struct json *json, enum copier_stage *ret)
{
    const struct json *member = json_get(json, "stage");

    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (member && json_type(member) == JSON_STRING &&
            slice_is(json_string(member), STAGES[i])) {
            *ret = (enum copier_stage)i;
            return true;
        }
    return false;
}

static bool read_flags(
    const struct json *json, struct copier_checkpoint *checkpoint)
{
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        const struct json *member = json_get(json, FLAGS[i].name);

        if (!member || json_type(member) != JSON_BOOLEAN)
            return false;
        *flag_of(checkpoint, i) = json_boolean(member);
    }
    return true;
}

static void read_place(const struct json *json, struct arena *arena,
    struct copier_checkpoint *checkpoint)
{
    struct slice partition_key, row_key;

    if (!keys_read(json_get(json, "done"), &partition_key, &row_key))
        return;
    checkpoint->partition_key = arena_copy(arena, partition_key);
    checkpoint->row_key = arena_copy(arena, row_key);
    checkpoint->in_pass = true;
}

static void read_members(const struct json *json, struct arena *arena,
    struct copier_checkpoint *checkpoint)
{
    struct copier_checkpoint read = {0};
    int64_t version;

    if (!read_count(json, "version", &version) || version != VERSION ||
        !read_stage(json, &read.stage) ||
        !read_count(json, "pass", &read.pass) ||
        !read_count(json, "not_before", &read.not_before_ticks) ||
        !read_flags(json, &read))
        return;
    if (!read_count(json, "left_over", &read.left_over))
        read.left_over = 0;
    read_place(json, arena, &read);
    *checkpoint = read;
}

void copier_checkpoint_read(struct slice text, struct arena *arena,
    struct copier_checkpoint *checkpoint)
{
    struct json *json;

    *checkpoint = (struct copier_checkpoint){0};
    if (text.len == 0 || json_parse(text, DEPTH_MAX, &json, NULL) != TW_OK)
        return;
    if (json_type(json) == JSON_OBJECT)
        read_members(json, arena, checkpoint);
    json_free(json);
}
