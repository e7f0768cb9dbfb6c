/* SPDX-License-Identifier: MIT */
/* Reads lines, and joins the lines of a CSV record. */
#include "worker/transfer/records.h"

#include <inttypes.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/transfer/csv.h"
#include "worker/transfer/entity_line.h"
#include "worker/transfer/lines.h"

#define MARK "\xEF\xBB\xBF" /* byte order mark before the first line */

struct records {
    struct lines *lines;
    const _Atomic bool *stopped; /* as in lines_open() */
    enum records_format format;

    /* CSV only: `held` has the lines that were read to find the end of a
     * record. The lines before offset `from` were returned already, and
     * `number` is the number of the last of these lines. */
    struct buf held;
    size_t from;
    uint64_t number;
    bool at_end;
    bool too_long; /* the line after held is too long and was not read yet */
    struct err too_long_why;
    FILE *long_lines; /* file for lines that are too long, or NULL */

    uint64_t hash; /* hash of the returned lines with newlines */

    struct arena arena; /* memory of the header */
    struct csv_header header;
    struct slice header_text;
};

void records_close(struct records *records)
{
    if (!records)
        return;
    lines_close(records->lines);
    buf_done(&records->held);
    arena_done(&records->arena);
    mem_free(records);
}

struct slice records_header(const struct records *records)
{
    return records->header_text;
}

void records_keep_long(struct records *records, FILE *to)
{
    records->long_lines = to;
}

/* Adds raw to the digest. raw is one or several lines, without the last
 * newline; it is empty for a line that is too long. */
static void add_to_digest(struct records *records, struct slice raw)
{
    records->hash = hash_slice(records->hash, raw);
    records->hash = hash_bytes(records->hash, "\n", 1);
}

int64_t records_digest(const struct records *records)
{
    return (int64_t)(hash_mix(records->hash) >> 1 | 1);
}

int records_share(const struct records *records)
{
    return lines_share(records->lines);
}

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]) || text.at[i] == '\0')
            return false;
    return true;
}

/* ---- JSON Lines ---- */

static enum tw_err next_line(struct records *records, struct arena *arena,
    struct record *ret, bool *ret_end, struct err *err)
{
    struct record record = {.first = 0};
    enum tw_err outcome =
        lines_next(records->lines, &record.raw, ret_end, &record.why);

    if (outcome == TW_OK && *ret_end)
        return TW_OK;
    if (outcome == TW_TOO_LARGE) {
        record.invalid = record.too_long = true;
        outcome =
            lines_skip_long(records->lines, records->long_lines, &record.why);
    }
    if (outcome != TW_OK) {
        *err = record.why;
        return outcome;
    }
    record.first = record.last = lines_number(records->lines);
    if (!record.too_long)
        record.invalid =
            entity_line(record.raw, record.first == 1, arena, &record.entity,
                &record.blank, &record.why) != TW_OK;
    *ret = record;
    return TW_OK;
}

/* ---- CSV: lines that were read and not yet returned ---- */

static size_t held_bytes(const struct records *records)
{
    return records->held.len - records->from;
}

/* Remove the returned lines from `held` if they are more than half of its
 * bytes. */
static void drop_done(struct records *records)
{
    struct buf *held = &records->held;

    if (records->from < held->len / 2 + 1)
        return;
    memmove(held->at, held->at + records->from, held_bytes(records));
    held->len -= records->from;
    held->at[held->len] = '\0';
    records->from = 0;
}

static bool can_hold_more(const struct records *records)
{
    return !records->at_end && !records->too_long &&
           held_bytes(records) <= RECORDS_MAX_BYTES;
}

static enum tw_err hold_line(struct records *records, struct err *err)
{
    struct slice line;
    enum tw_err outcome =
        lines_next(records->lines, &line, &records->at_end, err);

    if (outcome == TW_TOO_LARGE) {
        records->too_long = true;
        records->too_long_why = *err;
        return TW_OK;
    }
    if (outcome != TW_OK || records->at_end)
        return outcome;
    if (lines_number(records->lines) == 1 && slice_begins(line, slice_of(MARK)))
        line = (struct slice){line.at + 3, line.len - 3};
    buf_add_slice(&records->held, line);
    buf_add_char(&records->held, '\n');
    return TW_OK;
}

/* Returns the held line that begins at `at`, without its newline. */
static struct slice held_line(const struct records *records, size_t at)
{
    const char *from = records->held.at + at;
    const char *newline = memchr(from, '\n', records->held.len - at);

    return (struct slice){from, (size_t)(newline - from)};
}

/* ---- CSV: records ---- */

/* Where a record ends, found by its quotes. */
struct span {
    size_t len; /* length without the last newline */
    uint64_t lines;
    bool invalid;
};

/* Returns the span of an invalid record, which ends with its first line. */
static struct span first_line(const struct records *records, struct err *why)
{
    err_fail(why, TW_INVALID,
        "invalid quotes: a quote inside a cell that is not quoted, text after "
        "a closing quote, or a quote that is never closed");
    return (struct span){
        .len = held_line(records, records->from).len,
        .lines = 1,
        .invalid = true,
    };
}

/* Find the end of the next record. Call when `held` has at least one line. */
static enum tw_err find_record(
    struct records *records, struct span *ret, struct err *why, struct err *err)
{
    struct csv_state state = {0};
    enum csv_record_state record = CSV_OPEN;
    size_t at = records->from;
    uint64_t lines = 0;

