/* SPDX-License-Identifier: MIT */
/* One copy of one entity, and what stands where it is to be. */
#include "jobs/copying.h"

#include "jobs/engine/convert.h"
#include "jobs/engine/tally.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

const char *const CONFLICT_NAMES[] = {
    [CONFLICT_FAIL] = "fail",
    [CONFLICT_SKIP] = "skip",
    [CONFLICT_REPLACE] = "replace",
    [CONFLICT_MERGE] = "merge",
    NULL,
};

/* 512 UTF-16 units are at most 1536 bytes; longer is refused by the check. */
#define KEY_MAX_BYTES 4096

/* What provenance takes beside keys and ETag: names of members, store, table,
 * job and run, the digest, the store's identity. */
#define PROVENANCE_UNITS (640 + STORE_IDENTITY_MAX + 16)

/* ---- the properties of a copy ---- */

/* One copy as it is being made. Its list of properties has room for all. */
struct work {
    const struct copying_target *target;
    const struct run_args *args;
    const struct entity *source;
    struct slice provenance;
    struct arena *arena;
    struct entity copy;
    struct err *err;
};

static bool is_among(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(names[i], name))
            return true;
    return false;
}

static bool is_kept(const struct copying_shape *shape, struct slice name)
{
    if (is_among(shape->drop, shape->drop_count, name))
        return false;
    return shape->keep_count == 0 ||
           is_among(shape->keep, shape->keep_count, name);
}

static struct slice new_name(
    const struct copying_shape *shape, struct slice name)
{
    for (size_t i = 0; i < shape->rename_count; i++)
        if (slice_equal(shape->renames[i].from, name))
            return shape->renames[i].to;
    return name;
}

static struct property *find(struct entity *entity, struct slice name)
{
    for (size_t i = 0; i < entity->property_count; i++)
        if (slice_equal(entity->properties[i].name, name))
            return &entity->properties[i];
    return NULL;
}

/* TablewardSource is ours, whatever it says of former times. Another name, that
 * the job has chosen, may be a property that somebody fills; it would be lost.
 */
static enum tw_err check_provenance(const struct work *work)
{
    struct provenance is;

    if (slice_is(work->provenance, PROVENANCE_PROPERTY) ||
        !entity_find(work->source, work->provenance) ||
        !is_kept(&work->target->shape, work->provenance) ||
        provenance_read(work->source, work->provenance, work->arena, &is))
        return TW_OK;
    return err_fail(work->err, TW_INVALID,
        "it has a property %.*s, where its copy would say where it comes from: "
        "give the job a name for that which no entity has (provenance: ...)",
        SLICE_ARG(work->provenance));
}

static void keep_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    const struct entity *source = work->source;
    struct entity *copy = &work->copy;

    copy->properties = arena_alloc(
        work->arena, (source->property_count + shape->set_count + 1) *
                         sizeof(struct property));
    for (size_t i = 0; i < source->property_count; i++) {
        const struct property *property = &source->properties[i];

        if (!slice_equal(property->name, work->provenance) &&
            is_kept(shape, property->name))
            copy->properties[copy->property_count++] = *property;
    }
}

/* All at once: {A: B, B: A} exchanges two names. */
static void give_names(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    struct entity *copy = &work->copy;

    for (size_t i = 0; i < copy->property_count; i++)
        copy->properties[i].name = new_name(shape, copy->properties[i].name);
}

static enum tw_err rename_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    struct entity *copy = &work->copy;

    if (shape->rename_count == 0)
        return TW_OK;
    give_names(work);
    for (size_t i = 0; i < copy->property_count; i++)
        if (find(copy, copy->properties[i].name) != &copy->properties[i])
            return err_fail(work->err, TW_INVALID,
                "rename: the entity has a property %.*s already",
                SLICE_ARG(copy->properties[i].name));
    return TW_OK;
}

static enum tw_err render(struct work *work, const struct template *template,
    size_t max_bytes, struct slice *ret)
{
    struct buf text;
    enum tw_err outcome;

    buf_init(&text, max_bytes);
    outcome =
        template_render(template, work->args, work->source, &text, work->err);
    if (outcome == TW_OK && text.overflow)
        outcome = err_fail(work->err, TW_INVALID,
            "its text is longer than %zu bytes", max_bytes);
    if (outcome == TW_OK)
        *ret = arena_copy(work->arena, buf_slice(&text));
    buf_done(&text);
    return outcome;
}

