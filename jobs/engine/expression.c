/* SPDX-License-Identifier: MIT */
/* Expressions of templates: a recursive-descent parser, whose nodes have a
 * function that evaluates them. */
#include "jobs/engine/expression.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "config/settings.h"
#include "jobs/engine/run.h"
#include "worker/base/crypto.h"
#include "worker/base/text.h"
#include "worker/store/canonical.h"

/* MAX_DEPTH: limit of the nested levels of an expression, which bounds the
 * stack. MAX_NODES: limit of its nodes. An expression written in one line is
 * far below both limits. */
#define MAX_DEPTH 64
#define MAX_NODES 1000
/* Limit, in bytes, of the text of an expression for messages
 * (expression->source). The messages are cut to fewer bytes anyway. */
#define VISIBLE_MAX_BYTES (64 * 1024)
/* Limit, in bytes, of a text that replace() makes. No property has a longer
 * text. */
#define TEXT_MAX_BYTES ENTITY_MAX_BYTES

/* The input of an evaluation. */
struct scene {
    const struct run_args *args;
    const struct entity *entity;
    struct arena *arena;
    struct err *err;
};

struct function;
struct comparison;
struct arithmetic;

struct expression {
    enum tw_err (*evaluate)(const struct expression *expression,
        struct scene *scene, struct value *ret);
    enum value_kind kind;
    size_t offset;       /* offset in the template, for the position of
                          * problems */
    struct slice text;   /* text of the expression in the template */
    struct slice source; /* text of the expression for messages, with control
                          * characters made visible */
    const struct expression *operands[3];
    const struct function *function;
    const struct comparison *comparison;
    const struct arithmetic *arithmetic;
    struct value constant;
    size_t arg;
};

const char *value_kind_name(enum value_kind kind)
{
    static const char *const names[] = {
        [VALUE_UNKNOWN] = "unknown",
        [VALUE_INTEGER] = "an integer",
        [VALUE_TEXT] = "a text",
        [VALUE_BOOLEAN] = "true or false",
        [VALUE_DATETIME] = "a DateTime",
        [VALUE_DOUBLE] = "a Double",
    };

    return names[kind];
}

struct slice value_text(const struct value *value, struct arena *arena)
{
    char time[TEXT_TIME_MAX];

    switch (value->kind) {
    case VALUE_INTEGER:
        return arena_format(arena, "%" PRId64, value->integer);
    case VALUE_BOOLEAN:
        return slice_of(value->integer ? "true" : "false");
    case VALUE_DATETIME:
        return arena_copy(
            arena, slice_of(text_from_ticks(value->integer, time)));
    case VALUE_TEXT:
    case VALUE_DOUBLE:
    case VALUE_UNKNOWN: /* impossible: the evaluation has failed before */
        break;
    }
    return value->text;
}

/* ---- evaluating ---- */

static enum tw_err evaluate(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    return expression->evaluate(expression, scene, ret);
}

static enum tw_err evaluate_as(const struct expression *expression,
    enum value_kind wanted, const char *who, struct scene *scene,
    struct value *ret)
{
    enum tw_err result = evaluate(expression, scene, ret);

    if (result != TW_OK || wanted == VALUE_UNKNOWN || ret->kind == wanted)
        return result;
    return err_fail(scene->err, TW_INVALID, "%.*s is %s; %s needs %s",
        SLICE_ARG(expression->source), value_kind_name(ret->kind), who,
        value_kind_name(wanted));
}

static enum tw_err evaluate_constant(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    (void)scene;
    *ret = expression->constant;
    return TW_OK;
}

static enum tw_err evaluate_arg(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    if (scene->args == NULL || expression->arg >= scene->args->count)
        return err_fail(scene->err, TW_INVALID, "argument %.*s is missing",
            SLICE_ARG(expression->source));
    *ret = (struct value){
        .kind = VALUE_TEXT, .text = scene->args->values[expression->arg]};
    return TW_OK;
}

static enum tw_err evaluate_partition_key(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    (void)expression;
    *ret = (struct value){
        .kind = VALUE_TEXT, .text = scene->entity->partition_key};
    return TW_OK;
}

