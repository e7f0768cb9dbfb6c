/* SPDX-License-Identifier: MIT */
/* Connection strings: what they mean, and the errors of wrong ones. */
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/store/azure/account.h"

#define KEY "c2VjcmV0LWtleS1ieXRlcw==" /* "secret-key-bytes" */
/* The well-known account key of the emulator. */
#define EMULATOR_KEY                                                           \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTO"  \
    "tr/KBHBeksoGMGw=="

static struct account *parse(const char *text)
{
    struct account *account = NULL;
    struct err err = {""};

    if (account_parse(slice_of(text), false, &account, &err) != TW_OK)
        fail_msg("%s: %s", text, err.text);
    return account;
}

/* Fails unless the text is `wanted`; NULL: there must be no text. */
static void check_text_of(const char *text, const char *wanted)
{
    if (wanted)
        assert_string_equal(text, wanted);
    else
        assert_null(text);
}

TEST(a_string_says_name_and_endpoints)
{
    static const struct {
        const char *title, *text, *name, *table, *path, *peer, *queue, *sas;
        bool loopback, cosmos;
    } cases[] = {
        {"the emulator", "UseDevelopmentStorage=true", "devstoreaccount1",
            "http://127.0.0.1:10002", "/devstoreaccount1",
            "127.0.0.1 port 10002", "http://127.0.0.1:10001", NULL, true,
            false},
        {"the emulator elsewhere",
            "UseDevelopmentStorage=true;TableEndpoint=http://localhost:1/d;"
            "QueueEndpoint=http://localhost:2/d",
            "devstoreaccount1", "http://localhost:1", "/d", "localhost port 1",
            "http://localhost:2", NULL, true, false},
        {"http on this host, whatever its address",
            "AccountName=a;AccountKey=" KEY ";TableEndpoint=http://127.9.9.9/a;"
            "QueueEndpoint=http://[::1]:10001/a",
            "a", "http://127.9.9.9", "/a", "127.9.9.9 port 80",
            "http://[::1]:10001", NULL, true, false},
        {"endpoints of name and suffix",
            "AccountName=acct;AccountKey=" KEY
            ";EndpointSuffix=core.chinacloudapi.cn",
            "acct", "https://acct.table.core.chinacloudapi.cn", "",
            "acct.table.core.chinacloudapi.cn port 443",
            "https://acct.queue.core.chinacloudapi.cn", NULL, false, false},
        {"names in any case, with blanks and other services",
            "  defaultendpointsprotocol = https ; ACCOUNTNAME= acct ;\n"
            "AccountKey=" KEY ";BlobEndpoint=https://b.example/;"
            "TableEndpoint=https://t.example:8443/x/;;"
            "TableSecondaryEndpoint=https://s.example;",
            "acct", "https://t.example:8443", "/x", "t.example port 8443",
            "https://acct.queue.core.windows.net", NULL, false, false},
        {"a SAS in place of a key",
            "TableEndpoint=https://t.example;SharedAccessSignature="
            "?sv=2019-02-02&ss=qt&se=2035-01-01T00%3A00%3A00Z&sig=%2FvlNC%3D",
            NULL, "https://t.example", "", "t.example port 443", NULL,
            "sv=2019-02-02&ss=qt&se=2035-01-01T00%3A00%3A00Z&sig=%2FvlNC%3D",
            false, false},
        {"a SAS that begins as a query does, and no more",
            "TableEndpoint=https://h;SharedAccessSignature=?sig=x", NULL,
            "https://h", "", "h port 443", NULL, "sig=x", false, false},
        {"a SAS with a name",
            "AccountName=acct;SharedAccessSignature=sv=1&sig=abc", "acct",
            "https://acct.table.core.windows.net", "",
            "acct.table.core.windows.net port 443",
            "https://acct.queue.core.windows.net", "sv=1&sig=abc", false,
            false},
        {"Cosmos DB, which has no queues",
            "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" KEY
            ";TableEndpoint=https://acct.table.cosmos.azure.com:443/;",
            "acct", "https://acct.table.cosmos.azure.com:443", "",
            "acct.table.cosmos.azure.com port 443", NULL, NULL, false, true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct account *account = parse(cases[i].text);

        test_case("%s", cases[i].title);
        check_text_of(account->name, cases[i].name);
        assert_string_equal(account->table.origin, cases[i].table);
        assert_string_equal(account->table.path, cases[i].path);
        assert_string_equal(account->table.peer, cases[i].peer);
        check_text_of(account->queue.origin, cases[i].queue);
        check_text_of(account->sas, cases[i].sas);
        assert_int_equal(account->key == NULL, cases[i].sas != NULL);
        assert_int_equal(account->table.loopback, cases[i].loopback);
        assert_int_equal(account->cosmos, cases[i].cosmos);
        account_free(account);
    }
}

TEST(the_emulator_has_its_key)
{
    struct account *emulator = parse("UseDevelopmentStorage=true");
    struct account *same = parse("AccountName=a;AccountKey=" EMULATOR_KEY);
    unsigned char digests[2][CRYPTO_SHA256_BYTES];

    crypto_hmac(emulator->key, slice_of("text"), digests[0]);
    crypto_hmac(same->key, slice_of("text"), digests[1]);
    assert_memory_equal(digests[0], digests[1], CRYPTO_SHA256_BYTES);
    account_free(emulator);
    account_free(same);
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
        {NAMED "TableEndpoint=https://", "TableEndpoint must be an address"},
        {NAMED "TableEndpoint=https://user:secret@h", "must be an address"},
        {NAMED "TableEndpoint=https://h:99999", "must be an address"},
        {NAMED "TableEndpoint=https://h/?sv=1&sig=secret",
            "must be an address"},
        {NAMED "TableEndpoint=http://10.0.0.1/a",
            "TableEndpoint is plain http"},
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
        {NAMED "TableEndpoint=https://h^", "must be an address"},
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

TEST(what_cannot_be_a_connection_string_is_said)
{
    struct account *account = NULL;
    char *text = test_malloc(70001);
    struct err err;

    memset(text, 'A', 70000);
    text[70000] = '\0';
    assert_fails(account_parse(slice_of(text), false, &account, &err),
        TW_INVALID, &err, "is longer than 64 KiB");
    memcpy(text, "AccountName=a;AccountKey=", 25);
    text[25 + 4000] = '\0';
    assert_fails(account_parse(slice_of(text), false, &account, &err),
        TW_INVALID, &err, "AccountKey in the");
    assert_fails(account_parse((struct slice){"AccountName=a\0b", 15}, false,
                     &account, &err),
        TW_INVALID, &err, "NUL byte");
    test_free(text);
}

TEST(an_account_has_one_text_under_all_of_its_hosts)
{
    static const struct {
        const char *connection_string, *text; /* text NULL: none */
    } cases[] = {
        {"AccountName=Acct;AccountKey=a2V5;EndpointSuffix=core.windows.net",
            "acct in core.windows.net"},
        {"AccountName=acct;AccountKey=a2V5;"
         "TableEndpoint=https://acct-secondary.table.core.windows.net:443",
            "acct in core.windows.net"},
        {"SharedAccessSignature=sv=1&sig=s;"
         "TableEndpoint=https://Acct.table.core.windows.net",
            "acct in core.windows.net"},
        {"SharedAccessSignature=sv=1&sig=s;"
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

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct account *account = parse(cases[i].connection_string);
        char *text = account_in_cloud(account);

        check_text_of(text, cases[i].text);
        mem_free(text);
        account_free(account);
    }
}
