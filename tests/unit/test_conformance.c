/* SPDX-License-Identifier: MIT */
/*
 * What store.h promises, as test cases that every store passes. The embedded
 * store is always tested. The azure store is tested if TABLEWARD_AZURITE has
 * the connection string of an Azurite, or TABLEWARD_AZSIM that of an azsim
 * (tests/azsim). If Azurite differs from the service, a comment at the case or
 * at its line says so, and the case or line is skipped on Azurite.
 */
#include "tests/support/fixture.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/azure.h"
#include "worker/store/embedded/embedded.h"

static struct store *under_test; /* the store of the group that runs */

static int start(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));

    test_case("store %s", under_test->name);
    fixture_init(f, under_test);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    fixture_done(*state);
    mem_free(*state);
    return 0;
}

/* A test that every store passes. */
#define STORE_TEST(name) TEST_WITH(name, start, stop, struct fixture *f)

/* Values and filters for which Azurite behaves differently from the service. */
static const struct {
    const char *with, *does;
} AZURITE[] = {
    {"\"V@odata.type\":\"Edm.Double\",\"V\":-0.0", "returns 0.0 for -0.0"},
    {"I eq 5L", "answers 500"},
    {"T gt datetime'2024-01-02T03:04:05.678Z'", "compares milliseconds"},
    {"G eq guid'0F8FAD5B-D9CB-469F-A165-70867728950E'",
        "minds the case of a guid"},
};

/* Is the store Azurite, and is `with` a value or filter in AZURITE? */
static bool is_left_out(const struct fixture *f, const char *with)
{
    for (size_t i = 0; i < sizeof(AZURITE) / sizeof(AZURITE[0]); i++)
        if (strcmp(f->store->name, "azurite") == 0 &&
            strcmp(AZURITE[i].with, with) == 0) {
            print_message(
                "%s: left out on Azurite, which %s\n", with, AZURITE[i].does);
            return true;
        }
    return false;
}

static struct slice repeated(struct fixture *f, char c, size_t count)
{
    char *text = arena_alloc(&f->arena, count + 1);

    memset(text, c, count);
    return (struct slice){text, count};
}

static enum tw_err get_entity(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    return store_get(f->store, &f->exchange, f->table, slice_of(partition_key),
        slice_of(row_key), &f->page);
}

static struct operation insert_of(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    return fixture_operation(
        f, OPERATION_INSERT, partition_key, row_key, NULL, "\"A\":1");
}

/* Turns the inserts of the last batch into deletes of the same entities. */
static void turn_into_deletes(
    struct fixture *f, struct operation *operations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(f->result.etags[i][0] != '\0');
        operations[i].type = OPERATION_DELETE;
        operations[i].entity.etag =
            arena_copy(&f->arena, slice_of(f->result.etags[i]));
    }
}

/* ---- tables ---- */

STORE_TEST(table_created_twice_is_there_once)
{
    fixture_insert(f, "p", "r", "\"A\":1");
    check(f, TW_OK, store_create_table(f->store, &f->exchange, f->table));
    check_all(f, "p/r");
}

STORE_TEST(tables_are_listed)
{
    struct continuation from = {0};
    unsigned found = 0;

    do {
        check(f, TW_OK,
            store_list_tables(f->store, &f->exchange, from, &f->page));
        for (size_t i = 0; i < f->page.count; i++)
            found += slice_is(f->page.entities[i].partition_key, f->table);
        from = f->page.next;
    } while (f->page.next.more);
    assert_int_equal(found, 1);
}

STORE_TEST(missing_table_is_not_found)
{
    struct operation two[] = {insert_of(f, "p", "r"), insert_of(f, "p", "s")};

    fixture_name("Missing", f->table);
    check(f, TW_NOT_FOUND, fixture_scan(f, (struct scan_request){0}));
    assert_true(f->exchange.err.text[0] != '\0');
    assert_false(f->page.next.more);
    check(f, TW_NOT_FOUND, get_entity(f, "p", "r"));
    assert_true(f->exchange.err.text[0] != '\0');
    assert_int_equal(f->page.count, 0);
    check(f, TW_NOT_FOUND, fixture_send(f, two, 1));
    check(f, TW_NOT_FOUND, fixture_send(f, two, 2));
}

/* ---- values ---- */

#define TYPED(type, value) "\"V@odata.type\":\"Edm." type "\",\"V\":" value

static const char *const VALUES[] = {"\"V\":\"\"", "\"V\":\"text\"",
    "\"V\":\" blanks \"", "\"V\":\"quote ' double \\\" back \\\\ slash / \"",
    "\"V\":\"line\\nreturn\\r\\ntab\\t\"", "\"V\":\"nul\\u0000inside\"",
    "\"V\":\"BEL\\u0007 esc\\u001b del\\u007f\"",
    "\"V\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\u00e4\\ud83d\\ude00\"",
    "\"V\":\"null\"", "\"V\":\"123\"", "\"V\":\"2024-01-01T00:00:00Z\"",
    "\"V\":0", "\"V\":2147483647", "\"V\":-2147483648", TYPED("Int64", "\"0\""),
    TYPED("Int64", "\"9223372036854775807\""),
    TYPED("Int64", "\"-9223372036854775808\""),
    TYPED("Int64", "\"9007199254740993\""), TYPED("Double", "1.0"),
    TYPED("Double", "0.0"), TYPED("Double", "-0.0"), TYPED("Double", "0.1"),
    TYPED("Double", "-2.5"), TYPED("Double", "1.7976931348623157E+308"),
    TYPED("Double", "4.9E-324"), TYPED("Double", "\"NaN\""),
    TYPED("Double", "\"Infinity\""), TYPED("Double", "\"-Infinity\""),
    "\"V\":true", "\"V\":false", TYPED("DateTime", "\"1601-01-01T00:00:00Z\""),
    TYPED("DateTime", "\"9999-12-31T23:59:59.9999999Z\""),
    TYPED("DateTime", "\"2024-02-29T12:34:56.1234567Z\""),
    TYPED("Guid", "\"0f8fad5b-d9cb-469f-a165-70867728950e\""),
    TYPED("Binary", "\"\""), TYPED("Binary", "\"AAECAwT/\"")};
