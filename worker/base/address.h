/* SPDX-License-Identifier: MIT */
/* The address and port on which a server listens. */
#ifndef TW_BASE_ADDRESS_H
#define TW_BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct address {
    struct sockaddr_storage socket;
    socklen_t len;
    bool loopback; /* only processes of this machine can connect */
};

/*
 * address_parse: read 127.0.0.1:9464, [::1]:9464 or localhost:9464 (which is
 * 127.0.0.1). Any other name of a host is refused, because a name may have
 * several addresses. Port 0: any free port. TW_INVALID: err names the valid
 * forms.
 */
TW_MUST_USE enum tw_err address_parse(
    struct slice text, struct address *ret, struct err *err);

#endif
