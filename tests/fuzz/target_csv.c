/* SPDX-License-Identifier: MIT */
/* CSV files: every line belongs to one record, and what is written as CSV is
 * read back the same. */
#include "tests/fuzz/fuzz.h"
#include "worker/transfer/entity_line.h"
#include "worker/transfer/records.h"

/* ---- any file ---- */

static uint64_t count_newlines(struct slice text)
{
    uint64_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == '\n';
    return count;
}

static void check_record(
    const struct record *record, uint64_t before, struct arena *arena)
{
    FUZZ_CHECK(!record->too_long);
    FUZZ_CHECK(record->first == before + 1);
    FUZZ_CHECK(record->last == record->first + count_newlines(record->raw));
    if (record->invalid) {
        fuzz_said(&record->why);
    } else if (!record->blank) {
        fuzz_same_line(&record->entity, arena);
    }
}

/* The header and the records, with a newline after each, must be the whole
 * file. */
static void check_all(
    struct records *records, struct slice text, struct arena *arena)
{
    struct buf *whole = fuzz_buf();
    struct record record;
    struct err err;
    uint64_t line = count_newlines(records_header(records));
    bool end = false;

    buf_add_slice(whole, records_header(records));
    for (;;) {
        FUZZ_CHECK(records_next(records, arena, &record, &end, &err) == TW_OK);
        if (end)
            break;
        check_record(&record, line, arena);
        line = record.last;
        buf_add_slice(whole, record.raw);
        buf_add_char(whole, '\n');
    }
    if (slice_begins(text, slice_of("\xEF\xBB\xBF")))
        text = (struct slice){text.at + 3, text.len - 3};
    if (text.len > 0 && text.at[text.len - 1] != '\n')
        whole->len--;
    FUZZ_SAME(buf_slice(whole), text);
}

static struct records *try_open(const struct fuzz_file *file)
{
    struct records *records = NULL;
    struct err err = {{0}};

    if (records_open(file->path, RECORDS_CSV, NULL, &records, &err) != TW_OK)
        fuzz_said(&err);
    return records;
}

static void try_file(struct slice text, struct arena *arena)
{
    struct fuzz_file file = fuzz_file(text);
    struct records *records = try_open(&file);

    if (records)
        check_all(records, text, arena);
    records_close(records);
    fuzz_file_done(&file);
}

/* ---- a file that is written ---- */

static bool needs_quotes(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != '\0' && strchr("\",\r\n", text.at[i]))
            return true;
    return false;
}

/* quoted: use quotes even if the text needs none. */
static void add_cell(struct buf *to, struct slice text, bool quoted)
{
    if (!quoted && !needs_quotes(text)) {
        buf_add_slice(to, text);
        return;
    }
    buf_add_char(to, '"');
    fuzz_add_doubled(to, text, "\"");
    buf_add_char(to, '"');
}

static void add_next(struct buf *to, struct slice text, struct fuzz_source *in)
{
    buf_add_char(to, ',');
    add_cell(to, text, fuzz_yes(in));
}

static struct slice value_of(
    const struct property *property, struct arena *arena)
{
    struct slice text = property->json;

    if (property_text(property, arena, &text))
        return text;
    if (text.at[0] == '"')
        return (struct slice){text.at + 1, text.len - 2};
    return text;
}

static void write_header(
    struct buf *to, const struct entity *entity, struct fuzz_source *in)
{
    add_cell(to, slice_of("PartitionKey"), fuzz_yes(in));
    add_next(to, slice_of("RowKey"), in);
    for (size_t i = 0; i < entity->property_count; i++) {
        struct slice name = entity->properties[i].name;
        const char *suffix = fuzz_yes(in) ? "type" : "odata.type";

        add_next(to, name, in);
        add_next(to,
            arena_format(in->arena, "%.*s@%s", SLICE_ARG(name), suffix), in);
    }
}

static void write_record(
    struct buf *to, const struct entity *entity, struct fuzz_source *in)
{
    add_cell(to, entity->partition_key, fuzz_yes(in));
    add_next(to, entity->row_key, in);
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        const char *type = edm_type_name(property->type);

        add_next(to, value_of(property, in->arena), in);
        add_next(to, slice_of(fuzz_yes(in) ? type : type + strlen("Edm.")), in);
    }
}

static void is_read_back(struct fuzz_source *in)
{
    struct entity entity = fuzz_entity(in);
    struct fuzz_file file;
    struct records *records;
    struct record record;
    struct buf *text = fuzz_buf();
    struct err err;
    bool end = false;

    write_header(text, &entity, in);
    buf_add_text(text, fuzz_yes(in) ? "\r\n" : "\n");
    write_record(text, &entity, in);
    buf_add_text(text, fuzz_yes(in) ? "\r\n" : "");
    file = fuzz_file(buf_slice(text));
    records = try_open(&file);
    FUZZ_CHECK(records != NULL);
    FUZZ_CHECK(
        records_next(records, in->arena, &record, &end, &err) == TW_OK && !end);
    FUZZ_CHECK(!record.invalid && !record.blank);
    FUZZ_CHECK(fuzz_entities_equal(&record.entity, &entity));
    FUZZ_CHECK(
        records_next(records, in->arena, &record, &end, &err) == TW_OK && end);
    records_close(records);
    fuzz_file_done(&file);
}

FUZZ_TARGET(csv)
{
    try_file(text, in->arena);
    is_read_back(in);
}
