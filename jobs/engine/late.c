/* SPDX-License-Identifier: MIT */
/* Waits for requests that may still arrive late. */
#include "jobs/engine/late.h"

#include "jobs/engine/run.h"
#include "worker/base/log.h"
#include "worker/base/platform.h"
#include "worker/store/store.h"

/* Interval, in ms, in which late_wait() checks whether the run must stop. */
#define STEP_MS 250

void late_note(struct late *late, const struct store *store)
{
    if (!store->capabilities.late_writes)
        return;
    late->any = true;
    late->since_ms = platform_boot_ms();
}

static void wait_until(int64_t until_ms)
{
    struct platform_mutex mutex;
    struct platform_cond cond;

    platform_mutex_init(&mutex);
    platform_cond_init(&cond);
    platform_lock(&mutex);
    while (platform_wait(&cond, &mutex, until_ms))
        continue;
    platform_unlock(&mutex);
    platform_cond_done(&cond);
    platform_mutex_done(&mutex);
}

enum tw_err late_wait(struct late *late, struct run *run, struct err *err)
{
    int64_t until_ms = late->since_ms + STORE_LATE_REQUEST_MS;
    int64_t now_ms = platform_boot_ms();

    if (!late->any)
        return TW_OK;
    if (now_ms < until_ms)
        log_run_info(run_log(run),
            "waits %lld s, because an earlier request may still be applied",
            (long long)(until_ms - now_ms + 999) / 1000);
    while (now_ms < until_ms) {
        if (run_stopping(run) ||
            (!deadline_is_open(run->deadline, now_ms) &&
                !deadline_may_reopen(run->deadline, now_ms)))
            return err_fail(err, TW_STOPPED, "stopped");
        wait_until(now_ms + STEP_MS < until_ms ? now_ms + STEP_MS : until_ms);
        now_ms = platform_boot_ms();
    }
    late->any = false;
    return TW_OK;
}
