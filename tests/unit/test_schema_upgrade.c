/* SPDX-License-Identifier: MIT */
/* The kind schema-upgrade on a store in memory: rounds, phases, the rows beside
 * the ledger, dry run, verify, and attempts that end anywhere. */
#include <string.h>

#include "jobs/copy/source.h"
#include "jobs/upgrade/applied.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/quotes.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define BLOGS "blogs:\n  kind: schema-upgrade\n  table: Blogs\n"
#define TOP BLOGS "  version: {property: V, absent: 1}\n"
#define VERSIONS                                                               \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - set: {property: Seen, type: Edm.Int32, value: 0}\n"                 \
    "    - rename: {property: Text, to: Body}\n"                               \
    "    - retype: {property: Rating, to: Edm.Double}\n"                       \
    "    - remove: {property: Legacy}\n"
#define WITH_VERSION(property) BLOGS "  version: " property "\n" VERSIONS
#define JOB TOP VERSIONS
#define NEXT "  - {to: 3, steps: [remove: {property: Seen}]}\n"

HOSTED_FIXTURE(JOB, "Blogs TablewardRuns")

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Makes a new run, in one attempt. */
static enum run_end run(const char *phase)
{
    hosted_forget(&h, phase ? phase : "r");
    h.kind_arg = phase;
    h.written = 0;
    return hosted_attempt(&h, "blogs", "");
}

static void fails_with(const char *phase, const char *part)
{
    assert_int_equal(run(phase), RUN_FAILED);
    if (!strstr(h.err.text, part))
        fail_msg("'%s' is not in '%s'", part, h.err.text);
}

#define AS_OLD "'Text':'t','Rating':3,'Legacy':true"
#define AS_NEW                                                                 \
    "{'Rating@odata.type':'Edm.Double','Rating':3.0,'Seen':0,'Body':'t','V':"  \
    "2}"

/* Inserts an entity in partition 'p'. JSON is written with single quotes. */
static void put(const char *row_key, const char *properties)
{
    hosted_put(&h, "Blogs", "p", row_key, quoted(&h.arena, properties));
}

/* Inserts `count` entities of the old release, with RowKeys "1", "2" and so
 * on. */
static void put_old(int count)
{
    for (int i = 1; i <= count; i++)
        put((char[]){(char)('0' + i), '\0'}, AS_OLD);
}

static void replace(const char *row_key, const char *properties)
{
    hosted_replace(&h, "Blogs", "p", row_key, quoted(&h.arena, properties));
}

static const char *json_of(const char *row_key)
{
    const char *json = hosted_json(&h, "Blogs", "p", row_key);

    assert_non_null(json);
    return json;
}

static void check(const char *row_key, const char *json)
{
    assert_string_equal(json_of(row_key), quoted(&h.arena, json));
}

static bool holds(const char *row_key, const char *part)
{
    return strstr(json_of(row_key), quoted(&h.arena, part)) != NULL;
}

/* ---- a run ---- */

FIXTURE_TEST(every_entity_comes_to_the_newest_version)
{
    put("1", AS_OLD);
    put("2", AS_OLD ",'V':1");
    put("3", "'Text':'other','V':7");
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    check("1", AS_NEW);
    assert_true(holds("2", "'V':2"));
    check("3", "{'Text':'other','V':7}");
    assert_int_equal(h.written, 2);
    assert_int_equal(h.passes, 2);
    assert_int_equal(h.behind, 0);
    assert_in_range(
        platform_wall_ticks() - h.caught_up_ticks, 0, 10 * TICKS_PER_S);
    assert_non_null(
        strstr(h.note, "1 entity is at a version that `versions:`"));
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
}

FIXTURE_TEST(a_missing_table_fails_the_run)
{
    hosted_load(&h, "blogs:\n"
                    "  kind: schema-upgrade\n"
                    "  table: Lost\n"
                    "  version: {property: V, absent: 1}\n"
                    "  versions: [{to: 2, steps: [remove: {property: A}]}]\n");
    fails_with(NULL, "Lost");
}

FIXTURE_TEST(what_cannot_be_converted_is_named_and_the_rest_is_done)
{
    put("1", AS_OLD);
    put("2", "'Rating':'none'");
    put("3", AS_OLD);
    fails_with(NULL, "1 entity cannot be brought");
    assert_int_equal(h.failed, 1);
    assert_string_equal(h.failed_step, "version 2, retype Rating");
    assert_non_null(strstr(h.failed_why, "Blogs p/2: version 2, retype"));
    check("2", "{'Rating':'none'}");
    check("3", AS_NEW);
    assert_int_equal(h.behind, 0); /* failed entities do not count (A2) */
    replace("2", "'Rating':'5'");
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_SUCCEEDED);
}

