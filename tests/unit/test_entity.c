/* SPDX-License-Identifier: MIT */
/* Entities: every Edm type is kept without loss, values are checked strictly,
 * and the service's limits hold. The JSON texts in this file are texts that the
 * service was observed to send. */
#include <math.h>
#include <string.h>

#include "tests/support/quotes.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/text.h"
#include "worker/store/entity.h"

static const struct property *find(
    const struct entity *entity, const char *name)
{
    const struct property *property = entity_find(entity, slice_of(name));

    if (property == NULL)
        fail_msg("no property %s", name);
    return property;
}

static void assert_slice(struct slice slice, const char *text)
{
    if (!slice_is(slice, text))
        fail_msg("'%.*s' is not '%s'", SLICE_ARG(slice), text);
}

#define KEYS "\"PartitionKey\":\"p\",\"RowKey\":\"r\""

/* Returns the JSON of an entity with KEYS and these members. In `members`,
 * single quotes stand for double quotes. */
static const char *with_keys(const char *members)
{
    return arena_format(&scratch, "{" KEYS "%s%s}", members[0] ? "," : "",
        quoted(&scratch, members))
        .at;
}

static struct entity entity_of(const char *members)
{
    return scratch_entity(with_keys(members));
}

/* Fails unless the entity is written as KEYS and these members. */
static void is(const struct entity *entity, const char *members)
{
    scratch_assert_written(entity, with_keys(members));
}

static const char *typed(const char *type, const char *json)
{
    return arena_format(&scratch, "'x@odata.type':'Edm.%s','x':%s", type, json)
        .at;
}

static const char all_types[] =
    "{\"odata.metadata\":\"https://a.table.core.windows.net/$metadata#t/"
    "@Element\",\"odata.etag\":\"W/\\\"datetime'2020-07-21T15%3A27%3A27."
    "8908975Z'\\\"\"," KEYS ",\"Timestamp\":\"2020-07-21T15:27:27.8908975Z\","
    "\"age@odata.type\":\"Edm.Int64\",\"age\":\"39\",\"sex\":\"male\","
    "\"married\":true,\"deceased\":false,\"ratio\":3.1,\"evenratio\":3.0,"
    "\"Birthday@odata.type\":\"Edm.DateTime\","
    "\"Birthday\":\"1973-10-04T00:00:00Z\","
    "\"binary@odata.type\":\"Edm.Binary\",\"binary\":\"YmluYXJ5\","
    "\"other\":20,\"clsid@odata.type\":\"Edm.Guid\","
    "\"clsid\":\"c9da6455-213d-42c9-9a79-3e9149a57833\"}";

SCRATCH_TEST(reads_and_writes_every_type_that_the_service_sends)
{
    struct entity entity = scratch_entity(all_types);
    int64_t integer;
    double real;
    bool truth;

    assert_slice(entity.etag, "W/\"datetime'2020-07-21T15%3A27%3A27."
                              "8908975Z'\"");
    assert_slice(entity.timestamp, "2020-07-21T15:27:27.8908975Z");
    is(&entity,
        "'age@odata.type':'Edm.Int64','age':'39','sex':'male','married':true,"
        "'deceased':false,'ratio@odata.type':'Edm.Double','ratio':3.1,"
        "'evenratio@odata.type':'Edm.Double','evenratio':3.0,"
        "'Birthday@odata.type':'Edm.DateTime',"
        "'Birthday':'1973-10-04T00:00:00Z','binary@odata.type':'Edm.Binary',"
        "'binary':'YmluYXJ5','other':20,'clsid@odata.type':'Edm.Guid',"
        "'clsid':'c9da6455-213d-42c9-9a79-3e9149a57833'");
    assert_true(property_int64(find(&entity, "age"), &integer));
    assert_int_equal(integer, 39);
    assert_true(property_boolean(find(&entity, "married"), &truth) && truth);
    assert_true(property_boolean(find(&entity, "deceased"), &truth) && !truth);
    assert_true(property_double(find(&entity, "evenratio"), &real));
    assert_true(real == 3.0);
    assert_true(property_ticks(find(&entity, "Birthday"), &integer));
}

