/* SPDX-License-Identifier: MIT */
/* Where a copy comes from: what is written, what is read, and whose it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/engine/tally.h"
#include "jobs/provenance.h"
#include "tests/support/fixture.h"

struct bench {
    struct arena arena;
    struct slice name;
    struct provenance provenance;
};

static void begin(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    b->name = slice_of(PROVENANCE_PROPERTY);
    b->provenance = (struct provenance){
        .store = slice_of("main"),
        .table = slice_of("Blogs"),
        .partition_key = slice_of("Football"),
        .row_key = slice_of("1"),
        .etag = slice_of("W/\"datetime'1'\""),
        .job = slice_of("by-month"),
        .run = slice_of("r1"),
    };
}

static void done(struct bench *b)
{
    arena_done(&b->arena);
}

/* properties: as the service's JSON, without the braces. */
static struct entity entity_of(struct bench *b, const char *properties)
{
    struct slice text =
        arena_format(&b->arena, "{\"PartitionKey\":\"P\",\"RowKey\":\"R\"%s%s}",
            *properties ? "," : "", properties);
    struct entity entity;
    struct err err;

    if (entity_parse(text, true, &b->arena, &entity, NULL, &err) != TW_OK)
        fail_msg("%s", err.text);
    return entity;
}

static struct slice digest_of(struct bench *b, const struct entity *entity)
{
    struct digest digest = entity_digest(entity, b->name);
    char hex[2 * DIGEST_BYTES + 1];

    digest_text(&digest, hex);
    return arena_copy(&b->arena, slice_of(hex));
}

static void stamp(struct bench *b, struct entity *copy)
{
    provenance_stamp(copy, b->name, &b->provenance, &b->arena);
}

static struct provenance read_back(struct bench *b, const struct entity *copy)
{
    struct provenance read;

    assert_true(provenance_read(copy, b->name, &b->arena, &read));
    return read;
}

static void check_same(const struct provenance *a, const struct provenance *b)
{
    check_text(a->store, b->store);
    check_text(a->table, b->table);
    check_text(a->partition_key, b->partition_key);
    check_text(a->row_key, b->row_key);
    check_text(a->etag, b->etag);
    check_text(a->job, b->job);
    check_text(a->run, b->run);
    check_text(a->identity, b->identity);
}

/* ---- writing and reading ---- */

static void it_is_one_line_of_json(void **state)
{
    struct bench b;
    struct entity copy;
    struct slice text, digest;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1");
    digest = digest_of(&b, &copy);
    stamp(&b, &copy);
    assert_int_equal(copy.property_count, 2);
    assert_true(property_text(entity_find(&copy, b.name), &b.arena, &text));
    check_text(text,
        arena_format(&b.arena,
            "{\"store\":\"main\",\"table\":\"Blogs\",\"key\":[\"Football\","
            "\"1\"],\"etag\":\"W/\\\"datetime'1'\\\"\",\"job\":\"by-month\","
            "\"run\":\"r1\",\"digest\":\"%.*s\"}",
            SLICE_ARG(digest)));
    done(&b);
}

static void which_store_it_was_is_written_where_it_is_known(void **state)
{
    const char member[] = ",\"identity\":\"a.example\"}";
    struct bench b;
    struct entity copy;
    struct provenance read;
    struct slice text;

    (void)state;
    begin(&b);
    b.provenance.identity = slice_of("a.example");
    copy = entity_of(&b, "\"A\":1");
    stamp(&b, &copy);
    assert_true(property_text(entity_find(&copy, b.name), &b.arena, &text));
    assert_non_null(memmem(text.at, text.len, member, sizeof(member) - 1));
    read = read_back(&b, &copy);
    check_same(&read, &b.provenance);
    done(&b);
}

static void what_is_written_is_read_back(void **state)
{
    struct bench b;
    struct entity copy;
    struct provenance read;
    struct slice digest;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1,\"B\":\"x\"");
    digest = digest_of(&b, &copy);
    stamp(&b, &copy);
    read = read_back(&b, &copy);
    check_same(&read, &b.provenance);
    check_text(read.digest, digest);
    done(&b);
}

