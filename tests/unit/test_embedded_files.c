/* SPDX-License-Identifier: MIT */
/*
 * The file of an embedded store: its names, reading it without write
 * permission, long readers, and the space that is given back to the file
 * system.
 */
#include "tests/support/child.h"
#include "tests/support/fixture.h"
#include "tests/support/store_file.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/platform.h"
#include "worker/store/embedded/db.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/embedded/file_state.h"
#include "worker/store/embedded/pool.h"
#include "worker/store/store.h"

#define FOLDER "files"
#define PATH FOLDER "/main.db"
#define COPY_FOLDER "copy"
#define COPY COPY_FOLDER "/main.db"

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    *state = &f;
    /* If this process is root, the readers run as another user. */
    assert_int_equal(chmod(".", 0755), 0);
    (void)mkdir(FOLDER, 0755);
    (void)mkdir(COPY_FOLDER, 0755);
    fixture_init(&f, store_file_open(PATH));
    return 0;
}

#define SEVEN 7

static int set_up_seven(void **state)
{
    (void)set_up(state);
    fixture_fill(*state, "p", SEVEN);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    if (test_passed()) {
        if (f->store)
            store_close(f->store);
        fixture_done(f);
    }
    (void)chmod(COPY_FOLDER, 0755);
    store_file_remove(PATH);
    store_file_remove(COPY);
    assert_int_equal(rmdir(FOLDER), 0);
    assert_int_equal(rmdir(COPY_FOLDER), 0);
    return 0;
}

static void close_store(struct fixture *f)
{
    store_close(f->store);
    f->store = NULL;
}

/* Fails unless the table has `count` entities with RowKeys like "0000". */
static void assert_count(struct fixture *f, size_t count)
{
    assert_int_equal(strlen(fixture_all(f)) + 1, count * strlen("p/0000 "));
}

/* FIXTURE_TEST: a test with an open, empty store. SEVEN_TEST: a test with an
 * open store that has seven entities. */
#define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down, struct fixture *f)
#define SEVEN_TEST(name)                                                       \
    TEST_WITH(name, set_up_seven, tear_down, struct fixture *f)

/* ---- a user who may only read ---- */

/* Copies the file and, for each end in `ends`, the file beside it whose name
 * has this end. Blanks separate the ends. No user may write the copies. */
static void copy_files(const char *ends)
{
    char command[256];

    (void)snprintf(command, sizeof(command),
        "for end in '' %s; do cp " PATH "$end " COPY "$end && chmod 444 " COPY
        "$end || exit 1; done",
        ends);
    assert_int_equal(system(command), 0);
}

/* Makes this process run as a user who may write neither the copy nor its
 * folder. */
static void give_up_rights(void)
{
    if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0))
        _exit(100);
}

/* Exits with the number of entities in the copy; 100 or more: an error. */
static void count_entities(const char *table)
{
    struct exchange exchange = {.deadline = NULL};
    struct scan_request request = {.table = table};
    struct store *store = NULL;
    struct page page;
    struct err err = {""};

    if (embedded_open("main", COPY, &store, &err) != TW_FULL)
        _exit(101); /* the copy could be written */
    if (embedded_open_to_read("main", COPY, &store, &err) != TW_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        _exit(102);
    }
    page_init(&page);
    if (!store->read_only || !store->capabilities.identity ||
        store_scan(store, &exchange, &request, &page) != TW_OK) {
        (void)fprintf(stderr, "%s\n", exchange.err.text);
        _exit(103);
    }
    if (store_create_table(store, &exchange, "Other") != TW_INVALID)
        _exit(104);
    store_close(store);
    _exit((int)page.count);
}

struct others {
    void (*act)(const char *arg);
    const char *arg;
};

static void act_as_others(void *arg)
{
    const struct others *others = arg;

    give_up_rights();
    others->act(others->arg);
}

/* Runs act(arg) in a process that may write neither the copy nor its folder.
 * Returns the exit code of the process. */
