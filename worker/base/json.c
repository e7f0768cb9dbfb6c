/* SPDX-License-Identifier: MIT */
/*
 * Two readers go over each text. The slicer, ours, is strict: it finds the
 * exact text of every value, refuses what is not JSON, too deep or badly
 * encoded, and ends where the value ends. json-c then decodes what the slicer
 * let through, and its tree is walked beside the slices.
 *
 * json-c allocates with malloc() and has no hook for another allocator; when
 * that fails it may drop a piece of a text without a word. So all that it
 * decodes is measured against what the slicer saw (members, elements, bytes of
 * each text), and less than that means memory ran out: mem_exhausted().
 */
#include "worker/base/json.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

/* json-c has an enum json_type too. */
#define json_type json_c_type
#include <json-c/json.h>
#undef json_type

#include "worker/base/mem.h"
#include "worker/base/text.h"

struct json {
    struct json_member member; /* no name: not in an object */
    size_t decoded_len;        /* of a JSON_STRING; set by the slicer */
    size_t name_len;           /* of the decoded name */
    struct json *children;     /* count of them, in arena */
    size_t count;
};

/* The value that json_parse() gives: its root, and what holds all of it. */
struct document {
    struct json root; /* first, so that a root is a document */
    struct arena arena;
};

/* Slicer */

struct scan {
    const char *start;
    const char *at;
    const char *end;
    struct arena *arena;
    struct err *err;
    unsigned depth_left;
    size_t values_left, max_values;
    /* Children of the containers that are open, the innermost last. */
    struct json *stack;
    size_t stack_count, stack_room;
};

static enum tw_err refuse_at(
    struct scan *scan, const char *at, const char *what)
{
    return err_fail(scan->err, TW_INVALID, "not valid JSON at byte %zu: %s",
        (size_t)(at - scan->start), what);
}

static enum tw_err refuse(struct scan *scan, const char *what)
{
    return refuse_at(
        scan, scan->at, scan->at == scan->end ? "it ends too early" : what);
}

static size_t count_blanks(struct slice text)
{
    size_t n = 0;

    while (n < text.len && (text.at[n] == ' ' || text.at[n] == '\n' ||
                               text.at[n] == '\r' || text.at[n] == '\t'))
        n++;
    return n;
}

static void skip_blanks(struct scan *scan)
{
    size_t left = (size_t)(scan->end - scan->at);

    if (left > 0)
        scan->at += count_blanks((struct slice){scan->at, left});
}

/* Skip blanks, then c if it is there. */
static bool accept(struct scan *scan, char c)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* What the slicer learns of a string beside its text. */
struct string_facts {
    size_t decoded_len;
    bool has_nul;
    bool after_high; /* the last thing was a high surrogate, counted as 3 */
};