#define VALUE_COUNT (sizeof(VALUES) / sizeof(VALUES[0]))

/* Fails unless `got` has the properties of `sent`, with the same types and
 * values, and no others. */
static void check_same(
    struct fixture *f, const struct entity *sent, const struct entity *got)
{
    for (size_t i = 0; i < sent->property_count; i++) {
        const struct property *property = &sent->properties[i];
        const struct property *other = entity_find(got, property->name);

        if (!other || !property_equal(property, other)) {
            check_text(fixture_json(f, got), fixture_json(f, sent));
            fail_msg("a property is not the same");
        }
    }
    assert_int_equal(sent->property_count, got->property_count);
}

/* Each value is read by a scan and written back with the ETag that was read. */
STORE_TEST(values_survive_a_rewrite_from_a_scan)
{
    struct operation insert, replace = {.type = OPERATION_REPLACE};
    struct buf all;

    buf_init(&all, 16384);
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        struct slice json = slice_of(VALUES[i]);

        if (is_left_out(f, VALUES[i]))
            continue;
        for (size_t at = 0; at < json.len; at++)
            if (json.at[at] == 'V' && json.at[at - 1] == '"')
                buf_add_format(&all, "V%zu", i);
            else
                buf_add_char(&all, json.at[at]);
        buf_add_char(&all, ',');
    }
    all.at[--all.len] = '\0';
    insert = fixture_operation(
        f, OPERATION_INSERT, "all", "row", NULL, buf_text(&all));
    buf_done(&all);
    check(f, TW_OK, fixture_send(f, &insert, 1));
    check(f, TW_OK, fixture_scan(f, (struct scan_request){0}));
    assert_int_equal(f->page.count, 1);
    entity_copy(&replace.entity, &f->arena, &f->page.entities[0]);
    check_same(f, &insert.entity, &replace.entity);
    check(f, TW_OK, fixture_send(f, &replace, 1));
    check_same(f, &insert.entity, fixture_get(f, "all", "row"));
}

STORE_TEST(strings_and_binaries_of_64_kib_fit)
{
    struct slice text = repeated(f, 'x', 32 * 1024);
    struct slice base64 = repeated(f, 'A', 87380);
    struct operation insert =
        fixture_operation(f, OPERATION_INSERT, "p", "r", NULL,
            arena_format(&f->arena,
                "\"S\":\"%.*s\",\"B@odata.type\":\"Edm.Binary\",\"B\":\"%.*s\"",
                SLICE_ARG(text), SLICE_ARG(base64))
                .at);

    check(f, TW_OK, fixture_send(f, &insert, 1));
    check_same(f, &insert.entity, fixture_get(f, "p", "r"));
}

STORE_TEST(entity_has_etag_and_timestamp)
{
    const char *etag = fixture_insert(f, "p", "r", "\"A\":1");
    const struct entity *entity = fixture_get(f, "p", "r");
    int64_t ticks, now_ticks = platform_wall_ticks();

    assert_true(etag[0] != '\0');
    check_text(entity->etag, slice_of(etag));
    assert_true(text_ticks(entity->timestamp, &ticks));
    assert_true(ticks > now_ticks - 60 * TICKS_PER_S);
    assert_true(ticks < now_ticks + 60 * TICKS_PER_S);
    check(f, TW_OK, fixture_scan(f, (struct scan_request){0}));
    check_text(f->page.entities[0].etag, slice_of(etag));
}

STORE_TEST(attempt_tells_when_it_was)
{
    int64_t before_ms = platform_boot_ms();
    int64_t now_ticks = platform_wall_ticks();

    fixture_insert(f, "p", "r", "");
    assert_true(f->exchange.sent_ms >= before_ms);
    assert_true(f->exchange.sent_ms <= platform_boot_ms());
    assert_true(f->exchange.date_ticks >= now_ticks - 2 * TICKS_PER_S);
    assert_true(f->exchange.date_ticks <= now_ticks + 60 * TICKS_PER_S);
    assert_int_equal(f->exchange.retry_after_ms, -1);
}

/* ---- keys ---- */

static const char *const ODD_KEYS[] = {"O'Brien", "''", "two words",
    " begins and ends ", "100%", "%41", "%2F", "a+b", "a&b=c", "a,b;c", "(x)",
    "a=b", "$batch", "@x", "\"quoted\"", "<tag>&amp;", "SURF", "a:b", "[x]{y}",
    "~!*-._", "\xc3\xa4\xc3\xb6\xc3\xbc", "\xe6\x97\xa5\xe6\x9c\xac",
    "\xf0\x9f\x98\x80\xf0\x9f\x8f\xbf", "e\xcc\x81"};
#define ODD_KEY_COUNT (sizeof(ODD_KEYS) / sizeof(ODD_KEYS[0]))