static void keys_of_any_kind_are_read_back(void **state)
{
    static const char *const KEYS[] = {
        "", "a\"b", "{\"x\":1}", "Łódź 🙂", "'", " ", "\\u0041"};
    struct bench b;

    (void)state;
    begin(&b);
    for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
        struct entity copy = entity_of(&b, "");
        struct provenance read;

        b.provenance.partition_key = slice_of(KEYS[i]);
        b.provenance.row_key = slice_of(KEYS[i]);
        stamp(&b, &copy);
        read = read_back(&b, &copy);
        check_same(&read, &b.provenance);
    }
    done(&b);
}

static void a_second_stamp_takes_the_place_of_the_first(void **state)
{
    struct bench b;
    struct entity copy;
    struct provenance first, second;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1");
    stamp(&b, &copy);
    first = read_back(&b, &copy);
    b.provenance.run = slice_of("r2");
    stamp(&b, &copy);
    second = read_back(&b, &copy);
    assert_int_equal(copy.property_count, 2);
    check_text(second.run, slice_of("r2"));
    check_text(second.digest, first.digest);
    done(&b);
}

static void it_can_be_taken_off_again(void **state)
{
    struct bench b;
    struct entity copy, stamped, bare;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1,\"B\":\"x\"");
    copy.etag = slice_of("W/\"1\"");
    stamped = copy;
    stamp(&b, &stamped);
    bare = entity_without(&stamped, b.name, &b.arena);
    check_text(digest_of(&b, &bare), digest_of(&b, &copy));
    check_text(bare.etag, copy.etag);
    assert_int_equal(bare.property_count, 2);
    assert_int_equal(stamped.property_count, 3);
    bare = entity_without(&copy, b.name, &b.arena);
    assert_int_equal(bare.property_count, 2);
    assert_ptr_not_equal(bare.properties, copy.properties);
    done(&b);
}

static void the_property_may_have_another_name(void **state)
{
    struct bench b;
    struct entity copy;
    struct provenance read;

    (void)state;
    begin(&b);
    b.name = slice_of("CopiedFrom");
    copy = entity_of(&b, "");
    stamp(&b, &copy);
    read = read_back(&b, &copy);
    assert_true(provenance_is_intact(&read, &copy, b.name));
    assert_false(
        provenance_read(&copy, slice_of(PROVENANCE_PROPERTY), &b.arena, &read));
    done(&b);
}

#define HEX "0123456789abcdef0123456789abcdef"
#define BEGINS "{\"store\":\"s\",\"table\":\"T\","
#define KEY "\"key\":[\"p\",\"r\"],"
#define ENDS "\"job\":\"j\",\"run\":\"r\",\"digest\":\"" HEX "\"}"
#define ETAG "\"etag\":\"e\","

/* text as the value of the property. */
static bool is_read(struct bench *b, const char *text)
{
    struct entity copy = entity_of(b, "");
    struct provenance read;

    entity_set_string(&copy, &b->arena, b->name.at, slice_of(text));
    return provenance_read(&copy, b->name, &b->arena, &read);
}

static void what_is_none_of_ours_is_not_read(void **state)
{
    static const char *const OTHERS[] = {
        "",
        "main",
        "null",
        "[]",
        "{}",
        "{",
        BEGINS KEY ETAG ENDS " x",
        "{\"table\":\"T\"," KEY ETAG ENDS,
        "{\"store\":\"s\"," KEY ETAG ENDS,
        BEGINS ETAG ENDS,
        BEGINS KEY ENDS,
        BEGINS KEY ETAG "\"run\":\"r\",\"digest\":\"" HEX "\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"digest\":\"" HEX "\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\"}",
        BEGINS "\"key\":[\"p\"]," ETAG ENDS,
        BEGINS "\"key\":[\"p\",\"r\",\"r\"]," ETAG ENDS,
        BEGINS "\"key\":[1,\"r\"]," ETAG ENDS,
        BEGINS "\"key\":[\"p\",null]," ETAG ENDS,
        BEGINS "\"key\":[\"p\",[\"r\"]]," ETAG ENDS,
        BEGINS "\"key\":{\"p\":\"r\"}," ETAG ENDS,
        BEGINS "\"key\":\"p\"," ETAG ENDS,
        BEGINS KEY "\"etag\":5," ENDS,
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":\"\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":\"" HEX "0\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":"
                        "\"0123456789ABCDEF0123456789abcdef\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":"
                        "\"0123456789abcdef0123456789abcde/\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":"
                        "\"0123456789abcdef0123456789abcdeg\"}",
        BEGINS KEY ETAG "\"job\":\"j\",\"run\":\"r\",\"digest\":"
                        "\"0123456789abcdef0123456789abcde:\"}",
    };
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_read(&b, BEGINS KEY ETAG ENDS));
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
        if (is_read(&b, OTHERS[i]))
            fail_msg("%s", OTHERS[i]);
    done(&b);
}

