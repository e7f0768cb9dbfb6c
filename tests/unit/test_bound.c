/* SPDX-License-Identifier: MIT */
/* The definition and the accounts that a run is bound to. (test_lease: what an
 * attempt does if they have changed.) */
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

/* account_name and cloud_account (name and cloud) of the first store; NULL:
 * unknown. */
static const char *account_name, *cloud_account;

static struct slice accounts_of(
    const char *first, const char *second, size_t count, const size_t *uses)
{
    struct store stores[2] = {
        {.name = "a",
            .capabilities = {.identity = first,
                .account_name = account_name,
                .cloud_account = cloud_account}},
        {.name = "b", .capabilities = {.identity = second}},
    };
    struct store *const list[2] = {&stores[0], &stores[1]};
    const struct job_stores all = {.count = 2, .stores = list};

    memcpy(used, uses, count * sizeof(*uses));
    used_count = count;
    return bound_accounts(&job, &all, &scratch);
}

/* Returns the number of digits of all ACCOUNTs in `accounts`, which precede
 * TABLES. */
static size_t digits_of(struct slice accounts)
{
    const char *space = memchr(accounts.at, ' ', accounts.len);

    assert_non_null(space);
    return (size_t)(space - accounts.at) - 1;
}

SCRATCH_TEST(the_accounts_are_those_of_the_stores_that_the_job_uses)
{
    static const size_t BOTH[] = {0, 1, 0}, TURNED[] = {1, 0}, FIRST[] = {0};
    struct slice both = accounts_of("x", "y", 3, BOTH);

    assert_int_equal(digits_of(both), 2 * 16);
    assert_true(slice_equal(both, accounts_of("x", "y", 2, BOTH)));
    assert_true(slice_equal(both, accounts_of("y", "x", 2, TURNED)));
    assert_false(slice_equal(both, accounts_of("y", "x", 2, BOTH)));
    assert_int_equal(digits_of(accounts_of("x", "x", 2, BOTH)), 16);
    assert_int_equal(digits_of(accounts_of("x", NULL, 1, FIRST)), 16);
    /* The second account is not known. */
    assert_int_equal(accounts_of("x", NULL, 2, BOTH).len, 0);
}

/* Accounts of two clouds, or of two Azurites, may have the same name. */
SCRATCH_TEST(an_account_is_its_name_in_its_cloud)
{
    static const struct {
        const char *name, *cloud, *host;
        size_t same; /* index of the first case with the same account */
    } ACCOUNTS[] = {
        {"acct", "acct in core.windows.net", "acct.table.core.windows.net", 0},
        {"acct", "acct in core.chinacloudapi.cn",
            "acct.table.core.chinacloudapi.cn", 1},
        {"other", "other in core.windows.net", "tables.example.org", 2},
        {NULL, NULL, "tables.example.org", 3},
        {"acct", "acct in core.windows.net", "10.0.0.4:8443", 0},
    };
    static const size_t FIRST[] = {0};
    struct slice accounts[5];

    for (size_t i = 0; TEST_EACH(i, ACCOUNTS); i++) {
        account_name = ACCOUNTS[i].name;
        cloud_account = ACCOUNTS[i].cloud;
        accounts[i] = accounts_of(ACCOUNTS[i].host, NULL, 1, FIRST);
        for (size_t other = 0; other < i; other++)
            assert_int_equal(
                memcmp(accounts[other].at, accounts[i].at, 17) == 0,
                ACCOUNTS[i].same == ACCOUNTS[other].same);
    }
    account_name = cloud_account = NULL;
    assert_true(
        slice_is((struct slice){accounts[0].at + 17, accounts[0].len - 17},
            " Blogs (acct at acct.table.core.windows.net)"));
}

/* ---- a run that is bound ---- */

static struct ledger_run run; /* of the test that runs */
static struct err err;

static int run_set_up(void **state)
{
    ledger_run_init(&run);
    return scratch_set_up(state);
}

