/* SPDX-License-Identifier: MIT */
/* Entities: JSON of the service, typed values, building, limits. */
#include "worker/store/entity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define TYPE_SUFFIX "@odata.type"
#define ANNOTATION "odata."

/* Checks of values: text is the text of a string or a number. */

static bool is_string(enum json_type type, struct slice text)
{
    (void)text;
    return type == JSON_STRING;
}

static bool is_boolean(enum json_type type, struct slice text)
{
    (void)text;
    return type == JSON_BOOLEAN;
}

static bool is_int32(enum json_type type, struct slice text)
{
    int64_t value;

    return type == JSON_NUMBER &&
           text_int64(text, INT32_MIN, INT32_MAX, &value);
}

/* Is text, a string of digits, a valid Int64? It is a string, because JSON
 * numbers are inexact beyond 2^53. */
static bool is_int64(enum json_type type, struct slice text)
{
    int64_t value;

    return type == JSON_STRING &&
           text_int64(text, INT64_MIN, INT64_MAX, &value);
}

/* Reads one of the three Double values that no JSON number can express. False:
 * text is none of them. */
static bool special_double(struct slice text, double *ret)
{
    if (slice_is(text, "NaN"))
        *ret = (double)NAN;
    else if (slice_is(text, "Infinity"))
        *ret = (double)INFINITY;
    else if (slice_is(text, "-Infinity"))
        *ret = -(double)INFINITY;
    else
        return false;
    return true;
}

static bool is_double(enum json_type type, struct slice text)
{
    double value;

    return type == JSON_STRING
               ? special_double(text, &value)
               : type == JSON_NUMBER && text_double(text, &value);
}

static bool is_datetime(enum json_type type, struct slice text)
{
    int64_t ticks;

    return type == JSON_STRING && text.len > 0 &&
           text.at[text.len - 1] == 'Z' && text_ticks(text, &ticks) &&
           ticks >= TICKS_1601;
}

static bool is_guid(enum json_type type, struct slice text)
{
    return type == JSON_STRING && text_is_guid(text);
}

static bool is_binary(enum json_type type, struct slice text)
{
    return type == JSON_STRING && crypto_is_base64(text);
}

#define NAME(text)                                                             \
    {                                                                          \
        text, sizeof(text) - 1                                                 \
    }

/* Indexed by enum edm_type. */
static const struct {
    struct slice name; /* NUL-terminated */
    bool (*is)(enum json_type type, struct slice text);
    const char *wanted; /* describes valid values, for messages */
    bool annotated;     /* the JSON value alone does not show the type */
    size_t bytes;       /* size counted by the service; 0: it varies */
} types[] = {
    [EDM_BINARY] = {NAME("Edm.Binary"), is_binary, "a base64 string", true, 0},
    [EDM_BOOLEAN] = {NAME("Edm.Boolean"), is_boolean, "true or false", false,
        1},
    [EDM_DATETIME] = {NAME("Edm.DateTime"), is_datetime,
        "a time such as \"2024-01-01T00:00:00Z\", from 1601 on", true, 8},
    [EDM_DOUBLE] = {NAME("Edm.Double"), is_double,
        "a number, \"NaN\", \"Infinity\" or \"-Infinity\"", true, 8},
    [EDM_GUID] = {NAME("Edm.Guid"), is_guid,
        "a string of 8-4-4-4-12 hexadecimal digits", true, 16},
    [EDM_INT32] = {NAME("Edm.Int32"), is_int32,
        "a whole number from -2147483648 to 2147483647", false, 4},
    [EDM_INT64] = {NAME("Edm.Int64"), is_int64,
        "a string of digits in the range of 64 bits", true, 8},
    [EDM_STRING] = {NAME("Edm.String"), is_string, "a string", false, 0},
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

const char *edm_type_name(enum edm_type type)
{
    return types[type].name.at;
}

bool edm_type_named(struct slice name, enum edm_type *ret)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (slice_equal(name, types[i].name)) {
            *ret = (enum edm_type)i;
            return true;
        }
    }
    return false;
}

/* ---- reading ---- */

struct entity_reader {
    struct json_members members;
    /* For each member: 1 + the index of the member that gives its type; 0: no
     * member does; NO_PROPERTY: the member is not a property. */
    uint16_t types[JSON_MAX_MEMBERS];
};

