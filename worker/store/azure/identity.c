/* SPDX-License-Identifier: MIT */
/*
 * Asks for access tokens. All of the environment is read once, when the store
 * is opened. The file with the cluster's token is read for each request,
 * because the cluster replaces the token.
 */
#include "worker/store/azure/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/endpoint.h"
#include "worker/store/azure/http.h"
#include "worker/store/azure/redact.h"

#define RESOURCE "https://storage.azure.com/"
#define SCOPE RESOURCE ".default"
#define IMDS "http://169.254.169.254"
#define IMDS_PATH "/metadata/identity/oauth2/token"
#define IMDS_VERSION "2018-02-01"
#define APP_VERSION "2019-08-01"
#define AUTHORITY "https://login.microsoftonline.com"
#define ASSERTION_TYPE "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#define FORM_TYPE "application/x-www-form-urlencoded"

#define VARIABLE_CLIENT "AZURE_CLIENT_ID"
#define VARIABLE_TENANT "AZURE_TENANT_ID"
#define VARIABLE_FILE "AZURE_FEDERATED_TOKEN_FILE"
#define VARIABLE_AUTHORITY "AZURE_AUTHORITY_HOST"
#define VARIABLE_ENDPOINT "IDENTITY_ENDPOINT"
#define VARIABLE_HEADER "IDENTITY_HEADER"
#define VARIABLE_IMDS "AZURE_POD_IDENTITY_AUTHORITY_HOST"

/* Responses hold one token and some names. */
#define ANSWER_MAX (64 * 1024)
#define URL_MAX_BYTES 8192
#define HEADER_MAX 4096
#define NAME_MAX_BYTES 128
/* Maximum size of a form: a token of a cluster, percent-encoded, and the other
 * fields. */
#define FORM_MAX (4 * IDENTITY_TOKEN_MAX)

enum source { SOURCE_IMDS, SOURCE_APP, SOURCE_WORKLOAD };

struct identity {
    enum source source;
    struct http *http;
    struct endpoint endpoint; /* address of the token server */
    char *client_id;          /* NULL: the identity is the only one */
    char *header;             /* value of $IDENTITY_HEADER, only for SOURCE_APP;
                                 a secret */
    char *tenant, *file; /* only for SOURCE_WORKLOAD: the tenant's id, and the
                            path of the file with the cluster's token */
    char *description;
};

/* What to check if the token server refuses. */
static const char *const advice[] = {
    [SOURCE_IMDS] = "check that an identity is assigned to this machine, and "
                    "that client_id (or " VARIABLE_CLIENT ") names it",
    [SOURCE_APP] = "check that an identity is assigned to this app, and that "
                   "client_id (or " VARIABLE_CLIENT ") names it",
    [SOURCE_WORKLOAD] =
        "check the federated credential of the identity (issuer, subject, "
        "audience), and " VARIABLE_CLIENT " and " VARIABLE_TENANT,
};

/* ---- the environment ---- */

