/* SPDX-License-Identifier: MIT */
/* Former kinds and keys are reported at their line, with what replaces them. */
#include <string.h>

#include "config/yaml.h"
#include "jobs/retired.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"

struct reading {
    struct arena arena;
    struct problems problems;
    struct yaml_node *job;
    const struct yaml_node *rest;
};

static void done(struct reading *r)
{
    problems_done(&r->problems);
    arena_done(&r->arena);
}

TEST_FIXTURE(reading, struct reading, TEST_NOTHING, done)

/* READING_TEST: a test that reads jobs, one after another. */
#define READING_TEST(name)                                                     \
    TEST_WITH(name, reading_set_up, reading_tear_down, struct reading *r)

static void read_job(struct reading *r, const char *kind, const char *text)
{
    done(r);
    arena_init(&r->arena);
    problems_init(&r->problems);
    r->job = yaml_read("job.yaml", slice_of(text), &r->arena, &r->problems);
    assert_non_null(r->job);
    r->rest = retired_keys(r->job, kind, &r->arena, &r->problems);
}

/* Fails unless problem number i is in line `line` and its text contains
 * `part`. */
static void check_problem(
    const struct reading *r, size_t i, unsigned line, const char *part)
{
    assert_true(i < r->problems.errors);
    assert_int_equal(r->problems.list[i].mark.line, line);
    if (!strstr(r->problems.list[i].text, part))
        fail_msg("'%s' is not in: %s", part, r->problems.list[i].text);
}

READING_TEST(a_former_key_is_named_with_what_replaces_it)
{
    static const struct {
        const char *kind, *text, *key, *part;
    } CASES[] = {
        {"copy", "mode: move", "mode", "kind: move"},
        {"copy", "on_conflict: merge", "on_conflict",
            "'on_conflict: merge' is a former key: choose fail, skip or "
            "replace"},
        {"move", "on_conflict: merge", "on_conflict", "accept_equal"},
        {"move", "on_conflict: replace", "on_conflict", "accept_equal"},
        {"copy", "strip: true", "strip", "TablewardSource"},
        {"move", "strip: true", "strip", "adds no property"},
        {"copy", "provenance: From", "provenance", "TablewardSource"},
        {"copy", "verify: false", "verify", "tableward verify JOB"},
        {"move", "max_passes: 3", "max_passes", "decides by itself"},
        {"copy", "copies: [{row_key: x}]", "copies", "write `to:`"},
        {"copy", "table: Footwear", "table", "from: {table: "},
        {"copy", "row_key_below: a", "row_key_below", "from: {table: "},
        {"copy", "args: [a]", "args", "no arguments"},
        {"schema-upgrade", "steps: []", "steps", "versions: [{to: 2"},
        {"schema-upgrade", "phase: expand", "phase", "run JOB phase=expand"},
        {"schema-upgrade", "max_passes: 3", "max_passes", "decides by itself"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        read_job(r, CASES[i].kind, CASES[i].text);
        assert_int_equal(r->problems.errors, 1);
        check_problem(r, 0, 1, CASES[i].part);
        assert_null(yaml_get(r->rest, CASES[i].key));
        assert_non_null(yaml_get(r->job, CASES[i].key));
    }
}

READING_TEST(present_keys_and_other_kinds_are_left_alone)
{
    static const char *const TEXTS[][2] = {
        {"copy", "on_conflict: replace\nfollow: true\nproperties: [a]"},
        {"copy", "on_conflict: [merge]\nto: [{table: A}, {table: B}]"},
        {"move", "on_conflict: skip\nto: {table: A}"},
        {"delete", "table: A\nfilter: x\nmode: 1\nmax_passes: 2"},
        {"cascade-delete", "verify: true\nstrip: false"},
        {"copy", "{}"},
    };

    for (size_t i = 0; TEST_EACH(i, TEXTS); i++) {
        read_job(r, TEXTS[i][0], TEXTS[i][1]);
        assert_int_equal(r->problems.errors, 0);
        assert_int_equal(r->rest->count, r->job->count);
    }
}

READING_TEST(a_list_of_destinations_is_refused_for_a_move)
{
    read_job(r, "move", "to: [{table: A}, {table: B}]");
    assert_int_equal(r->problems.errors, 1);
    check_problem(r, 0, 1, "one destination");
    assert_int_equal(yaml_get(r->rest, "to")->type, YAML_MAP);
    read_job(r, "move", "to: []");
    assert_int_equal(r->problems.errors, 1);
}

READING_TEST(a_former_version_of_an_upgrade_is_taken_apart)
{
    const struct yaml_node *version;

    read_job(r, "schema-upgrade", "version: {property: V, from: 1, to: 2}");
    assert_int_equal(r->problems.errors, 2);
    check_problem(r, 0, 1, "absent: 1");
    check_problem(r, 1, 1, "versions: [{to: 2");
    assert_int_equal(r->problems.list[1].mark.column, 33);
    version = yaml_get(r->rest, "version");
    assert_int_equal(version->count, 1);
    assert_non_null(yaml_get(version, "property"));
    read_job(r, "schema-upgrade", "version: {property: V, absent: 1}");
    assert_int_equal(r->problems.errors, 0);
}

READING_TEST(a_former_kind_is_named_with_the_present_one)
{
    static const struct {
        const char *text, *now, *part;
    } CASES[] = {
        {"kind: migrate", "copy", "write `kind: copy`, or `kind: move`"},
        {"{kind: migrate, mode: copy}", "copy", "write `kind: copy`"},
        {"{kind: migrate, mode: move}", "move", "kind: move"},
        {"kind: reindex", "copy", "same table"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        read_job(r, "delete", CASES[i].text);
        assert_string_equal(retired_kind(r->job, &r->problems), CASES[i].now);
        assert_int_equal(r->problems.errors, 1);
        check_problem(r, 0, 1, CASES[i].part);
    }
}

READING_TEST(a_present_or_an_unknown_kind_is_no_former_one)
{
    static const char *const TEXTS[] = {
        "kind: copy", "kind: [migrate]", "kind: migrat", "mode: move"};

    for (size_t i = 0; TEST_EACH(i, TEXTS); i++) {
        read_job(r, "delete", TEXTS[i]);
        assert_null(retired_kind(r->job, &r->problems));
        assert_int_equal(r->problems.errors, 0);
    }
}