static enum tw_err evaluate_row_key(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    (void)expression;
    *ret = (struct value){.kind = VALUE_TEXT, .text = scene->entity->row_key};
    return TW_OK;
}

/* Reads Timestamp, which is a field of struct entity and not in the list of
 * properties. */
static enum tw_err evaluate_timestamp(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    int64_t ticks;

    (void)expression;
    if (!text_ticks(scene->entity->timestamp, &ticks))
        return err_fail(
            scene->err, TW_INVALID, "property Timestamp is missing");
    *ret = (struct value){.kind = VALUE_DATETIME, .integer = ticks};
    return TW_OK;
}

static bool read_value(
    const struct property *property, struct arena *arena, struct value *ret)
{
    bool truth;

    *ret = (struct value){.wide = property->type == EDM_INT64};
    if (property_integer(property, &ret->integer)) {
        ret->kind = VALUE_INTEGER;
    } else if (property_ticks(property, &ret->integer)) {
        ret->kind = VALUE_DATETIME;
    } else if (property_boolean(property, &truth)) {
        ret->kind = VALUE_BOOLEAN;
        ret->integer = truth;
    } else if (canonical_text(property, arena, &ret->text)) {
        ret->kind =
            property_double(property, &ret->real) ? VALUE_DOUBLE : VALUE_TEXT;
    }
    return ret->kind != VALUE_UNKNOWN;
}

static enum tw_err evaluate_property(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    const struct property *property =
        entity_find(scene->entity, expression->text);

    if (property == NULL)
        return err_fail(scene->err, TW_INVALID, "property %.*s is missing",
            SLICE_ARG(expression->source));
    if (!read_value(property, scene->arena, ret))
        return err_fail(scene->err, TW_INVALID,
            "the value of property %.*s is not a valid %s",
            SLICE_ARG(expression->source), edm_type_name(property->type));
    return TW_OK;
}

/* Arithmetic: each function returns the reason why it fails, or NULL. */
static const char *add(int64_t a, int64_t b, int64_t *ret)
{
    return __builtin_add_overflow(a, b, ret) ? "overflows 64 bits" : NULL;
}

static const char *subtract(int64_t a, int64_t b, int64_t *ret)
{
    return __builtin_sub_overflow(a, b, ret) ? "overflows 64 bits" : NULL;
}

static const char *multiply(int64_t a, int64_t b, int64_t *ret)
{
    return __builtin_mul_overflow(a, b, ret) ? "overflows 64 bits" : NULL;
}

static const char *divide(int64_t a, int64_t b, int64_t *ret)
{
    if (b == 0)
        return "divides by zero";
    if (a == INT64_MIN && b == -1)
        return "overflows 64 bits";
    *ret = a / b;
    return NULL;
}

static const char *remain(int64_t a, int64_t b, int64_t *ret)
{
    if (b == 0)
        return "divides by zero";
    *ret = b == -1 ? 0 : a % b;
    return NULL;
}

struct arithmetic {
    char sign;
    const char *name;
    const char *(*apply)(int64_t a, int64_t b, int64_t *ret);
};

static const struct arithmetic sums[] = {
    {'+', "+", add},
    {'-', "-", subtract},
};

static const struct arithmetic products[] = {
    {'*', "*", multiply},
    {'/', "/", divide},
    {'%', "%", remain},
};

static enum tw_err evaluate_arithmetic(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    const struct arithmetic *arithmetic = expression->arithmetic;
    struct value value = {.kind = VALUE_INTEGER}, a, b;
    enum tw_err result = evaluate_as(
        expression->operands[0], VALUE_INTEGER, arithmetic->name, scene, &a);
    const char *wrong;

    if (result == TW_OK)
        result = evaluate_as(expression->operands[1], VALUE_INTEGER,
            arithmetic->name, scene, &b);
    if (result != TW_OK)
        return result;
    wrong = arithmetic->apply(a.integer, b.integer, &value.integer);
    if (wrong != NULL)
        return err_fail(scene->err, TW_INVALID, "%.*s %s",
            SLICE_ARG(expression->source), wrong);
    value.wide = a.wide || b.wide;
    *ret = value;
    return TW_OK;
}

