/* SPDX-License-Identifier: MIT */
/* CSV: where records end, what their cells hold, and what is refused. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/transfer/csv.h"

static enum csv_record_state record_state_of(const char *line)
{
    struct csv_state csv = {0};

    return csv_line(&csv, slice_of(line));
}

TEST(lines_tell_where_a_record_ends)
{
    static const char *const whole[] = {
        "", "a,b", "a,\"b\"", "a,\"b\"\r", "a,b\r", "\"\",\"\"", "\"a\"\"b\""};
    static const char *const open[] = {"\"a,", "\"a\"\""};
    static const char *const invalid[] = {"\"a\"b", "\"a\"\rb", "a\"b"};

    for (size_t i = 0; TEST_EACH(i, whole); i++)
        assert_int_equal(record_state_of(whole[i]), CSV_WHOLE);
    for (size_t i = 0; TEST_EACH(i, open); i++)
        assert_int_equal(record_state_of(open[i]), CSV_OPEN);
    for (size_t i = 0; TEST_EACH(i, invalid); i++)
        assert_int_equal(record_state_of(invalid[i]), CSV_INVALID);
}

/* Fails unless the record is read as `wanted`: its fields, each followed by
 * |. */
static void assert_split(const char *record, const char *wanted)
{
    size_t count;
    const struct slice *fields = csv_split(slice_of(record), &scratch, &count);
    struct buf text;

    buf_init(&text, 1024);
    for (size_t i = 0; i < count; i++) {
        buf_add_slice(&text, fields[i]);
        buf_add_char(&text, '|');
    }
    assert_string_equal(buf_text(&text), wanted);
    buf_done(&text);
}

SCRATCH_TEST(fields_are_returned_without_their_quotes)
{
    assert_split("", "|");
    assert_split("a", "a|");
    assert_split("a,b", "a|b|");
    assert_split("a,b\r", "a|b|");
    assert_split(",", "||");
    assert_split("\"a,b\",c", "a,b|c|");
    assert_split("\"a\"\"b\",\"\"", "a\"b||");
    assert_split("\"\"\"\"\r", "\"|");
    assert_split("\"a\r\nb\",c,", "a\r\nb|c||");
}

static enum tw_err read_one(
    const char *names, const char *cells, struct entity *ret, struct err *err)
{
    struct csv_header header;
    const struct slice *fields;
    size_t count;
    enum tw_err outcome;

    fields = csv_split(slice_of(names), &scratch, &count);
    outcome = csv_header(fields, count, &scratch, &header, err);
    if (outcome != TW_OK)
        return outcome;
    fields = csv_split(slice_of(cells), &scratch, &count);
    return csv_entity(&header, fields, count, &scratch, ret, err);
}

static void assert_reads(
    const char *names, const char *cells, const char *wanted)
{
    struct entity entity;
    struct err err = {{0}};

    if (read_one(names, cells, &entity, &err) != TW_OK)
        fail_msg("%s: %s", cells, err.text);
    assert_int_equal(entity.etag.len, 0);
    scratch_assert_written(&entity, wanted);
}

static void assert_refused(
    const char *names, const char *cells, const char *why)
{
    struct entity entity;
    struct err err = {{0}};

    assert_int_not_equal(read_one(names, cells, &entity, &err), TW_OK);
    assert_contains(err.text, why);
}

SCRATCH_TEST(a_record_is_an_entity)
{
    assert_reads("RowKey,PartitionKey,A,A@type,B", "r,p,5,Int32,x",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":5,\"B\":\"x\"}");
    assert_reads("PartitionKey,RowKey,Timestamp,Timestamp@type",
        ",,2024,DateTime", "{\"PartitionKey\":\"\",\"RowKey\":\"\"}");
}

