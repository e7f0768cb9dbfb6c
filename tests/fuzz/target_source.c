/* SPDX-License-Identifier: MIT */
/*
 * The property TablewardSource with any text. A text that is read as a source
 * can be written, and is read back the same.
 */
#include "jobs/copy/source.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"

static void check_same(const struct source *a, const struct source *b)
{
    FUZZ_SAME(a->job, b->job);
    FUZZ_CHECK(a->entry == b->entry);
    FUZZ_SAME(a->by, b->by);
    FUZZ_CHECK(source_table_equal(&a->from, &b->from));
    FUZZ_CHECK(source_table_equal(&a->at, &b->at));
    FUZZ_SAME(a->partition_key, b->partition_key);
    FUZZ_SAME(a->row_key, b->row_key);
    FUZZ_SAME(a->etag, b->etag);
}

FUZZ_TARGET(source)
{
    struct source first, second;
    struct entity copy;

    if (text_is_utf8(text)) {
        entity_init(&copy, in->arena, slice_of("P"), slice_of("R"));
        entity_set_string(&copy, in->arena, SOURCE_PROPERTY, text);
        if (source_read(&copy, in->arena, &first)) {
            source_stamp(&copy, &first, in->arena);
            FUZZ_CHECK(source_read(&copy, in->arena, &second));
            check_same(&first, &second);
            FUZZ_CHECK(source_is_at(&second, &copy, &first.at));
            FUZZ_CHECK(source_is_intact(&second, &copy));
        }
    }
}
