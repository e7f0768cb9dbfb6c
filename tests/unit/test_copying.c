/* SPDX-License-Identifier: MIT */
/* The copy of an entity, and what is done where something stands already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"
#include "jobs/copying.h"
#include "jobs/job.h"
#include "tests/support/fixture.h"
#include "worker/base/buf.h"

struct bench {
    struct arena arena;
    struct problems problems;
    struct slice name; /* of provenance */
    struct run_args args;
    struct copying_target target;
    struct entity source, copy;
    struct provenance provenance;
    struct copying_want want;
    struct operation operation;
    struct err err;
};

static const struct slice ARG = {"channel", 7}, VALUE = {"Football", 8};

static const struct template *template_of(struct bench *b, const char *text)
{
    const struct template_scope scope = {&ARG, 1, true};
    const struct template *template;

    if (!text)
        return NULL;
    template = template_compile(slice_of(text), (struct mark){"t", 1, 1},
        &scope, &b->arena, &b->problems);
    if (!template) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", text);
    }
    return template;
}

/* shape: the map of `properties:` in one line, or NULL. */
static void target_of(struct bench *b, const char *partition_key,
    const char *row_key, const char *shape)
{
    struct job_loader loader = {.job = "copy",
        .args = &ARG,
        .arg_count = 1,
        .arena = &b->arena,
        .problems = &b->problems};
    const struct yaml_node *node = NULL;

    b->target = (struct copying_target){
        .partition_key = template_of(b, partition_key),
        .row_key = template_of(b, row_key),
    };
    if (shape)
        node = yaml_read("t", arena_copy(&b->arena, slice_of(shape)), &b->arena,
            &b->problems);
    if (!copying_load_shape(node, b->name, &loader, &b->target.shape)) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", shape);
    }
}

/* properties: as the service's JSON, without the braces. */
static struct entity entity_of(struct bench *b, const char *partition_key,
    const char *row_key, const char *etag, const char *properties)
{
    struct slice text =
        arena_format(&b->arena, "{\"PartitionKey\":\"\",\"RowKey\":\"\"%s%s}",
            *properties ? "," : "", properties);
    struct entity entity;
    struct err err;

    if (entity_parse(text, true, &b->arena, &entity, NULL, &err) != TW_OK)
        fail_msg("%s", err.text);
    entity.partition_key = slice_of(partition_key);
    entity.row_key = slice_of(row_key);
    entity.etag = slice_of(etag);
    return entity;
}

static void begin(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    problems_init(&b->problems);
    b->name = slice_of(PROVENANCE_PROPERTY);
    b->args = (struct run_args){1, &ARG, &VALUE};
    b->provenance = (struct provenance){
        .store = slice_of("main"),
        .table = slice_of("Blogs"),
        .partition_key = slice_of("P"),
        .row_key = slice_of("R"),
        .etag = slice_of("e1"),
        .job = slice_of("copy"),
        .run = slice_of("run"),
    };
}

static void done(struct bench *b)
{
    problems_done(&b->problems);
    arena_done(&b->arena);
}

static enum tw_err make(struct bench *b, const char *properties)
{
    b->err.text[0] = '\0';
    b->source = entity_of(b, "P", "R", "e1", properties);
    return copying_make(&b->target, &b->args, &b->source, b->name, &b->arena,
        &b->copy, &b->err);
}

static void check_properties(
    struct bench *b, const struct entity *entity, const char *properties)
{
    struct buf is;

    buf_init(&is, SIZE_MAX / 2);
    entity_write_properties(entity, &is);
    check_text(buf_slice(&is), arena_format(&b->arena, "{%s}", properties));
    buf_done(&is);
}

/* ---- copies ---- */

static void becomes(
    const char *shape, const char *properties, const char *expected)
{
    struct bench b;

    begin(&b);
    target_of(&b, "{channel}", "{RowKey}-{PartitionKey}", shape);
    if (make(&b, properties) != TW_OK)
        fail_msg("%s", b.err.text);
    check_text(b.copy.partition_key, VALUE);
    check_text(b.copy.row_key, slice_of("R-P"));
    assert_int_equal(b.copy.etag.len, 0);
    assert_int_equal(b.copy.timestamp.len, 0);
    check_properties(&b, &b.copy, expected);
    done(&b);
}

