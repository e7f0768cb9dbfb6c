/* SPDX-License-Identifier: MIT */
/* Keys of the trees of entities that the tests of cascades insert. */
#ifndef TW_TESTS_SUPPORT_CASCADE_KEY_H
#define TW_TESTS_SUPPORT_CASCADE_KEY_H

#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* cascade_key: returns template with %c replaced by the channel, %a by the
 * RowKey of the entity above, and %n by the number. The key lives in arena. */
struct slice cascade_key(struct arena *arena, const char *template,
    const char *channel, struct slice above, unsigned number);

#endif