SCRATCH_TEST(every_type_is_read_by_its_name)
{
    static const struct {
        const char *type, *cell, *json;
    } cases[] = {
        {"String", "a\"\"b", "\"X\":\"a\\\"b\""},
        {"Edm.String", "", "\"X\":\"\""},
        {"", "text", "\"X\":\"text\""},
        {"Int32", "-5", "\"X\":-5"},
        {"Int32", "007", "\"X\":7"},
        {"Int64", "9007199254740993",
            "\"X@odata.type\":\"Edm.Int64\",\"X\":\"9007199254740993\""},
        {"Double", "0.10000000000000001",
            "\"X@odata.type\":\"Edm.Double\",\"X\":0.1"},
        {"Double", "-Infinity",
            "\"X@odata.type\":\"Edm.Double\",\"X\":\"-Infinity\""},
        {"Boolean", "True", "\"X\":true"},
        {"DateTime", "2024-01-01T00:00:00.1234567Z",
            "\"X@odata.type\":\"Edm.DateTime\","
            "\"X\":\"2024-01-01T00:00:00.1234567Z\""},
        {"Guid", "00000000-0000-0000-0000-000000000001",
            "\"X@odata.type\":\"Edm.Guid\","
            "\"X\":\"00000000-0000-0000-0000-000000000001\""},
        {"Binary", "AAEC", "\"X@odata.type\":\"Edm.Binary\",\"X\":\"AAEC\""},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_reads("PartitionKey,RowKey,X,X@type",
            arena_format(
                &scratch, "p,r,\"%s\",%s", cases[i].cell, cases[i].type)
                .at,
            arena_format(&scratch,
                "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",%s}", cases[i].json)
                .at);
}

SCRATCH_TEST(an_empty_cell_without_a_type_is_absent)
{
    const char *none = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";

    assert_reads("PartitionKey,RowKey,X,X@type", "p,r,,", none);
    assert_reads("PartitionKey,RowKey,X", "p,r,", none);
    assert_reads("PartitionKey,RowKey,X", "p,r,\"\"", none);
}

SCRATCH_TEST(an_invalid_cell_is_refused)
{
    const char *names = "PartitionKey,RowKey,X,X@type";

    assert_refused(names, "p,r,x,Int32", "property 'X': ");
    assert_refused(names, "p,r,,Int32", "property 'X': ");
    assert_refused(names, "p,r,2147483648,Int32", "property 'X': ");
    assert_refused(names, "p,r,1,Int16", "invalid type, expected Binary, ");
    assert_refused(names,
        "p,r,1,a-type-whose-name-is-longer-than-any-that-there-is",
        "invalid type, expected Binary, ");
    assert_refused(names, "p,r,\xFF,", "property 'X': ");
    assert_refused(names, "p,r,x", "the record has 3 cells, the header 4");
    assert_refused(
        names, "p,r,x,String,", "the record has 5 cells, the header 4");
    assert_refused(names, "a/b,r,x,", "PartitionKey");
}

SCRATCH_TEST(a_header_names_both_keys_and_each_column_once)
{
    assert_refused("PartitionKey,X", "p,x", "no PartitionKey or no RowKey");
    assert_refused("RowKey,X", "p,x", "no PartitionKey or no RowKey");
    assert_refused("PartitionKey,RowKey,X,X", "p,r,x,x", "'X' appears twice");
    assert_refused(
        "PartitionKey,RowKey,a b", "p,r,x", "is not a valid property name");
    assert_refused(
        "PartitionKey,RowKey,", "p,r,x", "is not a valid property name");
    assert_refused("PartitionKey,RowKey,\"a\nb@type\"", "p,r,x",
        "is not a valid property name");
}

SCRATCH_TEST(a_header_with_too_many_columns_is_refused)
{
    struct buf names;

    buf_init(&names, 262144);
    buf_add_text(&names, "PartitionKey,RowKey");
    for (size_t i = 0; i < 2 * CSV_MAX_PROPERTIES + 1; i++)
        buf_add_format(&names, ",a%zu", i);
    assert_refused(buf_text(&names), "p,r", "more than 20002 columns");
    buf_done(&names);
}
