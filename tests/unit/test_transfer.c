/* SPDX-License-Identifier: MIT */
/* Import and export: a file that is imported and exported again is the same
 * file, on each store, and a failed export changes no file. */
#include <stdio.h>
#include <stdlib.h>
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

/* A line of JSON with PartitionKey p and this RowKey. */
#define LINE(key, members)                                                     \
    "{\"PartitionKey\":\"p\",\"RowKey\":\"" key "\"" members "}\n"
#define ROW(key) LINE(key, "")

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

static void expect_no_export(struct store *store, struct export_options options,
    enum tw_err outcome, const char *says)
{
    assert_fails(run_export(store, "First", &options), outcome, &s.err, says);
    assert_no_file(options.path);
}

static void expect_no_import(
    struct import_options options, enum tw_err outcome, const char *says)
{
    assert_fails(run_import(s.store, "First", &options), outcome, &s.err, says);
}

/* ---- random entities ---- */

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static const char *const PIECES[] = {"\"", ",", "\r\n", "\n", "\r", " ", "\t",
    "x", "=1+1", "\\", "'", "\xc3\xa9", "\xef\xbb\xbf", "\xf0\x9f\x98\x80",
    "@type", "\x01", "String", ";"};
static const char *const LETTERS[] = {"a", "'", " ", ",", "\"", "%",
    "\xef\xbd\x81", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"};

/* Values of each type, as JSON; strings are made of PIECES. */
static const char *const VALUES[EDM_STRING][12] = {
    [EDM_BINARY] = {"\"\"", "\"AA==\"", "\"AAEC\"", "\"/+8=\""},
    [EDM_BOOLEAN] = {"true", "false"},
    [EDM_DATETIME] = {"\"1601-01-01T00:00:00Z\"",
        "\"2024-02-29T23:59:59.1234567Z\"", "\"2024-01-01T00:00:00.5Z\"",
        "\"9999-12-31T23:59:59.9999999Z\"", "\"2024-01-01T00:00:00.0000001Z\""},
    [EDM_DOUBLE] = {"-0.0", "\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "0.0",
        "1.0", "5E-324", "1.7976931348623157E+308", "1E+21", "1E-07", "0.1",
        "123456789.125"},
    [EDM_GUID] = {"\"00000000-0000-0000-0000-000000000001\"",
        "\"7fffffff-89ab-4cde-8f01-23456789abcd\""},
    [EDM_INT32] = {"0", "-1", "7", "2147483647", "-2147483648"},
    [EDM_INT64] = {"\"0\"", "\"-1\"", "\"9223372036854775807\"",
        "\"-9223372036854775808\"", "\"9007199254740993\""},
};

/* Azurite stores -0.0 as 0. */
static bool without_negative_zero;

static struct slice random_text(
    struct arena *arena, const char *const *pieces, size_t count, size_t max)
{
    struct slice text = arena_copy(arena, slice_of(""));

    for (uint64_t i = platform_random_below(max + 1); i > 0; i--)
        text = arena_format(arena, "%.*s%s", SLICE_ARG(text),
            pieces[platform_random_below(count)]);
    return text;
}
#define RANDOM_TEXT(arena, list, max)                                          \
    random_text((arena), (list), COUNT_OF(list), (max))

static struct property random_property(struct arena *arena, struct slice name)
{
    enum edm_type type = (enum edm_type)platform_random_below(EDM_STRING + 1);
    struct property property = {.name = name, .type = type};
    struct entity made = {0};
    size_t first = type == EDM_DOUBLE && without_negative_zero, count = first;

    if (type == EDM_STRING) {
        entity_set_string(&made, arena, "", RANDOM_TEXT(arena, PIECES, 6));
        property.json = made.properties[0].json;
        return property;
    }
    while (count < COUNT_OF(VALUES[type]) && VALUES[type][count])
        count++;
    property.json =
        slice_of(VALUES[type][first + platform_random_below(count - first)]);
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
    struct arena arena;
    struct buf lines;

    arena_init(&arena);
    buf_init(&lines, (size_t)ENTITIES * ENTITY_MAX);
    for (size_t i = 0; i < ENTITIES; i++) {
        struct entity entity = random_entity(&arena, i);

        entity_write(&entity, &lines);
        buf_add_char(&lines, '\n');
    }
    text_file_write(path, buf_text(&lines));
    buf_done(&lines);
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

FIXTURE_TEST(an_import_is_lossless_where_requests_fail)
{
    static const struct faulty_share shares[] = {
        {FAULT_LOSE_ANSWER, 150, CALL_SET(CALL_BATCH)},
        {FAULT_LOSE_REQUEST, 100, CALL_SET(CALL_BATCH)},
        {FAULT_BUSY, 50, CALL_ALL},
        {FAULT_SHORT_PAGE, 50, CALL_SET(CALL_SCAN)},
    };

    faulty_seed(&s.faulty, 7, shares, COUNT_OF(shares));
    make_round_trip(&s.faulty.outer.store, "Second");
}

/* Makes the round trip on an azure store whose connection string is in the
 * environment variable `variable`. */
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
        LINE("1", ",\"B\":\"a, \\\"b\\\"\\n\",\"A\":5")
            LINE(" 2", ",\"B\":\"\"") ROW("3"));
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

/* Inserts an entity with a new property before the second scan. */
FAULTY_CHOICE(add_property)
{
    if (call == CALL_SCAN && n == 1)
        table_put(s.store, "First", "p", "s", "x", 0);
    return FAULT_NONE;
}

FIXTURE_TEST(a_property_that_appears_later_fails_the_export)
{
    const struct export_options options = {
        .path = "later.csv", .format = RECORDS_CSV};

    put_line(LINE("r", ",\"A\":5"));
    s.faulty.choose = add_property;
    expect_no_export(
        &s.faulty.outer.store, options, TW_INVALID, "entity 'p' / 's'");
    assert_contains(s.err.text, "run the export again");
}

FIXTURE_TEST(half_of_a_surrogate_pair_fails_the_export)
{
    const struct export_options options = {
        .path = "half.csv", .format = RECORDS_CSV};

    put_line(LINE("r", ",\"A\":\"\\ud83d\""));
    expect_no_export(
        s.store, options, TW_INVALID, "entity 'p' / 'r': property 'A': half");
    export_as(s.store, "First", "half.jsonl", RECORDS_JSON_LINES);
}

FIXTURE_TEST(a_csv_file_has_at_most_10000_properties)
{
    const struct export_options wider = {
        .path = "wider.csv", .format = RECORDS_CSV};
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
    expect_no_export(
        s.store, wider, TW_INVALID, "more than 10000 different properties");
    buf_done(&lines);
}

FAULTY_CHOICE(create_file)
{
    if (call == CALL_SCAN && n == 0)
        text_file_write("there.jsonl", "somebody else's\n");
    return FAULT_NONE;
}

/* The file is created while the export runs. */
FIXTURE_TEST(a_file_that_exists_is_replaced_only_with_force)
{
    struct export_options options = {.path = "there.jsonl"};

    put_line(ROW("r"));
    s.faulty.choose = create_file;
    assert_fails(run_export(&s.faulty.outer.store, "First", &options),
        TW_CONFLICT, &s.err, "there.jsonl exists: --force replaces it");
    text_file_check("there.jsonl", "somebody else's\n");
    assert_no_file("there.jsonl.");
    options.force = true;
    assert_ok(run_export(s.store, "First", &options));
    text_file_check("there.jsonl", ROW("r"));
}

FIXTURE_TEST(a_stopped_export_leaves_no_file)
{
    struct export_options options = {.path = "stop.jsonl"};

    put_line(ROW("r"));
    atomic_store(&s.stopped, true);
    expect_no_export(s.store, options, TW_STOPPED, "");
    options.id = "e1";
    assert_int_equal(run_export(s.store, "First", &options), TW_STOPPED);
    assert_contains(s.reported, "the same --id continues");
    atomic_store(&s.stopped, false);
    assert_ok(run_export(s.store, "First", &options));
    text_file_check("stop.jsonl", ROW("r"));
}

/* The table was deleted. The entities of a later table with its name would not
 * be a continuation of the export. */
FIXTURE_TEST(an_export_whose_table_was_deleted_leaves_no_part)
{
    static const char *const none[] = {NULL};
    struct export_options options = {.path = "gone.jsonl", .id = "e1"};
    struct store *store = table_memory(none);

    put_line(ROW("r"));
    atomic_store(&s.stopped, true);
    assert_int_equal(run_export(s.store, "First", &options), TW_STOPPED);
    assert_contains(s.reported, "stay in gone.jsonl.e1-");
    atomic_store(&s.stopped, false);
    s.reported[0] = '\0';
    expect_no_export(store, options, TW_NOT_FOUND, "");
    assert_null(strstr(s.reported, "stay in"));
    store_close(store);
}

/* Fails unless the part is complete and the file does not exist yet. Returns
 * the outcome to which `context` points. */
static enum tw_err look_at_part(
    void *context, const char *part, struct err *err)
{
    const enum tw_err *outcome = context;

    text_file_check(part, ROW("r"));
    assert_int_equal(access("whole.jsonl", F_OK), -1);
    return *outcome == TW_OK ? TW_OK : err_fail(err, *outcome, "not yet");
}

FIXTURE_TEST(a_part_is_complete_before_it_becomes_the_file)
{
    enum tw_err outcome = TW_FULL;
    struct export_options options = {
        .path = "whole.jsonl", .completes = look_at_part, .context = &outcome};

    put_line(ROW("r"));
    expect_no_export(s.store, options, TW_FULL, "not yet");
    outcome = TW_OK;
    assert_ok(run_export(s.store, "First", &options));
    text_file_check("whole.jsonl", ROW("r"));
}

/* ---- rejected lines ---- */

FIXTURE_TEST(rejected_lines_are_counted_over_all_processes)
{
    const struct import_options options = {.path = "rejects.jsonl",
        .skip_errors = true,
        .rejects_path = "rejects.kept",
        .id = "i1"};

    text_file_write("rejects.jsonl", "no\n" ROW("r") "nor\n");
    assert_ok(run_import(s.store, "First", &options));
    assert_int_equal(s.result.written, 1);
    assert_int_equal(s.result.rejected, 2);
    text_file_check("rejects.kept", "no\nnor\n");
    assert_ok(run_import(s.store, "First", &options));
    assert_true(s.result.repeated);
    assert_int_equal(s.result.rejected, 2);
}

/* Stops an import before its first line, so that the position in the ledger
 * does not change. If the rejects file has another line then, it looks as if a
 * process had rejected this line and was killed before it updated the
 * ledger. */
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

    text_file_write("killed.jsonl", "no\n" ROW("r") "nor\n");
    interrupt(&options);
    text_file_write("killed.kept", "no\n" ROW("s"));
    expect_no_import(options, TW_INVALID, "killed.kept was edited");
    text_file_check("killed.kept", "no\n" ROW("s"));
    /* The killed process wrote these rejected lines; the last one is
     * incomplete. */
    text_file_write("killed.kept", "nor\nno\nno");
    assert_ok(run_import(s.store, "First", &options));
    assert_int_equal(s.result.rejected, 2);
    text_file_check("killed.kept", "no\nnor\n");
}

