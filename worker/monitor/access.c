/* SPDX-License-Identifier: MIT */
/* Checks names, origins and the token of requests. */
#include "worker/monitor/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/crypto.h"
#include "worker/base/file.h"
#include "worker/base/mem.h"
#include "worker/base/slice.h"
#include "worker/monitor/server.h"
#include "worker/run/setup.h"

#define TOKEN_MAX 4096
#define BEARER "Bearer "

/* ---- names ---- */

/* Returns the host of HOST, HOST:PORT, [HOST] or [HOST]:PORT, without brackets.
 */
static struct slice host_of(const char *authority)
{
    const char *end;

    if (authority[0] == '[') {
        end = strchr(authority, ']');
        return end ? (struct slice){authority + 1,
                         (size_t)(end - authority - 1)}
                   : (struct slice){0};
    }
    return (struct slice){authority, strcspn(authority, ":")};
}

static bool is_ip_address(struct slice name)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (name.len == 0 || name.len >= sizeof(text))
        return false;
    memcpy(text, name.at, name.len);
    text[name.len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 ||
           inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_localhost(struct slice name)
{
    static const char localhost[] = "localhost";

    return name.len == sizeof(localhost) - 1 &&
           strncasecmp(name.at, localhost, name.len) == 0;
}

/* ---- other sites ---- */

/* Is origin, "http://HOST:PORT", the server that the request was sent to? */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *slashes = strstr(origin, "://");

    return slashes && host && strcasecmp(slashes + 3, host) == 0;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;

    return type && strncasecmp(type, json, len) == 0 &&
           (type[len] == '\0' || type[len] == ';' || type[len] == ' ');
}

static unsigned refuse(unsigned status, struct err *err, const char *why)
{
    (void)err_fail(err, TW_FORBIDDEN, "%s", why);
    return status;
}

/* Does a browser say that a page of another site sends the request? */
static bool is_of_other_site(const struct http_request *request)
{
    const char *origin = http_request_header(request, "Origin");
    const char *site = http_request_header(request, "Sec-Fetch-Site");
    const char *host = http_request_header(request, "Host");

    return (origin && !is_own_origin(origin, host)) ||
           (site && strcasecmp(site, "same-origin") != 0 &&
               strcasecmp(site, "none") != 0);
}

/* Requests of other sites are refused. A page of another site cannot see the
 * responses, but its requests would cause requests to the store. */
unsigned access_to_read(const struct http_request *request, struct err *err)
{
    const char *host = http_request_header(request, "Host");
    struct slice name = host ? host_of(host) : (struct slice){0};

    if (!is_localhost(name) && !is_ip_address(name))
        return refuse(403, err, "the Host must be an IP address or localhost");
    if (is_of_other_site(request))
        return refuse(403, err, "the request comes from another site");
    return 200;
}

static unsigned check_change(
    const struct http_request *request, struct err *err)
{
    if (!is_json(http_request_header(request, "Content-Type")))
        return refuse(415, err, "the body must be application/json");
    if (!http_request_header(request, ACCESS_HEADER))
        return refuse(403, err, "the header " ACCESS_HEADER " is missing");
    return 200;
}

/* ---- the token ---- */

/* Read at most TOKEN_MAX bytes of a regular file. Returns -1 after a failure;
 * errno has the reason. */
static ssize_t read_small(const char *path, char room[TOKEN_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat stat;

    if (fd >= 0 && (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))) {
        (void)close(fd);
        errno = EINVAL;
        return -1;
    }
    return file_read_and_close(fd, room, TOKEN_MAX);
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[0]))
        text = (struct slice){text.at + 1, text.len - 1};
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    return text;
}

/* Compare digests, so that the time of the comparison does not depend on the
 * length of the token. */
static bool is_token(struct slice given, struct slice token)
{
    unsigned char one[CRYPTO_SHA256_BYTES], other[CRYPTO_SHA256_BYTES];

    crypto_sha256(given, one);
    crypto_sha256(token, other);
    return crypto_is_equal(one, other, sizeof(one));
}

static unsigned check_token(
    const char *path, struct slice given, struct err *err)
{
    char room[TOKEN_MAX];
    ssize_t len = read_small(path, room);
    unsigned status = 200;
    struct slice token;

    if (len < 0) {
        (void)err_fail(err, TW_FORBIDDEN, "admin_token_file cannot be read: %s",
            strerror(errno));
        return 503;
    }
    token = trim((struct slice){room, (size_t)len});
    if (token.len < ACCESS_TOKEN_MIN || len == TOKEN_MAX) {
        (void)err_fail(err, TW_FORBIDDEN,
            "admin_token_file must hold one line of %d to %d characters",
            ACCESS_TOKEN_MIN, TOKEN_MAX - 2);
        status = 503;
    } else if (!is_token(given, token)) {
        status = refuse(401, err, "the token is wrong");
    }
    crypto_wipe(room, sizeof(room));
    return status;
}

unsigned access_to_change(const struct http_request *request,
    const struct definition *definition, struct err *err)
{
    const struct setup *setup = definition->setup;
    const char *given = http_request_header(request, "Authorization");
    unsigned status = access_to_read(request, err);
    char *path;

    if (status == 200)
        status = check_change(request, err);
    if (status != 200)
        return status;
    if (!setup->admin_token_file)
        return refuse(403, err,
            "the dashboard is read-only: no `admin_token_file` is configured");
    if (!given || strncasecmp(given, BEARER, strlen(BEARER)) != 0)
        return refuse(401, err, "the token is missing");
    path = definition_path(definition, setup->admin_token_file);
    status = check_token(path, slice_of(given + strlen(BEARER)), err);
    mem_free(path);
    return status;
}
