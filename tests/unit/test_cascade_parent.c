/* SPDX-License-Identifier: MIT */
/*
 * The parent of a cascade is read, marked and deleted: responses of the store,
 * and changes by other writers in between. On a virtual clock.
 */
#include "tests/support/scene.h"
#include "tests/support/test.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/cascade_job.h"
#include "tests/support/text_file.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"

#define SCENE_TEST(name) TEST_IN(name, NULL, scene_end)

#define FLAT(options) CASCADE_JOB("job", options, RULE("Blogs", BY_CHANNEL))
#define AT_ONCE FLAT("settle: 0s")
#define SETTLES FLAT("settle: 60s")
#define ARCHIVES FLAT("settle: 0s\n    archive: kept")

static void begin_empty(const char *configuration)
{
    scene_restart(configuration, "Channels Blogs Comments Likes");
}

static void put_blogs(unsigned count)
{
    scene_quietly(hosted_fill(&h, "Blogs", "News", count));
}

/* Puts the channel News, with these properties (or NULL), and three blogs. */
static void begin(const char *configuration, const char *properties)
{
    begin_empty(configuration);
    scene_put("Channels", "News", "", properties);
    put_blogs(3);
}

/* Makes one attempt; fails unless it ends as `wanted` for a reason that
 * contains `why`, and leaves these rows (as of hosted_check()). */
static void attempt(enum run_end wanted, const char *why, const char *rows)
{
    scene_attempt("job", "News", wanted);
    hosted_check_why(&h, why);
    scene_check(rows);
}

#define ALL_GONE "Channels; Blogs; Comments; Likes"
#define NOTHING_GONE "Channels News/; Blogs 3"
#define AS_WANTED "as the test wants"

#define ALWAYS 1, UINT_MAX

/* Has the store answer the requests of the event with `answer`, without
 * carrying them out. Returns the event. */
static struct script_event *answered(
    struct script_event *event, enum tw_err answer)
{
    event->answer = answer;
    event->unsent = true;
    return event;
}

/* on_mark: the requests that merge the tombstone into the parent. on_delete:
 * those that delete the parent. */
static struct script_event *on_mark(unsigned first, unsigned last)
{
    return script_batch(&s, "Channels", OPERATION_MERGE, first, last);
}

static struct script_event *on_delete(unsigned first, unsigned last)
{
    return script_batch(&s, "Channels", OPERATION_DELETE, first, last);
}

/* ---- reading and marking ---- */