static void a_copy_of_a_move_says_so(void **state)
{
    struct bench b;
    struct entity copy;
    struct slice text;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1");
    stamp(&b, &copy);
    assert_false(read_back(&b, &copy).moved);
    b.provenance.moved = true;
    stamp(&b, &copy);
    assert_true(read_back(&b, &copy).moved);
    assert_true(property_text(entity_find(&copy, b.name), &b.arena, &text));
    assert_non_null(memmem(text.at, text.len, ",\"mode\":\"move\"}", 15));
    assert_true(is_read(&b, BEGINS KEY ETAG "\"mode\":7," ENDS));
    done(&b);
}

static void members_of_a_later_release_are_passed_over(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_read(&b, BEGINS KEY ETAG "\"more\":[1]," ENDS));
    assert_true(is_read(&b, BEGINS KEY ETAG "\"identity\":[1]," ENDS));
    done(&b);
}

static void a_property_that_is_no_text_is_none_of_ours(void **state)
{
    struct bench b;
    struct entity copy;
    struct provenance read = {.store = slice_of("as before")};

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"" PROVENANCE_PROPERTY "\":5");
    assert_false(provenance_read(&copy, b.name, &b.arena, &read));
    copy = entity_of(&b, "");
    assert_false(provenance_read(&copy, b.name, &b.arena, &read));
    check_text(read.store, slice_of("as before"));
    done(&b);
}

/* ---- whose it is ---- */

static void it_is_from_a_job_and_the_table_it_reads(void **state)
{
    static const struct {
        const char *store, *table, *job;
        bool from;
    } WANTED[] = {
        {"main", "bLOGS", "by-month", true},
        {"other", "bLOGS", "by-month", false},
        {"main", "Blog", "by-month", false},
        {"main", "Block", "by-month", false},
        {"main", "bLOGS", "by-year", false},
    };
    struct bench b;

    (void)state;
    begin(&b);
    for (size_t i = 0; i < sizeof(WANTED) / sizeof(WANTED[0]); i++) {
        const struct provenance wanted = {.store = slice_of(WANTED[i].store),
            .table = slice_of(WANTED[i].table),
            .job = slice_of(WANTED[i].job)};

        assert_int_equal(
            provenance_is_from(&b.provenance, &wanted), WANTED[i].from);
    }
    done(&b);
}

/* Of a source that was in the store `name`, which was `identity`: is it the
 * one that is in main, which is "a"? */
static bool is_of_main(
    struct bench *b, const char *name, const char *identity, bool at_home)
{
    struct provenance wanted = b->provenance, is = b->provenance;

    wanted.identity = slice_of("a");
    wanted.at_home = at_home;
    is.store = slice_of(name);
    is.identity = slice_of(identity);
    assert_int_equal(
        provenance_is_of(&is, &wanted), provenance_is_from(&is, &wanted));
    return provenance_is_of(&is, &wanted);
}

/* One name in the configuration, an account for each environment: the second
 * one's entities took the place of the first one's, and a move deleted them. */
static void sources_of_two_accounts_are_two_under_one_name(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_of_main(&b, "main", "a", false));
    assert_false(is_of_main(&b, "main", "b", false));
    assert_false(is_of_main(&b, "other", "b", false));
    done(&b);
}

