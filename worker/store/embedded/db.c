/* SPDX-License-Identifier: MIT */
/*
 * One connection to the embedded store's file. Write-ahead log with
 * synchronous=FULL: an acknowledged commit is on the disk, readers see whole
 * commits and never wait, several processes share the file.
 */
#include "worker/store/embedded/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/embedded/clock.h"
#include "worker/store/embedded/file_names.h"
#include "worker/store/embedded/file_state.h"

#define EXIT_TRY_AGAIN 75

/* "TWRD" in the header of the file: the command `file` shows it, and db_open()
 * checks it. */
#define APPLICATION_ID 0x54575244
#define SCHEMA_VERSION 2
/* The version that stored keys as plain UTF-8: see write_key(). */
#define SCHEMA_UTF8_KEYS 1

#define IDENTITY_LEN DB_IDENTITY_MAX /* length of a text_random_id() */
#define KEY_MAX_BYTES 65536

/* Maximum of a stored time: the start of the year 9000. No real clock is later,
 * and sums do not overflow. */
#define TICKS_9000 INT64_C(2839809888000000000)

#define OPEN_WAIT_MS 10000
#define NAP_MAX_MS 20

/* Lengths in pages of 4 KiB. When the log has LOG_PAGES, db_tidy() moves it
 * into the file. When the log has LOG_PAGES_MAX, db_tidy() also makes the log
 * start again at its beginning. For that it must wait until no reader needs the
 * log, and all other writers wait meanwhile. So it waits for RESTART_WAIT_MS at
 * most. It does not wait at all if a part of the log could not be moved,
 * because a long reader, such as a backup, is active. */
#define LOG_PAGES 1000
#define LOG_PAGES_MAX (8 * LOG_PAGES)
#define RESTART_WAIT_MS 50

/*
 * Free pages of the file, of 4 KiB. Later entities use them again, so only a
 * file with many of them is shortened. Shortening begins at FREE_PAGES_BEGIN
 * free pages, if these are a quarter (FREE_SHARE) of the file or more, and ends
 * at FREE_PAGES_KEPT. Other writers wait while db_give_back() cuts pages off,
 * and while the pages that it moved are synced. So one transaction cuts off at
 * most GIVE_BACK_PAGES (4 MiB), and begins with no further page after
 * GIVE_BACK_MS.
 */
#define FREE_PAGES_BEGIN 1024
#define FREE_PAGES_KEPT 256
#define FREE_SHARE 4
#define GIVE_BACK_PAGES 1024
#define GIVE_BACK_MS 10

struct db {
    sqlite3 *sqlite;
    const char *path;
    enum db_role role;
    sqlite3_stmt *statements[DB_SQL_COUNT]; /* prepared when first needed */
    int64_t until_ms;                       /* until when calls wait for another
                                               process: db_wait_until() */
    int64_t stamp; /* last number that db_stamp() returned for this file */
    bool stamped;  /* db_stamp() called since db_begin */
    struct clock
        clock; /* the file's clock as db_begin or db_read_clock read it */
    char identity[IDENTITY_LEN + 1]; /* result of db_identity(); "" stands for
                                        NULL */
    int log_pages;     /* length of the log after the last commit, in pages */
    int restart_pages; /* after a failed restart of the log: db_tidy() tries
                          again when the log has this length, in pages */
    bool shortened;    /* db_give_back() has cut pages off, which shortens the
                          file only when the log is moved into it */
    struct file_state state; /* DB_READ_ONLY: state of the files when db was
                                opened */
    struct buf keys[2];      /* keys of the current row: db_column_key() */
    struct platform_mutex nap_lock;
    struct platform_cond
        nap; /* never signalled; waiting for it makes a pause */
};

/* Columns for struct clock, written with each stamp. */
#define ADD_CLOCK                                                              \
    "ALTER TABLE stamps ADD COLUMN boot_id TEXT NOT NULL DEFAULT '';"          \
    "ALTER TABLE stamps ADD COLUMN boot_ms INTEGER NOT NULL DEFAULT 0;"        \
    "ALTER TABLE stamps ADD COLUMN ticks INTEGER NOT NULL DEFAULT 0;"          \
    "ALTER TABLE stamps ADD COLUMN ahead_ticks INTEGER NOT NULL DEFAULT 0;"

/*
 * Keys are BLOBs. SQLite compares BLOBs as memcmp() does. write_key() stores
 * keys in a form for which this order equals the order of Azure Table storage.
 * WITHOUT ROWID is used so that an entity is stored in the tree of the keys,
 * and a partition is read sequentially. To compare a key, SQLite reads the
 * whole record; therefore long properties are stored outside the tree, in the
 * table `bodies`.
 */
static const char SCHEMA[] =
    "CREATE TABLE tables ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE COLLATE NOCASE);"
    "CREATE TABLE entities ("
    " table_id INTEGER NOT NULL REFERENCES tables,"
    " partition_key BLOB NOT NULL,"
    " row_key BLOB NOT NULL,"
    " etag INTEGER NOT NULL,"
    " timestamp INTEGER NOT NULL,"
    " body_id INTEGER NOT NULL," /* 0: no body */
    " properties BLOB NOT NULL," /* JSON; empty if there is a body */
    " PRIMARY KEY (table_id, partition_key, row_key)) WITHOUT ROWID;"
    "CREATE TABLE bodies ("
    " id INTEGER PRIMARY KEY,"
    " properties BLOB NOT NULL);"
    "CREATE TABLE queues ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE messages ("
    " number INTEGER PRIMARY KEY,"
    " queue_id INTEGER NOT NULL REFERENCES queues,"
    " id TEXT NOT NULL UNIQUE,"
    " receipt INTEGER NOT NULL,"
    " inserted INTEGER NOT NULL,"
    " visible INTEGER NOT NULL,"
    " dequeue_count INTEGER NOT NULL DEFAULT 0,"
    " text BLOB NOT NULL);"
    "CREATE INDEX messages_due ON messages (queue_id, visible);"
    "CREATE TABLE stamps (last INTEGER NOT NULL);"
    "INSERT INTO stamps VALUES (0);" ADD_CLOCK;

