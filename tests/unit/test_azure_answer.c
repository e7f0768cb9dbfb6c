/* SPDX-License-Identifier: MIT */
/* Error responses: code, message and outcome; and the header fields Date and
 * Retry-After. */
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/queue_xml.h"

static int start(void **state)
{
    queue_xml_init();
    return 0;
}

static struct answer_error error_of(const char *code, const char *message)
{
    struct answer_error error;
    char *body = mem_format("{\"odata.error\":{\"code\":\"%s\",\"message\":{"
                            "\"value\":\"%s\"}}}",
        code, message);

    answer_body_error(slice_of(body), &error);
    mem_free(body);
    return error;
}

TEST(a_code_is_a_word)
{
    static const struct {
        const char *said, *kept;
    } cases[] = {{"TableNotFound", "TableNotFound"}, {"a_Z_09", "a_Z_09"},
        {"Table Not", "Table"}, {"A/B", "A"}, {"A:B", "A"}, {"A@B", "A"},
        {"A[B", "A"}, {"a`b", "a"}, {"a{b", "a"}, {"", ""}};
    char code[100] = "";

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_string_equal(error_of(cases[i].said, "").code, cases[i].kept);
    memset(code, 'C', sizeof(code) - 1);
    assert_int_equal(strlen(error_of(code, "").code),
        sizeof(((struct answer_error *)NULL)->code) - 1);
}

TEST(a_message_is_its_first_line)
{
    assert_string_equal(error_of("C", "one\\ntwo").message, "one");
    assert_string_equal(error_of("C", "one\\rtwo").message, "one");
    assert_string_equal(error_of("C", "\\ntwo").message, "");
    assert_string_equal(
        error_of("C", "a\\tb\\u001b[31mc").message, "a b [31mc");
}

TEST(a_message_that_does_not_fit_is_cut_at_a_character)
{
    char message[700] = "";
    struct answer_error error;

    memset(message, 'm', sizeof(message) - 1);
    error = error_of("C", message);
    assert_int_equal(strlen(error.message), sizeof(error.message) - 1);
    assert_string_equal(error.message + strlen(error.message) - 4, "m...");
    /* A character of four bytes at the place where the message is cut. */
    memcpy(message + sizeof(error.message) - 6, "\xf0\x9f\x98\x80", 4);
    error = error_of("C", message);
    assert_int_equal(strlen(error.message), sizeof(error.message) - 6 + 3);
    assert_string_equal(error.message + strlen(error.message) - 4, "m...");
    for (size_t i = 0; i + 4 < sizeof(message); i += 4)
        memcpy(message + i, "\xf0\x9f\x98\x80", 4);
    error = error_of("C", message);
    assert_int_equal(strlen(error.message) % 4, 3);
}

TEST(a_body_may_be_xml_or_nothing)
{
    static const char *const others[] = {
        "<html>no</html>", "", "{}", "[1]", "{\"odata.error\":{\"code\":5}}"};
    struct answer_error error;

    answer_body_error(
        slice_of("<?xml version=\"1.0\"?><Error><Code>QueueNotFound</Code>"
                 "<Message>No queue.\nRequestId</Message></Error>"),
        &error);
    assert_string_equal(error.code, "QueueNotFound");
    assert_string_equal(error.message, "No queue.");
    for (size_t i = 0; TEST_EACH(i, others); i++) {
        answer_body_error(slice_of(others[i]), &error);
        assert_string_equal(error.code, "");
        assert_string_equal(error.message, "");
    }
}

TEST(a_status_says_what_may_have_happened)
{
    static const struct {
        int status;
        const char *code;
        enum tw_err read, write;
    } cases[] = {
        {200, "", TW_OK, TW_OK},
        {299, "", TW_OK, TW_OK},
        {302, "", TW_REFUSED, TW_REFUSED},
        {400, "", TW_BUSY, TW_INVALID},
        {400, "InvalidInput", TW_INVALID, TW_INVALID},
        {400, "PopReceiptMismatch", TW_CONFLICT, TW_CONFLICT},
        {404, "", TW_NOT_FOUND, TW_NOT_FOUND},
        {404, "MessageNotFound", TW_CONFLICT, TW_CONFLICT},
        {408, "", TW_BUSY, TW_UNKNOWN},
        {409, "TableBeingDeleted", TW_BUSY, TW_BUSY},
        {412, "", TW_CONFLICT, TW_CONFLICT},
        {401, "", TW_REFUSED, TW_REFUSED},
        {403, "AuthenticationFailed", TW_REFUSED, TW_REFUSED},
        {403, "", TW_REFUSED, TW_REFUSED},
        {403, "AuthorizationFailure", TW_FORBIDDEN, TW_FORBIDDEN},
        {403, "AuthorizationPermissionMismatch", TW_FORBIDDEN, TW_FORBIDDEN},
        {403, "InsufficientAccountPermissions", TW_FORBIDDEN, TW_FORBIDDEN},
        {413, "", TW_TOO_LARGE, TW_TOO_LARGE},
        {414, "", TW_INVALID, TW_INVALID},
        {499, "", TW_BUSY, TW_INVALID},
        {500, "", TW_BUSY, TW_UNKNOWN},
        {503, "", TW_BUSY, TW_UNKNOWN},
        {503, "ServerBusy", TW_BUSY, TW_BUSY},
        {503, "ServiceUnavailable", TW_BUSY, TW_UNKNOWN},
        {600, "", TW_BUSY, TW_UNKNOWN},
        {0, "", TW_BUSY, TW_UNKNOWN},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        assert_int_equal(answer_outcome(cases[i].status, cases[i].code, false),
            cases[i].read);
        assert_int_equal(answer_outcome(cases[i].status, cases[i].code, true),
            cases[i].write);
    }
    assert_null(answer_advice(412, ""));
    assert_contains(answer_advice(403, ""), "clock");
}

/* The worker once computed the end of a lease from a Date in the year 9999. The
 * sum was not a valid time, and the write of it ended the worker. */
TEST(a_date_that_no_clock_shows_is_none)
{
    static const struct {
        const char *date;
        bool kept;
    } cases[] = {
        {"Fri, 09 Oct 2009 21:04:30 GMT", true},
        {"Fri, 31 Dec 1999 23:59:59 GMT", false},
        {"Sat, 01 Jan 2000 00:00:00 GMT", true},
        {"Fri, 31 Dec 9999 23:59:59 GMT", false},
        {"Mon, 01 Jan 0001 00:00:00 GMT", false},
        {"today", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct http_answer answer;

        http_answer_init(&answer);
        http_answer_add(&answer, slice_of("Date"), slice_of(cases[i].date));
        assert_int_equal(answer_date_ticks(&answer) != 0, cases[i].kept);
        http_answer_done(&answer);
    }
}

int main(void)
{
    return test_run_all(start, NULL);
}
