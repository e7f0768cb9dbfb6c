/* SPDX-License-Identifier: MIT */
/* Connection strings: what they mean, and the errors of wrong ones. */
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/store/azure/account.h"

#define KEY "c2VjcmV0LWtleS1ieXRlcw==" /* "secret-key-bytes" */

static struct account *parse(const char *text)
{
    struct account *account = NULL;
    struct err err = {""};

    if (account_parse(slice_of(text), false, &account, &err) != TW_OK)
        fail_msg("%s: %s", text, err.text);
    return account;
}

/* Its signature shows that the key is the emulator's. */
static void check_emulator_key(const struct crypto_hmac_key *key)
{
    static const char string[] = "GET\n\n\nMon, 01 Jan 2024 00:00:00 GMT\n"
                                 "/devstoreaccount1/devstoreaccount1/Tables";
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct buf signature;

    crypto_hmac(key, slice_of(string), digest);
    buf_init(&signature, 64);
    crypto_base64(
        &signature, (struct slice){(const char *)digest, sizeof(digest)});
    assert_string_equal(
        buf_text(&signature), "xTTIoWBK7u+nSgfft7uKiDmecLL9GEiBUE4qVj03gko=");
    buf_done(&signature);
}

TEST(development_storage_is_the_emulator)
{
    struct account *account = parse("UseDevelopmentStorage=true");

    assert_string_equal(account->name, "devstoreaccount1");
    check_emulator_key(account->key);
    assert_null(account->sas);
    assert_string_equal(account->table.origin, "http://127.0.0.1:10002");
    assert_string_equal(account->table.path, "/devstoreaccount1");
    assert_string_equal(account->table.peer, "127.0.0.1 port 10002");
    assert_true(account->table.loopback);
    assert_string_equal(account->queue.origin, "http://127.0.0.1:10001");
    account_free(account);
}

TEST(endpoints_are_made_of_name_and_suffix)
{
    struct account *account = parse("AccountName=acct;AccountKey=" KEY
                                    ";EndpointSuffix=core.chinacloudapi.cn");

    assert_string_equal(
        account->table.origin, "https://acct.table.core.chinacloudapi.cn");
    assert_string_equal(account->table.path, "");
    assert_string_equal(
        account->table.peer, "acct.table.core.chinacloudapi.cn port 443");
    assert_string_equal(
        account->queue.origin, "https://acct.queue.core.chinacloudapi.cn");
    assert_false(account->table.loopback);
    assert_false(account->cosmos);
    account_free(account);
}

TEST(names_are_read_in_any_case_with_blanks_and_other_services)
{
    struct account *account =
        parse("  defaultendpointsprotocol = https ; ACCOUNTNAME= acct ;\n"
              "AccountKey=" KEY ";BlobEndpoint=https://b.example/;"
              "TableEndpoint=https://t.example:8443/x/;;"
              "TableSecondaryEndpoint=https://s.example;");

    assert_string_equal(account->name, "acct");
    assert_string_equal(account->table.origin, "https://t.example:8443");
    assert_string_equal(account->table.path, "/x");
    assert_string_equal(account->table.peer, "t.example port 8443");
    assert_string_equal(
        account->queue.origin, "https://acct.queue.core.windows.net");
    account_free(account);
}

TEST(sas_stands_in_place_of_a_key)
{
    struct account *account = parse(
        "TableEndpoint=https://t.example;SharedAccessSignature="
        "?sv=2019-02-02&ss=qt&srt=sco&sp=rwdlacup&se=2035-01-01T00%3A00%3A00Z"
        "&sig=%2FvlNCA9SoVK3Cma%2Bi3PuVyb%2FMtsPhJrH3%2F8Tjs3c7U%3D");

    assert_null(account->key);
    assert_null(account->name);
    assert_string_equal(account->sas,
        "sv=2019-02-02&ss=qt&srt=sco&sp=rwdlacup&se=2035-01-01T00%3A00%3A00Z"
        "&sig=%2FvlNCA9SoVK3Cma%2Bi3PuVyb%2FMtsPhJrH3%2F8Tjs3c7U%3D");
    assert_null(account->queue.origin);
    account_free(account);
}

TEST(sas_with_a_name_finds_its_endpoints)
{
    struct account *account =
        parse("AccountName=acct;SharedAccessSignature=sv=1&sig=abc");

    assert_string_equal(
        account->table.origin, "https://acct.table.core.windows.net");
    assert_string_equal(
        account->queue.origin, "https://acct.queue.core.windows.net");
    account_free(account);
}

