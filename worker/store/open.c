/* SPDX-License-Identifier: MIT */
/*
 * One entry of `stores:`. An azure store is opened from a connection string,
 * which is composed here if the credential is of another kind. Files are read
 * when the store is opened, not with the configuration, so that `check` and
 * `jobs` need no files; but `check` reads those that are there.
 */
#include "worker/store/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/settings.h"
#include "worker/base/crypto.h"
#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/azure/azure.h"
#include "worker/store/azure/identity.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/meter.h"
#include "worker/store/store.h"

/* Maximum size of a credential's file. A connection string with a key has 200
 * bytes, a SAS perhaps 500. */
#define SECRET_MAX 8192
/* Maximum size of a connection string: a secret and the rest of the string. */
#define CONNECTION_STRING_MAX (SECRET_MAX + 1024)
#define WHAT_MAX 200
#define SUFFIX "core.windows.net"
/* Maximum length of endpoint_suffix: a connection string has room for it. */
#define SUFFIX_MAX 200

/* The keys of `azure:` as written; NULL if absent. */
struct azure_nodes {
    const struct yaml_node *connection_string, *connection_string_file;
    const struct yaml_node *account, *endpoint_suffix, *key_file, *sas_file;
    const struct yaml_node *identity, *client_id;
    bool allow_http;
};

#define AZURE_KEY(name, note)                                                  \
    {                                                                          \
        .key = #name, .type = SETTING_NODE,                                    \
        .offset = SETTING_FIELD(struct azure_nodes, name), .help = note        \
    }

static const struct setting azure_keys[] = {
    AZURE_KEY(connection_string, "the connection string itself"),
    AZURE_KEY(
        connection_string_file, "a file that contains the connection string"),
    AZURE_KEY(account, "the account's name, with key_file, sas_file or "
                       "identity"),
    AZURE_KEY(endpoint_suffix,
        "domain of the account in other clouds; default: core.windows.net"),
    AZURE_KEY(key_file, "a file that holds the account's key"),
    AZURE_KEY(sas_file, "a file that holds a shared access signature"),
    AZURE_KEY(identity, "managed (the identity of this machine or app) or "
                        "workload (the identity of this pod); needs no secret"),
    AZURE_KEY(client_id, "client id of the identity, if there are several; "
                         "default: $AZURE_CLIENT_ID"),
    {.key = "allow_http",
        .type = SETTING_BOOL,
        .offset = SETTING_FIELD(struct azure_nodes, allow_http),
        .fallback = "false",
        .help = "allow plain http to hosts other than this one"},
};

const struct settings_section open_azure_section =
    SETTINGS_SECTION("stores: azure", azure_keys);

struct store_nodes {
    const struct yaml_node *embedded, *azure;
};

static const struct setting store_keys[] = {
    {.key = "embedded",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct store_nodes, embedded),
        .help = "the SQLite file"},
    {.key = "azure",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct store_nodes, azure),
        .help = "how to reach the account"},
};

const struct settings_section open_store_section =
    SETTINGS_SECTION("stores: each one", store_keys);

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/* ---- from the configuration ---- */

/* Context shared by the readers of single keys. */
struct loading {
    struct store_config *config;
    const char *folder;
    struct arena *arena;
    struct problems *problems;
};

/* Reads a text. If the text names an environment variable that is not set, the
 * error is reported only when the store is opened (config->unset). False: the
 * text is absent or wrong. */
static bool load_text(const struct loading *loading,
    const struct yaml_node *node, const char *key, struct slice *ret)
{
    if (node == NULL)
        return false;
    if (node->type != YAML_SCALAR || settings_is_null(node)) {
        settings_wrong(loading->problems, node, key, "a text");
        return false;
    }
    if (!settings_text(node, false, loading->arena, ret,
            &loading->config->unset, loading->problems))
        return false;
    if (ret->len == 0 && loading->config->unset == NULL) {
        problems_add(loading->problems, node->mark, "`%s:` is empty", key);
        return false;
    }
    return true;
}

static void load_path(const struct loading *loading,
    const struct yaml_node *node, const char *key, struct slice *ret)
{
    struct slice path;
    char *masked;
    bool is_secret;

    if (!load_text(loading, node, key, &path))
        return;
    masked = mem_text(path.at, path.len);
    is_secret = text_mask_secrets(masked);
    mem_free(masked);
    if (is_secret) {
        problems_add(loading->problems, node->mark,
            "`%s:` must be the path of a file, not a connection string or a "
            "SAS: a connection string is the value of `connection_string:`",
            key);
        return;
    }
    *ret = path.len > 0 && path.at[0] == '/'
               ? path
               : arena_format(loading->arena, "%s/%.*s", loading->folder,
                     SLICE_ARG(path));
}