static void find_exactly(
    struct fixture *f, struct slice partition_key, struct slice row_key)
{
    struct scan_request request = {
        .partition_key = key_range_exact(partition_key),
        .row_key = key_range_exact(row_key),
    };
    struct slice expected = arena_format(
        &f->arena, "%.*s/%.*s", SLICE_ARG(partition_key), SLICE_ARG(row_key));

    check_text(slice_of(fixture_keys(f, request)), expected);
}

static void insert_rewrite_and_delete(
    struct fixture *f, const char *partition_key, const char *row_key)
{
    struct operation delete =
        fixture_operation(f, OPERATION_DELETE, partition_key, row_key, "", "");

    check(f, TW_OK,
        fixture_change(f, OPERATION_MERGE, partition_key, row_key,
            fixture_insert(f, partition_key, row_key, "\"A\":1"), "\"B\":2"));
    assert_int_equal(fixture_get(f, partition_key, row_key)->property_count, 2);
    find_exactly(f, slice_of(partition_key), slice_of(row_key));
    turn_into_deletes(f, &delete, 1);
    check(f, TW_OK, fixture_send(f, &delete, 1));
    check(f, TW_NOT_FOUND, get_entity(f, partition_key, row_key));
    assert_int_equal(f->page.count, 0);
    assert_true(f->exchange.date_ticks > 0);
}

STORE_TEST(odd_keys_are_keys_like_others)
{
    for (size_t i = 0; i < ODD_KEY_COUNT; i++)
        insert_rewrite_and_delete(
            f, ODD_KEYS[i], ODD_KEYS[ODD_KEY_COUNT - 1 - i]);
}

STORE_TEST(empty_keys_are_keys)
{
    insert_rewrite_and_delete(f, "", "r");
    insert_rewrite_and_delete(f, "p", "");
    insert_rewrite_and_delete(f, "", "");
}

STORE_TEST(keys_may_have_512_units)
{
    struct slice key = repeated(f, 'k', 512);

    fixture_insert(f, key.at, key.at, "");
    (void)fixture_get(f, key.at, key.at);
}

/* ---- scans ---- */