#define NO_PROPERTY UINT16_MAX

/* Context while one entity is read. */
struct reading {
    const struct json_members *members;
    uint16_t *types;
    struct arena *arena;
    struct err *err;
};

static struct slice name_of(const struct reading *in, size_t index)
{
    return in->members->list[index].name;
}

static bool has_at_sign(struct slice name)
{
    return name.len > 0 && memchr(name.at, '@', name.len) != NULL;
}

/* Returns the index of the member `name`. `index` is that of its annotation,
 * "<name>@odata.type". The member is directly after the annotation (the
 * service), directly before it (the SDKs), or anywhere. */
static size_t find_owner(
    const struct reading *in, size_t index, struct slice name)
{
    if (index + 1 < in->members->count &&
        slice_equal(name_of(in, index + 1), name))
        return index + 1;
    if (index > 0 && slice_equal(name_of(in, index - 1), name))
        return index - 1;
    return json_members_find(in->members, name);
}

/* Finds the types of all members of an entity first, so that its properties are
 * read in one pass. A name with an @ is not the name of a property, because
 * property names are identifiers. */
static void find_types(const struct reading *in)
{
    const size_t suffix = sizeof(TYPE_SUFFIX) - 1;

    memset(in->types, 0, in->members->count * sizeof(*in->types));
    for (size_t i = 0; i < in->members->count; i++) {
        struct slice name = name_of(in, i);
        size_t owner;

        if (!has_at_sign(name))
            continue;
        in->types[i] = NO_PROPERTY;
        if (name.len < suffix ||
            memcmp(name.at + name.len - suffix, TYPE_SUFFIX, suffix) != 0)
            continue;
        name.len -= suffix;
        owner =
            has_at_sign(name) ? in->members->count : find_owner(in, i, name);
        if (owner < in->members->count)
            in->types[owner] = (uint16_t)(i + 1);
    }
}

static enum tw_err fail_property(const struct reading *in, struct slice name,
    const char *what, const char *detail)
{
    struct buf quoted;

    buf_init(&quoted, 1024);
    text_quote(&quoted, name);
    err_fail(in->err, TW_INVALID, "property %s: %s%s", buf_text(&quoted), what,
        detail);
    buf_done(&quoted);
    return TW_INVALID;
}

/* Returns the field of entity for a member that is a key, the ETag or
 * Timestamp; NULL: the member is a property. */
static struct slice *field_of(struct entity *entity, struct slice name)
{
    if (slice_is(name, "PartitionKey"))
        return &entity->partition_key;
    if (slice_is(name, "RowKey"))
        return &entity->row_key;
    if (slice_is(name, "Timestamp"))
        return &entity->timestamp;
    if (slice_is(name, "odata.etag"))
        return &entity->etag;
    return NULL;
}

/* Reads the keys, the ETag and Timestamp. *ret_count: number of properties. */
static enum tw_err read_fields(
    const struct reading *in, struct entity *ret, size_t *ret_count)
{
    *ret_count = 0;
    for (size_t i = 0; i < in->members->count; i++) {
        const struct json_member *member = &in->members->list[i];
        struct slice *field = field_of(ret, member->name);

        if (field != NULL && member->type == JSON_STRING)
            *field = json_member_text(member, in->arena);
        else if (field != NULL && member->type != JSON_NULL)
            return fail_property(in, member->name, "must be a string", "");
        if (field != NULL || member->type == JSON_NULL ||
            slice_begins(member->name, slice_of(ANNOTATION)))
            in->types[i] = NO_PROPERTY;
        *ret_count += in->types[i] != NO_PROPERTY;
    }
    return *ret_count <= ENTITY_MAX_READ_PROPERTIES
               ? TW_OK
               : err_fail(in->err, TW_INVALID,
                     "the entity has more than %d properties, which no store "
                     "accepts",
                     ENTITY_MAX_READ_PROPERTIES);
}

/* Returns the type of a value without an annotation. */
static enum edm_type plain_type(const struct json_member *member)
{
    if (member->type == JSON_BOOLEAN)
        return EDM_BOOLEAN;
    if (member->type == JSON_STRING)
        return EDM_STRING;
    for (size_t i = 0; i < member->raw.len; i++) {
        char c = member->raw.at[i];

        if (c == '.' || c == 'e' || c == 'E')
            return EDM_DOUBLE;
    }
    return EDM_INT32;
}

