/* SPDX-License-Identifier: MIT */
/*
 * Templates: a text divided into pieces, each a literal or an expression. In a
 * filter, quotes in the value of a quoted piece are doubled, so that the value
 * can never end the literal that contains it.
 */
#include "jobs/engine/template.h"

#include <inttypes.h>

#include "config/yaml.h"
#include "jobs/engine/expression.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"

#define MAX_WIDTH 64

/* Maximum number of bytes of a filter that are shown at a mistake. */
#define SHOWN_MAX_BYTES ((size_t)64)

struct piece {
    size_t offset; /* offset of the piece in template->source */
    struct slice literal;
    const struct expression *expression; /* NULL: the piece is a literal */
    unsigned width;                      /* least number of digits, padded with
                                          * zeros; 0: no padding */
    bool quoted;                         /* the piece is within '...' of a
                                          * filter */
};

struct template
{
    struct slice source;
    bool is_filter;
    struct piece *pieces;
    size_t count;
    const struct slice *properties;
    size_t property_count;
    bool reads_entity, reads_key[2];
    const bool *reads_args;      /* reads_args[i]: argument i is read;
                                    NULL: none is read */
    const struct filter *filter; /* only for a filter: the filter with sample
                                    values */
    struct template_equality *equalities; /* only for a filter */
    size_t equality_count;
};

/* ---- compiling ---- */

struct compiler {
    struct expression_reader in;
    struct template *template;
    size_t room; /* allocated length of template->pieces */
    bool in_quotes;
    bool failed;
};

static void add_piece(struct compiler *compiler, const struct piece *piece)
{
    struct template *template = compiler->template;

    if (template->count == compiler->room) {
        size_t room = compiler->room ? compiler->room * 2 : 4;
        struct piece *grown =
            arena_alloc(compiler->in.arena, room * sizeof(*grown));

        if (template->count > 0)
            memcpy(grown, template->pieces, template->count * sizeof(*grown));
        template->pieces = grown;
        compiler->room = room;
    }
    template->pieces[template->count++] = *piece;
}

static void add_literal(struct compiler *compiler, size_t start, size_t end)
{
    if (end > start)
        add_piece(compiler,
            &(struct piece){.offset = start,
                .literal = {compiler->in.text.at + start, end - start}});
}

/* Returns the offset after the } that ends the expression which begins at
 * start. A } in a quoted text does not end the expression. */
static size_t skip_braces(struct slice text, size_t start)
{
    bool in_quotes = false;

    for (size_t i = start; i < text.len; i++) {
        if (text.at[i] == '\'')
            in_quotes = !in_quotes;
        else if (text.at[i] == '}' && !in_quotes)
            return i + 1;
    }
    return text.len;
}

static bool at_char(const struct expression_reader *in, char c)
{
    return in->at < in->text.len && in->text.at[in->at] == c;
}

static bool read_width(struct expression_reader *in, struct piece *piece)
{
    size_t start = ++in->at;
    enum value_kind kind = expression_kind(piece->expression);
    int64_t width;

    while (in->at < in->text.len && in->text.at[in->at] >= '0' &&
           in->text.at[in->at] <= '9')
        in->at++;
    if (!text_int64((struct slice){in->text.at + start, in->at - start}, 1,
            MAX_WIDTH, &width)) {
        expression_problem(
            in, start, "expected a width of 1 to %d after :", MAX_WIDTH);
        return false;
    }
    if (kind != VALUE_UNKNOWN && kind != VALUE_INTEGER) {
        expression_problem(in, piece->offset,
            "only an integer can be padded with zeros; this is %s",
            value_kind_name(kind));
        return false;
    }
    piece->width = (unsigned)width;
    return true;
}

/* Refuse an unquoted DateTime in a filter, which accepts only datetime'...'.
 * Unquoted values of other kinds are checked when they are rendered. */
static bool check_bare(
    const struct compiler *compiler, const struct piece *piece)
{
    if (!compiler->template->is_filter || piece->quoted ||
        expression_kind(piece->expression) != VALUE_DATETIME)
        return true;
    expression_problem(&compiler->in, piece->offset,
        "a filter takes a DateTime as datetime'{...}' only");
    return false;
}