static enum tw_err set_property(
    struct work *work, const struct copying_set *set)
{
    struct property *place = find(&work->copy, set->name), value;
    enum tw_err outcome = TW_OK;
    struct slice text;

    if (set->constant) {
        value = *set->constant;
    } else {
        outcome = render(work, set->value, ENTITY_MAX_BYTES, &text);
        if (outcome == TW_OK)
            outcome = convert_text(
                set->name, text, set->edm, work->arena, &value, work->err);
    }
    if (outcome != TW_OK) {
        err_prefix(work->err, "set %.*s", SLICE_ARG(set->name));
        return outcome;
    }
    if (!place)
        place = &work->copy.properties[work->copy.property_count++];
    *place = value;
    return TW_OK;
}

static enum tw_err set_properties(struct work *work)
{
    const struct copying_shape *shape = &work->target->shape;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < shape->set_count && outcome == TW_OK; i++)
        outcome = set_property(work, &shape->sets[i]);
    return outcome;
}

/* ---- its keys ---- */

static enum tw_err make_key(struct work *work, const char *key,
    const struct template *template, struct slice of_source, struct slice *ret)
{
    enum tw_err outcome = TW_OK;

    if (template)
        outcome = render(work, template, KEY_MAX_BYTES, ret);
    else
        *ret = of_source;
    if (outcome != TW_OK)
        err_prefix(work->err, "%s", key);
    return outcome;
}

static enum tw_err make_keys(struct work *work)
{
    const struct copying_target *target = work->target;
    enum tw_err outcome = make_key(work, "partition_key", target->partition_key,
        work->source->partition_key, &work->copy.partition_key);

    if (outcome == TW_OK)
        outcome = make_key(work, "row_key", target->row_key,
            work->source->row_key, &work->copy.row_key);
    return outcome;
}

/* ---- what the service would not take ---- */

/* What of a text stands in JSON in JSON, at most. */
static size_t written_units(struct slice text)
{
    size_t units = 2;

    for (size_t i = 0; i < text.len; i++)
        units += strchr("\"\\", text.at[i]) ? 2 : 1;
    return units;
}

static size_t provenance_bytes(const struct entity *source)
{
    return 2 *
           (PROVENANCE_UNITS + written_units(source->partition_key) +
               written_units(source->row_key) + written_units(source->etag));
}

/* Without a look at its texts: a byte of JSON counts as two at most, and each
 * property has some more. */
static bool is_small(const struct entity *copy, size_t more_bytes)
{
    return 2 * entity_json_bytes(copy) + ENTITY_MAX_PROPERTIES * 24 +
               more_bytes <=
           ENTITY_MAX_BYTES;
}

static enum tw_err check_room(struct work *work)
{
    size_t bytes = provenance_bytes(work->source);

    if (work->copy.property_count == ENTITY_MAX_PROPERTIES)
        return err_fail(work->err, TW_TOO_LARGE,
            "with %.*s, which says where it comes from, it has %d properties; "
            "the service takes at most %d",
            SLICE_ARG(work->provenance), ENTITY_MAX_PROPERTIES + 1,
            ENTITY_MAX_PROPERTIES);
    if (is_small(&work->copy, bytes) ||
        entity_service_bytes(&work->copy) + bytes <= ENTITY_MAX_BYTES)
        return TW_OK;
    return err_fail(work->err, TW_TOO_LARGE,
        "with %.*s, which says where it comes from, it is larger than 1 MiB",
        SLICE_ARG(work->provenance));
}

static enum tw_err check_copy(struct work *work)
{
    enum tw_err outcome = entity_check(&work->copy, work->err);

    if (outcome == TW_OK)
        outcome = check_room(work);
    if (outcome != TW_OK)
        err_prefix(work->err, "the copy");
    return outcome;
}

enum tw_err copying_make(const struct copying_target *target,
    const struct run_args *args, const struct entity *source,
    struct slice provenance, struct arena *arena, struct entity *ret,
    struct err *err)
{
    struct work work = {.target = target,
        .args = args,
        .source = source,
        .provenance = provenance,
        .arena = arena,
        .err = err};
    enum tw_err outcome = make_keys(&work);

