/* SPDX-License-Identifier: MIT */
/* How far an import is, in the ledger: taken up again, and by two at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/transfer/import_ledger.h"
#include "worker/cli/session.h"
#include "worker/store/lanes.h"

#define ARGS "{\"table\":\"Blogs\",\"file\":\"all.jsonl\"}"

static struct hosted h;
static struct session session;
static struct import_ledger dying;
static unsigned last_words; /* that are still on their way */

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, "j: {kind: delete, table: Blogs, all: true}\n");
    session.client = lanes_client_new(h.lanes, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lanes_client_free(session.client);
    hosted_done(&h);
    return 0;
}

static void save(struct import_ledger *ledger, uint64_t line)
{
    const struct import_counts counts = {.place = {.line = line}};
    struct err err;

    assert_int_equal(import_ledger_save(ledger, &counts, &err), TW_OK);
}

static enum tw_err open_with(struct import_ledger *ledger, struct store *store,
    const char *args, struct import_place *place)
{
    bool done = false;
    struct err err;

    *place = (struct import_place){0};
    *ledger = (struct import_ledger){0};
    return import_ledger_open(
        ledger, &session, store, "in", slice_of(args), place, &done, &err);
}

/* A request of the process that is dead lands just before that of its
 * successor. */
static void land(void *ctx, const struct batch *batch)
{
    (void)ctx;
    (void)batch;
    if (last_words == 0)
        return;
    last_words--;
    save(&dying, 9);
}

static void an_import_goes_on_where_it_was(void **state)
{
    struct import_ledger next;
    struct import_place place;

    (void)state;
    assert_int_equal(open_with(&dying, h.store, ARGS, &place), TW_OK);
    assert_int_equal(place.line, 0);
    save(&dying, 5);
    assert_int_equal(open_with(&next, h.store, ARGS, &place), TW_OK);
    assert_int_equal(place.line, 5);
    import_ledger_done(&next);
    assert_int_equal(open_with(&next, h.store, "{}", &place), TW_CONFLICT);
    import_ledger_done(&next);
    import_ledger_done(&dying);
}

static void the_last_word_of_a_dead_process_is_heard(void **state)
{
    struct import_ledger next;
    struct import_place place;
    struct faulty faulty;

    (void)state;
    assert_int_equal(open_with(&dying, h.store, ARGS, &place), TW_OK);
    save(&dying, 5);
    faulty_init(&faulty, h.store);
    faulty.before = land;
    last_words = 1;
    assert_int_equal(
        open_with(&next, &faulty.outer.store, ARGS, &place), TW_OK);
    assert_int_equal(place.line, 9);
    import_ledger_done(&next);
    import_ledger_done(&dying);
    faulty_done(&faulty);
}

static void one_that_goes_on_writing_keeps_the_import(void **state)
{
    struct import_ledger next;
    struct import_place place;
    struct faulty faulty;

    (void)state;
    assert_int_equal(open_with(&dying, h.store, ARGS, &place), TW_OK);
    faulty_init(&faulty, h.store);
    faulty.before = land;
    last_words = 100;
    assert_int_equal(
        open_with(&next, &faulty.outer.store, ARGS, &place), TW_CONFLICT);
    last_words = 0;
    save(&dying, 10);
    import_ledger_done(&next);
    import_ledger_done(&dying);
    faulty_done(&faulty);
}

/* Of what this process has read; what earlier ones have counted stays. */
static void an_import_that_is_taken_up_counts_on(void **state)
{
    const struct import_counts counts = {
        .read = 12, .written = 11, .skipped = 3, .failed = 1};
    struct import_ledger next;
    struct import_place place;
    struct err err;

    (void)state;
    for (int process = 1; process <= 3; process++) {
        assert_int_equal(open_with(&next, h.store, ARGS, &place), TW_OK);
        assert_int_equal(import_ledger_save(&next, &counts, &err), TW_OK);
        assert_int_equal(
            import_ledger_end(&next, &counts, LEDGER_WAITING, "", &err), TW_OK);
        assert_int_equal(next.run.read, 12 * process);
        assert_int_equal(next.run.written, 11 * process);
        assert_int_equal(next.run.skipped, 3 * process);
        assert_int_equal(next.run.failed, process);
        import_ledger_done(&next);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_import_goes_on_where_it_was),
        TEST(the_last_word_of_a_dead_process_is_heard),
        TEST(one_that_goes_on_writing_keeps_the_import),
        TEST(an_import_that_is_taken_up_counts_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
