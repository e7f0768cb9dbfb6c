/* SPDX-License-Identifier: MIT */
/* A state machine with four states finds the records; jobs/engine/convert.h
 * converts the cells. */
#include "worker/transfer/csv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/engine/convert.h"
#include "worker/base/text.h"

/* ---- records ---- */

static bool is_return_at_end(struct slice line, size_t at)
{
    return line.at[at] == '\r' && at + 1 == line.len;
}

/* Advance state by the character at `at` of line. False: the character is not
 * allowed there. */
static bool step(struct csv_state *state, struct slice line, size_t at)
{
    char c = line.at[at];

    switch (state->at) {
    case CSV_FIELD:
        state->at = c == '"' ? CSV_QUOTED : c == ',' ? CSV_FIELD : CSV_PLAIN;
        return true;
    case CSV_PLAIN:
        state->at = c == ',' ? CSV_FIELD : CSV_PLAIN;
        return c != '"';
    case CSV_QUOTED:
        state->at = c == '"' ? CSV_CLOSED : CSV_QUOTED;
        return true;
    case CSV_CLOSED:
        state->at = c == '"' ? CSV_QUOTED : CSV_FIELD;
        return c == '"' || c == ',' || is_return_at_end(line, at);
    }
    return false;
}

enum csv_record_state csv_line(struct csv_state *state, struct slice line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!step(state, line, i))
            return CSV_INVALID;
    return state->at == CSV_QUOTED ? CSV_OPEN : CSV_WHOLE;
}

static size_t count_commas(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == ',';
    return count;
}

/* Returns the text inside the quotes, with each doubled quote as one quote. */
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

/* Take the quoted field at *at, and move *at behind the closing quote. */
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
        at++; /* skip the comma */
    }
    *ret_count = count;
    return fields;
}

/* ---- the header ---- */

/* The maximum number of columns: both keys, each property, and its type. */
#define COLUMNS_MAX (2 + 2 * CSV_MAX_PROPERTIES)

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
    struct slice property = name;
    bool is_type = is_type_name(&property);
    struct err why;

    column->name = name;
    if (slice_is(property, "PartitionKey"))
        column->what = CSV_PARTITION_KEY;
    else if (slice_is(property, "RowKey"))
        column->what = CSV_ROW_KEY;
    else if (slice_is(property, "Timestamp"))
        column->what = CSV_IGNORED;
    else if (entity_check_name(property, &why) == TW_OK)
        column->what = CSV_PROPERTY;
    else
        return fail_column(name, "is not a valid property name", err);
    if (is_type)
        column->what = CSV_IGNORED;
    return TW_OK;
}

/* The columns sorted by name, so that lookups take O(log n). */
struct name_index {
    const struct csv_header *header;
    size_t *columns; /* indices of columns, ordered by name */
};

static int compare_columns(const void *a, const void *b, void *context)
{
    const struct csv_header *header = context;

    return slice_compare(header->columns[*(const size_t *)a].name,
        header->columns[*(const size_t *)b].name);
}

static void index_names(struct name_index *names,
    const struct csv_header *header, struct arena *arena)
{
    names->header = header;
    names->columns =
        arena_alloc(arena, (header->count + 1) * sizeof(*names->columns));
    for (size_t i = 0; i < header->count; i++)
        names->columns[i] = i;
    qsort_r(names->columns, header->count, sizeof(*names->columns),
        compare_columns, (void *)(uintptr_t)header);
}

/* Returns the column of that name; header->count: there is none. */
static size_t column_named(const struct name_index *names, struct slice name)
{
    size_t low = 0, high = names->header->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        size_t column = names->columns[middle];
        int order = slice_compare(names->header->columns[column].name, name);

        if (order == 0)
            return column;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return names->header->count;
}

static enum tw_err check_names(const struct name_index *names, struct err *err)
{
    const struct csv_column *columns = names->header->columns;

    for (size_t i = 1; i < names->header->count; i++) {
        struct slice name = columns[names->columns[i]].name;

        if (slice_equal(columns[names->columns[i - 1]].name, name))
            return fail_column(name, "appears twice", err);
    }
    if (column_named(names, slice_of("PartitionKey")) == names->header->count ||
        column_named(names, slice_of("RowKey")) == names->header->count)
        return err_fail(err, TW_INVALID,
            "the header has no PartitionKey or no RowKey: the first record "
            "contains the names of the columns, separated by commas");
    return TW_OK;
}

/* Find the type column of each property PROPERTY: the column PROPERTY@type. If
 * a property has two type columns, the first is used. */
static void assign_types(
    const struct name_index *names, struct csv_column *columns)
{
    for (size_t i = 0; i < names->header->count; i++)
        columns[i].type = i;
    for (size_t i = names->header->count; i-- > 0;) {
        struct slice name = columns[i].name;
        size_t of = is_type_name(&name) ? column_named(names, name)
                                        : names->header->count;

        if (of < names->header->count)
            columns[of].type = i;
    }
}

enum tw_err csv_header(const struct slice *fields, size_t count,
    struct arena *arena, struct csv_header *ret, struct err *err)
{
    struct csv_column *columns = arena_alloc(arena, count * sizeof(*columns));
    const struct csv_header header = {columns, count};
    struct name_index names;
    enum tw_err outcome;

