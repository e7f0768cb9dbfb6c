/* SPDX-License-Identifier: MIT */
/* What a run is bound to. (test_lease: what an attempt does then.) */
#include "worker/run/bound.h"

#include <string.h>

#include "jobs/job.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

#define ONE "1111111111111111"
#define TWO "2222222222222222"
#define THREE "3333333333333333"

/* The indices of the stores that the job uses, in this order. */
static size_t used[4];
static size_t used_count;

static void list_tables(const struct job *job,
    void (*each)(
        void *context, size_t store, const char *table, enum job_access access),
    void *context)
{
    for (size_t i = 0; i < used_count; i++)
        each(context, used[i], "Blogs", JOB_WRITES);
}

static const struct kind KIND = {.name = "copy", .tables = list_tables};
static struct job job = {
    .name = "blogs", .kind = &KIND, .hash = "0123456789abcdef"};

static const char *account_name; /* AccountName of the first store; or NULL */

static struct slice accounts_of(
    const char *first, const char *second, size_t count, const size_t *uses)
{
    struct store stores[2] = {
        {.name = "a",
            .capabilities = {.identity = first, .account_name = account_name}},
        {.name = "b", .capabilities = {.identity = second}},
    };
    struct store *const list[2] = {&stores[0], &stores[1]};
    const struct job_stores all = {.count = 2, .stores = list};

    memcpy(used, uses, count * sizeof(*uses));
    used_count = count;
    return bound_accounts(&job, &all, &scratch);
}

SCRATCH_TEST(the_accounts_are_those_of_the_stores_that_the_job_uses)
{
    static const size_t BOTH[] = {0, 1, 0}, TURNED[] = {1, 0}, FIRST[] = {0};
    struct slice both = accounts_of("x", "y", 3, BOTH);

    assert_int_equal(both.len, 1 + 2 * 16);
    assert_true(slice_equal(both, accounts_of("x", "y", 2, BOTH)));
    assert_true(slice_equal(both, accounts_of("y", "x", 2, TURNED)));
    assert_false(slice_equal(both, accounts_of("y", "x", 2, BOTH)));
    assert_int_equal(accounts_of("x", "x", 2, BOTH).len, 1 + 16);
    assert_int_equal(accounts_of("x", NULL, 1, FIRST).len, 1 + 16);
    assert_int_equal(accounts_of("x", NULL, 2, BOTH).len, 0); /* not known */
}

/* Two workers, one in the account's network: they continue each other's runs.
 */
SCRATCH_TEST(an_account_is_the_same_under_two_hosts)
{
    static const size_t FIRST[] = {0};
    struct slice accounts[3];

    for (size_t i = 0; i < 3; i++) {
        account_name = i < 2 ? "acct" : "other";
        accounts[i] =
            accounts_of(i == 0 ? "acct.table.core.windows.net" : "10.0.0.4",
                NULL, 1, FIRST);
    }
    account_name = NULL;
    assert_true(slice_equal(accounts[0], accounts[1]));
    assert_false(slice_equal(accounts[0], accounts[2]));
}

static void bind(struct ledger_run *run, const char *accounts)
{
    ledger_run_init(run);
    bound_set(run, &job, slice_of(accounts));
}

SCRATCH_TEST(another_account_under_the_same_text_is_a_change)
{
    static const struct {
        const char *before, *now;
        bool changed, changed_with_text;
    } CASES[] = {
        {"." ONE, "." ONE, false, false}, {"." ONE, "." TWO, true, true},
        {"." ONE TWO, "." TWO ONE, true, false}, /* the names were exchanged */
        {"." ONE, "." ONE TWO, true, false},     /* one more store */
        {"." ONE TWO, "." ONE, true, false},     /* one store less */
        {"." ONE TWO, "." ONE THREE, true, true},
        {"", "." ONE, false, false}, /* was not known, or a former version */
        {"." ONE, "", false, false}, /* is not known */
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct slice now = slice_of(CASES[i].now);
        struct job other = job;
        struct ledger_run run;

        bind(&run, CASES[i].before);
        assert_int_equal(
            bound_accounts_changed(&run, &job, now), CASES[i].changed);
        memcpy(other.hash, "fedcba9876543210", 16);
        assert_int_equal(bound_accounts_changed(&run, &other, now),
            CASES[i].changed_with_text);
        assert_true(bound_definition_changed(&run, &other));
        assert_false(bound_definition_changed(&run, &job));
        ledger_run_done(&run);
    }
}

/* A store that cannot be opened now does not loosen what the run is bound to.
 */
SCRATCH_TEST(accounts_that_are_not_known_leave_the_former_ones)
{
    struct ledger_run run;

    bind(&run, "." ONE);
    bound_set(&run, &job, slice_of(""));
    assert_true(slice_is(run.definition, "0123456789abcdef." ONE));
    bound_accept(&run, false);
    assert_true(slice_is(run.definition, "~0123456789abcdef." ONE));
    bound_accept(&run, true);
    bound_accept(&run, false);
    assert_true(slice_is(run.definition, "?0123456789abcdef." ONE));
    bound_set(&run, &job, slice_of("." TWO));
    assert_true(slice_is(run.definition, "0123456789abcdef." TWO));
    ledger_run_done(&run);
}

SCRATCH_TEST(a_run_that_is_not_bound_accepts_everything)
{
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    bound_accept(&run, true);
    assert_int_equal(run.definition.len, 0);
    assert_false(bound_definition_changed(&run, &job));
    assert_ok(bound_check(&run, &job, slice_of("." ONE), &err));
    ledger_run_done(&run);
}
