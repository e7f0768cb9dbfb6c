/* SPDX-License-Identifier: MIT */
/* One request through the request pool: only the pool retries it. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "jobs/engine/call.h"
#include "tests/support/fast_platform.h"
#include "worker/store/request_pool.h"

/* The circuit breaker opens after this number of tries that could not be
 * sent. */
#define UNSENT_TRIES 4

static int set_up(void **state)
{
    struct workbench *bench;

    (void)workbench_set_up(state);
    bench = *state;
    bench->down = true;
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, workbench_tear_down, struct workbench *bench)

FIXTURE_TEST(an_outage_costs_a_read_no_more_than_its_tries)
{
    struct pool_client *client = pool_client_new(bench->request_pool, NULL);
    struct page page;
    struct err err;

    page_init(&page);
    assert_int_equal(call_get(client, bench->store, "Table", slice_of("a"),
                         slice_of("b"), &page, NULL, &err),
        TW_BUSY);
    assert_string_equal(err.text, "the store is down");
    assert_int_equal(bench->calls[BENCH_GET], UNSENT_TRIES);
    page_done(&page);
    pool_client_free(client);
}

FIXTURE_TEST(an_outage_costs_a_write_no_more_than_its_tries)
{
    struct pool_client *client = pool_client_new(bench->request_pool, NULL);
    const struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Table", &operation, 1};
    struct batch_result result;
    struct err err;

    assert_int_equal(
        call_batch(client, bench->store, &batch, &result, NULL, &err), TW_BUSY);
    assert_int_equal(bench->calls[BENCH_BATCH], UNSENT_TRIES);
    pool_client_free(client);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
