/* SPDX-License-Identifier: MIT */
/*
 * The checkpoint of a copy run:
 *
 *   {"version":1,"rounds":{...},"mode":2,"step":0,"table":0,"restarts":0,
 *    "compared":1234,"own":0,"deletes":0,"former":0,"checked":false,
 *    "late":false,"done":["pk","rk"]}
 *
 * done: the keys up to which all writes of the step are stored; absent at the
 * beginning of a step. The other members are those of struct copy_progress.
 */
#include "jobs/copy/checkpoint.h"

#include <stddef.h>

#include "jobs/copy/work.h"
#include "jobs/engine/keys.h"
#include "jobs/engine/rounds.h"
#include "worker/base/json.h"

#define VERSION 1
#define MAX_BYTES (30 * 1024)
#define DEPTH 3

static const struct {
    const char *name;
    size_t offset;
} NUMBERS[] = {
    {"restarts", offsetof(struct copy_progress, restarts)},
    {"compared", offsetof(struct copy_progress, compared_ms)},
    {"own", offsetof(struct copy_progress, own)},
    {"deletes", offsetof(struct copy_progress, deletes)},
    {"former", offsetof(struct copy_progress, former)},
};

#define NUMBER_COUNT (sizeof(NUMBERS) / sizeof(NUMBERS[0]))

static int64_t *number_of(struct copy_progress *at, size_t i)
{
    return (int64_t *)(void *)((char *)at + NUMBERS[i].offset);
}

char *copy_checkpoint_write(
    const struct rounds *rounds, const struct copy_progress *at)
{
    struct copy_progress written = *at;
    struct buf text;

    buf_init(&text, MAX_BYTES);
    buf_add_format(&text, "{\"version\":%d,\"rounds\":", VERSION);
    rounds_write(rounds, &text);
    buf_add_format(&text, ",\"mode\":%d,\"step\":%d,\"table\":%zu",
        (int)at->mode, (int)at->step, at->table);
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        buf_add_format(&text, ",\"%s\":%lld", NUMBERS[i].name,
            (long long)*number_of(&written, i));
    buf_add_format(&text, ",\"checked\":%s,\"late\":%s",
        at->checked ? "true" : "false", at->late ? "true" : "false");
    if (at->resumes) {
        buf_add_text(&text, ",\"done\":");
        keys_write(&text, at->partition_key, at->row_key);
    }
    buf_add_char(&text, '}');
    return buf_take(&text);
}

static bool read_number(const struct json *json, const char *name, int64_t min,
    int64_t max, int64_t *ret)
{
    const struct json *value = json_get(json, name);

    return value && json_int64(value, ret) && *ret >= min && *ret <= max;
}

static bool read_bool(const struct json *json, const char *name, bool *ret)
{
    const struct json *value = json_get(json, name);

    if (!value || json_type(value) != JSON_BOOLEAN)
        return false;
    *ret = json_boolean(value);
    return true;
}

static bool read_done(
    const struct json *json, struct arena *arena, struct copy_progress *at)
{
    const struct json *done = json_get(json, "done");
    struct slice partition_key, row_key;

    at->resumes = done != NULL;
    if (!done)
        return true;
    if (!keys_read(done, &partition_key, &row_key))
        return false;
    at->partition_key = arena_copy(arena, partition_key);
    at->row_key = arena_copy(arena, row_key);
    return true;
}

static bool read_all(const struct json *json, struct arena *arena,
    struct rounds *rounds, struct copy_progress *at)
{
    int64_t number;

    if (json_type(json) != JSON_OBJECT ||
        !read_number(json, "version", VERSION, VERSION, &number) ||
        !rounds_read(rounds, json_get(json, "rounds")) ||
        !read_number(json, "mode", COPY_SEND_ALL, COPY_EACH, &number))
        return false;
    at->mode = (enum copy_mode)number;
    if (!read_number(json, "step", COPY_FORWARD, COPY_BACKWARD, &number))
        return false;
    at->step = (enum copy_step)number;
    if (!read_number(json, "table", 0, COPYING_MAX_TARGETS - 1, &number))
        return false;
    at->table = (size_t)number;
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (!read_number(json, NUMBERS[i].name, 0, INT64_MAX, number_of(at, i)))
            return false;
    return read_bool(json, "checked", &at->checked) &&
           read_bool(json, "late", &at->late) && read_done(json, arena, at);
}

bool copy_checkpoint_read(struct slice text, struct arena *arena,
    struct rounds *rounds, struct copy_progress *at)
{
    struct rounds read_rounds = *rounds;
    struct copy_progress read_at = {.restarts = 0};
    struct json *json;
    bool good;

    if (text.len == 0 || json_parse(text, DEPTH, &json, NULL) != TW_OK)
        return false;
    good = read_all(json, arena, &read_rounds, &read_at);
    json_free(json);
    if (!good)
        return false;
    *rounds = read_rounds;
    *at = read_at;
    return true;
}
