/* SPDX-License-Identifier: MIT */
/* Selects entities of a table: renders the templates of keys and filter into a
 * query, and tests each entity that the query returns. */
#include "jobs/engine/selector.h"

#include "config/settings.h"
#include "worker/base/text.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* Limit of a rendered filter, in bytes. It is sent in a URL, and the service
 * refuses longer URLs. */
#define FILTER_MAX_BYTES (32 * 1024)
/* Limit of a rendered key, in bytes. A valid key has at most 512 UTF-16 units,
 * that is 1536 bytes; entity_check_key() refuses a longer one. */
#define KEY_MAX_BYTES 4096

/* How a key of an entity is compared with a selector's text.
 * SELECTOR_PARTITION_KEY or SELECTOR_ROW_KEY plus a relation gives a value of
 * enum selector_key. */
enum relation { EXACT, PREFIX, FROM, BELOW, RELATIONS };

static const char *const RELATION_WORDS[RELATIONS] = {
    [EXACT] = "is",
    [PREFIX] = "begins with",
    [FROM] = "is not before",
    [BELOW] = "is before",
};

static const struct {
    const char *key;  /* name in the configuration */
    const char *name; /* the service's name of the entity's key */
    enum relation relation;
} KEYS[SELECTOR_KEYS] = {
    [SELECTOR_PARTITION_KEY] = {"partition_key", "PartitionKey", EXACT},
    [SELECTOR_PARTITION_KEY_PREFIX] = {"partition_key_prefix", "PartitionKey",
        PREFIX},
    [SELECTOR_PARTITION_KEY_FROM] = {"partition_key_from", "PartitionKey",
        FROM},
    [SELECTOR_PARTITION_KEY_BELOW] = {"partition_key_below", "PartitionKey",
        BELOW},
    [SELECTOR_ROW_KEY] = {"row_key", "RowKey", EXACT},
    [SELECTOR_ROW_KEY_PREFIX] = {"row_key_prefix", "RowKey", PREFIX},
    [SELECTOR_ROW_KEY_FROM] = {"row_key_from", "RowKey", FROM},
    [SELECTOR_ROW_KEY_BELOW] = {"row_key_below", "RowKey", BELOW},
};

/* Is text empty or only blanks? Such a filter matches every entity. */
static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != ' ' && text.at[i] != '\t' && text.at[i] != '\r' &&
            text.at[i] != '\n')
            return false;
    return true;
}

static const struct template *load_key(const struct yaml_node *node,
    const struct template_scope *scope, struct arena *arena, const char **unset,
    struct problems *problems)
{
    struct slice text;

    if (!settings_text(node, true, arena, &text, unset, problems))
        return NULL;
    /* cppcheck-suppress CastIntegerToAddressAtReturn; `template` is a keyword
     * in C++ only */
    return template_compile(text, template_mark(node), scope, arena, problems);
}

/* Compile the filter. An empty filter is refused, because an environment
 * variable that is empty by mistake may be the cause. If a variable is not set,
 * the text of the filter is not known yet, and this check is skipped. */
static const struct template *load_filter(const struct yaml_node *node,
    const struct template_scope *scope, struct arena *arena, const char **unset,
    struct problems *problems)
{
    const char *own = NULL;
    struct slice text;

    if (!settings_text(node, true, arena, &text, &own, problems))
        return NULL;
    if (own && !*unset)
        *unset = own;
    if (!own && is_blank(text)) {
        problems_add(problems, node->mark,
            "this filter is empty and would select everything: remove it, or "
            "write a condition");
        return NULL;
    }
    /* cppcheck-suppress CastIntegerToAddressAtReturn; `template` is a keyword
     * in C++ only */
    return template_compile_filter(
        text, template_mark(node), scope, arena, problems);
}

static void warn_of_lone_prefix(
    const struct selector_nodes *nodes, struct problems *problems)
{
    if (nodes->filter)
        return;
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (KEYS[i].relation == PREFIX && nodes->keys[i])
            problems_warn(problems, nodes->keys[i]->mark,
                "%s without a filter also selects other keys that begin the "
                "same way (Foot_ also matches Foot_ball_1): add a filter to "
                "exclude them",
                KEYS[i].key);
}

bool selector_load(const struct selector_nodes *nodes,
    const struct template_scope *scope, struct arena *arena,
    struct selector *ret, const char **unset, struct problems *problems)
{
    struct selector selector = {.filter = NULL};
    bool good = true;

