/* SPDX-License-Identifier: MIT */
/* Copies and moves on a store in memory: rounds, conflicts, changes meanwhile,
 * and attempts that end anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "jobs/copier.h"
#include "jobs/engine/tally.h"
#include "jobs/provenance.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"

#define TO                                                                     \
    "to: {table: Months, partition_key: \"{Month}\", "                         \
    "row_key: \"{PartitionKey}-{RowKey}\"}\n"

/* Within a table: each takes the keys that the next one has. */
#define SHIFTED                                                                \
    "from: {table: Blogs, filter: \"V eq 1\"}\n"                               \
    "  properties: {set: {V: 2}}\n"
#define NEXT "row_key: \"{N + 1}\""

static const char JOBS[] =
    "copy:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  max_passes: 3\n"
    "  " TO "verified:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  verify: true\n"
    "  " TO "skips:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  on_conflict: skip\n"
    "  " TO "replaces:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  on_conflict: replace\n"
    "  " TO "merges:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  on_conflict: merge\n"
    "  " TO "strips:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  strip: true\n"
    "  " TO "skips-twice:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  on_conflict: skip\n"
    "  to:\n"
    "    - {table: Months, partition_key: \"{Month}\", "
    "row_key: \"{PartitionKey}-{RowKey}\"}\n"
    "    - {table: Titles, partition_key: all, row_key: \"{Title}\"}\n"
    "moves:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  verify: true\n"
    "  max_passes: 3\n"
    "  " TO "moves-twice:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  to:\n"
    "    - {table: Months, partition_key: \"{Month}\", "
    "row_key: \"{PartitionKey}-{RowKey}\"}\n"
    "    - {table: Titles, partition_key: all, row_key: \"{Title}\"}\n"
    "moves-keys:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  to: {table: Months, partition_key: \"{PartitionKey}-\"}\n"
    "moves-some:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs, filter: \"Draft eq false\"}\n"
    "  mode: move\n"
    "  " TO "moves-replaces:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  on_conflict: replace\n"
    "  " TO "moves-merges:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  on_conflict: merge\n"
    "  " TO "moves-recent:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs, filter: \"Timestamp ge "
    "datetime'2001-01-01T00:00:00Z'\"}\n"
    "  mode: move\n"
    "  to: {table: Blogs, row_key: \"x{RowKey}\"}\n"
    "moves-old:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs, filter: \"Timestamp lt "
    "datetime'2001-01-01T00:00:00Z'\"}\n"
    "  mode: move\n"
    "  to: {table: Blogs, row_key: \"x{RowKey}\"}\n"
    "moves-skips:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  on_conflict: skip\n"
    "  " TO "channel:\n"
    "  kind: migrate\n"
    "  args: [channel]\n"
    "  from: {table: Blogs, partition_key: \"{channel}\"}\n"
    "  verify: true\n"
    "  " TO "scatters:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to: {table: Months, partition_key: \"{hash(RowKey, 50)}\", "
    "row_key: \"{PartitionKey}-{RowKey}\"}\n"
    "scatters-away:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  mode: move\n"
    "  to: {table: Months, partition_key: \"{hash(RowKey, 50)}\"}\n"
    "beside:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs, partition_key_prefix: \"b\"}\n"
    "  to: {table: Blogs, partition_key: \"{Month}\"}\n"
    "pairs:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to:\n"
    "    - {table: Months, partition_key: x, row_key: \"{Title}\"}\n"
    "    - {table: Months, partition_key: x, row_key: \"{Month}\"}\n"
    "lost:\n"
    "  kind: migrate\n"
    "  from: {table: Nowhere}\n"
    "  to: {table: Months, partition_key: \"{Month}\"}\n"
    "to-channel:\n"
    "  kind: migrate\n"
    "  args: [to]\n"
    "  from: {table: Blogs}\n"
    "  to: {table: Months, partition_key: \"{to}\"}\n"
    "unverified:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  verify: false\n"
    "  " TO "rated:\n"
    "  kind: migrate\n"
    "  args: [least]\n"
    "  from: {table: Blogs, filter: \"Rating ge {least}\"}\n"
    "  verify: true\n"
    "  to: {table: Months, partition_key: \"{Month}\", "
    "row_key: \"{RowKey}\"}\n"
    "shifts:\n"
    "  kind: migrate\n"
    "  mode: move\n"
    "  " SHIFTED "  to: {table: Blogs, " NEXT "}\n"
    "shifts-over:\n"
    "  kind: migrate\n"
    "  mode: move\n"
    "  on_conflict: replace\n"
    "  " SHIFTED "  to: {table: Blogs, " NEXT "}\n"
    "shifts-by:\n"
    "  kind: migrate\n"
    "  mode: move\n"
    "  on_conflict: skip\n"
    "  " SHIFTED "  to: {table: Blogs, " NEXT "}\n"
    "shifts-twice:\n"
    "  kind: migrate\n"
    "  mode: move\n"
    "  " SHIFTED "  to: [{table: Blogs, " NEXT "}, {table: Titles}]\n"
    "copies-over:\n"
    "  kind: migrate\n"
    "  on_conflict: replace\n"
    "  " SHIFTED "  to: {table: Blogs, " NEXT "}\n"
    "flat:\n"
    "  kind: migrate\n"
    "  from: {table: Blogs}\n"
    "  to: {table: Months, partition_key: all, row_key: \"{Title}\"}\n";

static struct hosted h;
static struct faulty faulty;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosted_done(&h);
    return 0;
}

static struct job *job_named(const char *name)
{
    for (size_t i = 0; i < h.jobs.count; i++)
        if (strcmp(h.jobs.list[i].name, name) == 0)
            return &h.jobs.list[i];
    fail_msg("there is no job %s", name);
    return NULL;
}

/* ---- entities ---- */

static void put(const char *row_key, const char *month, const char *title)
{
    char *json = mem_format("\"Month\":\"%s\",\"Title\":\"%s\"", month, title);

    hosted_put(&h, "Blogs", "b", row_key, json);
    mem_free(json);
}

static void change(const char *row_key, const char *month, const char *title)
{
    char *json = mem_format("\"Month\":\"%s\",\"Title\":\"%s\"", month, title);

    hosted_replace(&h, "Blogs", "b", row_key, json);
    mem_free(json);
}

static void put_three(void)
{
    put("1", "m1", "one");
    put("2", "m1", "two");
    put("3", "m2", "three");
}

/* What a copy is, without its provenance; *ret_has: has it any? */
static const char *without(const char *json, bool *ret_has)
{
    static char text[4096];
    char *at;

    snprintf(text, sizeof(text), "%s", json);
    at = strstr(text, ",\"TablewardSource\":");
    *ret_has = at != NULL;
    if (at)
        strcpy(at, "}");
    return text;
}