/* If lone surrogates were decoded, these keys would all be U+FFFD, and the
 * second entity would replace the first. */
FIXTURE_TEST(a_key_with_half_of_a_pair_is_not_another_key)
{
    static const struct {
        const char *line, *says;
    } CASES[] = {
        {ROW("\\ud83d"), "RowKey contains"},
        {"{\"PartitionKey\":\"\\ude00\",\"RowKey\":\"r\"}\n",
            "PartitionKey contains half of"},
        {"{\"PartitionKey\":\"\\ufffd\",\"RowKey\":\"\\ud83d\\ude00\"}\n",
            NULL},
        {"{\"PartitionKey\":\"\xEF\xBF\xBD\",\"RowKey\":\"r\"}\n", NULL},
    };
    const struct import_options options = {
        .path = "half.jsonl", .on_conflict = IMPORT_CONFLICT_REPLACE};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        text_file_write("half.jsonl", CASES[i].line);
        if (CASES[i].says)
            expect_no_import(options, TW_INVALID, CASES[i].says);
        else
            assert_ok(run_import(s.store, "First", &options));
    }
}

/* A service ignores a member with such a name, and so loses a value or the type
 * of a value: the number 12 would be stored as a text. */
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

    const struct import_options options = {.path = "at.jsonl"};

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        char *line = mem_format(LINE("%zu", ",%s"), i, CASES[i].members);

        text_file_write("at.jsonl", line);
        mem_free(line);
        if (CASES[i].name)
            expect_no_import(options, TW_INVALID, CASES[i].name);
        else
            assert_ok(run_import(s.store, "First", &options));
    }
}

