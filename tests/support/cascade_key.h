/* SPDX-License-Identifier: MIT */
/* Keys of the trees that tests of a cascade grow. */
#ifndef TW_TESTS_SUPPORT_CASCADE_KEY_H
#define TW_TESTS_SUPPORT_CASCADE_KEY_H

#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* cascade_key: template with %c the channel, %a the RowKey of the entity above,
 * %n the number. Lives in arena. */
struct slice cascade_key(struct arena *arena, const char *template,
    const char *channel, struct slice above, unsigned number);

#endif