static void fails(const char *partition_key, const char *shape,
    const char *properties, const char *sentence)
{
    struct bench b;

    begin(&b);
    target_of(&b, partition_key, NULL, shape);
    assert_int_equal(make(&b, properties), TW_INVALID);
    if (!strstr(b.err.text, sentence))
        fail_msg("\"%s\" is not in: %s", sentence, b.err.text);
    done(&b);
}

static void a_copy_has_all_properties_to_the_byte(void **state)
{
    (void)state;
    becomes(NULL,
        "\"A\":1,\"B\":\"\\u0041\",\"D@odata.type\":\"Edm.Double\","
        "\"D\":\"NaN\"",
        "\"A\":1,\"B\":\"\\u0041\",\"D@odata.type\":\"Edm.Double\","
        "\"D\":\"NaN\"");
    becomes(NULL, "", "");
}

static void without_templates_it_has_the_keys_of_its_source(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    target_of(&b, NULL, NULL, NULL);
    assert_int_equal(make(&b, "\"A\":1"), TW_OK);
    check_text(b.copy.partition_key, slice_of("P"));
    check_text(b.copy.row_key, slice_of("R"));
    done(&b);
}

static void provenance_is_never_copied(void **state)
{
    (void)state;
    becomes(NULL, "\"A\":1,\"" PROVENANCE_PROPERTY "\":\"x\",\"B\":2",
        "\"A\":1,\"B\":2");
}

static void what_others_keep_where_provenance_is_to_go_is_not_lost(void **state)
{
    static const char FILLED[] = "\"A\":1,\"Origin\":\"Lisbon\"";
    struct bench b;
    struct entity copy;

    (void)state;
    begin(&b);
    b.name = slice_of("Origin");
    target_of(&b, NULL, "{RowKey}-", NULL);
    assert_int_equal(make(&b, FILLED), TW_INVALID);
    assert_non_null(strstr(b.err.text, "it has a property Origin, where"));
    target_of(&b, NULL, "{RowKey}-", "{keep: [A]}");
    assert_int_equal(make(&b, FILLED), TW_OK);
    check_properties(&b, &b.copy, "\"A\":1");
    target_of(&b, NULL, "{RowKey}-", NULL);
    assert_int_equal(make(&b, "\"A\":1"), TW_OK);
    /* A copy of a copy says where it comes from itself. */
    copy = b.copy;
    provenance_stamp(&copy, b.name, &b.provenance, &b.arena);
    assert_int_equal(copying_make(&b.target, &b.args, &copy, b.name, &b.arena,
                         &b.copy, &b.err),
        TW_OK);
    check_properties(&b, &b.copy, "\"A\":1");
    done(&b);
}

static void properties_are_kept_or_dropped(void **state)
{
    (void)state;
    becomes("{keep: [B, C]}", "\"A\":1,\"B\":2,\"D\":3", "\"B\":2");
    becomes("[B, C]", "\"A\":1,\"B\":2,\"D\":3", "\"B\":2");
    becomes("{drop: [B, C]}", "\"A\":1,\"B\":2,\"D\":3", "\"A\":1,\"D\":3");
    becomes("{keep: [A, B], drop: [C]}", "\"A\":1,\"B\":2,\"C\":3",
        "\"A\":1,\"B\":2");
    becomes("{keep: [], drop: [], rename: {}, set: {}}", "\"A\":1", "\"A\":1");
}

static void properties_are_renamed_all_at_once(void **state)
{
    (void)state;
    becomes("{rename: {A: X}}", "\"A\":1,\"B\":2", "\"X\":1,\"B\":2");
    becomes("{rename: {A: B, B: A}}", "\"A\":1,\"B\":2", "\"B\":1,\"A\":2");
    becomes("{rename: {A: B, B: C}}", "\"A\":1,\"B\":2", "\"B\":1,\"C\":2");
    becomes("{rename: {A: X}}", "\"B\":2", "\"B\":2");
    becomes("{drop: [B], rename: {A: B}}", "\"A\":1,\"B\":2", "\"B\":1");
}

