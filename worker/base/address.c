/* SPDX-License-Identifier: MIT */
/* The address and port on which a server listens. */
#include "worker/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "worker/base/text.h"

#define PORT_MAX 65535

/* Split a text of the form HOST:PORT or [HOST]:PORT. */
static bool split(struct slice text, struct slice *ret_host, int64_t *ret_port)
{
    size_t colon = text.len;

    while (colon > 0 && text.at[colon - 1] != ':')
        colon--;
    if (colon < 2)
        return false;
    *ret_host = (struct slice){text.at, colon - 1};
    return text_int64((struct slice){text.at + colon, text.len - colon}, 0,
        PORT_MAX, ret_port);
}

static bool parse_v4(const char *host, uint16_t port, struct address *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        return false;
    memcpy(&ret->socket, &in, sizeof(in));
    ret->len = sizeof(in);
    ret->loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
    return true;
}

static bool parse_v6(const char *host, uint16_t port, struct address *ret)
{
    struct sockaddr_in6 in = {
        .sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1)
        return false;
    memcpy(&ret->socket, &in, sizeof(in));
    ret->len = sizeof(in);
    ret->loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
    return true;
}

static bool parse(struct slice text, struct address *ret)
{
    char host[INET6_ADDRSTRLEN];
    struct slice name;
    int64_t port;
    bool bracketed;

    if (!split(text, &name, &port))
        return false;
    bracketed =
        name.len > 2 && name.at[0] == '[' && name.at[name.len - 1] == ']';
    if (bracketed)
        name = (struct slice){name.at + 1, name.len - 2};
    if (name.len >= sizeof(host))
        return false;
    memcpy(host, name.at, name.len);
    host[name.len] = '\0';
    if (strlen(host) != name.len)
        return false;
    if (bracketed)
        return parse_v6(host, (uint16_t)port, ret);
    if (strcmp(host, "localhost") == 0)
        return parse_v4("127.0.0.1", (uint16_t)port, ret);
    return parse_v4(host, (uint16_t)port, ret);
}

enum tw_err address_parse(
    struct slice text, struct address *ret, struct err *err)
{
    struct address address = {.len = 0};
    struct buf quoted;

    if (parse(text, &address)) {
        *ret = address;
        return TW_OK;
    }
    buf_init(&quoted, 1024);
    text_quote(&quoted, text);
    (void)err_fail(err, TW_INVALID,
        "invalid address %s: write an IP address and a port, 127.0.0.1:9464 "
        "or [::1]:9464; 0.0.0.0:9464 is every IPv4 address of this machine",
        buf_text(&quoted));
    buf_done(&quoted);
    return TW_INVALID;
}
