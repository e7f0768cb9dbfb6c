/* SPDX-License-Identifier: MIT */
/* Parses a connection string into endpoints and credentials. */
#include "worker/store/azure/account.h"

#include <string.h>
#include <strings.h>

#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The emulator's account and key, published in Azurite's documentation. */
#define DEVELOPMENT_ACCOUNT "devstoreaccount1"
#define DEVELOPMENT_KEY                                                        \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"          \
    "K1SZFPTOtr/KBHBeksoGMGw=="
#define DEVELOPMENT_TABLE "http://127.0.0.1:10002/" DEVELOPMENT_ACCOUNT
#define DEVELOPMENT_QUEUE "http://127.0.0.1:10001/" DEVELOPMENT_ACCOUNT

#define CONNECTION_STRING_MAX (64 * 1024)
#define COSMOS_HOST_PART ".table.cosmos."
#define TABLE_LABEL ".table."
#define PUBLIC_CLOUD "core.windows.net"
#define EMULATOR_CLOUD "an emulator"

enum part {
    PART_PROTOCOL,
    PART_ACCOUNT,
    PART_KEY,
    PART_SUFFIX,
    PART_TABLE,
    PART_QUEUE,
    PART_SAS,
    PART_DEVELOPMENT,
    PART_COUNT,
};

static const char *const part_names[PART_COUNT] = {
    [PART_PROTOCOL] = "DefaultEndpointsProtocol",
    [PART_ACCOUNT] = "AccountName",
    [PART_KEY] = "AccountKey",
    [PART_SUFFIX] = "EndpointSuffix",
    [PART_TABLE] = "TableEndpoint",
    [PART_QUEUE] = "QueueEndpoint",
    [PART_SAS] = "SharedAccessSignature",
    [PART_DEVELOPMENT] = "UseDevelopmentStorage",
};

static struct slice trim(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[0]) != NULL) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]) != NULL)
        text.len--;
    return text;
}

static bool same_name(struct slice name, const char *known)
{
    return name.len == strlen(known) &&
           strncasecmp(name.at, known, name.len) == 0;
}

/* Is name the name of another endpoint? Endpoints of other services and
 * secondary endpoints (BlobEndpoint, ...SecondaryEndpoint) may be part of any
 * connection string and are ignored. */
static bool is_other_endpoint(struct slice name)
{
    const char ending[] = "Endpoint";
    size_t len = sizeof(ending) - 1;

    return name.len > len &&
           strncasecmp(name.at + name.len - len, ending, len) == 0;
}

/* Fails because of an unknown name. An unknown name may be a piece of a key, so
 * the error text does not contain it, but only the known name that is nearest
 * to it. */
static enum tw_err unknown_part(struct slice name, struct err *err)
{
    const char *near = text_nearest(name, part_names, PART_COUNT);

    if (near != NULL)
        return err_fail(err, TW_INVALID,
            "the connection string has an unknown part, did you mean %s?",
            near);
    return err_fail(err, TW_INVALID,
        "the connection string has an unknown part (its parts are AccountName, "
        "AccountKey, SharedAccessSignature, TableEndpoint, QueueEndpoint, "
        "EndpointSuffix, DefaultEndpointsProtocol or UseDevelopmentStorage)");
}

static enum tw_err read_part(
    struct slice text, struct slice parts[PART_COUNT], struct err *err)
{
    const char *equals = memchr(text.at, '=', text.len);
    struct slice name, value;

    if (equals == NULL)
        return err_fail(err, TW_INVALID,
            "the connection string has a part without '='; its parts are "
            "Name=Value, separated by ';'");
    name = trim((struct slice){text.at, (size_t)(equals - text.at)});
    value = trim(
        (struct slice){equals + 1, text.len - (size_t)(equals + 1 - text.at)});
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (!same_name(name, part_names[i]))
            continue;
        if (parts[i].at != NULL)
            return err_fail(err, TW_INVALID,
                "the connection string has %s twice", part_names[i]);
        parts[i] = value;
        return TW_OK;
    }
    return is_other_endpoint(name) ? TW_OK : unknown_part(name, err);
}

