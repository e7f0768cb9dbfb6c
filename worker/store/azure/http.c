/* SPDX-License-Identifier: MIT */
/*
 * One HTTP request over a persistent connection.
 *
 * libcurl sends a request again by itself when a reused connection closes
 * before the first byte of the response, POST and DELETE included. libcurl
 * calls the pre-request callback before each sending. A second call within one
 * transfer means such a resend, and the callback refuses it.
 *
 * Each handle of libcurl has its own connections. Idle handles form a stack.
 * The most recently used handle is taken first, so that its connection is still
 * open, while the connections of handles that are not needed time out.
 */
#include "worker/store/azure/http.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

/* Maximum idle time of a connection that is used again. Azurite closes
 * connections after 5 s; a shorter limit avoids a close during our request. */
#define IDLE_MAX_S 4L
#define CONNECT_TIMEOUT_MS 10000L
/* Maximum number of idle handles kept; more threads than POOL_MAX may send. */
#define POOL_MAX 128

struct http {
    struct platform_mutex mutex; /* guards all fields below */
    CURL *idle[POOL_MAX];
    size_t idle_count;
    struct crypto_roots *roots; /* root certificates; NULL before the first TLS
                                   connection */
    bool lends_roots; /* libcurl uses roots; false: libcurl loads its own root
                         certificates. Never changes */
};

/* One http_send() under way. */
struct transfer {
    CURL *handle;
    const struct http_request *request;
    const struct deadline *deadline;
    struct http_answer *answer;
    unsigned sendings; /* how often libcurl was about to send */
    bool stopped;      /* just before sending, the deadline was closed or
                          stop_until_ms() had passed */
    bool too_large;    /* the body exceeds max_answer_bytes */
    bool interim;      /* the status is 1xx: another head follows */
    bool head_ended;   /* the empty line after the fields has arrived */
    bool ends;         /* given up because the process ends */
    bool given_up;     /* given up because gives_up() returned true */
    int64_t asked_ms;  /* time of the last call of gives_up() */
    curl_off_t came;   /* bytes received until the last call of gives_up() */
    int64_t begun_ms;
    bool foreign;       /* the response belongs to another request */
    const char *spoilt; /* why the head is invalid, NULL: it is valid */
    size_t field_bytes;
    char error[CURL_ERROR_SIZE];
};

void http_answer_init(struct http_answer *answer)
{
    *answer = (struct http_answer){.status = 0};
    arena_init(&answer->arena);
    buf_init(&answer->body, 0);
}

void http_answer_done(struct http_answer *answer)
{
    arena_done(&answer->arena);
    buf_done(&answer->body);
}

static void answer_begin(struct http_answer *answer, size_t max_bytes)
{
    if (answer->body.room > max_bytes)
        buf_done(&answer->body);
    answer->body.max = max_bytes;
    buf_clear(&answer->body);
    arena_clear(&answer->arena);
    answer->status = 0;
    answer->field_count = 0;
    answer->sent_ms = 0;
}

void http_answer_add(
    struct http_answer *answer, struct slice name, struct slice value)
{
    if (answer->field_count == HTTP_MAX_FIELDS)
        return;
    answer->fields[answer->field_count++] = (struct http_field){
        arena_copy(&answer->arena, name),
        arena_copy(&answer->arena, value),
    };
}

static struct slice trim_field(struct slice text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]) != NULL)
        text.len--;
    return text;
}

static bool is_status_line(struct slice line)
{
    return slice_begins(line, slice_of("HTTP/"));
}

void http_answer_line(struct http_answer *answer, struct slice line)
{
    const char *colon = line.len > 0 ? memchr(line.at, ':', line.len) : NULL;
    struct slice value;
    size_t name_len;

    if (is_status_line(line)) {
        answer->field_count = 0;
        return;
    }
    if (colon == NULL || line.at[0] == '\r' || line.at[0] == '\n')
        return;
    name_len = (size_t)(colon - line.at);
    value = trim_field((struct slice){colon + 1, line.len - name_len - 1});
    if (value.len == 0 || !memchr(value.at, '\0', value.len))
        http_answer_add(
            answer, trim_field((struct slice){line.at, name_len}), value);
}

