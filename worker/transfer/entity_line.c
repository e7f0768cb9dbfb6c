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

/* Does line begin a JSON list, perhaps with only the bracket on the line? */
static bool begins_list(struct slice line)
{
    size_t at = 0;

    while (at < line.len && is_blank((struct slice){line.at + at, 1}))
        at++;
    return at < line.len && line.at[at] == '[';
}

/* Make the error text for a line with a nested value. entity_parse_exact()
 * stops at a nested value without naming the property, so the line is parsed
 * again to find the name. */
static enum tw_err explain_nested(
    struct slice line, enum tw_err outcome, struct err *err)
{
    struct json *json;

    if (begins_list(line))
        return err_fail(err, TW_INVALID,
            "a list is not an entity: each line must be one JSON object");
    if (json_parse(line, JSON_DEPTH_LIMIT, &json, NULL) != TW_OK)
        return outcome;
    for (size_t i = 0; json_type(json) == JSON_OBJECT && i < json_count(json);
         i++)
        if (is_nested(json_value(json, i))) {
            outcome =
                refuse_nested(json_name(json, i), json_value(json, i), err);
            break;
        }
    json_free(json);
    return outcome;
}

static enum tw_err parse(
    struct slice line, struct arena *arena, struct entity *ret, struct err *err)
{
    struct entity entity;
    size_t end;
    enum tw_err outcome = entity_parse_exact(line, arena, &entity, &end, err);

    if (outcome != TW_OK)
        return explain_nested(line, outcome, err);
    if (!is_blank((struct slice){line.at + end, line.len - end}))
        return err_fail(err, TW_INVALID,
            "text after the entity: each line must be one JSON object");
    entity.etag = slice_of("");
    outcome = entity_check(&entity, err);
    if (outcome == TW_OK)
        *ret = entity;
    return outcome;
}

enum tw_err entity_line(struct slice line, bool first, struct arena *arena,
    struct entity *ret, bool *ret_blank, struct err *err)
{
    if (first && slice_begins(line, slice_of("\xEF\xBB\xBF")))
        line = (struct slice){line.at + 3, line.len - 3};
    *ret_blank = is_blank(line);
    return *ret_blank ? TW_OK : parse(line, arena, ret, err);
}
