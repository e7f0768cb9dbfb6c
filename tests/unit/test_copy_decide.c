/* SPDX-License-Identifier: MIT */
/* Sources, copies and checkpoints that are changed by others after a round has
 * read them, and before the round writes. */
#include <stdio.h>
#include <string.h>

#include "jobs/copy/checkpoint.h"
#include "jobs/copy/source.h"
#include "jobs/copy/work.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define TO "  to: {table: Copies, row_key: \"{N}\"}\n"
static const char JOBS[] =
    "c:\n"
    "  kind: copy\n"
    "  from: {table: Blogs}\n" TO "skips:\n"
    "  kind: copy\n"
    "  from: {table: Blogs}\n" TO "  on_conflict: skip\n"
    "adopts:\n"
    "  kind: copy\n"
    "  from: {table: Blogs}\n" TO "  on_conflict: replace\n"
    "index:\n"
    "  kind: copy\n"
    "  from: {table: Blogs}\n"
    "  to: {table: Blogs, row_key: \"i:{N}\"}\n";

static int set_up(void **state)
{
    scene_begin(JOBS, "Blogs");
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
    hosted_put(&h, "Blogs", "a", "2", "\"N\":2");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

static void run(const char *job, enum run_end wanted)
{
    scene_new_run();
    scene_run(job, "", wanted);
}

/* A first run makes the copies; the test continues with a later run. */
static void run_once(const char *job)
{
    run(job, RUN_SUCCEEDED);
}

/* ---- what others do ---- */

static void set_source(
    struct hosted *callbacks, const char *row_key, const char *properties)
{
    scene_quietly(hosted_replace(callbacks, "Blogs", "a", row_key, properties));
}

static void remove_source(const char *row_key)
{
    scene_remove("Blogs", "a", row_key);
}

/* Replaces the text `is` in the JSON of a stored copy by `part`. */
static void rewrite(struct hosted *callbacks, const char *table,
    const char *row_key, const char *is, const char *part)
{
    const char *json = hosted_json(callbacks, table, "a", row_key), *at;
    char *text;

    assert_non_null(json);
    at = strstr(json, is);
    assert_non_null(at);
    text = mem_format("%.*s%s%.*s", (int)(at - json - 1), json + 1, part,
        (int)(strlen(at) - strlen(is) - 1), at + strlen(is));
    hosted_replace(callbacks, table, "a", row_key, text);
    mem_free(text);
}

static void touch_copy(struct hosted *callbacks)
{
    rewrite(callbacks, "Copies", "1", "\"N\":1", "\"N\":1");
}

static void edit_copy(struct hosted *callbacks)
{
    rewrite(callbacks, "Copies", "1", "\"N\":1", "\"N\":7");
}

static void replace_copy_by_a_foreign_one(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Copies", "a", "1", "\"T\":\"mine\"");
}

static void name_another_entry(struct hosted *callbacks)
{
    rewrite(callbacks, "Copies", "1", "\\\"to\\\":0", "\\\"to\\\":9");
}

static void name_no_entry(struct hosted *callbacks)
{
    rewrite(callbacks, "Copies", "1", "\\\"to\\\":0", "\\\"to\\\":-1");
}

static void name_another_job(struct hosted *callbacks)
{
    rewrite(callbacks, "Copies", "1", "\\\"job\\\":\\\"c\\\"",
        "\\\"job\\\":\\\"d\\\"");
}

static void put_source_back(struct hosted *callbacks)
{
    hosted_put(callbacks, "Blogs", "a", "1", "\"N\":1");
    touch_copy(callbacks);
}

static void put_source_back_unclear(struct hosted *callbacks)
{
    hosted_put(callbacks, "Blogs", "a", "1", "\"T\":\"no N\"");
    touch_copy(callbacks);
}

/* An older state of the copy is restored, which other key templates made. */
static void put_source_back_and_a_former_copy(struct hosted *callbacks)
{
    put_source_back(callbacks);
    rewrite(callbacks, "Copies", "1", "\\\"by\\\":\\\"", "\\\"by\\\":\\\"x");
}

static void put_source_back_unclear_and_a_former_copy(struct hosted *callbacks)
{
    put_source_back_unclear(callbacks);
    rewrite(callbacks, "Copies", "1", "\\\"by\\\":\\\"", "\\\"by\\\":\\\"x");
}

static void touch_index_row(struct hosted *callbacks)
{
    rewrite(callbacks, "Blogs", "i:1", "\"N\":1", "\"N\":7");
}

static void refuse_sources(struct hosted *callbacks)
{
    struct script_event *event = script_call(&s, CALL_GET, "Blogs", 1, 99);

    event->answer = TW_REFUSED;
    event->unsent = true;
}

