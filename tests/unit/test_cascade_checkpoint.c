/* SPDX-License-Identifier: MIT */
/* The checkpoint of a cascade: written, read, and read when it is damaged. */

#include "jobs/cascade/checkpoint.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

static struct walk_path again;

/* Compares the members that do not belong to a pass. `values` is compared as a
 * text. */
static void check_read(const struct cascade_checkpoint *is,
    const struct cascade_checkpoint *wanted)
{
    assert_int_equal(is->tombstone_ticks, wanted->tombstone_ticks);
    assert_int_equal(is->began_ticks, wanted->began_ticks);
    assert_int_equal(is->not_before_ticks, wanted->not_before_ticks);
    assert_int_equal(is->parent_found, wanted->parent_found);
    assert_int_equal(is->crashed, wanted->crashed);
    assert_int_equal(is->archived, wanted->archived);
    assert_int_equal(is->removed, wanted->removed);
    assert_int_equal(is->unmarked, wanted->unmarked);
    assert_string_equal(is->values, wanted->values);
}

TEST(is_read_as_it_was_written)
{
    static const struct walk_path PATH = {.depth = 2,
        .levels = {{.rule = 3,
            .found = true,
            .done = {true, 1, 2, "p", "r'"},
            .inside = {true, 1, 0, "q", ""}}}};
    const struct cascade_checkpoint written = {
        .tombstone_ticks = INT64_C(638396640000000000),
        .began_ticks = INT64_C(638396640010000000),
        .parent_found = 1,
        .crashed = true,
        .archived = true,
        .removed = true,
        .unmarked = true,
        .values = "00ff"};
    char *text = cascade_checkpoint_write(&written, &PATH);
    struct cascade_checkpoint read;

    assert_string_equal(text,
        "{\"version\":1,\"laid\":638396640000000000,"
        "\"began\":638396640010000000,\"not_before\":0,\"found\":true,"
        "\"crashed\":true,\"archived\":true,\"removed\":true,"
        "\"unmarked\":true,\"values\":\"00ff\",\"path\":["
        "{\"rule\":3,\"found\":true,\"done\":[\"p\",\"r'\"],"
        "\"inside\":[\"q\",\"\"]},{\"rule\":0,\"found\":false}]}");
    cascade_checkpoint_read(slice_of(text), &read, &again);
    check_read(&read, &written);
    assert_int_equal(again.depth, 2);
    assert_memory_equal(again.levels[0].done.row_key, "r'", 2);
    mem_free(text);
}

/* Three levels of a path. A path may have eight of them. */
#define LEVEL "{\"rule\":0,\"found\":true}"
#define LEVELS LEVEL "," LEVEL "," LEVEL

TEST(what_is_not_ours_starts_over)
{
    static const struct {
        const char *text;
        int64_t began_ticks;
    } CASES[] = {
        {"", 0},
        {"{", 0},
        {"[]", 0},
        {"{\"version\":2}", 0},
        {"{\"version\":1,\"laid\":-1,\"path\":{}}", 0},
        {"{\"version\":1,\"path\":[{\"rule\":0}]}", 0},
        {"{\"version\":1,\"path\":[{\"rule\":0,\"found\":1}]}", 0},
        {"{\"version\":1,\"path\":[{\"rule\":-1,\"found\":true}]}", 0},
        {"{\"version\":1,\"path\":[" LEVELS "," LEVELS "," LEVELS "]}", 0},
        {"{\"version\":1,\"found\":1,\"crashed\":1,\"values\":\"XY\"}", 0},
        /* With the settle time added, the time was beyond the year 9999. That
         * once crashed the worker that had to write the time, and then each
         * worker that took the run over. */
        {"{\"version\":1,\"laid\":3155378975999999999,\"began\":1,"
         "\"not_before\":3155378975999999999}",
            1},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct cascade_checkpoint read = {.tombstone_ticks = 7,
            .began_ticks = 7,
            .not_before_ticks = 7,
            .parent_found = 7,
            .crashed = true,
            .values = "7"};

        again.depth = 7;
        cascade_checkpoint_read(slice_of(CASES[i].text), &read, &again);
        check_read(&read,
            &(struct cascade_checkpoint){
                .began_ticks = CASES[i].began_ticks, .parent_found = -1});
        assert_int_equal(again.depth, 0);
    }
}