static bool is_account_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
    }
    return name.len >= 3 && name.len <= 24;
}

static void load_account(
    const struct loading *loading, const struct yaml_node *node)
{
    struct slice name;

    if (!load_text(loading, node, "account", &name))
        return;
    loading->config->account = name;
    if (loading->config->unset == NULL && !is_account_name(name))
        settings_wrong(loading->problems, node, "account",
            "3 to 24 lower-case letters and digits");
}

static bool is_host_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' &&
            c != '-')
            return false;
    }
    return name.len <= SUFFIX_MAX;
}

static void load_suffix(
    const struct loading *loading, const struct yaml_node *node)
{
    struct slice suffix;

    if (!load_text(loading, node, "endpoint_suffix", &suffix))
        return;
    loading->config->endpoint_suffix = suffix;
    if (loading->config->unset == NULL && !is_host_name(suffix))
        settings_wrong(loading->problems, node, "endpoint_suffix",
            "a name such as core.windows.net");
}

static void load_identity(
    const struct loading *loading, const struct yaml_node *node)
{
    struct slice text;

    if (!load_text(loading, node, "identity", &text))
        return;
    if (slice_is(text, "managed"))
        loading->config->identity = STORE_IDENTITY_MANAGED;
    else if (slice_is(text, "workload"))
        loading->config->identity = STORE_IDENTITY_WORKLOAD;
    else if (loading->config->unset == NULL)
        settings_wrong(
            loading->problems, node, "identity", "managed or workload");
}

static void load_client_id(
    const struct loading *loading, const struct yaml_node *node)
{
    struct slice id;

    if (!load_text(loading, node, "client_id", &id))
        return;
    loading->config->client_id = id;
    if (loading->config->unset == NULL && !text_is_guid(id))
        settings_wrong(loading->problems, node, "client_id",
            "a GUID, as the portal shows it");
}

/* Checks the keys that are valid only together with key_file, sas_file or
 * identity. */
static void check_account(const struct loading *loading,
    const struct yaml_node *map, const struct azure_nodes *nodes)
{
    const char *wants = nodes->key_file   ? "key_file"
                        : nodes->sas_file ? "sas_file"
                                          : "identity";
    bool has_string = nodes->connection_string || nodes->connection_string_file;
    struct problems *problems = loading->problems;

    if (!nodes->account && !has_string)
        problems_add(problems, map->mark, "`%s:` needs `account:` too", wants);
    else if (nodes->account && has_string)
        problems_add(problems, nodes->account->mark,
            "`account:` is only for `key_file:`, `sas_file:` or `identity:`; a "
            "connection string contains the account already");
    else if (nodes->endpoint_suffix && !nodes->account)
        problems_add(problems, nodes->endpoint_suffix->mark,
            "`endpoint_suffix:` is only for `account:`; a connection string "
            "contains the suffix already");
    if (nodes->client_id && !nodes->identity)
        problems_add(problems, nodes->client_id->mark,
            "`client_id:` is only for `identity:`");
    if (nodes->identity && nodes->allow_http)
        problems_add(problems, nodes->identity->mark,
            "`allow_http:` cannot be used with `identity:`: an access token is "
            "sent only over https, or to this host");
}

/* Checks that exactly one kind of credential is given. With identity, a
 * connection string is allowed too, because it only names the endpoints. */
static void check_way(const struct loading *loading,
    const struct yaml_node *map, const struct azure_nodes *nodes)
{
    const struct yaml_node *ways[] = {nodes->connection_string,
        nodes->connection_string_file, nodes->key_file, nodes->sas_file,
        nodes->identity};
    bool several;
    size_t count = 0;

    for (size_t i = 0; i < COUNT(ways); i++)
        count += ways[i] != NULL;
    several = count > 1 && !(count == 2 && nodes->identity &&
                               !nodes->key_file && !nodes->sas_file);
    if (count == 0 || several)
        problems_add(loading->problems, map->mark,
            "`azure:` needs %s `connection_string:`, "
            "`connection_string_file:`, or `account:` with `key_file:`, "
            "`sas_file:` or `identity:`",
            several ? "only one of" : "one of");
    else
        check_account(loading, map, nodes);
}

static void load_azure(
    const struct loading *loading, const struct yaml_node *map)
{
    struct azure_nodes nodes = {0};
    struct store_config *config = loading->config;

    config->is_azure = true;
    if (!settings_load(map, "azure", azure_keys, COUNT(azure_keys),
            loading->arena, &nodes, loading->problems))
        return;
    check_way(loading, map, &nodes);
    load_text(loading, nodes.connection_string, "connection_string",
        &config->connection_string);
    load_path(loading, nodes.connection_string_file, "connection_string_file",
        &config->connection_string_file);
    load_account(loading, nodes.account);
    load_path(loading, nodes.key_file, "key_file", &config->key_file);
    load_path(loading, nodes.sas_file, "sas_file", &config->sas_file);
    load_suffix(loading, nodes.endpoint_suffix);
    load_identity(loading, nodes.identity);
    load_client_id(loading, nodes.client_id);
    config->allow_http = nodes.allow_http;
}

