/* SPDX-License-Identifier: MIT */
/*
 * Who may read the dashboard's data, and who may change runs.
 *
 * A page of another site can make a browser send requests to this server: a
 * form, or a script whose site's name was made to resolve to this machine (DNS
 * rebinding). Therefore a request is served only under a name of this server,
 * and one that changes something needs the token, a JSON body, a header that no
 * form can send, and no foreign Origin.
 */
#ifndef TW_MONITOR_ACCESS_H
#define TW_MONITOR_ACCESS_H

#include <stdbool.h>

#include "worker/base/err.h"

struct definition;
struct http_request;

/* The header, with any value, that a request to change something must have. */
#define ACCESS_HEADER "X-Tableward"

/* The shortest token, in bytes. */
#define ACCESS_TOKEN_MIN 16

/*
 * access_to_read: 200 if the request's Host is localhost or an IP address,
 * which cannot be made to lead to another machine as a name can, and if no
 * browser says that another site sends it. Otherwise the status of the refusal,
 * and err says what is wrong.
 */
unsigned access_to_read(const struct http_request *request, struct err *err);

/*
 * access_to_change: 200 if the request may change something: what
 * access_to_read() asks for, and the token of admin_token_file, which is read
 * each time, in `Authorization: Bearer TOKEN`. Otherwise the status of the
 * refusal, and err says what is wrong.
 */
unsigned access_to_change(const struct http_request *request,
    const struct definition *definition, struct err *err);

#endif
