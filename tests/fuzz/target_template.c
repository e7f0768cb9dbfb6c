/* SPDX-License-Identifier: MIT */
/*
 * Templates and expressions: any text, and templates that are made together
 * with their result. The oracle computes with 128 bits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/problems.h"
#include "jobs/engine/template.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define TEXT_MAX_BYTES (64 * 1024)

static const struct slice arg_names[] = {{"channel", 7}, {"n", 1}};
static const struct template_scope with_entity = {arg_names, 2, true};
static const struct template_scope args_only = {arg_names, 2, false};
static const struct mark mark = {"t.yaml", 1, 1};

/* ---- any text ---- */

static void render(const struct template *template, const struct run_args *args,
    const struct entity *entity, bool is_filter)
{
    struct err err = {{0}};
    struct buf *text = fuzz_buf();
    size_t offset;

    if (template_render(template, args, entity, text, &err) != TW_OK)
        fuzz_said(&err);
    else if (!text->overflow)
        FUZZ_CHECK(text_is_utf8(buf_slice(text)) &&
                   (!is_filter ||
                       filter_check(buf_slice(text), &offset, &err) == TW_OK));
}

/* Compiles text as a template, which must give a template or a problem.
 * template_source() must return text. The rendered text must be UTF-8 and, if
 * is_filter, a filter. */
static void try_text(struct slice text, const struct template_scope *scope,
    bool is_filter, const struct run_args *args, const struct entity *entity,
    struct arena *arena)
{
    const struct template *template;
    struct problems problems;
    size_t count;

    problems_init(&problems);
    template =
        is_filter ? template_compile_filter(text, mark, scope, arena, &problems)
                  : template_compile(text, mark, scope, arena, &problems);
    FUZZ_CHECK((template == NULL) == (problems.errors > 0));
    fuzz_problems(&problems);
    problems_done(&problems);
    if (template == NULL)
        return;
    FUZZ_SAME(template_source(template), text);
    (void)template_properties(template, &count);
    FUZZ_CHECK(template_lone_arg(template) < 2);
    if (!scope->has_entity)
        FUZZ_CHECK(count == 0);
    render(template, args, scope->has_entity ? entity : NULL, is_filter);
}

/* ---- known expressions ---- */

struct known {
    bool fails;
    __int128 number;
};

struct maker {
    struct fuzz_source *in;
    struct buf text;
    unsigned nodes;
    int64_t int32, int64, ticks;
};

static struct known checked(struct known value)
{
    value.fails |= value.number > INT64_MAX || value.number < INT64_MIN;
    return value;
}

static struct known make_sum(struct maker *maker, unsigned depth);

static struct known make_call(struct maker *maker)
{
    static const char *const names[] = {
        "year", "month", "day", "hour", "week", "ticks"};
    time_t seconds =
        (maker->ticks - maker->ticks % TICKS_PER_S - TICKS_1970) / TICKS_PER_S;
    size_t which = (size_t)fuzz_below(maker->in, 6);
    struct tm tm;
    int64_t values[6];

    FUZZ_CHECK(gmtime_r(&seconds, &tm) != NULL);
    values[0] = tm.tm_year + 1900;
    values[1] = tm.tm_mon + 1;
    values[2] = tm.tm_mday;
    values[3] = tm.tm_hour;
    values[4] = (tm.tm_mday + 6) / 7;
    values[5] = maker->ticks;
    buf_add_format(&maker->text, "%s(Time)", names[which]);
    return (struct known){.number = values[which]};
}

static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};

static bool holds(size_t sign, __int128 a, __int128 b)
{
    const bool results[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};

    return results[sign];
}

/* Makes an if(). It fails if its condition or the branch that is taken
 * fails. */
static struct known make_if(struct maker *maker, unsigned depth)
{
    struct known a, b, yes, no;
    size_t sign;

    buf_add_text(&maker->text, "if(");
    a = make_sum(maker, depth - 1);
    sign = (size_t)fuzz_below(maker->in, 6);
    buf_add_format(&maker->text, " %s ", signs[sign]);
    b = make_sum(maker, depth - 1);
    buf_add_text(&maker->text, ", ");
    yes = make_sum(maker, depth - 1);
    buf_add_text(&maker->text, ",");
    no = make_sum(maker, depth - 1);
    buf_add_text(&maker->text, ")");
    if (a.fails || b.fails)
        return (struct known){.fails = true};
    return holds(sign, a.number, b.number) ? yes : no;
}

