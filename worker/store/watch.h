/* SPDX-License-Identifier: MIT */
/*
 * Notifies the reader of a file that other processes write to. inotify does not
 * see what another host writes on a network file system, so the reader polls
 * too, less often.
 *
 * Source: inotify(7).
 */
#ifndef TW_STORE_WATCH_H
#define TW_STORE_WATCH_H

struct watch;

/*
 * watch_begin: from now on changed(context) is called, on a thread of its own,
 * whenever something has been written to the file or to its write-ahead log
 * ("-wal"): at once, and a few times within the next third of a second, for
 * what is written may be seen a moment later; at most a hundred times a second.
 * path is copied, context is borrowed. Owned; NULL: the system does not allow
 * it.
 */
struct watch *watch_begin(
    const char *path, void (*changed)(void *context), void *context);

/* watch_end: changed is not called any more once this returns. NULL: nothing.
 */
void watch_end(struct watch *watch);

#endif