struct store_config *store_config_load(const char *name,
    const struct yaml_node *node, const char *folder, struct arena *arena,
    struct problems *problems)
{
    struct store_config *config = arena_alloc(arena, sizeof(*config));
    struct loading loading = {config, folder, arena, problems};
    struct store_nodes nodes = {0};
    size_t errors = problems->errors;
    char what[WHAT_MAX];

    snprintf(what, sizeof(what), "store %s", name);
    config->name = arena_copy(arena, slice_of(name)).at;
    config->mark = node->mark;
    if (!settings_load(
            node, what, store_keys, COUNT(store_keys), arena, &nodes, problems))
        return NULL;
    if ((nodes.embedded == NULL) == (nodes.azure == NULL))
        problems_add(problems, node->mark,
            "%s needs either `embedded:` (a file) or `azure:` (a map)", what);
    else if (nodes.azure != NULL)
        load_azure(&loading, nodes.azure);
    else
        load_path(&loading, nodes.embedded, "embedded", &config->path);
    return problems->errors == errors ? config : NULL;
}

/* ---- opening ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && is_blank(text.at[text.len - 1]))
        text.len--;
    while (text.len > 0 && is_blank(*text.at)) {
        text.at++;
        text.len--;
    }
    return text;
}

/* Does text have only characters that a credential may have? Otherwise the file
 * is the wrong one. */
static bool is_one_line(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < ' ' || text.at[i] > '~')
            return false;
    return true;
}

/* Reads the only line of a credential's file into room. *ret: that line,
 * trimmed. */
static enum tw_err read_secret(const char *key, struct slice path,
    char room[SECRET_MAX], struct slice *ret, struct err *err)
{
    ssize_t len = file_read_and_close(
        open(path.at, O_RDONLY | O_CLOEXEC), room, SECRET_MAX);
    struct slice secret;

    if (len < 0)
        return err_fail(
            err, TW_INVALID, "%s %s: %s", key, path.at, strerror(errno));
    if (len == SECRET_MAX)
        return err_fail(err, TW_INVALID, "%s %s has %d bytes or more", key,
            path.at, SECRET_MAX);
    secret = trim((struct slice){room, (size_t)len});
    if (secret.len == 0)
        return err_fail(err, TW_INVALID, "%s %s is empty", key, path.at);
    if (!is_one_line(secret))
        return err_fail(err, TW_INVALID,
            "%s %s must have one line of printable ASCII characters", key,
            path.at);
    *ret = secret;
    return TW_OK;
}

static struct slice suffix_of(const struct store_config *config)
{
    return config->endpoint_suffix.len > 0 ? config->endpoint_suffix
                                           : slice_of(SUFFIX);
}

/* Composes AccountName=...;AccountKey=... with key. */
static enum tw_err compose_with_key(const struct store_config *config,
    struct slice key, char to[CONNECTION_STRING_MAX], struct slice *ret,
    struct err *err)
{
    int len;

    if (memchr(key.at, ';', key.len) != NULL)
        return err_fail(err, TW_INVALID,
            "key_file %s holds more than a key: for a connection string use "
            "connection_string_file",
            config->key_file.at);
    len = snprintf(to, CONNECTION_STRING_MAX,
        "DefaultEndpointsProtocol=https;AccountName=%s;EndpointSuffix=%.*s;"
        "AccountKey=%.*s",
        config->account.at, SLICE_ARG(suffix_of(config)), SLICE_ARG(key));
    *ret = (struct slice){to, (size_t)len};
    return TW_OK;
}

/* Puts a SAS into a connection string with explicit endpoints. */
static enum tw_err compose_with_sas(const struct store_config *config,
    struct slice sas, char to[CONNECTION_STRING_MAX], struct slice *ret,
    struct err *err)
{
    const char *account = config->account.at;
    struct slice suffix = suffix_of(config);
    int len;

    if (sas.at[0] == '?') /* a SAS copied from the portal begins with '?' */
        sas = (struct slice){sas.at + 1, sas.len - 1};
    if (memchr(sas.at, ';', sas.len) != NULL)
        return err_fail(err, TW_INVALID,
            "sas_file %s holds more than a signature: for a connection string "
            "use connection_string_file",
            config->sas_file.at);
    len = snprintf(to, CONNECTION_STRING_MAX,
        "TableEndpoint=https://%s.table.%.*s;"
        "QueueEndpoint=https://%s.queue.%.*s;"
        "AccountName=%s;SharedAccessSignature=%.*s",
        account, SLICE_ARG(suffix), account, SLICE_ARG(suffix), account,
        SLICE_ARG(sas));
    *ret = (struct slice){to, (size_t)len};
    return TW_OK;
}

