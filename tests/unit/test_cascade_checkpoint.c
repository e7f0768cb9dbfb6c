/* SPDX-License-Identifier: MIT */
/* The checkpoint of a cascade: what is written is read, nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/cascade_checkpoint.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

static void set_key(
    struct walk_key *key, const char *partition_key, const char *row_key)
{
    key->is_set = true;
    key->partition_key_len = strlen(partition_key);
    key->row_key_len = strlen(row_key);
    memcpy(key->partition_key, partition_key, key->partition_key_len);
    memcpy(key->row_key, row_key, key->row_key_len);
}

static void what_is_written_is_read(void **state)
{
    const struct cascade_checkpoint times = {
        .laid_ticks = 7, .began_ticks = TICKS_MAX, .not_before_ticks = 0};
    struct cascade_checkpoint back;
    struct walk_path *path = mem_alloc(sizeof(*path));
    struct walk_path *again = mem_alloc(sizeof(*again));
    char *text, *second;

    (void)state;
    path->depth = 3;
    path->levels[0].rule = 2;
    set_key(&path->levels[0].done, "a\"b", "");
    set_key(&path->levels[0].inside, "", "\xc3\xbc'/\n");
    path->levels[1].found = true;
    set_key(&path->levels[1].inside, "x", "y");
    text = cascade_checkpoint_write(&times, path);
    cascade_checkpoint_read(slice_of(text), &back, again);
    assert_int_equal(back.laid_ticks, 7);
    assert_true(back.began_ticks == TICKS_MAX);
    assert_int_equal(back.not_before_ticks, 0);
    assert_int_equal(again->depth, 3);
    assert_int_equal(again->levels[0].rule, 2);
    assert_false(again->levels[0].found);
    assert_true(again->levels[1].found);
    assert_false(again->levels[1].done.is_set);
    assert_false(again->levels[2].inside.is_set);
    second = cascade_checkpoint_write(&back, again);
    assert_string_equal(second, text);
    mem_free(second);
    mem_free(text);
    mem_free(again);
    mem_free(path);
}

/* Eight levels with the longest keys there are, each byte of them escaped. */
static void a_path_that_does_not_fit_is_left_out(void **state)
{
    const struct cascade_checkpoint times = {.laid_ticks = 7};
    struct cascade_checkpoint back;
    struct walk_path *path = mem_alloc(sizeof(*path));
    char longest[WALK_KEY_MAX + 1];
    char *text;

    (void)state;
    memset(longest, '"', WALK_KEY_MAX);
    longest[WALK_KEY_MAX] = '\0';
    path->depth = CASCADE_MAX_DEPTH;
    for (size_t i = 0; i < path->depth; i++) {
        set_key(&path->levels[i].done, longest, longest);
        set_key(&path->levels[i].inside, longest, longest);
    }
    text = cascade_checkpoint_write(&times, path);
    assert_string_equal(
        text, "{\"version\":1,\"laid\":7,\"began\":0,\"not_before\":0}");
    cascade_checkpoint_read(slice_of(text), &back, path);
    assert_int_equal(back.laid_ticks, 7);
    assert_int_equal(path->depth, 0);
    mem_free(text);
    mem_free(path);
}

/* However long the keys are: what is written is never too long, and whole. */
static void a_path_of_any_length_is_written_whole_or_not_at_all(void **state)
{
    struct walk_path *path = mem_alloc(sizeof(*path));
    struct walk_path *again = mem_alloc(sizeof(*again));
    struct cascade_checkpoint back;
    char key[WALK_KEY_MAX + 1] = "";
    unsigned whole = 0, left_out = 0;

    (void)state;
    path->depth = CASCADE_MAX_DEPTH;
    for (size_t len = 880; len < 1000; len++) {
        char *text;

        memset(key, 'k', len);
        for (size_t i = 0; i < path->depth; i++) {
            set_key(&path->levels[i].done, key, key);
            set_key(&path->levels[i].inside, key, key);
        }
        text = cascade_checkpoint_write(
            &(struct cascade_checkpoint){.laid_ticks = 7}, path);
        assert_true(strlen(text) <= CASCADE_CHECKPOINT_MAX_BYTES);
        cascade_checkpoint_read(slice_of(text), &back, again);
        assert_int_equal(back.laid_ticks, 7);
        if (again->depth == 0)
            left_out++;
        else
            whole++;
        mem_free(text);
    }
    assert_true(whole > 0);
    assert_true(left_out > 0);
    mem_free(again);
    mem_free(path);
}

