/* SPDX-License-Identifier: MIT */
/*
 * Reads a YAML file into a tree. It uses libyaml's events and not its
 * documents, for two reasons: events have positions; and an alias is one
 * event, so an alias bomb is refused before it is expanded.
 */
#include "config/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The maximum size of a file. A larger file was not written by a person. */
#define MAX_BYTES ((size_t)1024 * 1024)
/* The maximum depth of nodes, because the parser is recursive. Valid
 * configurations have less than a quarter of this depth. */
#define MAX_DEPTH 64
#define QUOTE_MAX 512

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event */
    const char *file;
    struct slice text;
    struct arena *arena;
    struct problems *problems;
};

/* The children of a list or a map that were read so far. */
struct children {
    struct yaml_node **keys, **items;
    size_t count, room;
};

static struct yaml_node *read_node(struct reader *reader, unsigned depth);

/* ---- secrets ---- */

/* Overwrite libyaml's copies of the text before they are freed, because the
 * text may hold a connection string. */
static void wipe_event(yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT)
        crypto_wipe(event->data.scalar.value, event->data.scalar.length);
    yaml_event_delete(event);
}

static void wipe_parser(yaml_parser_t *parser)
{
    crypto_wipe(parser->raw_buffer.start,
        (size_t)(parser->raw_buffer.end - parser->raw_buffer.start));
    crypto_wipe(parser->buffer.start,
        (size_t)(parser->buffer.end - parser->buffer.start));
    yaml_parser_delete(parser);
}

/* ---- positions and problems ---- */

static struct mark mark_of(const struct reader *reader, yaml_mark_t at)
{
    return (struct mark){
        reader->file, (unsigned)at.line + 1, (unsigned)at.column + 1};
}

/* Returns the position of the byte at offset. A column is a number of
 * characters, as in libyaml, so continuation bytes are not counted. */
static struct mark mark_at_offset(const struct reader *reader, size_t offset)
{
    struct mark mark = {reader->file, 1, 1};

    for (size_t i = 0; i < offset && i < reader->text.len; i++) {
        unsigned char c = (unsigned char)reader->text.at[i];

        if (c == '\n') {
            mark.line++;
            mark.column = 1;
        } else if ((c & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

/* Returns the line of the text that has the number `line`, counted from 0. */
static struct slice line_at(const struct reader *reader, size_t line)
{
    const char *at = reader->text.at, *end = at + reader->text.len, *stop;

    while (line > 0 && at < end) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at == NULL)
            return (struct slice){0};
        at++;
        line--;
    }
    if (at >= end)
        return (struct slice){0};
    stop = memchr(at, '\n', (size_t)(end - at));
    return (struct slice){at, (size_t)((stop ? stop : end) - at)};
}

/* Returns a hint if the line has one of two frequent mistakes that libyaml's
 * error text does not name; else "". */
static const char *hint_at(const struct reader *reader, size_t line)
{
    struct slice text = line_at(reader, line);
    size_t blanks = 0;

    while (blanks < text.len && text.at[blanks] == ' ')
        blanks++;
    if (blanks < text.len && text.at[blanks] == '\t')
        return " (indent with spaces, not with tabs)";
    if (text.len > 0 && memchr(text.at, '{', text.len) != NULL)
        return " (write a text with { in quotes)";
    return "";
}

/* Add libyaml's error to the problems. libyaml noticed the error at
 * problem_mark; the construct that contains the error starts at context_mark.
 */
static void report_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "not YAML";

    if (parser->error == YAML_READER_ERROR) {
        problems_add(reader->problems,
            mark_at_offset(reader, parser->problem_offset), "%s", problem);
    } else if (parser->context != NULL) {
        problems_add(reader->problems, mark_of(reader, parser->problem_mark),
            "%s, %s (line %zu)%s", problem, parser->context,
            parser->context_mark.line + 1,
            hint_at(reader, parser->problem_mark.line));
    } else {
        problems_add(reader->problems, mark_of(reader, parser->problem_mark),
            "%s%s", problem, hint_at(reader, parser->problem_mark.line));
    }
}

static bool next(struct reader *reader)
{
    wipe_event(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event))
        return true;
    report_syntax(reader);
    return false;
}

/* ---- what is refused ---- */

