/* SPDX-License-Identifier: MIT */
/*
 * Refuses a store's file that has more than one name.
 *
 * SQLite derives the names of the write-ahead log and of the shared memory,
 * FILE-wal and FILE-shm, from the path by which a process opens FILE. Two
 * processes that open one file by different paths use different logs, do not
 * see each other's commits, and overwrite each other's pages, which destroys
 * the store. SQLite resolves symbolic links first, so these are harmless. Two
 * kinds of names remain:
 *
 * - A hard link. The file's link count is then more than 1.
 * - A bind mount of the file alone, as `docker run -v /data/t.db:/app/t.db`
 *   makes: /app/t.db is a mount point, and its log would be /app/t.db-wal. If
 *   the folder is mounted instead, file and log are seen together.
 *
 * Each process checks the file before it opens the file. So a link or mount
 * that is made while a worker has the file open does no harm: the worker
 * continues, and every process that comes later is refused, whichever name it
 * uses. What this check does not detect:
 *
 * - A file whose name is changed or removed while a process has the file open
 *   by that name. A process that then opens the file by its only remaining name
 *   uses another log. Link count and mounts do not show this.
 * - A mount or rename between the check and SQLite's opening of the file.
 * - A bind mount where the kernel does not report mount points (Linux before
 *   5.8, or a sandbox that forbids statx).
 */
#ifndef TW_STORE_EMBEDDED_FILE_NAMES_H
#define TW_STORE_EMBEDDED_FILE_NAMES_H

#include "worker/base/err.h"

/*
 * file_names_check: call before SQLite opens the file at path, which may be a
 * symbolic link. Does not open the file, because closing it would release
 * SQLite's locks.
 *
 * TW_OK: the file has one name, as far as the kernel tells, or it does not
 * exist, or SQLite is going to report what is wrong. TW_INVALID: the file has
 * several hard links or is a mount point; err says what to do.
 */
TW_MUST_USE enum tw_err file_names_check(const char *path, struct err *err);

#endif
