/* SPDX-License-Identifier: MIT */
/* Import and export: a file that is imported and exported again is the same
 * file, on each store, and a failed export changes no file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/faulty.h"
#include "tests/support/fixture.h"
#include "tests/support/table.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/azure.h"
#include "worker/store/request_pool.h"
#include "worker/transfer/csv.h"
#include "worker/transfer/export.h"
#include "worker/transfer/import.h"
#include "worker/transfer/import_ledger.h"

#define ENTITIES 300
#define ENTITY_MAX 65536

struct scene {
    struct store *store;
    struct faulty faulty;
    struct request_pool *request_pool;
    struct pool_client *client;
    _Atomic bool stopped;
    struct err err;
    struct import_result result;
    char reported[1024]; /* the last reported sentence */
};

static struct scene s;

static int set_up(void **state)
{
    static const char *const tables[] = {"First", NULL};

    s = (struct scene){.store = table_memory(tables)};
    faulty_init(&s.faulty, s.store);
    s.request_pool = request_pool_new(4, 0);
    s.client = pool_client_new(s.request_pool, NULL);
    return 0;
}

static int tear_down(void **state)
{
    pool_client_free(s.client);
    request_pool_free(s.request_pool);
    faulty_done(&s.faulty);
    store_close(s.store);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static void report(void *context, const char *sentence)
{
    (void)snprintf(s.reported, sizeof(s.reported), "%s", sentence);
}

static struct transfer lend(struct store *store, const char *table)
{
    return (struct transfer){
        .store = store,
        .table = table,
        .client = s.client,
        .in_flight = 4,
        .stopped = &s.stopped,
        .report = report,
    };
}

static enum tw_err run_export(struct store *store, const char *table,
    const struct export_options *options)
{
    const struct transfer transfer = lend(store, table);
    struct export *export = export_new(&transfer, options);
    enum tw_err outcome = export_run(export, &s.err);

    export_free(export);
    return outcome;
}

static void export_as(
    struct store *store, const char *table, const char *path, int format)
{
    (void)unlink(path);
    if (run_export(store, table,
            &(struct export_options){
                .path = path, .format = (enum records_format)format}) != TW_OK)
        fail_msg("%s: %s", path, s.err.text);
}

static enum tw_err run_import(struct store *store, const char *table,
    const struct import_options *options)
{
    const struct transfer transfer = lend(store, table);
    struct import *import = import_new(&transfer, options);
    enum tw_err outcome = import_run(import, &s.err);

    s.result = import_result(import);
    import_free(import);
    return outcome;
}

static void import_as(
    struct store *store, const char *table, const char *path, int format)
{
    if (run_import(store, table,
            &(struct import_options){
                .path = path, .format = (enum records_format)format}) != TW_OK)
        fail_msg("%s: %s", path, s.err.text);
    assert_int_equal(s.result.rejected, 0);
}

/* ---- files ---- */

static void assert_same_files(const char *a, const char *b)
{
    char *wanted = text_file_read(a);

    text_file_check(b, wanted);
    mem_free(wanted);
}

/* Checks that neither the file nor a part of it exists. */
static void assert_no_file(const char *path)
{
    char *command = mem_format("test -z \"$(ls | grep '^%s')\"", path);

    assert_int_equal(system(command), 0);
    mem_free(command);
}

/* ---- random entities ---- */

static const char *one_of(const char *const *list, size_t count)
{
    return list[platform_random_below(count)];
}
#define ONE_OF(list) one_of((list), sizeof(list) / sizeof((list)[0]))

static const char *const PIECES[] = {"\"", ",", "\r\n", "\n", "\r", " ", "\t",
    "x", "=1+1", "\\", "'", "\xc3\xa9", "\xef\xbb\xbf", "\xf0\x9f\x98\x80",
    "@type", "\x01", "String", ";"};
static const char *const LETTERS[] = {"a", "'", " ", ",", "\"", "%",
    "\xef\xbd\x81", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"};
static const char *const DOUBLES[] = {"-0.0", "\"NaN\"", "\"Infinity\"",
    "\"-Infinity\"", "0.0", "1.0", "5E-324", "1.7976931348623157E+308", "1E+21",
    "1E-07", "0.1", "123456789.125"};
static const char *const INT64S[] = {"0", "-1", "9223372036854775807",
    "-9223372036854775808", "9007199254740993"};
static const char *const TIMES[] = {"1601-01-01T00:00:00Z",
    "2024-02-29T23:59:59.1234567Z", "2024-01-01T00:00:00.5Z",
    "9999-12-31T23:59:59.9999999Z", "2024-01-01T00:00:00.0000001Z"};
static const char *const BINARIES[] = {"", "AA==", "AAEC", "/+8="};

static struct slice random_text(
    struct arena *arena, const char *const *pieces, size_t count, size_t max)
{
    struct slice text = arena_copy(arena, slice_of(""));

    for (uint64_t i = platform_random_below(max + 1); i > 0; i--)
        text = arena_format(
            arena, "%.*s%s", SLICE_ARG(text), one_of(pieces, count));
    return text;
}
#define RANDOM_TEXT(arena, list, max)                                          \
    random_text((arena), (list), sizeof(list) / sizeof((list)[0]), (max))

/* Azurite stores -0.0 as 0. */
static bool without_negative_zero;

static const char *random_double(void)
{
    const size_t first = without_negative_zero;

    return one_of(
        DOUBLES + first, sizeof(DOUBLES) / sizeof(DOUBLES[0]) - first);
}

static struct property random_property(struct arena *arena, struct slice name)
{
    enum edm_type type = (enum edm_type)platform_random_below(EDM_STRING + 1);
    struct property property = {.name = name, .type = type};
    struct entity made = {0};

    switch (type) {
    case EDM_BINARY:
        property.json = arena_format(arena, "\"%s\"", ONE_OF(BINARIES));
        break;
    case EDM_BOOLEAN:
        property.json = slice_of(platform_random_below(2) ? "true" : "false");
        break;
    case EDM_DATETIME:
        property.json = arena_format(arena, "\"%s\"", ONE_OF(TIMES));
        break;
    case EDM_DOUBLE:
        property.json = slice_of(random_double());
        break;
    case EDM_GUID:
        property.json =
            arena_format(arena, "\"%08x-0000-0000-0000-000000000001\"",
                (unsigned)platform_random_below(1U << 31));
        break;
    case EDM_INT32:
        property.json = arena_format(arena, "%" PRId64,
            (int64_t)platform_random_below(UINT32_MAX) + INT32_MIN);
        break;
    case EDM_INT64:
        property.json = arena_format(arena, "\"%s\"", ONE_OF(INT64S));
        break;
    case EDM_STRING:
        entity_set_string(&made, arena, "", RANDOM_TEXT(arena, PIECES, 6));
        property.json = made.properties[0].json;
        break;
    }
    return property;
}

static struct entity random_entity(struct arena *arena, size_t number)
{
    struct slice row_key = RANDOM_TEXT(arena, LETTERS, 2);
    struct entity entity;

    entity_init(&entity, arena, RANDOM_TEXT(arena, LETTERS, 1),
        arena_format(arena, "%.*s%zu", SLICE_ARG(row_key), number));
    for (char name[] = "A"; name[0] <= 'L'; name[0]++)
        if (platform_random_below(3) > 0) {
            struct property property =
                random_property(arena, arena_copy(arena, slice_of(name)));

            entity_set(&entity, arena, &property);
        }
    return entity;
}

/* Writes random entities, not in the order of an export. */
static void write_random(const char *path)
{
    FILE *file = fopen(path, "w");
    struct arena arena;
    struct buf line;

    assert_non_null(file);
    arena_init(&arena);
    buf_init(&line, ENTITY_MAX);
    for (size_t i = 0; i < ENTITIES; i++) {
        struct entity entity = random_entity(&arena, i);

        buf_clear(&line);
        entity_write(&entity, &line);
        assert_true(fprintf(file, "%s\n", buf_text(&line)) > 0);
        arena_clear(&arena);
    }
    assert_int_equal(fclose(file), 0);
    buf_done(&line);
    arena_done(&arena);
}

/* ---- round trips ---- */

static void make_round_trip(struct store *store, const char *table)
{
    char first[40];

    fixture_name("First", first);
    write_random("random.jsonl");
    import_as(s.store, first, "random.jsonl", RECORDS_JSON_LINES);
    export_as(s.store, first, "first.jsonl", RECORDS_JSON_LINES);
    export_as(s.store, first, "first.csv", RECORDS_CSV);
    import_as(store, table, "first.csv", RECORDS_CSV);
    export_as(store, table, "second.jsonl", RECORDS_JSON_LINES);
    export_as(store, table, "second.csv", RECORDS_CSV);
    assert_same_files("first.jsonl", "second.jsonl");
    assert_same_files("first.csv", "second.csv");
}

FIXTURE_TEST(csv_and_json_lines_are_lossless)
{
    make_round_trip(s.store, "Second");
}

FIXTURE_TEST(an_import_is_lossless_where_requests_fail)
{
    static const struct faulty_share shares[] = {
        {FAULT_LOSE_ANSWER, 150, CALL_SET(CALL_BATCH)},
        {FAULT_LOSE_REQUEST, 100, CALL_SET(CALL_BATCH)},
        {FAULT_BUSY, 50, CALL_ALL},
        {FAULT_SHORT_PAGE, 50, CALL_SET(CALL_SCAN)},
    };

    faulty_seed(&s.faulty, 7, shares, sizeof(shares) / sizeof(shares[0]));
    make_round_trip(&s.faulty.outer.store, "Second");
}

/* Makes the round trip on an azure store with the connection string in that
 * variable. */
static void make_round_trip_on(const char *variable)
{
    const char *string = getenv(variable);
    struct store *store;
    char table[40];
    struct err err;

    if (!string || !*string)
        return;
    if (azure_open("service", slice_of(string), false, &store, &err) != TW_OK)
        fail_msg("%s: %s", variable, err.text);
    fixture_name("Second", table);
    without_negative_zero = strcmp(variable, "TABLEWARD_AZURITE") == 0;
    make_round_trip(store, table);
    without_negative_zero = false;
    store_close(store);
}

FIXTURE_TEST(a_service_returns_what_was_exported_from_a_file)
{
    make_round_trip_on("TABLEWARD_AZURITE");
    make_round_trip_on("TABLEWARD_AZSIM");
}

FIXTURE_TEST(a_csv_file_has_a_type_for_each_value)
{
    text_file_write("some.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"B\":\"a, \\\"b\\\"\\n\","
        "\"A\":5}\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\" 2\",\"B\":\"\"}\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\"3\"}\n");
    import_as(s.store, "First", "some.jsonl", RECORDS_JSON_LINES);
    export_as(s.store, "First", "some.csv", RECORDS_CSV);
    text_file_check("some.csv", "PartitionKey,RowKey,A,A@type,B,B@type\n"
                                "p,\" 2\",,,,String\n"
                                "p,1,5,Int32,\"a, \"\"b\"\"\n\",String\n"
                                "p,3,,,,\n");
}

FIXTURE_TEST(selected_properties_are_the_columns)
{
    const struct slice select[] = {
        slice_of("Z"), slice_of("RowKey"), slice_of("A")};

    table_put(s.store, "First", "p", "r", "x", 0);
    assert_ok(run_export(s.store, "First",
        &(struct export_options){.path = "select.csv",
            .format = RECORDS_CSV,
            .select = select,
            .select_count = 3}));
    text_file_check("select.csv", "PartitionKey,RowKey,A,A@type,Z,Z@type\n"
                                  "p,r,,,,\n");
}

/* ---- what fails an export ---- */

static void put_line(const char *line)
{
    text_file_write("line.jsonl", line);
    import_as(s.store, "First", "line.jsonl", RECORDS_JSON_LINES);
}

/* Adds a property before the second scan. */
FAULTY_CHOICE(add_property)
{
    if (call == CALL_SCAN && n == 1)
        table_put(s.store, "First", "p", "s", "x", 0);
    return FAULT_NONE;
}

FIXTURE_TEST(a_property_that_appears_later_fails_the_export)
{
    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":5}\n");
    s.faulty.choose = add_property;
    assert_int_equal(run_export(&s.faulty.outer.store, "First",
                         &(struct export_options){
                             .path = "later.csv", .format = RECORDS_CSV}),
        TW_INVALID);
    assert_non_null(strstr(s.err.text, "entity 'p' / 's'"));
    assert_non_null(strstr(s.err.text, "run the export again"));
    assert_no_file("later.csv");
}

FIXTURE_TEST(half_of_a_surrogate_pair_fails_the_export)
{
    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":\"\\ud83d\"}\n");
    assert_int_equal(run_export(s.store, "First",
                         &(struct export_options){
                             .path = "half.csv", .format = RECORDS_CSV}),
        TW_INVALID);
    assert_non_null(strstr(s.err.text, "entity 'p' / 'r': property 'A': half"));
    assert_no_file("half.csv");
    export_as(s.store, "First", "half.jsonl", RECORDS_JSON_LINES);
}