static void properties_are_set_with_their_types(void **state)
{
    (void)state;
    becomes("{set: {T: true, F: false}}", "", "\"T\":true,\"F\":false");
    becomes("{set: {A: 5}}", "\"A\":\"x\",\"B\":2", "\"A\":5,\"B\":2");
    becomes("{set: {A: 3000000000}}", "",
        "\"A@odata.type\":\"Edm.Int64\",\"A\":\"3000000000\"");
    becomes("{set: {A: 2.5}}", "", "\"A@odata.type\":\"Edm.Double\",\"A\":2.5");
    becomes("{set: {A: '5', B: text}}", "", "\"A\":\"5\",\"B\":\"text\"");
    becomes("{set: {A: ''}}", "", "\"A\":\"\"");
    becomes("{set: {A: '{channel}: {B}'}}", "\"B\":2",
        "\"B\":2,\"A\":\"Football: 2\"");
    becomes("{set: {A: {type: Edm.Int64, value: '{B + 1}'}}}", "\"B\":2",
        "\"B\":2,\"A@odata.type\":\"Edm.Int64\",\"A\":\"3\"");
    becomes("{set: {A: {type: Edm.Int64, value: 5}}}", "",
        "\"A@odata.type\":\"Edm.Int64\",\"A\":\"5\"");
}

static void what_is_set_is_made_of_the_source(void **state)
{
    (void)state;
    becomes("{drop: [A], set: {B: '{A}', C: '{B}'}}", "\"A\":1,\"B\":2",
        "\"B\":\"1\",\"C\":\"2\"");
    becomes("{rename: {A: X}, set: {A: 5}}", "\"A\":1", "\"X\":1,\"A\":5");
}

static void a_source_that_cannot_be_rendered_fails(void **state)
{
    (void)state;
    fails("{Size}", NULL, "", "partition_key: property Size is missing");
    fails("{year(Size)}", NULL, "\"Size\":5",
        "partition_key: Size is an integer; year needs");
    fails(NULL, "{set: {A: '{B}', C: '{D}'}}", "",
        "set A: property B is missing");
    fails(NULL, "{set: {A: {type: Edm.Int32, value: '{B}'}}}", "\"B\":\"x\"",
        "set A: ");
    fails(NULL, "{rename: {A: B}}", "\"A\":1,\"B\":2",
        "rename: the entity has a property B already");
}

static void keys_that_the_service_forbids_fail(void **state)
{
    struct buf long_key;

    (void)state;
    fails("{Size}", NULL, "\"Size\":\"a/b\"", "the copy: PartitionKey 'a/b'");
    fails("{Size}", NULL, "\"Size\":\"a#b\"", "which the service forbids");
    buf_init(&long_key, SIZE_MAX / 2);
    buf_add_text(&long_key, "\"Size\":\"");
    for (size_t i = 0; i < 513; i++)
        buf_add_char(&long_key, 'x');
    buf_add_char(&long_key, '"');
    fails("{Size}", NULL, buf_text(&long_key), "longer than 512 UTF-16 units");
    fails("{Size}{Size}{Size}{Size}{Size}{Size}{Size}{Size}", NULL,
        buf_text(&long_key), "longer than 4096 bytes");
    buf_done(&long_key);
}

/* ---- what would be too much ---- */

static void add_properties(
    struct entity *entity, struct arena *arena, size_t count, size_t bytes)
{
    char name[16], *text = arena_alloc(arena, bytes + 1);

    memset(text, 'x', bytes);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "P%zu", i);
        entity_set_string(entity, arena, name, (struct slice){text, bytes});
    }
}

static enum tw_err make_large(struct bench *b, size_t count, size_t bytes)
{
    target_of(b, NULL, NULL, NULL);
    b->source = entity_of(b, "P", "R\"R", "W/\"e1\"", "");
    add_properties(&b->source, &b->arena, count, bytes);
    assert_int_equal(entity_check(&b->source, &b->err), TW_OK);
    return copying_make(&b->target, &b->args, &b->source, b->name, &b->arena,
        &b->copy, &b->err);
}

static void a_copy_leaves_room_for_its_provenance(void **state)
{
    struct bench b;

    (void)state;
    begin(&b);
    assert_int_equal(make_large(&b, 251, 1), TW_OK);
    assert_int_equal(make_large(&b, 252, 1), TW_TOO_LARGE);
    assert_non_null(strstr(b.err.text, "it has 253 properties"));
    assert_int_equal(make_large(&b, 15, 32 * 1024), TW_OK);
    assert_int_equal(make_large(&b, 17, 30800), TW_TOO_LARGE);
    assert_non_null(strstr(b.err.text, "larger than 1 MiB"));
    done(&b);
}

