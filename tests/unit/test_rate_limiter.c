/* SPDX-License-Identifier: MIT */
/* Whether a refusal limits the rate of the account or that of a partition. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/base/slice.h"
#include "worker/store/rate_limiter.h"

#define NOW_MS 1000000
#define REFUSALS 8 /* number of refusals that limit a new rate */

static struct store store_of(const char *identity)
{
    return (struct store){.capabilities = {.identity = identity}};
}

static struct rate_key key_of(
    struct rate_limiter *limiter, const struct store *store, const char *key)
{
    return (struct rate_key){.account = rate_limiter_account(limiter, store),
        .partition = key ? rate_limiter_partition("Blogs", slice_of(key)) : 0};
}

static void ask(struct rate_limiter *limiter, struct rate_key key, bool refused)
{
    rate_limiter_send(limiter, key, NOW_MS, 100);
    rate_limiter_answered(limiter, key,
        &(struct rate_answer){.sent_ms = NOW_MS,
            .now_ms = NOW_MS,
            .expected = 100,
            .entities = 100,
            .refused = refused,
            .served = !refused});
}

static bool waits(struct rate_limiter *limiter, struct rate_key key)
{
    return rate_limiter_free_ms(limiter, key, NOW_MS) > NOW_MS;
}

TEST(two_stores_of_one_account_share_its_rate)
{
    struct rate_limiter *limiter = rate_limiter_new();
    struct store one = store_of("https://a.example"), again = one;
    struct store other = store_of("https://b.example");
    struct store unknown = store_of(NULL), stranger = store_of(NULL);

    assert_ptr_equal(rate_limiter_account(limiter, &one),
        rate_limiter_account(limiter, &again));
    assert_ptr_not_equal(rate_limiter_account(limiter, &one),
        rate_limiter_account(limiter, &other));
    assert_ptr_equal(rate_limiter_account(limiter, &unknown),
        rate_limiter_account(limiter, &unknown));
    assert_ptr_not_equal(rate_limiter_account(limiter, &unknown),
        rate_limiter_account(limiter, &stranger));
    /* After a reload, the struct of another account's store may be at the same
     * address in memory. */
    again.capabilities.identity = "https://b.example";
    assert_ptr_equal(rate_limiter_account(limiter, &again),
        rate_limiter_account(limiter, &other));
    rate_limiter_free(limiter);
}

TEST(refusals_of_many_partitions_are_the_accounts)
{
    struct rate_limiter *limiter = rate_limiter_new();
    struct store store = store_of("https://a.example");
    char name[8];

    for (int i = 0; i < REFUSALS; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        ask(limiter, key_of(limiter, &store, name), true);
    }
    assert_true(waits(limiter, key_of(limiter, &store, NULL)));
    assert_true(waits(limiter, key_of(limiter, &store, "another")));
    rate_limiter_free(limiter);
}

TEST(refusals_of_one_partition_are_its_own)
{
    struct rate_limiter *limiter = rate_limiter_new();
    struct store store = store_of("https://a.example");
    struct store other = store_of("https://b.example");
    struct rate_key hot = key_of(limiter, &store, "hot");
    struct rate_key cold = key_of(limiter, &store, "cold");

    for (int i = 0; i < 20; i++)
        ask(limiter, cold, false);
    for (int i = 0; i < REFUSALS + 4; i++)
        ask(limiter, hot, true);
    assert_true(waits(limiter, hot));
    assert_false(waits(limiter, cold));
    assert_false(waits(limiter, key_of(limiter, &store, NULL)));
    assert_false(waits(limiter, key_of(limiter, &other, "hot")));
    rate_limiter_free(limiter);
}

/* All partitions have the same limit. */
TEST(another_partition_begins_as_the_refused_one)
{
    struct rate_limiter *limiter = rate_limiter_new();
    struct store store = store_of("https://a.example");
    struct rate_key hot = key_of(limiter, &store, "hot");
    struct rate_key fresh = key_of(limiter, &store, "fresh");

    for (int i = 0; i < 20; i++)
        ask(limiter, hot, false);
    for (int i = 0; i < REFUSALS; i++)
        ask(limiter, hot, true);
    assert_false(waits(limiter, fresh));
    for (int i = 0; i < 40 && !waits(limiter, fresh); i++)
        ask(limiter, fresh, false);
    assert_true(waits(limiter, fresh));
    rate_limiter_free(limiter);
}

TEST(a_partition_is_named_by_table_and_key)
{
    assert_true(rate_limiter_partition("A", slice_of("b")) !=
                rate_limiter_partition("B", slice_of("b")));
    assert_true(rate_limiter_partition("A", slice_of("b")) !=
                rate_limiter_partition("A", slice_of("c")));
    assert_true(rate_limiter_partition("A", slice_of("")) != 0);
}
