/* SPDX-License-Identifier: MIT */
/*
 * What fuzz targets share. A target is a file target_NAME.c with one function
 *
 *     FUZZ_TARGET(NAME) { ... text ... in ... }
 *
 * which gives text, the input, to every reader of its codec and then takes the
 * same bytes, in, as the source of made-up values, for which it checks that
 * what is written is read back. With libFuzzer the linker calls target_NAME()
 * LLVMFuzzerTestOneInput; the unit test fuzz_corpora calls all of them.
 */
#ifndef TW_TESTS_FUZZ_FUZZ_H
#define TW_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"
#include "worker/store/store.h"

struct problems;
struct fuzz_source;

#define FUZZ_TARGET(name)                                                      \
    static void play_##name(struct slice text, struct fuzz_source *in);        \
    int target_##name(const uint8_t *at, size_t len);                          \
    int target_##name(const uint8_t *at, size_t len)                           \
    {                                                                          \
        return fuzz_play(at, len, play_##name);                                \
    }                                                                          \
    static void play_##name(struct slice text, struct fuzz_source *in)

/* fuzz_play: one input. text has memory of its own size, so that a read beyond
 * it is seen. 0. */
int fuzz_play(const uint8_t *at, size_t len,
    void (*target)(struct slice text, struct fuzz_source *in));

/* FUZZ_CHECK: what must hold for any input. Else the process aborts. */
#define FUZZ_CHECK(condition)                                                  \
    do {                                                                       \
        if (!(condition))                                                      \
            fuzz_fail(__FILE__, __LINE__, #condition, fuzz_none());            \
    } while (0)

/* FUZZ_SAME: two texts are the same; both are shown where not. */
#define FUZZ_SAME(a, b) fuzz_same((a), (b), __FILE__, __LINE__)

void fuzz_fail(const char *file, int line, const char *what, struct slice shown)
    __attribute__((noreturn));
void fuzz_same(struct slice a, struct slice b, const char *file, int line);
struct slice fuzz_none(void);

/* fuzz_buf: an empty one; borrowed until the end of the input. */
struct buf *fuzz_buf(void);

/* fuzz_said: a failure has its sentence: not empty, UTF-8, without control
 * characters. */
void fuzz_said(const struct err *err);

/* fuzz_problems: each is a sentence, and has a place. */
void fuzz_problems(const struct problems *problems);

/* ---- made-up values ---- */

/* Bytes that decide; beyond the last one they are all zero. */
struct fuzz_source {
    const uint8_t *at;
    size_t left;
    struct arena *arena; /* what is made lives here */
    const uint8_t *input;
    size_t input_len;
};

/* fuzz_again: from the first byte on. */
void fuzz_again(struct fuzz_source *in);

/* FUZZ_PICK: one of an array. */
#define FUZZ_PICK(in, list)                                                    \
    ((list)[fuzz_below((in), sizeof(list) / sizeof((list)[0]))])

/* fuzz_byte; fuzz_below: 0 .. n - 1, n at least 1. */
unsigned fuzz_byte(struct fuzz_source *in);
uint64_t fuzz_below(struct fuzz_source *in, uint64_t n);
bool fuzz_yes(struct fuzz_source *in);
int64_t fuzz_int64(struct fuzz_source *in); /* likes the ends of ranges */
double fuzz_double(struct fuzz_source *in); /* any bits: NaN, -0.0, ...  */
int64_t fuzz_ticks(struct fuzz_source *in); /* 1601 to 9999             */

/* fuzz_bytes: up to max of the bytes themselves. */
struct slice fuzz_bytes(struct fuzz_source *in, size_t max);

/* fuzz_text: up to max characters of valid UTF-8, NULs among them; likes what
 * codecs escape. fuzz_key: the same without what keys forbid. fuzz_name: the
 * name of a property. fuzz_word: letters and digits, a letter first, NUL-
 * terminated, min to max long. */
struct slice fuzz_text(struct fuzz_source *in, size_t max);
/* fuzz_xml_text: without the characters that XML has no way to say. */
struct slice fuzz_xml_text(struct fuzz_source *in, size_t max);
struct slice fuzz_key(struct fuzz_source *in, size_t max);
struct slice fuzz_name(struct fuzz_source *in);
struct slice fuzz_word(struct fuzz_source *in, size_t min, size_t max);

/* fuzz_etag: as the service writes them. */
struct slice fuzz_etag(struct fuzz_source *in);

/* fuzz_base64_json: the JSON of a Binary. */
struct slice fuzz_base64_json(struct fuzz_source *in, struct slice bytes);

/* fuzz_add_doubled: text, in which each character of which stands twice. */
void fuzz_add_doubled(struct buf *to, struct slice text, const char *which);

/* fuzz_entity: keys and up to 12 properties of any of the eight types. */
struct entity fuzz_entity(struct fuzz_source *in);

/* fuzz_batch: a batch of up to max operations, one PartitionKey, each
 * RowKey once. */
struct batch fuzz_batch(struct fuzz_source *in, size_t max);

/* fuzz_entities_equal: the same keys, and the same properties in the same
 * order with the same types and values. */
bool fuzz_entities_equal(const struct entity *a, const struct entity *b);

/* fuzz_parse: the entity that is all of json; keys: it must have them. A
 * failure shows json. */
struct entity fuzz_parse(struct slice json, bool keys, struct arena *arena);

/* fuzz_same_line: as a line that is imported it is the same. */
void fuzz_same_line(const struct entity *entity, struct arena *arena);

/* fuzz_same_page: entity by entity. */
void fuzz_same_page(const struct page *a, const struct page *b);

/* ---- a file that is a text ---- */

/* fuzz_file: "/proc/self/fd/N", which can be opened and reads as text; the
 * file is gone with fuzz_file_done(). */
struct fuzz_file {
    int fd;
    char path[40];
};
struct fuzz_file fuzz_file(struct slice text);
void fuzz_file_done(struct fuzz_file *file);

#endif
