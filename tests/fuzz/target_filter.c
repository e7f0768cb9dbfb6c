/* SPDX-License-Identifier: MIT */
/*
 * OData filters: any text, and filters that are made together with their
 * result. The oracle has its own values: it compares constants and properties
 * as it made them, and uses nothing that was read from the text.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define TEXT_MAX_BYTES (64 * 1024)

/* ---- any text ---- */

static void check_properties(const struct filter *filter)
{
    size_t count;
    const struct slice *names = filter_properties(filter, &count);

    FUZZ_CHECK(count <= FILTER_MAX_COMPARISONS);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            FUZZ_CHECK(!slice_equal(names[i], names[k]));
}

/* filter_effect() must say `matches` for the properties of an entity that the
 * filter matches. */
static void check_effect(
    const struct filter *filter, const struct entity *entity)
{
    struct filter_known known[FILTER_MAX_COMPARISONS];
    struct filter_effect effect;
    size_t count;
    const struct slice *names = filter_properties(filter, &count);

    memset(known, 0, sizeof(known));
    for (size_t i = 0; i < count; i++) {
        const struct slice name = names[i];

        known[i].name = name;
        known[i].value = entity_find(entity, name);
        if (!slice_is(name, "PartitionKey") && !slice_is(name, "RowKey") &&
            !slice_is(name, "Timestamp"))
            known[i].what = known[i].value ? FILTER_VALUE : FILTER_ABSENT;
    }
    effect = filter_effect(filter, known, count);
    FUZZ_CHECK(effect.matches || !filter_matches(filter, entity));
    FUZZ_CHECK(filter_effect(filter, NULL, 0).matches);
    FUZZ_CHECK(!filter_effect(filter, NULL, 0).loses);
}

static void try_filter(
    struct slice text, const struct entity *entity, struct arena *arena)
{
    const struct filter *filter = NULL;
    struct err err = {{0}}, checked = {{0}};
    size_t offset = 0;
    enum tw_err outcome = filter_parse(text, arena, &filter, &err);

    FUZZ_CHECK(filter_check(text, &offset, &checked) == outcome);
    FUZZ_CHECK(offset <= text.len);
    if (outcome != TW_OK) {
        fuzz_said(&err);
        fuzz_said(&checked);
        return;
    }
    check_properties(filter);
    check_effect(filter, entity);
}

/* ---- known values ---- */

enum relation { LESS = -1, EQUAL, GREATER, UNORDERED };

struct known {
    enum edm_type type;
    int64_t number; /* integers, booleans, times */
    double real;
    struct slice text;   /* String */
    unsigned bytes[16];  /* Guid */
    struct slice binary; /* Binary */
};

/* Returns one of several texts, some of which sort differently by UTF-16 units
 * and by bytes. */
static struct slice tricky_text(struct fuzz_source *in)
{
    static const char *const texts[] = {"\xf0\x9f\x98\x80", "\xef\xbc\xa1", "a",
        "\xee\x80\x80", "\xed\x9f\xbf", "a\xf0\x90\x80\x80", "a\xef\xbf\xbd",
        ""};

    return slice_of(texts[fuzz_below(in, 8)]);
}

static struct known make_known(struct fuzz_source *in, enum edm_type type)
{
    struct known known = {.type = type};

    switch (known.type) {
    case EDM_INT32:
        known.number = (int32_t)fuzz_int64(in);
        break;
    case EDM_INT64:
        known.number = fuzz_int64(in);
        break;
    case EDM_BOOLEAN:
        known.number = fuzz_yes(in);
        break;
    case EDM_DATETIME:
        known.number = fuzz_ticks(in);
        break;
    case EDM_DOUBLE:
        known.real = fuzz_double(in);
        if (!isfinite(known.real))
            known.real = 2.5; /* no constant can say infinity or NaN */
        break;
    case EDM_STRING:
        known.text = fuzz_yes(in) ? fuzz_text(in, 4) : tricky_text(in);
        break;
    case EDM_GUID:
        for (size_t i = 0; i < 16; i++)
            known.bytes[i] = fuzz_byte(in);
        break;
    case EDM_BINARY:
        known.binary = fuzz_bytes(in, 3);
        break;
    }
    return known;
}

/* Returns a constant: often the value of the property, or another value of its
 * type. */
