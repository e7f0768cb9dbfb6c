/* SPDX-License-Identifier: MIT */
/* Connection strings and shared access signatures. */
#include <stdlib.h>
#include <strings.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/crypto.h"
#include "worker/base/text.h"
#include "worker/store/azure/account.h"

/* Checks a text that goes into the head of a request or into a URL: no
 * character may end either. */
static void check_sound(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        FUZZ_CHECK(*text != '\r' && *text != '\n' && *text != ' ');
}

static void check_endpoint(const struct endpoint *endpoint, bool needed)
{
    FUZZ_CHECK(endpoint->origin != NULL || !needed);
    if (endpoint->origin == NULL)
        return;
    FUZZ_CHECK(endpoint->path != NULL && endpoint->peer != NULL);
    check_sound(endpoint->origin);
    check_sound(endpoint->path);
    FUZZ_CHECK(strpbrk(endpoint->origin, "?#@%") == NULL);
    FUZZ_CHECK(strpbrk(endpoint->path, "?#") == NULL);
    FUZZ_CHECK(endpoint->path[0] == '\0' || endpoint->path[0] == '/');
    if (strncmp(endpoint->origin, "http://", 7) == 0)
        FUZZ_CHECK(endpoint->loopback);
    else
        FUZZ_CHECK(strncmp(endpoint->origin, "https://", 8) == 0);
}

static void check_account(const struct account *account)
{
    FUZZ_CHECK(account->key != NULL || account->sas != NULL);
    check_endpoint(&account->table, true);
    check_endpoint(&account->queue, false);
    check_sound(account->name);
    check_sound(account->sas);
    if (account->cosmos)
        FUZZ_CHECK(account->queue.origin == NULL);
}

/* Returns whether text contains 8 or more successive bytes of secret. */
static bool shows(const char *text, struct slice secret)
{
    for (size_t i = 0; i + 8 <= secret.len; i++)
        if (memmem(text, strlen(text), secret.at + i, 8))
            return true;
    return false;
}

/* Returns whether text contains "http", in upper or lower case. Without it no
 * endpoint, and no DefaultEndpointsProtocol, can ask for http. */
static bool names_http(struct slice text)
{
    for (size_t i = 0; i + 4 <= text.len; i++)
        if (strncasecmp(text.at + i, "http", 4) == 0)
            return true;
    return false;
}

/* Reads a connection string that is used with an identity. It has only
 * endpoints, and none of them may be http (except loopback), because a token is
 * sent there. */
