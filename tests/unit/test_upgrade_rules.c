/* SPDX-License-Identifier: MIT */
/* The configuration of a schema-upgrade job: what is read, what is refused and
 * where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/explain.h"
#include "jobs/upgrade/rules.h"
#include "tests/support/fixture.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The steps begin in line 7. */
#define TOP                                                                    \
    "up:\n"                                                                    \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"
#define VERSION "  version: {property: V, absent: 1}\n"
#define VERSIONS                                                               \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"
#define HEAD TOP VERSION VERSIONS
#define STEP "    - remove: {property: Old}\n"
#define OTHER_STEP "    - remove: {property: Other}\n"
#define SECOND                                                                 \
    "  - to: 3\n"                                                              \
    "    steps:\n"

static const struct upgrade *good(struct loading *l, const char *text)
{
    loading_good(l, text);
    return l->jobs.list[0].settings;
}

static void refused(const char *text, const char *sentence)
{
    struct loading l = {.names = {NULL}};

    loading_begin(&l, text);
    if (l.problems.errors == 0 || !loading_says(&l, sentence)) {
        problems_print(&l.problems, stderr);
        fail_msg("wanted '%s' of\n%s", sentence, text);
    }
    loading_done(&l);
}

struct refusal {
    const char *text, *sentence;
};

static void all_refused(const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refused(list[i].text, list[i].sentence);
}

/* ---- the job ---- */

LOADING_TEST(what_is_left_out_has_its_default)
{
    const struct upgrade *upgrade = good(l, HEAD STEP);

    assert_string_equal(upgrade->table_ref.table, "Blogs");
    assert_true(selector_is_empty(&upgrade->selector));
    assert_int_equal(upgrade->on_difference, UPGRADE_DIFFERENCE_FAILS);
    assert_false(upgrade->follow);
    assert_int_equal(upgrade->absent, 1);
    assert_int_equal(upgrade->version_count, 1);
    assert_int_equal(upgrade->versions[0].number, 2);
    assert_int_equal(upgrade->versions[0].step_count, 1);
}

LOADING_TEST(every_key_of_a_job_is_read)
{
    const struct upgrade *upgrade =
        good(l, TOP "  args: [type]\n"
                    "  filter: \"EntityType eq '{type}'\"\n"
                    "  version: {property: V, absent: -3}\n"
                    "  on_difference: old\n"
                    "  follow: true\n"
                    "  versions:\n"
                    "  - {to: -2, steps: [remove: {property: A}]}\n"
                    "  - {to: 5000000000, steps: [remove: {property: B}]}\n");

    check_text(template_source(upgrade->selector.filter),
        slice_of("EntityType eq '{type}'"));
    assert_int_equal(upgrade->on_difference, UPGRADE_DIFFERENCE_OLD);
    assert_true(upgrade->follow);
    assert_int_equal(upgrade->absent, -3);
    assert_int_equal(upgrade->versions[0].number, -2);
    assert_true(upgrade->versions[1].number == INT64_C(5000000000));
    assert_int_equal(l->jobs.list[0].arg_count, 2);
    assert_true(slice_is(l->jobs.list[0].args[1].name, "phase"));
}

TEST(a_job_that_is_wrong_is_refused)
{
    static const struct refusal BAD[] = {
        {"up:\n  kind: schema-upgrade\n  table: Blogs\n" VERSIONS STEP,
            "version"},
        {TOP VERSION, "versions"},
        {TOP VERSION "  versions: []\n", "versions must be a list of 1 to 256"},
        {TOP VERSION "  versions: [{to: 2}]\n", "steps"},
        {TOP VERSION "  versions: [{to: 2, steps: []}]\n",
            "steps must be a list of 1 to 64"},
        {TOP VERSION
            "  versions: [{to: two, steps: [remove: {property: A}]}]\n",
            "to must be"},
        {HEAD STEP "  - {to: 2, steps: [remove: {property: B}]}\n",
            "2 is not above 2"},
        {HEAD STEP "  - {to: 1, steps: [remove: {property: B}]}\n",
            "1 is not above 2"},
        {TOP "  version: {property: V}\n" VERSIONS STEP, "absent"},
        {TOP "  version: {property: V, absent: 3}\n" VERSIONS STEP,
            "absent is above the newest version, 2"},
        {TOP "  version: {property: V, absent: 1, from: 1}\n" VERSIONS STEP,
            "'from' is a former key"},
        {TOP "  version: {property: RowKey, absent: 1}\n" VERSIONS STEP,
            "RowKey cannot be changed"},
        {HEAD STEP "  on_difference: newest\n", "on_difference"},
        {HEAD STEP "  phase: expand\n", "phase=expand"},
        {HEAD STEP "  steps: []\n", "versions: [{to: 2"},
        {HEAD STEP "  filter: \"Kind eq\"\n", "filter"},
    };

    all_refused(BAD, COUNT(BAD));
}