FIXTURE_TEST(a_csv_file_has_at_most_10000_properties)
{
    struct buf lines;

    buf_init(&lines, 1024 * 1024);
    for (size_t i = 0; i < CSV_MAX_PROPERTIES; i++) {
        if (i % 200 == 0)
            buf_add_format(&lines,
                "%s{\"PartitionKey\":\"p\",\"RowKey\":\"%zu\"", i ? "}\n" : "",
                i);
        buf_add_format(&lines, ",\"P%zu\":1", i);
    }
    buf_add_text(&lines, "}\n");
    put_line(buf_text(&lines));
    export_as(s.store, "First", "wide.csv", RECORDS_CSV);
    import_as(s.store, "Second", "wide.csv", RECORDS_CSV);
    export_as(s.store, "First", "wide1.jsonl", RECORDS_JSON_LINES);
    export_as(s.store, "Second", "wide2.jsonl", RECORDS_JSON_LINES);
    assert_same_files("wide1.jsonl", "wide2.jsonl");
    put_line("{\"PartitionKey\":\"q\",\"RowKey\":\"r\",\"A\":5}\n");
    assert_int_equal(run_export(s.store, "First",
                         &(struct export_options){
                             .path = "wider.csv", .format = RECORDS_CSV}),
        TW_INVALID);
    assert_non_null(strstr(s.err.text, "more than 10000 different properties"));
    assert_no_file("wider.csv");
    buf_done(&lines);
}