static void check_copy(const char *partition_key, const char *row_key,
    const char *month, const char *title)
{
    char *wanted =
        mem_format("{\"Month\":\"%s\",\"Title\":\"%s\"}", month, title);
    const char *json = hosted_json(&h, "Months", partition_key, row_key);
    bool has;

    assert_non_null(json);
    assert_string_equal(without(json, &has), wanted);
    assert_true(has);
    mem_free(wanted);
}

static void check_three(void)
{
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 ");
    check_copy("m1", "b-1", "m1", "one");
    check_copy("m1", "b-2", "m1", "two");
    check_copy("m2", "b-3", "m2", "three");
}

static bool verification_has(const char *text)
{
    return h.verification && strstr(h.verification, text);
}

/* ---- others, meanwhile ---- */

static void (*meddle)(const struct batch *batch);

static void before_batch(void *ctx, const struct batch *batch)
{
    void (*now)(const struct batch *) = meddle;

    (void)ctx;
    if (now)
        now(batch);
}

static void stand_between(void (*what)(const struct batch *batch))
{
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.before = before_batch;
    meddle = what;
}

static bool is_about(const struct batch *batch, const char *table,
    enum operation_type type, const char *row_key)
{
    if (strcmp(batch->table, table) != 0)
        return false;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->operations[i].type == type &&
            slice_is(batch->operations[i].entity.row_key, row_key))
            return true;
    return false;
}

/* ---- copies ---- */

static void every_source_has_its_copy(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    check_three();
    assert_int_equal(h.written, 3);
    assert_int_equal(h.deleted, 0);
    assert_int_equal(hosted_count(&h, "Blogs"), 3);
}

static void a_second_run_writes_nothing(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 3);
    assert_int_equal(h.read, 6);
    check_three();
}

static void a_later_run_follows_the_sources(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    change("1", "m1", "uno");
    put("4", "m4", "four");
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    check_copy("m1", "b-1", "m1", "uno");
    check_copy("m4", "b-4", "m4", "four");
    assert_int_equal(h.written, 5);
}

static void nothing_to_copy_is_a_success(void **state)
{
    (void)state;
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Months"), 0);
    assert_true(verification_has("\"expected\":0,\"copies\":0"));
}

static void change_behind(const struct batch *batch)
{
    (void)batch;
    meddle = NULL;
    change("1", "m1", "uno");
    change("2", "m9", "two");
    hosted_remove(&h, "Blogs", "b", "3");
    put("4", "m4", "four");
}

/* The scan has read all, nothing is written yet. */
static void what_changes_during_a_copy_is_copied_as_it_is(void **state)
{
    (void)state;
    put_three();
    stand_between(change_behind);
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m4/b-4 m9/b-2 ");
    check_copy("m1", "b-1", "m1", "uno");
    check_copy("m9", "b-2", "m9", "two");
    assert_true(verification_has("\"surplus\":0"));
    faulty_done(&faulty);
}

static void remove_source_3(const struct batch *batch)
{
    (void)batch;
    meddle = NULL;
    hosted_remove(&h, "Blogs", "b", "3");
}

static void a_copy_goes_with_its_source(void **state)
{
    (void)state;
    put_three();
    stand_between(remove_source_3);
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 ");
    faulty_done(&faulty);
}

/* Somebody gives the third copy another title, which is as long. */
static void change_copy_3(struct hosted *hosted)
{
    char properties[2048], *title;

    snprintf(properties, sizeof(properties), "%s",
        hosted_json(hosted, "Months", "m2", "b-3") + 1);
    properties[strlen(properties) - 1] = '\0';
    title = strstr(properties, "three");
    assert_non_null(title);
    memcpy(title, "THREE", 5);
    hosted_replace(hosted, "Months", "m2", "b-3", properties);
}

/* ... and takes its source away. */
static void change_copy_3_alone(struct hosted *hosted)
{
    if (!hosted_has(hosted, "Months", "m2", "b-3"))
        return;
    hosted->saved = NULL;
    change_copy_3(hosted);
    hosted_remove(hosted, "Blogs", "b", "3");
}

static void a_copy_that_others_changed_stays_without_its_source(void **state)
{
    (void)state;
    put_three();
    h.saved = change_copy_3_alone;
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_FAILED);
    assert_true(verification_has("\"surplus\":1"));
    assert_null(h.saved);
    check_copy("m2", "b-3", "m2", "THREE");
    assert_int_equal(hosted_count(&h, "Blogs"), 2);
}

static void a_copy_that_others_changed_is_left_and_told(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    assert_true(verification_has("\"changed\":0"));
    change_copy_3(&h);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    check_copy("m2", "b-3", "m2", "THREE");
    assert_true(verification_has("\"changed\":1"));
    assert_true(verification_has(
        "{\"table\":\"Months\",\"key\":[\"m2\",\"b-3\"],\"is\":\"changed\"}"));
}

static void leftovers_of_another_run_fail_a_verified_one(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    hosted_remove(&h, "Blogs", "b", "3");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_FAILED);
    assert_true(verification_has("\"surplus\":1"));
    assert_true(verification_has(
        "{\"table\":\"Months\",\"key\":[\"m2\",\"b-3\"],\"is\":\"surplus\"}"));
    check_three();
}

static void copies_of_other_arguments_are_left_alone(void **state)
{
    (void)state;
    put_three();
    hosted_put(&h, "Blogs", "c", "1", "\"Month\":\"m1\",\"Title\":\"c\"");
    assert_int_equal(hosted_run(&h, "channel", "b"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "channel", "c"), RUN_SUCCEEDED);
    assert_true(verification_has("\"expected\":1,\"copies\":1,\"others\":3"));
    assert_int_equal(hosted_count(&h, "Months"), 4);
}

/* ---- what cannot be copied ---- */

static void a_source_without_what_its_keys_need_fails_alone(void **state)
{
    (void)state;
    put_three();
    hosted_put(&h, "Blogs", "b", "0", "\"Title\":\"none\"");
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "Blogs b/0: "));
    check_three();
}

static void two_sources_of_the_same_keys_are_told(void **state)
{
    (void)state;
    put("1", "m1", "same");
    put("2", "m1", "same");
    put("3", "m1", "other");
    assert_int_equal(hosted_run(&h, "flat", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "'b' / '2'"));
    assert_non_null(strstr(h.failed_why, "'b' / '1'"));
    assert_string_equal(hosted_dump(&h, "Months"), "all/other all/same ");
    check_copy("all", "same", "m1", "same");
}

/* Something else stands at the copies of 1 and 2: at the second an equal one.
 */
static void put_in_the_way(void)
{
    put_three();
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m1", "b-1", "\"Mine\":1,\"Title\":\"x\"");
    hosted_put(&h, "Months", "m1", "b-2", "\"Month\":\"m1\",\"Title\":\"two\"");
}

static void something_else_fails_the_source(void **state)
{
    (void)state;
    put_in_the_way();
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_string_equal(
        hosted_json(&h, "Months", "m1", "b-1"), "{\"Mine\":1,\"Title\":\"x\"}");
    assert_string_equal(hosted_json(&h, "Months", "m1", "b-2"),
        "{\"Month\":\"m1\",\"Title\":\"two\"}");
    check_copy("m2", "b-3", "m2", "three");
    assert_int_equal(h.written, 1);
}

