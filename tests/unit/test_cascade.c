/* SPDX-License-Identifier: MIT */
/* Goal: after a cascade the parent and all entities under it are deleted, and
 * no others, no matter how often the run was stopped and continued. */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/cascade_job.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"

static const char FLAT[] =
    CASCADE_JOB("flat", "settle: 0s", RULE("Blogs", BY_CHANNEL));

static const char NESTED[] = CASCADE_JOB("nested", "settle: 200ms",
    RULES(
        RULE_WITH("Blogs", BY_CHANNEL,
            RULE_WITH("Comments", BY_PREFIX ", filter: \"Blog eq '{RowKey}'\"",
                RULE("Likes",
                    IN_PARTITION ", filter: \"Comment eq '{RowKey}'\""))),
        RULE(
            "ByMonth", "partition_key_prefix: \"{channel}_\", " WITH_CHANNEL)));

static void flat_tables(struct hosted *h)
{
    hosted_restart(h, FLAT, "Channels Blogs");
}

static void nested_tables(struct hosted *h)
{
    hosted_restart(h, NESTED, "Channels Blogs Comments Likes ByMonth");
}

HOSTED_TEST(deletes_every_blog_whatever_their_number)
{
    static const unsigned COUNTS[] = {0, 1, 99, 100, 101, 1000, 1001, 2500};

    for (size_t i = 0; TEST_EACH(i, COUNTS); i++) {
        flat_tables(h);
        hosted_rows(h, "Channels Foot/ Football/; Blogs Football/1 Football/2");
        hosted_fill(h, "Blogs", "Foot", COUNTS[i]);
        hosted_succeeds(h, "flat", "Foot",
            "Channels Football/; Blogs Football/1 Football/2");
        assert_int_equal(h->deleted, COUNTS[i] + 1);
    }
}

/* Puts entities under News. No rule finds the comment of blog 3, because that
 * blog does not exist: the comment stays. */
static void puts_grandchildren(struct hosted *h)
{
    hosted_rows(h, "Channels News/; Blogs News/1 News/1_1 News/2; "
                   "Comments News/1_a(Blog=1) News/1_1_a(Blog=1_1) "
                   "News/3_a(Blog=3); "
                   "Likes News/x(Comment=1_a) News/y(Comment=3_a)");
}

HOSTED_TEST(deletes_grandchildren_and_nobody_elses)
{
    nested_tables(h);
    puts_grandchildren(h);
    hosted_rows(h, "Channels Sport/; Blogs Sport/1 Sport/1_1; "
                   "Comments Sport/1_a(Blog=1) Sport/1_1_a(Blog=1_1); "
                   "Likes Sport/x(Comment=1_a)");
    hosted_succeeds(h, "nested", "News",
        "Channels Sport/; Blogs Sport/1 Sport/1_1; "
        "Comments News/3_a Sport/1_1_a Sport/1_a; Likes News/y Sport/x");
}

HOSTED_TEST(finds_grandchildren_that_came_before_the_last_settle_pass)
{
    nested_tables(h);
    puts_grandchildren(h);
    hosted_waits(
        h, "nested", "News", "Blogs News/1 News/1_1 News/2; Likes News/y");
    hosted_rows(
        h, "Comments News/2_late(Blog=2); Likes News/late(Comment=2_late)");
    hosted_succeeds(h, "nested", "News",
        "Channels; Blogs; Comments News/3_a; Likes News/y");
}

/* Makes an attempt that marks the channel News, which has one blog, and then
 * waits to settle. */
static void settle_nested(struct hosted *h)
{
    nested_tables(h);
    hosted_rows(h, "Channels News/(Name=n); Blogs News/1");
    hosted_waits(h, "nested", "News", "Channels News/");
}

HOSTED_TEST(parent_and_children_may_share_a_table)
{
    static const char ONE[] =
        "one:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n"
        "    parent: {table: All, partition_key: \"{channel}\", row_key: "
        "\"{channel}\", tombstone: {Gone: 1}}\n"
        "    settle: 0s\n"
        "    children: [" RULE("All", BY_CHANNEL) "]\n";

    hosted_begin(h, ONE, "All");
    hosted_rows(h, "All a/a ab/a");
    hosted_fill(h, "All", "a", 150);
    hosted_succeeds(h, "one", "a", "All ab/a");
}

