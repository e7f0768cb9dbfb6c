/* SPDX-License-Identifier: MIT */
/* The problems of a schema-upgrade job, part by part, with their positions; and
 * the examples of jobs of many shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/convert.h"
#include "jobs/upgrade/explain.h"
#include "jobs/upgrade/rules.h"
#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#define TOP "up:\n  kind: schema-upgrade\n  table: Blogs\n"
#define VERSION "  version: {property: V, absent: 1}\n"
#define HEAD TOP VERSION "  versions:\n  - to: 2\n    steps:\n"
#define SECOND "  - to: 3\n    steps:\n"
#define STEP "    - remove: {property: Old}\n"

struct refusal {
    const char *text, *part;
};

static void all_refused(const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        loading_refused(list[i].text, list[i].part);
}

/* ---- the job and its versions ---- */

TEST(a_job_that_lacks_a_part_is_refused)
{
    static const struct refusal bad[] = {
        {"up:\n  kind: schema-upgrade\n" VERSION
         "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "table"},
        {TOP VERSION, "versions"},
        {TOP "  store: nowhere\n" VERSION
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "nowhere"},
        {TOP "  what: 1\n  store: nowhere\n" VERSION
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "nowhere"},
        {TOP "  version: {absent: 1}\n"
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "property"},
        {TOP "  version: {property: RowKey, absent: 1}\n"
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "RowKey cannot be changed"},
        {TOP "  version: {property: \"a b\", absent: 1}\n"
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "a b"},
        {TOP "  version: {property: V, absent: 1, from: 1, to: 2}\n"
             "  versions: [{to: 2, steps: [remove: {property: A}]}]\n",
            "'to' is a former key"},
        {TOP VERSION "  versions: {to: 2}\n", "a list of 1 to 256 versions"},
        {TOP VERSION "  versions: []\n", "a list of 1 to 256 versions"},
        {TOP VERSION "  versions: [{to: 2}]\n", "steps"},
    };

    all_refused(bad, COUNT(bad));
}

/* One more than the maximum. */
TEST(too_many_versions_or_steps_are_refused)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, TOP VERSION "  versions:\n");
    for (int i = 0; i <= UPGRADE_MAX_VERSIONS; i++)
        buf_add_format(&text,
            "  - {to: %d, steps: [remove: {property: A%d}]}\n", i + 2, i);
    loading_refused(buf_text(&text), "a list of 1 to 256 versions");
    buf_clear(&text);
    buf_add_text(&text, HEAD);
    for (int i = 0; i <= UPGRADE_MAX_STEPS; i++)
        buf_add_format(&text, "    - remove: {property: A%d}\n", i);
    loading_refused(buf_text(&text), "a list of 1 to 64 steps");
    buf_done(&text);
}

/* ---- one step ---- */

TEST(a_step_is_refused_for_each_of_its_parts)
{
    static const struct refusal bad[] = {
        {TOP VERSION "  versions: [{to: 2, steps: {remove: {property: A}}}]\n",
            "a list of 1 to 64 steps"},
        {TOP VERSION "  versions: [{to: 2, steps: []}]\n",
            "a list of 1 to 64 steps"},
        {HEAD "    - remove\n", "a step"},
        {HEAD "    - {}\n", "a step"},
        {HEAD "    - remove: {property: A}\n      rename: {property: B}\n",
            "a step has one key"},
        {HEAD "    - remove: {}\n", "property"},
        {HEAD "    - remove: {property: \"a b\"}\n", "a b"},
        {HEAD "    - add: {property: A, value: 1}\n", "type"},
        {HEAD "    - add: {property: A, type: Edm.Int32}\n", "value"},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: [1]}\n",
            "must be a text, not a list"},
        {HEAD "    - add: {property: A, type: Edm.Int32, value: \"{B\"}\n",
            "is never closed"},
        {HEAD "    - add: {property: A, type: Qwertyuiop, value: 1}\n",
            "unknown type"},
        {HEAD "    - add: {property: A, type: Edm.Int23, value: 1}\n",
            "Edm.Int32"},
        {HEAD "    - add: {property: A, type: Edm.DateTime, value: "
              "\"0001-01-01T00:00:00Z\"}\n",
            "this value cannot be Edm.DateTime"},
        {HEAD "    - rename: {property: A}\n", "to"},
        {HEAD "    - rename: {property: A, to: V}\n", "V holds the version"},
        {HEAD "    - rename: {to: B}\n", "property"},
        {HEAD "    - retype: {property: A}\n", "to"},
        {HEAD "    - retype: {to: Edm.Int32}\n", "property"},
        {HEAD "    - retype: {property: A, to: Edm.Int32, to_property: A}\n",
            "A is already the name of the property"},
        {HEAD "    - retype: {to: Edm.Int32, to_property: RowKey}\n",
            "RowKey cannot be changed"},
        {HEAD "    - retype: {property: A, to: Edm.Int32, on_error: [a]}\n",
            "must be a text, not a list"},
        {HEAD "    - retype: {property: A, to: Int, on_error: nul}\n",
            "on_error"},
        {HEAD "    - retype: {property: A, to: Edm.Int32, what: 1}\n", "what"},
    };

    all_refused(bad, COUNT(bad));
}