/* The code unit of the four hex digits at `at`, or -1. */
static int hex_unit(const char *at, const char *end)
{
    int unit = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Count a \u escape: a pair is 4 bytes, a surrogate alone is U+FFFD. */
static void count_unit(struct string_facts *facts, int unit)
{
    bool after_high = facts->after_high;

    facts->after_high = unit >= 0xd800 && unit < 0xdc00;
    facts->has_nul |= unit == 0;
    if (unit >= 0xdc00 && unit < 0xe000 && after_high)
        facts->decoded_len += 1; /* the high one counted 3 already */
    else
        facts->decoded_len += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
}

/* Read the escape whose backslash is next. */
static enum tw_err scan_escape(struct scan *scan, struct string_facts *facts)
{
    int unit;

    if (scan->end - scan->at < 2)
        return refuse_at(scan, scan->end, "it ends too early");
    if (scan->at[1] == 'u') {
        unit = hex_unit(scan->at + 2, scan->end);
        if (unit < 0)
            return refuse(scan, "\\u needs four hex digits");
        count_unit(facts, unit);
        scan->at += 6;
        return TW_OK;
    }
    if (!memchr("\"\\/bfnrt", scan->at[1], 8))
        return refuse(scan, "an unknown escape");
    facts->after_high = false;
    facts->decoded_len++;
    scan->at += 2;
    return TW_OK;
}

/* The bytes up to the next quote, backslash or control character. */
static size_t plain_run(const struct scan *scan)
{
    const char *at = scan->at;

    while (at < scan->end && *at != '"' && *at != '\\' &&
           (unsigned char)*at >= 0x20)
        at++;
    return (size_t)(at - scan->at);
}

/* Read the string whose quote is next; *ret: its text with both quotes. */
static enum tw_err scan_string(
    struct scan *scan, struct slice *ret, struct string_facts *facts)
{
    const char *from = scan->at++;
    enum tw_err code;

    *facts = (struct string_facts){0};
    while (scan->at < scan->end && *scan->at != '"') {
        size_t run = plain_run(scan);

        if (run > 0) {
            if (!text_is_utf8((struct slice){scan->at, run}))
                return refuse(scan, "a string that is not UTF-8");
            facts->decoded_len += run;
            facts->after_high = false;
            scan->at += run;
        } else if (*scan->at != '\\') {
            return refuse(scan, "a control character in a string");
        } else {
            code = scan_escape(scan, facts);
            if (code != TW_OK)
                return code;
        }
    }
    if (scan->at == scan->end)
        return refuse(scan, "");
    scan->at++;
    *ret = (struct slice){from, (size_t)(scan->at - from)};
    return TW_OK;
}

static enum tw_err scan_text(struct scan *scan, struct json *value)
{
    struct string_facts facts;
    enum tw_err code = scan_string(scan, &value->member.raw, &facts);

    value->member.type = JSON_STRING;
    value->decoded_len = facts.decoded_len;
    return code;
}

static void skip_digits(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
}

/* One digit at least. */
static bool accept_digits(struct scan *scan)
{
    const char *from = scan->at;

    skip_digits(scan);
    return scan->at > from;
}

static bool accept_any(struct scan *scan, const char *set)
{
    if (scan->at == scan->end || *scan->at == '\0' || !strchr(set, *scan->at))
        return false;
    scan->at++;
    return true;
}

static enum tw_err scan_number(struct scan *scan, struct json *value)
{
    const char *from = scan->at;

    accept_any(scan, "-");
    if (!accept_any(scan, "0") && !accept_digits(scan))
        return refuse(scan, "a number needs a digit here");
    if (accept_any(scan, ".") && !accept_digits(scan))
        return refuse(scan, "a number needs a digit after its point");
    if (accept_any(scan, "eE")) {
        accept_any(scan, "+-");
        if (!accept_digits(scan))
            return refuse(scan, "a number needs a digit in its exponent");
    }
    if (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        return refuse(scan, "a number with a leading zero");
    value->member.type = JSON_NUMBER;
    value->member.raw = (struct slice){from, (size_t)(scan->at - from)};
    return TW_OK;
}

/* Read true, false or null. */
static enum tw_err scan_word(struct scan *scan, struct json *value)
{
    static const struct {
        const char *word;
        enum json_type type;
    } words[] = {
        {"true", JSON_BOOLEAN},
        {"false", JSON_BOOLEAN},
        {"null", JSON_NULL},
    };
    struct slice rest = {scan->at, (size_t)(scan->end - scan->at)};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct slice word = slice_of(words[i].word);

        if (!slice_begins(rest, word))
            continue;
        value->member.type = words[i].type;
        value->member.raw = (struct slice){scan->at, word.len};
        scan->at += word.len;
        return TW_OK;
    }
    return refuse(scan, "a value is needed here");
}

/* Put child among the children of the innermost open container. */
static void push(struct scan *scan, const struct json *child)
{
    if (scan->stack_count == scan->stack_room) {
        size_t room = scan->stack_room ? scan->stack_room * 2 : 32;

        if (room > SIZE_MAX / sizeof(*scan->stack))
            mem_exhausted();
        scan->stack = mem_resize(scan->stack, room * sizeof(*scan->stack));
        scan->stack_room = room;
    }
    scan->stack[scan->stack_count++] = *child;
}

/* Take the children from index `from` off the stack, for value to have. */
static void adopt(struct scan *scan, struct json *value, size_t from)
{
    size_t count = scan->stack_count - from;

    value->count = count;
    scan->stack_count = from;
    if (count == 0)
        return;
    value->children = arena_alloc(scan->arena, count * sizeof(struct json));
    memcpy(
        value->children, scan->stack + from, count * sizeof(*value->children));
}

/* Read "name": ; the name still with its quotes. */
static enum tw_err scan_name(struct scan *scan, struct json *child)
{
    struct string_facts facts;
    enum tw_err code;

    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return refuse(scan, "a name in double quotes is needed here");
    code = scan_string(scan, &child->member.name, &facts);
    if (code != TW_OK)
        return code;
    if (facts.has_nul)
        return refuse_at(scan, child->member.name.at, "a name with a NUL");
    child->name_len = facts.decoded_len;
    if (!accept(scan, ':'))
        return refuse(scan, "a colon is needed here");
    return TW_OK;
}

static enum tw_err scan_value(struct scan *scan, struct json *value);

/* Read an array or an object, whose bracket is next. */
static enum tw_err scan_container(struct scan *scan, struct json *value)
{
    bool object = *scan->at == '{';
    char close = object ? '}' : ']';
    const char *from = scan->at;
    size_t first = scan->stack_count;
    enum tw_err code;

    if (scan->depth_left == 0)
        return refuse(scan, "nested too deeply");
    scan->depth_left--;
    scan->at++;
    value->member.type = object ? JSON_OBJECT : JSON_ARRAY;
    if (!accept(scan, close)) {
        do {
            struct json child = {0};

            code = object ? scan_name(scan, &child) : TW_OK;
            if (code == TW_OK)
                code = scan_value(scan, &child);
            if (code != TW_OK)
                return code;
            push(scan, &child);
        } while (accept(scan, ','));
        if (!accept(scan, close))
            return refuse(scan, object ? "a comma or } is needed here"
                                       : "a comma or ] is needed here");
    }
    scan->depth_left++;
    adopt(scan, value, first);
    value->member.raw = (struct slice){from, (size_t)(scan->at - from)};
    return TW_OK;
}

static enum tw_err scan_value(struct scan *scan, struct json *value)
{
    skip_blanks(scan);
    if (scan->at == scan->end)
        return refuse(scan, "");
    if (scan->values_left == 0)
        return err_fail(scan->err, TW_INVALID,
            "JSON of more than %zu values, which is the most, at byte %zu",
            scan->max_values, (size_t)(scan->at - scan->start));
    scan->values_left--;
    if (*scan->at == '{' || *scan->at == '[')
        return scan_container(scan, value);
    if (*scan->at == '"')
        return scan_text(scan, value);
    if (*scan->at == '-' || (*scan->at >= '0' && *scan->at <= '9'))
        return scan_number(scan, value);
    return scan_word(scan, value);
}

/* How a text is read. */
struct reading {
    unsigned max_depth;
    size_t max_values;
    const char *annotation; /* names that begin so may be repeated; or NULL */
    struct arena *slices;   /* for slices of containers */
    struct arena *arena;    /* for decoded texts */
};

/* Slice the value at the start of text; *ret_end: where it ended. */
static enum tw_err slice_value(struct slice text, const struct reading *how,
    struct json *value, size_t *ret_end, struct err *err)
{
    struct scan scan = {
        .start = text.at,
        .at = text.at,
        .end = text.len ? text.at + text.len : text.at,
        .arena = how->slices,
        .err = err,
        .depth_left = how->max_depth,
        .values_left = how->max_values,
        .max_values = how->max_values,
    };
    enum tw_err code = scan_value(&scan, value);

    mem_free(scan.stack);
    if (code == TW_OK)
        *ret_end = (size_t)(scan.at - scan.start);
    return code;
}

/* Decoder */

struct decoder {
    struct slice text; /* all of it, for offsets */
    struct arena *arena;
    struct err *err;
};

/* The character that the escapes at the start of text are a pair for, or 0. */
static uint32_t escaped_pair(struct slice text)
{
    const char *end = text.at + text.len;
    int high, low;

    if (text.len < 12 || text.at[1] != 'u' || text.at[6] != '\\' ||
        text.at[7] != 'u')
        return 0;
    high = hex_unit(text.at + 2, end);
    low = hex_unit(text.at + 8, end);
    if (high < 0xd800 || high > 0xdbff || low < 0xdc00 || low > 0xdfff)
        return 0;
    return 0x10000 + ((uint32_t)(high - 0xd800) << 10) +
           (uint32_t)(low - 0xdc00);
}

/* Add text with every pair of escapes as the character that it is. */
static void add_without_pairs(struct buf *to, struct slice text)
{
    size_t from = 0, i = 0;

    while (i < text.len) {
        struct slice rest = {text.at + i, text.len - i};
        uint32_t c = *rest.at == '\\' ? escaped_pair(rest) : 0;

        if (c == 0) {
            i += *rest.at == '\\' ? 2 : 1;
            continue;
        }
        buf_add(to, text.at + from, i - from);
        text_encode(to, c);
        from = i += 12;
    }
    buf_add(to, text.at + from, text.len - from);
}

static bool may_have_pairs(struct slice text)
{
    return memmem(text.at, text.len, "\\ud", 3) != NULL ||
           memmem(text.at, text.len, "\\uD", 3) != NULL;
}

static enum tw_err read_plain(struct slice text, unsigned depth,
    struct json_object **ret, struct err *err)
{
    struct json_tokener *tokener;
    enum json_tokener_error error;
    struct json_object *tree;

    if (text.len >= INT_MAX)
        return err_fail(
            err, TW_TOO_LARGE, "JSON of %zu bytes is too long", text.len);
    /* It wants a level for the value itself, and one to spare. */
    tokener = json_tokener_new_ex((int)depth + 2);
    if (!tokener)
        mem_exhausted();
    json_tokener_set_flags(
        tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    tree = json_tokener_parse_ex(tokener, text.at, (int)text.len);
    error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue) { /* a number may go on: it does not */
        tree = json_tokener_parse_ex(tokener, "", 1);
        error = json_tokener_get_error(tokener);
    }
    json_tokener_free(tokener);
    if (error != json_tokener_success)
        return err_fail(err, TW_INVALID, "not valid JSON: %s",
            json_tokener_error_desc(error));
    *ret = tree;
    return TW_OK;
}

/*
 * Let json-c read text, which the slicer found to be one value. TW_OK with
 * NULL is null. json-c 0.16 puts a pair of escapes together and then looks at
 * the lower 16 bits of it: \ud836\udc00, U+1D800, is half a pair again to it.
 * So it is given such characters as they are.
 */
static enum tw_err read_tree(struct slice text, unsigned depth,
    struct json_object **ret, struct err *err)
{
    struct buf plain;
    enum tw_err code;

    if (!may_have_pairs(text))
        return read_plain(text, depth, ret, err);
    buf_init(&plain, text.len);
    add_without_pairs(&plain, text);
    code = read_plain(buf_slice(&plain), depth, ret, err);
    buf_done(&plain);
    return code;
}

/* The arena's copy of a decoded text, which must have the length foreseen. */
static struct slice keep(
    struct arena *arena, const char *at, size_t len, size_t foreseen)
{
    if (!at || len != foreseen)
        mem_exhausted();
    return arena_copy(arena, (struct slice){at, len});
}

/* Whether tree has a member of the name that is written as raw, and it is not
 * the one that stands at place. */
static bool stands_elsewhere(
    struct json_object *tree, struct slice raw, const char *place)
{
    struct json_object *name = NULL;
    const char *decoded;
    bool elsewhere;

    if (read_tree(raw, 1, &name, NULL) != TW_OK || !name)
        mem_exhausted();
    decoded = json_object_get_string(name);
    if (!decoded)
        mem_exhausted();
    elsewhere = !place || strcmp(decoded, place) != 0;
    if (elsewhere && !json_object_object_get_ex(tree, decoded, NULL))
        mem_exhausted();
    json_object_put(name);
    return elsewhere;
}

/*
 * Say which name came twice. json-c leaves the first in its place, so the
 * second is the first name that differs from the tree's in its place.
 */
static enum tw_err refuse_duplicate(const struct decoder *decoder,
    struct json_object *tree, const struct json *value)
{
    struct json_object_iterator at = json_object_iter_begin(tree);
    struct json_object_iterator end = json_object_iter_end(tree);
    struct slice raw = {0};

    for (size_t i = 0; i < value->count; i++) {
        bool over = json_object_iter_equal(&at, &end);

        raw = value->children[i].member.name;
        if (stands_elsewhere(
                tree, raw, over ? NULL : json_object_iter_peek_name(&at)))
            break;
        json_object_iter_next(&at);
    }
    return err_fail(decoder->err, TW_INVALID,
        "not valid JSON at byte %zu: a name that was there before",
        (size_t)(raw.at - decoder->text.at));
}

static enum tw_err decode(const struct decoder *decoder,
    struct json_object *tree, struct json *value);

static enum tw_err decode_object(
    const struct decoder *decoder, struct json_object *tree, struct json *value)
{
    struct json_object_iterator at;
    enum tw_err code = TW_OK;

    if ((size_t)json_object_object_length(tree) != value->count)
        return refuse_duplicate(decoder, tree, value);
    at = json_object_iter_begin(tree);
    for (size_t i = 0; code == TW_OK && i < value->count; i++) {
        struct json *child = &value->children[i];
        const char *name = json_object_iter_peek_name(&at);

        child->member.name =
            keep(decoder->arena, name, strlen(name), child->name_len);
        code = decode(decoder, json_object_iter_peek_value(&at), child);
        json_object_iter_next(&at);
    }
    return code;
}

static enum tw_err decode_array(
    const struct decoder *decoder, struct json_object *tree, struct json *value)
{
    enum tw_err code = TW_OK;

    if (json_object_array_length(tree) != value->count)
        mem_exhausted();
    for (size_t i = 0; code == TW_OK && i < value->count; i++)
        code = decode(
            decoder, json_object_array_get_idx(tree, i), &value->children[i]);
    return code;
}

/* Whether tree, NULL for null, is what the slicer saw. */
static bool is_of_type(struct json_object *tree, enum json_type type)
{
    switch (json_object_get_type(tree)) {
    case json_type_null:
        return type == JSON_NULL;
    case json_type_boolean:
        return type == JSON_BOOLEAN;
    case json_type_int:
    case json_type_double:
        return type == JSON_NUMBER;
    case json_type_string:
        return type == JSON_STRING;
    case json_type_array:
        return type == JSON_ARRAY;
    case json_type_object:
        return type == JSON_OBJECT;
    }
    return false;
}

/* Put what json-c decoded beside what was sliced. */
static enum tw_err decode(
    const struct decoder *decoder, struct json_object *tree, struct json *value)
{
    struct json_member *member = &value->member;

    if (!is_of_type(tree, member->type))
        mem_exhausted();
    switch (member->type) {
    case JSON_NULL:
        return TW_OK;
    case JSON_BOOLEAN:
        member->text =
            slice_of(json_object_get_boolean(tree) ? "true" : "false");
        return TW_OK;
    case JSON_NUMBER:
        member->text = arena_copy(decoder->arena, member->raw);
        return TW_OK;
    case JSON_STRING:
        member->text = keep(decoder->arena, json_object_get_string(tree),
            (size_t)json_object_get_string_len(tree), value->decoded_len);
        return TW_OK;
    case JSON_ARRAY:
        return decode_array(decoder, tree, value);
    case JSON_OBJECT:
        return decode_object(decoder, tree, value);
    }
    return TW_OK;
}

/* The kept annotation whose name is written as `name`, or NULL. */
static struct json *find_annotation(
    struct json *const *kept, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(kept[i]->member.name, name))
            return kept[i];
    return NULL;
}

