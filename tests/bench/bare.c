/* SPDX-License-Identifier: MIT */
/*
 * What bare libcurl needs to delete a partition of a table: only the requests
 * of a cascade, one after another on one connection. Only the transfers are
 * measured: each request is built before the measured time, and its response is
 * parsed after it.
 *
 *   bare ENDPOINT ACCOUNT KEY TABLE PARTITIONKEY
 *   bare ENDPOINT ACCOUNT KEY TABLE PARTITIONKEY COUNT
 *
 * With COUNT it instead makes COUNT requests for an entity with an empty
 * RowKey: the cost of the smallest request.
 *
 * Prints "ENTITIES REQUESTS CPU_SECONDS". The table endpoint is a URL such as
 * http://127.0.0.1:10002/account.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/err.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/batch.h"
#include "worker/store/azure/odata.h"
#include "worker/store/azure/sign.h"
#include "worker/store/store.h"

#define BODY_MAX (16 * 1024 * 1024)
#define BATCH_ID "00000000-0000-4000-8000-000000000001"
#define CHANGESET_ID "00000000-0000-4000-8000-000000000002"

struct bare {
    CURL *curl;
    const char *endpoint, *account, *table;
    struct slice partition_key;
    struct crypto_hmac_key *key;
    struct buf answer;
    struct buf next[2]; /* of the last page: NextPartitionKey, NextRowKey */
    double cpu_s;
    unsigned requests;
};

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "bare: %s\n", what);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec time;

    must(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0, "the clock");
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static size_t take_body(char *at, size_t size, size_t count, void *arg)
{
    struct bare *bare = arg;

    buf_add(&bare->answer, at, size * count);
    return size * count;
}

static size_t take_header(char *at, size_t size, size_t count, void *arg)
{
    static const char *const names[] = {"x-ms-continuation-NextPartitionKey: ",
        "x-ms-continuation-NextRowKey: "};
    struct bare *bare = arg;
    struct slice line = {at, size * count};

    for (size_t i = 0; i < 2; i++) {
        if (line.len < strlen(names[i]) ||
            strncasecmp(line.at, names[i], strlen(names[i])) != 0)
            continue;
        buf_add(&bare->next[i], at + strlen(names[i]),
            line.len - strlen(names[i]) - 2);
    }
    return line.len;
}

static struct curl_slist *headers_of(
    struct bare *bare, const char *method, const char *path, const char *type)
{
    struct curl_slist *list = NULL;
    char date[TEXT_TIME_MAX];
    struct buf line;

    text_http_date(platform_wall_ticks(), date);
    buf_init(&line, 4096);
    buf_add_text(&line, "Authorization: ");
    sign_authorization(SIGN_TABLE_LITE,
        &(struct sign_request){.method = method,
            .account = bare->account,
            .path = slice_of(path),
            .content_type = type,
            .date = date},
        bare->key, &line);
    list = curl_slist_append(list, buf_text(&line));
    buf_clear(&line);
    buf_add_format(&line, "x-ms-date: %s", date);
    list = curl_slist_append(list, buf_text(&line));
    buf_clear(&line);
    buf_add_format(&line, "Content-Type: %s", type);
    list = curl_slist_append(list, buf_text(&line));
    buf_done(&line);
    list = curl_slist_append(list, "x-ms-version: 2019-02-02");
    list = curl_slist_append(list, "DataServiceVersion: 3.0;");
    list =
        curl_slist_append(list, "Accept: application/json;odata=fullmetadata");
    return curl_slist_append(list, "Expect:");
}

/* Sends a request; the response's body is then in bare->answer. path: the URL
 * without host and query. */
