/* SPDX-License-Identifier: MIT */
/* Records by four states, cells by jobs/engine/convert.h. */
#include "worker/transfer/csv.h"

#include "jobs/engine/convert.h"
#include "worker/base/text.h"

/* ---- records ---- */

static bool is_return_at_end(struct slice line, size_t at)
{
    return line.at[at] == '\r' && at + 1 == line.len;
}

/* False: this character cannot stand here. */
static bool step(struct csv_look *look, struct slice line, size_t at)
{
    char c = line.at[at];

    switch (look->at) {
    case CSV_FIELD:
        look->at = c == '"' ? CSV_QUOTED : c == ',' ? CSV_FIELD : CSV_PLAIN;
        return true;
    case CSV_PLAIN:
        look->at = c == ',' ? CSV_FIELD : CSV_PLAIN;
        return c != '"';
    case CSV_QUOTED:
        look->at = c == '"' ? CSV_CLOSED : CSV_QUOTED;
        return true;
    case CSV_CLOSED:
        look->at = c == '"' ? CSV_QUOTED : CSV_FIELD;
        return c == '"' || c == ',' || is_return_at_end(line, at);
    }
    return false;
}

enum csv_verdict csv_line(struct csv_look *look, struct slice line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!step(look, line, i))
            return CSV_WRONG;
    return look->at == CSV_QUOTED ? CSV_OPEN : CSV_WHOLE;
}

static size_t count_commas(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == ',';
    return count;
}

/* Without the quotes around it; each pair in it is one. */
static struct slice unquoted(struct slice text, struct arena *arena)
{
    char *at = arena_alloc(arena, text.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        at[len++] = text.at[i];
        i += text.at[i] == '"';
    }
    return (struct slice){at, len};
}

/* The quoted field at *at, which becomes the place behind its quote. */
static struct slice take_quoted(
    struct slice record, size_t *at, struct arena *arena)
{
    size_t from = *at + 1, i = from;
    bool pairs = false;

    while (record.at[i] != '"' ||
           (i + 1 < record.len && record.at[i + 1] == '"')) {
        pairs |= record.at[i] == '"';
        i += record.at[i] == '"' ? 2 : 1;
    }
    *at = i + 1;
    return pairs ? unquoted((struct slice){record.at + from, i - from}, arena)
                 : (struct slice){record.at + from, i - from};
}

static struct slice take_plain(struct slice record, size_t *at)
{
    size_t from = *at;

    while (*at < record.len && record.at[*at] != ',')
        (*at)++;
    return (struct slice){record.at + from, *at - from};
}

const struct slice *csv_split(
    struct slice record, struct arena *arena, size_t *ret_count)
{
    struct slice *fields;
    size_t at = 0, count = 0;

    if (record.len > 0 && record.at[record.len - 1] == '\r')
        record.len--;
    fields = arena_alloc(arena, (count_commas(record) + 1) * sizeof(*fields));
    for (;;) {
        fields[count++] = at < record.len && record.at[at] == '"'
                              ? take_quoted(record, &at, arena)
                              : take_plain(record, &at);
        if (at == record.len)
            break;
        at++; /* the comma */
    }
    *ret_count = count;
    return fields;
}

/* ---- the header ---- */

/* Entities of one table may differ in their properties, of which each has at
 * most 252. Columns are looked for one by one. */
#define COLUMNS_MAX 8192

static bool cut_suffix(struct slice *name, const char *suffix)
{
    size_t len = strlen(suffix);

    if (name->len < len || memcmp(name->at + name->len - len, suffix, len) != 0)
        return false;
    name->len -= len;
    return true;
}

static bool is_type_name(struct slice *name)
{
    return cut_suffix(name, "@odata.type") || cut_suffix(name, "@type");
}

static enum tw_err fail_column(
    struct slice name, const char *what, struct err *err)
{
    struct buf text;

    buf_init(&text, 1024);
    buf_add_text(&text, "the header's column ");
    text_quote(&text, name);
    err_fail(err, TW_INVALID, "%s %s", buf_text(&text), what);
    buf_done(&text);
    return TW_INVALID;
}

static enum tw_err read_column(
    struct csv_column *column, struct slice name, struct err *err)
{
    struct err why;

    column->name = name;
    if (slice_is(name, "PartitionKey"))
        column->what = CSV_PARTITION_KEY;
    else if (slice_is(name, "RowKey"))
        column->what = CSV_ROW_KEY;
    else if (slice_is(name, "Timestamp") || is_type_name(&name))
        column->what = CSV_PASSED_OVER;
    else if (entity_check_name(name, &why) == TW_OK)
        column->what = CSV_PROPERTY;
    else
        return fail_column(name, "is no name of a property", err);
    return TW_OK;
}

/* name is what the column has before its suffix. */
static bool is_type_of(struct slice type, struct slice name)
{
    return is_type_name(&type) && slice_equal(type, name);
}

