/* SPDX-License-Identifier: MIT */
/* Finds, from an entity that a rule selects, the arguments and parent values
 * with which the rule selected it. */
#include "jobs/cascade/sources.h"

#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"

/* A value that a rule is bound to. */
struct wanted {
    int arg;           /* index of an argument; -1: none */
    struct slice read; /* if arg is -1: the key or property of the entity above
                          that has the value */
};

static bool is_lone(const struct template *template, const struct wanted *want)
{
    if (!template)
        return false;
    if (want->arg >= 0)
        return template_lone_arg(template) == want->arg;
    return slice_equal(template_lone_property(template), want->read);
}

static bool is_leading(const struct template *template,
    const struct wanted *want, struct slice *ret_rest)
{
    if (!template)
        return false;
    if (want->arg >= 0)
        return template_leading_arg(template, ret_rest) == want->arg;
    return slice_equal(
        template_leading_property(template, ret_rest), want->read);
}

static struct source source_of(
    const struct rule *rule, const struct wanted *want)
{
    const struct selector *selector = &rule->selector;
    struct source source = {.by = TOLD_BY_KEY};

    for (int i = 0; i < 2; i++) {
        source.row_key = i == 1;
        if (is_lone(selector->keys[i == 0 ? SELECTOR_PARTITION_KEY
                                          : SELECTOR_ROW_KEY],
                want))
            return source;
    }
    source.by = TOLD_BY_PROPERTY;
    if (selector_property_is(selector, want->arg, want->read, &source.property))
        return source;
    source.by = TOLD_BY_PREFIX;
    for (int i = 0; i < 2; i++) {
        source.row_key = i == 1;
        if (is_leading(selector->keys[i == 0 ? SELECTOR_PARTITION_KEY_PREFIX
                                             : SELECTOR_ROW_KEY_PREFIX],
                want, &source.rest))
            return source;
    }
    return (struct source){.by = TOLD_BY_NOTHING};
}

struct source source_of_arg(const struct rule *rule, int arg)
{
    return source_of(rule, &(struct wanted){.arg = arg});
}

struct source source_of_read(const struct rule *rule, struct slice read)
{
    return source_of(rule, &(struct wanted){.arg = -1, .read = read});
}

struct slice source_key(
    const struct source *source, const struct entity *entity)
{
    return source->row_key ? entity->row_key : entity->partition_key;
}

bool source_value(const struct source *source, const struct entity *entity,
    struct arena *arena, struct slice *ret)
{
    const struct property *property;

    if (source->by == TOLD_BY_KEY) {
        *ret = source_key(source, entity);
        return true;
    }
    if (slice_is(source->property, "PartitionKey") ||
        slice_is(source->property, "RowKey")) {
        *ret = slice_is(source->property, "RowKey") ? entity->row_key
                                                    : entity->partition_key;
        return true;
    }
    property = entity_find(entity, source->property);
    return property && property->type == EDM_STRING &&
           property_text(property, arena, ret);
}

bool rule_reads_arg(const struct rule *rule, size_t arg)
{
    const struct selector *selector = &rule->selector;

    for (int i = 0; i < SELECTOR_KEYS; i++)
        if (selector->keys[i] && template_reads_arg(selector->keys[i], arg))
            return true;
    return selector->filter && template_reads_arg(selector->filter, arg);
}
