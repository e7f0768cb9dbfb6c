/* SPDX-License-Identifier: MIT */
/*
 * One spelling of an entity, independent of the service. Services order
 * properties differently, and write 1E+300 or 1e300, a time with or without
 * trailing zeros, \u00e9 or the letter itself, for the same value.
 */
#ifndef TW_STORE_CANONICAL_H
#define TW_STORE_CANONICAL_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/*
 * canonical_entity: make *ret of `from`, with its properties ordered by the
 * bytes of their names, and each value in one spelling: integers without
 * leading zeros, the shortest Double that reads back the same, times without
 * trailing zeros, Guids in lower case, texts with as few escapes as JSON
 * allows. Nothing is lost, because each value is property_equal() to the
 * original, and an unpaired surrogate is kept. *ret borrows from `arena` and
 * `from`.
 */
void canonical_entity(
    const struct entity *from, struct arena *arena, struct entity *ret);

/*
 * canonical_text: write a value as text, always the same for equal values,
 * however the received JSON was written. Templates render this text, hash()
 * reads it, `retype` to an Edm.String stores it. jobs/conversions.md lists the
 * text of each type. *ret lives in arena or in property->json. False: the value
 * is malformed.
 */
bool canonical_text(
    const struct property *property, struct arena *arena, struct slice *ret);

/* 17 digits distinguish all values of a Double. */
#define CANONICAL_DOUBLE_DIGITS 17
#define CANONICAL_DOUBLE_MAX 40

/* A number: 0.DIGITS times ten to the power of point; no digits: 0. */
struct canonical_digits {
    char at[CANONICAL_DOUBLE_DIGITS + 1];
    int count, point;
};

/* canonical_digits: find the fewest digits that read back as value. value must
 * be finite and not negative. */
void canonical_digits(double value, struct canonical_digits *ret);

/*
 * canonical_double: write a Double as text to `to` (CANONICAL_DOUBLE_MAX
 * bytes), and return `to`. The text is NaN, Infinity, -Infinity, -0 for a
 * negative zero, or the fewest digits that read back the same, formatted as
 * JavaScript does.
 */
const char *canonical_double(double value, char *to);

#endif
