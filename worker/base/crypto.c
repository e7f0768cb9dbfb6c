/* SPDX-License-Identifier: MIT */
/* A small interface to OpenSSL 3. */
#include "worker/base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/mem.h"

struct crypto_hmac_key {
    EVP_MAC_CTX *keyed; /* context with the key; copied for each digest, never
                           used itself */
};

/* Ends the process unless `done` is true. For OpenSSL calls that fail only if
 * memory is exhausted, because key, digest and sizes are valid and fixed. */
static void must(bool done)
{
    if (!done)
        mem_exhausted();
}

/* SHA-256. Fetched once, because OpenSSL would search for EVP_sha256() by name
 * for each digest. Never freed. */
static EVP_MD *sha256;
static CRYPTO_ONCE sha256_once = CRYPTO_ONCE_STATIC_INIT;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    must(sha256 != NULL);
}

void crypto_sha256(struct slice data, unsigned char to[CRYPTO_SHA256_BYTES])
{
    unsigned len = 0;

    must(CRYPTO_THREAD_run_once(&sha256_once, fetch_sha256) == 1);
    must(EVP_Digest(data.at, data.len, to, &len, sha256, NULL) == 1 &&
         len == CRYPTO_SHA256_BYTES);
}

struct crypto_hmac_key *crypto_hmac_key_new(struct slice key)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    struct crypto_hmac_key *made = mem_alloc(sizeof(*made));
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    const void *at =
        /* OpenSSL takes NULL for a key that is not set yet. */
        key.at ? key.at : "";

    must(mac != NULL);
    made->keyed = EVP_MAC_CTX_new(mac);
    must(made->keyed != NULL &&
         EVP_MAC_init(made->keyed, at, key.len, params) == 1);
    EVP_MAC_free(mac); /* the context keeps a reference to mac */
    return made;
}

void crypto_hmac_key_free(struct crypto_hmac_key *key)
{
    if (!key)
        return;
    EVP_MAC_CTX_free(key->keyed); /* wipes the key and its derived state */
    mem_free(key);
}

void crypto_hmac(const struct crypto_hmac_key *key, struct slice data,
    unsigned char to[CRYPTO_SHA256_BYTES])
{
    EVP_MAC_CTX *context = EVP_MAC_CTX_dup(key->keyed);
    size_t len = 0;

    must(context != NULL);
    must(EVP_MAC_update(context, (const unsigned char *)data.at, data.len) ==
             1 &&
         EVP_MAC_final(context, to, &len, CRYPTO_SHA256_BYTES) == 1 &&
         len == CRYPTO_SHA256_BYTES);
    EVP_MAC_CTX_free(context);
}

/* The size of a piece that is encoded or decoded at once: EVP_EncodeBlock()
 * counts with int, so long data needs pieces. */
#define BYTES_PER_PIECE ((size_t)48 * 64)
#define CHARS_PER_PIECE (BYTES_PER_PIECE / 3 * 4)

void crypto_base64(struct buf *to, struct slice data)
{
    unsigned char piece[CHARS_PER_PIECE + 1];

    for (size_t done = 0; done < data.len;) {
        size_t left = data.len - done;
        int bytes = (int)(left < BYTES_PER_PIECE ? left : BYTES_PER_PIECE);

        buf_add(to, piece,
            (size_t)EVP_EncodeBlock(
                piece, (const unsigned char *)data.at + done, bytes));
        done += (size_t)bytes;
    }
    crypto_wipe(piece, sizeof(piece));
}

/* Returns the six bits that c encodes, or -1. */
static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Returns the number of padding characters at the end of text. */
static size_t padding_of(struct slice text)
{
    if (text.len == 0 || text.at[text.len - 1] != '=')
        return 0;
    return text.at[text.len - 2] == '=' ? 2 : 1;
}

/* Checks strictly, because EVP_DecodeBlock() accepts blanks and nonzero unused
 * bits. */
bool crypto_is_base64(struct slice text)
{
    size_t padding, letters;
    int last;

    if (text.len % 4 != 0)
        return false;
    padding = padding_of(text);
    letters = text.len - padding;
    for (size_t i = 0; i < letters; i++)
        if (base64_value(text.at[i]) < 0)
            return false;
    if (padding == 0)
        return true;
    last = base64_value(text.at[letters - 1]);
    return (last & (padding == 2 ? 0x0f : 0x03)) == 0;
}

bool crypto_unbase64(struct buf *to, struct slice text)
{
    unsigned char piece[BYTES_PER_PIECE];

    if (!crypto_is_base64(text))
        return false;
    for (size_t done = 0; done < text.len;) {
        size_t left = text.len - done;
        size_t chars = left < CHARS_PER_PIECE ? left : CHARS_PER_PIECE;
        struct slice part = {text.at + done, chars};
        int bytes =
            EVP_DecodeBlock(piece, (const unsigned char *)part.at, (int)chars);

        must(bytes >= 0);
        buf_add(to, piece, (size_t)bytes - padding_of(part));
        done += chars;
    }
    crypto_wipe(piece, sizeof(piece));
    return true;
}

/* ---- trusted roots ---- */

struct crypto_roots {
    X509_STORE *store; /* reference-counted; OpenSSL locks it */
};

struct crypto_roots *crypto_roots_new(void)
{
    struct crypto_roots *roots = mem_alloc(sizeof(*roots));

    roots->store = X509_STORE_new();
    must(roots->store != NULL &&
         X509_STORE_set_default_paths(roots->store) == 1);
    /* libcurl sets the same flags. With them a certificate among the roots is
     * trusted even if it is not self-signed. */
    must(X509_STORE_set_flags(roots->store,
             X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN) == 1);
    return roots;
}

void crypto_roots_free(struct crypto_roots *roots)
{
    if (roots == NULL)
        return;
    X509_STORE_free(roots->store);
    mem_free(roots);
}

void crypto_roots_lend(struct crypto_roots *roots, void *ssl_ctx)
{
    SSL_CTX_set1_cert_store(ssl_ctx, roots->store);
}

bool crypto_is_equal(const void *one, const void *other, size_t len)
{
    return CRYPTO_memcmp(one, other, len) == 0;
}

void crypto_wipe(void *at, size_t len)
{
    if (len > 0)
        OPENSSL_cleanse(at, len);
}