struct slice http_answer_field(
    const struct http_answer *answer, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < answer->field_count; i++) {
        const struct http_field *field = &answer->fields[i];

        if (field->name.len == len &&
            strncasecmp(field->name.at, name, len) == 0)
            return field->value;
    }
    return (struct slice){NULL, 0};
}

/* Allocates memory for libcurl, without zeroing it, because libcurl's buffers
 * are large and new for each transfer. Memory that libcurl gives up is
 * overwritten, because URLs hold signatures, and header fields hold tokens. */
static void *get_memory(size_t bytes)
{
    return mem_resize(NULL, bytes);
}

static char *copy_text(const char *text)
{
    return mem_text(text, strlen(text));
}

/* Does libcurl use the same major version of OpenSSL as this program? Only then
 * can the root certificates be passed to libcurl, in OpenSSL's own types. */
static bool has_our_openssl(void)
{
    const char *name = curl_version_info(CURLVERSION_NOW)->ssl_version;

    return name != NULL && strncmp(name, "OpenSSL/3.", 10) == 0;
}

struct http *http_new(void)
{
    struct http *http = mem_alloc(sizeof(*http));

    curl_global_init_mem(CURL_GLOBAL_DEFAULT, get_memory, mem_free_wiped,
        mem_resize_wiped, copy_text, mem_array);
    platform_mutex_init(&http->mutex);
    http->lends_roots = has_our_openssl();
    return http;
}

void http_free(struct http *http)
{
    if (http == NULL)
        return;
    for (size_t i = 0; i < http->idle_count; i++)
        curl_easy_cleanup(http->idle[i]);
    platform_mutex_done(&http->mutex);
    crypto_roots_free(http->roots);
    mem_free(http);
    curl_global_cleanup();
}

static CURL *take_handle(struct http *http)
{
    CURL *handle = NULL;

    platform_lock(&http->mutex);
    if (http->idle_count > 0)
        handle = http->idle[--http->idle_count];
    platform_unlock(&http->mutex);
    return handle != NULL ? handle : curl_easy_init();
}

static void give_handle(struct http *http, CURL *handle)
{
    curl_easy_reset(handle); /* resets the options of the handle; its
                                connections stay open */
    platform_lock(&http->mutex);
    if (http->idle_count < POOL_MAX) {
        http->idle[http->idle_count++] = handle;
        handle = NULL;
    }
    platform_unlock(&http->mutex);
    curl_easy_cleanup(handle);
}

static int before_sending(
    void *arg, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct transfer *transfer = arg;
    int64_t now_ms = platform_boot_ms();

    (void)to_ip, (void)from_ip, (void)to_port, (void)from_port;
    if (transfer->sendings > 0)
        return CURL_PREREQFUNC_ABORT;
    if (!deadline_is_open(transfer->deadline, now_ms) ||
        now_ms >= stop_until_ms(transfer->begun_ms)) {
        transfer->stopped = true;
        return CURL_PREREQFUNC_ABORT;
    }
    transfer->sendings = 1;
    transfer->answer->sent_ms = now_ms;
    return CURL_PREREQFUNC_OK;
}

static bool is_foreign(const struct transfer *transfer)
{
    const struct http_header *echo = transfer->request->echo;
    struct slice value;

    if (echo == NULL)
        return false;
    value = http_answer_field(transfer->answer, echo->name);
    return value.len > 0 && !slice_is(value, echo->value);
}

static bool is_end_of_head(struct slice line)
{
    return line.len > 0 && (line.at[0] == '\r' || line.at[0] == '\n');
}

/* Is line the status line of an interim response, such as "HTTP/1.1 100
 * Continue"? */
static bool is_interim(struct slice line)
{
    const char *space = memchr(line.at, ' ', line.len);

    return space != NULL && space + 1 < line.at + line.len && space[1] == '1';
}

static bool is_named(const struct http_field *field, const char *name)
{
    return field->name.len == strlen(name) &&
           strncasecmp(field->name.at, name, field->name.len) == 0;
}

/* Returns why the length of the response is ambiguous; NULL: it is not. If the
 * length were read in the wrong way, bytes of this response could be taken for
 * the next one (RFC 9112, 6.3). */
