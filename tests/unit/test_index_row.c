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

/* Returns a copy of entity P/R of Blogs. Its TablewardSource says that the copy
 * was written to this table of `store`, with the keys pk and rk. */
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
    static const struct {
        const char *name;
        const struct store *at;
        /* at_table: where the row was written; of_table: where it is now. */
        const char *at_table, *of_table;
        const char *partition_key, *row_key;
        bool is;
    } cases[] = {
        {"as it was written", &MAIN, "Blogs", "Blogs", "P", "size:5", true},
        {"in other spelling", &MAIN, "Blogs", "BLOGS", "P", "size:5", true},
        {"another table", &MAIN, "Blogs", "Blogs2", "P", "size:5", false},
        {"another RowKey", &MAIN, "Blogs", "Blogs", "P", "mine", false},
        {"another PartitionKey", &MAIN, "Blogs", "Blogs", "Q", "size:5", false},
        {"a copy elsewhere", &MAIN, "BySize", "BySize", "P", "size:5", false},
        {"a copy of a copy", &MAIN, "BySize", "Blogs", "P", "size:5", false},
        /* A job that copies Blogs of MAIN to Blogs of OTHER has made this copy.
         */
        {"another account", &OTHER, "Blogs", "Blogs", "P", "size:5", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct entity row =
            copy_at(&scratch, cases[i].at, cases[i].at_table, "P", "size:5");

        test_case("%s", cases[i].name);
        row.partition_key = slice_of(cases[i].partition_key);
        row.row_key = slice_of(cases[i].row_key);
        assert_int_equal(is_index_row(&row, cases[i].of_table), cases[i].is);
        entity_set_int32(&row, &scratch, "Size", 6); /* it is edited */
        assert_int_equal(is_index_row(&row, cases[i].of_table), cases[i].is);
    }
}