    for (int i = 0; i < SELECTOR_KEYS; i++) {
        if (!nodes->keys[i])
            continue;
        selector.keys[i] =
            load_key(nodes->keys[i], scope, arena, unset, problems);
        good = good && selector.keys[i];
    }
    if (nodes->filter) {
        selector.filter =
            load_filter(nodes->filter, scope, arena, unset, problems);
        good = good && selector.filter;
    }
    warn_of_lone_prefix(nodes, problems);
    if (good)
        *ret = selector;
    return good;
}

bool selector_is_empty(const struct selector *selector)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (selector->keys[i])
            return false;
    return !selector->filter;
}

bool selector_reads_entity(const struct selector *selector)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (selector->keys[i] && template_reads_entity(selector->keys[i]))
            return true;
    return selector->filter && template_reads_entity(selector->filter);
}

static bool same_text(const struct template *a, const struct template *b)
{
    if (!a || !b)
        return a == b;
    return slice_equal(template_source(a), template_source(b));
}

bool selector_equal(const struct selector *a, const struct selector *b)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (!same_text(a->keys[i], b->keys[i]))
            return false;
    return same_text(a->filter, b->filter);
}

static bool stays_with(
    const struct template *template, const struct template *one)
{
    return template == NULL || !template_reads_entity(template) ||
           same_text(template, one);
}

bool selector_stays_with(
    const struct selector *selector, const struct selector *one)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (!stays_with(selector->keys[i], one->keys[i]))
            return false;
    return stays_with(selector->filter, one->filter);
}

/* ---- what is known without arguments ---- */

bool selector_same_partition(const struct selector *selector)
{
    const struct template *key = selector->keys[SELECTOR_PARTITION_KEY];
    bool longer;

    return key && slice_is(template_source(key), "{PartitionKey}") &&
           template_holds(key, "PartitionKey", &longer);
}

enum selector_growth selector_growth(
    const struct selector *selector, enum selector_key first)
{
    enum selector_growth growth = SELECTOR_ANY;

    for (int relation = EXACT; relation <= PREFIX; relation++) {
        const struct template *key = selector->keys[first + relation];
        bool longer;

        if (!key || !template_holds(key, KEYS[first].name, &longer))
            continue;
        if (longer)
            return SELECTOR_LONGER;
        growth = SELECTOR_AS_LONG;
    }
    return growth;
}

/* Is it certain that no key satisfies both relation `one` of selector `a` and
 * relation `other` of selector `b`? */
static bool keys_disjoint(const struct selector *a, const struct selector *b,
    enum selector_key one, enum selector_key other)
{
    struct slice x, y;
    bool x_whole, y_whole;

    if (!a->keys[one] || !b->keys[other])
        return false;
    x = template_beginning(a->keys[one], &x_whole);
    y = template_beginning(b->keys[other], &y_whole);
    if (slice_begins(x, y))
        return KEYS[other].relation == EXACT && y_whole && x.len > y.len;
    if (slice_begins(y, x))
        return KEYS[one].relation == EXACT && x_whole && y.len > x.len;
    return true;
}

static bool all_keys_disjoint(
    const struct selector *a, const struct selector *b, enum selector_key first)
{
    for (int i = EXACT; i <= PREFIX; i++)
        for (int j = EXACT; j <= PREFIX; j++)
            if (keys_disjoint(a, b, first + i, first + j))
                return true;
    return false;
}

/* Is there a property that filter `a` requires to equal one constant text, and
 * filter `b` another? */
static bool filters_disjoint(const struct template *a, const struct template *b)
{
    const struct template_equality *ones, *others;
    size_t one_count, other_count;

    if (!a || !b)
        return false;
    ones = template_equalities(a, &one_count);
    others = template_equalities(b, &other_count);
    for (size_t i = 0; i < one_count; i++)
        for (size_t j = 0; j < other_count; j++)
            if (ones[i].is_constant && others[j].is_constant &&
                slice_equal(ones[i].property, others[j].property) &&
                !slice_equal(ones[i].text, others[j].text))
                return true;
    return false;
}

bool selector_disjoint(const struct selector *a, const struct selector *b)
{
    return all_keys_disjoint(a, b, SELECTOR_PARTITION_KEY) ||
           all_keys_disjoint(a, b, SELECTOR_ROW_KEY) ||
           filters_disjoint(a->filter, b->filter);
}

bool selector_property_is(const struct selector *selector, int arg,
    struct slice read, struct slice *ret_property)
{
    const struct template_equality *equality;
    size_t count;

    if (!selector->filter)
        return false;
    equality = template_equalities(selector->filter, &count);
    for (; count > 0; equality++, count--) {
        if (arg >= 0
                ? equality->arg != arg
                : equality->read.len == 0 || !slice_equal(equality->read, read))
            continue;
        *ret_property = equality->property;
        return true;
    }
    return false;
}