/* A value from an environment variable that is not set is not checked: only a
 * run needs it. */
LOADING_TEST(a_value_may_come_from_the_environment)
{
    unsetenv("TW_TEST_UNSET");
    loading_good(l, HEAD "    - add: {property: A, type: Edm.Int32, value: "
                         "\"${TW_TEST_UNSET}\"}\n"
                         "    - add: {property: B, type: Edm.Int32, value: "
                         "\"${TW_TEST_UNSET}\"}\n");
    assert_string_equal(l->jobs.list[0].unset, "TW_TEST_UNSET");
    setenv("TW_TEST_UNSET", "five", 1);
    loading_refused(HEAD "    - add: {property: A, type: Edm.Int32, value: "
                         "\"${TW_TEST_UNSET}\"}\n",
        "this value cannot be Edm.Int32");
    unsetenv("TW_TEST_UNSET");
}

/* ---- steps together ---- */

LOADING_TEST(a_type_that_loses_something_wants_consent)
{
    static const char steps[] =
        "    - add: {property: A, type: Edm.Double, value: 1.5}\n" SECOND
        "    - retype: {property: A, to: Edm.Int32%s}\n";
    char text[512];

    snprintf(text, sizeof(text), steps, "");
    {
        char *whole = mem_format("%s%s", HEAD, text);

        loading_refused(whole, "write lossy: true to accept that");
        mem_free(whole);
    }
    snprintf(text, sizeof(text), steps, ", lossy: true");
    {
        char *whole = mem_format("%s%s", HEAD, text);

        loading_good(l, whole);
        mem_free(whole);
    }
}

/* The column of the problem about A in a template, from its first character. */
static unsigned column_of(const char *template)
{
    char *text = mem_format("%s    - rename: {property: A, to: B}\n" SECOND
                            "    - add: {property: C, type: Edm.String, value: "
                            "\"%s\"}\n",
        HEAD, template);
    unsigned column = 0;
    struct loading l = {.names = {NULL}};

    loading_begin(&l, text);
    for (size_t i = 0; i < l.problems.count; i++)
        if (strstr(l.problems.list[i].text, "A no longer exists here"))
            column = l.problems.list[i].mark.column;
    loading_done(&l);
    mem_free(text);
    return column;
}

/* The column is where the template reads the property, and not where a text
 * only looks like its name. */
TEST(what_is_gone_is_shown_where_it_is_read)
{
    static const char *const templates[] = {"x{A}", "A {A}", "{{A}} {A}",
        "{lower(AA)}{A}", "{lower(xA)}{A}", "{lower(A_1)}{A}", "{lower(A1)}{A}",
        "{lower('A')}{A}", "{lower('}A')} {A}", "{lower(\303\204A)}{A}",
        "{B}{lower(zA)}{A}", "{lower(_A)}{A}", "{B + A}"};
    unsigned plain = column_of("{A}");

    assert_true(plain > 0);
    for (size_t i = 0; TEST_EACH(i, templates); i++) {
        const char *last = strrchr(templates[i], 'A');
        unsigned offset = 0;

        /* Columns count characters, not bytes. */
        for (const char *at = templates[i]; at < last; at++)
            offset += ((unsigned char)*at & 0xc0) != 0x80;
        if (column_of(templates[i]) != plain - 1 + offset)
            fail_msg("%s: column %u, not %u", templates[i],
                column_of(templates[i]), plain - 1 + offset);
    }
}

/* ---- one document for a table ---- */

