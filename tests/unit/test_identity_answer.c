/* SPDX-License-Identifier: MIT */
/* Valid responses, refusals and hostile responses of a token server. */
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/text.h"
#include "worker/store/azure/identity_answer.h"

/* Time of this machine's clock when the response comes, as Unix time. */
#define NOW_S 1700000000
#define NOW (TICKS_1970 + NOW_S * TICKS_PER_S)
#define T "\"access_token\":\"eyJ0.e-_Y~+/=\""
#define DAY_S (24 * 60 * 60)

static const struct {
    const char *body;
    int64_t lifetime_s;
} good[] = {
    /* IMDS, App Service, the authority of a workload identity. */
    {"{" T ",\"expires_in\":\"3599\",\"expires_on\":\"1700003599\","
     "\"not_before\":\"1699999700\",\"resource\":\"https://storage.azure.com/\""
     ",\"token_type\":\"Bearer\"}",
        3599},
    {"{" T ",\"expires_on\":\"1700000060\",\"token_type\":\"Bearer\","
     "\"client_id\":\"x\"}",
        60},
    {"{\"token_type\":\"Bearer\",\"expires_in\":3599,\"ext_expires_in\":3599," T
     "}",
        3599},
    {"{" T ",\"expires_on\":1700000060,\"token_type\":\"bearer\"}", 60},
    /* expires_in is used, because it does not depend on a clock. */
    {"{" T ",\"expires_in\":60,\"expires_on\":1}", 60},
    {"{" T ",\"expires_in\":{},\"expires_on\":1700000001}", 1},
    {"{" T ",\"expires_in\":9223372036854775807}", DAY_S},
    {"{" T ",\"expires_on\":9223372036854775807}", DAY_S},
};

TEST(every_server_is_understood)
{
    for (size_t i = 0; TEST_EACH(i, good); i++) {
        struct identity_answer answer = {.token = NULL};
        struct err err = {""};

        if (identity_answer_read(
                200, slice_of(good[i].body), NOW, &answer, &err) != TW_OK)
            fail_msg("%s: %s", good[i].body, err.text);
        assert_string_equal(answer.token, "eyJ0.e-_Y~+/=");
        assert_int_equal(answer.lifetime_ms, good[i].lifetime_s * 1000);
        identity_answer_done(&answer);
        assert_null(answer.token);
    }
}

static const struct {
    int status;
    const char *body;
    enum tw_err outcome;
    const char *says;
} bad[] = {
    {200, "", TW_BUSY, "the response is not the JSON of a token server"},
    {200, "<html>", TW_BUSY, "the response is not the JSON of a token server"},
    {200, "[]", TW_BUSY, "the response is not the JSON of a token server"},
    {200, "{" T ",\"expires_in\":60", TW_BUSY, "not the JSON"},
    {200, "{\"expires_in\":60}", TW_BUSY, "has no access_token"},
    {200, "{\"access_token\":7,\"expires_in\":60}", TW_BUSY,
        "has no access_token"},
    {200, "{\"access_token\":\"\",\"expires_in\":60}", TW_BUSY,
        "has no access_token"},
    {200, "{\"access_token\":\"a b\",\"expires_in\":60}", TW_BUSY,
        "is invalid: it is too long"},
    {200, "{\"access_token\":\"a\\r\\nX-Evil: 1\",\"expires_in\":60}", TW_BUSY,
        "is invalid: it is too long"},
    {200, "{\"access_token\":\"a\\u0000b\",\"expires_in\":60}", TW_BUSY,
        "is invalid: it is too long"},
    {200, "{" T ",\"expires_in\":60,\"token_type\":\"pop\"}", TW_BUSY,
        "is not of type Bearer"},
    {200, "{" T "}", TW_BUSY, "its validity is unknown"},
    {200, "{" T ",\"expires_on\":\"01/02/2024 03:04:05\"}", TW_BUSY,
        "its validity is unknown"},
    {200, "{" T ",\"expires_in\":0}", TW_BUSY, "has already expired"},
    {200, "{" T ",\"expires_in\":\"-5\"}", TW_BUSY, "has already expired"},
    {200, "{" T ",\"expires_on\":\"1700000000\"}", TW_BUSY, "check the clock"},
    {302, "", TW_REFUSED,
        "302: the server redirects to another address, which is not "
        "followed"},
    {400,
        "{\"error\":\"invalid_request\",\"error_description\":\"Identity not "
        "found\"}",
        TW_REFUSED, "400 invalid_request: Identity not found"},
    {401,
        "{\"error\":\"invalid_client\",\"error_description\":\"AADSTS700016: "
        "No.\\r\\nTrace ID: 1\"}",
        TW_REFUSED, "401 invalid_client: AADSTS700016: No."},
    {403, "{\"error\":{\"code\":\"x\"},\"message\":\"no\"}", TW_REFUSED,
        "403: no"},
    {403, "Forbidden", TW_REFUSED, "403"},
    {400, "{\"error\":\"temporarily_unavailable\"}", TW_BUSY,
        "400 temporarily_unavailable"},
    {404, "", TW_BUSY, "404"},
    {410, "{}", TW_BUSY, "410"},
    {429, "{\"message\":\"slow\\u001b[2J\"}", TW_BUSY, "429: slow\\x1b[2J"},
    {500, "{\"error\":\"unknown\"}", TW_BUSY, "500 unknown"},
    {503, "", TW_BUSY, "503"},
};

TEST(what_is_no_token_is_refused_with_its_reason)
{
    for (size_t i = 0; TEST_EACH(i, bad); i++) {
        struct identity_answer answer = {.token = NULL};
        struct err err = {""};
        enum tw_err outcome = identity_answer_read(
            bad[i].status, slice_of(bad[i].body), NOW, &answer, &err);

        if (outcome != bad[i].outcome || strstr(err.text, bad[i].says) == NULL)
            fail_msg("%d %s: %s, '%s'", bad[i].status, bad[i].body,
                err_name(outcome), err.text);
        assert_null(answer.token);
        assert_null(strstr(err.text, "eyJ0"));
    }
}

TEST(a_token_that_no_service_would_take_is_refused)
{
    struct identity_answer answer = {.token = NULL};
    struct err err = {""};
    struct buf body;

    for (size_t more = 0; more < 2; more++) {
        buf_init(&body, 2 * IDENTITY_TOKEN_MAX);
        buf_add_text(&body, "{\"expires_in\":60,\"access_token\":\"");
        for (size_t i = 0; i < IDENTITY_TOKEN_MAX + more; i++)
            buf_add_char(&body, 'a');
        buf_add_text(&body, "\"}");
        assert_int_equal(
            identity_answer_read(200, buf_slice(&body), NOW, &answer, &err),
            more == 0 ? TW_OK : TW_BUSY);
        identity_answer_done(&answer);
        buf_done(&body);
    }
}