HOSTED_TEST(gives_way_to_a_parent_made_anew_meanwhile)
{
    settle_nested(h);
    hosted_remove(h, "Channels", "News", "");
    hosted_put(h, "Channels", "News", "", "\"New\":true");
    hosted_succeeds(h, "nested", "News", "Channels News/; Blogs News/1");
}

/* A parent that is restored as README says keeps the TablewardRun of the former
 * run. A later run with the same id must not take that for its own
 * tombstone. */
HOSTED_TEST(the_name_of_an_earlier_run_does_not_keep_a_parent)
{
    nested_tables(h);
    hosted_put(
        h, "Channels", "News", "", "\"Deleted\":false," OWNED_BY("nested/r1"));
    hosted_succeeds(h, "nested", "News", "Channels");
}

/* A move of the parents' table moves the parent away during the settle time.
 * The run used to end as if it had deleted the parent. */
HOSTED_TEST(a_parent_that_was_removed_meanwhile_is_noted)
{
    settle_nested(h);
    hosted_remove(h, "Channels", "News", "");
    hosted_succeeds(h, "nested", "News", "Channels; Blogs");
    assert_string_equal(h->note,
        "the parent 'News' / '' in Channels was removed by another writer "
        "before this run deleted it: if it was moved to another table, it has "
        "this run's tombstone there, and no run deletes it\n");
    assert_int_equal(h->deleted, 1); /* only the blog */
}

/* ---- resumed in the last phase ---- */

/* Begins an attempt in the last phase: all children are deleted. parent:
 * properties of the parent; NULL: it does not exist. */
static void begin_last_phase(struct hosted *h, const char *parent)
{
    flat_tables(h);
    if (parent)
        hosted_put(h, "Channels", "News", "", parent);
    h->phase = mem_format("parent");
}

/* An earlier attempt may have deleted the parent itself. */
HOSTED_TEST(an_absent_parent_in_the_last_phase_is_not_noted)
{
    begin_last_phase(h, NULL);
    hosted_succeeds(h, "flat", "News", "Channels");
    assert_string_equal(h->note, "");
}

HOSTED_TEST(resumed_in_the_last_phase_spares_the_name_in_new_use)
{
    begin_last_phase(h, "\"New\":true");
    hosted_fill(h, "Blogs", "News", 3);
    hosted_succeeds(h, "flat", "News", "Channels News/; Blogs 3");
}

/* The job's tombstone was edited between two attempts. The run used to succeed,
 * and the parent with the old tombstone stayed for ever. */
HOSTED_TEST(resumed_in_the_last_phase_it_knows_its_own_name)
{
    begin_last_phase(h, "\"Gone\":true," OWNED_BY("flat/r1"));
    hosted_fails(h, "flat", "News", "", "Channels News/");
    assert_string_equal(h->err.text,
        "the parent in Channels is still the one that this run marked "
        "(TablewardRun names this run), but it no longer has the tombstone "
        "that the job defines: nothing more was deleted. To delete the parent, "
        "merge the tombstone's properties into it, or restore the former "
        "tombstone in the job, then retry. To keep the parent, leave this run "
        "failed");
    hosted_replace(h, "Channels", "News", "", MARK("flat/r1"));
    hosted_succeeds(h, "flat", "News", "Channels");
    hosted_put(h, "Channels", "News", "", "\"Gone\":true," OWNED_BY("flat/r2"));
    hosted_succeeds(h, "flat", "News", "Channels News/");
}

/* While the parent had no tombstone, writers may have added children. */
HOSTED_TEST(a_parent_that_is_marked_again_is_searched_for_children_again)
{
    begin_last_phase(h, "\"Deleted\":false," OWNED_BY("flat/r1"));
    hosted_fails(h, "flat", "News", "", "Channels News/");
    hosted_fill(h, "Blogs", "News", 3);
    hosted_replace(h, "Channels", "News", "", MARK("flat/r1"));
    hosted_succeeds(h, "flat", "News", "Channels; Blogs");
}