static void a_copy_as_large_as_it_may_be_is_taken_with_its_provenance(
    void **state)
{
    char identity[STORE_IDENTITY_MAX];
    struct bench b;
    size_t bytes = 30000;

    (void)state;
    memset(identity, 'i', sizeof(identity));
    begin(&b);
    while (make_large(&b, 17, bytes + 10) == TW_OK)
        bytes += 10;
    assert_int_equal(make_large(&b, 17, bytes), TW_OK);
    b.provenance.row_key = b.source.row_key;
    b.provenance.etag = b.source.etag;
    b.provenance.identity = (struct slice){identity, sizeof(identity)};
    provenance_stamp(&b.copy, b.name, &b.provenance, &b.arena);
    assert_int_equal(entity_check(&b.copy, &b.err), TW_OK);
    assert_in_range(entity_service_bytes(&b.copy), ENTITY_MAX_BYTES - 3 * 1024,
        ENTITY_MAX_BYTES);
    done(&b);
}

/* ---- keys that can change ---- */

static void only_what_reads_properties_can_change_its_keys(void **state)
{
    static const struct {
        const char *partition_key, *row_key;
        bool change;
    } TARGETS[] = {
        {NULL, NULL, false},
        {"constant", NULL, false},
        {"{channel}_{PartitionKey}", "{hash(RowKey, 16):02}", false},
        {"{Size}", NULL, true},
        {NULL, "{if(RowKey == 'x', Size, 1)}", true},
    };
    struct bench b;

    (void)state;
    begin(&b);
    for (size_t i = 0; i < sizeof(TARGETS) / sizeof(TARGETS[0]); i++) {
        target_of(&b, TARGETS[i].partition_key, TARGETS[i].row_key, NULL);
        assert_int_equal(copying_keys_change(&b.target), TARGETS[i].change);
    }
    done(&b);
}

static void a_target_is_explained(void **state)
{
    struct bench b;
    struct buf text;

    (void)state;
    begin(&b);
    buf_init(&text, 4096);
    target_of(&b, "{Size}", NULL,
        "{keep: [A, B], drop: [C], rename: {A: X}, set: {M: true}}");
    copying_explain(&b.target, &text);
    assert_string_equal(buf_text(&text),
        "PartitionKey \"{Size}\", RowKey of the source, nothing but A, B, "
        "without C, A as X, M (Edm.Boolean) \"true\"");
    buf_done(&text);
    done(&b);
}

/* ---- decisions ---- */

/* The copy of source e1 as {"A":1,"B":"x"}, keys Q / S. */
static void want(struct bench *b, enum on_conflict on_conflict)
{
    begin(b);
    b->copy = entity_of(b, "Q", "S", "", "\"A\":1,\"B\":\"x\"");
    b->want = (struct copying_want){.copy = &b->copy,
        .provenance = &b->provenance,
        .name = b->name,
        .on_conflict = on_conflict};
}

/* What stands there, stored by a run as `stored`, and then changed to `now`. */
static struct entity changed_copy(struct bench *b,
    const struct provenance *provenance, const char *stored, const char *now)
{
    struct entity first = entity_of(b, "Q", "S", "", stored),
                  second = entity_of(b, "Q", "S", "d1", now);

    provenance_stamp(&first, b->name, provenance, &b->arena);
    entity_set(&second, &b->arena, entity_find(&first, b->name));
    return second;
}

static struct entity stored_copy(
    struct bench *b, const char *etag, const char *stored, const char *now)
{
    struct provenance provenance = b->provenance;

    provenance.etag = slice_of(etag);
    provenance.run = slice_of("earlier");
    return changed_copy(b, &provenance, stored, now);
}

static enum copying_verdict decide(struct bench *b, const struct entity *now)
{
    memset(&b->operation, 0, sizeof(b->operation));
    b->err.text[0] = '\0';
    return copying_decide(&b->want, now, &b->arena, &b->operation, &b->err);
}

/* Sent is what is wanted, with provenance, on the state that was met. */
static void check_sent(
    struct bench *b, const char *etag, const char *properties)
{
    const struct operation *is = &b->operation;
    struct entity bare = is->entity;
    struct provenance provenance;

