/* SPDX-License-Identifier: MIT */
/* JSON in a C source without a backslash before each double quote. */
#ifndef TW_TESTS_SUPPORT_QUOTES_H
#define TW_TESTS_SUPPORT_QUOTES_H

#include "worker/base/arena.h"

/* quoted: returns text with each single quote replaced by a double quote; the
 * result lives in arena. */
const char *quoted(struct arena *arena, const char *text);

#endif
