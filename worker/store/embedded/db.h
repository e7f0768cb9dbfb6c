/* SPDX-License-Identifier: MIT */
/*
 * One connection to the embedded store's file: statements, transactions, and
 * the outcomes of SQLite's result codes. Only db.c uses SQLite. A connection is
 * used by one thread at a time (pool.h ensures this).
 */
#ifndef TW_STORE_EMBEDDED_DB_H
#define TW_STORE_EMBEDDED_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct db;

#define DB_MEMORY ":memory:"

#define DB_IDENTITY_MAX 32 /* length of db_identity() */

/* A writer may also read; only a writer creates the file. DB_READ_ONLY: reads a
 * file that this process may not write, and creates no file beside it. */
enum db_role { DB_READER, DB_WRITER, DB_READ_ONLY };

/*
 * db_open: open the file at path (borrowed). A file that the writer creates is
 * readable by its owner alone. The caller owns *ret.
 *
 * TW_FULL     the file cannot be created, read or written.
 * TW_BUSY     another process kept the file locked.
 * TW_INVALID  the file is not a tableward file, or has a newer version, or has
 *             several names (file_names.h; not checked for a DB_READER). For
 *             DB_READ_ONLY also: the file is empty, or has an older version, or
 *             there is a rollback journal beside it. Only a writer can make
 *             such a file readable.
 */
TW_MUST_USE enum tw_err db_open(
    const char *path, enum db_role role, struct db **ret, struct err *err);

/* db_close: a writer empties the write-ahead log first. Does nothing if given
 * NULL. */
void db_close(struct db *db);

/* db_wait_until: set the time (on platform_boot_ms()) until which calls wait
 * for another process that is writing; after that time they fail with TW_BUSY.
 */
void db_wait_until(struct db *db, int64_t until_ms);

/* db_is_current: may this connection still be used? False if no other process
 * had the file open when the connection was opened, and another process has
 * opened the file for writing since. Data that was read since then is not
 * reliable, and a new connection is needed. */
bool db_is_current(const struct db *db);

/* db_identity: return the file's identity, generated at random when a writer
 * first opened the file. Moving or renaming the file keeps the identity. NULL:
 * db is a DB_READER, or a store in memory, or the file has no identity. Lives
 * as long as db. */
const char *db_identity(const struct db *db);

/*
 * Every function below that returns an enum tw_err can fail with
 *
 *   TW_BUSY  another process has locked the file
 *   TW_FULL  the disk is full, or the file cannot be read or written; a
 *            transaction in progress is lost as a whole
 *
 * Two failures end the process with exit code 75: a failed fsync, because the
 * content of the disk is then unknown, and lack of memory.
 */

/* Transactions of the writer: db_begin waits for writers of other processes. A
 * failed db_commit stores nothing and ends the transaction. */
TW_MUST_USE enum tw_err db_begin(struct db *db, struct err *err);
TW_MUST_USE enum tw_err db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);

/* A part of a transaction that can be undone separately. */
TW_MUST_USE enum tw_err db_part_begin(struct db *db, struct err *err);
TW_MUST_USE enum tw_err db_part_keep(struct db *db, struct err *err);
TW_MUST_USE enum tw_err db_part_undo(struct db *db, struct err *err);

/* db_stamp: return a number for an ETag or a pop receipt; no number is returned
 * twice for this file. Call in a transaction. */
int64_t db_stamp(struct db *db);

/*
 * The file's clock (clock.h). db_read_clock: read the clock, as db_begin does.
 * After db_stamp(), db_commit stores the clock with the last stamp.
 * db_now_ticks: return the current time of the clock, computed from what was
 * last read.
 */
TW_MUST_USE enum tw_err db_read_clock(struct db *db, struct err *err);
int64_t db_now_ticks(const struct db *db);

/* db_tidy: move the write-ahead log into the file if the log is long, or if
 * db_give_back() was called. Call between transactions, after waking the
 * waiting writers. */
void db_tidy(struct db *db);

/*
 * db_spare_pages: set *ret to the number of free pages of the file that should
 * be given back to the file system; 0: there are too few free pages. goes_on:
 * some pages were given back just before, so fewer free pages suffice to
 * continue. Always 0 for a file that an earlier release created, which keeps
 * its free pages for later entities.
 *
 * db_give_back: cut at most `pages` free pages off the end of the file. Cuts at
 * least one page and at most 4 MiB, and begins with no further page after some
 * milliseconds. Call in a transaction of the writer.
 */
TW_MUST_USE enum tw_err db_spare_pages(
    struct db *db, bool goes_on, int64_t *ret, struct err *err);
