/* SPDX-License-Identifier: MIT */
/* Stores from the configuration: the ways to give credentials, and the errors
 * of invalid combinations. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/config_text.h"
#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/store/open.h"
#include "worker/store/store.h"

/* The well-known account key of the emulator. */
#define KEY                                                                    \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTO"  \
    "tr/KBHBeksoGMGw=="
#define SAS "sv=2019-02-02&ss=qt&srt=sco&sp=rwdlacup&sig=c2VjcmV0c2VjcmV0"
#define CLIENT "11111111-2222-3333-4444-555555555555"

static struct store_config *load_in(
    struct config_text *c, const char *folder, const char *text)
{
    return store_config_load("cloud", config_text_read_good(c, text), folder,
        &c->arena, &c->problems);
}

static struct store_config *load(struct config_text *c, const char *text)
{
    static char here[1000];

    assert_non_null(getcwd(here, sizeof(here)));
    return load_in(c, here, text);
}

CONFIG_TEST(relative_paths_start_at_the_folder)
{
    struct store_config *config =
        load_in(c, "/var/lib/x", "embedded: a/b.db\n");

    assert_non_null(config);
    assert_string_equal(config->name, "cloud");
    assert_false(config->is_azure);
    assert_string_equal(config->path.at, "/var/lib/x/a/b.db");
    config = load_in(c, "/var/lib/x", "embedded: /tmp/b.db\n");
    assert_string_equal(config->path.at, "/tmp/b.db");
    config =
        load_in(c, "/var/lib/x", "azure: {connection_string_file: storage}\n");
    assert_true(config->is_azure);
    assert_string_equal(
        config->connection_string_file.at, "/var/lib/x/storage");
}

#define WAYS                                                                   \
    " of `connection_string:`, `connection_string_file:`, or `account:` with " \
    "`key_file:`, `sas_file:` or `identity:`"
#define NEEDS_ONE "`azure:` needs one" WAYS
#define NEEDS_ONLY_ONE "`azure:` needs only one" WAYS

#define MUST_BE_A_PATH                                                         \
    "must be the path of a file, not a connection string or a SAS: a "         \
    "connection string is the value of `connection_string:`"

static const struct {
    const char *text;
    unsigned line, column;
    const char *problem;
} wrong[] = {
    {"azure: 'AccountName=a;AccountKey=b2s='\n", 1, 8,
        "azure must be a map of keys, not the text "
        "'AccountName=a;AccountKey=****'"},
    {"azure: {connection_string_file: 'AccountName=a;AccountKey=b2s='}\n", 1,
        33, "`connection_string_file:` " MUST_BE_A_PATH},
    {"azure: {account: abc, sas_file: '" SAS "'}\n", 1, 33,
        "`sas_file:` " MUST_BE_A_PATH},
    {"embedded: 'AccountName=a;AccountKey=b2s='\n", 1, 11,
        "`embedded:` " MUST_BE_A_PATH},
    {"{}\n", 1, 1,
        "store cloud needs either `embedded:` (a file) or `azure:` (a map)"},
    {"embedded: a.db\nazure: {connection_string: x}\n", 1, 1,
        "store cloud needs either `embedded:` (a file) or `azure:` (a map)"},
    {"embeded: a.db\n", 1, 1,
        "unknown key 'embeded' in store cloud, did you mean 'embedded'?"},
    {"embedded: [a.db]\n", 1, 11, "embedded must be a text, not a list"},
    {"embedded: ''\n", 1, 11, "`embedded:` is empty"},
    {"- embedded\n", 1, 1, "store cloud must be a map of keys, not a list"},
    {"azure: x\n", 1, 8, "azure must be a map of keys, not 'x'"},
    {"azure: {}\n", 1, 8, NEEDS_ONE},
    {"azure: {account: abc}\n", 1, 8, NEEDS_ONE},
    {"azure: {connection_string: a, connection_string_file: b}\n", 1, 8,
        NEEDS_ONLY_ONE},
    {"azure: {account: abc, key_file: a, sas_file: b}\n", 1, 8, NEEDS_ONLY_ONE},
    {"azure: {key_file: b}\n", 1, 8, "`key_file:` needs `account:` too"},
    {"azure:\n  connection_string: x\n  account: abc\n", 3, 12,
        "`account:` is only for `key_file:`, `sas_file:` or `identity:`; a "
        "connection string contains the account already"},
    {"azure: {account: My_Account, key_file: b}\n", 1, 18,
        "account must be 3 to 24 lower-case letters and digits, not "
        "'My_Account'"},
    {"azure: {account: abc, identity: yes}\n", 1, 33,
        "identity must be managed or workload, not 'yes'"},
    {"azure: {identity: managed}\n", 1, 8, "`identity:` needs `account:` too"},
    {"azure: {account: abc, identity: managed, sas_file: a}\n", 1, 8,
        NEEDS_ONLY_ONE},
    {"azure: {account: abc, identity: managed, client_id: me}\n", 1, 53,
        "client_id must be a GUID, as the portal shows it, not 'me'"},
    {"azure: {account: abc, key_file: a, client_id: " CLIENT "}\n", 1, 47,
        "`client_id:` is only for `identity:`"},
    {"azure: {account: abc, identity: managed, allow_http: true}\n", 1, 33,
        "`allow_http:` cannot be used with `identity:`: an access token is "
        "sent only over https, or to this host"},
    {"azure: {account: abc, key_file: a, endpoint_suffix: a/b}\n", 1, 53,
        "endpoint_suffix must be a name such as core.windows.net, not 'a/b'"},
    {"azure: {connection_string: x, endpoint_suffix: core.windows.net}\n", 1,
        48,
        "`endpoint_suffix:` is only for `account:`; a connection string "
        "contains the suffix already"},
    {"azure: {connection_string: x, allow_http: yes}\n", 1, 43,
        "allow_http must be true or false, not 'yes'"},
    {"azure: {conection_string: x}\n", 1, 9,
        "unknown key 'conection_string' in azure, did you mean "
        "'connection_string'?"},
};