static enum tw_err read_parts(
    struct slice text, struct slice parts[PART_COUNT], struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (text.len > CONNECTION_STRING_MAX)
        return err_fail(
            err, TW_INVALID, "the connection string is longer than 64 KiB");
    if (memchr(text.at, '\0', text.len) != NULL)
        return err_fail(
            err, TW_INVALID, "the connection string has a NUL byte");
    while (outcome == TW_OK && text.len > 0) {
        const char *end = memchr(text.at, ';', text.len);
        size_t len = end != NULL ? (size_t)(end - text.at) : text.len;
        struct slice part = trim((struct slice){text.at, len});

        if (part.len > 0)
            outcome = read_part(part, parts, err);
        len += end != NULL;
        text.at += len;
        text.len -= len;
    }
    return outcome;
}

static bool account_name_is_sound(struct slice name)
{
    if (name.len < 1 || name.len > 63)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                   "0123456789-_",
                name.at[i]) == NULL)
            return false;
    return true;
}

static enum tw_err read_key(
    struct account *account, struct slice base64, struct err *err)
{
    struct buf key;
    enum tw_err outcome = TW_OK;

    buf_init(&key, 1024);
    if (!crypto_unbase64(&key, base64) || key.overflow || key.len == 0)
        outcome = err_fail(err, TW_INVALID,
            "AccountKey in the connection string is not base64: copy it "
            "again, with the '=' at its end");
    else
        account->key = crypto_hmac_key_new(buf_slice(&key));
    if (key.at != NULL)
        crypto_wipe(key.at, key.room);
    buf_done(&key);
    return outcome;
}

static enum tw_err read_sas(
    struct account *account, struct slice sas, struct err *err)
{
    if (sas.len > 0 && sas.at[0] == '?') {
        sas.at++;
        sas.len--;
    }
    account->sas = mem_text(sas.at, sas.len);
    if (strpbrk(account->sas, " \t\r\n#?") != NULL)
        return err_fail(err, TW_INVALID,
            "SharedAccessSignature in the connection string has characters "
            "that a query string cannot have");
    if (strncmp(account->sas, "sig=", 4) != 0 &&
        strstr(account->sas, "&sig=") == NULL)
        return err_fail(err, TW_INVALID,
            "SharedAccessSignature in the connection string has no sig=");
    return TW_OK;
}

static enum tw_err read_name(struct account *account,
    const struct slice parts[PART_COUNT], struct err *err)
{
    if (parts[PART_ACCOUNT].len == 0)
        return TW_OK;
    if (!account_name_is_sound(parts[PART_ACCOUNT]))
        return err_fail(err, TW_INVALID,
            "AccountName in the connection string must have 1 to 63 letters, "
            "digits, '-' or '_'");
    account->name = mem_text(parts[PART_ACCOUNT].at, parts[PART_ACCOUNT].len);
    return TW_OK;
}

static enum tw_err read_credentials(struct account *account,
    const struct slice parts[PART_COUNT], struct err *err)
{
    if (parts[PART_SAS].len > 0)
        return read_sas(account, parts[PART_SAS], err);
    if (parts[PART_KEY].len == 0)
        return err_fail(err, TW_INVALID,
            "the connection string has neither AccountKey nor "
            "SharedAccessSignature");
    if (account->name == NULL)
        return err_fail(
            err, TW_INVALID, "the connection string has no AccountName");
    return read_key(account, parts[PART_KEY], err);
}

/* Returns <protocol>://<account>.{table|queue}.<suffix>; empty: the account's
 * name is unknown. */
static char *derive_endpoint(const struct account *account,
    const struct slice parts[PART_COUNT], const char *service)
{
    struct slice protocol = parts[PART_PROTOCOL], suffix = parts[PART_SUFFIX];

    if (account->name == NULL)
        return mem_text("", 0);
    if (protocol.len == 0)
        protocol = slice_of("https");
    if (suffix.len == 0)
        suffix = slice_of("core.windows.net");
    return mem_format("%.*s://%s.%s.%.*s", SLICE_ARG(protocol), account->name,
        service, SLICE_ARG(suffix));
}

static enum tw_err make_endpoint(const struct account *account,
    const struct slice parts[PART_COUNT], enum part part, const char *service,
    enum endpoint_http http, struct endpoint *ret, struct err *err)
{
    bool given = parts[part].len > 0;
    char *derived = derive_endpoint(account, parts, service);
    enum tw_err outcome = TW_OK;

