/* SPDX-License-Identifier: MIT */
/* The configuration of a schema-upgrade job: what is read, what is refused and
 * where. */
#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/explain.h"
#include "jobs/upgrade/rules.h"
#include "tests/support/fixture.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "tests/support/upgrade_yaml.h"
#include "worker/base/mem.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define STEP REMOVE("Old")
#define ONE_VERSION "  versions: [{to: 2, steps: [remove: {property: A}]}]\n"

static const struct upgrade *good(struct loading *l, const char *text)
{
    loading_good(l, text);
    return l->jobs.list[0].settings;
}

struct refusal {
    const char *text, *sentence;
};

static void all_refused(const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        loading_refused(list[i].text, list[i].sentence);
}

#define ALL_REFUSED(...)                                                       \
    do {                                                                       \
        static const struct refusal BAD[] = {__VA_ARGS__};                     \
        all_refused(BAD, COUNT(BAD));                                          \
    } while (0)

/* ---- the job ---- */

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
    ALL_REFUSED({"up:\n  kind: schema-upgrade\n" VERSION ONE_VERSION, "table"},
        {TOP "  store: nowhere\n" VERSION ONE_VERSION, "nowhere"},
        {TOP "  what: 1\n  store: nowhere\n" VERSION ONE_VERSION, "nowhere"},
        {HEAD STEP "  on_difference: newest\n", "on_difference"},
        {HEAD STEP "  phase: expand\n", "phase=expand"},
        {HEAD STEP "  steps: []\n", "versions: [{to: 2"},
        {HEAD STEP "  filter: \"Kind eq\"\n", "filter"});
}

TEST(a_version_property_that_is_wrong_is_refused)
{
    ALL_REFUSED({TOP ONE_VERSION, "version"},
        {TOP "  version: {absent: 1}\n" ONE_VERSION, "property"},
        {TOP "  version: {property: V}\n" ONE_VERSION, "absent"},
        {TOP "  version: {property: V, absent: 3}\n" ONE_VERSION,
            "`absent:` is above the newest version, 2"},
        {TOP "  version: {property: V, absent: 1, from: 1}\n" ONE_VERSION,
            "'from' is a former key"},
        {TOP
            "  version: {property: V, absent: 1, from: 1, to: 2}\n" ONE_VERSION,
            "'to' is a former key"},
        {TOP "  version: {property: RowKey, absent: 1}\n" ONE_VERSION,
            "RowKey cannot be changed"},
        {TOP "  version: {property: \"a b\", absent: 1}\n" ONE_VERSION, "a b"});
}

TEST(versions_that_are_wrong_are_refused)
{
    ALL_REFUSED({TOP VERSION, "versions"},
        {TOP VERSION "  versions: {to: 2}\n", "a list of 1 to 256 versions"},
        {TOP VERSION "  versions: []\n",
            "versions must be a list of 1 to 256 versions"},
        {TOP VERSION "  versions: [{to: 2}]\n", "steps"},
        {TOP VERSION "  versions: [{to: 2, steps: []}]\n",
            "steps must be a list of 1 to 64 steps"},
        {TOP VERSION "  versions: [{to: 2, steps: {remove: {property: A}}}]\n",
            "a list of 1 to 64 steps"},
        {TOP VERSION
            "  versions: [{to: two, steps: [remove: {property: A}]}]\n",
            "to must be"},
        {HEAD STEP "  - {to: 2, steps: [remove: {property: B}]}\n",
            "2 is not above 2"},
        {HEAD STEP "  - {to: 1, steps: [remove: {property: B}]}\n",
            "1 is not above 2"});
}

/* ---- steps ---- */

TEST(a_step_that_is_wrong_is_refused)
{
    ALL_REFUSED({HEAD "    - remove\n", "a step"},
        {HEAD "    - {}\n", "a step"}, {HEAD "    - remove: A\n", "a map"},
        {HEAD "    - drop: {property: A}\n", "unknown step 'drop'"},
        {HEAD REMOVE("A") "      rename: {property: B}\n",
            "a step has only one key"},
        {HEAD "    - remove: {}\n", "property"},
        {HEAD REMOVE("\"a b\""), "a b"},
        {HEAD REMOVE("V"), "V holds the version"},
        {HEAD REMOVE("Timestamp"), "Timestamp cannot be changed"});
}

