/* SPDX-License-Identifier: MIT */
/* Carries out the steps of an upgrade on a copy of one entity. */
#include "jobs/upgrade/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/engine/convert.h"
#include "jobs/engine/template.h"
#include "jobs/upgrade/record.h"

/* The entity while steps change it. Its property list is a copy with room for
 * all that steps may add; the names and values are borrowed from the entity
 * that was read. */
struct work {
    const struct upgrade_how *how;
    const struct upgrade *upgrade;
    struct arena *arena;
    struct entity entity;
    bool changed;

    int64_t number; /* version according to the version property, or
                       upgrade->absent */
    bool has_number;
    bool has_record; /* record is valid */
    struct record record;

    const struct upgrade_version *version; /* version whose steps run now */
    const struct upgrade_version *reached; /* a newer version, to which a
                                              release has advanced the entity;
                                              NULL: none */
    const struct upgrade_step *step;       /* the step that failed or skipped */
    struct err *err;
};

/* The result of a step. */
enum end {
    GOES_ON,
    SKIPS,
    FAILS, /* err has the reason */
};

/* ---- the properties of the entity ---- */

static struct property *find(struct work *work, struct slice name)
{
    for (size_t i = 0; i < work->entity.property_count; i++)
        if (slice_equal(work->entity.properties[i].name, name))
            return &work->entity.properties[i];
    return NULL;
}

/* Replace the property of that name, or append it. */
static void put(struct work *work, const struct property *property)
{
    struct property *existing = find(work, property->name);

    if (existing && property_equal(existing, property))
        return;
    if (!existing)
        existing = &work->entity.properties[work->entity.property_count++];
    *existing = *property;
    work->changed = true;
}

static void take(struct work *work, struct slice name)
{
    struct entity *entity = &work->entity;
    struct property *property = find(work, name);
    size_t behind;

    if (!property)
        return;
    behind =
        (size_t)(entity->properties + entity->property_count - (property + 1));
    memmove(property, property + 1, behind * sizeof(*property));
    entity->property_count--;
    work->changed = true;
}

/* Set `name` to value or, if value is NULL, remove the property. */
static void put_as(
    struct work *work, struct slice name, const struct property *value)
{
    struct property named;

    if (!value) {
        take(work, name);
        return;
    }
    named = *value;
    named.name = name;
    put(work, &named);
}

/* Returns a copy of property, or NULL if property is NULL (absent). The copy is
 * needed because take() moves the properties in the list. */
static const struct property *copy_of(
    struct work *work, const struct property *property)
{
    struct property *copy;

    if (!property)
        return NULL;
    copy = arena_alloc(work->arena, sizeof(*copy));
    *copy = *property;
    return copy;
}

static const struct property *value_of(struct work *work, struct slice name)
{
    return copy_of(work, find(work, name));
}

/* Are a and b both absent, or of the same type and value? Names are ignored. */
static bool same_value(const struct property *a, const struct property *b)
{
    struct property named;

    if (!a || !b)
        return !a && !b;
    named = *a;
    named.name = b->name;
    return property_equal(&named, b);
}

static void count_step(struct work *work, const struct upgrade_step *step)
{
    const struct upgrade *upgrade = work->upgrade;

    if (work->how->tally)
        work->how->tally->counts[work->version - upgrade->versions]
                                [step - work->version->steps]++;
}

/* ---- conversions ---- */

/* Convert *value (not NULL) to the step's type. *value becomes NULL if the
 * conversion is impossible and on_error is null. */
static enum end convert(struct work *work, const struct upgrade_step *step,
    const struct property **value)
{
    enum convert_worth worth;
    struct property converted;

    if ((*value)->type == step->edm)
        return GOES_ON;
    worth =
        convert_property(*value, step->edm, work->arena, &converted, work->err);
    if (worth == CONVERT_EXACT || (worth == CONVERT_LOSSY && step->lossy)) {
        *value = copy_of(work, &converted);
        return GOES_ON;
    }
    *value = NULL;
    work->step = step;
    if (step->on_error == UPGRADE_NULL)
        return GOES_ON;
    return step->on_error == UPGRADE_SKIP ? SKIPS : FAILS;
}

static bool is_in_place(const struct upgrade_step *step, struct slice name)
{
    return step->type == UPGRADE_RETYPE && step->to.len == 0 &&
           slice_equal(step->property, name);
}