/* ---- a table that was made again ---- */

/* Returns the digest of the first `lines` lines of `again.jsonl`. */
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

#define TWO_LINES ROW("1") ROW("2")

/* Writes to the ledger the entity of an import of `again.jsonl`. With the state
 * `running`: the import was killed after it had stored `line` lines in the
 * table. Any other state: the import ended in this state. The table itself is
 * not changed. */
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

static void expect_refused(const char *table, const char *id, const char *says)
{
    assert_fails(import_again(table, id), TW_CONFLICT, &s.err, says);
}

static void expect_written(const char *table, const char *id, int64_t written)
{
    assert_ok(import_again(table, id));
    assert_int_equal(s.result.written, written);
}

static void expect_repeated(const char *table, const char *id)
{
    assert_ok(import_again(table, id));
    assert_true(s.result.repeated);
}

/* The import is refused also the second time, because the first, refused import
 * has not created the table. */
FIXTURE_TEST(an_import_does_not_continue_in_a_table_that_was_deleted)
{
    import_lines("Gone", "g1", 1, LEDGER_RUNNING);
    for (int i = 0; i < 2; i++)
        expect_refused("Gone", "g1", "does not exist any more");
    expect_written("Gone", "g2", 2);
}

FIXTURE_TEST(an_import_does_not_continue_in_an_empty_table)
{
    import_lines("First", "e1", 1, LEDGER_RUNNING);
    expect_refused("First", "e1", "is empty");
    expect_written("First", "e2", 2);
    /* The table now has the entities that import e1 should have stored, so e1
     * continues. */
    expect_written("First", "e1", 1);
}

