/* SPDX-License-Identifier: MIT */
/* The URLs and queries for the table service, to the byte; its pages and
 * errors. */
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/store/azure/odata.h"

static const char *written(struct buf *buf)
{
    assert_false(buf->overflow);
    return buf_text(buf);
}

TEST(entity_path_doubles_quotes_and_encodes)
{
    struct buf path;

    buf_init(&path, 4096);
    odata_add_entity_path(&path, "mytable", slice_of("o'brien x"),
        slice_of("r\xc3\xa9"
                 "1"));
    assert_string_equal(written(&path),
        "/mytable(PartitionKey='o%27%27brien%20x',RowKey='r%C3%A91')");
    buf_clear(&path);
    odata_add_entity_path(&path, "T", slice_of(""), slice_of("a+b&c%=()'"));
    assert_string_equal(written(&path),
        "/T(PartitionKey='',RowKey='a%2Bb%26c%25%3D%28%29%27%27')");
    buf_done(&path);
}

static void check_query(
    const struct scan_request *request, const char *filter, const char *query)
{
    struct buf buf;

    buf_init(&buf, 4096);
    odata_add_filter(&buf, request);
    assert_string_equal(written(&buf), filter);
    buf_clear(&buf);
    odata_add_scan_query(&buf, request);
    assert_string_equal(written(&buf), query);
    buf_done(&buf);
}

TEST(plain_scan_has_top_alone)
{
    check_query(
        &(struct scan_request){.table = "T", .top = 1000}, "", "$top=1000");
}

TEST(exact_keys_are_compared_with_eq)
{
    check_query(
        &(struct scan_request){
            .partition_key = key_range_exact(slice_of("it's")),
            .row_key = key_range_exact(slice_of("")),
            .top = 1,
        },
        "PartitionKey eq 'it''s' and RowKey eq ''",
        "$filter=PartitionKey%20eq%20%27it%27%27s%27%20and%20RowKey%20eq%20"
        "%27%27&$top=1");
}

TEST(ranges_and_filter_are_joined)
{
    check_query(
        &(struct scan_request){
            .partition_key = {.has_from = true,
                .from_exclusive = true,
                .has_below = true,
                .from = slice_of("a"),
                .below = slice_of("b")},
            .row_key = {.has_from = true, .from = slice_of("1")},
            .filter = slice_of("N eq 1 or N eq 2"),
            .top = 7,
        },
        "PartitionKey gt 'a' and PartitionKey lt 'b' and RowKey ge '1' and "
        "(N eq 1 or N eq 2)",
        "$filter=PartitionKey%20gt%20%27a%27%20and%20PartitionKey%20lt%20%27b"
        "%27%20and%20RowKey%20ge%20%271%27%20and%20%28N%20eq%201%20or%20N%20eq"
        "%202%29&$top=7");
}

TEST(filter_alone_stands_as_it_is)
{
    check_query(&(struct scan_request){.filter = slice_of("N eq 1 or N eq 2"),
                    .top = 7},
        "N eq 1 or N eq 2", "$filter=N%20eq%201%20or%20N%20eq%202&$top=7");
}

TEST(both_keys_are_always_selected)
{
    const struct slice names[] = {
        slice_of("RowKey"), slice_of("N"), slice_of("\xc3\xa4")};

    check_query(
        &(struct scan_request){.select = names, .select_count = 3, .top = 9},
        "", "$select=PartitionKey%2CRowKey%2CN%2C%C3%A4&$top=9");
    check_query(
        &(struct scan_request){.select = names, .select_count = 0, .top = 9},
        "", "$select=PartitionKey%2CRowKey&$top=9");
}

TEST(only_the_continuation_that_came_goes_back)
{
    struct scan_request request = {
        .top = 2,
        .from = {.partition_key = slice_of("1!8!U21pdGg-"),
            .row_key = slice_of("1!4!a+/="),
            .more = true},
    };
    struct buf buf;

    check_query(&request, "",
        "$top=2&NextPartitionKey=1%218%21U21pdGg-&NextRowKey=1%214%21a%2B%2F"
        "%3D");
    request.from.row_key = slice_of("");
    check_query(&request, "", "$top=2&NextPartitionKey=1%218%21U21pdGg-");
    request.from.more = false;
    check_query(&request, "", "$top=2");

    buf_init(&buf, 4096);
    odata_add_tables_query(&buf, &request.from);
    assert_string_equal(buf_text(&buf), "");
    request.from.more = true;
    odata_add_tables_query(&buf, &request.from);
    assert_string_equal(written(&buf), "NextTableName=1%218%21U21pdGg-");
    buf_done(&buf);
}