CONFIG_TEST(a_wrong_entry_is_refused_at_its_place)
{
    for (size_t i = 0; TEST_EACH(i, wrong); i++) {
        config_text_renew(c);
        assert_null(load(c, wrong[i].text));
        config_text_check_only(
            c, wrong[i].line, wrong[i].column, wrong[i].problem);
    }
}

CONFIG_TEST(an_unset_variable_is_an_error_only_at_opening)
{
    struct store_config *config;
    struct store *store = NULL;
    struct err err;

    unsetenv("NOT_SET_HERE");
    config = load(
        c, "azure:\n  connection_string_file: \"${NOT_SET_HERE}/storage\"\n");
    assert_non_null(config);
    assert_string_equal(config->unset, "NOT_SET_HERE");
    assert_fails(store_open(config, &store, &err), TW_INVALID, &err,
        "store cloud: the environment variable NOT_SET_HERE, which its "
        "configuration names, is not set");
    assert_null(store);
}

/* Opens the store that `text` configures. It must have the endpoint `endpoint`
 * (NULL: not compared) and the credentials `acts_as` (NULL: none). */
static void expect_open(struct config_text *c, const char *text,
    const char *endpoint, const char *acts_as)
{
    struct store *store = NULL;
    struct err err = {""};

    if (store_open(load(c, text), &store, &err) != TW_OK)
        fail_msg("%s: %s", text, err.text);
    if (endpoint)
        assert_string_equal(store->capabilities.endpoint, endpoint);
    if (acts_as)
        assert_string_equal(store->capabilities.acts_as, acts_as);
    else
        assert_null(store->capabilities.acts_as);
    store_close(store);
}

/* Fails unless the store is refused with an error that contains `says` and no
 * part of a secret. */
static void expect_refused(
    struct config_text *c, const char *text, const char *says)
{
    static const char *const SECRETS[] = {
        "secret", "c2VjcmV0", "Eby8", "sec r"};
    struct store *store = NULL;
    struct err err = {""};

    assert_int_not_equal(store_open(load(c, text), &store, &err), TW_OK);
    assert_null(store);
    assert_contains(err.text, says);
    for (size_t i = 0; i < sizeof(SECRETS) / sizeof(SECRETS[0]); i++)
        assert_null(strstr(err.text, SECRETS[i]));
}

CONFIG_TEST(the_embedded_file_is_created)
{
    expect_open(c, "embedded: new.db\n", NULL, NULL);
    assert_int_equal(access("new.db", F_OK), 0);
    expect_refused(c, "embedded: nowhere/new.db\n", "nowhere");
}

