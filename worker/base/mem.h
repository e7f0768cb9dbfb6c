/* SPDX-License-Identifier: MIT */
/*
 * All memory allocation. An allocation that fails ends the process at once with
 * exit code 75 and one line on standard error. This is always safe, because a
 * worker can continue each run from its ledger, and so no caller handles a
 * failed allocation. Input sizes are bounded before memory is allocated for
 * them.
 *
 * If MEM_HAS_LIBRARIES is defined, allocations of all libraries fail the same
 * way, because the program defines malloc and its family itself, in place of
 * the C library's. MEM_HAS_LIBRARIES is defined with glibc, except in a build
 * with a sanitizer, which has its own malloc, and in a static program, whose C
 * library needs its own malloc. A static program must be built with
 * -DMEM_OURS_ALONE. Without MEM_HAS_LIBRARIES, modules call mem_exhausted()
 * when their library reports a failed allocation.
 */
#ifndef TW_BASE_MEM_H
#define TW_BASE_MEM_H

#include <features.h> /* __GLIBC__ */
#include <stdbool.h>
#include <stddef.h>

#include "worker/base/slice.h"

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
 * mem_keep_little: make the allocator return freed memory to the system. By
 * default glibc has eight arenas per core, each of which keeps freed memory,
 * and raises its mmap threshold after large blocks. So peak memory grew with
 * the number of cores, and varied by 5 to 12 MiB on two cores. One arena and
 * fixed thresholds (mem.c) prevent this. Call it before any thread starts.
 * No-op with another libc.
 */
void mem_keep_little(void);

/* mem_give_back: return all freed memory to the system. Takes milliseconds;
 * call when a phase with many small allocations ends and a different one
 * begins. No-op with another libc. */
void mem_give_back(void);

/* mem_alloc: bytes of zeroed memory (bytes 0 counts as 1). Owned. Not NULL. */
void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));

/* mem_array: count * size bytes, zeroed; an overflow ends the process. */
void *mem_array(size_t count, size_t size) __attribute__((returns_nonnull));

/* mem_resize: resize a block as realloc() does; new bytes are not zeroed. */
void *mem_resize(void *at, size_t bytes) __attribute__((returns_nonnull));

/* mem_text: copy len bytes of text, and add a NUL. Owned. */
char *mem_text(const char *text, size_t len) __attribute__((returns_nonnull));

/* mem_slice: copy text, and add a NUL that len does not count. Owned.
 * mem_free_slice: free such a copy and make *text empty; does nothing if *text
 * is empty already. */
struct slice mem_slice(struct slice text);
void mem_free_slice(struct slice *text);

/* mem_format: format a new text as printf does. Owned. */
char *mem_format(const char *format, ...)
    __attribute__((returns_nonnull, format(printf, 1, 2)));

void mem_free(void *at); /* does nothing if `at` is NULL */

/* mem_free_wiped, mem_resize_wiped: as mem_free() and mem_resize(), but with
 * glibc the bytes that are given up are overwritten first. */
void mem_free_wiped(void *at);
void *mem_resize_wiped(void *at, size_t bytes) __attribute__((returns_nonnull));

/* mem_exhausted: end the process with exit code 75 and a line on standard
 * error. For modules whose library reports a failed allocation. */
void mem_exhausted(void) __attribute__((noreturn));

/*
 * mem_wipe_moved: with `on` true, begin to overwrite the old place of each
 * block that resizing moves, blocks of libraries included; with `on` false, end
 * this. Calls nest. For growing texts that hold secrets. Any thread may call
 * this function; it applies to all threads. No-op without MEM_HAS_LIBRARIES.
 */
void mem_wipe_moved(bool on);

/*
 * mem_fail_after: let the n-th allocation from now fail; 0: none (the default).
 * Returns what was left of the previous call's n. For tests.
 */
unsigned long mem_fail_after(unsigned long n);

#endif
