/* SPDX-License-Identifier: MIT */
/* Reads a file: each line is returned once and in order, even if other lines
 * are invalid. Writes the rejects file. */
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/base/buf.h"
#include "worker/transfer/lines.h"
#include "worker/transfer/records.h"
#include "worker/transfer/rejects.h"

#define FILE_NAME "records.txt"
#define REJECTED "rejected.txt"
#define HEADER "PartitionKey,RowKey,X\n"

static struct records *open_slice(struct slice text, enum records_format format)
{
    struct records *records;
    struct err err;

    text_file_write_bytes(FILE_NAME, text.at, text.len);
    if (records_open(FILE_NAME, format, NULL, &records, &err) != TW_OK)
        fail_msg("%s", err.text);
    return records;
}

static void expect_not_opened(const char *path, const char *says)
{
    struct records *records;
    struct err err;

    assert_fails(records_open(path, RECORDS_CSV, NULL, &records, &err),
        TW_INVALID, &err, says);
}

static struct records *open_csv(const char *text)
{
    return open_slice(slice_of(text), RECORDS_CSV);
}

/* Fails unless the records are `wanted`, which has "FIRST-LAST WHAT;" for each
 * record. FIRST and LAST are line numbers. WHAT is the RowKey, or "!": the
 * record is invalid, ".": it is blank, "^": it is too long to hold. */
static void assert_records(struct records *records, const char *wanted)
{
    struct record record;
    struct err err;
    struct buf text;
    bool end = false;

    buf_init(&text, 65536);
    for (;;) {
        assert_ok(records_next(records, &scratch, &record, &end, &err));
        if (end)
            break;
        buf_add_format(&text, "%d-%d ", (int)record.first, (int)record.last);
        if (record.too_long || record.invalid || record.blank)
            buf_add_text(&text, record.too_long  ? "^"
                                : record.invalid ? "!"
                                                 : ".");
        else
            buf_add_slice(&text, record.entity.row_key);
        buf_add_char(&text, ';');
        assert_true(!record.invalid || record.why.text[0] != '\0');
    }
    assert_string_equal(buf_text(&text), wanted);
    buf_done(&text);
    records_close(records);
}

SCRATCH_TEST(lines_of_json_are_records)
{
    assert_records(
        open_slice(slice_of("\xEF\xBB\xBF{\"PartitionKey\":\"p\","
                            "\"RowKey\":\"a\"}\nno\n\n"
                            "{\"PartitionKey\":\"p\",\"RowKey\":\"b\"}"),
            RECORDS_JSON_LINES),
        "1-1 a;2-2 !;3-3 .;4-4 b;");
}

SCRATCH_TEST(a_record_of_csv_takes_the_lines_it_needs)
{
    assert_records(open_csv(HEADER "p,a,x\r\np,b,\"x\n\ny\"\n\np,c,x"),
        "2-2 a;3-5 b;6-6 .;7-7 c;");
    /* A byte order mark and quotes are no part of the header. */
    assert_records(
        open_csv("\xEF\xBB\xBF\"PartitionKey\",\"RowKey\"\np,a\n"), "2-2 a;");
}

SCRATCH_TEST(a_header_may_take_several_lines_to_read)
{
    text_file_write(FILE_NAME, "PartitionKey,RowKey,\"X\nY\"\np,a,x\n");
    expect_not_opened(FILE_NAME, FILE_NAME ":1: ");
    expect_not_opened(FILE_NAME, "is not a valid property name");
    text_file_write(FILE_NAME, "a\"b\n");
    expect_not_opened(FILE_NAME, FILE_NAME ":1: ");
    text_file_write(FILE_NAME, "");
    expect_not_opened(FILE_NAME, "has no header");
    expect_not_opened("nowhere", "");
}

SCRATCH_TEST(a_header_is_kept_whole_up_to_its_newline)
{
    static const char file[] = "PartitionKey,RowKey,X,X@type\np,a,,\n";
    const struct slice text = {file, sizeof(file) - 1};
    const struct slice header = {file, sizeof(file) - 1 - strlen("p,a,,\n")};
    struct records *records = open_slice(text, RECORDS_CSV);

    assert_true(slice_equal(records_header(records), header));
    assert_records(records, "2-2 a;");
}

/* If a quote is never closed, only its line is invalid. */
SCRATCH_TEST(what_follows_an_invalid_record_is_read)
{
    assert_records(open_csv(HEADER "p,a,\"x\np,b,x\np,c,\"y\"\np,d\"\np,e,\"z"),
        "2-2 !;3-3 b;4-4 c;5-5 !;6-6 !;");
}

static char *filled(const char *begin, size_t len, const char *end)
{
    size_t before = strlen(begin);
    char *text = arena_alloc(&scratch, before + len + strlen(end) + 1);

    memcpy(text, begin, before);
    memset(text + before, 'x', len);
    memcpy(text + before + len, end, strlen(end) + 1);
    return text;
}