#define SCAN_WHERE                                                             \
    " WHERE table_id = ?1"                                                     \
    " AND (partition_key, row_key) >= (?2, ?3)"                                \
    " AND (partition_key, row_key) < (?4, ?5)"                                 \
    " ORDER BY partition_key, row_key"

#define WITH_BODIES                                                            \
    " FROM entities AS e LEFT JOIN bodies AS b ON b.id = body_id"

#define ENTITY_IS " table_id = ?1 AND partition_key = ?2 AND row_key = ?3"

static const char *const SQL[DB_SQL_COUNT] = {
    [DB_TABLE_ADD] =
        "INSERT INTO tables (name) VALUES (?1) ON CONFLICT DO NOTHING",
    [DB_TABLE_FIND] = "SELECT id FROM tables WHERE name = ?1",
    [DB_TABLE_LIST] = "SELECT name FROM tables WHERE name > ?1"
                      " ORDER BY name LIMIT ?2",
    [DB_ENTITY_GET] = "SELECT etag, timestamp, e.properties, b.properties,"
                      " body_id" WITH_BODIES " WHERE" ENTITY_IS,
    [DB_ENTITY_FIND] = "SELECT etag, body_id FROM entities WHERE" ENTITY_IS,
    [DB_ENTITY_INSERT] = "INSERT INTO entities (table_id, partition_key,"
                         " row_key, etag, timestamp, body_id, properties)"
                         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                         " ON CONFLICT DO NOTHING",
    [DB_ENTITY_UPDATE] = "UPDATE entities SET etag = ?4, timestamp = ?5,"
                         " body_id = ?6, properties = ?7 WHERE" ENTITY_IS,
    [DB_ENTITY_DELETE] = "DELETE FROM entities WHERE" ENTITY_IS,
    [DB_BODY_ADD] = "INSERT INTO bodies (id, properties) VALUES (?1, ?2)",
    [DB_BODY_DELETE] = "DELETE FROM bodies WHERE id = ?1",
    [DB_SCAN_KEYS] = "SELECT partition_key, row_key, etag, timestamp"
                     " FROM entities" SCAN_WHERE,
    [DB_SCAN_ALL] = "SELECT partition_key, row_key, etag, timestamp,"
                    " e.properties, b.properties" WITH_BODIES SCAN_WHERE,
    [DB_QUEUE_ADD] =
        "INSERT INTO queues (name) VALUES (?1) ON CONFLICT DO NOTHING",
    [DB_QUEUE_FIND] = "SELECT id FROM queues WHERE name = ?1",
    [DB_MESSAGE_ADD] = "INSERT INTO messages"
                       " (queue_id, id, receipt, inserted, visible, text)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [DB_MESSAGE_DUE] = "SELECT number, id, inserted, visible, dequeue_count,"
                       " text FROM messages"
                       " WHERE queue_id = ?1 AND visible <= ?2"
                       " ORDER BY visible, number LIMIT ?3",
    [DB_MESSAGE_TAKE] = "UPDATE messages SET receipt = ?1, visible = ?2,"
                        " dequeue_count = dequeue_count + 1"
                        " WHERE number = ?3",
    [DB_MESSAGE_RENEW] = "UPDATE messages SET receipt = ?1, visible = ?2"
                         " WHERE queue_id = ?3 AND id = ?4 AND receipt = ?5",
    [DB_MESSAGE_DELETE] = "DELETE FROM messages WHERE queue_id = ?1"
                          " AND id = ?2 AND receipt = ?3",
    [DB_MESSAGE_COUNT] = "SELECT count(*) FROM messages WHERE queue_id = ?1",
    [DB_BEGIN] = "BEGIN IMMEDIATE",
    [DB_COMMIT] = "COMMIT",
    [DB_PART_BEGIN] = "SAVEPOINT part",
    [DB_PART_UNDO] = "ROLLBACK TO part",
    [DB_PART_KEEP] = "RELEASE part",
    [DB_STAMP_READ] =
        "SELECT last, boot_id, boot_ms, ticks, ahead_ticks FROM stamps",
    [DB_STAMP_WRITE] = "UPDATE stamps SET last = ?1, boot_id = ?2,"
                       " boot_ms = ?3, ticks = ?4, ahead_ticks = ?5",
    [DB_IDENTITY_READ] = "SELECT id FROM identity",
};

/* ---- what went wrong ---- */

/* Outcome and error text for each primary result code of SQLite. */
static const struct trouble {
    int result;
    enum tw_err outcome;
    const char *what;
} TROUBLES[] = {
    {SQLITE_BUSY, TW_BUSY, "another process is writing to it"},
    {SQLITE_LOCKED, TW_BUSY, "another process is writing to it"},
    {SQLITE_PROTOCOL, TW_BUSY, "another process is writing to it"},
    {SQLITE_FULL, TW_FULL, "the disk is full"},
    {SQLITE_READONLY, TW_FULL,
        "it cannot be written: no permission for it or for its folder, or a"
        " file system that is mounted read-only"},
    {SQLITE_CANTOPEN, TW_FULL, "it cannot be opened or written"},
    {SQLITE_PERM, TW_FULL, "it cannot be opened or written"},
    {SQLITE_IOERR, TW_FULL, "it cannot be read or written"},
    {SQLITE_CORRUPT, TW_FULL, "it is damaged"},
    {SQLITE_NOTADB, TW_INVALID, "it is not a tableward file"},
};

static _Noreturn void end_process(const char *path, const char *what)
{
    log_error("store",
        "%s: %s; the process ends, so that no lost write counts as stored",
        path, what);
    _exit(EXIT_TRY_AGAIN);
}

