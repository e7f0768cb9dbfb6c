/* SPDX-License-Identifier: MIT */
/*
 * What says where a copy comes from, read from outside; and copies that were
 * made up: what is written there is read back, the same source gives the same
 * copy, and what has been written once stays as it is.
 */
#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/job.h"
#include "jobs/provenance.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/buf.h"
#include "worker/base/text.h"

/* Few names, so that rules and properties meet. */
static const char *const NAMES[] = {"A", "B", "C", "D"};
#define NAME_COUNT (sizeof(NAMES) / sizeof(NAMES[0]))

static const struct slice NAME = {
    PROVENANCE_PROPERTY, sizeof(PROVENANCE_PROPERTY) - 1};

static void check_same(const struct provenance *a, const struct provenance *b)
{
    FUZZ_SAME(a->store, b->store);
    FUZZ_SAME(a->table, b->table);
    FUZZ_SAME(a->partition_key, b->partition_key);
    FUZZ_SAME(a->row_key, b->row_key);
    FUZZ_SAME(a->etag, b->etag);
    FUZZ_SAME(a->job, b->job);
    FUZZ_SAME(a->run, b->run);
    FUZZ_SAME(a->identity, b->identity);
}

/* ---- from outside ---- */

static void try_text(struct slice text, struct arena *arena)
{
    struct provenance first, second;
    struct entity copy;

    if (!text_is_utf8(text))
        return;
    entity_init(&copy, arena, slice_of("P"), slice_of("R"));
    entity_set_string(&copy, arena, NAME.at, text);
    if (!provenance_read(&copy, NAME, arena, &first))
        return;
    FUZZ_CHECK(provenance_is_of(&first, &first));
    FUZZ_CHECK(provenance_is_from(&first, &first));
    provenance_stamp(&copy, NAME, &first, arena);
    FUZZ_CHECK(provenance_read(&copy, NAME, arena, &second));
    check_same(&first, &second);
    FUZZ_CHECK(provenance_is_intact(&second, &copy, NAME));
}

/* ---- made up ---- */

static struct provenance made_provenance(
    struct fuzz_source *in, const struct entity *source)
{
    return (struct provenance){
        .store = fuzz_word(in, 1, 8),
        .table = fuzz_word(in, 3, 8),
        .partition_key = source->partition_key,
        .row_key = source->row_key,
        .etag = source->etag,
        .job = fuzz_word(in, 1, 8),
        .run = fuzz_word(in, 1, 8),
    };
}

static struct entity made_source(struct fuzz_source *in)
{
    struct entity made = fuzz_entity(in), entity;

    entity_init(&entity, in->arena, made.partition_key, made.row_key);
    entity.etag = fuzz_etag(in);
    for (size_t i = 0; i < made.property_count; i++) {
        struct property property = made.properties[i];

        if (i < NAME_COUNT)
            property.name = slice_of(NAMES[i]);
        entity_set(&entity, in->arena, &property);
    }
    return entity;
}

static void add_shape(struct fuzz_source *in, struct buf *to)
{
    static const char *const SHAPES[] = {
        "{}",
        "{keep: [A, C]}",
        "{drop: [A]}",
        "{rename: {A: B}}",
        "{rename: {A: B, B: A}, drop: [C]}",
        "{set: {A: 5, B: '{C}'}}",
        "{set: {A: {type: Edm.Int64, value: '{B}'}}}",
        "{keep: [A], rename: {A: D}, set: {A: '{D}{PartitionKey}'}}",
    };

    buf_add_text(to, SHAPES[fuzz_below(in, sizeof(SHAPES) / sizeof(*SHAPES))]);
}

static const struct template *made_template(
    struct fuzz_source *in, struct problems *problems)
{
    static const char *const TEMPLATES[] = {NULL, "{RowKey}",
        "{PartitionKey}_{RowKey}", "{A}", "{if(A == 5, B, C)}",
        "{hash(RowKey, 16):02}", "{3155378975999999999 - ticks(B):019}"};
    const struct template_scope scope = {.has_entity = true};
    const char *text =
        TEMPLATES[fuzz_below(in, sizeof(TEMPLATES) / sizeof(*TEMPLATES))];

    return text ? template_compile(slice_of(text), (struct mark){"t", 1, 1},
                      &scope, in->arena, problems)
                : NULL;
}

static struct copying_target made_target(struct fuzz_source *in)
{
    struct copying_target target = {.place.store = 0};
    struct problems problems;
    struct job_loader loader = {
        .job = "copy", .arena = in->arena, .problems = &problems};
    struct yaml_node *node;
    struct buf yaml;