/* Index rows belong to the copy job that wrote them. */
FIXTURE_TEST(index_rows_are_skipped)
{
    struct exchange exchange = {.deadline = NULL};
    struct operation operation = {.type = OPERATION_INSERT};
    static struct batch_result result;
    const struct batch batch = {"Blogs", &operation, 1};
    struct source source = {.job = slice_of("by-size"),
        .by = slice_of("00000000"),
        .from = source_table_of(h.store, "Blogs"),
        .at = source_table_of(h.store, "Blogs"),
        .partition_key = slice_of("p"),
        .row_key = slice_of("1"),
        .etag = slice_of("e")};

    put("1", AS_OLD);
    entity_init(&operation.entity, &h.arena, slice_of("p"), slice_of("size:1"));
    entity_set_string(&operation.entity, &h.arena, "Text", slice_of("t"));
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(h.store, &exchange, &batch, &result));
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(h.written, 1);
    assert_true(holds("size:1", "'Text':'t'"));
    check("1", AS_NEW);
}

/* ---- beside writers ---- */

static int added;

static void add_another(struct hosted *hosted)
{
    put(arena_format(&h.arena, "0%04d", added++).at, AS_OLD);
}

static struct faulty faulty;
static void (*meddle)(void); /* called before the first batch */

static void meddle_now(void)
{
    void (*now)(void) = meddle;

    meddle = NULL;
    if (now)
        now();
}

static void before_batch(void *ctx, const struct batch *batch)
{
    if (strcmp(batch->table, "Blogs") == 0)
        meddle_now();
}

static void begin_faults(void)
{
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.before = before_batch;
}

static void end_faults(void)
{
    faulty_done(&faulty);
}

static void edit_one(void)
{
    replace("2", "'Text':'edited'");
    hosted_remove(&h, "Blogs", "p", "3");
    replace("4", "'Rating':'none'");
}

FIXTURE_TEST(what_changed_meanwhile_is_read_and_decided_again)
{
    put_old(5);
    begin_faults();
    meddle = edit_one;
    assert_int_equal(run(NULL), RUN_FAILED);
    check("1", AS_NEW);
    assert_true(holds("2", "'Body':'edited'"));
    assert_false(hosted_has(&h, "Blogs", "p", "3"));
    assert_true(holds("4", "none"));
    assert_int_equal(h.failed, 1);
    check("5", AS_NEW);
    end_faults();
}

FAULTY_CHOICE(lose_first_answer)
{
    return call == CALL_BATCH && n < 4 ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

FIXTURE_TEST(a_lost_answer_is_recognised_by_what_is_stored)
{
    put_old(2);
    begin_faults();
    faulty.choose = lose_first_answer;
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    check("1", AS_NEW);
    check("2", AS_NEW);
    assert_int_equal(h.written, 2);
    end_faults();
}

/* ---- following ---- */

#define FOLLOWING JOB "  follow: true\n"

FIXTURE_TEST(a_following_run_waits_between_rounds_until_finish)
{
    hosted_load(&h, FOLLOWING);
    put("1", AS_OLD);
    assert_int_equal(run(NULL), RUN_WAITING);
    assert_int_equal(h.waits_for, RUN_WAITS_FOR_ROUND);
    check("1", AS_NEW);
    put("2", AS_OLD);
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_WAITING);
    check("2", AS_NEW);
    put("3", AS_OLD);
    h.finish = RUN_FINISHING;
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_SUCCEEDED);
    check("3", AS_NEW);
    assert_int_equal(h.behind, 0);
    h.finish = RUN_NOT_FINISHING;
}

/* The service accepts a filter of at most 15 comparisons. The filter of the job
 * has 15, and later rounds also compare the Timestamp. */