/* Returns the value of an environment variable; NULL: it is unset or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_name(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= NAME_MAX_BYTES &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                             "WXYZ0123456789-._")] == '\0';
}

static bool is_printable(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0;
}

static enum tw_err read_client(struct identity *identity,
    const struct identity_options *options, struct err *err)
{
    bool given = options->client_id.len > 0;
    const char *value = variable(VARIABLE_CLIENT);

    if (given)
        identity->client_id =
            mem_text(options->client_id.at, options->client_id.len);
    else if (value != NULL)
        identity->client_id = mem_text(value, strlen(value));
    else
        return TW_OK;
    if (text_is_guid(slice_of(identity->client_id)))
        return TW_OK;
    return err_fail(err, TW_INVALID,
        "%s is not a client id: it must be a GUID, as the portal shows it",
        given ? "client_id" : VARIABLE_CLIENT);
}

static enum tw_err read_app(struct identity *identity, struct err *err)
{
    const char *header = variable(VARIABLE_HEADER);

    if (header == NULL)
        return err_fail(err, TW_INVALID,
            VARIABLE_ENDPOINT " is set, but not " VARIABLE_HEADER
                              ": App Service and Container Apps set both, and "
                              "no other service that sets " VARIABLE_ENDPOINT
                              " is supported");
    if (!is_printable(header) || strlen(header) > HEADER_MAX)
        return err_fail(
            err, TW_INVALID, VARIABLE_HEADER " has blanks or is too long");
    identity->source = SOURCE_APP;
    identity->header = mem_text(header, strlen(header));
    return endpoint_read(slice_of(variable(VARIABLE_ENDPOINT)),
        VARIABLE_ENDPOINT, ENDPOINT_HTTP_ALL, &identity->endpoint, err);
}

static enum tw_err read_managed(struct identity *identity, struct err *err)
{
    const char *imds = variable(VARIABLE_IMDS);

    if (variable(VARIABLE_ENDPOINT) != NULL)
        return read_app(identity, err);
    identity->source = SOURCE_IMDS;
    return endpoint_read(slice_of(imds != NULL ? imds : IMDS), VARIABLE_IMDS,
        ENDPOINT_HTTP_LINK, &identity->endpoint, err);
}

static enum tw_err read_workload(struct identity *identity, struct err *err)
{
    const char *tenant = variable(VARIABLE_TENANT);
    const char *file = variable(VARIABLE_FILE);
    const char *authority = variable(VARIABLE_AUTHORITY);
    const char *missing = file == NULL                  ? VARIABLE_FILE
                          : tenant == NULL              ? VARIABLE_TENANT
                          : identity->client_id == NULL ? VARIABLE_CLIENT
                                                        : NULL;

    if (missing != NULL)
        return err_fail(err, TW_INVALID,
            "identity: workload needs the environment variable %s, which the "
            "webhook of Microsoft Entra Workload ID sets in a pod whose "
            "service account is annotated",
            missing);
    if (!is_name(tenant))
        return err_fail(err, TW_INVALID,
            VARIABLE_TENANT " is not a tenant id: it may have letters, digits, "
                            "'-', '.' and '_' only");
    identity->source = SOURCE_WORKLOAD;
    identity->tenant = mem_text(tenant, strlen(tenant));
    identity->file = mem_text(file, strlen(file));
    return endpoint_read(slice_of(authority != NULL ? authority : AUTHORITY),
        VARIABLE_AUTHORITY, ENDPOINT_HTTP_TOKEN, &identity->endpoint, err);
}

static char *describe(const struct identity *identity)
{
    const char *peer = identity->endpoint.peer;

    if (identity->source == SOURCE_WORKLOAD)
        return mem_format("workload identity %s of tenant %s (%s)",
            identity->client_id, identity->tenant, peer);
    return mem_format("managed identity %s%sof this %s (%s)",
        identity->client_id != NULL ? identity->client_id : "",
        identity->client_id != NULL ? " " : "",
        identity->source == SOURCE_APP ? "app" : "machine", peer);
}

enum tw_err identity_new(const struct identity_options *options,
    struct http *http, struct identity **ret, struct err *err)
{
    struct identity *identity = mem_alloc(sizeof(*identity));
    enum tw_err outcome = read_client(identity, options, err);

    identity->http = http;
    if (outcome == TW_OK)
        outcome = options->kind == IDENTITY_MANAGED
                      ? read_managed(identity, err)
                      : read_workload(identity, err);
    if (outcome != TW_OK) {
        identity_free(identity);
        return outcome;
    }
    identity->description = describe(identity);
    *ret = identity;
    return TW_OK;
}

void identity_free(struct identity *identity)
{
    if (identity == NULL)
        return;
    if (identity->header != NULL)
        crypto_wipe(identity->header, strlen(identity->header));
    endpoint_done(&identity->endpoint);
    mem_free(identity->header);
    mem_free(identity->client_id);
    mem_free(identity->tenant);
    mem_free(identity->file);
    mem_free(identity->description);
    mem_free(identity);
}

const char *identity_description(const struct identity *identity)
{
    return identity->description;
}

/* ---- the request ---- */

/* One request to the token server, from request_init() to request_done(). */
struct request {
    const struct identity *identity;
    const _Atomic bool *closing;
    struct buf url, form;
    char assertion[IDENTITY_TOKEN_MAX]; /* token of the cluster, only for
                                           SOURCE_WORKLOAD; a secret */
    struct slice secret; /* the secret of the request, which is never shown:
                            header or assertion */
    struct http_header headers[4];
    size_t header_count;
    struct http_answer answer;
};

static void request_init(struct request *request,
    const struct identity *identity, const _Atomic bool *closing)
{
    request->identity = identity;
    request->closing = closing;
    buf_init(&request->url, URL_MAX_BYTES);
    buf_init(&request->form, FORM_MAX);
    buf_reserve(&request->form, FORM_MAX);
    http_answer_init(&request->answer);
}

static void wipe(struct buf *buf)
{
    if (buf->at != NULL)
        crypto_wipe(buf->at, buf->room);
    buf_done(buf);
}

static void request_done(struct request *request)
{
    wipe(&request->form);
    wipe(&request->answer.body);
    http_answer_done(&request->answer);
    buf_done(&request->url);
    crypto_wipe(request->assertion, sizeof(request->assertion));
    mem_free(request);
}

static void add_header(
    struct request *request, const char *name, const char *value)
{
    request->headers[request->header_count++] =
        (struct http_header){name, value};
}

static void add_argument(struct buf *to, const char *name, const char *value)
{
    buf_add_text(to, name);
    text_percent_encode(to, slice_of(value));
}

/* Makes a GET request, whose parameters are all in the URL. */
static void make_managed(struct request *request)
{
    const struct identity *identity = request->identity;
    bool app = identity->source == SOURCE_APP;

    buf_add_format(&request->url, "%s%s%s?api-version=%s&",
        identity->endpoint.origin, identity->endpoint.path,
        app ? "" : IMDS_PATH, app ? APP_VERSION : IMDS_VERSION);
    add_argument(&request->url, "resource=", RESOURCE);
    if (identity->client_id != NULL)
        add_argument(&request->url, "&client_id=", identity->client_id);
    if (app) {
        request->secret = slice_of(identity->header);
        add_header(request, "X-IDENTITY-HEADER", identity->header);
    } else {
        add_header(request, "Metadata", "true");
    }
}

