/* SPDX-License-Identifier: MIT */
/* Which requests may read, and which may change something. */
#include <unistd.h>

#include "tests/support/fake_request.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/monitor/access.h"
#include "worker/run/setup.h"

#define TOKEN_FILE "token"

static struct setup setup;
static struct definition definition = {.setup = &setup, .archive_folder = "."};
static struct err err;

static int begin(void **state)
{
    setup.admin_token_file = TOKEN_FILE;
    text_file_write(TOKEN_FILE, FAKE_TOKEN "\n");
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, begin, NULL)

static unsigned change(const struct fake_request *fake)
{
    struct fake_request copy = *fake;
    struct http_request request = {.method = "POST", .connection = &copy};

    return access_to_change(&request, &definition, &err);
}

/* Returns the status of a valid request to change something, with header `name`
 * set to `value`. */
static unsigned change_with(const char *name, const char *value)
{
    struct fake_request fake = fake_good;

    fake_header(&fake, name, value);
    return change(&fake);
}

static unsigned read_as(const char *host)
{
    struct fake_request fake = {.headers = {{"Host", host}}};
    struct http_request request = {.method = "GET", .connection = &fake};

    return access_to_read(&request, &err);
}

FIXTURE_TEST(only_localhost_and_addresses_are_our_names)
{
    static const char *const ours[] = {"localhost", "LOCALHOST:80",
        "127.0.0.1:9464", "[::1]:9464", "[::1]", "10.0.0.7"};
    static const char *const others[] = {NULL, "", "evil.example",
        "evil.example:9464", "127.0.0.1.evil.example", "localhost.evil.example",
        "localhos", "[::1", "[evil.example]", "127.0.0.1x:80", "1.2.3"};

    for (size_t i = 0; TEST_EACH(i, ours); i++)
        assert_int_equal(read_as(ours[i]), 200);
    for (size_t i = 0; TEST_EACH(i, others); i++)
        assert_int_equal(read_as(others[i]), 403);
}

/* Even a request that only reads makes the worker send requests to the store,
 * so other web sites must not be able to send one. */
FIXTURE_TEST(other_sites_may_not_read)
{
    struct fake_request fake = fake_good;
    struct http_request request = {.method = "GET", .connection = &fake};

    assert_int_equal(access_to_read(&request, &err), 200);
    fake_header(&fake, "Sec-Fetch-Site", "cross-site");
    assert_int_equal(access_to_read(&request, &err), 403);
    fake_header(&fake, "Sec-Fetch-Site", "none");
    assert_int_equal(access_to_read(&request, &err), 200);
    fake_header(&fake, "Origin", "http://evil.example");
    assert_int_equal(access_to_read(&request, &err), 403);
}

FIXTURE_TEST(the_page_with_the_token_may_change)
{
    assert_int_equal(change(&fake_good), 200);
    assert_int_equal(change_with("Origin", NULL), 200);
    assert_int_equal(
        change_with("Content-Type", "application/json; charset=x"), 200);
    assert_int_equal(change_with("Authorization", "bearer " FAKE_TOKEN), 200);
    assert_int_equal(change_with("Sec-Fetch-Site", "same-origin"), 200);
}

FIXTURE_TEST(other_sites_may_not_change)
{
    assert_int_equal(change_with("Origin", "http://evil.example"), 403);
    assert_int_equal(change_with("Origin", "http://localhost:1"), 403);
    assert_int_equal(change_with("Origin", "http://localhost"), 403);
    assert_int_equal(change_with("Origin", "null"), 403);
    assert_int_equal(change_with("Host", "evil.example"), 403);
    assert_int_equal(change_with("Sec-Fetch-Site", "cross-site"), 403);
    assert_int_equal(change_with("Sec-Fetch-Site", "same-site"), 403);
    assert_int_equal(change_with(ACCESS_HEADER, NULL), 403);
    assert_int_equal(change_with("Content-Type", NULL), 415);
    assert_int_equal(change_with("Content-Type", "text/plain"), 415);
    assert_int_equal(change_with("Content-Type", "application/jsonx"), 415);
}

FIXTURE_TEST(only_the_whole_token_is_right)
{
    static const char *const wrong[] = {NULL, "", "Bearer", "Bearer ",
        FAKE_TOKEN, "Bearer " FAKE_TOKEN "x", "Bearer  " FAKE_TOKEN,
        "Basic " FAKE_TOKEN, "Bearer 0123456789abcdef-of-a-tes",
        "Bearer 0123456789abcdef-of-a-tesT"};

    for (size_t i = 0; TEST_EACH(i, wrong); i++) {
        assert_int_equal(change_with("Authorization", wrong[i]), 401);
        assert_null(strstr(err.text, FAKE_TOKEN));
    }
}

FIXTURE_TEST(a_new_token_counts_at_once)
{
    text_file_write(TOKEN_FILE, "another-token-of-a-test");
    assert_int_equal(change(&fake_good), 401);
    assert_int_equal(
        change_with("Authorization", "Bearer another-token-of-a-test"), 200);
}

FIXTURE_TEST(without_a_usable_token_nothing_is_changed)
{
    static char large[5000];

    text_file_write(TOKEN_FILE, "");
    assert_int_equal(change_with("Authorization", "Bearer "), 503);
    text_file_write(TOKEN_FILE, "short");
    assert_int_equal(change_with("Authorization", "Bearer short"), 503);
    memset(large, 'x', sizeof(large) - 1);
    text_file_write(TOKEN_FILE, large);
    assert_int_equal(change(&fake_good), 503);
    assert_int_equal(unlink(TOKEN_FILE), 0);
    assert_int_equal(change(&fake_good), 503);
    setup.admin_token_file = "."; /* no file */
    assert_int_equal(change(&fake_good), 503);
    setup.admin_token_file = NULL;
    assert_int_equal(change(&fake_good), 403);
    assert_contains(err.text, "admin_token_file");
}
