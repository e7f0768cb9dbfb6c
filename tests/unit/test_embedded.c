/* SPDX-License-Identifier: MIT */
/*
 * What the embedded store guarantees beyond store.h: what its file keeps, and
 * what happens if the disk fails, if other processes use the file, and if many
 * threads write.
 *
 * This program defines pwrite64, fdatasync and pread64 itself, and libsqlite3
 * calls them in place of libc's. So the test can make the disk fail.
 */
#include "tests/support/child.h"
#include "tests/support/fixture.h"
#include "tests/support/scratch.h"
#include "tests/support/store_file.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"
#include "worker/store/embedded/db.h"
#include "worker/store/embedded/embedded.h"

#define PATH "test.db"

/* ---- the disk ---- */

/* disk_full: writes fail with ENOSPC. disk_loses: fdatasync fails with EIO. */
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

/* Opens a store in a new file and sets up the fixture with this store. */
static void begin(struct fixture *f)
{
    store_file_remove(PATH);
    fixture_init(f, store_file_open(PATH));
}

static void begin_in_memory(struct fixture *f)
{
    fixture_init(f, store_file_open(":memory:"));
}

/* Closes the store and opens its file again. */
static void reopen(struct fixture *f)
{
    store_close(f->store);
    f->store = store_file_open(PATH);
}

static void end(struct fixture *f)
{
    store_close(f->store);
    fixture_done(f);
}

TEST_FIXTURE(file, struct fixture, begin, end)
TEST_FIXTURE(memory, struct fixture, begin_in_memory, end)

/* STORE_TEST: a test with a store in a new file. MEMORY_TEST: a test with a
 * store in memory. */
#define STORE_TEST(name)                                                       \
    TEST_WITH(name, file_set_up, file_tear_down, struct fixture *f)
#define MEMORY_TEST(name)                                                      \
    TEST_WITH(name, memory_set_up, memory_tear_down, struct fixture *f)

static void refuse_open(const char *path, enum tw_err expected)
{
    struct store *store = NULL;
    struct err err = {""};
    enum tw_err outcome = embedded_open("main", path, &store, &err);

    if (outcome != expected)
        fail_msg("%s: %s: %s", path, err_name(outcome), err.text);
    assert_null(store);
    assert_non_null(strstr(err.text, path));
}

static enum tw_err insert(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    return fixture_change(
        f, OPERATION_INSERT, partition_key, row_key, NULL, "\"A\":1");
}

#define LONG_BYTES 30000

/* Returns the JSON of a property with a long text. */
static const char *long_text(struct fixture *f, const char *name)
{
    return arena_format(&f->arena, "\"%s\":\"%0*d\"", name, LONG_BYTES, 0).at;
}

static enum tw_err put(struct fixture *f)
{
    return store_queue_put(
        f->store, &f->exchange, f->queue, slice_of("text"), 0, &f->messages);
}

/* ---- the file ---- */

STORE_TEST(what_is_stored_outlives_the_store)
{
    const char *etag = fixture_insert(f, "p", "r", "\"A\":1");

    check(f, TW_OK, put(f));
    reopen(f);
    check_text(fixture_get(f, "p", "r")->etag, slice_of(etag));
    assert_string_not_equal(fixture_insert(f, "p", "s", ""), etag);
    check(f, TW_OK,
        store_queue_get(f->store, &f->exchange, f->queue, 1, 30, &f->messages));
    assert_int_equal(f->messages.count, 1);
    check_text(f->messages.list[0].text, slice_of("text"));
}