/*
 * Convert *value (NULL: absent), the value of the old property of `pair`, to
 * the value of the new property. Carries out the following steps of
 * work->version, beginning with step `from`: in-place retypes of the old
 * property; the pair's own step, if it is a retype; in-place retypes of the new
 * property.
 */
static enum end convert_pair(struct work *work, size_t from,
    const struct upgrade_step *pair, const struct property **value)
{
    const struct upgrade_version *version = work->version;

    for (size_t i = from; i < version->step_count && *value; i++) {
        const struct upgrade_step *step = &version->steps[i];
        bool converts =
            step == pair
                ? step->type == UPGRADE_RETYPE
                : is_in_place(step, step < pair ? pair->property : pair->to);
        enum end end = converts ? convert(work, step, value) : GOES_ON;

        if (end != GOES_ON)
            return end;
    }
    return GOES_ON;
}

/* ---- differences ---- */

/* Decides by on_difference which of two values the new property gets. Call when
 * old and new value were both written, or when it is unknown which of them was
 * written last. *ret_old becomes true if the old value must be converted again.
 */
static enum end decide_difference(struct work *work,
    const struct upgrade_step *step, const char *why, bool *ret_old)
{
    *ret_old = work->upgrade->on_difference == UPGRADE_DIFFERENCE_OLD;
    if (work->upgrade->on_difference != UPGRADE_DIFFERENCE_FAILS)
        return GOES_ON;
    work->step = step;
    err_fail(work->err, TW_INVALID, "%.*s and %.*s %s",
        SLICE_ARG(step->property), SLICE_ARG(step->to), why);
    return FAILS;
}

#define BOTH_WRITTEN "were both written since expand"
#define BOTH_THERE "both exist, with different values"
#define OLD_REMOVED                                                            \
    "were the same, and the old property was removed later: by a release "     \
    "that cleared it, or by a release that knows only the new property"

/* ---- steps of a version that the entity lacks ---- */

