/* SPDX-License-Identifier: MIT */
/* The jobs of a configuration: names, arguments, kinds, their hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/loading.h"
#include "worker/base/buf.h"

#define REST                                                                   \
    "  kind: cascade-delete\n"                                                 \
    "  parent: {table: Channels, partition_key: all, row_key: x, "             \
    "tombstone: {Deleted: true}}\n"                                            \
    "  children: [{table: Blogs, partition_key: x}]\n"

/* 65 characters. */
#define LONG_NAME                                                              \
    "a2345678901234567890123456789012345678901234567890123456789012345"

/* ---- names ---- */

static void a_jobs_name_is_one_that_a_queue_can_have(void **state)
{
    static const char *const BAD[] = {
        "Purge: {kind: cascade-delete}\n",
        "9purge: {kind: cascade-delete}\n",
        "pur_ge: {kind: cascade-delete}\n",
        "purgE: {kind: cascade-delete}\n",
        "pur~ge: {kind: cascade-delete}\n",
        "'': {kind: cascade-delete}\n",
        LONG_NAME ": {kind: cascade-delete}\n",
    };
    struct loading l;

    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
        loading_refused(BAD[i], "a job's name must be at most");
    loading_good(&l, "purge-2-z:\n" REST);
    assert_int_equal(l.jobs.count, 1);
    assert_string_equal(l.jobs.list[0].name, "purge-2-z");
    loading_done(&l);
}

static void what_is_no_map_is_no_job(void **state)
{
    (void)state;
    loading_refused("[purge]\n", "jobs must be a map of names");
    loading_refused("purge: cascade-delete\n",
        "job purge must be a map, beginning with kind:");
}

static void a_configuration_may_have_no_jobs(void **state)
{
    struct loading l;

    (void)state;
    loading_begin(&l, "{}\n");
    jobs_load(NULL, &l.stores, &l.arena, &l.jobs, &l.problems);
    assert_int_equal(l.jobs.count, 0);
    assert_int_equal(l.problems.errors, 0);
    assert_null(jobs_find(&l.jobs, slice_of("purge")));
    assert_null(jobs_nearest(&l.jobs, slice_of("purge")));
    loading_done(&l);
}

static void a_job_with_mistakes_does_not_hide_the_others(void **state)
{
    struct loading l;

    (void)state;
    loading_begin(&l, "first: {kind: cascade-delete}\nsecond:\n" REST);
    assert_int_equal(l.jobs.count, 1);
    assert_non_null(jobs_find(&l.jobs, slice_of("second")));
    assert_null(jobs_find(&l.jobs, slice_of("first")));
    assert_int_equal(l.jobs.broken_count, 1);
    assert_string_equal(l.jobs.broken[0], "first");
    assert_string_equal(jobs_nearest(&l.jobs, slice_of("secnd")), "second");
    loading_done(&l);
}

/* ---- kinds ---- */

static void a_job_says_what_it_does(void **state)
{
    (void)state;
    loading_refused("purge: {settle: 5s}\n", "kind is missing");
    loading_refused("purge: {kind: cascade-delte}\n", "cascade-delete");
    loading_refused("purge: {kind: [cascade-delete]}\n", "kind");
}

/* Two upgrades of one table: each job alone would be valid. */
static void a_kind_sees_all_jobs_once_they_are_read(void **state)
{
#define UPGRADE(name, to)                                                      \
    name ": {kind: schema-upgrade, table: Blogs, version: {property: V, "      \
         "absent: 1}, versions: [{to: " to ", steps: [remove: {property: "     \
         "Old}]}]}\n"
    struct loading l;

    (void)state;
    loading_begin(&l, UPGRADE("one", "2") UPGRADE("other", "3"));
    assert_int_equal(l.problems.errors, 1);
    assert_true(loading_says(&l, "one list of versions"));
    loading_done(&l);
    loading_good(&l, UPGRADE("one", "2") UPGRADE("same", "2"));
    loading_done(&l);
}

static void an_argument_of_the_kind_cannot_be_declared(void **state)
{
    (void)state;
    loading_refused("up: {kind: schema-upgrade, args: [phase], table: Blogs, "
                    "version: {property: V, absent: 1}, versions: [{to: 2, "
                    "steps: [remove: {property: Old}]}]}\n",
        "every job of kind schema-upgrade has an argument phase");
}

