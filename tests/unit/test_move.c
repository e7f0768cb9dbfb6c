/* SPDX-License-Identifier: MIT */
/* The kind move: what its configuration may say, what goes where, and what
 * stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

static const char JOBS[] =
    "away:\n"
    "  kind: move\n"
    "  from: {table: Blogs, filter: \"N eq 1\"}\n"
    "  to: {table: OldBlogs, partition_key: \"{PartitionKey}_{N}\"}\n"
    "all:\n"
    "  kind: move\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs}\n"
    "one-key:\n"
    "  kind: move\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs, partition_key: p, row_key: r}\n"
    "all-skip:\n"
    "  kind: move\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs}\n"
    "  on_conflict: skip\n"
    "all-accept:\n"
    "  kind: move\n"
    "  from: {table: Blogs}\n"
    "  to: {table: OldBlogs}\n"
    "  on_conflict: accept_equal\n"
    "rotate:\n"
    "  kind: move\n"
    "  args: [to]\n"
    "  from: {table: Blogs, partition_key: cur}\n"
    "  to: {table: Blogs, partition_key: old}\n"
    "rotate-new:\n"
    "  kind: move\n"
    "  from: {table: Blogs, partition_key: new}\n"
    "  to: {table: Blogs, partition_key: cur}\n";

static struct hosted h;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosted_done(&h);
    return 0;
}

static void run(const char *job, enum run_end wanted)
{
    hosted_forget(&h, "r1");
    if (hosted_run(&h, job, "x") != wanted)
        fail_msg("%s: %d: %s %s", job, h.end, h.err.text, h.failed_why);
}

static void what_is_selected_is_moved(void **state)
{
    (void)state;
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1,\"T\":\"x\"");
    hosted_put(&h, "Blogs", "a", "2", "\"N\":2");
    run("away", RUN_SUCCEEDED);
    assert_string_equal(hosted_dump(&h, "Blogs"), "a/2 ");
    assert_string_equal(hosted_dump(&h, "OldBlogs"), "a_1/1 ");
    assert_string_equal(
        hosted_json(&h, "OldBlogs", "a_1", "1"), "{\"N\":1,\"T\":\"x\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_is_selected_is_moved, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
