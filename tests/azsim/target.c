/* SPDX-License-Identifier: MIT */
/* Reads paths: a name, and keys in parentheses, with quotes in them doubled. */
#include "tests/azsim/target.h"

#include "worker/base/text.h"
#include "worker/store/entity.h"

static bool take(struct slice *rest, const char *text)
{
    struct slice prefix = slice_of(text);

    if (!slice_begins(*rest, prefix))
        return false;
    rest->at += prefix.len;
    rest->len -= prefix.len;
    return true;
}

/* Reads a text such as 'it''s', up to the quote that is not doubled. */
static bool take_quoted(
    struct slice *rest, struct arena *arena, struct slice *ret)
{
    char *text = arena_alloc(arena, rest->len + 1);
    size_t len = 0;

    if (!take(rest, "'"))
        return false;
    for (;;) {
        if (rest->len == 0)
            return false;
        if (take(rest, "''")) {
            text[len++] = '\'';
            continue;
        }
        if (take(rest, "'"))
            break;
        text[len++] = rest->at[0];
        rest->at++;
        rest->len--;
    }
    *ret = (struct slice){text, len};
    return true;
}

static struct slice take_name(struct slice *rest)
{
    struct slice name = {rest->at, 0};

    while (rest->len > 0 && rest->at[0] != '(') {
        rest->at++;
        rest->len--;
        name.len++;
    }
    return name;
}

static bool read_keys(
    struct slice *rest, struct arena *arena, struct target *ret)
{
    ret->what = TARGET_ENTITY;
    return take(rest, "(PartitionKey=") &&
           take_quoted(rest, arena, &ret->partition_key) &&
           take(rest, ",RowKey=") && take_quoted(rest, arena, &ret->row_key) &&
           take(rest, ")") && rest->len == 0;
}

static bool read_tables(
    struct slice *rest, struct arena *arena, struct target *ret)
{
    ret->what = TARGET_TABLES;
    if (rest->len == 0 || (take(rest, "()") && rest->len == 0))
        return true;
    return take(rest, "(") && take_quoted(rest, arena, &ret->table) &&
           take(rest, ")") && rest->len == 0;
}

static bool read_decoded(
    struct slice rest, struct arena *arena, struct target *ret)
{
    struct slice name;

    if (!take(&rest, "/"))
        return false;
    name = take_name(&rest);
    if (slice_is(name, "Tables"))
        return read_tables(&rest, arena, ret);
    if (slice_is(name, "$batch")) {
        ret->what = TARGET_BATCH;
        return rest.len == 0;
    }
    ret->table = name;
    ret->what = TARGET_TABLE;
    if (rest.len == 0 || slice_is(rest, "()"))
        return name.len > 0;
    return read_keys(&rest, arena, ret);
}

bool target_read(struct slice path, struct arena *arena, struct target *ret)
{
    struct buf decoded;
    bool good;

    *ret = (struct target){.table = {NULL, 0}};
    buf_init(&decoded, path.len + 1);
    good = text_percent_decode(&decoded, path) &&
           text_is_utf8(buf_slice(&decoded)) &&
           read_decoded(arena_copy(arena, buf_slice(&decoded)), arena, ret);
    buf_done(&decoded);
    return good;
}

bool target_is_table(struct slice name)
{
    return entity_check_table(name, NULL) == TW_OK;
}
