/* SPDX-License-Identifier: MIT */
/* TablewardSource: how it is written and read, and which location it names
 * (rule C1). */
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

struct bench {
    struct arena arena;
    struct source source;
    struct entity copy;
};

static void begin(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    b->source = (struct source){
        .job = slice_of("by-month"),
        .entry = 3,
        .by = slice_of("01234567"),
        .from = {slice_of("account"), slice_of("Blogs")},
        .at = {slice_of("account"), slice_of("ByMonth")},
        .partition_key = slice_of("Football"),
        .row_key = slice_of("1"),
        .etag = slice_of("W/\"datetime'1'\""),
    };
    entity_init(&b->copy, &b->arena, slice_of("P"), slice_of("R"));
    entity_set_int32(&b->copy, &b->arena, "A", 1);
}

static void done(struct bench *b)
{
    arena_done(&b->arena);
}

/* Writes TablewardSource of the copy; returns what is read from it. */
static struct source stamp(struct bench *b)
{
    struct source is;

    source_stamp(&b->copy, &b->source, &b->arena);
    assert_true(source_read(&b->copy, &b->arena, &is));
    return is;
}

static struct slice text_of(struct bench *b)
{
    struct slice text;

    assert_true(property_text(
        entity_find(&b->copy, slice_of(SOURCE_PROPERTY)), &b->arena, &text));
    return text;
}

