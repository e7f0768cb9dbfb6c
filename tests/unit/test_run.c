/* SPDX-License-Identifier: MIT */
/* How an attempt ends after the final outcome of a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobs/engine/run.h"
#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"

static void outages_never_count_and_mistakes_do(void **state)
{
    static const struct {
        enum tw_err outcome;
        enum run_end end;
    } cases[] = {
        {TW_OK, RUN_CONTINUES},
        {TW_BUSY, RUN_OUTAGE},
        {TW_UNKNOWN, RUN_OUTAGE},
        {TW_REFUSED, RUN_OUTAGE},
        {TW_FULL, RUN_OUTAGE},
        {TW_FORBIDDEN, RUN_FAILED},
        {TW_INVALID, RUN_TRY_AGAIN},
        {TW_TOO_LARGE, RUN_TRY_AGAIN},
        {TW_NOT_FOUND, RUN_TRY_AGAIN},
        {TW_CONFLICT, RUN_TRY_AGAIN},
    };
    struct run run = {.job = "test"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(run_end_of(&run, cases[i].outcome), cases[i].end);
}

static void stopped_after_the_deadline_is_overtaken(void **state)
{
    struct deadline deadline;
    struct run run = {.job = "test", .deadline = &deadline};

    (void)state;
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_STOPPED);
    deadline_move(&deadline, platform_boot_ms() - 1);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_LEASE_LOST);
    deadline_move(&deadline, PLATFORM_NEVER);
    deadline_close(&deadline);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_LEASE_LOST);
    assert_int_equal(run_end_of(&run, TW_BUSY), RUN_OUTAGE);
}

static void lines_are_about_the_run_that_its_host_names(void **state)
{
    const struct log_run log = {.object = "run purge/7f3a"};
    struct run run = {.job = "purge"};

    (void)state;
    assert_null(run_log(&run)->object);
    run.log = &log;
    assert_ptr_equal(run_log(&run), &log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outages_never_count_and_mistakes_do),
        cmocka_unit_test(stopped_after_the_deadline_is_overtaken),
        cmocka_unit_test(lines_are_about_the_run_that_its_host_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
