/* SPDX-License-Identifier: MIT */
/* How an attempt ends after the final outcome of a step. */
#include "jobs/engine/run.h"
#include "tests/support/test.h"
#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"

TEST(outages_never_count_and_mistakes_do)
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

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(run_end_of(&run, cases[i].outcome), cases[i].end);
}

TEST(stopped_after_the_deadline_is_overtaken)
{
    struct deadline deadline;
    struct run run = {.job = "test", .deadline = &deadline};

    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_STOPPED);
    deadline_move(&deadline, platform_boot_ms() - 1);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_LEASE_LOST);
    deadline_move(&deadline, PLATFORM_NEVER);
    deadline_close(&deadline);
    assert_int_equal(run_end_of(&run, TW_STOPPED), RUN_LEASE_LOST);
    assert_int_equal(run_end_of(&run, TW_BUSY), RUN_OUTAGE);
}
