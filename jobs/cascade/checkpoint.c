/* SPDX-License-Identifier: MIT */
/*
 * What a cascade keeps between attempts:
 *
 *   {"version":1,"laid":T,"began":T,"not_before":T,"path":[...]}
 */
#include "jobs/cascade/checkpoint.h"

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

#define VERSION 1
/* No run began later: what is added to it, a settle time, is a time too. */
#define LATEST_TICKS (TICKS_MAX - 366 * INT64_C(86400) * TICKS_PER_S)

char *cascade_checkpoint_write(
    const struct cascade_checkpoint *checkpoint, const struct walk_path *path)
{
    struct buf text;

    buf_init(&text, CASCADE_CHECKPOINT_MAX_BYTES);
    buf_add_format(&text,
        "{\"version\":%d,\"laid\":%lld,\"began\":%lld,\"not_before\":%lld",
        VERSION, (long long)checkpoint->laid_ticks,
        (long long)checkpoint->began_ticks,
        (long long)checkpoint->not_before_ticks);
    if (path) {
        size_t before = text.len;

        buf_add_text(&text, ",\"path\":");
        walk_path_write(path, &text);
        /* Keys too long to keep: the pass begins anew, as it may. */
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

void cascade_checkpoint_read(struct slice text,
    struct cascade_checkpoint *checkpoint, struct walk_path *path)
{
    const struct json *version, *place;
    struct json *json;
    int64_t number;

    *checkpoint = (struct cascade_checkpoint){0};
    path->depth = 0;
    if (text.len == 0 ||
        json_parse(text, 2 * CASCADE_MAX_DEPTH, &json, NULL) != TW_OK)
        return;
    version = json_type(json) == JSON_OBJECT ? json_get(json, "version") : NULL;
    if (version && json_int64(version, &number) && number == VERSION) {
        checkpoint->laid_ticks = member_ticks(json, "laid");
        checkpoint->began_ticks = member_ticks(json, "began");
        checkpoint->not_before_ticks = member_ticks(json, "not_before");
        place = json_get(json, "path");
        if (place)
            walk_path_read(place, path);
    }
    json_free(json);
}
