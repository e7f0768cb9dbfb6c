/* SPDX-License-Identifier: MIT */
/* `properties:` of a job that copies: what is read, and what is refused and
 * where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/job.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"

struct bench {
    struct arena arena;
    struct problems problems;
    struct job_loader loader;
    struct copying_shape shape;
    bool good;
};

static const struct slice ARG = {"channel", 7};

static void begin(struct bench *b, const char *text)
{
    const struct yaml_node *node;

    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    problems_init(&b->problems);
    b->loader = (struct job_loader){.job = "copy",
        .args = &ARG,
        .arg_count = 1,
        .arena = &b->arena,
        .problems = &b->problems};
    node = yaml_read(
        "t", arena_copy(&b->arena, slice_of(text)), &b->arena, &b->problems);
    assert_non_null(node);
    b->good = copying_load_shape(
        node, slice_of("TablewardSource"), &b->loader, &b->shape);
    assert_int_equal(b->good, b->problems.errors == 0);
}

static void done(struct bench *b)
{
    problems_done(&b->problems);
    arena_done(&b->arena);
}

/* Checks that text has one problem, with this sentence, at this column. */
static void refused(const char *text, unsigned column, const char *sentence)
{
    struct bench b;
    const struct problem *is;

    begin(&b, text);
    if (b.problems.errors != 1) {
        problems_print(&b.problems, stderr);
        fail_msg("%zu problems: %s", b.problems.errors, text);
    }
    is = &b.problems.list[0];
    if (is->mark.column != column || !strstr(is->text, sentence))
        fail_msg("%s: %u: %s", text, is->mark.column, is->text);
    assert_int_equal(b.shape.keep_count + b.shape.drop_count +
                         b.shape.rename_count + b.shape.set_count,
        0);
    done(&b);
}

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

BENCH_TEST(all_four_parts_are_read)
{
    begin(b, "keep: [A, B]\n"
             "drop: [C]\n"
             "rename: {A: X, B: Y}\n"
             "set: {A: true, Z: {type: Edm.Guid, value: '{G}'}}\n");
    assert_true(b->good);
    assert_int_equal(b->shape.keep_count, 2);
    check_text(b->shape.keep[1], slice_of("B"));
    assert_int_equal(b->shape.drop_count, 1);
    check_text(b->shape.drop[0], slice_of("C"));
    assert_int_equal(b->shape.rename_count, 2);
    check_text(b->shape.renames[1].from, slice_of("B"));
    check_text(b->shape.renames[1].to, slice_of("Y"));
    assert_int_equal(b->shape.set_count, 2);
    check_text(b->shape.sets[0].name, slice_of("A"));
    assert_int_equal(b->shape.sets[0].edm, EDM_BOOLEAN);
    assert_non_null(b->shape.sets[0].constant);
    assert_int_equal(b->shape.sets[1].edm, EDM_GUID);
    assert_null(b->shape.sets[1].constant);
}

BENCH_TEST(a_list_is_short_for_keep)
{
    begin(b, "[A, B]");
    assert_true(b->good);
    assert_int_equal(b->shape.keep_count, 2);
}

TEST(without_properties_everything_is_copied)
{
    struct bench b;

    begin(&b, "{}");
    memset(&b.shape, 0xff, sizeof(b.shape));
    assert_true(copying_load_shape(
        NULL, slice_of("TablewardSource"), &b.loader, &b.shape));
    assert_int_equal(b.shape.keep_count + b.shape.drop_count +
                         b.shape.rename_count + b.shape.set_count,
        0);
    done(&b);
}

TEST(names_that_no_copy_can_have_are_refused)
{
    refused("{keep: [A, PartitionKey]}", 12, "PartitionKey is a key");
    refused("{drop: [RowKey]}", 9, "RowKey is a key");
    refused("{rename: {A: Timestamp}}", 14, "Timestamp is set by the service");
    refused("{rename: {Timestamp: A}}", 11, "Timestamp is set by the service");
    refused("{set: {TablewardSource: 1}}", 8, "TablewardSource is reserved");
    refused("{set: {a-b: 1}}", 8, "invalid property name 'a-b'");
    refused("{keep: ['5A']}", 9, "invalid property name '5A'");
    refused("[RowKey]", 2, "RowKey is a key");
}

TEST(what_is_no_list_or_map_is_refused)
{
    refused("{keep: A}", 8, "keep must be a list, such as [Title, Text]");
    refused("{drop: {A: B}}", 8, "drop must be a list");
    refused("{keep: [[A]]}", 9, "keep must be names of properties, not a list");
    refused("{drop: [null]}", 9, "drop must be names of properties");
    refused("{rename: [A]}", 10, "rename must be a map, such as {Text: Body}");
    refused("{rename: {A: [B]}}", 14, "rename must be names of properties");
    refused("{set: [A]}", 7, "set must be a map, such as {Moved: true}");
    refused("{set: {A: [1]}}", 11, "A must be a value: true, a number, a text");
    refused("{set: {A: null}}", 11, "A must be a value");
    refused("{kept: [A]}", 2, "unknown key 'kept'");
    refused("some", 1, "properties must be a map");
}

