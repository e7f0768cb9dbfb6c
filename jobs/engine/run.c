/* SPDX-License-Identifier: MIT */
/* Functions that the code of every kind calls for its run. */
#include "jobs/engine/run.h"

#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"

bool run_stopping(struct run *run)
{
    return run->callbacks->stopping(run);
}

const struct log_run *run_log(const struct run *run)
{
    static const struct log_run unknown = {.object = NULL};

    return run->log ? run->log : &unknown;
}

void run_wait(struct run *run, const struct store *store, int64_t now_ticks,
    int64_t until_ticks)
{
    int64_t wait_ms =
        (until_ticks - now_ticks + TICKS_PER_MS - 1) / TICKS_PER_MS;
    bool is_ledger = run->ledger == NULL || store_same(store, run->ledger);

    run->resumes_ticks = until_ticks;
    run->resumes_ms = is_ledger ? 0 : platform_boot_ms() + wait_ms;
}

enum run_end run_end_of(const struct run *run, enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return RUN_CONTINUES;
    case TW_BUSY:
    case TW_UNKNOWN:
    case TW_REFUSED:
    case TW_FULL:
        return RUN_OUTAGE;
    case TW_FORBIDDEN:
        return RUN_FAILED;
    case TW_STOPPED:
        return deadline_is_open(run->deadline, platform_boot_ms())
                   ? RUN_STOPPED
                   : RUN_LEASE_LOST;
    case TW_INVALID:
    case TW_TOO_LARGE:
    case TW_NOT_FOUND:
    case TW_CONFLICT:
        break;
    }
    return RUN_TRY_AGAIN;
}
