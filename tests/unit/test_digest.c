/* SPDX-License-Identifier: MIT */
/* Digests of entities are equal exactly if the entities are equal. */
#include <stdio.h>
#include <string.h>

#include "jobs/engine/digest.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"
#include "worker/base/mem.h"

static const struct slice none;

/* ---- digests ---- */

static struct property value(enum edm_type type, const char *json)
{
    return (struct property){slice_of("Value"), type, slice_of(json)};
}

static struct digest digest_of_value(const struct property *property)
{
    struct property copy = *property;
    const struct entity entity = {
        .partition_key = slice_of("A"),
        .row_key = slice_of("1"),
        .properties = &copy,
        .property_count = 1,
    };

    return entity_digest(&entity, none);
}

static bool same(struct digest a, struct digest b)
{
    return a.low == b.low && a.high == b.high;
}

TEST(digests_are_equal_where_properties_are)
{
    const struct property values[] = {value(EDM_STRING, "\"text\""),
        value(EDM_STRING, "\"te\\u0078t\""), value(EDM_STRING, "\"Text\""),
        value(EDM_STRING, "\"\""), value(EDM_STRING, "\"5\""),
        value(EDM_STRING, "\"\\ud83d\\ude00\""),
        value(EDM_STRING, "\"\xf0\x9f\x98\x80\""),
        value(EDM_STRING, "\"a\\/b\""), value(EDM_STRING, "\"a/b\""),
        value(EDM_STRING, "\"c9da6455-213d-42c9-9a79-3e9149a57833\""),
        value(EDM_BINARY, "\"AAEC\""), value(EDM_BINARY, "\"AAED\""),
        value(EDM_BINARY, "\"\""), value(EDM_BINARY, "\"text\""),
        value(EDM_BOOLEAN, "true"), value(EDM_BOOLEAN, "false"),
        value(EDM_INT32, "5"), value(EDM_INT32, "-5"), value(EDM_INT32, "0"),
        value(EDM_INT32, "-0"), value(EDM_INT64, "\"5\""),
        value(EDM_INT64, "\"05\""), value(EDM_INT64, "\"9223372036854775807\""),
        value(EDM_INT64, "\"-9223372036854775808\""),
        value(EDM_INT64, "\"out of range\""), value(EDM_DOUBLE, "5"),
        value(EDM_DOUBLE, "5.0"), value(EDM_DOUBLE, "5e0"),
        value(EDM_DOUBLE, "0.0"), value(EDM_DOUBLE, "-0.0"),
        value(EDM_DOUBLE, "0.1"),
        value(EDM_DOUBLE, "0.1000000000000000055511151231257827"),
        value(EDM_DOUBLE, "\"NaN\""), value(EDM_DOUBLE, "\"Infinity\""),
        value(EDM_DOUBLE, "\"-Infinity\""), value(EDM_DOUBLE, "\"neither\""),
        value(EDM_GUID, "\"c9da6455-213d-42c9-9a79-3e9149a57833\""),
        value(EDM_GUID, "\"C9DA6455-213D-42C9-9A79-3E9149A57833\""),
        value(EDM_GUID, "\"d9da6455-213d-42c9-9a79-3e9149a57833\""),
        value(EDM_GUID, "\"neither\""), value(EDM_INT32, "neither"),
        value(EDM_DATETIME, "\"2024-01-01T00:00:00Z\""),
        value(EDM_DATETIME, "\"2024-01-01T00:00:00.0000000Z\""),
        value(EDM_DATETIME, "\"2024-01-01T00:00:00.0000001Z\""),
        value(EDM_DATETIME, "\"never\""), value(EDM_DATETIME, "\"NEVER\"")};
    size_t count = sizeof values / sizeof *values;

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            assert_int_equal(
                same(digest_of_value(&values[i]), digest_of_value(&values[j])),
                property_equal(&values[i], &values[j]));
}

static void parse(struct entity *ret, struct arena *arena, const char *json)
{
    struct err err;

    assert_ok(entity_parse(slice_of(json), true, arena, ret, NULL, &err));
}

static struct digest digest_of_json(const char *json)
{
    struct digest digest;
    struct entity entity;
    struct arena arena;

    arena_init(&arena);
    parse(&entity, &arena, json);
    digest = entity_digest(&entity, none);
    arena_done(&arena);
    return digest;
}

static const char few[] =
    "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":1,\"Y\":\"2\"}";