static void something_else_is_skipped_where_asked_for(void **state)
{
    (void)state;
    put_in_the_way();
    assert_int_equal(hosted_run(&h, "skips", NULL), RUN_SUCCEEDED);
    assert_int_equal(h.skipped, 1);
    assert_int_equal(h.written, 1);
}

/* One copy is skipped: the other one follows its source all the same. */
static void a_copy_beside_a_skipped_one_follows_its_source(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Titles");
    hosted_put(&h, "Titles", "all", "two", "\"Mine\":1");
    assert_int_equal(hosted_run(&h, "skips-twice", NULL), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    hosted_replace(&h, "Blogs", "b", "2",
        "\"Month\":\"m1\",\"Title\":\"two\",\"More\":true");
    assert_int_equal(hosted_run(&h, "skips-twice", NULL), RUN_SUCCEEDED);
    assert_non_null(
        strstr(hosted_json(&h, "Months", "m1", "b-2"), "\"More\":true"));
    assert_string_equal(
        hosted_json(&h, "Titles", "all", "two"), "{\"Mine\":1}");
}

static bool went_back;

static void watch_copy_1(const struct batch *batch)
{
    if (is_about(batch, "Months", OPERATION_REPLACE, "b-1") &&
        slice_is(
            entity_find(&batch->operations[0].entity, slice_of("Title"))->json,
            "\"uno\""))
        went_back = true;
}

/* Once the source was read again, both it and its copy become newer. */
static void overtake_copy_1(const struct batch *batch)
{
    static int times;
    char *json;

    if (!is_about(batch, "Months", OPERATION_INSERT, "b-1") || times++ == 0)
        return;
    meddle = NULL;
    change("1", "m1", "tres");
    json = mem_format(
        "\"New\":1,%s", hosted_json(&h, "Months", "m1", "b-1") + strlen("{"));
    json[strlen(json) - strlen("}")] = '\0';
    hosted_replace(&h, "Months", "m1", "b-1", json);
    mem_free(json);
    meddle = watch_copy_1;
}

static void a_copy_never_goes_back_to_an_older_state(void **state)
{
    (void)state;
    put_three();
    stand_between(NULL);
    assert_int_equal(hosted_run(&h, "replaces", NULL), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    change("1", "m1", "uno");
    meddle = overtake_copy_1;
    assert_int_equal(hosted_run(&h, "replaces", NULL), RUN_SUCCEEDED);
    assert_ptr_equal(meddle, watch_copy_1);
    assert_false(went_back);
    check_copy("m1", "b-1", "m1", "tres");
    faulty_done(&faulty);
}

static void something_else_is_replaced_where_asked_for(void **state)
{
    (void)state;
    put_in_the_way();
    assert_int_equal(hosted_run(&h, "replaces", NULL), RUN_SUCCEEDED);
    check_copy("m1", "b-1", "m1", "one");
    assert_int_equal(h.written, 2);
}

static void something_else_is_merged_where_asked_for(void **state)
{
    bool has;

    (void)state;
    put_in_the_way();
    assert_int_equal(hosted_run(&h, "merges", NULL), RUN_SUCCEEDED);
    assert_string_equal(without(hosted_json(&h, "Months", "m1", "b-1"), &has),
        "{\"Mine\":1,\"Title\":\"one\",\"Month\":\"m1\"}");
    assert_int_equal(h.written, 2);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "merges", NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 2);
}

static void a_copy_among_the_sources_is_refused(void **state)
{
    (void)state;
    put("1", "b7", "a source again");
    put("2", "b", "where it is itself");
    put("3", "c", "good");
    assert_int_equal(hosted_run(&h, "beside", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 2);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 b/2 b/3 c/3 ");
}

static void two_copies_of_one_source_do_not_take_turns(void **state)
{
    (void)state;
    put("1", "same", "same");
    put("2", "m1", "other");
    assert_int_equal(hosted_run(&h, "pairs", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "two of its copies"));
    assert_string_equal(hosted_dump(&h, "Months"), "x/m1 x/other ");
}

static void a_source_table_that_is_missing_is_told(void **state)
{
    (void)state;
    assert_int_equal(hosted_run(&h, "lost", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "Nowhere"));
}

static void an_argument_that_makes_no_key_is_refused(void **state)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("to-channel"));
    struct slice value = slice_of("a/b");
    const struct run_args args = {1, &job->args[0].name, &value};
    char long_text[ENTITY_MAX_KEY_BYTES + 2] = "";
    struct err err;

    (void)state;
    put_three();
    assert_int_equal(job->kind->accept(job, &args, &err), TW_INVALID);
    assert_int_equal(hosted_run(&h, "to-channel", "a/b"), RUN_FAILED);
    memset(long_text, 'a', sizeof(long_text) - 1);
    value = slice_of(long_text);
    assert_int_equal(job->kind->accept(job, &args, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "PartitionKey is longer than"));
    value = slice_of("c");
    assert_int_equal(job->kind->accept(job, &args, &err), TW_OK);
    assert_int_equal(hosted_run(&h, "to-channel", "c"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "c/1 c/2 c/3 ");
}

/* Somebody else's entities in other partitions are not even read. */
static void copies_that_are_in_one_partition_are_looked_for_there(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Months");
    hosted_fill(&h, "Months", "d", 50);
    assert_int_equal(hosted_run(&h, "to-channel", "c"), RUN_SUCCEEDED);
    assert_int_equal(h.read, 3 + 3 + 3);
}

static int tables_told;

static void count_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    (void)access;
    (void)ctx;
    (void)store;
    tables_told += strcmp(table, "Blogs") == 0 || strcmp(table, "Months") == 0;
}

static void what_it_reads_and_writes_is_told(void **state)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("copy"));
    struct buf text;

    (void)state;
    buf_init(&text, 4096);
    job->kind->explain(job, &text);
    assert_non_null(strstr(buf_text(&text), "Months"));
    buf_done(&text);
    tables_told = 0;
    job->kind->tables(job, count_table, NULL);
    assert_int_equal(tables_told, 2);
}

/* ---- in the midst of it ---- */

static void leftovers_are_only_told_where_nothing_is_verified(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "unverified", NULL), RUN_SUCCEEDED);
    hosted_remove(&h, "Blogs", "b", "3");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "unverified", NULL), RUN_SUCCEEDED);
    check_three();
}

/* With its provenance, as an application does that merges. */
static void change_copy(const char *partition_key, const char *row_key)
{
    const char *json = hosted_json(&h, "Months", partition_key, row_key);
    char *text = mem_format("%.*s,\"More\":1", (int)strlen(json) - 2, json + 1);

    hosted_replace(&h, "Months", partition_key, row_key, text);
    mem_free(text);
}