/* ---- runs that fail ---- */

#define LIMITED(limit, rules)                                                  \
    CASCADE_JOB("limited", "settle: 0s\n    refuse_above: " limit, rules)

/* Does a dry run say that the run would be refused, with the same text `why` as
 * the run? */
static bool estimate_refuses(struct hosted *h, const char *why)
{
    struct job_estimate estimate;
    bool refuses;

    assert_ok(hosted_estimate(h, "limited", "News", &estimate));
    refuses = estimate.refused != NULL;
    if (refuses)
        assert_string_equal(estimate.refused, why);
    arena_done(&estimate.arena);
    return refuses;
}

/* Entities with children were once counted without a check of the limit: if the
 * walk ended with such an entity, the limit could be exceeded. */
HOSTED_TEST(refuses_more_than_allowed_before_writing_anything)
{
    /* The partition has `count` entities, one more than is allowed. */
    static const struct {
        const char *what, *job, *above, *table, *partition_key;
        unsigned count;
        const char *why;
    } CASES[] = {
        {"leaves", LIMITED("10", RULE("Blogs", BY_CHANNEL)), "", "Blogs",
            "News", 11, "more than 10"},
        {"0: only a parent without children",
            LIMITED("0", RULE("Blogs", BY_CHANNEL)), "", "Blogs", "News", 1,
            "more than 0"},
        {"entities with children count too",
            LIMITED("5",
                RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_ROW_KEY))),
            "Blogs News/b", "Comments", "b", 5, "more than 5"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        test_case("%s", CASES[i].what);
        hosted_restart(h, CASES[i].job, "Channels Blogs Comments");
        hosted_rows(h, "Channels News/");
        hosted_rows(h, CASES[i].above);
        hosted_fill(h, CASES[i].table, CASES[i].partition_key, CASES[i].count);
        hosted_fails(h, "limited", "News", CASES[i].why, CASES[i].above);
        assert_true(estimate_refuses(h, h->err.text));
        assert_int_equal(hosted_count(h, CASES[i].table), CASES[i].count);
        assert_string_equal(hosted_json(h, "Channels", "News", ""), "{}");
        hosted_remove(h, CASES[i].table, CASES[i].partition_key, "b00000");
        assert_false(estimate_refuses(h, ""));
        hosted_succeeds(h, "limited", "News", "Channels; Blogs; Comments");
    }
}

HOSTED_TEST(prefix_that_renders_empty_fails_the_run)
{
    static const char PREFIX[] =
        "prefix:\n"
        "    kind: cascade-delete\n"
        "    args: [{channel: {allow_empty: true}}]\n"
        "    parent: {table: Channels, partition_key: \"p{channel}\", "
        "row_key: \"\", tombstone: {Deleted: true}}\n"
        "    settle: 0s\n"
        "    children:\n"
        "      - {table: Blogs, partition_key_prefix: \"{channel}\"}\n";

    hosted_begin(h, PREFIX, "Channels Blogs");
    hosted_fill(h, "Blogs", "News", 3);
    hosted_fails(h, "prefix", "", "empty", "Blogs 3");
}

HOSTED_TEST(entity_without_a_needed_property_is_told_and_kept)
{
    static const char NEEDS[] = CASCADE_JOB("needs",
        "settle: 0s\n"
        "    refuse_above: 100", /* the walk of the count reports the blog, then
                                    the pass reports it again */
        RULE_WITH("Blogs", BY_CHANNEL,
            RULE("Comments", "partition_key: \"{Thread}\"")));

    hosted_begin(h, NEEDS, "Channels Blogs Comments");
    hosted_rows(
        h, "Channels News/; Blogs News/bad News/good(Thread=t); Comments t/1");
    hosted_fails(h, "needs", "News", "", "Channels News/; Blogs 2; Comments");
    assert_true(hosted_has(h, "Blogs", "News", "bad"));
    assert_non_null(strstr(h->failed_why, "Blogs News/bad"));
    assert_non_null(strstr(h->failed_why, "Thread"));
    assert_int_equal(h->failed, 1);
}