/* The entities of a succeeded import may have been deleted since. But if the
 * table is missing, the exit code must not say that all entities are there. */
FIXTURE_TEST(an_import_that_succeeded_misses_its_table)
{
    import_lines("First", "s1", 2, LEDGER_SUCCEEDED);
    expect_repeated("First", "s1");
    import_lines("Gone", "s2", 2, LEDGER_SUCCEEDED);
    expect_refused("Gone", "s2", "");
    import_lines("Gone", "s3", 0, LEDGER_SUCCEEDED);
    text_file_write("again.jsonl", "");
    expect_repeated("Gone", "s3");
}

/* ---- an id that has succeeded ---- */

/* The name of a file does not identify its content: the file may have been
 * replaced, and standard input always has the same name. */
FIXTURE_TEST(an_id_that_has_succeeded_takes_no_other_content)
{
    static const char *const OTHERS[] = {
        ROW("1"), TWO_LINES ROW("3"), (ROW("1") ROW("3")), ""};

    text_file_write("again.jsonl", TWO_LINES);
    expect_written("First", "o1", 2);
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++) {
        text_file_write("again.jsonl", OTHERS[i]);
        expect_refused("First", "o1",
            "import o1 has succeeded with other content than again.jsonl has");
    }
    text_file_write("again.jsonl", TWO_LINES);
    expect_repeated("First", "o1");
    text_file_write("again.jsonl", OTHERS[1]);
    expect_written("First", "o2", 3);
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
    text_file_write("again.jsonl", LINE("1", ",\"New\":1"));
    assert_ok(import_unless(IMPORT_CONFLICT_SKIP));
    assert_int_equal(s.result.skipped, 1);
    for (size_t i = 0; TEST_EACH(i, OTHERS); i++)
        assert_fails(import_unless(OTHERS[i]), TW_CONFLICT, &s.err,
            "import k1 skipped 1 entity of table First that differs from the "
            "file");
    assert_ok(import_unless(IMPORT_CONFLICT_SKIP));
    assert_true(s.result.repeated);
}

/* An import without a line has succeeded. A file with other content is refused
 * under its id, and the table is not created. */
FIXTURE_TEST(an_id_that_has_imported_nothing_takes_no_content)
{
    import_lines("Gone", "n1", 0, LEDGER_SUCCEEDED);
    for (int i = 0; i < 2; i++)
        expect_refused("Gone", "n1", "has succeeded with other content");
}

/* Imports `text` twice with one id: the second import is a repetition. Then the
 * import of `other` with this id must be refused. */
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
