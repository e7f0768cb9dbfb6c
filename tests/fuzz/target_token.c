/* SPDX-License-Identifier: MIT */
/* Responses of a token server. The first byte chooses the status. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/azure/identity_answer.h"

#define NOW (TICKS_1970 + INT64_C(1700000000) * TICKS_PER_S)

/* A token must be safe in a header field as it is. */
static void check_answer(const struct identity_answer *answer)
{
    size_t len = strlen(answer->token);

    FUZZ_CHECK(len > 0 && len <= IDENTITY_TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK(answer->token[i] > ' ' && answer->token[i] <= '~');
    FUZZ_CHECK(answer->lifetime_ms > 0);
    FUZZ_CHECK(answer->lifetime_ms <= IDENTITY_LIFETIME_MAX_MS);
}

static void try_answer(int status, struct slice body)
{
    struct identity_answer answer = {.token = NULL};
    struct err err = {""};
    enum tw_err outcome =
        identity_answer_read(status, body, NOW, &answer, &err);

    if (outcome == TW_OK) {
        FUZZ_CHECK(status == 200);
        check_answer(&answer);
    } else {
        FUZZ_CHECK(outcome == TW_BUSY || outcome == TW_REFUSED);
        FUZZ_CHECK(answer.token == NULL);
        fuzz_said(&err);
    }
    identity_answer_done(&answer);
}

/* The token and the lifetime in a response must be read back. */
static void token_is_read_back(struct fuzz_source *in)
{
    struct slice token = fuzz_word(in, 1, 100);
    int64_t lifetime_s = 1 + (int64_t)fuzz_below(in, 86400);
    struct identity_answer answer = {.token = NULL};
    struct buf *body = fuzz_buf();

    buf_add_text(body, "{\"access_token\":");
    json_add_string(body, token);
    buf_add_format(body,
        fuzz_yes(in) ? ",\"expires_in\":%lld}" : ",\"expires_in\":\"%lld\"}",
        (long long)lifetime_s);
    FUZZ_CHECK(identity_answer_read(200, buf_slice(body), NOW, &answer, NULL) ==
               TW_OK);
    FUZZ_SAME(slice_of(answer.token), token);
    FUZZ_CHECK(answer.lifetime_ms == lifetime_s * 1000);
    identity_answer_done(&answer);
}

FUZZ_TARGET(token)
{
    static const int statuses[] = {200, 200, 200, 302, 400, 401, 429, 500};

    if (text.len == 0)
        return;
    try_answer(statuses[(unsigned char)text.at[0] % 8],
        (struct slice){text.at + 1, text.len - 1});
    token_is_read_back(in);
}