static void change_copy_of_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    change_copy("m1", "b-1");
}

static void what_others_changed_after_a_move_is_counted(void **state)
{
    (void)state;
    put_three();
    stand_between(change_copy_of_1);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_true(verification_has("\"copies\":3"));
    assert_true(verification_has("\"changed\":1"));
    assert_true(
        verification_has("\"key\":[\"m1\",\"b-1\"],\"is\":\"changed\""));
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void spoil_source_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    hosted_replace(&h, "Blogs", "b", "1", "\"Title\":\"no month\"");
}

static void a_source_that_can_no_longer_be_copied_stays(void **state)
{
    (void)state;
    put_three();
    stand_between(spoil_source_1);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 ");
    faulty_done(&faulty);
}

static void remove_source_while_its_copy_is_met(const struct batch *batch)
{
    if (!is_about(batch, "Months", OPERATION_INSERT, "b-1"))
        return;
    meddle = NULL;
    hosted_remove(&h, "Blogs", "b", "1");
}

static void a_source_that_is_gone_when_it_is_read_again_is_none(void **state)
{
    (void)state;
    put_three();
    stand_between(NULL);
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    change("1", "m1", "uno");
    meddle = remove_source_while_its_copy_is_met;
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    assert_null(meddle);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 ");
    faulty_done(&faulty);
}

static void change_what_is_merged(const struct batch *batch)
{
    if (!is_about(batch, "Months", OPERATION_REPLACE, "b-1"))
        return;
    meddle = NULL;
    hosted_replace(&h, "Months", "m1", "b-1", "\"Yours\":2");
}

/* What was there at first is not written back. */
static void what_is_merged_is_what_stands_there_last(void **state)
{
    bool has;

    (void)state;
    put_in_the_way();
    stand_between(change_what_is_merged);
    assert_int_equal(hosted_run(&h, "merges", NULL), RUN_SUCCEEDED);
    assert_string_equal(without(hosted_json(&h, "Months", "m1", "b-1"), &has),
        "{\"Yours\":2,\"Month\":\"m1\",\"Title\":\"one\"}");
    faulty_done(&faulty);
}

static void change_copy_that_goes(const struct batch *batch)
{
    if (is_about(batch, "Months", OPERATION_INSERT, "b-3"))
        remove_source_3(batch);
    meddle = change_copy_that_goes;
    if (!is_about(batch, "Months", OPERATION_DELETE, "b-3"))
        return;
    meddle = NULL;
    change_copy("m2", "b-3");
}

static void a_copy_that_changes_while_it_is_to_go_stays(void **state)
{
    (void)state;
    put_three();
    stand_between(change_copy_that_goes);
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_FAILED);
    assert_null(meddle);
    assert_true(verification_has("\"surplus\":1"));
    assert_int_equal(hosted_count(&h, "Months"), 3);
    faulty_done(&faulty);
}

/* What a run with another argument has copied, this one does not select. */
static void copies_by_another_filter_are_left_alone(void **state)
{
    (void)state;
    hosted_put(&h, "Blogs", "b", "1", "\"Month\":\"m1\",\"Rating\":1");
    hosted_put(&h, "Blogs", "b", "5", "\"Month\":\"m1\",\"Rating\":5");
    assert_int_equal(hosted_run(&h, "rated", "1"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "rated", "5"), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/1 m1/5 ");
    assert_true(verification_has("\"surplus\":0"));
}

static void the_first_ten_differences_are_named(void **state)
{
    char row_key[16];
    int named = 0;

    (void)state;
    for (int i = 0; i < 13; i++) {
        snprintf(row_key, sizeof(row_key), "%d", i);
        hosted_put(&h, "Blogs", "b", row_key, "\"Title\":\"no month\"");
    }
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 13);
    assert_non_null(h.verification);
    for (const char *at = h.verification; (at = strstr(at, "\"is\":")); at++)
        named++;
    assert_int_equal(named, 10);
}

static void change_1_each_time(const struct batch *batch)
{
    static unsigned n;
    char title[16];

    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    snprintf(title, sizeof(title), "%u", ++n);
    meddle = NULL;
    change("1", "m1", title);
    meddle = change_1_each_time;
}

static void a_source_that_never_rests_stays_and_is_told(void **state)
{
    (void)state;
    put_three();
    stand_between(change_1_each_time);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "after 3 passes"));
    assert_non_null(strstr(h.err.text, "the number of sources left is 1:"));
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    meddle = NULL;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 ");
    faulty_done(&faulty);
}

static void change_1_with_each_copy(const struct batch *batch)
{
    static unsigned n;
    char title[16];

    if (strcmp(batch->table, "Months") != 0)
        return;
    snprintf(title, sizeof(title), "%u", ++n);
    meddle = NULL;
    change("1", "m1", title);
    meddle = change_1_with_each_copy;
}

static void sides_that_never_agree_fail_with_what_was_left(void **state)
{
    (void)state;
    put_three();
    stand_between(change_1_with_each_copy);
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "after 3 passes"));
    assert_non_null(strstr(h.err.text, "wrote or deleted is 1:"));
    faulty_done(&faulty);
}

static void a_dry_run_says_what_would_be_copied(void **state)
{
    struct job_estimate estimate;

    (void)state;
    put_three();
    assert_int_equal(hosted_estimate(&h, "copy", NULL, &estimate), TW_OK);
    assert_non_null(estimate.details);
    arena_done(&estimate.arena);
}

/* ---- many ---- */