/* Composes a connection string without a credential: requests of an identity
 * need only the endpoints. */
static void compose_without_secret(const struct store_config *config,
    char to[CONNECTION_STRING_MAX], struct slice *ret)
{
    int len = snprintf(to, CONNECTION_STRING_MAX,
        "DefaultEndpointsProtocol=https;AccountName=%s;EndpointSuffix=%.*s",
        config->account.at, SLICE_ARG(suffix_of(config)));

    *ret = (struct slice){to, (size_t)len};
}

static enum tw_err connection_string(const struct store_config *config,
    char secret[SECRET_MAX], char composed[CONNECTION_STRING_MAX],
    struct slice *ret, struct err *err)
{
    enum tw_err outcome;
    struct slice text;

    if (config->connection_string.len > 0) {
        *ret = config->connection_string;
        return TW_OK;
    }
    if (config->connection_string_file.len > 0)
        return read_secret("connection_string_file",
            config->connection_string_file, secret, ret, err);
    if (config->identity != STORE_IDENTITY_NONE) {
        compose_without_secret(config, composed, ret);
        return TW_OK;
    }
    if (config->key_file.len > 0) {
        outcome = read_secret("key_file", config->key_file, secret, &text, err);
        return outcome ? outcome
                       : compose_with_key(config, text, composed, ret, err);
    }
    outcome = read_secret("sas_file", config->sas_file, secret, &text, err);
    return outcome ? outcome
                   : compose_with_sas(config, text, composed, ret, err);
}

static enum tw_err open_with_identity(const struct store_config *config,
    struct slice endpoints, struct store **ret, struct err *err)
{
    const struct identity_options options = {
        .kind = config->identity == STORE_IDENTITY_MANAGED ? IDENTITY_MANAGED
                                                           : IDENTITY_WORKLOAD,
        .client_id = config->client_id,
    };

    return azure_open_identity(config->name, endpoints, &options, ret, err);
}

static enum tw_err open_azure(
    const struct store_config *config, struct store **ret, struct err *err)
{
    char secret[SECRET_MAX], composed[CONNECTION_STRING_MAX];
    struct slice text;
    enum tw_err outcome =
        connection_string(config, secret, composed, &text, err);

    if (outcome == TW_OK)
        outcome =
            config->identity == STORE_IDENTITY_NONE
                ? azure_open(config->name, text, config->allow_http, ret, err)
                : open_with_identity(config, text, ret, err);
    crypto_wipe(secret, sizeof(secret));
    crypto_wipe(composed, sizeof(composed));
    return outcome;
}

static enum tw_err open_store(const struct store_config *config,
    bool only_reads, struct store **ret, struct err *err)
{
    enum tw_err outcome;

    if (config->unset != NULL)
        outcome = err_fail(err, TW_INVALID,
            "the environment variable %s, which its configuration names, is "
            "not set",
            config->unset);
    else if (config->is_azure)
        outcome = open_azure(config, ret, err);
    else if (only_reads)
        outcome =
            embedded_open_to_read(config->name, config->path.at, ret, err);
    else
        outcome = embedded_open(config->name, config->path.at, ret, err);
    if (outcome == TW_OK)
        (*ret)->meter = meter_named(config->name);
    else
        err_prefix(err, "store %s", config->name);
    return outcome;
}

enum tw_err store_open(
    const struct store_config *config, struct store **ret, struct err *err)
{
    return open_store(config, false, ret, err);
}

enum tw_err store_open_to_read(
    const struct store_config *config, struct store **ret, struct err *err)
{
    return open_store(config, true, ret, err);
}

static struct slice credential_file(const struct store_config *config)
{
    if (config->connection_string_file.len > 0)
        return config->connection_string_file;
    return config->key_file.len > 0 ? config->key_file : config->sas_file;
}

enum tw_err store_check(
    const struct store_config *config, const char **ret_unread, struct err *err)
{
    struct slice file = credential_file(config);
    struct store *store;
    enum tw_err outcome;

    *ret_unread = NULL;
    if (!config->is_azure || config->identity != STORE_IDENTITY_NONE)
        return TW_OK;
    if (file.len > 0 && access(file.at, R_OK) != 0) {
        *ret_unread = file.at;
        return TW_OK;
    }
    outcome = open_store(config, true, &store, err);
    if (outcome == TW_OK)
        store_close(store);
    return outcome;
}