bool selector_scans_table(const struct selector *selector)
{
    for (int i = 0; i < RELATIONS; i++)
        if (selector->keys[SELECTOR_PARTITION_KEY + i])
            return false;
    return true;
}

void selector_explain(const struct selector *selector, struct buf *to)
{
    const char *join = "";

    for (int i = 0; i < SELECTOR_KEYS; i++) {
        if (!selector->keys[i])
            continue;
        buf_add_format(to, "%s%s %s \"%.*s\"", join, KEYS[i].name,
            RELATION_WORDS[KEYS[i].relation],
            SLICE_ARG(template_source(selector->keys[i])));
        join = " and ";
    }
    if (selector->filter)
        buf_add_format(
            to, "%s%.*s", join, SLICE_ARG(template_source(selector->filter)));
}

static void template_each(const struct template *template,
    void (*each)(void *ctx, struct slice name), void *ctx)
{
    size_t count;
    const struct slice *names = template_properties(template, &count);

    for (size_t i = 0; i < count; i++)
        each(ctx, names[i]);
}

void selector_properties(const struct selector *selector,
    void (*each)(void *ctx, struct slice name), void *ctx)
{
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (selector->keys[i])
            template_each(selector->keys[i], each, ctx);
    if (selector->filter)
        template_each(selector->filter, each, ctx);
}

static enum tw_err render(const struct template *template, size_t max,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct slice *ret, struct err *err)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, max);
    outcome = template_render(template, args, entity, &text, err);
    if (outcome == TW_OK && text.overflow)
        outcome = err_fail(
            err, TW_INVALID, "the rendered text is longer than %zu bytes", max);
    if (outcome == TW_OK)
        *ret = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

static enum tw_err bind_key(enum selector_key key,
    const struct template *template, const struct run_args *args,
    const struct entity *entity, struct arena *arena, struct selection *to,
    struct err *err)
{
    enum tw_err outcome = render(
        template, KEY_MAX_BYTES, args, entity, arena, &to->keys[key], err);

    if (outcome == TW_OK && KEYS[key].relation == PREFIX)
        outcome = entity_check_key_prefix(KEYS[key].name, to->keys[key], err);
    else if (outcome == TW_OK)
        outcome = entity_check_key(KEYS[key].name, to->keys[key], err);
    if (outcome != TW_OK) {
        err_prefix(err, "%s \"%.*s\"", KEYS[key].key,
            SLICE_ARG(template_source(template)));
        return outcome;
    }
    to->has[key] = true;
    if (to->keys[key].len == 0 &&
        (KEYS[key].relation == PREFIX || KEYS[key].relation == FROM))
        to->empty_prefix = KEYS[key].key;
    return TW_OK;
}

static enum tw_err bind_filter(const struct template *template,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct selection *to, struct err *err)
{
    enum tw_err outcome = render(
        template, FILTER_MAX_BYTES, args, entity, arena, &to->filter_text, err);

    if (outcome == TW_OK)
        outcome = filter_parse(to->filter_text, arena, &to->filter, err);
    if (outcome != TW_OK)
        err_prefix(
            err, "filter \"%.*s\"", SLICE_ARG(template_source(template)));
    else if (is_blank(to->filter_text))
        to->empty_prefix = "filter";
    return outcome;
}

enum tw_err selection_bind(const struct selector *selector,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct selection *ret, struct err *err)
{
    struct selection selection = {.filter = NULL};
    enum tw_err outcome = TW_OK;

    for (int i = 0; i < SELECTOR_KEYS && outcome == TW_OK; i++)
        if (selector->keys[i])
            outcome = bind_key((enum selector_key)i, selector->keys[i], args,
                entity, arena, &selection, err);
    if (outcome == TW_OK && selector->filter)
        outcome =
            bind_filter(selector->filter, args, entity, arena, &selection, err);
    if (outcome == TW_OK)
        *ret = selection;
    return outcome;
}

enum tw_err selection_of_run(const struct selector *selector,
    const struct run_args *args, struct arena *arena, struct selection *ret,
    struct err *err)
{
    enum tw_err outcome = selection_bind(selector, args, NULL, arena, ret, err);

    if (outcome != TW_OK || !ret->empty_prefix)
        return outcome;
    return err_fail(err, TW_INVALID,
        "%s renders as an empty text, which would select everything",
        ret->empty_prefix);
}

enum tw_err selector_accept(const struct selector *selector,
    const struct run_args *args, struct err *err)
{
    struct selection selection;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    outcome = selection_of_run(selector, args, &arena, &selection, err);
    arena_done(&arena);
    return outcome;
}