/* Ends the process after a failed fsync or allocation. After a failed fsync the
 * kernel may have dropped pages and consider them clean, so only a new process,
 * which reads the log again, finds out what is stored. */
static void end_if_indeterminate(const char *path, int result)
{
    if (result == SQLITE_IOERR_FSYNC || result == SQLITE_IOERR_DIR_FSYNC)
        end_process(path, "writes could not be synced to the disk");
    if (result == SQLITE_NOMEM || result == SQLITE_IOERR_NOMEM)
        end_process(path, "out of memory");
}

static enum tw_err fail_as(
    const char *path, int result, int system_errno, struct err *err)
{
    const struct trouble *found = NULL;

    end_if_indeterminate(path, result);
    for (size_t i = 0; i < sizeof(TROUBLES) / sizeof(TROUBLES[0]); i++)
        if (TROUBLES[i].result == (result & 0xff))
            found = &TROUBLES[i];
    if (!found)
        return err_fail(err, TW_FULL, "%s: SQLite says \"%s\" (%d)", path,
            sqlite3_errstr(result), result);
    if (found->outcome != TW_FULL || system_errno == 0 ||
        (result & 0xff) == SQLITE_FULL)
        return err_fail(err, found->outcome, "%s: %s", path, found->what);
    return err_fail(err, found->outcome, "%s: %s: %s", path, found->what,
        strerror(system_errno));
}

static enum tw_err fail(struct db *db, int result, struct err *err)
{
    return fail_as(db->path, result, sqlite3_system_errno(db->sqlite), err);
}

/* ---- opening ---- */

/* SQLite calls this while another process holds a lock. Returns 0 to give up.
 */
static int wait_for_others(void *arg, int times)
{
    struct db *db = arg;
    int64_t now_ms = platform_boot_ms();
    int64_t nap_ms = times < NAP_MAX_MS ? times + 1 : NAP_MAX_MS;

    if (now_ms >= db->until_ms)
        return 0;
    if (nap_ms > db->until_ms - now_ms)
        nap_ms = db->until_ms - now_ms;
    platform_lock(&db->nap_lock);
    (void)platform_wait(&db->nap, &db->nap_lock, now_ms + nap_ms);
    platform_unlock(&db->nap_lock);
    return 1;
}

/* SQLite calls this after each commit, instead of a checkpoint of its own,
 * whose failures it would not report. */
static int note_log_pages(
    void *arg, sqlite3 *sqlite, const char *schema, int pages)
{
    struct db *db = arg;

    (void)sqlite;
    (void)schema;
    db->log_pages = pages;
    return SQLITE_OK;
}

/* Creates the file before SQLite does, to set its mode. O_EXCL prevents that an
 * existing file is opened here: closing it again would release the locks that
 * this process may have on it. */
static enum tw_err create_file(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 && errno != EEXIST)
        return err_fail(err, TW_FULL, "%s: it cannot be created: %s", path,
            strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return TW_OK;
}

static enum tw_err execute(struct db *db, const char *sql, struct err *err)
{
    int result = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);

    return result == SQLITE_OK ? TW_OK : fail(db, result, err);
}

/* Runs sql. Returns the first column of its first row, as an integer and as a
 * text that may be truncated. */
static enum tw_err ask(struct db *db, const char *sql, int64_t *ret_integer,
    char ret_text[16], struct err *err)
{
    sqlite3_stmt *statement = NULL;
    const unsigned char *text;
    int result = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);
    int ended;
    enum tw_err outcome = TW_OK;

    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        *ret_integer = sqlite3_column_int64(statement, 0);
        text = sqlite3_column_text(statement, 0);
        sqlite3_snprintf(16, ret_text, "%s", text ? (const char *)text : "");
    } else {
        outcome =
            fail(db, result == SQLITE_DONE ? SQLITE_CORRUPT : result, err);
    }
    /* A statement that changes something is committed here, after its row was
     * read. */
    ended = sqlite3_finalize(statement);
    if (outcome == TW_OK && ended != SQLITE_OK)
        outcome = fail(db, ended, err);
    return outcome;
}

#define OPEN_FLAGS (SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE)

/* Adds the URI of the file for SQLite, with a parameter. */
static void write_uri(struct buf *to, const char *name, const char *parameter)
{
    buf_add_text(to, "file:");
    for (; *name; name++)
        if (strchr("%?#", *name))
            buf_add_format(to, "%%%02x", (unsigned)(unsigned char)*name);
        else
            buf_add_char(to, *name);
    buf_add_format(to, "?%s", parameter);
}

/* Opens a file that has no log and that no process has open. It is opened as
 * immutable, because SQLite would otherwise create a log even to read. */
static int open_immutable(struct db *db, const char *name)
{
    struct buf uri;
    int result;

    buf_init(&uri, 4 * PATH_MAX);
    write_uri(&uri, name, "immutable=1");
    result = sqlite3_open_v2(buf_text(&uri), &db->sqlite,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | OPEN_FLAGS, NULL);
    buf_done(&uri);
    return result;
}

/* Opens a file that no process has open, beside which is the log of a process
 * that was killed. SQLite normally keeps the index of the log in FILE-shm, and
 * takes locks, which needs the right to write. In exclusive mode it keeps the
 * index in memory, and "unix-none" takes no locks. db_is_current() detects
 * writers instead. */
static int open_alone(struct db *db, const char *name)
{
    int result = sqlite3_open_v2(
        name, &db->sqlite, SQLITE_OPEN_READONLY | OPEN_FLAGS, "unix-none");

    if (result == SQLITE_OK)
        result = sqlite3_exec(
            db->sqlite, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL);
    return result;
}

