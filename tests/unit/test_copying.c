/* SPDX-License-Identifier: MIT */
/* The copy of an entity: its keys and its properties. */
#include <stdio.h>
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

/* shape: the map of `properties:` in one line, or NULL. */
static void target_of(struct bench *b, const char *partition_key,
    const char *row_key, const char *shape)
{
    struct job_loader loader = {.job = "copy",
        .args = &ARG,
        .arg_count = 1,
        .arena = &b->arena,
        .problems = &b->problems};
    const struct yaml_node *node = NULL;

    b->target = (struct copying_target){
        .partition_key = template_of(b, partition_key),
        .row_key = template_of(b, row_key),
    };
    if (shape)
        node = yaml_read("t", arena_copy(&b->arena, slice_of(shape)), &b->arena,
            &b->problems);
    if (!copying_load_shape(node, RESERVED, &loader, &b->target.shape)) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", shape);
    }
}

/* properties: as the service's JSON, without the braces. */
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
}

TEST_FIXTURE(bench, struct bench, begin, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

BENCH_TEST(without_templates_it_has_the_keys_of_its_source)
{
    target_of(b, NULL, NULL, NULL);
    assert_ok(make(b, "\"A\":1"));
    check_text(b->copy.partition_key, slice_of("P"));
    check_text(b->copy.row_key, slice_of("R"));
}

TEST(what_is_left_out_is_never_copied)
{
    becomes(
        NULL, "\"A\":1,\"TablewardSource\":\"x\",\"B\":2", "\"A\":1,\"B\":2");
}

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

static void add_properties(
    struct entity *entity, struct arena *arena, size_t count, size_t bytes)
{
    char name[16], *text = arena_alloc(arena, bytes + 1);

    memset(text, 'x', bytes);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "P%zu", i);
        entity_set_string(entity, arena, name, (struct slice){text, bytes});
    }
}

static enum tw_err make_large(struct bench *b, size_t count, size_t bytes)
{
    target_of(b, NULL, NULL, NULL);
    b->source = entity_of(b, "P", "R\"R", "W/\"e1\"", "");
    add_properties(&b->source, &b->arena, count, bytes);
    assert_ok(entity_check(&b->source, &b->err));
    return copying_make(&b->target, &b->args, &b->source, RESERVED, &b->arena,
        &b->copy, &b->err);
}

/* A move adds no property: if the service accepts the source, it accepts the
 * copy. */
BENCH_TEST(the_largest_entities_can_be_copied)
{
    assert_ok(make_large(b, 252, 1));
    assert_int_equal(b->copy.property_count, 252);
    assert_ok(make_large(b, 16, 32 * 1024 - 60));
}

BENCH_TEST(other_templates_are_another_text)
{
    struct buf first, second;

    buf_init(&first, 4096);
    buf_init(&second, 4096);
    target_of(b, "{Size}", NULL, NULL);
    copying_add_templates(&b->target, &first);
    assert_string_equal(buf_text(&first), "{Size}/{RowKey}");
    target_of(b, "{Size}", "{RowKey}", "{keep: [A]}");
    copying_add_templates(&b->target, &second);
    assert_string_equal(buf_text(&first), buf_text(&second));
    buf_done(&first);
    buf_done(&second);
}

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