/* Parse everything from a { to its }. */
static bool read_braces(struct compiler *compiler, size_t start)
{
    struct expression_reader *in = &compiler->in;
    struct piece piece = {.offset = start, .quoted = compiler->in_quotes};

    in->at = start + 1;
    piece.expression = expression_read(in);
    if (piece.expression == NULL)
        return false;
    if (at_char(in, ':') && !read_width(in, &piece))
        return false;
    if (!at_char(in, '}')) {
        if (in->at == in->text.len)
            expression_problem(in, start,
                "this { is never closed (a brace itself is written {{)");
        else
            expression_problem(in, in->at, "expected an operator or }");
        return false;
    }
    in->at++;
    if (!check_bare(compiler, &piece))
        return false;
    add_piece(compiler, &piece);
    return true;
}

/* Parse the brace at offset i. Returns the offset of the text after it. */
static size_t read_brace(struct compiler *compiler, size_t i)
{
    struct slice text = compiler->in.text;
    char c = text.at[i];

    if (i + 1 < text.len && text.at[i + 1] == c) {
        add_literal(compiler, i, i + 1);
        return i + 2;
    }
    if (c == '{') {
        if (read_braces(compiler, i))
            return compiler->in.at;
        compiler->failed = true;
        return skip_braces(text, i + 1);
    }
    expression_problem(
        &compiler->in, i, "a } without { (a brace itself is written }})");
    compiler->failed = true;
    return i + 1;
}

static void read_pieces(struct compiler *compiler)
{
    struct slice text = compiler->in.text;
    size_t start = 0, i = 0;

    while (i < text.len) {
        char c = text.at[i];

        if (c != '{' && c != '}') {
            compiler->in_quotes ^= c == '\'';
            i++;
            continue;
        }
        add_literal(compiler, start, i);
        start = i = read_brace(compiler, i);
    }
    add_literal(compiler, start, i);
}

static struct template *compile(struct slice text, bool is_filter,
    struct mark mark, const struct template_scope *scope, struct arena *arena,
    struct problems *problems)
{
    struct template *template = arena_alloc(arena, sizeof(*template));
    struct compiler compiler = {
        .in = {.text = arena_copy(arena, text),
            .mark = mark,
            .scope = scope,
            .arena = arena,
            .problems = problems},
        .template = template,
    };

    template->source = compiler.in.text;
    template->is_filter = is_filter;
    if (!text_is_utf8(text)) {
        expression_problem(&compiler.in, 0, "not valid UTF-8");
        return NULL;
    }
    read_pieces(&compiler);
    template->properties = compiler.in.properties;
    template->property_count = compiler.in.property_count;
    template->reads_entity = compiler.in.reads_entity;
    template->reads_args = compiler.in.reads_args;
    memcpy(template->reads_key, compiler.in.reads_key,
        sizeof(template->reads_key));
    return compiler.failed ? NULL : template;
}

const struct template *template_compile(struct slice text, struct mark mark,
    const struct template_scope *scope, struct arena *arena,
    struct problems *problems)
{
    /* cppcheck-suppress CastIntegerToAddressAtReturn; template is a C name */
    return compile(text, false, mark, scope, arena, problems);
}

/* ---- checking a filter with sample values ---- */

/*
 * The text of a filter with sample values in place of {..}. `offsets` has, for
 * each byte of text, the offset of the corresponding byte of the template, for
 * the position of problems. Text within quotes is added when the quotes close,
 * because the word before the quotes decides the sample value: in datetime'{x}'
 * a time.
 */
struct sample {
    struct buf text;
    struct buf held; /* text after an opening quote, not yet added to text */
    size_t *offsets; /* offset in the template of each byte of text; `room` are
                      * allocated */
    size_t room;
    size_t quote_offset; /* where the quotes opened in the template */
    bool in_quotes, substituted;
};

static void sample_add(struct sample *sample, struct slice text, size_t offset)
{
    size_t need = sample->text.len + text.len + 1;

    if (need > sample->room) {
        sample->room = need * 2;
        sample->offsets = mem_resize(
            sample->offsets, sample->room * sizeof(*sample->offsets));
    }
    for (size_t i = 0; i < text.len; i++)
        sample->offsets[sample->text.len + i] = offset;
    buf_add_slice(&sample->text, text);
}

