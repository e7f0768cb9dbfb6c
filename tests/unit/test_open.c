/* SPDX-License-Identifier: MIT */
/* Stores from the configuration: the ways to give credentials, and the errors
 * of wrong combinations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/text_file.h"
#include "worker/store/open.h"
#include "worker/store/store.h"

/* The emulator's key, which is public. */
#define KEY                                                                    \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTO"  \
    "tr/KBHBeksoGMGw=="
#define SAS "sv=2019-02-02&ss=qt&srt=sco&sp=rwdlacup&sig=c2VjcmV0c2VjcmV0"
#define CLIENT "11111111-2222-3333-4444-555555555555"

struct fixture {
    struct arena arena;
    struct problems problems;
    char folder[1000];
};

static void init(struct fixture *fixture)
{
    arena_init(&fixture->arena);
    problems_init(&fixture->problems);
    assert_non_null(getcwd(fixture->folder, sizeof(fixture->folder)));
}

static void done(struct fixture *fixture)
{
    problems_done(&fixture->problems);
    arena_done(&fixture->arena);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *fixture)

static struct store_config *load(struct fixture *fixture, const char *text)
{
    struct yaml_node *node = yaml_read(
        "t.yaml", slice_of(text), &fixture->arena, &fixture->problems);

    assert_non_null(node);
    return store_config_load(
        "cloud", node, fixture->folder, &fixture->arena, &fixture->problems);
}

FIXTURE_TEST(relative_paths_start_at_the_folder)
{
    struct store_config *config;

    strcpy(fixture->folder, "/var/lib/x");
    config = load(fixture, "embedded: a/b.db\n");
    assert_non_null(config);
    assert_string_equal(config->name, "cloud");
    assert_false(config->is_azure);
    assert_string_equal(config->path.at, "/var/lib/x/a/b.db");
    config = load(fixture, "embedded: /tmp/b.db\n");
    assert_string_equal(config->path.at, "/tmp/b.db");
    config = load(fixture, "azure: {connection_string_file: storage}\n");
    assert_true(config->is_azure);
    assert_string_equal(
        config->connection_string_file.at, "/var/lib/x/storage");
}

static const struct {
    const char *text;
    unsigned line, column;
    const char *problem;
} wrong[] = {
    {"{}\n", 1, 1,
        "store cloud needs either embedded (a file) or azure (a map)"},
    {"embedded: a.db\nazure: {connection_string: x}\n", 1, 1,
        "store cloud needs either embedded (a file) or azure (a map)"},
    {"embeded: a.db\n", 1, 1,
        "unknown key 'embeded' in store cloud, did you mean 'embedded'?"},
    {"embedded: [a.db]\n", 1, 11, "embedded must be a text, not a list"},
    {"embedded: ''\n", 1, 11, "embedded is empty"},
    {"- embedded\n", 1, 1, "store cloud must be a map of keys, not a list"},
    {"azure: x\n", 1, 8, "azure must be a map of keys, not 'x'"},
    {"azure: {}\n", 1, 8,
        "azure needs one of connection_string, connection_string_file, or "
        "account with key_file, sas_file or identity"},
    {"azure: {account: abc}\n", 1, 8,
        "azure needs one of connection_string, connection_string_file, or "
        "account with key_file, sas_file or identity"},
    {"azure: {connection_string: a, connection_string_file: b}\n", 1, 8,
        "azure needs only one of connection_string, connection_string_file, "
        "or account with key_file, sas_file or identity"},
    {"azure: {account: abc, key_file: a, sas_file: b}\n", 1, 8,
        "azure needs only one of connection_string, connection_string_file, "
        "or account with key_file, sas_file or identity"},
    {"azure: {key_file: b}\n", 1, 8, "key_file needs `account` too"},
    {"azure:\n  connection_string: x\n  account: abc\n", 3, 12,
        "account is only for key_file, sas_file or identity; a connection "
        "string contains the account already"},
    {"azure: {account: My_Account, key_file: b}\n", 1, 18,
        "account must be 3 to 24 lower-case letters and digits, not "
        "'My_Account'"},
    {"azure: {account: abc, identity: yes}\n", 1, 33,
        "identity must be managed or workload, not 'yes'"},
    {"azure: {identity: managed}\n", 1, 8, "identity needs `account` too"},
    {"azure: {account: abc, identity: managed, sas_file: a}\n", 1, 8,
        "azure needs only one of connection_string, connection_string_file, "
        "or account with key_file, sas_file or identity"},
    {"azure: {account: abc, identity: managed, client_id: me}\n", 1, 53,
        "client_id must be a GUID, as the portal shows it, not 'me'"},
    {"azure: {account: abc, key_file: a, client_id: " CLIENT "}\n", 1, 47,
        "client_id is only for identity"},
    {"azure: {account: abc, identity: managed, allow_http: true}\n", 1, 33,
        "allow_http cannot be used with identity: an access token is sent "
        "only over https, or to this host"},
    {"azure: {account: abc, key_file: a, endpoint_suffix: a/b}\n", 1, 53,
        "endpoint_suffix must be a name such as core.windows.net, not 'a/b'"},
    {"azure: {connection_string: x, endpoint_suffix: core.windows.net}\n", 1,
        48,
        "endpoint_suffix is only for account; a connection string contains it "
        "already"},
    {"azure: {connection_string: x, allow_http: yes}\n", 1, 43,
        "allow_http must be true or false, not 'yes'"},
    {"azure: {conection_string: x}\n", 1, 9,
        "unknown key 'conection_string' in azure, did you mean "
        "'connection_string'?"},
};

