/* SPDX-License-Identifier: MIT */
/* The file of an embedded store, as a test opens it, looks at it and changes
 * it. What cannot be done fails the test. */
#ifndef TW_TESTS_SUPPORT_STORE_FILE_H
#define TW_TESTS_SUPPORT_STORE_FILE_H

#include <stdint.h>

#include "worker/store/store.h"

/* store_file_open: a store named "main"; owned by the caller. */
struct store *store_file_open(const char *path);

/* store_file_remove: the file, which need not exist, with what SQLite has put
 * beside it. */
void store_file_remove(const char *path);

/* store_file_change: carry out these statements of SQL. Returns how many rows
 * they changed. store_file_ask: the number that one statement gives; what is no
 * number is 0. */
int store_file_change(const char *path, const char *sql);
int64_t store_file_ask(const char *path, const char *sql);

/* store_file_size: of a file, in bytes; 0: there is none. */
int64_t store_file_size(const char *path);

#endif