    buf_init(&yaml, 65536);
    add_shape(in, &yaml);
    problems_init(&problems);
    node = yaml_read("t.yaml", arena_copy(in->arena, buf_slice(&yaml)),
        in->arena, &problems);
    FUZZ_CHECK(copying_load_shape(node, NAME, &loader, &target.shape));
    target.partition_key = made_template(in, &problems);
    target.row_key = made_template(in, &problems);
    FUZZ_CHECK(problems.errors == 0);
    problems_done(&problems);
    buf_done(&yaml);
    return target;
}

/* ---- decisions ---- */

/* What was written is stored: nothing is written a second time. */
static void check_settled(
    const struct copying_want *want, struct entity stored, struct arena *arena)
{
    struct operation again;
    struct provenance provenance;
    struct err err;

    stored.etag = slice_of("stored");
    FUZZ_CHECK(provenance_read(&stored, want->name, arena, &provenance));
    check_same(&provenance, want->provenance);
    FUZZ_CHECK(provenance_is_intact(&provenance, &stored, want->name));
    FUZZ_CHECK(entity_check(&stored, &err) == TW_OK);
    FUZZ_CHECK(
        copying_decide(want, &stored, arena, &again, &err) == COPYING_STORED);
}

static void check_verdict(const struct copying_want *want,
    const struct entity *now, struct arena *arena)
{
    struct operation operation;
    struct entity kept = *want->copy;
    struct err err = {{0}};

    switch (copying_decide(want, now, arena, &operation, &err)) {
    case COPYING_WRITE:
        FUZZ_CHECK((operation.type == OPERATION_INSERT) == (now == NULL));
        if (now)
            FUZZ_SAME(operation.entity.etag, now->etag);
        check_settled(want, operation.entity, arena);
        break;
    case COPYING_FAILED:
        FUZZ_CHECK(now != NULL);
        fuzz_said(&err);
        break;
    case COPYING_LOOK:
        FUZZ_CHECK(now != NULL && !want->fresh);
        break;
    case COPYING_LEFT:
        FUZZ_CHECK(now != NULL && want->on_conflict == CONFLICT_SKIP);
        break;
    case COPYING_STORED:
        FUZZ_CHECK(now != NULL);
        break;
    }
    FUZZ_CHECK(fuzz_entities_equal(&kept, want->copy));
}

/* Another entity at the copy's keys: nobody's, or a copy of something. */
static struct entity made_now(
    struct fuzz_source *in, const struct copying_want *want)
{
    struct entity now = made_source(in);
    struct provenance provenance = *want->provenance;

    now.partition_key = want->copy->partition_key;
    now.row_key = want->copy->row_key;
    if (fuzz_yes(in))
        provenance.etag = fuzz_etag(in);
    if (fuzz_yes(in))
        provenance.row_key = fuzz_text(in, 4);
    if (fuzz_yes(in))
        provenance_stamp(&now, want->name, &provenance, in->arena);
    if (fuzz_yes(in))
        entity_set_int32(&now, in->arena, "A", 5);
    return now;
}

static void try_source(struct fuzz_source *in,
    const struct copying_target *target, const struct entity *source)
{
    const struct run_args args = {.count = 0};
    const struct provenance provenance = made_provenance(in, source);
    struct copying_want want = {.provenance = &provenance,
        .name = NAME,
        .on_conflict = (enum on_conflict)fuzz_below(in, 4),
        .owns = fuzz_yes(in),
        .fresh = fuzz_yes(in)};
    struct entity first, second, now;
    struct err err = {{0}};
    enum tw_err outcome =
        copying_make(target, &args, source, NAME, in->arena, &first, &err);

    FUZZ_CHECK(copying_make(target, &args, source, NAME, in->arena, &second,
                   NULL) == outcome);
    if (outcome != TW_OK) {
        FUZZ_CHECK(outcome == TW_INVALID || outcome == TW_TOO_LARGE);
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(fuzz_entities_equal(&first, &second));
    FUZZ_CHECK(entity_find(&first, NAME) == NULL);
    FUZZ_CHECK(entity_check(&first, &err) == TW_OK);
    want.copy = &first;
    check_verdict(&want, NULL, in->arena);
    now = made_now(in, &want);
    if (entity_check(&now, NULL) == TW_OK)
        check_verdict(&want, &now, in->arena);
}

FUZZ_TARGET(provenance)
{
    struct slice text = fuzz_input(at, len);
    struct arena arena;
    struct fuzz_source in = {at, len, &arena};
    struct copying_target target;
    struct entity source;
    struct err err;

    arena_init(&arena);
    try_text(text, &arena);
    target = made_target(&in);
    source = made_source(&in);
    try_source(&in, &target, &source);
    if (entity_parse(text, true, &arena, &source, NULL, &err) == TW_OK &&
        entity_check(&source, &err) == TW_OK)
        try_source(&in, &target, &source);
    arena_done(&arena);
    return 0;
}