/* Returns the offset of the first byte that is not part of valid UTF-8. */
static size_t first_bad_byte(struct slice text)
{
    size_t begin = 0;

    while (begin < text.len) {
        size_t end = begin + 1;

        while (end < text.len && ((unsigned char)text.at[end] & 0xc0) == 0x80)
            end++;
        if (!text_is_utf8((struct slice){text.at + begin, end - begin}))
            break;
        begin = end;
    }
    return begin;
}

static bool check_bytes(const struct reader *reader)
{
    if (reader->text.len > MAX_BYTES) {
        problems_add(reader->problems, (struct mark){reader->file, 1, 1},
            "the file has %zu bytes; a configuration has at most %zu",
            reader->text.len, MAX_BYTES);
        return false;
    }
    if (!text_is_utf8(reader->text)) {
        problems_add(reader->problems,
            mark_at_offset(reader, first_bad_byte(reader->text)),
            "the file is not UTF-8 here: save it as UTF-8");
        return false;
    }
    return true;
}

static bool refuse(
    struct reader *reader, const char *what, const yaml_char_t *name)
{
    problems_add(reader->problems, mark_of(reader, reader->event.start_mark),
        "%s%s is not supported: write the value itself", what,
        name ? (const char *)name : "");
    return false;
}

/* Refuses anchors, aliases and tags. An anchor ends the parsing, because its
 * only use is an alias, which is refused too. A tag only adds a problem. */
static bool check_decoration(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (event->type == YAML_ALIAS_EVENT)
        return refuse(reader, "the alias *", event->data.alias.anchor);
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (tag != NULL)
        refuse(reader, "the tag ", tag);
    if (anchor != NULL)
        return refuse(reader, "the anchor &", anchor);
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const struct yaml_node *const *left = a, *const *right = b;
    int order = slice_compare((*left)->text, (*right)->text);

    if (order != 0)
        return order;
    if ((*left)->mark.line != (*right)->mark.line)
        return (*left)->mark.line < (*right)->mark.line ? -1 : 1;
    return (*left)->mark.column < (*right)->mark.column ? -1 : 1;
}

static void report_duplicate(struct problems *problems,
    const struct yaml_node *first, const struct yaml_node *again)
{
    struct buf quoted;

    buf_init(&quoted, QUOTE_MAX);
    text_quote(&quoted, again->text);
    problems_add(problems, again->mark,
        "duplicate key %s: line %u has it already", buf_text(&quoted),
        first->mark.line);
    buf_done(&quoted);
}

static void check_duplicates(struct reader *reader, const struct yaml_node *map)
{
    struct yaml_node **sorted =
        mem_array(map->count, sizeof(struct yaml_node *));

    if (map->count > 0)
        memcpy(sorted, map->keys, map->count * sizeof(struct yaml_node *));
    qsort(sorted, map->count, sizeof(struct yaml_node *), compare_keys);
    for (size_t i = 1; i < map->count; i++)
        if (slice_equal(sorted[i - 1]->text, sorted[i]->text))
            report_duplicate(reader->problems, sorted[i - 1], sorted[i]);
    mem_free(sorted);
}

/* ---- the tree ---- */

static struct yaml_node *new_node(struct reader *reader, enum yaml_type type)
{
    struct yaml_node *node = arena_alloc(reader->arena, sizeof(*node));

    node->type = type;
    node->mark = mark_of(reader, reader->event.start_mark);
    return node;
}

static struct yaml_node *read_scalar(struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    struct yaml_node *node = new_node(reader, YAML_SCALAR);
    struct slice text = {
        (const char *)event->data.scalar.value, event->data.scalar.length};

    if (text.len > 0 && memchr(text.at, '\0', text.len) != NULL)
        problems_add(reader->problems, node->mark,
            "a text must not contain a NUL character (\\0)");
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = arena_copy(reader->arena, text);
    return node;
}

static void children_add(
    struct children *children, struct yaml_node *key, struct yaml_node *item)
{
    if (children->count == children->room) {
        children->room = children->room ? children->room * 2 : 8;
        children->keys = mem_resize(
            children->keys, children->room * sizeof(struct yaml_node *));
        children->items = mem_resize(
            children->items, children->room * sizeof(struct yaml_node *));
    }
    children->keys[children->count] = key;
    children->items[children->count++] = item;
}

static struct yaml_node **in_arena(
    struct arena *arena, struct yaml_node **list, size_t count)
{
    size_t bytes = count * sizeof(struct yaml_node *);
    struct yaml_node **copy = arena_alloc(arena, bytes ? bytes : 1);