/* The text of each value must be written exactly as it was read. */
SCRATCH_TEST(keeps_texts_of_values_byte_for_byte)
{
    static const struct {
        const char *type, *json;
    } cases[] = {{"Double", "5"}, {"Double", "4.94065645841247E-324"},
        {"Double", "1.7976931348623157E+308"}, {"Double", "-0.0"},
        {"Double", "'NaN'"}, {"Double", "'Infinity'"},
        {"Double", "'-Infinity'"}, {"Int64", "'9223372036854775807'"},
        {"Int64", "'-9223372036854775808'"},
        {"DateTime", "'2013-08-22T01:12:06.2608595Z'"},
        {"DateTime", "'1601-01-01T00:00:00Z'"},
        {"DateTime", "'9999-12-31T23:59:59.9999999Z'"},
        {"Guid", "'C9DA6455-213d-42c9-9a79-3e9149a57833'"}, {"Binary", "''"},
        {"Binary", "'AQIDBAUGBwgJCg=='"}};

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *text = with_keys(typed(cases[i].type, cases[i].json));
        struct entity entity = scratch_entity(text);

        scratch_assert_written(&entity, text);
    }
}

SCRATCH_TEST(reads_values_that_are_written_with_escapes)
{
    struct entity entity =
        entity_of("'A@odata.type':'Edm.Int64','A':'1\\u0032',"
                  "'B@odata.type':'Edm.DateTime',"
                  "'B':'2024-01-01T00:00:00\\u005a',"
                  "'C@odata.type':'Edm.Double','C':'Na\\u004e',"
                  "'D@odata.type':'Edm.Guid',"
                  "'D':'00112233-4455-6677-8899-aabbccddeef\\u0066',"
                  "'E@odata.type':'Edm.Binary','E':'AAA\\/'");
    struct property guid = {slice_of("D"), EDM_GUID,
        slice_of("\"00112233-4455-6677-8899-AABBCCDDEEFF\"")};
    int64_t value;
    double number;

    assert_true(property_int64(find(&entity, "A"), &value));
    assert_int_equal(value, 12);
    assert_true(property_ticks(find(&entity, "B"), &value));
    assert_int_equal(value, INT64_C(638396640000000000));
    assert_true(property_double(find(&entity, "C"), &number));
    assert_true(isnan(number));
    assert_true(property_equal(find(&entity, "D"), &guid));
    assert_slice(find(&entity, "E")->json, "\"AAA/\"");
}

SCRATCH_TEST(keeps_escapes_and_finds_the_decoded_text)
{
    struct entity entity = scratch_entity(quoted(&scratch,
        "{'PartitionKey':'a\\u0027b','RowKey':'',"
        "'\\u554a':'\\ud83d\\ude00\\u0000z','plain':'caf\xc3\xa9'}"));
    struct slice text;

    assert_slice(entity.partition_key, "a'b");
    assert_int_equal(entity.row_key.len, 0);
    assert_slice(entity.properties[0].json, "\"\\ud83d\\ude00\\u0000z\"");
    assert_true(property_text(find(&entity, "\xe5\x95\x8a"), &scratch, &text));
    assert_int_equal(text.len, 6);
    assert_memory_equal(text.at, "\xf0\x9f\x98\x80\0z", 6);
    assert_true(property_text(find(&entity, "plain"), &scratch, &text));
    assert_slice(text, "caf\xc3\xa9");
}

SCRATCH_TEST(tells_plain_numbers_by_their_point_or_exponent)
{
    struct entity entity = entity_of("'a':5,'b':5.0,'c':5E3,'d':-2147483648");
    int32_t small;

    is(&entity, "'a':5,'b@odata.type':'Edm.Double','b':5.0,"
                "'c@odata.type':'Edm.Double','c':5E3,'d':-2147483648");
    assert_true(property_int32(find(&entity, "d"), &small));
    assert_int_equal(small, INT32_MIN);
    assert_false(property_equal(find(&entity, "a"), find(&entity, "b")));
}

SCRATCH_TEST(takes_a_type_from_before_after_or_far_away)
{
    struct entity entity = scratch_entity(quoted(&scratch,
        "{'c@odata.type':'Edm.Int64','a':'1','a@odata.type':'Edm.Int64',"
        "'PartitionKey':'p','RowKey':'r','b@odata.type':'Edm.Guid',"
        "'b':'c9da6455-213d-42c9-9a79-3e9149a57833','c':'7',"
        "'PartitionKey@odata.type@odata.type':'Edm.String'}"));

    is(&entity, "'a@odata.type':'Edm.Int64','a':'1','b@odata.type':'Edm.Guid',"
                "'b':'c9da6455-213d-42c9-9a79-3e9149a57833',"
                "'c@odata.type':'Edm.Int64','c':'7'");
}