/* Refuses a file that is incomplete without its log or its journal, if this
 * process cannot use that log or journal. open_immutable() does not read the
 * log, and neither open_immutable() nor open_alone() rolls a journal back. If
 * other processes have the file open, SQLite checks its journal. */
static enum tw_err check_beside(struct db *db, struct err *err)
{
    const struct file_state *state = &db->state;

    file_state_read(db->path, &db->state);
    if (state->log.unreadable != 0)
        return err_fail(err, TW_FULL,
            "%s-wal: it cannot be read, but it may hold the last writes to %s: "
            "%s",
            db->path, db->path, strerror(state->log.unreadable));
    if (!state->is_shared &&
        (state->journal.size > 0 || state->journal.unreadable != 0))
        return err_fail(err, TW_INVALID,
            "%s: a write to it was interrupted, and %s-journal must be rolled "
            "back first: run any command once as a user who can write both "
            "files",
            db->path, db->path);
    return TW_OK;
}

static int open_read_only(struct db *db, const char *name)
{
    if (!db->state.is_shared)
        return db->state.log.size > 0 ? open_alone(db, name)
                                      : open_immutable(db, name);
    return sqlite3_open_v2(
        name, &db->sqlite, SQLITE_OPEN_READONLY | OPEN_FLAGS, NULL);
}

bool db_is_current(const struct db *db)
{
    struct file_state now;

    if (db->role != DB_READ_ONLY || db->state.is_shared)
        return true;
    file_state_read(db->path, &now);
    return file_state_equal(&now, &db->state);
}

static enum tw_err open_handle(struct db *db, struct err *err)
{
    /* A relative path that begins with "file:" must not be read as a URI. */
    bool plain = db->path[0] == '/' || strcmp(db->path, DB_MEMORY) == 0;
    char *name = mem_format("%s%s", plain ? "" : "./", db->path);
    int result = db->role == DB_READ_ONLY
                     ? open_read_only(db, name)
                     : sqlite3_open_v2(name, &db->sqlite,
                           SQLITE_OPEN_READWRITE | OPEN_FLAGS, NULL);

    mem_free(name);
    if (result != SQLITE_OK)
        return fail_as(db->path, result,
            db->sqlite ? sqlite3_system_errno(db->sqlite) : 0, err);
    sqlite3_extended_result_codes(db->sqlite, 1);
    sqlite3_busy_handler(db->sqlite, wait_for_others, db);
    sqlite3_wal_hook(db->sqlite, note_log_pages, db);
    /* Without this, closing a DB_READ_ONLY connection would move the log into
     * the file. */
    (void)sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
        db->role == DB_READ_ONLY, (int *)NULL);
    if (db->role != DB_READ_ONLY &&
        sqlite3_db_readonly(db->sqlite, "main") == 1)
        return err_fail(err, TW_FULL,
            "%s: it cannot be written: no permission, or a file system that"
            " is mounted read-only",
            db->path);
    return TW_OK;
}

/* ---- keys ---- */

/*
 * Azure Table storage orders keys by their UTF-16 units. memcmp() orders UTF-8
 * by code points. The two orders differ for characters above U+FFFF (lead bytes
 * F0 to F4): in UTF-16 such characters are surrogates, which come before U+E000
 * to U+FFFF (lead bytes EE and EF). So EE and EF, which occur only as lead
 * bytes in UTF-8, are stored as F8 and F9.
 */
#define LEAD_FIRST 0xee
#define STORED_FIRST 0xf8

/* Copies `from` to `to`, which may be equal to from.at. Replaces the bytes
 * `first` and first + 1 with `becomes` and becomes + 1. */
static void shift_leads(
    char *to, struct slice from, unsigned char first, unsigned char becomes)
{
    for (size_t i = 0; i < from.len; i++) {
        unsigned char c = (unsigned char)from.at[i];
        bool is_lead = c == first || c == first + 1;

        to[i] = (char)(is_lead ? c - first + becomes : c);
    }
}

static bool has_lead(struct slice key, unsigned char first)
{
    return key.len > 0 && (memchr(key.at, first, key.len) ||
                              memchr(key.at, first + 1, key.len));
}

static void write_key(char *to, struct slice key)
{
    shift_leads(to, key, LEAD_FIRST, STORED_FIRST);
}

static void read_key(char *to, struct slice stored)
{
    shift_leads(to, stored, STORED_FIRST, LEAD_FIRST);
}

static void stored_key(
    sqlite3_context *context, int count, sqlite3_value **values)
{
    struct slice key = {
        sqlite3_value_blob(values[0]), (size_t)sqlite3_value_bytes(values[0])};
    char *stored = mem_alloc(key.len + 1);

    (void)count;
    write_key(stored, key);
    sqlite3_result_blob64(context, stored, key.len, SQLITE_TRANSIENT);
    mem_free(stored);
}

/* Converts the keys of a file of an older version, in one transaction. */
static enum tw_err convert_keys(struct db *db, struct err *err)
{
    int64_t version = 0;
    char text[16];
    int result = sqlite3_create_function(db->sqlite, "stored_key", 1,
        SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, stored_key, NULL, NULL);
    enum tw_err outcome = result == SQLITE_OK
                              ? execute(db, "BEGIN IMMEDIATE", err)
                              : fail(db, result, err);

    if (outcome != TW_OK)
        return outcome;
    outcome = ask(db, "PRAGMA user_version", &version, text, err);
    if (outcome == TW_OK && version == SCHEMA_UTF8_KEYS)
        outcome = execute(db,
            "UPDATE entities SET partition_key = stored_key(partition_key),"
            " row_key = stored_key(row_key)"
            " WHERE instr(partition_key, x'ee') OR instr(partition_key, x'ef')"
            " OR instr(row_key, x'ee') OR instr(row_key, x'ef');"
            "PRAGMA user_version = 2",
            err);
    if (outcome == TW_OK)
        outcome = execute(db, "COMMIT", err);
    if (outcome != TW_OK)
        db_rollback(db);
    return outcome;
}