/* ---- pages ---- */

static struct err err; /* of the last page */

TEST_FIXTURE(page, struct page, page_init, page_done)

#define PAGE_TEST(name)                                                        \
    TEST_WITH(name, page_set_up, page_tear_down, struct page *page)

static const char sample_page[] =
    "{\"odata.metadata\":\"https://a/$metadata#T\",\"value\":[{\"odata.etag\":"
    "\"W/\\\"datetime'2021-06-04T21%3A59%3A51.4109869Z'\\\"\","
    "\"PartitionKey\":\"p]}\",\"RowKey\":\"r\\\"{[\",\"Timestamp\":"
    "\"2021-06-04T21:59:51.4109869Z\",\"N\":5,\"L@odata.type\":\"Edm.Int64\","
    "\"L\":\"7\"},{\"odata.etag\":\"e2\",\"PartitionKey\":\"p\",\"RowKey\":"
    "\"\\\\\"}]}";

PAGE_TEST(page_is_read_entity_by_entity)
{
    assert_ok(odata_page(slice_of(sample_page), true, page, &err));
    assert_int_equal(page->count, 2);
    assert_true(slice_is(page->entities[0].partition_key, "p]}"));
    assert_true(slice_is(page->entities[0].row_key, "r\"{["));
    assert_true(slice_is(page->entities[0].etag,
        "W/\"datetime'2021-06-04T21%3A59%3A51.4109869Z'\""));
    assert_int_equal(page->entities[0].property_count, 2);
    assert_int_equal(page->entities[0].properties[1].type, EDM_INT64);
    assert_true(slice_is(page->entities[1].row_key, "\\"));
}

PAGE_TEST(value_may_stand_first_and_be_empty)
{
    static const char *const bodies[] = {
        "{\"value\":[],\"odata.metadata\":\"m\"}\r\n",
        " { \"x\" : {\"a\":[1,{}]} , \"value\" : [ ] } ",
    };

    for (size_t i = 0; i < 2; i++) {
        if (odata_page(slice_of(bodies[i]), true, page, &err) != TW_OK)
            fail_msg("%s: %s", bodies[i], err.text);
        assert_int_equal(page->count, 0);
    }
}

PAGE_TEST(page_of_a_thousand_is_read_whole)
{
    struct buf body;

    buf_init(&body, 1024 * 1024);
    buf_add_text(&body, "{\"value\":[");
    for (int i = 0; i < 1000; i++)
        buf_add_format(&body, "%s{\"PartitionKey\":\"p\",\"RowKey\":\"%04d\"}",
            i ? "," : "", i);
    buf_add_text(&body, "]}");
    assert_ok(odata_page(buf_slice(&body), true, page, &err));
    assert_int_equal(page->count, 1000);
    assert_true(slice_is(page->entities[0].row_key, "0000"));
    assert_true(slice_is(page->entities[999].row_key, "0999"));
    buf_done(&body);
}

PAGE_TEST(page_cut_off_anywhere_is_no_page)
{
    size_t whole = strlen(sample_page);

    for (size_t len = 0; len < whole; len++) {
        err.text[0] = '\0';
        if (odata_page((struct slice){sample_page, len}, true, page, &err) !=
            TW_UNKNOWN)
            fail_msg("cut at %zu", len);
        assert_int_equal(page->count, 0);
        assert_true(err.text[0] != '\0');
    }
}

PAGE_TEST(other_bodies_are_no_page)
{
    static const char *const bodies[] = {
        "<html><body>200 OK</body></html>",
        "null",
        "[]",
        "{}",
        "\"value\"",
        "{\"value\":{}}",
        "{\"value\":[1]}",
        "{\"value\":[]}}",
        "{\"value\":[]} x",
        "{\"value\":[] \"a\":1}",
        "{\"value\":[,]}",
        "{\"a\":nonsense,\"value\":[]}",
        "{value:[]}",
        "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"} x]}",
        "{\"value\":[],\"value\":nonsense}",
        "{\"va\\xlue\":1,\"value\":[]}",
        "{\"a\":",
        "{\"a\"",
    };

    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        if (odata_page(slice_of(bodies[i]), true, page, &err) != TW_UNKNOWN)
            fail_msg("%s", bodies[i]);
    }
}

/* A login page or proxy may respond with JSON of its own. That shows nothing
 * about what is stored, and must not make a run fail for good. */
