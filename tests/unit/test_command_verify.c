/* SPDX-License-Identifier: MIT */
/* The output of `verify` for the differences that a kind finds, and the
 * arguments of `verify`. */
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/cli/args.h"
#include "worker/cli/command.h"
#include "worker/cli/verification.h"

static const struct kind KIND = {.name = "copy"};
static const struct job JOB = {.name = "blogs-by-month", .kind = &KIND};

static struct job_difference differences[] = {
    {.what = "sources without a copy",
        .count = 1234,
        .first_keys = {"Blogs 'a'/'1'", "Blogs 'a\n'/'2'"}},
    {.what = "copies without a source", .count = 0},
};

static const struct job_verification DIFFERENT = {
    .differences = differences, .count = 2, .read = 70000};

static void assert_says(
    const struct job_verification *verification, const char *wanted)
{
    struct buf text;

    buf_init(&text, 10000);
    verification_add_text(&JOB, verification, &text);
    assert_string_equal(buf_text(&text), wanted);
    buf_done(&text);
}

TEST(differences_are_counted_and_the_first_are_named)
{
    assert_says(&DIFFERENT, "blogs-by-month: 70,000 entities compared\n"
                            "sources without a copy: 1,234\n"
                            "  Blogs 'a'/'1'\n"
                            "  Blogs 'a\\x0a'/'2'\n"
                            "copies without a source: 0\n");
    assert_int_equal(verification_count(&DIFFERENT), 1234);
}

TEST(no_difference_is_one_line)
{
    struct job_verification same = {
        .differences = differences + 1, .count = 1, .read = 1};

    assert_says(&same, "blogs-by-month: 1 entity compared, no difference\n");
    same.note = "the table is missing";
    assert_says(&same,
        "blogs-by-month: 1 entity compared, no difference; the table is "
        "missing\n");
    assert_int_equal(verification_count(&same), 0);
}

TEST(programs_get_an_object)
{
    struct json *json = NULL;
    const struct json *list, *first;
    int64_t count = 0;
    struct buf text;

    buf_init(&text, 10000);
    verification_add_json(&JOB, &DIFFERENT, &text);
    assert_ok(json_parse(buf_slice(&text), 5, &json, NULL));
    list = json_get(json, "Differences");
    assert_int_equal(json_count(list), 2);
    assert_true(json_int64(json_get(json_at(list, 0), "Count"), &count));
    assert_int_equal(count, 1234);
    first = json_get(json_at(list, 0), "First");
    assert_int_equal(json_count(first), 2);
    assert_true(slice_is(json_string(json_at(first, 1)), "Blogs 'a\n'/'2'"));
    assert_int_equal(json_count(json_get(json_at(list, 1), "First")), 0);
    assert_true(json_int64(json_get(json, "EntitiesRead"), &count));
    assert_int_equal(count, 70000);
    assert_true(slice_is(json_string(json_get(json, "Kind")), "copy"));
    assert_null(json_get(json, "Note"));
    json_free(json);
    buf_done(&text);
}

/* ---- arguments ---- */

#define PURGE                                                                  \
    "purge:\n  kind: delete\n  args: [from, {below: {allow_empty: true}}, "    \
    "last]\n  table: Blogs\n  partition_key_from: \"{from}\"\n"                \
    "  partition_key_below: \"{below}\"\n  filter: \"A eq '{last}'\"\n"

static int read_some(
    struct loading *l, const char *one, const char *other, struct run_args *ret)
{
    const char *const words[] = {one, other};

    return args_read_some(
        &l->jobs.list[0], words, other ? 2 : 1, &l->arena, ret);
}

LOADING_TEST(arguments_may_be_missing)
{
    struct run_args args = {0};

    loading_good(l, PURGE);
    assert_int_equal(read_some(l, "last=z", "below=", &args), EXIT_DONE);
    assert_int_equal(args.count, 3);
    assert_true(slice_is(args.names[0], "from"));
    assert_null(args.values[0].at);
    assert_non_null(args.values[1].at);
    assert_int_equal(args.values[1].len, 0);
    assert_true(slice_is(args.values[2], "z"));
    assert_int_equal(
        args_read_some(&l->jobs.list[0], NULL, 0, &l->arena, &args), EXIT_DONE);
    assert_int_equal(args.count, 3);
    assert_null(args.values[2].at);
}

LOADING_TEST(wrong_arguments_are_refused_all_the_same)
{
    static const char *const WRONG[][2] = {
        {"form=a", NULL}, {"from=a", "from=b"}, {"from=", NULL}, {"a", NULL}};
    struct run_args args = {0};

    loading_good(l, PURGE);
    for (size_t i = 0; TEST_EACH(i, WRONG); i++)
        assert_int_equal(
            read_some(l, WRONG[i][0], WRONG[i][1], &args), EXIT_USAGE_64);
}