/* A name with an @ is never a property, because a type annotation cannot have a
 * type itself. */
SCRATCH_TEST(has_no_property_with_an_at_sign)
{
    struct entity entity = entity_of(
        "'a@odata.type':'Edm.Int64','a':'1','a@odata.type@odata.type':"
        "'Edm.String','b@x':1,'@odata.type':'Edm.Guid','c':2");

    is(&entity, "'a@odata.type':'Edm.Int64','a':'1','c':2");
}

/* One reader reads several entities. What it keeps in memory from one entity
 * does not affect the next entity, and the first entity stays unchanged. */
SCRATCH_TEST(reads_one_entity_after_another)
{
    const char *first = quoted(&scratch,
        "{'PartitionKey':'\\u0070','RowKey':'r','a@odata.type':'Edm.Int64',"
        "'a':'1','\\u0062':'\\u0062','c@odata.type':'Edm.Guid',"
        "'c':'c9da6455-213d-42c9-9a79-3e9149a57833'} ,");
    const char *second = with_keys("'a':'x','b':1,'c':'y','d':null");
    struct entity_reader *reader = entity_reader_new();
    struct entity one, two, bad;
    size_t end;

    assert_ok(
        entity_read(reader, slice_of(first), true, &scratch, &one, &end, NULL));
    assert_int_equal(end, strlen(first) - 2);
    assert_int_equal(entity_read(reader, slice_of("{\"a\":1"), true, &scratch,
                         &bad, NULL, NULL),
        TW_INVALID);
    assert_ok(entity_read(
        reader, slice_of(second), true, &scratch, &two, NULL, NULL));
    entity_reader_free(reader);
    entity_reader_free(NULL);
    is(&one, "'a@odata.type':'Edm.Int64','a':'1','b':'\\u0062',"
             "'c@odata.type':'Edm.Guid',"
             "'c':'c9da6455-213d-42c9-9a79-3e9149a57833'");
    is(&two, "'a':'x','b':1,'c':'y'");
}

SCRATCH_TEST(counts_null_as_absent)
{
    struct entity entity = entity_of(
        "'x':null,'y@odata.type':'Edm.Int64','y':null,'z':1,'Timestamp':null");

    is(&entity, "'z':1");
}

static void refuses(const char *members, struct err *err)
{
    struct entity entity = {.property_count = 77};

    if (entity_parse(slice_of(with_keys(members)), true, &scratch, &entity,
            NULL, err) != TW_INVALID)
        fail_msg("not refused: %s", members);
    assert_int_equal(entity.property_count, 77);
}

SCRATCH_TEST(refuses_malformed_values_and_names_the_property)
{
    static const char *const plain[] = {"2147483648", "[1]", "{}", "1,'x':2"};
    static const struct {
        const char *type, *json;
    } cases[] = {{"Int32", "5.0"}, {"Int32", "'5'"},
        {"Int64", "'9223372036854775808'"}, {"Int64", "'1 '"}, {"Int64", "5"},
        {"Int64", "''"}, {"Double", "'5'"}, {"Double", "true"},
        {"Double", "1e999"}, {"Boolean", "'true'"}, {"String", "5"},
        {"DateTime", "'2024-02-30T00:00:00Z'"},
        {"DateTime", "'2024-01-01T00:00:00'"},
        {"DateTime", "'2024-01-01T00:00:00+01:00'"},
        {"DateTime", "'1600-12-31T23:59:59Z'"}, {"DateTime", "5"},
        {"DateTime", "''"}, {"Guid", "'c9da6455'"}, {"Guid", "5"},
        {"Guid", "'c9da6455-213d-42c9-9a79-3e9149a5783g'"},
        {"Guid", "'c9da6455-213d-42c9-9a79-3e9149a5783/'"},
        {"Guid", "'c9da6455-213d-42c9-9a79-3e9149a5783:'"},
        {"Guid", "'c9da6455-213d-42c9-9a79-3e9149a5783`'"},
        {"Guid", "'c9da6455-213d-42c9-9a79-3e9149a5783G'"},
        {"Binary", "'YmluYXJ'"}, {"Binary", "'YW=='"}, {"Binary", "5"},
        {"Decimal", "'1'"}};
    struct err err;

    for (size_t i = 0; TEST_EACH(i, plain); i++) {
        refuses(arena_format(&scratch, "'x':%s", plain[i]).at, &err);
        assert_true(strstr(err.text, "x") || strstr(err.text, "byte"));
    }
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        refuses(typed(cases[i].type, cases[i].json), &err);
        if (strstr(err.text, "x") == NULL && strstr(err.text, "byte") == NULL)
            fail_msg("names neither property nor byte: %s", err.text);
        assert_null(strstr(err.text, "9223372036854775808"));
    }
    refuses("'x@odata.type':7,'x':'1'", &err);
    assert_non_null(strstr(err.text, "x"));
}