/*
 * Give each repeated annotation of the object its last value, in the place of
 * the first: what json-c's tree has. Names still have their quotes. Only so
 * many different ones are kept, so that the work does not grow with the square
 * of the object's length.
 */
static void merge_annotations(struct json *value, const char *annotation)
{
    struct json *kept[JSON_MAX_ANNOTATIONS];
    size_t annotations = 0, count = 0;

    for (size_t i = 0; i < value->count; i++) {
        struct json *child = &value->children[i], *first;
        struct slice name = child->member.name;
        struct slice inner = {name.at + 1, name.len - 2};

        value->children[count] = *child;
        if (slice_begins(inner, slice_of(annotation))) {
            first = find_annotation(kept, annotations, name);
            if (first != NULL) {
                *first = *child;
                continue;
            }
            if (annotations < JSON_MAX_ANNOTATIONS)
                kept[annotations++] = &value->children[count];
        }
        count++;
    }
    value->count = count;
}

/* Slice and decode the value at the start of text. */
static enum tw_err read_value(struct slice text, const struct reading *how,
    struct json *value, size_t *ret_end, struct err *err)
{
    const struct decoder decoder = {text, how->arena, err};
    struct json_object *tree = NULL;
    enum tw_err code;

    assert(how->max_depth <= JSON_DEPTH_LIMIT);
    code = slice_value(text, how, value, ret_end, err);
    if (code == TW_OK)
        code = read_tree(value->member.raw, how->max_depth + 1, &tree, err);
    if (code == TW_OK && how->annotation && value->member.type == JSON_OBJECT)
        merge_annotations(value, how->annotation);
    if (code == TW_OK)
        code = decode(&decoder, tree, value);
    json_object_put(tree);
    return code;
}

