/* SPDX-License-Identifier: MIT */
/* What every kind asks of its run. */
#include "jobs/engine/run.h"

#include "worker/base/world.h"
#include "worker/store/fence.h"

bool run_stopping(struct run *run)
{
    return run->host->stopping(run);
}

const char *run_object(const struct run *run)
{
    return run->object ? run->object : run->job;
}

enum run_end run_end_of(const struct run *run, enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return RUN_SUCCEEDED;
    case TW_BUSY:
    case TW_UNKNOWN:
    case TW_REFUSED:
    case TW_FULL:
        return RUN_OUTAGE;
    case TW_FORBIDDEN:
        return RUN_FAILED;
    case TW_STOPPED:
        return fence_open(run->fence, world_boot_ms()) ? RUN_STOPPED
                                                       : RUN_OVERTAKEN;
    case TW_INVALID:
    case TW_TOO_LARGE:
    case TW_NOT_FOUND:
    case TW_CONFLICT:
        break;
    }
    return RUN_TRY_AGAIN;
}
