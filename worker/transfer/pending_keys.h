/* SPDX-License-Identifier: MIT */
/*
 * The keys of a stretch of entities that are on their way together. Two of the
 * same key may not be: the later one would not be sure to be the last. Hashes
 * are kept, so that a key which is none of them may look as if it were.
 */
#ifndef TW_CLI_STRETCH_H
#define TW_CLI_STRETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/store/entity.h"

#define STRETCH_MAX 32768
#define STRETCH_PLACES (2 * STRETCH_MAX) /* a power of two */

struct stretch {
    size_t count;
    uint64_t places[STRETCH_PLACES]; /* hashes, scattered; 0: free */
};

/* stretch_add: false: the key is there already, or the stretch is full. */
bool stretch_add(struct stretch *stretch, const struct entity *entity);

/* stretch_clear: it is empty again. */
void stretch_clear(struct stretch *stretch);

#endif
