/* SPDX-License-Identifier: MIT */
/* Sources and copies that others change after a round has read them and before
 * the round writes. Verify and the checkpoint. */
#include <stdio.h>
#include <string.h>

#include "jobs/copy/checkpoint.h"
#include "jobs/copy/work.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define TO "  to: {table: Copies, row_key: \"{N}\"}\n"
static const char JOBS[] = "c:\n"
                           "  kind: copy\n"
                           "  from: {table: Blogs}\n" TO "skips:\n"
                           "  kind: copy\n"
                           "  from: {table: Blogs}\n" TO "  on_conflict: skip\n"
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

/* ---- what others do ---- */

static void set_source(const char *row_key, const char *properties)
{
    scene_replace("Blogs", "a", row_key, properties);
}

static void remove_source(const char *row_key)
{
    scene_remove("Blogs", "a", row_key);
}

static void touch_copy(struct hosted *callbacks)
{
    scene_edit("Copies", "a", "1", "\"N\":1", "\"N\":1");
}

static void edit_copy(struct hosted *callbacks)
{
    scene_edit("Copies", "a", "1", "\"N\":1", "\"N\":7");
}

static void replace_copy_by_a_foreign_one(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Copies", "a", "1", "\"T\":\"mine\"");
}

static void touch_index_row(struct hosted *callbacks)
{
    scene_edit("Blogs", "a", "i:1", "\"N\":1", "\"N\":7");
}

static void refuse_sources(struct hosted *callbacks)
{
    script_unsent(script_call(&s, CALL_GET, "Blogs", 1, 99), TW_REFUSED);
}

static void touch_copy_and_refuse_sources(struct hosted *callbacks)
{
    touch_copy(callbacks);
    refuse_sources(callbacks);
}

/* ---- a copy that is to be deleted ---- */

/* Makes a run, which copies the sources; deletes source a/1; makes a second
 * run, which must end as `end`. what() is called just before the second run
 * deletes the copy of a/1. */
static void before_the_delete(void (*what)(struct hosted *h), enum run_end end)
{
    run("c", RUN_SUCCEEDED);
    remove_source("1");
    script_batch(&s, "Copies", OPERATION_DELETE, 1, 1)->before = what;
    run("c", end);
    script_clear(&s);
}

static const struct delete_case {
    const char *name;
    const char *source; /* the source is put again with these properties; NULL:
                           it is not put again */
    /* In the copy, `to` replaces the text `from`. from NULL: `to` replaces all
     * properties. */
    const char *from, *to;
    bool stays;
    enum run_end end;
} delete_cases[] = {
    {"a copy that was only touched is deleted all the same", NULL, "\"N\":1",
        "\"N\":1", false, RUN_SUCCEEDED},
    {"rule C3: a copy that was edited is not deleted", NULL, "\"N\":1",
        "\"N\":7", true, RUN_SUCCEEDED},
    {"rule C1: a foreign entity is not deleted", NULL, NULL, "\"T\":\"mine\"",
        true, RUN_SUCCEEDED},
    {"rule C1: a copy that names no entry is foreign", NULL, "\\\"to\\\":0",
        "\\\"to\\\":-1", true, RUN_SUCCEEDED},
    {"rule C1: a copy of another job is foreign", NULL, "\\\"job\\\":\\\"c\\\"",
        "\\\"job\\\":\\\"d\\\"", true, RUN_SUCCEEDED},
    {"the index of the entry is only a hint (jobs/copy/work.h)", NULL,
        "\\\"to\\\":0", "\\\"to\\\":9", false, RUN_SUCCEEDED},
    {"a copy whose source is back is not deleted", "\"N\":1", "\"N\":1",
        "\"N\":1", true, RUN_SUCCEEDED},
    {"nor is one of other key templates, if these give it its key too",
        "\"N\":1", "\\\"by\\\":\\\"", "\\\"by\\\":\\\"x", true, RUN_SUCCEEDED},
    {"a copy whose source is reported is not deleted: its keys are unknown",
        "\"T\":\"no N\"", "\"N\":1", "\"N\":1", true, RUN_FAILED},
    {"nor is one of other key templates", "\"T\":\"no N\"", "\\\"by\\\":\\\"",
        "\\\"by\\\":\\\"x", true, RUN_FAILED},
};

static const struct delete_case *delete_case;
static const char *copy_before_delete;

static void meet_the_case(struct hosted *callbacks)
{
    if (delete_case->source)
        hosted_put(callbacks, "Blogs", "a", "1", delete_case->source);
    if (delete_case->from)
        scene_edit("Copies", "a", "1", delete_case->from, delete_case->to);
    else
        hosted_replace(callbacks, "Copies", "a", "1", delete_case->to);
    copy_before_delete = scene_json("Copies", "a", "1");
}

TEST(what_others_did_to_a_copy_is_seen_before_its_delete)
{
    for (size_t i = 0; TEST_EACH(i, delete_cases); i++) {
        delete_case = &delete_cases[i];
        test_case("%s", delete_case->name);
        (void)set_up(NULL);
        before_the_delete(meet_the_case, delete_case->end);
        scene_check_keys("Copies", delete_case->stays ? "a/1 a/2 " : "a/2 ");
        if (delete_case->stays && !delete_case->source)
            scene_check_is("Copies", "a", "1", copy_before_delete);
        assert_int_equal(h.deleted, delete_case->stays ? 0 : 1);
        if (delete_case->end == RUN_FAILED)
            scene_check_reported("Blogs a/1: ");
        (void)scene_end(NULL);
    }
}

