/* SPDX-License-Identifier: MIT */
/* Converts requests to operations of the store, and the store's outcomes to
 * refusals. */
#include "tests/azsim/changes.h"

#include <string.h>

#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/entity.h"

/* ---- reading ---- */

static bool has_member(struct slice body, const char *name)
{
    struct json_members members;
    struct arena arena;
    size_t end, at;
    bool found = false;

    arena_init(&arena);
    json_members_init(&members);
    if (json_flat_object(body, NULL, &arena, &members, &end, NULL) == TW_OK) {
        at = json_members_find(&members, slice_of(name));
        found = at < members.count && members.list[at].type == JSON_STRING;
    }
    json_members_done(&members);
    arena_done(&arena);
    return found;
}

/* Returns the type in "name@odata.type"; empty: there is no such member. */
static struct slice annotation_of(
    const struct json_members *members, struct slice name, struct arena *arena)
{
    size_t at = json_members_find(
        members, arena_format(arena, "%.*s@odata.type", SLICE_ARG(name)));

    if (at == members->count || members->list[at].type != JSON_STRING)
        return (struct slice){NULL, 0};
    return json_member_text(&members->list[at], arena);
}

/* Returns whether text, which came as a string, stands for a value of this
 * type: SDKs put such values into quotes and name the type beside them. NaN and
 * the infinities stay strings. */
static bool is_quoted(struct slice text, struct slice type)
{
    int64_t integer;
    double real;

    if (slice_is(type, "Edm.Double"))
        return text_double(text, &real);
    if (slice_is(type, "Edm.Int32"))
        return text_int64(text, INT32_MIN, INT32_MAX, &integer);
    return slice_is(type, "Edm.Boolean") &&
           (slice_is(text, "true") || slice_is(text, "false"));
}

/* Returns the value as it came, or without its quotes if is_quoted(). */
static struct slice value_of(
    const struct json_members *members, size_t index, struct arena *arena)
{
    const struct json_member *member = &members->list[index];
    struct slice text;

    if (member->type != JSON_STRING)
        return member->raw;
    text = json_member_text(member, arena);
    return is_quoted(text, annotation_of(members, member->name, arena))
               ? text
               : member->raw;
}

/* Returns the same object with the quotes removed where is_quoted(). */
static struct slice unquoted(struct slice body, struct arena *arena)
{
    struct json_members members;
    struct buf text;
    size_t end;

    json_members_init(&members);
    buf_init(&text, 2 * body.len + 2);
    if (json_flat_object(body, NULL, arena, &members, &end, NULL) == TW_OK &&
        end == body.len) {
        for (size_t i = 0; i < members.count; i++) {
            buf_add_char(&text, i == 0 ? '{' : ',');
            json_add_string(&text, members.list[i].name);
            buf_add_char(&text, ':');
            buf_add_slice(&text, value_of(&members, i, arena));
        }
        buf_add_text(&text, members.count == 0 ? "{}" : "}");
        body = arena_copy(arena, buf_slice(&text));
    }
    buf_done(&text);
    json_members_done(&members);
    return body;
}

static enum failure check_values(const struct entity *entity)
{
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];

        if (entity_check_name(property->name, NULL) != TW_OK)
            return FAIL_PROPERTY_NAME;
    }
    if (entity->property_count > ENTITY_MAX_PROPERTIES)
        return FAIL_TOO_MANY_PROPERTIES;
    return FAIL_NONE;
}

/* Returns the refusal of the service: one value is too large, or the whole
 * entity is. entity_check() does not tell the two apart. */
static enum failure why_too_large(const struct entity *entity)
{
    struct entity one = *entity;

    one.property_count = 1;
    for (size_t i = 0; i < entity->property_count; i++) {
        one.properties = &entity->properties[i];
        if (entity_check(&one, NULL) == TW_TOO_LARGE)
            return FAIL_VALUE_TOO_LARGE;
    }
    return FAIL_ENTITY_TOO_LARGE;
}

static enum failure check_entity(const struct entity *entity)
{
    enum failure failure = check_values(entity);

    if (failure == FAIL_NONE &&
        (entity_check_key("PartitionKey", entity->partition_key, NULL) !=
                TW_OK ||
            entity_check_key("RowKey", entity->row_key, NULL) != TW_OK))
        failure = FAIL_KEY;
    if (failure == FAIL_NONE && entity_check(entity, NULL) == TW_TOO_LARGE)
        failure = why_too_large(entity);
    if (failure == FAIL_NONE && entity_check(entity, NULL) != TW_OK)
        failure = FAIL_INPUT;
    return failure;
}

enum failure changes_read(struct change_request *request, struct arena *arena)
{
    struct entity named = request->entity;

