/* SPDX-License-Identifier: MIT */
/* The dry run of an upgrade. */
#include <string.h>

#include "tests/support/hosted.h"
#include "tests/support/test.h"

HOSTED_FIXTURE("blogs:\n"
               "  kind: schema-upgrade\n"
               "  table: Blogs\n"
               "  version: {property: V, absent: 1}\n"
               "  versions:\n"
               "  - {to: 2, steps: [rename: {property: Text, to: Body}]}\n"
               "  - to: 3\n"
               "    steps:\n"
               "    - retype: {property: Rating, to: Edm.Int32}\n"
               "    - remove: {property: Legacy}\n",
    "Blogs")

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

static void put(const char *row_key, const char *properties)
{
    hosted_put(&h, "Blogs", "p", row_key, properties);
}

static void says(const struct job_estimate *estimate, const char *part)
{
    if (!strstr(estimate->details, part))
        fail_msg("'%s' is not in\n%s", part, estimate->details);
}

FIXTURE_TEST(each_step_says_what_it_would_change)
{
    struct job_estimate estimate;

    put("1", "\"Text\":\"a\",\"Rating\":\"5\",\"Legacy\":1");
    put("2", "\"V\":2,\"Rating\":\"6\"");
    put("3", "\"Rating\":\"none\",\"Text\":\"a\"");
    put("4", "\"V\":9");
    put("5", "\"V\":3,\"Text\":\"left\"");
    put("6", "\"V\":3,\"Rating\":6");
    assert_ok(hosted_estimate(&h, "blogs", "", &estimate));
    assert_int_equal(estimate.tables[0].entities, 2);
    assert_int_equal(estimate.tables[0].batches, 1);
    assert_int_equal(estimate.transactions, 3);
    says(&estimate, "phase all:\n");
    says(&estimate, "version 2, rename Text: changes 1\n");
    says(&estimate, "version 3, retype Rating: changes 2\n");
    says(&estimate, "version 3, remove Legacy: changes 1\n");
    says(&estimate, "`versions:` does not contain, unchanged: 1\n");
    says(&estimate, "removed or retyped, unchanged: 1\n");
    says(&estimate, "would fail: 1\n  'p' / '3': version 3, retype Rating: ");
    says(&estimate, "(absent): 2");
    arena_done(&estimate.arena);
    assert_null(strstr(hosted_json(&h, "Blogs", "p", "1"), "Body"));
}

FIXTURE_TEST(a_phase_is_counted_as_it_runs)
{
    struct job_estimate estimate;

    put("1", "\"Rating\":\"5\",\"Legacy\":1");
    h.kind_arg = "expand";
    assert_ok(hosted_estimate(&h, "blogs", "", &estimate));
    says(&estimate, "phase expand:\n");
    assert_int_equal(estimate.tables[0].entities, 1);
    arena_done(&estimate.arena);
    h.kind_arg = NULL;
}