static void try_endpoints(struct slice text)
{
    struct account *account;
    struct err err = {{0}};

    if (account_parse_endpoints(text, &account, &err) != TW_OK) {
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(account->key == NULL && account->sas == NULL);
    FUZZ_CHECK(!account->cosmos);
    check_endpoint(&account->table, true);
    check_endpoint(&account->queue, false);
    account_free(account);
}

/* If allow_http makes a difference, the string must contain "http". */
static void try_string(struct slice text)
{
    struct account *account;
    struct err err = {{0}};

    if (account_parse(text, false, &account, &err) == TW_OK) {
        check_account(account);
        account_free(account);
        return;
    }
    fuzz_said(&err);
    if (account_parse(text, true, &account, &err) == TW_OK) {
        FUZZ_CHECK(names_http(text));
        account_free(account);
    }
}

/* ---- strings made from known values ---- */

static void add_part(struct fuzz_source *in, struct buf *to, const char *name,
    struct slice value)
{
    static const char *const ends[] = {";", " ; ", ";;", ";\n"};

    for (; *name != '\0'; name++)
        buf_add_char(to, fuzz_yes(in) && *name >= 'A' && *name <= 'Z'
                             ? (char)(*name | 0x20)
                             : *name);
    buf_add_char(to, '=');
    buf_add_slice(to, value);
    buf_add_text(to, ends[fuzz_below(in, 4)]);
}

/* The account's key must give the same signature as the key in the string. */
static void check_key(const struct account *account, struct slice key)
{
    struct crypto_hmac_key *other = crypto_hmac_key_new(key);
    unsigned char a[CRYPTO_SHA256_BYTES], b[CRYPTO_SHA256_BYTES];

    FUZZ_CHECK(account->key != NULL);
    crypto_hmac(account->key, slice_of("text"), a);
    crypto_hmac(other, slice_of("text"), b);
    FUZZ_CHECK(memcmp(a, b, sizeof(a)) == 0);
    crypto_hmac_key_free(other);
}

static void parts_are_read_back(struct fuzz_source *in)
{
    struct slice name = fuzz_word(in, 3, 24), key = fuzz_bytes(in, 64);
    struct slice path = fuzz_word(in, 1, 20);
    bool own_table = fuzz_yes(in);
    bool with_key = fuzz_byte(in) % 16 == 1; /* making a key takes long */
    struct account *account;
    struct buf *text = fuzz_buf();
    struct slice origin;

    if (key.len == 0)
        key = slice_of("k");
    add_part(in, text, "AccountName", name);
    if (with_key)
        add_part(in, text, "AccountKey", fuzz_base64(key, in->arena));
    else
        add_part(in, text, "SharedAccessSignature", slice_of("?sv=1&sig=x"));
    add_part(in, text, "BlobEndpoint", slice_of("ftp://x"));
    if (own_table)
        add_part(in, text, "TableEndpoint",
            arena_format(in->arena, "http://127.0.0.1:%u/%s/",
                1 + fuzz_byte(in), path.at));
    FUZZ_CHECK(account_parse(buf_slice(text), false, &account, NULL) == TW_OK);
    check_account(account);
    if (with_key)
        check_key(account, key);
    else
        FUZZ_SAME(slice_of(account->sas), slice_of("sv=1&sig=x"));
    FUZZ_SAME(slice_of(account->name), name);
    if (own_table) {
        FUZZ_CHECK(account->table.loopback && account->table.path[0] == '/');
        FUZZ_SAME(slice_of(account->table.path + 1), path);
    } else {
        origin = arena_format(
            in->arena, "https://%s.table.core.windows.net", name.at);
        FUZZ_SAME(slice_of(account->table.origin), origin);
    }
    account_free(account);
}

/* A signature with any characters is refused or can go into a URL as it is. */
static void signature_is_sound(struct fuzz_source *in)
{
    struct slice sas = fuzz_text(in, 12);
    struct account *account;
    struct buf *text = fuzz_buf();

    buf_add_format(text, "AccountName=a;SharedAccessSignature=sv=1&sig=");
    buf_add_slice(text, sas);
    if (account_parse(buf_slice(text), false, &account, NULL) == TW_OK) {
        check_account(account);
        account_free(account);
    }
}

/* No error text shows the key or the signature, whatever else is wrong. */
static void secrets_are_not_shown(struct fuzz_source *in)
{
    struct slice secret =
        fuzz_base64(slice_of("a secret that cannot be guessed"), in->arena);
    struct slice broken = fuzz_xml_text(in, 30);
    struct account *account;
    struct err err = {{0}};
    struct buf *text = fuzz_buf();

    if (fuzz_yes(in))
        buf_add_format(text, "AccountName=%s;AccountKey=%.*s;",
            fuzz_yes(in) ? "a/c" : "", SLICE_ARG(secret));
    else
        buf_add_format(text, "SharedAccessSignature=sv=1&%s%.*s;",
            fuzz_yes(in) ? "sig=" : "", SLICE_ARG(secret));
    buf_add_slice(text, broken);
    buf_add_slice(text, secret);
    if (account_parse(buf_slice(text), false, &account, &err) == TW_OK)
        account_free(account);
    else
        FUZZ_CHECK(!shows(err.text, secret));
}

FUZZ_TARGET(account)
{
    try_string(text);
    try_endpoints(text);
    parts_are_read_back(in);
    fuzz_again(in);
    secrets_are_not_shown(in);
    fuzz_again(in);
    signature_is_sound(in);
}
