/* SPDX-License-Identifier: MIT */
/* Memory of the process: what is given back to the system. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/mem.h"

/* A number of /proc/self/status, in KiB. */
static long status_kib(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;

    assert_non_null(file);
    while (kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtol(line + strlen(name), NULL, 10);
    (void)fclose(file);
    assert_true(kib >= 0);
    return kib;
}

#ifdef __GLIBC__

static const char *const words[] = {"one", "two", "three"}; /* relocated */

TEST(a_dropped_program_is_smaller_and_goes_on)
{
    long before = status_kib("RssFile:");

    mem_drop_program();
    assert_true(status_kib("RssFile:") < before);
    assert_string_equal(words[before > 0 ? 2 : 0], "three");
    mem_drop_program();
    assert_string_equal(words[before > 0 ? 1 : 0], "two");
}

#endif

TEST(what_was_freed_is_given_back)
{
    enum { COUNT = 4000, BYTES = 4000 };
    char *blocks[COUNT];
    long before;

    mem_keep_little();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = mem_alloc(BYTES);
        memset(blocks[i], i, BYTES);
    }
    before = status_kib("RssAnon:");
    for (int i = 0; i < COUNT - 1; i++) /* the last one holds the end */
        mem_free(blocks[i]);
    mem_give_back();
#ifdef MEM_HAS_LIBRARIES
    assert_true(status_kib("RssAnon:") < before - COUNT / 2 * (BYTES / 1024));
#else
    assert_true(before > 0);
#endif
    mem_free(blocks[COUNT - 1]);
}

int main(void)
{
    return test_run_all(NULL, NULL);
}
