/* SPDX-License-Identifier: MIT */
/* Opens, reads and changes the file of an embedded store. If a call fails, the
 * test fails. */
#ifndef TW_TESTS_SUPPORT_STORE_FILE_H
#define TW_TESTS_SUPPORT_STORE_FILE_H

#include <stdint.h>

#include "worker/store/store.h"

/* store_file_open: opens a store named "main"; owned by the caller. */
struct store *store_file_open(const char *path);

/* store_file_remove: removes the file, which need not exist, and the files that
 * SQLite has put beside it. */
void store_file_remove(const char *path);

/* store_file_change: carries out these SQL statements. Returns how many rows
 * they changed.
 * store_file_ask: returns the number that one statement gives; 0 if it gives a
 * value that is no number. */
int store_file_change(const char *path, const char *sql);
int64_t store_file_ask(const char *path, const char *sql);

/* store_file_size: returns the size of a file in bytes; 0: there is no file. */
int64_t store_file_size(const char *path);

#endif