static void fill_for_ranges(struct fixture *f)
{
    static const char *const keys[][2] = {{"a", "1"}, {"a", "2"}, {"a", "3"},
        {"a_", "1"}, {"a_b", "2"}, {"b", "10"}, {"b", "100"}, {"b", "2"},
        {"c", "1"}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        fixture_insert(f, keys[i][0], keys[i][1], "\"A\":1");
}

/* Returns the range that `text` stands for: "=x", ">x", ">=x", "<y" or ">=x
 * <y"; "": any key. */
static struct key_range range_of(const char *text)
{
    size_t operator_len = strspn(text, ">=");
    size_t from_len = strcspn(text, " <");
    const char *below = strchr(text, '<');

    return (struct key_range){
        .exact = text[0] == '=',
        .has_from = from_len > 0,
        .from_exclusive = text[0] == '>' && text[1] != '=',
        .from = {text + operator_len, from_len - operator_len},
        .has_below = below != NULL,
        .below = slice_of(below ? below + 1 : ""),
    };
}

static const struct {
    const char *partition_key, *row_key, *expected;
} RANGES[] = {
    {"", "", "a/1 a/2 a/3 a_/1 a_b/2 b/10 b/100 b/2 c/1"},
    {"=a", "", "a/1 a/2 a/3"},
    {"=none", "", ""},
    {"=a", "=2", "a/2"},
    {"=a", "=4", ""},
    {"=a", ">=2", "a/2 a/3"},
    {"=a", ">2", "a/3"},
    {"=a", "<2", "a/1"},
    {"=b", ">=1 <2", "b/10 b/100"},
    {">=a_", "", "a_/1 a_b/2 b/10 b/100 b/2 c/1"},
    {">a", "", "a_/1 a_b/2 b/10 b/100 b/2 c/1"},
    {"<a_b", "", "a/1 a/2 a/3 a_/1"},
    {">=a_ <b", "", "a_/1 a_b/2"},
    {"", "=1", "a/1 a_/1 c/1"},
    {"", "=2", "a/2 a_b/2 b/2"},
    {"", ">1", "a/2 a/3 a_b/2 b/10 b/100 b/2"},
    {"", ">=10 <2", "b/10 b/100"},
    {">a", ">1", "a_b/2 b/10 b/100 b/2"},
};

STORE_TEST(ranges_bound_both_keys)
{
    fill_for_ranges(f);
    for (size_t i = 0; TEST_EACH(i, RANGES); i++) {
        struct scan_request request = {
            .partition_key = range_of(RANGES[i].partition_key),
            .row_key = range_of(RANGES[i].row_key)};

        check_keys(f, request, RANGES[i].expected);
        request.top = 1;
        check_keys(f, request, RANGES[i].expected);
    }
}

STORE_TEST(prefixes_may_end_anywhere)
{
    static const char *const prefixes[] = {
        "\xed\x9f\xbf", "\xef\xbf\xbd", "\xf0\x9f\x98\x80", "~", "'"};

    for (size_t i = 0; TEST_EACH(i, prefixes); i++) {
        struct slice key =
            arena_format(&f->arena, "%s\xf0\x90\x8d\x88x", prefixes[i]);
        struct scan_request request = {.partition_key = key_range_prefix(
                                           slice_of(prefixes[i]), &f->arena)};

        fixture_insert(f, key.at, "r", "");
        assert_non_null(strstr(fixture_keys(f, request), key.at));
    }
}

/* Returns a key of a, U+D7FF, U+E000, U+FF41 and U+1F600. As UTF-16 units the
 * last four are D7FF, E000, FF41 and D83D DE00. */
static struct slice random_key(struct fixture *f)
{
    static const char *const letters[] = {"a", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbd\x81", "\xf0\x9f\x98\x80"};
    struct slice key = {"", 0};

    for (uint64_t len = 1 + platform_random_below(3); len > 0; len--)
        key = arena_format(&f->arena, "%.*s%s", SLICE_ARG(key),
            letters[platform_random_below(5)]);
    return key;
}

static int compare_keys(const void *a, const void *b)
{
    const struct slice *one = a, *other = b;
    int order = text_utf16_compare(one[0], other[0]);

    return order ? order : text_utf16_compare(one[1], other[1]);
}

STORE_TEST(scans_return_keys_in_utf16_order)
{
    struct slice keys[60][2];
    size_t count = 0;
    struct buf wanted;

    while (count < 60) {
        struct operation insert;

        keys[count][0] =
            platform_random_below(2) ? random_key(f) : slice_of("p");
        keys[count][1] = random_key(f);
        insert = fixture_operation(f, OPERATION_INSERT, keys[count][0].at,
            keys[count][1].at, NULL, "\"A\":1");
        count += fixture_send(f, &insert, 1) == TW_OK;
    }
    qsort(keys, count, sizeof(keys[0]), compare_keys);
    buf_init(&wanted, 65536);
    for (size_t i = 0; i < count; i++)
        buf_add_format(&wanted, "%s%.*s/%.*s", i ? " " : "",
            SLICE_ARG(keys[i][0]), SLICE_ARG(keys[i][1]));
    check_text(slice_of(fixture_all(f)), buf_slice(&wanted));
    check_text(slice_of(fixture_keys(f, (struct scan_request){.top = 3})),
        buf_slice(&wanted));
    buf_done(&wanted);
}

#define FILTERED                                                               \
    "\"S\":\"O'Brien\",\"I\":5,\"L@odata.type\":\"Edm.Int64\",\"L\":\"5\","    \
    "\"D@odata.type\":\"Edm.Double\",\"D\":2.5,\"B\":true,"                    \
    "\"T@odata.type\":\"Edm.DateTime\",\"T\":\"2024-01-02T03:04:05."           \
    "6780001Z\","                                                              \
    "\"G@odata.type\":\"Edm.Guid\","                                           \
    "\"G\":\"0f8fad5b-d9cb-469f-a165-70867728950e\","                          \
    "\"X@odata.type\":\"Edm.Binary\",\"X\":\"Cv8=\""

static const char *const MATCHING[] = {"S eq 'O''Brien'", "S ne 'x'",
    "S gt 'O'", "I eq 5", "I gt -1", "L eq 5L", "L lt 9007199254740993L",
    "D eq 2.5", "D gt 2.4", "B eq true",
    "T eq datetime'2024-01-02T03:04:05.6780001Z'",
    "T lt datetime'2025-01-01T00:00:00Z'",
    "T gt datetime'2024-01-02T03:04:05.678Z'",
    "G eq guid'0f8fad5b-d9cb-469f-a165-70867728950e'",
    "G eq guid'0F8FAD5B-D9CB-469F-A165-70867728950E'", "X eq X'0aff'",
    "X eq binary'0aff'", "not (S eq 'x')", "not (Missing eq 'x')",
    "PartitionKey eq 'p' and RowKey ge 'r' and RowKey lt 's'",
    "(I eq 6 or S eq 'O''Brien') and not (B eq false)",
    "I eq 6 or I eq 5 and B eq true"};

static const char *const NOT_MATCHING[] = {"S lt 'O'", "S eq 'o''brien'",
    "S eq ''", "I ne 5", "I ge 6", "L eq 5", "I eq 5L", "D le 2.4",
    "B eq false", "X eq X'0afe'", "Missing eq 'x'", "Missing ne 'x'",
    "RowKey eq 's'"};

static void filter(struct fixture *f, const char *text, const char *keys)
{
    struct scan_request request = {.filter = slice_of(text)};

    test_case("%s on %s", text, f->store->name);
    if (!is_left_out(f, text))
        check_keys(f, request, keys);
}

STORE_TEST(filters_match_by_type)
{
    fixture_insert(f, "p", "r", FILTERED);
    for (size_t i = 0; i < sizeof(MATCHING) / sizeof(MATCHING[0]); i++)
        filter(f, MATCHING[i], "p/r");
    for (size_t i = 0; i < sizeof(NOT_MATCHING) / sizeof(NOT_MATCHING[0]); i++)
        filter(f, NOT_MATCHING[i], "");
}

STORE_TEST(filters_join_ranges)
{
    struct scan_request request = {
        .partition_key = range_of("=p"),
        .row_key = range_of(">=0010 <0020"),
        .filter = slice_of("Number lt 12 or Number eq 19"),
    };

    fixture_fill(f, "p", 30);
    fixture_fill(f, "q", 30);
    check_keys(f, request, "p/0010 p/0011 p/0019");
}

STORE_TEST(wrong_filters_are_invalid)
{
    struct scan_request request = {.filter = slice_of("A eq eq 'x'")};

    check(f, TW_INVALID, fixture_scan(f, request));
    assert_true(f->exchange.err.text[0] != '\0');
}

STORE_TEST(select_gives_what_is_named)
{
    const struct slice names[] = {
        {"B", 1}, {"Missing", 7}, {"PartitionKey", 12}, {"RowKey", 6}};
    struct scan_request request = {.select = names, .select_count = 4};

    fixture_insert(f, "p", "r", "\"A\":\"long\",\"B\":2,\"C\":true");
    check_keys(f, request, "p/r");
    check(f, TW_OK, fixture_scan(f, request));
    assert_true(f->page.entities[0].etag.len > 0);
    check_text(fixture_json(f, &f->page.entities[0]), slice_of("{\"B\":2}"));
}

STORE_TEST(select_of_nothing_gives_keys)
{
    const struct slice none[] = {{"", 0}};
    struct scan_request request = {.select = none};
    const char *etag = fixture_insert(f, "p", "r", "\"A\":\"long\"");

    check_keys(f, request, "p/r");
    check(f, TW_OK, fixture_scan(f, request));
    check_text(f->page.entities[0].etag, slice_of(etag));
    assert_int_equal(f->page.entities[0].property_count, 0);
}

STORE_TEST(filter_may_read_what_is_not_selected)
{
    const struct slice names[] = {{"A", 1}};
    struct scan_request request = {
        .select = names, .select_count = 1, .filter = slice_of("B eq 2")};

    fixture_insert(f, "p", "1", "\"A\":1,\"B\":1");
    fixture_insert(f, "p", "2", "\"A\":1,\"B\":2");
    check_keys(f, request, "p/2");
    check(f, TW_OK, fixture_scan(f, request));
    check_text(fixture_json(f, &f->page.entities[0]), slice_of("{\"A\":1}"));
}

STORE_TEST(continuation_keeps_filter_and_select)
{
    const struct slice names[] = {{"Number", 6}};
    struct scan_request request = {.top = 3,
        .filter = slice_of("Number ge 5 and Number lt 15"),
        .select = names,
        .select_count = 1};

    fixture_fill(f, "p", 20);
    check_keys(f, request,
        "p/0005 p/0006 p/0007 p/0008 p/0009 p/0010 p/0011 p/0012 p/0013 "
        "p/0014");
}

STORE_TEST(pages_hold_at_most_1000)
{
    struct scan_request request = {0};
    size_t count = 0;

    fixture_fill(f, "p", 1001);
    do {
        check(f, TW_OK, fixture_scan(f, request));
        assert_true(f->page.count <= PAGE_MAX_ENTITIES);
        count += f->page.count;
        request.from = f->page.next;
    } while (f->page.next.more);
    assert_int_equal(count, 1001);
}

/* Returns an insert of 14 strings of 32,000 units each, which the service
 * counts as 896,000 bytes. */
static struct operation large_insert(struct fixture *f, const char *row_key)
{
    struct slice text = repeated(f, 'x', 32000);
    struct operation insert =
        fixture_operation(f, OPERATION_INSERT, "large", row_key, NULL, "");

    for (int i = 0; i < 14; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "S%d", i);
        entity_set_string(&insert.entity, &f->arena, name, text);
    }
    return insert;
}

STORE_TEST(large_entities_come_in_pages)
{
    struct operation insert;

    for (int i = 0; i < 12; i++) {
        insert = large_insert(f, arena_format(&f->arena, "%02d", i).at);
        check(f, TW_OK, fixture_send(f, &insert, 1));
    }
    check_same(f, &insert.entity, fixture_get(f, "large", "11"));
    check_all(f, "large/00 large/01 large/02 large/03 large/04 large/05 "
                 "large/06 large/07 large/08 large/09 large/10 large/11");
}

STORE_TEST(answers_beyond_max_bytes_are_too_large)
{
    struct scan_request request = {.max_bytes = 200000, .top = 1};
    struct operation insert = large_insert(f, "1");

    check(f, TW_OK, fixture_send(f, &insert, 1));
    check(f, TW_TOO_LARGE, fixture_scan(f, request));
    request.max_bytes = 600000;
    check(f, TW_OK, fixture_scan(f, request));
    assert_int_equal(f->page.count, 1);
}

/* ---- batches ---- */

STORE_TEST(batch_of_100_is_applied)
{
    struct operation operations[BATCH_MAX_OPERATIONS];

    for (size_t i = 0; i < 100; i++)
        operations[i] =
            insert_of(f, "p", arena_format(&f->arena, "%03zu", i).at);
    check(f, TW_OK, fixture_send(f, operations, 100));
    turn_into_deletes(f, operations, 100);
    check(f, TW_OK, fixture_send(f, operations, 100));
    for (size_t i = 0; i < 100; i++)
        assert_string_equal(f->result.etags[i], "");
    check_all(f, "");
}

STORE_TEST(batch_over_4_mib_is_too_large)
{
    struct operation operations[11];

    for (int i = 0; i < 11; i++)
        operations[i] = large_insert(f, arena_format(&f->arena, "%02d", i).at);
    check(f, TW_TOO_LARGE, fixture_send(f, operations, 11));
    assert_int_equal(f->result.failed, 11);
    check_all(f, "");
}

/* Operations of a batch that are refused, and their outcomes. */
static const struct refusal {
    enum operation_type type;
    const char *row_key; /* "there" exists, "missing" does not */
    bool stale;
    enum tw_err outcome;
} REFUSALS[] = {
    {OPERATION_INSERT, "there", false, TW_CONFLICT},
    {OPERATION_REPLACE, "there", true, TW_CONFLICT},
    {OPERATION_MERGE, "there", true, TW_CONFLICT},
    {OPERATION_DELETE, "there", true, TW_CONFLICT},
    {OPERATION_REPLACE, "missing", true, TW_NOT_FOUND},
    {OPERATION_MERGE, "missing", true, TW_NOT_FOUND},
    {OPERATION_DELETE, "missing", true, TW_NOT_FOUND},
};

/* Returns an ETag that the entity "there" had before it was changed. */
static const char *make_stale(struct fixture *f)
{
    const char *etag = fixture_insert(f, "p", "there", "\"A\":0");

    check(f, TW_OK,
        fixture_change(f, OPERATION_REPLACE, "p", "there", etag, "\"A\":1"));
    assert_string_not_equal(f->result.etags[0], etag);
    return etag;
}

/* Sends a batch of `size` operations, of which the one at `index` must be
 * refused. */
static void refuse(struct fixture *f, const struct refusal *refusal,
    const char *stale, size_t size, size_t index)
{
    struct operation operations[5];

    for (size_t i = 0; i < size; i++)
        operations[i] =
            insert_of(f, "p", arena_format(&f->arena, "new%zu", i).at);
    operations[index] = fixture_operation(f, refusal->type, "p",
        refusal->row_key, refusal->stale ? stale : NULL, "\"A\":2");
    check(f, refusal->outcome, fixture_send(f, operations, size));
    assert_int_equal(f->result.failed, index);
    assert_true(f->exchange.err.text[0] != '\0');
    check_all(f, "p/there");
    check_json(f, "p", "there", "{\"A\":1}");
}

STORE_TEST(refused_batch_names_its_operation_and_changes_nothing)
{
    const char *stale = make_stale(f);

    for (size_t i = 0; TEST_EACH(i, REFUSALS); i++) {
        refuse(f, &REFUSALS[i], stale, 5, 0);
        refuse(f, &REFUSALS[i], stale, 5, 2);
        refuse(f, &REFUSALS[i], stale, 5, 4);
        refuse(f, &REFUSALS[i], stale, 1, 0);
    }
}

STORE_TEST(merge_keeps_the_others)
{
    const char *etag =
        fixture_insert(f, "p", "r", "\"A\":1,\"B\":\"two\",\"C\":true");
    struct entity whole = fixture_entity(f, "p", "r",
        "\"A\":1,\"B@odata.type\":\"Edm.Int64\",\"B\":\"2\",\"C\":true,"
        "\"D\":4");

    check(f, TW_OK,
        fixture_change(f, OPERATION_MERGE, "p", "r", etag,
            "\"B@odata.type\":\"Edm.Int64\",\"B\":\"2\",\"D\":4"));
    check_same(f, &whole, fixture_get(f, "p", "r"));
    check_text(f->page.entities[0].etag, slice_of(f->result.etags[0]));
}

STORE_TEST(merge_of_nothing_gives_a_new_etag)
{
    const char *etag = fixture_insert(f, "p", "r", "\"A\":1");

    check(f, TW_OK, fixture_change(f, OPERATION_MERGE, "p", "r", etag, ""));
    assert_string_not_equal(f->result.etags[0], etag);
    check_json(f, "p", "r", "{\"A\":1}");
}

STORE_TEST(etag_does_not_come_back)
{
    const char *first = fixture_insert(f, "p", "r", "\"A\":1");
    struct operation delete =
        fixture_operation(f, OPERATION_DELETE, "p", "r", first, "");

    check(f, TW_OK, fixture_send(f, &delete, 1));
    check(f, TW_NOT_FOUND, fixture_send(f, &delete, 1));
    assert_string_not_equal(fixture_insert(f, "p", "r", "\"A\":1"), first);
    check(f, TW_CONFLICT, fixture_send(f, &delete, 1));
    check_all(f, "p/r");
}

STORE_TEST(batch_mixes_operations)
{
    const char *one = fixture_insert(f, "p", "1", "\"A\":1,\"B\":1");
    const char *two = fixture_insert(f, "p", "2", "\"A\":1,\"B\":1");
    const char *three = fixture_insert(f, "p", "3", "\"A\":1,\"B\":1");
    struct operation operations[] = {
        fixture_operation(f, OPERATION_DELETE, "p", "1", one, ""),
        fixture_operation(f, OPERATION_MERGE, "p", "2", two, "\"B\":2"),
        fixture_operation(f, OPERATION_REPLACE, "p", "3", three, "\"C\":3"),
        fixture_operation(f, OPERATION_INSERT, "p", "4", NULL, "\"D\":4"),
    };

    check(f, TW_OK, fixture_send(f, operations, 4));
    check_all(f, "p/2 p/3 p/4");
    check_json(f, "p", "2", "{\"A\":1,\"B\":2}");
    check_json(f, "p", "3", "{\"C\":3}");
    check_text(fixture_get(f, "p", "4")->etag, slice_of(f->result.etags[3]));
}

/* ---- queues ---- */

static void put(struct fixture *f, const char *text, int64_t hide_s)
{
    check(f, TW_OK,
        store_queue_put(f->store, &f->exchange, f->queue, slice_of(text),
            hide_s, &f->messages));
    assert_int_equal(f->messages.count, 1);
}

/* Returns how many messages were received; they are in f->messages. */
static size_t get(struct fixture *f, unsigned count, int64_t timeout_s)
{
    check(f, TW_OK,
        store_queue_get(
            f->store, &f->exchange, f->queue, count, timeout_s, &f->messages));
    return f->messages.count;
}

static size_t peek(struct fixture *f)
{
    check(f, TW_OK,
        store_queue_peek(f->store, &f->exchange, f->queue, 32, &f->messages));
    return f->messages.count;
}

static int64_t count_of(struct fixture *f)
{
    int64_t count = -1;

    check(
        f, TW_OK, store_queue_count(f->store, &f->exchange, f->queue, &count));
    return count;
}

/* Texts of a received message that are needed after the next response. */
struct held {
    struct slice id;
    char receipt[QUEUE_RECEIPT_MAX];
};

static struct held hold(struct fixture *f, size_t index)
{
    const struct message *message = &f->messages.list[index];
    struct held held = {.id = arena_copy(&f->arena, message->id)};

    assert_true(message->pop_receipt.len < sizeof(held.receipt));
    memcpy(held.receipt, message->pop_receipt.at, message->pop_receipt.len);
    return held;
}

/* Puts a message and receives it, so that it is hidden for 300 s. Returns the
 * message. */
static struct held put_and_get(struct fixture *f, const char *text)
{
    put(f, text, 0);
    assert_int_equal(get(f, 1, 300), 1);
    check_text(f->messages.list[0].text, slice_of(text));
    return hold(f, 0);
}

static enum tw_err delete_held(struct fixture *f, const struct held *held)
{
    return store_queue_delete(
        f->store, &f->exchange, f->queue, held->id, slice_of(held->receipt));
}

static enum tw_err renew(struct fixture *f, struct held *held, int64_t hide_s)
{
    return store_queue_renew(
        f->store, &f->exchange, f->queue, held->id, held->receipt, hide_s);
}

/* Waits until a message is visible; fails if that takes far too long. */
static void wait_until_visible(struct fixture *f)
{
    int64_t give_up_ms = platform_boot_ms() + 30000;

    while (peek(f) == 0) {
        assert_true(platform_boot_ms() < give_up_ms);
        (void)usleep(50000);
    }
}

STORE_TEST(queue_created_twice_is_there_once)
{
    put(f, "kept", 0);
    check(f, TW_OK, store_queue_create(f->store, &f->exchange, f->queue));
    assert_int_equal(count_of(f), 1);
}

STORE_TEST(missing_queue_is_not_found)
{
    struct held held;
    int64_t count;

    put(f, "text", 0);
    held = hold(f, 0);
    fixture_name("missing-", f->queue);
    check(f, TW_NOT_FOUND,
        store_queue_put(
            f->store, &f->exchange, f->queue, slice_of("x"), 0, &f->messages));
    assert_true(f->exchange.err.text[0] != '\0');
    check(f, TW_NOT_FOUND,
        store_queue_get(f->store, &f->exchange, f->queue, 1, 30, &f->messages));
    check(f, TW_NOT_FOUND,
        store_queue_peek(f->store, &f->exchange, f->queue, 1, &f->messages));
    check(f, TW_NOT_FOUND,
        store_queue_count(f->store, &f->exchange, f->queue, &count));
    check(f, TW_NOT_FOUND, delete_held(f, &held));
    check(f, TW_NOT_FOUND, renew(f, &held, 30));
}

STORE_TEST(got_message_is_hidden_until_deleted)
{
    int64_t now_ticks = platform_wall_ticks();
    struct held held = put_and_get(f, "work");
    struct message *message = &f->messages.list[0];

    assert_int_equal(message->dequeue_count, 1);
    assert_int_equal(message->inserted_ticks % TICKS_PER_S, 0);
    assert_true(message->inserted_ticks > now_ticks - 60 * TICKS_PER_S);
    assert_true(message->inserted_ticks < now_ticks + 60 * TICKS_PER_S);
    assert_true(message->next_visible_ticks > now_ticks + 200 * TICKS_PER_S);
    assert_int_equal(get(f, 32, 300), 0);
    assert_int_equal(peek(f), 0);
    assert_int_equal(count_of(f), 1);
    check(f, TW_OK, delete_held(f, &held));
    assert_int_equal(count_of(f), 0);
    check(f, TW_CONFLICT, delete_held(f, &held));
    check(f, TW_CONFLICT, renew(f, &held, 30));
}

STORE_TEST(texts_come_back_exactly)
{
    static const char *const texts[] = {"", "x",
        "{\"job\": \"delete-channel\"}",
        "eyJqb2IiOiAiZGVsZXRlLWNoYW5uZWwifQ==", "SURF",
        "a+b/c==", "<QueueMessage>&amp;<![CDATA[x]]></QueueMessage>",
        "\"quotes\" 'both'", " blanks around ", "line\nline\n",
        "tab\tand\rreturn\r\nboth", "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80",
        "%41+&=#?", "]]>", "&#x41;"};

    for (size_t i = 0; TEST_EACH(i, texts); i++) {
        struct held held;

        put(f, texts[i], 0);
        assert_int_equal(peek(f), 1);
        check_text(f->messages.list[0].text, slice_of(texts[i]));
        assert_int_equal(f->messages.list[0].pop_receipt.len, 0);
        assert_int_equal(f->messages.list[0].dequeue_count, 0);
        assert_int_equal(get(f, 1, 300), 1);
        check_text(f->messages.list[0].text, slice_of(texts[i]));
        held = hold(f, 0);
        check(f, TW_OK, delete_held(f, &held));
    }
}

STORE_TEST(texts_may_have_64_kib)
{
    (void)put_and_get(f, repeated(f, 'x', QUEUE_MAX_MESSAGE_BYTES).at);
}

STORE_TEST(put_gives_id_and_receipt)
{
    struct held held;
    int64_t now_ticks = platform_wall_ticks();

    put(f, "x", 0);
    assert_true(
        f->messages.list[0].inserted_ticks > now_ticks - 60 * TICKS_PER_S);
    held = hold(f, 0);
    assert_true(held.id.len > 0);
    assert_true(held.receipt[0] != '\0');
    assert_int_equal(peek(f), 1);
    check_text(f->messages.list[0].id, held.id);
    check(f, TW_OK, delete_held(f, &held));
    assert_int_equal(count_of(f), 0);
}

STORE_TEST(put_may_hide_the_message)
{
    put(f, "later", 300);
    assert_int_equal(get(f, 1, 30), 0);
    assert_int_equal(peek(f), 0);
    assert_int_equal(count_of(f), 1);
    put(f, "soon", 1);
    wait_until_visible(f);
    assert_int_equal(get(f, 32, 30), 1);
    check_text(f->messages.list[0].text, slice_of("soon"));
}

STORE_TEST(renew_gives_another_receipt)
{
    struct held held = put_and_get(f, "x"), old = held;

    check(f, TW_OK, renew(f, &held, 300));
    assert_string_not_equal(held.receipt, old.receipt);
    check(f, TW_CONFLICT, renew(f, &old, 300));
    check(f, TW_CONFLICT, delete_held(f, &old));
    assert_int_equal(get(f, 1, 30), 0);
    assert_int_equal(count_of(f), 1);
    check(f, TW_OK, delete_held(f, &held));
}

STORE_TEST(renew_of_nothing_makes_visible)
{
    struct held held = put_and_get(f, "x");

    check(f, TW_OK, renew(f, &held, 0));
    wait_until_visible(f);
    assert_int_equal(f->messages.list[0].dequeue_count, 1);
    assert_int_equal(get(f, 1, 300), 1);
    assert_int_equal(f->messages.list[0].dequeue_count, 2);
    check_text(f->messages.list[0].text, slice_of("x"));
    check(f, TW_CONFLICT, delete_held(f, &held));
    check(f, TW_CONFLICT, renew(f, &held, 30));
    assert_int_equal(count_of(f), 1);
}

STORE_TEST(receipt_is_good_until_the_next_get)
{
    struct held first, second;

    put(f, "x", 0);
    assert_int_equal(get(f, 1, 1), 1);
    first = hold(f, 0);
    wait_until_visible(f);
    check(f, TW_OK, renew(f, &first, 1));
    wait_until_visible(f);
    assert_int_equal(get(f, 1, 300), 1);
    second = hold(f, 0);
    check_text(second.id, first.id);
    check(f, TW_CONFLICT, delete_held(f, &first));
    check(f, TW_OK, delete_held(f, &second));
}

STORE_TEST(get_takes_up_to_32)
{
    bool seen[40] = {false};

    for (int i = 0; i < 40; i++)
        put(f, arena_format(&f->arena, "%d", i).at, 0);
    assert_int_equal(count_of(f), 40);
    for (size_t got = 0; got < 40; got += f->messages.count) {
        assert_true(get(f, 32, 300) > 0);
        for (size_t i = 0; i < f->messages.count; i++) {
            struct held held = hold(f, i);
            int64_t at = -1;

            assert_true(text_int64(f->messages.list[i].text, 0, 39, &at));
            assert_false(seen[at]);
            seen[at] = true;
            check(f, TW_OK, delete_held(f, &held));
        }
    }
    assert_int_equal(count_of(f), 0);
}

STORE_TEST(garbled_receipts_change_nothing)
{
    struct held held;
    enum tw_err outcome;

    put(f, "x", 0);
    held = hold(f, 0);
    (void)snprintf(held.receipt, sizeof(held.receipt), "garbled+/=&");
    outcome = delete_held(f, &held);
    assert_true(outcome == TW_CONFLICT || outcome == TW_INVALID);
    outcome = renew(f, &held, 30);
    assert_true(outcome == TW_CONFLICT || outcome == TW_INVALID);
    assert_int_equal(peek(f), 1);
}

/* ---- all of them, on each store ---- */

static int run_on(
    enum tw_err opened, struct store *store, const struct err *err)
{
    int failed;

    if (opened != TW_OK) {
        print_error("%s\n", err->text);
        return 1;
    }
    under_test = store;
    failed = test_run_all(NULL, NULL);
    store_close(store);
    return failed;
}

static int run_on_embedded(const char *name, const char *path)
{
    struct store *store = NULL;
    struct err err;
    enum tw_err outcome = embedded_open(name, path, &store, &err);

    return run_on(outcome, store, &err);
}

/* Runs the cases on an azure store. variable: name of the environment variable
 * that has the connection string. */
static int run_on_service(const char *name, const char *variable)
{
    const char *string = getenv(variable);
    struct store *store = NULL;
    struct err err;
    enum tw_err outcome;

    if (!string || !*string) {
        print_message("[  SKIPPED ] azure store on %s: %s holds no connection"
                      " string\n",
            name, variable);
        return 0;
    }
    outcome = azure_open(name, slice_of(string), false, &store, &err);
    return run_on(outcome, store, &err);
}

int main(void)
{
    int failed = run_on_embedded("embedded", "conformance.db") +
                 run_on_embedded("memory", ":memory:");

    failed += run_on_service("azurite", "TABLEWARD_AZURITE");
    return failed + run_on_service("azsim", "TABLEWARD_AZSIM");
}
