/* SPDX-License-Identifier: MIT */
/* The wait for requests that may still arrive late (rule A4). */
#include "jobs/engine/late.h"
#include "jobs/engine/run.h"
#include "tests/support/fast_platform.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"

static bool stops;
static unsigned asked;

static bool stopping(struct run *run)
{
    return asked++ >= 3 && stops;
}

static const struct run_callbacks HOST = {.stopping = stopping};
static const struct store REMOTE = {.capabilities = {.late_writes = true}};
static const struct store LOCAL = {.capabilities = {.late_writes = false}};

static struct deadline deadline;
static struct run run = {.job = "j", .callbacks = &HOST, .deadline = &deadline};
static struct late late;
static struct err err;

static int set_up(void **state)
{
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    asked = 0;
    stops = false;
    late = (struct late){.any = false};
    return 0;
}

#define LATE_TEST(name) TEST_IN(name, set_up, NULL)

LATE_TEST(nothing_is_waited_for_where_nothing_is_late)
{
    late_note(&late, &LOCAL);
    assert_ok(late_wait(&late, &run, &err));
    assert_int_equal(asked, 0);
}

LATE_TEST(thirty_seconds_pass_after_the_last_one)
{
    int64_t began_ms = platform_boot_ms();

    late_note(&late, &REMOTE);
    late_note(&late, &LOCAL);
    assert_ok(late_wait(&late, &run, &err));
    assert_true(platform_boot_ms() - began_ms >= STORE_LATE_REQUEST_MS);
    assert_ok(late_wait(&late, &run, &err));
    assert_false(late.any);
}

LATE_TEST(a_stop_ends_the_wait)
{
    stops = true;
    late_note(&late, &REMOTE);
    late.since_ms += 3600000; /* so that the wait is not over before the stop,
                                 however slow this machine is */
    assert_int_equal(late_wait(&late, &run, &err), TW_STOPPED);
    assert_int_equal(asked, 4);
    assert_true(late.any); /* the next attempt still has to wait */
}

LATE_TEST(a_lost_lease_ends_the_wait)
{
    deadline_close(&deadline);
    late_note(&late, &REMOTE);
    assert_int_equal(late_wait(&late, &run, &err), TW_STOPPED);
}

int main(void)
{
    fast_platform_use();
    return test_run_all(NULL, NULL);
}
