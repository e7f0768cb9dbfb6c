/* SPDX-License-Identifier: MIT */
/* Digests against published vectors; base64 to the last bit. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/base/crypto.h"
#include "worker/base/platform.h"

#define WHOLE(text) ((struct slice){text, sizeof(text) - 1})

static void assert_digest(
    const unsigned char digest[CRYPTO_SHA256_BYTES], const char *hex)
{
    char text[2 * CRYPTO_SHA256_BYTES + 1];

    for (size_t i = 0; i < CRYPTO_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

static void assert_sha256(struct slice bytes, const char *hex)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];

    crypto_sha256(bytes, digest);
    assert_digest(digest, hex);
}

/* FIPS 180-4 examples. */
TEST(sha256_is_the_published_one)
{
    assert_sha256(WHOLE(""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256((struct slice){NULL, 0},
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(WHOLE("abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#define AA10 "\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa"
#define AA50 AA10 AA10 AA10 AA10 AA10

/* RFC 4231, test cases 1, 2 and 6; and an empty key. */
static const struct {
    struct slice key, data;
    const char *digest;
} vectors[] = {
    {WHOLE("\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"
           "\x0b\x0b\x0b\x0b"),
        WHOLE("Hi There"),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {WHOLE("Jefe"), WHOLE("what do ya want for nothing?"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {WHOLE(AA50 AA50 AA10 AA10 AA10 "\xaa"),
        WHOLE("Test Using Larger Than Block-Size Key - Hash Key First"),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {{NULL, 0}, {NULL, 0},
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
};

TEST(hmac_is_the_published_one)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];

    for (size_t i = 0; TEST_EACH(i, vectors); i++) {
        char copy[200];
        size_t len = vectors[i].key.len;
        struct crypto_hmac_key *key;

        if (len > 0)
            memcpy(copy, vectors[i].key.at, len);
        key = crypto_hmac_key_new((struct slice){len > 0 ? copy : NULL, len});
        memset(copy, 0, sizeof(copy)); /* the key does not need these bytes any
                                          more */
        for (int twice = 0; twice < 2; twice++) {
            crypto_hmac(key, vectors[i].data, digest);
            assert_digest(digest, vectors[i].digest);
        }
        crypto_hmac_key_free(key);
    }
    crypto_hmac_key_free(NULL);
}

static void sign_many(void *arg)
{
    const struct crypto_hmac_key *key = arg;
    unsigned char digest[CRYPTO_SHA256_BYTES];

    for (int i = 0; i < 200; i++) {
        crypto_hmac(key, vectors[1].data, digest);
        assert_digest(digest, vectors[1].digest);
    }
}

TEST(one_key_serves_several_threads)
{
    struct crypto_hmac_key *key = crypto_hmac_key_new(vectors[1].key);
    struct platform_thread threads[4];

    for (int i = 0; i < 4; i++)
        platform_start(&threads[i], "signer", sign_many, key);
    for (int i = 0; i < 4; i++)
        platform_join(&threads[i]);
    crypto_hmac_key_free(key);
}

/* RFC 4648, section 10, and the last two letters of the alphabet. */
TEST(base64_goes_both_ways)
{
    static const struct {
        struct slice data;
        const char *text;
    } cases[] = {{WHOLE(""), ""}, {WHOLE("f"), "Zg=="}, {WHOLE("fo"), "Zm8="},
        {WHOLE("foo"), "Zm9v"}, {WHOLE("foob"), "Zm9vYg=="},
        {WHOLE("fooba"), "Zm9vYmE="}, {WHOLE("foobar"), "Zm9vYmFy"},
        {WHOLE("\0\0\0"), "AAAA"}, {WHOLE("\xfb\xff\xbf\0"), "+/+/AA=="}};
    struct buf to;

    buf_init(&to, 100);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        buf_clear(&to);
        crypto_base64(&to, cases[i].data);
        assert_string_equal(buf_text(&to), cases[i].text);
        buf_clear(&to);
        assert_true(crypto_is_base64(slice_of(cases[i].text)));
        assert_true(crypto_unbase64(&to, slice_of(cases[i].text)));
        assert_true(slice_equal(buf_slice(&to), cases[i].data));
    }
    buf_done(&to);
}

TEST(base64_of_any_length_comes_back)
{
    static char data[20000];
    struct buf text, back;

    platform_random(data, sizeof(data));
    buf_init(&text, 100000);
    buf_init(&back, 100000);
    /* All small lengths, and the lengths near multiples of the size of a
     * piece. */
    for (size_t len = 0; len < sizeof(data);
         len += len < 300 || len % 3072 < 5 || len % 3072 > 3065 ? 1 : 7) {
        struct slice part = {data, len};

        buf_clear(&text);
        buf_clear(&back);
        crypto_base64(&text, part);
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_true(crypto_unbase64(&back, buf_slice(&text)));
        assert_true(slice_equal(buf_slice(&back), part));
    }
    buf_done(&text);
    buf_done(&back);
}

TEST(what_is_not_base64_adds_nothing)
{
    static const struct slice bad[] = {WHOLE("Z"), WHOLE("Zg"), WHOLE("Zg="),
        WHOLE("Zm8"), WHOLE("Zm9vY"), WHOLE("Zg==\n"), WHOLE("Zm9v\n"),
        WHOLE(" Zg=="), WHOLE("Zm 9"), WHOLE("Z==="), WHOLE("===="), WHOLE("="),
        WHOLE("Zg==Zg=="), WHOLE("Z=g="), WHOLE("Zg=v"), WHOLE("Zm-_"),
        WHOLE("Zm9\0"), WHOLE("Zm9\xc3"), WHOLE("{\"a\"}==")};
    struct buf to;

    buf_init(&to, 100);
    buf_add_text(&to, "x");
    for (size_t i = 0; TEST_EACH(i, bad); i++)
        assert_false(crypto_is_base64(bad[i]) || crypto_unbase64(&to, bad[i]));
    assert_string_equal(buf_text(&to), "x");
    buf_done(&to);
}

/* Bits after the last byte must be zero, so that each value has only one
 * text. */
TEST(stray_bits_are_refused)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                   "qrstuvwxyz0123456789+/";
    struct buf to;

    buf_init(&to, 1000);
    for (int i = 0; i < 64; i++) {
        char two[] = "A?==", one[] = "AA?=";

        two[1] = one[2] = alphabet[i];
        assert_int_equal(crypto_unbase64(&to, slice_of(two)), i % 16 == 0);
        assert_int_equal(crypto_unbase64(&to, slice_of(one)), i % 4 == 0);
    }
    buf_done(&to);
}

TEST(equal_bytes_are_told_from_others)
{
    assert_true(crypto_is_equal("abc", "abd", 2));
    assert_false(crypto_is_equal("abc", "abd", 3));
    assert_false(crypto_is_equal("xbc", "abc", 3));
    assert_true(crypto_is_equal("a", "b", 0));
}

TEST(wiped_bytes_are_gone)
{
    char secret[] = "secret";

    crypto_wipe(secret, sizeof(secret) - 2);
    assert_memory_equal(secret, "\0\0\0\0\0t", 7);
    crypto_wipe(NULL, 0);
}