/* ---- steps ---- */

LOADING_TEST(every_step_is_read)
{
    const struct upgrade *upgrade = good(l,
        HEAD "    - add: {property: A, type: Edm.String, value: \"en\"}\n"
             "    - set: {property: S, type: Edm.Boolean, value: false}\n"
             "    - rename: {property: T, to: B}\n"
             "    - retype: {property: R, to: Edm.Double}\n"
             "    - retype: {property: Q, to: Edm.Int32, to_property: Q2,\n"
             "        lossy: true, on_error: null}\n"
             "    - retype: {property: P, to: Edm.Guid, on_error: skip}\n"
             "    - remove: {property: L}\n");
    static const struct {
        enum upgrade_step_type type;
        const char *property, *to;
        bool lossy;
        enum upgrade_on_error on_error;
        unsigned line;
    } WANTED[] = {
        {UPGRADE_ADD, "A", "", false, UPGRADE_FAIL, 0},
        {UPGRADE_SET, "S", "", false, UPGRADE_FAIL, 1},
        {UPGRADE_RENAME, "T", "B", false, UPGRADE_FAIL, 2},
        {UPGRADE_RETYPE, "R", "", false, UPGRADE_FAIL, 3},
        {UPGRADE_RETYPE, "Q", "Q2", true, UPGRADE_NULL, 4},
        {UPGRADE_RETYPE, "P", "", false, UPGRADE_SKIP, 6},
        {UPGRADE_REMOVE, "L", "", false, UPGRADE_FAIL, 7},
    };

    assert_int_equal(upgrade->versions[0].step_count, COUNT(WANTED));
    for (size_t i = 0; TEST_EACH(i, WANTED); i++) {
        const struct upgrade_step *step = &upgrade->versions[0].steps[i];

        assert_int_equal(step->type, WANTED[i].type);
        check_text(step->property, slice_of(WANTED[i].property));
        check_text(step->to, slice_of(WANTED[i].to));
        assert_int_equal(step->lossy, WANTED[i].lossy);
        assert_int_equal(step->on_error, WANTED[i].on_error);
    }
}

TEST(a_step_that_is_wrong_is_refused)
{
    static const struct refusal BAD[] = {
        {HEAD "    - remove: A\n", "a map"},
        {HEAD "    - drop: {property: A}\n", "unknown step 'drop'"},
        {HEAD "    - remove: {property: V}\n", "V holds the version"},
        {HEAD "    - remove: {property: Timestamp}\n",
            "Timestamp cannot be changed"},
        {HEAD "    - set: {property: TablewardExpanded, type: Edm.Int32, "
              "value: 1}\n",
            "TablewardExpanded is reserved for expand"},
        {HEAD "    - add: {property: A, type: Int64, value: 1}\n", "Edm.Int64"},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: five}\n",
            "this value cannot be Edm.Int32"},
        {HEAD "    - rename: {property: A, to: A}\n",
            "already the name of the property"},
        {HEAD "    - retype: {property: A, to: Edm.Guid, on_error: nul}\n",
            "on_error"},
    };

    all_refused(BAD, COUNT(BAD));
}

