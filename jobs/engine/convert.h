/* SPDX-License-Identifier: MIT */
/*
 * Converts values from one Edm type to another. The table in convert.c lists
 * the 64 pairs of types; jobs/conversions.md is the same table for people.
 *
 * A conversion from text to a number is strict: the whole text must be the
 * number, without spaces or a plus sign; leading zeros are lost. A number
 * becomes the shortest text that reads back as the same number, in the layout
 * of JavaScript. Times keep their ticks.
 */
#ifndef TW_JOBS_ENGINE_CONVERT_H
#define TW_JOBS_ENGINE_CONVERT_H

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

#define CONVERT_TYPES 8 /* number of values of enum edm_type */

enum convert_worth {
    CONVERT_EXACT,      /* nothing is lost: if the result is converted back,
                           the value is the same, except that a text may have
                           another spelling (true for True, 1000 for 1e3) */
    CONVERT_LOSSY,      /* part of the value is lost, at least for some
                         * values */
    CONVERT_IMPOSSIBLE, /* the target type cannot represent the value */
};

/* The conversion of one type to another. */
struct convert_way {
    enum convert_worth worth; /* CONVERT_IMPOSSIBLE: no value can be converted.
                               * CONVERT_LOSSY: some values lose a part.
                               * CONVERT_EXACT: no value does. In the last two
                               * cases there may be values that cannot be
                               * converted */
    const char *how;          /* description for people, without a verb: "ticks
                               * since 0001-01-01" */
};

/* convert_way: returns how values of type `from` are converted to type `to`.
 * The result is static. */
const struct convert_way *convert_way(enum edm_type from, enum edm_type to);

/*
 * convert_property: convert the value of the property `from` to type `to`. *ret
 * has the name of `from`, and refers to arena and to the texts of `from`.
 *
 *   CONVERT_EXACT       *ret is the result.
 *   CONVERT_LOSSY       *ret is the result, and err says what this value loses:
 *                       "its fraction is lost".
 *   CONVERT_IMPOSSIBLE  err says why, without the value: "an Edm.String that is
 *                       no integer". *ret is unchanged.
 */
enum convert_worth convert_property(const struct property *from,
    enum edm_type to, struct arena *arena, struct property *ret,
    struct err *err);

/*
 * convert_text: make a property with the name `name` and the type `to`. Its
 * value is `text`, which comes from the configuration or from a template,
 * converted like an Edm.String; but a lossy conversion is refused too. The name
 * is borrowed, the value lives in arena. TW_INVALID: err says why, without the
 * text.
 */
TW_MUST_USE enum tw_err convert_text(struct slice name, struct slice text,
    enum edm_type to, struct arena *arena, struct property *ret,
    struct err *err);

#endif