TEST(cosmos_has_no_queues)
{
    struct account *account =
        parse("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" KEY
              ";TableEndpoint=https://acct.table.cosmos.azure.com:443/;");

    assert_true(account->cosmos);
    assert_null(account->queue.origin);
    assert_string_equal(
        account->table.origin, "https://acct.table.cosmos.azure.com:443");
    account_free(account);
}

TEST(http_is_for_loopback_unless_allowed)
{
    static const char remote[] =
        "AccountName=acct;AccountKey=" KEY ";TableEndpoint=http://10.0.0.1/a;"
        "QueueEndpoint=http://10.0.0.1:81/a";
    static const char *const local[] = {
        "localhost:10002", "127.9.9.9", "[::1]:10002"};
    struct account *account = NULL;
    struct err err;

    assert_int_equal(
        account_parse(slice_of(remote), false, &account, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "TableEndpoint is plain http"));
    assert_null(account);
    assert_ok(account_parse(slice_of(remote), true, &account, &err));
    assert_false(account->table.loopback);
    account_free(account);
    for (size_t i = 0; i < 3; i++) {
        struct buf text;

        buf_init(&text, 1024);
        buf_add_format(&text,
            "AccountName=a;AccountKey=" KEY ";TableEndpoint=http://%s/a",
            local[i]);
        account = parse(buf_text(&text));
        assert_true(account->table.loopback);
        account_free(account);
        buf_done(&text);
    }
}

TEST(wrong_strings_are_explained_without_secrets)
{
#define NAMED "AccountName=acct;AccountKey=" KEY ";"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "is empty"},
        {" \n", "is empty"},
        {"AccountName=acct", "neither AccountKey nor"},
        {"AccountKey=" KEY, "no AccountName"},
        {"AccountName=acct;AcountKey=" KEY, "did you mean AccountKey?"},
        {"AccountName=acct;" KEY, "an unknown part"},
        {"AccountName=acct;AccountKey", "without '='"},
        {"AccountName=acct;AccountKey=%%%" KEY, "AccountKey in the"},
        {"AccountName=acct;AccountKey=c2VjcmV0LWtleS1ieXRlcw",
            "AccountKey in the"},
        {"AccountName=a/b;AccountKey=" KEY, "AccountName in the"},
        {NAMED "AccountKey=" KEY, "AccountKey twice"},
        {NAMED "TableEndpoint=acct.example", "must begin with https://"},
        {NAMED "TableEndpoint=https://", "TableEndpoint is not an address"},
        {NAMED "TableEndpoint=https://user:secret@h", "is not an address"},
        {NAMED "TableEndpoint=https://h:99999", "is not an address"},
        {NAMED "TableEndpoint=https://h/?sv=1&sig=secret", "is not an address"},
        {NAMED "QueueEndpoint=http://127.evil.example", "is plain http"},
        {NAMED "DefaultEndpointsProtocol=http", "is plain http"},
        {NAMED "DefaultEndpointsProtocol=ftp", "must begin with https://"},
        {"TableEndpoint=https://h;SharedAccessSignature=sv=1&secret=1",
            "no sig="},
        {"TableEndpoint=https://h;SharedAccessSignature=sig=secret x",
            "characters"},
        {"SharedAccessSignature=sig=secret", "neither TableEndpoint nor"},
        {"UseDevelopmentStorage=false", "only be true"},
        {"UseDevelopmentStorage=true;AccountKey=" KEY,
            "it excludes AccountName"},
        {"UseDevelopmentStorage=true;AccountName=a", "it excludes AccountName"},
        {"UseDevelopmentStorage=true;SharedAccessSignature=sig=secret",
            "it excludes AccountName"},
        {"AccountName=acct;AccountKey=", "neither AccountKey nor"},
        {"AccountName=acct;AccountKey==", "AccountKey in the"},
        {"AccountName=;AccountKey=" KEY, "no AccountName"},
        {"AccountName=a2345678901234567890123456789012345678901234567890123456"
         "789012345;AccountKey=" KEY,
            "AccountName in the"},
        {"TableEndpoint=https://h;SharedAccessSignature=?", "no sig="},
        {NAMED "TableEndpoint=https://h^", "is not an address"},
        {NAMED "Endpoint=x", "an unknown part"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct account *account = NULL;
        struct err err = {""};

        assert_int_equal(
            account_parse(slice_of(cases[i].text), false, &account, &err),
            TW_INVALID);
        assert_null(account);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("'%s': '%s'", cases[i].text, err.text);
        assert_null(strstr(err.text, "c2VjcmV0"));
        assert_null(strstr(err.text, "secret"));
    }
}

