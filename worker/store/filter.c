/* SPDX-License-Identifier: MIT */
/* OData filters: parsed once into a tree, evaluated per entity. */
#include "worker/store/filter.h"

#include <stdint.h>
#include <strings.h>

#include "worker/base/crypto.h"
#include "worker/base/text.h"

/* Maximum nesting of parentheses and nots. */
#define MAX_DEPTH 64

enum node_type { NODE_AND, NODE_OR, NODE_NOT, NODE_COMPARE };

enum comparison { CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_LT, CMP_LE };

struct constant {
    enum edm_type type;
    int64_t number; /* Int32, Int64, Boolean, DateTime (ticks) */
    double real;
    struct slice text; /* String decoded, Guid as written, Binary as bytes */
};

struct node {
    enum node_type type;
    const struct node *left, *right; /* NODE_NOT: left only */
    struct slice name; /* this and the fields below: NODE_COMPARE only */
    enum comparison comparison;
    struct constant constant;
    size_t name_at;    /* offset of the name in the text */
    size_t begin, end; /* begin: offset of the constant; end: offset of what
                          follows the constant */
};

struct filter {
    const struct node *root; /* NULL: matches everything */
    struct slice names[FILTER_MAX_COMPARISONS];
    size_t name_count;
    size_t comparisons;
};

/* ---- reading ---- */

struct parser {
    struct slice text;
    size_t at;
    unsigned depth;
    struct arena *arena;
    struct filter *filter;
    struct err *err;
};

/* Fails with the text `what`, and sets in->at to the position of the error. */
static enum tw_err fail(struct parser *in, size_t at, const char *what)
{
    in->at = at;
    return err_fail(in->err, TW_INVALID, "%s", what);
}

static bool at_end(const struct parser *in)
{
    return in->at == in->text.len;
}

static char peek(const struct parser *in)
{
    return at_end(in) ? '\0' : in->text.at[in->at];
}

/* Is c a character of set? Excludes NUL, which strchr() finds at the end of
 * every set. */
static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static void skip_blanks(struct parser *in)
{
    while (is_one_of(peek(in), " \t\r\n"))
        in->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           c == '_' || (unsigned char)c >= 0x80;
}

/* Returns the word at the current position, without advancing; may be empty. */
static struct slice peek_word(const struct parser *in)
{
    size_t end = in->at;

    while (end < in->text.len && is_word_char(in->text.at[end]))
        end++;
    return (struct slice){in->text.at + in->at, end - in->at};
}

static bool take_word(struct parser *in, const char *word)
{
    skip_blanks(in);
    if (!slice_is(peek_word(in), word))
        return false;
    in->at += strlen(word);
    return true;
}

static bool take_char(struct parser *in, char c)
{
    skip_blanks(in);
    if (at_end(in) || peek(in) != c)
        return false;
    in->at++;
    return true;
}

/* Reads the text between quotes at the current position, in which '' stands for
 * '. */
static enum tw_err read_quoted(struct parser *in, struct slice *ret)
{
    size_t start = in->at++;
    struct buf text;

    buf_init(&text, in->text.len);
    while (!at_end(in)) {
        char c = in->text.at[in->at++];

        if (c == '\'') {
            if (peek(in) != '\'') {
                *ret = arena_copy(in->arena, buf_slice(&text));
                buf_done(&text);
                return TW_OK;
            }
            in->at++;
        }
        buf_add_char(&text, c);
    }
    buf_done(&text);
    return fail(in, start,
        "this ' is never closed (a ' in a text is written "
        "'')");
}

static bool read_datetime(
    struct parser *in, struct slice text, struct constant *ret)
{
    (void)in;
    ret->type = EDM_DATETIME;
    return text.len > 0 && text.at[text.len - 1] == 'Z' &&
           text_ticks(text, &ret->number);
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_guid(
    struct parser *in, struct slice text, struct constant *ret)
{
    (void)in;
    ret->type = EDM_GUID;
    ret->text = text;
    return text_is_guid(text);
}

static bool read_binary(
    struct parser *in, struct slice text, struct constant *ret)
{
    char *bytes = arena_alloc(in->arena, text.len / 2 + 1);

