/* SPDX-License-Identifier: MIT */
/* Shared code of the fuzz targets: failures, and values made from bytes. */
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "config/problems.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/transfer/entity_line.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BUF_MAX_BYTES (4 * 1024 * 1024)

/* ---- beginning and failing ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv);

/*
 * libFuzzer measures the time of a run by the wall clock. If FUZZ_CPU_SECONDS
 * is set, this process gets SIGUSR1 after that many seconds of CPU time. At
 * this signal libFuzzer ends the process.
 */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *seconds = getenv("FUZZ_CPU_SECONDS");
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {.it_interval.tv_sec = 1};
    timer_t timer;

    if (seconds == NULL)
        return 0;
    when.it_value.tv_sec = atol(seconds);
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0)
        abort();
    return 0;
}

void __wrap__exit(int code) __attribute__((noreturn));

/* Called in place of _exit(). No input may end the process, not even when there
 * is no memory. */
void __wrap__exit(int code)
{
    fprintf(stderr, "fuzz: the process was to end with %d\n", code);
    abort();
}

struct slice fuzz_none(void)
{
    return (struct slice){NULL, 0};
}

void fuzz_fail(const char *file, int line, const char *what, struct slice shown)
{
    struct buf text;

    buf_init(&text, 65536);
    text_visible(&text, shown);
    fprintf(stderr, "%s:%d: does not hold: %s%s%s\n", file, line, what,
        text.len > 0 ? ": " : "", buf_text(&text));
    buf_done(&text);
    abort();
}

void fuzz_same(struct slice a, struct slice b, const char *file, int line)
{
    struct buf text;

    if (slice_equal(a, b))
        return;
    buf_init(&text, 65536);
    buf_add_slice(&text, a);
    buf_add_text(&text, " <> ");
    buf_add_slice(&text, b);
    fuzz_fail(file, line, "two texts are the same", buf_slice(&text));
}

/* The buffers that fuzz_buf() gave for this input. */
static struct lent {
    struct lent *next;
    struct buf buf;
} * lent;

struct buf *fuzz_buf(void)
{
    struct lent *one = mem_alloc(sizeof(*one));

    buf_init(&one->buf, BUF_MAX_BYTES);
    one->next = lent;
    lent = one;
    return &one->buf;
}

static void take_back(void)
{
    while (lent) {
        struct lent *one = lent;

        lent = one->next;
        buf_done(&one->buf);
        mem_free(one);
    }
}

int fuzz_play(const uint8_t *at, size_t len,
    void (*target)(struct slice text, struct fuzz_source *in))
{
    char *copy = malloc(len);
    struct arena arena;
    struct fuzz_source in = {at, len, &arena, at, len};

    if (len > 0)
        memcpy(copy, at, len);
    arena_init(&arena);
    target((struct slice){copy, len}, &in);
    take_back();
    arena_done(&arena);
    free(copy);
    return 0;
}

void fuzz_again(struct fuzz_source *in)
{
    in->at = in->input;
    in->left = in->input_len;
}

void fuzz_said(const struct err *err)
{
    struct slice text = {err->text, strnlen(err->text, sizeof(err->text))};

    FUZZ_CHECK(text.len > 0 && text.len < sizeof(err->text));
    if (!text_is_utf8(text))
        fuzz_fail(__FILE__, __LINE__, "a sentence is UTF-8", text);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            fuzz_fail(__FILE__, __LINE__,
                "a sentence has no control characters", text);
}

void fuzz_problems(const struct problems *problems)
{
    FUZZ_CHECK(problems->count <= problems->errors + problems->warnings);
    for (size_t i = 0; i < problems->count; i++) {
        struct slice text = slice_of(problems->list[i].text);

        if (text.len == 0 || !text_is_utf8(text))
            fuzz_fail(__FILE__, __LINE__, "a problem is UTF-8", text);
        FUZZ_CHECK(problems->list[i].mark.line >= 1);
        FUZZ_CHECK(problems->list[i].mark.column >= 1);
    }
}

/* ---- numbers ---- */

