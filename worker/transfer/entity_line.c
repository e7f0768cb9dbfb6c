/* SPDX-License-Identifier: MIT */
/* Parses one line of JSON Lines and explains common mistakes. */
#include "worker/transfer/entity_line.h"

#include <stddef.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/text.h"

/* The maximum length of a quoted name: at least the longest result of
 * text_quote(). */
#define NAME_MAX_BYTES 1024

#define ANNOTATION "@odata."

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]) || text.at[i] == '\0')
            return false;
    return true;
}

static bool is_nested(const struct json *value)
{
    return json_type(value) == JSON_ARRAY || json_type(value) == JSON_OBJECT;
}

static enum tw_err refuse_nested(
    struct slice name, const struct json *value, struct err *err)
{
    struct buf quoted;

    buf_init(&quoted, NAME_MAX_BYTES);
    text_quote(&quoted, name);
    (void)err_fail(err, TW_INVALID,
        "property %s: %s cannot be the value of a property", buf_text(&quoted),
        json_type(value) == JSON_ARRAY ? "a list" : "an object");
    buf_done(&quoted);
    return TW_INVALID;
}

static bool has_other_at_sign(struct slice line)
{
    while (line.len > 0) {
        const char *at = memchr(line.at, '@', line.len);

        if (!at)
            return false;
        line = (struct slice){at, line.len - (size_t)(at - line.at)};
        if (!slice_begins(line, slice_of(ANNOTATION)))
            return true;
        line = (struct slice){line.at + 1, line.len - 1};
    }
    return false;
}

/* Is name one with an @ that is no annotation of OData? A service ignores such
 * a member, and with it a value, or the type of one. */
static bool is_unknown_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '@')
            return !slice_begins((struct slice){name.at + i, name.len - i},
                slice_of(ANNOTATION));
    return false;
}

/* entity_parse() ignores members whose names have an @. Few lines have an @
 * elsewhere than in an annotation of OData, so only these are parsed again. */
static enum tw_err check_names(struct slice line, struct err *err)
{
    enum tw_err code = TW_OK;
    struct json *json;
    struct buf quoted;

    if (!has_other_at_sign(line) ||
        json_parse(line, JSON_DEPTH_LIMIT, &json, NULL) != TW_OK)
        return TW_OK;
    buf_init(&quoted, NAME_MAX_BYTES);
    for (size_t i = 0; code == TW_OK && i < json_count(json); i++)
        if (is_unknown_name(json_name(json, i))) {
            text_quote(&quoted, json_name(json, i));
            code = err_fail(err, TW_INVALID,
                "%s is neither a property nor the type of one, which is "
                "NAME@odata.type",
                buf_text(&quoted));
        }
    buf_done(&quoted);
    json_free(json);
    return code;
}

static bool has_replacement(struct slice text)
{
    return text.len > 0 && memmem(text.at, text.len, "\xEF\xBF\xBD", 3) != NULL;
}

/* Refuse a key with half of a surrogate pair: decoded it is the key of another
 * entity. */
static enum tw_err check_keys(
    struct slice line, const struct entity *entity, struct err *err)
{
    static const char *const KEYS[] = {"PartitionKey", "RowKey"};
    enum tw_err code = TW_OK;
    struct json *json;

    if ((!has_replacement(entity->partition_key) &&
            !has_replacement(entity->row_key)) ||
        json_parse(line, JSON_DEPTH_LIMIT, &json, NULL) != TW_OK)
        return TW_OK;
    for (size_t i = 0; code == TW_OK && i < sizeof(KEYS) / sizeof(*KEYS); i++) {
        const struct json *key = json_get(json, KEYS[i]);

        if (key && json_has_lone_surrogate(json_raw(key)))
            code = err_fail(err, TW_INVALID,
                "%s contains half of a surrogate pair", KEYS[i]);
    }
    json_free(json);
    return code;
}

/* Does line begin a JSON list, perhaps with only the bracket on the line? */
static bool begins_list(struct slice line)
{
    size_t at = 0;

    while (at < line.len && is_blank((struct slice){line.at + at, 1}))
        at++;
    return at < line.len && line.at[at] == '[';
}

/* entity_parse() stops at a nested value without naming the property. The line
 * is invalid anyway, so it is parsed again to find the name. */
static enum tw_err explain_nested(
    struct slice line, enum tw_err code, struct err *err)
{
    struct json *json;

    if (begins_list(line))
        return err_fail(err, TW_INVALID,
            "a list is not an entity: each line must be one JSON object");
    if (json_parse(line, JSON_DEPTH_LIMIT, &json, NULL) != TW_OK)
        return code;
    for (size_t i = 0; json_type(json) == JSON_OBJECT && i < json_count(json);
         i++)
        if (is_nested(json_value(json, i))) {
            code = refuse_nested(json_name(json, i), json_value(json, i), err);
            break;
        }
    json_free(json);
    return code;
}

static enum tw_err parse(
    struct slice line, struct arena *arena, struct entity *ret, struct err *err)
{
    struct entity entity;
    size_t end;
    enum tw_err code = entity_parse(line, true, arena, &entity, &end, err);

    if (code != TW_OK)
        return explain_nested(line, code, err);
    if (!is_blank((struct slice){line.at + end, line.len - end}))
        return err_fail(err, TW_INVALID,
            "text after the entity: each line must be one JSON object");
    entity.etag = slice_of("");
    code = entity_check(&entity, err);
    if (code == TW_OK)
        code = check_names((struct slice){line.at, end}, err);
    if (code == TW_OK)
        code = check_keys((struct slice){line.at, end}, &entity, err);
    if (code == TW_OK)
        *ret = entity;
    return code;
}

enum tw_err entity_line(struct slice line, bool first, struct arena *arena,
    struct entity *ret, bool *ret_blank, struct err *err)
{
    if (first && slice_begins(line, slice_of("\xEF\xBB\xBF")))
        line = (struct slice){line.at + 3, line.len - 3};
    *ret_blank = is_blank(line);
    return *ret_blank ? TW_OK : parse(line, arena, ret, err);
}