SCENE_TEST(a_request_that_fails_keeps_the_parent)
{
    static const char DROPPED[] =
        "table Blogs does not exist in store main: create it, or remove its "
        "rule from the job, then retry";
    static const struct {
        const char *what, *table;
        enum store_call call; /* CALL_BATCH: the tombstone */
        unsigned first;
        enum tw_err answer; /* to request number `first` and all that follow */
        enum run_end end;
        const char *why, *left;
    } CASES[] = {
        {"the parent cannot be read", "Channels", CALL_GET, 1, TW_BUSY,
            RUN_OUTAGE, AS_WANTED, NOTHING_GONE},
        {"the tombstone can never be stored", "Channels", CALL_BATCH, 1,
            TW_INVALID, RUN_FAILED, AS_WANTED, NOTHING_GONE},
        {"the tombstone is too large", "Channels", CALL_BATCH, 1, TW_TOO_LARGE,
            RUN_FAILED, AS_WANTED, NOTHING_GONE},
        {"the tombstone may not be stored", "Channels", CALL_BATCH, 1,
            TW_REFUSED, RUN_OUTAGE, AS_WANTED, NOTHING_GONE},
        {"a page can never be read", "Blogs", CALL_SCAN, 1, TW_INVALID,
            RUN_FAILED, "Blogs", NOTHING_GONE},
        {"a page is too large", "Blogs", CALL_SCAN, 1, TW_TOO_LARGE, RUN_FAILED,
            "Blogs", NOTHING_GONE},
        {"a child's table is dropped after the run has checked it", "Blogs",
            CALL_SCAN, 2, TW_NOT_FOUND, RUN_FAILED, DROPPED, "Channels News/"},
        {"the parent cannot be read in the last phase", "Channels", CALL_GET, 2,
            TW_BUSY, RUN_OUTAGE, AS_WANTED, "Channels News/"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        test_case("%s", CASES[i].what);
        begin(AT_ONCE, NULL);
        answered(CASES[i].call == CALL_BATCH
                     ? on_mark(ALWAYS)
                     : script_call(&s, CASES[i].call, CASES[i].table,
                           CASES[i].first, UINT_MAX),
            CASES[i].answer);
        attempt(CASES[i].end, CASES[i].why, CASES[i].left);
    }
}

/* There is no parent, so the run inserts one that has only a tombstone. */
SCENE_TEST(a_parents_table_that_is_dropped_fails_the_run)
{
    begin_empty(AT_ONCE);
    put_blogs(3);
    answered(
        script_batch(&s, "Channels", OPERATION_INSERT, ALWAYS), TW_NOT_FOUND);
    attempt(RUN_FAILED, "", "Blogs 3");
    assert_string_equal(h.err.text,
        "table Channels does not exist in store main: create it, then retry");
}

static void remove_parent(struct hosted *host)
{
    hosted_remove(host, "Channels", "News", "");
}

/* The parent is deleted between the read and the tombstone: the tombstone is
 * inserted instead of merged. */
SCENE_TEST(a_parent_that_goes_before_it_is_marked_is_marked_anew)
{
    begin(AT_ONCE, NULL);
    on_mark(1, 1)->before = remove_parent;
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
}

SCENE_TEST(a_parent_that_changes_all_the_time_is_tried_again_later)
{
    const struct script_event *marks;

    begin(AT_ONCE, NULL);
    marks = answered(on_mark(ALWAYS), TW_CONFLICT);
    attempt(RUN_TRY_AGAIN, "", NOTHING_GONE);
    assert_string_equal(h.err.text,
        "other writers changed the parent in Channels before "
        "each attempt to write its tombstone");
    assert_int_equal(marks->seen, 20);
    script_clear(&s);
    answered(on_mark(1, 3), TW_CONFLICT);
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
}

/* ---- the run that a tombstone belongs to ---- */

/* A tombstone without a valid owner does not belong to a run: this run writes
 * its own. */
SCENE_TEST(a_tombstone_without_an_owner_is_nobody_s)
{
    static const char *const MARKS[] = {
        "\"TablewardRun\":7,\"Deleted\":true",
        "\"TablewardRun\":\"\",\"Deleted\":true",
        "\"TablewardRun\":\"nobody\",\"Deleted\":true",
    };

    for (size_t i = 0; TEST_EACH(i, MARKS); i++) {
        begin(AT_ONCE, MARKS[i]);
        h.other_open = true;
        attempt(RUN_SUCCEEDED, "", ALL_GONE);
    }
}

#define MARKED_BY_OTHER OWNED_BY("quick/other")

/* Makes an attempt that waits, because another open run has marked the
 * parent. */
static void begin_behind_other(const char *mark)
{
    begin(AT_ONCE, mark);
    h.other_open = true;
    attempt(RUN_WAITING,
        "waits for its turn: run quick/other is deleting this parent",
        NOTHING_GONE);
}

/* The tombstone of the other run may have other properties than this job's: the
 * other run may be of another job, or of a former definition of this job. */
SCENE_TEST(a_run_waits_for_another_run_whatever_its_tombstone_is)
{
    static const char *const MARKS[] = {
        MARKED_BY_OTHER,
        MARKED_BY_OTHER ",\"State\":\"gone\"",
        MARKED_BY_OTHER ",\"Deleted\":true",
        MARKED_BY_OTHER ",\"Deleted\":false",
        MARKED_BY_OTHER ",\"Deleted\":\"true\"",
    };

    for (size_t i = 0; TEST_EACH(i, MARKS); i++) {
        begin_behind_other(MARKS[i]);
        h.other_open = false; /* the other run has failed, or was cancelled */
        attempt(RUN_SUCCEEDED, "", ALL_GONE);
    }
}

/* The other run has deleted the parent since. No run was asked to delete the
 * new parent. */
SCENE_TEST(a_run_that_waited_leaves_a_parent_that_was_created_again)
{
    begin_behind_other(MARKED_BY_OTHER);
    scene_remove("Channels", "News", "");
    scene_rows("Channels News/");
    attempt(RUN_SUCCEEDED, "", "Blogs 3");
    hosted_check_note(&h, "created again while this run waited");
    scene_check_is("Channels", "News", "", "{}");
}

/* The other run, by its own rules, may have left children. */
SCENE_TEST(a_run_that_waited_deletes_what_the_other_left)
{
    begin_behind_other(MARKED_BY_OTHER);
    scene_remove("Channels", "News", "");
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
}

static void mark_by_other(struct hosted *host)
{
    hosted_remove(host, "Channels", "News", "");
    hosted_put(host, "Channels", "News", "", MARKED_BY_OTHER);
}

/* The tombstone of another run does not show that the parent was created
 * again. */
SCENE_TEST(a_parent_that_another_run_has_marked_too_is_not_left_as_new)
{
    for (int open = 1; open >= 0; open--) {
        begin(SETTLES, NULL);
        h.other_open = open;
        attempt(RUN_WAITING, "", "Channels News/");
        scene_quietly(mark_by_other(&h));
        attempt(
            open ? RUN_WAITING : RUN_FAILED, "quick/other", "Channels News/");
    }
}

/* This run has deleted all children, and another run marks the parent before
 * this run deletes it. This run leaves the parent to the other run, because it
 * may be a new one: an earlier attempt of this run may have deleted the former
 * parent and failed to store the end. */
SCENE_TEST(a_parent_that_another_run_marks_before_the_delete_is_left_to_it)
{
    begin(AT_ONCE, NULL);
    h.other_open = true;
    on_delete(1, 1)->before = mark_by_other;
    attempt(RUN_SUCCEEDED, "", "Channels News/");
    hosted_check_note(
        &h, "the parent in Channels has the tombstone of run quick/other now");
}

static void create_anew(struct hosted *host)
{
    hosted_remove(host, "Channels", "News", "");
    hosted_rows(host, "Channels News/");
    virtual_sleep(5000);
}

/* Another run has deleted the parent, as a child of the other run's parent. */
SCENE_TEST(a_parent_created_again_during_a_pass_ends_the_run)
{
    static const char *const JOBS[] = {AT_ONCE, SETTLES};

    for (size_t i = 0; TEST_EACH(i, JOBS); i++) {
        begin_empty(JOBS[i]);
        scene_rows("Channels News/");
        put_blogs(6000);
        script_call(&s, CALL_SCAN, "Blogs", 4, 4)->before = create_anew;
        attempt(RUN_SUCCEEDED, "", "");
        hosted_check_note(&h, "created again");
        scene_check_is("Channels", "News", "", "{}");
        assert_in_range(hosted_count(&h, "Blogs"), 1000, 5000);
    }
}

SCENE_TEST(another_run_of_which_nothing_is_known_is_an_outage)
{
    begin(AT_ONCE, MARK("job/other"));
    h.open_outcome = TW_BUSY;
    attempt(RUN_OUTAGE, AS_WANTED, NOTHING_GONE);
}

/* Makes an attempt that writes the tombstone and ends before the settle pass is
 * due; then drops the checkpoint, as a new definition of the job does. */
static void begin_with_new_definition(void)
{
    begin(SETTLES, NULL);
    attempt(RUN_WAITING, "", "Channels News/");
    hosted_lose_checkpoint(&h);
}

/* The new parent used to be marked, and deleted with everything under it. */
SCENE_TEST(a_parent_made_anew_while_the_definition_changes_is_left)
{
    begin_with_new_definition();
    scene_remove("Channels", "News", "");
    scene_rows("Channels News/");
    put_blogs(3);
    attempt(RUN_FAILED, "", "Blogs 3");
    assert_string_equal(h.err.text,
        "this run wrote its tombstone before the job's definition "
        "changed, and the parent in Channels no longer has that "
        "tombstone: the parent may have been created again. If the "
        "parent is to be deleted, enqueue a new run");
    scene_check_is("Channels", "News", "", "{}");
}

SCENE_TEST(a_marked_parent_goes_whatever_definition_marked_it)
{
    begin_with_new_definition();
    scene_rows("Blogs News/late");
    attempt(RUN_WAITING, "", "Blogs");
}

SCENE_TEST(a_time_of_creation_that_is_no_time_fails_the_run)
{
    begin(AT_ONCE, "\"CreatedOn\":\"yesterday\"");
    attempt(RUN_FAILED,
        "property CreatedOn of the parent in Channels is not an Edm.DateTime",
        NOTHING_GONE);
}

/* ---- the last delete ---- */

SCENE_TEST(a_parent_that_is_gone_at_the_end_is_deleted)
{
    begin(AT_ONCE, NULL);
    on_delete(1, 1)->before = remove_parent;
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
    hosted_check_note(&h, "was removed by another writer");
}

/* If the delete had no response, it is not known who deleted the parent. */
SCENE_TEST(a_parent_that_this_run_may_have_deleted_is_not_noted)
{
    begin(AT_ONCE, NULL);
    answered(on_delete(1, 1), TW_UNKNOWN)->before = remove_parent;
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
    assert_string_equal(h.note, "");
}

SCENE_TEST(a_parent_that_cannot_be_deleted_stays_for_the_next_attempt)
{
    static const struct {
        enum tw_err outcome;
        enum run_end end;
        const char *says;
    } CASES[] = {
        {TW_CONFLICT, RUN_TRY_AGAIN,
            "other writers changed the parent in Channels before each attempt "
            "to delete it"},
        {TW_REFUSED, RUN_OUTAGE, AS_WANTED},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        begin(AT_ONCE, NULL);
        answered(on_delete(ALWAYS), CASES[i].outcome);
        attempt(CASES[i].end, CASES[i].says, "Channels News/");
        assert_string_equal(h.phase, "parent");
        script_clear(&s);
        answered(on_delete(1, 2), TW_CONFLICT); /* the parent is read again */
        answered(on_delete(3, 3), TW_UNKNOWN);
        attempt(RUN_SUCCEEDED, "", ALL_GONE);
    }
}

static enum tw_err never_phases(struct hosted *host, bool *ret_stored)
{
    *ret_stored = false;
    return TW_STOPPED;
}

SCENE_TEST(without_the_last_phase_the_parent_stays)
{
    begin(AT_ONCE, NULL);
    h.phasing = never_phases;
    attempt(RUN_STOPPED, "", "Channels News/; Blogs");
}

/* ---- counting first ---- */

#define LIMITED(rule)                                                          \
    CASCADE_JOB("job", "settle: 0s\n    refuse_above: 10", rule)

SCENE_TEST(what_cannot_be_counted_is_not_deleted)
{
    static const struct {
        const char *job;
        enum tw_err answer;
        enum run_end end;
        const char *says;
    } CASES[] = {
        {LIMITED(RULE("Blogs", BY_CHANNEL)), TW_BUSY, RUN_OUTAGE, AS_WANTED},
        {LIMITED(RULE("Nowhere", BY_CHANNEL)), TW_OK, RUN_FAILED, "Nowhere"},
        {LIMITED(RULE("Blogs", "filter: \"A eq {channel}\"")), TW_OK,
            RUN_FAILED, "filter"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        begin(CASES[i].job, NULL);
        if (CASES[i].answer != TW_OK)
            answered(
                script_call(&s, CALL_SCAN, "Blogs", ALWAYS), CASES[i].answer);
        attempt(CASES[i].end, CASES[i].says, NOTHING_GONE);
    }
}

/* ---- the entities under the parent ---- */

SCENE_TEST(deletes_that_are_refused_end_the_pass)
{
    begin_empty(AT_ONCE);
    scene_rows("Channels News/");
    put_blogs(1500);
    answered(script_batch(&s, "Blogs", OPERATION_DELETE, ALWAYS), TW_REFUSED);
    attempt(RUN_OUTAGE, "", "Channels News/; Blogs 1500");
    script_clear(&s);
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
}

static void change_blog(struct hosted *host)
{
    hosted_remove(host, "Blogs", "News", "b00001");
    hosted_rows(host, "Blogs News/b00001(N=2); Likes b00001/late");
}

static void make_thread(struct hosted *host)
{
    hosted_remove(host, "Blogs", "News", "b00001");
    hosted_rows(host, "Blogs News/b00001(Thread=News); Likes b00001/late");
}

/* Between the read and the delete of a blog, the blog gets new children, or it
 * is changed so that another rule, which has child rules, finds it. Such a blog
 * used to be deleted as a leaf, and its likes stayed for ever. */
SCENE_TEST(a_blog_that_changed_is_visited_anew)
{
    static const struct {
        const char *job;
        void (*change)(struct hosted *host);
    } CASES[] = {
        {CASCADE_JOB("job", "settle: 0s",
             RULE_WITH("Blogs", BY_CHANNEL, RULE("Likes", BY_ROW_KEY))),
            change_blog},
        {CASCADE_JOB("job", "settle: 0s",
             RULES(RULE("Blogs", BY_CHANNEL),
                 RULE_WITH("Blogs", "filter: \"Thread eq '{channel}'\"",
                     RULE("Likes", BY_ROW_KEY)))),
            make_thread},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        begin(CASES[i].job, NULL);
        script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before =
            CASES[i].change;
        attempt(RUN_SUCCEEDED, "", ALL_GONE);
    }
}

static void take_elsewhere(struct hosted *host)
{
    hosted_replace(host, "Blogs", "all", "1", "\"Channel\":\"Sports\"");
}

/* The leaf is changed between its read and its delete. */
SCENE_TEST(a_leaf_that_is_no_child_any_more_stays)
{
    begin_empty(CASCADE_JOB("job", "settle: 0s", RULE("Blogs", WITH_CHANNEL)));
    scene_rows("Channels News/; Blogs all/1(Channel=News) all/2(Channel=News)");
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before = take_elsewhere;
    attempt(RUN_SUCCEEDED, "", "Channels; Blogs all/1");
}

/* If the prefix is empty, the rule would delete all likes. */
SCENE_TEST(a_prefix_that_is_empty_for_one_blog_fails_the_run)
{
    begin_empty(CASCADE_JOB("job", "settle: 0s",
        RULE_WITH("Blogs", BY_CHANNEL,
            RULE("Likes", "row_key_prefix: \"{Thread}\""))));
    scene_rows("Channels News/; Likes x/1 x/2");
    scene_put("Blogs", "News", "b", "\"Thread\":\"\"");
    attempt(RUN_FAILED, "", "Channels News/; Likes 2");
    assert_string_equal(h.err.text,
        "under 'News' / 'b' of Blogs: the row_key_prefix of the rule for Likes "
        "renders as an empty text, which would select everything");
}

/* Two rules, which both have child rules, find the same blog. What is below the
 * second rule can be found only as long as the blog exists. */
#define CROSSED(by)                                                            \
    CASCADE_JOB("job", "settle: 0s",                                           \
        RULES(RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_ROW_KEY)),    \
            RULE_WITH("Blogs", WITH_CHANNEL, RULE("Likes", by))))

