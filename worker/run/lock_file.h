/* SPDX-License-Identifier: MIT */
/*
 * The lock file of a process shows to other processes of the same host whether
 * the process has died. The kernel releases the lock when the last thread of
 * the process has ended, for whatever reason, and not before. A process that is
 * suspended, or has lost a lease, keeps its lock. So if a process gets the lock
 * of the file that an Owner in the ledger names, it knows that this owner sends
 * no more requests. Requests that the owner had sent may still arrive (rule
 * A4).
 *
 * An Owner names the file by boot id, device, inode and name:
 *
 *   RANDOM@BOOT/DEVICE/INODE/NAME
 *
 *   RANDOM          of the attempt, 32 hexadecimal digits
 *   BOOT            differs on another host with the same folder, on a copy of
 *                   this host, and after a reboot, because locks taken on the
 *                   other host, or before the reboot, are not visible here
 *   DEVICE, INODE   differ in a copy of the folder. While the owner lives its
 *                   file is open, and no other file gets its inode number
 *   NAME            random, 32 hexadecimal digits. Inode numbers are reused,
 *                   names are not
 *
 * The name is part of Owner and not a property of its own. So when an older
 * version, which does not know lock files, takes over the run, it removes the
 * name too.
 *
 * A file is locked before it gets its name, so if a file with a name of this
 * form is not locked, its owner is dead. The file also lists the runs that its
 * process may own, so that no process has to search the ledger for these runs.
 *
 * A lock file is only put on a file system whose locks are kept by this kernel
 * alone, never on a network file system. Without a lock file everything else
 * works, but other workers wait until the lease expires.
 *
 * Every function may be called from any thread. NULL instead of a lock file
 * means that this process has none.
 */
#ifndef TW_RUN_LOCK_FILE_H
#define TW_RUN_LOCK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"

struct lock_file;

/* Room for an Owner with its NUL, in bytes. */
#define LOCK_FILE_OWNER_MAX 192

/*
 * lock_file_open: create a file in folder (created if missing; a symbolic link
 * is refused), and hold its lock until lock_file_close() or the end of the
 * process. keep_ms: how long files of dead processes are kept, for workers
 * that start later. NULL: no lock file; the reason is logged at debug level.
 * Owned.
 */
struct lock_file *lock_file_open(const char *folder, int64_t keep_ms);

/*
 * lock_file_close: call when no thread will send another request. Deletes the
 * file, and the folder if it is empty. Keeps a file that still lists runs,
 * because the process could not release their leases.
 */
void lock_file_close(struct lock_file *lock_file);

/* lock_file_owner: write a new Owner to `to`, which has room for
 * LOCK_FILE_OWNER_MAX bytes. Without a lock file the Owner has only its first
 * part, RANDOM. Returns `to`. */
const char *lock_file_owner(const struct lock_file *lock_file, char *to);

/* lock_file_is_dead: has the process of this Owner ended? False also if that is
 * not known. owner may be any text. */
bool lock_file_is_dead(struct lock_file *lock_file, struct slice owner);

/* ---- the runs of a process ---- */

#define LOCK_FILE_NOWHERE SIZE_MAX

/* lock_file_note: list the run as one that this process may own. Call before
 * the request that acquires the lease. Returns the index of the note;
 * LOCK_FILE_NOWHERE: not listed. */
size_t lock_file_note(
    struct lock_file *lock_file, struct slice job, struct slice id);

/* lock_file_forget: note that this process does not own the run from until_ms
 * on (platform_boot_ms(); 0: from now on). place: the index of the run's
 * note. */
void lock_file_forget(
    struct lock_file *lock_file, size_t place, int64_t until_ms);

/*
 * lock_file_find_dead: try the lock of every other file in the folder, and call
 * `found` for each run listed by a process that has died since the last call
 * (at the first call: by any dead process). `found` must call no function of
 * this header. Deletes files of dead processes after keep_ms. Costs a few
 * system calls for each file.
 */
void lock_file_find_dead(struct lock_file *lock_file,
    void (*found)(void *context, struct slice job, struct slice id),
    void *context);

#endif
