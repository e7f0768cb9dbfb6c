/* SPDX-License-Identifier: MIT */
/* An arena for one test: see scratch.h. */
#include "tests/support/scratch.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/text_file.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

struct arena scratch;

int scratch_set_up(void **state)
{
    arena_init(&scratch);
    return 0;
}

int scratch_tear_down(void **state)
{
    arena_done(&scratch);
    return 0;
}

struct entity scratch_entity(const char *text)
{
    struct entity entity;
    struct err err = {{0}};

    if (entity_parse(slice_of(text), true, &scratch, &entity, NULL, &err) !=
        TW_OK)
        fail_msg("%s: %s", text, err.text);
    return entity;
}

void scratch_assert_written(const struct entity *entity, const char *text)
{
    struct buf buf;

    buf_init(&buf, 4 * 1024 * 1024);
    entity_write(entity, &buf);
    assert_string_equal(buf_text(&buf), text);
    buf_done(&buf);
}

char *scratch_source(const char *path)
{
    const char *folder = getenv("TABLEWARD_SOURCE");
    char *text = text_file_read(
        arena_format(&scratch, "%s/%s", folder ? folder : ".", path).at);
    size_t size = strlen(text) + 1;
    char *ret = memcpy(arena_alloc(&scratch, size), text, size);

    mem_free(text);
    return ret;
}