FIXTURE_TEST(a_filter_of_fifteen_comparisons_follows_too)
{
    struct buf job;

    buf_init(&job, SIZE_MAX / 2);
    buf_add_text(&job, FOLLOWING "  filter: \"Kind eq 'a'");
    for (int i = 2; i <= FILTER_MAX_COMPARISONS; i++)
        buf_add_format(&job, " or Kind eq '%d'", i);
    buf_add_text(&job, "\"\n");
    hosted_load(&h, buf_text(&job));
    buf_done(&job);
    put("1", AS_OLD ",'Kind':'a'");
    assert_int_equal(run(NULL), RUN_WAITING);
    put("2", AS_OLD ",'Kind':'15'");
    put("3", AS_OLD ",'Kind':'16'");
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_WAITING);
    assert_true(holds("1", "'V':2"));
    assert_true(holds("2", "'V':2"));
    assert_false(holds("3", "'V':2"));
}

FIXTURE_TEST(a_run_ends_by_itself_if_its_job_does_not_follow_any_more)
{
    hosted_load(&h, FOLLOWING);
    put("1", AS_OLD);
    assert_int_equal(run(NULL), RUN_WAITING);
    put("2", AS_OLD);
    hosted_load(&h, JOB);
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_SUCCEEDED);
    check("2", AS_NEW);
}

/* ---- expand and contract ---- */

/* The old release edits an entity after the last round of expand. */
FIXTURE_TEST(an_edit_after_expand_survives_contract)
{
    put_old(3);
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    assert_true(holds("1", "'Text':'t'"));
    assert_true(holds("1", "'Body':'t'"));
    assert_true(holds("1", "'Legacy':true"));
    /* The old release replaces the whole entity, and so removes Body. */
    replace("1", "'Text':'replaced','Rating':4");
    replace("2", "'Text':'replaced','V':2,'Rating':4");
    assert_int_equal(run("contract"), RUN_SUCCEEDED);
    check("1", "{'Rating@odata.type':'Edm.Double','Rating':4.0,'Seen':0,"
               "'Body':'replaced','V':2}");
    check("2", "{'V':2,'Rating@odata.type':'Edm.Double','Rating':4.0,"
               "'Body':'replaced','Seen':0}");
    check("3", AS_NEW);
}

FIXTURE_TEST(a_difference_is_named_by_contract_and_stays)
{
    put_old(2);
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    replace("1", "'Text':'old','Body':'new','V':2");
    assert_int_equal(run("contract"), RUN_FAILED);
    assert_string_equal(h.failed_step, "version 2, rename Text");
    assert_true(holds("1", "'Text':'old'"));
    assert_true(holds("1", "'Body':'new'"));
    check("2", AS_NEW);
}

/* ---- rule U8: the digests of the steps ---- */

static unsigned steps_stored(void)
{
    const char *rows = hosted_dump(&h, "TablewardRuns");
    unsigned count = 0;

    for (; (rows = strstr(rows, APPLIED_PARTITION)); rows++)
        count++;
    return count;
}

FIXTURE_TEST(changed_steps_are_refused_once_they_were_applied)
{
    static const char CHANGED[] =
        TOP "  versions: [{to: 2, steps: [remove: {property: Text}]}]\n";

    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(steps_stored(), 0); /* no entity was written */
    assert_non_null(strstr(h.note, "nothing was selected"));
    put("1", AS_OLD);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(steps_stored(), 1);
    put("2", AS_OLD);
    hosted_load(&h, CHANGED);
    fails_with(NULL, "the steps of version 2 have changed");
    assert_non_null(strstr(h.err.text, "run blogs/r)"));
    assert_non_null(strstr(h.err.text, "into another version"));
    assert_true(holds("2", "Legacy"));
    hosted_load(&h, JOB NEXT);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(steps_stored(), 2);
    assert_true(holds("2", "'V':3"));
}

/* Without version 2 in the document, an entity at version 1 would be brought to
 * version 3 with its old properties, and an entity at version 2 would stay at
 * version 2. */
FIXTURE_TEST(a_version_that_was_applied_stays_in_the_document)
{
    put("1", AS_OLD);
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    put("2", AS_OLD);
    hosted_load(&h, TOP "  versions:\n" NEXT);
    fails_with(NULL, "does not contain version 2, whose");
    assert_non_null(
        strstr(h.err.text, "run blogs/expand): restore this version"));
    check("2", "{" AS_OLD "}");
    hosted_load(&h, JOB NEXT);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_true(holds("1", "'V':3"));
    assert_true(holds("2", "'V':3"));
    assert_true(holds("2", "'Body':'t'"));
}

/* A document may lack a version that was applied, in two cases. A worker with
 * an older configuration brings entities only to its own newest version. And a
 * document may begin above versions that no entity needs. */