static void read(const char *text, struct cascade_checkpoint *checkpoint,
    struct walk_path *path)
{
    memset(checkpoint, 0x55, sizeof(*checkpoint));
    path->depth = 77;
    cascade_checkpoint_read(slice_of(text), checkpoint, path);
}

static void what_is_not_ours_is_a_beginning(void **state)
{
    static const char *const TEXTS[] = {"", "null", "[]", "{", "7",
        "{\"laid\":5}", "{\"version\":\"1\",\"laid\":5}",
        "{\"version\":2,\"laid\":5}", "{\"version\":1.5,\"laid\":5}",
        "{\"version\":1,\"laid\":-5}", "{\"version\":1,\"laid\":\"5\"}",
        "{\"version\":1,\"laid\":9223372036854775807}"};
    struct cascade_checkpoint checkpoint;
    struct walk_path *path = mem_alloc(sizeof(*path));

    (void)state;
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        read(TEXTS[i], &checkpoint, path);
        assert_int_equal(checkpoint.laid_ticks, 0);
        assert_int_equal(checkpoint.began_ticks, 0);
        assert_int_equal(checkpoint.not_before_ticks, 0);
        assert_int_equal(path->depth, 0);
    }
    mem_free(path);
}

/* Its times hold all the same: the pass only begins anew. */
static void a_path_that_makes_no_sense_is_no_place(void **state)
{
    static const char *const PATHS[] = {"7", "{}", "[7]", "[[]]", "[{}]",
        "[{\"rule\":0}]", "[{\"found\":true}]",
        "[{\"rule\":\"0\",\"found\":true}]", "[{\"rule\":-1,\"found\":true}]",
        "[{\"rule\":0,\"found\":1}]",
        "[{\"rule\":0,\"found\":true,\"done\":7}]",
        "[{\"rule\":0,\"found\":true,\"done\":[]}]",
        "[{\"rule\":0,\"found\":true,\"done\":[\"a\"]}]",
        "[{\"rule\":0,\"found\":true,\"done\":[7,\"a\"]}]",
        "[{\"rule\":0,\"found\":true,\"done\":[\"a\",7]}]",
        "[{\"rule\":0,\"found\":true,\"inside\":{\"a\":1}}]",
        "[{\"rule\":0,\"found\":true},{\"rule\":0}]",
        "[{\"rule\":0,\"found\":true},{\"rule\":0,\"found\":true},"
        "{\"rule\":0,\"found\":true},{\"rule\":0,\"found\":true},"
        "{\"rule\":0,\"found\":true},{\"rule\":0,\"found\":true},"
        "{\"rule\":0,\"found\":true},{\"rule\":0,\"found\":true},"
        "{\"rule\":0,\"found\":true}]"};
    struct cascade_checkpoint checkpoint;
    struct walk_path *path = mem_alloc(sizeof(*path));

    (void)state;
    for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++) {
        char *text =
            mem_format("{\"version\":1,\"laid\":5,\"path\":%s}", PATHS[i]);

        read(text, &checkpoint, path);
        assert_int_equal(checkpoint.laid_ticks, 5);
        assert_int_equal(path->depth, 0);
        mem_free(text);
    }
    mem_free(path);
}

static void a_key_that_no_entity_can_have_is_no_place(void **state)
{
    struct cascade_checkpoint checkpoint;
    struct walk_path *path = mem_alloc(sizeof(*path));
    char longer[WALK_KEY_MAX + 2];

    (void)state;
    memset(longer, 'k', WALK_KEY_MAX + 1);
    longer[WALK_KEY_MAX + 1] = '\0';
    for (int row = 0; row < 2; row++) {
        char *text =
            mem_format("{\"version\":1,\"path\":[{\"rule\":0,\"found\":false,"
                       "\"done\":[\"%s\",\"%s\"]}]}",
                row ? "a" : longer, row ? longer : "a");

        read(text, &checkpoint, path);
        assert_int_equal(path->depth, 0);
        mem_free(text);
    }
    mem_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_path_that_does_not_fit_is_left_out),
        cmocka_unit_test(a_path_of_any_length_is_written_whole_or_not_at_all),
        cmocka_unit_test(what_is_not_ours_is_a_beginning),
        cmocka_unit_test(a_path_that_makes_no_sense_is_no_place),
        cmocka_unit_test(a_key_that_no_entity_can_have_is_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