static enum tw_err find_type(
    const struct reading *in, size_t index, enum edm_type *ret)
{
    const struct json_member *member = &in->members->list[index], *type;

    if (in->types[index] == 0) {
        *ret = plain_type(member);
        return TW_OK;
    }
    type = &in->members->list[in->types[index] - 1];
    if (type->type != JSON_STRING ||
        !edm_type_named(json_member_text(type, in->arena), ret))
        return fail_property(in, member->name, "unknown type in ", TYPE_SUFFIX);
    return TW_OK;
}

/* Reads a value as it was received. Only a number, time, GUID or base64 that
 * was received with escapes is stored without them, because it is parsed in
 * place. No character of these values needs an escape. */
static enum tw_err read_property(
    const struct reading *in, size_t index, struct property *ret)
{
    const struct json_member *member = &in->members->list[index];
    struct slice text = member->raw;
    enum edm_type type = EDM_STRING;
    enum tw_err result = find_type(in, index, &type);

    if (result != TW_OK)
        return result;
    if (member->type == JSON_STRING && type != EDM_STRING)
        text = json_member_text(member, in->arena);
    if (!types[type].is(member->type, text))
        return fail_property(
            in, member->name, "the value must be ", types[type].wanted);
    *ret = (struct property){member->name, type, member->raw};
    if (member->escaped && type != EDM_STRING)
        ret->json = arena_format(in->arena, "\"%.*s\"", SLICE_ARG(text));
    return TW_OK;
}

static enum tw_err read_properties(
    const struct reading *in, size_t count, struct entity *ret)
{
    if (count == 0)
        return TW_OK;
    ret->properties = arena_alloc(in->arena, count * sizeof(struct property));
    for (size_t i = 0; i < in->members->count; i++) {
        enum tw_err result;

        if (in->types[i] == NO_PROPERTY)
            continue;
        result = read_property(in, i, &ret->properties[ret->property_count++]);
        if (result != TW_OK)
            return result;
    }
    return TW_OK;
}

static enum tw_err check_has_keys(const struct entity *entity, struct err *err)
{
    if (entity->partition_key.at == NULL)
        return err_fail(err, TW_INVALID, "the entity has no PartitionKey");
    if (entity->row_key.at == NULL)
        return err_fail(err, TW_INVALID, "the entity has no RowKey");
    return TW_OK;
}

struct entity_reader *entity_reader_new(void)
{
    struct entity_reader *reader = mem_alloc(sizeof(*reader));

    json_members_init(&reader->members);
    return reader;
}

void entity_reader_free(struct entity_reader *reader)
{
    if (reader == NULL)
        return;
    json_members_done(&reader->members);
    mem_free(reader);
}

enum tw_err entity_read(struct entity_reader *reader, struct slice text,
    bool need_keys, struct arena *arena, struct entity *ret, size_t *ret_end,
    struct err *err)
{
    const struct reading in = {&reader->members, reader->types, arena, err};
    struct entity entity = {0};
    size_t end, count = 0;
    enum tw_err result =
        json_flat_object(text, ANNOTATION, arena, &reader->members, &end, err);

    if (result != TW_OK)
        return result;
    find_types(&in);
    result = read_fields(&in, &entity, &count);
    if (result == TW_OK)
        result = read_properties(&in, count, &entity);
    if (result == TW_OK && need_keys)
        result = check_has_keys(&entity, err);
    if (result == TW_OK) {
        *ret = entity;
        if (ret_end != NULL)
            *ret_end = end;
    }
    return result;
}

enum tw_err entity_parse(struct slice text, bool need_keys, struct arena *arena,
    struct entity *ret, size_t *ret_end, struct err *err)
{
    struct entity_reader *reader = entity_reader_new();
    enum tw_err result =
        entity_read(reader, text, need_keys, arena, ret, ret_end, err);

    entity_reader_free(reader);
    return result;
}

/* Does name contain an @, without being an annotation of OData? */
static bool is_unknown_name(struct slice name)
{
    const char *at = name.len > 0 ? memchr(name.at, '@', name.len) : NULL;

    return at && !slice_begins((struct slice){at + 1,
                                   name.len - (size_t)(at + 1 - name.at)},
                     slice_of(ANNOTATION));
}