static bool is_so(enum relation relation, struct slice key, struct slice text)
{
    switch (relation) {
    case EXACT:
        return slice_equal(key, text);
    case PREFIX:
        return slice_begins(key, text);
    case FROM:
        return text_utf16_compare(key, text) >= 0;
    case BELOW:
        return text_utf16_compare(key, text) < 0;
    case RELATIONS:
        break;
    }
    return false;
}

/* Does key satisfy all relations of the selection for this sort of key? `first`
 * is SELECTOR_PARTITION_KEY or SELECTOR_ROW_KEY. */
static bool key_matches(const struct selection *selection,
    enum selector_key first, struct slice key)
{
    for (int i = 0; i < RELATIONS; i++)
        if (selection->has[first + i] &&
            !is_so((enum relation)i, key, selection->keys[first + i]))
            return false;
    return true;
}

bool selection_matches(
    const struct selection *selection, const struct entity *entity)
{
    return key_matches(
               selection, SELECTOR_PARTITION_KEY, entity->partition_key) &&
           key_matches(selection, SELECTOR_ROW_KEY, entity->row_key) &&
           filter_matches(selection->filter, entity);
}

static const struct slice *text_of(
    const struct selection *selection, enum selector_key key)
{
    return selection->has[key] ? &selection->keys[key] : NULL;
}

/* Returns the intersection of the ranges `a` and `b`. Every selected entity is
 * in both ranges, so only the intersection need be read. */
static struct key_range narrower(struct key_range a, struct key_range b)
{
    if (!a.has_from || (b.has_from && text_utf16_compare(b.from, a.from) > 0)) {
        a.has_from = b.has_from;
        a.from = b.from;
    }
    if (!a.has_below ||
        (b.has_below && text_utf16_compare(b.below, a.below) < 0)) {
        a.has_below = b.has_below;
        a.below = b.below;
    }
    return a;
}

/* Cuts a prefix to the greatest length that a key may have. No key begins with
 * a longer prefix (made of a parent's key, for example). selection_matches()
 * compares keys with the whole prefix, and so rejects what the shorter one
 * finds. */
static struct slice as_long_as_a_key(struct slice prefix)
{
    struct slice rest = prefix;
    size_t units = 0, len;

    for (; rest.len > 0; rest.at += len, rest.len -= len) {
        units += text_decode(rest, &len) > 0xffff ? 2 : 1;
        if (units > ENTITY_MAX_KEY_UNITS)
            break;
    }
    return (struct slice){prefix.at, prefix.len - rest.len};
}

static struct key_range range(const struct selection *selection,
    enum selector_key first, struct arena *arena)
{
    struct key_range between;

    if (selection->has[first + EXACT])
        return key_range_exact(selection->keys[first + EXACT]);
    between = key_range_between(text_of(selection, first + FROM),
        text_of(selection, first + BELOW), arena);
    if (!selection->has[first + PREFIX])
        return between;
    return narrower(
        key_range_prefix(
            as_long_as_a_key(selection->keys[first + PREFIX]), arena),
        between);
}

static void add_name(struct slice *names, size_t *count, struct slice name)
{
    for (size_t i = 0; i < *count; i++)
        if (slice_equal(names[i], name))
            return;
    names[(*count)++] = name;
}

static void spec_select(const struct selection *selection,
    const struct slice *extra, size_t extra_count, struct arena *arena,
    struct scan_spec *spec)
{
    size_t read_count = 0, count = 0;
    const struct slice *read =
        selection->filter ? filter_properties(selection->filter, &read_count)
                          : NULL;
    struct slice *names =
        arena_alloc(arena, (2 + read_count + extra_count) * sizeof(*names));

    add_name(names, &count, slice_of("PartitionKey"));
    add_name(names, &count, slice_of("RowKey"));
    for (size_t i = 0; i < read_count; i++)
        add_name(names, &count, read[i]);
    for (size_t i = 0; i < extra_count; i++)
        add_name(names, &count, extra[i]);
    spec->select = names;
    spec->select_count = count;
}

void selection_spec(const struct selection *selection, bool whole,
    const struct slice *extra, size_t extra_count, struct arena *arena,
    struct scan_spec *spec)
{
    spec->partition_key = range(selection, SELECTOR_PARTITION_KEY, arena);
    spec->row_key = range(selection, SELECTOR_ROW_KEY, arena);
    spec->filter = selection->filter_text;
    spec->select = NULL;
    spec->select_count = 0;
    if (!whole)
        spec_select(selection, extra, extra_count, arena, spec);
}

void selection_spec_sure(const struct selection *selection, struct arena *arena,
    struct scan_spec *spec)
{
    selection_spec(selection, true, NULL, 0, arena, spec);
    if (selection->filter && !filter_is_plain(selection->filter))
        spec->filter = slice_of("");
}