static bool ends_with_word(struct slice text, const char *word)
{
    size_t len = strlen(word);
    char before;

    if (text.len < len || memcmp(text.at + text.len - len, word, len) != 0)
        return false;
    before = text.len > len ? text.at[text.len - len - 1] : ' ';
    return strchr(" ()", before) != NULL;
}

/* Returns the text to put between the quotes that have just closed. */
static struct slice quoted_sample(const struct sample *sample)
{
    static const struct {
        const char *prefix, *text;
    } typed[] = {
        {"datetime", "2024-01-01T00:00:00Z"},
        {"guid", "00000000-0000-0000-0000-000000000000"},
        {"X", "00"},
        {"binary", "00"},
    };

    for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
        if (sample->substituted &&
            ends_with_word(buf_slice(&sample->text), typed[i].prefix))
            return slice_of(typed[i].text);
    }
    return buf_slice(&sample->held);
}

static void sample_quote(struct sample *sample, size_t offset)
{
    if (!sample->in_quotes) {
        sample->in_quotes = true;
        sample->substituted = false;
        sample->quote_offset = offset;
        return;
    }
    struct slice inner = quoted_sample(sample);

    sample_add(sample, slice_of("'"), sample->quote_offset);
    sample_add(sample, inner, sample->quote_offset);
    sample_add(sample, slice_of("'"), sample->quote_offset);
    buf_clear(&sample->held);
    sample->in_quotes = false;
}

static void sample_literal(struct sample *sample, const struct piece *piece)
{
    for (size_t i = 0; i < piece->literal.len; i++) {
        struct slice one = {piece->literal.at + i, 1};

        if (*one.at == '\'')
            sample_quote(sample, piece->offset + i);
        else if (sample->in_quotes)
            buf_add_slice(&sample->held, one);
        else
            sample_add(sample, one, piece->offset + i);
    }
}

static void sample_value(struct sample *sample, const struct piece *piece)
{
    bool truth = expression_kind(piece->expression) == VALUE_BOOLEAN;

    if (sample->in_quotes) {
        sample->substituted = true;
        buf_add_text(&sample->held, "x");
        return;
    }
    sample_add(sample, slice_of(truth ? "true" : "5"), piece->offset);
}

static size_t template_offset(
    const struct sample *sample, size_t offset, size_t end)
{
    return offset < sample->text.len ? sample->offsets[offset] : end;
}

/* Does a {..} of the template begin at an offset from `begin` to end-1? */
static bool has_braces(
    const struct template *template, size_t begin, size_t end)
{
    for (size_t i = 0; i < template->count; i++)
        if (template->pieces[i].expression &&
            template->pieces[i].offset >= begin &&
            template->pieces[i].offset < end)
            return true;
    return false;
}

/* Returns the {..} that is everything between the quotes at begin and end-1, or
 * NULL if there is other text. */
static const struct expression *lone_expression(
    const struct template *template, size_t begin, size_t end)
{
    for (size_t i = 0; i + 1 < template->count; i++) {
        const struct piece *piece = &template->pieces[i];

        if (piece->expression && piece->offset == begin + 1 &&
            piece->width == 0 && template->pieces[i + 1].offset == end - 1)
            return piece->expression;
    }
    return NULL;
}

/* Store the comparison `from` as an equality of the template. The filter that
 * has this comparison was parsed with sample values in place of the template's
 * expressions. */
static void keep_equality(struct template *template, struct arena *arena,
    const struct sample *sample, const struct filter_equality *from)
{
    size_t end = template->source.len;
    size_t name_at = template_offset(sample, from->name_at, end);
    size_t name_end =
        template_offset(sample, from->name_at + from->name.len, end);
    struct template_equality equality = {.arg = -1};
    const struct expression *lone;
    size_t begin = template_offset(sample, from->begin, end);

    end = template_offset(sample, from->end, end);
    if (has_braces(template, name_at, name_end))
        return;
    lone = lone_expression(template, begin, end);
    equality.property = arena_copy(arena, from->name);
    equality.is_constant = !has_braces(template, begin, end);
    if (equality.is_constant)
        equality.text = arena_copy(arena, from->text);
    if (lone) {
        equality.arg = expression_arg(lone);
        equality.read = expression_property(lone);
    }
    template->equalities[template->equality_count++] = equality;
}