static enum tw_err check_exact(
    const struct json_member *member, struct err *err)
{
    struct buf quoted;

    if (is_unknown_name(member->name)) {
        buf_init(&quoted, 1024);
        text_quote(&quoted, member->name);
        err_fail(err, TW_INVALID,
            "invalid name %s: a name with an @ must be NAME@odata.type, the "
            "type of the property NAME",
            buf_text(&quoted));
        buf_done(&quoted);
        return TW_INVALID;
    }
    if ((slice_is(member->name, "PartitionKey") ||
            slice_is(member->name, "RowKey")) &&
        json_has_lone_surrogate(member->raw))
        return err_fail(err, TW_INVALID,
            "%.*s contains half of a surrogate pair", SLICE_ARG(member->name));
    return TW_OK;
}

enum tw_err entity_parse_exact(struct slice text, struct arena *arena,
    struct entity *ret, size_t *ret_end, struct err *err)
{
    struct entity_reader *reader = entity_reader_new();
    enum tw_err result =
        entity_read(reader, text, true, arena, ret, ret_end, err);

    for (size_t i = 0; result == TW_OK && i < reader->members.count; i++)
        result = check_exact(&reader->members.list[i], err);
    entity_reader_free(reader);
    return result;
}

/* ---- writing ---- */

static void separate(struct buf *to)
{
    if (to->len > 0 && to->at[to->len - 1] != '{')
        buf_add_char(to, ',');
}

static void write_name(struct slice name, const char *suffix, struct buf *to)
{
    separate(to);
    json_add_string(to, name);
    if (!to->overflow)
        to->len--; /* removes the closing quote, which must follow the suffix */
    buf_add_text(to, suffix);
    buf_add_text(to, "\":");
}

static void write_property(const struct property *property, struct buf *to)
{
    if (types[property->type].annotated) {
        write_name(property->name, TYPE_SUFFIX, to);
        buf_add_char(to, '"');
        buf_add_slice(to, types[property->type].name);
        buf_add_char(to, '"');
    }
    write_name(property->name, "", to);
    buf_add_slice(to, property->json);
}

void entity_write(const struct entity *entity, struct buf *to)
{
    buf_add_text(to, "{\"PartitionKey\":");
    json_add_string(to, entity->partition_key);
    buf_add_text(to, ",\"RowKey\":");
    json_add_string(to, entity->row_key);
    for (size_t i = 0; i < entity->property_count; i++)
        write_property(&entity->properties[i], to);
    buf_add_char(to, '}');
}

void entity_write_properties(const struct entity *entity, struct buf *to)
{
    buf_add_char(to, '{');
    for (size_t i = 0; i < entity->property_count; i++)
        write_property(&entity->properties[i], to);
    buf_add_char(to, '}');
}

/* ---- values ---- */

const struct property *entity_find(
    const struct entity *entity, struct slice name)
{
    for (size_t i = 0; i < entity->property_count; i++) {
        if (slice_equal(entity->properties[i].name, name))
            return &entity->properties[i];
    }
    return NULL;
}

/* Returns a string's JSON text without its quotes; without escapes this is the
 * text itself. */
static struct slice unquoted(struct slice json)
{
    return (struct slice){json.at + 1, json.len - 2};
}

/* Returns the decoded text of a JSON string value. It is borrowed from the
 * property if it has no escapes; else it is in arena. */
static struct slice string_of(
    const struct property *property, struct arena *arena)
{
    struct slice plain = unquoted(property->json);
    struct slice text;

    if (plain.len == 0 || memchr(plain.at, '\\', plain.len) == NULL ||
        !json_unquote(property->json, arena, &text))
        return plain;
    return text;
}

bool property_boolean(const struct property *property, bool *ret)
{
    if (property->type != EDM_BOOLEAN)
        return false;
    *ret = slice_is(property->json, "true");
    return true;
}

bool property_int32(const struct property *property, int32_t *ret)
{
    int64_t value;

    if (property->type != EDM_INT32 ||
        !text_int64(property->json, INT32_MIN, INT32_MAX, &value))
        return false;
    *ret = (int32_t)value;
    return true;
}

bool property_int64(const struct property *property, int64_t *ret)
{
    return property->type == EDM_INT64 &&
           text_int64(unquoted(property->json), INT64_MIN, INT64_MAX, ret);
}