HOSTED_TEST(checkpoint_that_is_not_ours_starts_over)
{
    nested_tables(h);
    puts_grandchildren(h);
    h->checkpoint =
        mem_format("{\"version\":1,\"path\":[{\"rule\":99,\"found\":true}]}");
    hosted_succeeds(h, "nested", "News", "Blogs");
}

/* ---- the archive ---- */

static const char ARCHIVED[] =
    CASCADE_JOB("archived", "settle: 0s\n    archive: kept",
        RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_ROW_KEY)));

static void archived_tables(struct hosted *h)
{
    hosted_begin(h, ARCHIVED, "Channels Blogs Comments");
}

/* Fails unless the archive files that the shell pattern `files` names
 * (JOB/RUN/...) have the text `wanted`, one after another. */
static void expect_archived(
    struct hosted *h, const char *files, const char *wanted)
{
    char *command = mem_format("cd %s/kept && cat %s", h->folder, files);
    FILE *pipe = popen(command, "r");
    char text[1024];

    assert_non_null(pipe);
    text[fread(text, 1, sizeof(text) - 1, pipe)] = '\0';
    assert_string_equal(text, wanted);
    pclose(pipe);
    mem_free(command);
}

HOSTED_TEST(archive_holds_every_entity_that_was_deleted)
{
    archived_tables(h);
    hosted_rows(h, "Channels News/(Name=n); Blogs News/1(Text=t)");
    hosted_put(h, "Comments", "1", "c", "\"N\":7");
    hosted_succeeds(h, "archived", "News", "Channels; Blogs; Comments");
    expect_archived(h, "archived/r1/*",
        "{\"PartitionKey\":\"News\",\"RowKey\":\"1\",\"Text\":\"t\"}\n"
        "{\"PartitionKey\":\"News\",\"RowKey\":\"\",\"Name\":\"n\"}\n"
        "{\"PartitionKey\":\"1\",\"RowKey\":\"c\",\"N\":7}\n");
}

/* TablewardRun is not archived: after an import the parent must not belong to
 * the other run. A parent that has only a tombstone is not archived. The
 * tombstone of another job is archived, because it looks like any other
 * properties. */
HOSTED_TEST(a_parent_that_is_taken_over_is_archived_as_nobody_s)
{
    static const struct {
        const char *properties, *run, *files, *archived;
    } CASES[] = {
        {MARK("archived/other") ",\"Z\":1", "r1", "archived/r1/*Channels*",
            "{\"PartitionKey\":\"News\",\"RowKey\":\"\",\"Deleted\":true,"
            "\"Z\":1}\n"},
        {MARK("archived/other"), "r2", "archived/r2/*", ""},
        {"\"State\":\"gone\"," OWNED_BY("quick/other"), "r3",
            "archived/r3/*Channels*",
            "{\"PartitionKey\":\"News\",\"RowKey\":\"\",\"State\":\"gone\"}\n"},
    };

    archived_tables(h);
    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        hosted_forget(h, CASES[i].run);
        hosted_put(h, "Channels", "News", "", CASES[i].properties);
        hosted_succeeds(h, "archived", "News", "Channels");
        expect_archived(h, CASES[i].files, CASES[i].archived);
    }
}

/* ---- a tombstone that an earlier run with this id has left ---- */

static const char GUARDED[] = CASCADE_JOB("guarded",
    "settle: 200ms\n    refuse_above: 3\n    archive: kept",
    RULE("Blogs", BY_CHANNEL));

static void expect_parent_archived(struct hosted *h, const char *properties)
{
    char *line = mem_format(
        "{\"PartitionKey\":\"News\",\"RowKey\":\"\",%s}\n", properties);

    expect_archived(h, "guarded/r1/*Channels*", line);
    mem_free(line);
}

/* Stores the phase, and reports an outage. */
static enum tw_err crash_in_phase(struct hosted *h, bool *ret_stored)
{
    h->phasing = NULL;
    *ret_stored = true;
    return TW_BUSY;
}

