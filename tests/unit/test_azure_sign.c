/* SPDX-License-Identifier: MIT */
/* Shared Key: the string-to-sign and the signature of fixed requests, signed
 * with the emulator's well-known account key. */
#include "tests/support/test.h"
#include "worker/store/azure/sign.h"

#define ACCOUNT "devstoreaccount1"
#define KEY                                                                    \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"          \
    "K1SZFPTOtr/KBHBeksoGMGw=="
#define DATE "Mon, 01 Jan 2024 00:00:00 GMT"
#define RESOURCE "/" ACCOUNT "/" ACCOUNT
#define QUEUE_HEADERS "x-ms-date:" DATE "\nx-ms-version:2019-02-02\n" RESOURCE

/* One request, its string-to-sign and its signature. */
struct vector {
    const char *name;
    enum sign_scheme scheme;
    const char *method, *path, *query, *content_type;
    size_t content_length;
    const char *string, *signature;
};

static const struct http_header headers[] = {
    {"Accept", "application/json"},
    {"X-Ms-Version", "2019-02-02"},
    {"x-ms-date", DATE},
};

static struct crypto_hmac_key *make_key(void)
{
    struct crypto_hmac_key *key;
    struct buf bytes;

    buf_init(&bytes, 256);
    assert_true(crypto_unbase64(&bytes, slice_of(KEY)));
    key = crypto_hmac_key_new(buf_slice(&bytes));
    buf_done(&bytes);
    return key;
}

#define MESSAGE "/myqueue/messages/5974b586-0df3-4e2d-ad0c-18e3892bfca2"
#define KEYS "/mytable(PartitionKey='o%27%27brien%20x',RowKey='r%C3%A91')"
#define BATCH                                                                  \
    "multipart/mixed; boundary=batch_00000000-0000-0000-0000-000000000001"

static const struct vector vectors[] = {
    {"a GET of tables", SIGN_TABLE, "GET", "/" ACCOUNT "/Tables", "", "", 0,
        "GET\n\n\n" DATE "\n" RESOURCE "/Tables",
        "xTTIoWBK7u+nSgfft7uKiDmecLL9GEiBUE4qVj03gko="},
    {"a POST, with its content type", SIGN_TABLE, "POST",
        "/" ACCOUNT "/mytable", "", "application/json", 20,
        "POST\n\napplication/json\n" DATE "\n" RESOURCE "/mytable",
        "7Yhnlsng3syaRPfj2ayn/5qq4m3n8VzeRdyCJyDK4Jw="},
    {"keys percent-encoded, as they are sent", SIGN_TABLE, "GET",
        "/" ACCOUNT KEYS, "", "", 0, "GET\n\n\n" DATE "\n" RESOURCE KEYS,
        "jsrV2LmjTcMQBcMKXrsEfauUbvXO9bAVjad7P2Lwkv4="},
    {"a batch, with its boundary", SIGN_TABLE, "POST", "/" ACCOUNT "/$batch",
        "", BATCH, 99, "POST\n\n" BATCH "\n" DATE "\n" RESOURCE "/$batch",
        "KVvAnushQJ6oDcgIDNqusEYsSUTf520vKAP+39zk/K8="},
    {"Shared Key Lite: date and resource alone", SIGN_TABLE_LITE, "GET",
        "/" ACCOUNT "/Tables", "", "", 0, DATE "\n" RESOURCE "/Tables",
        "13UOPPE/P1+LLsRFYJCHphuPCEQ21EO/4WbbW+OXG4U="},
    {"the parameter comp of a table, and no other", SIGN_TABLE, "GET",
        "/" ACCOUNT "/mytable", "comp=acl&timeout=20", "", 0,
        "GET\n\n\n" DATE "\n" RESOURCE "/mytable?comp=acl",
        "BWOQrFjyYoYfJAW3iZDOZjyGfsDvBFcgpXCnPAS8QVI="},
    {"the same, in another order", SIGN_TABLE, "GET", "/" ACCOUNT "/mytable",
        "timeout=20&comp=acl", "", 0,
        "GET\n\n\n" DATE "\n" RESOURCE "/mytable?comp=acl",
        "BWOQrFjyYoYfJAW3iZDOZjyGfsDvBFcgpXCnPAS8QVI="},
    {"the list of queues", SIGN_QUEUE, "GET", "/" ACCOUNT, "comp=list", "", 0,
        "GET\n\n\n\n\n\n\n\n\n\n\n\n" QUEUE_HEADERS "\ncomp:list",
        "sch5LFK6tpiyhXwND0IeNzBgSoK9pu2/5iNdhd3ECcE="},
    {"parameters of a queue, sorted", SIGN_QUEUE, "POST",
        "/" ACCOUNT "/myqueue/messages", "visibilitytimeout=30&messagettl=-1",
        "application/xml", 61,
        "POST\n\n\n61\n\napplication/xml\n\n\n\n\n\n\n" QUEUE_HEADERS
        "/myqueue/messages\nmessagettl:-1\nvisibilitytimeout:30",
        "OVzlKGhIYV4IdMqaJmFR9/TjpJ5QPAAgYiO/T/2KUh0="},
    {"a pop receipt, decoded", SIGN_QUEUE, "DELETE", "/" ACCOUNT MESSAGE,
        "popreceipt=AgAAAAMAAAAAAAAAYUMWAIg%2B1gE%3D", "", 0,
        "DELETE\n\n\n\n\n\n\n\n\n\n\n\n" QUEUE_HEADERS MESSAGE
        "\npopreceipt:AgAAAAMAAAAAAAAAYUMWAIg+1gE=",
        "c0LAN9mCsPBTXtM/+aGFGjCwKlbEQK0Q5a+OdoaSHUA="},
};