SCRATCH_TEST(the_end_of_a_record_is_searched_within_a_limit)
{
    char *text = filled(
        HEADER "p,a,\"", RECORDS_MAX_BYTES, "\np,b,x\n\"\np,c,x\np,d,x\n");

    assert_records(open_csv(text), "2-2 !;3-3 b;4-4 !;5-5 c;6-6 d;");
}

SCRATCH_TEST(a_line_that_is_too_long_is_invalid_at_its_number)
{
    char *text = filled(HEADER "p,a,\"x\np,b,", LINES_MAX_BYTES, "\np,c,x\n");

    assert_records(open_csv(text), "2-2 !;3-3 ^;4-4 c;");
    text = filled("{}\n", LINES_MAX_BYTES + 1,
        "\n{\"PartitionKey\":\"p\",\"RowKey\":\"c\"}");
    assert_records(
        open_slice(slice_of(text), RECORDS_JSON_LINES), "1-1 !;2-2 ^;3-3 c;");
}

/* Fails unless the records after the first `lines` lines are `wanted`, written
 * as in assert_records(). */
static void assert_skipped(const char *text, uint64_t lines, const char *wanted)
{
    struct records *records = open_csv(text);
    struct err err;

    assert_ok(records_skip(records, lines, &err));
    assert_records(records, wanted);
}

SCRATCH_TEST(stored_lines_are_skipped)
{
    assert_skipped(HEADER "p,a,\"x\ny\"\np,b,x\np,c,x\n", 4, "5-5 c;");
    assert_skipped(HEADER "p,a,x\n", 0, "2-2 a;");
    assert_skipped(HEADER "p,a,x\n", 9, "");
}

static int64_t digest_of(
    const char *text, enum records_format format, uint64_t line)
{
    struct records *records = open_slice(slice_of(text), format);
    struct err err;
    int64_t digest;

    assert_ok(records_skip(records, line, &err));
    digest = records_digest(records);
    records_close(records);
    return digest;
}

/* Checks that reading up to this line and skipping up to it give the same
 * digest. */
static void check_digest(
    const char *text, enum records_format format, uint64_t line)
{
    struct records *read = open_slice(slice_of(text), format);
    struct record record = {.last = 0};
    struct err err;
    bool end = false;

    while (!end && record.last < line)
        assert_ok(records_next(read, &scratch, &record, &end, &err));
    assert_true(records_digest(read) > 0);
    assert_int_equal(records_digest(read), digest_of(text, format, line));
    records_close(read);
}

SCRATCH_TEST(read_and_skipped_lines_have_one_digest)
{
    static const char CSV[] = HEADER "p,a,\"x\r\ny\"\r\n\np,b,\"x\nbad\np,d,x";
    static const char JSON[] = "\xEF\xBB\xBF{}\r\n\n{\"RowKey\":1}\nlast";
    char *text = filled("{}\n", LINES_MAX_BYTES + 1, "\n{}\n");

    for (uint64_t line = 3; line <= 7; line++)
        check_digest(CSV, RECORDS_CSV, line);
    for (uint64_t line = 1; line <= 4; line++)
        check_digest(JSON, RECORDS_JSON_LINES, line);
    check_digest(text, RECORDS_JSON_LINES, 2);
    check_digest(text, RECORDS_JSON_LINES, 3);
}

SCRATCH_TEST(other_lines_have_another_digest)
{
    static const char *const OTHERS[] = {
        "a\nc\n", "a\n", "a\nb b\n", "ab\n\n", "a\n\nb\n"};
    int64_t digest = digest_of("a\nb\nc\n", RECORDS_JSON_LINES, 2);

    for (size_t i = 0; TEST_EACH(i, OTHERS); i++)
        assert_int_not_equal(
            digest_of(OTHERS[i], RECORDS_JSON_LINES, 2), digest);
    assert_int_equal(digest_of("a\nb", RECORDS_JSON_LINES, 2), digest);
    assert_int_not_equal(digest_of(HEADER "p,a,x\n", RECORDS_CSV, 2),
        digest_of("PartitionKey,RowKey,W\np,a,x\n", RECORDS_CSV, 2));
}

/* ---- the rejects file ---- */

static struct rejects *open_rejects(const char *header, int64_t bytes)
{
    struct rejects *rejects;
    struct err err;

    if (rejects_open(REJECTED, &rejects, &err) != TW_OK ||
        rejects_begin(rejects, slice_of(header), bytes, &err) != TW_OK)
        fail_msg("%s", err.text);
    return rejects;
}

static void reject(const char *header, int64_t bytes, const char *line)
{
    struct rejects *rejects = open_rejects(header, bytes);

    rejects_add(rejects, slice_of(line));
    rejects_close(rejects);
}

static int64_t sync_rejects(struct rejects *rejects)
{
    int64_t bytes;
    struct err err;

    assert_ok(rejects_sync(rejects, &bytes, &err));
    return bytes;
}

