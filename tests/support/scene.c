/* SPDX-License-Identifier: MIT */
/* Tests of a kind whose requests are scripted: see scene.h. */
#include "tests/support/scene.h"

#include <stdio.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/text.h"

struct hosted h;
struct script s;
char reports[8192];

static void keep_report(
    struct hosted *callbacks, const struct run_failure *failure)
{
    size_t len = strlen(reports);

    (void)snprintf(reports + len, sizeof(reports) - len, "%s %.*s/%.*s: %s\n",
        failure->table, SLICE_ARG(failure->partition_key),
        SLICE_ARG(failure->row_key), failure->why);
}

void scene_begin(const char *jobs, const char *tables)
{
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    log_set(LOG_ERROR, LOG_TEXT);
    hosted_begin(&h, jobs, tables);
    h.failing = keep_report;
    reports[0] = '\0';
    script_init(&s, &h);
}

int scene_end(void **state)
{
    hosted_done(&h);
    virtual_platform_end();
    return 0;
}

void scene_restart(const char *jobs, const char *tables)
{
    if (h.store)
        scene_end(NULL);
    scene_begin(jobs, tables);
}

/* ---- tables ---- */

void scene_put(const char *table, const char *partition_key,
    const char *row_key, const char *properties)
{
    scene_quietly(hosted_put(&h, table, partition_key, row_key, properties));
}

void scene_replace(const char *table, const char *partition_key,
    const char *row_key, const char *properties)
{
    scene_quietly(
        hosted_replace(&h, table, partition_key, row_key, properties));
}

void scene_remove(
    const char *table, const char *partition_key, const char *row_key)
{
    scene_quietly(hosted_remove(&h, table, partition_key, row_key));
}

/* Calls what() on the store behind the script: the circuit breaker of the
 * script's store may be open after the failures that the script has made. */
static void past_script(
    void (*what)(struct hosted *host, const char *rows), const char *rows)
{
    struct store *front = h.store;

    h.store = s.inner;
    what(&h, rows);
    h.store = front;
}

void scene_rows(const char *rows)
{
    past_script(hosted_rows, rows);
}

void scene_check(const char *rows)
{
    past_script(hosted_check, rows);
}

const char *scene_json(
    const char *table, const char *partition_key, const char *row_key)
{
    const char *json;

    scene_quietly(json = hosted_json(&h, table, partition_key, row_key));
    return json ? json : "none";
}

const char *scene_edited(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to)
{
    const char *json = scene_json(table, partition_key, row_key);
    const char *at = strstr(json, from);

    if (!at)
        fail_msg("%s %s: '%s' is not in: %s", table, row_key, from, json);
    return arena_format(&h.arena, "%.*s%s%.*s", (int)(at - json - 1), json + 1,
        to, (int)(strlen(at) - strlen(from) - 1), at + strlen(from))
        .at;
}

void scene_edit(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to)
{
    scene_replace(table, partition_key, row_key,
        scene_edited(table, partition_key, row_key, from, to));
}

void scene_check_keys(const char *table, const char *keys)
{
    const char *is;

    scene_quietly(is = hosted_dump(&h, table));
    assert_string_equal(is, keys);
}

void scene_check_is(const char *table, const char *partition_key,
    const char *row_key, const char *json)
{
    assert_string_equal(scene_json(table, partition_key, row_key), json);
}

void scene_check_has(const char *table, const char *partition_key,
    const char *row_key, const char *part)
{
    const char *json = scene_json(table, partition_key, row_key);

    if (!strstr(json, part))
        fail_msg("%s %s: '%s' is not in: %s", table, row_key, part, json);
}

/* ---- runs ---- */

void scene_check_reported(const char *part)
{
    if (!strstr(reports, part))
        fail_msg("'%s' is not in:\n%s", part, reports);
}

static void check_end(const char *job, enum run_end end, enum run_end wanted)
{
    if (end != wanted)
        fail_msg("%s: %d: %s\n%s", job, end, h.err.text, reports);
}

void scene_attempt(const char *job, const char *argument, enum run_end wanted)
{
    check_end(job, hosted_attempt(&h, job, argument), wanted);
}

void scene_run(const char *job, const char *argument, enum run_end wanted)
{
    check_end(job, hosted_run(&h, job, argument), wanted);
}

void scene_new_run(void)
{
    static unsigned runs;
    static char id[16];

    (void)snprintf(id, sizeof(id), "r%u", ++runs);
    hosted_forget(&h, id);
    h.written = h.deleted = 0;
    reports[0] = '\0';
    virtual_sleep(20000);
}
