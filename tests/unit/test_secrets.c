/* SPDX-License-Identifier: MIT */
/*
 * Where secrets remain in memory: the whole writable memory of this process is
 * searched for pieces of them. So this test itself never has a secret in one
 * piece: it makes each byte when it needs it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/cli/load.h"
#include "worker/store/store.h"

#define CONFIGURATION "secrets.yaml"
#define FILE_NAME "secret"
/* A key of 64 bytes has 88 characters in base64. */
#define KEY_BYTES 64
#define KEY_LETTERS 88
/* Number of bytes of the secret, from its middle, that are searched for. */
#define PIECE 24
#define CHUNK 65536
#define MASK 0x5a

#define FROM_FILE(name)                                                        \
    "stores: {cloud: {azure: {connection_string_file: " name "}}}\n"

struct fixture {
    struct load *load;
    struct problems problems;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    problems_init(&f->problems);
    unsetenv("STATE_DIRECTORY");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    load_free(f->load);
    problems_done(&f->problems);
    free(f);
    (void)unlink(CONFIGURATION);
    (void)unlink(FILE_NAME);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down, struct fixture *f)

/* ---- the secret ---- */

static unsigned char raw_byte(size_t at)
{
    return (unsigned char)(at * 37 + 101);
}

static char letter(size_t at)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t group = at / 4 * 3;
    uint32_t bits = 0;

    if (at >= KEY_LETTERS - 2)
        return '=';
    for (size_t i = 0; i < 3; i++)
        bits = bits << 8 | (group + i < KEY_BYTES ? raw_byte(group + i) : 0);
    return LETTERS[bits >> (18 - 6 * (at % 4)) & 63];
}

static char raw_char(size_t at)
{
    return (char)raw_byte(at);
}

/* ---- the search ---- */

/* Reads CHUNK bytes of this process's memory to `to`, and masks them there at
 * once, so that the search does not find the secret in `to`. */
static size_t read_masked(int memory, uintptr_t from, unsigned char to[CHUNK])
{
    ssize_t got = pread(memory, to, CHUNK, (off_t)from);

    for (ssize_t i = 0; i < got; i++)
        to[i] ^= MASK;
    return got > 0 ? (size_t)got : 0;
}

static unsigned count_in(const unsigned char *masked, size_t len,
    char (*secret)(size_t at), size_t first)
{
    unsigned count = 0;

    for (size_t i = 0; i + PIECE <= len; i++) {
        size_t same = 0;

        while (same < PIECE &&
               masked[i + same] == ((unsigned char)secret(first + same) ^ MASK))
            same++;
        count += same == PIECE;
    }
    return count;
}

static unsigned count_between(
    uintptr_t from, uintptr_t to, char (*secret)(size_t at), size_t first)
{
    static unsigned char masked[CHUNK];
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    unsigned count = 0;

    assert_true(memory >= 0);
    while (from < to) {
        size_t got = read_masked(memory, from, masked);

        if (got > to - from)
            got = to - from;
        count += count_in(masked, got, secret, first);
        if (got <= PIECE || got == to - from)
            break;
        from += got - PIECE + 1; /* a copy of the secret may lie across the end
                                    of this piece */
    }
    (void)close(memory);
    return count;
}

/* Searches the writable memory of the process for the PIECE bytes of the secret
 * that begin at index `first`. Returns the number of copies. */
static unsigned copies(char (*secret)(size_t at), size_t first)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long from, to;
    unsigned count = 0;
    char line[512], mode[8];

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 &&
            mode[0] == 'r' && mode[1] == 'w')
            count += count_between(from, to, secret, first);
    (void)fclose(maps);
    return count;
}

static unsigned copies_of_text(void)
{
    return copies(letter, 30);
}

static unsigned copies_of_key(void)
{
    return copies(raw_char, 20);
}

/* ---- files ---- */

static void write_text(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* Writes a file with `before`, the key and `after`; after NULL: only with
 * `before`. */
static void write_file(const char *path, const char *before, const char *after)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    write_text(fd, before);
    for (size_t i = 0; after && i < KEY_LETTERS; i++) {
        char c = letter(i);

        assert_int_equal(write(fd, &c, 1), 1);
    }
    write_text(fd, after ? after : "");
    (void)close(fd);
}

static void skip_where_memory_is_not_ours(void)
{
#ifndef MEM_HAS_LIBRARIES
    skip(); /* a sanitizer maps terabytes and keeps what was freed */
#endif
}

static void load(struct fixture *f)
{
    struct err err;

    skip_where_memory_is_not_ours();
    assert_ok(
        load_read(CONFIGURATION, LOAD_SOME, &f->load, &f->problems, &err));
    assert_ok(load_store(f->load, 0, true, &err));
}

