/* SPDX-License-Identifier: MIT */
/* The checkpoint of a cascade: written, read, and read when it is damaged. */
#include <string.h>

#include "jobs/cascade/checkpoint.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

static struct walk_path path, again;

TEST(is_read_as_it_was_written)
{
    const struct cascade_checkpoint written = {
        .tombstone_ticks = INT64_C(638396640000000000),
        .began_ticks = INT64_C(638396640010000000),
        .parent_found = 1,
        .crashed = true,
        .archived = true,
        .removed = true,
        .unmarked = true,
        .values = "00ff"};
    struct cascade_checkpoint read;
    char *text;

    path = (struct walk_path){.depth = 2};
    path.levels[0] = (struct walk_level){.rule = 3,
        .found = true,
        .done = {true, 1, 2, "p", "r'"},
        .inside = {true, 1, 0, "q", ""}};
    text = cascade_checkpoint_write(&written, &path);
    assert_string_equal(text,
        "{\"version\":1,\"laid\":638396640000000000,"
        "\"began\":638396640010000000,\"not_before\":0,\"found\":true,"
        "\"crashed\":true,\"archived\":true,\"removed\":true,"
        "\"unmarked\":true,\"values\":\"00ff\",\"path\":["
        "{\"rule\":3,\"found\":true,\"done\":[\"p\",\"r'\"],"
        "\"inside\":[\"q\",\"\"]},{\"rule\":0,\"found\":false}]}");
    cascade_checkpoint_read(slice_of(text), &read, &again);
    assert_true(read.tombstone_ticks == written.tombstone_ticks &&
                read.began_ticks == written.began_ticks &&
                read.not_before_ticks == 0);
    assert_true(read.parent_found == 1 && read.crashed && read.archived &&
                read.removed && read.unmarked);
    assert_string_equal(read.values, "00ff");
    assert_int_equal(again.depth, 2);
    assert_memory_equal(again.levels[0].done.row_key, "r'", 2);
    mem_free(text);
}

/* With the settle time added, the time was beyond the year 9999. That once
 * crashed the worker that had to write the time, and then each worker that took
 * the run over. */
TEST(time_that_nobody_can_wait_for_is_no_time)
{
    struct cascade_checkpoint read;

    cascade_checkpoint_read(
        slice_of("{\"version\":1,\"laid\":3155378975999999999,\"began\":1,"
                 "\"not_before\":3155378975999999999}"),
        &read, &again);
    assert_true(read.tombstone_ticks == 0 && read.not_before_ticks == 0);
    assert_true(read.began_ticks == 1);
}

TEST(what_is_not_ours_starts_over)
{
    static const char *const texts[] = {"", "{", "[]", "{\"version\":2}",
        "{\"version\":1,\"laid\":-1,\"path\":{}}",
        "{\"version\":1,\"path\":[{\"rule\":0}]}",
        "{\"version\":1,\"path\":[{\"rule\":-1,\"found\":true}]}",
        "{\"version\":1,\"path\":[1,2,3,4,5,6,7,8,9]}",
        "{\"version\":1,\"found\":1,\"crashed\":1,\"values\":\"XY\"}"};

    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct cascade_checkpoint read = {.tombstone_ticks = 7,
            .began_ticks = 7,
            .not_before_ticks = 7,
            .parent_found = 7,
            .crashed = true,
            .values = "7"};

        again.depth = 7;
        cascade_checkpoint_read(slice_of(texts[i]), &read, &again);
        assert_true(read.tombstone_ticks == 0 && read.began_ticks == 0 &&
                    read.not_before_ticks == 0);
        assert_true(
            read.parent_found == -1 && !read.crashed && read.values[0] == '\0');
        assert_int_equal(again.depth, 0);
    }
}
