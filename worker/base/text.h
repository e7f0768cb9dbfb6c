/* SPDX-License-Identifier: MIT */
/*
 * Numbers, durations, times, UTF-8, percent-encoding, the nearest name: pure
 * functions over text. A parser accepts the whole slice or refuses it.
 */
#ifndef TW_BASE_TEXT_H
#define TW_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"

#define TICKS_PER_MS INT64_C(10000)
#define TICKS_PER_S INT64_C(10000000)
/* 1970-01-01, 1601-01-01 and the end of 9999 in ticks. */
#define TICKS_1970 INT64_C(621355968000000000)
#define TICKS_1601 INT64_C(504911232000000000)
#define TICKS_MAX INT64_C(3155378975999999999)

/* text_int64: parse a decimal number from min to max, with an optional '-'. */
bool text_int64(struct slice text, int64_t min, int64_t max, int64_t *ret);

/* text_double: parse a finite JSON number. */
bool text_double(struct slice text, double *ret);

/* text_duration_ms: parse 500ms, 30s, 5m, 2h, 90d (a whole number and a unit),
 * or 0. */
bool text_duration_ms(struct slice text, int64_t *ret_ms);

/* text_size_bytes: parse 100, 64KiB, 4MiB, 1GiB. */
bool text_size_bytes(struct slice text, int64_t *ret_bytes);

/* text_ticks: parse 2024-01-01T00:00:00Z with 0 to 7 fractional digits; instead
 * of Z an offset +hh:mm is accepted, because the member `at` of a message may
 * have one; years 1 to 9999. */
bool text_ticks(struct slice text, int64_t *ret_ticks);

/* Size of a buffer for any time that the functions below write. */
#define TEXT_TIME_MAX 40

/* text_from_ticks: write 2024-01-01T00:00:00.1234567Z, always with seven
 * digits, to `to`, which holds TEXT_TIME_MAX bytes. Returns `to`. */
const char *text_from_ticks(int64_t ticks, char *to);

/* text_http_date: like text_from_ticks(), in the form Mon, 01 Jan 2024 00:00:00
 * GMT (RFC 1123). */
const char *text_http_date(int64_t ticks, char *to);
bool text_parse_http_date(struct slice text, int64_t *ret_ticks);

struct text_date {
    int year, month, day, hour, minute, second;
    int fraction; /* fraction of the second in ticks, 0..9999999 */
};
struct text_date text_date_of(int64_t ticks);

/* text_is_utf8: is text well-formed UTF-8, without surrogates and up to
 * U+10FFFF? NUL is accepted. */
bool text_is_utf8(struct slice text);

/* text_utf16_units: return the length of a valid UTF-8 text in UTF-16 units. */
size_t text_utf16_units(struct slice text);

/* text_utf16_compare: compare by UTF-16 units, as the service orders keys. */
int text_utf16_compare(struct slice a, struct slice b);

/* text_decode: return the code point at the start of text, which must be valid
 * UTF-8 and not empty. *ret_len: the length of the code point in bytes. */
uint32_t text_decode(struct slice text, size_t *ret_len);

/* text_put: write a code point (not a surrogate) as UTF-8, and return its
 * length in bytes: at most TEXT_CHARACTER_MAX. */
#define TEXT_CHARACTER_MAX 4
size_t text_put(uint32_t code_point, char *to);

/* text_encode: add a code point (not a surrogate) as UTF-8. */
void text_encode(struct buf *to, uint32_t code_point);

/* text_percent_encode: add text with all bytes but A-Z a-z 0-9 - . _ ~ as
 * %XX. */
void text_percent_encode(struct buf *to, struct slice text);

/* text_percent_decode: add text with %XX decoded. False: a % is not followed by
 * two hex digits. */
bool text_percent_decode(struct buf *to, struct slice text);

/* text_is_hidden: does a terminal or a text viewer not show code_point as it
 * is? Controls (C0, DEL, C1), line and paragraph separators, changes of
 * direction, characters without width; all are at most U+FFFF. */
bool text_is_hidden(uint32_t code_point);

/* text_visible: add text with hidden characters (text_is_hidden()) and invalid
 * bytes as escapes: \xXX, \uXXXX. */
void text_visible(struct buf *to, struct slice text);

/* text_mask_secrets: overwrite with * the values of AccountKey,
 * SharedAccessSignature and sig, as connection strings and SAS write them. An
 * operator may have put one in a wrong place. Returns whether there were any.
 */
bool text_mask_secrets(char *text);

/*
 * text_cut: return the longest prefix of text that has at most max_bytes bytes
 * and ends at a character boundary. Use this function to cut any text that may
 * be stored, because a store refuses half a character, and import cannot read
 * a file that contains half a character.
 */
struct slice text_cut(struct slice text, size_t max_bytes);

/* text_end_cut: replace the end of a NUL-terminated text, which vsnprintf() cut
 * to fit into size bytes, with "...", at a character boundary. */
void text_end_cut(char *text, size_t size);

/* text_repair: add text with U+FFFD for each byte that is not UTF-8, so that a
 * store accepts it. */
void text_repair(struct buf *to, struct slice text);

/* text_quote: add text in single quotes, as text_visible() writes it, cut with
 * ... after 100 bytes. For messages. */
void text_quote(struct buf *to, struct slice text);

/*
 * text_nearest: return the name in names[0..count-1] that a person who wrote
 * `word` probably meant; NULL: no name is near. A name is near if the edit
 * distance is at most a third of the length of `word`, or 1.
 */
const char *text_nearest(
    struct slice word, const char *const *names, size_t count);

/* text_hex: write each of count bytes as two lower-case hex digits. The size of
 * `to` is at least 2 * count + 1. */
void text_hex(char *to, const unsigned char *bytes, size_t count);

/* text_is_guid: is text 8-4-4-4-12 hex digits, in lower or upper case? */
bool text_is_guid(struct slice text);

/* text_is_run_id: is text 1 to 128 characters of A-Z a-z 0-9 . _ -, not
 * beginning with a dot? */
bool text_is_run_id(struct slice text);

/* text_random_id: write 32 lower-case hex digits, which are a random UUID
 * without its hyphens. `to` holds 33 bytes. */
void text_random_id(char *to);

/* text_random_uuid: write a UUID of version 4, 8-4-4-4-12 hex digits. `to`
 * holds TEXT_UUID_MAX bytes. */
#define TEXT_UUID_MAX 37
void text_random_uuid(char *to);

#endif