#define OTHER "other:\n  kind: schema-upgrade\n  table: blogs\n"

LOADING_TEST(documents_of_one_table_differ_in_any_part)
{
    static const struct refusal bad[] = {
        {HEAD STEP OTHER "  version: {property: W, absent: 1}\n"
                         "  versions: [{to: 2, steps: [remove: {property: "
                         "Old}]}]\n",
            "one list of versions"},
        {HEAD STEP OTHER "  version: {property: V, absent: 0}\n"
                         "  versions: [{to: 2, steps: [remove: {property: "
                         "Old}]}]\n",
            "one list of versions"},
        {HEAD STEP OTHER VERSION
            "  versions: [{to: 2, steps: [remove: {property: Old}]}, {to: 3, "
            "steps: [remove: {property: B}]}]\n",
            "one list of versions"},
        {HEAD STEP OTHER VERSION
            "  versions: [{to: 3, steps: [remove: {property: Old}]}]\n",
            "one list of versions"},
    };

    for (size_t i = 0; TEST_EACH(i, bad); i++) {
        loading_begin(l, bad[i].text);
        assert_true(loading_says(l, bad[i].part));
    }
    loading_good(l,
        "gone:\n  kind: delete\n  table: Blogs\n  partition_key: x\n" HEAD
            STEP);
}

/* ---- what is explained ---- */

LOADING_TEST(older_versions_are_explained_whole)
{
    struct buf text;

    loading_good(l, HEAD
        "    - set: {property: S, type: Edm.Int32, value: 1}\n"
        "    - rename: {property: A, to: B}\n"
        "    - remove: {property: C}\n"
        "    - retype: {property: D, to: Edm.String, to_property: E}\n" SECOND
        "    - set: {property: F, type: Edm.Int32, value: 1}\n"
        "  follow: true\n");
    buf_init(&text, 65536);
    upgrade_explain(l->jobs.list[0].settings, &text);
    assert_non_null(strstr(buf_text(&text), "set S (Edm.Int32) \"1\"\n"));
    assert_non_null(strstr(buf_text(&text), "rename A to B\n"));
    assert_non_null(strstr(buf_text(&text), "remove C\n"));
    assert_non_null(strstr(buf_text(&text), "retype D to E as Edm.String; an "
                                            "entity whose value cannot be "
                                            "converted fails\n"));
    assert_non_null(strstr(buf_text(&text), "until"));
    buf_done(&text);
}

/* ---- examples ---- */

struct seen {
    const struct upgrade_converter *converter;
    struct arena *arena;
    size_t count, limit;
};

/* `after` must be what the conversion makes of `before`. */
static enum tw_err see(void *ctx, const struct entity *before,
    const struct entity *after, struct err *err)
{
    struct seen *seen = ctx;
    struct entity converted;

    if (++seen->count > seen->limit)
        return err_fail(err, TW_FULL, "enough");
    assert_int_equal(
        upgrade_convert(seen->converter, before, seen->arena, &converted, err),
        UPGRADE_CONVERTED);
    assert_true(entity_has_all(&converted, after));
    assert_true(entity_has_all(after, &converted));
    return TW_OK;
}

static enum tw_err examples(
    const char *job, size_t count, size_t limit, struct err *err)
{
    const struct slice name = slice_of("phase"), value = slice_of("all");
    const struct run_args args = {1, &name, &value};
    struct upgrade_converter *converter;
    struct seen seen = {.limit = limit};
    struct hosted h;
    enum tw_err outcome;

    hosted_init(&h, job);
    seen.arena = &h.arena;
    assert_ok(upgrade_convert_open(h.jobs.list, &args, &converter, err));
    seen.converter = converter;
    outcome = upgrade_convert_vectors(converter, count, see, &seen, err);
    if (outcome == TW_OK)
        assert_int_equal(seen.count, count);
    upgrade_convert_close(converter);
    hosted_done(&h);
    return outcome;
}

