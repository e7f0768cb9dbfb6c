/* SPDX-License-Identifier: MIT */
/*
 * Makes I/O fail. All calls of SQLite to its file system go through a VFS in
 * front of the default VFS. The calls write() and fsync() for files of an
 * archive go through inject.c, too. A plan says which calls fail.
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
    unsigned calls;      /* the set of calls that are counted and may fail */
    unsigned long first; /* the first call that fails, from 1; 0: none */
    unsigned long count; /* how many calls fail; 0: all from the first one on */
    bool full; /* writes fail as on a full disk (ENOSPC); else as on a broken
                  disk (EIO) */
};

/* A plan without its member `first`. */
struct io_kind {
    const char *name;
    struct io_plan plan;
};

/* The result, in memory shared with the parent. */
struct io_report {
    atomic_ulong calls;          /* calls that were counted */
    atomic_ulong failed;         /* of these, those that failed */
    atomic_ulong syncs_failed;   /* of the failed calls: fsyncs */
    atomic_ulong archive_failed; /* of the failed calls: writes of an archive */
    atomic_int last;             /* enum io_call of the last call that failed */
};

/* io_begin: follows the plan from now on, for the life of the process. Call it
 * before any file is open. plan and report are borrowed. */
void io_begin(const struct io_plan *plan, struct io_report *report);

/* io_report_text: returns a text for people: which call failed last, and how
 * many failed. It lives until the next call. */
const char *io_report_text(struct io_report *report);

#endif