/* Comparisons. */
struct comparison {
    const char *sign;
    bool less, equal, more;
};

/* Longer signs come first, because the parser takes the first sign that
 * fits. */
static const struct comparison comparisons[] = {
    {"==", false, true, false},
    {"!=", true, false, true},
    {"<=", true, true, false},
    {">=", false, true, true},
    {"<", true, false, false},
    {">", false, false, true},
};

/* Returns a number as a long double, which represents every integer of 64 bits;
 * a double does not. */
static long double number_of(const struct value *value)
{
    return value->kind == VALUE_DOUBLE ? (long double)value->real
                                       : (long double)value->integer;
}

static bool is_number(enum value_kind kind)
{
    return kind == VALUE_INTEGER || kind == VALUE_DOUBLE;
}

static bool may_compare(enum value_kind a, enum value_kind b)
{
    return a == VALUE_UNKNOWN || b == VALUE_UNKNOWN || a == b ||
           (is_number(a) && is_number(b));
}

static bool numbers_hold(const struct comparison *comparison,
    const struct value *a, const struct value *b)
{
    long double x = number_of(a), y = number_of(b);

    if (x != x || y != y) /* NaN differs from everything */
        return comparison->less && comparison->more;
    return (comparison->less && x < y) || (comparison->equal && x == y) ||
           (comparison->more && x > y);
}

static bool texts_hold(const struct comparison *comparison,
    const struct value *a, const struct value *b)
{
    int order = text_utf16_compare(a->text, b->text);

    return (comparison->less && order < 0) ||
           (comparison->equal && order == 0) || (comparison->more && order > 0);
}

static enum tw_err evaluate_comparison(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    struct value a, b;
    enum tw_err result = evaluate(expression->operands[0], scene, &a);
    bool holds;

    if (result == TW_OK)
        result = evaluate(expression->operands[1], scene, &b);
    if (result != TW_OK)
        return result;
    if (!may_compare(a.kind, b.kind))
        return err_fail(scene->err, TW_INVALID, "%.*s compares %s with %s",
            SLICE_ARG(expression->source), value_kind_name(a.kind),
            value_kind_name(b.kind));
    holds = a.kind == VALUE_TEXT ? texts_hold(expression->comparison, &a, &b)
                                 : numbers_hold(expression->comparison, &a, &b);
    *ret = (struct value){.kind = VALUE_BOOLEAN, .integer = holds};
    return TW_OK;
}

/* Functions. */
#define MAX_PARAMETERS 3

struct function {
    const char *name;
    size_t count;
    enum value_kind parameters[MAX_PARAMETERS]; /* kinds of the parameters;
                                                   VALUE_UNKNOWN: any kind */
    enum value_kind result;
    /* returns the reason why it refuses args, or NULL */
    const char *(*apply)(
        const struct value *args, struct arena *arena, struct value *ret);
};

static const char *apply_year(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = text_date_of(args[0].integer).year;
    return NULL;
}

static const char *apply_month(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = text_date_of(args[0].integer).month;
    return NULL;
}

static const char *apply_week(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = (text_date_of(args[0].integer).day - 1) / 7 + 1;
    return NULL;
}

static const char *apply_day(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = text_date_of(args[0].integer).day;
    return NULL;
}

static const char *apply_hour(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = text_date_of(args[0].integer).hour;
    return NULL;
}

static const char *apply_ticks(
    const struct value *args, struct arena *arena, struct value *ret)
{
    (void)arena;
    ret->integer = args[0].integer;
    ret->wide = true;
    return NULL;
}

/* Inverts the case of the 26 ASCII letters that begin with `first` ('A' or
 * 'a'). */
static struct slice change_case(
    struct slice text, char first, struct arena *arena)
{
    char *to = arena_alloc(arena, text.len + 1);

    for (size_t i = 0; i < text.len; i++) {
        bool change = text.at[i] >= first && text.at[i] <= first + 25;

        to[i] = change ? (char)(text.at[i] ^ 0x20) : text.at[i];
    }
    return (struct slice){to, text.len};
}

static const char *apply_lower(
    const struct value *args, struct arena *arena, struct value *ret)
{
    ret->text = change_case(args[0].text, 'A', arena);
    return NULL;
}