FAULTY_CHOICE(create_file)
{
    if (call == CALL_SCAN && n == 0)
        text_file_write("there.jsonl", "somebody else's\n");
    return FAULT_NONE;
}

FIXTURE_TEST(a_file_that_exists_is_replaced_only_with_force)
{
    struct export_options options = {.path = "there.jsonl"};

    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    s.faulty.choose = create_file;
    assert_int_equal(
        run_export(&s.faulty.outer.store, "First", &options), TW_CONFLICT);
    text_file_check("there.jsonl", "somebody else's\n");
    assert_int_equal(run_export(s.store, "First", &options), TW_CONFLICT);
    assert_string_equal(s.err.text, "there.jsonl exists: --force replaces it");
    text_file_check("there.jsonl", "somebody else's\n");
    assert_no_file("there.jsonl.");
    options.force = true;
    assert_ok(run_export(s.store, "First", &options));
    text_file_check(
        "there.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
}

FIXTURE_TEST(a_new_file_is_readable_by_its_owner_alone)
{
    struct stat is;

    (void)umask(0);
    export_as(s.store, "First", "mode.csv", RECORDS_CSV);
    assert_int_equal(stat("mode.csv", &is), 0);
    assert_int_equal(is.st_mode & 0777, 0600);
}

FIXTURE_TEST(a_stopped_export_leaves_no_file)
{
    struct export_options options = {.path = "stop.jsonl"};

    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    atomic_store(&s.stopped, true);
    assert_int_equal(run_export(s.store, "First", &options), TW_STOPPED);
    assert_no_file("stop.jsonl");
    options.id = "e1";
    assert_int_equal(run_export(s.store, "First", &options), TW_STOPPED);
    assert_non_null(strstr(s.reported, "the same --id continues"));
    atomic_store(&s.stopped, false);
    assert_ok(run_export(s.store, "First", &options));
    text_file_check(
        "stop.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
}

/* The table was deleted, so the entities of a later table of that name would
 * not continue the export. */
FIXTURE_TEST(an_export_whose_table_was_deleted_leaves_no_part)
{
    static const char *const none[] = {NULL};
    struct export_options options = {.path = "gone.jsonl", .id = "e1"};
    struct store *store = table_memory(none);

    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    atomic_store(&s.stopped, true);
    assert_int_equal(run_export(s.store, "First", &options), TW_STOPPED);
    assert_non_null(strstr(s.reported, "stay in gone.jsonl.e1-"));
    atomic_store(&s.stopped, false);
    s.reported[0] = '\0';
    assert_int_equal(run_export(store, "First", &options), TW_NOT_FOUND);
    assert_null(strstr(s.reported, "stay in"));
    assert_no_file("gone.jsonl");
    store_close(store);
}

/* context: gets the outcome. */
static enum tw_err look_at_part(
    void *context, const char *part, struct err *err)
{
    const enum tw_err *outcome = context;

    text_file_check(part, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    assert_int_equal(access("whole.jsonl", F_OK), -1);
    return *outcome == TW_OK ? TW_OK : err_fail(err, *outcome, "not yet");
}

FIXTURE_TEST(a_part_is_complete_before_it_becomes_the_file)
{
    enum tw_err outcome = TW_FULL;
    struct export_options options = {
        .path = "whole.jsonl", .completes = look_at_part, .context = &outcome};

    put_line("{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    assert_int_equal(run_export(s.store, "First", &options), TW_FULL);
    assert_no_file("whole.jsonl");
    outcome = TW_OK;
    assert_ok(run_export(s.store, "First", &options));
    text_file_check(
        "whole.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
}

FIXTURE_TEST(an_id_does_not_continue_csv)
{
    assert_int_equal(
        run_export(s.store, "First",
            &(struct export_options){
                .path = "id.csv", .format = RECORDS_CSV, .id = "e1"}),
        TW_CONFLICT);
    assert_no_file("id.csv");
}

/* ---- rejected lines ---- */

FIXTURE_TEST(rejected_lines_are_counted_over_all_processes)
{
    const struct import_options options = {.path = "rejects.jsonl",
        .skip_errors = true,
        .rejects_path = "rejects.kept",
        .id = "i1"};

    text_file_write("rejects.jsonl",
        "no\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\nnor\n");
    assert_ok(run_import(s.store, "First", &options));
    assert_int_equal(s.result.written, 1);
    assert_int_equal(s.result.rejected, 2);
    text_file_check("rejects.kept", "no\nnor\n");
    assert_ok(run_import(s.store, "First", &options));
    assert_true(s.result.repeated);
    assert_int_equal(s.result.rejected, 2);
}

/* As if a process were killed after it had rejected a line and before it
 * updated the ledger: the ledger of the process that ends here still has the
 * position before that line. */
static void interrupt(const struct import_options *options)
{
    struct transfer transfer = lend(s.store, "First");
    struct import *import = import_new(&transfer, options);

    atomic_store(&s.stopped, true);
    assert_int_equal(import_run(import, &s.err), TW_STOPPED);
    atomic_store(&s.stopped, false);
    import_free(import);
}

FIXTURE_TEST(corrected_lines_after_a_kill_are_not_lost)
{
    const struct import_options options = {.path = "killed.jsonl",
        .skip_errors = true,
        .rejects_path = "killed.kept",
        .id = "k1"};

    text_file_write(
        "killed.jsonl", "no\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\nnor\n");
    interrupt(&options);
    text_file_write(
        "killed.kept", "no\n{\"PartitionKey\":\"p\",\"RowKey\":\"s\"}\n");
    assert_int_equal(run_import(s.store, "First", &options), TW_INVALID);
    assert_non_null(strstr(s.err.text, "killed.kept was edited"));
    text_file_check(
        "killed.kept", "no\n{\"PartitionKey\":\"p\",\"RowKey\":\"s\"}\n");
    /* The lines that the killed process had written, of which the last one is
     * incomplete. */
    text_file_write("killed.kept", "nor\nno\nno");
    assert_ok(run_import(s.store, "First", &options));
    assert_int_equal(s.result.rejected, 2);
    text_file_check("killed.kept", "no\nnor\n");
}

FIXTURE_TEST(the_first_invalid_line_ends_an_import)
{
    text_file_write(
        "bad.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\nno\nnor\n");
    assert_int_equal(run_import(s.store, "First",
                         &(struct import_options){.path = "bad.jsonl"}),
        TW_INVALID);
    assert_true(slice_begins(slice_of(s.err.text), slice_of("bad.jsonl:2: ")));
}

/* Decoded, both keys would be U+FFFD, and the second entity would replace the
 * first. */
FIXTURE_TEST(a_key_with_half_of_a_pair_is_not_another_key)
{
    static const struct {
        const char *line, *says;
    } CASES[] = {
        {"{\"PartitionKey\":\"p\",\"RowKey\":\"\\ud83d\"}\n",
            "RowKey contains"},
        {"{\"PartitionKey\":\"\\ude00\",\"RowKey\":\"r\"}\n",
            "PartitionKey contains half of"},
        {"{\"PartitionKey\":\"\\ufffd\",\"RowKey\":\"\\ud83d\\ude00\"}\n",
            NULL},
        {"{\"PartitionKey\":\"\xEF\xBF\xBD\",\"RowKey\":\"r\"}\n", NULL},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const struct import_options options = {
            .path = "half.jsonl", .on_conflict = IMPORT_CONFLICT_REPLACE};
        enum tw_err outcome;

        text_file_write("half.jsonl", CASES[i].line);
        outcome = run_import(s.store, "First", &options);
        assert_int_equal(outcome, CASES[i].says ? TW_INVALID : TW_OK);
        if (CASES[i].says)
            assert_non_null(strstr(s.err.text, CASES[i].says));
    }
}

/* A service ignores such a member, and with it a value, or the type of one:
 * the number 12 would be stored as a text. */
FIXTURE_TEST(a_name_with_an_at_sign_is_no_annotation_by_that)
{
    static const struct {
        const char *members, *name;
    } CASES[] = {
        {"\"A@B\":1", "'A@B'"},
        {"\"N@type\":\"Edm.Int64\",\"N\":\"12\"", "'N@type'"},
        {"\"N\\u0040type\":\"Edm.Int64\",\"N\":\"12\"", "'N@type'"},
        {"\"N@Odata.type\":\"Edm.Int64\",\"N\":\"1\"", "'N@Odata.type'"},
        {"\"N@odata.type\":\"Edm.Int64\",\"N\":\"1\",\"A@\":1", "'A@'"},
        {"\"N@odata.type\":\"Edm.Int64\",\"N\":\"1\"", NULL},
        {"\"odata.id\":\"a@b\",\"N@odata.x\":1,\"N\":\"a@b\"", NULL},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        const struct import_options options = {.path = "at.jsonl"};
        char *line =
            mem_format("{\"PartitionKey\":\"p\",\"RowKey\":\"%zu\",%s}\n", i,
                CASES[i].members);
        enum tw_err outcome;

        text_file_write("at.jsonl", line);
        outcome = run_import(s.store, "First", &options);
        assert_int_equal(outcome, CASES[i].name ? TW_INVALID : TW_OK);
        if (CASES[i].name)
            assert_non_null(strstr(s.err.text, CASES[i].name));
        mem_free(line);
    }
}

/* ---- a table that was made again ---- */

/* The digest of the first lines of `again.jsonl`. */
static int64_t digest_of(uint64_t lines)
{
    struct records *records;
    int64_t digest;

    assert_ok(records_open(
        "again.jsonl", RECORDS_JSON_LINES, NULL, &records, &s.err));
    assert_ok(records_skip(records, lines, &s.err));
    digest = records_digest(records);
    records_close(records);
    return digest;
}

#define TWO_LINES                                                              \
    "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n"                              \
    "{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}\n"

/* A process was killed after it had stored `line` lines of `again.jsonl` in the
 * table, or ended in `state`. */
static void import_lines(
    const char *table, const char *id, uint64_t line, enum ledger_state state)
{
    const struct transfer transfer = lend(s.store, table);
    struct import_counts counts = {.position = {.line = line},
        .read = (int64_t)line,
        .written = (int64_t)line};
    char *args =
        mem_format("{\"table\":\"%s\",\"file\":\"again.jsonl\"}", table);
    struct import_position position;
    struct import_ledger ledger;
    bool done = false;

    text_file_write("again.jsonl", TWO_LINES);
    counts.position.digest = digest_of(line);
    assert_ok(import_ledger_open(
        &ledger, &transfer, id, slice_of(args), &position, &done, &s.err));
    assert_ok(state == LEDGER_RUNNING
                  ? import_ledger_save(&ledger, &counts, &s.err)
                  : import_ledger_end(&ledger, &counts, state, "", &s.err));
    import_ledger_done(&ledger);
    mem_free(args);
}

static enum tw_err import_again(const char *table, const char *id)
{
    return run_import(s.store, table,
        &(struct import_options){.path = "again.jsonl", .id = id});
}

/* Also the second time: the refused import has not created the table. */
FIXTURE_TEST(an_import_does_not_continue_in_a_table_that_was_deleted)
{
    import_lines("Gone", "g1", 1, LEDGER_RUNNING);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(import_again("Gone", "g1"), TW_CONFLICT);
        assert_non_null(strstr(s.err.text, "does not exist any more"));
    }
    assert_ok(import_again("Gone", "g2"));
    assert_int_equal(s.result.written, 2);
}

FIXTURE_TEST(an_import_does_not_continue_in_an_empty_table)
{
    import_lines("First", "e1", 1, LEDGER_RUNNING);
    assert_int_equal(import_again("First", "e1"), TW_CONFLICT);
    assert_non_null(strstr(s.err.text, "is empty"));
    assert_ok(import_again("First", "e2"));
    assert_int_equal(s.result.written, 2);
    /* Now the table holds what the first id has stored. */
    assert_ok(import_again("First", "e1"));
    assert_int_equal(s.result.written, 1);
}

/* The entities of an import that has succeeded may have been deleted since, but
 * without its table the exit code must not say that all is there. */
FIXTURE_TEST(an_import_that_succeeded_misses_its_table)
{
    import_lines("First", "s1", 2, LEDGER_SUCCEEDED);
    assert_ok(import_again("First", "s1"));
    assert_true(s.result.repeated);
    import_lines("Gone", "s2", 2, LEDGER_SUCCEEDED);
    assert_int_equal(import_again("Gone", "s2"), TW_CONFLICT);
    import_lines("Gone", "s3", 0, LEDGER_SUCCEEDED);
    text_file_write("again.jsonl", "");
    assert_ok(import_again("Gone", "s3"));
    assert_true(s.result.repeated);
}

/* ---- an id that has succeeded ---- */

/* The name of the file says nothing of its content: it was replaced, or every
 * standard input has the same name. */
FIXTURE_TEST(an_id_that_has_succeeded_takes_no_other_content)
{
    static const char *const OTHERS[] = {
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n",
        TWO_LINES "{\"PartitionKey\":\"p\",\"RowKey\":\"3\"}\n",
        ("{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n"
         "{\"PartitionKey\":\"p\",\"RowKey\":\"3\"}\n"),
        "",
    };

    text_file_write("again.jsonl", TWO_LINES);
    assert_ok(import_again("First", "o1"));
    assert_int_equal(s.result.written, 2);
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++) {
        text_file_write("again.jsonl", OTHERS[i]);
        assert_int_equal(import_again("First", "o1"), TW_CONFLICT);
        assert_non_null(strstr(s.err.text,
            "import o1 has succeeded with other content than again.jsonl has"));
    }
    text_file_write("again.jsonl", TWO_LINES);
    assert_ok(import_again("First", "o1"));
    assert_true(s.result.repeated);
    text_file_write("again.jsonl", OTHERS[1]);
    assert_ok(import_again("First", "o2"));
    assert_int_equal(s.result.written, 3);
}

static enum tw_err import_unless(enum import_conflict on_conflict)
{
    const struct import_options options = {
        .path = "again.jsonl", .id = "k1", .on_conflict = on_conflict};

    return run_import(s.store, "First", &options);
}

FIXTURE_TEST(an_id_that_has_skipped_entities_replaces_none)
{
    static const enum import_conflict OTHERS[] = {
        IMPORT_CONFLICT_FAIL, IMPORT_CONFLICT_REPLACE, IMPORT_CONFLICT_MERGE};

    text_file_write("again.jsonl", TWO_LINES);
    assert_ok(import_again("First", "o1"));
    text_file_write(
        "again.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"New\":1}\n");
    assert_ok(import_unless(IMPORT_CONFLICT_SKIP));
    assert_int_equal(s.result.skipped, 1);
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++) {
        assert_int_equal(import_unless(OTHERS[i]), TW_CONFLICT);
        assert_non_null(strstr(s.err.text,
            "import k1 has left 1 different entity in table First as it is"));
    }
    assert_ok(import_unless(IMPORT_CONFLICT_SKIP));
    assert_true(s.result.repeated);
}

/* Also of a file without a line, and before the table is created. */
FIXTURE_TEST(an_id_that_has_imported_nothing_takes_no_content)
{
    import_lines("Gone", "n1", 0, LEDGER_SUCCEEDED);
    assert_int_equal(import_again("Gone", "n1"), TW_CONFLICT);
    assert_int_equal(import_again("Gone", "n1"), TW_CONFLICT);
    assert_non_null(strstr(s.err.text, "has succeeded with other content"));
}

/* An import of the first CSV text has succeeded: it may be repeated, and the
 * other text is refused. */
static void expect_other_csv(const char *text, const char *other)
{
    const struct import_options options = {
        .path = "again.csv", .format = RECORDS_CSV, .id = "c1"};

    text_file_write("again.csv", text);
    assert_ok(run_import(s.store, "First", &options));
    assert_ok(run_import(s.store, "First", &options));
    assert_true(s.result.repeated);
    text_file_write("again.csv", other);
    assert_int_equal(run_import(s.store, "First", &options), TW_CONFLICT);
}

/* The header is a part of the content, and a record may have several lines. */
FIXTURE_TEST(a_csv_file_is_the_same_content_again)
{
    expect_other_csv("PartitionKey,RowKey,A\np,1,\"x\ny\"\np,2,\n",
        "PartitionKey,RowKey,B\np,1,\"x\ny\"\np,2,\n");
}

/* The header is read before the lines are compared. */
FIXTURE_TEST(records_below_a_header_alone_are_other_content)
{
    expect_other_csv(
        "PartitionKey,RowKey,A\n", "PartitionKey,RowKey,A\np,1,x\n");
}