/* ---- opening ---- */

/* Checks that the file is tableward's, or still empty. A file of another
 * program is refused and not changed. */
static enum tw_err check_ours(
    struct db *db, bool *ret_empty, bool *ret_convert, struct err *err)
{
    int64_t id = 0, version = 0, objects = 0;
    char text[16];
    enum tw_err outcome = ask(db, "PRAGMA application_id", &id, text, err);

    if (outcome == TW_OK)
        outcome = ask(db, "PRAGMA user_version", &version, text, err);
    if (outcome == TW_OK)
        outcome =
            ask(db, "SELECT count(*) FROM sqlite_schema", &objects, text, err);
    if (outcome != TW_OK)
        return outcome;
    *ret_empty = id == 0 && version == 0 && objects == 0;
    if (!*ret_empty && id != APPLICATION_ID)
        return err_fail(err, TW_INVALID,
            "%s: it is the database of another program", db->path);
    *ret_convert = version == SCHEMA_UTF8_KEYS;
    if (!*ret_empty && !*ret_convert && version != SCHEMA_VERSION)
        return err_fail(err, TW_INVALID,
            "%s: it has version %lld, but this tableward supports version %d: "
            "use a newer release",
            db->path, (long long)version, SCHEMA_VERSION);
    return TW_OK;
}

/* Calls check_ours() in one read transaction, so that it reads a single state
 * of the file. A process that is creating the file commits version numbers and
 * tables together. */
static enum tw_err check_ours_at_once(
    struct db *db, bool *ret_empty, bool *ret_convert, struct err *err)
{
    enum tw_err outcome = execute(db, "BEGIN", err);

    if (outcome != TW_OK)
        return outcome;
    outcome = check_ours(db, ret_empty, ret_convert, err);
    db_rollback(db);
    return outcome;
}

/* Switches the file to the write-ahead log. If two processes do so at once, the
 * mode changes only when the other process releases its lock. SQLite does not
 * always call wait_for_others() for that, so this function does. */
static enum tw_err use_log(struct db *db, struct err *err)
{
    int64_t ignored;
    char mode[16];
    enum tw_err outcome;

    for (int times = 0;; times++) {
        outcome = ask(db, "PRAGMA journal_mode = WAL", &ignored, mode, err);
        if (outcome != TW_BUSY && outcome != TW_OK)
            return outcome;
        if (outcome == TW_OK &&
            (strcmp(mode, "wal") == 0 || strcmp(mode, "memory") == 0))
            return TW_OK;
        if (!wait_for_others(db, times))
            return err_fail(err, TW_BUSY,
                "%s: another process is writing"
                " to it",
                db->path);
    }
}

static enum tw_err configure(struct db *db, struct err *err)
{
    enum tw_err outcome = execute(db,
        "PRAGMA synchronous = FULL;"
        /* ON would overwrite the pages of each deleted row. */
        "PRAGMA secure_delete = OFF;"
        "PRAGMA temp_store = MEMORY;"
        "PRAGMA mmap_size = 0;"
        /* Truncates the log after a large transaction. */
        "PRAGMA journal_size_limit = 8388608;",
        err);

    if (outcome == TW_OK)
        outcome = execute(db,
            db->role == DB_WRITER
                ? "PRAGMA cache_size = -1024"
                : "PRAGMA cache_size = -256; PRAGMA query_only = ON",
            err);
    return outcome;
}

static enum tw_err build_schema(struct db *db, struct err *err)
{
    char numbers[96];
    bool empty = false, convert = false;
    enum tw_err outcome;

    outcome = execute(db, "PRAGMA page_size = 4096", err);
    /* Without this pragma db_give_back() could not shorten the file. */
    if (outcome == TW_OK && strcmp(db->path, DB_MEMORY) != 0)
        outcome = execute(db, "PRAGMA auto_vacuum = INCREMENTAL", err);
    if (outcome == TW_OK)
        outcome = use_log(db, err);
    if (outcome == TW_OK)
        outcome = execute(db, "BEGIN IMMEDIATE", err);
    if (outcome != TW_OK)
        return outcome;
    outcome = check_ours(db, &empty, &convert, err);
    if (outcome == TW_OK && empty)
        outcome = execute(db, SCHEMA, err);
    sqlite3_snprintf(sizeof(numbers), numbers,
        "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
        SCHEMA_VERSION);
    if (outcome == TW_OK && empty)
        outcome = execute(db, numbers, err);
    if (outcome == TW_OK)
        outcome = execute(db, "COMMIT", err);
    if (outcome != TW_OK)
        db_rollback(db);
    return outcome;
}

/* ---- upgrading files of earlier releases ---- */

/* Runs add_sql if count_sql returns 0. The version number of the file does not
 * change, because earlier releases ignore what is added. */
static enum tw_err add_missing(
    struct db *db, const char *count_sql, const char *add_sql, struct err *err)
{
    int64_t count = 0;
    char text[16];
    enum tw_err outcome = ask(db, count_sql, &count, text, err);

    if (outcome != TW_OK || count > 0)
        return outcome;
    outcome = execute(db, "BEGIN IMMEDIATE", err);
    if (outcome == TW_OK)
        outcome = ask(db, count_sql, &count, text, err);
    if (outcome == TW_OK && count == 0)
        outcome = execute(db, add_sql, err);
    if (outcome == TW_OK)
        outcome = execute(db, "COMMIT", err);
    if (outcome != TW_OK)
        db_rollback(db);
    return outcome;
}

#define COUNT_CLOCK                                                            \
    "SELECT count(*) FROM pragma_table_info('stamps')"                         \
    " WHERE name = 'ahead_ticks'"

/* ---- identity of the file ---- */

#define COUNT_IDENTITY                                                         \
    "SELECT count(*) FROM sqlite_schema WHERE name = 'identity'"

