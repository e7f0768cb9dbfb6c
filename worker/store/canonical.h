/* SPDX-License-Identifier: MIT */
/*
 * One spelling of an entity, whichever service it comes from. Services keep
 * properties in orders of their own, and write 1E+300 or 1e300, a time with
 * or without zeros at its end, \u00e9 or the letter itself: the same value.
 */
#ifndef TW_STORE_CANONICAL_H
#define TW_STORE_CANONICAL_H

#include "worker/base/arena.h"
#include "worker/store/entity.h"

/*
 * canonical_entity: from, with its properties ordered by the bytes of their
 * names, and each value in one spelling: whole numbers without zeros before
 * them, the shortest Double that reads back the same, times without zeros
 * behind them, Guids in lower case, texts with as few escapes as JSON allows.
 * Nothing is lost: property_equal() holds of each, and half a surrogate pair
 * stays what it is. What *ret refers to lives in arena or in from.
 */
void canonical_entity(
    const struct entity *from, struct arena *arena, struct entity *ret);

#endif