static void find_equalities(
    struct template *template, struct arena *arena, const struct sample *sample)
{
    struct filter_equality list[FILTER_MAX_COMPARISONS];
    struct slice text = arena_copy(arena, buf_slice(&sample->text));
    struct err err;
    size_t count = 0;

    if (filter_parse(text, arena, &template->filter, &err) == TW_OK)
        count = filter_equalities(template->filter, list);
    template->equalities =
        arena_alloc(arena, (count + 1) * sizeof(*template->equalities));
    for (size_t i = 0; i < count; i++)
        keep_equality(template, arena, sample, &list[i]);
}

/* Check the syntax of a filter with sample values, and find its equalities. For
 * quotes that are not closed, an opening quote is added, so that filter_check()
 * reports them. */
static bool check_filter(struct template *template,
    const struct expression_reader *reader, struct arena *arena)
{
    struct sample sample = {0};
    struct err err;
    size_t offset;
    bool good;

    buf_init(&sample.text, template->source.len * 64 + 64);
    buf_init(&sample.held, template->source.len + 1);
    for (size_t i = 0; i < template->count; i++) {
        if (template->pieces[i].expression != NULL)
            sample_value(&sample, &template->pieces[i]);
        else
            sample_literal(&sample, &template->pieces[i]);
    }
    if (sample.in_quotes)
        sample_add(&sample, slice_of("'"), sample.quote_offset);
    good = filter_check(buf_slice(&sample.text), &offset, &err) == TW_OK;
    if (!good)
        expression_problem(reader,
            template_offset(&sample, offset, template->source.len),
            "filter: %s", err.text);
    else
        find_equalities(template, arena, &sample);
    buf_done(&sample.text);
    buf_done(&sample.held);
    mem_free(sample.offsets);
    return good;
}

const struct template *template_compile_filter(struct slice text,
    struct mark mark, const struct template_scope *scope, struct arena *arena,
    struct problems *problems)
{
    struct template *template =
        compile(text, true, mark, scope, arena, problems);
    struct expression_reader reader = {.mark = mark, .problems = problems};

    if (template == NULL)
        return NULL;
    reader.text = template->source;
    return check_filter(template, &reader, arena) ? template : NULL;
}

/* ---- rendering ---- */

static enum tw_err add_plain(const struct piece *piece,
    const struct value *value, struct arena *arena, struct buf *to,
    struct err *err)
{
    if (piece->width > 0 && value->kind != VALUE_INTEGER)
        return err_fail(err, TW_INVALID,
            "only an integer can be padded with zeros; this is %s",
            value_kind_name(value->kind));
    if (value->kind == VALUE_INTEGER)
        buf_add_format(to, "%0*" PRId64, (int)(piece->width ? piece->width : 1),
            value->integer);
    else
        buf_add_slice(to, value_text(value, arena));
    return TW_OK;
}

static bool only_constant_chars(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                (c >= 'A' && c <= 'Z') || c == '.' || c == '+' || c == '-'))
            return false;
    }
    return text.len > 0;
}

/* Is text, without quotes, a valid OData number, true or false? */
static bool is_bare_constant(struct slice text)
{
    struct buf filter;
    size_t offset;
    bool good;

    if (!only_constant_chars(text))
        return false;
    buf_init(&filter, text.len + 8);
    buf_add_text(&filter, "a eq ");
    buf_add_slice(&filter, text);
    good = filter_check(buf_slice(&filter), &offset, NULL) == TW_OK;
    buf_done(&filter);
    return good;
}

static enum tw_err add_bare_text(
    const struct value *value, struct buf *to, struct err *err)
{
    if (!is_bare_constant(value->text))
        return err_fail(err, TW_INVALID,
            "the value is not in quotes in the filter, so it must be a number, "
            "true or false");
    buf_add_slice(to, value->text);
    return TW_OK;
}