LOADING_TEST(steps_that_do_not_go_together_are_refused)
{
    static const struct refusal BAD[] = {
        {HEAD "    - remove: {property: A}\n"
              "    - retype: {property: A, to: Edm.Int32}\n",
            "A no longer exists here: the remove in line "},
        {HEAD "    - rename: {property: A, to: B}\n" SECOND
              "    - add: {property: C, type: Edm.String, value: \"{A}\"}\n",
            "A no longer exists here: the rename in line "},
        {HEAD "    - retype: {property: A, to: Edm.Int32, to_property: "
              "B}\n" SECOND "    - remove: {property: A}\n",
            "A no longer exists here: the retype in line "},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: 1}\n"
              "    - rename: {property: B, to: A}\n",
            "already gives entities the property A, so this "},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: 1}\n" SECOND
              "    - rename: {property: B, to: A}\n",
            "already gives entities the property A, so this "},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: 1}\n" SECOND
              "    - retype: {property: A, to: Edm.Guid}\n",
            "an Edm.Int32 cannot become an Edm.Guid"},
    };

    all_refused(BAD, COUNT(BAD));
    good(l, HEAD "    - rename: {property: A, to: B}\n" SECOND
                 "    - rename: {property: B, to: A}\n");
    good(l, HEAD "    - add: {property: A, type: Edm.Int32, value: 1}\n" SECOND
                 "    - remove: {property: A}\n"
                 "  - {to: 4, steps: [rename: {property: B, to: A}]}\n");
}

/* Rule U6. */
LOADING_TEST(a_version_that_makes_and_removes_a_name_is_refused)
{
    static const struct refusal BAD[] = {
        {HEAD "    - rename: {property: B, to: S}\n"
              "    - rename: {property: T, to: B}\n",
            "one version creates and removes B"},
        {HEAD "    - remove: {property: A}\n"
              "    - rename: {property: T, to: A}\n",
            "one version creates and removes A"},
        {HEAD "    - retype: {property: A, to: Edm.Int32, to_property: B}\n"
              "    - add: {property: A, type: Edm.String, value: x}\n",
            "one version creates and removes A"},
        {HEAD "    - set: {property: A, type: Edm.String, value: x}\n"
              "    - remove: {property: A}\n",
            "one version creates and removes A"},
    };

    all_refused(BAD, COUNT(BAD));
    good(l, HEAD "    - rename: {property: B, to: S}\n" SECOND
                 "    - rename: {property: T, to: B}\n");
}

/* Otherwise each round would convert to both types again. */
LOADING_TEST(a_version_that_gives_a_property_two_types_is_refused)
{
    static const struct refusal BAD[] = {
        {HEAD "    - retype: {property: A, to: Edm.Int32, lossy: true}\n"
              "    - retype: {property: A, to: Edm.String}\n",
            "one version gives A two types (the retype in line"},
        {HEAD "    - retype: {property: A, to: Edm.Int32}\n"
              "    - set: {property: A, type: Edm.String, value: x}\n",
            "one version gives A two types"},
    };

    all_refused(BAD, COUNT(BAD));
    good(l,
        HEAD "    - retype: {property: A, to: Edm.Int32, lossy: true}\n" SECOND
             "    - retype: {property: A, to: Edm.String}\n");
    good(l, HEAD "    - set: {property: A, type: Edm.String, value: '5'}\n"
                 "    - retype: {property: A, to: Edm.Int32, lossy: true}\n"
                 "    - set: {property: A, type: Edm.Int32, value: 6}\n");
}

/* The renamed property has its own type, which the next round would convert;
 * with `on_error: null` the next round could remove the property. */
LOADING_TEST(a_retype_before_its_property_is_made_is_refused)
{
    static const struct refusal BAD[] = {
        {HEAD "    - retype: {property: B, to: Edm.Int32, on_error: null}\n"
              "    - rename: {property: A, to: B}\n",
            "comes before the rename that creates B"},
        {HEAD "    - retype: {property: B, to: Edm.Int32}\n"
              "    - retype: {property: A, to: Edm.String, to_property: B}\n",
            "comes before the retype that creates B"},
    };

    all_refused(BAD, COUNT(BAD));
    good(l, HEAD "    - rename: {property: A, to: B}\n"
                 "    - retype: {property: B, to: Edm.Int32}\n");
    good(l, HEAD "    - retype: {property: B, to: Edm.Int32}\n" SECOND
                 "    - rename: {property: A, to: B}\n");
    good(l,
        HEAD "    - retype: {property: B, to: Edm.Int32}\n"
             "    - retype: {property: A, to: Edm.Int32, to_property: B}\n");
}