TEST(a_value_that_is_wrong_is_refused)
{
    ALL_REFUSED({HEAD "    - add: {property: A, value: 1}\n", "type"},
        {HEAD "    - add: {property: A, type: Edm.Int32}\n", "value"},
        {HEAD "    - add: {property: A, type: Int64, value: 1}\n", "Edm.Int64"},
        {HEAD "    - add: {property: A, type: Qwertyuiop, value: 1}\n",
            "unknown type"},
        {HEAD ADD("A", "Int23", "1"), "Edm.Int32"},
        {HEAD ADD("A", "Int32", "[1]"), "must be a text, not a list"},
        {HEAD ADD("A", "Int32", "\"{B\""), "is never closed"},
        {HEAD ADD("A", "Int32", "five"), "this value cannot be Edm.Int32"},
        {HEAD ADD("A", "DateTime", "\"0001-01-01T00:00:00Z\""),
            "this value cannot be Edm.DateTime"},
        {HEAD SET("TablewardExpanded", "Int32", "1"),
            "TablewardExpanded is reserved for the phase `expand`"});
}

TEST(a_rename_or_retype_that_is_wrong_is_refused)
{
    ALL_REFUSED({HEAD "    - rename: {property: A}\n", "to"},
        {HEAD "    - rename: {to: B}\n", "property"},
        {HEAD RENAME("A", "V"), "V holds the version"},
        {HEAD RENAME("A", "A"), "the name that the property already has"},
        {HEAD "    - retype: {property: A}\n", "to"},
        {HEAD "    - retype: {to: Edm.Int32}\n", "property"},
        {HEAD RETYPE("A", "Int32, to_property: A"),
            "A is the name that the property already has"},
        {HEAD "    - retype: {to: Edm.Int32, to_property: RowKey}\n",
            "RowKey cannot be changed"},
        {HEAD RETYPE("A", "Int32, on_error: [a]"),
            "must be a text, not a list"},
        {HEAD RETYPE("A", "Guid, on_error: nul"), "on_error"},
        {HEAD "    - retype: {property: A, to: Int, on_error: nul}\n",
            "on_error"},
        {HEAD RETYPE("A", "Int32, what: 1"), "what"});
}

LOADING_TEST(steps_that_do_not_go_together_are_refused)
{
    ALL_REFUSED({HEAD REMOVE("A") RETYPE("A", "Int32"),
                    "A no longer exists here: the remove in line "},
        {HEAD RENAME("A", "B") NEXT_VERSION ADD("C", "String", "\"{A}\""),
            "A no longer exists here: the rename in line "},
        {HEAD RETYPE("A", "Int32, to_property: B") NEXT_VERSION REMOVE("A"),
            "A no longer exists here: the retype in line "},
        {HEAD ADD("A", "Int32", "1") RENAME("B", "A"),
            "already gives entities the property A, so this "},
        {HEAD ADD("A", "Int32", "1") NEXT_VERSION RENAME("B", "A"),
            "already gives entities the property A, so this "},
        {HEAD ADD("A", "Int32", "1") NEXT_VERSION RETYPE("A", "Guid"),
            "an Edm.Int32 cannot become an Edm.Guid"},
        {HEAD ADD("A", "Double", "1.5") NEXT_VERSION RETYPE("A", "Int32"),
            "write `lossy: true` to accept the loss"});
    good(l, HEAD ADD("A", "Double", "1.5")
                NEXT_VERSION RETYPE("A", "Int32, lossy: true"));
    good(l, HEAD RENAME("A", "B") NEXT_VERSION RENAME("B", "A"));
    good(l, HEAD ADD("A", "Int32", "1") NEXT_VERSION REMOVE(
                "A") "  - {to: 4, steps: [rename: {property: B, to: A}]}\n");
}

/* Rule U6: a version that makes and removes one name could not be expanded. */
LOADING_TEST(a_version_that_makes_and_removes_a_name_is_refused)
{
    ALL_REFUSED({HEAD RENAME("B", "S") RENAME("T", "B"),
                    "one version creates and removes B"},
        {HEAD REMOVE("A") RENAME("T", "A"),
            "one version creates and removes A"},
        {HEAD RETYPE("A", "Int32, to_property: B") ADD("A", "String", "x"),
            "one version creates and removes A"},
        {HEAD SET("A", "String", "x") REMOVE("A"),
            "one version creates and removes A"});
    good(l, HEAD RENAME("B", "S") NEXT_VERSION RENAME("T", "B"));
}