static void check_vector(const struct vector *vector)
{
    struct sign_request request = {
        .method = vector->method,
        .account = ACCOUNT,
        .path = slice_of(vector->path),
        .query = slice_of(vector->query),
        .content_type = vector->content_type,
        .content_length = vector->content_length,
        .date = DATE,
        .headers = headers,
        .header_count = 3,
    };
    struct crypto_hmac_key *key = make_key();
    struct buf text, expected;

    buf_init(&text, 4096);
    buf_init(&expected, 4096);
    sign_string(vector->scheme, &request, &text);
    assert_string_equal(buf_text(&text), vector->string);
    buf_clear(&text);
    sign_authorization(vector->scheme, &request, key, &text);
    buf_add_format(&expected, "SharedKey%s " ACCOUNT ":%s",
        vector->scheme == SIGN_TABLE_LITE ? "Lite" : "", vector->signature);
    assert_string_equal(buf_text(&text), buf_text(&expected));
    buf_done(&expected);
    buf_done(&text);
    crypto_hmac_key_free(key);
}

TEST(a_request_is_signed_to_the_byte)
{
    for (size_t i = 0; TEST_EACH(i, vectors); i++) {
        test_case("%s", vectors[i].name);
        check_vector(&vectors[i]);
    }
}

TEST(queue_joins_values_and_collapses_blanks)
{
    const struct http_header odd[] = {
        {"x-ms-meta-b", "  two \t words "},
        {"X-MS-Meta-A", ""},
    };
    struct sign_request request = {
        .method = "GET",
        .account = "a",
        .path = slice_of("/q"),
        .query = slice_of("B=2&a=%41&b=1&flag"),
        .content_type = "",
        .date = DATE,
        .headers = odd,
        .header_count = 2,
    };
    struct buf text;

    buf_init(&text, 4096);
    sign_string(SIGN_QUEUE, &request, &text);
    assert_string_equal(buf_text(&text),
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-meta-a:\nx-ms-meta-b:two words\n"
        "/a/q\na:A\nb:1,2\nflag:");
    buf_done(&text);
}