static enum tw_err render(
    struct work *work, const struct upgrade_step *step, struct slice *ret)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, ENTITY_MAX_BYTES);
    outcome = template_render(
        step->value, work->how->args, &work->entity, &text, work->err);
    if (outcome == TW_OK && text.overflow)
        outcome = err_fail(
            work->err, TW_TOO_LARGE, "the rendered text is longer than 1 MiB");
    if (outcome == TW_OK)
        *ret = arena_copy(work->arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

/* Carry out `set` (overwrites is true) or `add` (false). */
static enum end run_put(
    struct work *work, const struct upgrade_step *step, bool overwrites)
{
    const struct property *is = find(work, step->property);
    struct property value;
    struct slice text;

    if (is && !overwrites)
        return GOES_ON;
    if (step->constant) {
        value = *step->constant;
    } else if (render(work, step, &text) != TW_OK ||
               convert_text(step->property, text, step->edm, work->arena,
                   &value, work->err) != TW_OK) {
        work->step = step;
        return FAILS;
    }
    if (!is || !property_equal(is, &value))
        count_step(work, step);
    put(work, &value);
    return GOES_ON;
}

/* Carry out a rename or a retype with to_property. An existing new value is a
 * difference, unless it equals the converted old value (rule U4). */
static enum end run_pair(struct work *work, const struct upgrade_step *step)
{
    size_t at = (size_t)(step - work->version->steps);
    const struct property *from = value_of(work, step->property),
                          *is = value_of(work, step->to), *becomes = from;
    bool old_wins = true;
    enum end end;

    if (!from)
        return GOES_ON;
    if (is) {
        end = convert_pair(work, at, step, &becomes);
        if (end == GOES_ON && !same_value(becomes, is))
            end = decide_difference(work, step, BOTH_THERE, &old_wins);
        else
            old_wins = false;
        if (end != GOES_ON)
            return end;
    }
    if (old_wins) {
        becomes = from;
        end = step->type == UPGRADE_RETYPE ? convert(work, step, &becomes)
                                           : GOES_ON;
        if (end != GOES_ON)
            return end;
        put_as(work, step->to, becomes);
    }
    count_step(work, step);
    if (step->type == UPGRADE_RENAME)
        take(work, step->property);
    return GOES_ON;
}

static enum end run_convert(struct work *work, const struct upgrade_step *step)
{
    const struct property *value = value_of(work, step->property);
    enum end end;

    if (!value || value->type == step->edm)
        return GOES_ON;
    end = convert(work, step, &value);
    if (end != GOES_ON)
        return end;
    count_step(work, step);
    put_as(work, step->property, value);
    return GOES_ON;
}

static void run_remove(struct work *work, const struct upgrade_step *step)
{
    if (!find(work, step->property))
        return;
    count_step(work, step);
    take(work, step->property);
}

static enum end run_step(struct work *work, const struct upgrade_step *step)
{
    switch (step->type) {
    case UPGRADE_ADD:
        return run_put(work, step, false);
    case UPGRADE_SET:
        return run_put(work, step, true);
    case UPGRADE_RENAME:
        return run_pair(work, step);
    case UPGRADE_RETYPE:
        return step->to.len > 0 ? run_pair(work, step)
                                : run_convert(work, step);
    case UPGRADE_REMOVE:
        run_remove(work, step);
        break;
    }
    return GOES_ON;
}

/* The values of a version's old properties, before its steps run. */
struct olds {
    const struct property *values[UPGRADE_MAX_STEPS]; /* values[i]: the old
                                                         property of step i;
                                                         NULL: none */
};

static void remember_olds(struct work *work, struct olds *olds)
{
    for (size_t i = 0; i < work->version->step_count; i++) {
        const struct upgrade_step *step = &work->version->steps[i];

        olds->values[i] =
            upgrade_step_ends(step) ? value_of(work, step->property) : NULL;
    }
}

/* Put the old properties back beside the new ones, and record both values. */
static void retain_olds(struct work *work, const struct olds *olds)
{
    struct record record = {
        .version = work->version->number, .in = work->upgrade->version};
    struct property property;

    for (size_t i = 0; i < work->version->step_count; i++) {
        const struct upgrade_step *step = &work->version->steps[i];

        if (olds->values[i])
            put_as(work, step->property, olds->values[i]);
        if (upgrade_step_retains(step))
            record_put(&record, step, olds->values[i], find(work, step->to));
    }
    property = record_property(&record, work->arena);
    put(work, &property);
}

/* Does a version after work->version, up to work->reached, make the step's old
 * property again? Then the release that has advanced the entity may have
 * written it. */
static bool is_made_again(
    const struct work *work, const struct upgrade_step *step)
{
    const struct upgrade_version *version = work->version;

    while (work->reached && ++version <= work->reached)
        for (size_t i = 0; i < version->step_count; i++)
            if (upgrade_step_makes(&version->steps[i], step->property))
                return true;
    return false;
}

static void drop_olds(struct work *work)
{
    for (size_t i = 0; i < work->version->step_count; i++) {
        const struct upgrade_step *step = &work->version->steps[i];

        if (upgrade_step_ends(step) && !is_made_again(work, step))
            take(work, step->property);
    }
}

/* Carry out all steps of a version that the entity lacks. */
static enum end run_version(
    struct work *work, const struct upgrade_version *version, bool retains)
{
    struct olds olds;
    enum end end = GOES_ON;

    work->version = version;
    remember_olds(work, &olds);
    for (size_t i = 0; end == GOES_ON && i < version->step_count; i++)
        end = run_step(work, &version->steps[i]);
    if (end != GOES_ON)
        return end;
    drop_olds(work);
    if (retains)
        retain_olds(work, &olds);
    else /* an existing record is invalid, or of an earlier version */
        take(work, slice_of(RECORD_PROPERTY));
    return GOES_ON;
}

/* ---- a version that the entity has reached ---- */

/* An old and a new property, and their recorded digests. To reconcile a pair is
 * to decide which value the new property gets: the value that it has, or the
 * old value, converted again. */
struct pair {
    const struct upgrade_step *step;
    const struct record_pair *was; /* recorded digests; NULL: none (rule U4) */
    const struct property *old_value, *new_value;
    bool records; /* record the digests of both values as they are now */
    bool fills;   /* the new value was absent */
};

/* Replace the new value by the converted old value. */
static enum end convert_again(struct work *work, struct pair *pair)
{
    enum end end;

    pair->new_value = pair->old_value;
    end = convert_pair(work, 0, pair->step, &pair->new_value);
    if (end != GOES_ON)
        return end;
    put_as(work, pair->step->to, pair->new_value);
    pair->records = true;
    count_step(work, pair->step);
    return GOES_ON;
}

static enum end differ(struct work *work, struct pair *pair, const char *why)
{
    bool old_wins;
    enum end end = decide_difference(work, pair->step, why, &old_wins);

    if (end != GOES_ON)
        return end;
    if (old_wins)
        return convert_again(work, pair);
    pair->records = true;
    return GOES_ON;
}

/* Set *ret to whether the new value equals the converted old value. */
static enum end compare(struct work *work, const struct pair *pair, bool *ret)
{
    const struct property *becomes = pair->old_value;
    enum end end = convert_pair(work, 0, pair->step, &becomes);

    *ret = end == GOES_ON && same_value(becomes, pair->new_value);
    return end;
}

/* Reconcile a pair that is not recorded (rule U4). */
static enum end reconcile_unrecorded(struct work *work, struct pair *pair)
{
    bool same;
    enum end end;

    if (!pair->old_value)
        return GOES_ON;
    if (!pair->new_value) {
        pair->fills = true;
        return convert_again(work, pair);
    }
    end = compare(work, pair, &same);
    if (end != GOES_ON)
        return end;
    if (!same)
        return differ(work, pair, BOTH_THERE);
    pair->records = true;
    return GOES_ON;
}

/* Reconcile a recorded pair (rule U3). */
static enum end reconcile_recorded(struct work *work, struct pair *pair)
{
    bool old_written = !record_is_old(pair->was, pair->old_value);
    bool new_written = !record_is_new(pair->was, pair->new_value);
    bool same;
    enum end end;

    if (!old_written)
        return GOES_ON;
    if (!pair->old_value && pair->new_value)
        return differ(work, pair, OLD_REMOVED);
    if (!new_written)
        return convert_again(work, pair);
    end = compare(work, pair, &same);
    if (end != GOES_ON)
        return end;
    if (!same)
        return differ(work, pair, BOTH_WRITTEN);
    pair->records = true;
    return GOES_ON;
}

static struct pair pair_of(struct work *work, const struct record *record,
    const struct upgrade_step *step)
{
    return (struct pair){.step = step,
        .was = record ? record_find(record, step) : NULL,
        .old_value = value_of(work, step->property),
        .new_value = value_of(work, step->to)};
}

/* Reconcile all pairs of work->version. *ret receives the pairs to record.
 * *ret_fills becomes true if a new value was absent, which means that a release
 * of the application that does not know the version replaced the entity. */
static enum end reconcile_pairs(struct work *work, const struct record *record,
    struct record *ret, bool *ret_fills)
{
    for (size_t i = 0; i < work->version->step_count; i++) {
        const struct upgrade_step *step = &work->version->steps[i];
        struct pair pair;
        enum end end;

        if (!upgrade_step_retains(step) || is_made_again(work, step))
            continue;
        pair = pair_of(work, record, step);
        end = pair.was ? reconcile_recorded(work, &pair)
                       : reconcile_unrecorded(work, &pair);
        if (end != GOES_ON)
            return end;
        if (pair.was && !pair.records)
            ret->pairs[ret->count++] = *pair.was;
        else
            record_put(ret, step, pair.old_value, pair.new_value);
        *ret_fills |= pair.fills;
    }
    return GOES_ON;
}

static bool ends_in(const struct upgrade_version *version, struct slice name)
{
    for (size_t i = 0; i < version->step_count; i++)
        if (upgrade_step_ends(&version->steps[i]) &&
            slice_equal(version->steps[i].property, name))
            return true;
    return false;
}

/*
 * If an older release of the application has written a property with the old
 * type, retype it in place again. If fills is true, such a release has replaced
 * the entity, and some steps were not carried out on its current properties
 * (rule U2). Then also carry out `add` and `set` for absent properties.
 */
static enum end reconcile_others(struct work *work, bool fills)
{
    const struct upgrade_version *version = work->version;

    for (size_t i = 0; i < version->step_count; i++) {
        const struct upgrade_step *step = &version->steps[i];
        bool puts = step->type == UPGRADE_ADD || step->type == UPGRADE_SET;
        enum end end = GOES_ON;

        if (puts && fills)
            end = run_put(work, step, false);
        else if (step->type == UPGRADE_RETYPE && step->to.len == 0 &&
                 !ends_in(version, step->property))
            end = run_convert(work, step);
        if (end != GOES_ON)
            return end;
    }
    return GOES_ON;
}

/* Store record in the entity. An equal record changes nothing, because put()
 * compares the JSON texts. */
static void keep_record(struct work *work, struct record *record)
{
    struct property property;
    bool any = work->has_record;

    for (size_t i = 0; i < record->count; i++)
        any = any || strcmp(record->pairs[i].old_digest, "absent") != 0;
    if (!any)
        return; /* no old property is left: a release of the application that
                   does not know them wrote the entity */
    record->version = work->version->number;
    record->in = work->has_record ? work->record.in : work->upgrade->version;
    property = record_property(record, work->arena);
    put(work, &property);
}

/*
 * For a version that the entity has reached: reconcile each pair of old and new
 * property, and repeat retypes in place. If retains is true, keep the old
 * properties (expand); if not, remove them and the record, as contract does
 * (rule U5).
 */
static enum end reconcile_version(struct work *work,
    const struct upgrade_version *version, const struct record *record,
    bool retains)
{
    bool fills = !work->has_number || work->number < version->number;
    struct record now = {.version = version->number};
    enum end end;

    work->version = version;
    end = reconcile_pairs(work, record, &now, &fills);
    if (end == GOES_ON)
        end = reconcile_others(work, fills);
    if (end != GOES_ON)
        return end;
    if (retains) {
        keep_record(work, &now);
        return GOES_ON;
    }
    drop_olds(work);
    take(work, slice_of(RECORD_PROPERTY));
    return GOES_ON;
}

/* ---- the version of an entity ---- */

/* Reads an Int32, an Int64, or a Double without a fraction. */
static bool whole_number(const struct property *property, int64_t *ret)
{
    double number;

    if (property_integer(property, ret))
        return true;
    if (!property_double(property, &number) || trunc(number) != number ||
        number < (double)INT64_MIN || number >= -(double)INT64_MIN)
        return false;
    *ret = (int64_t)number;
    return true;
}

static void read_number(struct work *work)
{
    const struct property *is =
        entity_find(&work->entity, work->upgrade->version);

    work->number = work->upgrade->absent;
    work->has_number = !is || whole_number(is, &work->number);
}

/* Set *ret to the number of versions that the entity has reached. By rule U2
 * this is at least the version of its record. False: the document does not
 * contain the entity's version. */
static bool find_level(const struct work *work, size_t *ret)
{
    int64_t number = work->number;

    if (work->has_record &&
        (!work->has_number || work->record.version > number))
        number = work->record.version;
    else if (!work->has_number)
        return false;
    return upgrade_rules_level(work->upgrade, number, ret);
}

static bool names_version(
    const struct work *work, const struct upgrade_version *version)
{
    return work->has_record && work->record.version == version->number;
}

/* If the record is of an older version than the entity, a release of the
 * application has advanced the entity's version: reconcile the pairs of the
 * record. */
static enum end reconcile_left(struct work *work, size_t level)
{
    enum end end;
    size_t left;

    if (!work->has_record ||
        !upgrade_rules_level(work->upgrade, work->record.version, &left) ||
        left == 0 || left >= level)
        return GOES_ON;
    work->reached = &work->upgrade->versions[level - 1];
    end = reconcile_version(
        work, &work->upgrade->versions[left - 1], &work->record, false);
    work->reached = NULL;
    return end;
}

/* Reconcile versions[level - 1], which the entity has reached, and carry out
 * all later versions. */
static enum end bring_up(struct work *work, size_t level)
{
    const struct upgrade *upgrade = work->upgrade;
    const struct upgrade_version *at =
        level > 0 ? &upgrade->versions[level - 1] : NULL;
    bool expands = work->how->phase == UPGRADE_EXPAND;
    bool is_newest = level == upgrade->version_count;
    bool retains = is_newest && (expands || (work->how->phase == UPGRADE_ALL &&
                                                names_version(work, at)));
    enum end end = reconcile_left(work, level);

    if (end == GOES_ON && at)
        end = reconcile_version(
            work, at, names_version(work, at) ? &work->record : NULL, retains);
    for (size_t i = level; end == GOES_ON && i < upgrade->version_count; i++)
        end = run_version(work, &upgrade->versions[i],
            expands && i + 1 == upgrade->version_count);
    return end;
}

static void put_version(struct work *work)
{
    const struct property *is =
        entity_find(&work->entity, work->upgrade->version);
    int64_t number = upgrade_rules_newest(work->upgrade), now;
    struct property property;

    if (is && whole_number(is, &now) && now == number)
        return;
    property = upgrade_rules_property(work->upgrade, number, work->arena);
    put(work, &property);
}

/* ---- the whole ---- */

static size_t count_steps(const struct upgrade *upgrade)
{
    size_t count = 0;

    for (size_t i = 0; i < upgrade->version_count; i++)
        count += upgrade->versions[i].step_count;
    return count;
}

/* Copy the property list, with room for more properties. Each step may add one
 * and retain another; the record and the version add two. */
static void begin(struct work *work, const struct entity *entity)
{
    size_t count = entity->property_count;

    work->entity = *entity;
    work->entity.properties = arena_alloc(work->arena,
        (count + 2 * count_steps(work->upgrade) + 2) * sizeof(struct property));
    if (count > 0)
        memcpy(work->entity.properties, entity->properties,
            count * sizeof(struct property));
    work->has_record = record_read(entity, work->arena, &work->record);
    read_number(work);
}

static enum upgrade_outcome name_step(
    const struct work *work, enum end end, struct upgrade_result *ret)
{
    (void)snprintf(ret->step, sizeof(ret->step), "version %" PRId64 ", %s %.*s",
        work->version->number, upgrade_step_name(work->step->type),
        SLICE_ARG(work->step->property));
    err_prefix(work->err, "%s", ret->step);
    return end == SKIPS ? UPGRADE_SKIPPED : UPGRADE_FAILED;
}

/* Did a job with another version property write the record? The version in such
 * a record is not a version of this document (rule U2). */
static bool is_of_another(const struct work *work)
{
    return work->has_record && work->record.in.len > 0 &&
           !slice_equal(work->record.in, work->upgrade->version);
}

static enum upgrade_outcome refuse_other(
    const struct work *work, struct upgrade_result *ret)
{
    ret->is_below = true;
    (void)snprintf(ret->step, sizeof(ret->step), RECORD_PROPERTY);
    err_fail(work->err, TW_INVALID,
        RECORD_PROPERTY ": a job with `version: {property: %.*s}` has expanded "
                        "the entity to version %" PRId64 ": run that job "
                        "with phase=contract first",
        SLICE_ARG(work->record.in), work->record.version);
    return UPGRADE_FAILED;
}

static enum upgrade_outcome check_size(
    const struct work *work, struct upgrade_result *ret)
{
    if (entity_check(&work->entity, work->err) == TW_OK)
        return UPGRADE_CHANGED;
    (void)snprintf(ret->step, sizeof(ret->step), "version %" PRId64,
        upgrade_rules_newest(work->upgrade));
    err_prefix(work->err, "%s, after its steps", ret->step);
    return UPGRADE_FAILED;
}

enum upgrade_outcome upgrade_apply(const struct upgrade_how *how,
    const struct entity *entity, struct arena *arena,
    struct upgrade_result *ret, struct err *err)
{
    const struct upgrade *upgrade = how->upgrade;
    struct work work = {
        .how = how, .upgrade = upgrade, .arena = arena, .err = err};
    size_t level;
    enum end end;

    *ret = (struct upgrade_result){.is_below = false};
    begin(&work, entity);
    if (is_of_another(&work))
        return refuse_other(&work, ret);
    if (!find_level(&work, &level))
        return UPGRADE_OUTSIDE;
    ret->is_below = level < upgrade->version_count;
    ret->first = level > 0 ? level - 1 : 0;
    end = bring_up(&work, level);
    if (end != GOES_ON)
        return name_step(&work, end, ret);
    put_version(&work);
    if (!work.changed)
        return UPGRADE_UNCHANGED;
    ret->entity = work.entity;
    return check_size(&work, ret);
}

/* ---- properties that should be absent ---- */

/* Does a step after step i of version v name the property? If so, that step
 * decides whether the property may exist. */
static bool is_named_later(
    const struct upgrade *upgrade, size_t v, size_t i, struct slice name)
{
    for (i++; v < upgrade->version_count; v++, i = 0)
        for (; i < upgrade->versions[v].step_count; i++) {
            const struct upgrade_step *step = &upgrade->versions[v].steps[i];

            if (slice_equal(step->property, name) ||
                slice_equal(step->to, name))
                return true;
        }
    return false;
}

static bool leaves_over(
    const struct upgrade_step *step, const struct entity *entity)
{
    const struct property *is = entity_find(entity, step->property);

    if (!is)
        return false;
    return upgrade_step_ends(step) ||
           (step->type == UPGRADE_RETYPE && is->type != step->edm);
}

const struct upgrade_step *upgrade_leftover(const struct upgrade *upgrade,
    const struct entity *entity, int64_t *ret_version)
{
    for (size_t v = 0; v + 1 < upgrade->version_count; v++)
        for (size_t i = 0; i < upgrade->versions[v].step_count; i++) {
            const struct upgrade_step *step = &upgrade->versions[v].steps[i];

            if (!leaves_over(step, entity) ||
                is_named_later(upgrade, v, i, step->property))
                continue;
            *ret_version = upgrade->versions[v].number;
            return step;
        }
    return NULL;
}
