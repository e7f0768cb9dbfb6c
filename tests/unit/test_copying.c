/* SPDX-License-Identifier: MIT */
/* The copy of an entity: its keys and its properties. Then `properties:` of a
 * job that copies: what is read, and what is refused and where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/job.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"

struct bench {
    struct arena arena;
    struct problems problems;
    struct job_loader loader;
    struct run_args args;
    struct copying_target target;
    struct entity source, copy;
    struct err err;
};

/* The property that tableward itself sets. */
static const struct slice RESERVED = {"TablewardSource", 15};

static const struct slice ARG = {"channel", 7}, VALUE = {"Football", 8};

static const struct template *template_of(struct bench *b, const char *text)
{
    const struct template_scope scope = {&ARG, 1, true};
    const struct template *template;

    if (!text)
        return NULL;
    template = template_compile(slice_of(text), (struct mark){"t", 1, 1},
        &scope, &b->arena, &b->problems);
    if (!template) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", text);
    }
    return template;
}

static struct yaml_node *yaml_of(struct bench *b, const char *text)
{
    struct yaml_node *node = yaml_read(
        "t", arena_copy(&b->arena, slice_of(text)), &b->arena, &b->problems);

    assert_non_null(node);
    return node;
}

/* Loads `text`, the map of `properties:`; returns false if it has errors. */
static bool load_shape(struct bench *b, const char *text)
{
    bool good = copying_load_shape(
        yaml_of(b, text), RESERVED, &b->loader, &b->target.shape);

    assert_int_equal(good, b->problems.errors == 0);
    return good;
}

/* Sets the target. shape: the map of `properties:` in one line, or NULL. */
static void target_of(struct bench *b, const char *partition_key,
    const char *row_key, const char *shape)
{
    b->target = (struct copying_target){
        .partition_key = template_of(b, partition_key),
        .row_key = template_of(b, row_key),
    };
    if (shape && !load_shape(b, shape)) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", shape);
    }
}

/* Returns an entity. properties: as the service's JSON, without the braces. */
static struct entity entity_of(struct bench *b, const char *partition_key,
    const char *row_key, const char *etag, const char *properties)
{
    struct slice text =
        arena_format(&b->arena, "{\"PartitionKey\":\"\",\"RowKey\":\"\"%s%s}",
            *properties ? "," : "", properties);
    struct entity entity;
    struct err err;

    if (entity_parse(text, true, &b->arena, &entity, NULL, &err) != TW_OK)
        fail_msg("%s", err.text);
    entity.partition_key = slice_of(partition_key);
    entity.row_key = slice_of(row_key);
    entity.etag = slice_of(etag);
    return entity;
}

static void begin(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    problems_init(&b->problems);
    b->args = (struct run_args){1, &ARG, &VALUE};
    b->loader = (struct job_loader){.job = "copy",
        .args = &ARG,
        .arg_count = 1,
        .arena = &b->arena,
        .problems = &b->problems};
}

static void done(struct bench *b)
{
    problems_done(&b->problems);
    arena_done(&b->arena);
}

static enum tw_err make(struct bench *b, const char *properties)
{
    b->err.text[0] = '\0';
    b->source = entity_of(b, "P", "R", "e1", properties);
    return copying_make(&b->target, &b->args, &b->source, RESERVED, &b->arena,
        &b->copy, &b->err);
}

static void check_properties(
    struct bench *b, const struct entity *entity, const char *properties)
{
    struct buf is;

    buf_init(&is, SIZE_MAX / 2);
    entity_write_properties(entity, &is);
    check_text(buf_slice(&is), arena_format(&b->arena, "{%s}", properties));
    buf_done(&is);
}

/* ---- copies ---- */

static void becomes(
    const char *shape, const char *properties, const char *expected)
{
    struct bench b;

    begin(&b);
    target_of(&b, "{channel}", "{RowKey}-{PartitionKey}", shape);
    if (make(&b, properties) != TW_OK)
        fail_msg("%s", b.err.text);
    check_text(b.copy.partition_key, VALUE);
    check_text(b.copy.row_key, slice_of("R-P"));
    assert_int_equal(b.copy.etag.len, 0);
    assert_int_equal(b.copy.timestamp.len, 0);
    check_properties(&b, &b.copy, expected);
    done(&b);
}