/* ---- following jobs (rule L3) ---- */

#define COPY(name, to, follow)                                                 \
    name ": {kind: copy, from: {table: Blogs}, to: {table: " to                \
         ", row_key: \"x{RowKey}\"}, follow: " follow "}\n"

static void two_following_jobs_of_one_table_are_refused(void **state)
{
    struct loading l;

    (void)state;
    loading_begin(
        &l, COPY("one", "Copies", "true") COPY("other", "copies", "true"));
    assert_int_equal(l.problems.errors, 1);
    assert_true(loading_says(&l,
        "jobs one and other both have follow: true and write table Copies"));
    loading_done(&l);
    loading_good(
        &l, COPY("one", "Copies", "true") COPY("other", "Others", "true"));
    assert_int_equal(l.problems.warnings, 0);
    loading_done(&l);
}

static void a_job_that_waits_for_a_following_one_is_a_warning(void **state)
{
    struct loading l;

    (void)state;
    loading_good(
        &l, COPY("once", "Copies", "false") COPY("always", "Copies", "true"));
    assert_int_equal(l.problems.warnings, 1);
    assert_true(loading_says(&l, "job always has follow: true: while a run of "
                                 "it is open, runs of job once wait"));
    loading_done(&l);
    loading_good(
        &l, COPY("once", "Copies", "false") COPY("too", "Copies", "false"));
    assert_int_equal(l.problems.warnings, 0);
    loading_done(&l);
}

/* ---- arguments ---- */

static void arguments_are_names_that_a_template_can_hold(void **state)
{
    static const char *const BAD[] = {
        "purge:\n  args: ['']\n" REST,
        "purge:\n  args: [9lives]\n" REST,
        "purge:\n  args: [a-b]\n" REST,
        "purge:\n  args: ['a~']\n" REST,
        "purge:\n  args: [[a]]\n" REST,
        "purge:\n  args: [{a: {}, b: {}}]\n" REST,
        "purge:\n  args: [" LONG_NAME "]\n" REST,
    };
    struct loading l;

    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
        loading_refused(BAD[i], "an argument must be a name");
    loading_good(&l, "purge:\n  args: [a_9, _B, Zz]\n" REST);
    assert_int_equal(l.jobs.list[0].arg_count, 3);
    assert_int_equal(job_arg_index(&l.jobs.list[0], slice_of("_B")), 1);
    assert_int_equal(job_arg_index(&l.jobs.list[0], slice_of("b")), 3);
    loading_done(&l);
}

static void arguments_are_a_list_of_few(void **state)
{
    struct buf text;

    (void)state;
    loading_refused("purge:\n  args: channel\n" REST, "args must be a list");
    buf_init(&text, 4096);
    buf_add_text(&text, "purge:\n  args: [a");
    for (int i = 0; i < 32; i++)
        buf_add_format(&text, ", a%d", i);
    buf_add_text(&text, "]\n" REST);
    loading_refused(buf_text(&text), "args must be a list of at most 32");
    buf_done(&text);
}

static void an_argument_is_declared_once(void **state)
{
    (void)state;
    loading_refused(
        "purge:\n  args: [a, b, a]\n" REST, "argument a is listed twice");
}

static void an_argument_may_be_empty_where_the_job_says_so(void **state)
{
    struct loading l;

    (void)state;
    loading_good(&l, "purge:\n  args: [a, {b: {allow_empty: true}}]\n" REST);
    assert_false(l.jobs.list[0].args[0].allow_empty);
    assert_true(l.jobs.list[0].args[1].allow_empty);
    loading_done(&l);
    loading_refused(
        "purge:\n  args: [{b: {allow_empty: perhaps}}]\n" REST, "allow_empty");
    loading_refused("purge:\n  args: [{b: {alow: true}}]\n" REST, "alow");
}

/* ---- the hash of a definition ---- */

static void hash_of(const char *text, char to[17])
{
    struct loading l;

    loading_good(&l, text);
    memcpy(to, l.jobs.list[0].hash, 17);
    loading_done(&l);
}

