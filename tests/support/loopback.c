/* SPDX-License-Identifier: MIT */
#include "tests/support/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int loopback_listen(uint16_t *ret_port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (made < 0 || bind(made, (struct sockaddr *)&address, len) != 0 ||
        listen(made, 512) != 0 ||
        getsockname(made, (struct sockaddr *)&address, &len) != 0) {
        perror("no port can be opened");
        exit(1);
    }
    *ret_port = ntohs(address.sin_port);
    return made;
}

bool loopback_send(int socket, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(socket, bytes.at, bytes.len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes.at += sent;
        bytes.len -= (size_t)sent;
    }
    return true;
}

void loopback_reset(int socket)
{
    struct linger now = {1, 0};

    (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}