static const char *apply_upper(
    const struct value *args, struct arena *arena, struct value *ret)
{
    ret->text = change_case(args[0].text, 'a', arena);
    return NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static const char *apply_trim(
    const struct value *args, struct arena *arena, struct value *ret)
{
    struct slice text = args[0].text;

    (void)arena;
    while (text.len > 0 && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1]))
        text.len--;
    ret->text = text;
    return NULL;
}

/* *end becomes the offset after the first `count` characters of text. False:
 * text has fewer characters, and *end becomes text.len. */
static bool skip_characters(struct slice text, int64_t count, size_t *end)
{
    size_t len;

    *end = 0;
    for (; count > 0 && *end < text.len; count--) {
        text_decode((struct slice){text.at + *end, text.len - *end}, &len);
        *end += len;
    }
    return count == 0;
}

static const char *apply_substring(
    const struct value *args, struct arena *arena, struct value *ret)
{
    struct slice text = args[0].text;
    size_t start, len;

    (void)arena;
    if (args[1].integer < 0 || args[2].integer < 0)
        return "needs a start and a length of 0 or more";
    if (!skip_characters(text, args[1].integer, &start))
        return "starts behind the end of the text";
    text = (struct slice){text.at + start, text.len - start};
    (void)skip_characters(text, args[2].integer, &len);
    ret->text = (struct slice){text.at, len};
    return NULL;
}

static bool begins_at(struct slice text, size_t at, struct slice what)
{
    return text.len - at >= what.len &&
           memcmp(text.at + at, what.at, what.len) == 0;
}

static const char *apply_replace(
    const struct value *args, struct arena *arena, struct value *ret)
{
    struct slice text = args[0].text, what = args[1].text;
    const char *wrong = NULL;
    struct buf to;
    size_t i = 0;

    if (what.len == 0)
        return "needs a second argument that is not empty";
    buf_init(&to, TEXT_MAX_BYTES);
    while (i < text.len && !to.overflow) {
        if (begins_at(text, i, what)) {
            buf_add_slice(&to, args[2].text);
            i += what.len;
        } else {
            buf_add_char(&to, text.at[i++]);
        }
    }
    if (to.overflow)
        wrong = "gives more than 1 MiB";
    else
        ret->text = arena_copy(arena, buf_slice(&to));
    buf_done(&to);
    return wrong;
}

/* Implements hash(value, n): the first 8 bytes of the value's SHA-256, read as
 * a big-endian unsigned number, modulo n. */
static const char *apply_hash(
    const struct value *args, struct arena *arena, struct value *ret)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    uint64_t number = 0;

    if (args[1].integer <= 0)
        return "needs a second argument above 0";
    crypto_sha256(value_text(&args[0], arena), digest);
    for (int i = 0; i < 8; i++)
        number = number << 8 | digest[i];
    ret->integer = (int64_t)(number % (uint64_t)args[1].integer);
    return NULL;
}

#define OF_DATETIME 1, {VALUE_DATETIME}, VALUE_INTEGER
#define OF_TEXT 1, {VALUE_TEXT}, VALUE_TEXT

static const struct function functions[] = {
    {"year", OF_DATETIME, apply_year},
    {"month", OF_DATETIME, apply_month},
    {"week", OF_DATETIME, apply_week},
    {"day", OF_DATETIME, apply_day},
    {"hour", OF_DATETIME, apply_hour},
    {"ticks", OF_DATETIME, apply_ticks},
    {"lower", OF_TEXT, apply_lower},
    {"upper", OF_TEXT, apply_upper},
    {"trim", OF_TEXT, apply_trim},
    {"replace", 3, {VALUE_TEXT, VALUE_TEXT, VALUE_TEXT}, VALUE_TEXT,
        apply_replace},
    {"substring", 3, {VALUE_TEXT, VALUE_INTEGER, VALUE_INTEGER}, VALUE_TEXT,
        apply_substring},
    {"hash", 2, {VALUE_UNKNOWN, VALUE_INTEGER}, VALUE_INTEGER, apply_hash},
    {"if", 3, {VALUE_BOOLEAN}, VALUE_UNKNOWN, NULL},
};
#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