/* If one version gave a property two types, each round would convert it to both
 * types again. */
LOADING_TEST(a_version_that_gives_a_property_two_types_is_refused)
{
    ALL_REFUSED({HEAD RETYPE("A", "Int32, lossy: true") RETYPE("A", "String"),
                    "one version gives A two types (the retype in line"},
        {HEAD RETYPE("A", "Int32") SET("A", "String", "x"),
            "one version gives A two types"});
    good(l, HEAD RETYPE("A", "Int32, lossy: true")
                NEXT_VERSION RETYPE("A", "String"));
    good(l, HEAD SET("A", "String", "'5'") RETYPE("A", "Int32, lossy: true")
                SET("A", "Int32", "6"));
}

/* The step that creates the property comes after its retype, so the property
 * keeps another type. The next round would convert it; with `on_error: null`
 * the next round could remove it. */
LOADING_TEST(a_retype_before_its_property_is_made_is_refused)
{
    ALL_REFUSED({HEAD RETYPE("B", "Int32, on_error: null") RENAME("A", "B"),
                    "comes before the rename that creates B"},
        {HEAD RETYPE("B", "Int32") RETYPE("A", "String, to_property: B"),
            "comes before the retype that creates B"});
    good(l, HEAD RENAME("A", "B") RETYPE("B", "Int32"));
    good(l, HEAD RETYPE("B", "Int32") NEXT_VERSION RENAME("A", "B"));
    good(l, HEAD RETYPE("B", "Int32") RETYPE("A", "Int32, to_property: B"));
}

/* ---- the filter and the steps ---- */

#define FILTERED(filter) TOP "  filter: \"" filter "\"\n" VERSION VERSIONS

/* FILTERED for a job with an argument: the steps begin a line later. */
#define WITH_ARG(name, filter)                                                 \
    TOP "  args: [" name "]\n  filter: \"" filter "\"\n" VERSION VERSIONS

/* If the filter no longer matches an entity after a version, the entity never
 * gets a later version. */
TEST(a_filter_must_match_what_the_steps_make)
{
    ALL_REFUSED(
        {FILTERED("Kind eq 'blog'") RENAME("Kind", "Type"),
            "the filter matches no entity at version 2, because the rename in "
            "line 9 removes Kind: entities at this version would get no later "
            "version"},
        {FILTERED("Kind ne 'x' and N gt 1") REMOVE("Kind"),
            "because the remove in line 9 removes Kind"},
        {FILTERED("N gt 1") RETYPE("N", "Double, to_property: M"),
            "because the retype in line 9 removes N"},
        /* Without the property no value of the argument can match, as with a
         * constant. */
        {WITH_ARG("kind", "Kind eq '{kind}'") REMOVE("Kind"), "removes Kind"},
        {FILTERED("N gt 1") RETYPE("N", "Double"),
            "because the retype in line 9 changes N"},
        {FILTERED("K lt 9") SET("K", "Int32", "99"),
            "because the set in line 9 changes K"},
        /* At version 2 there is no Kind, although version 3 makes it again. */
        {FILTERED("Kind eq 'blog'") RENAME("Kind", "Type")
                NEXT_VERSION ADD("Kind", "String", "blog"),
            "the filter matches no entity at version 2"},
        {FILTERED("Kind eq 'blog'") STEP NEXT_VERSION REMOVE("Kind"),
            "the filter matches no entity at version 3"},
        {FILTERED("A eq 1 or B eq 2 and C eq 3") REMOVE("A")
                SET("C", "String", "x") SET("B", "Int32", "1"),
            "because the remove in line 9 removes A and the set in line "},
        {FILTERED("N gt 1.0") RETYPE("N", "Double, to_property: M")
                RETYPE("N", "Double"),
            "the retype in line 9 removes N"},
        {FILTERED("not (Kind ge '')") SET("Kind", "String", "x"),
            "the set in line 9 changes Kind"});
}

/* If the filter did not match the version that is set, a later phase `contract`
 * would find no entity. */