STORE_TEST(file_is_for_its_owner_alone)
{
    static const char *const files[] = {PATH, PATH "-wal", PATH "-shm"};
    mode_t mask = umask(0);

    store_close(f->store);
    store_file_remove(PATH);
    f->store = store_file_open(PATH);
    for (size_t i = 0; TEST_EACH(i, files); i++) {
        struct stat status;

        assert_int_equal(stat(files[i], &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
    (void)umask(mask);
}

STORE_TEST(closing_leaves_one_file)
{
    fixture_fill(f, "p", 500);
    assert_true(store_file_size(PATH "-wal") > 0);
    store_close(f->store);
    assert_int_equal(store_file_size(PATH "-wal"), 0);
    f->store = store_file_open(PATH);
}

STORE_TEST(log_does_not_grow_for_ever)
{
    for (int i = 0; i < 60; i++) {
        struct buf properties;

        buf_init(&properties, 1024 * 1024);
        for (int j = 0; j < 14; j++)
            buf_add_format(&properties, "%s\"S%d\":\"%0*d\"", j ? "," : "", j,
                LONG_BYTES, 0);
        fixture_insert(
            f, "p", arena_format(&f->arena, "%d", i).at, buf_text(&properties));
        buf_done(&properties);
        assert_true(store_file_size(PATH "-wal") < 8 * 1024 * 1024);
        arena_clear(&f->arena);
    }
}

TEST(foreign_files_are_refused)
{
    static const char *const changes[] = {"PRAGMA user_version = 99",
        "PRAGMA application_id = 17",
        "PRAGMA application_id = 0; PRAGMA user_version = 0"};
    static char text[20000];

    store_file_remove(PATH);
    memset(text, 'x', sizeof(text));
    text_file_write_bytes(PATH, text, sizeof(text));
    refuse_open(PATH, TW_INVALID);
    for (size_t i = 0; TEST_EACH(i, changes); i++) {
        store_file_remove(PATH);
        store_close(store_file_open(PATH));
        store_file_change(PATH, changes[i]);
        refuse_open(PATH, TW_INVALID);
    }
}

TEST(empty_file_becomes_a_store)
{
    store_file_remove(PATH);
    text_file_write(PATH, "");
    store_close(store_file_open(PATH));
    assert_true(store_file_size(PATH) > 0);
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
    store_close(store_file_open("file:odd?mode=memory.db"));
    assert_int_equal(unlink("file:odd?mode=memory.db"), 0);
}

/* Exits with 1 if opening the file fails with TW_FULL and the error names the
 * file. Runs as a user other than root, because permissions do not restrict
 * root. */
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

    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(mkdir("rights", 0755), 0);
    store_close(store_file_open(path));
    assert_int_equal(child_run(open_without_rights, path), 1);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(child_run(open_without_rights, path), 1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(chmod("rights", 0555), 0);
    assert_int_equal(child_run(open_without_rights, path), 1);
    assert_int_equal(chmod("rights", 0755), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir("rights"), 0);
}

/* ---- the disk ---- */

STORE_TEST(full_disk_is_said_and_passes)
{
    struct operation two[] = {
        fixture_operation(f, OPERATION_INSERT, "p", "1", NULL, ""),
        fixture_operation(f, OPERATION_INSERT, "p", "2", NULL, ""),
    };

    fixture_insert(f, "p", "before", "");
    disk_full = true;
    check(f, TW_FULL, fixture_send(f, two, 2));
    assert_non_null(strstr(f->exchange.err.text, PATH));
    assert_non_null(strstr(f->exchange.err.text, "disk is full"));
    assert_int_equal(f->result.failed, 2);
    check(f, TW_FULL, put(f));
    assert_int_equal(f->messages.count, 0);
    check_all(f, "p/before");
    disk_full = false;
    check_all(f, "p/before");
    check(f, TW_OK, fixture_send(f, two, 2));
    check_all(f, "p/1 p/2 p/before");
    reopen(f);
    check_all(f, "p/1 p/2 p/before");
}

TEST(full_disk_is_said_when_opening)
{
    store_file_remove(PATH);
    disk_full = true;
    refuse_open(PATH, TW_FULL);
    disk_full = false;
    store_close(store_file_open(PATH));
}

/* The clock of the new boot is stored with the next write that succeeds. Reads
 * do not wait for this. */
STORE_TEST(full_disk_lets_a_file_be_read_after_a_reboot)
{
    struct store *other;

    (void)fixture_insert(f, "p", "r", "");
    store_file_change(PATH, "UPDATE stamps SET boot_id = 'another'");
    disk_full = true;
    other = store_file_open(PATH);
    check_all(f, "p/r");
    disk_full = false;
    store_close(other);
}

static void insert_on_a_disk_that_loses(void *arg)
{
    struct fixture *f = arg;

    f->store = store_file_open(PATH);
    disk_loses = true;
    (void)insert(f, "p", "lost");
}

STORE_TEST(failed_fsync_ends_the_process)
{
    store_close(f->store);
    assert_int_equal(child_run(insert_on_a_disk_that_loses, f), 75);
    f->store = store_file_open(PATH);
    (void)fixture_all(f);
    check(f, TW_OK, insert(f, "p", "again"));
}

STORE_TEST(scan_for_keys_leaves_long_entities_alone)
{
    const struct slice none[] = {{"", 0}};
    struct scan_request request = {.select = none};

    for (int i = 0; i < 100; i++)
        fixture_insert(
            f, "p", arena_format(&f->arena, "%03d", i).at, long_text(f, "S"));
    reopen(f);
    read_bytes = 0;
    assert_int_equal(strlen(fixture_keys(f, request)), 100 * 6 - 1);
    assert_true(read_bytes < 400000);
    read_bytes = 0;
    assert_int_equal(strlen(fixture_all(f)), 100 * 6 - 1);
    assert_true(read_bytes > 3000000);
}

/* After a long entity was changed or deleted in any way, the space of its body
 * is used again. */
STORE_TEST(long_entities_leave_nothing_behind)
{
    static const enum operation_type types[] = {
        OPERATION_INSERT, OPERATION_REPLACE, OPERATION_MERGE, OPERATION_DELETE};
    const char *const texts[] = {long_text(f, "T"), long_text(f, "T"),
        long_text(f, "S"), long_text(f, "T")};

    for (int i = 0; i < 200; i++) {
        const char *etag =
            arena_copy(&f->arena, slice_of(f->result.etags[0])).at;

        check(f, TW_OK,
            fixture_change(f, types[i % 4], "p", "r", etag, texts[i % 4]));
    }
    check_all(f, "");
    store_close(f->store);
    assert_true(store_file_size(PATH) < 200000);
    f->store = store_file_open(PATH);
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
    char partition_key[16], row_key[16];

    (void)snprintf(
        partition_key, sizeof(partition_key), "writer%d", writer->number);
    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    if (insert(f, partition_key, row_key) != TW_OK)
        return false;
    memcpy(writer->etags[i], f->result.etags[0], 96);
    if (insert(f, partition_key, row_key) != TW_CONFLICT ||
        f->result.failed != 0)
        return false;
    return store_get(f->store, &f->exchange, f->table, slice_of(partition_key),
               slice_of(row_key), &f->page) == TW_OK &&
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

static void start_writer(struct writer *writer, const struct fixture *f,
    int number, void (*write)(void *writer))
{
    *writer = (struct writer){.number = number, .f = {.store = f->store}};
    memcpy(writer->f.table, f->table, sizeof(f->table));
    page_init(&writer->f.page);
    arena_init(&writer->f.arena);
    platform_start(&writer->thread, "writer", write, writer);
}

static void join_writer(struct writer *writer)
{
    platform_join(&writer->thread);
    page_done(&writer->f.page);
    arena_done(&writer->f.arena);
    assert_true(writer->good);
}

static void check_writers(const struct writer *writers)
{
    static char etags[WRITERS * WRITES][96];

    for (int i = 0; i < WRITERS; i++)
        memcpy(etags[i * WRITES], writers[i].etags, sizeof(writers[i].etags));
    qsort(etags, WRITERS * WRITES, 96, compare_etags);
    for (int i = 1; i < WRITERS * WRITES; i++)
        assert_string_not_equal(etags[i - 1], etags[i]);
}

/* Starts WRITERS threads and waits for their end. Each thread inserts entities,
 * tries to insert each one again, which is refused, and reads it. */
static void run_writers(struct fixture *f)
{
    static struct writer writers[WRITERS];

    for (int i = 0; i < WRITERS; i++)
        start_writer(&writers[i], f, i, write_all);
    for (int i = 0; i < WRITERS; i++)
        join_writer(&writers[i]);
    check_writers(writers);
}

STORE_TEST(writers_share_commits)
{
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

    writer->good = insert(&writer->f, "first", "1") == TW_OK;
}

/* The second write arrives during the commit of the first one. It must be
 * committed even if no third write follows. */
STORE_TEST(a_write_that_comes_during_a_commit_is_made_after_it)
{
    static struct writer first;
    unsigned long before = syncs;
    int64_t began_ms;

    sync_ms = 300;
    start_writer(&first, f, 0, write_first);
    while (syncs == before)
        sched_yield();
    began_ms = platform_boot_ms();
    check(f, TW_OK, insert(f, "second", "1"));
    assert_true(platform_boot_ms() - began_ms < DEADLINE_REQUEST_MAX_MS);
    join_writer(&first);
    sync_ms = 0;
}

MEMORY_TEST(memory_store_serves_threads)
{
    run_writers(f);
}

/* ---- processes ---- */

#define PROCESSES 3
#define SHARED_KEYS 40

/* Every process tries to insert every key: exactly one process succeeds for
 * each key. */
static void insert_shared_keys(void *arg)
{
    struct fixture *f = arg;
    int mine = 0;

    f->store = store_file_open(PATH);
    for (int i = 0; i < SHARED_KEYS; i++) {
        enum tw_err outcome =
            insert(f, "p", arena_format(&f->arena, "%d", i).at);

        if (outcome == TW_OK)
            mine++;
        else if (outcome != TW_CONFLICT)
            _exit(255);
    }
    store_close(f->store);
    _exit(mine);
}

/* Runs body in PROCESSES processes. Returns the sum of their exit codes. */
static int run_processes(void (*body)(void *arg), void *arg)
{
    pid_t children[PROCESSES];
    int sum = 0;

    for (int i = 0; i < PROCESSES; i++)
        children[i] = child_start(body, arg);
    for (int i = 0; i < PROCESSES; i++)
        sum += child_end(children[i]);
    return sum;
}

STORE_TEST(processes_share_the_file)
{
    store_close(f->store);
    assert_int_equal(run_processes(insert_shared_keys, f), SHARED_KEYS);
    f->store = store_file_open(PATH);
    (void)fixture_all(f);
    assert_int_equal(f->page.count, SHARED_KEYS);
}

static void create(void *arg)
{
    store_close(store_file_open(PATH));
}

/* Earlier, a half-created file was refused as the database of another program.
 */
TEST(processes_create_the_file_at_once)
{
    for (int i = 0; i < 20; i++) {
        store_file_remove(PATH);
        assert_int_equal(run_processes(create, NULL), 0);
    }
}

/* The ends of a pipe: `from` is read, `to` is written. */
struct pipe {
    int from, to;
};

static struct pipe open_pipe(void)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    return (struct pipe){ends[0], ends[1]};
}

struct acknowledging {
    struct fixture *f;
    struct pipe pipe;
};

/* Inserts batches of two entities until it is killed, and writes the number of
 * each batch that is acknowledged into the pipe. */
static void insert_until_killed(void *arg)
{
    struct acknowledging *to = arg;
    struct fixture *f = to->f;

    f->store = store_file_open(PATH);
    for (int i = 0;; i++) {
        struct operation operations[2];

        for (int j = 0; j < 2; j++)
            operations[j] = fixture_operation(f, OPERATION_INSERT, "p",
                arena_format(&f->arena, "%06d%c", i, 'a' + j).at, NULL,
                "\"A\":1");
        if (fixture_send(f, operations, 2) != TW_OK ||
            write(to->pipe.to, &i, sizeof(i)) != sizeof(i))
            _exit(1);
    }
}

STORE_TEST(killed_process_loses_nothing_it_acknowledged)
{
    struct acknowledging from = {f, open_pipe()};
    int acknowledged = -1;
    size_t keys;
    pid_t child;

    store_close(f->store);
    child = child_start(insert_until_killed, &from);
    (void)close(from.pipe.to);
    while (acknowledged < 200)
        assert_int_equal(
            read(from.pipe.from, &acknowledged, sizeof(int)), sizeof(int));
    assert_int_equal(kill(child, SIGKILL), 0);
    child_killed(child);
    while (read(from.pipe.from, &acknowledged, sizeof(int)) > 0)
        ;
    (void)close(from.pipe.from);
    f->store = store_file_open(PATH);
    keys = strlen(fixture_all(f)) + 1; /* each key is "p/000000a " */
    assert_int_equal(keys % 20, 0);
    assert_true(keys / 20 > (size_t)acknowledged);
    (void)fixture_get(f, "p", "000200b");
}

struct holder {
    struct pipe ready, release;
};

/* Takes the file's write lock, writes to `ready`, and holds the lock until
 * `release` is closed. */
static void hold_the_file(void *arg)
{
    struct holder *holder = arg;
    struct db *db = NULL;
    struct err err;
    char byte = 0;

    (void)close(holder->release.to);
    if (db_open(PATH, DB_WRITER, &db, &err) != TW_OK ||
        db_begin(db, &err) != TW_OK || write(holder->ready.to, "x", 1) != 1 ||
        read(holder->release.from, &byte, 1) != 0)
        _exit(1);
    db_rollback(db);
    db_close(db);
}

STORE_TEST(other_process_is_waited_for_until_the_deadline)
{
    struct holder holder = {open_pipe(), open_pipe()};
    struct deadline deadline;
    int64_t start_ms;
    char byte;
    pid_t child;

    fixture_insert(f, "p", "r", "");
    store_close(f->store);
    child = child_start(hold_the_file, &holder);
    assert_int_equal(read(holder.ready.from, &byte, 1), 1);
    f->store = store_file_open(PATH);
    deadline_init(&deadline, PLATFORM_NEVER, 1000);
    f->exchange.deadline = &deadline;
    start_ms = platform_boot_ms();
    check(f, TW_BUSY, insert(f, "p", "s"));
    assert_true(platform_boot_ms() - start_ms >= 1000);
    assert_non_null(strstr(f->exchange.err.text, PATH));
    check_all(f, "p/r");
    (void)close(holder.release.to);
    assert_int_equal(child_end(child), 0);
    check(f, TW_OK, insert(f, "p", "s"));
    f->exchange.deadline = NULL;
    (void)close(holder.release.from);
    (void)close(holder.ready.from);
    (void)close(holder.ready.to);
}

/* ---- tables ---- */

STORE_TEST(table_names_ignore_case)
{
    fixture_insert(f, "p", "r", "");
    for (char *c = f->table; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    check_all(f, "p/r");
    check(f, TW_OK, store_create_table(f->store, &f->exchange, f->table));
    check_all(f, "p/r");
}

STORE_TEST(foreign_etags_and_tokens_are_no_use)
{
    static const char *const etags[] = {"W/\"\"", "W/\"x\"", "\"1\"",
        "W/\"datetime'2024-01-01T00%3A00%3A00Z'\"", "W/\"-1\"", "W/\""};
    struct scan_request request = {.from = {.partition_key = slice_of("2!x"),
                                       .row_key = {"", 0},
                                       .more = true}};

    fixture_insert(f, "p", "r", "");
    for (size_t i = 0; TEST_EACH(i, etags); i++)
        check(f, TW_CONFLICT,
            fixture_change(f, OPERATION_DELETE, "p", "r", etags[i], ""));
    check(f, TW_INVALID, fixture_scan(f, request));
}

STORE_TEST(page_ends_after_much_work)
{
    struct scan_request request = {
        .filter = slice_of("Number eq 100000"), .top = 1000};

    fixture_fill(f, "a", 7000);
    fixture_fill(f, "b", 7000);
    fixture_fill(f, "c", 7000);
    check(f, TW_OK, fixture_scan(f, request));
    assert_int_equal(f->page.count, 0);
    assert_true(f->page.next.more);
    check_keys(f, request, "");
}

STORE_TEST(full_last_page_has_no_successor)
{
    const struct slice none[] = {{"", 0}};
    struct scan_request request = {.top = 100, .select = none};

    fixture_fill(f, "p", 200);
    check(f, TW_OK, fixture_scan(f, request));
    assert_int_equal(f->page.count, 100);
    assert_true(f->page.next.more);
    request.from = f->page.next;
    check(f, TW_OK, fixture_scan(f, request));
    assert_int_equal(f->page.count, 100);
    assert_false(f->page.next.more);
}

/* Returns a random key of a few letters, so that random ranges begin and end
 * between, at and inside keys. Two of the letters are ordered differently in
 * UTF-16 and in UTF-8. */
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

static struct key_range random_bounds(struct fixture *f)
{
    if (platform_random_below(4) == 0)
        return key_range_exact(random_key(f));
    return (struct key_range){
        .has_from = platform_random_below(2),
        .has_below = platform_random_below(2),
        .from_exclusive = platform_random_below(2),
        .from = random_key(f),
        .below = random_key(f),
    };
}

/* Returns the keys in `all` that are in the requested ranges. Tests each key by
 * itself. */
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

MEMORY_TEST(ranges_agree_with_a_plain_look)
{
    const char *all;

    for (int i = 0; i < 900; i++) {
        enum tw_err outcome = insert(f, random_key(f).at, random_key(f).at);

        assert_true(outcome == TW_OK || outcome == TW_CONFLICT);
    }
    all = fixture_all(f);
    for (int i = 0; i < 500; i++) {
        struct scan_request request = {.partition_key = random_bounds(f),
            .row_key = random_bounds(f),
            .top = (unsigned)platform_random_below(50)};

        check_keys(f, request, expected_keys(f, all, &request));
    }
}

MEMORY_TEST(tables_come_in_pages)
{
    struct continuation from = {0};
    size_t count = 0;

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

/* ---- the identity of a store ---- */

static struct slice identity_of(const char *path, struct arena *arena)
{
    struct store *store = store_file_open(path);
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

    store_file_remove(PATH);
    identity = identity_of(PATH, &scratch);
    check_text(identity_of(PATH, &scratch), identity);
    assert_int_equal(rename(PATH, "moved.db"), 0);
    check_text(identity_of("moved.db", &scratch), identity);
    assert_false(slice_equal(identity_of(PATH, &scratch), identity));
    assert_int_equal(unlink("moved.db"), 0);
}

SCRATCH_TEST(a_file_of_a_former_release_is_given_an_identity)
{
    struct slice identity;

    store_file_remove(PATH);
    store_close(store_file_open(PATH));
    store_file_change(PATH, "DROP TABLE identity");
    identity = identity_of(PATH, &scratch);
    check_text(identity_of(PATH, &scratch), identity);
}

/* An earlier release could store an entity whose text was cut inside a
 * character. */
STORE_TEST(a_damaged_entity_comes_with_its_keys_where_asked)
{
    struct scan_request request = {.damaged_too = true};

    (void)fixture_insert(f, "p", "1", "\"A\":1");
    (void)fixture_insert(f, "p", "2", "\"A\":1");
    store_close(f->store);
    store_file_change(PATH, "UPDATE entities SET properties = "
                            "x'7b2254223a22d0227d' WHERE row_key = x'32'");
    f->store = store_file_open(PATH);
    check(f, TW_OK, fixture_scan(f, request));
    assert_int_equal(f->page.count, 2);
    check_text(f->page.entities[1].row_key, slice_of("2"));
    assert_int_equal(f->page.entities[0].property_count, 1);
    assert_int_equal(f->page.entities[1].property_count, 0);
    request.damaged_too = false;
    check(f, TW_FULL, fixture_scan(f, request));
}

/* Version 1 stored keys as UTF-8. */
STORE_TEST(keys_of_a_former_version_are_converted)
{
    static const char all[] =
        "p/\xf0\x9f\x98\x80 p/\xef\xbd\x81 \xee\x80\x80/r";

    (void)fixture_insert(f, "p", "\xef\xbd\x81", "\"A\":1");
    (void)fixture_insert(f, "p", "\xf0\x9f\x98\x80", "\"A\":2");
    (void)fixture_insert(f, "\xee\x80\x80", "r", "\"A\":3");
    check_all(f, all);
    store_close(f->store);
    assert_int_equal(
        store_file_change(PATH, "UPDATE entities SET row_key = x'efbd81'"
                                " WHERE row_key = x'f9bd81';"
                                "UPDATE entities SET partition_key = x'ee8080'"
                                " WHERE partition_key = x'f88080';"
                                "PRAGMA user_version = 1"),
        2);
    f->store = store_file_open(PATH);
    for (int i = 0; i < 2; i++) {
        check_all(f, all);
        (void)fixture_get(f, "p", "\xef\xbd\x81");
        reopen(f);
    }
}

/* A store in memory cannot be opened again, so nothing needs to recognise it.
 */
MEMORY_TEST(a_store_in_memory_has_no_identity)
{
    assert_null(f->store->capabilities.identity);
}