static void unload(struct fixture *f)
{
    load_free(f->load);
    f->load = NULL;
}

static void unload_and_forget(struct fixture *f)
{
    unload(f);
    assert_int_equal(copies_of_text(), 0);
    assert_int_equal(copies_of_key(), 0);
}

/* ---- tests ---- */

/* The text of a key is not kept, only its decoded bytes, which sign requests.
 * The copies that are found show that the search works. */
FIXTURE_TEST(a_secret_of_a_file_is_kept_once_at_most)
{
    static const struct {
        const char *before, *after, *configuration;
        bool is_key;
    } CASES[] = {
        {"AccountName=acc;AccountKey=", ";EndpointSuffix=core.windows.net\n",
            FROM_FILE(FILE_NAME), true},
        {"", "\n",
            "stores: {cloud: {azure: {account: acc, key_file: " FILE_NAME
            "}}}\n",
            true},
        {"sv=2019-02-02&ss=tq&sig=", "\n",
            "stores: {cloud: {azure: {account: acc, sas_file: " FILE_NAME
            "}}}\n",
            false},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        write_file(FILE_NAME, CASES[i].before, CASES[i].after);
        write_file(CONFIGURATION, CASES[i].configuration, NULL);
        load(f);
        assert_int_equal(copies_of_text(), CASES[i].is_key ? 0 : 1);
        assert_int_equal(copies_of_key() > 0, CASES[i].is_key);
        unload_and_forget(f);
    }
}

/* Sends requests, which fail because nothing listens at the endpoint. */
static void send_requests(struct store *store)
{
    struct exchange exchange = {0};
    struct page page;

    page_init(&page);
    for (int i = 0; i < 5; i++)
        assert_int_not_equal(store_get(store, &exchange, "Blogs", slice_of("a"),
                                 slice_of("b"), &page),
            TW_OK);
    page_done(&page);
}

/* libcurl keeps two copies of the last URL with its idle handle. */
FIXTURE_TEST(a_signature_that_was_sent_is_not_in_freed_memory)
{
    write_file(FILE_NAME,
        "TableEndpoint=http://127.0.0.1:9/acc;QueueEndpoint="
        "http://127.0.0.1:9/acc;SharedAccessSignature=sv=2019-02-02&sig=",
        "\n");
    write_file(CONFIGURATION, FROM_FILE(FILE_NAME), NULL);
    load(f);
    send_requests(f->load->open[0]);
    assert_in_range(copies_of_text(), 1, 3);
    unload_and_forget(f);
}

/* A secret that is written in the configuration lives as long as the loaded
 * configuration. */
FIXTURE_TEST(a_secret_in_the_configuration_goes_with_it)
{
    write_file(CONFIGURATION,
        "# A comment\nstores:\n  cloud:\n    azure:\n      connection_string: "
        "\"AccountName=acc;AccountKey=",
        ";EndpointSuffix=core.windows.net\"\n");
    load(f);
    assert_true(copies_of_text() <= 3); /* file text, YAML node, setting */
    unload_and_forget(f);
}

/* Memory for putenv(). setenv() would leave copies of the secret. */
static char variable[200] = "TEST_SECRET=AccountName=acc;AccountKey=";

static void set_variable(void)
{
    size_t len = strlen(variable);

    for (size_t i = 0; i < KEY_LETTERS; i++)
        variable[len++] = letter(i);
    assert_int_equal(putenv(variable), 0);
}

FIXTURE_TEST(a_secret_of_the_environment_stays_there_alone)
{
    set_variable();
    write_file(CONFIGURATION,
        "stores: {cloud: {azure: {connection_string: '${TEST_SECRET}'}}}\n",
        NULL);
    load(f);
    assert_int_equal(copies_of_text(), 2);
    unload(f);
    assert_int_equal(copies_of_text(), 1);
    unsetenv("TEST_SECRET");
    crypto_wipe(variable, sizeof(variable));
}

/* A configuration that is refused is forgotten too. */
FIXTURE_TEST(a_secret_beside_a_mistake_is_not_kept)
{
    struct err err;

    skip_where_memory_is_not_ours();
    write_file(CONFIGURATION,
        "stores: {cloud: {azure: {connection_string: \"AccountKey=",
        "\"}}}\njob: 1\n");
    assert_int_equal(
        load_read(CONFIGURATION, LOAD_SOME, &f->load, &f->problems, &err),
        TW_INVALID);
    assert_int_equal(copies_of_text(), 0);
}