static int by_others(void (*act)(const char *arg), const char *arg)
{
    struct others others = {act, arg};
    int code;

    assert_int_equal(chmod(COPY_FOLDER, 0555), 0);
    code = child_run(act_as_others, &others);
    assert_int_equal(chmod(COPY_FOLDER, 0755), 0);
    return code;
}

/* Fails unless a user who may not write reads `count` entities in the copy. */
static void assert_others_count(struct fixture *f, int count)
{
    assert_int_equal(by_others(count_entities, f->table), count);
}

static void assert_exists(const char *path, bool exists)
{
    assert_int_equal(access(path, F_OK), exists ? 0 : -1);
}

/* Opens the copy for reading and exits with the outcome. An exit code of 100 or
 * more is an error, such as an error text without `expected`. */
static void open_copy(const char *expected)
{
    struct store *store = NULL;
    struct err err = {""};
    enum tw_err outcome;

    outcome = embedded_open_to_read("main", COPY, &store, &err);
    if (!strstr(err.text, expected)) {
        (void)fprintf(stderr, "%s\n", err.text);
        _exit(101);
    }
    _exit((int)outcome);
}

SEVEN_TEST(a_log_that_cannot_be_read_is_named)
{
    copy_files("-wal");
    assert_int_equal(chmod(COPY "-wal", 0), 0);
    if (geteuid() != 0)
        assert_int_not_equal(access(COPY "-wal", R_OK), 0);
    assert_int_equal(
        by_others(open_copy, COPY "-wal: it cannot be read"), TW_FULL);
    /* A copy without the log lacks nothing if the log is empty. */
    close_store(f);
    assert_int_equal(unlink(COPY), 0);
    copy_files("");
    assert_int_equal(truncate(COPY "-wal", 0), 0);
    assert_others_count(f, SEVEN);
}

/* Switches the file from WAL mode to a rollback journal and copies it in the
 * middle of a transaction. As after a crash, the copy has only a part of the
 * change. */
static void copy_while_it_changes(const char *change)
{
    sqlite3 *sqlite;

    assert_int_equal(sqlite3_open(PATH, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite,
                         "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;"
                         "BEGIN",
                         NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, change, NULL, NULL, NULL), SQLITE_OK);
    copy_files("-journal");
    sqlite3_close(sqlite);
}

SEVEN_TEST(a_copy_with_a_rollback_journal_is_refused)
{
    close_store(f);
    copy_while_it_changes("DELETE FROM entities;"
                          "INSERT INTO bodies SELECT value, randomblob(20000)"
                          " FROM json_each('[1,2,3,4,5,6,7,8,9,10]')");
    assert_true(access(COPY "-journal", F_OK) == 0);
    assert_int_equal(
        by_others(open_copy, COPY "-journal must be rolled back first"),
        TW_INVALID);
    /* The first command of a user who may write rolls the journal back. */
    assert_int_equal(chmod(COPY, 0644), 0);
    assert_int_equal(chmod(COPY "-journal", 0644), 0);
    f->store = store_file_open(COPY);
    assert_count(f, SEVEN);
    close_store(f);
    assert_exists(COPY "-journal", false);
    assert_int_equal(chmod(COPY, 0444), 0);
    assert_others_count(f, SEVEN);
}

SEVEN_TEST(an_empty_rollback_journal_is_ignored)
{
    close_store(f);
    copy_files("");
    text_file_write(COPY "-journal", "");
    assert_int_equal(chmod(COPY "-journal", 0444), 0);
    assert_others_count(f, SEVEN);
}

/* ---- a process that begins to write ---- */

/* Two processes take turns: each waits for a byte from the other one. */
struct turns {
    int from[2], to[2];
    const char *table;
};

static void give_turn(const int ends[2])
{
    assert_int_equal(write(ends[1], "x", 1), 1);
}

static void wait_for_turn(const int ends[2])
{
    char byte;

    assert_int_equal(read(ends[0], &byte, 1), 1);
}

static enum tw_err let_write(struct db *db, void *arg, struct err *err)
{
    struct turns *turns = arg;