/* The tombstone of an earlier run with this id used to count as that of this
 * run: the entities were not counted, and the parent was deleted without having
 * been archived. Even after a retry, the tombstone is this run's only if an
 * attempt of this run has written it. */
HOSTED_TEST(a_tombstone_of_an_earlier_run_with_this_id_is_not_ours)
{
    hosted_begin(h, GUARDED, "Channels Blogs");
    hosted_put(h, "Channels", "News", "", MARK("guarded/r1") ",\"Z\":1");
    hosted_fill(h, "Blogs", "News", 4);
    for (int i = 0; i < 3; i++)
        hosted_fails(h, "guarded", "News", "more than 3", "Blogs 4");
    hosted_remove(h, "Blogs", "News", "b00000");
    hosted_succeeds(h, "guarded", "News", "Channels");
    expect_parent_archived(h, "\"Deleted\":true,\"Z\":1");
}

HOSTED_TEST(a_newer_parent_that_an_earlier_run_with_this_id_marked_is_left)
{
    flat_tables(h);
    cascade_put_created(h, 1, MARK("flat/r1"));
    h->other_open = true; /* is_open() is true for this run itself, too */
    hosted_succeeds(h, "flat", "News", "Channels News/");
    hosted_check_note(h, "was created after the request");
}

/* Makes an attempt of the guarded job that archives and marks the parent, and
 * then waits. */
static void settle_guarded(struct hosted *h, const char *job)
{
    hosted_begin(h, job, "Channels Blogs");
    hosted_put(h, "Channels", "News", "", "\"Z\":1");
    hosted_waits(h, "guarded", "News", "Channels News/");
}

/* A run that has written its tombstone does not count the entities for
 * refuse_above again, even if its checkpoint was dropped because the job's
 * definition has changed. */
HOSTED_TEST(a_tombstone_that_this_run_has_written_is_its_own)
{
    settle_guarded(h, GUARDED);
    hosted_fill(h, "Blogs", "News", 4);
    hosted_lose_checkpoint(h);
    hosted_succeeds(h, "guarded", "News", "Channels");
}

/* The attempt crashed after it had archived the parent, and perhaps after it
 * had written the tombstone. If the archive has several lines of the parent,
 * the last one counts, so the parent must not be archived again with its
 * tombstone. */
HOSTED_TEST(a_parent_that_an_earlier_attempt_archived_is_not_archived_again)
{
    hosted_begin(h, GUARDED, "Channels Blogs");
    hosted_put(h, "Channels", "News", "", "\"Z\":1");
    h->phasing = crash_in_phase;
    assert_int_equal(hosted_attempt(h, "guarded", "News"), RUN_OUTAGE);
    assert_string_equal(h->phase, "tombstone");
    assert_string_equal(hosted_json(h, "Channels", "News", ""), "{\"Z\":1}");
    hosted_replace(h, "Channels", "News", "", MARK("guarded/r1") ",\"Z\":1");
    h->previous_owner_crashed = true;
    hosted_succeeds(h, "guarded", "News", "Channels");
    expect_parent_archived(h, "\"Z\":1");
}

/* The job got its archive after the tombstone was written. */
HOSTED_TEST(no_parent_is_deleted_before_it_is_archived)
{
    char *without = mem_text(GUARDED, strlen(GUARDED));

    memcpy(strstr(without, "archive:"), "#", 1);
    settle_guarded(h, without);
    hosted_load(h, GUARDED);
    hosted_succeeds(h, "guarded", "News", "Channels");
    expect_parent_archived(h, "\"Z\":1,\"Deleted\":true");
    mem_free(without);
}

/* ---- errors of former versions ---- */

#define THREADS                                                                \
    RULE_WITH(                                                                 \
        "Blogs", WITH_CHANNEL, RULE("Likes", "partition_key: \"{Thread}\""))

static const char CROSSED[] = CASCADE_JOB("crossed", "settle: 0s",
    RULES(
        RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_ROW_KEY)), THREADS));