bool property_integer(const struct property *property, int64_t *ret)
{
    int32_t small;

    if (property_int32(property, &small)) {
        *ret = small;
        return true;
    }
    return property_int64(property, ret);
}

bool property_double(const struct property *property, double *ret)
{
    if (property->type != EDM_DOUBLE)
        return false;
    if (property->json.len > 0 && property->json.at[0] == '"')
        return special_double(unquoted(property->json), ret);
    return text_double(property->json, ret);
}

bool property_ticks(const struct property *property, int64_t *ret_ticks)
{
    return property->type == EDM_DATETIME &&
           text_ticks(unquoted(property->json), ret_ticks);
}

static bool is_text(enum edm_type type)
{
    return type == EDM_STRING || type == EDM_GUID || type == EDM_DATETIME ||
           type == EDM_BINARY;
}

bool property_peek_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    if (!is_text(property->type))
        return false;
    *ret = string_of(property, arena);
    return true;
}

bool property_text(
    const struct property *property, struct arena *arena, struct slice *ret)
{
    if (!property_peek_text(property, arena, ret))
        return false;
    *ret = arena_copy(arena, *ret);
    return true;
}

static bool texts_equal(const struct property *a, const struct property *b)
{
    struct arena arena;
    bool equal;

    arena_init(&arena);
    equal = slice_equal(string_of(a, &arena), string_of(b, &arena));
    arena_done(&arena);
    return equal;
}

static bool guids_equal(const struct property *a, const struct property *b)
{
    return a->json.len == b->json.len &&
           strncasecmp(a->json.at, b->json.at, a->json.len) == 0;
}

static bool doubles_equal(const struct property *a, const struct property *b)
{
    double x, y;

    if (!property_double(a, &x) || !property_double(b, &y))
        return false;
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    return memcmp(&x, &y, sizeof(x)) == 0;
}

bool property_equal(const struct property *a, const struct property *b)
{
    int64_t x, y;

    if (a->type != b->type)
        return false;
    if (slice_equal(a->json, b->json))
        return true;
    switch (a->type) {
    case EDM_DOUBLE:
        return doubles_equal(a, b);
    case EDM_GUID:
        return guids_equal(a, b);
    case EDM_DATETIME:
        return property_ticks(a, &x) && property_ticks(b, &y) && x == y;
    case EDM_INT32:
    case EDM_INT64:
        return property_integer(a, &x) && property_integer(b, &y) && x == y;
    case EDM_STRING:
    case EDM_BINARY:
        return texts_equal(a, b);
    case EDM_BOOLEAN:
        return false;
    }
    return false;
}

bool entity_has_all(const struct entity *entity, const struct entity *wanted)
{
    for (size_t i = 0; i < wanted->property_count; i++) {
        const struct property *property = &wanted->properties[i];
        const struct property *is = entity_find(entity, property->name);

        if (!is || !property_equal(is, property))
            return false;
    }
    return true;
}

struct entity entity_without(
    const struct entity *entity, struct slice name, struct arena *arena)
{
    struct entity bare = *entity;

    bare.properties = arena_alloc(
        arena, (entity->property_count + 1) * sizeof(*bare.properties));
    bare.property_count = 0;
    for (size_t i = 0; i < entity->property_count; i++)
        if (!slice_equal(entity->properties[i].name, name))
            bare.properties[bare.property_count++] = entity->properties[i];
    return bare;
}

/* ---- building ---- */

void entity_init(struct entity *entity, struct arena *arena,
    struct slice partition_key, struct slice row_key)
{
    *entity = (struct entity){
        .partition_key = arena_copy(arena, partition_key),
        .row_key = arena_copy(arena, row_key),
    };
}

/* Returns the element for a property of that name, in a new array, because the
 * old array may be shared with a copy of *entity. */
static struct property *place_for(
    struct entity *entity, struct arena *arena, struct slice name)
{
    size_t count = entity->property_count, at = 0;
    struct property *list =
        arena_alloc(arena, (count + 1) * sizeof(struct property));

    if (count > 0)
        memcpy(list, entity->properties, count * sizeof(*list));
    while (at < count && !slice_equal(list[at].name, name))
        at++;
    if (at == count)
        entity->property_count++;
    entity->properties = list;
    return &list[at];
}

void entity_set(
    struct entity *entity, struct arena *arena, const struct property *property)
{
    struct property *place = place_for(entity, arena, property->name);