FIXTURE_TEST(a_version_outside_of_the_document_may_have_been_applied)
{
    put("1", AS_OLD);
    hosted_load(&h, JOB NEXT);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    hosted_load(&h, JOB);
    put("2", AS_OLD);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    check("2", AS_NEW);
    hosted_load(&h,
        BLOGS "  version: {property: V, absent: 3}\n"
              "  versions: [{to: 4, steps: [remove: {property: Seen}]}]\n");
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_true(holds("1", "'V':4"));
}

/* With another version property every entity would seem to be at version
 * `absent`, and the steps would be carried out again: Seen would become 0
 * again. */
FIXTURE_TEST(another_version_property_is_refused_once_steps_were_applied)
{
    static const char *const OTHERS[] = {
        WITH_VERSION("{property: Version, absent: 1}"),
        WITH_VERSION("{property: V, absent: 0}")};

    put("1", AS_OLD);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    replace("1", "'Seen':7,'V':2");
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++) {
        hosted_load(&h, OTHERS[i]);
        put(i == 0 ? "2" : "3", AS_OLD);
        fails_with(NULL, "restore `version: {property: V, absent: 1}`");
        assert_true(holds("1", "'Seen':7"));
    }
}

FIXTURE_TEST(what_happens_to_failing_values_may_change)
{
    put("1", AS_OLD);
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    hosted_load(&h,
        TOP "  on_difference: new\n"
            "  versions:\n"
            "  - to: 2\n"
            "    steps:\n"
            "    - set: {property: Seen, type: Edm.Int32, value: 0}\n"
            "    - rename: {property: Text, to: Body}\n"
            "    - retype: {property: Rating, to: Edm.Double, on_error: skip,\n"
            "        lossy: true}\n"
            "    - remove: {property: Legacy}\n");
    put("2", "'Rating':'none'");
    assert_int_equal(run(NULL), RUN_SUCCEEDED);
    assert_int_equal(h.skipped, 1);
    assert_true(holds("2", "none"));
}

FIXTURE_TEST(contract_is_refused_while_expand_is_behind)
{
    added = 0;
    put("1", AS_OLD);
    h.between = add_another;
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    h.between = NULL;
    assert_true(h.behind > 0);
    fails_with("contract", "(Behind)");
    assert_true(holds("1", "Text"));
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    assert_int_equal(h.behind, 0);
    assert_int_equal(run("contract"), RUN_SUCCEEDED);
    check("1", AS_NEW);
}

FIXTURE_TEST(contract_is_refused_while_an_expand_has_not_ended)
{
    put("1", AS_OLD);
    hosted_forget(&h, "e");
    h.kind_arg = "expand";
    h.stop_after = 1;
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_STOPPED);
    h.stop_after = -1;
    fails_with("contract", "run blogs/e (phase=expand) has not ended");
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    assert_int_equal(run("contract"), RUN_SUCCEEDED);
    check("1", AS_NEW);
}

/* ---- attempts that end anywhere ---- */

FIXTURE_TEST(an_attempt_stopped_anywhere_is_continued)
{
    for (int i = 0; i < 2500; i++)
        put(arena_format(&h.arena, "%05d", i).at,
            i == 7 ? "'Rating':'none'" : AS_OLD);
    hosted_forget(&h, "s");
    h.kind_arg = NULL;
    for (int64_t after = 0; after < 6; after++) {
        h.stop_after = after;
        assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_STOPPED);
    }
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "blogs", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    check("00000", AS_NEW);
    check("02499", AS_NEW);
    assert_int_equal(hosted_count(&h, "Blogs"), 2500);
}

/* ---- the dry run ---- */

#define TWO_VERSIONS                                                           \
    TOP "  versions:\n"                                                        \
        "  - {to: 2, steps: [rename: {property: Text, to: Body}]}\n"           \
        "  - to: 3\n"                                                          \
        "    steps:\n"                                                         \
        "    - retype: {property: Rating, to: Edm.Int32}\n"                    \
        "    - remove: {property: Legacy}\n"

