/* SPDX-License-Identifier: MIT */
/* `poison list` shows errors with one reason together: errors that differ only
 * in numbers and request ids have one reason. */
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/cli/reason.h"

static const struct {
    const char *error, *reason;
} CASES[] = {
    {"", ""},
    {"the parent is missing", "the parent is missing"},
    {"table Blogs: scan Blogs: 404 TableNotFound (request id d7b2-4e): create",
        "table Blogs: scan Blogs: 0 TableNotFound: create"},
    {"it is (request id cut off", "it is (request id cut off"},
    {"12,004 entities match, more than 1000", "0 entities match, more than 0"},
    {"at 0.5, 7. and 8", "at 0, 0. and 0"},
    {"43 entities (Football/0017: Rating)", "0 entities (Football/0: Rating)"},
    {"unknown job 'job2', did you mean 'job1'? 3 are known",
        "unknown job 'job2', did you mean 'job1'? 0 are known"},
    {"2 entities failed; the first:\nBlogs 'a' / 'b'",
        "0 entities failed; the first:"},
    {"an account's 2 keys", "an account's 0 keys"},
};

TEST(ids_of_requests_and_numbers_make_no_other_reason)
{
    struct buf reason;

    buf_init(&reason, 1000);
    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        buf_clear(&reason);
        reason_add(slice_of(CASES[i].error), &reason);
        assert_string_equal(buf_text(&reason), CASES[i].reason);
    }
    buf_done(&reason);
}