LOADING_TEST(a_filter_must_match_the_version_that_is_set)
{
    ALL_REFUSED({FILTERED("V lt 2") STEP,
                    "the filter matches no entity at version 2, because each "
                    "version sets V: "},
        {FILTERED("V eq 1 or not (V ge 0)") STEP, "each version sets V"},
        {FILTERED("V ge 1L") STEP, "each version sets V"},
        {FILTERED("V lt 3") STEP NEXT_VERSION REMOVE("Other"),
            "the filter matches no entity at version 3"},
        {FILTERED("A eq 1 or V eq 1") REMOVE("A"),
            "because the remove in line 9 removes A and each version sets V"});
    good(l, FILTERED("V ge 1 and Kind eq 'blog'")
                STEP NEXT_VERSION REMOVE("Other"));
    assert_int_equal(l->problems.count, 0);
}

/* Each write gives an entity a Timestamp that is later than that of the filter.
 */
LOADING_TEST(a_filter_must_match_the_timestamp_that_is_set)
{
    ALL_REFUSED(
        {FILTERED("Timestamp lt datetime'2020-01-01T00:00:00Z'") STEP,
            "the filter matches no entity at version 2, because each version "
            "sets Timestamp: "},
        {FILTERED("not (Timestamp ge datetime'2040-01-01T00:00:00Z')") STEP,
            "each version sets Timestamp"});
    good(l, FILTERED("Timestamp ge datetime'2020-01-01T00:00:00Z'") STEP);
    assert_int_equal(l->problems.count, 0);
}

LOADING_TEST(a_filter_may_read_what_steps_change)
{
    static const char *const GOOD[] = {
        FILTERED("Kind eq 'blog'") STEP,
        FILTERED("Kind eq 'blog' or Type eq 'blog'") RENAME("Kind", "Type"),
        FILTERED("not (Kind eq 'x')") REMOVE("Kind"),
        FILTERED("K lt 9") SET("K", "Int32", "5"),
        FILTERED("Kind eq 'blog'") ADD("Kind", "String", "other"),
        FILTERED("A eq 1 or not (A ge 0 or A lt 0)") ADD("A", "Int32", "1"),
        FILTERED("A eq 1 or B eq 2") SET("A", "Int32", "1") REMOVE("B"),
        FILTERED("not (Kind eq 'x' or Type eq 'x')") RENAME("Kind", "Type"),
        FILTERED("N gt 1.0") RETYPE("N", "Double"),
        FILTERED("Type eq 'blog'") RENAME("Kind", "Type"),
        /* The variable is set where the worker runs. */
        FILTERED("Kind eq '${NOT_SET_HERE}'") SET("Kind", "String", "x"),
    };

    unsetenv("NOT_SET_HERE");
    for (size_t i = 0; TEST_EACH(i, GOOD); i++) {
        loading_good(l, GOOD[i]);
        assert_int_equal(l->problems.count, 0);
    }
}

/* A retype of N does not add N to an entity without N. */
LOADING_TEST(a_filter_may_match_what_is_added_after_a_retype)
{
    loading_good(l,
        FILTERED("N eq 'x' or N eq 5 and M eq 1") RETYPE("N", "Int32")
            NEXT_VERSION REMOVE("M") ADD("N", "String", "x"));
}

LOADING_TEST(a_filter_that_may_not_match_afterwards_is_warned_of)
{
    static const struct {
        const char *text, *sentence;
    } WARNED[] = {
        {FILTERED("N gt 1") SET("N", "Int32", "\"{M}\""),
            "the filter compares N, which the set in line 9 changes: "},
        {FILTERED("N gt 1 or N gt 1.0") RETYPE("N", "Double"),
            "the filter compares N, which the retype in line 9 changes: "},
        {WITH_ARG("n", "N gt {n}") SET("N", "Int32", "5"),
            "the filter compares N, which the set in line 10 changes: "},
        {FILTERED("not (N ge 0)") ADD("N", "Int32", "0"),
            "the filter compares N, which the add in line 9 adds: "},
        {FILTERED("not (N ge 0)") RENAME("M", "N"),
            "the filter compares N, which the rename in line 9 adds: "},
        {FILTERED("N eq 1 or M eq 2") REMOVE("N"),
            "the filter compares N, which the remove in line 9 removes: "},
        {FILTERED("M eq 2 or N eq 1") SET("N", "Int32", "5")
                NEXT_VERSION SET("N", "Int32", "1"),
            "the filter compares N, which the set in line 9 changes: "},
        {FILTERED("V lt 2 or M eq 2") STEP,
            "the filter compares V, which each version sets: "},
        {WITH_ARG("day", "Timestamp lt datetime'{day}'") STEP,
            "the filter compares Timestamp, which each version sets: "},
    };

    for (size_t i = 0; TEST_EACH(i, WARNED); i++) {
        loading_good(l, WARNED[i].text);
        if (l->problems.warnings != 1 || !loading_says(l, WARNED[i].sentence)) {
            problems_print(&l->problems, stderr);
            fail_msg("wanted '%s' of\n%s", WARNED[i].sentence, WARNED[i].text);
        }
    }
}