/* If the JavaScript SDK reads an entity, changes it and writes it back,
 * odata.metadata becomes a property of the entity. This is Azurite's response
 * to a Get of such an entity: the name is there twice. */
SCRATCH_TEST(reads_an_entity_that_an_sdk_wrote_back)
{
    struct entity entity = scratch_entity(quoted(&scratch,
        "{'odata.metadata':'http://a/$metadata#t/@Element',"
        "'odata.etag':'W/\\'1\\'','PartitionKey':'p','RowKey':'r','x':5,"
        "'odata.metadata':'http://b/$metadata#t/@Element',"
        "'odata.etag':'W/\\'2\\''}"));

    is(&entity, "'x':5");
    assert_slice(entity.etag, "W/\"2\"");
}

SCRATCH_TEST(refuses_a_property_that_is_there_twice)
{
    static const char *const bad[] = {"'x':1,'x':1", "'x':1,'\\u0078':1",
        "'x':null,'x':1", "'odata':1,'odata':1", "'RowKey':'other'",
        "'x@odata.type':'Edm.Int64','x':'1','x@odata.type':'Edm.String'",
        "'odata.metadata':'a','odata.metadata':'b','x':1,'x':2"};

    for (size_t i = 0; TEST_EACH(i, bad); i++)
        refuses(bad[i], NULL);
}

SCRATCH_TEST(wants_keys_where_they_are_needed)
{
    static const struct {
        const char *text, *said;
    } cases[] = {{"{'PartitionKey':'p'}", "RowKey"},
        {"{'RowKey':'r'}", "PartitionKey"},
        {"{'PartitionKey':5,'RowKey':''}", "PartitionKey"}};
    struct entity entity;
    struct err err;

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct slice text = slice_of(quoted(&scratch, cases[i].text));

        assert_int_equal(
            entity_parse(text, true, &scratch, &entity, NULL, &err),
            TW_INVALID);
        assert_non_null(strstr(err.text, cases[i].said));
    }
    assert_ok(entity_parse(slice_of("{\"PartitionKey\":\"p\"}"), false,
        &scratch, &entity, NULL, &err));
}