    *place = (struct property){
        .name = arena_copy(arena, property->name),
        .type = property->type,
        .json = arena_copy(arena, property->json),
    };
}

static void set_json(struct entity *entity, struct arena *arena,
    const char *name, enum edm_type type, struct slice json)
{
    entity_set(entity, arena, &(struct property){slice_of(name), type, json});
}

void entity_set_string(struct entity *entity, struct arena *arena,
    const char *name, struct slice value)
{
    struct buf json;

    buf_init(&json, value.len * 6 + 2);
    json_add_string(&json, value);
    set_json(entity, arena, name, EDM_STRING, buf_slice(&json));
    buf_done(&json);
}

void entity_set_int32(
    struct entity *entity, struct arena *arena, const char *name, int32_t value)
{
    char json[16];

    snprintf(json, sizeof(json), "%" PRId32, value);
    set_json(entity, arena, name, EDM_INT32, slice_of(json));
}

void entity_set_int64(
    struct entity *entity, struct arena *arena, const char *name, int64_t value)
{
    char json[32];

    snprintf(json, sizeof(json), "\"%" PRId64 "\"", value);
    set_json(entity, arena, name, EDM_INT64, slice_of(json));
}

void entity_set_boolean(
    struct entity *entity, struct arena *arena, const char *name, bool value)
{
    set_json(
        entity, arena, name, EDM_BOOLEAN, slice_of(value ? "true" : "false"));
}

/* Writes the fewest digits that read back as the same value. */
static void format_finite(double value, char *to, size_t room)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(to, room, "%.*g", digits, value);
        if (strtod(to, NULL) == value)
            break;
    }
    if (strpbrk(to, ".e") == NULL)
        strncat(to, ".0", room - strlen(to) - 1);
}

void entity_set_double(
    struct entity *entity, struct arena *arena, const char *name, double value)
{
    char json[40];

    if (isnan(value))
        snprintf(json, sizeof(json), "\"NaN\"");
    else if (isinf(value))
        snprintf(json, sizeof(json), "\"%sInfinity\"", value < 0 ? "-" : "");
    else
        format_finite(value, json, sizeof(json));
    set_json(entity, arena, name, EDM_DOUBLE, slice_of(json));
}

void entity_set_datetime(
    struct entity *entity, struct arena *arena, const char *name, int64_t ticks)
{
    char time[TEXT_TIME_MAX], json[TEXT_TIME_MAX + 2];

    snprintf(json, sizeof(json), "\"%s\"", text_from_ticks(ticks, time));
    set_json(entity, arena, name, EDM_DATETIME, slice_of(json));
}

/* Returns a copy in arena; its `at` stays NULL if slice.at is NULL, which means
 * that the value is absent. */
static struct slice copied(struct arena *arena, struct slice slice)
{
    return slice.at ? arena_copy(arena, slice) : slice;
}

void entity_copy(
    struct entity *to, struct arena *arena, const struct entity *from)
{
    struct entity copy = {
        .partition_key = copied(arena, from->partition_key),
        .row_key = copied(arena, from->row_key),
        .etag = copied(arena, from->etag),
        .timestamp = copied(arena, from->timestamp),
        .property_count = from->property_count,
    };

    if (copy.property_count > 0)
        copy.properties =
            arena_alloc(arena, copy.property_count * sizeof(struct property));
    for (size_t i = 0; i < copy.property_count; i++) {
        copy.properties[i].name = arena_copy(arena, from->properties[i].name);
        copy.properties[i].type = from->properties[i].type;
        copy.properties[i].json = arena_copy(arena, from->properties[i].json);
    }
    *to = copy;
}

/* ---- limits ---- */

size_t entity_json_bytes(const struct entity *entity)
{
    size_t bytes = sizeof("{\"PartitionKey\":\"\",\"RowKey\":\"\"}") - 1 +
                   entity->partition_key.len + entity->row_key.len;

    for (size_t i = 0; i < entity->property_count; i++)
        bytes += sizeof(",\"\":") - 1 + entity->properties[i].name.len +
                 entity->properties[i].json.len;
    return bytes;
}

void entity_add_keys(
    struct buf *to, struct slice partition_key, struct slice row_key)
{
    text_quote(to, partition_key);
    buf_add_text(to, " / ");
    text_quote(to, row_key);
}

