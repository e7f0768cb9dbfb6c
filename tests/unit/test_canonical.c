/* SPDX-License-Identifier: MIT */
/* Canonical entities: values that services spell differently get one spelling,
 * and nothing is lost. */
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/store/canonical.h"

static const char *line_of(const char *members)
{
    return arena_format(
        &scratch, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",%s}", members)
        .at;
}

/* Fails unless the canonical form of an entity is `wanted`. members: its JSON
 * members after the keys. */
static void assert_canonical(const char *members, const char *wanted)
{
    struct entity read = scratch_entity(line_of(members)), ret;

    canonical_entity(&read, &scratch, &ret);
    scratch_assert_written(&ret, line_of(wanted));
    assert_int_equal(ret.property_count, read.property_count);
    for (size_t i = 0; i < read.property_count; i++) {
        const struct property *same =
            entity_find(&ret, read.properties[i].name);

        assert_non_null(same);
        assert_true(property_equal(same, &read.properties[i]));
    }
}

SCRATCH_TEST(properties_are_ordered_by_the_bytes_of_their_names)
{
    assert_canonical("\"b\":1,\"A\":2,\"aa\":3,\"\xC3\xA4\":4,\"a\":5",
        "\"A\":2,\"a\":5,\"aa\":3,\"b\":1,\"\xC3\xA4\":4");
}

SCRATCH_TEST(the_entity_that_was_read_stays_as_it_is)
{
    const char *line =
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"B\":1,\"A\":2}";
    struct entity read = scratch_entity(line), ret;

    canonical_entity(&read, &scratch, &ret);
    scratch_assert_written(&read, line);
}

static const struct {
    const char *type, *from, *to;
} SPELLINGS[] = {
    {"Int64", "\"007\"", "\"7\""},
    {"Int64", "\"-0\"", "\"0\""},
    {"Int64", "\"-9223372036854775808\"", "\"-9223372036854775808\""},
    {"Double", "1E+300", "1e+300"},
    {"Double", "5", "5.0"},
    {"Double", "-0.0", "-0.0"},
    {"Double", "0.1000", "0.1"},
    {"Double", "5e-324", "4.94065645841247e-324"},
    {"Double", "\"NaN\"", "\"NaN\""},
    {"Double", "\"-Infinity\"", "\"-Infinity\""},
    {"DateTime", "\"2024-02-29T23:59:59.1234500Z\"",
        "\"2024-02-29T23:59:59.12345Z\""},
    {"DateTime", "\"2024-01-01T00:00:00.000Z\"", "\"2024-01-01T00:00:00Z\""},
    {"DateTime", "\"2024-01-01T10:20:30Z\"", "\"2024-01-01T10:20:30Z\""},
    {"Guid", "\"ABCDEF00-0000-0000-0000-00000000abcd\"",
        "\"abcdef00-0000-0000-0000-00000000abcd\""},
    {"Binary", "\"AAEC\"", "\"AAEC\""},
};

static const char *member(const char *type, const char *value)
{
    return arena_format(
        &scratch, "\"X@odata.type\":\"Edm.%s\",\"X\":%s", type, value)
        .at;
}

SCRATCH_TEST(each_value_has_one_spelling)
{
    for (size_t i = 0; TEST_EACH(i, SPELLINGS); i++)
        assert_canonical(member(SPELLINGS[i].type, SPELLINGS[i].from),
            member(SPELLINGS[i].type, SPELLINGS[i].to));
    assert_canonical("\"X\":-0", "\"X\":0");
    assert_canonical("\"X\":true", "\"X\":true");
}

static const struct {
    const char *from, *to;
} TEXTS[] = {
    {"", ""},
    {"plain \xC3\xA9 \x7F", "plain \xC3\xA9 \x7F"},
    {"\\u00e9\\u006e\\u0041", "\xC3\xA9nA"},
    {"\\uD83D\\uDE00", "\xF0\x9F\x98\x80"},
    {"\\u0000\\u001F", "\\u0000\\u001f"},
    {"\\u0022\\u005C\\u000a\\u000D\\u0009", "\\\"\\\\\\n\\r\\t"},
    {"\\\"\\\\\\/\\n\\r\\t", "\\\"\\\\/\\n\\r\\t"},
    {"\\b\\f", "\\u0008\\u000c"},
    {"a\\\\u0041", "a\\\\u0041"},
    {"half \\uD83D.", "half \\ud83d."},
    {"\\uD83D\\u0041", "\\ud83dA"},
    {"\\uDE00\\uD83D", "\\ude00\\ud83d"},
    {"\\uD83D\\uD83D\\uDE00", "\\ud83d\xF0\x9F\x98\x80"},
};

SCRATCH_TEST(a_text_has_as_few_escapes_as_may_be)
{
    for (size_t i = 0; TEST_EACH(i, TEXTS); i++)
        assert_canonical(
            arena_format(&scratch, "\"X\":\"%s\"", TEXTS[i].from).at,
            arena_format(&scratch, "\"X\":\"%s\"", TEXTS[i].to).at);
}