static int run_tear_down(void **state)
{
    ledger_run_done(&run);
    return scratch_tear_down(state);
}

#define RUN_TEST(name) TEST_IN(name, run_set_up, run_tear_down)

/* Binds the run to `accounts` as they are. Former versions wrote no TABLES
 * after the ACCOUNTs. */
static void bind_former(const char *accounts)
{
    ledger_run_done(&run);
    ledger_run_init(&run);
    bound_set(&run, &job, slice_of(accounts));
}

/* Binds the run to `accounts`. If `accounts` is not empty and has no TABLES,
 * adds them. */
static void bind(const char *accounts)
{
    bool whole = accounts[0] == 0 || strchr(accounts, ' ');

    bind_former(
        arena_format(&scratch, "%s%s", accounts, whole ? "" : " Blogs (x)").at);
}

static void expect_bound(
    const struct job *now, const char *accounts, enum tw_err wanted)
{
    assert_int_equal(bound_check(&run, now, slice_of(accounts), &err), wanted);
}

RUN_TEST(another_account_under_the_same_text_is_a_change)
{
    static const struct {
        const char *before, *now;
        bool changed, changed_with_text;
    } CASES[] = {
        {"." ONE, "." ONE, false, false}, {"." ONE, "." TWO, true, true},
        {"." ONE TWO, "." TWO ONE, true, false}, /* the stores' names were
                                                    exchanged */
        {"." ONE, "." ONE TWO, true, false},     /* one more store */
        {"." ONE TWO, "." ONE, true, false},     /* one store less */
        {"." ONE TWO, "." ONE THREE, true, true},
        {"", "." ONE, false, false}, /* former accounts: not known, or of a
                                        former version */
        {"." ONE, "", false, false}, /* the present accounts are not known */
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct slice now = slice_of(CASES[i].now);
        struct job other = job;

        bind(CASES[i].before);
        assert_int_equal(
            bound_accounts_changed(&run, &job, now), CASES[i].changed);
        memcpy(other.hash, "fedcba9876543210", 16);
        assert_int_equal(bound_accounts_changed(&run, &other, now),
            CASES[i].changed_with_text);
        assert_true(bound_definition_changed(&run, &other));
        assert_false(bound_definition_changed(&run, &job));
    }
}

/* Former versions computed the digests from other texts. */
RUN_TEST(accounts_of_a_former_version_are_not_compared)
{
    struct slice now = slice_of("." TWO " T (x)");

    bind_former("." ONE);
    assert_false(bound_accounts_changed(&run, &job, now));
    bind_former("." ONE " T (x)");
    assert_true(bound_accounts_changed(&run, &job, now));
}

#define OTHER "fedcba9876543210"
#define HASH "0123456789abcdef"

/* If a store cannot be opened now, the run stays bound to its former
 * account. */
RUN_TEST(accounts_that_are_not_known_leave_the_former_ones)
{
    bind("." ONE " Blogs (x)");
    bound_set(&run, &job, slice_of(""));
    assert_true(slice_is(run.definition, HASH "." ONE " Blogs (x)"));
    bound_set(&run, &job, slice_of("." TWO));
    assert_true(slice_is(run.definition, HASH "." TWO));
}

static struct job other_job(const char *parts)
{
    struct job other = job;

    memcpy(other.hash, OTHER, 16);
    other.parts = parts;
    return other;
}