    give_turn(turns->from);
    wait_for_turn(turns->to);
    return TW_OK;
}

static void read_beside_a_writer(void *arg)
{
    struct turns *turns = arg;
    struct exchange exchange = {.deadline = NULL};
    struct scan_request request = {.table = turns->table};
    struct store *store = NULL;
    struct page page;
    struct err err = {""};

    give_up_rights();
    if (embedded_open_to_read("main", COPY, &store, &err) != TW_OK)
        _exit(102);
    page_init(&page);
    if (store_scan(store, &exchange, &request, &page) != TW_OK ||
        page.count != 1)
        _exit(103);
    if (pool_read(embedded_pool(store), &exchange, let_write, turns) != TW_BUSY)
        _exit(104);
    if (store_scan(store, &exchange, &request, &page) != TW_OK ||
        page.count != 2)
        _exit(105);
    store_close(store);
}

/* A reader without locks must not return what it read while a writer opened the
 * file. Its next read returns what the writer has stored. */
static void read_while_a_writer_comes(struct fixture *f, bool leaves)
{
    struct turns turns = {.table = f->table};
    pid_t child;

    (void)fixture_insert(f, "p", "1", "\"A\":1");
    close_store(f);
    copy_files("");
    assert_int_equal(chmod(COPY_FOLDER, 0555), 0);
    assert_int_equal(pipe(turns.from), 0);
    assert_int_equal(pipe(turns.to), 0);
    child = child_start(read_beside_a_writer, &turns);
    wait_for_turn(turns.from);
    assert_int_equal(chmod(COPY_FOLDER, 0755), 0);
    assert_int_equal(chmod(COPY, 0644), 0);
    f->store = store_file_open(COPY);
    (void)fixture_insert(f, "p", "2", "\"A\":1");
    if (leaves)
        close_store(f);
    assert_int_equal(chmod(COPY, 0444), 0);
    assert_int_equal(chmod(COPY_FOLDER, 0555), 0);
    give_turn(turns.to);
    assert_int_equal(child_end(child), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(turns.from[i]);
        (void)close(turns.to[i]);
    }
}

FIXTURE_TEST(a_writer_that_comes_is_noticed)
{
    read_while_a_writer_comes(f, false);
}

/* The writer removes its log when it closes the file; the reader must still
 * notice the change. */
FIXTURE_TEST(a_writer_that_came_and_left_is_noticed)
{
    read_while_a_writer_comes(f, true);
}

/* ---- a file with several names ---- */

#define LINK COPY
#define MOUNT_ROOT 0x2000 /* STATX_ATTR_MOUNT_ROOT, for older headers */

/* What statx() reports in addition to the kernel's result. All members 0:
 * nothing. */
static struct {
    int fails; /* errno; 0: statx() works */
    uint64_t attributes;
    uint64_t unknown; /* attributes that the kernel does not know */
} mounts;

/* Replaces statx() of the C library. */
int statx(int folder, const char *restrict path, int flags, unsigned mask,
    struct statx *restrict ret)
{
    if (mounts.fails != 0) {
        errno = mounts.fails;
        return -1;
    }
    if (syscall(SYS_statx, folder, path, flags, mask, ret) != 0)
        return -1;
    ret->stx_attributes |= mounts.attributes;
    ret->stx_attributes_mask |= mounts.attributes;
    ret->stx_attributes_mask &= ~mounts.unknown;
    return 0;
}

/* Fails unless the file is refused when it is opened for writing and when it is
 * opened for reading, each time with the file's path and this text. */
static void assert_refused(const char *path, const char *text)
{
    enum tw_err (*const opens[])(const char *, const char *, struct store **,
        struct err *) = {embedded_open, embedded_open_to_read};

    for (size_t i = 0; TEST_EACH(i, opens); i++) {
        struct store *store = NULL;
        struct err err = {""};

        assert_int_equal(opens[i]("main", path, &store, &err), TW_INVALID);
        assert_null(store);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, text));
    }
}