TEST(whatever_differs_makes_another_digest)
{
    static const char *const others[] = {
        "{\"PartitionKey\":\"B\",\"RowKey\":\"1\",\"X\":1,\"Y\":\"2\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"2\",\"X\":1,\"Y\":\"2\"}",
        "{\"PartitionKey\":\"A1\",\"RowKey\":\"\",\"X\":1,\"Y\":\"2\"}",
        "{\"PartitionKey\":\"\",\"RowKey\":\"A1\",\"X\":1,\"Y\":\"2\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":1}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"x\":1,\"Y\":\"2\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":2,\"Y\":\"1\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":\"1\",\"Y\":2}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":1,\"Y\":\"\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"X\":1,\"Z\":\"2\"}",
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\"}",
    };

    for (size_t i = 0; TEST_EACH(i, others); i++)
        assert_false(same(digest_of_json(few), digest_of_json(others[i])));
}

TEST(any_number_of_properties_is_digested)
{
    enum { COUNT = 1000 };
    struct property forwards[COUNT], backwards[COUNT];
    static char names[COUNT][8];
    struct entity entity = {.property_count = COUNT};
    struct digest digest;

    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "P%03zu", i);
        forwards[i] = value(EDM_INT32, "5");
        forwards[i].name = slice_of(names[i]);
        backwards[COUNT - 1 - i] = forwards[i];
    }
    entity.properties = forwards;
    digest = entity_digest(&entity, none);
    entity.properties = backwards;
    assert_true(same(digest, entity_digest(&entity, none)));
    entity.property_count--;
    assert_false(same(digest, entity_digest(&entity, none)));
}

/* Digests are stored in entities, so the digest of an entity may never change
 * between versions. */
TEST(a_digest_stays_what_it_was)
{
    static const char all[] =
        "{\"PartitionKey\":\"A\",\"RowKey\":\"1\",\"Text\":\"a\\u00e4\","
        "\"Yes\":true,\"Small\":-7,\"Large@odata.type\":\"Edm.Int64\","
        "\"Large\":\"12345678901\",\"Half@odata.type\":\"Edm.Double\","
        "\"Half\":0.5,\"When@odata.type\":\"Edm.DateTime\","
        "\"When\":\"2024-01-01T00:00:00Z\",\"Id@odata.type\":\"Edm.Guid\","
        "\"Id\":\"C9DA6455-213D-42C9-9A79-3E9149A57833\","
        "\"Bytes@odata.type\":\"Edm.Binary\",\"Bytes\":\"AAEC\"}";
    char text[2 * DIGEST_BYTES + 1];
    struct digest digest = digest_of_json(all);

    assert_string_equal(
        (digest_text(&digest, text), text), "8fdb7c5c99b587fd557b5b75d14b83fa");
}

TEST(a_digest_is_read_as_it_is_written)
{
    const struct digest written = {
        .low = UINT64_C(0x0123456789abcdef), .high = UINT64_C(0xf00d)};
    char text[2 * DIGEST_BYTES + 1];
    struct digest read;

    digest_text(&written, text);
    assert_string_equal(text, "000000000000f00d0123456789abcdef");
    assert_true(digest_parse(slice_of(text), &read));
    assert_true(same(read, written));
}

TEST(what_is_no_digest_is_refused)
{
    static const char hex[] = "0123456789abcdef0123456789abcdef";
    const struct digest before = {.low = 5, .high = 7};
    const struct slice short_of = {hex, sizeof hex - 2};
    const struct slice with_nul = {hex + 1, sizeof hex - 1};
    const struct slice others[] = {none, short_of, with_nul,
        slice_of("0123456789abcdef0123456789abcdef0"),
        slice_of("0123456789abcdef0123456789abcdeg"),
        slice_of("0123456789ABCDEF0123456789abcdef"),
        slice_of(" 123456789abcdef0123456789abcdef")};
    struct digest read = before;

    for (size_t i = 0; TEST_EACH(i, others); i++)
        assert_false(digest_parse(others[i], &read));
    assert_true(same(read, before));
}

TEST(digests_are_added_modulo_two_to_the_128)
{
    struct digest sum = {.low = UINT64_MAX, .high = UINT64_MAX};

    digest_add(&sum, (struct digest){.low = 3, .high = 0});
    assert_true(same(sum, (struct digest){.low = 2, .high = 0}));
    digest_add(&sum, (struct digest){.low = 1, .high = 4});
    assert_true(same(sum, (struct digest){.low = 3, .high = 4}));
}
