/* SPDX-License-Identifier: MIT */
/*
 * The allocation seam. An allocation that fails ends the process at once with
 * exit code 75 and one line on standard error: every run can be taken up again
 * from its ledger, so ending is always safe, and no caller has a path for it.
 * What comes from outside is bounded before memory is asked for.
 *
 * It holds for every library too where MEM_HAS_LIBRARIES is defined: the
 * program has malloc and its family itself, before those of the C library.
 * That is with glibc, but for sanitizers, which have a malloc of their own, and
 * for a static program, whose C library cannot be without its own: build that
 * with -DMEM_OURS_ALONE. Without it, modules say mem_exhausted() for what their
 * library tells them.
 */
#ifndef TW_BASE_MEM_H
#define TW_BASE_MEM_H

#include <features.h> /* __GLIBC__ */
#include <stddef.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ||     \
    __has_feature(thread_sanitizer)
#define MEM_IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEM_IS_SANITIZED 1
#endif
#if defined(__GLIBC__) && !defined(MEM_IS_SANITIZED) && !defined(MEM_OURS_ALONE)
#define MEM_HAS_LIBRARIES 1
#endif

/*
 * mem_keep_little: let the allocator give back what is freed. glibc's has eight
 * arenas a core, each of which keeps what it once held, and learns from large
 * blocks to keep those too: peak memory grew with cores and luck, by 5 to 12
 * MiB on two cores. With two arenas, and every block of 128 KiB mapped by
 * itself, it does not. Before any thread starts; nothing with another libc.
 */
void mem_keep_little(void);

/* mem_give_back: what the allocator keeps of what was freed. Worth its
 * milliseconds where work of one sort ends that took much in small pieces, and
 * work of another begins. Nothing with another libc. */
void mem_give_back(void);

/* mem_alloc: bytes of zeroed memory (bytes 0 counts as 1). Owned. Not NULL. */
void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));

/* mem_array: count * size bytes, zeroed; an overflow ends the process. */
void *mem_array(size_t count, size_t size) __attribute__((returns_nonnull));

/* mem_resize: as realloc; new bytes are not zeroed. */
void *mem_resize(void *at, size_t bytes) __attribute__((returns_nonnull));

/* mem_text: a NUL-terminated copy of len bytes of text. Owned. */
char *mem_text(const char *text, size_t len) __attribute__((returns_nonnull));

/* mem_format: a new text as printf would write it. Owned. */
char *mem_format(const char *format, ...)
    __attribute__((returns_nonnull, format(printf, 1, 2)));

void mem_free(void *at); /* NULL: nothing */

/* mem_exhausted: the end of the process, as above. For the modules whose
 * library allocates by itself and only says that it could not. */
void mem_exhausted(void) __attribute__((noreturn));

/*
 * mem_fail_after: let the n-th allocation from now fail, 0: none (the
 * default). Returns what was left of the n before. For tests.
 */
unsigned long mem_fail_after(unsigned long n);

#endif
