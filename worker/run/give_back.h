/* SPDX-License-Identifier: MIT */
/* Gives unused space of embedded stores back to the file system while a worker
 * is idle. */
#ifndef TW_RUN_GIVE_BACK_H
#define TW_RUN_GIVE_BACK_H

#include <stdint.h>

struct deadline;
struct job_stores;

/*
 * give_back_some: give back a part of the unused space of each open store. This
 * takes some milliseconds per store. A store that fails is tried again at the
 * next call. Returns how many milliseconds to wait before the next call.
 */
int64_t give_back_some(
    const struct job_stores *stores, const struct deadline *deadline);

#endif
