/* SPDX-License-Identifier: MIT */
/* JSON in a C source without a backslash before each of its quotes. */
#ifndef TW_TESTS_SUPPORT_QUOTES_H
#define TW_TESTS_SUPPORT_QUOTES_H

#include "worker/base/arena.h"

/* quoted: text with a double quote in place of each single one; lives in
 * arena. */
const char *quoted(struct arena *arena, const char *text);

#endif
