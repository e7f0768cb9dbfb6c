/* SPDX-License-Identifier: MIT */
/*
 * I/O that fails: every call that SQLite makes to its file system passes a
 * shim over the default VFS, and every write and fsync of an archive passes
 * here too. A plan says which of them fail.
 */
#ifndef TW_TESTS_FAULTS_INJECT_H
#define TW_TESTS_FAULTS_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>

enum io_call {
    IO_OPEN,
    IO_READ,
    IO_WRITE,
    IO_TRUNCATE,
    IO_SYNC,
    IO_SIZE,
    IO_LOCK,
    IO_UNLOCK,
    IO_DELETE,
    IO_ACCESS,
    IO_SHM_MAP,
    IO_SHM_LOCK,
    IO_ARCHIVE_WRITE,
    IO_ARCHIVE_SYNC,
    IO_CALLS,
};

#define IO_SET(call) (1U << (call))
#define IO_ALL (IO_SET(IO_CALLS) - 1)

struct io_plan {
    unsigned calls;      /* the set of those that count, and may fail       */
    unsigned long first; /* the first that fails, from 1; 0: none           */
    unsigned long count; /* how many fail; 0: all from then on              */
    bool full;           /* as on a full disk: writes put down one half and
                            say so; else as a broken disk                   */
};

/* A plan that lacks its first call alone. */
struct io_kind {
    const char *name;
    struct io_plan plan;
};

/* What came of it; in memory shared with the parent. */
struct io_report {
    atomic_ulong calls;          /* that count                       */
    atomic_ulong failed;         /* of these                         */
    atomic_ulong syncs_failed;   /* of these: fsyncs                 */
    atomic_ulong archive_failed; /* of these: writes of an archive */
    atomic_int last;             /* enum io_call of the last that failed */
};

/* io_begin: from now on, for the life of the process. Before any file is
 * open. Both are borrowed. */
void io_begin(const struct io_plan *plan, struct io_report *report);

/* io_report_text: which failed last, and how many, for people; lives until the
 * next call. */
const char *io_report_text(struct io_report *report);

#endif
