/* SPDX-License-Identifier: MIT */
/* The `failures:` file: its lines, its mode, and what happens if it cannot be
 * written. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/run/failures.h"

static char base[FOLDER_BYTES];

static int set_up(void **state)
{
    test_folder(base);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, NULL)

static const struct run_failure failure = {
    .table = "Blogs",
    .partition_key = {"Foot\"ball", 9},
    .row_key = {"\xd0", 1},
    .step = "retype Rating",
    .why = "'\xd0\x96' is not a number",
};

/* Appends `failure` `times` times to the file in folder of run r1 of job j. */
static void add(const char *folder, unsigned times)
{
    struct failures *failures =
        failures_new(base, folder, "j", "r1", "run j/r1");

    while (times-- > 0)
        failures_add(failures, &failure);
    failures_free(failures);
}

static const char *path_of(const char *name)
{
    static char path[FOLDER_BYTES + 32];

    (void)snprintf(path, sizeof(path), "%s/%s", base, name);
    return path;
}

#define LINE                                                                   \
    "{\"table\":\"Blogs\",\"PartitionKey\":\"Foot\\\"ball\","                  \
    "\"RowKey\":\"\xef\xbf\xbd\",\"step\":\"retype Rating\","                  \
    "\"reason\":\"'\xd0\x96' is not a number\"}\n"

FIXTURE_TEST(each_failed_entity_is_a_line)
{
    struct stat info;

    add("a/b", 2);
    add("a/b", 1); /* the next attempt appends */
    text_file_check(path_of("a/b/j-r1.jsonl"), LINE LINE LINE);
    assert_int_equal(stat(path_of("a/b/j-r1.jsonl"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

FIXTURE_TEST(a_line_that_a_crash_tore_is_ended)
{
    int at;

    add("f", 1);
    at = open(path_of("f/j-r1.jsonl"), O_WRONLY | O_APPEND);
    assert_true(at >= 0);
    assert_int_equal(write(at, "{\"tab", 5), 5);
    (void)close(at);
    add("f", 1);
    text_file_check(path_of("f/j-r1.jsonl"), LINE "{\"tab\n" LINE);
}

FIXTURE_TEST(a_folder_that_cannot_be_made_ends_nothing)
{
    add("/proc/nowhere", 3);
    failures_free(NULL);
}