static size_t column_named(
    const struct csv_header *header, struct slice name, size_t from)
{
    while (
        from < header->count && !slice_equal(header->columns[from].name, name))
        from++;
    return from;
}

static size_t type_of(const struct csv_header *header, size_t at)
{
    for (size_t i = 0; i < header->count; i++)
        if (is_type_of(header->columns[i].name, header->columns[at].name))
            return i;
    return at;
}

enum tw_err csv_header(const struct slice *fields, size_t count,
    struct arena *arena, struct csv_header *ret, struct err *err)
{
    struct csv_column *columns = arena_alloc(arena, count * sizeof(*columns));
    const struct csv_header header = {columns, count};

    if (count > COLUMNS_MAX)
        return err_fail(err, TW_INVALID, "the header has more than %d columns",
            COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) {
        enum tw_err code = read_column(&columns[i], fields[i], err);

        if (code != TW_OK)
            return code;
    }
    for (size_t i = 0; i < count; i++) {
        if (column_named(&header, fields[i], i + 1) < count)
            return fail_column(fields[i], "is there twice", err);
        columns[i].type = type_of(&header, i);
    }
    if (column_named(&header, slice_of("PartitionKey"), 0) == count ||
        column_named(&header, slice_of("RowKey"), 0) == count)
        return err_fail(err, TW_INVALID,
            "the header has no PartitionKey or no RowKey: the first record "
            "names the columns, separated by commas");
    *ret = header;
    return TW_OK;
}

/* ---- entities ---- */

static enum tw_err fail_cell(
    struct slice name, const char *what, const char *detail, struct err *err)
{
    struct buf text;

    buf_init(&text, 1024);
    buf_add_text(&text, "property ");
    text_quote(&text, name);
    err_fail(err, TW_INVALID, "%s: %s%s", buf_text(&text), what, detail);
    buf_done(&text);
    return TW_INVALID;
}

/* "Int64" and "Edm.Int64". */
static bool read_type(struct slice text, enum edm_type *ret)
{
    char name[32] = "Edm.";

    if (edm_type_named(text, ret))
        return true;
    if (text.len >= sizeof(name) - 4)
        return false;
    memcpy(name + 4, text.at, text.len);
    return edm_type_named((struct slice){name, text.len + 4}, ret);
}

/* What a conversion loses is spelling: zeros before a number, digits that a
 * Double has no room for, the offset of a time. */
static enum tw_err read_value(struct slice name, struct slice text,
    enum edm_type type, struct arena *arena, struct property *ret,
    struct err *err)
{
    struct property plain;
    struct err why;

    if (convert_text(name, text, EDM_STRING, arena, &plain, &why) != TW_OK)
        return fail_cell(name, why.text, "", err);
    *ret = plain;
    if (type != EDM_STRING &&
        convert_property(&plain, type, arena, ret, &why) == CONVERT_IMPOSSIBLE)
        return fail_cell(name, why.text, "", err);
    return TW_OK;
}

static enum tw_err read_property(const struct csv_header *header, size_t at,
    const struct slice *fields, struct arena *arena, struct entity *to,
    struct err *err)
{
    const struct csv_column *column = &header->columns[at];
    struct slice type_text =
        column->type == at ? slice_of("") : fields[column->type];
    enum edm_type type = EDM_STRING;

    if (fields[at].len == 0 && type_text.len == 0)
        return TW_OK;
    if (type_text.len > 0 && !read_type(type_text, &type))
        return fail_cell(column->name,
            "its type is none of Binary, Boolean, DateTime, ",
            "Double, Guid, Int32, Int64 and String", err);
    return read_value(column->name, fields[at], type, arena,
        &to->properties[to->property_count++], err);
}

static enum tw_err read_cell(const struct csv_header *header, size_t at,
    const struct slice *fields, struct arena *arena, struct entity *to,
    struct err *err)
{
    switch (header->columns[at].what) {
    case CSV_PASSED_OVER:
        break;
    case CSV_PARTITION_KEY:
        to->partition_key = fields[at];
        break;
    case CSV_ROW_KEY:
        to->row_key = fields[at];
        break;
    case CSV_PROPERTY:
        return read_property(header, at, fields, arena, to, err);
    }
    return TW_OK;
}

enum tw_err csv_entity(const struct csv_header *header,
    const struct slice *fields, size_t count, struct arena *arena,
    struct entity *ret, struct err *err)
{
    struct entity entity = {.etag = slice_of("")};
    enum tw_err code = TW_OK;

    if (count != header->count)
        return err_fail(err, TW_INVALID, "%zu cells, and %zu in the header",
            count, header->count);
    entity.properties =
        arena_alloc(arena, (count + 1) * sizeof(*entity.properties));
    for (size_t i = 0; i < count && code == TW_OK; i++)
        code = read_cell(header, i, fields, arena, &entity, err);
    if (code == TW_OK)
        code = entity_check(&entity, err);
    if (code == TW_OK)
        *ret = entity;
    return code;
}