static enum tw_err add_bare_double(
    const struct value *value, struct buf *to, struct err *err)
{
    struct slice text = value->text;

    if (!(value->real - value->real == 0)) /* NaN, Infinity */
        return err_fail(err, TW_INVALID, "%.*s cannot be written in a filter",
            SLICE_ARG(text));
    buf_add_slice(to, text);
    for (size_t i = 0; i < text.len; i++) {
        if (strchr(".eE", text.at[i]) != NULL)
            return TW_OK;
    }
    buf_add_text(to, ".0");
    return TW_OK;
}

/* Append value to a filter, unquoted, as an OData constant of the value's
 * type. */
static enum tw_err add_bare(const struct piece *piece,
    const struct value *value, struct arena *arena, struct buf *to,
    struct err *err)
{
    enum tw_err result;

    if (value->kind == VALUE_TEXT && piece->width == 0)
        return add_bare_text(value, to, err);
    if (value->kind == VALUE_DOUBLE && piece->width == 0)
        return add_bare_double(value, to, err);
    if (value->kind == VALUE_DATETIME)
        return err_fail(err, TW_INVALID,
            "the value is a DateTime, which a filter takes as datetime'{...}' "
            "only");
    result = add_plain(piece, value, arena, to, err);
    if (result == TW_OK && value->kind == VALUE_INTEGER &&
        (value->wide || value->integer < INT32_MIN ||
            value->integer > INT32_MAX))
        buf_add_char(to, 'L');
    return result;
}

static enum tw_err add_quoted(const struct piece *piece,
    const struct value *value, struct arena *arena, struct buf *to,
    struct err *err)
{
    struct buf plain;
    enum tw_err result;

    buf_init(&plain, to->max);
    result = add_plain(piece, value, arena, &plain, err);
    for (size_t i = 0; i < plain.len; i++) {
        if (plain.at[i] == '\'')
            buf_add_char(to, '\'');
        buf_add_char(to, plain.at[i]);
    }
    buf_done(&plain);
    return result;
}

static enum tw_err render_piece(const struct template *template,
    const struct piece *piece, const struct run_args *args,
    const struct entity *entity, struct arena *arena, struct buf *to,
    struct err *err)
{
    struct value value;
    enum tw_err result = expression_evaluate(
        piece->expression, args, entity, arena, &value, err);

    if (result != TW_OK)
        return result;
    if (!template->is_filter)
        result = add_plain(piece, &value, arena, to, err);
    else if (piece->quoted)
        result = add_quoted(piece, &value, arena, to, err);
    else
        result = add_bare(piece, &value, arena, to, err);
    if (result != TW_OK)
        err_prefix(
            err, "%.*s", SLICE_ARG(expression_source(piece->expression)));
    return result;
}

/* Check a rendered filter, because a value may be invalid at its position, as
 * in datetime'{x}'. err shows the text at the mistake, unless it may contain
 * values of an entity. */
static enum tw_err check_rendered(const struct template *template,
    const struct buf *to, size_t start, struct err *err)
{
    enum tw_err result;
    struct slice shown;
    size_t offset;

    if (!template->is_filter || template_is_constant(template) || to->overflow)
        return TW_OK;
    result = filter_check(
        (struct slice){to->at + start, to->len - start}, &offset, err);
    if (result == TW_OK || template->reads_entity)
        return result;
    shown = (struct slice){to->at + start + offset, to->len - start - offset};
    shown = text_cut(shown, SHOWN_MAX_BYTES);
    err_prefix(err, "at \"%.*s\"", SLICE_ARG(shown));
    return result;
}

enum tw_err template_render(const struct template *template,
    const struct run_args *args, const struct entity *entity, struct buf *to,
    struct err *err)
{
    size_t start = to->len;
    enum tw_err result = TW_OK;
    struct arena arena;

    arena_init(&arena);
    for (size_t i = 0; i < template->count && result == TW_OK; i++) {
        const struct piece *piece = &template->pieces[i];

        if (piece->expression == NULL)
            buf_add_slice(to, piece->literal);
        else
            result =
                render_piece(template, piece, args, entity, &arena, to, err);
    }
    if (result == TW_OK)
        result = check_rendered(template, to, start, err);
    arena_done(&arena);
    return result;
}

