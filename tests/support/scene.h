/* SPDX-License-Identifier: MIT */
/*
 * A kind of job on one store in a virtual world: what single requests of its
 * run meet is scripted, and what the run reports of entities is kept. There is
 * one scene at a time; tests use its parts by their short names.
 */
#ifndef TW_TESTS_SUPPORT_SCENE_H
#define TW_TESTS_SUPPORT_SCENE_H

#include "tests/support/hosted.h"
#include "tests/support/script.h"
#include "tests/support/test.h"

extern struct hosted h;
extern struct script s;    /* in front of h's store */
extern char reports[8192]; /* "TABLE PARTITION_KEY/ROW_KEY: WHY\n" each */

/* scene_begin: a new virtual world with a host of jobs (YAML) and these tables,
 * separated by blanks; nothing is scripted or reported yet. scene_end: as
 * cmocka's tear-down. */
void scene_begin(const char *jobs, const char *tables);
int scene_end(void **state);

/* scene_restart: scene_begin(), after the end of the scene before this one
 * where the test has begun one. */
void scene_restart(const char *jobs, const char *tables);

/* scene_quietly: this statement, of the test itself, meets no event. */
#define scene_quietly(...)                                                     \
    do {                                                                       \
        bool before = s.quiet; /* events do this too */                        \
                                                                               \
        s.quiet = true;                                                        \
        __VA_ARGS__;                                                           \
        s.quiet = before;                                                      \
    } while (0)

/* What the test itself does meets no event. scene_put, scene_replace and
 * scene_remove: see hosted_put() and so on. scene_json: "none": there is no
 * such entity. */
void scene_put(const char *table, const char *partition_key,
    const char *row_key, const char *properties);
void scene_replace(const char *table, const char *partition_key,
    const char *row_key, const char *properties);
void scene_remove(
    const char *table, const char *partition_key, const char *row_key);
const char *scene_json(
    const char *table, const char *partition_key, const char *row_key);

/* scene_rows, scene_check: hosted_rows() and hosted_check(). */
void scene_rows(const char *rows);
void scene_check(const char *rows);

/* scene_edited: its JSON without braces, with the first text `from` in it
 * replaced by `to`. scene_edit: an application stores the entity so. */
const char *scene_edited(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to);
void scene_edit(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to);

/* scene_check_keys: the table has these keys, as hosted_dump() writes them.
 * scene_check_is: that entity has these properties and no others; "none": there
 * is none. scene_check_has: part of its JSON is this. scene_check_reported:
 * part of the reports is this. */
void scene_check_keys(const char *table, const char *keys);
void scene_check_is(const char *table, const char *partition_key,
    const char *row_key, const char *json);
void scene_check_has(const char *table, const char *partition_key,
    const char *row_key, const char *part);
void scene_check_reported(const char *part);

/* scene_attempt, scene_run: hosted_attempt() and hosted_run(), which must end
 * like that. */
void scene_attempt(const char *job, const char *argument, enum run_end wanted);
void scene_run(const char *job, const char *argument, enum run_end wanted);

/* scene_new_run: what follows is another run, later than what may still arrive
 * of the last one; its reports and its counts of what is written and deleted
 * begin. */
void scene_new_run(void);

#endif