    if (bytes > 0)
        memcpy(copy, list, bytes);
    return copy;
}

static struct yaml_node *read_key(struct reader *reader)
{
    if (!check_decoration(reader))
        return NULL;
    if (reader->event.type == YAML_SCALAR_EVENT)
        return read_scalar(reader);
    problems_add(reader->problems, mark_of(reader, reader->event.start_mark),
        "a key must be a text, not a list or a map%s",
        hint_at(reader, reader->event.start_mark.line));
    return NULL;
}

/* Read the children up to the end event. with_keys: true if a key precedes each
 * item. */
static bool read_children(struct reader *reader, unsigned depth, bool with_keys,
    yaml_event_type_t end, struct children *children)
{
    for (;;) {
        struct yaml_node *key = NULL, *item;

        if (!next(reader))
            return false;
        if (reader->event.type == end)
            return true;
        if (with_keys) {
            key = read_key(reader);
            if (key == NULL || !next(reader))
                return false;
        }
        item = read_node(reader, depth + 1);
        if (item == NULL)
            return false;
        children_add(children, key, item);
    }
}

static struct yaml_node *read_collection(
    struct reader *reader, unsigned depth, enum yaml_type type)
{
    bool is_map = type == YAML_MAP;
    struct yaml_node *node = new_node(reader, type), *ret = NULL;
    struct children children = {0};

    if (depth > MAX_DEPTH) {
        problems_add(reader->problems, node->mark,
            "nested deeper than %d levels", MAX_DEPTH);
        goto done;
    }
    if (!read_children(reader, depth, is_map,
            is_map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT,
            &children))
        goto done;
    node->count = children.count;
    node->items = in_arena(reader->arena, children.items, children.count);
    if (is_map) {
        node->keys = in_arena(reader->arena, children.keys, children.count);
        check_duplicates(reader, node);
    }
    ret = node;
done:
    mem_free(children.keys);
    mem_free(children.items);
    return ret;
}

/* Read the node whose first event is the current one; its last event is current
 * afterwards. NULL: parsing has ended. */
static struct yaml_node *read_node(struct reader *reader, unsigned depth)
{
    if (!check_decoration(reader))
        return NULL;
    switch (reader->event.type) {
    case YAML_SEQUENCE_START_EVENT:
        return read_collection(reader, depth, YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return read_collection(reader, depth, YAML_MAP);
    default:
        return read_scalar(reader);
    }
}

/* Returns an empty map, for a file that has only comments or a lone `---`. */
static struct yaml_node *empty_map(struct reader *reader)
{
    struct yaml_node *map = new_node(reader, YAML_MAP);

    map->mark = (struct mark){reader->file, 1, 1};
    return map;
}

static struct yaml_node *read_document(struct reader *reader)
{
    struct yaml_node *root;

    if (!next(reader) || !next(reader)) /* the events that start the stream and
                                           the document */
        return NULL;
    if (reader->event.type == YAML_STREAM_END_EVENT)
        return empty_map(reader);
    if (!next(reader) || (root = read_node(reader, 1)) == NULL)
        return NULL;
    if (root->type == YAML_SCALAR && !root->quoted && root->text.len == 0)
        root = empty_map(reader);
    if (!next(reader) || !next(reader)) /* the events that end the document and
                                           the stream */
        return NULL;
    if (reader->event.type != YAML_STREAM_END_EVENT) {
        problems_add(reader->problems,
            mark_of(reader, reader->event.start_mark),
            "a second YAML document begins here; a configuration must be one "
            "document");
        return NULL;
    }
    return root;
}

struct yaml_node *yaml_read(const char *file, struct slice text,
    struct arena *arena, struct problems *problems)
{
    struct yaml_node *root = NULL;
    struct reader reader = {
        .file = arena_copy(arena, slice_of(file)).at,
        .text = text,
        .arena = arena,
        .problems = problems,
    };

    if (!check_bytes(&reader))
        return NULL;
    if (!yaml_parser_initialize(&reader.parser)) {
        problems_add(problems, (struct mark){file, 1, 1}, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser,
        (const unsigned char *)(text.at ? text.at : ""), text.len);
    root = read_document(&reader);
    wipe_event(&reader.event);
    wipe_parser(&reader.parser);
    return root;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (slice_is(map->keys[i]->text, key))
            return map->items[i];
    return NULL;
}