const char *expression_function_name(size_t index)
{
    return index < FUNCTION_COUNT ? functions[index].name : NULL;
}

static enum tw_err evaluate_function(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    const struct function *function = expression->function;
    struct value args[MAX_PARAMETERS], value = {.kind = function->result};
    const char *wrong;

    for (size_t i = 0; i < function->count; i++) {
        enum tw_err result = evaluate_as(expression->operands[i],
            function->parameters[i], function->name, scene, &args[i]);

        if (result != TW_OK)
            return result;
    }
    wrong = function->apply(args, scene->arena, &value);
    if (wrong != NULL)
        return err_fail(scene->err, TW_INVALID, "%.*s %s",
            SLICE_ARG(expression->source), wrong);
    *ret = value;
    return TW_OK;
}

/* Evaluates if(condition, a, b): only the operand that the condition chooses is
 * evaluated. */
static enum tw_err evaluate_if(
    const struct expression *expression, struct scene *scene, struct value *ret)
{
    struct value condition;
    enum tw_err result = evaluate_as(
        expression->operands[0], VALUE_BOOLEAN, "if", scene, &condition);

    if (result != TW_OK)
        return result;
    return evaluate(
        expression->operands[condition.integer ? 1 : 2], scene, ret);
}

/* ---- parsing ---- */

/* Returns the position of the byte at offset or, if a line break comes before
 * that byte, the position of the whole text. */
static struct mark mark_at(const struct expression_reader *in, size_t offset)
{
    struct mark mark = in->mark;

    for (size_t i = 0; i < offset; i++) {
        if (in->text.at[i] == '\n')
            return in->mark;
        mark.column += (in->text.at[i] & 0xc0) != 0x80;
    }
    return mark;
}

void expression_problem(
    const struct expression_reader *in, size_t offset, const char *format, ...)
{
    char text[512];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (len >= (int)sizeof(text))
        text_end_cut(text, sizeof(text));
    problems_add(in->problems, mark_at(in, offset), "%s", text);
}

static char peek(const struct expression_reader *in)
{
    return in->at < in->text.len ? in->text.at[in->at] : '\0';
}

static void skip_blanks(struct expression_reader *in)
{
    while (peek(in) == ' ' || peek(in) == '\t' || peek(in) == '\n')
        in->at++;
}