FIXTURE_TEST(a_wrong_entry_is_refused_at_its_place)
{
    for (size_t i = 0; TEST_EACH(i, wrong); i++) {
        done(fixture);
        init(fixture);
        assert_null(load(fixture, wrong[i].text));
        assert_int_equal(fixture->problems.errors, 1);
        assert_string_equal(fixture->problems.list[0].text, wrong[i].problem);
        assert_int_equal(fixture->problems.list[0].mark.line, wrong[i].line);
        assert_int_equal(
            fixture->problems.list[0].mark.column, wrong[i].column);
    }
}

FIXTURE_TEST(an_unset_variable_is_an_error_only_at_opening)
{
    struct store_config *config;
    struct store *store = NULL;
    struct err err;

    unsetenv("NOT_SET_HERE");
    config = load(fixture,
        "azure:\n  connection_string_file: \"${NOT_SET_HERE}/storage\"\n");
    assert_non_null(config);
    assert_string_equal(config->unset, "NOT_SET_HERE");
    assert_int_equal(store_open(config, &store, &err), TW_INVALID);
    assert_string_equal(err.text,
        "store cloud: the environment variable NOT_SET_HERE, which its "
        "configuration names, is not set");
    assert_null(store);
}

/* Opens the store of the entry. Returns the error text, or "". */
static const char *try_open(
    struct fixture *fixture, const char *text, struct err *err)
{
    struct store_config *config = load(fixture, text);
    struct store *store = NULL;

    assert_non_null(config);
    err->text[0] = '\0';
    if (store_open(config, &store, err) == TW_OK)
        store_close(store);
    else
        assert_null(store);
    return err->text;
}

FIXTURE_TEST(the_embedded_file_is_created)
{
    struct err err;
    struct stat about;

    assert_string_equal(try_open(fixture, "embedded: new.db\n", &err), "");
    assert_int_equal(stat("new.db", &about), 0);
}

FIXTURE_TEST(an_embedded_file_in_no_folder_is_refused)
{
    struct err err;

    assert_non_null(strstr(
        try_open(fixture, "embedded: nowhere/new.db\n", &err), "nowhere"));
}

FIXTURE_TEST(every_way_to_name_credentials_opens)
{
    static const char cloud[] =
        "\n DefaultEndpointsProtocol=https;AccountName=abc;AccountKey=" KEY
        ";EndpointSuffix=core.windows.net \r\n";
    struct err err;

    text_file_write("whole", cloud);
    text_file_write("key", KEY "\n");
    text_file_write("sas", "?" SAS "\n");
    setenv("EMULATOR", "UseDevelopmentStorage=true", 1);
    assert_string_equal(
        try_open(fixture, "azure: {connection_string_file: whole}\n", &err),
        "");
    assert_string_equal(
        try_open(
            fixture, "azure: {connection_string: \"${EMULATOR}\"}\n", &err),
        "");
    assert_string_equal(
        try_open(fixture, "azure: {account: abc, key_file: key}\n", &err), "");
    assert_string_equal(
        try_open(fixture, "azure: {account: abc, sas_file: sas}\n", &err), "");
}

/* Checks the endpoint and the credentials of the store of the entry. */
static void check_open(struct fixture *fixture, const char *text,
    const char *endpoint, const char *acts_as)
{
    struct store_config *config = load(fixture, text);
    struct store *store = NULL;
    struct err err = {""};

    assert_non_null(config);
    if (store_open(config, &store, &err) != TW_OK)
        fail_msg("%s", err.text);
    assert_string_equal(store->capabilities.endpoint, endpoint);
    if (acts_as)
        assert_string_equal(store->capabilities.acts_as, acts_as);
    else
        assert_null(store->capabilities.acts_as);
    store_close(store);
}