SCENE_TEST(a_rule_that_another_rule_cannot_read_now_is_an_outage)
{
    begin_empty(CROSSED("partition_key: \"{Thread}\""));
    scene_rows(
        "Channels News/; Blogs News/b(Channel=News,Thread=t); Likes t/l");
    answered(script_call(&s, CALL_SCAN, "Likes", ALWAYS), TW_REFUSED);
    attempt(RUN_OUTAGE, AS_WANTED, "Blogs News/b");
    script_clear(&s);
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
}

/* If the other rule cannot be bound to the blog, the blog stays and is
 * reported. */
SCENE_TEST(a_rule_that_can_never_be_read_keeps_the_blog)
{
    static const struct {
        const char *configuration, *properties;
    } CASES[] = {
        {CROSSED("partition_key: \"{Thread}\""), "\"Channel\":\"News\""},
        {CROSSED("row_key_prefix: \"{Thread}\""),
            "\"Channel\":\"News\",\"Thread\":\"\""},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        begin_empty(CASES[i].configuration);
        scene_rows("Channels News/; Likes t/l");
        scene_put("Blogs", "News", "b", CASES[i].properties);
        attempt(RUN_FAILED, "", "Channels News/; Blogs News/b; Likes t/l");
    }
}

/* ---- the archive ---- */

