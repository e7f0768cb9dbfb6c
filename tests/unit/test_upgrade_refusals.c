/* SPDX-License-Identifier: MIT */
/* The limits of a schema-upgrade job, the positions of its problems, and the
 * examples of jobs of many shapes. */
#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/convert.h"
#include "jobs/upgrade/rules.h"
#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "tests/support/upgrade_yaml.h"
#include "worker/base/mem.h"

#define STEP REMOVE("Old")

/* The first job has one version more than the maximum, the second job one step
 * more. */
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
        buf_add_format(&text, REMOVE("A%d"), i);
    loading_refused(buf_text(&text), "a list of 1 to 64 steps");
    buf_done(&text);
}

/* A value from an environment variable that is not set is not checked: only a
 * run needs it. */
LOADING_TEST(a_value_may_come_from_the_environment)
{
    unsetenv("TW_TEST_UNSET");
    loading_good(l, HEAD ADD("A", "Int32", "\"${TW_TEST_UNSET}\"")
                        ADD("B", "Int32", "\"${TW_TEST_UNSET}\""));
    assert_string_equal(l->jobs.list[0].unset, "TW_TEST_UNSET");
    setenv("TW_TEST_UNSET", "five", 1);
    loading_refused(HEAD ADD("A", "Int32", "\"${TW_TEST_UNSET}\""),
        "this value cannot be Edm.Int32");
    unsetenv("TW_TEST_UNSET");
}

/* Returns the column, in the configuration, of the problem about A in
 * `template`; 0: there is no such problem. */
static unsigned column_of(const char *template)
{
    char *text = mem_format(HEAD RENAME("A", "B")
                                NEXT_VERSION ADD("C", "String", "\"%s\""),
        template);
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

/* The column in the problem is that of the place where the template reads the
 * property, not of a text that merely resembles its name. */
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

/* ---- examples ---- */

struct seen {
    const struct upgrade_converter *converter;
    struct arena *arena;
    size_t count, limit;
};

/* Fails unless the conversion of `before` gives `after`. After `limit` examples
 * it returns TW_FULL. */
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

#define FILTERED(filter) TOP "  filter: \"" filter "\"\n" VERSION VERSIONS

TEST(there_are_examples_of_jobs_of_every_shape)
{
    static const char *const jobs[] = {
        /* no filter; a step reads what another step makes */
        HEAD SET("A", "Guid", "\"12345678-0000-4000-8000-000000000000\"")
            ADD("B", "Binary", "AAEC") NEXT_VERSION ADD(
                "C", "String", "\"{lower(Title)}{upper(Title)}\"")
                RENAME("B", "D") ADD("E", "String", "\"{C}\""),
        /* a filter with several properties, one of which a step reads */
        FILTERED("(Kind_1 eq 'x' and Title eq 'y') or N gt 3")
            ADD("S", "String", "\"{Title}\""),
        FILTERED("Title eq 'y' and Title eq 'y'") STEP,
        FILTERED("N eq 17 and B eq true and (C eq false)") STEP,
        FILTERED("T eq 'it''s a)' and N ge -5 and N le 9") STEP,
        FILTERED("PartitionKey eq 'p' and RowKey ge 'r' and N le 3") STEP,
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

/* Each example must be an entity that the job selects. If no such example can
 * be made, the error says so. */
TEST(a_job_without_examples_says_so)
{
    static const char *const jobs[] = {FILTERED("A eq 'x' and A eq 'y'") STEP,
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

    hosted_init(
        h, TOP "  args: [n]\n  filter: \"N eq {n}\"\n" VERSION VERSIONS STEP);
    assert_int_equal(
        upgrade_convert_open(h->jobs.list, &args, &converter, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "filter"));
    upgrade_convert_close(NULL);
}