    ret->type = EDM_BINARY;
    ret->text = (struct slice){bytes, text.len / 2};
    if (text.len % 2 != 0)
        return false;
    for (size_t i = 0; i < text.len; i += 2) {
        int high = hex_value(text.at[i]), low = hex_value(text.at[i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i / 2] = (char)(high * 16 + low);
    }
    return true;
}

/* Constants of the form prefix'...'. */
static const struct {
    const char *prefix;
    bool (*read)(struct parser *in, struct slice text, struct constant *ret);
    const char *wanted;
} quoted_kinds[] = {
    {"datetime", read_datetime,
        "a datetime is written datetime'2024-01-01T00:00:00Z'"},
    {"guid", read_guid,
        "a guid is written guid'01234567-89ab-cdef-0123-456789abcdef'"},
    {"X", read_binary, "a binary is written X'0aff', two digits a byte"},
    {"binary", read_binary,
        "a binary is written binary'0aff', two digits a byte"},
};

/* Returns the characters of a number: digits, point, exponent with its sign. */
static struct slice peek_number(const struct parser *in)
{
    size_t end = in->at;

    if (in->text.at[end] ==
        '-') /* the caller checked that this character exists */
        end++;
    while (end < in->text.len &&
           (is_word_char(in->text.at[end]) || in->text.at[end] == '.' ||
               (is_one_of(in->text.at[end], "+-") &&
                   is_one_of(in->text.at[end - 1], "eE"))))
        end++;
    return (struct slice){in->text.at + in->at, end - in->at};
}

static bool has_any(struct slice text, const char *of)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_one_of(text.at[i], of))
            return true;
    }
    return false;
}

static enum tw_err read_number(struct parser *in, struct constant *ret)
{
    size_t start = in->at;
    struct slice text = peek_number(in);
    struct slice digits = {text.at, text.len - (text.len > 0)};

    in->at += text.len;
    if (text.at[text.len - 1] == 'L') {
        ret->type = EDM_INT64;
        if (text_int64(digits, INT64_MIN, INT64_MAX, &ret->number))
            return TW_OK;
        return fail(in, start, "this is not a 64-bit number");
    }
    if (has_any(text, ".eE")) {
        ret->type = EDM_DOUBLE;
        if (text_double(text, &ret->real))
            return TW_OK;
        return fail(in, start, "this is not a number");
    }
    ret->type = EDM_INT32;
    if (text_int64(text, INT32_MIN, INT32_MAX, &ret->number))
        return TW_OK;
    if (text_int64(text, INT64_MIN, INT64_MAX, &ret->number))
        return fail(in, start, "this number needs 64 bits: append L");
    return fail(in, start, "this is not a number");
}

static enum tw_err read_prefixed(
    struct parser *in, struct slice word, struct constant *ret)
{
    size_t start = in->at;

    for (size_t i = 0; i < sizeof(quoted_kinds) / sizeof(quoted_kinds[0]);
         i++) {
        struct slice text;
        enum tw_err result;

        if (!slice_is(word, quoted_kinds[i].prefix))
            continue;
        in->at += word.len;
        result = read_quoted(in, &text);
        if (result == TW_OK && !quoted_kinds[i].read(in, text, ret))
            return fail(in, start, quoted_kinds[i].wanted);
        return result;
    }
    return fail(in, start,
        "invalid constant: expected 'text', datetime'', guid'', X'' or "
        "binary''");
}

static enum tw_err read_constant(struct parser *in, struct constant *ret)
{
    struct slice word;

    if (peek(in) == '\'') {
        ret->type = EDM_STRING;
        return read_quoted(in, &ret->text);
    }
    if (is_digit(peek(in)) || peek(in) == '-' || peek(in) == '.')
        return read_number(in, ret);
    word = peek_word(in);
    if (word.len > 0 && in->at + word.len < in->text.len &&
        word.at[word.len] == '\'')
        return read_prefixed(in, word, ret);
    if (slice_is(word, "true") || slice_is(word, "false")) {
        ret->type = EDM_BOOLEAN;
        ret->number = slice_is(word, "true");
        in->at += word.len;
        return TW_OK;
    }
    return fail(in, in->at,
        "expected a constant: 'text', 5, 5L, 2.5, true, false, datetime'', "
        "guid'', X''");
}

static enum tw_err read_operator(struct parser *in, enum comparison *ret)
{
    static const char *const names[] = {
        [CMP_EQ] = "eq",
        [CMP_NE] = "ne",
        [CMP_GT] = "gt",
        [CMP_GE] = "ge",
        [CMP_LT] = "lt",
        [CMP_LE] = "le",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (take_word(in, names[i])) {
            *ret = (enum comparison)i;
            return TW_OK;
        }
    }
    return fail(in, in->at, "expected eq, ne, gt, ge, lt or le");
}

static void remember_name(struct filter *filter, struct slice name)
{
    for (size_t i = 0; i < filter->name_count; i++) {
        if (slice_equal(filter->names[i], name))
            return;
    }
    filter->names[filter->name_count++] = name;
}

