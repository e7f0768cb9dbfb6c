/* SPDX-License-Identifier: MIT */
/* Gives unused space of embedded stores back to the file system while a worker
 * is idle. */
#ifndef TW_RUN_GIVE_BACK_H
#define TW_RUN_GIVE_BACK_H

#include <stdint.h>

struct deadline;
struct job_stores;

/* give_back_some: one step for each open store; takes some milliseconds. A
 * store that fails is left for the next time. Returns after how many
 * milliseconds to call again. */
int64_t give_back_some(
    const struct job_stores *stores, const struct deadline *deadline);

#endif