static enum tw_err read_identity(struct db *db, struct err *err)
{
    bool row = false;
    enum tw_err outcome = db_start(db, DB_IDENTITY_READ, NULL, 0, err);
    struct slice id;

    if (outcome == TW_OK)
        outcome = db_next(db, DB_IDENTITY_READ, &row, err);
    if (outcome == TW_OK && row) {
        id = db_column_bytes(db, DB_IDENTITY_READ, 0);
        if (id.len == IDENTITY_LEN)
            memcpy(db->identity, id.at, IDENTITY_LEN);
    }
    db_end(db, DB_IDENTITY_READ);
    return outcome;
}

/* Gives the file an identity if it has none, then reads the identity. */
static enum tw_err identify(struct db *db, struct err *err)
{
    char id[IDENTITY_LEN + 1], sql[160];
    enum tw_err outcome;

    if (strcmp(db->path, DB_MEMORY) == 0)
        return TW_OK;
    text_random_id(id);
    sqlite3_snprintf(sizeof(sql), sql,
        "CREATE TABLE identity (id TEXT NOT NULL);"
        "INSERT INTO identity VALUES ('%s')",
        id);
    outcome = add_missing(db, COUNT_IDENTITY, sql, err);
    if (outcome == TW_OK)
        outcome = read_identity(db, err);
    return outcome;
}

const char *db_identity(const struct db *db)
{
    return db->identity[0] ? db->identity : NULL;
}

/* ---- opening, as a whole ---- */

/* Fails if the log cannot be written, so that this is known now and not only at
 * the first message. If another process is writing, the log can be written. The
 * first writer of this boot also stores the clock. If that fails because the
 * disk is full, the first successful write stores the clock. */
static enum tw_err try_writing(struct db *db, struct err *err)
{
    enum tw_err outcome;

    db->until_ms = 0;
    outcome = db_begin(db, err);
    if (outcome != TW_OK)
        return outcome == TW_BUSY ? TW_OK : outcome;
    db->stamped = !clock_counts(&db->clock);
    if (db_commit(db, err) != TW_OK)
        err->text[0] = '\0';
    return TW_OK;
}

/* Refuses a file that a writer would have to create or convert before it can be
 * read. */
static enum tw_err check_read_only(
    struct db *db, bool empty, bool convert, struct err *err)
{
    int64_t clocks = 0, identities = 0;
    char text[16];
    enum tw_err outcome;

    if (empty)
        return err_fail(err, TW_INVALID,
            "%s: the file is empty, and this user cannot write it", db->path);
    outcome = ask(db, COUNT_CLOCK, &clocks, text, err);
    if (outcome == TW_OK)
        outcome = ask(db, COUNT_IDENTITY, &identities, text, err);
    if (outcome != TW_OK)
        return outcome;
    if (convert || clocks == 0)
        return err_fail(err, TW_INVALID,
            "%s: it was written by an earlier release of tableward: run any "
            "command once as a user who can write the file, to convert it",
            db->path);
    return identities > 0 ? read_identity(db, err) : TW_OK;
}

/* Call before SQLite is first used. Disables SQLite's memory statistics, which
 * need a lock that all connections share. */
