/* SPDX-License-Identifier: MIT */
/* Is a store within reach? */
#include "worker/store/reach.h"

int64_t reach_wait_ms(struct reach *reach, int64_t now_ms)
{
    int64_t probe_ms = atomic_load(&reach->probe_ms);

    if (atomic_load(&reach->failures) < REACH_FAILURES)
        return 0;
    if (now_ms < probe_ms)
        return probe_ms - now_ms;
    if (atomic_compare_exchange_strong(
            &reach->probe_ms, &probe_ms, now_ms + REACH_PROBE_MS))
        return 0;
    return REACH_PROBE_MS;
}

void reach_note(struct reach *reach, enum tw_err outcome, int64_t now_ms)
{
    switch (outcome) {
    case TW_BUSY:
    case TW_UNKNOWN:
        if (atomic_fetch_add(&reach->failures, 1) + 1 == REACH_FAILURES)
            atomic_store(&reach->probe_ms, now_ms + REACH_PROBE_MS);
        break;
    case TW_STOPPED: /* it says nothing about who is there */
    case TW_FULL:
        break;
    default:
        atomic_store(&reach->failures, 0);
        break;
    }
}