static const char *judge_length(const struct http_answer *answer)
{
    unsigned lengths = 0, encodings = 0;
    int64_t value;

    for (size_t i = 0; i < answer->field_count; i++) {
        const struct http_field *field = &answer->fields[i];

        encodings += is_named(field, "Transfer-Encoding");
        if (!is_named(field, "Content-Length"))
            continue;
        lengths++;
        if (!text_int64(field->value, 0, INT64_MAX, &value))
            return "its Content-Length is not a number";
    }
    if (lengths > 1)
        return "it has more than one Content-Length";
    if (lengths > 0 && encodings > 0)
        return "it has both Content-Length and Transfer-Encoding";
    return NULL;
}

/* Returns why the line cannot be kept whole; NULL: it can. The line could be
 * the continuation token of a page, so the response is invalid if the line is
 * not kept. */
static const char *judge_line(
    const struct transfer *transfer, struct slice line)
{
    if (line.len > 0 && (line.at[0] == ' ' || line.at[0] == '\t'))
        return "it has a header field that continues in the next line";
    if (transfer->answer->field_count == HTTP_MAX_FIELDS &&
        !is_status_line(line) && !is_end_of_head(line))
        return "it has more than 64 header fields";
    return NULL;
}

static void take_status(struct transfer *transfer)
{
    long status = 0;

    curl_easy_getinfo(transfer->handle, CURLINFO_RESPONSE_CODE, &status);
    transfer->answer->status = (int)status;
}

/* Is the head of the final response complete and valid? */
static bool is_head(const struct transfer *transfer)
{
    return transfer->head_ended && !transfer->interim && !transfer->foreign &&
           transfer->spoilt == NULL;
}

static void take_line(struct transfer *transfer, struct slice line)
{
    transfer->spoilt = judge_line(transfer, line);
    if (transfer->spoilt != NULL)
        return;
    if (is_status_line(line)) {
        transfer->head_ended = false;
        transfer->interim = is_interim(line);
    } else if (is_end_of_head(line)) {
        transfer->head_ended = true;
        transfer->spoilt = judge_length(transfer->answer);
    }
    http_answer_line(transfer->answer, line);
    transfer->foreign = transfer->head_ended && is_foreign(transfer);
    if (is_head(transfer) && transfer->request->head != NULL) {
        take_status(transfer);
        transfer->request->head(
            transfer->request->head_context, transfer->answer);
    }
}

/* libcurl calls this for each line of a head, which an empty line ends. Lines
 * after the final head are trailers. They are ignored, because another server
 * may have added them. */
static size_t take_field(char *at, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    struct slice line = {at, size * count};

    transfer->field_bytes += line.len;
    if (transfer->field_bytes > HTTP_MAX_FIELD_BYTES)
        transfer->spoilt = "its header fields take more than 64 KiB";
    else if (!transfer->head_ended || transfer->interim)
        take_line(transfer, line);
    return transfer->foreign || transfer->spoilt != NULL ? 0 : line.len;
}

static size_t take_body(char *at, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;

    buf_add(&transfer->answer->body, at, size * count);
    transfer->too_large = transfer->answer->body.overflow;
    return transfer->too_large ? 0 : size * count;
}

/* Interval of gives_up() calls. A server that sends fewer than COMES_BYTES in
 * one interval does not count as responding. */
#define ASK_EVERY_MS 1000
#define COMES_BYTES (16 * 1024)

static bool ask_to_give_up(
    struct transfer *transfer, curl_off_t came, int64_t now_ms)
{
    const struct http_request *request = transfer->request;
    bool comes = came - transfer->came >= COMES_BYTES;

    if (request->gives_up == NULL || now_ms - transfer->asked_ms < ASK_EVERY_MS)
        return false;
    transfer->asked_ms = now_ms;
    transfer->came = came;
    return request->gives_up(request->context, comes);
}

/* libcurl calls this about once a second, also while nothing arrives. */
static int check_progress(void *arg, curl_off_t to_come, curl_off_t came,
    curl_off_t to_leave, curl_off_t left)
{
    struct transfer *transfer = arg;
    int64_t now_ms = platform_boot_ms();

    (void)to_come, (void)to_leave, (void)left;
    transfer->ends = now_ms >= stop_until_ms(transfer->begun_ms);
    transfer->given_up = ask_to_give_up(transfer, came, now_ms);
    return transfer->ends || transfer->given_up;
}

