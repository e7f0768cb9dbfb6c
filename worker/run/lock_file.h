/* SPDX-License-Identifier: MIT */
/*
 * The lock file of a process, by which others on the same host see that it has
 * died. The kernel releases the lock when the last thread of the process has
 * ended, however it ends, and not before: a process that is suspended, or has
 * lost a lease, keeps it. So who gets the lock of the very file that an Owner
 * in the ledger names knows that this owner sends nothing any more. What it had
 * sent may still arrive (rule A4).
 *
 * An Owner names the file by boot id, device, inode and name:
 *
 *   RANDOM@BOOT/DEVICE/INODE/NAME
 *
 *   RANDOM          of the attempt, 32 hexadecimal digits
 *   BOOT            another kernel's locks are not ours: another host with the
 *                   same folder, a copy of this host, this host before a reboot
 *   DEVICE, INODE   a copy of the folder has other ones. While the owner lives
 *                   its file is open, and nobody else's gets its number
 *   NAME            random, 32 hexadecimal digits, never given twice: numbers
 *                   of inodes are used again
 *
 * It is part of Owner, and no property beside it, so that an older version that
 * takes the run over, and knows nothing of lock files, takes it away.
 *
 * A file gets its name after it was locked: one that can be found by its name
 * and is not locked has lost its owner. It also notes the runs that its process
 * may own, so that nobody has to search the ledger for them.
 *
 * Only file systems whose locks live and die with this kernel are used, no
 * network's. Where there can be no lock file everything else works: others wait
 * for the lease.
 *
 * Every function may be called from any thread, and takes NULL: no lock file.
 */
#ifndef TW_RUN_LOCK_FILE_H
#define TW_RUN_LOCK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"

struct lock_file;

/* Of an Owner, with its NUL. */
#define LOCK_FILE_OWNER_MAX 192

/*
 * lock_file_open: make a file in folder (itself made where it is missing, never
 * followed through a symbolic link), and hold its lock until
 * lock_file_close() or the end of the process. keep_ms: how long the files of
 * the dead stay, for who starts later. NULL, with the reason in the log at
 * debug level: there is none. Owned.
 */
struct lock_file *lock_file_open(const char *folder, int64_t keep_ms);

/*
 * lock_file_close: no thread may send anything any more. The file goes, and the
 * folder where it is empty then. A file that still notes runs stays: its
 * process could not let go of them.
 */
void lock_file_close(struct lock_file *lock_file);

/* lock_file_owner: a new Owner, of LOCK_FILE_OWNER_MAX bytes; without a lock
 * file RANDOM alone. Returns to. */
const char *lock_file_owner(const struct lock_file *lock_file, char *to);

/* lock_file_is_dead: has the process of this Owner ended? False also where that
 * cannot be known. owner may be any text. */
bool lock_file_is_dead(struct lock_file *lock_file, struct slice owner);

/* ---- the runs of a process ---- */

#define LOCK_FILE_NOWHERE SIZE_MAX

/* lock_file_note: this process may own the run from now on. Before the request
 * that acquires its lease. Returns where it is noted. */
size_t lock_file_note(
    struct lock_file *lock_file, struct slice job, struct slice id);

/* lock_file_forget: it does not own it any longer from until_ms on
 * (platform_boot_ms(); 0: from now on). */
void lock_file_forget(
    struct lock_file *lock_file, size_t place, int64_t until_ms);

/*
 * lock_file_look: try the lock of every other file in the folder, and call
 * found (which must call nothing here) for each run that a process had noted
 * that has died since the last look, or before the first. Removes files of the
 * dead in time. Costs a few system calls for each file.
 */
void lock_file_look(struct lock_file *lock_file,
    void (*found)(void *context, struct slice job, struct slice id),
    void *context);

#endif
