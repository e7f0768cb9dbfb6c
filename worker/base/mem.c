/* SPDX-License-Identifier: MIT */
/* Allocation that ends the process on failure, so that callers need no
 * check. */
#include "worker/base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define EXIT_AGAIN 75
#define ARENAS 1

/*
 * malloc uses mmap for blocks of at least MAPPED_BYTES, and returns the free
 * memory at the end of the heap to the system when it exceeds TRIM_BYTES.
 * Pages and batches of some 100 KiB are allocated and freed for each request.
 * With lower limits, each request would cause page faults for its memory
 * again, which took a third of the CPU time of an upgrade.
 */
#define MAPPED_BYTES (1024 * 1024)
#define TRIM_BYTES (2 * 1024 * 1024)

/* Counts down to the allocation that fails. 1: the next one; 0: none. */
static atomic_ulong fail_after;

void mem_exhausted(void)
{
    static const char line[] =
        "tableward: out of memory; every run can be continued\n";

    /* A failed write is ignored, because there is nowhere to report it. */
    if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
        _exit(EXIT_AGAIN);
    _exit(EXIT_AGAIN);
}

void mem_keep_little(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, ARENAS);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
#endif
}

void mem_give_back(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* Must this allocation fail, because of mem_fail_after()? */
static bool must_fail(void)
{
    unsigned long left =
        atomic_load_explicit(&fail_after, memory_order_relaxed);

    while (left != 0)
        if (atomic_compare_exchange_weak(&fail_after, &left, left - 1))
            return left == 1;
    return false;
}

/* Number of calls of mem_wipe_moved(true) that no mem_wipe_moved(false) has
 * ended yet. */
static atomic_uint wiping;

void mem_wipe_moved(bool on)
{
    if (on)
        atomic_fetch_add(&wiping, 1);
    else
        atomic_fetch_sub(&wiping, 1);
}

#ifdef MEM_HAS_LIBRARIES

/*
 * The program defines the C library's names itself, so that every loaded
 * library calls these functions. They call glibc's allocator, so free and
 * malloc_usable_size of glibc are used unchanged.
 */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
/* NOLINTEND(bugprone-reserved-identifier) */

static void *allocated(void *at)
{
    if (!at)
        mem_exhausted();
    return at;
}

void *malloc(size_t bytes)
{
    return allocated(must_fail() ? NULL : __libc_malloc(bytes));
}

void *calloc(size_t count, size_t size)
{
    return allocated(must_fail() ? NULL : __libc_calloc(count, size));
}

/* Resize a block; overwrite the bytes that are given up. */
static void *move_and_wipe(void *at, size_t bytes)
{
    size_t before = malloc_usable_size(at);
    void *to;

    if (bytes <= before) {
        explicit_bzero((char *)at + bytes, before - bytes);
        return allocated(must_fail() ? NULL : __libc_realloc(at, bytes));
    }
    to = allocated(must_fail() ? NULL : __libc_malloc(bytes));
    memcpy(to, at, before);
    explicit_bzero(at, before);
    free(at);
    return to;
}

void *realloc(void *at, size_t bytes)
{
    if (at && bytes == 0)
        return __libc_realloc(at, 0); /* bytes is 0: frees `at` */
    if (at && atomic_load_explicit(&wiping, memory_order_relaxed) > 0)
        return move_and_wipe(at, bytes);
    return allocated(must_fail() ? NULL : __libc_realloc(at, bytes));
}

void *memalign(size_t alignment, size_t bytes)
{
    return allocated(must_fail() ? NULL : __libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 ||
        alignment == 0)
        return EINVAL;
    *ret = memalign(alignment, bytes);
    return 0;
}

void *mem_alloc(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void *mem_resize(void *at, size_t bytes)
{
    return realloc(at, bytes ? bytes : 1);
}

#else

void *mem_alloc(size_t bytes)
{
    void *at = must_fail() ? NULL : calloc(1, bytes ? bytes : 1);

    if (!at)
        mem_exhausted();
    return at;
}

void *mem_resize(void *at, size_t bytes)
{
    void *moved = must_fail() ? NULL : realloc(at, bytes ? bytes : 1);

    if (!moved)
        mem_exhausted();
    return moved;
}

#endif

void *mem_array(size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        mem_exhausted();
    return mem_alloc(bytes);
}

char *mem_text(const char *text, size_t len)
{
    char *copy;

    if (len == SIZE_MAX)
        mem_exhausted();
    copy = mem_resize(NULL, len + 1);
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

struct slice mem_slice(struct slice text)
{
    return (struct slice){mem_text(text.at ? text.at : "", text.len), text.len};
}

void mem_free_slice(struct slice *text)
{
    mem_free((void *)(uintptr_t)text->at);
    *text = (struct slice){0};
}

char *mem_format(const char *format, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        mem_exhausted();
    text = mem_resize(NULL, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}

void mem_free(void *at)
{
    free(at);
}

/* Returns the size of a block; 0: not known. */
static size_t size_of(void *at)
{
#ifdef __GLIBC__
    return malloc_usable_size(at);
#else
    (void)at;
    return 0;
#endif
}

void mem_free_wiped(void *at)
{
    size_t size = at ? size_of(at) : 0;

    if (size > 0)
        explicit_bzero(at, size);
    free(at);
}

void *mem_resize_wiped(void *at, size_t bytes)
{
    size_t size = at ? size_of(at) : 0;
    void *to;

    if (size == 0)
        return mem_resize(at, bytes);
    to = mem_resize(NULL, bytes);
    memcpy(to, at, size < bytes ? size : bytes);
    mem_free_wiped(at);
    return to;
}

unsigned long mem_fail_after(unsigned long n)
{
    return atomic_exchange(&fail_after, n);
}