static void fails(const char *partition_key, const char *shape,
    const char *properties, const char *sentence)
{
    struct bench b;

    begin(&b);
    target_of(&b, partition_key, NULL, shape);
    assert_int_equal(make(&b, properties), TW_INVALID);
    if (!strstr(b.err.text, sentence))
        fail_msg("\"%s\" is not in: %s", sentence, b.err.text);
    done(&b);
}

TEST(a_copy_has_all_properties_to_the_byte)
{
    becomes(NULL,
        "\"A\":1,\"B\":\"\\u0041\",\"D@odata.type\":\"Edm.Double\","
        "\"D\":\"NaN\"",
        "\"A\":1,\"B\":\"\\u0041\",\"D@odata.type\":\"Edm.Double\","
        "\"D\":\"NaN\"");
    becomes(NULL, "", "");
    becomes(
        NULL, "\"A\":1,\"TablewardSource\":\"x\",\"B\":2", "\"A\":1,\"B\":2");
}

TEST_FIXTURE(bench, struct bench, begin, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

TEST(properties_are_kept_or_dropped)
{
    becomes("{keep: [B, C]}", "\"A\":1,\"B\":2,\"D\":3", "\"B\":2");
    becomes("[B, C]", "\"A\":1,\"B\":2,\"D\":3", "\"B\":2");
    becomes("{drop: [B, C]}", "\"A\":1,\"B\":2,\"D\":3", "\"A\":1,\"D\":3");
    becomes("{keep: [A, B], drop: [C]}", "\"A\":1,\"B\":2,\"C\":3",
        "\"A\":1,\"B\":2");
    becomes("{keep: [], drop: [], rename: {}, set: {}}", "\"A\":1", "\"A\":1");
}

TEST(properties_are_renamed_all_at_once)
{
    becomes("{rename: {A: X}}", "\"A\":1,\"B\":2", "\"X\":1,\"B\":2");
    becomes("{rename: {A: B, B: A}}", "\"A\":1,\"B\":2", "\"B\":1,\"A\":2");
    becomes("{rename: {A: B, B: C}}", "\"A\":1,\"B\":2", "\"B\":1,\"C\":2");
    becomes("{rename: {A: X}}", "\"B\":2", "\"B\":2");
    becomes("{drop: [B], rename: {A: B}}", "\"A\":1,\"B\":2", "\"B\":1");
}

TEST(properties_are_set_with_their_types)
{
    becomes("{set: {T: true, F: false}}", "", "\"T\":true,\"F\":false");
    becomes("{set: {A: 5}}", "\"A\":\"x\",\"B\":2", "\"A\":5,\"B\":2");
    becomes("{set: {A: 3000000000}}", "",
        "\"A@odata.type\":\"Edm.Int64\",\"A\":\"3000000000\"");
    becomes("{set: {A: 2.5}}", "", "\"A@odata.type\":\"Edm.Double\",\"A\":2.5");
    becomes("{set: {A: '5', B: text}}", "", "\"A\":\"5\",\"B\":\"text\"");
    becomes("{set: {A: ''}}", "", "\"A\":\"\"");
    becomes("{set: {A: '{channel}: {B}'}}", "\"B\":2",
        "\"B\":2,\"A\":\"Football: 2\"");
    becomes("{set: {A: {type: Edm.Int64, value: '{B + 1}'}}}", "\"B\":2",
        "\"B\":2,\"A@odata.type\":\"Edm.Int64\",\"A\":\"3\"");
    becomes("{set: {A: {type: Edm.Int64, value: 5}}}", "",
        "\"A@odata.type\":\"Edm.Int64\",\"A\":\"5\"");
}

TEST(what_is_set_is_made_of_the_source)
{
    becomes("{drop: [A], set: {B: '{A}', C: '{B}'}}", "\"A\":1,\"B\":2",
        "\"B\":\"1\",\"C\":\"2\"");
    becomes("{rename: {A: X}, set: {A: 5}}", "\"A\":1", "\"X\":1,\"A\":5");
}

TEST(a_source_that_cannot_be_rendered_fails)
{
    fails("{Size}", NULL, "", "partition_key: property Size is missing");
    fails("{year(Size)}", NULL, "\"Size\":5",
        "partition_key: Size is an integer; year needs");
    fails(NULL, "{set: {A: '{B}', C: '{D}'}}", "",
        "set A: property B is missing");
    fails(NULL, "{set: {A: {type: Edm.Int32, value: '{B}'}}}", "\"B\":\"x\"",
        "set A: ");
    fails(NULL, "{rename: {A: B}}", "\"A\":1,\"B\":2",
        "rename: the entity already has a property B");
}

TEST(keys_that_the_service_forbids_fail)
{
    struct buf long_key;

    fails("{Size}", NULL, "\"Size\":\"a/b\"", "the copy: PartitionKey 'a/b'");
    fails("{Size}", NULL, "\"Size\":\"a#b\"", "which the service forbids");
    buf_init(&long_key, SIZE_MAX / 2);
    buf_add_text(&long_key, "\"Size\":\"");
    for (size_t i = 0; i < 513; i++)
        buf_add_char(&long_key, 'x');
    buf_add_char(&long_key, '"');
    fails("{Size}", NULL, buf_text(&long_key), "longer than 512 UTF-16 units");
    fails("{Size}{Size}{Size}{Size}{Size}{Size}{Size}{Size}", NULL,
        buf_text(&long_key), "longer than 4096 bytes");
    buf_done(&long_key);
}

/* ---- limits ---- */

BENCH_TEST(a_target_is_explained)
{
    struct buf text;

    buf_init(&text, 4096);
    target_of(b, "{Size}", NULL,
        "{keep: [A, B], drop: [C], rename: {A: X}, set: {M: true}}");
    copying_explain(&b->target, &text);
    assert_string_equal(buf_text(&text),
        "PartitionKey \"{Size}\", RowKey of the source, only A, B, "
        "without C, A as X, M (Edm.Boolean) \"true\"");
    buf_done(&text);
}

/* ---- what is read ---- */

static void check_shape_is_empty(const struct bench *b)
{
    const struct copying_shape *shape = &b->target.shape;

    assert_int_equal(shape->keep_count + shape->drop_count +
                         shape->rename_count + shape->set_count,
        0);
}

/* Checks that text has one problem, with this sentence, at this column. */
static void refused(const char *text, unsigned column, const char *sentence)
{
    struct bench b;
    const struct problem *is;

    begin(&b);
    (void)load_shape(&b, text);
    if (b.problems.errors != 1) {
        problems_print(&b.problems, stderr);
        fail_msg("%zu problems: %s", b.problems.errors, text);
    }
    is = &b.problems.list[0];
    if (is->mark.column != column || !strstr(is->text, sentence))
        fail_msg("%s: %u: %s", text, is->mark.column, is->text);
    check_shape_is_empty(&b);
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
    refused(
        "{rename: {A: A}}", 14, "A is the name that the property already has");
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
    assert_false(load_shape(b,
        "keep: [A, RowKey]\n"
        "drop: [A, a-b]\n"
        "rename: {B: B, C: C, Timestamp: D, E: RowKey}\n"
        "set: {A: [1], F: {type: Edm.Int32, value: x}, G: {type: x}}\n"));
    assert_int_equal(b->problems.errors, 12);
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

BENCH_TEST(a_value_from_the_environment_may_be_missing)
{
    const struct copying_shape *shape = &b->target.shape;

    unsetenv("NOT_SET_HERE");
    assert_true(
        load_shape(b, "{set: {A: '${NOT_SET_HERE}', B: '${NOR_THIS}'}}"));
    assert_string_equal(b->loader.unset, "NOT_SET_HERE");
    assert_null(shape->sets[0].constant);
    setenv("NOT_SET_HERE", "{x}", 1);
    assert_true(load_shape(b, "{set: {A: '${NOT_SET_HERE}'}}"));
    check_text(shape->sets[0].constant->json, slice_of("\"{x}\""));
    unsetenv("NOT_SET_HERE");
}
