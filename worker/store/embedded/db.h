/* SPDX-License-Identifier: MIT */
/*
 * One connection to the embedded store's file: statements, transactions, and
 * the outcomes of SQLite's result codes. Only user of SQLite. A connection is
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

/* A writer may also read; only a writer creates the file. */
enum db_role { DB_READER, DB_WRITER };

/*
 * db_open: path is borrowed. A file that the writer creates is readable by its
 * owner alone. Owned.
 *
 * TW_FULL: it cannot be created, read or written; TW_INVALID: it is something
 * else, or of a newer version; TW_BUSY: another process kept it locked.
 */
TW_MUST_USE enum tw_err db_open(
    const char *path, enum db_role role, struct db **ret, struct err *err);

/* db_close: a writer empties the write-ahead log first. NULL: does nothing. */
void db_close(struct db *db);

/* db_wait_until: until when (on platform_boot_ms()) calls may wait for another
 * process that is writing; then they fail with TW_BUSY. */
void db_wait_until(struct db *db, int64_t until_ms);

/* db_identity: the file's identity, generated at random when a writer first
 * opened it; moving or renaming keeps it. Of a writer only; NULL: in memory.
 * Lives as long as db. */
const char *db_identity(const struct db *db);

/*
 * Every function below that returns an enum tw_err can fail with
 *
 *   TW_BUSY  another process has locked the file
 *   TW_FULL  the disk is full, or the file cannot be read or written; a
 *            transaction in progress is lost as a whole
 *
 * A failed fsync, after which the content of the disk is unknown, and lack of
 * memory end the process with exit code 75.
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

/* db_stamp: a number that this file has never returned before and will never
 * return again: for ETags and pop receipts. In a transaction only. */
int64_t db_stamp(struct db *db);

/*
 * The file's clock (clock.h). db_look: read it; db_begin does so too, and
 * db_commit stores it with the last stamp. db_now_ticks: its current time,
 * computed from the last read.
 */
TW_MUST_USE enum tw_err db_look(struct db *db, struct err *err);
int64_t db_now_ticks(const struct db *db);

/* db_tidy: move a long log into the file; call it between transactions, after
 * the waiting writers have been woken. */
void db_tidy(struct db *db);

/* ---- statements ---- */

enum db_sql {
    DB_TABLE_ADD,  /* name                                                 */
    DB_TABLE_FIND, /* name -> id                                           */
    DB_TABLE_LIST, /* name, limit -> name; those after name                */

    /* Entities begin with table, partition_key, row_key. */
    DB_ENTITY_GET,    /* -> etag, timestamp, properties, those of the body,
                         body_id */
    DB_ENTITY_FIND,   /* -> etag, body_id                                  */
    DB_ENTITY_INSERT, /* etag, timestamp, body_id, properties              */
    DB_ENTITY_UPDATE, /* the same                                          */
    DB_ENTITY_DELETE,
    DB_BODY_ADD,    /* id, properties                                      */
    DB_BODY_DELETE, /* id                                                  */

    /* table, first partition_key, row_key, below partition_key, row_key
     * -> partition_key, row_key, etag, timestamp, and with ALL properties,
     * those of the body */
    DB_SCAN_KEYS,
    DB_SCAN_ALL,

    DB_QUEUE_ADD,  /* name                                                 */
    DB_QUEUE_FIND, /* name -> id                                           */

    /* queue, id, receipt, inserted, visible, text */
    DB_MESSAGE_ADD,
    /* queue, now, limit
     * -> number, id, inserted, visible, dequeue_count, text */
    DB_MESSAGE_DUE,
    /* receipt, visible, number */
    DB_MESSAGE_TAKE,
    /* receipt, visible, queue, id, receipt it must have */
    DB_MESSAGE_RENEW,
    /* queue, id, receipt it must have */
    DB_MESSAGE_DELETE,
    /* queue -> how many */
    DB_MESSAGE_COUNT,

    DB_BEGIN, /* used by db.c itself */
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

/* A PartitionKey or RowKey: stored in a form that sorts in the service's order,
 * UTF-16 ordinal. */
static inline struct db_value db_key(struct slice key)
{
    return (struct db_value){.type = DB_KEY, .bytes = key};
}

static inline struct db_value db_text(struct slice text)
{
    return (struct db_value){.type = DB_TEXT, .bytes = text};
}

/* The values of a statement, in its order: DB_VALUES(db_integer(1), ...). */
#define DB_VALUES(...)                                                         \
    (struct db_value[]){__VA_ARGS__},                                          \
        sizeof((struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value)

/* db_run: a statement without rows. *ret_changed (may be NULL): rows it
 * changed. */
TW_MUST_USE enum tw_err db_run(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int *ret_changed,
    struct err *err);

/*
 * A statement with rows: db_start, then db_next while *ret_row is true, then
 * db_end, also after errors. Its values and the bytes of its columns live until
 * the next db_next or db_end.
 */
TW_MUST_USE enum tw_err db_start(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, struct err *err);
TW_MUST_USE enum tw_err db_next(
    struct db *db, enum db_sql sql, bool *ret_row, struct err *err);
void db_end(struct db *db, enum db_sql sql);

int64_t db_column_integer(struct db *db, enum db_sql sql, int column);
struct slice db_column_bytes(struct db *db, enum db_sql sql, int column);
/* db_column_key: a key stored by db_key(); at most two neighbouring columns of
 * a row, both of which live until the next row. */
struct slice db_column_key(struct db *db, enum db_sql sql, int column);

/* db_find: the integer in the first column of the first row; TW_NOT_FOUND
 * (without an error text) if there is no row. */
TW_MUST_USE enum tw_err db_find(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int64_t *ret, struct err *err);

#endif