/* Public */

enum tw_err json_parse(
    struct slice text, unsigned max_depth, struct json **ret, struct err *err)
{
    struct document *document = mem_alloc(sizeof(*document));
    struct reading how;
    struct slice blanks;
    size_t end = 0, skipped;
    enum tw_err code;

    arena_init(&document->arena);
    how = (struct reading){.max_depth = max_depth,
        .max_values = JSON_MAX_VALUES,
        .slices = &document->arena,
        .arena = &document->arena};
    code = read_value(text, &how, &document->root, &end, err);
    if (code == TW_OK) {
        blanks = (struct slice){text.at + end, text.len - end};
        skipped = count_blanks(blanks);
        if (skipped < blanks.len)
            code = err_fail(err, TW_INVALID,
                "not valid JSON at byte %zu: something follows its end",
                end + skipped);
    }
    if (code != TW_OK)
        json_free(&document->root);
    else
        *ret = &document->root;
    return code;
}

void json_free(struct json *json)
{
    struct document *document = (struct document *)json;

    if (!document)
        return;
    arena_done(&document->arena);
    mem_free(document);
}

enum tw_err json_annotated_object(struct slice text, const char *annotation,
    struct arena *scratch, struct arena *arena, struct json_member **ret,
    size_t *ret_count, size_t *ret_end, struct err *err)
{
    const struct reading how = {
        .max_depth = 1,
        .max_values = 1 + JSON_MAX_MEMBERS, /* the object is one itself */
        .annotation = annotation,
        .slices = scratch,
        .arena = arena,
    };
    struct json value = {0};
    struct json_member *members;
    size_t end = 0;
    enum tw_err code;

    code = read_value(text, &how, &value, &end, err);
    if (code == TW_OK && value.member.type != JSON_OBJECT)
        code = err_fail(
            err, TW_INVALID, "not valid JSON at byte 0: no object is here");
    if (code == TW_OK) {
        members = arena_alloc(scratch, value.count * sizeof(*members));
        for (size_t i = 0; i < value.count; i++)
            members[i] = value.children[i].member;
        *ret = members;
        *ret_count = value.count;
        *ret_end = end;
    }
    return code;
}