    assert_int_equal(is->type, *etag ? OPERATION_REPLACE : OPERATION_INSERT);
    check_text(is->entity.etag, slice_of(etag));
    check_text(is->entity.partition_key, slice_of("Q"));
    check_text(is->entity.row_key, slice_of("S"));
    assert_true(provenance_read(&is->entity, b->name, &b->arena, &provenance));
    check_text(provenance.etag, slice_of("e1"));
    check_text(provenance.run, slice_of("run"));
    assert_true(provenance_is_of(&provenance, &b->provenance));
    assert_true(provenance_is_intact(&provenance, &is->entity, b->name));
    check_text(bare.properties[bare.property_count - 1].name, b->name);
    bare.property_count--;
    check_properties(b, &bare, properties);
    assert_int_equal(b->copy.property_count, 2);
}

#define COPY "\"A\":1,\"B\":\"x\""
#define FORMER "\"A\":7,\"B\":\"x\""
#define TOUCHED "\"A\":7,\"C\":true"

static void where_nothing_stands_it_is_inserted(void **state)
{
    struct bench b;

    (void)state;
    for (int i = CONFLICT_FAIL; i <= CONFLICT_MERGE; i++) {
        want(&b, (enum on_conflict)i);
        assert_int_equal(decide(&b, NULL), COPYING_WRITE);
        check_sent(&b, "", COPY);
        done(&b);
    }
}

static void what_is_stored_is_not_written_again(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    for (int i = CONFLICT_FAIL; i <= CONFLICT_MERGE; i++) {
        want(&b, (enum on_conflict)i);
        now = stored_copy(&b, "e1", COPY, COPY);
        assert_int_equal(decide(&b, &now), COPYING_STORED);
        b.want.owns = true;
        assert_int_equal(decide(&b, &now), COPYING_STORED);
        b.want.fresh = true;
        assert_int_equal(decide(&b, &now), COPYING_STORED);
        done(&b);
    }
}

