/* SPDX-License-Identifier: MIT */
/* The URLs and queries for the table service, to the byte; its pages and
 * errors. */
#include <string.h>

#include "tests/support/quotes.h"
#include "tests/support/test.h"
#include "worker/store/azure/odata.h"

static const char *written(struct buf *buf)
{
    assert_false(buf->overflow);
    return buf_text(buf);
}

static void check_path(const char *table, const char *partition_key,
    const char *row_key, const char *wanted)
{
    struct buf path;

    buf_init(&path, 4096);
    odata_add_entity_path(
        &path, table, slice_of(partition_key), slice_of(row_key));
    assert_string_equal(written(&path), wanted);
    buf_done(&path);
}

TEST(entity_path_doubles_quotes_and_encodes)
{
    check_path("mytable", "o'brien x",
        "r\xc3\xa9"
        "1",
        "/mytable(PartitionKey='o%27%27brien%20x',RowKey='r%C3%A91')");
    check_path("T", "", "a+b&c%=()'",
        "/T(PartitionKey='',RowKey='a%2Bb%26c%25%3D%28%29%27%27')");
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

TEST(both_keys_are_always_selected_once)
{
    const struct slice names[] = {
        slice_of("RowKey"), slice_of("N"), slice_of("\xc3\xa4")};
    const struct slice doubled[] = {
        slice_of("RowKey"), slice_of("N"), slice_of("PartitionKey")};

    check_query(
        &(struct scan_request){.select = names, .select_count = 3, .top = 9},
        "", "$select=PartitionKey%2CRowKey%2CN%2C%C3%A4&$top=9");
    check_query(
        &(struct scan_request){.select = names, .select_count = 0, .top = 9},
        "", "$select=PartitionKey%2CRowKey&$top=9");
    check_query(
        &(struct scan_request){.select = doubled, .select_count = 3, .top = 5},
        "", "$select=PartitionKey%2CRowKey%2CN&$top=5");
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
    check_query(&(struct scan_request){.top = 5,
                    .from = {.more = true, .row_key = slice_of("r")}},
        "", "$top=5&NextPartitionKey=&NextRowKey=r");

    buf_init(&buf, 4096);
    odata_add_tables_query(&buf, &request.from);
    assert_string_equal(buf_text(&buf), "");
    request.from.more = true;
    odata_add_tables_query(&buf, &request.from);
    assert_string_equal(written(&buf), "NextTableName=1%218%21U21pdGg-");
    buf_done(&buf);
}

/* ---- pages ---- */

static struct err err; /* error of the last page */

struct pages {
    struct page page;
    struct arena arena;
};

static void pages_init(struct pages *p)
{
    page_init(&p->page);
    arena_init(&p->arena);
}

static void pages_done(struct pages *p)
{
    page_done(&p->page);
    arena_done(&p->arena);
}

TEST_FIXTURE(page, struct pages, pages_init, pages_done)

#define PAGE_TEST(name)                                                        \
    TEST_WITH(name, page_set_up, page_tear_down, struct pages *p)

/* Bodies are written with single quotes. */
static struct slice body_of(struct pages *p, const char *text)
{
    return slice_of(quoted(&p->arena, text));
}

static void is_page(
    struct pages *p, struct slice body, enum tw_err wanted, size_t count)
{
    err.text[0] = '\0';
    if (odata_page(body, true, &p->page, &err) != wanted)
        fail_msg("%.*s: %s", SLICE_ARG(body), err.text);
    assert_int_equal(p->page.count, count);
}

/* Reads an entity twice: as the only entity of a page, and as the response to a
 * get. Fails unless both have the outcome `wanted`. */
static void is_entity(struct pages *p, const char *text, enum tw_err wanted)
{
    struct slice body =
        arena_format(&p->arena, "{\"value\":[%s]}", body_of(p, text).at);

    is_page(p, body, wanted, 0);
    assert_int_equal(
        odata_entity(body_of(p, text), true, &p->page, &err), wanted);
    assert_int_equal(p->page.count, 0);
}

#define KEYS "'PartitionKey':'p','RowKey':'r'"

static const char sample_page[] =
    "{\"odata.metadata\":\"https://a/$metadata#T\",\"value\":[{\"odata.etag\":"
    "\"W/\\\"datetime'2021-06-04T21%3A59%3A51.4109869Z'\\\"\","
    "\"PartitionKey\":\"p]}\",\"RowKey\":\"r\\\"{[\",\"Timestamp\":"
    "\"2021-06-04T21:59:51.4109869Z\",\"N\":5,\"L@odata.type\":\"Edm.Int64\","
    "\"L\":\"7\"},{\"odata.etag\":\"e2\",\"PartitionKey\":\"p\",\"RowKey\":"
    "\"\\\\\"}]}";

PAGE_TEST(page_is_read_entity_by_entity)
{
    const struct entity *entities;

    is_page(p, slice_of(sample_page), TW_OK, 2);
    entities = p->page.entities;
    assert_true(slice_is(entities[0].partition_key, "p]}"));
    assert_true(slice_is(entities[0].row_key, "r\"{["));
    assert_true(slice_is(
        entities[0].etag, "W/\"datetime'2021-06-04T21%3A59%3A51.4109869Z'\""));
    assert_int_equal(entities[0].property_count, 2);
    assert_int_equal(entities[0].properties[1].type, EDM_INT64);
    assert_true(slice_is(entities[1].row_key, "\\"));
}

PAGE_TEST(value_may_stand_first_and_be_empty)
{
    is_page(p, body_of(p, "{'value':[],'odata.metadata':'m'}\r\n"), TW_OK, 0);
    is_page(
        p, body_of(p, " { 'x' : {'a':[1,{}]} , 'value' : [ ] } "), TW_OK, 0);
}

PAGE_TEST(page_cut_off_anywhere_is_no_page)
{
    size_t whole = strlen(sample_page);

    for (size_t len = 0; len < whole; len++) {
        test_case("cut at %zu", len);
        is_page(p, (struct slice){sample_page, len}, TW_UNKNOWN, 0);
        assert_true(err.text[0] != '\0');
    }
}

PAGE_TEST(other_bodies_are_no_page)
{
    static const char *const bodies[] = {"<html><body>200 OK</body></html>",
        "null", "[]", "{}", "'value'", "{'value':{}}", "{'value':[1]}",
        "{'value':[]}}", "{'value':[]} x", "{'value':[] 'a':1}",
        "{'value':[,]}", "{'a':nonsense,'value':[]}", "{value:[]}",
        "{'value':[{" KEYS "} x]}", "{'value':[],'value':nonsense}",
        "{'va\\xlue':1,'value':[]}", "{'a':", "{'a'"};

    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        is_page(p, body_of(p, bodies[i]), TW_UNKNOWN, 0);
}

/* A login page or proxy may respond with JSON of its own. That shows nothing
 * about what is stored, and must not make a run fail for good. */
PAGE_TEST(what_has_not_both_keys_is_no_entity)
{
    static const char *const others[] = {"{}", "{'PartitionKey':'p'}",
        "{'status':503,'message':'The gateway is being maintained'}",
        "{'error':{'PartitionKey':1,'RowKey':2}}"};

    for (size_t i = 0; TEST_EACH(i, others); i++)
        is_entity(p, others[i], TW_UNKNOWN);
}

PAGE_TEST(entity_that_makes_no_sense_is_invalid)
{
    static const char *const entities[] = {"{'PartitionKey':'p','RowKey':5}",
        "{'PartitionKey':'','RowKey':'','N':[1]}", "{" KEYS ",'N':1,'N':2}",
        "{" KEYS ",'N':99999999999}"};

    for (size_t i = 0; TEST_EACH(i, entities); i++)
        is_entity(p, entities[i], TW_INVALID);
}

/* If a page is truncated, an invalid entity before the cut shows nothing about
 * what is stored. */
PAGE_TEST(page_cut_off_behind_a_bad_entity_is_no_page)
{
    struct slice body = body_of(p, "{'value':[{" KEYS ",'N':99999999999}"
                                   ",{'PartitionKey':'p','RowKey':'s',"
                                   "'S':']}]}\\''}],'x':{}}");

    for (size_t len = 0; len <= body.len; len++) {
        test_case("cut at %zu", len);
        is_page(p, (struct slice){body.at, len},
            len == body.len ? TW_INVALID : TW_UNKNOWN, 0);
        assert_int_equal(strstr(err.text, "not a complete JSON page") != NULL,
            len < body.len);
    }
}

/* The position in the error is a byte offset in the body. */
PAGE_TEST(trouble_in_a_page_is_named_with_its_place)
{
    static const struct {
        const char *body, *place;
    } cases[] = {
        {"{'value':[{" KEYS "},7]}", "invalid at byte 44"},
        {"{'value':[{" KEYS "}", "it ends at byte 43"},
        {"{'value':[]]", "invalid at byte 11"},
        {"{'a':1,'value':5}", "invalid at byte 15"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        is_page(p, body_of(p, cases[i].body), TW_UNKNOWN, 0);
        if (!strstr(err.text, cases[i].place))
            fail_msg("%s: %s", cases[i].body, err.text);
    }
}

PAGE_TEST(tables_are_listed_by_name)
{
    static const char *const bad[] = {"{'value':[{'Name':'x'}]}",
        "{'value':[{'TableName':5}]}", "{'value':[{'TableName':'Ta\\x'}]}"};

    assert_ok(odata_tables(body_of(p, "{'value':[{'TableName':'Blogs'},"
                                      "{'odata.id':'x','TableName':'T'}]}"),
        &p->page, &err));
    assert_int_equal(p->page.count, 2);
    assert_true(slice_is(p->page.entities[0].partition_key, "Blogs"));
    assert_true(slice_is(p->page.entities[1].partition_key, "T"));
    for (size_t i = 0; TEST_EACH(i, bad); i++) {
        assert_int_equal(
            odata_tables(body_of(p, bad[i]), &p->page, &err), TW_UNKNOWN);
        assert_int_equal(p->page.count, 0);
    }
}

PAGE_TEST(entity_is_read_alone)
{
    static const char *const bad[] = {
        "{'PartitionKey':'p','Ro", "[1]", "{" KEYS "} {}"};

    assert_ok(odata_entity(body_of(p, "{'PartitionKey':'p','RowKey':''}\r\n"),
        true, &p->page, &err));
    assert_int_equal(p->page.count, 1);
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_int_equal(
            odata_entity(body_of(p, bad[i]), true, &p->page, &err), TW_UNKNOWN);
}

PAGE_TEST(blanks_and_nul_bytes_end_nothing)
{
    is_page(p, (struct slice){"{\"value\":[]}\0", 13}, TW_UNKNOWN, 0);
    is_page(p, (struct slice){"{\"a\":1\0,\"value\":[]}", 20}, TW_UNKNOWN, 0);
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

/* Reads a page of `count` entities and `beside` annotations. */
static void read_many(
    struct pages *p, int count, int beside, enum tw_err wanted)
{
    struct buf body;

    buf_init(&body, 1024 * 1024);
    buf_add_char(&body, '{');
    for (int i = 0; i < beside; i++)
        buf_add_text(&body, "\"a\":1,");
    buf_add_text(&body, "\"value\":[");
    for (int i = 0; i < count; i++)
        buf_add_format(&body, "%s{\"PartitionKey\":\"\",\"RowKey\":\"%04d\"}",
            i == 0 ? "" : ",", i);
    buf_add_text(&body, "]}");
    is_page(p, buf_slice(&body), wanted, wanted == TW_OK ? (size_t)count : 0);
    buf_done(&body);
}

PAGE_TEST(a_page_has_a_thousand_entities_and_little_beside)
{
    assert_int_equal(PAGE_MAX_ENTITIES, 1000);
    read_many(p, PAGE_MAX_ENTITIES, 32, TW_OK);
    assert_true(slice_is(p->page.entities[0].row_key, "0000"));
    assert_true(slice_is(p->page.entities[999].row_key, "0999"));
    read_many(p, PAGE_MAX_ENTITIES + 1, 0, TW_UNKNOWN);
    assert_non_null(strstr(err.text, "more than 1000"));
    read_many(p, 1, 33, TW_UNKNOWN);
}
