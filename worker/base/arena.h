/* SPDX-License-Identifier: MIT */
/* Memory that is freed all at once: a page, a batch, a configuration. */
#ifndef TW_BASE_ARENA_H
#define TW_BASE_ARENA_H

#include <stddef.h>

#include "worker/base/slice.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first; NULL when empty */
    size_t bytes;               /* size of all blocks, for memory budgets */
    size_t block_bytes;         /* minimum size of a block; 0: 4 KiB */
};

/* arena_init: make an empty arena with blocks of 4 KiB. arena_init_small: the
 * same with blocks of 0.5 KiB, for objects that have an arena each and of which
 * thousands exist at the same time. */
void arena_init(struct arena *arena);
void arena_init_small(struct arena *arena);
void arena_done(struct arena *arena); /* frees all; arena is empty */
void arena_wipe(struct arena *arena); /* overwrites all memory, then frees it */
void arena_clear(struct arena *arena); /* keeps one block for reuse    */

/* arena_alloc: allocate bytes of zeroed memory, aligned for any object.
 * Borrowed from the arena. */
void *arena_alloc(struct arena *arena, size_t bytes)
    __attribute__((returns_nonnull));

/* arena_copy: copy slice into the arena, with a NUL after its last byte. */
struct slice arena_copy(struct arena *arena, struct slice slice);

/* arena_format: format a text as printf does. Borrowed from the arena. */
struct slice arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
