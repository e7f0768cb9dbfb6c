/* SPDX-License-Identifier: MIT */
/* The command `run` in the directory of the test, and what its options
 * allow. */
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"

#define MAX_WORDS 16

static int run_line(const char *const *words)
{
    char *argv[MAX_WORDS] = {(char[]){"tableward"}};
    char room[MAX_WORDS][64];
    int argc = 1;

    for (; words[argc - 1]; argc++) {
        (void)snprintf(room[argc], sizeof(room[argc]), "%s", words[argc - 1]);
        argv[argc] = room[argc];
    }
    return command_main(argc, argv);
}

#define RUN(...)                                                               \
    run_line((const char *const[]){                                            \
        __VA_ARGS__, "--config", "run.yaml", "--log-level", "error", NULL})

#define CONFIG(partition_key)                                                  \
    "stores: {main: {embedded: run.db}}\n"                                     \
    "jobs:\n"                                                                  \
    "  by-size:\n"                                                             \
    "    kind: copy\n"                                                         \
    "    from: {table: Shoes}\n"                                               \
    "    to: {table: BySize, partition_key: \"" partition_key "\"}\n"

/* Rule C6: --yes accepts the run, but not its deletes. */
TEST(yes_does_not_accept_deletes)
{
    text_file_write("shoes.csv", "PartitionKey,RowKey,Size\np,a,1\n");
    text_file_write("run.yaml", CONFIG("{Size}"));
    assert_int_equal(RUN("import", "Shoes", "shoes.csv"), EXIT_DONE);
    assert_int_equal(RUN("run", "by-size", "--yes"), EXIT_DONE);
    text_file_write("run.yaml", CONFIG("s{Size}"));
    assert_int_equal(RUN("run", "by-size", "--yes"), EXIT_FAILED);
    assert_int_equal(
        RUN("run", "by-size", "--yes", "--accept-deletes"), EXIT_DONE);
}

/* With exit code 0 the command would say that the new definition needs no
 * work. */
TEST(an_id_that_succeeded_does_nothing_under_another_definition)
{
    text_file_write("run.yaml", CONFIG("{Size}"));
    assert_int_equal(
        RUN("run", "by-size", "--yes", "--accept-deletes", "--id", "a"),
        EXIT_DONE);
    assert_int_equal(RUN("run", "by-size", "--yes", "--id", "a"), EXIT_DONE);
    text_file_write("run.yaml", CONFIG("t{Size}"));
    assert_int_equal(
        RUN("run", "by-size", "--yes", "--id", "a"), EXIT_USAGE_64);
}