CONFIG_TEST(every_way_to_name_credentials_opens)
{
    static const char *const ways[] = {
        "azure: {connection_string_file: whole}\n",
        "azure: {connection_string: \"${EMULATOR}\"}\n",
        "azure: {account: abc, key_file: key}\n",
        "azure: {account: abc, sas_file: sas}\n",
    };

    text_file_write("whole",
        "\n DefaultEndpointsProtocol=https;AccountName=abc;AccountKey=" KEY
        ";EndpointSuffix=core.windows.net \r\n");
    text_file_write("key", KEY "\n");
    text_file_write("sas", "?" SAS "\n");
    setenv("EMULATOR", "UseDevelopmentStorage=true", 1);
    for (size_t i = 0; TEST_EACH(i, ways); i++)
        expect_open(c, ways[i], NULL, NULL);
}

#define MACHINE "of this machine (169.254.169.254 port 80)"

CONFIG_TEST(an_identity_opens_with_an_account_or_with_endpoints)
{
    expect_open(c, "azure: {account: abc, identity: managed}\n",
        "https://abc.table.core.windows.net", "managed identity " MACHINE);
    expect_open(c,
        "azure: {account: abc, identity: managed, client_id: " CLIENT
        ", endpoint_suffix: core.chinacloudapi.cn}\n",
        "https://abc.table.core.chinacloudapi.cn",
        "managed identity " CLIENT " " MACHINE);
    expect_open(c,
        "azure: {identity: managed, connection_string: "
        "'TableEndpoint=http://127.0.0.1:10002/abc'}\n",
        "http://127.0.0.1:10002/abc", "managed identity " MACHINE);
    expect_refused(c, "azure: {account: abc, identity: workload}\n",
        "store cloud: identity: workload needs the environment variable "
        "AZURE_FEDERATED_TOKEN_FILE");
}

CONFIG_TEST(an_account_of_another_cloud_has_its_suffix)
{
    text_file_write("key", KEY);
    text_file_write("sas", SAS);
    expect_open(c,
        "azure: {account: abc, key_file: key, endpoint_suffix: "
        "core.usgovcloudapi.net}\n",
        "https://abc.table.core.usgovcloudapi.net", NULL);
    expect_open(c,
        "azure: {account: abc, sas_file: sas, endpoint_suffix: "
        "core.usgovcloudapi.net}\n",
        "https://abc.table.core.usgovcloudapi.net", NULL);
    expect_open(c, "azure: {account: abc, sas_file: sas}\n",
        "https://abc.table.core.windows.net", NULL);
}

CONFIG_TEST(a_file_that_is_no_credential_is_named_but_not_shown)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"azure: {connection_string_file: gone}\n", "/gone: No such file"},
        {"azure: {connection_string_file: .}\n", "Is a directory"},
        {"azure: {connection_string_file: large}\n",
            "/large has 8192 bytes or more"},
        {"azure: {connection_string_file: empty}\n", "/empty is empty"},
        {"azure: {connection_string_file: two}\n", "/two must have one line"},
        {"azure: {account: abc, sas_file: nul}\n", "/nul must have one line"},
        {"azure: {account: abc, key_file: both}\n",
            "/both holds more than a key"},
        {"azure: {connection_string: 'AccountName=abc;AccountKey=sec ret'}\n",
            "store cloud: "},
    };
    char large[9000];

    memset(large, 'a', sizeof(large));
    text_file_write_bytes("large", large, sizeof(large));
    text_file_write("empty", " \n");
    text_file_write("two", "secretone\nsecrettwo\n");
    text_file_write_bytes("nul", "secret\0x", 8);
    text_file_write("both", "AccountName=abc;AccountKey=c2VjcmV0");
    for (size_t i = 0; TEST_EACH(i, cases); i++)
        expect_refused(c, cases[i].text, cases[i].says);
}

#define HTTP                                                                   \
    "azure:\n  connection_string: AccountName=abc;AccountKey=" KEY             \
    ";TableEndpoint=http://example.com/abc;"                                   \
    "QueueEndpoint=http://example.com/abcq\n"

CONFIG_TEST(http_is_refused_but_to_this_host_or_on_demand)
{
    expect_refused(c, HTTP, "plain http");
    expect_open(c, HTTP "  allow_http: true\n", NULL, NULL);
}