FIXTURE_TEST(a_dry_run_says_what_each_step_would_change)
{
    static const char *const PARTS[] = {"phase all:\n",
        "version 2, rename Text: changes 1\n",
        "version 3, retype Rating: changes 2\n",
        "version 3, remove Legacy: changes 1\n",
        "`versions:` does not contain, unchanged: 1\n",
        "removed or retyped, unchanged: 1\n",
        "would fail: 1\n  'p' / '3': version 3, retype Rating: ",
        "(absent): 2"};
    struct job_estimate estimate;

    hosted_load(&h, TWO_VERSIONS);
    put("1", "'Text':'a','Rating':'5','Legacy':1");
    put("2", "'V':2,'Rating':'6'");
    put("3", "'Rating':'none','Text':'a'");
    put("4", "'V':9");
    put("5", "'V':3,'Text':'left'");
    put("6", "'V':3,'Rating':6");
    assert_ok(hosted_estimate(&h, "blogs", "", &estimate));
    assert_int_equal(estimate.tables[0].entities, 2);
    assert_int_equal(estimate.tables[0].batches, 1);
    assert_int_equal(estimate.transactions, 3);
    for (size_t i = 0; TEST_EACH(i, PARTS); i++)
        assert_non_null(strstr(estimate.details, PARTS[i]));
    arena_done(&estimate.arena);
    h.kind_arg = "expand";
    assert_ok(hosted_estimate(&h, "blogs", "", &estimate));
    assert_non_null(strstr(estimate.details, "phase expand:\n"));
    assert_int_equal(estimate.tables[0].entities, 2);
    arena_done(&estimate.arena);
    check("1", "{'Text':'a','Rating':'5','Legacy':1}");
}

/* ---- verify ---- */

/* Returns the number of differences whose description contains `what`. */
static int64_t differ(const char *phase, const char *what)
{
    h.kind_arg = phase;
    return hosted_differences(&h, "blogs", what);
}

#define ALL ""

/* Rule U9: `verify` compares the results of rename, retype and remove, not
 * those of add and set. */
FIXTURE_TEST(verify_compares_what_steps_make)
{
    hosted_load(&h, JOB NEXT);
    put("renamed", "'Text':'t','V':3");
    put("retyped", "'Rating':3,'V':3");
    put("removed", "'Seen':3,'V':3");
    put("added", "'Body':'b','V':3");
    assert_int_equal(differ("all", "that a run would change"), 1);
    assert_int_equal(
        differ("all", "a property that an older version removed or"), 2);
    hosted_load(&h, JOB);
    hosted_remove(&h, "Blogs", "p", "removed");
    replace("renamed", "'Text':'t','V':2");
    replace("retyped", "'Rating':3,'V':2");
    replace("added", "'Seen':9,'V':2");
    put("legacy", "'Legacy':3,'V':2");
    put("refused", "'Rating':'none','V':2");
    assert_int_equal(differ("all", "that a run would change"), 3);
    assert_int_equal(differ("all", "a step fails"), 1);
    assert_int_equal(differ("all", ALL), 4);
}

FIXTURE_TEST(verify_knows_the_phase)
{
    put("1", AS_OLD);
    assert_int_equal(run("expand"), RUN_SUCCEEDED);
    assert_int_equal(differ("expand", ALL), 0);
    assert_int_equal(differ("contract", "that a run would change"), 1);
    assert_int_equal(run("contract"), RUN_SUCCEEDED);
    assert_int_equal(differ("contract", ALL), 0);
}

FAULTY_CHOICE(repair_before_second_reading)
{
    if (call == CALL_SCAN && n == 1)
        meddle_now();
    return FAULT_NONE;
}

static struct store *inner;

/* Writes as another program: repairs one entity, and inserts another one that
 * differs. */
static void repair(void)
{
    struct store *outer = h.store;

    h.store = inner;
    put("3", AS_OLD);
    replace("1", "'Body':'t','V':2");
    h.store = outer;
}

FIXTURE_TEST(verify_reports_what_a_second_reading_confirms)
{
    struct job_verification found;

    put_old(2);
    inner = h.store;
    begin_faults();
    meddle = repair;
    faulty.choose = repair_before_second_reading;
    h.kind_arg = "all";
    assert_ok(hosted_verify(&h, "blogs", "", &found));
    assert_non_null(strstr(found.differences[0].what, "below"));
    assert_string_equal(found.differences[0].first_keys[0], "Blogs 'p' / '2'");
    assert_int_equal(found.read, 2);
    for (size_t i = 0; i < found.count; i++)
        assert_int_equal(found.differences[i].count, i == 0);
    arena_done(&found.arena);
    end_faults();
}