TEST(there_are_examples_of_jobs_of_every_shape)
{
    static const char *const jobs[] = {
        /* no filter; a step reads what another step makes */
        HEAD "    - set: {property: A, type: Edm.Guid, value: "
             "\"12345678-0000-4000-8000-000000000000\"}\n"
             "    - add: {property: B, type: Edm.Binary, value: AAEC}\n" SECOND
             "    - add: {property: C, type: Edm.String, value: "
             "\"{lower(Title)}{upper(Title)}\"}\n"
             "    - rename: {property: B, to: D}\n"
             "    - add: {property: E, type: Edm.String, value: \"{C}\"}\n",
        /* a filter with several properties, one of which a step reads */
        TOP "  filter: \"(Kind_1 eq 'x' and Title eq 'y') or N gt 3\"\n" VERSION
            "  versions:\n  - to: 2\n    steps:\n"
            "    - add: {property: S, type: Edm.String, value: \"{Title}\"}\n",
        TOP "  filter: \"Title eq 'y' and Title eq 'y'\"\n" VERSION
            "  versions:\n  - to: 2\n    steps:\n" STEP,
        TOP "  filter: \"N eq 17 and B eq true and (C eq false)\"\n" VERSION
            "  versions:\n  - to: 2\n    steps:\n" STEP,
        TOP "  filter: \"T eq 'it''s a)' and N ge -5 and N le 9\"\n" VERSION
            "  versions:\n  - to: 2\n    steps:\n" STEP,
        TOP "  filter: \"PartitionKey eq 'p' and RowKey ge 'r' and N le "
            "3\"\n" VERSION "  versions:\n  - to: 2\n    steps:\n" STEP,
        /* numbers beyond Edm.Int32 */
        TOP "  version: {property: V, absent: 5000000000}\n"
            "  versions:\n  - {to: 5000000001, steps: [remove: {property: "
            "A}]}\n",
        TOP "  version: {property: V, absent: -5000000000}\n"
            "  versions:\n  - {to: -4000000000, steps: [remove: {property: "
            "A}]}\n  - {to: 1, steps: [remove: {property: B}]}\n",
        /* `absent` is between the versions, so no entity is below the first */
        TOP "  version: {property: V, absent: 3}\n"
            "  versions:\n  - {to: 3, steps: [remove: {property: A}]}\n"
            "  - {to: 4, steps: [remove: {property: B}]}\n",
        /* `absent` is the newest version: only entities at older versions have
           the version property */
        TOP "  version: {property: V, absent: 2}\n"
            "  versions:\n  - {to: 1, steps: [remove: {property: A}]}\n"
            "  - {to: 2, steps: [remove: {property: B}]}\n",
    };

    for (size_t i = 0; TEST_EACH(i, jobs); i++) {
        struct err err = {.text = ""};

        if (examples(jobs[i], 100, SIZE_MAX, &err) != TW_OK)
            fail_msg("%zu: %s", i, err.text);
    }
}

/* The job selects each example. If none can be made, the error says so. */
TEST(a_job_without_examples_says_so)
{
    static const char *const jobs[] = {TOP
        "  filter: \"A eq 'x' and A eq 'y'\"\n" VERSION
        "  versions:\n  - to: 2\n    steps:\n" STEP,
        TOP "  filter: \"N gt 17 and D eq 1.5\"\n"
            "  version: {property: V, absent: 3}\n"
            "  versions:\n  - {to: 3, steps: [remove: {property: A}]}\n"
            "  - {to: 4, steps: [remove: {property: B}]}\n"};

    for (size_t i = 0; i < 2; i++) {
        struct err err = {.text = ""};

        assert_int_equal(examples(jobs[i], 1, SIZE_MAX, &err), TW_INVALID);
        if (!strstr(err.text, i == 0 ? "no example of version 1 passes"
                                     : "no example of version 3 passes"))
            fail_msg("%s", err.text);
    }
}

TEST(who_wants_no_more_examples_ends_them)
{
    struct err err = {.text = ""};

    assert_int_equal(examples(HEAD STEP, 10, 3, &err), TW_FULL);
    assert_string_equal(err.text, "enough");
}

HOSTED_TEST(a_converter_of_no_selection_says_why)
{
    const struct slice names[] = {slice_of("n"), slice_of("phase")};
    const struct slice values[] = {slice_of("x y"), slice_of("all")};
    const struct run_args args = {2, names, values};
    struct upgrade_converter *converter = NULL;
    struct err err;

    hosted_init(h, TOP "  args: [n]\n  filter: \"N eq {n}\"\n" VERSION
                       "  versions:\n  - to: 2\n    steps:\n" STEP);
    assert_int_equal(
        upgrade_convert_open(h->jobs.list, &args, &converter, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "filter"));
    upgrade_convert_close(NULL);
}