    if (given)
        outcome = endpoint_read(parts[part], part_names[part], http, ret, err);
    else if (derived[0] != '\0')
        outcome = endpoint_read(slice_of(derived),
            "the endpoint from AccountName and EndpointSuffix", http, ret, err);
    mem_free(derived);
    return outcome;
}

static enum tw_err make_endpoints(struct account *account,
    const struct slice parts[PART_COUNT], enum endpoint_http http,
    struct err *err)
{
    enum tw_err outcome = make_endpoint(
        account, parts, PART_TABLE, "table", http, &account->table, err);

    if (outcome != TW_OK)
        return outcome;
    if (account->table.origin == NULL)
        return err_fail(err, TW_INVALID,
            "the connection string has neither TableEndpoint nor AccountName");
    account->cosmos =
        strcasestr(account->table.origin, COSMOS_HOST_PART) != NULL;
    if (account->cosmos)
        return TW_OK;
    return make_endpoint(
        account, parts, PART_QUEUE, "queue", http, &account->queue, err);
}

/* If the connection string has UseDevelopmentStorage=true, fills parts with the
 * emulator's endpoints, account and key. */
static enum tw_err use_development(
    struct slice parts[PART_COUNT], struct err *err)
{
    if (parts[PART_DEVELOPMENT].at == NULL)
        return TW_OK;
    if (!same_name(parts[PART_DEVELOPMENT], "true"))
        return err_fail(err, TW_INVALID,
            "UseDevelopmentStorage in the connection string can only be "
            "true");
    if (parts[PART_ACCOUNT].at != NULL || parts[PART_KEY].at != NULL ||
        parts[PART_SAS].at != NULL)
        return err_fail(err, TW_INVALID,
            "UseDevelopmentStorage means the emulator's account: it excludes "
            "AccountName, AccountKey and SharedAccessSignature");
    parts[PART_ACCOUNT] = slice_of(DEVELOPMENT_ACCOUNT);
    parts[PART_KEY] = slice_of(DEVELOPMENT_KEY);
    if (parts[PART_TABLE].at == NULL)
        parts[PART_TABLE] = slice_of(DEVELOPMENT_TABLE);
    if (parts[PART_QUEUE].at == NULL)
        parts[PART_QUEUE] = slice_of(DEVELOPMENT_QUEUE);
    return TW_OK;
}

static enum tw_err read_string(
    struct slice text, struct slice parts[PART_COUNT], struct err *err)
{
    enum tw_err outcome;

    text = trim(text);
    if (text.len == 0)
        return err_fail(err, TW_INVALID, "the connection string is empty");
    outcome = read_parts(text, parts, err);
    return outcome == TW_OK ? use_development(parts, err) : outcome;
}

/* Ends the parsing of a connection string; code is its outcome. TW_OK: stores
 * account in *ret. Any other outcome: frees account. Returns code. */
static enum tw_err account_give(
    enum tw_err outcome, struct account *account, struct account **ret)
{
    if (outcome == TW_OK)
        *ret = account;
    else
        account_free(account);
    return outcome;
}

enum tw_err account_parse(struct slice connection_string, bool allow_http,
    struct account **ret, struct err *err)
{
    struct slice parts[PART_COUNT] = {{0}};
    struct account *account = mem_alloc(sizeof(*account));
    enum tw_err outcome = read_string(connection_string, parts, err);

    if (outcome == TW_OK)
        outcome = read_name(account, parts, err);
    if (outcome == TW_OK)
        outcome = read_credentials(account, parts, err);
    if (outcome == TW_OK)
        outcome = make_endpoints(account, parts,
            allow_http ? ENDPOINT_HTTP_ALL : ENDPOINT_HTTP_NONE, err);
    return account_give(outcome, account, ret);
}

enum tw_err account_parse_endpoints(
    struct slice connection_string, struct account **ret, struct err *err)
{
    struct slice parts[PART_COUNT] = {{0}};
    struct account *account = mem_alloc(sizeof(*account));
    enum tw_err outcome = read_string(connection_string, parts, err);

