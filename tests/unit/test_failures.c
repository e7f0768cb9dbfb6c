/* SPDX-License-Identifier: MIT */
/* The `failures:` file: its lines, its mode, and what happens without room. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
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

/* Adds it to the file of run r1 of job j below folder. */
static void add(const char *folder, unsigned times)
{
    struct failures *failures =
        failures_new(base, folder, "j", "r1", "run j/r1");

    while (times-- > 0)
        failures_add(failures, &failure);
    failures_free(failures);
}

static size_t read_all(const char *name, char *to, size_t room)
{
    char path[FOLDER_BYTES + 32];
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof(path), "%s/%s", base, name);
    file = fopen(path, "r");
    assert_non_null(file);
    len = fread(to, 1, room - 1, file);
    to[len] = '\0';
    (void)fclose(file);
    return len;
}

#define LINE                                                                   \
    "{\"table\":\"Blogs\",\"PartitionKey\":\"Foot\\\"ball\","                  \
    "\"RowKey\":\"\xef\xbf\xbd\",\"step\":\"retype Rating\","                  \
    "\"reason\":\"'\xd0\x96' is not a number\"}\n"

FIXTURE_TEST(each_failed_entity_is_a_line)
{
    char text[1000], path[FOLDER_BYTES + 32];
    struct stat info;

    add("a/b", 2);
    add("a/b", 1); /* the next attempt appends */
    (void)read_all("a/b/j-r1.jsonl", text, sizeof(text));
    assert_string_equal(text, LINE LINE LINE);
    (void)snprintf(path, sizeof(path), "%s/a/b/j-r1.jsonl", base);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

FIXTURE_TEST(a_line_that_a_crash_tore_is_ended)
{
    char text[1000], path[FOLDER_BYTES + 32];
    int at;

    add("f", 1);
    (void)snprintf(path, sizeof(path), "%s/f/j-r1.jsonl", base);
    at = open(path, O_WRONLY | O_APPEND);
    assert_true(at >= 0);
    assert_int_equal(write(at, "{\"tab", 5), 5);
    (void)close(at);
    add("f", 1);
    (void)read_all("f/j-r1.jsonl", text, sizeof(text));
    assert_string_equal(text, LINE "{\"tab\n" LINE);
}

FIXTURE_TEST(a_folder_that_cannot_be_made_ends_nothing)
{
    add("/proc/nowhere", 3);
    failures_free(NULL);
}