/* ---- the filter and the steps ---- */

#define FILTERED(filter) TOP "  filter: \"" filter "\"\n" VERSION VERSIONS

/* Otherwise a later version would never reach what an earlier run has made. */
TEST(a_filter_must_match_what_the_steps_make)
{
    static const struct refusal BAD[] = {
        {FILTERED(
             "Kind eq 'blog'") "    - rename: {property: Kind, to: Type}\n",
            "the filter matches no entity at version 2, because the rename in "
            "line 9 removes Kind: such entities would get no later version"},
        {FILTERED("Kind ne 'x' and N gt 1") "    - remove: {property: Kind}\n",
            "because the remove in line 9 removes Kind"},
        {FILTERED("N gt 1") "    - retype: {property: N, to: Edm.Double, "
                            "to_property: M}\n",
            "because the retype in line 9 removes N"},
        /* An argument is no other than a constant, if there is no property. */
        {TOP "  args: [kind]\n  filter: \"Kind eq '{kind}'\"\n" VERSION VERSIONS
             "    - remove: {property: Kind}\n",
            "removes Kind"},
        {FILTERED("N gt 1") "    - retype: {property: N, to: Edm.Double}\n",
            "because the retype in line 9 changes N"},
        {FILTERED("K lt 9") "    - set: {property: K, type: Edm.Int32, value: "
                            "99}\n",
            "because the set in line 9 changes K"},
        /* At version 2 there is no Kind, although version 3 makes it again. */
        {FILTERED("Kind eq 'blog'") "    - rename: {property: Kind, to: "
                                    "Type}\n" SECOND
                                    "    - add: {property: Kind, type: "
                                    "Edm.String, value: blog}\n",
            "the filter matches no entity at version 2"},
        {FILTERED("Kind eq 'blog'") STEP SECOND "    - remove: {property: "
                                                "Kind}\n",
            "the filter matches no entity at version 3"},
        {FILTERED("A eq 1 or B eq 2 and C eq 3") "    - remove: {property: A}\n"
                                                 "    - set: {property: C, "
                                                 "type: Edm.String, value: x}\n"
                                                 "    - set: {property: B, "
                                                 "type: Edm.Int32, value: 1}\n",
            "because the remove in line 9 removes A and the set in line "},
        {FILTERED("N gt 1.0") "    - retype: {property: N, to: Edm.Double, "
                              "to_property: M}\n"
                              "    - retype: {property: N, to: Edm.Double}\n",
            "the retype in line 9 removes N"},
        {FILTERED("not (Kind ge '')") "    - set: {property: Kind, type: "
                                      "Edm.String, value: x}\n",
            "the set in line 9 changes Kind"},
    };

    all_refused(BAD, COUNT(BAD));
}

/* A later phase `contract` would find no entity, too. */
LOADING_TEST(a_filter_must_match_the_version_that_is_set)
{
    static const struct refusal BAD[] = {
        {FILTERED("V lt 2") STEP,
            "the filter matches no entity at version 2, because each version "
            "sets V: "},
        {FILTERED("V eq 1 or not (V ge 0)") STEP, "each version sets V"},
        {FILTERED("V ge 1L") STEP, "each version sets V"},
        {FILTERED("V lt 3") STEP SECOND OTHER_STEP,
            "the filter matches no entity at version 3"},
        {FILTERED("A eq 1 or V eq 1") "    - remove: {property: A}\n",
            "because the remove in line 9 removes A and each version sets V"},
    };

    all_refused(BAD, COUNT(BAD));
    loading_good(
        l, FILTERED("V ge 1 and Kind eq 'blog'") STEP SECOND OTHER_STEP);
    assert_int_equal(l->problems.count, 0);
}

/* Each write gives an entity a Timestamp that is later than that of the filter.
 */