/* This holds for jobs of every kind. */
RUN_TEST(a_changed_definition_needs_to_be_accepted)
{
    struct job other = other_job(NULL);

    bind("." ONE " Scratch (t.db)");
    expect_bound(&other, "." ONE " Blogs (t.db)", TW_CONFLICT);
    assert_string_equal(err.text,
        "the definition of its job has changed: restore it, or accept the new "
        "one with `resume`; the run began with Scratch (t.db), the job has "
        "Blogs (t.db) now");
    assert_false(bound_accept(&run, &other)); /* no attempt has offered it */
    bound_offer(&run, &other, slice_of("." ONE " Blogs (t.db)"));
    expect_bound(&other, "." ONE, TW_CONFLICT);
    expect_bound(&job, "." ONE, TW_OK);     /* the definition is restored */
    assert_false(bound_accept(&run, &job)); /* so there is nothing to accept for
                                               `job` */
    assert_true(bound_accept(&run, &other));
    assert_false(bound_accept(&run, &other));
    assert_true(bound_accepted(&run, &other));
    expect_bound(&other, "." ONE, TW_OK);
    expect_bound(&other, "", TW_OK);
    bound_set(&run, &other, slice_of("." ONE));
    assert_true(slice_is(run.definition, OTHER "." ONE));
}

/* An operator accepts the definition that was offered when the run began to
 * wait, and not a later one. */
RUN_TEST(only_what_was_offered_is_accepted)
{
    struct job other = other_job(NULL), third = job;

    memcpy(third.hash, "ffffffffffffffff", 16);
    bind("." ONE);
    bound_offer(&run, &other, slice_of("." ONE));
    assert_false(bound_accept(&run, &third)); /* `other` was offered */
    assert_true(bound_accept(&run, &other));
    expect_bound(&third, "." ONE, TW_CONFLICT);
    expect_bound(&other, "." TWO, TW_CONFLICT);
    bound_offer(&run, &job, slice_of("." TWO));
    assert_true(bound_accept(&run, &job));
    expect_bound(&job, "." TWO, TW_OK);
    expect_bound(&job, "." THREE, TW_CONFLICT);
}

RUN_TEST(retry_accepts_a_definition_and_no_account)
{
    struct job other = other_job(NULL);

    bind("." ONE " Blogs (x)");
    bound_accept_definition(&run, &other);
    assert_true(
        slice_is(run.definition, "~" OTHER ":" HASH "." ONE " Blogs (x)"));
    expect_bound(&other, "." ONE, TW_OK);
    expect_bound(&other, "." TWO " Blogs (y)", TW_CONFLICT);
    assert_string_equal(err.text,
        "a store of job blogs is another account now than when this run began: "
        "restore the former account, or accept the new one with `resume`; the "
        "run began with Blogs (x), the job has Blogs (y) now");
}

/* ONE, TWO and THREE stand for hashes of rules and of accounts. */
RUN_TEST(only_a_definition_with_added_rules_needs_nobody)
{
    static const struct {
        const char *before, *now; /* hashes of the rules */
        const char *accounts, *accounts_now;
        enum tw_err outcome;
    } CASES[] = {
        {ONE, ONE TWO, "." ONE, "." ONE, TW_OK},
        {ONE TWO, TWO ONE, "." ONE, "." ONE, TW_OK},
        {ONE TWO, ONE, "." ONE, "." ONE, TW_CONFLICT},
        {ONE TWO, ONE THREE, "." ONE, "." ONE, TW_CONFLICT},
        {ONE, NULL, "." ONE, "." ONE, TW_CONFLICT},
        {NULL, ONE, "." ONE, "." ONE, TW_CONFLICT}, /* bound by a former
                                                       version */
        {ONE, ONE TWO, "." ONE, "." TWO, TW_CONFLICT},
        /* The name of a store may belong to another account now. */
        {ONE, ONE TWO, "." ONE, "." TWO ONE, TW_CONFLICT},
        {ONE, ONE TWO, "." ONE, "." ONE TWO, TW_CONFLICT},
        {ONE, ONE TWO, "." ONE TWO, "." ONE TWO, TW_CONFLICT},
        {ONE, ONE TWO, "." ONE, "", TW_OK}, /* the accounts are not known */
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct job other = other_job(CASES[i].now);

        job.parts = CASES[i].before;
        bind(CASES[i].accounts);
        expect_bound(&other, CASES[i].accounts_now, CASES[i].outcome);
        assert_false(bound_accepted(&run, &other));
    }
    job.parts = NULL;
}