    while (record == CSV_OPEN) {
        struct slice line;

        while (at == records->held.len && can_hold_more(records)) {
            enum tw_err outcome = hold_line(records, err);

            if (outcome != TW_OK)
                return outcome;
        }
        if (at == records->held.len)
            break;
        line = held_line(records, at);
        record = csv_line(&state, line);
        at += line.len + 1;
        lines++;
    }
    *ret = record == CSV_WHOLE
               ? (struct span){at - 1 - records->from, lines, false}
               : first_line(records, why);
    return TW_OK;
}

/* Return a line that is too long. Call when all lines before it were
 * returned. */
static enum tw_err next_long_line(
    struct records *records, struct record *ret, struct err *err)
{
    records->too_long = false;
    ret->last = ++records->number;
    ret->invalid = ret->too_long = true;
    ret->why = records->too_long_why;
    return lines_skip_long(records->lines, records->long_lines, err);
}

/* Find the next record; it is not yet split into cells. At the end of the file
 * ret->first is 0. */
static enum tw_err next_span(
    struct records *records, struct record *ret, struct err *err)
{
    struct span span;
    enum tw_err outcome = TW_OK;

    *ret = (struct record){.first = 0};
    drop_done(records);
    if (held_bytes(records) == 0 && can_hold_more(records))
        outcome = hold_line(records, err);
    if (outcome != TW_OK)
        return outcome;
    if (held_bytes(records) == 0 && !records->too_long)
        return TW_OK;
    ret->first = records->number + 1;
    if (held_bytes(records) == 0)
        return next_long_line(records, ret, err);
    outcome = find_record(records, &span, &ret->why, err);
    if (outcome != TW_OK)
        return outcome;
    ret->raw = (struct slice){records->held.at + records->from, span.len};
    ret->invalid = span.invalid;
    records->number += span.lines;
    records->from += span.len + 1;
    ret->last = records->number;
    return TW_OK;
}

static enum tw_err next_record(struct records *records, struct arena *arena,
    struct record *ret, bool *ret_end, struct err *err)
{
    const struct slice *fields;
    struct record record;
    enum tw_err outcome = next_span(records, &record, err);
    size_t count;

    if (outcome != TW_OK)
        return outcome;
    *ret_end = record.first == 0;
    if (*ret_end)
        return TW_OK;
    record.blank = !record.invalid && is_blank(record.raw);
    if (!record.invalid && !record.blank) {
        fields = csv_split(record.raw, arena, &count);
        record.invalid = csv_entity(&records->header, fields, count, arena,
                             &record.entity, &record.why) != TW_OK;
    }
    *ret = record;
    return TW_OK;
}

static enum tw_err fail_header(
    const char *path, uint64_t line, const struct err *why, struct err *err)
{
    struct err copy = *why;

    return err_fail(
        err, TW_INVALID, "%s:%" PRIu64 ": %s", path, line, copy.text);
}

static enum tw_err read_header(
    struct records *records, const char *path, struct err *err)
{
    struct arena *arena = &records->arena;
    const struct slice *fields;
    struct record record;
    struct slice text;
    enum tw_err outcome = next_span(records, &record, err);
    size_t count;

    if (outcome != TW_OK)
        return outcome;
    if (record.first == 0)
        return err_fail(err, TW_INVALID,
            "%s has no header: a CSV file begins "
            "with the names of its columns",
            path);
    if (record.invalid)
        return fail_header(path, record.first, &record.why, err);
    add_to_digest(records, record.raw);
    /* raw.len + 1 includes the newline, which every held line has. */
    records->header_text =
        arena_copy(arena, (struct slice){record.raw.at, record.raw.len + 1});
    text = arena_copy(arena, record.raw);
    fields = csv_split(text, arena, &count);
    if (csv_header(fields, count, arena, &records->header, &record.why) !=
        TW_OK)
        return fail_header(path, record.first, &record.why, err);
    return TW_OK;
}

/* ---- both formats ---- */

enum tw_err records_open(const char *path, enum records_format format,
    const _Atomic bool *stopped, struct records **ret, struct err *err)
{
    struct records *records = mem_alloc(sizeof(*records));
    enum tw_err outcome;

    records->format = format;
    records->stopped = stopped;
    records->hash = HASH_BEGIN;
    buf_init(&records->held, 2 * (RECORDS_MAX_BYTES + LINES_MAX_BYTES) + 16);
    arena_init(&records->arena);
    outcome = lines_open(path, stopped, &records->lines, err);
    if (outcome == TW_OK && format == RECORDS_CSV)
        outcome = read_header(records, path, err);
    if (outcome == TW_OK)
        *ret = records;
    else
        records_close(records);
    return outcome;
}

enum tw_err records_skip(
    struct records *records, uint64_t line, struct err *err)
{
    struct slice text;
    bool end = false;

    while (!end && lines_number(records->lines) < line) {
        enum tw_err outcome;

        if (records->stopped && atomic_load(records->stopped))
            return err_fail(err, TW_STOPPED, "stopped before the end");
        outcome = lines_next(records->lines, &text, &end, err);
        if (outcome == TW_TOO_LARGE) {
            text = slice_of("");
            outcome = lines_skip_long(records->lines, NULL, err);
        }
        if (outcome != TW_OK)
            return outcome;
        if (!end)
            add_to_digest(records, text);
    }
    records->number = lines_number(records->lines);
    return TW_OK;
}

enum tw_err records_next(struct records *records, struct arena *arena,
    struct record *ret, bool *ret_end, struct err *err)
{
    enum tw_err outcome = records->format == RECORDS_CSV
                              ? next_record(records, arena, ret, ret_end, err)
                              : next_line(records, arena, ret, ret_end, err);

    if (outcome == TW_OK && !*ret_end)
        add_to_digest(records, ret->raw);
    return outcome;
}