static struct known make_constant(
    struct fuzz_source *in, const struct known *there)
{
    unsigned choice = fuzz_byte(in) % 4;
    struct known known = make_known(
        in, choice < 3 ? there->type : (enum edm_type)fuzz_below(in, 8));

    if (choice == 0)
        return *there;
    if (choice == 1 && there->type == EDM_STRING && there->text.len > 0) {
        known = *there;
        known.text.len--;
        while (known.text.len > 0 && !text_is_utf8(known.text))
            known.text.len--;
    }
    return known;
}

static struct slice guid_text(struct fuzz_source *in, const struct known *known)
{
    const unsigned *b = known->bytes;

    return arena_format(in->arena,
        "%02x%02x%02x%02x-%02X%02x-%02x%02x-%02x%02x-%02x%02x%02x%02X%02x%02x",
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
        b[11], b[12], b[13], b[14], b[15]);
}

static void set_known(struct fuzz_source *in, struct entity *entity,
    const char *name, const struct known *known)
{
    struct property property = {slice_of(name), known->type, fuzz_none()};
    struct slice text;

    switch (known->type) {
    case EDM_INT32:
        entity_set_int32(entity, in->arena, name, (int32_t)known->number);
        return;
    case EDM_INT64:
        entity_set_int64(entity, in->arena, name, known->number);
        return;
    case EDM_BOOLEAN:
        entity_set_boolean(entity, in->arena, name, known->number != 0);
        return;
    case EDM_DATETIME:
        entity_set_datetime(entity, in->arena, name, known->number);
        return;
    case EDM_DOUBLE:
        entity_set_double(entity, in->arena, name, known->real);
        return;
    case EDM_STRING:
        entity_set_string(entity, in->arena, name, known->text);
        return;
    case EDM_GUID:
        text = guid_text(in, known);
        property.json = arena_format(in->arena, "\"%.*s\"", SLICE_ARG(text));
        break;
    case EDM_BINARY:
        property = fuzz_binary(slice_of(name), known->binary, in->arena);
        break;
    }
    entity_set(entity, in->arena, &property);
}

/* Adds the value with 17 digits, so that it is read back exactly, and with a
 * point or an exponent, so that it is no integer. */
static void add_double(struct buf *to, double value)
{
    char text[64];

    snprintf(text, sizeof(text), "%.17g", value);
    buf_add_text(to, text);
    if (!strpbrk(text, ".e"))
        buf_add_text(to, ".0");
}

static void add_constant(
    struct fuzz_source *in, struct buf *to, const struct known *known)
{
    char time[TEXT_TIME_MAX];
    struct slice text;

    switch (known->type) {
    case EDM_INT32:
        buf_add_format(to, "%" PRId64, known->number);
        break;
    case EDM_INT64:
        buf_add_format(to, "%" PRId64 "L", known->number);
        break;
    case EDM_BOOLEAN:
        buf_add_text(to, known->number ? "true" : "false");
        break;
    case EDM_DATETIME:
        buf_add_format(
            to, "datetime'%s'", text_from_ticks(known->number, time));
        break;
    case EDM_DOUBLE:
        add_double(to, known->real);
        break;
    case EDM_STRING:
        filter_add_literal(to, known->text);
        break;
    case EDM_GUID:
        text = guid_text(in, known);
        buf_add_format(to, "guid'%.*s'", SLICE_ARG(text));
        break;
    case EDM_BINARY:
        buf_add_text(to, fuzz_yes(in) ? "X'" : "binary'");
        for (size_t i = 0; i < known->binary.len; i++)
            buf_add_format(to, "%02x", (unsigned char)known->binary.at[i]);
        buf_add_char(to, '\'');
        break;
    }
}

static enum relation order(int way)
{
    return way < 0 ? LESS : way > 0 ? GREATER : EQUAL;
}

/* Compares two values of the same type. */
static enum relation relate(const struct known *a, const struct known *b)
{
    switch (a->type) {
    case EDM_DOUBLE:
        return order((a->real > b->real) - (a->real < b->real));
    case EDM_STRING:
        return order(text_utf16_compare(a->text, b->text));
    case EDM_BINARY:
        return order(slice_compare(a->binary, b->binary));
    case EDM_GUID:
        return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0 ? EQUAL
                                                                 : UNORDERED;
    default:
        return order((a->number > b->number) - (a->number < b->number));
    }
}

