/* SPDX-License-Identifier: MIT */
/* Blocks of memory handed out from the front and freed together. */
#include "worker/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/crypto.h"
#include "worker/base/mem.h"

/* The minimum sizes of a block. An allocation that is larger than the minimum
 * gets a block of exactly its size. */
#define BLOCK_BYTES 4032
#define SMALL_BLOCK_BYTES 480

struct arena_block {
    struct arena_block *older;
    size_t size; /* size of data, in bytes */
    size_t used;
    max_align_t data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

void arena_init_small(struct arena *arena)
{
    *arena = (struct arena){.block_bytes = SMALL_BLOCK_BYTES};
}

/* Free `block` and all older blocks. */
static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *older = block->older;

        mem_free(block);
        block = older;
    }
}

void arena_done(struct arena *arena)
{
    free_blocks(arena->blocks);
    arena_init(arena);
}

void arena_wipe(struct arena *arena)
{
    for (struct arena_block *at = arena->blocks; at; at = at->older)
        crypto_wipe(at->data, at->size);
    arena_done(arena);
}

void arena_clear(struct arena *arena)
{
    struct arena_block *kept = arena->blocks;

    if (!kept)
        return;
    free_blocks(kept->older);
    kept->older = NULL;
    kept->used = 0;
    arena->bytes = kept->size;
}

/* Put a new block, with room for `bytes` bytes, in front of the others. */
static void add_block(struct arena *arena, size_t bytes)
{
    size_t least = arena->block_bytes > 0 ? arena->block_bytes : BLOCK_BYTES;
    size_t size = bytes > least ? bytes : least;
    struct arena_block *block;

    if (size > SIZE_MAX - sizeof(*block))
        mem_exhausted();
    block = mem_resize(NULL, sizeof(*block) + size);
    block->size = size;
    block->used = 0;
    block->older = arena->blocks;
    arena->blocks = block;
    arena->bytes += size;
}

/* Allocate at least `bytes` bytes, not zeroed, because most callers overwrite
 * them. */
static void *take(struct arena *arena, size_t bytes)
{
    size_t align = _Alignof(max_align_t), rounded;
    struct arena_block *block;
    char *at;

    if (bytes > SIZE_MAX - align)
        mem_exhausted();
    rounded = ((bytes ? bytes : 1) + align - 1) / align * align;
    block = arena->blocks;
    if (!block || block->size - block->used < rounded)
        add_block(arena, rounded);
    block = arena->blocks;
    at = (char *)block->data + block->used;
    block->used += rounded;
    return at;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    return memset(take(arena, bytes), 0, bytes);
}

struct slice arena_copy(struct arena *arena, struct slice slice)
{
    char *copy;

    if (slice.len == SIZE_MAX)
        mem_exhausted();
    copy = take(arena, slice.len + 1);
    if (slice.len > 0)
        memcpy(copy, slice.at, slice.len);
    copy[slice.len] = '\0';
    return (struct slice){copy, slice.len};
}

struct slice arena_format(struct arena *arena, const char *format, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        mem_exhausted();
    text = take(arena, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return (struct slice){text, (size_t)len};
}