/* Frees the list. Overwrites the fields first, because one may hold an access
 * token. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *line = list; line != NULL; line = line->next)
        crypto_wipe(line->data, strlen(line->data));
    curl_slist_free_all(list);
}

static struct curl_slist *make_headers(const struct http_request *request)
{
    struct curl_slist *list = NULL;
    bool has_type = false;
    struct buf line;

    buf_init(&line, HTTP_MAX_FIELD_BYTES);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];

        has_type |= strcasecmp(header->name, "Content-Type") == 0;
        buf_clear(&line);
        buf_add_text(&line, header->name);
        buf_add_text(&line, ": ");
        buf_add_text(&line, header->value);
        list = curl_slist_append(list, buf_text(&line));
    }
    if (line.at != NULL)
        crypto_wipe(line.at, line.room);
    buf_done(&line);
    list = curl_slist_append(list, "Expect:");
    /* Without this line libcurl would add the Content-Type of a form. */
    return has_type ? list : curl_slist_append(list, "Content-Type:");
}

/* Returns the maximum duration of a request that starts now. If no time is
 * left, before_sending() refuses the request. */
static long timeout_of(const struct deadline *deadline, int64_t begun_ms)
{
    int64_t deadline_at_ms = deadline_timeout_ms(deadline);
    int64_t until_ms = stop_until_ms(begun_ms);

    if (until_ms - begun_ms >= deadline_at_ms)
        return (long)deadline_at_ms;
    return until_ms > begun_ms ? (long)(until_ms - begun_ms) : 1;
}

static void set_transport(
    CURL *handle, const struct http_request *request, long timeout_ms)
{
    curl_easy_setopt(handle, CURLOPT_URL, request->url);
    curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(handle, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(handle, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    /* At the timeout libcurl abandons its name resolver thread. Without this
     * option it would wait for that thread, perhaps for a minute. */
    curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(handle, CURLOPT_MAXAGE_CONN, IDLE_MAX_S);
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
        timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms : CONNECT_TIMEOUT_MS);
    curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (request->no_proxy)
        curl_easy_setopt(handle, CURLOPT_PROXY, "");
}

/* libcurl calls this for TLS connections only. So a process that uses only http
 * never reads the root certificates, a megabyte. */
static CURLcode lend_roots(CURL *handle, void *ssl_ctx, void *arg)
{
    struct http *http = arg;

    (void)handle;
    platform_lock(&http->mutex);
    if (http->roots == NULL)
        http->roots = crypto_roots_new();
    platform_unlock(&http->mutex);
    crypto_roots_lend(http->roots, ssl_ctx);
    return CURLE_OK;
}

/* Lets all connections share http->roots. Otherwise libcurl would read and keep
 * all roots for each connection. */
static void set_roots(CURL *handle, struct http *http)
{
    if (!http->lends_roots)
        return;
    curl_easy_setopt(handle, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(handle, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, lend_roots);
    curl_easy_setopt(handle, CURLOPT_SSL_CTX_DATA, http);
}

static void set_request(CURL *handle, const struct http_request *request,
    const struct curl_slist *headers)
{
    if (strcmp(request->method, "GET") == 0) {
        curl_easy_setopt(handle, CURLOPT_HTTPGET, 1L);
    } else {
        curl_easy_setopt(handle, CURLOPT_POST, 1L);
        curl_easy_setopt(
            handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS,
            request->body.len > 0 ? request->body.at : "");
        curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
    }
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
}

static void set_callbacks(CURL *handle, struct transfer *transfer)
{
    curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, before_sending);
    curl_easy_setopt(handle, CURLOPT_PREREQDATA, transfer);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_field);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, check_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, transfer);
}

/* Does message quote the address of a proxy, which may hold a password?
 * "Unsupported proxy syntax in 'http://user:password@...'" */
static bool quotes_proxy(const char *message)
{
    return strcasestr(message, "proxy") != NULL &&
           strpbrk(message, "'@") != NULL;
}

/* Returns libcurl's own error text, or the name of result if libcurl set no
 * error text. */
static const char *reason(const struct transfer *transfer, CURLcode result)
{
    if (quotes_proxy(transfer->error))
        return "the address of the proxy in the environment cannot be used";
    return transfer->error[0] != '\0' ? transfer->error
                                      : curl_easy_strerror(result);
}