SEVEN_TEST(a_file_with_two_hard_links_is_refused)
{
    struct store *other;

    close_store(f);
    assert_int_equal(link(PATH, LINK), 0);
    assert_refused(PATH, "2 hard links");
    assert_refused(LINK, "2 hard links");
    assert_exists(LINK "-wal", false);
    assert_exists(LINK "-shm", false);
    /* With one name left, the file can be opened again, also twice at once. */
    assert_int_equal(unlink(LINK), 0);
    f->store = store_file_open(PATH);
    other = store_file_open(PATH);
    assert_count(f, SEVEN);
    store_close(other);
}

/* A process that has the file open can still use it. The file cannot be opened
 * by its new name. */
FIXTURE_TEST(a_link_that_is_made_later_keeps_others_out)
{
    close_store(f);
    f->store = store_file_open(PATH);
    assert_int_equal(link(PATH, LINK), 0);
    fixture_fill(f, "p", SEVEN);
    assert_refused(LINK, "2 hard links");
    /* The first read of the store opens a connection. */
    assert_count(f, SEVEN);
}

FIXTURE_TEST(a_copy_with_a_link_is_refused_to_readers)
{
    close_store(f);
    copy_files("");
    assert_int_equal(link(COPY, COPY_FOLDER "/link"), 0);
    assert_int_equal(by_others(open_copy, "2 hard links"), TW_INVALID);
    assert_int_equal(unlink(COPY_FOLDER "/link"), 0);
    assert_others_count(f, 0);
}

FIXTURE_TEST(a_symbolic_link_is_no_second_name)
{
    struct store *other;

    assert_int_equal(symlink("../" PATH, LINK), 0);
    other = store_file_open(LINK);
    fixture_fill(f, "p", SEVEN);
    close_store(f);
    f->store = other;
    assert_count(f, SEVEN);
    close_store(f);
    assert_exists(LINK "-wal", false);
}

FIXTURE_TEST(a_mount_point_that_the_kernel_reports_is_refused)
{
    close_store(f);
    mounts.attributes = MOUNT_ROOT;
    assert_refused(PATH, "mount the folder of the file instead");
    /* The kernel does not know the attribute, or a sandbox refuses statx(). */
    mounts.unknown = MOUNT_ROOT;
    store_close(store_file_open(PATH));
    mounts.unknown = 0;
    mounts.fails = ENOSYS;
    store_close(store_file_open(PATH));
    memset(&mounts, 0, sizeof(mounts));
    store_close(store_file_open(PATH));
}

enum { MOUNTED = 40, NOT_PERMITTED };

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) > 0;

    if (fd >= 0)
        (void)close(fd);
    return written;
}

/* Lets this process make mounts that only it sees. No privilege is needed where
 * users may create namespaces. */
