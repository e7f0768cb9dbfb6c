/* SPDX-License-Identifier: MIT */
/*
 * Another reader of JSON, to compare the worker's with: one character at a
 * time, by the grammar of RFC 8259, and without any code of json.c.
 */
#ifndef TW_TESTS_SUPPORT_JSON_ORACLE_H
#define TW_TESTS_SUPPORT_JSON_ORACLE_H

#include <stdbool.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/slice.h"

/* Its objects have at most so many members, for it compares each name with
 * each. */
#define ORACLE_MAX_MEMBERS 64

enum oracle_answer { ORACLE_REFUSES, ORACLE_TAKES, ORACLE_CANNOT_SAY };

/*
 * oracle_read: is text one JSON value, as json_parse() takes it? If so its
 * content is added to `to`, in a form of the tests' own: strings are decoded
 * and have their length before them.
 */
enum oracle_answer oracle_read(
    struct slice text, unsigned max_depth, struct buf *to);

/* oracle_describe: add what json_parse() read, in the same form. */
void oracle_describe(const struct json *json, struct buf *to);

#endif
