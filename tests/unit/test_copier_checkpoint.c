/* SPDX-License-Identifier: MIT */
/* What a run that copies keeps between attempts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "jobs/copier_checkpoint.h"
#include "tests/support/scratch.h"
#include "worker/base/mem.h"

static struct copier_checkpoint read_text(const char *text)
{
    struct copier_checkpoint checkpoint;

    memset(&checkpoint, 0x5a, sizeof(checkpoint));
    copier_checkpoint_read(slice_of(text), &scratch, &checkpoint);
    return checkpoint;
}

static struct copier_checkpoint there_and_back(
    const struct copier_checkpoint *checkpoint)
{
    char *text = copier_checkpoint_write(checkpoint);
    struct copier_checkpoint read = read_text(text);

    mem_free(text);
    return read;
}

static void what_is_written_is_read(void **state)
{
    const struct copier_checkpoint written = {
        .stage = COPIER_PASSES,
        .pass = 7,
        .doubt = true,
        .late = true,
        .not_before_ticks = 638000000000000000,
        .left_over = 3,
        .in_pass = true,
        .partition_key = slice_of("a \"quoted\" key"),
        .row_key = slice_of(""),
    };
    struct copier_checkpoint read = there_and_back(&written);

    (void)state;
    assert_int_equal(read.stage, COPIER_PASSES);
    assert_int_equal(read.pass, 7);
    assert_true(read.doubt);
    assert_true(read.late);
    assert_false(read.sweep);
    assert_int_equal(read.not_before_ticks, written.not_before_ticks);
    assert_int_equal(read.left_over, 3);
    assert_true(read.in_pass);
    assert_true(slice_equal(read.partition_key, written.partition_key));
    assert_true(slice_equal(read.row_key, written.row_key));
}

/* Ledgers hold them: what an older program wrote is read by this one. */
static void a_checkpoint_stays_what_it_was(void **state)
{
    const struct copier_checkpoint written = {
        .stage = COPIER_PASSES,
        .pass = 7,
        .late = true,
        .anew = true,
        .not_before_ticks = 638000000000000000,
        .in_pass = true,
        .partition_key = slice_of("a \"quoted\" key"),
        .row_key = slice_of(""),
    };
    char *text = copier_checkpoint_write(&written);

    (void)state;
    assert_string_equal(text,
        "{\"version\":1,\"stage\":\"passes\",\"pass\":7,"
        "\"not_before\":638000000000000000,\"doubt\":false,\"late\":true,"
        "\"sweep\":false,\"anew\":true,"
        "\"done\":[\"a \\\"quoted\\\" key\",\"\"]}");
    mem_free(text);
}

static void outside_of_a_pass_there_is_no_place(void **state)
{
    const struct copier_checkpoint written = {
        .stage = COPIER_LOOKS, .sweep = true, .anew = true};
    struct copier_checkpoint read = there_and_back(&written);

    (void)state;
    assert_int_equal(read.stage, COPIER_LOOKS);
    assert_true(read.sweep && read.anew);
    assert_false(read.in_pass);
}

/* The rest is kept: a place is only a saving. */
static void keys_that_do_not_fit_are_left_out(void **state)
{
    struct copier_checkpoint written = {
        .stage = COPIER_PASSES, .doubt = true, .in_pass = true};
    char *key = mem_alloc(COPIER_CHECKPOINT_MAX_BYTES + 1);
    struct copier_checkpoint read;

    (void)state;
    memset(key, 'k', COPIER_CHECKPOINT_MAX_BYTES);
    written.partition_key = slice_of(key);
    read = there_and_back(&written);
    assert_true(read.doubt);
    assert_false(read.in_pass);
    mem_free(key);
}

static void what_is_not_ours_begins_anew(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "7",
        "{}",
        "{\"version\":2,\"stage\":\"looks\",\"pass\":1,\"not_before\":0,"
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":\"walks\",\"pass\":1,\"not_before\":0,"
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":3,\"pass\":1,\"not_before\":0,"
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"pass\":1,\"not_before\":0,"
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":\"looks\",\"pass\":-1,\"not_before\":0,"
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":\"looks\",\"pass\":1,\"not_before\":\"x\","
        "\"doubt\":true,\"late\":true,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":\"looks\",\"pass\":1,\"not_before\":0,"
        "\"doubt\":true,\"late\":1,\"sweep\":true,"
        "\"anew\":true}",
        "{\"version\":1,\"stage\":\"looks\",\"pass\":1,"
        "\"not_before\":0,"
        "\"doubt\":true,\"late\":true}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct copier_checkpoint read = read_text(texts[i]);

        assert_int_equal(read.stage, COPIER_BEGINS);
        assert_int_equal(read.pass, 0);
        assert_false(
            read.doubt || read.late || read.sweep || read.anew || read.in_pass);
    }
}

static void a_place_that_is_none_is_left_out(void **state)
{
    static const char *const places[] = {"7", "[]", "[\"a\"]", "[1,\"b\"]",
        "[\"a\",null]", "[\"a\",\"b\",\"c\"]"};

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char *text = mem_format(
            "{\"version\":1,\"stage\":\"passes\","
            "\"pass\":1,\"not_before\":0,\"doubt\":true,"
            "\"late\":false,\"sweep\":false,\"anew\":false,\"done\":%s}",
            places[i]);
        struct copier_checkpoint read = read_text(text);

        assert_int_equal(read.stage, COPIER_PASSES);
        assert_true(read.doubt);
        assert_false(read.in_pass);
        mem_free(text);
    }
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, scratch_set_up, scratch_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(a_checkpoint_stays_what_it_was),
        TEST(outside_of_a_pass_there_is_no_place),
        TEST(keys_that_do_not_fit_are_left_out),
        TEST(what_is_not_ours_begins_anew),
        TEST(a_place_that_is_none_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
