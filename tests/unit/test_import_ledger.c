/* SPDX-License-Identifier: MIT */
/* The ledger entity of an import that is continued, also by two processes at
 * once. */
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/store/request_pool.h"
#include "worker/transfer/import_ledger.h"
#include "worker/transfer/transfer.h"

#define ARGS "{\"table\":\"Blogs\",\"file\":\"all.jsonl\"}"

static struct hosted h;
static struct pool_client *client;
static struct import_ledger dying;
static struct import_ledger next;
static struct transfer lent_to_dying, lent_to_next;
static struct import_position position; /* where the import continues */
static struct faulty faulty;            /* a store of the next process */
static unsigned late_writes; /* of the dying process, still in flight */

static int set_up(void **state)
{
    hosted_init(&h, "j: {kind: delete, table: Blogs, all: true}\n");
    client = pool_client_new(h.request_pool, NULL);
    faulty_init(&faulty, h.store);
    return 0;
}

static int tear_down(void **state)
{
    pool_client_free(client);
    faulty_done(&faulty);
    hosted_done(&h);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static void save(struct import_ledger *ledger, uint64_t line)
{
    const struct import_counts counts = {.position = {.line = line}};
    struct err err;

    assert_ok(import_ledger_save(ledger, &counts, &err));
}

static enum tw_err open_with(
    struct import_ledger *ledger, struct store *store, const char *args)
{
    bool done = false;
    struct err err;
    struct transfer *lent = ledger == &dying ? &lent_to_dying : &lent_to_next;

    *lent = (struct transfer){.store = store, .client = client};
    position = (struct import_position){0};
    *ledger = (struct import_ledger){0};
    return import_ledger_open(
        ledger, lent, "in", slice_of(args), &position, &done, &err);
}

/* Carries out a late request of a process that has ended, just before a request
 * of the next process. */
static void land(void *ctx, const struct batch *batch)
{
    if (late_writes == 0)
        return;
    late_writes--;
    save(&dying, 9);
}

FIXTURE_TEST(a_late_write_of_a_dead_process_is_respected)
{
    assert_ok(open_with(&dying, h.store, ARGS));
    save(&dying, 5);
    faulty.before = land;
    late_writes = 1;
    assert_ok(open_with(&next, &faulty.outer.store, ARGS));
    assert_int_equal(position.line, 9);
    import_ledger_done(&next);
    assert_int_equal(open_with(&next, h.store, "{}"), TW_CONFLICT);
    import_ledger_done(&next);
    import_ledger_done(&dying);
}

FIXTURE_TEST(a_process_that_keeps_writing_keeps_the_import)
{
    assert_ok(open_with(&dying, h.store, ARGS));
    faulty.before = land;
    late_writes = 100;
    assert_int_equal(open_with(&next, &faulty.outer.store, ARGS), TW_STOPPED);
    late_writes = 0;
    save(&dying, 10);
    import_ledger_done(&next);
    import_ledger_done(&dying);
}

/* Each process adds its counts to those of earlier processes. */
FIXTURE_TEST(counts_of_all_processes_are_added)
{
    const struct import_counts counts = {
        .read = 12, .written = 11, .skipped = 3, .rejected = 1};
    struct err err;

    for (int process = 1; process <= 3; process++) {
        assert_ok(open_with(&next, h.store, ARGS));
        assert_ok(import_ledger_save(&next, &counts, &err));
        assert_ok(import_ledger_end(&next, &counts, LEDGER_WAITING, "", &err));
        assert_int_equal(next.run.read, 12 * process);
        assert_int_equal(next.run.written, 11 * process);
        assert_int_equal(next.run.skipped, 3 * process);
        assert_int_equal(next.run.failed, process);
        import_ledger_done(&next);
    }
}
