/* SPDX-License-Identifier: MIT */
/* The checkpoint of a schema upgrade. */
#include <string.h>

#include "jobs/upgrade/checkpoint.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

SCRATCH_TEST(what_is_written_is_read)
{
    const struct upgrade_checkpoint written = {
        .rounds = {.number = 3,
            .stage = ROUNDS_LAST,
            .under_way = true,
            .full = true,
            .began_ticks = 5},
        .in_round = true,
        .partition_key = slice_of("a \"p\""),
        .row_key = slice_of(""),
        .selected = 9,
        .outside = 1,
        .leftover = 2,
        .failed = 3,
        .skipped = 4,
    };
    char *text = upgrade_checkpoint_write(&written);
    struct upgrade_checkpoint read;

    upgrade_checkpoint_read(slice_of(text), &scratch, &read);
    assert_int_equal(read.rounds.number, 3);
    assert_int_equal(read.rounds.stage, ROUNDS_LAST);
    assert_true(read.rounds.under_way);
    assert_true(read.in_round);
    assert_true(slice_is(read.partition_key, "a \"p\""));
    assert_true(slice_is(read.row_key, ""));
    assert_int_equal(read.selected, 9);
    assert_int_equal(read.outside, 1);
    assert_int_equal(read.leftover, 2);
    assert_int_equal(read.failed, 3);
    assert_int_equal(read.skipped, 4);
    mem_free(text);
}

SCRATCH_TEST(keys_that_do_not_fit_are_left_out)
{
    struct upgrade_checkpoint checkpoint = {.in_round = true, .selected = 7};
    char *key = mem_alloc(UPGRADE_CHECKPOINT_MAX_BYTES + 1), *text;
    struct upgrade_checkpoint read;

    memset(key, 'k', UPGRADE_CHECKPOINT_MAX_BYTES);
    checkpoint.partition_key = slice_of(key);
    checkpoint.row_key = slice_of("");
    text = upgrade_checkpoint_write(&checkpoint);
    upgrade_checkpoint_read(slice_of(text), &scratch, &read);
    assert_false(read.in_round);
    assert_int_equal(read.selected, 7);
    mem_free(text);
    mem_free(key);
}

SCRATCH_TEST(what_is_not_ours_is_a_new_run)
{
    static const char *const TEXTS[] = {"", "x", "[]", "{}",
        "{\"version\":1,\"pass\":3}", "{\"version\":2}",
        "{\"version\":2,\"rounds\":{}}"};

    for (size_t i = 0; TEST_EACH(i, TEXTS); i++) {
        struct upgrade_checkpoint read;

        upgrade_checkpoint_read(slice_of(TEXTS[i]), &scratch, &read);
        assert_int_equal(read.rounds.number, 0);
        assert_false(read.in_round);
    }
}
