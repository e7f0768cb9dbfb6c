/* SPDX-License-Identifier: MIT */
/* Reads the JSON of a token server. */
#include "worker/store/azure/identity_answer.h"

#include <string.h>
#include <strings.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* Some servers describe errors in nested objects. */
#define DEPTH_MAX 16
/* Bytes of the server's own reason that are shown. */
#define REASON_MAX 300
/* Responses give times in whole seconds. */
#define MS_PER_S 1000

/* ---- a token ---- */

/* Does text have only the characters of a bearer token (RFC 6750, 2.1)? None of
 * these could end or add a header field. */
static bool is_token(struct slice text)
{
    static const char marks[] = "-._~+/=";

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            !(c >= '0' && c <= '9') && !(c != '\0' && strchr(marks, c) != NULL))
            return false;
    }
    return text.len > 0 && text.len <= IDENTITY_TOKEN_MAX;
}

static struct slice text_of(const struct json *object, const char *name)
{
    const struct json *value = json_get(object, name);

    if (value == NULL || json_type(value) != JSON_STRING)
        return (struct slice){NULL, 0};
    return json_string(value);
}

/* Reads a number. Some servers write it as a JSON string. */
static bool number_of(const struct json *object, const char *name, int64_t *ret)
{
    const struct json *value = json_get(object, name);

    if (value == NULL)
        return false;
    if (json_type(value) == JSON_STRING)
        return text_int64(json_string(value), INT64_MIN, INT64_MAX, ret);
    return json_type(value) == JSON_NUMBER && json_int64(value, ret);
}

/* Reads the lifetime of the token. *ret_s: number of seconds for which the
 * token is valid, > 0 on TW_OK. */
static enum tw_err read_lifetime(const struct json *object, int64_t wall_ticks,
    int64_t *ret_s, struct err *err)
{
    int64_t now_s = (wall_ticks - TICKS_1970) / TICKS_PER_S, on_s;

    if (number_of(object, "expires_in", ret_s)) {
        if (*ret_s <= 0)
            return err_fail(
                err, TW_BUSY, "the received token has already expired");
        return TW_OK;
    }
    if (!number_of(object, "expires_on", &on_s))
        return err_fail(err, TW_BUSY,
            "the received token has neither expires_in nor expires_on, so its "
            "validity is unknown");
    if (on_s <= now_s)
        return err_fail(err, TW_BUSY,
            "the received token has already expired by the clock of this "
            "machine: check the clock");
    *ret_s = on_s - now_s;
    return TW_OK;
}

static enum tw_err read_token(const struct json *object, int64_t wall_ticks,
    struct identity_answer *ret, struct err *err)
{
    struct slice token = text_of(object, "access_token");
    struct slice type = text_of(object, "token_type");
    int64_t lifetime_s;
    enum tw_err outcome;

    if (token.len == 0)
        return err_fail(err, TW_BUSY, "the response has no access_token");
    if (!is_token(token))
        return err_fail(err, TW_BUSY,
            "the access_token of the response is invalid: it is too long, or "
            "has invalid characters");
    if (type.len > 0 &&
        !(type.len == 6 && strncasecmp(type.at, "Bearer", 6) == 0))
        return err_fail(
            err, TW_BUSY, "the received token is not of type Bearer");
    outcome = read_lifetime(object, wall_ticks, &lifetime_s, err);
    if (outcome != TW_OK)
        return outcome;
    ret->token = mem_text(token.at, token.len);
    ret->lifetime_ms = lifetime_s < IDENTITY_LIFETIME_MAX_MS / MS_PER_S
                           ? lifetime_s * MS_PER_S
                           : IDENTITY_LIFETIME_MAX_MS;
    return TW_OK;
}

/* ---- a refusal ---- */

static struct slice first_line(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '\n' || text.at[i] == '\r')
            text.len = i;
    return text_cut(text, REASON_MAX);
}

/* Adds the server's own reason, such as " invalid_request: Identity not found".
 * Some servers send error and error_description, others only message. */
static void add_reason(const struct json *object, struct buf *to)
{
    struct slice error = text_of(object, "error");
    struct slice reason = text_of(object, "error_description");

    if (reason.len == 0)
        reason = text_of(object, "message");
    if (error.len > 0) {
        buf_add_char(to, ' ');
        text_visible(to, first_line(error));
    }
    if (reason.len > 0) {
        buf_add_text(to, ": ");
        text_visible(to, first_line(reason));
    }
}

static bool may_pass(int status, struct slice error)
{
    static const int passing[] = {404, 408, 410, 429};

    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        if (status == passing[i])
            return true;
    return status >= 500 || slice_is(error, "temporarily_unavailable");
}

/* Makes the error text of a refusal. object NULL: the body is not a JSON
 * object. */
static enum tw_err refuse(
    int status, const struct json *object, struct err *err)
{
    struct slice error = {NULL, 0};
    struct buf sentence;
    enum tw_err outcome;

    buf_init(&sentence, sizeof(err->text) - 1);
    buf_add_format(&sentence, "%d", status);
    if (object != NULL) {
        error = text_of(object, "error");
        add_reason(object, &sentence);
    } else if (status >= 300 && status < 400) {
        buf_add_text(&sentence,
            ": the server redirects to another address, which is not "
            "followed");
    }
    outcome = may_pass(status, error) ? TW_BUSY : TW_REFUSED;
    err_fail(err, outcome, "%s", buf_text(&sentence));
    buf_done(&sentence);
    return outcome;
}

enum tw_err identity_answer_read(int status, struct slice body,
    int64_t wall_ticks, struct identity_answer *ret, struct err *err)
{
    struct json *json = NULL;
    const struct json *object = NULL;
    enum tw_err outcome;

    if (json_parse(body, DEPTH_MAX, &json, NULL) == TW_OK &&
        json_type(json) == JSON_OBJECT)
        object = json;
    if (status != 200)
        outcome = refuse(status, object, err);
    else if (object == NULL)
        outcome = err_fail(
            err, TW_BUSY, "the response is not the JSON of a token server");
    else
        outcome = read_token(object, wall_ticks, ret, err);
    json_free(json);
    return outcome;
}

void identity_answer_done(struct identity_answer *answer)
{
    if (answer->token != NULL)
        crypto_wipe(answer->token, strlen(answer->token));
    mem_free(answer->token);
    *answer = (struct identity_answer){.token = NULL};
}
