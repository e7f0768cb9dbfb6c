/* SPDX-License-Identifier: MIT */
/* Maps status, error code and header fields to an outcome. */
#include "worker/store/azure/answer.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/text.h"
#include "worker/store/azure/odata.h"
#include "worker/store/azure/queue_xml.h"

#define RETRY_AFTER_MAX_MS INT64_C(3600000)
/* Range of a plausible Date: from the start of 2000 to the start of 9000. */
#define DATE_MIN_TICKS INT64_C(630822816000000000)
#define DATE_MAX_TICKS INT64_C(2839809888000000000)

/*
 * The first matching rule applies. to == 0: only the status `from`. code NULL:
 * any error code; "": only responses without an error code. advice NULL: the
 * service's own message is sufficient.
 */
static const struct rule {
    int from, to;
    const char *code;
    enum tw_err read, write;
    const char *advice;
} rules[] = {
    {200, 299, NULL, TW_OK, TW_OK, NULL},
    {300, 399, NULL, TW_REFUSED, TW_REFUSED,
        "the service redirects to another address: check the endpoint"},
    {400, 0, "PopReceiptMismatch", TW_CONFLICT, TW_CONFLICT, NULL},
    {400, 0, "InvalidAuthenticationInfo", TW_REFUSED, TW_REFUSED,
        "check the credentials"},
    {400, 0, "EntityTooLarge", TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {400, 0, "PropertyValueTooLarge", TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {400, 0, "MessageTooLarge", TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {400, 0, "RequestBodyTooLarge", TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {400, 0, "ContentLengthExceeded", TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {401, 0, NULL, TW_REFUSED, TW_REFUSED, "check the credentials"},
    {403, 0, "AuthenticationFailed", TW_REFUSED, TW_REFUSED,
        "check the account key or SAS, and the clock"},
    {403, 0, "AuthorizationFailure", TW_FORBIDDEN, TW_FORBIDDEN,
        "check the account key or the scope of the SAS, and the account's "
        "firewall"},
    {403, 0, "AuthorizationPermissionMismatch", TW_FORBIDDEN, TW_FORBIDDEN,
        "the permission for this is missing: check the SAS or role"},
    {403, 0, "AuthorizationResourceTypeMismatch", TW_FORBIDDEN, TW_FORBIDDEN,
        "the SAS is for other types of resources (srt)"},
    {403, 0, "AuthorizationServiceMismatch", TW_FORBIDDEN, TW_FORBIDDEN,
        "the SAS is for another service (ss)"},
    {403, 0, "AccountIsDisabled", TW_REFUSED, TW_REFUSED,
        "the account is disabled"},
    /* A 403 without a code comes from a proxy or firewall. */
    {403, 0, "", TW_REFUSED, TW_REFUSED,
        "check account, key or SAS, and the clock"},
    {403, 0, NULL, TW_FORBIDDEN, TW_FORBIDDEN,
        "check the SAS or role, and the account's firewall"},
    {404, 0, "MessageNotFound", TW_CONFLICT, TW_CONFLICT, NULL},
    {404, 0, "TableNotFound", TW_NOT_FOUND, TW_NOT_FOUND,
        "the table does not exist"},
    {404, 0, "QueueNotFound", TW_NOT_FOUND, TW_NOT_FOUND,
        "the queue does not exist"},
    {404, 0, NULL, TW_NOT_FOUND, TW_NOT_FOUND, NULL},
    {407, 0, NULL, TW_REFUSED, TW_REFUSED, "check the proxy's credentials"},
    {408, 0, NULL, TW_BUSY, TW_UNKNOWN, NULL},
    {409, 0, "TableBeingDeleted", TW_BUSY, TW_BUSY, NULL},
    {409, 0, "QueueBeingDeleted", TW_BUSY, TW_BUSY, NULL},
    {409, 0, NULL, TW_CONFLICT, TW_CONFLICT, NULL},
    {412, 0, NULL, TW_CONFLICT, TW_CONFLICT, NULL},
    {413, 0, NULL, TW_TOO_LARGE, TW_TOO_LARGE, NULL},
    {429, 0, NULL, TW_BUSY, TW_BUSY, NULL},
    {414, 0, NULL, TW_INVALID, TW_INVALID, "the filter is too long"},
    /* Every error of the service has a code, so an error without a code comes
     * from a proxy. */
    {400, 499, "", TW_BUSY, TW_INVALID, NULL},
    {400, 499, NULL, TW_INVALID, TW_INVALID, NULL},
    {501, 0, NULL, TW_INVALID, TW_INVALID, "check the endpoint"},
    /* Only the service's own code proves that nothing was done, because a proxy
     * may respond 503 after it has forwarded the request. */
    {503, 0, "ServerBusy", TW_BUSY, TW_BUSY, NULL},
    {505, 0, NULL, TW_INVALID, TW_INVALID, "check the endpoint"},
    {500, 599, NULL, TW_BUSY, TW_UNKNOWN, NULL},
    /* A status that no service sends. */
    {0, 0x7fffffff, NULL, TW_BUSY, TW_UNKNOWN, "check the endpoint"},
};

static const struct rule *find_rule(int status, const char *code)
{
    const struct rule *rule = rules;

    while (status < rule->from ||
           status > (rule->to != 0 ? rule->to : rule->from) ||
           (rule->code != NULL && strcmp(rule->code, code) != 0))
        rule++;
    return rule;
}

enum tw_err answer_outcome(int status, const char *code, bool write)
{
    const struct rule *rule = find_rule(status, code);

    return write ? rule->write : rule->read;
}

const char *answer_advice(int status, const char *code)
{
    return find_rule(status, code)->advice;
}

bool answer_is_token_refused(int status, const char *code)
{
    return status == 401 ||
           (status == 400 && strcmp(code, "InvalidAuthenticationInfo") == 0) ||
           (status == 403 && strcmp(code, "AuthenticationFailed") == 0);
}

#define ROLE_ADVICE(service)                                                   \
    "the identity lacks the permission for this: assign it the role "          \
    "Storage " service " Data Contributor on the account (which may take 30 "  \
    "minutes to take effect), "                                                \
    "and check the account's firewall"

const char *answer_token_advice(int status, const char *code, bool queue)
{
    if (answer_is_token_refused(status, code))
        return "the access token is refused: check the clock, and that the "
               "identity belongs to the account's tenant";
    if (status == 403)
        return queue ? ROLE_ADVICE("Queue") : ROLE_ADVICE("Table");
    return answer_advice(status, code);
}

static struct slice first_line(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '\n' || text.at[i] == '\r')
            text.len = i;
    return text;
}

static void set_code(struct answer_error *error, struct slice code)
{
    size_t len = 0;

    while (len < code.len && len < sizeof(error->code) - 1) {
        char c = code.at[len];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            !(c >= '0' && c <= '9') && c != '_')
            break;
        error->code[len++] = c;
    }
    error->code[len] = '\0';
}

static void set_message(struct answer_error *error, struct slice message)
{
    struct slice line = first_line(message);
    size_t room = sizeof(error->message) - 1;
    size_t len = line.len;

    if (len > room) {
        len = room - 3;
        while (len > 0 && ((unsigned char)line.at[len] & 0xc0) == 0x80)
            len--;
    }
    if (len > 0)
        memcpy(error->message, line.at, len);
    snprintf(error->message + len, sizeof(error->message) - len, "%s",
        len < line.len ? "..." : "");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)error->message[i] < 0x20)
            error->message[i] = ' ';
}

void answer_body_error(struct slice body, struct answer_error *ret)
{
    struct slice code = {NULL, 0}, message = {NULL, 0};
    struct arena arena;

    *ret = (struct answer_error){.code = ""};
    arena_init(&arena);
    if (odata_error(body, &arena, &code, &message) ||
        queue_xml_error(body, &arena, &code, &message)) {
        set_code(ret, code);
        set_message(ret, message);
    }
    arena_done(&arena);
}

void answer_read_error(
    const struct http_answer *answer, struct answer_error *ret)
{
    struct slice code = http_answer_field(answer, "x-ms-error-code");

    answer_body_error(buf_slice(&answer->body), ret);
    if (code.len > 0)
        set_code(ret, code);
}

int64_t answer_date_ticks(const struct http_answer *answer)
{
    int64_t ticks;

    if (!text_parse_http_date(http_answer_field(answer, "Date"), &ticks) ||
        ticks < DATE_MIN_TICKS || ticks > DATE_MAX_TICKS)
        return 0;
    return ticks;
}

/* Reads Retry-After. If it is a date, the wait is relative to the response's
 * own Date. */
static bool read_retry_after(const struct http_answer *answer, int64_t *ret_ms)
{
    struct slice value = http_answer_field(answer, "Retry-After");
    int64_t date = answer_date_ticks(answer), number;

    if (text_int64(value, 0, INT32_MAX, &number)) {
        *ret_ms = number * 1000;
        return true;
    }
    if (date == 0 || !text_parse_http_date(value, &number))
        return false;
    *ret_ms = number > date ? (number - date) / TICKS_PER_MS : 0;
    return true;
}

int64_t answer_retry_after_ms(const struct http_answer *answer)
{
    int64_t ms;

    if (!text_int64(http_answer_field(answer, "x-ms-retry-after-ms"), 0,
            INT64_MAX, &ms) &&
        !text_int64(
            http_answer_field(answer, "retry-after-ms"), 0, INT64_MAX, &ms) &&
        !read_retry_after(answer, &ms))
        return -1;
    return ms < RETRY_AFTER_MAX_MS ? ms : RETRY_AFTER_MAX_MS;
}