SCRATCH_TEST(rejected_lines_are_kept_after_the_header)
{
    struct rejects *rejects;

    text_file_write(REJECTED, "not known to be written\n");
    rejects = open_rejects(HEADER, 0);
    rejects_add(rejects, slice_of("a"));
    assert_int_equal(sync_rejects(rejects), sizeof(HEADER) - 1 + 2);
    rejects_add(rejects, slice_of("b"));
    rejects_close(rejects);
    text_file_check(REJECTED, HEADER "a\nb\n");
    reject(HEADER, sizeof(HEADER) - 1 + 2, "c");
    text_file_check(REJECTED, HEADER "a\nc\n");
    (void)unlink(REJECTED);
    reject(HEADER, 100, "d");
    text_file_check(REJECTED, HEADER "d\n");
}

SCRATCH_TEST(an_empty_rejects_file_is_used_and_not_removed)
{
    text_file_write(REJECTED, "");
    rejects_close(open_rejects("", REJECTS_NEW));
    text_file_check(REJECTED, "");
    reject(HEADER, REJECTS_NEW, "a");
    text_file_check(REJECTED, HEADER "a\n");
}

SCRATCH_TEST(without_rejected_lines_there_is_no_rejects_file)
{
    (void)unlink(REJECTED);
    rejects_close(open_rejects(HEADER, REJECTS_NEW));
    assert_int_not_equal(access(REJECTED, F_OK), 0);
    text_file_write(REJECTED, "not known to be written\n");
    rejects_close(open_rejects("", 0));
    assert_int_not_equal(access(REJECTED, F_OK), 0);
    rejects_close(NULL);
}

static bool is_edited(int64_t bytes, int64_t digest)
{
    struct rejects *rejects;
    struct err err;
    bool edited;

    assert_ok(rejects_open(REJECTED, &rejects, &err));
    edited = rejects_is_edited(rejects, bytes, digest);
    rejects_close(rejects);
    return edited;
}

/* The rejects file counts as edited if the recorded bytes have changed or are
 * missing, but not if the file was removed. */
SCRATCH_TEST(an_edited_rejects_file_is_detected)
{
    static const char *const EDITED[] = {"A\nb\n", "a", "a and more\nb\n"};
    struct rejects *rejects = open_rejects("", 0);
    int64_t bytes, digest;

    rejects_add(rejects, slice_of("a"));
    rejects_add(rejects, slice_of("b"));
    bytes = sync_rejects(rejects);
    digest = rejects_digest(rejects, bytes);
    assert_int_not_equal(rejects_digest(rejects, 2), digest);
    assert_int_equal(rejects_digest(rejects, bytes), digest);
    rejects_close(rejects);
    assert_false(is_edited(bytes, digest));
    text_file_write(REJECTED, "a\nb\nand what was not recorded");
    assert_false(is_edited(bytes, digest));
    for (size_t i = 0; TEST_EACH(i, EDITED); i++) {
        text_file_write(REJECTED, EDITED[i]);
        assert_true(is_edited(bytes, digest));
        assert_false(is_edited(bytes, 0));
        text_file_check(REJECTED, EDITED[i]);
    }
    (void)unlink(REJECTED);
    assert_false(is_edited(bytes, digest));
}

SCRATCH_TEST(a_rejects_file_that_cannot_be_written_is_reported)
{
    struct rejects *rejects;
    int64_t bytes;
    struct err err;

    assert_fails(rejects_open("nowhere/x", &rejects, &err), TW_INVALID, &err,
        "nowhere/x cannot be written");
    assert_ok(rejects_open("/dev/full", &rejects, &err));
    assert_ok(rejects_begin(rejects, slice_of(""), 0, &err));
    rejects_add(rejects, slice_of("a"));
    assert_int_equal(rejects_sync(rejects, &bytes, &err), TW_FULL);
    rejects_close(rejects);
}

SCRATCH_TEST(a_line_that_is_too_long_is_rejected_whole)
{
    char *text = filled("", LINES_MAX_BYTES + 1, "\n{}\n");
    struct records *records = open_slice(slice_of(text), RECORDS_JSON_LINES);
    struct rejects *rejects = open_rejects("", 0);

    records_keep_long(records, rejects_file(rejects));
    assert_records(records, "1-1 ^;2-2 !;");
    assert_int_equal(sync_rejects(rejects), LINES_MAX_BYTES + 2);
    rejects_close(rejects);
}

/* A line that is too long comes after an open quote, so it is read ahead. It
 * must be written to the rejects file only after the lines before it. */
SCRATCH_TEST(rejected_lines_keep_their_order)
{
    char *text = filled(HEADER "p,a,\"x\np,b,", LINES_MAX_BYTES, "\np,c,x\n");
    struct records *records = open_csv(text);
    struct rejects *rejects = open_rejects("", 0);
    struct record record;
    struct err err;
    bool end;

    records_keep_long(records, rejects_file(rejects));
    assert_ok(records_next(records, &scratch, &record, &end, &err));
    assert_true(record.invalid && !record.too_long);
    assert_int_equal(sync_rejects(rejects), 0);
    assert_ok(records_next(records, &scratch, &record, &end, &err));
    assert_true(record.too_long && record.first == 3);
    assert_int_equal(sync_rejects(rejects), LINES_MAX_BYTES + 5);
    assert_records(records, "4-4 c;");
    rejects_close(rejects);
}