    if (count > COLUMNS_MAX)
        return err_fail(err, TW_INVALID, "the header has more than %d columns",
            COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) {
        outcome = read_column(&columns[i], fields[i], err);
        if (outcome != TW_OK)
            return outcome;
    }
    index_names(&names, &header, arena);
    outcome = check_names(&names, err);
    if (outcome != TW_OK)
        return outcome;
    assign_types(&names, columns);
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

/* Reads a type, as "Int64" or as "Edm.Int64". */
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

/* Convert a cell. A conversion may lose only notation: leading zeros, digits
 * beyond the precision of a Double, the time zone of a time. */
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
            "invalid type, expected Binary, Boolean, DateTime, Double, ",
            "Guid, Int32, Int64 or String", err);
    return read_value(column->name, fields[at], type, arena,
        &to->properties[to->property_count++], err);
}

static enum tw_err read_cell(const struct csv_header *header, size_t at,
    const struct slice *fields, struct arena *arena, struct entity *to,
    struct err *err)
{
    switch (header->columns[at].what) {
    case CSV_IGNORED:
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
    enum tw_err outcome = TW_OK;

    if (count != header->count)
        return err_fail(err, TW_INVALID,
            "the record has %zu cell%s, the header %zu", count,
            count == 1 ? "" : "s", header->count);
    entity.properties =
        arena_alloc(arena, (count + 1) * sizeof(*entity.properties));
    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        outcome = read_cell(header, i, fields, arena, &entity, err);
    if (outcome == TW_OK)
        outcome = entity_check(&entity, err);
    if (outcome == TW_OK)
        *ret = entity;
    return outcome;
}

/* ---- writing ---- */

/* Must text be quoted? Spaces at the beginning or the end need quotes, because
 * another program may drop them. */
static bool needs_quotes(struct slice text)
{
    if (text.len == 0)
        return false;
    if (text.at[0] == ' ' || text.at[0] == '\t' ||
        text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t')
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '"' || text.at[i] == ',' || text.at[i] == '\r' ||
            text.at[i] == '\n')
            return true;
    return false;
}

static void write_quoted(struct slice text, struct buf *to)
{
    const char *quote;

    buf_add_char(to, '"');
    while (text.len > 0 && (quote = memchr(text.at, '"', text.len))) {
        size_t len = (size_t)(quote - text.at) + 1;

        buf_add(to, text.at, len);
        buf_add_char(to, '"');
        text = (struct slice){text.at + len, text.len - len};
    }
    buf_add_slice(to, text);
    buf_add_char(to, '"');
}

static void write_cell(struct slice text, struct buf *to)
{
    if (needs_quotes(text))
        write_quoted(text, to);
    else
        buf_add_slice(to, text);
}

void csv_write_header(const struct slice *names, size_t count, struct buf *to)
{
    buf_add_text(to, "PartitionKey,RowKey");
    for (size_t i = 0; i < count; i++)
        buf_add_format(
            to, ",%.*s,%.*s@type", SLICE_ARG(names[i]), SLICE_ARG(names[i]));
    buf_add_char(to, '\n');
}

/* Does json contain a lone surrogate? It does if it has an escape from \ud800
 * to \udfff, because only an escape can express a lone surrogate, and a
 * canonical text has whole pairs as UTF-8. */
static bool has_lone_surrogate(struct slice json)
{
    const char *at = json.at, *end = json.at + json.len;

    while ((at = memchr(at, '\\', (size_t)(end - at)))) {
        if (at[1] == 'u' && (at[2] == 'd' || at[2] == 'D') && at[3] >= '8')
            return true;
        at += 2;
    }
    return false;
}

/* Returns the text of the property's cell. For a String this is its text; for
 * any other type it is the JSON of the value, without quotes. */
static struct slice text_of(
    const struct property *property, struct arena *arena)
{
    struct slice json = property->json, text = json;

    if (json.at[0] == '"' && json.len >= 2)
        text = (struct slice){json.at + 1, json.len - 2};
    if (property->type == EDM_STRING)
        (void)property_peek_text(property, arena, &text);
    return text;
}

static enum tw_err write_property(
    const struct property *property, struct buf *to, struct err *err)
{
    struct arena arena;

    if (property->type == EDM_STRING && has_lone_surrogate(property->json))
        return fail_cell(property->name,
            "half of a surrogate pair cannot be written as CSV: ",
            "export JSON Lines", err);
    arena_init(&arena);
    write_cell(text_of(property, &arena), to);
    arena_done(&arena);
    buf_add_format(to, ",%s", edm_type_name(property->type) + 4);
    return TW_OK;
}

enum tw_err csv_write_entity(const struct entity *entity,
    const struct slice *names, size_t count, struct buf *to, struct err *err)
{
    enum tw_err outcome = TW_OK;
    size_t next = 0;

    write_cell(entity->partition_key, to);
    buf_add_char(to, ',');
    write_cell(entity->row_key, to);
    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        bool has = next < entity->property_count &&
                   slice_equal(entity->properties[next].name, names[i]);

        buf_add_char(to, ',');
        if (has)
            outcome = write_property(&entity->properties[next++], to, err);
        else
            buf_add_char(to, ',');
    }
    buf_add_char(to, '\n');
    if (outcome == TW_OK && next < entity->property_count)
        return err_fail(err, TW_NOT_FOUND, "the header has no such property");
    return outcome;
}