static void another_definition_writes_its_own_copies_anew(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    now = stored_copy(&b, "e1", "\"A\":1", "\"A\":1");
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    now = stored_copy(&b, "e1", COPY ",\"C\":1", COPY ",\"C\":1");
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void what_others_changed_of_a_copy_stays(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    now = stored_copy(&b, "e1", COPY, TOUCHED);
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    b.want.owns = true;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void a_copy_of_another_state_asks_for_the_source(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_REPLACE);
    now = stored_copy(&b, "e0", FORMER, FORMER);
    assert_int_equal(decide(&b, &now), COPYING_LOOK);
    b.want.owns = true;
    assert_int_equal(decide(&b, &now), COPYING_LOOK);
    b.want.owns = false;
    b.want.fresh = true;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    b.want.on_conflict = CONFLICT_FAIL;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void a_copy_that_is_only_named_after_another_state_is_named_anew(
    void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    b.want.fresh = true;
    now = stored_copy(&b, "e0", COPY, COPY);
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    now = stored_copy(&b, "e0", FORMER, COPY);
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void another_jobs_copy_with_other_properties_is_a_conflict(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    now = stored_copy(&b, "e1", FORMER, FORMER);
    b.provenance.job = slice_of("other");
    assert_int_equal(decide(&b, &now), COPYING_FAILED);
    assert_string_equal(b.err.text,
        "at 'Q' / 'S' stands the copy that another job has made of it "
        "(on_conflict: fail)");
    b.want.on_conflict = CONFLICT_SKIP;
    assert_int_equal(decide(&b, &now), COPYING_LEFT);
    b.want.on_conflict = CONFLICT_REPLACE;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    b.provenance.job = slice_of("copy");
    now = stored_copy(&b, "e1", COPY, COPY);
    b.provenance.job = slice_of("other");
    b.want.on_conflict = CONFLICT_FAIL;
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    done(&b);
}

static void another_indexs_copy_stays_when_the_source_has_changed(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    b.want.owns = true;
    now = stored_copy(&b, "e0", FORMER, FORMER);
    b.provenance.job = slice_of("other");
    assert_int_equal(decide(&b, &now), COPYING_LOOK);
    b.want.fresh = true;
    assert_int_equal(decide(&b, &now), COPYING_FAILED);
    assert_non_null(strstr(b.err.text, "that another job has made of it"));
    b.want.on_conflict = CONFLICT_SKIP;
    assert_int_equal(decide(&b, &now), COPYING_LEFT);
    b.want.on_conflict = CONFLICT_REPLACE;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    b.provenance.job = slice_of("copy");
    now = stored_copy(&b, "e0", FORMER, COPY);
    b.provenance.job = slice_of("other");
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    done(&b);
}

/* As a move under another name than the copy before it. */
static void another_jobs_copy_follows_a_source_that_has_changed(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    now = stored_copy(&b, "e0", FORMER, FORMER);
    b.provenance.job = slice_of("other");
    assert_int_equal(decide(&b, &now), COPYING_LOOK);
    b.want.fresh = true;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void a_former_copy_that_others_changed_is_a_conflict(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    b.want.fresh = true;
    now = stored_copy(&b, "e0", FORMER, TOUCHED);
    assert_int_equal(decide(&b, &now), COPYING_FAILED);
    assert_string_equal(b.err.text,
        "at 'Q' / 'S' stands its former copy, which somebody has changed since "
        "(on_conflict: fail)");
    b.want.on_conflict = CONFLICT_SKIP;
    assert_int_equal(decide(&b, &now), COPYING_LEFT);
    b.want.on_conflict = CONFLICT_REPLACE;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    b.want.on_conflict = CONFLICT_FAIL;
    b.want.owns = true;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    done(&b);
}

static void the_copy_of_another_source_is_a_collision(void **state)
{
    struct bench b;
    struct provenance other;
    struct entity now;

    (void)state;
    for (int i = CONFLICT_FAIL; i <= CONFLICT_MERGE; i++) {
        want(&b, (enum on_conflict)i);
        other = b.provenance;
        other.row_key = slice_of("R2");
        now = changed_copy(&b, &other, COPY, COPY);
        b.want.owns = i % 2 == 0;
        assert_int_equal(decide(&b, &now), COPYING_FAILED);
        assert_string_equal(b.err.text,
            "at 'Q' / 'S' stands the copy of another entity, 'P' / 'R2' of "
            "Blogs: each source needs keys of its own");
        done(&b);
    }
}

/* Of the same keys, and one name for both stores. */
static void the_copy_of_another_account_is_a_collision(void **state)
{
    struct bench b;
    struct provenance other;
    struct entity now;

    (void)state;
    for (int i = CONFLICT_FAIL; i <= CONFLICT_MERGE; i++) {
        want(&b, (enum on_conflict)i);
        b.provenance.identity = slice_of("us.example");
        other = b.provenance;
        other.identity = slice_of("eu.example");
        now = changed_copy(&b, &other, FORMER, FORMER);
        b.want.fresh = true;
        assert_int_equal(decide(&b, &now), COPYING_FAILED);
        assert_string_equal(b.err.text,
            "at 'Q' / 'S' stands the copy of another entity, 'P' / 'R' of "
            "Blogs in another store, eu.example: each source needs keys of its "
            "own");
        done(&b);
    }
}

static void an_equal_entity_of_others_is_as_good(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    for (int i = CONFLICT_FAIL; i <= CONFLICT_MERGE; i++) {
        want(&b, (enum on_conflict)i);
        now = entity_of(&b, "Q", "S", "d1", "\"B\":\"x\",\"A\":1");
        assert_int_equal(decide(&b, &now), COPYING_STORED);
        b.want.owns = true;
        assert_int_equal(decide(&b, &now), COPYING_WRITE);
        check_sent(
            &b, "d1", i == CONFLICT_MERGE ? "\"B\":\"x\",\"A\":1" : COPY);
        done(&b);
    }
}

static void a_property_of_that_name_that_is_not_ours_does_not_count(
    void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_FAIL);
    now = entity_of(
        &b, "Q", "S", "d1", COPY ",\"" PROVENANCE_PROPERTY "\":\"mine\"");
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    done(&b);
}

static void a_different_entity_of_others_is_a_conflict(void **state)
{
    static const char *const OTHERS[] = {"\"A\":1", COPY ",\"C\":true",
        "\"A\":1,\"B\":\"y\"",
        "\"A@odata.type\":\"Edm.Int64\",\"A\":\"1\",\"B\":\"x\""};
    struct bench b;
    struct entity now;

    (void)state;
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++) {
        want(&b, CONFLICT_FAIL);
        now = entity_of(&b, "Q", "S", "d1", OTHERS[i]);
        assert_int_equal(decide(&b, &now), COPYING_FAILED);
        assert_string_equal(b.err.text,
            "at 'Q' / 'S' stands another entity, which is no copy "
            "(on_conflict: fail)");
        b.want.on_conflict = CONFLICT_SKIP;
        assert_int_equal(decide(&b, &now), COPYING_LEFT);
        b.want.on_conflict = CONFLICT_REPLACE;
        assert_int_equal(decide(&b, &now), COPYING_WRITE);
        check_sent(&b, "d1", COPY);
        done(&b);
    }
}

static void a_merge_keeps_what_the_copy_does_not_have(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_MERGE);
    now = entity_of(&b, "Q", "S", "d1", "\"A\":5,\"C\":true");
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", "\"A\":1,\"C\":true,\"B\":\"x\"");
    assert_int_equal(now.property_count, 2);
    now = entity_of(&b, "Q", "S", "d1", "");
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    check_sent(&b, "d1", COPY);
    now = stored_copy(&b, "e0", FORMER ",\"C\":true", FORMER ",\"C\":true");
    b.want.fresh = true;
    assert_int_equal(decide(&b, &now), COPYING_WRITE);
    assert_int_equal(b.operation.entity.property_count, 4);
    done(&b);
}

