/* SPDX-License-Identifier: MIT */
/*
 * The checkpoint of a cascade between attempts. T is a time in ticks. "laid" is
 * tombstone_ticks of struct cascade_checkpoint, and "found" is its
 * parent_found. The other members have the same names as in the struct:
 *
 *   {"version":1,"laid":T,"began":T,"not_before":T,"found":true,
 *    "crashed":true,"archived":true,"removed":true,"waited":true,
 *    "unmarked":true,"values":"HEX","path":[...]}
 */
#include "jobs/cascade/checkpoint.h"

#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

#define VERSION 1
/* The upper bound of times in a checkpoint. It ensures that a time is still
 * valid after a settle time is added. */
#define LATEST_TICKS (TICKS_MAX - 366 * INT64_C(86400) * TICKS_PER_S)

char *cascade_checkpoint_write(
    const struct cascade_checkpoint *checkpoint, const struct walk_path *path)
{
    struct buf text;

    buf_init(&text, CASCADE_CHECKPOINT_MAX_BYTES);
    buf_add_format(&text,
        "{\"version\":%d,\"laid\":%lld,\"began\":%lld,\"not_before\":%lld",
        VERSION, (long long)checkpoint->tombstone_ticks,
        (long long)checkpoint->began_ticks,
        (long long)checkpoint->not_before_ticks);
    if (checkpoint->parent_found >= 0)
        buf_add_format(&text, ",\"found\":%s",
            checkpoint->parent_found ? "true" : "false");
    if (checkpoint->crashed)
        buf_add_text(&text, ",\"crashed\":true");
    if (checkpoint->archived)
        buf_add_text(&text, ",\"archived\":true");
    if (checkpoint->removed)
        buf_add_text(&text, ",\"removed\":true");
    if (checkpoint->waited)
        buf_add_text(&text, ",\"waited\":true");
    if (checkpoint->unmarked)
        buf_add_text(&text, ",\"unmarked\":true");
    if (checkpoint->values[0])
        buf_add_format(&text, ",\"values\":\"%s\"", checkpoint->values);
    if (path) {
        size_t before = text.len;

        buf_add_text(&text, ",\"path\":");
        walk_path_write(path, &text);
        /* If the keys of the path are too long, omit the path. The next attempt
         * then begins the pass again. */
        (void)buf_keep(&text, before, sizeof("}") - 1);
    }
    buf_add_char(&text, '}');
    return buf_take(&text);
}

static int64_t member_ticks(const struct json *json, const char *name)
{
    const struct json *member = json_get(json, name);
    int64_t ticks;

    if (!member || !json_int64(member, &ticks) || ticks < 0 ||
        ticks > LATEST_TICKS)
        return 0;
    return ticks;
}

static bool member_boolean(const struct json *json, const char *name, bool *ret)
{
    const struct json *member = json_get(json, name);

    if (!member || json_type(member) != JSON_BOOLEAN)
        return false;
    *ret = json_boolean(member);
    return true;
}

/* Read a member that consists of hexadecimal digits, which need no escapes. */
static void member_digest(const struct json *json, const char *name, char *ret)
{
    const struct json *member = json_get(json, name);
    struct slice text;

    if (!member || json_type(member) != JSON_STRING)
        return;
    text = json_string(member);
    for (size_t i = 0; i < text.len; i++)
        if (!memchr("0123456789abcdef", text.at[i], 16))
            return;
    if (text.len >= CASCADE_DIGEST_MAX)
        return;
    memcpy(ret, text.at, text.len);
    ret[text.len] = '\0';
}

static void read_members(
    const struct json *json, struct cascade_checkpoint *checkpoint)
{
    bool found;

    checkpoint->tombstone_ticks = member_ticks(json, "laid");
    checkpoint->began_ticks = member_ticks(json, "began");
    checkpoint->not_before_ticks = member_ticks(json, "not_before");
    if (member_boolean(json, "found", &found))
        checkpoint->parent_found = found;
    (void)member_boolean(json, "crashed", &checkpoint->crashed);
    (void)member_boolean(json, "archived", &checkpoint->archived);
    (void)member_boolean(json, "removed", &checkpoint->removed);
    (void)member_boolean(json, "waited", &checkpoint->waited);
    (void)member_boolean(json, "unmarked", &checkpoint->unmarked);
    member_digest(json, "values", checkpoint->values);
}

void cascade_checkpoint_read(struct slice text,
    struct cascade_checkpoint *checkpoint, struct walk_path *path)
{
    const struct json *version, *levels;
    struct json *json;
    int64_t number;

    *checkpoint = (struct cascade_checkpoint){.parent_found = -1};
    path->depth = 0;
    if (text.len == 0 ||
        json_parse(text, 2 * CASCADE_MAX_DEPTH, &json, NULL) != TW_OK)
        return;
    version = json_type(json) == JSON_OBJECT ? json_get(json, "version") : NULL;
    if (version && json_int64(version, &number) && number == VERSION) {
        read_members(json, checkpoint);
        levels = json_get(json, "path");
        if (levels)
            walk_path_read(levels, path);
    }
    json_free(json);
}