static bool take_char(struct expression_reader *in, char c)
{
    skip_blanks(in);
    if (in->at == in->text.len || peek(in) != c)
        return false;
    in->at++;
    return true;
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

static struct slice take_word(struct expression_reader *in)
{
    size_t start = in->at;

    while (is_word_char(peek(in)))
        in->at++;
    return (struct slice){in->text.at + start, in->at - start};
}

/* Returns a new node that begins at offset, or NULL if the expression has too
 * many nodes; a problem was then added. */
static struct expression *new_node(struct expression_reader *in, size_t offset)
{
    struct expression *node;

    if (in->size++ == MAX_NODES) {
        expression_problem(in, offset, "this expression is too long");
        return NULL;
    }
    node = arena_alloc(in->arena, sizeof(*node));
    node->offset = offset;
    return node;
}

/* Set the source text of node: from its offset to in->at, without trailing
 * blanks. */
static const struct expression *finish(
    const struct expression_reader *in, struct expression *node)
{
    size_t end = in->at;
    struct buf visible;

    while (strchr(" \t\n", in->text.at[end - 1]) != NULL)
        end--;
    node->text = (struct slice){in->text.at + node->offset, end - node->offset};
    buf_init(&visible, VISIBLE_MAX_BYTES);
    text_visible(&visible, node->text);
    node->source = slice_equal(buf_slice(&visible), node->text)
                       ? node->text
                       : arena_copy(in->arena, buf_slice(&visible));
    buf_done(&visible);
    return node;
}

/* If operand is known to have another kind than wanted, add a problem and
 * return false. */
static bool check_kind(const struct expression_reader *in,
    const struct expression *operand, enum value_kind wanted, const char *who)
{
    if (operand->kind == VALUE_UNKNOWN || wanted == VALUE_UNKNOWN ||
        operand->kind == wanted)
        return true;
    expression_problem(in, operand->offset, "%.*s is %s; %s needs %s",
        SLICE_ARG(operand->source), value_kind_name(operand->kind), who,
        value_kind_name(wanted));
    return false;
}

static const struct expression *read_integer(struct expression_reader *in)
{
    struct expression *node = new_node(in, in->at);
    struct slice word = take_word(in);

    if (node == NULL)
        return NULL;
    node->evaluate = evaluate_constant;
    node->kind = node->constant.kind = VALUE_INTEGER;
    if (!text_int64(word, 0, INT64_MAX, &node->constant.integer)) {
        expression_problem(in, node->offset,
            "%.*s is not an integer of 64 bits", SLICE_ARG(word));
        return NULL;
    }
    return finish(in, node);
}

static const struct expression *read_text(struct expression_reader *in)
{
    struct expression *node = new_node(in, in->at++);
    struct buf text;
    bool closed = false;

    if (node == NULL)
        return NULL;
    buf_init(&text, in->text.len);
    while (in->at < in->text.len) {
        char c = in->text.at[in->at++];

        if (c == '\'' && peek(in) != '\'') {
            closed = true;
            break;
        }
        in->at += c == '\'';
        buf_add_char(&text, c);
    }
    node->evaluate = evaluate_constant;
    node->kind = node->constant.kind = VALUE_TEXT;
    node->constant.text = arena_copy(in->arena, buf_slice(&text));
    buf_done(&text);
    if (closed)
        return finish(in, node);
    expression_problem(in, node->offset,
        "this ' is never closed (a ' in a text is written '')");
    return NULL;
}

static void unknown_arg(
    const struct expression_reader *in, size_t offset, struct slice word)
{
    const struct template_scope *scope = in->scope;
    const char **names =
        arena_alloc(in->arena, (scope->arg_count + 1) * sizeof(*names));

    if (scope->arg_count == 0) {
        expression_problem(in, offset,
            "unknown name '%.*s': the job has no arguments", SLICE_ARG(word));
        return;
    }
    for (size_t i = 0; i < scope->arg_count; i++)
        names[i] = arena_copy(in->arena, scope->args[i]).at;
    settings_unknown(in->problems, mark_at(in, offset), "argument", word, names,
        scope->arg_count);
}

static void remember_property(struct expression_reader *in, struct slice name)
{
    struct slice *list;

    for (size_t i = 0; i < in->property_count; i++) {
        if (slice_equal(in->properties[i], name))
            return;
    }
    list = arena_alloc(in->arena, (in->property_count + 1) * sizeof(*list));
    if (in->property_count > 0)
        memcpy(list, in->properties, in->property_count * sizeof(*list));
    list[in->property_count++] = arena_copy(in->arena, name);
    in->properties = list;
}

static void name_property(
    struct expression_reader *in, struct expression *node, struct slice word)
{
    in->reads_entity = true;
    if (slice_is(word, "PartitionKey") || slice_is(word, "RowKey")) {
        node->kind = VALUE_TEXT;
        in->reads_key[slice_is(word, "RowKey")] = true;
        node->evaluate = slice_is(word, "RowKey") ? evaluate_row_key
                                                  : evaluate_partition_key;
        return;
    }
    remember_property(in, word);
    node->evaluate = evaluate_property;
    if (slice_is(word, "Timestamp")) {
        node->kind = VALUE_DATETIME;
        node->evaluate = evaluate_timestamp;
    }
}

static const struct expression *name_expression(
    struct expression_reader *in, struct expression *node, struct slice word)
{
    if (slice_is(word, "true") || slice_is(word, "false")) {
        node->evaluate = evaluate_constant;
        node->kind = node->constant.kind = VALUE_BOOLEAN;
        node->constant.integer = slice_is(word, "true");
        return finish(in, node);
    }
    for (size_t i = 0; i < in->scope->arg_count; i++) {
        if (!slice_equal(in->scope->args[i], word))
            continue;
        if (!in->reads_args)
            in->reads_args = arena_alloc(
                in->arena, in->scope->arg_count * sizeof(*in->reads_args));
        in->reads_args[i] = true;
        node->evaluate = evaluate_arg;
        node->kind = VALUE_TEXT;
        node->arg = i;
        return finish(in, node);
    }
    if (!in->scope->has_entity) {
        unknown_arg(in, node->offset, word);
        return NULL;
    }
    name_property(in, node, word);
    return finish(in, node);
}

static const struct expression *read_comparison(struct expression_reader *in);

static bool read_arguments(
    struct expression_reader *in, struct expression *node)
{
    const struct function *function = node->function;

    for (size_t i = 0; i < function->count; i++) {
        if (i > 0 && !take_char(in, ',')) {
            expression_problem(in, in->at,
                "%s takes %zu arguments: expected "
                "a comma",
                function->name, function->count);
            return false;
        }
        node->operands[i] = read_comparison(in);
        if (node->operands[i] == NULL ||
            !check_kind(
                in, node->operands[i], function->parameters[i], function->name))
            return false;
    }
    if (take_char(in, ')'))
        return true;
    expression_problem(in, in->at, "%s takes %zu argument%s: expected )",
        function->name, function->count, function->count == 1 ? "" : "s");
    return false;
}

static const struct function *find_function(
    const struct expression_reader *in, size_t offset, struct slice word)
{
    const char *names[FUNCTION_COUNT];

    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        names[i] = functions[i].name;
        if (slice_is(word, functions[i].name))
            return &functions[i];
    }
    settings_unknown(in->problems, mark_at(in, offset), "function", word, names,
        FUNCTION_COUNT);
    return NULL;
}