static void what_was_merged_is_not_written_again(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_MERGE);
    now = stored_copy(&b, "e1", COPY ",\"C\":true", COPY ",\"C\":true");
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    now = entity_of(&b, "Q", "S", "d1", COPY ",\"C\":true");
    assert_int_equal(decide(&b, &now), COPYING_STORED);
    done(&b);
}

static void a_merge_that_grows_too_large_fails(void **state)
{
    struct bench b;
    struct entity now;

    (void)state;
    want(&b, CONFLICT_MERGE);
    now = entity_of(&b, "Q", "S", "d1", "");
    add_properties(&now, &b.arena, 251, 1);
    assert_int_equal(decide(&b, &now), COPYING_FAILED);
    assert_non_null(strstr(
        b.err.text, "merged with what stands there: the entity has 254"));
    done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_all_properties_to_the_byte),
        cmocka_unit_test(without_templates_it_has_the_keys_of_its_source),
        cmocka_unit_test(provenance_is_never_copied),
        cmocka_unit_test(
            what_others_keep_where_provenance_is_to_go_is_not_lost),
        cmocka_unit_test(properties_are_kept_or_dropped),
        cmocka_unit_test(properties_are_renamed_all_at_once),
        cmocka_unit_test(properties_are_set_with_their_types),
        cmocka_unit_test(what_is_set_is_made_of_the_source),
        cmocka_unit_test(a_source_that_cannot_be_rendered_fails),
        cmocka_unit_test(keys_that_the_service_forbids_fail),
        cmocka_unit_test(a_copy_leaves_room_for_its_provenance),
        cmocka_unit_test(
            a_copy_as_large_as_it_may_be_is_taken_with_its_provenance),
        cmocka_unit_test(only_what_reads_properties_can_change_its_keys),
        cmocka_unit_test(a_target_is_explained),
        cmocka_unit_test(where_nothing_stands_it_is_inserted),
        cmocka_unit_test(what_is_stored_is_not_written_again),
        cmocka_unit_test(another_definition_writes_its_own_copies_anew),
        cmocka_unit_test(another_jobs_copy_with_other_properties_is_a_conflict),
        cmocka_unit_test(another_indexs_copy_stays_when_the_source_has_changed),
        cmocka_unit_test(another_jobs_copy_follows_a_source_that_has_changed),
        cmocka_unit_test(what_others_changed_of_a_copy_stays),
        cmocka_unit_test(a_copy_of_another_state_asks_for_the_source),
        cmocka_unit_test(
            a_copy_that_is_only_named_after_another_state_is_named_anew),
        cmocka_unit_test(a_former_copy_that_others_changed_is_a_conflict),
        cmocka_unit_test(the_copy_of_another_source_is_a_collision),
        cmocka_unit_test(the_copy_of_another_account_is_a_collision),
        cmocka_unit_test(an_equal_entity_of_others_is_as_good),
        cmocka_unit_test(
            a_property_of_that_name_that_is_not_ours_does_not_count),
        cmocka_unit_test(a_different_entity_of_others_is_a_conflict),
        cmocka_unit_test(a_merge_keeps_what_the_copy_does_not_have),
        cmocka_unit_test(what_was_merged_is_not_written_again),
        cmocka_unit_test(a_merge_that_grows_too_large_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