static void touch_copy_and_refuse_sources(struct hosted *callbacks)
{
    touch_copy(callbacks);
    refuse_sources(callbacks);
}

/* ---- a copy that is to be deleted ---- */

/* The source of the copy a/1 does not exist any more. Calls what() before the
 * delete of the copy is carried out. */
static void before_the_delete(void (*what)(struct hosted *h), enum run_end end)
{
    run_once("c");
    remove_source("1");
    script_batch(&s, "Copies", OPERATION_DELETE, 1, 1)->before = what;
    run("c", end);
    script_clear(&s);
}

FIXTURE_TEST(a_copy_that_was_only_touched_is_deleted_all_the_same)
{
    before_the_delete(touch_copy, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/2 ");
}

/* Rule C3. */
FIXTURE_TEST(a_copy_that_was_edited_is_not_deleted)
{
    before_the_delete(edit_copy, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
    scene_check_has("Copies", "a", "1", "\"N\":7");
}

/* Rule C1: an entity whose TablewardSource names another location or job is
 * foreign. */
FIXTURE_TEST(what_is_foreign_now_is_not_deleted)
{
    static void (*const cases[])(struct hosted * h) = {
        replace_copy_by_a_foreign_one, name_no_entry, name_another_job};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        before_the_delete(cases[i], RUN_SUCCEEDED);
        scene_check_keys("Copies", "a/1 a/2 ");
        scene_remove("Copies", "a", "1");
        scene_put("Blogs", "a", "1", "\"N\":1");
    }
}

/* The index of the entry is only a hint: see jobs/copy/work.h. */
FIXTURE_TEST(a_copy_that_names_another_index_is_deleted_all_the_same)
{
    before_the_delete(name_another_entry, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/2 ");
}

/* The application replaces a copy by the copy with the same keys in the other
 * table, with all its properties. */
static void copy_on_from_the_other_table(struct hosted *callbacks)
{
    const char *json = hosted_json(callbacks, "More", "a", "1");

    assert_non_null(json);
    hosted_replace(callbacks, "Copies", "a", "1",
        arena_format(&callbacks->arena, "%.*s", (int)strlen(json) - 2, json + 1)
            .at);
}

/* Rule C1: TablewardSource of the entity names the other table. */
FIXTURE_TEST(what_was_copied_on_from_another_table_is_not_deleted)
{
    hosted_load(&h, "c:\n  kind: copy\n  from: {table: Blogs}\n"
                    "  to: [{table: Copies, row_key: \"{N}\"},\n"
                    "       {table: More, row_key: \"{N}\"}]\n");
    before_the_delete(copy_on_from_the_other_table, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
    scene_check_keys("More", "a/2 ");
}

FIXTURE_TEST(a_copy_whose_source_is_back_is_not_deleted)
{
    before_the_delete(put_source_back, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
}

/* The key templates of the present entry give the copy this key too. */
FIXTURE_TEST(a_former_copy_whose_source_is_back_is_not_deleted)
{
    before_the_delete(put_source_back_and_a_former_copy, RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
    assert_int_equal(h.deleted, 0);
}

FIXTURE_TEST(a_former_copy_whose_source_cannot_be_copied_is_not_deleted)
{
    before_the_delete(put_source_back_unclear_and_a_former_copy, RUN_FAILED);
    scene_check_keys("Copies", "a/1 a/2 ");
}

/* The source exists and is reported: it is unknown which keys its copy should
 * have. */
FIXTURE_TEST(a_copy_whose_source_cannot_be_copied_any_more_is_not_deleted)
{
    before_the_delete(put_source_back_unclear, RUN_FAILED);
    scene_check_keys("Copies", "a/1 a/2 ");
    scene_check_reported("Blogs a/1: ");
}

FIXTURE_TEST(an_index_row_that_was_edited_is_deleted_with_its_source)
{
    run_once("index");
    remove_source("1");
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = touch_index_row;
    run("index", RUN_SUCCEEDED);
    scene_check_keys("Blogs", "a/2 a/i:2 ");
}

FIXTURE_TEST(a_delete_whose_source_cannot_be_read_ends_the_attempt)
{
    before_the_delete(touch_copy_and_refuse_sources, RUN_OUTAGE);
    assert_non_null(strstr(h.err.text, "as the test wants"));
    scene_check_keys("Copies", "a/1 a/2 ");
    if (hosted_run(&h, "c", "") != RUN_SUCCEEDED)
        fail_msg("%s", h.err.text);
    scene_check_keys("Copies", "a/2 ");
}

/* ---- a copy that is to be written ---- */

/* Rule C3: the source of the edited copy does not exist any more, and another
 * source has its key now. */
FIXTURE_TEST(an_edited_copy_of_another_source_is_skipped_if_the_job_says_so)
{
    run_once("skips");
    remove_source("1");
    scene_quietly(edit_copy(&h));
    set_source(&h, "2", "\"N\":1");
    run("skips", RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 ");
    scene_check_has("Copies", "a", "1", "\"N\":7");
    assert_true(h.skipped > 0);
}

/* Rule C2: a copy is not overwritten by the copy of another source while its
 * own source exists, even if that source cannot be copied. */
FIXTURE_TEST(a_copy_of_a_source_that_cannot_be_copied_is_not_overwritten)
{
    run_once("c");
    set_source(&h, "1", "\"T\":\"no N\"");
    set_source(&h, "2", "\"N\":1");
    run("c", RUN_FAILED);
    scene_check_reported("Blogs a/1: ");
    scene_check_reported("the copy of 'a' / '1' have the same keys");
    scene_check_has("Copies", "a", "1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
}

/* The key templates give two sources of different partitions the same keys. */
FIXTURE_TEST(sources_of_two_partitions_collide)
{
    hosted_load(&h, "c: {kind: copy, from: {table: Blogs}, to: {table: Copies, "
                    "partition_key: p, row_key: \"{RowKey}\"}}\n");
    run("c", RUN_SUCCEEDED);
    scene_put("Blogs", "b", "1", "\"N\":1");
    run("c", RUN_FAILED);
    scene_check_keys("Copies", "p/1 p/2 ");
    scene_check_reported(
        "'b' / '1' in table Blogs was not copied: its copy and the "
        "copy of 'a' / '1' have the same keys");
    assert_int_equal(h.failed, 1);
}

/* Two sources exchange their keys, and neither of them can be read. */
FIXTURE_TEST(a_write_whose_other_source_cannot_be_read_ends_the_attempt)
{
    run_once("c");
    set_source(&h, "1", "\"N\":2");
    set_source(&h, "2", "\"N\":1");
    refuse_sources(&h);
    run("c", RUN_OUTAGE);
    assert_non_null(strstr(h.err.text, "as the test wants"));
    scene_check_has("Copies", "a", "1", "\"N\":1");
    scene_check_has("Copies", "a", "2", "\"N\":2");
    script_clear(&s);
    if (hosted_run(&h, "c", "") != RUN_SUCCEEDED)
        fail_msg("%s", h.err.text);
    scene_check_has("Copies", "a", "1", "\\\"key\\\":[\\\"a\\\",\\\"2\\\"]");
    scene_check_has("Copies", "a", "2", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
}

/* Other templates that give the same keys: the copies remain the job's own, and
 * are written again with the digest of the new templates. */
FIXTURE_TEST(other_templates_with_the_same_keys_delete_nothing)
{
    run_once("c");
    hosted_load(&h, "c: {kind: copy, from: {table: Blogs}, to: {table: Copies, "
                    "row_key: \"{N + 0}\"}}\n");
    run("c", RUN_FAILED); /* rule C6 */
    h.written = h.deleted = 0;
    h.accept_deletes = true;
    run("c", RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
    assert_int_equal(h.written, 2);
    assert_int_equal(h.deleted, 0);
    run("c", RUN_SUCCEEDED);
    assert_int_equal(h.written, 2);
}

/* The log has only the first edited copies; all of them are counted. */
FIXTURE_TEST(all_edited_copies_are_counted)
{
    scene_quietly(hosted_fill(&h, "Blogs", "z", 130));
    hosted_load(
        &h, "c: {kind: copy, from: {table: Blogs}, to: {table: Copies}}\n");
    run_once("c");
    s.quiet = true;
    for (int i = 0; i < 130; i++) {
        const char *json;
        char row_key[16];
        char *text;

        snprintf(row_key, sizeof(row_key), "b%05d", i);
        json = hosted_json(&h, "Copies", "z", row_key);
        assert_non_null(json);
        text = mem_format("\"E\":1,%.*s", (int)strlen(json) - 2, json + 1);
        hosted_replace(&h, "Copies", "z", row_key, text);
        mem_free(text);
    }
    s.quiet = false;
    run("c", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "130 edited copies are unchanged (e.g. "
                                   "Copies 'z' / 'b00000')"));
}

/* ---- the dry run and the verification ---- */

FIXTURE_TEST(a_dry_run_of_replace_counts_edited_copies)
{
    struct job_estimate estimate = {.table_count = 0};

    run_once("adopts");
    scene_quietly(edit_copy(&h));
    assert_ok(hosted_estimate(&h, "adopts", "", &estimate));
    assert_int_equal(estimate.tables[1].batches, 1);
    arena_done(&estimate.arena);
    run("adopts", RUN_SUCCEEDED);
    scene_check_has("Copies", "a", "1", "\"N\":1");
}

FIXTURE_TEST(a_dry_run_of_nothing_says_so)
{
    struct job_estimate estimate = {.table_count = 0};

    remove_source("1");
    remove_source("2");
    assert_ok(hosted_estimate(&h, "c", "", &estimate));
    assert_int_equal(estimate.tables[0].entities, 0);
    assert_non_null(estimate.note);
    arena_done(&estimate.arena);
}

static void verify_finds(const char *job, int64_t wanted)
{
    struct job_verification found = {.count = 0};
    int64_t count = 0;

    assert_ok(hosted_verify(&h, job, "", &found));
    for (size_t i = 0; i < found.count; i++)
        count += found.differences[i].count;
    assert_int_equal(count, wanted);
    arena_done(&found.arena);
}

static void change_the_source_once_more(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Blogs", "a", "1", "\"N\":1,\"T\":\"new\"");
}

static void remove_copy(struct hosted *callbacks)
{
    hosted_remove(callbacks, "Copies", "a", "1");
}

/* A difference counts only if both passes find it. */
FIXTURE_TEST(what_changes_during_a_verification_is_no_difference)
{
    static void (*const cases[])(struct hosted * h) = {
        remove_copy, replace_copy_by_a_foreign_one};

    run_once("c");
    verify_finds("c", 0);
    set_source(&h, "1", "\"N\":1,\"T\":\"x\"");
    verify_finds("c", 1);
    script_call(&s, CALL_GET, "Copies", 1, 1)->after =
        change_the_source_once_more;
    verify_finds("c", 0);
    script_clear(&s);
    remove_source("1");
    verify_finds("c", 1);
    for (size_t i = 0; i < 2; i++) {
        script_call(&s, CALL_GET, "Copies", 1, 1)->before = cases[i];
        verify_finds("c", 0);
        script_clear(&s);
        s.quiet = true;
        if (i == 0) {
            hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
            s.quiet = false;
            run_once("c");
            remove_source("1");
        }
        s.quiet = false;
    }
}

/* ---- the checkpoint ---- */

static void check_reading(const char *text, bool wanted)
{
    struct rounds rounds = {.number = 0};
    struct copy_progress at = {.restarts = 0};

    if (copy_checkpoint_read(slice_of(text), &h.arena, &rounds, &at) != wanted)
        fail_msg("%s", text);
    if (!wanted)
        assert_int_equal(at.restarts, 0);
}

FIXTURE_TEST(a_checkpoint_is_read_whole_or_not_at_all)
{
    static const struct {
        const char *is, *becomes;
    } cases[] = {
        {"\"version\":1", "\"version\":2"},
        {"\"version\":1", "\"v\":1"},
        {"\"mode\":2", "\"mode\":9"},
        {"\"mode\":2", "\"mode\":\"x\""},
        {"\"step\":3", "\"step\":4"},
        {"\"step\":3", "\"step\":-1"},
        {"\"table\":1", "\"table\":16"},
        {"\"table\":1", "\"tables\":1"},
        {"\"restarts\":2", "\"restarts\":-2"},
        {"\"former\":0", "\"formers\":0"},
        {"\"checked\":true", "\"checked\":1"},
        {"\"checked\":true", "\"x\":true"},
        {"\"late\":false", "\"late\":0"},
        {"\"done\":[", "\"done\":[7,"},
        {"\"rounds\":", "\"round\":"},
    };
    const struct copy_progress at = {.mode = COPY_COMPARE,
        .step = COPY_BACKWARD,
        .table = 1,
        .restarts = 2,
        .checked = true,
        .resumes = true,
        .partition_key = slice_of("a"),
        .row_key = slice_of("1")};
    const struct rounds rounds = {.number = 2, .under_way = true};
    char *text = copy_checkpoint_write(&rounds, &at);

    check_reading(text, true);
    check_reading("", false);
    check_reading("[]", false);
    check_reading("no JSON", false);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *found = strstr(text, cases[i].is);
        char *damaged;

        if (!found)
            fail_msg("%s is not in %s", cases[i].is, text);
        damaged = mem_format("%.*s%s%s", (int)(found - text), text,
            cases[i].becomes, found + strlen(cases[i].is));
        check_reading(damaged, false);
        mem_free(damaged);
    }
    mem_free(text);
}