enum tw_err json_flat_object(struct slice text, struct arena *scratch,
    struct arena *arena, struct json_member **ret, size_t *ret_count,
    size_t *ret_end, struct err *err)
{
    return json_annotated_object(
        text, NULL, scratch, arena, ret, ret_count, ret_end, err);
}

enum json_type json_type(const struct json *json)
{
    return json->member.type;
}

struct slice json_raw(const struct json *json)
{
    return json->member.raw;
}

struct slice json_string(const struct json *json)
{
    assert(json->member.type == JSON_STRING);
    return json->member.text;
}

bool json_boolean(const struct json *json)
{
    assert(json->member.type == JSON_BOOLEAN);
    return slice_is(json->member.text, "true");
}

bool json_int64(const struct json *json, int64_t *ret)
{
    return json->member.type == JSON_NUMBER &&
           text_int64(json->member.text, INT64_MIN, INT64_MAX, ret);
}

size_t json_count(const struct json *json)
{
    return json->count;
}

const struct json *json_at(const struct json *array, size_t index)
{
    assert(index < array->count);
    return &array->children[index];
}

const struct json *json_get(const struct json *object, const char *name)
{
    if (object->member.type != JSON_OBJECT)
        return NULL;
    for (size_t i = 0; i < object->count; i++)
        if (slice_is(object->children[i].member.name, name))
            return &object->children[i];
    return NULL;
}

struct slice json_name(const struct json *object, size_t index)
{
    return json_at(object, index)->member.name;
}

const struct json *json_value(const struct json *object, size_t index)
{
    return json_at(object, index);
}

/* The escape of a character that has a short one, or NULL. */
static const char *short_escape(char c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

void json_add_string(struct buf *to, struct slice text)
{
    size_t from = 0, len;

    buf_add_char(to, '"');
    for (size_t i = 0; i < text.len; i += len) {
        struct slice rest = {text.at + i, text.len - i};
        const char *escape = short_escape(text.at[i]);
        uint32_t c = text_decode(rest, &len);

        if (!escape && !text_is_hidden(c))
            continue;
        buf_add(to, text.at + from, i - from);
        from = i + len;
        if (escape)
            buf_add_text(to, escape);
        else
            buf_add_format(to, "\\u%04x", (unsigned)c);
    }
    if (from < text.len)
        buf_add(to, text.at + from, text.len - from);
    buf_add_char(to, '"');
}
