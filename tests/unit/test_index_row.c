/* SPDX-License-Identifier: MIT */
/* Index rows are recognised by the table and the keys that their
 * TablewardSource names, and by nothing else (rule C1). */
#include "jobs/copy/source.h"
#include "jobs/index_row.h"
#include "tests/support/fixture.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/store/store.h"

static const struct store MAIN = {
    .name = "main", .capabilities = {.kind = "embedded", .identity = "a1"}};
static const struct store OTHER = {
    .name = "main", .capabilities = {.kind = "embedded", .identity = "b2"}};

/* A copy of Blogs P/R, stored as (table, pk, rk). */
static struct entity copy_at(struct arena *arena, const struct store *store,
    const char *table, const char *pk, const char *rk)
{
    struct source source = {
        .job = slice_of("by-size"),
        .by = slice_of("00000000"),
        .from = source_table_of(&MAIN, "Blogs"),
        .at = source_table_of(store, table),
        .partition_key = slice_of("P"),
        .row_key = slice_of("R"),
        .etag = slice_of("e"),
    };
    struct entity copy;

    entity_init(&copy, arena, slice_of(pk), slice_of(rk));
    entity_set_int32(&copy, arena, "Size", 5);
    source_stamp(&copy, &source, arena);
    return copy;
}

SCRATCH_TEST(a_copy_in_the_table_of_its_source_is_an_index_row)
{
    struct entity row;

    row = copy_at(&scratch, &MAIN, "Blogs", "P", "size:5");
    assert_true(is_index_row(&row, "Blogs"));
    assert_true(is_index_row(&row, "BLOGS"));
    assert_false(is_index_row(&row, "Blogs2"));
}

SCRATCH_TEST(an_index_row_under_another_key_is_none)
{
    struct entity row;

    row = copy_at(&scratch, &MAIN, "Blogs", "P", "size:5");
    row.row_key = slice_of("mine");
    assert_false(is_index_row(&row, "Blogs"));
}

/* A job that copies Blogs of MAIN to Blogs of OTHER made it. */
SCRATCH_TEST(a_copy_from_a_table_of_that_name_in_another_account_is_none)
{
    struct entity copy;

    copy = copy_at(&scratch, &OTHER, "Blogs", "P", "R");
    assert_false(is_index_row(&copy, "Blogs"));
}

SCRATCH_TEST(an_index_row_that_was_edited_is_still_one)
{
    struct entity row;

    row = copy_at(&scratch, &MAIN, "Blogs", "P", "size:5");
    entity_set_int32(&row, &scratch, "Size", 6);
    assert_true(is_index_row(&row, "Blogs"));
}

SCRATCH_TEST(a_copy_of_an_index_row_under_other_keys_is_none)
{
    struct entity row;

    row = copy_at(&scratch, &MAIN, "Blogs", "P", "size:5");
    row.row_key = slice_of("mine");
    assert_false(is_index_row(&row, "Blogs"));
    row = copy_at(&scratch, &MAIN, "Blogs", "P", "size:5");
    row.partition_key = slice_of("Q");
    assert_false(is_index_row(&row, "Blogs"));
}

SCRATCH_TEST(a_copy_in_another_table_is_none)
{
    struct entity copy;

    copy = copy_at(&scratch, &MAIN, "BySize", "P", "size:5");
    assert_false(is_index_row(&copy, "BySize"));
    assert_false(is_index_row(&copy, "Blogs"));
}

SCRATCH_TEST(another_property_of_that_name_makes_none)
{
    struct entity entity;

    entity_init(&entity, &scratch, slice_of("P"), slice_of("R"));
    assert_false(is_index_row(&entity, "Blogs"));
    entity_set_int32(&entity, &scratch, INDEX_ROW_PROPERTY, 5);
    assert_false(is_index_row(&entity, "Blogs"));
    entity_set_string(
        &entity, &scratch, INDEX_ROW_PROPERTY, slice_of("{\"job\":\"x\"}"));
    assert_false(is_index_row(&entity, "Blogs"));
}