/* No run found its own copies again. */
static void a_store_that_is_renamed_stays_the_same(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_of_main(&b, "as it was called", "a", false));
    assert_true(is_of_main(&b, "as it was called", "a", true));
    done(&b);
}

static void a_copy_of_a_former_release_is_known_by_its_stores_name(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_of_main(&b, "main", "", false));
    assert_false(is_of_main(&b, "other", "", false));
    done(&b);
}

/* Exported there with its source, and imported here. */
static void a_copy_that_came_with_its_source_is_known_by_the_name(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_true(is_of_main(&b, "main", "b", true));
    assert_false(is_of_main(&b, "other", "b", true));
    done(&b);
}

static void it_is_of_one_source_whatever_the_run(void **state)
{
    struct bench b;
    struct provenance other;

    (void)state;
    begin(&b);
    other = b.provenance;
    other.etag = slice_of("another");
    other.run = slice_of("r2");
    other.table = slice_of("BLOGS");
    assert_true(provenance_is_of(&b.provenance, &other));
    other.row_key = slice_of("2");
    assert_false(provenance_is_of(&b.provenance, &other));
    other = b.provenance;
    other.partition_key = slice_of("football");
    assert_false(provenance_is_of(&b.provenance, &other));
    other = b.provenance;
    other.table = slice_of("Blogs2");
    assert_false(provenance_is_of(&b.provenance, &other));
    other = b.provenance;
    other.store = slice_of("other");
    assert_false(provenance_is_of(&b.provenance, &other));
    done(&b);
}

static void a_copy_is_intact_until_somebody_changes_it(void **state)
{
    static const struct {
        const char *properties;
        bool intact;
    } NOW[] = {
        {"\"A\":1,\"B\":\"x\"", true},
        {"\"B\":\"x\",\"A\":1", true},
        {"\"A\":2,\"B\":\"x\"", false},
        {"\"A\":1,\"B\":\"y\"", false},
        {"\"A\":1", false},
        {"\"A\":1,\"B\":\"x\",\"C\":true", false},
        {"\"A@odata.type\":\"Edm.Int64\",\"A\":\"1\",\"B\":\"x\"", false},
        {"\"a\":1,\"B\":\"x\"", false},
    };
    struct bench b;
    struct entity copy;

    (void)state;
    begin(&b);
    copy = entity_of(&b, "\"A\":1,\"B\":\"x\"");
    stamp(&b, &copy);
    for (size_t i = 0; i < sizeof(NOW) / sizeof(NOW[0]); i++) {
        struct entity now = entity_of(&b, NOW[i].properties);
        struct provenance read;

        entity_set(&now, &b.arena, entity_find(&copy, b.name));
        read = read_back(&b, &now);
        if (provenance_is_intact(&read, &now, b.name) != NOW[i].intact)
            fail_msg("%s", NOW[i].properties);
    }
    done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_one_line_of_json),
        cmocka_unit_test(which_store_it_was_is_written_where_it_is_known),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(keys_of_any_kind_are_read_back),
        cmocka_unit_test(a_second_stamp_takes_the_place_of_the_first),
        cmocka_unit_test(it_can_be_taken_off_again),
        cmocka_unit_test(the_property_may_have_another_name),
        cmocka_unit_test(what_is_none_of_ours_is_not_read),
        cmocka_unit_test(a_copy_of_a_move_says_so),
        cmocka_unit_test(members_of_a_later_release_are_passed_over),
        cmocka_unit_test(a_property_that_is_no_text_is_none_of_ours),
        cmocka_unit_test(it_is_from_a_job_and_the_table_it_reads),
        cmocka_unit_test(sources_of_two_accounts_are_two_under_one_name),
        cmocka_unit_test(a_store_that_is_renamed_stays_the_same),
        cmocka_unit_test(
            a_copy_of_a_former_release_is_known_by_its_stores_name),
        cmocka_unit_test(a_copy_that_came_with_its_source_is_known_by_the_name),
        cmocka_unit_test(it_is_of_one_source_whatever_the_run),
        cmocka_unit_test(a_copy_is_intact_until_somebody_changes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