#define MACHINE "of this machine (169.254.169.254 port 80)"

FIXTURE_TEST(an_identity_opens_with_an_account_or_with_endpoints)
{
    struct err err;

    check_open(fixture, "azure: {account: abc, identity: managed}\n",
        "https://abc.table.core.windows.net", "managed identity " MACHINE);
    check_open(fixture,
        "azure: {account: abc, identity: managed, client_id: " CLIENT
        ", endpoint_suffix: core.chinacloudapi.cn}\n",
        "https://abc.table.core.chinacloudapi.cn",
        "managed identity " CLIENT " " MACHINE);
    check_open(fixture,
        "azure: {identity: managed, connection_string: "
        "'TableEndpoint=http://127.0.0.1:10002/abc'}\n",
        "http://127.0.0.1:10002/abc", "managed identity " MACHINE);
    assert_non_null(strstr(
        try_open(fixture, "azure: {account: abc, identity: workload}\n", &err),
        "store cloud: identity: workload needs the environment variable "
        "AZURE_FEDERATED_TOKEN_FILE"));
}

FIXTURE_TEST(an_account_of_another_cloud_has_its_suffix)
{
    text_file_write("key", KEY);
    text_file_write("sas", SAS);
    check_open(fixture,
        "azure: {account: abc, key_file: key, endpoint_suffix: "
        "core.usgovcloudapi.net}\n",
        "https://abc.table.core.usgovcloudapi.net", NULL);
    check_open(fixture,
        "azure: {account: abc, sas_file: sas, endpoint_suffix: "
        "core.usgovcloudapi.net}\n",
        "https://abc.table.core.usgovcloudapi.net", NULL);
    check_open(fixture, "azure: {account: abc, sas_file: sas}\n",
        "https://abc.table.core.windows.net", NULL);
}

FIXTURE_TEST(a_file_that_is_no_credential_is_named_but_not_shown)
{
    char large[9000];
    struct err err;

    memset(large, 'a', sizeof(large));
    text_file_write_bytes("large", large, sizeof(large));
    text_file_write("empty", " \n");
    text_file_write("two", "secretone\nsecrettwo\n");
    text_file_write_bytes("nul", "secret\0x", 8);
    text_file_write("both", "AccountName=abc;AccountKey=c2VjcmV0");
    assert_non_null(strstr(
        try_open(fixture, "azure: {connection_string_file: gone}\n", &err),
        "/gone: No such file"));
    assert_non_null(
        strstr(try_open(fixture, "azure: {connection_string_file: .}\n", &err),
            "Is a directory"));
    assert_non_null(strstr(
        try_open(fixture, "azure: {connection_string_file: large}\n", &err),
        "/large has 8192 bytes or more"));
    assert_non_null(strstr(
        try_open(fixture, "azure: {connection_string_file: empty}\n", &err),
        "/empty is empty"));
    assert_non_null(strstr(
        try_open(fixture, "azure: {connection_string_file: two}\n", &err),
        "/two is not one line"));
    assert_null(strstr(err.text, "secret"));
    assert_non_null(strstr(
        try_open(fixture, "azure: {account: abc, sas_file: nul}\n", &err),
        "/nul is not one line"));
    assert_non_null(strstr(
        try_open(fixture, "azure: {account: abc, key_file: both}\n", &err),
        "/both holds more than a key"));
    assert_null(strstr(err.text, "c2VjcmV0"));
}

FIXTURE_TEST(http_is_refused_but_to_this_host_or_on_demand)
{
    struct err err;

#define HTTP                                                                   \
    "azure:\n  connection_string: AccountName=abc;AccountKey=" KEY             \
    ";TableEndpoint=http://example.com/abc;"                                   \
    "QueueEndpoint=http://example.com/abcq\n"
    assert_string_not_equal(try_open(fixture, HTTP, &err), "");
    assert_null(strstr(err.text, "Eby8"));
    assert_string_equal(
        try_open(fixture, HTTP "  allow_http: true\n", &err), "");
#undef HTTP
}

FIXTURE_TEST(a_wrong_connection_string_does_not_show_its_key)
{
    struct err err;

    assert_string_not_equal(
        try_open(fixture,
            "azure: {connection_string: 'AccountName=abc;AccountKey=sec ret'}",
            &err),
        "");
    assert_memory_equal(err.text, "store cloud: ", 13);
    assert_null(strstr(err.text, "sec ret"));
}