/* In 50 partitions, no more of them at a time than are sorted. */
static void scattered_copies_make_full_batches(void **state)
{
    (void)state;
    hosted_fill(&h, "Blogs", "p", 9000);
    hosted_fill(&h, "Blogs", "q", 7000);
    stand_between(NULL);
    assert_int_equal(hosted_run(&h, "scatters", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Months"), 16000);
    assert_true(faulty.calls[CALL_BATCH] <= 2 * 50 * 2);
    faulty_done(&faulty);
}

static void a_pass_goes_on_behind_its_place(void **state)
{
    (void)state;
    hosted_fill(&h, "Blogs", "p", 30000);
    h.stop_after = 28;
    assert_int_equal(hosted_attempt(&h, "scatters", NULL), RUN_STOPPED);
    assert_non_null(strstr(h.checkpoint, "\"done\":[\"p\","));
    h.stop_after = -1;
    assert_int_equal(hosted_run(&h, "scatters", NULL), RUN_SUCCEEDED);
    assert_true(h.read < 30000 - 16000 + 60000);
    assert_int_equal(hosted_count(&h, "Months"), 30000);
    assert_int_equal(h.written, 30000);
}

static void a_move_goes_on_behind_its_place(void **state)
{
    (void)state;
    hosted_fill(&h, "Blogs", "p", 20000);
    h.stop_after = 18;
    assert_int_equal(hosted_attempt(&h, "scatters-away", NULL), RUN_STOPPED);
    assert_true(hosted_count(&h, "Blogs") < 20000);
    h.stop_after = -1;
    assert_int_equal(hosted_run(&h, "scatters-away", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Months"), 20000);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    assert_int_equal(h.deleted, 20000);
}

/* ---- strip ---- */

/* Only that is left to do, whatever the sources are by now. */
static void a_run_that_has_begun_to_strip_only_strips(void **state)
{
    bool has;

    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    change("1", "m9", "uno");
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_string_equal(without(hosted_json(&h, "Months", "m1", "b-1"), &has),
        "{\"Month\":\"m1\",\"Title\":\"one\"}");
    assert_int_equal(hosted_count(&h, "Months"), 3);
}

static void change_stripped(const struct batch *batch)
{
    const char *json;
    char *text;

    if (!is_about(batch, "Months", OPERATION_REPLACE, "b-1"))
        return;
    meddle = NULL;
    json = hosted_json(&h, "Months", "m1", "b-1");
    text = mem_format("%.*s,\"More\":1", (int)strlen(json) - 2, json + 1);
    hosted_replace(&h, "Months", "m1", "b-1", text);
    hosted_remove(&h, "Months", "m2", "b-3");
    mem_free(text);
}

static void what_changes_while_it_is_stripped_keeps_its_change(void **state)
{
    bool has;

    (void)state;
    put_three();
    stand_between(change_stripped);
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_string_equal(without(hosted_json(&h, "Months", "m1", "b-1"), &has),
        "{\"Month\":\"m1\",\"Title\":\"one\",\"More\":1}");
    assert_false(has);
    faulty_done(&faulty);
}

static void provenance_is_taken_off_at_the_end(void **state)
{
    bool has;

    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_string_equal(without(hosted_json(&h, "Months", "m1", "b-1"), &has),
        "{\"Month\":\"m1\",\"Title\":\"one\"}");
    assert_false(has);
    assert_int_equal(h.written, 6);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 6);
}

/* Both sides of a Verification have the same digest. */
static bool digests_agree(void)
{
    const char *source = strstr(h.verification, "\"source\":\"");
    const char *there = strstr(h.verification, "\"destination\":\"");

    assert_non_null(source);
    assert_non_null(there);
    return strncmp(source + strlen("\"source\":\""),
               there + strlen("\"destination\":\""), 32) == 0;
}

/* Nothing says of them any more that they are copies. */
static void what_stands_for_copies_is_compared_as_copies(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_true(digests_agree());
    hosted_put(&h, "Months", "m7", "foreign", NULL);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_true(verification_has("\"expected\":3,\"copies\":3,\"others\":1"));
    assert_true(digests_agree());
}

/* Another key of m1 that is summed in one bucket with b-1. */
static const char *shares_bucket(void)
{
    static char row_key[16];
    struct tally *tally = tally_new();
    const struct entity copy = {
        .partition_key = slice_of("m1"), .row_key = slice_of("b-1")};
    int i = 0;

    tally_add(tally, TALLY_EXPECTED, 0, &copy, slice_of(""));
    do
        (void)snprintf(row_key, sizeof(row_key), "other%d", i++);
    while (tally_agrees_at(tally, 0, copy.partition_key, slice_of(row_key)));
    tally_free(tally);
    return row_key;
}

static void an_equal_entity_counts_beside_others_of_its_bucket(void **state)
{
    (void)state;
    put("1", "m1", "one");
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m1", "b-1", "\"Month\":\"m1\",\"Title\":\"one\"");
    hosted_put(&h, "Months", "m1", shares_bucket(), "\"Mine\":1");
    assert_int_equal(hosted_run(&h, "verified", NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
    assert_true(verification_has("\"expected\":1,\"copies\":1,\"others\":1"));
    assert_true(digests_agree());
}

/* ---- moves ---- */

static void every_source_is_moved(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    assert_int_equal(h.written, 3);
    assert_int_equal(h.deleted, 3);
    assert_true(verification_has("\"copies\":3,\"others\":0"));
    assert_true(verification_has("\"changed\":0"));
}

static void change_source_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    change("1", "m1", "uno");
}

static void put_chain(void)
{
    for (int i = 1; i <= 4; i++) {
        char *key = mem_format("%d", i),
             *json = mem_format("\"N\":%d,\"V\":1", i);

        hosted_put(&h, "Blogs", "b", key, json);
        mem_free(key);
        mem_free(json);
    }
}

/* Each of the four is there once, one key further. */
static void check_shifted(void)
{
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/2 b/3 b/4 b/5 ");
    for (int i = 1; i <= 4; i++) {
        char *key = mem_format("%d", i + 1), *has = mem_format("\"N\":%d,", i);

        assert_non_null(strstr(hosted_json(&h, "Blogs", "b", key), has));
        mem_free(key);
        mem_free(has);
    }
}

/* Where its source had been, the next copy stood already: that the source was
 * gone was not seen, and its copy went: once two of four were nowhere. */
static void a_move_within_a_table_loses_none(void **state)
{
    static const char *const jobs[] = {"shifts", "shifts-over", "shifts-by"};

    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        put_chain();
        hosted_forget(&h, jobs[i]);
        assert_int_equal(hosted_run(&h, jobs[i], NULL), RUN_SUCCEEDED);
        check_shifted();
        for (int n = 2; n <= 5; n++) {
            char *key = mem_format("%d", n);

            hosted_remove(&h, "Blogs", "b", key);
            mem_free(key);
        }
    }
    put_chain();
    hosted_table(&h, "Titles");
    hosted_forget(&h, "twice");
    assert_int_equal(hosted_run(&h, "shifts-twice", NULL), RUN_SUCCEEDED);
    check_shifted();
    assert_string_equal(hosted_dump(&h, "Titles"), "b/1 b/2 b/3 b/4 ");
}

static void a_move_within_a_table_may_end_anywhere(void **state)
{
    static const char *const jobs[] = {"shifts", "shifts-twice"};
    enum run_end end = RUN_STOPPED;

    for (int dies = 0; dies < 2; dies++)
        for (size_t i = 0; i < 2; i++) {
            end = RUN_STOPPED;
            for (int stop = 0; end == RUN_STOPPED; stop++) {
                (void)tear_down(state);
                (void)set_up(state);
                hosted_table(&h, "Titles");
                put_chain();
                h.stop_after = stop;
                end = hosted_attempt(&h, jobs[i], NULL);
                h.stop_after = -1;
                h.took_over = dies;
                assert_int_equal(hosted_run(&h, jobs[i], NULL), RUN_SUCCEEDED);
                check_shifted();
            }
            assert_int_equal(end, RUN_SUCCEEDED);
        }
}

/* Sources are only read, also where a copy may replace what is there. */
static void a_copy_takes_no_other_sources_place(void **state)
{
    (void)state;
    put_chain();
    assert_int_equal(hosted_run(&h, "copies-over", NULL), RUN_FAILED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 b/2 b/3 b/4 b/5 ");
    for (int i = 1; i <= 4; i++) {
        char *key = mem_format("%d", i),
             *json = mem_format("{\"N\":%d,\"V\":1}", i);

        assert_string_equal(hosted_json(&h, "Blogs", "b", key), json);
        mem_free(key);
        mem_free(json);
    }
    assert_int_equal(h.failed, 3);
    assert_non_null(strstr(
        h.failed_why, "stands another entity that is to be copied itself"));
}

static void a_source_that_changed_is_copied_again(void **state)
{
    (void)state;
    put_three();
    stand_between(change_source_1);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 ");
    check_copy("m1", "b-1", "m1", "uno");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void change_keys_of_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    change("1", "m7", "uno");
}

static void a_source_with_other_keys_ends_in_one_place(void **state)
{
    (void)state;
    put_three();
    stand_between(change_keys_of_1);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 m7/b-1 ");
    check_copy("m7", "b-1", "m7", "uno");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void change_keys_and_copy(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    change("1", "m7", "uno");
    hosted_replace(&h, "Months", "m1", "b-1", "\"Title\":\"theirs\"");
}

static void a_copy_that_others_changed_stays_beside_the_next(void **state)
{
    (void)state;
    put_three();
    stand_between(change_keys_and_copy);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_copy("m7", "b-1", "m7", "uno");
    assert_string_equal(
        hosted_json(&h, "Months", "m1", "b-1"), "{\"Title\":\"theirs\"}");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void remove_source_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    hosted_remove(&h, "Blogs", "b", "1");
}

static void what_others_delete_meanwhile_is_nowhere(void **state)
{
    (void)state;
    put_three();
    stand_between(remove_source_1);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 ");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

/* Another run may have moved it, and somebody have written it there since. */
static void what_a_move_has_put_over_others_is_not_taken_back(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m1", "b-1", "\"Mine\":1");
    stand_between(remove_source_1);
    assert_int_equal(hosted_run(&h, "moves-replaces", NULL), RUN_SUCCEEDED);
    check_three();
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void after_a_dead_attempt_a_copy_without_source_stays(void **state)
{
    (void)state;
    put_three();
    stand_between(remove_source_1);
    h.took_over = true;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
    faulty_done(&faulty);
}

static void unselect_source_1(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    meddle = NULL;
    hosted_replace(&h, "Blogs", "b", "1",
        "\"Month\":\"m1\",\"Title\":\"one\",\"Draft\":true");
}

static void what_is_no_longer_selected_stays_where_it_is(void **state)
{
    (void)state;
    for (int i = 1; i < 4; i++) {
        char row_key[2] = {(char)('0' + i), '\0'};

        hosted_put(&h, "Blogs", "b", row_key,
            "\"Month\":\"m1\",\"Title\":\"t\",\"Draft\":false");
    }
    stand_between(unselect_source_1);
    assert_int_equal(hosted_run(&h, "moves-some", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m1/b-3 ");
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    faulty_done(&faulty);
}

static void a_source_stays_until_all_its_copies_stand(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Titles");
    hosted_put(&h, "Titles", "all", "two", "\"Mine\":1");
    assert_int_equal(hosted_run(&h, "moves-twice", NULL), RUN_FAILED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/2 ");
    assert_string_equal(
        hosted_dump(&h, "Titles"), "all/one all/three all/two ");
    assert_int_equal(h.failed, 1);
}

static void what_is_skipped_stays_in_a_move(void **state)
{
    (void)state;
    put_in_the_way();
    assert_int_equal(hosted_run(&h, "moves-skips", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    assert_int_equal(h.skipped, 1);
}

static bool refuses_deletes;

static enum fault refuse_second(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    return call == CALL_BATCH && n == 2 && refuses_deletes ? FAULT_REFUSED
                                                           : FAULT_NONE;
}

static void attempt_without_the_deletes(const char *job)
{
    stand_between(NULL);
    faulty.choose = refuse_second;
    refuses_deletes = true;
    assert_int_equal(hosted_attempt(&h, job, NULL), RUN_OUTAGE);
    refuses_deletes = false;
    assert_int_equal(hosted_count(&h, "Blogs"), 3);
}

/* The copies stand, the sources are still there: an attempt ends. */
static void end_before_the_deletes(void)
{
    put_three();
    attempt_without_the_deletes("moves");
    check_three();
}

static void copies_with_former_keys_go_before_a_move_goes_on(void **state)
{
    (void)state;
    end_before_the_deletes();
    change("1", "m7", "uno");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 m7/b-1 ");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static void a_copy_of_what_is_no_longer_selected_goes(void **state)
{
    static const char *const MONTHS[] = {"m1", "m1", "m2"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char row_key[2] = {(char)('1' + i), '\0'};
        char *json = mem_format(
            "\"Month\":\"%s\",\"Title\":\"t\",\"Draft\":false", MONTHS[i]);

        hosted_put(&h, "Blogs", "b", row_key, json);
        mem_free(json);
    }
    attempt_without_the_deletes("moves-some");
    hosted_replace(&h, "Blogs", "b", "1",
        "\"Month\":\"m1\",\"Title\":\"t\",\"Draft\":true");
    assert_int_equal(hosted_run(&h, "moves-some", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-2 m2/b-3 ");
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    faulty_done(&faulty);
}

static void what_was_moved_before_stays_when_a_move_goes_on(void **state)
{
    (void)state;
    end_before_the_deletes();
    hosted_remove(&h, "Blogs", "b", "1");
    h.took_over = true;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

/* Two runs at once: either may be the one that takes the source. */
static void a_copy_that_two_runs_rely_on_is_not_taken_back(void **state)
{
    (void)state;
    end_before_the_deletes();
    hosted_forget(&h, "r2");
    meddle = remove_source_1;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
    assert_non_null(
        strstr(hosted_json(&h, "Months", "m1", "b-1"), "\\\"run\\\":\\\"\\\""));
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

/* Another run has copied a newer state of 1, and taken the source. */
static void let_another_run_take_1(const struct batch *batch)
{
    static int inserts;
    const struct provenance provenance = {
        .store = slice_of(faulty.outer.store.name),
        .table = slice_of("Blogs"),
        .partition_key = slice_of("b"),
        .row_key = slice_of("1"),
        .etag = slice_of("W/\"newer\""),
        .job = slice_of("moves"),
        .run = slice_of("r3"),
    };
    struct entity copy;
    struct buf text;

    if (!is_about(batch, "Months", OPERATION_INSERT, "b-1") || inserts++ == 0)
        return;
    meddle = NULL;
    entity_init(&copy, &h.arena, slice_of("m1"), slice_of("b-1"));
    entity_set_string(&copy, &h.arena, "Month", slice_of("m1"));
    entity_set_string(&copy, &h.arena, "Title", slice_of("newest"));
    provenance_stamp(
        &copy, slice_of(PROVENANCE_PROPERTY), &provenance, &h.arena);
    buf_init(&text, 65536);
    entity_write_properties(&copy, &text);
    text.at[text.len - 1] = '\0';
    hosted_replace(&h, "Months", "m1", "b-1", text.at + 1);
    hosted_remove(&h, "Blogs", "b", "1");
    buf_done(&text);
}

/* Ids are a job's own. */
static void what_was_moved_is_no_other_jobs_to_prune(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    hosted_forget(&h, "r1");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    hosted_forget(&h, "r1");
    assert_int_equal(hosted_run(&h, "copy", NULL), RUN_SUCCEEDED);
    check_three();
}

/* A run that was turned from move to copy. */
static void what_a_run_moved_before_it_copies_stays(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m2", "b-3", "\"Other\":1");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_FAILED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/3 ");
    hosted_remove(&h, "Months", "m2", "b-3");
    job_named("moves")->kind = job_named("copy")->kind;
    job_named("moves")->settings = job_named("copy")->settings;
    hosted_forget(&h, "r1");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
}

static int changes_of_1;

/* Twice: changed before it may go, then as meddles_last does. */
static void (*meddles_last)(void);
static void change_1_then_meddle(const struct batch *batch)
{
    if (!is_about(batch, "Blogs", OPERATION_DELETE, "1"))
        return;
    if (changes_of_1++ == 0) {
        change("1", "m1", "uno");
        return;
    }
    meddle = NULL;
    meddles_last();
}

static void remove_1(void)
{
    hosted_remove(&h, "Blogs", "b", "1");
}

static void give_1_other_keys(void)
{
    change("1", "m7", "uno");
}

static void check_stays(const char *job, void (*last)(void), const char *part)
{
    const char *json;

    changes_of_1 = 0;
    meddles_last = last;
    put_three();
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m1", "b-1", "\"Mine\":1");
    stand_between(change_1_then_meddle);
    (void)hosted_run(&h, job, NULL);
    json = hosted_json(&h, "Months", "m1", "b-1");
    assert_non_null(json);
    assert_non_null(strstr(json, part));
    faulty_done(&faulty);
}

static void what_was_merged_is_left_over_for_that(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "merges", NULL), RUN_SUCCEEDED);
    hosted_remove(&h, "Blogs", "b", "3");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "merges", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "what was merged is never taken away"));
}

static void what_was_merged_into_stays_when_its_source_goes(void **state)
{
    (void)state;
    check_stays("moves-merges", remove_1, "\"Mine\":1");
}

static void what_was_merged_into_stays_when_its_source_gets_other_keys(
    void **state)
{
    (void)state;
    check_stays("moves-merges", give_1_other_keys, "\"Mine\":1");
}

static void what_was_replaced_stays_so_when_its_source_goes(void **state)
{
    (void)state;
    check_stays("moves-replaces", remove_1, "uno");
}

static void what_a_move_cannot_take_back_is_told_at_its_end(void **state)
{
    (void)state;
    put_three();
    attempt_without_the_deletes("moves-merges");
    change("1", "m7", "uno");
    assert_int_equal(hosted_run(&h, "moves-merges", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "1 copies are left over"));
    assert_string_equal(
        hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 m7/b-1 ");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    hosted_remove(&h, "Months", "m1", "b-1");
    assert_int_equal(hosted_run(&h, "moves-merges", NULL), RUN_SUCCEEDED);
    faulty_done(&faulty);
}

/* The keys of what was moved are used again, while another source is refused:
 * of that one nothing stands, and nothing is looked for. */
static void keys_that_are_used_again_keep_what_was_moved(void **state)
{
    (void)state;
    put_three();
    hosted_table(&h, "Months");
    hosted_put(&h, "Months", "m2", "b-3", "\"Other\":1");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_FAILED);
    put("1", "m7", "again");
    hosted_remove(&h, "Months", "m2", "b-3");
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(
        hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 m7/b-1 ");
}

static void a_filter_by_timestamp_does_not_copy_its_copies(void **state)
{
    (void)state;
    put_three();
    assert_int_equal(hosted_run(&h, "moves-recent", NULL), RUN_FAILED);
    assert_int_equal(h.failed, 3);
    assert_non_null(strstr(h.failed_why, "copied again"));
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 b/2 b/3 ");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_run(&h, "moves-old", NULL), RUN_SUCCEEDED);
}

/* Of another definition than the one that it was to strip after. */
static void a_changed_definition_copies_before_it_strips(void **state)
{
    (void)state;
    put_three();
    h.phase = mem_text("strip", 5);
    h.stop_after = 1;
    assert_int_equal(hosted_attempt(&h, "strips", NULL), RUN_STOPPED);
    h.stop_after = -1;
    assert_int_equal(hosted_run(&h, "strips", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 m1/b-2 m2/b-3 ");
}

/* The copies would be met as equal entities of others', and the sources go. */
static void one_table_under_two_names_is_refused(void **state)
{
    struct store *const stores[] = {h.store, h.store};
    struct copier_rules rules =
        *(const struct copier_rules *)job_named("moves")->settings;
    struct copying_target target = rules.targets[0];

    (void)state;
    put_three();
    target.place = (struct place){.store = 1, .table = "blogs"};
    rules.targets = &target;
    job_named("moves")->settings = &rules;
    h.stores.count = 2;
    h.stores.stores = stores;
    assert_int_equal(hosted_attempt(&h, "moves", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "are the same place"));
    assert_int_equal(hosted_count(&h, "Blogs"), 3);
    target.place.table = "Others";
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Others"), 3);
}

static void only_the_copy_that_was_met_is_replaced(void **state)
{
    (void)state;
    end_before_the_deletes();
    change("1", "m1", "newer");
    hosted_forget(&h, "r2");
    meddle = let_another_run_take_1;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_null(meddle);
    check_copy("m1", "b-1", "m1", "newest");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

static enum fault lose_first_answer(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    return call == CALL_BATCH && n == 0 ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

static void a_lost_answer_keeps_the_source_for_one_more_pass(void **state)
{
    (void)state;
    put_three();
    stand_between(NULL);
    faulty.choose = lose_first_answer;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    check_three();
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

/* What may still land is waited for, whatever the keys are made of: it may come
 * after what the application has done with what was moved. */
static void a_move_that_takes_over_waits_where_writes_come_late(void **state)
{
    (void)state;
    put_three();
    h.store->traits.late_writes = true;
    h.took_over = true;
    assert_int_equal(hosted_attempt(&h, "moves-keys", NULL), RUN_WAITING);
    assert_int_equal(hosted_count(&h, "Blogs"), 3);
    assert_false(hosted_has(&h, "Months", "b", "1"));
}

static enum fault lose_second_answer(
    void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    return call == CALL_BATCH && n == 1 ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

static void a_source_that_an_unanswered_delete_took_leaves_its_copy(
    void **state)
{
    (void)state;
    put("1", "m1", "one");
    stand_between(NULL);
    faulty.choose = lose_second_answer;
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Months"), "m1/b-1 ");
    assert_int_equal(hosted_count(&h, "Blogs"), 0);
    faulty_done(&faulty);
}

/* An older state's copy is there, and the source is not selected any more. */
static void make_copy_and_unselect(const struct batch *batch)
{
    if (!is_about(batch, "Months", OPERATION_INSERT, "b-1"))
        return;
    meddle = NULL;
    hosted_put(&h, "Months", "m1", "b-1",
        "\"TablewardSource\":\"{\\\"store\\\":\\\"main\\\","
        "\\\"table\\\":\\\"Blogs\\\",\\\"key\\\":[\\\"b\\\",\\\"1\\\"],"
        "\\\"etag\\\":\\\"an older one\\\",\\\"job\\\":\\\"moves-some\\\","
        "\\\"run\\\":\\\"r0\\\","
        "\\\"digest\\\":\\\"00000000000000000000000000000000\\\"}\"");
    hosted_replace(&h, "Blogs", "b", "1", "\"Draft\":true");
}

static void an_unsure_insert_asks_for_another_pass_however_it_ends(void **state)
{
    (void)state;
    hosted_put(&h, "Blogs", "b", "1",
        "\"Month\":\"m1\",\"Title\":\"t\",\"Draft\":false");
    stand_between(make_copy_and_unselect);
    faulty.choose = lose_first_answer;
    assert_int_equal(hosted_run(&h, "moves-some", NULL), RUN_SUCCEEDED);
    assert_null(meddle);
    assert_int_equal(h.passes, 2);
    assert_string_equal(hosted_dump(&h, "Blogs"), "b/1 ");
    faulty_done(&faulty);
}

static void put_more(const struct batch *batch)
{
    static int n;
    char row_key[16];

    if (strcmp(batch->table, "Blogs") != 0)
        return;
    snprintf(row_key, sizeof(row_key), "x%d", n++);
    meddle = NULL;
    put(row_key, "m1", row_key);
    meddle = put_more;
}

static void what_never_ends_fails(void **state)
{
    (void)state;
    put_three();
    stand_between(put_more);
    assert_int_equal(hosted_run(&h, "moves", NULL), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "after 3 passes"));
    faulty_done(&faulty);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_source_has_its_copy),
        TEST(a_second_run_writes_nothing),
        TEST(a_later_run_follows_the_sources),
        TEST(nothing_to_copy_is_a_success),
        TEST(what_changes_during_a_copy_is_copied_as_it_is),
        TEST(a_copy_goes_with_its_source),
        TEST(a_copy_that_others_changed_stays_without_its_source),
        TEST(a_copy_that_others_changed_is_left_and_told),
        TEST(leftovers_of_another_run_fail_a_verified_one),
        TEST(copies_of_other_arguments_are_left_alone),
        TEST(a_source_without_what_its_keys_need_fails_alone),
        TEST(two_sources_of_the_same_keys_are_told),
        TEST(something_else_fails_the_source),
        TEST(something_else_is_skipped_where_asked_for),
        TEST(a_copy_beside_a_skipped_one_follows_its_source),
        TEST(a_copy_never_goes_back_to_an_older_state),
        TEST(something_else_is_replaced_where_asked_for),
        TEST(something_else_is_merged_where_asked_for),
        TEST(provenance_is_taken_off_at_the_end),
        TEST(what_stands_for_copies_is_compared_as_copies),
        TEST(an_equal_entity_counts_beside_others_of_its_bucket),
        TEST(a_copy_among_the_sources_is_refused),
        TEST(two_copies_of_one_source_do_not_take_turns),
        TEST(a_source_table_that_is_missing_is_told),
        TEST(an_argument_that_makes_no_key_is_refused),
        TEST(copies_that_are_in_one_partition_are_looked_for_there),
        TEST(what_it_reads_and_writes_is_told),
        TEST(leftovers_are_only_told_where_nothing_is_verified),
        TEST(what_others_changed_after_a_move_is_counted),
        TEST(a_source_that_can_no_longer_be_copied_stays),
        TEST(a_source_that_is_gone_when_it_is_read_again_is_none),
        TEST(what_is_merged_is_what_stands_there_last),
        TEST(a_copy_that_changes_while_it_is_to_go_stays),
        TEST(copies_by_another_filter_are_left_alone),
        TEST(the_first_ten_differences_are_named),
        TEST(a_source_that_never_rests_stays_and_is_told),
        TEST(sides_that_never_agree_fail_with_what_was_left),
        TEST(a_dry_run_says_what_would_be_copied),
        TEST(scattered_copies_make_full_batches),
        TEST(a_pass_goes_on_behind_its_place),
        TEST(a_move_goes_on_behind_its_place),
        TEST(a_run_that_has_begun_to_strip_only_strips),
        TEST(what_changes_while_it_is_stripped_keeps_its_change),
        TEST(every_source_is_moved),
        TEST(a_move_within_a_table_loses_none),
        TEST(a_move_within_a_table_may_end_anywhere),
        TEST(a_copy_takes_no_other_sources_place),
        TEST(a_source_that_changed_is_copied_again),
        TEST(a_source_with_other_keys_ends_in_one_place),
        TEST(a_copy_that_others_changed_stays_beside_the_next),
        TEST(what_others_delete_meanwhile_is_nowhere),
        TEST(what_a_move_has_put_over_others_is_not_taken_back),
        TEST(after_a_dead_attempt_a_copy_without_source_stays),
        TEST(what_is_no_longer_selected_stays_where_it_is),
        TEST(a_source_stays_until_all_its_copies_stand),
        TEST(what_is_skipped_stays_in_a_move),
        TEST(copies_with_former_keys_go_before_a_move_goes_on),
        TEST(a_copy_of_what_is_no_longer_selected_goes),
        TEST(what_was_moved_before_stays_when_a_move_goes_on),
        TEST(a_copy_that_two_runs_rely_on_is_not_taken_back),
        TEST(what_was_moved_is_no_other_jobs_to_prune),
        TEST(what_a_run_moved_before_it_copies_stays),
        TEST(what_was_merged_is_left_over_for_that),
        TEST(what_was_merged_into_stays_when_its_source_goes),
        TEST(what_was_merged_into_stays_when_its_source_gets_other_keys),
        TEST(what_was_replaced_stays_so_when_its_source_goes),
        TEST(what_a_move_cannot_take_back_is_told_at_its_end),
        TEST(keys_that_are_used_again_keep_what_was_moved),
        TEST(a_filter_by_timestamp_does_not_copy_its_copies),
        TEST(a_changed_definition_copies_before_it_strips),
        TEST(one_table_under_two_names_is_refused),
        TEST(only_the_copy_that_was_met_is_replaced),
        TEST(a_lost_answer_keeps_the_source_for_one_more_pass),
        TEST(a_source_that_an_unanswered_delete_took_leaves_its_copy),
        TEST(a_move_that_takes_over_waits_where_writes_come_late),
        TEST(an_unsure_insert_asks_for_another_pass_however_it_ends),
        TEST(what_never_ends_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