/* The run fails, because a retry would fail for the same reason. */
SCENE_TEST(an_archive_that_cannot_be_made_stops_before_anything)
{
    char *path;

    begin(ARCHIVES, NULL);
    path = mem_format("%s/kept", h.folder);
    text_file_write(path, ""); /* a file where a folder should be */
    attempt(RUN_FAILED, "archive: cannot", NOTHING_GONE);
    mem_free(path);
}

SCENE_TEST(an_archive_may_be_anywhere)
{
    char folder[FOLDER_BYTES], *configuration, *path;

    test_folder(folder);
    configuration = mem_format(FLAT("settle: 0s\n    archive: %s"), folder);
    begin(configuration, NULL);
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
    path = mem_format("%s/job/r1/1-Blogs.jsonl", folder);
    assert_int_equal(access(path, R_OK), 0);
    mem_free(path);
    mem_free(configuration);
}

/* The parent is not marked, and no blog is deleted. */
SCENE_TEST(what_cannot_be_archived_is_not_deleted)
{
    static const char *const TABLES[] = {"Channels", "Blogs"};

    for (size_t i = 0; TEST_EACH(i, TABLES); i++) {
        char *command;

        begin(ARCHIVES, NULL);
        /* There is a folder where the archive's file should be. */
        command = mem_format(
            "mkdir -p %s/kept/job/r1/1-%s.jsonl", h.folder, TABLES[i]);
        assert_int_equal(system(command), 0);
        attempt(RUN_FAILED, "archive: cannot", NOTHING_GONE);
        mem_free(command);
    }
}

