/* SPDX-License-Identifier: MIT */
/*
 * A second reader of JSON, with which the tests compare the reader of the
 * worker. It reads one character at a time, by the grammar of RFC 8259, and
 * uses no code of json.c.
 */
#ifndef TW_TESTS_SUPPORT_JSON_ORACLE_H
#define TW_TESTS_SUPPORT_JSON_ORACLE_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/slice.h"

/* Maximum number of members of an object: the reader compares each name with
 * each other name. */
#define ORACLE_MAX_MEMBERS 64

enum oracle_answer { ORACLE_REFUSES, ORACLE_TAKES, ORACLE_CANNOT_SAY };

/*
 * oracle_read: returns whether text is one JSON value that json_parse() must
 * accept. If it is, its content is added to `to` in a form that only the tests
 * use: each string is decoded and has its length before it.
 */
enum oracle_answer oracle_read(
    struct slice text, unsigned max_depth, struct buf *to);

/* oracle_describe: adds a value that json_parse() has read, in the same
 * form. */
void oracle_describe(const struct json *json, struct buf *to);

#endif