static void a_definition_that_says_something_else_has_another_hash(void **state)
{
    static const char *const OTHERS[] = {
        "purge:\n  settle: 6s\n" REST,
        "purge:\n  settle: [5s]\n" REST,
        "purge:\n  settle: '5s'\n" REST,
        "purge:\n  refuse_above: 5\n" REST,
        "purge:\n" REST,
    };
    char hash[17], other[17];

    (void)state;
    hash_of("purge:\n  settle: 5s\n" REST, hash);
    hash_of("purge: # a comment\n" REST "  settle:    5s\n", other);
    /* Another order of keys gives another hash. */
    assert_string_not_equal(hash, other);
    hash_of("erase: # a comment\n  settle:    5s\n" REST, other);
    assert_string_equal(hash, other);
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++) {
        hash_of(OTHERS[i], other);
        assert_string_not_equal(hash, other);
    }
}

/* Limits, folders and the end of a run do not decide what the run changes. */
static void a_run_is_not_bound_to_limits_and_files(void **state)
{
    static const char *const SAME[] = {
        "purge:\n  refuse_above: 5\n" REST,
        "purge:\n  archive: archive\n" REST,
        "purge:\n  failures: failed\n" REST,
    };
    char hash[17], other[17];

    (void)state;
    hash_of("purge:\n" REST, hash);
    for (size_t i = 0; i < sizeof(SAME) / sizeof(SAME[0]); i++) {
        hash_of(SAME[i], other);
        assert_string_equal(hash, other);
    }
}

#define RETYPE(on_error)                                                       \
    "up: {kind: schema-upgrade, table: Blogs, version: {property: V, "         \
    "absent: 1}, versions: [{to: 2, steps: [{retype: {property: R, to: "       \
    "Edm.Double" on_error "}}]}]}\n"

static void nor_to_what_becomes_of_a_value_that_cannot_be_converted(
    void **state)
{
    char hash[17], other[17];

    (void)state;
    hash_of(RETYPE(""), hash);
    hash_of(RETYPE(", on_error: skip"), other);
    assert_string_equal(hash, other);
    hash_of(RETYPE(", lossy: true"), other);
    assert_string_not_equal(hash, other);
}

static void any_kind_may_have_a_folder_of_failures(void **state)
{
    struct loading l;

    (void)state;
    loading_good(&l, "purge:\n  failures: failed\n" REST);
    assert_string_equal(l.jobs.list[0].failures, "failed");
    loading_done(&l);
    loading_good(&l, "purge:\n" REST);
    assert_null(l.jobs.list[0].failures);
    loading_done(&l);
}

static void the_table_of_kinds_is_complete(void **state)
{
    size_t count;
    const struct kind *const *kinds = jobs_kinds(&count);

    (void)state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(kinds[i]->name);
        assert_non_null(kinds[i]->summary);
        assert_non_null(kinds[i]->sections);
        assert_non_null(kinds[i]->sections[0]);
        assert_non_null(kinds[i]->load);
        assert_non_null(kinds[i]->explain);
        assert_non_null(kinds[i]->tables);
        assert_non_null(kinds[i]->estimate);
        assert_non_null(kinds[i]->run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jobs_name_is_one_that_a_queue_can_have),
        cmocka_unit_test(what_is_no_map_is_no_job),
        cmocka_unit_test(a_configuration_may_have_no_jobs),
        cmocka_unit_test(a_job_with_mistakes_does_not_hide_the_others),
        cmocka_unit_test(a_job_says_what_it_does),
        cmocka_unit_test(a_kind_sees_all_jobs_once_they_are_read),
        cmocka_unit_test(an_argument_of_the_kind_cannot_be_declared),
        cmocka_unit_test(two_following_jobs_of_one_table_are_refused),
        cmocka_unit_test(a_job_that_waits_for_a_following_one_is_a_warning),
        cmocka_unit_test(arguments_are_names_that_a_template_can_hold),
        cmocka_unit_test(arguments_are_a_list_of_few),
        cmocka_unit_test(an_argument_is_declared_once),
        cmocka_unit_test(an_argument_may_be_empty_where_the_job_says_so),
        cmocka_unit_test(
            a_definition_that_says_something_else_has_another_hash),
        cmocka_unit_test(a_run_is_not_bound_to_limits_and_files),
        cmocka_unit_test(
            nor_to_what_becomes_of_a_value_that_cannot_be_converted),
        cmocka_unit_test(any_kind_may_have_a_folder_of_failures),
        cmocka_unit_test(the_table_of_kinds_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