PAGE_TEST(what_has_not_both_keys_is_no_entity)
{
    static const char *const others[] = {
        "{}",
        "{\"PartitionKey\":\"p\"}",
        "{\"status\":503,\"message\":\"The gateway is being maintained\"}",
        "{\"error\":{\"PartitionKey\":1,\"RowKey\":2}}",
    };

    for (size_t i = 0; TEST_EACH(i, others); i++) {
        struct buf body;

        buf_init(&body, 4096);
        buf_add_format(&body, "{\"value\":[%s]}", others[i]);
        if (odata_page(buf_slice(&body), true, page, &err) != TW_UNKNOWN ||
            odata_entity(slice_of(others[i]), true, page, &err) != TW_UNKNOWN)
            fail_msg("%s", others[i]);
        assert_int_equal(page->count, 0);
        buf_done(&body);
    }
}

PAGE_TEST(entity_that_makes_no_sense_is_invalid)
{
    static const char *const entities[] = {
        "{\"PartitionKey\":\"p\",\"RowKey\":5}",
        "{\"PartitionKey\":\"\",\"RowKey\":\"\",\"N\":[1]}",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":1,\"N\":2}",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":99999999999}",
    };

    for (size_t i = 0; TEST_EACH(i, entities); i++) {
        struct buf body;

        buf_init(&body, 4096);
        buf_add_format(&body, "{\"value\":[%s]}", entities[i]);
        if (odata_page(buf_slice(&body), true, page, &err) != TW_INVALID ||
            odata_entity(slice_of(entities[i]), true, page, &err) != TW_INVALID)
            fail_msg("%s", entities[i]);
        assert_int_equal(page->count, 0);
        buf_done(&body);
    }
}

/* If a page is truncated, an invalid entity before the cut shows nothing about
 * what is stored. */
PAGE_TEST(page_cut_off_behind_a_bad_entity_is_no_page)
{
    static const char body[] = "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":"
                               "\"r\",\"N\":99999999999}"
                               ",{\"PartitionKey\":\"p\",\"RowKey\":\"s\","
                               "\"S\":\"]}]}\\\"\"}],\"x\":{}}";
    size_t whole = sizeof(body) - 1;

    for (size_t len = 0; len <= whole; len++) {
        err.text[0] = '\0';
        if (odata_page((struct slice){body, len}, true, page, &err) !=
            (len == whole ? TW_INVALID : TW_UNKNOWN))
            fail_msg("cut at %zu", len);
        if ((strstr(err.text, "not a complete JSON page") != NULL) !=
            (len < whole))
            fail_msg("cut at %zu: %s", len, err.text);
        assert_int_equal(page->count, 0);
    }
}

/* The position in the error is a byte offset in the body. */
PAGE_TEST(trouble_in_a_page_is_named_with_its_place)
{
    static const struct {
        const char *body, *place;
    } cases[] = {
        {"{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"},7]}",
            "invalid at byte 44"},
        {"{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}",
            "it ends at byte 43"},
        {"{\"value\":[]]", "invalid at byte 11"},
        {"{\"a\":1,\"value\":5}", "invalid at byte 15"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        assert_int_equal(
            odata_page(slice_of(cases[i].body), true, page, &err), TW_UNKNOWN);
        if (!strstr(err.text, cases[i].place))
            fail_msg("%s: %s", cases[i].body, err.text);
    }
}

PAGE_TEST(tables_are_listed_by_name)
{
    assert_ok(
        odata_tables(slice_of("{\"value\":[{\"TableName\":\"Blogs\"},"
                              "{\"odata.id\":\"x\",\"TableName\":\"T\"}]}"),
            page, &err));
    assert_int_equal(page->count, 2);
    assert_true(slice_is(page->entities[0].partition_key, "Blogs"));
    assert_true(slice_is(page->entities[1].partition_key, "T"));
    assert_int_equal(
        odata_tables(slice_of("{\"value\":[{\"Name\":\"x\"}]}"), page, &err),
        TW_UNKNOWN);
    assert_int_equal(
        odata_tables(slice_of("{\"value\":[{\"TableName\":5}]}"), page, &err),
        TW_UNKNOWN);
    assert_int_equal(
        odata_tables(
            slice_of("{\"value\":[{\"TableName\":\"Ta\\x\"}]}"), page, &err),
        TW_UNKNOWN);
    assert_int_equal(page->count, 0);
}