LOADING_TEST(a_filter_must_match_the_timestamp_that_is_set)
{
    static const struct refusal BAD[] = {
        {FILTERED("Timestamp lt datetime'2020-01-01T00:00:00Z'") STEP,
            "the filter matches no entity at version 2, because each version "
            "sets Timestamp: "},
        {FILTERED("not (Timestamp ge datetime'2040-01-01T00:00:00Z')") STEP,
            "each version sets Timestamp"},
    };

    all_refused(BAD, COUNT(BAD));
    loading_good(
        l, FILTERED("Timestamp ge datetime'2020-01-01T00:00:00Z'") STEP);
    assert_int_equal(l->problems.count, 0);
}

LOADING_TEST(a_filter_may_read_what_steps_change)
{
    static const char *const GOOD[] = {
        FILTERED("Kind eq 'blog'") "    - remove: {property: Old}\n",
        FILTERED("Kind eq 'blog' or Type eq 'blog'") "    - rename: {property: "
                                                     "Kind, to: Type}\n",
        FILTERED("not (Kind eq 'x')") "    - remove: {property: Kind}\n",
        FILTERED("K lt 9") "    - set: {property: K, type: Edm.Int32, value: "
                           "5}\n",
        FILTERED("Kind eq 'blog'") "    - add: {property: Kind, type: "
                                   "Edm.String, value: other}\n",
        FILTERED("A eq 1 or not (A ge 0 or A lt 0)") "    - add: {property: "
                                                     "A, type: Edm.Int32, "
                                                     "value: 1}\n",
        FILTERED("A eq 1 or B eq 2") "    - set: {property: A, type: "
                                     "Edm.Int32, value: 1}\n"
                                     "    - remove: {property: B}\n",
        FILTERED("not (Kind eq 'x' or Type eq 'x')") "    - rename: {property: "
                                                     "Kind, to: Type}\n",
        FILTERED("N gt 1.0") "    - retype: {property: N, to: Edm.Double}\n",
        FILTERED("Type eq 'blog'") "    - rename: {property: Kind, to: Type}\n",
        /* The variable is set where the worker runs. */
        FILTERED("Kind eq '${NOT_SET_HERE}'") "    - set: {property: Kind, "
                                              "type: Edm.String, value: x}\n",
    };

    unsetenv("NOT_SET_HERE");
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        loading_done(l);
        loading_good(l, GOOD[i]);
        assert_int_equal(l->problems.count, 0);
    }
}

/* An entity without N has none after the retype either. */
LOADING_TEST(a_filter_may_match_what_is_added_after_a_retype)
{
    loading_good(l,
        FILTERED("N eq 'x' or N eq 5 and M eq 1") "    - retype: {property: N, "
                                                  "to: Edm.Int32}\n" SECOND
                                                  "    - remove: {property: "
                                                  "M}\n"
                                                  "    - add: {property: N, "
                                                  "type: Edm.String, value: "
                                                  "x}\n");
}

LOADING_TEST(a_filter_that_may_not_match_afterwards_is_warned_of)
{
    static const struct {
        const char *text, *sentence;
    } WARNED[] = {
        {FILTERED("N gt 1") "    - set: {property: N, type: Edm.Int32, value: "
                            "\"{M}\"}\n",
            "the filter compares N, which the set in line 9 changes: "},
        {FILTERED("N gt 1 or N gt 1.0") "    - retype: {property: N, to: "
                                        "Edm.Double}\n",
            "the filter compares N, which the retype in line 9 changes: "},
        {TOP "  args: [n]\n  filter: \"N gt {n}\"\n" VERSION VERSIONS
             "    - set: {property: N, type: Edm.Int32, value: 5}\n",
            "the filter compares N, which the set in line 10 changes: "},
        {FILTERED("not (N ge 0)") "    - add: {property: N, type: Edm.Int32, "
                                  "value: 0}\n",
            "the filter compares N, which the add in line 9 adds: "},
        {FILTERED("not (N ge 0)") "    - rename: {property: M, to: N}\n",
            "the filter compares N, which the rename in line 9 adds: "},
        {FILTERED("N eq 1 or M eq 2") "    - remove: {property: N}\n",
            "the filter compares N, which the remove in line 9 removes: "},
        {FILTERED("M eq 2 or N eq 1") "    - set: {property: N, type: "
                                      "Edm.Int32, value: 5}\n" SECOND
                                      "    - set: {property: N, type: "
                                      "Edm.Int32, value: 1}\n",
            "the filter compares N, which the set in line 9 changes: "},
        {FILTERED("V lt 2 or M eq 2") STEP,
            "the filter compares V, which each version sets: "},
        {TOP "  args: [day]\n  filter: \"Timestamp lt "
             "datetime'{day}'\"\n" VERSION VERSIONS STEP,
            "the filter compares Timestamp, which each version sets: "},
    };

    for (size_t i = 0; TEST_EACH(i, WARNED); i++) {
        loading_done(l);
        loading_good(l, WARNED[i].text);
        if (l->problems.warnings != 1 || !loading_says(l, WARNED[i].sentence)) {
            problems_print(&l->problems, stderr);
            fail_msg("wanted '%s' of\n%s", WARNED[i].sentence, WARNED[i].text);
        }
    }
}