static struct known make_leaf(struct maker *maker)
{
    int64_t number;

    switch (fuzz_byte(maker->in) % 4) {
    case 0:
        buf_add_text(&maker->text, "Small");
        return (struct known){.number = maker->int32};
    case 1:
        buf_add_text(&maker->text, "Large");
        return (struct known){.number = maker->int64};
    case 2:
        return make_call(maker);
    default:
        number = fuzz_int64(maker->in) & INT64_MAX;
        buf_add_format(&maker->text, "%" PRId64, number);
        return (struct known){.number = number};
    }
}

static struct known make_primary(struct maker *maker, unsigned depth)
{
    struct known value;

    maker->nodes++;
    switch (depth > 0 && maker->nodes < 60 ? fuzz_byte(maker->in) % 8 : 7) {
    case 0:
        buf_add_text(&maker->text, "(");
        value = make_sum(maker, depth - 1);
        buf_add_text(&maker->text, " )");
        return value;
    case 1:
        buf_add_text(&maker->text, " -");
        value = make_primary(maker, depth - 1);
        value.number = -value.number;
        return checked(value);
    case 2:
        return make_if(maker, depth);
    default:
        return make_leaf(maker);
    }
}

static struct known apply(struct known a, char sign, struct known b)
{
    struct known value = {.fails = a.fails || b.fails};

    if (value.fails)
        return value;
    if ((sign == '/' || sign == '%') && b.number == 0)
        return (struct known){.fails = true};
    value.number = sign == '+'   ? a.number + b.number
                   : sign == '-' ? a.number - b.number
                   : sign == '*' ? a.number * b.number
                   : sign == '/' ? a.number / b.number
                                 : a.number % b.number;
    return checked(value);
}

static struct known make_product(struct maker *maker, unsigned depth)
{
    struct known value = make_primary(maker, depth);

    for (unsigned more = fuzz_byte(maker->in) % 3; more > 0; more--) {
        char sign = "*/%"[fuzz_below(maker->in, 3)];

        buf_add_char(&maker->text, sign);
        value = apply(value, sign, make_primary(maker, depth));
    }
    return value;
}

static struct known make_sum(struct maker *maker, unsigned depth)
{
    struct known value = make_product(maker, depth);

    for (unsigned more = fuzz_byte(maker->in) % 3; more > 0; more--) {
        char sign = "+-"[fuzz_below(maker->in, 2)];

        buf_add_char(&maker->text, sign);
        value = apply(value, sign, make_product(maker, depth));
    }
    return value;
}

static void check_rendered(const struct template *template,
    const struct entity *entity, struct known expected, unsigned width)
{
    const struct run_args none = {0};
    struct err err = {{0}};
    char number[64];
    struct buf *text = fuzz_buf();
    enum tw_err outcome;

    outcome = template_render(template, &none, entity, text, &err);
    FUZZ_CHECK((outcome == TW_OK) == !expected.fails);
    if (outcome != TW_OK)
        fuzz_said(&err);
    snprintf(number, sizeof(number), "=%0*" PRId64, (int)width,
        (int64_t)expected.number);
    if (outcome == TW_OK)
        FUZZ_SAME(buf_slice(text), slice_of(number));
}

static void expression_gives_what_it_says(struct fuzz_source *in)
{
    struct maker maker = {.in = in,
        .int32 = (int32_t)fuzz_int64(in),
        .int64 = fuzz_int64(in),
        .ticks = fuzz_ticks(in)};
    unsigned width = 1 + fuzz_byte(in) % 20;
    const struct template *template;
    struct problems problems;
    struct entity entity;
    struct known expected;

    buf_init(&maker.text, TEXT_MAX_BYTES);
    entity_init(&entity, in->arena, slice_of("p"), slice_of("r"));
    entity_set_int32(&entity, in->arena, "Small", (int32_t)maker.int32);
    entity_set_int64(&entity, in->arena, "Large", maker.int64);
    entity_set_datetime(&entity, in->arena, "Time", maker.ticks);
    buf_add_text(&maker.text, "={");
    expected = make_sum(&maker, 4);
    buf_add_format(&maker.text, ":%u}", width);
    problems_init(&problems);
    template = template_compile(
        buf_slice(&maker.text), mark, &with_entity, in->arena, &problems);
    if (template == NULL)
        fuzz_fail(
            __FILE__, __LINE__, problems.list[0].text, buf_slice(&maker.text));
    check_rendered(template, &entity, expected, width);
    problems_done(&problems);
    buf_done(&maker.text);
}