size_t entity_size(const struct entity *entity)
{
    return sizeof(*entity) + entity_json_bytes(entity) + entity->etag.len +
           entity->timestamp.len +
           entity->property_count * sizeof(struct property);
}

/* Returns the number of UTF-16 units of a JSON string's text; an escape counts
 * as one. */
static size_t string_units(struct slice json)
{
    struct slice rest = unquoted(json);
    size_t units = 0;

    while (rest.len > 0) {
        const char *escape = memchr(rest.at, '\\', rest.len);
        size_t plain = escape ? (size_t)(escape - rest.at) : rest.len;
        size_t taken = plain;

        units += text_utf16_units((struct slice){rest.at, plain});
        if (escape) {
            units++;
            taken += rest.len - plain >= 2 && escape[1] == 'u' ? 6 : 2;
        }
        if (taken > rest.len)
            taken = rest.len;
        rest.at += taken;
        rest.len -= taken;
    }
    return units;
}

/* Returns the size that the service counts for a value: two bytes for each
 * UTF-16 unit of a String, the bytes of a Binary. property_bytes() adds the
 * four bytes that the service counts for the length of a String or Binary.
 * Source: Understanding the Table service data model. */
static size_t value_bytes(const struct property *property, struct arena *arena)
{
    struct slice text;
    size_t padding = 0;

    if (types[property->type].bytes > 0)
        return types[property->type].bytes;
    if (property->type == EDM_STRING)
        return string_units(property->json) * 2;
    text = string_of(property, arena);
    while (padding < text.len && text.at[text.len - 1 - padding] == '=')
        padding++;
    return text.len / 4 * 3 - padding;
}

/* Returns the size of a property including its name; bytes: the size of its
 * value. */
static size_t property_bytes(const struct property *property, size_t bytes)
{
    return 8 + text_utf16_units(property->name) * 2 + bytes +
           (types[property->type].bytes ? 0 : 4);
}

static size_t keys_bytes(const struct entity *entity)
{
    return 4 + 2 * (text_utf16_units(entity->partition_key) +
                       text_utf16_units(entity->row_key));
}

size_t entity_service_bytes(const struct entity *entity)
{
    size_t bytes = keys_bytes(entity);
    struct arena arena;

    arena_init(&arena);
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];

        bytes += property_bytes(property, value_bytes(property, &arena));
    }
    arena_done(&arena);
    return bytes;
}

static enum tw_err check_property(const struct property *property,
    struct arena *arena, size_t *total_bytes, struct err *err)
{
    static const char *const reserved[] = {
        "PartitionKey", "RowKey", "Timestamp"};
    enum tw_err result = entity_check_name(property->name, err);
    size_t bytes;

    if (result != TW_OK)
        return result;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (slice_is(property->name, reserved[i]))
            return err_fail(err, TW_INVALID,
                "%s is a system property and cannot be set", reserved[i]);
    }
    if (!text_is_utf8(property->json))
        return err_fail(err, TW_INVALID, "property '%.*s' is not valid UTF-8",
            SLICE_ARG(property->name));
    bytes = value_bytes(property, arena);
    if (bytes > ENTITY_MAX_VALUE_BYTES)
        return err_fail(err, TW_TOO_LARGE,
            "property '%.*s' is larger than 64 KiB (%zu bytes)",
            SLICE_ARG(property->name), bytes);
    *total_bytes += property_bytes(property, bytes);
    return TW_OK;
}

static enum tw_err check_properties(
    const struct entity *entity, struct err *err)
{
    size_t bytes = keys_bytes(entity);
    enum tw_err result = TW_OK;
    struct arena arena;

    arena_init(&arena);
    for (size_t i = 0; i < entity->property_count && result == TW_OK; i++)
        result = check_property(&entity->properties[i], &arena, &bytes, err);
    arena_done(&arena);
    if (result == TW_OK && bytes > ENTITY_MAX_BYTES)
        return err_fail(err, TW_TOO_LARGE,
            "the entity is larger than 1 MiB (%zu bytes as the service "
            "counts)",
            bytes);
    return result;
}

enum tw_err entity_check(const struct entity *entity, struct err *err)
{
    enum tw_err result =
        entity_check_key("PartitionKey", entity->partition_key, err);