TEST(what_cannot_be_is_refused)
{
    refused("{keep: [A, B], drop: [B]}", 22, "B is both kept and dropped");
    refused("{rename: {A: A}}", 14, "A is already the name of the property");
    refused("{rename: {A: X, B: X}}", 20, "two properties are renamed to X");
    refused("{drop: [A], rename: {A: B}}", 22, "A is dropped, so there is");
    refused("{keep: [B], rename: {A: C}}", 22, "A is not kept, so there is");
    refused("{rename: {A: B}, set: {B: 5}}", 24,
        "B is also the new name of a rename");
}

TEST(values_that_are_none_of_their_type_are_refused)
{
    refused("{set: {A: {type: Edm.Int32, value: x}}}", 36,
        "this value cannot be Edm.Int32: ");
    refused("{set: {A: {type: Edm.Int32, value: 2.5}}}", 36,
        "this value cannot be Edm.Int32: ");
    refused("{set: {A: {type: Edm.Int23, value: 5}}}", 18,
        "unknown type 'Edm.Int23', did you mean 'Edm.Int32'?");
    refused("{set: {A: {value: 5}}}", 11, "type");
    refused("{set: {A: {type: Edm.Int32}}}", 11, "value");
    refused("{set: {A: {type: Edm.Int32, value: [5]}}}", 36,
        "this key must be a text");
    refused("{set: {A: '{chanel'}}", 12, "this { is never closed");
}

BENCH_TEST(all_that_is_wrong_is_said_at_once)
{
    begin(b, "keep: [A, RowKey]\n"
             "drop: [A, a-b]\n"
             "rename: {B: B, C: C, Timestamp: D, E: RowKey}\n"
             "set: {A: [1], F: {type: Edm.Int32, value: x}, G: {type: x}}\n");
    assert_int_equal(b->problems.errors, 12);
    assert_false(b->good);
}

TEST(lists_longer_than_an_entity_are_refused)
{
    struct buf list, map;

    buf_init(&list, SIZE_MAX / 2);
    buf_init(&map, SIZE_MAX / 2);
    buf_add_text(&list, "{keep: [A");
    buf_add_text(&map, "{set: {A: 1");
    for (size_t i = 0; i < COPYING_MAX_PROPERTIES; i++) {
        buf_add_format(&list, ", P%zu", i);
        buf_add_format(&map, ", P%zu: 1", i);
    }
    buf_add_text(&list, "]}");
    buf_add_text(&map, "}}");
    refused(buf_text(&list), 8, "keep has 253 properties");
    refused(buf_text(&map), 7, "set has 253 properties");
    buf_done(&list);
    buf_done(&map);
}

TEST(a_value_from_the_environment_may_be_missing)
{
    struct bench b;

    unsetenv("NOT_SET_HERE");
    begin(&b, "{set: {A: '${NOT_SET_HERE}', B: '${NOR_THIS}'}}");
    assert_true(b.good);
    assert_string_equal(b.loader.unset, "NOT_SET_HERE");
    assert_null(b.shape.sets[0].constant);
    done(&b);
    setenv("NOT_SET_HERE", "{x}", 1);
    begin(&b, "{set: {A: '${NOT_SET_HERE}'}}");
    assert_true(b.good);
    check_text(b.shape.sets[0].constant->json, slice_of("\"{x}\""));
    done(&b);
    unsetenv("NOT_SET_HERE");
}

/* For a kind whose copies are always in the table of their sources. */
BENCH_TEST(where_the_place_is_known_a_target_has_none)
{
    const struct table_ref table_ref = {.store = 0, .table = "Shoes"};
    const struct copying_shape shape = {.keep_count = 0};
    const struct copying_defaults defaults = {&table_ref, &shape, {NULL, 0}};
    struct copying_target target;
    struct yaml_node *node;

    begin(b, "{}");
    node = yaml_read("t",
        arena_copy(&b->arena, slice_of("{row_key: 'size:{Size}'}")), &b->arena,
        &b->problems);
    assert_true(copying_load_target(node, &defaults, &b->loader, &target));
    assert_string_equal(target.table_ref.table, "Shoes");
    assert_null(target.partition_key);
    node = yaml_read("t",
        arena_copy(&b->arena, slice_of("{table: Other, row_key: x}")),
        &b->arena, &b->problems);
    assert_false(copying_load_target(node, &defaults, &b->loader, &target));
    assert_string_equal(target.table_ref.table, "Shoes");
}