/* ---- known filters ---- */

#define VALUES 3
static const char *const names[VALUES + 1] = {"A", "b", "Value", "Gone"};

struct maker {
    struct fuzz_source *in;
    struct known values[VALUES];
    struct buf text;
    unsigned comparisons;
    bool indeterminate; /* has a comparison without a defined result */
};

static const char *const operators[] = {"eq", "ne", "gt", "ge", "lt", "le"};

static bool holds(size_t op, enum relation relation)
{
    switch (op) {
    case 0:
        return relation == EQUAL;
    case 1:
        return relation != EQUAL;
    case 2:
        return relation == GREATER;
    case 3:
        return relation == GREATER || relation == EQUAL;
    case 4:
        return relation == LESS;
    default:
        return relation == LESS || relation == EQUAL;
    }
}

static bool make_comparison(struct maker *maker)
{
    size_t which = (size_t)fuzz_below(maker->in, VALUES + 1);
    size_t op = (size_t)fuzz_below(maker->in, 6);
    const struct known *there = &maker->values[which % VALUES];
    struct known constant = make_constant(maker->in, there);
    enum relation relation;

    maker->comparisons++;
    buf_add_format(&maker->text, "%s %s ", names[which], operators[op]);
    add_constant(maker->in, &maker->text, &constant);
    if (which == VALUES || there->type != constant.type)
        return false;
    relation = relate(there, &constant);
    if (relation == UNORDERED && op >= 2)
        maker->indeterminate = true;
    return holds(op, relation);
}

static bool make_filter(struct maker *maker, unsigned depth);

static bool make_term(struct maker *maker, unsigned depth)
{
    unsigned choice = depth > 0 ? fuzz_byte(maker->in) % 4 : 3;
    bool value;

    if (choice > 1)
        return make_comparison(maker);
    buf_add_text(&maker->text, choice == 0 ? "not (" : "(");
    value = make_filter(maker, depth - 1);
    buf_add_text(&maker->text, ")");
    return choice == 0 ? !value : value;
}

/* Makes a filter and returns its result. `and` binds tighter than `or`, so that
 * a chain of terms is a sum of products. */
static bool make_filter(struct maker *maker, unsigned depth)
{
    bool sum = false, product = make_term(maker, depth);

    for (unsigned more = fuzz_byte(maker->in) % 3; more > 0; more--) {
        if (fuzz_yes(maker->in)) {
            buf_add_text(&maker->text, " and ");
            product &= make_term(maker, depth);
        } else {
            buf_add_text(&maker->text, " or ");
            sum |= product;
            product = make_term(maker, depth);
        }
    }
    return sum | product;
}

static void filter_means_what_it_says(struct fuzz_source *in)
{
    struct maker maker = {.in = in};
    const struct filter *filter;
    struct entity entity;
    struct err err = {{0}};
    bool expected;

    buf_init(&maker.text, TEXT_MAX_BYTES);
    entity_init(&entity, in->arena, slice_of("p"), slice_of("r"));
    for (size_t i = 0; i < VALUES; i++) {
        maker.values[i] = make_known(in, (enum edm_type)fuzz_below(in, 8));
        set_known(in, &entity, names[i], &maker.values[i]);
    }
    expected = make_filter(&maker, 3);
    if (maker.comparisons > FILTER_MAX_COMPARISONS) {
        FUZZ_CHECK(filter_parse(buf_slice(&maker.text), in->arena, &filter,
                       &err) == TW_INVALID);
        fuzz_said(&err);
    } else {
        if (filter_parse(buf_slice(&maker.text), in->arena, &filter, &err) !=
            TW_OK)
            fuzz_fail(__FILE__, __LINE__, err.text, buf_slice(&maker.text));
        if (!maker.indeterminate && filter_matches(filter, &entity) != expected)
            fuzz_fail(__FILE__, __LINE__,
                expected ? "it matches" : "it does not match",
                buf_slice(&maker.text));
    }
    buf_done(&maker.text);
}

FUZZ_TARGET(filter)
{
    struct entity entity;

    entity = fuzz_entity(in);
    try_filter(text, &entity, in->arena);
    fuzz_again(in);
    filter_means_what_it_says(in);
}
