/* SPDX-License-Identifier: MIT */
/* The checkpoint of a copy run: JSON with a version. */
#ifndef TW_JOBS_COPY_CHECKPOINT_H
#define TW_JOBS_COPY_CHECKPOINT_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"

struct copy_progress;
struct rounds;

/* copy_checkpoint_write: the text is owned and ends with a NUL. */
char *copy_checkpoint_write(
    const struct rounds *rounds, const struct copy_progress *at);

/* copy_checkpoint_read: false: text is empty, or this version cannot read text;
 * rounds and at are then unchanged. The keys in at live in arena. */
bool copy_checkpoint_read(struct slice text, struct arena *arena,
    struct rounds *rounds, struct copy_progress *at);

#endif
