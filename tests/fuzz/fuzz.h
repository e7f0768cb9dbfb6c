/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the fuzz targets. A target is a file target_NAME.c with one
 * function
 *
 *     FUZZ_TARGET(NAME) { ... text ... in ... }
 *
 * The function gives `text`, the input, to every reader of its codec. Then it
 * uses the same bytes, as `in`, to make values, and checks that a value which
 * is written is read back the same. For libFuzzer the linker renames
 * target_NAME() to LLVMFuzzerTestOneInput; the unit test fuzz_corpora calls all
 * targets.
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

/* fuzz_play: runs a target with one input. The memory of text ends with its
 * last byte, so that a sanitizer notices a read beyond it. Returns 0. */
int fuzz_play(const uint8_t *at, size_t len,
    void (*target)(struct slice text, struct fuzz_source *in));

/* FUZZ_CHECK: aborts if the condition is false. It must be true for any
 * input. */
#define FUZZ_CHECK(condition)                                                  \
    do {                                                                       \
        if (!(condition))                                                      \
            fuzz_fail(__FILE__, __LINE__, #condition, fuzz_none());            \
    } while (0)

/* FUZZ_SAME: aborts unless the two texts are equal, and shows both. */
#define FUZZ_SAME(a, b) fuzz_same((a), (b), __FILE__, __LINE__)

void fuzz_fail(const char *file, int line, const char *what, struct slice shown)
    __attribute__((noreturn));
void fuzz_same(struct slice a, struct slice b, const char *file, int line);
struct slice fuzz_none(void);

/* fuzz_buf: returns an empty buffer; borrowed until the target returns. */
struct buf *fuzz_buf(void);

/* fuzz_said: aborts if err has no text, or if the text is not UTF-8 or has
 * control characters. */
void fuzz_said(const struct err *err);

/* fuzz_problems: aborts unless each problem has a text in UTF-8 and a
 * position. */
void fuzz_problems(const struct problems *problems);

/* ---- made-up values ---- */

/* Bytes from which values are made. After the last byte, all further bytes are
 * zero. */
struct fuzz_source {
    const uint8_t *at;
    size_t left;
    struct arena *arena; /* the values live here */
    const uint8_t *input;
    size_t input_len;
};

/* fuzz_again: starts again at the first byte. */
void fuzz_again(struct fuzz_source *in);

/* FUZZ_PICK: returns an element of an array. */
#define FUZZ_PICK(in, list)                                                    \
    ((list)[fuzz_below((in), sizeof(list) / sizeof((list)[0]))])

/* fuzz_byte: returns the next byte.
 * fuzz_below: returns a number from 0 to n - 1; n is at least 1. */
unsigned fuzz_byte(struct fuzz_source *in);
uint64_t fuzz_below(struct fuzz_source *in, uint64_t n);
bool fuzz_yes(struct fuzz_source *in);
int64_t fuzz_int64(struct fuzz_source *in); /* often an end of a range */
double fuzz_double(struct fuzz_source *in); /* any bits: NaN, -0.0, ...  */
int64_t fuzz_ticks(struct fuzz_source *in); /* 1601 to 9999             */

/* fuzz_bytes: returns up to max bytes of the input as they are. */
struct slice fuzz_bytes(struct fuzz_source *in, size_t max);

/* fuzz_text: returns up to max characters of valid UTF-8, also NUL; often
 * characters that codecs escape.
 * fuzz_key: the same without the characters that are not allowed in keys.
 * fuzz_word: returns min to max letters and digits, with a letter first and a
 * zero byte at the end. */
struct slice fuzz_text(struct fuzz_source *in, size_t max);
/* fuzz_xml_text: as fuzz_text(), without the characters that XML does not
 * allow. */
struct slice fuzz_xml_text(struct fuzz_source *in, size_t max);
struct slice fuzz_key(struct fuzz_source *in, size_t max);
struct slice fuzz_word(struct fuzz_source *in, size_t min, size_t max);

/* fuzz_etag: returns an ETag as the service writes it. */
struct slice fuzz_etag(struct fuzz_source *in);

/* fuzz_base64: returns bytes in base64. */
struct slice fuzz_base64(struct slice bytes, struct arena *arena);

/* fuzz_binary: returns a property with this name. It is a Binary of these
 * bytes. */
struct property fuzz_binary(
    struct slice name, struct slice bytes, struct arena *arena);

/* fuzz_add_doubled: adds text, with each character of `which` doubled. */
void fuzz_add_doubled(struct buf *to, struct slice text, const char *which);

/* fuzz_entity: returns an entity with keys and up to 12 properties of any of
 * the eight types. */
struct entity fuzz_entity(struct fuzz_source *in);

/* fuzz_batch: returns a batch of up to max operations, with one PartitionKey
 * and different RowKeys. */
struct batch fuzz_batch(struct fuzz_source *in, size_t max);

/* fuzz_entities_equal: returns whether the keys are equal, and the properties
 * are equal in order, names, types and values. */
bool fuzz_entities_equal(const struct entity *a, const struct entity *b);

/* fuzz_stored: writes the entity as JSON and reads it back. Aborts unless the
 * JSON is one line, the entity read back is equal, and it gives the same line
 * again. */
void fuzz_stored(const struct entity *entity, struct arena *arena);

/* fuzz_same_line: writes an entity that import has made as a line, and imports
 * the line. Aborts unless the entity is valid and has no ETag, and the
 * imported entity is equal. */
void fuzz_same_line(const struct entity *entity, struct arena *arena);

/* ---- a file that is a text ---- */

/* fuzz_file: makes a file with this text, whose path is "/proc/self/fd/N".
 * fuzz_file_done() removes it. */
struct fuzz_file {
    int fd;
    char path[40];
};
struct fuzz_file fuzz_file(struct slice text);
void fuzz_file_done(struct fuzz_file *file);

#endif
