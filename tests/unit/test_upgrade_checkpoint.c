/* SPDX-License-Identifier: MIT */
/* What an upgrade keeps between attempts: written, read, and read when damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "jobs/upgrade/checkpoint.h"
#include "tests/support/scratch.h"
#include "worker/base/mem.h"

static struct upgrade_checkpoint read_back(const char *text)
{
    struct upgrade_checkpoint checkpoint = {.pass = -1};

    upgrade_checkpoint_read(slice_of(text), &scratch, &checkpoint);
    return checkpoint;
}

static void is_read_as_it_was_written(void **state)
{
    const struct upgrade_checkpoint written = {.pass = 3,
        .waits = 2,
        .surveyed = true,
        .in_pass = true,
        .partition_key = slice_of("p\"\xc3\xbc"),
        .row_key = slice_of(""),
        .found = 4,
        .awaited = 5,
        .other = 6,
        .held = 7,
        .below = 8,
        .failed = 9,
        .skipped = INT64_C(1) << 40};
    char *text = upgrade_checkpoint_write(&written), *again;
    struct upgrade_checkpoint read = read_back(text);

    (void)state;
    again = upgrade_checkpoint_write(&read);
    assert_string_equal(again, text);
    assert_true(slice_equal(read.partition_key, written.partition_key));
    assert_true(slice_equal(read.row_key, written.row_key));
    assert_true(read.in_pass && read.surveyed);
    assert_int_equal(read.pass, 3);
    assert_int_equal(read.waits, 2);
    assert_int_equal(read.found, 4);
    assert_int_equal(read.awaited, 5);
    assert_int_equal(read.other, 6);
    assert_int_equal(read.held, 7);
    assert_int_equal(read.below, 8);
    assert_int_equal(read.failed, 9);
    assert_true(read.skipped == INT64_C(1) << 40);
    mem_free(again);
    mem_free(text);
}

static void between_passes_there_is_no_place(void **state)
{
    char *text = upgrade_checkpoint_write(
        &(struct upgrade_checkpoint){.pass = 2, .found = 4});

    (void)state;
    assert_string_equal(
        text, "{\"version\":1,\"pass\":2,\"waits\":0,\"surveyed\":false}");
    assert_int_equal(read_back(text).pass, 2);
    assert_int_equal(read_back(text).found, 0);
    mem_free(text);
}

static void place_with_keys_that_do_not_fit_is_left_out(void **state)
{
    char key[6000];
    struct upgrade_checkpoint written = {.pass = 2, .in_pass = true};
    char *text;

    (void)state;
    memset(key, 1, sizeof(key)); /* \u0001 each */
    written.partition_key = (struct slice){key, sizeof(key)};
    text = upgrade_checkpoint_write(&written);
    assert_int_equal(read_back(text).pass, 2);
    assert_false(read_back(text).in_pass);
    mem_free(text);
}

#define COUNTS                                                                 \
    "\"found\":1,\"awaited\":1,\"other\":1,\"held\":1,\"below\":1,"            \
    "\"failed\":1,\"skipped\":1"
#define HEAD "{\"version\":1,\"pass\":2,\"waits\":0,\"surveyed\":true"

/* Ledgers hold them: what an older program wrote is read by this one. */
static void a_checkpoint_stays_what_it_was(void **state)
{
    const char *const stays = HEAD ",\"done\":[\"p\\\"\",\"\"]," COUNTS "}";
    const struct upgrade_checkpoint read = read_back(stays);
    char *text = upgrade_checkpoint_write(&read);

    (void)state;
    assert_true(slice_is(read.partition_key, "p\""));
    assert_string_equal(text, stays);
    mem_free(text);
}

static void what_is_not_ours_starts_over(void **state)
{
    static const char *const texts[] = {"", "x", "[]", "{}", "5",
        "{\"version\":2,\"pass\":2,\"waits\":0,\"surveyed\":true}",
        "{\"version\":1,\"waits\":0,\"surveyed\":true}",
        "{\"version\":1,\"pass\":-2,\"waits\":0,\"surveyed\":true}",
        "{\"version\":1,\"pass\":2,\"waits\":\"0\",\"surveyed\":true}",
        "{\"version\":1,\"pass\":2,\"waits\":0,\"surveyed\":1}",
        "{\"version\":1,\"pass\":2,\"waits\":0}"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(read_back(texts[i]).pass, 0);
}

static void damaged_place_begins_the_pass_anew(void **state)
{
    static const char *const texts[] = {HEAD ",\"done\":[\"p\",\"r\"]}",
        HEAD ",\"done\":[\"p\"]," COUNTS "}",
        HEAD ",\"done\":[\"p\",5]," COUNTS "}",
        HEAD ",\"done\":[5,\"p\"]," COUNTS "}", HEAD ",\"done\":5," COUNTS "}",
        HEAD "," COUNTS "}"};

    (void)state;
    assert_true(read_back(HEAD ",\"done\":[\"p\",\"r\"]," COUNTS "}").in_pass);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct upgrade_checkpoint read = read_back(texts[i]);

        assert_int_equal(read.pass, 2);
        assert_false(read.in_pass);
        assert_int_equal(read.found, 0);
    }
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_read_as_it_was_written),
        TEST(between_passes_there_is_no_place),
        TEST(place_with_keys_that_do_not_fit_is_left_out),
        TEST(a_checkpoint_stays_what_it_was),
        TEST(what_is_not_ours_starts_over),
        TEST(damaged_place_begins_the_pass_anew),
    };

    return cmocka_run_group_tests_name("upgrade checkpoint", tests, NULL, NULL);
}