static bool is_reserved(struct slice word)
{
    static const char *const words[] = {"and", "or", "not", "eq", "ne", "gt",
        "ge", "lt", "le", "true", "false", "null"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_is(word, words[i]))
            return true;
    }
    return false;
}

static enum tw_err read_comparison(struct parser *in, struct node *node)
{
    struct slice word;
    enum tw_err result;

    skip_blanks(in);
    word = peek_word(in);
    if (at_end(in) || word.len == 0 || is_digit(word.at[0]) ||
        is_reserved(word))
        return fail(in, in->at, "expected the name of a property");
    if (in->filter->comparisons++ == FILTER_MAX_COMPARISONS)
        return fail(in, in->at,
            "this is the 16th comparison; the service "
            "takes at most 15");
    node->type = NODE_COMPARE;
    node->name = arena_copy(in->arena, word);
    node->name_at = in->at;
    in->at += word.len;
    result = read_operator(in, &node->comparison);
    if (result == TW_OK) {
        skip_blanks(in);
        node->begin = in->at;
        result = read_constant(in, &node->constant);
        node->end = in->at;
    }
    if (result == TW_OK)
        remember_name(in->filter, node->name);
    return result;
}

static enum tw_err read_or(struct parser *in, const struct node **ret);

static enum tw_err read_group(struct parser *in, const struct node **ret)
{
    size_t start = in->at - 1;
    enum tw_err result;

    if (in->depth++ == MAX_DEPTH)
        return fail(in, start, "the parentheses are nested too deeply");
    result = read_or(in, ret);
    if (result != TW_OK)
        return result;
    in->depth--;
    if (!take_char(in, ')'))
        return fail(in, in->at, "expected `and`, `or` or a )");
    return TW_OK;
}

static enum tw_err read_unary(struct parser *in, const struct node **ret)
{
    struct node *node;
    enum tw_err result;

    if (take_char(in, '('))
        return read_group(in, ret);
    node = arena_alloc(in->arena, sizeof(*node));
    if (take_word(in, "not")) {
        if (!take_char(in, '('))
            return fail(in, in->at, "expected ( after `not`");
        node->type = NODE_NOT;
        result = read_group(in, &node->left);
    } else {
        result = read_comparison(in, node);
    }
    if (result == TW_OK)
        *ret = node;
    return result;
}

/* Reads one or more operands that are joined by `word`. */
static enum tw_err read_joined(struct parser *in, const char *word,
    enum node_type type,
    enum tw_err (*operand)(struct parser *, const struct node **),
    const struct node **ret)
{
    enum tw_err result = operand(in, ret);

    while (result == TW_OK && take_word(in, word)) {
        struct node *node = arena_alloc(in->arena, sizeof(*node));

        node->type = type;
        node->left = *ret;
        result = operand(in, &node->right);
        *ret = node;
    }
    return result;
}

static enum tw_err read_and(struct parser *in, const struct node **ret)
{
    return read_joined(in, "and", NODE_AND, read_unary, ret);
}

static enum tw_err read_or(struct parser *in, const struct node **ret)
{
    return read_joined(in, "or", NODE_OR, read_and, ret);
}

static enum tw_err read_filter(struct parser *in)
{
    enum tw_err result;

    if (!text_is_utf8(in->text))
        return fail(in, 0, "not valid UTF-8");
    skip_blanks(in);
    if (at_end(in))
        return TW_OK;
    result = read_or(in, &in->filter->root);
    skip_blanks(in);
    if (result == TW_OK && !at_end(in))
        return fail(
            in, in->at, "expected `and`, `or` or the end of the filter");
    return result;
}

/* Returns the column of a byte offset, in characters from 1. */
static size_t column_of(struct slice text, size_t offset)
{
    size_t column = 1;

    for (size_t i = 0; i < offset; i++)
        column += (text.at[i] & 0xc0) != 0x80;
    return column;
}

enum tw_err filter_parse(struct slice text, struct arena *arena,
    const struct filter **ret, struct err *err)
{
    struct filter *filter = arena_alloc(arena, sizeof(*filter));
    struct parser in = {
        .text = text, .arena = arena, .filter = filter, .err = err};
    enum tw_err result = read_filter(&in);

    if (result == TW_OK)
        *ret = filter;
    else
        err_prefix(err, "filter, column %zu", column_of(text, in.at));
    return result;
}

enum tw_err filter_check(struct slice text, size_t *ret_offset, struct err *err)
{
    struct filter filter = {0};
    struct arena arena;
    struct parser in = {
        .text = text, .arena = &arena, .filter = &filter, .err = err};
    enum tw_err result;