TEST(the_emulator_may_be_elsewhere)
{
    struct account *account =
        parse("UseDevelopmentStorage=true;TableEndpoint=http://localhost:1/d;"
              "QueueEndpoint=http://localhost:2/d");

    assert_string_equal(account->table.origin, "http://localhost:1");
    assert_string_equal(account->queue.origin, "http://localhost:2");
    account_free(account);
}

TEST(a_sas_may_begin_as_a_query_does)
{
    struct account *account =
        parse("TableEndpoint=https://h;SharedAccessSignature=?sig=x");

    assert_string_equal(account->sas, "sig=x");
    account_free(account);
}

/* A key of more bytes than any account has. */
TEST(what_cannot_be_a_connection_string_is_said)
{
    struct account *account = NULL;
    char *text = test_malloc(70001);
    struct err err;

    memset(text, 'A', 70000);
    text[70000] = '\0';
    assert_int_equal(
        account_parse(slice_of(text), false, &account, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "is too long"));
    memcpy(text, "AccountName=a;AccountKey=", 25);
    text[25 + 4000] = '\0';
    assert_int_equal(
        account_parse(slice_of(text), false, &account, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "AccountKey in the"));
    assert_int_equal(account_parse((struct slice){"AccountName=a\0b", 15},
                         false, &account, &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "NUL byte"));
    test_free(text);
}

/* A connection string, and the text that a function makes of it; or NULL. */
struct text_case {
    const char *connection_string, *text;
};

static void expect_text(char *(*make)(const struct account *account),
    const struct text_case *wanted)
{
    struct account *account;
    struct err err;
    char *text;

    assert_ok(account_parse(
        slice_of(wanted->connection_string), false, &account, &err));
    text = make(account);
    if (wanted->text)
        assert_string_equal(text, wanted->text);
    else
        assert_null(text);
    mem_free(text);
    account_free(account);
}

TEST(the_name_of_an_account_is_known_under_each_host)
{
    static const struct text_case cases[] = {
        {"AccountName=Acct;AccountKey=a2V5;"
         "TableEndpoint=https://tables.example.org",
            "acct"},
        {"SharedAccessSignature=sv=1&sig=s;"
         "TableEndpoint=https://Acct.table.core.windows.net",
            "acct"},
        {"SharedAccessSignature=sv=1&sig=s;"
         "TableEndpoint=https://acct-secondary.table.core.windows.net:443",
            "acct"},
        {"SharedAccessSignature=sv=1&sig=s;"
         "TableEndpoint=https://acct.tables.example.org",
            NULL},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        expect_text(account_public_name, &cases[i]);
}

TEST(an_account_has_one_text_under_all_of_its_hosts)
{
    static const struct text_case cases[] = {
        {"AccountName=Acct;AccountKey=a2V5;EndpointSuffix=core.windows.net",
            "acct in core.windows.net"},
        {"AccountName=acct;AccountKey=a2V5;"
         "TableEndpoint=https://acct-secondary.table.core.windows.net:443",
            "acct in core.windows.net"},
        {"AccountName=acct;AccountKey=a2V5;"
         "TableEndpoint=https://tables.example.org",
            "acct in core.windows.net"},
        {"AccountName=acct;AccountKey=a2V5;"
         "TableEndpoint=https://10.0.0.4:8443",
            "acct in core.windows.net"},
        {"AccountName=acct;AccountKey=a2V5;"
         "TableEndpoint=https://127.0.0.1:10002/acct",
            "acct in an emulator"},
        {"AccountName=acct;AccountKey=a2V5;"
         "EndpointSuffix=core.chinacloudapi.cn",
            "acct in core.chinacloudapi.cn"},
        {"UseDevelopmentStorage=true", "127.0.0.1:10002/devstoreaccount1"},
        {"SharedAccessSignature=sv=1&sig=s;"
         "TableEndpoint=https://acct.tables.example.org",
            NULL},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        expect_text(account_in_cloud, &cases[i]);
}