SCRATCH_TEST(compares_values_and_not_their_spelling)
{
    static const struct {
        const char *type, *a, *b;
        bool equal;
    } cases[] = {
        {"String", "'a\\u0062'", "'ab'", true},
        {"String", "'a'", "'A'", false},
        {"DateTime", "'2024-01-01T00:00:00Z'", "'2024-01-01T00:00:00.0000000Z'",
            true},
        {"DateTime", "'2024-01-01T00:00:00Z'", "'2024-01-01T00:00:00.0000001Z'",
            false},
        {"Guid", "'C9DA6455-213d-42c9-9a79-3e9149a57833'",
            "'c9da6455-213d-42c9-9a79-3e9149a57833'", true},
        {"Guid", "'C9DA6455-213d-42c9-9a79-3e9149a57833'",
            "'d9da6455-213d-42c9-9a79-3e9149a57833'", false},
        {"Double", "5", "5.0", true},
        {"Double", "0.0", "-0.0", false},
        {"Double", "'NaN'", "'NaN'", true},
        {"Double", "'NaN'", "1.0", false},
        {"Double", "1E2", "100.0", true},
        {"Binary", "'AQ=='", "'AQ\\u003d\\u003d'", true},
        {"Int64", "'5'", "'6'", false},
        {"Int32", "5", "-5", false},
        {"Boolean", "true", "false", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct entity a = entity_of(typed(cases[i].type, cases[i].a));
        struct entity b = entity_of(typed(cases[i].type, cases[i].b));

        assert_int_equal(
            property_equal(&a.properties[0], &b.properties[0]), cases[i].equal);
    }
}

SCRATCH_TEST(an_entity_has_all_of_one_that_says_no_more)
{
    static const struct {
        const char *entity, *wanted;
        bool has;
    } cases[] = {
        {"", "", true},
        {"'a':1", "", true},
        {"", "'a':1", false},
        {"'a':1", "'a':1", true},
        {"'a':1", "'a':2", false},
        {"'a':1", "'a':'1'", false},
        {"'a':1", "'A':1", false},
        {"'b':'x','c':true,'a':1", "'a':1,'b':'\\u0078'", true},
        {"'a':1,'b':2", "'a':1,'b':3", false},
        {"'a':1", "'a':1,'b':2", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct entity entity = entity_of(cases[i].entity);
        struct entity wanted = entity_of(cases[i].wanted);

        wanted.partition_key = slice_of("other");
        wanted.row_key = slice_of("");
        assert_int_equal(entity_has_all(&entity, &wanted), cases[i].has);
    }
}

SCRATCH_TEST(only_texts_have_a_text)
{
    static const enum edm_type types[] = {EDM_STRING, EDM_GUID, EDM_DATETIME,
        EDM_BINARY, EDM_INT32, EDM_INT64, EDM_DOUBLE, EDM_BOOLEAN};

    for (size_t i = 0; TEST_EACH(i, types); i++) {
        struct property property = {
            slice_of("p"), types[i], slice_of("\"\\u0041\"")};
        struct slice text = slice_of("as it was");

        assert_int_equal(property_text(&property, &scratch, &text), i < 4);
        assert_slice(text, i < 4 ? "A" : "as it was");
    }
}

/* If the text has invalid escapes, it is returned as it is written. */
SCRATCH_TEST(a_text_that_cannot_be_decoded_is_as_it_stands)
{
    struct property property = {
        slice_of("p"), EDM_STRING, slice_of("\"a\\xb\"")};
    struct slice text;

    assert_true(property_text(&property, &scratch, &text));
    assert_slice(text, "a\\xb");
}

static const char *written(const struct entity *entity)
{
    struct buf buf;
    const char *text;

    buf_init(&buf, 10000);
    entity_write(entity, &buf);
    text = arena_copy(&scratch, buf_slice(&buf)).at;
    buf_done(&buf);
    return text;
}

SCRATCH_TEST(builds_what_it_can_read)
{
    struct entity entity, again;
    double real;

    entity_init(&entity, &scratch, slice_of("p"), slice_of("r"));
    entity_set_string(&entity, &scratch, "s", slice_of("say \"hi\"\n"));
    entity_set_int32(&entity, &scratch, "i", INT32_MIN);
    entity_set_int64(&entity, &scratch, "l", INT64_MIN);
    entity_set_boolean(&entity, &scratch, "b", true);
    entity_set_double(&entity, &scratch, "d", 0.1);
    entity_set_double(&entity, &scratch, "five", 5);
    entity_set_double(&entity, &scratch, "nan", (double)NAN);
    entity_set_double(&entity, &scratch, "minus", -(double)INFINITY);
    entity_set_datetime(&entity, &scratch, "t", TICKS_1970 + 1);
    entity_set_int32(&entity, &scratch, "i", 7);
    is(&entity,
        "'s':'say \\'hi\\'\\n','i':7,'l@odata.type':'Edm.Int64',"
        "'l':'-9223372036854775808','b':true,'d@odata.type':'Edm.Double',"
        "'d':0.1,'five@odata.type':'Edm.Double','five':5.0,"
        "'nan@odata.type':'Edm.Double','nan':'NaN',"
        "'minus@odata.type':'Edm.Double','minus':'-Infinity',"
        "'t@odata.type':'Edm.DateTime','t':'1970-01-01T00:00:00.0000001Z'");
    entity_set_double(&entity, &scratch, "tiny", 5e-324);
    assert_true(property_double(find(&entity, "tiny"), &real) && real > 0);
    again = scratch_entity(written(&entity));
    assert_int_equal(again.property_count, 10);
    for (size_t i = 0; i < entity.property_count; i++)
        assert_true(
            property_equal(&entity.properties[i], &again.properties[i]));
}

SCRATCH_TEST(leaves_a_plain_copy_alone_when_setting)
{
    struct entity entity = entity_of("'a':1");
    struct entity plain = entity, deep;
    struct arena other;

    arena_init(&other);
    entity_copy(&deep, &other, &entity);
    entity_set_int32(&entity, &scratch, "a", 2);
    entity_set_int32(&entity, &scratch, "b", 3);
    assert_slice(plain.properties[0].json, "1");
    assert_int_equal(plain.property_count, 1);
    assert_slice(find(&deep, "a")->json, "1");
    assert_null(deep.etag.at);
    arena_done(&other);
}

static struct slice letters(size_t count)
{
    return (struct slice){
        memset(arena_alloc(&scratch, count), 'x', count), count};
}

SCRATCH_TEST(knows_which_keys_the_service_takes)
{
    const struct {
        struct slice key;
        bool good;
    } cases[] = {
        {slice_of(""), true},
        {slice_of("it's 100% + & = caf\xc3\xa9 \xf0\x9f\x98\x80 ~"), true},
        {slice_of("a\xc2\xa0"), true},
        {letters(512), true},
        {letters(513), false},
        {slice_of("a/b"), false},
        {slice_of("a\\b"), false},
        {slice_of("a#b"), false},
        {slice_of("a?b"), false},
        {slice_of("a\tb"), false},
        {slice_of("a\x7f"), false},
        {slice_of("a\xc2\x85"), false},
        {slice_of("a\xff"), false},
        {slice_of("\xed\xa0\x80"), false},
        {{"a\0b", 3}, false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct err err = {{0}};

        assert_int_equal(entity_check_key("RowKey", cases[i].key, &err),
            cases[i].good ? TW_OK : TW_INVALID);
        if (!cases[i].good)
            assert_non_null(strstr(err.text, "RowKey"));
    }
    assert_int_equal(
        entity_check_key("RowKey", slice_of("a/b"), NULL), TW_INVALID);
}

/* A prefix that is longer than any key is valid, but no key begins with it. */
SCRATCH_TEST(knows_what_a_key_may_begin_with)
{
    struct err err;

    assert_ok(entity_check_key_prefix("RowKey", letters(999), &err));
    assert_int_equal(
        entity_check_key_prefix("RowKey", slice_of("a/"), &err), TW_INVALID);
    assert_int_equal(
        entity_check_key_prefix("RowKey", slice_of("a\xff"), &err), TW_INVALID);
    assert_non_null(strstr(err.text, "UTF-8"));
}

SCRATCH_TEST(knows_which_names_the_service_takes)
{
    static const char *const good[] = {
        "a", "_x9", "CreatedOn", "\xe5\x95\x8a\xe9\xbd\x84"};
    static const char *const bad[] = {"", "9a", "a-b", "a b", "odata.etag",
        "x@y", "a\xff", "a{", "a[", "a`", "a/", "a:"};
    static const char *const bad_tables[] = {
        "", "~abc", "[abc", "ab", "9ab", "a-b", "a/b", "Tables"};

    for (size_t i = 0; TEST_EACH(i, good); i++)
        assert_ok(entity_check_name(slice_of(good[i]), NULL));
    assert_ok(entity_check_name(letters(255), NULL));
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_int_equal(entity_check_name(slice_of(bad[i]), NULL), TW_INVALID);
    assert_int_equal(entity_check_name(letters(256), NULL), TW_INVALID);
    assert_ok(entity_check_table(slice_of("Blogs"), NULL));
    assert_ok(entity_check_table(letters(63), NULL));
    for (size_t i = 0; TEST_EACH(i, bad_tables); i++)
        assert_int_equal(
            entity_check_table(slice_of(bad_tables[i]), NULL), TW_INVALID);
    assert_int_equal(entity_check_table(letters(64), NULL), TW_INVALID);
}

static void set_letters(struct entity *entity, const char *name, size_t count)
{
    entity_set_string(entity, &scratch, name, letters(count));
}

SCRATCH_TEST(counts_sizes_as_the_service_does)
{
    struct entity entity;
    struct err err;

    entity_init(&entity, &scratch, slice_of("p"), slice_of("r"));
    set_letters(&entity, "s", 32 * 1024);
    assert_ok(entity_check(&entity, &err));
    set_letters(&entity, "s", 32 * 1024 + 1);
    assert_int_equal(entity_check(&entity, &err), TW_TOO_LARGE);
    assert_non_null(strstr(err.text, "'s'"));
    set_letters(&entity, "s", 1);

    /* The size so far is 4 bytes, 2 * 2 for the keys, and 8 + 2 + 2 + 4 for s.
     * Each of the next 15 properties adds 8 + 6 + 65536 + 4 bytes. */
    for (int i = 0; i < 15; i++)
        set_letters(&entity, arena_format(&scratch, "n%02d", i).at, 32 * 1024);
    assert_ok(entity_check(&entity, &err));
    set_letters(&entity, "z",
        (1024 * 1024 - 8 - 16 - 15 * (8 + 6 + 65536 + 4) - 8 - 2 - 4) / 2);
    assert_ok(entity_check(&entity, &err));
    set_letters(&entity, "s", 2);
    assert_int_equal(entity_check(&entity, &err), TW_TOO_LARGE);
    assert_true(entity_size(&entity) >= entity_json_bytes(&entity));
    assert_true(entity_json_bytes(&entity) > 15 * 32768);
}

SCRATCH_TEST(refuses_half_a_character)
{
    struct entity entity;
    struct err err;

    entity_init(&entity, &scratch, slice_of("p"), slice_of("r"));
    entity_set_string(&entity, &scratch, "Error", slice_of("\xd0\x96"));
    assert_ok(entity_check(&entity, &err));
    entity_set_string(&entity, &scratch, "Error", slice_of("\xd0\x96\xd0"));
    assert_int_equal(entity_check(&entity, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "'Error' is not valid UTF-8"));
}

SCRATCH_TEST(refuses_too_many_and_system_properties)
{
    struct entity entity;

    entity_init(&entity, &scratch, slice_of("p"), slice_of("r"));
    for (int i = 0; i < 252; i++)
        entity_set_int32(
            &entity, &scratch, arena_format(&scratch, "n%d", i).at, i);
    assert_ok(entity_check(&entity, NULL));
    entity_set_int32(&entity, &scratch, "one", 1);
    assert_int_equal(entity_check(&entity, NULL), TW_INVALID);
    entity.property_count = 0;
    entity_set_string(&entity, &scratch, "RowKey", slice_of("x"));
    assert_int_equal(entity_check(&entity, NULL), TW_INVALID);
}

/* Parses an entity with `count` Int64 properties. All values come before all
 * type annotations, so no annotation stands beside its value. *ret_sum: the sum
 * of the values. */
static enum tw_err read_properties(int count, int64_t *ret_sum, struct err *err)
{
    struct entity entity;
    struct arena arena;
    struct buf text;
    enum tw_err outcome;

    *ret_sum = 0;
    arena_init(&arena);
    buf_init(&text, 1024 * 1024);
    buf_add_text(&text, "{" KEYS);
    for (int i = 0; i < count; i++)
        buf_add_format(&text, ",\"p%d\":\"%d\"", i, i);
    for (int i = 0; i < count; i++)
        buf_add_format(&text, ",\"p%d@odata.type\":\"Edm.Int64\"", i);
    buf_add_char(&text, '}');
    outcome = entity_parse(buf_slice(&text), true, &arena, &entity, NULL, err);
    for (size_t i = 0; outcome == TW_OK && i < entity.property_count; i++) {
        int64_t value;

        assert_true(property_int64(&entity.properties[i], &value));
        *ret_sum += value;
    }
    buf_done(&text);
    arena_done(&arena);
    return outcome;
}

TEST(an_entity_has_so_many_properties)
{
    struct err err;
    int64_t sum;

    assert_ok(read_properties(ENTITY_MAX_READ_PROPERTIES, &sum, &err));
    assert_int_equal(sum, 255 * 254 / 2);
    assert_int_equal(
        read_properties(ENTITY_MAX_READ_PROPERTIES + 1, &sum, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "more than 255 properties"));
    assert_int_equal(read_properties(20000, &sum, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "values"));
}