    arena_init(&arena);
    result = read_filter(&in);
    arena_done(&arena);
    if (result != TW_OK)
        *ret_offset = in.at;
    return result;
}

/* ---- evaluating ---- */

/* The order of a property and a constant. NAN_MEETS: the property is NaN;
 * NO_MATCH: their types differ, or the property does not exist. */
enum order { LESS, EQUAL, MORE, NAN_MEETS, NO_MATCH };

static enum order order_of(int64_t sign)
{
    return sign < 0 ? LESS : sign > 0 ? MORE : EQUAL;
}

static enum order order_integers(int64_t a, int64_t b)
{
    return order_of((a > b) - (a < b));
}

static enum order order_doubles(double a, double b)
{
    if (a != a) /* b, a constant, is never NaN */
        return NAN_MEETS;
    return order_of((a > b) - (a < b));
}

static int compare_guids(struct slice a, struct slice b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = strncasecmp(a.at, b.at, shared);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static enum order order_binaries(struct slice base64, struct slice bytes)
{
    enum order order = NO_MATCH;
    struct buf decoded;

    buf_init(&decoded, base64.len);
    if (crypto_unbase64(&decoded, base64))
        order = order_of(slice_compare(buf_slice(&decoded), bytes));
    buf_done(&decoded);
    return order;
}

static enum order order_texts(
    const struct property *property, const struct constant *constant)
{
    enum order order = NO_MATCH;
    struct arena arena;
    struct slice text;

    arena_init(&arena);
    if (!property_peek_text(property, &arena, &text))
        order = NO_MATCH;
    else if (constant->type == EDM_GUID)
        order = order_of(compare_guids(text, constant->text));
    else if (constant->type == EDM_BINARY)
        order = order_binaries(text, constant->text);
    else
        order = order_of(text_utf16_compare(text, constant->text));
    arena_done(&arena);
    return order;
}

static enum order order_property(
    const struct property *property, const struct constant *constant)
{
    int64_t integer;
    double real;
    bool truth;

    if (property->type != constant->type)
        return NO_MATCH;
    if (property_integer(property, &integer) ||
        property_ticks(property, &integer))
        return order_integers(integer, constant->number);
    if (property_boolean(property, &truth))
        return order_integers(truth, constant->number);
    if (property_double(property, &real))
        return order_doubles(real, constant->real);
    return order_texts(property, constant);
}

static enum order order_key(struct slice key, const struct constant *constant)
{
    if (constant->type != EDM_STRING)
        return NO_MATCH;
    return order_of(text_utf16_compare(key, constant->text));
}

static enum order order_timestamp(
    struct slice timestamp, const struct constant *constant)
{
    int64_t ticks;

    if (constant->type != EDM_DATETIME || !text_ticks(timestamp, &ticks))
        return NO_MATCH;
    return order_integers(ticks, constant->number);
}

static enum order order_named(
    const struct node *node, const struct entity *entity)
{
    const struct property *property;

    if (slice_is(node->name, "PartitionKey"))
        return order_key(entity->partition_key, &node->constant);
    if (slice_is(node->name, "RowKey"))
        return order_key(entity->row_key, &node->constant);
    if (slice_is(node->name, "Timestamp"))
        return order_timestamp(entity->timestamp, &node->constant);
    property = entity_find(entity, node->name);
    return property ? order_property(property, &node->constant) : NO_MATCH;
}

static bool compare_matches(
    const struct node *node, const struct entity *entity)
{
    static const bool holds[][3] = {
        [CMP_EQ] = {[EQUAL] = true},
        [CMP_NE] = {[LESS] = true, [MORE] = true},
        [CMP_GT] = {[MORE] = true},
        [CMP_GE] = {[EQUAL] = true, [MORE] = true},
        [CMP_LT] = {[LESS] = true},
        [CMP_LE] = {[LESS] = true, [EQUAL] = true},
    };
    enum order order = order_named(node, entity);

    if (order == NO_MATCH)
        return false;
    if (order == NAN_MEETS)
        return node->comparison == CMP_NE;
    return holds[node->comparison][order];
}

static bool node_matches(const struct node *node, const struct entity *entity)
{
    switch (node->type) {
    case NODE_AND:
        return node_matches(node->left, entity) &&
               node_matches(node->right, entity);
    case NODE_OR:
        return node_matches(node->left, entity) ||
               node_matches(node->right, entity);
    case NODE_NOT:
        return !node_matches(node->left, entity);
    case NODE_COMPARE:
        return compare_matches(node, entity);
    }
    return false;
}

bool filter_matches(const struct filter *filter, const struct entity *entity)
{
    return filter == NULL || filter->root == NULL ||
           node_matches(filter->root, entity);
}

/*
 * What a change of an entity can do to the result of a node. A case is a number
 * of two bits: WAS is set if the result is true before the change, IS if it is
 * true after the change. A set of cases has bit (1 << case) for each of its
 * cases.
 */
enum { IS = 1, WAS = 2, CASES = 4 };

#define SET_OF(number) (1U << (number))

static const struct filter_known *find_known(
    const struct filter_known *known, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(known[i].name, name) && known[i].what != FILTER_SAME)
            return &known[i];
    return NULL;
}