/* The application overwrites a copy in table Copies with all properties of the
 * copy in table More that has the same keys. */
static void copy_on_from_the_other_table(struct hosted *callbacks)
{
    hosted_replace(callbacks, "Copies", "a", "1",
        scene_edited("More", "a", "1", "\"N\":1", "\"N\":1"));
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

FIXTURE_TEST(an_index_row_that_was_edited_is_deleted_with_its_source)
{
    run("index", RUN_SUCCEEDED);
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
    scene_run("c", "", RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/2 ");
}

/* ---- a copy that is to be written ---- */

/* Rule C3: the source of the edited copy does not exist any more, and another
 * source has its key now. */
FIXTURE_TEST(an_edited_copy_of_another_source_is_skipped_if_the_job_says_so)
{
    run("skips", RUN_SUCCEEDED);
    remove_source("1");
    edit_copy(&h);
    set_source("2", "\"N\":1");
    run("skips", RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 ");
    scene_check_has("Copies", "a", "1", "\"N\":7");
    assert_true(h.skipped > 0);
}

/* Rule C2: a copy is not overwritten by the copy of another source while its
 * own source exists, even if that source cannot be copied. */
FIXTURE_TEST(a_copy_of_a_source_that_cannot_be_copied_is_not_overwritten)
{
    run("c", RUN_SUCCEEDED);
    set_source("1", "\"T\":\"no N\"");
    set_source("2", "\"N\":1");
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
    run("c", RUN_SUCCEEDED);
    set_source("1", "\"N\":2");
    set_source("2", "\"N\":1");
    refuse_sources(&h);
    run("c", RUN_OUTAGE);
    assert_non_null(strstr(h.err.text, "as the test wants"));
    scene_check_has("Copies", "a", "1", "\"N\":1");
    scene_check_has("Copies", "a", "2", "\"N\":2");
    script_clear(&s);
    scene_run("c", "", RUN_SUCCEEDED);
    assert_int_equal(h.written, 2);
    assert_int_equal(h.deleted, 0);
    scene_check_has("Copies", "a", "1", "\\\"key\\\":[\\\"a\\\",\\\"2\\\"]");
    scene_check_has("Copies", "a", "2", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
}

/* Other templates that give the same keys: the copies remain the job's own, and
 * are written again with the digest of the new templates. */
FIXTURE_TEST(other_templates_with_the_same_keys_delete_nothing)
{
    run("c", RUN_SUCCEEDED);
    hosted_load(&h, "c: {kind: copy, from: {table: Blogs}, to: {table: Copies, "
                    "row_key: \"{N + 0}\"}}\n");
    run("c", RUN_FAILED); /* rule C6 */
    h.accept_deletes = true;
    run("c", RUN_SUCCEEDED);
    scene_check_keys("Copies", "a/1 a/2 ");
    assert_int_equal(h.written, 2);
    assert_int_equal(h.deleted, 0);
    run("c", RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
}

/* The log has only the first edited copies; all of them are counted. */
FIXTURE_TEST(all_edited_copies_are_counted)
{
    scene_quietly(hosted_fill(&h, "Blogs", "z", 130));
    hosted_load(
        &h, "c: {kind: copy, from: {table: Blogs}, to: {table: Copies}}\n");
    run("c", RUN_SUCCEEDED);
    for (int i = 0; i < 130; i++) {
        char row_key[16];

        snprintf(row_key, sizeof(row_key), "b%05d", i);
        scene_edit("Copies", "z", row_key, "\"N\":1", "\"N\":2");
    }
    run("c", RUN_SUCCEEDED);
    assert_non_null(strstr(h.note, "130 edited copies are unchanged (e.g. "
                                   "Copies 'z' / 'b00000')"));
}

/* ---- the verification ---- */

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

    run("c", RUN_SUCCEEDED);
    verify_finds("c", 0);
    set_source("1", "\"N\":1,\"T\":\"x\"");
    verify_finds("c", 1);
    script_call(&s, CALL_GET, "Copies", 1, 1)->after =
        change_the_source_once_more;
    verify_finds("c", 0);
    script_clear(&s);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        run("c", RUN_SUCCEEDED);
        remove_source("1");
        verify_finds("c", 1);
        script_call(&s, CALL_GET, "Copies", 1, 1)->before = cases[i];
        verify_finds("c", 0);
        script_clear(&s);
        scene_put("Blogs", "a", "1", "\"N\":1");
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
    } cases[] = {{"\"version\":1", "\"version\":2"},
        {"\"version\":1", "\"v\":1"}, {"\"mode\":2", "\"mode\":9"},
        {"\"mode\":2", "\"mode\":\"x\""}, {"\"step\":3", "\"step\":4"},
        {"\"step\":3", "\"step\":-1"}, {"\"table\":1", "\"table\":16"},
        {"\"table\":1", "\"tables\":1"}, {"\"restarts\":2", "\"restarts\":-2"},
        {"\"former\":0", "\"formers\":0"},
        {"\"checked\":true", "\"checked\":1"},
        {"\"checked\":true", "\"x\":true"}, {"\"late\":false", "\"late\":0"},
        {"\"done\":[", "\"done\":[7,"}, {"\"rounds\":", "\"round\":"}};
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
