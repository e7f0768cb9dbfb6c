/* SPDX-License-Identifier: MIT */
/* Parses the address of a service. */
#include "worker/store/azure/endpoint.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The first byte of loopback addresses, and the first two bytes of link-local
 * addresses. */
#define LOOPBACK_NET 127
#define LINK_LOCAL_NET 0xa9fe

static bool is_loopback(const char *host)
{
    struct in_addr address;

    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, host, &address) == 1 &&
           (ntohl(address.s_addr) >> 24) == LOOPBACK_NET;
}

static bool is_link_local(const char *host)
{
    struct in_addr address;

    return inet_pton(AF_INET, host, &address) == 1 &&
           (ntohl(address.s_addr) >> 16) == LINK_LOCAL_NET;
}

static bool host_is_sound(const char *host)
{
    return host[0] != '\0' &&
           host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                             "WXYZ0123456789.-_:[]")] == '\0';
}

/* Does path have only characters that are allowed in a path as sent:
 * unreserved, sub-delims, ':', '@' and %XX? */
static bool path_is_sound(const char *path)
{
    return path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                             "WXYZ0123456789-._~!$&'()*+,;=:@%/")] == '\0';
}

const char *endpoint_port(const char *authority)
{
    const char *bracket = strchr(authority, ']');

    return strchr(bracket != NULL ? bracket : authority, ':');
}

/* Splits off the host. *ret_host: owned. */
static enum tw_err split_authority(
    struct endpoint *endpoint, const char *authority, bool tls, char **ret_host)
{
    const char *colon = endpoint_port(authority);
    size_t host_len =
        colon != NULL ? (size_t)(colon - authority) : strlen(authority);
    int64_t port = tls ? 443 : 80;
    char *host;

    if (colon != NULL && !text_int64(slice_of(colon + 1), 1, 65535, &port))
        return TW_INVALID;
    host = mem_text(authority, host_len);
    endpoint->loopback = is_loopback(host);
    endpoint->peer = mem_format("%s port %d", host, (int)port);
    *ret_host = host;
    return host_is_sound(host) ? TW_OK : TW_INVALID;
}

/* May plain http be used to host? */
static enum tw_err check_http(const char *host, const char *what,
    enum endpoint_http http, struct err *err)
{
    if (is_loopback(host) || http == ENDPOINT_HTTP_ALL)
        return TW_OK;
    if (http == ENDPOINT_HTTP_LINK && is_link_local(host))
        return TW_OK;
    if (http == ENDPOINT_HTTP_NONE)
        return err_fail(err, TW_INVALID,
            "%s is plain http, which would show the data to the network: use "
            "https, or write allow_http: true",
            what);
    return err_fail(err, TW_INVALID,
        "%s is plain http, which would show an access token to the network: "
        "use https",
        what);
}

enum tw_err endpoint_read(struct slice url, const char *what,
    enum endpoint_http http, struct endpoint *ret, struct err *err)
{
    char *text = mem_text(url.at, url.len), *host = NULL;
    bool tls = strncasecmp(text, "https://", 8) == 0;
    enum tw_err outcome = TW_INVALID;
    char *authority, *path;
    size_t path_len;

    if (!tls && strncasecmp(text, "http://", 7) != 0) {
        err_fail(err, outcome, "%s must begin with https://", what);
        goto done;
    }
    authority = text + (tls ? 8 : 7);
    path_len = strlen(authority + strcspn(authority, "/"));
    path = authority + strlen(authority) - path_len;
    while (path_len > 0 && path[path_len - 1] == '/')
        path_len--;
    ret->path = mem_text(path, path_len);
    path[0] = '\0';
    if (split_authority(ret, authority, tls, &host) != TW_OK ||
        !path_is_sound(ret->path)) {
        err_fail(err, outcome,
            "%s must be an address such as "
            "https://myaccount.table.core.windows.net",
            what);
        goto done;
    }
    outcome = tls ? TW_OK : check_http(host, what, http, err);
    if (outcome == TW_OK)
        ret->origin = mem_format("http%s://%s", tls ? "s" : "", authority);
done:
    mem_free(host);
    mem_free(text);
    return outcome;
}

void endpoint_done(struct endpoint *endpoint)
{
    mem_free(endpoint->origin);
    mem_free(endpoint->path);
    mem_free(endpoint->peer);
    *endpoint = (struct endpoint){.origin = NULL};
}