/* ---- one document ---- */

#define OTHER "other:\n  kind: schema-upgrade\n  table: blogs\n"

LOADING_TEST(a_table_has_one_document)
{
    static const char *const DIFFERENT[] = {
        OTHER "  filter: \"A eq 1\"\n" VERSION VERSIONS REMOVE("New"),
        OTHER "  version: {property: W, absent: 1}\n" VERSIONS STEP,
        OTHER "  version: {property: V, absent: 0}\n" VERSIONS STEP,
        OTHER VERSION VERSIONS STEP NEXT_VERSION REMOVE("B"),
        OTHER VERSION "  versions:\n" NEXT_VERSION STEP,
    };

    for (size_t i = 0; TEST_EACH(i, DIFFERENT); i++) {
        char *text = mem_format(HEAD STEP "%s", DIFFERENT[i]);

        loading_begin(l, text);
        assert_int_not_equal(l->problems.errors, 0);
        assert_true(loading_says(l, "job up has other `versions:` for table "
                                    "blogs: a table has one list of versions"));
        mem_free(text);
    }
    good(l, HEAD STEP OTHER "  filter: \"A eq 1\"\n" VERSION VERSIONS STEP);
    good(l, "gone:\n  kind: delete\n  table: Blogs\n  partition_key: x\n" HEAD
                STEP);
}

/* Rule U8: the digest of a version changes with the results of its steps, but
 * not with `on_error` and `lossy`. */
LOADING_TEST(a_digest_is_of_what_steps_do)
{
    static const struct {
        const char *text;
        bool same;
    } CASES[] = {
        {HEAD RETYPE("A", "Int32"), true},
        {HEAD RETYPE("A", "Int32, on_error: null, lossy: true"), true},
        {HEAD RETYPE("A", "Int64"), false},
        {HEAD RETYPE("B", "Int32"), false},
        {HEAD RETYPE("A", "Int32, to_property: B"), false},
    };
    char first[2 * DIGEST_BYTES + 1];

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const char *digest = good(l, CASES[i].text)->versions[0].digest;

        if (i == 0)
            memcpy(first, digest, sizeof(first));
        assert_int_equal(strcmp(first, digest) == 0, CASES[i].same);
    }
}

/* ---- what is explained ---- */

static void explains(
    const struct upgrade *upgrade, const char *const *parts, size_t count)
{
    struct buf text;

    buf_init(&text, 65536);
    upgrade_explain(upgrade, &text);
    for (size_t i = 0; i < count; i++)
        if (!strstr(buf_text(&text), parts[i]))
            fail_msg("'%s' is not in\n%s", parts[i], buf_text(&text));
    buf_done(&text);
}

LOADING_TEST(a_job_is_explained)
{
    static const char *const PARTS[] = {"read all of Blogs; their version is V",
        "entities below version 2:\n  1. rename T to B\n",
        "entities below version 3:\n",
        "1. remove Old (expand keeps Old until contract)",
        "if old and new property were both written since expand: the new",
        "its V is then 3"};

    explains(good(l, HEAD RENAME("T", "B") NEXT_VERSION STEP
                 "  on_difference: new\n"),
        PARTS, COUNT(PARTS));
}

LOADING_TEST(older_versions_are_explained_whole)
{
    static const char *const PARTS[] = {"set S (Edm.Int32) \"1\"\n",
        "rename A to B\n", "remove C\n",
        ("retype D to E as Edm.String; an entity whose value cannot be "
         "converted fails\n"),
        "until"};

    explains(good(l, HEAD SET("S", "Int32", "1") RENAME("A", "B") REMOVE("C")
                         RETYPE("D", "String, to_property: E") NEXT_VERSION SET(
                             "F", "Int32", "1") "  follow: true\n"),
        PARTS, COUNT(PARTS));
}