    if (result == TW_OK)
        result = entity_check_key("RowKey", entity->row_key, err);
    if (result != TW_OK)
        return result;
    if (entity->property_count > ENTITY_MAX_PROPERTIES)
        return err_fail(err, TW_INVALID,
            "the entity has %zu properties; the service takes at most %d",
            entity->property_count, ENTITY_MAX_PROPERTIES);
    return check_properties(entity, err);
}

/* Returns a description of c if it is forbidden in keys; NULL: c is allowed. */
static const char *forbidden_in_key(uint32_t c, char *to, size_t room)
{
    if (c < 0x20 || (c >= 0x7f && c <= 0x9f))
        snprintf(to, room, "the control character U+%04X", (unsigned)c);
    else if (c < 0x7f && strchr("/\\#?", (int)c) != NULL)
        snprintf(to, room, "the character %c", (char)c);
    else
        return NULL;
    return to;
}

static enum tw_err fail_key(
    const char *which, struct slice key, const char *what, struct err *err)
{
    struct buf quoted;

    buf_init(&quoted, 1024);
    text_quote(&quoted, key);
    err_fail(err, TW_INVALID, "%s %s %s", which, buf_text(&quoted), what);
    buf_done(&quoted);
    return TW_INVALID;
}

/* Does key consist only of printable ASCII characters that are allowed in keys,
 * as most keys do? */
static bool is_plain_key(struct slice key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.at[i];

        if (c < ' ' || c > '~' || c == '/' || c == '\\' || c == '#' || c == '?')
            return false;
    }
    return true;
}

enum tw_err entity_check_key_prefix(
    const char *which, struct slice key, struct err *err)
{
    struct slice rest = key;
    char character[48], what[128];
    size_t len;

    if (is_plain_key(key))
        return TW_OK;
    if (!text_is_utf8(key))
        return fail_key(which, key, "is not valid UTF-8", err);
    for (; rest.len > 0; rest.at += len, rest.len -= len) {
        const char *found = forbidden_in_key(
            text_decode(rest, &len), character, sizeof(character));

        if (found == NULL)
            continue;
        snprintf(what, sizeof(what),
            "contains %s, which the service forbids in keys", found);
        return fail_key(which, key, what, err);
    }
    return TW_OK;
}

enum tw_err entity_check_key(
    const char *which, struct slice key, struct err *err)
{
    /* A character has no more UTF-16 units than UTF-8 bytes. */
    if (key.len > ENTITY_MAX_KEY_UNITS && text_is_utf8(key) &&
        text_utf16_units(key) > ENTITY_MAX_KEY_UNITS)
        return fail_key(which, key,
            "is longer than 512 UTF-16 units, which the service refuses", err);
    return entity_check_key_prefix(which, key, err);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is name a C# identifier? The service decides which characters beyond ASCII
 * are letters. */
static bool is_identifier(struct slice name)
{
    if (name.len == 0 || is_digit(name.at[0]))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!is_letter(c) && !is_digit(c) && c != '_' &&
            (unsigned char)c < 0x80)
            return false;
    }
    return text_is_utf8(name);
}

enum tw_err entity_check_name(struct slice name, struct err *err)
{
    struct buf quoted;

    if (is_identifier(name) && text_utf16_units(name) <= 255)
        return TW_OK;
    buf_init(&quoted, 1024);
    text_quote(&quoted, name);
    err_fail(err, TW_INVALID,
        "invalid property name %s: at most 255 letters, digits and _, not "
        "beginning with a digit",
        buf_text(&quoted));
    buf_done(&quoted);
    return TW_INVALID;
}

enum tw_err entity_check_table(struct slice name, struct err *err)
{
    bool good = name.len >= 3 && name.len <= 63 && is_letter(name.at[0]);
    struct buf quoted;

    for (size_t i = 0; i < name.len && good; i++)
        good = is_letter(name.at[i]) || is_digit(name.at[i]);
    if (good && !(name.len == 6 && strncasecmp(name.at, "tables", 6) == 0))
        return TW_OK;
    buf_init(&quoted, 1024);
    text_quote(&quoted, name);
    err_fail(err, TW_INVALID,
        "invalid table name %s: 3 to 63 letters and digits, beginning with a "
        "letter, and not `tables`",
        buf_text(&quoted));
    buf_done(&quoted);
    return TW_INVALID;
}