static void request(struct bare *bare, const char *url, const char *path,
    const char *type, const struct buf *body, long status)
{
    struct curl_slist *headers =
        headers_of(bare, body ? "POST" : "GET", path, type);
    long is = 0;
    double before;

    buf_clear(&bare->answer);
    curl_easy_setopt(bare->curl, CURLOPT_URL, url);
    curl_easy_setopt(bare->curl, CURLOPT_HTTPHEADER, headers);
    if (body) {
        curl_easy_setopt(
            bare->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
        curl_easy_setopt(bare->curl, CURLOPT_POSTFIELDS, body->at);
    } else {
        curl_easy_setopt(bare->curl, CURLOPT_HTTPGET, 1L);
    }
    before = cpu_s();
    must(curl_easy_perform(bare->curl) == CURLE_OK, "a request failed");
    bare->cpu_s += cpu_s() - before;
    bare->requests++;
    curl_easy_getinfo(bare->curl, CURLINFO_RESPONSE_CODE, &is);
    curl_slist_free_all(headers);
    if (is != status)
        fprintf(stderr, "%s\n", buf_text(&bare->answer));
    must(is == status, "a request was refused");
}

/* Returns the path of an endpoint's URL. */
static const char *path_of(const char *endpoint)
{
    const char *host = strstr(endpoint, "://");
    const char *path;

    must(host != NULL, "the endpoint is no URL");
    path = strchr(host + 3, '/');
    return path ? path : "";
}

static bool read_page(struct bare *bare, struct page *page)
{
    struct buf url, path, filter;
    struct err err;

    buf_init(&url, 64 * 1024);
    buf_init(&path, 4096);
    buf_init(&filter, 4096);
    buf_add_format(
        &filter, "PartitionKey eq '%.*s'", SLICE_ARG(bare->partition_key));
    buf_add_format(&path, "%s/%s()", path_of(bare->endpoint), bare->table);
    buf_add_format(&url,
        "%s/%s()?$top=1000&$select=PartitionKey,RowKey&$filter=",
        bare->endpoint, bare->table);
    text_percent_encode(&url, buf_slice(&filter));
    if (bare->next[0].len > 0)
        buf_add_format(&url, "&NextPartitionKey=%s&NextRowKey=%s",
            buf_text(&bare->next[0]), buf_text(&bare->next[1]));
    buf_clear(&bare->next[0]);
    buf_clear(&bare->next[1]);
    request(bare, buf_text(&url), buf_text(&path), "", NULL, 200);
    page_clear(page);
    page->body = bare->answer;
    buf_init(&bare->answer, BODY_MAX);
    must(odata_page(buf_slice(&page->body), true, page, &err) == TW_OK,
        "the page cannot be read");
    buf_done(&url);
    buf_done(&path);
    buf_done(&filter);
    return bare->next[0].len > 0;
}

static void delete_some(
    struct bare *bare, const struct entity *entities, size_t count)
{
    struct operation operations[BATCH_MAX_OPERATIONS];
    const struct batch batch = {bare->table, operations, count};
    struct batch_style style = {
        .origin = "", .path = "", BATCH_ID, CHANGESET_ID};
    struct buf body, type, url, path;

    for (size_t i = 0; i < count; i++)
        operations[i] = (struct operation){OPERATION_DELETE, entities[i]};
    style.origin = bare->endpoint;
    buf_init(&body, BODY_MAX);
    buf_init(&type, 256);
    buf_init(&url, 4096);
    buf_init(&path, 4096);
    batch_write(&style, &batch, &body);
    batch_add_type(&style, &type);
    buf_add_format(&url, "%s/$batch", bare->endpoint);
    buf_add_format(&path, "%s/$batch", path_of(bare->endpoint));
    request(bare, buf_text(&url), buf_text(&path), buf_text(&type), &body, 202);
    must(strstr(buf_text(&bare->answer), "HTTP/1.1 204") != NULL,
        "a batch was refused");
    buf_done(&body);
    buf_done(&type);
    buf_done(&url);
    buf_done(&path);
}

static size_t delete_page(struct bare *bare, const struct page *page)
{
    for (size_t i = 0; i < page->count; i += BATCH_MAX_OPERATIONS) {
        size_t left = page->count - i;

        delete_some(bare, &page->entities[i],
            left < BATCH_MAX_OPERATIONS ? left : BATCH_MAX_OPERATIONS);
    }
    return page->count;
}

static void read_one(struct bare *bare)
{
    struct buf url, path, name;

    buf_init(&url, 64 * 1024);
    buf_init(&path, 4096);
    buf_init(&name, 4096);
    buf_add_format(&name, "%s(PartitionKey='%.*s',RowKey='')", bare->table,
        SLICE_ARG(bare->partition_key));
    buf_add_format(&url, "%s/%s", bare->endpoint, buf_text(&name));
    buf_add_format(&path, "%s/%s", path_of(bare->endpoint), buf_text(&name));
    request(bare, buf_text(&url), buf_text(&path), "", NULL, 200);
    buf_done(&name);
    buf_done(&path);
    buf_done(&url);
}

static size_t delete_all(struct bare *bare)
{
    struct page page;
    size_t deleted = 0;
    bool more;

    page_init(&page);
    do {
        more = read_page(bare, &page);
        deleted += delete_page(bare, &page);
    } while (more);
    page_done(&page);
    return deleted;
}

int main(int argc, char **argv)
{
    struct bare bare = {.cpu_s = 0};
    struct buf key;
    size_t entities;

    must(argc == 6 || argc == 7,
        "usage: bare ENDPOINT ACCOUNT KEY TABLE PARTITIONKEY [COUNT]");
    bare.endpoint = argv[1];
    bare.account = argv[2];
    bare.table = argv[4];
    bare.partition_key = slice_of(argv[5]);
    buf_init(&key, 4096);
    must(crypto_unbase64(&key, slice_of(argv[3])), "the key is no base64");
    bare.key = crypto_hmac_key_new(buf_slice(&key));
    buf_init(&bare.answer, BODY_MAX);
    buf_init(&bare.next[0], 4096);
    buf_init(&bare.next[1], 4096);
    bare.curl = curl_easy_init();
    must(bare.curl != NULL, "libcurl");
    curl_easy_setopt(bare.curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(bare.curl, CURLOPT_WRITEDATA, &bare);
    curl_easy_setopt(bare.curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(bare.curl, CURLOPT_HEADERDATA, &bare);
    curl_easy_setopt(bare.curl, CURLOPT_TCP_NODELAY, 1L);
    entities = argc == 7 ? strtoul(argv[6], NULL, 10) : 0;
    for (size_t i = 0; i < entities; i++)
        read_one(&bare);
    if (argc == 6)
        entities = delete_all(&bare);
    printf("%zu %u %.6f\n", entities, bare.requests, bare.cpu_s);
    curl_easy_cleanup(bare.curl);
    crypto_hmac_key_free(bare.key);
    buf_done(&bare.answer);
    buf_done(&bare.next[0]);
    buf_done(&bare.next[1]);
    buf_done(&key);
    return 0;
}