static void mark_parent(struct hosted *host)
{
    hosted_replace(host, "Channels", "News", "", "\"Z\":1," MARK("job/r1"));
}

/* The tombstone is written, but the response is lost: the parent is not
 * archived a second time, with the tombstone. */
SCENE_TEST(a_tombstone_without_a_response_is_known_by_its_name)
{
    char *path;

    begin(ARCHIVES, "\"Z\":1");
    answered(on_mark(1, 1), TW_UNKNOWN)->before = mark_parent;
    attempt(RUN_SUCCEEDED, "", ALL_GONE);
    path = mem_format("%s/kept/job/r1/1-Channels.jsonl", h.folder);
    text_file_check(
        path, "{\"PartitionKey\":\"News\",\"RowKey\":\"\",\"Z\":1}\n");
    mem_free(path);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

static void change_blog_without_room(struct hosted *host)
{
    change_blog(host);
    limit_files(64); /* the file of the archive is larger than this already */
}

/* If the current state of a changed blog cannot be archived, the blog is not
 * deleted. */
SCENE_TEST(what_changed_and_cannot_be_archived_again_stays)
{
    begin(ARCHIVES, NULL);
    script_batch(&s, "Blogs", OPERATION_DELETE, 1, 1)->before =
        change_blog_without_room;
    scene_attempt("job", "News", RUN_OUTAGE);
    limit_files(RLIM_INFINITY);
    scene_check("Channels News/; Blogs News/b00001");
    attempt(RUN_SUCCEEDED, "", "Channels; Blogs");
}

/* ---- arguments that are accepted ---- */

SCENE_TEST(keys_that_no_parent_can_have_are_told)
{
    static const char ROW_KEY[] =
        "job:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n"
        "    parent: {table: Channels, partition_key: all, row_key: "
        "\"{channel}\", tombstone: {Deleted: true}}\n"
        "    children: [" RULE("Blogs", BY_CHANNEL) "]\n";
    /* A value that is longer than any key is refused, not cut. */
    char long_text[ENTITY_MAX_KEY_BYTES + 2] = "";
    const struct {
        const char *configuration, *value, *key;
    } CASES[] = {{AT_ONCE, "a/b", "PartitionKey"},
        {AT_ONCE, "a\\b", "PartitionKey"}, {AT_ONCE, "a#b", "PartitionKey"},
        {AT_ONCE, "a?b", "PartitionKey"}, {AT_ONCE, "a\tb", "PartitionKey"},
        {AT_ONCE, "a\177b", "PartitionKey"},
        {AT_ONCE, long_text, "PartitionKey"}, {ROW_KEY, "a/b", "RowKey"},
        {ROW_KEY, long_text, "RowKey"}};

    memset(long_text, 'a', sizeof(long_text) - 1);
    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct slice name = slice_of("channel"),
                     value = slice_of(CASES[i].value);
        const struct run_args args = {1, &name, &value};
        struct job_estimate estimate;
        const struct job *job;

        begin_empty(CASES[i].configuration);
        job = &h.jobs.list[0];
        assert_int_equal(job->kind->accept(job, &args, &h.err), TW_INVALID);
        hosted_check_why(&h, "parent");
        hosted_check_why(&h, CASES[i].key);
        assert_int_equal(
            hosted_estimate(&h, "job", CASES[i].value, &estimate), TW_INVALID);
        arena_done(&estimate.arena);
        scene_attempt("job", CASES[i].value, RUN_FAILED);
    }
}
