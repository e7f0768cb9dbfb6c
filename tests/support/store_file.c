/* SPDX-License-Identifier: MIT */
#include "tests/support/store_file.h"

#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/store/embedded/embedded.h"

struct store *store_file_open(const char *path)
{
    struct store *store = NULL;
    struct err err;

    if (embedded_open("main", path, &store, &err) != TW_OK)
        fail_msg("%s", err.text);
    return store;
}

void store_file_remove(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char name[256];

        (void)snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)unlink(name);
    }
}

int store_file_change(const char *path, const char *sql)
{
    sqlite3 *sqlite;
    int rows;

    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
    rows = sqlite3_total_changes(sqlite);
    sqlite3_close(sqlite);
    return rows;
}

int64_t store_file_ask(const char *path, const char *sql)
{
    sqlite3 *sqlite;
    sqlite3_stmt *statement;
    int64_t number;

    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(sqlite);
    return number;
}

int64_t store_file_size(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}