TW_MUST_USE enum tw_err db_give_back(
    struct db *db, int64_t pages, struct err *err);

/* ---- statements ---- */

/* Statements: parameters -> columns of each row. */
enum db_sql {
    DB_TABLE_ADD,  /* name                                                 */
    DB_TABLE_FIND, /* name -> id                                           */
    DB_TABLE_LIST, /* name, limit -> names after the given one */

    /* The parameters of all entity statements begin with table, partition_key,
       row_key. */
    DB_ENTITY_GET,    /* -> etag, timestamp, properties, properties of the body,
                         body_id */
    DB_ENTITY_FIND,   /* -> etag, body_id                                  */
    DB_ENTITY_INSERT, /* etag, timestamp, body_id, properties              */
    DB_ENTITY_UPDATE, /* etag, timestamp, body_id, properties */
    DB_ENTITY_DELETE,
    DB_BODY_ADD,    /* id, properties                                      */
    DB_BODY_DELETE, /* id                                                  */

    /* table, first (partition_key, row_key), end (partition_key, row_key),
     * which is not included
     * -> partition_key, row_key, etag, timestamp; DB_SCAN_ALL also:
     * properties, properties of the body */
    DB_SCAN_KEYS,
    DB_SCAN_ALL,

    DB_QUEUE_ADD,  /* name                                                 */
    DB_QUEUE_FIND, /* name -> id                                           */

    /* parameters: queue, id, receipt, inserted, visible, text */
    DB_MESSAGE_ADD,
    /* queue, now, limit
     * -> number, id, inserted, visible, dequeue_count, text */
    DB_MESSAGE_DUE,
    /* parameters: receipt, visible, number */
    DB_MESSAGE_TAKE,
    /* parameters: new receipt, visible, queue, id, expected receipt */
    DB_MESSAGE_RENEW,
    /* parameters: queue, id, expected receipt */
    DB_MESSAGE_DELETE,
    /* queue -> number of messages */
    DB_MESSAGE_COUNT,

    DB_BEGIN, /* this and the following statements are for db.c only */
    DB_COMMIT,
    DB_PART_BEGIN,
    DB_PART_UNDO,
    DB_PART_KEEP,
    DB_STAMP_READ,
    DB_STAMP_WRITE,
    DB_IDENTITY_READ,

    DB_SQL_COUNT,
};

struct db_value {
    enum { DB_INTEGER, DB_BYTES, DB_KEY, DB_TEXT } type;
    int64_t integer;
    struct slice bytes; /* borrowed until db_end */
};

static inline struct db_value db_integer(int64_t integer)
{
    return (struct db_value){.type = DB_INTEGER, .integer = integer};
}

static inline struct db_value db_bytes(struct slice bytes)
{
    return (struct db_value){.type = DB_BYTES, .bytes = bytes};
}

/* A PartitionKey or RowKey, which is stored in a form that sorts in the
 * service's order, by UTF-16 units. */
static inline struct db_value db_key(struct slice key)
{
    return (struct db_value){.type = DB_KEY, .bytes = key};
}

static inline struct db_value db_text(struct slice text)
{
    return (struct db_value){.type = DB_TEXT, .bytes = text};
}

/* The parameters of a statement, in their order: DB_VALUES(db_integer(1), ...).
 */
#define DB_VALUES(...)                                                         \
    (struct db_value[]){__VA_ARGS__},                                          \
        sizeof((struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value)

/* db_run: execute a statement that returns no rows. *ret_changed (may be NULL):
 * number of changed rows. */
TW_MUST_USE enum tw_err db_run(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int *ret_changed,
    struct err *err);

/*
 * To execute a statement that returns rows, call db_start, then db_next while
 * *ret_row is true, then db_end, also after errors. The statement borrows its
 * values until db_end. The bytes of its columns live until the next db_next or
 * db_end.
 */
TW_MUST_USE enum tw_err db_start(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, struct err *err);
TW_MUST_USE enum tw_err db_next(
    struct db *db, enum db_sql sql, bool *ret_row, struct err *err);
void db_end(struct db *db, enum db_sql sql);

int64_t db_column_integer(struct db *db, enum db_sql sql, int column);
struct slice db_column_bytes(struct db *db, enum db_sql sql, int column);
/* db_column_key: read a key that was stored with db_key(). A row may have two
 * such columns, side by side; both keys live until the next row. */
struct slice db_column_key(struct db *db, enum db_sql sql, int column);

/* db_find: read the integer in the first column of the first row; TW_NOT_FOUND
 * (without an error text) if there is no row. */
TW_MUST_USE enum tw_err db_find(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int64_t *ret, struct err *err);

#endif