static const struct expression *read_call(
    struct expression_reader *in, struct expression *node, struct slice word)
{
    node->function = find_function(in, node->offset, word);
    if (node->function == NULL || !read_arguments(in, node))
        return NULL;
    node->evaluate = evaluate_function;
    node->kind = node->function->result;
    if (node->function->apply == NULL) {
        node->evaluate = evaluate_if;
        if (node->operands[1]->kind == node->operands[2]->kind)
            node->kind = node->operands[1]->kind;
    }
    return finish(in, node);
}

static const struct expression *read_named(struct expression_reader *in)
{
    struct expression *node = new_node(in, in->at);
    struct slice word = take_word(in);
    size_t end = in->at;

    if (node == NULL)
        return NULL;
    if (take_char(in, '('))
        return read_call(in, node, word);
    in->at = end;
    return name_expression(in, node, word);
}

static const struct expression *read_negative(struct expression_reader *in);

static const struct expression *read_primary(struct expression_reader *in)
{
    const struct expression *inner;
    size_t start;

    skip_blanks(in);
    start = in->at;
    if (is_digit(peek(in)))
        return read_integer(in);
    if (peek(in) == '\'')
        return read_text(in);
    if (is_word_char(peek(in)))
        return read_named(in);
    if (take_char(in, '-'))
        return read_negative(in);
    if (!take_char(in, '(')) {
        expression_problem(
            in, start, "expected a name, a number, a 'text' or (");
        return NULL;
    }
    inner = read_comparison(in);
    if (inner == NULL || take_char(in, ')'))
        return inner;
    expression_problem(in, in->at, "expected )");
    return NULL;
}

/* Parse the operand x after a leading minus sign. Returns the node of 0 - x. */
static const struct expression *read_negative(struct expression_reader *in)
{
    struct expression *node = new_node(in, in->at - 1);
    struct expression *zero = new_node(in, in->at - 1);

    if (node == NULL || zero == NULL)
        return NULL;
    if (in->depth++ == MAX_DEPTH) {
        expression_problem(in, in->at, "this expression is nested too deeply");
        return NULL;
    }
    zero->evaluate = evaluate_constant;
    zero->kind = zero->constant.kind = VALUE_INTEGER;
    node->evaluate = evaluate_arithmetic;
    node->arithmetic = &sums[1];
    node->kind = VALUE_INTEGER;
    node->operands[0] = zero;
    node->operands[1] = read_primary(in);
    in->depth--;
    if (node->operands[1] == NULL ||
        !check_kind(in, node->operands[1], VALUE_INTEGER, "-"))
        return NULL;
    return finish(in, node);
}

