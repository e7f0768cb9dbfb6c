/* SPDX-License-Identifier: MIT */
/*
 * What lies beside the file of an embedded store, for a process that may read
 * the file but not write it.
 *
 * SQLite puts two files beside the store: FILE-wal, the write-ahead log, and
 * FILE-shm, through which all processes that have the store open agree on what
 * the log holds. FILE-shm exists while any of them has the store open, and
 * stays after a crash. So without FILE-shm no process has the store open, and a
 * process that opens it for writing creates FILE-shm first.
 *
 * FILE-journal, the rollback journal, exists while a process changes a store
 * that is not in WAL mode: a copy by VACUUM INTO, or a store that another
 * program has changed. After a crash FILE holds a part of that change, and only
 * the journal has what must be put back.
 */
#ifndef TW_STORE_EMBEDDED_FILE_STATE_H
#define TW_STORE_EMBEDDED_FILE_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Identifies the content of a file, because it changes with every write. */
struct file_stamp {
    bool exists;
    uint64_t device, inode;
    int64_t size, changed_ns;
    int unreadable; /* errno: why the file's content cannot be read; 0: the
                       content can be read, or there is none */
};

struct file_state {
    struct file_stamp file, log, journal; /* FILE, FILE-wal, FILE-journal */
    bool is_shared;                       /* FILE-wal and FILE-shm exist */
};

/* file_state_read: read the present state of the store at path, which may be a
 * symbolic link. */
void file_state_read(const char *path, struct file_state *ret);

/* file_state_equal: are a and b equal? Then no process has opened the store for
 * writing between the reading of a and b. */
bool file_state_equal(const struct file_state *a, const struct file_state *b);

#endif
