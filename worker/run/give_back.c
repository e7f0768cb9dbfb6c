/* SPDX-License-Identifier: MIT */
/* Calls store_give_back(): often while there is space to give back, else
 * seldom. */
#include "worker/run/give_back.h"

#include <stddef.h>

#include "jobs/job.h"
#include "worker/store/store.h"

/* STEP_MS: the wait before the next step, so that other processes can write in
 * between. CHECK_MS: the wait while there is nothing to give back. */
#define STEP_MS 50
#define CHECK_MS 60000

int64_t give_back_some(
    const struct job_stores *stores, const struct deadline *deadline)
{
    int64_t wait_ms = CHECK_MS;

    for (size_t i = 0; i < stores->count; i++) {
        struct exchange exchange = {.deadline = deadline};
        bool more = false;

        if (stores->stores[i] &&
            store_give_back(stores->stores[i], &exchange, &more) == TW_OK &&
            more)
            wait_ms = STEP_MS;
    }
    return wait_ms;
}