static enum tw_err read_assertion(struct request *request, struct err *err)
{
    const char *path = request->identity->file;
    ssize_t len =
        file_read_and_close(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
            request->assertion, sizeof(request->assertion) - 1);

    if (len < 0)
        return err_fail(err, TW_REFUSED,
            "the file that " VARIABLE_FILE " names cannot be read: %s: %s",
            path, strerror(errno));
    while (len > 0 && strchr(" \t\r\n", request->assertion[len - 1]) != NULL)
        len--;
    request->assertion[len] = '\0';
    if (len == sizeof(request->assertion) - 1 ||
        !is_printable(request->assertion))
        return err_fail(err, TW_REFUSED,
            "the file that " VARIABLE_FILE " names holds no token: %s", path);
    request->secret = slice_of(request->assertion);
    return TW_OK;
}

/* Makes a POST request with a form. */
static enum tw_err make_workload(struct request *request, struct err *err)
{
    const struct identity *identity = request->identity;
    struct buf *form = &request->form;
    enum tw_err outcome = read_assertion(request, err);

    if (outcome != TW_OK)
        return outcome;
    buf_add_format(&request->url, "%s%s/%s/oauth2/v2.0/token",
        identity->endpoint.origin, identity->endpoint.path, identity->tenant);
    add_argument(form, "grant_type=", "client_credentials");
    add_argument(form, "&client_id=", identity->client_id);
    add_argument(form, "&scope=", SCOPE);
    add_argument(form, "&client_assertion_type=", ASSERTION_TYPE);
    add_argument(form, "&client_assertion=", request->assertion);
    add_header(request, "Content-Type", FORM_TYPE);
    return TW_OK;
}

static bool is_closing(void *context, bool comes)
{
    const struct request *request = context;

    (void)comes;
    return atomic_load(request->closing);
}

/* Sends the request to the token server. TW_OK: a response has come. */
static enum tw_err send(struct request *request, struct err *err)
{
    const struct identity *identity = request->identity;
    const struct http_request http = {
        .method = identity->source == SOURCE_WORKLOAD ? "POST" : "GET",
        .url = buf_text(&request->url),
        .peer = identity->endpoint.peer,
        /* IMDS has the same address on every machine, so a proxy would ask the
         * IMDS of the proxy's machine. */
        .no_proxy =
            identity->source != SOURCE_WORKLOAD || identity->endpoint.loopback,
        .headers = request->headers,
        .header_count = request->header_count,
        .body = buf_slice(&request->form),
        .max_answer_bytes = ANSWER_MAX,
        .gives_up = is_closing,
        .context = request,
    };

    return http_send(identity->http, &http, NULL, &request->answer, err);
}

static enum tw_err judge(struct request *request, struct identity_answer *ret,
    int64_t *ret_retry_ms, struct err *err)
{
    const struct http_answer *answer = &request->answer;
    enum tw_err outcome = identity_answer_read(answer->status,
        buf_slice(&answer->body), platform_wall_ticks(), ret, err);
    struct err why = *err;

    *ret_retry_ms = answer_retry_after_ms(answer);
    if (outcome == TW_REFUSED)
        err_fail(err, outcome, "%s; %s", why.text,
            advice[request->identity->source]);
    return outcome;
}

static enum tw_err exchange(struct request *request,
    struct identity_answer *ret, int64_t *ret_retry_ms, struct err *err)
{
    enum tw_err outcome = TW_OK;

    add_header(request, "User-Agent", "tableward/" TABLEWARD_VERSION);
    add_header(request, "Accept", "application/json");
    if (request->identity->source == SOURCE_WORKLOAD)
        outcome = make_workload(request, err);
    else
        make_managed(request);
    if (outcome != TW_OK)
        return outcome;
    /* Whatever the failure was, no token was received, and repeating the
     * request does no harm. */
    if (send(request, err) != TW_OK)
        return TW_BUSY;
    return judge(request, ret, ret_retry_ms, err);
}

enum tw_err identity_fetch(void *context, const _Atomic bool *closing,
    struct identity_answer *ret, int64_t *ret_sent_ms, int64_t *ret_retry_ms,
    struct err *err)
{
    const struct identity *identity = context;
    struct request *request = mem_alloc(sizeof(*request));
    enum tw_err outcome;

    request_init(request, identity, closing);
    *ret_sent_ms = platform_boot_ms();
    *ret_retry_ms = -1;
    outcome = exchange(request, ret, ret_retry_ms, err);
    if (outcome != TW_OK) {
        redact(err->text, request->secret);
        err_prefix(err, "no access token for the %s", identity->description);
    }
    request_done(request);
    return outcome;
}