    if (outcome == TW_OK)
        outcome = check_provenance(&work);
    if (outcome == TW_OK) {
        keep_properties(&work);
        outcome = rename_properties(&work);
    }
    if (outcome == TW_OK)
        outcome = set_properties(&work);
    if (outcome == TW_OK)
        outcome = check_copy(&work);
    if (outcome == TW_OK)
        *ret = work.copy;
    return outcome;
}

/* ---- what is known of a target ---- */

static bool reads_properties(const struct template *template)
{
    size_t count = 0;

    if (template)
        (void)template_properties(template, &count);
    return count > 0;
}

bool copying_keys_change(const struct copying_target *target)
{
    return reads_properties(target->partition_key) ||
           reads_properties(target->row_key);
}

static void explain_key(
    const char *name, const struct template *template, struct buf *to)
{
    if (template)
        buf_add_format(
            to, "%s \"%.*s\"", name, SLICE_ARG(template_source(template)));
    else
        buf_add_format(to, "%s of the source", name);
}

static void explain_names(
    const char *word, const struct slice *names, size_t count, struct buf *to)
{
    for (size_t i = 0; i < count; i++)
        buf_add_format(to, "%s%.*s", i == 0 ? word : ", ", SLICE_ARG(names[i]));
}

void copying_explain(const struct copying_target *target, struct buf *to)
{
    const struct copying_shape *shape = &target->shape;

    explain_key("PartitionKey", target->partition_key, to);
    buf_add_text(to, ", ");
    explain_key("RowKey", target->row_key, to);
    explain_names(", nothing but ", shape->keep, shape->keep_count, to);
    explain_names(", without ", shape->drop, shape->drop_count, to);
    for (size_t i = 0; i < shape->rename_count; i++)
        buf_add_format(to, ", %.*s as %.*s", SLICE_ARG(shape->renames[i].from),
            SLICE_ARG(shape->renames[i].to));
    for (size_t i = 0; i < shape->set_count; i++)
        buf_add_format(to, ", %.*s (%s) \"%.*s\"",
            SLICE_ARG(shape->sets[i].name), edm_type_name(shape->sets[i].edm),
            SLICE_ARG(template_source(shape->sets[i].value)));
}

/* ---- what stands where a copy is to be ---- */

/* What is decided with. */
struct decision {
    const struct copying_want *want;
    const struct entity *now;
    struct provenance is; /* of now, where it has one */
    struct arena *arena;
    struct operation *ret;
    struct err *err;
};

static size_t count_without(const struct entity *entity, struct slice name)
{
    return entity->property_count - (entity_find(entity, name) != NULL);
}

/* Is now what the copy would leave there? */
static bool holds_copy(const struct decision *d)
{
    return entity_has_all(d->now, d->want->copy) &&
           (d->want->on_conflict == CONFLICT_MERGE ||
               count_without(d->now, d->want->name) ==
                   d->want->copy->property_count);
}

static void send(struct decision *d, enum operation_type type)
{
    d->ret->type = type;
    d->ret->entity.etag = d->now ? d->now->etag : slice_of("");
    d->ret->entity.timestamp = (struct slice){NULL, 0};
    provenance_stamp(
        &d->ret->entity, d->want->name, d->want->provenance, d->arena);
}

static enum copying_verdict write_copy(struct decision *d)
{
    d->ret->entity = *d->want->copy;
    send(d, d->now ? OPERATION_REPLACE : OPERATION_INSERT);
    return COPYING_WRITE;
}

/* The copy's properties over those of now. */
static struct entity merged(const struct decision *d)
{
    const struct entity *copy = d->want->copy;
    struct entity to = *d->now;

    to.properties =
        arena_alloc(d->arena, (to.property_count + copy->property_count + 1) *
                                  sizeof(struct property));
    if (to.property_count > 0)
        memcpy(to.properties, d->now->properties,
            to.property_count * sizeof(struct property));
    for (size_t i = 0; i < copy->property_count; i++) {
        struct property *place = find(&to, copy->properties[i].name);

        if (!place)
            place = &to.properties[to.property_count++];
        *place = copy->properties[i];
    }
    return to;
}

static enum copying_verdict write_merged(struct decision *d)
{
    d->ret->entity = merged(d);
    send(d, OPERATION_REPLACE);
    if (entity_check(&d->ret->entity, d->err) == TW_OK)
        return COPYING_WRITE;
    err_prefix(d->err, "merged with what stands there");
    return COPYING_FAILED;
}