    if (strcmp(request->method, "DELETE") == 0)
        return FAIL_NONE;
    request->body = unquoted(request->body, arena);
    if (entity_parse(
            request->body, false, arena, &request->entity, NULL, NULL) != TW_OK)
        return FAIL_INPUT;
    if (request->keys_in_url) {
        request->entity.partition_key = named.partition_key;
        request->entity.row_key = named.row_key;
    } else if (!has_member(request->body, "PartitionKey") ||
               !has_member(request->body, "RowKey")) {
        return FAIL_KEYS_MISSING;
    }
    return check_entity(&request->entity);
}

/* ---- carrying out ---- */

struct applying {
    struct store *store;
    const char *table;
    struct arena *arena;
    struct operation *operations;
};

/* Returns the ETag of the stored entity, for If-Match: * and for upserts; NULL:
 * there is no such entity. */
static const char *stored_etag(
    const struct applying *applying, const struct entity *entity)
{
    struct exchange store_exchange = {.deadline = NULL};
    const char *etag = NULL;
    struct page page;

    page_init(&page);
    if (store_get(applying->store, &store_exchange, applying->table,
            entity->partition_key, entity->row_key, &page) == TW_OK)
        etag = arena_copy(applying->arena, page.entities[0].etag).at;
    page_done(&page);
    return etag;
}

static enum operation_type type_of(const char *method)
{
    if (strcmp(method, "POST") == 0)
        return OPERATION_INSERT;
    if (strcmp(method, "PUT") == 0)
        return OPERATION_REPLACE;
    return strcmp(method, "DELETE") == 0 ? OPERATION_DELETE : OPERATION_MERGE;
}

static enum failure make_operation(const struct applying *applying,
    const struct change_request *request, struct operation *ret)
{
    bool insert = strcmp(request->method, "POST") == 0;
    char *etag = arena_alloc(applying->arena, ENTITY_ETAG_BYTES);

    ret->type = type_of(request->method);
    ret->entity = request->entity;
    ret->entity.etag = (struct slice){NULL, 0};
    if (insert)
        return FAIL_NONE;
    if (request->if_match.at != NULL && !slice_is(request->if_match, "*")) {
        ret->entity.etag =
            slice_of(entity_json_stored_etag(request->if_match, etag));
        return FAIL_NONE;
    }
    ret->entity.etag = slice_of(stored_etag(applying, &request->entity));
    if (ret->entity.etag.at != NULL)
        return FAIL_NONE;
    if (request->if_match.at != NULL || ret->type == OPERATION_DELETE)
        return FAIL_RESOURCE_MISSING;
    ret->type = OPERATION_INSERT; /* the entity does not exist */
    return FAIL_NONE;
}

static enum failure failure_of(enum tw_err outcome, enum operation_type type)
{
    switch (outcome) {
    case TW_OK:
        return FAIL_NONE;
    case TW_CONFLICT:
        return type == OPERATION_INSERT ? FAIL_ENTITY_EXISTS
                                        : FAIL_UPDATE_CONDITION;
    case TW_NOT_FOUND:
        return FAIL_RESOURCE_MISSING;
    case TW_TOO_LARGE:
        return FAIL_ENTITY_TOO_LARGE;
    case TW_INVALID:
        return FAIL_INPUT;
    default:
        return FAIL_INTERNAL;
    }
}

static void write_etags(const struct batch *batch,
    const struct batch_result *result, char (*ret)[ENTITY_ETAG_BYTES])
{
    for (size_t i = 0; i < batch->count; i++) {
        ret[i][0] = '\0';
        if (batch->operations[i].type != OPERATION_DELETE)
            (void)entity_json_etag(slice_of(result->etags[i]), ret[i]);
    }
}

enum failure changes_apply(struct store *store, const char *table,
    struct change_request *requests, size_t count, struct arena *arena,
    char (*ret_etags)[ENTITY_ETAG_BYTES], size_t *ret_failed)
{
    struct operation *operations =
        arena_alloc(arena, count * sizeof(*operations));
    struct applying applying = {store, table, arena, operations};
    struct batch batch = {table, operations, count};
    struct batch_result *result = arena_alloc(arena, sizeof(*result));
    struct exchange store_exchange = {.deadline = NULL};
    enum tw_err outcome;

    for (size_t i = 0; i < count; i++) {
        enum failure failure =
            make_operation(&applying, &requests[i], &operations[i]);

        *ret_failed = i;
        if (failure != FAIL_NONE)
            return failure;
    }
    outcome = store_batch(store, &store_exchange, &batch, result);
    if (outcome == TW_OK)
        write_etags(&batch, result, ret_etags);
    *ret_failed = result->failed < count ? result->failed : 0;
    return failure_of(outcome, operations[*ret_failed].type);
}