enum tw_err template_render_key(const struct template *template,
    const struct run_args *args, const char *which, struct arena *arena,
    struct slice *ret, struct err *err)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, ENTITY_MAX_KEY_BYTES);
    outcome = template_render(template, args, NULL, &text, err);
    if (outcome == TW_OK && text.overflow)
        outcome = err_fail(err, TW_INVALID,
            "%s is longer than %d bytes, which the service refuses", which,
            ENTITY_MAX_KEY_BYTES);
    if (outcome == TW_OK)
        outcome = entity_check_key(which, buf_slice(&text), err);
    if (outcome == TW_OK)
        *ret = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

/* ---- what is known of a template ---- */

struct mark template_mark(const struct yaml_node *scalar)
{
    struct mark mark = scalar->mark;

    mark.column += scalar->quoted;
    return mark;
}

const struct slice *template_properties(
    const struct template *template, size_t *ret_count)
{
    *ret_count = template->property_count;
    return template->properties;
}

bool template_reads_entity(const struct template *template)
{
    return template->reads_entity;
}

bool template_reads_key(const struct template *template, bool row_key)
{
    return template->reads_key[row_key];
}

bool template_reads_arg(const struct template *template, size_t arg)
{
    return template->reads_args && template->reads_args[arg];
}

size_t template_values(const struct template *template)
{
    size_t count = 0;

    for (size_t i = 0; i < template->count; i++)
        count += template->pieces[i].expression != NULL;
    return count;
}

struct slice template_source(const struct template *template)
{
    return template->source;
}

bool template_is_constant(const struct template *template)
{
    for (size_t i = 0; i < template->count; i++) {
        if (template->pieces[i].expression != NULL)
            return false;
    }
    return true;
}

bool template_holds(
    const struct template *template, const char *name, bool *ret_longer)
{
    bool holds = false;

    *ret_longer = false;
    for (size_t i = 0; i < template->count; i++) {
        const struct piece *piece = &template->pieces[i];

        if (piece->expression == NULL)
            *ret_longer = true;
        else if (expression_arg(piece->expression) < 0 &&
                 slice_is(expression_source(piece->expression), name))
            holds = true;
    }
    return holds;
}

struct slice template_beginning(
    const struct template *template, bool *ret_whole)
{
    *ret_whole = template_is_constant(template) && template->count <= 1;
    if (template->count == 0 || template->pieces[0].expression != NULL)
        return slice_of("");
    return template->pieces[0].literal;
}

const struct filter *template_filter(const struct template *template)
{
    return template->filter;
}

const struct template_equality *template_equalities(
    const struct template *template, size_t *ret_count)
{
    *ret_count = template->equality_count;
    return template->equalities;
}

/* If the template consists of one {..} and literal text after it, returns the
 * {..}, else NULL. */
static const struct expression *leading_expression(
    const struct template *template, struct slice *ret_rest)
{
    const struct piece *pieces = template->pieces;

    if (template->count != 2 || !pieces[0].expression || pieces[0].width > 0 ||
        pieces[1].expression)
        return NULL;
    *ret_rest = pieces[1].literal;
    return pieces[0].expression;
}

/* Returns the {..} that is the whole template, or NULL. */
static const struct expression *whole_expression(
    const struct template *template)
{
    if (template->count != 1 || template->pieces[0].width > 0)
        return NULL;
    return template->pieces[0].expression;
}

int template_leading_arg(
    const struct template *template, struct slice *ret_rest)
{
    const struct expression *leading = leading_expression(template, ret_rest);

    return leading ? expression_arg(leading) : -1;
}

int template_lone_arg(const struct template *template)
{
    const struct expression *whole = whole_expression(template);

    return whole ? expression_arg(whole) : -1;
}

struct slice template_lone_property(const struct template *template)
{
    const struct expression *whole = whole_expression(template);

    return whole ? expression_property(whole) : (struct slice){NULL, 0};
}

struct slice template_leading_property(
    const struct template *template, struct slice *ret_rest)
{
    const struct expression *leading = leading_expression(template, ret_rest);

    return leading ? expression_property(leading) : (struct slice){NULL, 0};
}