TEST_FIXTURE(bench, struct bench, begin, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

BENCH_TEST(it_is_one_line_of_json)
{
    struct source is = stamp(b);

    assert_int_equal(b->copy.property_count, 2);
    check_text(text_of(b),
        arena_format(&b->arena,
            "{\"job\":\"by-month\",\"to\":3,\"by\":\"01234567\",\"from\":["
            "\"account\",\"Blogs\"],\"at\":[\"account\",\"ByMonth\"],\"own\":["
            "\"P\",\"R\"],\"key\":[\"Football\",\"1\"],\"etag\":"
            "\"W/\\\"datetime'1'\\\"\",\"digest\":\"%.*s\"}",
            SLICE_ARG(is.digest)));
}

TEST(what_is_written_is_read_back)
{
    static const char *const KEYS[] = {
        "", "a\"b", "{\"x\":1}", "Łódź 🙂", "'", " "};
    struct bench b;

    for (size_t i = 0; TEST_EACH(i, KEYS); i++) {
        struct source is;

        begin(&b);
        b.source.partition_key = b.source.row_key = slice_of(KEYS[i]);
        b.copy.partition_key = b.copy.row_key = slice_of(KEYS[i]);
        is = stamp(&b);
        check_text(is.job, b.source.job);
        assert_int_equal(is.entry, 3);
        check_text(is.by, b.source.by);
        assert_true(source_table_equal(&is.from, &b.source.from));
        assert_true(source_table_equal(&is.at, &b.source.at));
        check_text(is.partition_key, b.source.partition_key);
        check_text(is.row_key, b.source.row_key);
        check_text(is.own_partition_key, b.copy.partition_key);
        check_text(is.own_row_key, b.copy.row_key);
        check_text(is.etag, b.source.etag);
        assert_true(source_is_at(&is, &b.copy, &b.source.at));
        assert_true(source_is_intact(&is, &b.copy));
        done(&b);
    }
}

BENCH_TEST(a_second_stamp_takes_the_place_of_the_first)
{
    struct source first = stamp(b), second;

    b->source.etag = slice_of("later");
    second = stamp(b);
    assert_int_equal(b->copy.property_count, 2);
    check_text(second.etag, slice_of("later"));
    check_text(second.digest, first.digest);
}

/* Copies that differ only in the index of the entry are compared as equal. */
BENCH_TEST(what_follows_the_entry_is_the_same_for_every_index)
{
    struct slice first, second;

    (void)stamp(b);
    first = text_of(b);
    b->source.entry = 12;
    (void)stamp(b);
    second = text_of(b);
    assert_false(slice_equal(first, second));
    first = source_without_entry(first);
    assert_true(slice_begins(first, slice_of(",\"by\":\"01234567\",")));
    assert_true(slice_equal(first, source_without_entry(second)));
}

TEST(a_text_without_an_entry_is_taken_whole)
{
    static const char *const CASES[] = {
        "", "{}", ",\"by\"", "{\"job\":\",\\\"by\\\":\"}"};

    for (size_t i = 0; TEST_EACH(i, CASES); i++)
        check_text(
            source_without_entry(slice_of(CASES[i])), slice_of(CASES[i]));
}

BENCH_TEST(it_names_one_location)
{
    const struct source_table same = {slice_of("ACCOUNT"), slice_of("bymonth")},
                              other = {slice_of("account"), slice_of("ByYear")},
                              elsewhere = {
                                  slice_of("second"), slice_of("ByMonth")};
    struct source is = stamp(b);

    assert_true(source_is_at(&is, &b->copy, &same));
    assert_false(source_is_at(&is, &b->copy, &other));
    assert_false(source_is_at(&is, &b->copy, &elsewhere));
    b->copy.row_key = slice_of("r");
    assert_false(source_is_at(&is, &b->copy, &same));
}

BENCH_TEST(a_copy_is_intact_until_somebody_edits_it)
{
    struct source is = stamp(b);

    entity_set_int32(&b->copy, &b->arena, "A", 2);
    assert_false(source_is_intact(&is, &b->copy));
    entity_set_int32(&b->copy, &b->arena, "A", 1);
    assert_true(source_is_intact(&is, &b->copy));
    entity_set_int32(&b->copy, &b->arena, "B", 1);
    assert_false(source_is_intact(&is, &b->copy));
}

BENCH_TEST(other_texts_are_not_read)
{
    static const char *const OTHERS[] = {"", "main", "null", "[]", "{}", "{",
        "{\"job\":\"j\",\"to\":0}",
        "{\"job\":\"j\",\"to\":-1,\"by\":\"\",\"from\":[\"\",\"\"],\"at\":[\"\""
        ",\"\"],\"own\":[\"\",\"\"],\"key\":[\"\",\"\"],\"etag\":\"\","
        "\"digest\":\"0123456789abcdef0123456789abcdef\"}",
        "{\"job\":\"j\",\"to\":0,\"by\":\"\",\"from\":[\"\",\"\"],\"at\":[\"\""
        ",\"\"],\"own\":[\"\",\"\"],\"key\":[\"\",\"\"],\"etag\":\"\","
        "\"digest\":\"0123\"}",
        "{\"job\":\"j\",\"to\":0,\"by\":\"\",\"from\":[\"\"],\"at\":[\"\",\"\"]"
        ",\"own\":[\"\",\"\"],\"key\":[\"\",\"\"],\"etag\":\"\",\"digest\":"
        "\"0123456789abcdef0123456789abcdef\"}"};
    struct source is = {.job = slice_of("as before")};

    for (size_t i = 0; TEST_EACH(i, OTHERS); i++) {
        entity_set_string(
            &b->copy, &b->arena, SOURCE_PROPERTY, slice_of(OTHERS[i]));
        if (source_read(&b->copy, &b->arena, &is))
            fail_msg("%s", OTHERS[i]);
    }
    entity_set_int32(&b->copy, &b->arena, SOURCE_PROPERTY, 5);
    assert_false(source_read(&b->copy, &b->arena, &is));
    check_text(is.job, slice_of("as before"));
}

/* Each member must exist and have its type. */
BENCH_TEST(a_text_without_one_of_its_members_is_not_read)
{
    static const char *const NAMES[] = {
        "job", "to", "by", "from", "at", "own", "key", "etag", "digest"};
    struct source is = stamp(b);
    const char *whole = arena_copy(&b->arena, text_of(b)).at;

    for (size_t i = 0; i < 2 * sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        const char *name = NAMES[i / 2];
        const char *at =
            strstr(whole, arena_format(&b->arena, "\"%s\":", name).at);
        struct slice text;

        assert_non_null(at);
        /* An x is put before the name of the member, so the value now has
         * another name. A member with the right name is missing (i is even), or
         * is `true` (i is odd). */
        text = arena_format(&b->arena, "%.*s\"%s\":%s\"x%s", (int)(at - whole),
            whole, i % 2 ? name : "other", "true,", at + 1);
        entity_set_string(&b->copy, &b->arena, SOURCE_PROPERTY, text);
        if (source_read(&b->copy, &b->arena, &is))
            fail_msg("%.*s", SLICE_ARG(text));
    }
}

/* The name of the job comes first in TablewardSource, so that a range selects
 * the copies of one job. */
BENCH_TEST(the_filter_selects_the_copies_of_one_job)
{
    static const struct {
        const char *job;
        bool selected;
    } JOBS[] = {{"by-month", true}, {"by-month2", false}, {"by-mont", false},
        {"by-month-", false}, {"a", false}, {"z", false}};
    const struct filter *filter;
    struct buf text;
    struct err err;

    buf_init(&text, 1024);
    source_filter(slice_of("by-month"), &text);
    assert_ok(filter_parse(buf_slice(&text), &b->arena, &filter, &err));
    for (size_t i = 0; TEST_EACH(i, JOBS); i++) {
        b->source.job = slice_of(JOBS[i].job);
        source_stamp(&b->copy, &b->source, &b->arena);
        assert_int_equal(filter_matches(filter, &b->copy), JOBS[i].selected);
    }
    buf_done(&text);
}

TEST(a_store_is_known_by_its_identity)
{
    const struct store known = {.name = "main",
        .capabilities = {.identity = "a1", .endpoint = "https://a1"}};
    const struct store renamed = {.name = "second",
        .capabilities = {.identity = "a1", .endpoint = "https://other"}};
    const struct store unknown = {.name = "main"};
    const struct store placed = {
        .name = "main", .capabilities = {.endpoint = "https://a1"}};
    struct source_table a = source_table_of(&known, "T"),
                        b = source_table_of(&renamed, "t"),
                        c = source_table_of(&unknown, "T"),
                        d = source_table_of(&placed, "T");

    assert_true(source_table_equal(&a, &b));
    assert_false(source_table_equal(&a, &c));
    check_text(c.account, slice_of("main"));
    check_text(d.account, slice_of("https://a1"));
}
