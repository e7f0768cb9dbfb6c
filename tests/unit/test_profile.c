/* SPDX-License-Identifier: MIT */
/* The profile of a table: what is counted, how it is printed, how much memory
 * it needs. */
#include <stdio.h>

#include "jobs/engine/profile.h"
#include "tests/support/test.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"

#define VERSION "SchemaVersion"
#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

static struct arena arena;
static struct profile *profile;
static struct buf output;
static struct json *parsed;

static int set_up(void **state)
{
    arena_init(&arena);
    buf_init(&output, (size_t)1 << 30);
    profile = profile_new(slice_of(VERSION));
    return 0;
}

static int tear_down(void **state)
{
    json_free(parsed);
    parsed = NULL;
    profile_free(profile);
    buf_done(&output);
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Returns an entity with these properties, written as members of a JSON object;
 * "": none. */
static struct entity entity_of(
    const char *partition_key, const char *row_key, const char *properties)
{
    struct slice text =
        arena_format(&arena, "{\"PartitionKey\":\"%s\",\"RowKey\":\"%s\"%s%s}",
            partition_key, row_key, properties[0] ? "," : "", properties);
    struct entity entity;
    struct err err;

    if (entity_parse(text, true, &arena, &entity, NULL, &err) != TW_OK)
        fail_msg("%s: %s", properties, err.text);
    return entity;
}

static enum tw_err add(const char *properties)
{
    struct entity entity = entity_of("p", "r", properties);

    return profile_add(profile, &entity, NULL);
}

static void add_all(const char *const *list)
{
    for (; *list; list++)
        assert_ok(add(*list));
}
#define ADD_ALL(...) add_all((const char *const[]){__VA_ARGS__, NULL})

static const char *versions(void)
{
    buf_clear(&output);
    profile_add_versions(profile, &output);
    return buf_text(&output);
}

static const char *text(void)
{
    buf_clear(&output);
    profile_add_text(profile, &output);
    return buf_text(&output);
}

/* Returns the profile as parsed JSON, which is valid until the next call. */
static const struct json *json(void)
{
    struct err err;

    json_free(parsed);
    parsed = NULL;
    buf_clear(&output);
    profile_add_json(profile, "Blogs", &output);
    if (json_parse(buf_slice(&output), 4, &parsed, &err) != TW_OK)
        fail_msg("%s: %s", err.text, buf_text(&output));
    return parsed;
}

static bool is_text(
    const struct json *object, const char *name, const char *wanted)
{
    return slice_is(json_string(json_get(object, name)), wanted);
}

static int64_t number(const struct json *object, const char *name)
{
    const struct json *value = json_get(object, name);
    int64_t ret = -1;

    if (value)
        assert_true(json_int64(value, &ret));
    return ret;
}

/* ---- types ---- */

#define ALL_TYPES                                                              \
    "\"Bi@odata.type\":\"Edm.Binary\",\"Bi\":\"AAEC\",\"Bo\":true,"            \
    "\"D@odata.type\":\"Edm.DateTime\",\"D\":\"2024-02-29T00:00:00Z\","        \
    "\"F@odata.type\":\"Edm.Double\",\"F\":1.5,"                               \
    "\"G@odata.type\":\"Edm.Guid\","                                           \
    "\"G\":\"00000000-0000-0000-0000-000000000001\",\"I\":1,"                  \
    "\"L@odata.type\":\"Edm.Int64\",\"L\":\"2\",\"S\":\"text\""

FIXTURE_TEST(every_type_is_counted)
{
    static const char *const names[][2] = {{"Bi", "Edm.Binary"},
        {"Bo", "Edm.Boolean"}, {"D", "Edm.DateTime"}, {"F", "Edm.Double"},
        {"G", "Edm.Guid"}, {"I", "Edm.Int32"}, {"L", "Edm.Int64"},
        {"S", "Edm.String"}};
    const struct json *list;

    assert_ok(add(ALL_TYPES));
    list = json_get(json(), "Properties");
    assert_int_equal(json_count(list), COUNT_OF(names));
    for (size_t i = 0; TEST_EACH(i, names); i++) {
        const struct json *property = json_at(list, i);

        assert_int_equal(json_count(property), 2);
        assert_true(is_text(property, "Name", names[i][0]));
        assert_int_equal(number(property, names[i][1]), 1);
    }
}

FIXTURE_TEST(a_property_of_several_types_has_a_count_of_each)
{
    const struct json *x;

    ADD_ALL("\"X\":1", "\"X\":\"1\"", "\"X\":2", "\"Y\":1",
        "\"X@odata.type\":\"Edm.Int64\",\"X\":\"1\"", "");
    x = json_at(json_get(json(), "Properties"), 0);
    assert_int_equal(number(x, "Edm.Int32"), 2);
    assert_int_equal(number(x, "Edm.Int64"), 1);
    assert_int_equal(number(x, "Edm.String"), 1);
    assert_int_equal(json_count(x), 4);
    assert_int_equal(number(json(), "Entities"), 6);
}

/* ---- versions ---- */

#define DOUBLE(value)                                                          \
    "\"" VERSION "@odata.type\":\"Edm.Double\",\"" VERSION "\":" value
#define INT64(value)                                                           \
    "\"" VERSION "@odata.type\":\"Edm.Int64\",\"" VERSION "\":\"" value "\""
#define PLAIN(value) "\"" VERSION "\":" value

FIXTURE_TEST(versions_stand_in_their_order)
{
    ADD_ALL(PLAIN("\"two\""), "", PLAIN("10"), PLAIN("true"), PLAIN("9"),
        PLAIN("-1"), PLAIN("\"10\""), "\"Other\":1", PLAIN("10"),
        "\"" VERSION "@odata.type\":\"Edm.Guid\",\"" VERSION
        "\":\"00000000-0000-0000-0000-000000000001\"",
        PLAIN("-300"), PLAIN("0"));
    assert_string_equal(versions(),
        "-300: 1\n-1: 1\n0: 1\n9: 1\n10: 2\n'10': 1\n'two': 1\n"
        "(Edm.Boolean): 1\n(Edm.Guid): 1\n(absent): 2\n");
}

FIXTURE_TEST(one_number_is_one_version_whatever_its_type)
{
    ADD_ALL(PLAIN("2"), INT64("2"), DOUBLE("2.0"), DOUBLE("2e0"),
        DOUBLE("-0.0"), PLAIN("0"));
    assert_string_equal(versions(), "0: 2\n2: 4\n");
}

FIXTURE_TEST(doubles_that_are_no_integer_go_by_their_type)
{
    ADD_ALL(DOUBLE("1.5"), DOUBLE("\"NaN\""), DOUBLE("\"Infinity\""),
        DOUBLE("\"-Infinity\""), DOUBLE("1e300"),
        DOUBLE("9223372036854775808.0"), DOUBLE("-9223372036854777856.0"));
    assert_string_equal(versions(), "(Edm.Double): 7\n");
}

FIXTURE_TEST(the_largest_integers_are_versions)
{
    ADD_ALL(INT64("9223372036854775807"), DOUBLE("-9223372036854775808.0"),
        INT64("-9223372036854775808"), DOUBLE("9223372036854774784.0"));
    assert_string_equal(versions(),
        "-9223372036854775808: 2\n9223372036854774784: 1\n"
        "9223372036854775807: 1\n");
}

FIXTURE_TEST(versions_in_json_keep_their_type)
{
    const struct json *versions;

    ADD_ALL(PLAIN("7"), PLAIN("\"7\\u0000\\\"\""), PLAIN("false"), "");
    versions = json_get(json(), "Versions");
    assert_int_equal(json_count(versions), 4);
    assert_int_equal(number(json_at(versions, 0), "Version"), 7);
    assert_true(
        slice_equal(json_string(json_get(json_at(versions, 1), "Version")),
            (struct slice){"7\0\"", 3}));
    assert_null(json_get(json_at(versions, 2), "Version"));
    assert_true(is_text(json_at(versions, 2), "Type", "Edm.Boolean"));
    assert_int_equal(
        json_type(json_get(json_at(versions, 3), "Version")), JSON_NULL);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(number(json_at(versions, i), "Entities"), 1);
}

FIXTURE_TEST(entities_without_a_version_stand_alone)
{
    const struct json *versions;

    assert_ok(add("\"Other\":1"));
    versions = json_get(json(), "Versions");
    assert_int_equal(json_count(versions), 1);
    assert_int_equal(number(json_at(versions, 0), "Entities"), 1);
    assert_contains(text(), "\n(absent)           1\n");
}

FIXTURE_TEST(without_a_version_none_is_counted)
{
    profile_free(profile);
    profile = profile_new((struct slice){NULL, 0});
    assert_ok(add(PLAIN("1")));
    assert_string_equal(versions(), "");
    assert_null(strstr(text(), "(absent)"));
    assert_null(strstr(text(), "\nVERSION"));
    assert_null(json_get(json(), "Versions"));
}

/* ---- the largest entity ---- */

FIXTURE_TEST(the_first_of_the_largest_is_named)
{
    struct entity list[] = {
        entity_of("p", "1", "\"X\":1"),
        entity_of("p", "2", "\"S\":\"12345678\""),
        entity_of("q'", "3", "\"S\":\"\\u0041234567\xc3\xa4\""),
        entity_of("p", "4", ""),
    };
    const struct json *largest;

    list[2].row_key = slice_of("");
    for (size_t i = 0; TEST_EACH(i, list); i++)
        assert_ok(profile_add(profile, &list[i], NULL));
    largest = json_get(json(), "Largest");
    assert_true(is_text(largest, "PartitionKey", "p"));
    assert_true(is_text(largest, "RowKey", "2"));
    /* 4 + 2 x 2 bytes for the keys, 8 + 2 for the name of the property, 4 + 16
     * for its value. */
    assert_int_equal(number(largest, "Bytes"), 38);
}

/* The size of the largest entity is computed as the service computes the size
 * that it limits. */
FIXTURE_TEST(bytes_are_those_that_the_service_limits)
{
    struct entity entity;
    char *value = mem_alloc(64 * 1024);
    char name[24];
    struct err err;

    entity_init(&entity, &arena, slice_of("p"), slice_of("r"));
    memset(value, 'x', 32 * 1024);
    for (int i = 0; entity_service_bytes(&entity) <= ENTITY_MAX_BYTES; i++) {
        assert_ok(entity_check(&entity, &err));
        snprintf(name, sizeof(name), "P%d", i);
        entity_set_string(&entity, &arena, name,
            (struct slice){value, i < 15 ? 32 * 1024 : 4000});
    }
    assert_int_equal(entity_check(&entity, &err), TW_TOO_LARGE);
    snprintf(name, sizeof(name), "%zu", entity_service_bytes(&entity));
    assert_contains(err.text, name);
    mem_free(value);
}

/* ---- limits ---- */

/* Returns an entity with `count` properties, whose names are P<first> and so
 * on. */
static struct entity wide_entity(size_t first, size_t count)
{
    struct entity entity;

    entity_init(&entity, &arena, slice_of("p"), slice_of("r"));
    entity.properties = arena_alloc(&arena, count * sizeof(*entity.properties));
    entity.property_count = count;
    for (size_t i = 0; i < count; i++)
        entity.properties[i] = (struct property){
            .name = arena_format(&arena, "P%06zu", first + i),
            .type = EDM_INT32,
            .json = slice_of("1"),
        };
    return entity;
}

FIXTURE_TEST(thousands_of_names_stay_apart)
{
    struct entity all = wide_entity(0, 10000), half = wide_entity(0, 5000);
    const struct json *list;
    char name[16];

    assert_ok(profile_add(profile, &half, NULL));
    assert_ok(profile_add(profile, &all, NULL));
    assert_ok(profile_add(profile, &half, NULL));
    list = json_get(json(), "Properties");
    assert_int_equal(json_count(list), 10000);
    for (size_t i = 0; i < 10000; i++) {
        const struct json *property = json_at(list, i);

        snprintf(name, sizeof(name), "P%06zu", i);
        assert_true(is_text(property, "Name", name));
        assert_int_equal(number(property, "Edm.Int32"), i < 5000 ? 3 : 1);
    }
}

FIXTURE_TEST(one_name_more_than_a_schema_has_is_refused)
{
    struct entity full = wide_entity(0, PROFILE_MAX_PROPERTIES);
    struct entity more = wide_entity(PROFILE_MAX_PROPERTIES, 2);
    struct err err;

    assert_ok(profile_add(profile, &full, &err));
    assert_ok(profile_add(profile, &full, &err));
    assert_fails(profile_add(profile, &more, &err), TW_TOO_LARGE, &err,
        "more than 100000 different property names");
}

FIXTURE_TEST(one_version_more_than_there_can_be_is_refused)
{
    struct entity more;
    struct err err;

    for (int i = 0; i < PROFILE_MAX_VERSIONS; i++) {
        struct entity entity = entity_of("p", "r", "");

        entity_set_int32(&entity, &arena, VERSION, i);
        assert_ok(profile_add(profile, &entity, &err));
    }
    assert_ok(add(""));
    assert_ok(add(PLAIN("999")));
    more = entity_of("p", "r", PLAIN("\"1\""));
    assert_fails(profile_add(profile, &more, &err), TW_TOO_LARGE, &err,
        "'" VERSION "' has more than 1000");
}

/* ---- memory ---- */

/* Returns the number of allocations while `count` entities with the same
 * properties are added. */
static unsigned long allocations_of(size_t first, size_t count)
{
    const unsigned long most = 1000000;
    unsigned long used = 0;

    for (size_t i = first; i < first + count; i++) {
        struct entity entity;
        char key[16];

        arena_clear(&arena);
        snprintf(key, sizeof(key), "%08zu", i);
        entity_init(&entity, &arena, slice_of(key), slice_of(key));
        entity_set_int32(&entity, &arena, VERSION, (int32_t)(i % 5));
        entity_set_string(&entity, &arena, "Title", slice_of(key));
        entity_set_double(&entity, &arena, "Rating", (double)i);
        (void)mem_fail_after(most);
        assert_ok(profile_add(profile, &entity, NULL));
        used += most - mem_fail_after(0);
    }
    return used;
}

FIXTURE_TEST(memory_does_not_grow_with_entities)
{
    assert_true(allocations_of(0, 1000) > 0);
    assert_int_equal(allocations_of(1000, 19000), 0);
}

/* ---- what is shown ---- */

FIXTURE_TEST(people_see_columns)
{
    ADD_ALL("\"Views\":1," PLAIN("1"), "\"Views\":\"many\"," PLAIN("1"),
        "\"b\":true," PLAIN("\"new\""), "\"\303\234ber\342\200\256\":true");
    assert_string_equal(text(),
        "entities: 4\n"
        "largest:  76 bytes, PartitionKey 'p', RowKey 'r'\n"
        "\n"
        "PROPERTY       TYPE            ENTITIES\n"
        "SchemaVersion  Edm.Int32              2\n"
        "SchemaVersion  Edm.String             1\n"
        "Views          Edm.Int32              1\n"
        "Views          Edm.String             1\n"
        "b              Edm.Boolean            1\n"
        "\303\234ber\\u202e     Edm.Boolean            1\n"
        "\n"
        "VERSION     ENTITIES\n"
        "1                  2\n"
        "'new'              1\n"
        "(absent)           1\n");
}

FIXTURE_TEST(an_empty_table_is_shown_too)
{
    const struct json *all = json();

    assert_true(is_text(all, "Table", "Blogs"));
    assert_int_equal(number(all, "Entities"), 0);
    assert_int_equal(json_type(json_get(all, "Largest")), JSON_NULL);
    assert_int_equal(json_count(json_get(all, "Properties")), 0);
    assert_int_equal(json_count(json_get(all, "Versions")), 0);
    assert_string_equal(text(), "entities: 0\n");
    assert_string_equal(versions(), "");
    profile_free(NULL);
}

/* No name or value of an entity can move the cursor of a terminal. */
FIXTURE_TEST(no_control_character_is_shown)
{
    struct entity entity = entity_of("p", "r", PLAIN("\"\\u001b[2J\""));

    entity.partition_key = slice_of("p\x1b[2J");
    entity.row_key = slice_of("r\x7f");
    assert_ok(profile_add(profile, &entity, NULL));
    assert_contains(text(), "PartitionKey 'p\\x1b[2J', RowKey 'r\\x7f'");
    assert_contains(text(), "\n'\\x1b[2J' ");
    assert_null(strchr(text(), '\x1b'));
    assert_string_equal(versions(), "'\\x1b[2J': 1\n");
}
