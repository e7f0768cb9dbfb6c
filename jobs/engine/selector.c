/* SPDX-License-Identifier: MIT */
/* Which entities of a table are meant: from templates to an exact test. */
#include "jobs/engine/selector.h"

#include "config/settings.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* A rendered filter goes into a URL; the service takes no longer one. */
#define FILTER_MAX_BYTES (32 * 1024)
/* 512 UTF-16 units are at most 1536 bytes; longer is refused by the check. */
#define KEY_MAX_BYTES 4096

static const struct {
    const char *key;  /* in the configuration */
    const char *name; /* the service's */
    bool is_prefix;
} KEYS[SELECTOR_KEYS] = {
    [SELECTOR_PARTITION_KEY] = {"partition_key", "PartitionKey", false},
    [SELECTOR_PARTITION_KEY_PREFIX] = {"partition_key_prefix", "PartitionKey",
        true},
    [SELECTOR_ROW_KEY] = {"row_key", "RowKey", false},
    [SELECTOR_ROW_KEY_PREFIX] = {"row_key_prefix", "RowKey", true},
};

static const struct template *load_template(const struct yaml_node *node,
    bool is_filter, const struct template_scope *scope, struct arena *arena,
    const char **unset, struct problems *problems)
{
    struct slice text;

    if (!settings_text(node, true, arena, &text, unset, problems))
        return NULL;
    return is_filter ? template_compile_filter(
                           text, template_mark(node), scope, arena, problems)
                     : template_compile(
                           text, template_mark(node), scope, arena, problems);
}

static void warn_of_lone_prefix(
    const struct selector_nodes *nodes, struct problems *problems)
{
    if (nodes->filter)
        return;
    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (KEYS[i].is_prefix && nodes->keys[i])
            problems_warn(problems, nodes->keys[i]->mark,
                "%s stands without a filter: keys of others that begin the "
                "same way are selected too (Foot_ also begins Foot_ball_1); a "
                "filter beside it makes sure",
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
            load_template(nodes->keys[i], false, scope, arena, unset, problems);
        good = good && selector.keys[i];
    }
    if (nodes->filter) {
        selector.filter =
            load_template(nodes->filter, true, scope, arena, unset, problems);
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

void selector_explain(const struct selector *selector, struct buf *to)
{
    const char *join = "";

    for (int i = 0; i < SELECTOR_KEYS; i++) {
        if (!selector->keys[i])
            continue;
        buf_add_format(to, "%s%s %s \"%.*s\"", join, KEYS[i].name,
            KEYS[i].is_prefix ? "begins with" : "is",
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
        outcome = err_fail(err, TW_INVALID, "it is longer than %zu bytes", max);
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

    if (outcome == TW_OK)
        outcome = entity_check_key(KEYS[key].name, to->keys[key], err);
    if (outcome != TW_OK) {
        err_prefix(err, "%s \"%.*s\"", KEYS[key].key,
            SLICE_ARG(template_source(template)));
        return outcome;
    }
    to->has[key] = true;
    if (KEYS[key].is_prefix && to->keys[key].len == 0)
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

static bool key_matches(const struct selection *selection,
    enum selector_key exact, enum selector_key prefix, struct slice key)
{
    if (selection->has[exact] && !slice_equal(selection->keys[exact], key))
        return false;
    return !selection->has[prefix] ||
           slice_begins(key, selection->keys[prefix]);
}

bool selection_matches(
    const struct selection *selection, const struct entity *entity)
{
    return key_matches(selection, SELECTOR_PARTITION_KEY,
               SELECTOR_PARTITION_KEY_PREFIX, entity->partition_key) &&
           key_matches(selection, SELECTOR_ROW_KEY, SELECTOR_ROW_KEY_PREFIX,
               entity->row_key) &&
           filter_matches(selection->filter, entity);
}

static struct key_range range(const struct selection *selection,
    enum selector_key exact, enum selector_key prefix, struct arena *arena)
{
    if (selection->has[exact])
        return key_range_exact(selection->keys[exact]);
    if (selection->has[prefix])
        return key_range_prefix(selection->keys[prefix], arena);
    return (struct key_range){.exact = false};
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
    spec->partition_key = range(selection, SELECTOR_PARTITION_KEY,
        SELECTOR_PARTITION_KEY_PREFIX, arena);
    spec->row_key =
        range(selection, SELECTOR_ROW_KEY, SELECTOR_ROW_KEY_PREFIX, arena);
    spec->filter = selection->filter_text;
    spec->select = NULL;
    spec->select_count = 0;
    if (!whole)
        spec_select(selection, extra, extra_count, arena, spec);
}