static const struct arithmetic *take_sign(
    struct expression_reader *in, const struct arithmetic *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (take_char(in, table[i].sign))
            return &table[i];
    }
    return NULL;
}

/* Parse operands joined by the signs of `table`, which have equal precedence
 * and are applied from left to right. */
static const struct expression *read_chain(struct expression_reader *in,
    const struct arithmetic *table, size_t count,
    const struct expression *(*operand)(struct expression_reader *))
{
    const struct expression *left = operand(in);
    const struct arithmetic *sign;

    while (left != NULL && (sign = take_sign(in, table, count)) != NULL) {
        struct expression *node = new_node(in, left->offset);

        if (node == NULL)
            return NULL;
        node->evaluate = evaluate_arithmetic;
        node->kind = VALUE_INTEGER;
        node->arithmetic = sign;
        node->operands[0] = left;
        node->operands[1] = operand(in);
        if (node->operands[1] == NULL ||
            !check_kind(in, left, VALUE_INTEGER, sign->name) ||
            !check_kind(in, node->operands[1], VALUE_INTEGER, sign->name))
            return NULL;
        left = finish(in, node);
    }
    return left;
}

static const struct expression *read_product(struct expression_reader *in)
{
    return read_chain(
        in, products, sizeof(products) / sizeof(products[0]), read_primary);
}

static const struct expression *read_sum(struct expression_reader *in)
{
    return read_chain(in, sums, sizeof(sums) / sizeof(sums[0]), read_product);
}

static const struct comparison *take_comparison(struct expression_reader *in)
{
    struct slice rest;

    skip_blanks(in);
    rest = (struct slice){in->text.at + in->at, in->text.len - in->at};
    for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
        if (slice_begins(rest, slice_of(comparisons[i].sign))) {
            in->at += strlen(comparisons[i].sign);
            return &comparisons[i];
        }
    }
    return NULL;
}

static const struct expression *join_comparison(struct expression_reader *in,
    const struct expression *left, const struct comparison *comparison)
{
    struct expression *node = new_node(in, left->offset);
    const struct expression *right = node ? read_sum(in) : NULL;

    if (right == NULL)
        return NULL;
    if (!may_compare(left->kind, right->kind)) {
        expression_problem(in, left->offset,
            "%.*s is %s and %.*s is %s: they "
            "cannot be compared",
            SLICE_ARG(left->source), value_kind_name(left->kind),
            SLICE_ARG(right->source), value_kind_name(right->kind));
        return NULL;
    }
    node->evaluate = evaluate_comparison;
    node->kind = VALUE_BOOLEAN;
    node->comparison = comparison;
    node->operands[0] = left;
    node->operands[1] = right;
    return finish(in, node);
}

static const struct expression *read_comparison(struct expression_reader *in)
{
    const struct expression *left;
    const struct comparison *comparison;

    if (in->depth++ == MAX_DEPTH) {
        expression_problem(in, in->at, "this expression is nested too deeply");
        return NULL;
    }
    left = read_sum(in);
    comparison = left ? take_comparison(in) : NULL;
    if (comparison != NULL)
        left = join_comparison(in, left, comparison);
    in->depth--;
    return left;
}

const struct expression *expression_read(struct expression_reader *in)
{
    in->depth = 0;
    in->size = 0;
    return read_comparison(in);
}

enum value_kind expression_kind(const struct expression *expression)
{
    return expression->kind;
}

struct slice expression_source(const struct expression *expression)
{
    return expression->source;
}

int expression_arg(const struct expression *expression)
{
    return expression->evaluate == evaluate_arg ? (int)expression->arg : -1;
}

struct slice expression_property(const struct expression *expression)
{
    if (expression->evaluate == evaluate_property ||
        expression->evaluate == evaluate_timestamp ||
        expression->evaluate == evaluate_partition_key ||
        expression->evaluate == evaluate_row_key)
        return expression->source;
    return (struct slice){NULL, 0};
}

enum tw_err expression_evaluate(const struct expression *expression,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct value *ret, struct err *err)
{
    struct scene scene = {args, entity, arena, err};

    return evaluate(expression, &scene, ret);
}