unsigned fuzz_byte(struct fuzz_source *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static uint64_t word_of(struct fuzz_source *in, size_t bytes)
{
    uint64_t word = 0;

    while (bytes-- > 0)
        word = word << 8 | fuzz_byte(in);
    return word;
}

uint64_t fuzz_below(struct fuzz_source *in, uint64_t n)
{
    return word_of(in, n <= 256 ? 1 : n <= 65536 ? 2 : 8) % n;
}

bool fuzz_yes(struct fuzz_source *in)
{
    return fuzz_byte(in) & 1;
}

int64_t fuzz_int64(struct fuzz_source *in)
{
    static const int64_t ends[] = {0, 1, -1, 9, 10, INT32_MAX, INT32_MIN,
        (int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, INT64_C(1) << 53,
        (INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN, INT64_MAX - 1,
        INT64_MIN + 1, 100};
    unsigned choice = fuzz_byte(in);

    if (choice < 128)
        return ends[choice % COUNT(ends)];
    return (int64_t)word_of(in, choice < 192 ? 2 : 8);
}

double fuzz_double(struct fuzz_source *in)
{
    static const double ends[] = {0.0, -0.0, 1.0, 1e15, 1e16, 1e17, 1e-4, 1e-5,
        0.1, 1.0 / 3, 4.9e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
        9007199254740993.0, 123456789012345680.0, -1.5};
    unsigned choice = fuzz_byte(in);
    uint64_t bits;
    double value;

    if (choice < 96)
        return ends[choice % COUNT(ends)];
    if (choice < 108)
        return choice % 3 == 0   ? (double)NAN
               : choice % 3 == 1 ? (double)INFINITY
                                 : -(double)INFINITY;
    bits = word_of(in, 8);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

int64_t fuzz_ticks(struct fuzz_source *in)
{
    static const int64_t ends[] = {TICKS_1601, TICKS_MAX, TICKS_1970,
        TICKS_MAX - 9999999, TICKS_1970 - 1,
        INT64_C(630822816000000000) /* 2000-01-01 */,
        INT64_C(630873791999999999) /* the end of 2000-02-28 */,
        TICKS_1601 + 1};
    unsigned choice = fuzz_byte(in);

    if (choice < 64)
        return ends[choice % COUNT(ends)];
    return TICKS_1601 +
           (int64_t)(word_of(in, 8) % (uint64_t)(TICKS_MAX - TICKS_1601 + 1));
}

/* ---- texts ---- */

struct slice fuzz_bytes(struct fuzz_source *in, size_t max)
{
    size_t len = (size_t)fuzz_below(in, max + 1);
    struct slice taken = {
        (const char *)in->at, len < in->left ? len : in->left};

    in->at += taken.len;
    in->left -= taken.len;
    return arena_copy(in->arena, taken);
}

static uint32_t code_point(struct fuzz_source *in)
{
    static const uint32_t liked[] = {'"', '\\', '\'', '/', '&', '<', '>', ']',
        '{', '}', '%', '#', '?', '+', ' ', ',', ';', ':', '\r', '\n', '\t', 0,
        1, 0x1f, 0x7f, 0x80, 0x9f, 0xa0, 0xdf, 0x130, 0x7ff, 0x800, 0xd7ff,
        0xe000, 0x202e, 0x2028, 0xfeff, 0xfffd, 0xff21, 0x10000, 0x1f600,
        0x10fffd};
    unsigned choice = fuzz_byte(in);
    uint32_t c;

    if (choice >= 0x20 && choice < 0x7f)
        return choice;
    if (choice < 0xe0)
        return liked[choice % COUNT(liked)];
    c = (uint32_t)word_of(in, 3) % 0x110000;
    return c >= 0xd800 && c < 0xe000 ? 0xfffd : c;
}

static struct slice text_of(
    struct fuzz_source *in, size_t max, bool (*takes)(uint32_t c))
{
    size_t count = (size_t)fuzz_below(in, max + 1);
    struct slice text;
    struct buf buf;

    buf_init(&buf, 4 * max + 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t c = code_point(in);

        text_encode(&buf, takes(c) ? c : 'x');
    }
    text = arena_copy(in->arena, buf_slice(&buf));
    buf_done(&buf);
    return text;
}

static bool any(uint32_t c)
{
    return true;
}

static bool in_key(uint32_t c)
{
    return c >= 0x20 && (c < 0x7f || c > 0x9f) && c != '/' && c != '\\' &&
           c != '#' && c != '?';
}

static bool in_xml(uint32_t c)
{
    return (c >= 0x20 || c == '\t' || c == '\n' || c == '\r') && c != 0xffff &&
           c != 0xfffe;
}

struct slice fuzz_text(struct fuzz_source *in, size_t max)
{
    return text_of(in, max, any);
}

struct slice fuzz_key(struct fuzz_source *in, size_t max)
{
    return text_of(in, max, in_key);
}

struct slice fuzz_xml_text(struct fuzz_source *in, size_t max)
{
    return text_of(in, max, in_xml);
}

struct slice fuzz_word(struct fuzz_source *in, size_t min, size_t max)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR"
                                  "STUVWXYZ0123456789";
    size_t len = min + (size_t)fuzz_below(in, max - min + 1);
    char *word = arena_alloc(in->arena, len + 1);

    for (size_t i = 0; i < len; i++)
        word[i] = letters[fuzz_below(in, i == 0 ? 52 : 62)];
    return (struct slice){word, len};
}

/* Returns the name of a property. */
static struct slice name_of(struct fuzz_source *in)
{
    static const char *const names[] = {"A", "b", "Value", "a_b", "_",
        "\xc3\x9f", "\xe6\x97\xa5", "PartitionKey2", "odata", "Rowkey"};
    unsigned choice = fuzz_byte(in);

    if (choice < 128)
        return slice_of(names[choice % COUNT(names)]);
    return fuzz_word(in, 1, 16);
}

struct slice fuzz_etag(struct fuzz_source *in)
{
    return arena_format(in->arena, "W/\"datetime'%016" PRIx64 "'\"",
        fuzz_below(in, UINT64_MAX));
}

void fuzz_add_doubled(struct buf *to, struct slice text, const char *which)
{
    for (size_t i = 0; i < text.len; i++) {
        buf_add_char(to, text.at[i]);
        if (text.at[i] != '\0' && strchr(which, text.at[i]))
            buf_add_char(to, text.at[i]);
    }
}

/* ---- entities ---- */

struct slice fuzz_base64(struct slice bytes, struct arena *arena)
{
    struct buf *base64 = fuzz_buf();

    crypto_base64(base64, bytes);
    return arena_copy(arena, buf_slice(base64));
}

struct property fuzz_binary(
    struct slice name, struct slice bytes, struct arena *arena)
{
    struct slice base64 = fuzz_base64(bytes, arena);

    return (struct property){
        name, EDM_BINARY, arena_format(arena, "\"%.*s\"", SLICE_ARG(base64))};
}

static void set_property(
    struct fuzz_source *in, struct entity *entity, struct slice name)
{
    const char *text = arena_copy(in->arena, name).at;
    enum edm_type type = (enum edm_type)fuzz_below(in, 8);
    struct property property = {name, type, fuzz_none()};

    switch (type) {
    case EDM_STRING:
        entity_set_string(entity, in->arena, text, fuzz_text(in, 40));
        return;
    case EDM_INT32:
        entity_set_int32(entity, in->arena, text, (int32_t)fuzz_int64(in));
        return;
    case EDM_INT64:
        entity_set_int64(entity, in->arena, text, fuzz_int64(in));
        return;
    case EDM_BOOLEAN:
        entity_set_boolean(entity, in->arena, text, fuzz_yes(in));
        return;
    case EDM_DOUBLE:
        entity_set_double(entity, in->arena, text, fuzz_double(in));
        return;
    case EDM_DATETIME:
        entity_set_datetime(entity, in->arena, text, fuzz_ticks(in));
        return;
    case EDM_GUID:
        property.json = arena_format(in->arena,
            "\"%08x-%04x-%04X-%04x-%012" PRIx64 "\"", (unsigned)word_of(in, 4),
            (unsigned)word_of(in, 2), (unsigned)word_of(in, 2),
            (unsigned)word_of(in, 2), word_of(in, 6));
        break;
    case EDM_BINARY:
        property = fuzz_binary(name, fuzz_bytes(in, 48), in->arena);
        break;
    }
    entity_set(entity, in->arena, &property);
}

static void add_properties(struct fuzz_source *in, struct entity *entity)
{
    size_t count = (size_t)fuzz_below(in, 13);

    for (size_t i = 0; i < count; i++)
        set_property(in, entity, name_of(in));
}

struct entity fuzz_entity(struct fuzz_source *in)
{
    struct slice partition_key = fuzz_key(in, 20);
    struct slice row_key = fuzz_key(in, 20);
    struct entity entity;

    entity_init(&entity, in->arena, partition_key, row_key);
    add_properties(in, &entity);
    return entity;
}

struct batch fuzz_batch(struct fuzz_source *in, size_t max)
{
    size_t count = 1 + (size_t)fuzz_below(in, max);
    struct operation *operations =
        arena_alloc(in->arena, count * sizeof(*operations));
    struct slice partition_key = fuzz_key(in, 20);

    for (size_t i = 0; i < count; i++) {
        struct entity *entity = &operations[i].entity;
        struct slice key = fuzz_key(in, 20);

        operations[i].type = (enum operation_type)fuzz_below(in, 4);
        entity_init(entity, in->arena, partition_key,
            arena_format(in->arena, "%.*s%zu", SLICE_ARG(key), i));
        add_properties(in, entity);
        if (operations[i].type != OPERATION_INSERT)
            entity->etag = fuzz_etag(in);
    }
    return (struct batch){fuzz_word(in, 3, 63).at, operations, count};
}

bool fuzz_entities_equal(const struct entity *a, const struct entity *b)
{
    if (!slice_equal(a->partition_key, b->partition_key) ||
        !slice_equal(a->row_key, b->row_key) ||
        a->property_count != b->property_count)
        return false;
    for (size_t i = 0; i < a->property_count; i++)
        if (!slice_equal(a->properties[i].name, b->properties[i].name) ||
            !property_equal(&a->properties[i], &b->properties[i]))
            return false;
    return true;
}

void fuzz_stored(const struct entity *entity, struct arena *arena)
{
    struct buf *first = fuzz_buf(), *second = fuzz_buf();
    struct entity again;
    struct err err;
    size_t end;

    entity_write(entity, first);
    FUZZ_CHECK(!first->overflow);
    FUZZ_CHECK(memchr(first->at, '\n', first->len) == NULL);
    FUZZ_CHECK(entity_json_bytes(entity) <= first->len);
    if (entity_parse(buf_slice(first), true, arena, &again, &end, &err) !=
        TW_OK)
        fuzz_fail(__FILE__, __LINE__, err.text, buf_slice(first));
    FUZZ_CHECK(end == first->len);
    FUZZ_CHECK(fuzz_entities_equal(entity, &again));
    entity_write(&again, second);
    FUZZ_SAME(buf_slice(first), buf_slice(second));
}

void fuzz_same_line(const struct entity *entity, struct arena *arena)
{
    struct buf *line = fuzz_buf();
    struct entity again;
    bool blank;

    FUZZ_CHECK(entity->etag.len == 0);
    FUZZ_CHECK(entity_check(entity, NULL) == TW_OK);
    entity_write(entity, line);
    FUZZ_CHECK(entity_line(buf_slice(line), false, arena, &again, &blank,
                   NULL) == TW_OK);
    FUZZ_CHECK(!blank && fuzz_entities_equal(&again, entity));
}

/* ---- files ---- */

struct fuzz_file fuzz_file(struct slice text)
{
    struct fuzz_file file = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};

    if (file.fd < 0 || write(file.fd, text.at, text.len) != (ssize_t)text.len) {
        perror("fuzz: a file in memory");
        abort();
    }
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
    return file;
}

void fuzz_file_done(struct fuzz_file *file)
{
    close(file->fd);
}
