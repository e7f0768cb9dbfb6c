/* SPDX-License-Identifier: MIT */
/*
 * A test of a kind of job on one store, with virtual clocks. A script
 * (script.h) decides what single requests of the run meet, and the scene keeps
 * the failures that the run reports. There is one scene at a time; tests use
 * its variables by their short names.
 */
#ifndef TW_TESTS_SUPPORT_SCENE_H
#define TW_TESTS_SUPPORT_SCENE_H

#include "tests/support/hosted.h"
#include "tests/support/script.h"
#include "tests/support/test.h"

extern struct hosted h;
extern struct script s;    /* in front of the store of h */
extern char reports[8192]; /* "TABLE PARTITION_KEY/ROW_KEY: WHY\n" each */

/* scene_begin: begins virtual clocks and a hosted run with these jobs (YAML)
 * and tables, separated by blanks. Nothing is scripted or reported yet.
 * scene_end: ends the scene; a tear-down of cmocka. */
void scene_begin(const char *jobs, const char *tables);
int scene_end(void **state);

/* scene_restart: ends the scene, if one was begun, and calls scene_begin(). */
void scene_restart(const char *jobs, const char *tables);

/* scene_quietly: carries out a statement of the test. The requests of this
 * statement meet no event of the script. */
#define scene_quietly(...)                                                     \
    do {                                                                       \
        bool before = s.quiet; /* an event may call this too */                \
                                                                               \
        s.quiet = true;                                                        \
        __VA_ARGS__;                                                           \
        s.quiet = before;                                                      \
    } while (0)

/* The requests of these functions meet no event of the script.
 * scene_put, scene_replace, scene_remove: as hosted_put(), hosted_replace() and
 * hosted_remove().
 * scene_json: as hosted_json(); "none": there is no such entity. */
void scene_put(const char *table, const char *partition_key,
    const char *row_key, const char *properties);
void scene_replace(const char *table, const char *partition_key,
    const char *row_key, const char *properties);
void scene_remove(
    const char *table, const char *partition_key, const char *row_key);
const char *scene_json(
    const char *table, const char *partition_key, const char *row_key);

/* scene_rows, scene_check: as hosted_rows() and hosted_check(). */
void scene_rows(const char *rows);
void scene_check(const char *rows);

/* scene_edited: returns the JSON of the entity without its braces; the first
 * occurrence of the text `from` is replaced by `to`.
 * scene_edit: stores the entity with this change, as an application does. */
const char *scene_edited(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to);
void scene_edit(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to);

/* scene_check_keys: fails unless the table has these keys, written as
 * hosted_dump() writes them.
 * scene_check_is: fails unless the entity has exactly these properties; json
 * "none": fails if the entity exists.
 * scene_check_has: fails unless part is in the JSON of the entity.
 * scene_check_reported: fails unless part is in the reports. */
void scene_check_keys(const char *table, const char *keys);
void scene_check_is(const char *table, const char *partition_key,
    const char *row_key, const char *json);
void scene_check_has(const char *table, const char *partition_key,
    const char *row_key, const char *part);
void scene_check_reported(const char *part);

/* scene_attempt, scene_run: call hosted_attempt() and hosted_run(), and fail
 * unless they return `wanted`. */
void scene_attempt(const char *job, const char *argument, enum run_end wanted);
void scene_run(const char *job, const char *argument, enum run_end wanted);

/* scene_new_run: begins a new run, without reports and with new counts of
 * written and deleted entities. It begins 20 s later, when no request of the
 * last run is still on its way. */
void scene_new_run(void);

#endif