static bool become_mounter(void)
{
    char user[64], group[64];

    (void)snprintf(user, sizeof(user), "%u %u 1", geteuid(), geteuid());
    (void)snprintf(group, sizeof(group), "%u %u 1", getegid(), getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/uid_map", user) &&
           write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/gid_map", group) &&
           mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

struct mounting {
    const char *from, *at;
    bool refused;
};

static void mount_and_open(void *arg)
{
    const struct mounting *how = arg;
    struct store *store = NULL;
    struct err err = {""};
    enum tw_err outcome;

    if (!become_mounter() ||
        mount(how->from, how->at, "none", MS_BIND, NULL) != 0) {
        (void)fprintf(stderr, "no mount: %s\n", strerror(errno));
        _exit(NOT_PERMITTED);
    }
    outcome = embedded_open("main", COPY, &store, &err);
    if (how->refused && outcome == TW_INVALID)
        outcome = embedded_open_to_read("main", COPY, &store, &err);
    if (outcome != (how->refused ? TW_INVALID : TW_OK) ||
        (how->refused &&
            !strstr(err.text, COPY ": the file alone is mounted"))) {
        (void)fprintf(stderr, "%s: %s\n", err_name(outcome), err.text);
        _exit(1);
    }
    store_close(store);
    _exit(MOUNTED);
}

/* Opens COPY in a process that has mounted `from` at `at`. Fails unless the
 * file is opened or, if `refused` is set, refused. */
static void open_mounted(const char *from, const char *at, bool refused)
{
    struct mounting how = {from, at, refused};
    int code = child_run(mount_and_open, &how);

    if (code == NOT_PERMITTED) {
        print_message("skipped: no user namespace can be created here\n");
        skip();
    }
    assert_int_equal(code, MOUNTED);
}

FIXTURE_TEST(a_file_that_is_mounted_alone_is_refused)
{
    close_store(f);
    text_file_write(COPY, "");
    open_mounted(PATH, COPY, true);
    assert_exists(COPY "-wal", false);
}

FIXTURE_TEST(a_file_in_a_folder_that_is_mounted_is_opened)
{
    close_store(f);
    open_mounted(FOLDER, COPY_FOLDER, false);
}

/* ---- files made elsewhere ---- */

#define IS_WAL "SELECT journal_mode = 'wal' FROM pragma_journal_mode"

/* VACUUM INTO leaves a file without a log, where writers would block readers.
 */
SEVEN_TEST(a_copy_made_by_vacuum_gets_its_log_again)
{
    store_file_change(PATH, "VACUUM INTO '" COPY "'");
    close_store(f);
    assert_int_equal(store_file_ask(COPY, IS_WAL), 0);
    f->store = store_file_open(COPY);
    assert_int_equal(store_file_ask(COPY, IS_WAL), 1);
    assert_count(f, SEVEN);
}

/* ---- a long reader ---- */

#define MIB (1024 * 1024)
#define LONG_LOG_MIB 40 /* db_tidy() restarts a log of this length */

/* A writer and a reader of one file. The clock is virtual, and only waits
 * advance it. */
struct long_reader {
    struct db *writer, *reader;
    char *body;
    int64_t bodies; /* number of stored bodies */
};

static void long_reader_init(struct long_reader *r)
{
    struct err err;

    *r = (struct long_reader){.body = calloc(1, MIB)};
    assert_non_null(r->body);
    virtual_platform_use(&(struct virtual_options){.seed = 1});
    assert_ok(db_open(PATH, DB_WRITER, &r->writer, &err));
    assert_ok(db_open(PATH, DB_READER, &r->reader, &err));
    db_wait_until(r->writer, platform_boot_ms() + 10000);
}

static void long_reader_done(struct long_reader *r)
{
    db_close(r->reader);
    db_close(r->writer);
    virtual_platform_end();
    free(r->body);
}

/* Commits one body of 1 MiB. */
static void commit_body(struct long_reader *r)
{
    const struct slice body = {r->body, MIB};
    struct err err;

    assert_ok(db_begin(r->writer, &err));
    assert_ok(db_run(r->writer, DB_BODY_ADD,
        DB_VALUES(db_integer(++r->bodies), db_bytes(body)), NULL, &err));
    assert_ok(db_commit(r->writer, &err));
}

/* Calls db_tidy(), and returns how long it waited for others, in ms. */
static int64_t tidy(struct long_reader *r)
{
    int64_t before_ms = virtual_ms();

    db_tidy(r->writer);
    return virtual_ms() - before_ms;
}

/* Begins a statement of the reader, which keeps a read transaction open until
 * db_end(). */
static void begin_reading(struct long_reader *r)
{
    bool row = false;
    struct err err;

    assert_ok(db_start(r->reader, DB_STAMP_READ, NULL, 0, &err));
    assert_ok(db_next(r->reader, DB_STAMP_READ, &row, &err));
    assert_true(row);
}

static void commit_without_waiting(struct long_reader *r)
{
    for (int i = 0; i < LONG_LOG_MIB; i++) {
        commit_body(r);
        assert_int_equal(tidy(r), 0);
    }
}

FIXTURE_TEST(a_reader_that_began_early_holds_up_no_writer)
{
    struct long_reader r;
    int64_t longest;

    close_store(f);
    long_reader_init(&r);
    begin_reading(&r);
    commit_without_waiting(&r);
    longest = store_file_size(PATH "-wal");
    assert_true(longest > (int64_t)LONG_LOG_MIB * MIB);
    /* Without the reader the log begins again and grows no more. */
    db_end(r.reader, DB_STAMP_READ);
    commit_without_waiting(&r);
    assert_true(store_file_size(PATH "-wal") <= longest + MIB + MIB / 10);
    long_reader_done(&r);
}

/* While a reader reads the last commit, the whole log can be moved into the
 * file, but the log cannot begin again before the reader ends. db_tidy() waits
 * 50 ms for the reader, and does not try again until the log is much longer. */
FIXTURE_TEST(a_reader_of_the_last_commit_is_not_waited_for_long)
{
    struct long_reader r;
    int64_t waited_ms;

    close_store(f);
    long_reader_init(&r);
    for (int i = 0; i < LONG_LOG_MIB; i++)
        commit_body(&r);
    begin_reading(&r);
    waited_ms = tidy(&r);
    assert_true(waited_ms >= 50 && waited_ms < 60);
    for (int i = 0; i < 8; i++) {
        commit_body(&r);
        db_end(r.reader, DB_STAMP_READ);
        begin_reading(&r);
        assert_int_equal(tidy(&r), 0);
    }
    db_end(r.reader, DB_STAMP_READ);
    long_reader_done(&r);
}

/* ---- space ---- */

#define STEP_PAGES 1024 /* maximum that one step gives back: 4 MiB */
#define BIG_COUNT 200
#define BIG_BYTES 30000 /* 8 pages */

static const char *key_of(struct fixture *f, unsigned number)
{
    return arena_format(&f->arena, "%04u", number).at;
}

/* Inserts the entities with numbers from `from` to `below` - 1. Their RowKeys
 * are like "0000". */
static void insert_big(struct fixture *f, unsigned from, unsigned below)
{
    struct operation operations[BATCH_MAX_OPERATIONS];
    const char *text =
        arena_format(&f->arena, "\"T\":\"%0*d\"", BIG_BYTES, 0).at;

    for (unsigned i = from; i < below;) {
        size_t count = 0;

        for (; i < below && count < BATCH_MAX_OPERATIONS; i++)
            operations[count++] = fixture_operation(
                f, OPERATION_INSERT, "p", key_of(f, i), NULL, text);
        assert_ok(fixture_send(f, operations, count));
    }
}

/* Deletes the entities with numbers from `from` to `below` - 1, at most 100. */
static void delete_some(struct fixture *f, unsigned from, unsigned below)
{
    struct operation operations[BATCH_MAX_OPERATIONS];
    size_t count = 0;

    for (unsigned i = from; i < below; i++) {
        const char *key = key_of(f, i);
        const struct entity *entity = fixture_get(f, "p", key);

        operations[count++] = fixture_operation(f, OPERATION_DELETE, "p", key,
            arena_copy(&f->arena, entity->etag).at, "");
    }
    assert_ok(fixture_send(f, operations, count));
}

/* Inserts BIG_COUNT entities, and deletes all but every tenth one, so that
 * pages at the end of the file are in use. */
static void fill_and_purge(struct fixture *f)
{
    insert_big(f, 0, BIG_COUNT);
    for (unsigned i = 0; i < BIG_COUNT; i += 10)
        delete_some(f, i + 1, i + 10);
}

static void assert_kept(struct fixture *f)
{
    assert_count(f, BIG_COUNT / 10);
    for (unsigned i = 0; i < BIG_COUNT; i += 10)
        assert_int_equal(fixture_get(f, "p", key_of(f, i))->property_count, 1);
}

static void assert_sound(void)
{
    assert_int_equal(
        store_file_ask(PATH, "SELECT count(*) FROM pragma_integrity_check"
                             " WHERE integrity_check <> 'ok'"),
        0);
}

static bool give_back_once(struct store *store)
{
    struct exchange exchange = {.deadline = NULL};
    bool more = false;

    assert_ok(store_give_back(store, &exchange, &more));
    return more;
}

FIXTURE_TEST(a_purged_file_becomes_small)
{
    int64_t full;

    fill_and_purge(f);
    close_store(f);
    full = store_file_size(PATH);
    assert_true(full > (int64_t)BIG_COUNT * BIG_BYTES);
    f->store = store_file_open(PATH);
    while (give_back_once(f->store))
        assert_kept(f);
    /* The file still has the entities, and some free pages for new entities. */
    assert_true(store_file_size(PATH) < full / 2);
    assert_kept(f);
    assert_false(give_back_once(f->store));
    close_store(f);
    assert_sound();
}

/* The virtual clock hardly advances, so that the duration of a step does not
 * limit the step. */
FIXTURE_TEST(one_step_takes_few_pages_of_many)
{
    int64_t before, given;

    close_store(f);
    virtual_platform_use(&(struct virtual_options){.seed = 1});
    f->store = store_file_open(PATH);
    insert_big(f, 0, 400);
    for (unsigned i = 0; i < 400; i += 100)
        delete_some(f, i, i + 95);
    before = store_file_ask(PATH, "PRAGMA page_count");
    assert_true(store_file_ask(PATH, "PRAGMA freelist_count") > 2 * STEP_PAGES);
    assert_true(give_back_once(f->store));
    given = before - store_file_ask(PATH, "PRAGMA page_count");
    /* SQLite also removes its pointer map pages, one in 820 pages. */
    assert_in_range(given, STEP_PAGES, STEP_PAGES + 2);
    assert_count(f, 20);
    close_store(f);
    virtual_platform_end();
}

/* A file keeps its unused space in two cases:
 * - The file is small, even if most of it is unused.
 * - The file is large, and less than a quarter of it is unused, even if this is
 *   more than 4 MiB. */
FIXTURE_TEST(little_unused_space_is_kept)
{
    insert_big(f, 0, 80);
    delete_some(f, 0, 75);
    assert_false(give_back_once(f->store));
    insert_big(f, 0, 75);
    insert_big(f, 80, 700);
    delete_some(f, 0, 80);
    delete_some(f, 80, 160);
    assert_false(give_back_once(f->store));
    delete_some(f, 160, 240);
    assert_true(give_back_once(f->store));
}

static void give_back_and_die(void *steps)
{
    struct store *store = store_file_open(PATH);

    for (int i = 0; i < *(int *)steps; i++)
        (void)give_back_once(store);
    (void)kill(getpid(), SIGKILL);
}

/* One process is killed after one step, another process after two steps, and so
 * on. */
FIXTURE_TEST(a_kill_between_the_steps_loses_nothing)
{
    fill_and_purge(f);
    close_store(f);
    for (int steps = 1; steps < 6; steps++) {
        child_killed(child_start(give_back_and_die, &steps));
        f->store = store_file_open(PATH);
        assert_kept(f);
        close_store(f);
        assert_sound();
    }
}

/* A file without auto_vacuum has no pointer map, so its pages cannot be moved.
 */
FIXTURE_TEST(a_file_of_a_former_release_stays_as_it_is)
{
    int64_t full;

    fill_and_purge(f);
    close_store(f);
    store_file_change(PATH,
        "CREATE TABLE filler AS SELECT hex(randomblob(3000000));"
        "PRAGMA auto_vacuum = NONE; VACUUM; DROP TABLE filler");
    assert_int_equal(store_file_ask(PATH, "PRAGMA auto_vacuum"), 0);
    full = store_file_size(PATH);
    f->store = store_file_open(PATH);
    assert_false(give_back_once(f->store));
    assert_kept(f);
    close_store(f);
    assert_int_equal(store_file_size(PATH), full);
    /* As systemd/BACKUP.md says: after this statement the file is like a file
     * of this release. */
    store_file_change(PATH, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    assert_true(store_file_size(PATH) < full / 2);
    assert_int_equal(store_file_ask(PATH, "PRAGMA auto_vacuum"), 2);
    f->store = store_file_open(PATH);
    assert_kept(f);
}