static void put_threads(struct hosted *h, int count)
{
    for (int i = 0; i < count; i++) {
        char *row =
            mem_format("Blogs News/%04d(Channel=News,Thread=t%04d)", i, i);

        hosted_rows(h, row);
        mem_free(row);
    }
}

/* Both rules for Blogs have rules below them. The first rule used to delete a
 * blog under which it had found nothing. Then the last settle pass could no
 * longer find the children that the second rule finds under this blog. */
HOSTED_TEST(child_by_the_second_rule_of_a_blog_is_found)
{
    static const struct {
        const char *rows, *left;
    } CASES[] = {
        {"Comments 0000/late another/late", "Comments another/late"},
        {"Likes t0000/late another/late", "Likes another/late"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        hosted_restart(h, CROSSED, "Channels Blogs Comments Likes");
        hosted_rows(h, "Channels News/");
        put_threads(h, 1100); /* more than one page of threads */
        hosted_rows(h, CASES[i].rows);
        hosted_succeeds(h, "crossed", "News", "Channels; Blogs");
        hosted_check(h, CASES[i].left);
    }
}

/* The scan of the leaf rule once did not read the property that the filter of
 * the other rule reads, so the blog was deleted at once as a leaf. */
HOSTED_TEST(blog_that_another_rule_finds_by_a_filter_is_no_leaf)
{
    static const char MIXED[] = CASCADE_JOB(
        "mixed", "settle: 200ms", RULES(RULE("Blogs", BY_CHANNEL), THREADS));

    hosted_begin(h, MIXED, "Channels Blogs Likes");
    hosted_rows(h, "Channels News/; "
                   "Blogs News/b(Channel=News,Thread=t) News/leaf");
    hosted_waits(h, "mixed", "News", "Blogs News/b");
    hosted_rows(h, "Likes t/late");
    hosted_succeeds(h, "mixed", "News", "Likes; Blogs");
}

#define FILES RULE("Files", BY_ROW_KEY)

/* Each entity is under another one, in a circle. The run used to repeat its
 * passes for ever. */
HOSTED_TEST(entities_under_one_another_in_a_circle_fail_the_run)
{
    static const char FOLDERS[] = CASCADE_JOB("folders", "settle: 0s",
        RULE_WITH("Folders", BY_CHANNEL,
            RULES(FILES,
                RULE_WITH("Folders",
                    IN_PARTITION ", filter: \"In eq '{RowKey}'\"", FILES))));

    hosted_begin(h, FOLDERS, "Channels Files Folders");
    hosted_rows(h, "Channels News/; Folders News/a(In=c) News/b(In=a) "
                   "News/c(In=b) News/d(In=no) News/e(In=d)");
    hosted_fails(h, "folders", "News", " of Folders). The parent stays",
        "Channels News/; Folders News/a News/b News/c");
    hosted_check_why(h, "form a cycle");
    hosted_remove(h, "Folders", "News", "b");
    hosted_succeeds(h, "folders", "News", "Channels; Folders");
}

/* ---- before a run ---- */

HOSTED_TEST(estimate_counts_and_writes_nothing)
{
    static const struct {
        const char *table;
        int64_t entities;
    } WANTED[] = {{"Blogs", 3}, {"Comments", 2}, {"Likes", 1}, {"ByMonth", 0}};
    struct job_estimate estimate;

    nested_tables(h);
    puts_grandchildren(h);
    assert_ok(hosted_estimate(h, "nested", "News", &estimate));
    assert_int_equal(estimate.table_count, 4);
    for (size_t i = 0; TEST_EACH(i, WANTED); i++) {
        assert_string_equal(estimate.tables[i].table, WANTED[i].table);
        assert_int_equal(estimate.tables[i].entities, WANTED[i].entities);
    }
    assert_int_equal(estimate.tables[0].batches, 1);
    assert_string_equal(estimate.tables[0].first_keys[0], "News/1");
    assert_null(estimate.note);
    arena_done(&estimate.arena);
    assert_ok(hosted_estimate(h, "nested", "Nobody", &estimate));
    assert_non_null(strstr(estimate.note, "does not exist"));
    arena_done(&estimate.arena);
    hosted_check(h, "Channels News/; Blogs 3");
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