/* ---- known texts ---- */

/* Plain text with doubled braces, a constant, an argument and a property: each
 * must be rendered as it is. */
static void texts_come_out_as_they_went_in(struct fuzz_source *in)
{
    struct slice plain = fuzz_text(in, 20), constant = fuzz_text(in, 20);
    struct slice values[] = {fuzz_text(in, 20), slice_of("7")};
    const struct run_args args = {2, arg_names, values};
    struct entity entity = fuzz_entity(in);
    struct slice property = fuzz_text(in, 20);
    const struct template *template;
    struct problems problems;
    struct buf *source = fuzz_buf(), *expected = fuzz_buf(), *text = fuzz_buf();

    entity_set_string(&entity, in->arena, "Text", property);
    fuzz_add_doubled(source, plain, "{}");
    buf_add_text(source, "{'");
    fuzz_add_doubled(source, constant, "'");
    buf_add_text(source, "'}{channel}{n}{ Text }{RowKey}");
    problems_init(&problems);
    template = template_compile(
        buf_slice(source), mark, &with_entity, in->arena, &problems);
    if (template == NULL)
        fuzz_fail(__FILE__, __LINE__, problems.list[0].text, buf_slice(source));
    FUZZ_CHECK(template_render(template, &args, &entity, text, NULL) == TW_OK);
    buf_add_slice(expected, plain);
    buf_add_slice(expected, constant);
    buf_add_slice(expected, values[0]);
    buf_add_slice(expected, values[1]);
    buf_add_slice(expected, property);
    buf_add_slice(expected, entity.row_key);
    FUZZ_SAME(buf_slice(text), buf_slice(expected));
    problems_done(&problems);
}

/* In a filter, an argument with any text must be one constant. */
static void filter_takes_any_argument(struct fuzz_source *in)
{
    struct slice values[] = {fuzz_text(in, 20), fuzz_text(in, 6)};
    const struct run_args args = {2, arg_names, values};
    const struct template *template;
    const struct filter *filter;
    struct problems problems;
    struct entity entity;
    struct buf *text = fuzz_buf();

    problems_init(&problems);
    entity_init(&entity, in->arena, slice_of("p"), slice_of("r"));
    entity_set_string(&entity, in->arena, "A", values[0]);
    template = template_compile_filter(
        slice_of("A eq '{channel}'"), mark, &args_only, in->arena, &problems);
    FUZZ_CHECK(template != NULL);
    FUZZ_CHECK(template_render(template, &args, NULL, text, NULL) == TW_OK);
    FUZZ_CHECK(
        filter_parse(buf_slice(text), in->arena, &filter, NULL) == TW_OK);
    FUZZ_CHECK(filter_matches(filter, &entity));
    entity_set_string(&entity, in->arena, "A",
        slice_equal(values[0], values[1]) ? slice_of("another") : values[1]);
    FUZZ_CHECK(
        !filter_matches(filter, &entity) || slice_is(values[0], "another"));
    problems_done(&problems);
}

FUZZ_TARGET(template)
{
    struct slice values[] = {slice_of("Foot'ball"), slice_of("12")};
    const struct run_args args = {2, arg_names, values};
    struct entity entity;

    entity = fuzz_entity(in);
    for (int is_filter = 0; is_filter < 2; is_filter++) {
        try_text(text, &with_entity, is_filter, &args, &entity, in->arena);
        try_text(text, &args_only, is_filter, &args, &entity, in->arena);
    }
    fuzz_again(in);
    expression_gives_what_it_says(in);
    fuzz_again(in);
    texts_come_out_as_they_went_in(in);
    fuzz_again(in);
    filter_takes_any_argument(in);
}