    if (outcome == TW_OK && (parts[PART_KEY].at || parts[PART_SAS].at))
        outcome = err_fail(err, TW_INVALID,
            "the connection string has a key or a signature: with `identity:` "
            "it may contain endpoints only");
    if (outcome == TW_OK)
        outcome = read_name(account, parts, err);
    if (outcome == TW_OK)
        outcome = make_endpoints(account, parts, ENDPOINT_HTTP_TOKEN, err);
    if (outcome == TW_OK && account->cosmos)
        outcome = err_fail(err, TW_INVALID,
            "`identity:` is for Azure Storage: Cosmos DB for Table needs its "
            "key");
    return account_give(outcome, account, ret);
}

/* Removes "-secondary", because the account's secondary endpoint has the tables
 * of the primary one. "name-secondary" cannot be another account, because
 * account names have no hyphen. */
static void drop_secondary(char *identity)
{
    const char secondary[] = "-secondary";
    char *at = strstr(identity, secondary);
    char *after = at ? at + sizeof(secondary) - 1 : NULL;

    if (at && (after[0] == '\0' || strncmp(after, ".table.", 7) == 0))
        memmove(at, after, strlen(after) + 1);
}

static void to_lower(char *text)
{
    for (char *at = text; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
}

char *account_identity(const struct account *account)
{
    const char *origin = account->table.origin;
    bool tls = strncmp(origin, "https:", 6) == 0;
    const char *host = origin + (tls ? 8 : 7), *port = endpoint_port(host);
    size_t len = strlen(host);
    char *identity;

    if (port && strcmp(port, tls ? ":443" : ":80") == 0)
        len = (size_t)(port - host);
    identity = mem_format("%.*s%s", (int)len, host, account->table.path);
    to_lower(identity);
    drop_secondary(identity);
    return identity;
}

char *account_public_name(const struct account *account)
{
    const char *host = strstr(account->table.origin, "://");
    const char secondary[] = "-secondary";
    struct slice name = {0};
    char *lower;

    if (account->name) {
        name = slice_of(account->name);
    } else if (host) {
        name = (struct slice){host + 3, strcspn(host + 3, ".:")};
        if (strncasecmp(name.at + name.len, ".table.", 7) != 0)
            name.len = 0;
        if (name.len > strlen(secondary) &&
            strncasecmp(name.at + name.len - strlen(secondary), secondary,
                strlen(secondary)) == 0)
            name.len -= strlen(secondary);
    }
    if (name.len == 0)
        return NULL;
    lower =
        mem_format("%s%.*s", account->cosmos ? "cosmos." : "", SLICE_ARG(name));
    to_lower(lower);
    return lower;
}

/* Returns the domain below "table" in the host of the table endpoint. Only an
 * emulator has its accounts in the path. */
static struct slice cloud_of(const struct account *account)
{
    const char *table = strcasestr(account->table.origin, TABLE_LABEL);

    if (!table)
        return slice_of(account->table.path[0] ? EMULATOR_CLOUD : PUBLIC_CLOUD);
    table += strlen(TABLE_LABEL);
    return (struct slice){table, strcspn(table, ":")};
}

char *account_in_cloud(const struct account *account)
{
    char *name = account_public_name(account), *text;

    if (!name)
        return NULL;
    if (strcmp(name, DEVELOPMENT_ACCOUNT) == 0)
        text = account_identity(account);
    else
        text = mem_format("%s in %.*s", name, SLICE_ARG(cloud_of(account)));
    to_lower(text);
    mem_free(name);
    return text;
}

static bool same_text(const char *a, const char *b)
{
    return a != NULL && b != NULL ? strcmp(a, b) == 0 : a == b;
}

static bool same_endpoint(const struct endpoint *a, const struct endpoint *b)
{
    return same_text(a->origin, b->origin) && same_text(a->path, b->path);
}

bool account_same_services(const struct account *a, const struct account *b)
{
    return same_text(a->name, b->name) && same_endpoint(&a->table, &b->table) &&
           same_endpoint(&a->queue, &b->queue);
}

struct account *account_hold(struct account *account)
{
    atomic_fetch_add(&account->holders, 1);
    return account;
}

void account_free(struct account *account)
{
    if (account == NULL || atomic_fetch_sub(&account->holders, 1) > 0)
        return;
    crypto_hmac_key_free(account->key);
    if (account->sas != NULL)
        crypto_wipe(account->sas, strlen(account->sas));
    mem_free(account->sas);
    mem_free(account->name);
    endpoint_done(&account->table);
    endpoint_done(&account->queue);
    mem_free(account);
}