static enum tw_err fail_unsent(CURL *handle, const struct transfer *transfer,
    const char *peer, CURLcode result, struct err *err)
{
    long number = 0;

    curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, &number);
    if (result == CURLE_COULDNT_CONNECT && number != 0)
        return err_fail(err, TW_BUSY, "cannot connect to %s: %s", peer,
            strerror((int)number));
    if (transfer->ends)
        return err_fail(err, TW_BUSY,
            "not sent to %s: cancelled, because the process stops", peer);
    if (transfer->given_up)
        return err_fail(err, TW_BUSY,
            "cannot connect to %s: cancelled, because nothing responds there",
            peer);
    if (result == CURLE_OPERATION_TIMEDOUT)
        return err_fail(
            err, TW_BUSY, "cannot connect to %s: no answer in time", peer);
    if (result == CURLE_PEER_FAILED_VERIFICATION)
        return err_fail(err, TW_BUSY,
            "the certificate of %s is not trusted: %s", peer,
            reason(transfer, result));
    return err_fail(err, TW_BUSY, "cannot connect to %s: %s", peer,
        reason(transfer, result));
}

static enum tw_err fail_sent(const struct transfer *transfer, const char *peer,
    CURLcode result, struct err *err)
{
    if (transfer->foreign)
        return err_fail(err, TW_UNKNOWN,
            "sent to %s, but the answer belongs to another request", peer);
    if (transfer->spoilt != NULL)
        return err_fail(err, TW_UNKNOWN,
            "sent to %s, but the answer cannot be used: %s (check any proxy)",
            peer, transfer->spoilt);
    if (transfer->ends)
        return err_fail(err, TW_UNKNOWN,
            "sent to %s, but cancelled before an answer, because the process "
            "stops",
            peer);
    if (transfer->given_up)
        return err_fail(err, TW_UNKNOWN,
            "sent to %s, but cancelled before an answer, because nothing "
            "responds there",
            peer);
    if (result == CURLE_OPERATION_TIMEDOUT)
        return err_fail(
            err, TW_UNKNOWN, "sent to %s, but no answer came in time", peer);
    if (result == CURLE_ABORTED_BY_CALLBACK)
        return err_fail(err, TW_UNKNOWN,
            "sent to %s, but the connection was closed before an answer", peer);
    return err_fail(err, TW_UNKNOWN,
        "sent to %s, but the answer is incomplete: %s", peer,
        reason(transfer, result));
}

static enum tw_err outcome_of(CURL *handle, const struct transfer *transfer,
    const char *peer, CURLcode result, struct err *err)
{
    if (result == CURLE_OK && transfer->head_ended)
        return TW_OK;
    if (result == CURLE_OK) /* the connection was closed within the header
                               fields, which is no error for libcurl */
        result = CURLE_PARTIAL_FILE;
    if (transfer->stopped)
        return err_fail(err, TW_STOPPED, "not sent: the deadline has passed");
    if (transfer->too_large)
        return err_fail(err, TW_TOO_LARGE,
            "the answer of %s is larger than %zu bytes", peer,
            transfer->answer->body.max);
    if (transfer->sendings == 0)
        return fail_unsent(handle, transfer, peer, result, err);
    return fail_sent(transfer, peer, result, err);
}

enum tw_err http_send(struct http *http, const struct http_request *request,
    const struct deadline *deadline, struct http_answer *ret, struct err *err)
{
    CURL *handle = take_handle(http);
    struct transfer transfer = {
        .handle = handle,
        .request = request,
        .deadline = deadline,
        .answer = ret,
        .begun_ms = platform_boot_ms(),
    };
    struct curl_slist *headers = make_headers(request);
    bool pipe;
    enum tw_err outcome;
    CURLcode result;

    transfer.asked_ms = transfer.begun_ms;
    answer_begin(ret, request->max_answer_bytes);
    set_transport(handle, request, timeout_of(deadline, transfer.begun_ms));
    set_roots(handle, http);
    set_request(handle, request, headers);
    set_callbacks(handle, &transfer);
    pipe = platform_block_pipe(); /* OpenSSL would raise SIGPIPE */
    result = curl_easy_perform(handle);
    if (pipe)
        platform_let_pipe();
    take_status(&transfer);
    outcome = outcome_of(handle, &transfer, request->peer, result, err);
    give_handle(http, handle);
    free_headers(headers);
    return outcome;
}
