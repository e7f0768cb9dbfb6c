/* SPDX-License-Identifier: MIT */
/* One request to a service and its answer, independent of any HTTP library. */
#ifndef TW_AZSIM_EXCHANGE_H
#define TW_AZSIM_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/azsim/failure.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"

#define EXCHANGE_MAX_PAIRS 64
#define EXCHANGE_MAX_BODY_BYTES (8 * 1024 * 1024)
#define EXCHANGE_MAX_ANSWER_BYTES (64 * 1024 * 1024)

/* A header field or a parameter. */
struct pair {
    struct slice name, value;
};

struct pairs {
    struct pair list[EXCHANGE_MAX_PAIRS]; /* more are dropped */
    size_t count;
};

enum service { SERVICE_TABLE, SERVICE_QUEUE };

struct http_exchange {
    struct arena arena; /* all slices live in it */

    enum service service;
    unsigned worker;        /* number, from 0, of the pair of ports at which it
                               arrived */
    bool stuck;             /* held as if it had not arrived yet: GATE_STUCK */
    int64_t arrived_us;     /* CLOCK_MONOTONIC, at its first bytes          */
    const char *method;     /* as sent                                      */
    struct slice path;      /* as sent: percent-encoded, account first      */
    struct slice query;     /* as sent, without '?'                         */
    struct pairs headers;   /* as sent                                      */
    struct pairs arguments; /* of the query, decoded                        */
    struct buf body;
    struct slice account; /* the path's first part, decoded */
    struct slice rest; /* the path after the account, still encoded; begins with
                          / or is empty */

    int status; /* of the answer */
    struct pairs fields;
    struct buf answer;
    enum failure failure;
    int64_t effected_us; /* when it was carried out, or refused after its gate;
                            0: refused before its gate */
    bool changed;        /* it changed what is stored */
    struct slice target; /* name of its table or queue, or empty */
    unsigned operations, deletes; /* number of operations on entities, and of
                                     deletes among them */
};

/* exchange_init: uri is the one in the request line. */
void exchange_init(
    struct http_exchange *exchange, enum service service, struct slice uri);
void exchange_done(struct http_exchange *exchange);

/* exchange_header: returns a header of the request, with its name in any case;
 * .at NULL: there is no such header. */
struct slice exchange_header(
    const struct http_exchange *exchange, const char *name);

/* exchange_argument: returns a parameter of the query; .at NULL: there is no
 * such parameter. */
struct slice exchange_argument(
    const struct http_exchange *exchange, const char *name);

/* exchange_integer: returns a parameter of the query as a number, or
 * `otherwise` if there is no such parameter. False: it is no number or out of
 * range. */
bool exchange_integer(const struct http_exchange *exchange, const char *name,
    int64_t otherwise, int64_t min, int64_t max, int64_t *ret);

/* exchange_field: sets a header of the answer. */
void exchange_field(struct http_exchange *exchange, const char *name,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* exchange_fail: makes the answer a refusal with this failure, in the service's
 * form. */
void exchange_fail(struct http_exchange *exchange, enum failure failure);

/* exchange_add_error: adds the JSON of a refusal. index: the number of the
 * refused operation, with which the message begins ("N:"); -1: the message has
 * no number. */
void exchange_add_error(const struct http_exchange *exchange,
    enum failure failure, int index, struct buf *to);

#endif