static bool value_matches(
    const struct node *node, const struct filter_known *known)
{
    struct property value = *known->value;
    struct entity entity = {.properties = &value, .property_count = 1};
    struct arena arena;
    bool matches;

    arena_init(&arena);
    value.name = known->name;
    if (slice_is(value.name, "Timestamp"))
        (void)property_peek_text(&value, &arena, &entity.timestamp);
    matches = compare_matches(node, &entity);
    arena_done(&arena);
    return matches;
}

static unsigned compare_cases(
    const struct node *node, const struct filter_known *known)
{
    unsigned is = SET_OF(IS), is_not = SET_OF(0), after = is | is_not, cases;
    bool has_type;

    if (!known)
        return SET_OF(WAS | IS) | SET_OF(0);
    has_type = known->what == FILTER_TYPE || known->what == FILTER_RETYPED;
    if (known->what == FILTER_VALUE)
        after = value_matches(node, known) ? is : is_not;
    else if (known->what == FILTER_ABSENT ||
             (has_type && known->type != node->constant.type))
        after = is_not;
    cases = known->was_absent ? after : after | after << WAS;
    if (known->what == FILTER_RETYPED && known->type == node->constant.type)
        cases &= ~SET_OF(WAS);
    return cases;
}

static unsigned node_cases(
    const struct node *node, const struct filter_known *known, size_t count)
{
    unsigned left, right, cases = 0;

    if (node->type == NODE_COMPARE)
        return compare_cases(node, find_known(known, count, node->name));
    left = node_cases(node->left, known, count);
    right = node->type == NODE_NOT ? SET_OF(0)
                                   : node_cases(node->right, known, count);
    for (unsigned l = 0; l < CASES; l++)
        for (unsigned r = 0; r < CASES; r++)
            if (left & SET_OF(l) && right & SET_OF(r))
                cases |= SET_OF(node->type == NODE_NOT   ? l ^ (WAS | IS)
                                : node->type == NODE_AND ? l & r
                                                         : l | r);
    return cases;
}

struct filter_effect filter_effect(
    const struct filter *filter, const struct filter_known *known, size_t count)
{
    unsigned cases = filter->root ? node_cases(filter->root, known, count)
                                  : SET_OF(WAS | IS);

    return (struct filter_effect){
        .matches = cases & (SET_OF(IS) | SET_OF(WAS | IS)),
        .loses = cases & SET_OF(WAS)};
}

static bool is_plain(const struct node *node)
{
    enum edm_type type = node->constant.type;

    if (node->type == NODE_AND || node->type == NODE_OR)
        return is_plain(node->left) && is_plain(node->right);
    return node->type == NODE_COMPARE && node->comparison == CMP_EQ &&
           (type == EDM_STRING || type == EDM_BOOLEAN || type == EDM_GUID);
}

bool filter_is_plain(const struct filter *filter)
{
    return !filter->root || is_plain(filter->root);
}

size_t filter_comparisons(const struct filter *filter)
{
    return filter->comparisons;
}

const struct slice *filter_properties(
    const struct filter *filter, size_t *ret_count)
{
    *ret_count = filter->name_count;
    return filter->names;
}

static size_t add_equalities(
    const struct node *node, struct filter_equality *ret, size_t count)
{
    if (node->type == NODE_AND) {
        count = add_equalities(node->left, ret, count);
        return add_equalities(node->right, ret, count);
    }
    if (node->type != NODE_COMPARE || node->comparison != CMP_EQ ||
        node->constant.type != EDM_STRING)
        return count;
    ret[count] = (struct filter_equality){
        .name = node->name,
        .text = node->constant.text,
        .name_at = node->name_at,
        .begin = node->begin,
        .end = node->end,
    };
    return count + 1;
}

size_t filter_equalities(
    const struct filter *filter, struct filter_equality *ret)
{
    return filter->root ? add_equalities(filter->root, ret, 0) : 0;
}

void filter_add_literal(struct buf *to, struct slice text)
{
    buf_add_char(to, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\'')
            buf_add_char(to, '\'');
        buf_add_char(to, text.at[i]);
    }
    buf_add_char(to, '\'');
}