static void spare_counting(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&done))
        (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* Makes the steps that only a writer makes, after the file was found to be
 * tableward's. use_log() is called for an existing file too, because a copy
 * made by VACUUM INTO is not in WAL mode, so that writers would block
 * readers. */
static enum tw_err make_usable(
    struct db *db, bool empty, bool convert, struct err *err)
{
    enum tw_err outcome = empty ? build_schema(db, err) : use_log(db, err);

    if (outcome == TW_OK && convert)
        outcome = convert_keys(db, err);
    if (outcome == TW_OK)
        outcome = configure(db, err);
    if (outcome == TW_OK)
        outcome = add_missing(db, COUNT_CLOCK, ADD_CLOCK, err);
    if (outcome == TW_OK)
        outcome = identify(db, err);
    return outcome == TW_OK ? try_writing(db, err) : outcome;
}

static enum tw_err open_file(struct db *db, struct err *err)
{
    bool in_memory = strcmp(db->path, DB_MEMORY) == 0;
    bool empty = false, convert = false;
    enum tw_err outcome = TW_OK;

    if (db->role == DB_WRITER && !in_memory)
        outcome = create_file(db->path, err);
    /* The file of a DB_READER was checked when the writer of its pool opened
     * it. */
    if (outcome == TW_OK && db->role != DB_READER && !in_memory)
        outcome = file_names_check(db->path, err);
    if (outcome == TW_OK && db->role == DB_READ_ONLY)
        outcome = check_beside(db, err);
    if (outcome == TW_OK)
        outcome = open_handle(db, err);
    if (outcome == TW_OK)
        outcome = check_ours_at_once(db, &empty, &convert, err);
    if (outcome == TW_OK && db->role == DB_WRITER)
        return make_usable(db, empty, convert, err);
    if (outcome == TW_OK)
        outcome = configure(db, err);
    if (outcome == TW_OK && db->role == DB_READ_ONLY)
        outcome = check_read_only(db, empty, convert, err);
    return outcome;
}

enum tw_err db_open(
    const char *path, enum db_role role, struct db **ret, struct err *err)
{
    struct db *db;
    enum tw_err outcome;

    spare_counting();
    db = mem_alloc(sizeof(*db));
    db->path = path;
    db->role = role;
    db->until_ms = platform_boot_ms() + OPEN_WAIT_MS;
    for (size_t i = 0; i < 2; i++)
        buf_init(&db->keys[i], KEY_MAX_BYTES);
    platform_mutex_init(&db->nap_lock);
    platform_cond_init(&db->nap);
    outcome = open_file(db, err);
    if (outcome == TW_OK)
        *ret = db;
    else
        db_close(db);
    return outcome;
}

/* Moves as much of the log into the file as readers permit; other writers need
 * not wait meanwhile. Returns the length of the log in pages; -1: a part of the
 * log could not be moved. */
static int move_log(struct db *db)
{
    int pages = 0, moved = -1;

    end_if_indeterminate(
        db->path, sqlite3_wal_checkpoint_v2(db->sqlite, NULL,
                      SQLITE_CHECKPOINT_PASSIVE, &pages, &moved));
    return moved == pages ? pages : -1;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < DB_SQL_COUNT; i++)
        sqlite3_finalize(db->statements[i]);
    if (db->role == DB_WRITER && db->sqlite) {
        db->until_ms = 0;
        if (move_log(db) >= 0)
            end_if_indeterminate(
                db->path, sqlite3_wal_checkpoint_v2(db->sqlite, NULL,
                              SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
    }
    sqlite3_close(db->sqlite);
    for (size_t i = 0; i < 2; i++)
        buf_done(&db->keys[i]);
    platform_cond_done(&db->nap);
    platform_mutex_done(&db->nap_lock);
    mem_free(db);
}

void db_wait_until(struct db *db, int64_t until_ms)
{
    db->until_ms = until_ms;
}

/* ---- transactions ---- */

static enum tw_err control(struct db *db, enum db_sql sql, struct err *err)
{
    return db_run(db, sql, NULL, 0, NULL, err);
}

/* Reads the stored clock. Invalid values count as a clock that has not
 * started. */
static void parse_clock(struct db *db)
{
    struct slice boot_id = db_column_bytes(db, DB_STAMP_READ, 1);
    struct clock clock = {
        .boot_ms = db_column_integer(db, DB_STAMP_READ, 2),
        .ticks = db_column_integer(db, DB_STAMP_READ, 3),
        .ahead_ticks = db_column_integer(db, DB_STAMP_READ, 4),
    };

    if (boot_id.len > CLOCK_BOOT_ID_MAX || clock.boot_ms < 0 ||
        clock.ticks < 0 || clock.ticks > TICKS_9000)
        boot_id.len = clock.ticks = 0;
    if (clock.ahead_ticks > TICKS_9000 || clock.ahead_ticks < -TICKS_9000)
        clock.ahead_ticks = clock.ahead_ticks > 0 ? TICKS_9000 : -TICKS_9000;
    if (boot_id.len > 0)
        memcpy(clock.boot_id, boot_id.at, boot_id.len);
    db->clock = clock;
}

enum tw_err db_read_clock(struct db *db, struct err *err)
{
    bool row = false;
    enum tw_err outcome = db_start(db, DB_STAMP_READ, NULL, 0, err);

    if (outcome == TW_OK)
        outcome = db_next(db, DB_STAMP_READ, &row, err);
    if (outcome == TW_OK && !row)
        outcome = fail(db, SQLITE_CORRUPT, err);
    if (outcome == TW_OK) {
        db->stamp = db_column_integer(db, DB_STAMP_READ, 0);
        parse_clock(db);
    }
    db_end(db, DB_STAMP_READ);
    return outcome;
}

int64_t db_now_ticks(const struct db *db)
{
    return clock_ticks(&db->clock);
}

enum tw_err db_begin(struct db *db, struct err *err)
{
    enum tw_err outcome = control(db, DB_BEGIN, err);

    if (outcome != TW_OK)
        return outcome;
    db->stamped = false;
    outcome = db_read_clock(db, err);
    if (outcome != TW_OK)
        db_rollback(db);
    return outcome;
}

static enum tw_err write_stamp(struct db *db, struct err *err)
{
    struct clock *clock = &db->clock;

    clock_set(clock);
    return db_run(db, DB_STAMP_WRITE,
        DB_VALUES(db_integer(db->stamp), db_text(slice_of(clock->boot_id)),
            db_integer(clock->boot_ms), db_integer(clock->ticks),
            db_integer(clock->ahead_ticks)),
        NULL, err);
}

enum tw_err db_commit(struct db *db, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (db->stamped)
        outcome = write_stamp(db, err);
    if (outcome == TW_OK)
        outcome = control(db, DB_COMMIT, err);
    if (outcome != TW_OK)
        db_rollback(db);
    return outcome;
}

void db_rollback(struct db *db)
{
    /* SQLite may have rolled back by itself. */
    if (!sqlite3_get_autocommit(db->sqlite))
        end_if_indeterminate(
            db->path, sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL));
}

enum tw_err db_part_begin(struct db *db, struct err *err)
{
    return control(db, DB_PART_BEGIN, err);
}

enum tw_err db_part_keep(struct db *db, struct err *err)
{
    return control(db, DB_PART_KEEP, err);
}

enum tw_err db_part_undo(struct db *db, struct err *err)
{
    enum tw_err outcome = control(db, DB_PART_UNDO, err);

    return outcome == TW_OK ? control(db, DB_PART_KEEP, err) : outcome;
}

int64_t db_stamp(struct db *db)
{
    assert(!sqlite3_get_autocommit(db->sqlite));
    db->stamped = true;
    return ++db->stamp;
}

void db_tidy(struct db *db)
{
    int pages, result;

    if (db->log_pages < LOG_PAGES && !db->shortened)
        return;
    db->shortened = false;
    db->log_pages = 0;
    pages = move_log(db);
    if (pages < LOG_PAGES_MAX || pages < db->restart_pages)
        return;
    db->until_ms = platform_boot_ms() + RESTART_WAIT_MS;
    result = sqlite3_wal_checkpoint_v2(
        db->sqlite, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    end_if_indeterminate(db->path, result);
    db->restart_pages = result == SQLITE_OK ? 0 : pages + LOG_PAGES_MAX;
}

/* ---- space that is given back ---- */

enum tw_err db_spare_pages(
    struct db *db, bool goes_on, int64_t *ret, struct err *err)
{
    int64_t mode = 0, unused = 0, all = 0;
    char text[16];
    enum tw_err outcome = ask(db, "PRAGMA auto_vacuum", &mode, text, err);

    if (outcome == TW_OK)
        outcome = ask(db, "PRAGMA freelist_count", &unused, text, err);
    if (outcome == TW_OK)
        outcome = ask(db, "PRAGMA page_count", &all, text, err);
    if (outcome != TW_OK)
        return outcome;
    goes_on |= unused >= FREE_PAGES_BEGIN && unused >= all / FREE_SHARE;
    *ret = goes_on && mode != 0 && unused > FREE_PAGES_KEPT
               ? unused - FREE_PAGES_KEPT
               : 0;
    return TW_OK;
}

enum tw_err db_give_back(struct db *db, int64_t pages, struct err *err)
{
    int64_t until_ms = platform_boot_ms() + GIVE_BACK_MS;
    char sql[64];
    sqlite3_stmt *statement = NULL;
    int result, ended;

    if (pages > GIVE_BACK_PAGES)
        pages = GIVE_BACK_PAGES;
    sqlite3_snprintf(
        sizeof(sql), sql, "PRAGMA incremental_vacuum(%lld)", (long long)pages);
    result = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);
    if (result == SQLITE_OK)
        do
            result = sqlite3_step(statement); /* gives one page back */
        while (result == SQLITE_ROW && platform_boot_ms() < until_ms);
    ended = sqlite3_finalize(statement);
    if (result == SQLITE_ROW || result == SQLITE_DONE)
        result = ended;
    db->shortened = true;
    return result == SQLITE_OK ? TW_OK : fail(db, result, err);
}

/* ---- statements ---- */

static int bind_key(sqlite3_stmt *statement, int at, struct slice key)
{
    char *stored = mem_alloc(key.len);
    int result;

    write_key(stored, key);
    result =
        sqlite3_bind_blob64(statement, at, stored, key.len, SQLITE_TRANSIENT);
    mem_free(stored);
    return result;
}

static int bind(sqlite3_stmt *statement, int at, const struct db_value *value)
{
    /* A NULL pointer would bind NULL instead of the empty key. */
    const char *bytes = value->bytes.at ? value->bytes.at : "";

    if (value->type == DB_INTEGER)
        return sqlite3_bind_int64(statement, at, value->integer);
    if (value->type == DB_KEY && has_lead(value->bytes, LEAD_FIRST))
        return bind_key(statement, at, value->bytes);
    if (value->type == DB_BYTES || value->type == DB_KEY)
        return sqlite3_bind_blob64(
            statement, at, bytes, value->bytes.len, SQLITE_STATIC);
    return sqlite3_bind_text64(
        statement, at, bytes, value->bytes.len, SQLITE_STATIC, SQLITE_UTF8);
}

enum tw_err db_start(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, struct err *err)
{
    sqlite3_stmt **statement = &db->statements[sql];
    int result = SQLITE_OK;

    if (!*statement)
        result = sqlite3_prepare_v3(db->sqlite, SQL[sql], -1,
            SQLITE_PREPARE_PERSISTENT, statement, NULL);
    for (size_t i = 0; i < count && result == SQLITE_OK; i++)
        result = bind(*statement, (int)i + 1, &values[i]);
    return result == SQLITE_OK ? TW_OK : fail(db, result, err);
}

enum tw_err db_next(
    struct db *db, enum db_sql sql, bool *ret_row, struct err *err)
{
    int result = sqlite3_step(db->statements[sql]);

    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return fail(db, result, err);
    *ret_row = result == SQLITE_ROW;
    return TW_OK;
}

void db_end(struct db *db, enum db_sql sql)
{
    if (!db->statements[sql])
        return;
    (void)sqlite3_reset(
        db->statements[sql]); /* returns the last result code again */
    sqlite3_clear_bindings(db->statements[sql]);
}

int64_t db_column_integer(struct db *db, enum db_sql sql, int column)
{
    return sqlite3_column_int64(db->statements[sql], column);
}

struct slice db_column_bytes(struct db *db, enum db_sql sql, int column)
{
    sqlite3_stmt *statement = db->statements[sql];
    const void *at = sqlite3_column_blob(statement, column);
    int len = sqlite3_column_bytes(statement, column);

    if (!at && sqlite3_errcode(db->sqlite) == SQLITE_NOMEM)
        end_process(db->path, "out of memory");
    return (struct slice){at, at ? (size_t)len : 0};
}

struct slice db_column_key(struct db *db, enum db_sql sql, int column)
{
    struct slice stored = db_column_bytes(db, sql, column);
    struct buf *key = &db->keys[column & 1];

    if (!has_lead(stored, STORED_FIRST))
        return stored;
    buf_clear(key);
    buf_add_slice(key, stored);
    read_key(key->at, stored);
    return buf_slice(key);
}

enum tw_err db_run(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int *ret_changed,
    struct err *err)
{
    bool row = false;
    enum tw_err outcome = db_start(db, sql, values, count, err);

    if (outcome == TW_OK)
        outcome = db_next(db, sql, &row, err);
    if (outcome == TW_OK && ret_changed)
        *ret_changed = sqlite3_changes(db->sqlite);
    db_end(db, sql);
    return outcome;
}

enum tw_err db_find(struct db *db, enum db_sql sql,
    const struct db_value *values, size_t count, int64_t *ret, struct err *err)
{
    bool row = false;
    enum tw_err outcome = db_start(db, sql, values, count, err);

    if (outcome == TW_OK)
        outcome = db_next(db, sql, &row, err);
    if (outcome == TW_OK && row)
        *ret = db_column_integer(db, sql, 0);
    db_end(db, sql);
    return outcome == TW_OK && !row ? TW_NOT_FOUND : outcome;
}
