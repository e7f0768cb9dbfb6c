/* SPDX-License-Identifier: MIT */
/*
 * Who may read the dashboard's data, and who may change runs.
 *
 * A page of another site can make a browser send requests to this server, by a
 * form, or by a script whose site's name was made to resolve to this machine
 * (DNS rebinding). Therefore a request is served only if its Host is a name of
 * this server. A request that changes something must also have the token, a
 * JSON body and a header that no form can send, and must not have a foreign
 * Origin.
 */
#ifndef TW_MONITOR_ACCESS_H
#define TW_MONITOR_ACCESS_H

#include <stdbool.h>

#include "worker/base/err.h"

struct definition;
struct http_request;

/* The header, with any value, that a request to change something must have. */
#define ACCESS_HEADER "X-Tableward"

/* Minimum length of the token, in bytes. */
#define ACCESS_TOKEN_MIN 16

/*
 * access_to_read: return 200 if the request's Host is localhost or an IP
 * address (an attacker may have made any other name resolve to this machine),
 * and no header of a browser says that another site sends the request.
 * Otherwise return the status of the refusal; err says what is wrong.
 */
unsigned access_to_read(const struct http_request *request, struct err *err);

/*
 * access_to_change: return 200 if access_to_read() allows the request, and the
 * request has the token of admin_token_file in `Authorization: Bearer TOKEN`.
 * Otherwise return the status of the refusal; err says what is wrong. The file
 * is read each time.
 */
unsigned access_to_change(const struct http_request *request,
    const struct definition *definition, struct err *err);

#endif