PAGE_TEST(entity_is_read_alone)
{
    assert_ok(
        odata_entity(slice_of("{\"PartitionKey\":\"p\",\"RowKey\":\"\"}\r\n"),
            true, page, &err));
    assert_int_equal(page->count, 1);
    assert_int_equal(odata_entity(slice_of("{\"PartitionKey\":\"p\",\"Ro"),
                         true, page, &err),
        TW_UNKNOWN);
    assert_int_equal(
        odata_entity(slice_of("[1]"), true, page, &err), TW_UNKNOWN);
    assert_int_equal(odata_entity(slice_of("{\"PartitionKey\":\"p\","
                                           "\"RowKey\":\"r\"} {}"),
                         true, page, &err),
        TW_UNKNOWN);
}

PAGE_TEST(blanks_and_nul_bytes_end_nothing)
{
    assert_int_equal(
        odata_page((struct slice){"{\"value\":[]}\0", 13}, true, page, &err),
        TW_UNKNOWN);
    assert_int_equal(odata_page((struct slice){"{\"a\":1\0,\"value\":[]}", 20},
                         true, page, &err),
        TW_UNKNOWN);
}

TEST(keys_among_what_is_selected_are_not_selected_twice)
{
    static const struct slice names[] = {
        {"RowKey", 6}, {"N", 1}, {"PartitionKey", 12}};

    check_query(
        &(struct scan_request){
            .table = "T", .top = 5, .select = names, .select_count = 3},
        "", "$select=PartitionKey%2CRowKey%2CN&$top=5");
}

TEST(a_filter_that_is_too_long_overflows)
{
    struct scan_request request = {.table = "T", .top = 5};
    char *filter = test_malloc(300001);
    struct buf query;

    memset(filter, 'x', 300000);
    filter[300000] = '\0';
    request.filter = slice_of(filter);
    buf_init(&query, 1024 * 1024);
    odata_add_scan_query(&query, &request);
    assert_true(query.overflow);
    buf_done(&query);
    test_free(filter);
}

TEST(a_continuation_names_an_empty_partition_key_too)
{
    check_query(&(struct scan_request){.table = "T",
                    .top = 5,
                    .from = {.more = true, .row_key = {"r", 1}}},
        "", "$top=5&NextPartitionKey=&NextRowKey=r");
}

SCRATCH_TEST(error_has_code_and_message)
{
    struct slice code = {NULL, 0}, message = {NULL, 0};

    assert_true(odata_error(
        slice_of("{\"odata.error\":{\"code\":\"TableNotFound\",\"message\":"
                 "{\"lang\":\"en-US\",\"value\":\"0:No.\\nRequestId:1\"}}}"),
        &scratch, &code, &message));
    assert_true(slice_is(code, "TableNotFound"));
    assert_true(slice_is(message, "0:No.\nRequestId:1"));
    assert_false(odata_error(slice_of("{}"), &scratch, &code, &message));
    assert_false(odata_error(slice_of("[1]"), &scratch, &code, &message));
    assert_false(odata_error(slice_of("<Error/>"), &scratch, &code, &message));
    assert_false(odata_error(slice_of(""), &scratch, &code, &message));
    assert_true(odata_error(
        slice_of("{\"odata.error\":{\"code\":5}}"), &scratch, &code, &message));
    assert_int_equal(code.len, 0);
}

/* Reads a page of `count` entities and `beside` annotations. */
static enum tw_err read_many(struct page *page, int count, int beside)
{
    struct buf body;
    enum tw_err code;

    buf_init(&body, 1024 * 1024);
    buf_add_char(&body, '{');
    for (int i = 0; i < beside; i++)
        buf_add_text(&body, "\"a\":1,");
    buf_add_text(&body, "\"value\":[");
    for (int i = 0; i < count; i++)
        buf_add_format(&body, "%s{\"PartitionKey\":\"\",\"RowKey\":\"%d\"}",
            i == 0 ? "" : ",", i);
    buf_add_text(&body, "]}");
    code = odata_page(buf_slice(&body), true, page, &err);
    assert_int_equal(page->count, code == TW_OK ? count : 0);
    buf_done(&body);
    return code;
}

PAGE_TEST(a_page_has_a_thousand_entities_and_little_beside)
{
    assert_ok(read_many(page, PAGE_MAX_ENTITIES, 32));
    assert_int_equal(read_many(page, PAGE_MAX_ENTITIES + 1, 0), TW_UNKNOWN);
    assert_non_null(strstr(err.text, "more than 1000"));
    assert_int_equal(read_many(page, 1, 33), TW_UNKNOWN);
}
