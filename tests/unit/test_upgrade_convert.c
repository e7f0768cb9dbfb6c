/* SPDX-License-Identifier: MIT */
/* Conversion of single entities to the newest version, without a run, and
 * generated examples. */
#include <string.h>

#include "jobs/copy/source.h"
#include "jobs/upgrade/convert.h"
#include "tests/support/hosted.h"
#include "tests/support/quotes.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define JOB                                                                    \
    "blogs:\n"                                                                 \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"                                                         \
    "  filter: \"EntityType eq 'Blog'\"\n"                                     \
    "  version: {property: V, absent: 1}\n"                                    \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - add: {property: Slug, type: Edm.String,\n"                          \
    "        value: \"{lower(Title)}\"}\n"                                     \
    "    - rename: {property: Text, to: Body}\n"                               \
    "  - to: 3\n"                                                              \
    "    steps:\n"                                                             \
    "    - retype: {property: Rating, to: Edm.Double, on_error: %s}\n"         \
    "    - add: {property: Year, type: Edm.Int32, value: \"{year(At)}\"}\n"

struct bench {
    struct hosted hosted;
    struct arena arena;
    struct upgrade_converter *converter;
};

static void begin(struct bench *b, const char *on_error, const char *phase)
{
    const struct slice name = slice_of("phase"), value = slice_of(phase);
    const struct run_args args = {1, &name, &value};
    char *job = mem_format(JOB, on_error);
    struct err err;

    hosted_init(&b->hosted, job);
    mem_free(job);
    arena_init(&b->arena);
    assert_ok(
        upgrade_convert_open(b->hosted.jobs.list, &args, &b->converter, &err));
}

static void done(struct bench *b)
{
    upgrade_convert_close(b->converter);
    arena_done(&b->arena);
    hosted_done(&b->hosted);
}

/* Returns an entity with these properties, written as JSON without braces and
 * with single quotes. */
static struct entity parse(struct bench *b, const char *properties)
{
    struct entity entity;
    struct err err;
    struct slice text =
        arena_format(&b->arena, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",%s}",
            quoted(&b->arena, properties));

    if (entity_parse(text, true, &b->arena, &entity, NULL, &err) != TW_OK)
        fail_msg("%s", err.text);
    return entity;
}

static const char *json_of(struct bench *b, const struct entity *entity)
{
    struct buf text;
    const char *json;

    buf_init(&text, 65536);
    entity_write_properties(entity, &text);
    json = arena_copy(&b->arena, buf_slice(&text)).at;
    buf_done(&text);
    return json;
}

/* Returns the converted entity. */
static struct entity converted(struct bench *b, const struct entity *before)
{
    struct entity after;
    struct err err;

    assert_int_equal(
        upgrade_convert(b->converter, before, &b->arena, &after, &err),
        UPGRADE_CONVERTED);
    return after;
}

static void passes(struct bench *b, const struct entity *before)
{
    struct entity after;
    struct err err;

    assert_int_equal(
        upgrade_convert(b->converter, before, &b->arena, &after, &err),
        UPGRADE_PASSED);
    assert_string_equal(json_of(b, &after), json_of(b, before));
}

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

BENCH_TEST(what_the_job_does_not_select_passes)
{
    struct entity user, beyond;

    begin(b, "fail", "all");
    user = parse(b, "'EntityType':'User'");
    passes(b, &user);
    beyond = parse(b, "'EntityType':'Blog','V':7");
    passes(b, &beyond);
}

/* Like a run of the job, a conversion does not change an index row, because the
 * row belongs to the copy job that wrote it. */
BENCH_TEST(an_index_row_passes)
{
    static const struct store MAIN = {
        .capabilities = {.identity = "acct.table.core.windows.net"}};
    const struct source_table table = source_table_of(&MAIN, "Blogs");
    struct source source = {.job = slice_of("by-title"),
        .by = slice_of("0123456789abcdef"),
        .from = table,
        .at = table,
        .partition_key = slice_of("p"),
        .row_key = slice_of("source"),
        .etag = slice_of("e")};
    struct entity row;

    begin(b, "fail", "all");
    row = parse(b, "'EntityType':'Blog','Title':'A B'");
    source_stamp(&row, &source, &b->arena);
    passes(b, &row);
}

TEST(a_step_that_fails_is_named)
{
    static const char *const ON_ERROR[] = {"fail", "skip"};

    for (size_t i = 0; TEST_EACH(i, ON_ERROR); i++) {
        struct bench b;
        struct entity before, after;
        struct err err;

        begin(&b, ON_ERROR[i], "all");
        before = parse(&b, "'EntityType':'Blog','V':2,'Rating':'x'");
        assert_int_equal(
            upgrade_convert(b.converter, &before, &b.arena, &after, &err),
            UPGRADE_REFUSED);
        assert_non_null(strstr(err.text, "version 3, retype Rating: an "));
        done(&b);
    }
}

BENCH_TEST(expand_keeps_the_old_properties_of_the_newest_version)
{
    struct entity before, after;

    begin(b, "fail", "expand");
    before = parse(b, "'EntityType':'Blog','Slug':'s','Text':'x','Year':1");
    after = converted(b, &before);
    assert_null(entity_find(&after, slice_of("Text")));
    assert_non_null(entity_find(&after, slice_of("TablewardExpanded")));
}

/* ---- examples ---- */

struct seen {
    struct bench *bench;
    size_t count, without_version, at_two;
};

static enum tw_err see(void *ctx, const struct entity *before,
    const struct entity *after, struct err *err)
{
    struct seen *seen = ctx;
    const struct property *version = entity_find(before, slice_of("V"));
    struct entity again = converted(seen->bench, before);
    int64_t number = 0;

    seen->count++;
    seen->without_version += !version;
    seen->at_two +=
        version && property_integer(version, &number) && number == 2;
    assert_string_equal(
        json_of(seen->bench, &again), json_of(seen->bench, after));
    assert_true(property_integer(entity_find(after, slice_of("V")), &number));
    assert_int_equal(number, 3);
    return TW_OK;
}

BENCH_TEST(examples_are_of_all_versions_and_convert)
{
    struct seen seen = {.bench = b};
    struct err err;

    begin(b, "fail", "all");
    if (upgrade_convert_vectors(b->converter, 200, see, &seen, &err) != TW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(seen.count, 200);
    assert_in_range(seen.without_version, 20, 80);
    assert_int_equal(seen.at_two, 100);
}
