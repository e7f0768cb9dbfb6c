/* SPDX-License-Identifier: MIT */
/* One line of JSON Lines as an entity. */
#include "worker/cli/entity_line.h"

#include <stddef.h>

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i]) || text.at[i] == '\0')
            return false;
    return true;
}

static enum tw_err parse(
    struct slice line, struct arena *arena, struct entity *ret, struct err *err)
{
    struct entity entity;
    size_t end;
    enum tw_err code = entity_parse(line, true, arena, &entity, &end, err);

    if (code != TW_OK)
        return code;
    if (!is_blank((struct slice){line.at + end, line.len - end}))
        return err_fail(err, TW_INVALID,
            "something follows the entity: one JSON object a line is wanted");
    entity.etag = slice_of("");
    code = entity_check(&entity, err);
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