static enum copying_verdict write_over(struct decision *d)
{
    return d->want->on_conflict == CONFLICT_MERGE ? write_merged(d)
                                                  : write_copy(d);
}

static enum copying_verdict fail_there(struct decision *d, const char *what)
{
    const struct entity *copy = d->want->copy;
    struct buf keys;

    buf_init(&keys, sizeof(d->err->text));
    entity_add_keys(&keys, copy->partition_key, copy->row_key);
    err_fail(d->err, TW_CONFLICT, "at %s stands %s (on_conflict: fail)",
        buf_text(&keys), what);
    buf_done(&keys);
    return COPYING_FAILED;
}

static enum copying_verdict by_conflict(struct decision *d, const char *what)
{
    switch (d->want->on_conflict) {
    case CONFLICT_FAIL:
        return fail_there(d, what);
    case CONFLICT_SKIP:
        return COPYING_LEFT;
    case CONFLICT_REPLACE:
    case CONFLICT_MERGE:
        break;
    }
    return write_over(d);
}

/* ---- a copy of this source ---- */

/* It is the other job's to keep right. Of a state that the source has no more,
 * only another reindex keeps it so: what was copied once a move takes along. */
static enum copying_verdict decide_other_jobs(struct decision *d)
{
    if (holds_copy(d))
        return COPYING_STORED;
    return by_conflict(d, "the copy that another job has made of it");
}

/* Of another state of it, and this is the newest. */
static enum copying_verdict follow_source(struct decision *d, bool intact)
{
    if (d->want->owns)
        return write_copy(d);
    if (intact || holds_copy(d))
        return write_over(d);
    return by_conflict(d, "its former copy, which somebody has changed since");
}

static enum copying_verdict decide_ours(struct decision *d)
{
    const struct copying_want *want = d->want;
    bool same_state = slice_equal(d->is.etag, want->provenance->etag),
         intact = provenance_is_intact(&d->is, d->now, want->name);

    if (!same_state && !want->fresh)
        return COPYING_LOOK;
    if (!slice_equal(d->is.job, want->provenance->job) &&
        (same_state || want->owns))
        return decide_other_jobs(d);
    if (!same_state)
        return follow_source(d, intact);
    if (!intact)
        return want->owns ? write_copy(d) : COPYING_STORED;
    return holds_copy(d) ? COPYING_STORED : write_over(d);
}

/* ---- anything else ---- */

/* Its keys may be those of the source, and its store's name too. */
static void add_store(struct buf *text, const struct provenance *is)
{
    buf_add_text(text, " in another store, ");
    text_visible(text, is->identity.len > 0 ? is->identity : is->store);
}

static enum copying_verdict decide_other(struct decision *d)
{
    const struct entity *copy = d->want->copy;
    struct buf text;

    buf_init(&text, sizeof(d->err->text));
    buf_add_text(&text, "at ");
    entity_add_keys(&text, copy->partition_key, copy->row_key);
    buf_add_text(&text, " stands the copy of another entity, ");
    entity_add_keys(&text, d->is.partition_key, d->is.row_key);
    buf_add_text(&text, " of ");
    text_visible(&text, d->is.table);
    if (!provenance_same_store(&d->is, d->want->provenance))
        add_store(&text, &d->is);
    err_fail(d->err, TW_CONFLICT, "%s: each source needs keys of its own",
        buf_text(&text));
    buf_done(&text);
    return COPYING_FAILED;
}

static enum copying_verdict decide_foreign(struct decision *d)
{
    if (holds_copy(d))
        return d->want->owns ? write_over(d) : COPYING_STORED;
    return by_conflict(d, "another entity, which is no copy");
}

enum copying_verdict copying_decide(const struct copying_want *want,
    const struct entity *now, struct arena *arena, struct operation *ret,
    struct err *err)
{
    struct decision d = {
        .want = want, .now = now, .arena = arena, .ret = ret, .err = err};

    if (!now)
        return write_copy(&d);
    if (!provenance_read(now, want->name, arena, &d.is))
        return decide_foreign(&d);
    return provenance_is_of(&d.is, want->provenance) ? decide_ours(&d)
                                                     : decide_other(&d);
}
