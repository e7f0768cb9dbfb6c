/* SPDX-License-Identifier: MIT */
/*
 * Notifies the reader of a file when other processes write to it. inotify does
 * not report writes of another host on a network file system, so the reader
 * also polls, less often.
 *
 * Source: inotify(7).
 */
#ifndef TW_STORE_WATCH_H
#define TW_STORE_WATCH_H

struct watch;

/*
 * watch_begin: calls changed(context) on a thread of its own whenever the file
 * or its write-ahead log ("-wal") was written. The first call comes at once. A
 * few more calls follow within a third of a second, because the write may
 * become visible a moment later. There are at most a hundred calls a second.
 * path is copied, context is borrowed. Owned; NULL: the system refused inotify
 * or eventfd.
 */
struct watch *watch_begin(
    const char *path, void (*changed)(void *context), void *context);

/* watch_end: ends the calls of changed(); none is made after watch_end() has
 * returned. Does nothing if given NULL. */
void watch_end(struct watch *watch);

#endif