/* ---- one document ---- */

#define OTHER(steps)                                                           \
    "other:\n"                                                                 \
    "  kind: schema-upgrade\n"                                                 \
    "  table: blogs\n"                                                         \
    "  filter: \"A eq 1\"\n" VERSION VERSIONS steps

LOADING_TEST(a_table_has_one_document)
{
    refused(HEAD STEP OTHER("    - remove: {property: New}\n"),
        "job up has other `versions:` for table blogs: a table has one list of "
        "versions");
    good(l, HEAD STEP OTHER(STEP));
}

/* Rule U8. */
TEST(a_digest_is_of_what_steps_do)
{
    static const struct {
        const char *step;
        bool same;
    } CASES[] = {
        {"{property: A, to: Edm.Int32}", true},
        {"{property: A, to: Edm.Int32, on_error: null, lossy: true}", true},
        {"{property: A, to: Edm.Int64}", false},
        {"{property: B, to: Edm.Int32}", false},
        {"{property: A, to: Edm.Int32, to_property: B}", false},
    };
    char first[2 * DIGEST_BYTES + 1];

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        char *text = mem_format(HEAD "    - retype: %s\n", CASES[i].step);
        struct loading l = {.names = {NULL}};
        const struct upgrade *upgrade = good(&l, text);
        const char *digest = upgrade->versions[0].digest;

        if (i == 0)
            memcpy(first, digest, sizeof(first));
        assert_int_equal(strcmp(first, digest) == 0, CASES[i].same);
        loading_done(&l);
        mem_free(text);
    }
}

LOADING_TEST(levels_are_of_the_document)
{
    static const struct {
        int64_t number;
        int level; /* -1: none */
    } CASES[] = {{0, -1}, {1, 0}, {2, 1}, {3, -1}, {5, 2}, {6, -1}};
    const struct upgrade *upgrade =
        good(l, HEAD STEP "  - {to: 5, steps: [remove: {property: B}]}\n");

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        size_t level = 9;
        bool is = upgrade_rules_level(upgrade, CASES[i].number, &level);

        assert_int_equal(is ? (int)level : -1, CASES[i].level);
    }
    assert_int_equal(upgrade_rules_newest(upgrade), 5);
}

LOADING_TEST(a_job_is_explained)
{
    static const char *const PARTS[] = {"read all of Blogs; their version is V",
        "entities below version 2:\n  1. rename T to B\n",
        "entities below version 3:\n",
        "1. remove Old (expand keeps Old until contract)",
        "if old and new property were both written since expand: the new",
        "its V is then 3"};
    const struct upgrade *upgrade =
        good(l, HEAD "    - rename: {property: T, to: B}\n" SECOND STEP
                     "  on_difference: new\n");
    struct buf text;

    buf_init(&text, 65536);
    upgrade_explain(upgrade, &text);
    for (size_t i = 0; TEST_EACH(i, PARTS); i++)
        if (!strstr(buf_text(&text), PARTS[i]))
            fail_msg("'%s' is not in\n%s", PARTS[i], buf_text(&text));
    buf_done(&text);
}
