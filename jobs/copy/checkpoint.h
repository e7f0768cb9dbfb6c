/* SPDX-License-Identifier: MIT */
/* The checkpoint of a copy run: JSON with a version. */
#ifndef TW_JOBS_COPY_CHECKPOINT_H
#define TW_JOBS_COPY_CHECKPOINT_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"

struct copy_progress;
struct rounds;

/* copy_checkpoint_write: returns the checkpoint as JSON with a final NUL, owned
 * by the caller. */
char *copy_checkpoint_write(
    const struct rounds *rounds, const struct copy_progress *at);

/* copy_checkpoint_read: parse a checkpoint into *rounds and *at. The keys in
 * *at live in arena. False: text is empty, or this version of tableward cannot
 * read it; *rounds and *at are then unchanged. */
bool copy_checkpoint_read(struct slice text, struct arena *arena,
    struct rounds *rounds, struct copy_progress *at);

#endif
