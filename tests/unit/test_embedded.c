/* SPDX-License-Identifier: MIT */
/*
 * What the embedded store guarantees beyond store.h: for its file, a faulty
 * disk, other processes and many threads. The disk fails by the functions
 * pwrite64, fdatasync and pread64 of this program, which libsqlite3 calls in
 * place of libc's.
 */
#include "tests/support/fixture.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/embedded/db.h"
#include "worker/store/embedded/embedded.h"

#define PATH "test.db"

/* ---- the disk ---- */

/* disk_full: writes fail with ENOSPC; disk_loses: fdatasync with EIO. */
static _Atomic bool disk_full, disk_loses;
static _Atomic int64_t sync_ms; /* duration of one fdatasync */
static _Atomic unsigned long syncs, read_bytes;

ssize_t pwrite64(int fd, const void *at, size_t len, off64_t offset)
{
    if (disk_full) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, at, len, offset);
}

ssize_t pread64(int fd, void *at, size_t len, off64_t offset)
{
    read_bytes += len;
    return syscall(SYS_pread64, fd, at, len, offset);
}

int fdatasync(int fd)
{
    struct timespec time = {0, (long)(sync_ms * 1000000)};

    syncs++;
    (void)nanosleep(&time, NULL);
    if (disk_loses) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

/* ---- helpers ---- */

static struct store *open_store(const char *path)
{
    struct store *store = NULL;
    struct err err;

    if (embedded_open("main", path, &store, &err) != TW_OK)
        fail_msg("%s", err.text);
    return store;
}

static void remove_store(void)
{
    (void)unlink(PATH);
    (void)unlink(PATH "-wal");
    (void)unlink(PATH "-shm");
}

/* A store in a new file with a fixture in it. */
static void begin(struct fixture *f)
{
    remove_store();
    fixture_init(f, open_store(PATH));
}

static void end(struct fixture *f)
{
    store_close(f->store);
    fixture_done(f);
}

static void change_file(const char *sql)
{
    sqlite3 *sqlite;

    assert_int_equal(sqlite3_open(PATH, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
}

static void refuse_open(const char *path, enum tw_err expected)
{
    struct store *store = NULL;
    struct err err = {""};
    enum tw_err code = embedded_open("main", path, &store, &err);

    if (code != expected)
        fail_msg("%s: %s: %s", path, err_name(code), err.text);
    assert_null(store);
    assert_non_null(strstr(err.text, path));
}

/* Run body in a process of its own. Returns the exit status. */
static int in_child(void (*body)(void *arg), void *arg)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        body(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int64_t size_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

static enum tw_err insert(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    struct operation operation = fixture_operation(
        f, OPERATION_INSERT, partition_key, row_key, NULL, "\"A\":1");

    return fixture_send(f, &operation, 1);
}

/* ---- the file ---- */

TEST_FIXTURE(fixture, struct fixture, TEST_NOTHING, end)

/* A test that opens a store with begin() or fixture_init(). */
#define STORE_TEST(name)                                                       \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

STORE_TEST(what_is_stored_outlives_the_store)
{
    const char *etag;

    begin(f);
    etag = fixture_insert(f, "p", "r", "\"A\":1");
    check(f, TW_OK,
        store_queue_put(f->store, &f->exchange, f->queue, slice_of("text"), 0,
            &f->messages));
    store_close(f->store);
    f->store = open_store(PATH);
    check_text(fixture_get(f, "p", "r")->etag, slice_of(etag));
    assert_string_not_equal(fixture_insert(f, "p", "s", ""), etag);
    check(f, TW_OK,
        store_queue_get(f->store, &f->exchange, f->queue, 1, 30, &f->messages));
    assert_int_equal(f->messages.count, 1);
    check_text(f->messages.list[0].text, slice_of("text"));
}

TEST(file_is_for_its_owner_alone)
{
    static const char *const files[] = {PATH, PATH "-wal", PATH "-shm"};
    struct stat status;
    struct fixture f;
    mode_t mask = umask(0);

    begin(&f);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(stat(files[i], &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
    end(&f);
    (void)umask(mask);
}

TEST(closing_leaves_one_file)
{
    struct fixture f;

    begin(&f);
    fixture_fill(&f, "p", 500);
    assert_true(size_of(PATH "-wal") > 0);
    end(&f);
    assert_int_equal(size_of(PATH "-wal"), 0);
}

STORE_TEST(log_does_not_grow_for_ever)
{
    int64_t most = 0;

    begin(f);
    for (int i = 0; i < 60; i++) {
        char row_key[8];
        struct operation operation;
        char *text = arena_alloc(&f->arena, 30001);

        memset(text, 'x', 30000);
        (void)snprintf(row_key, sizeof(row_key), "%d", i);
        operation =
            fixture_operation(f, OPERATION_INSERT, "p", row_key, NULL, "");
        for (int j = 0; j < 14; j++) {
            char name[8];

            (void)snprintf(name, sizeof(name), "S%d", j);
            entity_set_string(&operation.entity, &f->arena, name,
                (struct slice){text, 30000});
        }
        check(f, TW_OK, fixture_send(f, &operation, 1));
        if (size_of(PATH "-wal") > most)
            most = size_of(PATH "-wal");
        arena_clear(&f->arena);
    }
    assert_true(most < 8 * 1024 * 1024);
}

static void patch(off_t offset, unsigned char value)
{
    int fd = open(PATH, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &value, 1, offset), 1);
    (void)close(fd);
}

/* Offsets in an SQLite file of two big-endian numbers. */
#define USER_VERSION_AT 60
#define APPLICATION_ID_AT 68

TEST(foreign_files_are_refused)
{
    struct fixture f;
    FILE *file;

    remove_store();
    file = fopen(PATH, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        (void)fputs("this is no database\n", file);
    (void)fclose(file);
    refuse_open(PATH, TW_INVALID);
    begin(&f);
    end(&f);
    patch(USER_VERSION_AT + 3, 99);
    refuse_open(PATH, TW_INVALID);
    patch(APPLICATION_ID_AT, 0x11);
    refuse_open(PATH, TW_INVALID);
    for (int i = 0; i < 4; i++) {
        patch(APPLICATION_ID_AT + i, 0);
        patch(USER_VERSION_AT + i, 0);
    }
    refuse_open(PATH, TW_INVALID);
}

STORE_TEST(empty_file_becomes_a_store)
{
    int fd;

    remove_store();
    fd = open(PATH, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    fixture_init(f, open_store(PATH));
}

TEST(paths_that_are_no_files_are_refused)
{
    refuse_open("no/such/folder/test.db", TW_FULL);
    assert_int_equal(mkdir("folder.db", 0700), 0);
    refuse_open("folder.db", TW_FULL);
    assert_int_equal(rmdir("folder.db"), 0);
}

TEST(path_is_no_uri)
{
    struct store *store = open_store("file:odd?mode=memory.db");

    store_close(store);
    assert_int_equal(unlink("file:odd?mode=memory.db"), 0);
}

/* As a user other than root, whom permissions restrict. */
static void open_without_rights(void *arg)
{
    struct store *store = NULL;
    struct err err = {""};

    if (geteuid() == 0 && seteuid(65534) != 0)
        _exit(2);
    if (embedded_open("main", arg, &store, &err) == TW_FULL &&
        strstr(err.text, arg))
        _exit(1);
    (void)fprintf(stderr, "%s\n", err.text);
}

TEST(lack_of_rights_is_said)
{
    char path[] = "rights/test.db";
    struct store *store;

    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(mkdir("rights", 0755), 0);
    store = open_store(path);
    store_close(store);
    assert_int_equal(in_child(open_without_rights, path), 1);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(in_child(open_without_rights, path), 1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(chmod("rights", 0555), 0);
    assert_int_equal(in_child(open_without_rights, path), 1);
    assert_int_equal(chmod("rights", 0755), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir("rights"), 0);
}

/* ---- the disk ---- */

STORE_TEST(full_disk_is_said_and_passes)
{
    struct operation two[2];

    begin(f);
    fixture_insert(f, "p", "before", "");
    two[0] = fixture_operation(f, OPERATION_INSERT, "p", "1", NULL, "");
    two[1] = fixture_operation(f, OPERATION_INSERT, "p", "2", NULL, "");
    disk_full = true;
    check(f, TW_FULL, fixture_send(f, two, 2));
    assert_non_null(strstr(f->exchange.err.text, PATH));
    assert_non_null(strstr(f->exchange.err.text, "disk is full"));
    assert_int_equal(f->result.failed, 2);
    check(f, TW_FULL,
        store_queue_put(f->store, &f->exchange, f->queue, slice_of("text"), 0,
            &f->messages));
    assert_int_equal(f->messages.count, 0);
    check_text(slice_of(fixture_all(f)), slice_of("p/before"));
    disk_full = false;
    check_text(slice_of(fixture_all(f)), slice_of("p/before"));
    check(f, TW_OK, fixture_send(f, two, 2));
    check_text(slice_of(fixture_all(f)), slice_of("p/1 p/2 p/before"));
    store_close(f->store);
    f->store = open_store(PATH);
    check_text(slice_of(fixture_all(f)), slice_of("p/1 p/2 p/before"));
}

TEST(full_disk_is_said_when_opening)
{
    remove_store();
    disk_full = true;
    refuse_open(PATH, TW_FULL);
    disk_full = false;
    store_close(open_store(PATH));
}

static void insert_on_a_disk_that_loses(void *arg)
{
    struct fixture *f = arg;

    f->store = open_store(PATH);
    disk_loses = true;
    (void)insert(f, "p", "lost");
}

/* The clock of the new boot is stored with the next successful write; until
 * then reading is possible. */
STORE_TEST(full_disk_lets_a_file_be_read_after_a_reboot)
{
    struct store *other;

    begin(f);
    (void)fixture_insert(f, "p", "r", "");
    change_file("UPDATE stamps SET boot_id = 'another'");
    disk_full = true;
    other = open_store(PATH);
    check_text(slice_of(fixture_all(f)), slice_of("p/r"));
    disk_full = false;
    store_close(other);
}

STORE_TEST(failed_fsync_ends_the_process)
{
    begin(f);
    store_close(f->store);
    assert_int_equal(in_child(insert_on_a_disk_that_loses, f), 75);
    f->store = open_store(PATH);
    (void)fixture_all(f);
    check(f, TW_OK, insert(f, "p", "again"));
}

STORE_TEST(scan_for_keys_leaves_long_entities_alone)
{
    const struct slice none[] = {{"", 0}};
    struct scan_request request = {.select = none};
    char *text;

    begin(f);
    text = arena_alloc(&f->arena, 30001);
    memset(text, 'x', 30000);
    for (int i = 0; i < 100; i++) {
        struct slice row_key = arena_format(&f->arena, "%03d", i);

        fixture_insert(f, "p", row_key.at,
            arena_format(&f->arena, "\"S\":\"%s\"", text).at);
    }
    store_close(f->store);
    f->store = open_store(PATH);
    read_bytes = 0;
    assert_int_equal(strlen(fixture_keys(f, request)), 100 * 6 - 1);
    assert_true(read_bytes < 400000);
    read_bytes = 0;
    assert_int_equal(strlen(fixture_all(f)), 100 * 6 - 1);
    assert_true(read_bytes > 3000000);
}

/* However a long entity is changed or deleted, the space of its body is used
 * again. */
TEST(long_entities_leave_nothing_behind)
{
    static const enum operation_type types[] = {
        OPERATION_INSERT, OPERATION_REPLACE, OPERATION_MERGE, OPERATION_DELETE};
    struct fixture f;
    char *text;

    begin(&f);
    text = arena_alloc(&f.arena, 30001);
    memset(text, 'x', 30000);
    for (int i = 0; i < 200; i++) {
        struct operation change = fixture_operation(
            &f, types[i % 4], "p", "r", f.result.etags[0], "");

        change.entity.etag = arena_copy(&f.arena, change.entity.etag);
        entity_set_string(&change.entity, &f.arena, i % 4 == 2 ? "S" : "T",
            (struct slice){text, 30000});
        check(&f, TW_OK, fixture_send(&f, &change, 1));
    }
    check_text(slice_of(fixture_all(&f)), slice_of(""));
    end(&f);
    assert_true(size_of(PATH) < 200000);
}

/* ---- threads ---- */

#define WRITERS 16
#define WRITES 20

struct writer {
    struct platform_thread thread;
    struct fixture f;
    int number;
    char etags[WRITES][96];
    bool good;
};

static bool write_one(struct writer *writer, int i)
{
    struct fixture *f = &writer->f;
    char key[16];

    (void)snprintf(key, sizeof(key), "%d", i);
    (void)snprintf(f->queue, sizeof(f->queue), "writer%d", writer->number);
    if (insert(f, f->queue, key) != TW_OK)
        return false;
    memcpy(writer->etags[i], f->result.etags[0], 96);
    if (insert(f, f->queue, key) != TW_CONFLICT || f->result.failed != 0)
        return false;
    return store_get(f->store, &f->exchange, f->table, slice_of(f->queue),
               slice_of(key), &f->page) == TW_OK &&
           slice_is(f->page.entities[0].etag, writer->etags[i]);
}

static void write_all(void *arg)
{
    struct writer *writer = arg;

    writer->good = true;
    for (int i = 0; i < WRITES && writer->good; i++)
        writer->good = write_one(writer, i);
}

static int compare_etags(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void check_writers(const struct writer *writers)
{
    static char etags[WRITERS * WRITES][96];

    for (int i = 0; i < WRITERS; i++) {
        assert_true(writers[i].good);
        memcpy(etags[i * WRITES], writers[i].etags, sizeof(writers[i].etags));
    }
    qsort(etags, WRITERS * WRITES, 96, compare_etags);
    for (int i = 1; i < WRITERS * WRITES; i++)
        assert_string_not_equal(etags[i - 1], etags[i]);
}

/* Each thread inserts an entity, inserts it again, which is refused, and reads
 * it. */
static void run_writers(struct fixture *f)
{
    static struct writer writers[WRITERS];

    memset(writers, 0, sizeof(writers));
    for (int i = 0; i < WRITERS; i++) {
        writers[i].number = i;
        writers[i].f.store = f->store;
        memcpy(writers[i].f.table, f->table, sizeof(f->table));
        page_init(&writers[i].f.page);
        arena_init(&writers[i].f.arena);
        platform_start(&writers[i].thread, "writer", write_all, &writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        platform_join(&writers[i].thread);
        page_done(&writers[i].f.page);
        arena_done(&writers[i].f.arena);
    }
    check_writers(writers);
}

STORE_TEST(writers_share_commits)
{
    begin(f);
    sync_ms = 3;
    syncs = 0;
    run_writers(f);
    sync_ms = 0;
    assert_true(syncs > 0);
    assert_true(syncs < WRITERS * WRITES / 2);
}

static void write_first(void *arg)
{
    struct writer *writer = arg;

    (void)snprintf(writer->f.queue, sizeof(writer->f.queue), "first");
    writer->good = insert(&writer->f, "first", "1") == TW_OK;
}

/* No later write follows whose transaction would include this one. */
TEST(a_write_that_comes_during_a_commit_is_made_after_it)
{
    static struct writer first;
    struct fixture f;
    unsigned long before;
    int64_t began_ms;

    begin(&f);
    sync_ms = 300;
    before = syncs;
    memset(&first, 0, sizeof(first));
    first.f.store = f.store;
    memcpy(first.f.table, f.table, sizeof(f.table));
    page_init(&first.f.page);
    arena_init(&first.f.arena);
    platform_start(&first.thread, "writer", write_first, &first);
    while (syncs == before)
        sched_yield();
    began_ms = platform_boot_ms();
    assert_ok(insert(&f, "second", "1"));
    assert_true(platform_boot_ms() - began_ms < DEADLINE_REQUEST_MAX_MS);
    platform_join(&first.thread);
    assert_true(first.good);
    page_done(&first.f.page);
    arena_done(&first.f.arena);
    sync_ms = 0;
    end(&f);
}

STORE_TEST(memory_store_serves_threads)
{
    fixture_init(f, open_store(":memory:"));
    run_writers(f);
}

/* ---- processes ---- */

#define PROCESSES 3
#define SHARED_KEYS 40

/* Every process tries to insert every key: exactly one process succeeds for
 * each key. */
static int insert_shared_keys(struct fixture *f)
{
    int mine = 0;

    f->store = open_store(PATH);
    for (int i = 0; i < SHARED_KEYS; i++) {
        char key[16];
        enum tw_err code;

        (void)snprintf(key, sizeof(key), "%d", i);
        code = insert(f, "p", key);
        if (code == TW_OK)
            mine++;
        else if (code != TW_CONFLICT)
            return 255;
    }
    store_close(f->store);
    return mine;
}

STORE_TEST(processes_share_the_file)
{
    pid_t children[PROCESSES];
    int sum = 0;

    begin(f);
    store_close(f->store);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(insert_shared_keys(f));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    assert_int_equal(sum, SHARED_KEYS);
    f->store = open_store(PATH);
    (void)fixture_all(f);
    assert_int_equal(f->page.count, SHARED_KEYS);
}

static void create_at_once(void)
{
    pid_t children[PROCESSES];

    remove_store();
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            store_close(open_store(PATH));
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

/* Once a half-created file was refused as the database of another program. */
TEST(processes_create_the_file_at_once)
{
    for (int i = 0; i < 20; i++)
        create_at_once();
}

/* Inserts batches of two entities until it is killed, and writes a byte to `to`
 * after each acknowledged batch. */
static void insert_until_killed(struct fixture *f, int to)
{
    f->store = open_store(PATH);
    for (int i = 0;; i++) {
        struct operation operations[2];
        char row_key[16];

        for (int j = 0; j < 2; j++) {
            (void)snprintf(row_key, sizeof(row_key), "%06d%c", i, 'a' + j);
            operations[j] = fixture_operation(
                f, OPERATION_INSERT, "p", row_key, NULL, "\"A\":1");
        }
        if (fixture_send(f, operations, 2) != TW_OK ||
            write(to, &i, sizeof(i)) != sizeof(i))
            _exit(1);
    }
}

STORE_TEST(killed_process_loses_nothing_it_acknowledged)
{
    int status, acknowledged = -1, from[2];
    size_t keys;
    pid_t child;

    begin(f);
    store_close(f->store);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        insert_until_killed(f, from[1]);
    (void)close(from[1]);
    while (acknowledged < 200)
        assert_int_equal(
            read(from[0], &acknowledged, sizeof(acknowledged)), sizeof(int));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    while (read(from[0], &acknowledged, sizeof(acknowledged)) > 0)
        ;
    (void)close(from[0]);
    f->store = open_store(PATH);
    keys = strlen(fixture_all(f)) + 1; /* each key is "p/000000a " */
    assert_int_equal(keys % 20, 0);
    assert_true(keys / 20 > (size_t)acknowledged);
    (void)fixture_get(f, "p", "000200b");
}

/* Takes the file's write lock, writes to `ready`, and holds the lock until
 * `release` is closed. */
static void hold_the_file(int ready, int release)
{
    struct db *db = NULL;
    struct err err;
    char byte = 0;

    if (db_open(PATH, DB_WRITER, &db, &err) != TW_OK ||
        db_begin(db, &err) != TW_OK || write(ready, "x", 1) != 1 ||
        read(release, &byte, 1) != 0)
        _exit(1);
    db_rollback(db);
    db_close(db);
    _exit(0);
}

static pid_t start_holder(int *ret_release)
{
    int ready[2], release[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(release, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(release[1]);
        hold_the_file(ready[1], release[0]);
    }
    (void)close(ready[1]);
    (void)close(release[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    *ret_release = release[1];
    return child;
}

STORE_TEST(other_process_is_waited_for_until_the_deadline)
{
    struct deadline deadline;
    int release, status = 1;
    int64_t start_ms;
    pid_t child;

    begin(f);
    fixture_insert(f, "p", "r", "");
    store_close(f->store);
    child = start_holder(&release);
    f->store = open_store(PATH);
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    f->exchange.deadline = &deadline;
    start_ms = platform_boot_ms();
    check(f, TW_BUSY, insert(f, "p", "s"));
    assert_true(platform_boot_ms() - start_ms >= 1000);
    assert_non_null(strstr(f->exchange.err.text, PATH));
    check_text(slice_of(fixture_all(f)), slice_of("p/r"));
    (void)close(release);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check(f, TW_OK, insert(f, "p", "s"));
    f->exchange.deadline = NULL;
}

/* ---- tables ---- */

STORE_TEST(table_names_ignore_case)
{
    begin(f);
    fixture_insert(f, "p", "r", "");
    for (char *c = f->table; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    check_text(slice_of(fixture_all(f)), slice_of("p/r"));
    check(f, TW_OK, store_create_table(f->store, &f->exchange, f->table));
    check_text(slice_of(fixture_all(f)), slice_of("p/r"));
}

STORE_TEST(foreign_etags_and_tokens_are_no_use)
{
    static const char *const etags[] = {"W/\"\"", "W/\"x\"", "\"1\"",
        "W/\"datetime'2024-01-01T00%3A00%3A00Z'\"", "W/\"-1\"", "W/\""};
    struct scan_request request = {0};

    begin(f);
    fixture_insert(f, "p", "r", "");
    for (size_t i = 0; TEST_EACH(i, etags); i++) {
        struct operation change =
            fixture_operation(f, OPERATION_DELETE, "p", "r", etags[i], "");

        check(f, TW_CONFLICT, fixture_send(f, &change, 1));
    }
    request.table = f->table;
    request.from = (struct continuation){
        .partition_key = slice_of("2!x"), .row_key = {"", 0}, .more = true};
    check(
        f, TW_INVALID, store_scan(f->store, &f->exchange, &request, &f->page));
}

STORE_TEST(page_ends_after_much_work)
{
    struct scan_request request = {
        .filter = slice_of("Number eq 100000"), .top = 1000};

    begin(f);
    for (int i = 0; i < 3; i++)
        fixture_fill(f, i == 0 ? "a" : i == 1 ? "b" : "c", 7000);
    request.table = f->table;
    check(f, TW_OK, store_scan(f->store, &f->exchange, &request, &f->page));
    assert_int_equal(f->page.count, 0);
    assert_true(f->page.next.more);
    check_text(slice_of(fixture_keys(f, request)), slice_of(""));
}

STORE_TEST(full_last_page_has_no_successor)
{
    const struct slice none[] = {{"", 0}};
    struct scan_request request = {.top = 100, .select = none};

    begin(f);
    fixture_fill(f, "p", 200);
    request.table = f->table;
    check(f, TW_OK, store_scan(f->store, &f->exchange, &request, &f->page));
    assert_int_equal(f->page.count, 100);
    assert_true(f->page.next.more);
    request.from = f->page.next;
    check(f, TW_OK, store_scan(f->store, &f->exchange, &request, &f->page));
    assert_int_equal(f->page.count, 100);
    assert_false(f->page.next.more);
}

/* A key made of a few letters, so that random ranges begin and end between, at
 * and inside keys. Two of the letters are ordered differently in UTF-16 and in
 * UTF-8. */
static struct slice random_key(struct fixture *f)
{
    static const char *const letters[] = {
        "a", "b", "_", "\xef\xbd\x81", "\xf0\x9f\x98\x80"};
    struct slice key = {"", 0};

    for (uint64_t len = platform_random_below(4); len > 0; len--)
        key = arena_format(&f->arena, "%.*s%s", SLICE_ARG(key),
            letters[platform_random_below(5)]);
    return key;
}

static struct key_range random_range(struct fixture *f)
{
    return (struct key_range){
        .has_from = platform_random_below(2),
        .has_below = platform_random_below(2),
        .from_exclusive = platform_random_below(2),
        .exact = false,
        .from = random_key(f),
        .below = random_key(f),
    };
}

static struct key_range random_bounds(struct fixture *f)
{
    return platform_random_below(4) == 0 ? key_range_exact(random_key(f))
                                         : random_range(f);
}

/* The keys that a test of each single entity finds. */
static const char *expected_keys(
    struct fixture *f, const char *all, const struct scan_request *request)
{
    const char *at = all;
    const char *keys;
    struct buf text;

    buf_init(&text, 1024 * 1024);
    while (*at) {
        size_t len = strcspn(at, " ");
        const char *slash = memchr(at, '/', len);
        struct slice partition_key = {at, (size_t)(slash - at)};
        struct slice row_key = {slash + 1, len - partition_key.len - 1};

        if (key_range_has(&request->partition_key, partition_key) &&
            key_range_has(&request->row_key, row_key))
            buf_add_format(&text, "%s%.*s", text.len ? " " : "", (int)len, at);
        at += len + (at[len] == ' ');
    }
    keys = arena_copy(&f->arena, buf_slice(&text)).at;
    buf_done(&text);
    return keys;
}

STORE_TEST(ranges_agree_with_a_plain_look)
{
    const char *all;

    fixture_init(f, open_store(":memory:"));
    for (int i = 0; i < 900; i++) {
        enum tw_err code = insert(f, random_key(f).at, random_key(f).at);

        assert_true(code == TW_OK || code == TW_CONFLICT);
    }
    all = fixture_all(f);
    for (int i = 0; i < 500; i++) {
        struct scan_request request = {.partition_key = random_bounds(f),
            .row_key = random_bounds(f),
            .top = (unsigned)platform_random_below(50)};

        check_text(slice_of(fixture_keys(f, request)),
            slice_of(expected_keys(f, all, &request)));
    }
}

STORE_TEST(tables_come_in_pages)
{
    struct continuation from = {0};
    size_t count = 0;

    fixture_init(f, open_store(":memory:"));
    for (int i = 0; i < 1200; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "Many%d", i);
        check(f, TW_OK, store_create_table(f->store, &f->exchange, name));
    }
    do {
        check(f, TW_OK,
            store_list_tables(f->store, &f->exchange, from, &f->page));
        count += f->page.count;
        from = f->page.next;
    } while (f->page.next.more);
    assert_int_equal(count, 1201);
}

/* ---- which store it is ---- */

static struct slice identity_of(const char *path, struct arena *arena)
{
    struct store *store = open_store(path);
    struct slice identity;

    assert_non_null(store->capabilities.identity);
    assert_int_equal(strlen(store->capabilities.identity), 32);
    identity = arena_copy(arena, slice_of(store->capabilities.identity));
    store_close(store);
    return identity;
}

SCRATCH_TEST(a_file_that_is_moved_stays_the_same_store)
{
    struct slice identity;

    remove_store();
    identity = identity_of(PATH, &scratch);
    check_text(identity_of(PATH, &scratch), identity);
    assert_int_equal(rename(PATH, "moved.db"), 0);
    check_text(identity_of("moved.db", &scratch), identity);
    assert_false(slice_equal(identity_of(PATH, &scratch), identity));
    assert_int_equal(unlink("moved.db"), 0);
    remove_store();
}

SCRATCH_TEST(a_file_of_a_former_release_is_given_an_identity)
{
    struct fixture f;
    sqlite3 *sqlite;
    struct slice identity;

    begin(&f);
    end(&f);
    assert_int_equal(sqlite3_open(PATH, &sqlite), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(sqlite, "DROP TABLE identity", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(sqlite);
    identity = identity_of(PATH, &scratch);
    check_text(identity_of(PATH, &scratch), identity);
    remove_store();
}

/* As an earlier release could write an entity: with a text that was cut inside
 * a character. */
TEST(a_damaged_entity_comes_with_its_keys_where_asked)
{
    struct scan_request request = {.damaged_too = true};
    struct exchange exchange = {0};
    struct page page;
    struct fixture f;
    sqlite3 *sqlite;

    begin(&f);
    (void)fixture_insert(&f, "p", "1", "\"A\":1");
    (void)fixture_insert(&f, "p", "2", "\"A\":1");
    store_close(f.store);
    assert_int_equal(sqlite3_open(PATH, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite,
                         "UPDATE entities SET properties = "
                         "x'7b2254223a22d0227d' WHERE row_key = x'32'",
                         NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(sqlite);
    f.store = open_store(PATH);
    request.table = f.table;
    page_init(&page);
    assert_ok(store_scan(f.store, &exchange, &request, &page));
    assert_int_equal(page.count, 2);
    check_text(page.entities[1].row_key, slice_of("2"));
    assert_int_equal(page.entities[0].property_count, 1);
    assert_int_equal(page.entities[1].property_count, 0);
    request.damaged_too = false;
    assert_int_equal(store_scan(f.store, &exchange, &request, &page), TW_FULL);
    page_done(&page);
    end(&f);
    remove_store();
}

/* Version 1 stored keys as UTF-8. */
TEST(keys_of_a_former_version_are_converted)
{
    struct fixture f;
    const char *all;
    sqlite3 *sqlite;

    begin(&f);
    (void)fixture_insert(&f, "p", "\xef\xbd\x81", "\"A\":1");
    (void)fixture_insert(&f, "p", "\xf0\x9f\x98\x80", "\"A\":2");
    (void)fixture_insert(&f, "\xee\x80\x80", "r", "\"A\":3");
    all = fixture_all(&f);
    check_text(slice_of(all), slice_of("p/\xf0\x9f\x98\x80 p/\xef\xbd\x81 "
                                       "\xee\x80\x80/r"));
    store_close(f.store);
    assert_int_equal(sqlite3_open(PATH, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite,
                         "UPDATE entities SET row_key = x'efbd81'"
                         " WHERE row_key = x'f9bd81';"
                         "UPDATE entities SET partition_key = x'ee8080'"
                         " WHERE partition_key = x'f88080';"
                         "PRAGMA user_version = 1",
                         NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_total_changes(sqlite), 2);
    sqlite3_close(sqlite);
    for (int i = 0; i < 2; i++) {
        f.store = open_store(PATH);
        check_text(slice_of(fixture_all(&f)), slice_of(all));
        (void)fixture_get(&f, "p", "\xef\xbd\x81");
        store_close(f.store);
    }
    f.store = open_store(PATH);
    end(&f);
    remove_store();
}

/* Nothing of such a store can be found again. */
TEST(a_store_in_memory_has_no_identity)
{
    struct store *store = open_store(":memory:");

    assert_null(store->capabilities.identity);
    store_close(store);
}
